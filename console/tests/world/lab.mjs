// A real appliance of two heads in the lab: Corosync, Pacemaker, fencing, and `bulkhead head` on each.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { program, repository } from "./head.mjs";

const run = promisify(execFile);
/** The exit code of `lab up` on a host that cannot run a lab. */
const EXIT_INCAPABLE = 15;
/** Time limit for a lab to start, in milliseconds: a slow host that stalls now and then. */
const UP_MS = 240_000;
/** How long the lab may take to see which head has a pool, in milliseconds. */
const OWNER_MS = 15_000;

export class Lab {
  /** The lab, or why this host cannot run one. `options` are those of `lab up`. */
  static async start(name = "pair", options = []) {
    const lab = new Lab(mkdtempSync(path.join(tmpdir(), "bulkhead-lab-")), name);
    // Its time-outs are not the short ones: a browser on a busy host must not look like a dead server.
    const file = path.join(repository, "examples", "pair.toml");
    try {
      await run(program, ["lab", "up", file, ...options, ...lab.#which], { timeout: UP_MS });
      await lab.#passOn();
    } catch (error) {
      await lab.stop();
      if (error.code === EXIT_INCAPABLE) return { lacks: error.stdout };
      throw error;
    }
    return { lab };
  }

  constructor(folder, name) {
    this.folder = folder;
    this.#which = ["--dir", folder, "--name", name];
  }

  #which;

  /** Exposes the consoles of the heads at ports of this host. */
  async #passOn() {
    this.process = spawn(program, ["lab", "console", "--json", ...this.#which], { stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: this.process.stdout });
    const line = await new Promise((resolve, reject) => {
      lines.once("line", resolve);
      lines.once("close", () => reject(new Error("bulkhead lab console ended")));
    });
    const told = JSON.parse(line);
    this.heads = Object.fromEntries(Object.entries(told.heads).map(([head, url]) => [head, url.replace(/\/$/, "")]));
    this.users = { admin: { user: told.user, password: readFileSync(told.password_file, "utf8").trim() } };
  }

  /** `bulkhead lab VERB …` on this lab. */
  async do(verb, ...words) {
    const { stdout } = await run(program, ["lab", verb, ...words, ...this.#which]);
    return stdout;
  }

  /** Runs a command on a host of the lab. */
  async exec(who, ...words) {
    const { stdout } = await run(program, ["lab", "exec", who, ...this.#which, "--", ...words]);
    return stdout;
  }

  async status() {
    return JSON.parse(await this.do("status", "--json"));
  }

  // The head that serves the pool. Right after a change the lab may not know one yet.
  async owner(pool) {
    const begun = Date.now();
    for (;;) {
      const { head } = (await this.status()).cluster.pools[pool];
      if (head !== null || Date.now() - begun > OWNER_MS) return head;
    }
  }

  async stop() {
    if (this.process && this.process.exitCode === null) {
      const ended = once(this.process, "exit");
      this.process.kill();
      await ended;
    }
    // There may be none, where it did not come up.
    await this.do("down").catch(() => {});
    rmSync(this.folder, { recursive: true, force: true });
  }
}
