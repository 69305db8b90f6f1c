// A pool with legs on two heads: this one, and a second one that runs only the leg-server; and a witness.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { freeAddress, PATIENCE_MS, program } from "./head.mjs";

const run = promisify(execFile);
const witnessProgram = path.join(path.dirname(program), "bulkhead-witness");
const LEG_BYTES = 256 * 1024 * 1024;
const HEADS = [{ name: "left", number: 1, disk: 11 }, { name: "right", number: 2, disk: 22 }];

export class Legs {
  #running = new Map();

  constructor(head, pool) {
    this.head = head;
    this.pool = pool;
    process.once("exit", () => this.stop());
  }

  /** Creates the pool, and starts its server on the left. */
  static async start(head, pool) {
    const legs = new Legs(head, pool);
    for (const { name } of HEADS) {
      await mkdir(legs.#place(name), { recursive: true });
      closeSync(openSync(legs.leg(name), "w"));
      truncateSync(legs.leg(name), LEG_BYTES);
    }
    await legs.#configure();
    legs.#spawn("witness", witnessProgram, ["serve", ...legs.#witnessPlaces, "--number", "3", "--listen", legs.witnessAt, ...legs.witnessHeads]);
    for (const { name } of HEADS) legs.startLegServer(name);
    await head.bulkhead("pool", "create", pool, "--legs", legs.#place("left", "legs.toml"));
    const options = ["--legs", legs.#place("left", "legs.toml"), "--iscsi", "127.0.0.1:0,1", "--nbd", "127.0.0.1:0"];
    legs.#spawn("server", program, ["pool-server", pool, ...options, ...legs.#places("left")]);
    const deadline = Date.now() + PATIENCE_MS;
    // Without a server the command line would look for the pool itself.
    while (!existsSync(head.place("run", `${pool}.sock`))) {
      if (Date.now() > deadline) throw new Error(legs.#log("server"));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return legs;
  }

  #place(...names) {
    return this.head.place("legs", ...names);
  }

  leg(name) {
    return this.#place(name, `leg-of-${name}`);
  }

  #places(name) {
    // The left head is that of the console.
    const of = (folder) => (name === "left" ? this.head.place(folder) : this.#place(name, folder));
    return ["--run-dir", of("run"), "--state-dir", of("state")];
  }

  get #witnessPlaces() {
    return ["--folder", this.#place("witness"), "--desk", this.#place("desk")];
  }

  #log(name) {
    return readFileSync(this.head.place(`legs-${name}.log`), "utf8");
  }

  async #configure() {
    const said = async (words) => (await run(words[0], words.slice(1))).stdout.trim();
    const members = [];
    this.witnessHeads = [];
    for (const { name, number } of HEADS) {
      const fingerprint = await said([program, "leg-server", "fingerprint", "--folder", this.#place(name, "keys")]);
      const [answers, lends] = [await freeAddress(), await freeAddress()];
      members.push(`[members.${name}]\nnumber = ${number}\nkind = "head"\nmembers = ["${answers}"]\nlends = ["${lends}"]\nfingerprint = "${fingerprint}"\n`);
      this.witnessHeads.push("--head", `${number}=${fingerprint}`);
    }
    this.witnessAt = await freeAddress();
    const identity = await said([witnessProgram, "identity", ...this.#witnessPlaces]);
    members.push(`[members.witness]\nnumber = 3\nkind = "witness"\nmembers = ["${this.witnessAt}"]\nfingerprint = "${identity}"\n`);
    const legs = HEADS.map(({ name, disk }) => `{ disk = ${disk}, head = "${name}", path = "${this.leg(name)}" }`).join(", ");
    for (const { name } of HEADS) {
      const keys = this.#place(name, "keys");
      writeFileSync(this.#place(name, "legs.toml"), [
        `me = "${name}"\ncertificate = "${keys}/cert.pem"\nkey = "${keys}/key.pem"\n`, ...members,
        `[pools.${this.pool}]\nguid = 77\n[[pools.${this.pool}.groups]]\nneeded = 1\nlegs = [${legs}]\n`,
      ].join("\n"));
    }
  }

  #spawn(name, file, words) {
    const log = openSync(this.head.place(`legs-${name}.log`), "a");
    this.#running.set(name, spawn(file, words, { stdio: ["ignore", log, log] }));
    closeSync(log);
  }

  startLegServer(name) {
    this.#spawn(name, program, ["leg-server", "--config", this.#place(name, "legs.toml"), ...this.#places(name)]);
  }

  /** As the loss of that head: its disk is not lent any more. */
  async killLegServer(name) {
    const child = this.#running.get(name);
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  stop() {
    for (const child of this.#running.values()) child.kill("SIGKILL");
  }
}
