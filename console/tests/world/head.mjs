// A real head with real pool servers, on files in a directory of their own. All processes are stopped with the test,
// including pool servers, which outlive their head on purpose.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
export const repository = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
export const program = process.env.BULKHEAD ?? path.join(repository, "target", "release", "bulkhead");

/** Time limit for any step: test hosts stall now and then. */
export const PATIENCE_MS = 90_000;
const DISK_BYTES = 512 * 1024 * 1024;
/** The added latency of each access to a slow disk: a hundred accesses last longer than a click on a busy host. */
const SLOW_MS = 200;

export const USERS = {
  admin: { user: "anna", role: "admin", password: "a long enough password" },
  operator: { user: "otto", role: "operator", password: "another long password" },
  "read-only": { user: "rita", role: "read-only", password: "a third long password" },
};

/** An address that was free when checked. */
export async function freeAddress() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  return `127.0.0.1:${port}`;
}

export class Head {
  /** `disks` is the directory of its disks, which must exist; by default one of its own. */
  static async start(name = "bulkhead-console", disks) {
    const head = new Head(await mkdtemp(path.join(tmpdir(), `${name}-`)), disks);
    for (const folder of ["run", "state", "accounts", "disks"]) await mkdir(head.place(folder));
    for (const { user, role, password } of Object.values(USERS)) {
      const file = head.place("password");
      await writeFile(file, `${password}\n`, { mode: 0o600 });
      await run(program, ["user", "add", user, "--role", role, "--password-file", file, "--head-dir", head.place("accounts")]);
    }
    head.slowDown(null);
    await head.#listen("127.0.0.1:0");
    return head;
  }

  constructor(folder, disks = path.join(folder, "disks")) {
    this.folder = folder;
    this.disks = disks;
    // Interrupted tests leave nothing running, either.
    process.once("exit", () => this.#killAll());
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
  }

  place(...names) {
    return path.join(this.folder, ...names);
  }

  /** A new sparse file that is a disk. */
  disk(name) {
    const file = path.join(this.disks, name);
    closeSync(openSync(file, "w"));
    truncateSync(file, DISK_BYTES);
    return file;
  }

  /**
   * Slows each access to this disk down, or restores it; in one step, because the server may reread the file at any
   * time.
   */
  slowDown(name) {
    const fresh = this.place("faults.new");
    writeFileSync(fresh, name === null ? "" : `${path.join(this.disks, name)} delay=${SLOW_MS}\n`);
    renameSync(fresh, this.place("faults"));
  }

  get #places() {
    return ["--run-dir", this.place("run"), "--state-dir", this.place("state"), "--search", this.disks];
  }

  async #listen(address) {
    const log = openSync(this.place("head.log"), "a");
    const options = [
      "head", "--listen", address, "--name", "left", "--head-dir", this.place("accounts"),
      "--file", this.place("appliance.toml"), "--peer-key", this.place("no-key"), "--lab-dir", this.place("lab"),
      "--pool-options", `--iscsi 127.0.0.1:0,1 --nbd 127.0.0.1:0 --leg-faults ${this.place("faults")}`, ...this.#places,
    ];
    this.process = spawn(program, options, { stdio: ["ignore", "pipe", log] });
    closeSync(log);
    const lines = createInterface({ input: this.process.stdout });
    const line = new Promise((resolve, reject) => {
      lines.once("line", resolve);
      lines.once("close", () => reject(new Error(`the head ended: ${readFileSync(this.place("head.log"), "utf8")}`)));
    });
    this.url = (await line).replace(/^listening /, "").replace(/\/$/, "");
  }

  /** Runs the command line against the same pools. */
  async bulkhead(...words) {
    const { stdout } = await run(program, [...words, ...this.#places]);
    return stdout;
  }

  /** Has the head start the server of a pool that exists. */
  async serve(pool) {
    const { user, password } = USERS.admin;
    const ask = (path, body, headers) => fetch(`${this.url}/api/v1${path}`, {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers },
    });
    const login = await ask("/login", { user, password }, {});
    const { csrf } = await login.json();
    const cookie = login.headers.get("set-cookie").split(";")[0];
    const answer = await ask(`/pools/${pool}/serve`, {}, { Cookie: cookie, "X-Bulkhead-CSRF": csrf });
    if (!answer.ok) throw new Error(await answer.text());
  }

  /** Starts the server of a pool that receives replication; returns its address. */
  async serveReceiver(pool) {
    const address = await freeAddress();
    const log = openSync(this.place(`${pool}.log`), "a");
    const options = ["pool-server", pool, "--iscsi", "127.0.0.1:0,1", "--nbd", "127.0.0.1:0", "--replication", address, ...this.#places];
    spawn(program, options, { stdio: ["ignore", "ignore", log], detached: true }).unref();
    closeSync(log);
    const deadline = Date.now() + PATIENCE_MS;
    // Without a server the command line would open the pool itself.
    while (!existsSync(this.place("run", `${pool}.sock`))) {
      if (Date.now() > deadline) throw new Error(readFileSync(this.place(`${pool}.log`), "utf8"));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return address;
  }

  async json(...words) {
    return JSON.parse(await this.bulkhead(...words, "--json"));
  }

  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }

  /** Starts again where it was. */
  async startAgain() {
    await this.#listen(new URL(this.url).host);
  }

  /** Process ids of the pool servers that run in our directory. */
  #servers() {
    const isOurs = (id) => {
      try {
        const words = readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0");
        return words.includes("pool-server") && words.includes(this.place("run"));
      } catch {
        return false;
      }
    };
    return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && isOurs(name)).map(Number);
  }

  #killAll() {
    this.process?.kill("SIGKILL");
    for (const id of this.#servers()) process.kill(id, "SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  async stop() {
    await this.kill();
    const deadline = Date.now() + PATIENCE_MS;
    do {
      this.#killAll();
      await new Promise((resolve) => setTimeout(resolve, 50));
    } while (this.#servers().length > 0 && Date.now() < deadline);
  }
}
