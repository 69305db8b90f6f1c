// Creates the pictures of the readme (docs/images) from a real appliance of one head: a pool with a disk that failed,
// volumes at work, the overview on a desk and on a phone.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, statSync, writeSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Browser } from "./world/browser.mjs";
import { Head } from "./world/head.mjs";
import { Lab } from "./world/lab.mjs";

const images = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..", "docs", "images");
const DISKS = ["a1b200", "a1b201", "a1b202", "a1b203", "log"].map((end) => `scsi-35000c500${end}`);
/** Where the disks of a host are, in the mount namespace of `make screenshots`: no path of that host is in a picture. */
const BY_ID = "/dev/disk/by-id";
/** The damaged part of a bad disk, in bytes. */
const SPOILT = { from: 8 << 20, length: 96 << 20 };
/** Seconds of load before the pictures, so that the charts have data. */
const WORK_S = 30;

async function fill(head) {
  const disks = DISKS.map((name) => head.disk(name));
  const server = ["--pool", "tank"];
  await head.bulkhead("pool", "create", "tank", "mirror", disks[0], disks[1], "mirror", disks[2], disks[3], "log", disks[4]);
  await head.serve("tank");
  for (const [name, size] of [["vms/mail", "96M"], ["vms/web", "64M"], ["db", "48M"]]) {
    await head.bulkhead("volume", "create", `tank/${name}`, "--size", size, "--sparse", "--parents");
    await head.bulkhead("nbd", "export", `tank/${name}`);
  }
  await head.bulkhead("target", "create", "iqn.2026-01.org.example:tank", ...server);
  await head.bulkhead("target", "map", "iqn.2026-01.org.example:tank", "tank/db");
  return disks;
}

/** Stock clients at work on each volume, each at a pace of its own. */
async function work(head) {
  const status = await head.json("status", "tank");
  const listener = status.server.nbd_listeners.find((one) => !one.startsWith("unix"));
  return ["vms/mail", "vms/web", "db"].map((name, index) => spawn("fio", [
    `--name=${index}`, "--ioengine=nbd", `--uri=nbd://${listener}/tank/${name}`, "--rw=randrw", `--rwmixread=${[70, 90, 40][index]}`,
    `--bs=${[16, 32, 8][index]}k`, "--iodepth=4", "--time_based", "--runtime=600", "--size=32m",
    `--rate=${[9, 5, 2][index]}m,${[4, 1, 3][index]}m`, "--thinktime=20ms", "--thinktime_blocks=64",
  ], { stdio: "ignore", cwd: head.folder }));
}

/** A disk that returns other bytes than were written to it: a scrub finds and repairs them. */
function spoil(disk) {
  const file = openSync(disk, "r+");
  writeSync(file, randomBytes(SPOILT.length), 0, SPOILT.length, SPOILT.from);
  closeSync(file);
}

async function picture(page, name) {
  const file = path.join(images, `${name}.png`);
  await page.screenshot({ path: file });
  console.log(`${path.relative(process.cwd(), file)}: ${statSync(file).size} bytes`);
}

/** Two heads in the lab, after the power of one was pulled. */
async function takeover() {
  const { lab, lacks } = await Lab.start();
  if (!lab) throw new Error(lacks);
  let browser;
  try {
    browser = await Browser.start(lab.heads.right, lab.users);
    const page = await browser.page({ colours: "light" });
    await page.locator(".links li").first().waitFor();
    await lab.do("power", "left", "off");
    await page.getByText(/right took tank over from left in/).waitFor();
    await page.locator(".timeline").getByText("all addresses").waitFor();
    // The time line is below the charts, and all of it is the point.
    await page.setViewportSize({ width: 1280, height: 920 });
    await page.locator(".timeline li").last().scrollIntoViewIfNeeded();
    await picture(page, "console-takeover");
  } finally {
    await browser?.stop();
    await lab.stop();
  }
}

// With the argument `takeover` only that picture is created.
if (process.argv[2] === "takeover") {
  await takeover();
  process.exit();
}

const head = await Head.start("attic", BY_ID);
let browser;
let clients = [];
try {
  const disks = await fill(head);
  clients = await work(head);
  browser = await Browser.start(head.url);
  const desk = await browser.page({ colours: "light" });
  const night = await browser.page({ colours: "dark", path: "pools/tank" });
  const phone = await browser.page({ colours: "light", size: "phone" });
  await desk.waitForTimeout(WORK_S * 1000);
  spoil(disks[3]);
  await head.bulkhead("pool", "scrub", "tank", "--wait");
  await desk.locator(".alert").first().waitFor();
  mkdirSync(images, { recursive: true });
  await picture(desk, "console-overview");
  // So that the bad disk, above it, is in the picture.
  await night.getByText(path.basename(disks[4])).first().scrollIntoViewIfNeeded();
  await picture(night, "console-pool-dark");
  await picture(phone, "console-phone");
} finally {
  for (const client of clients) client.kill();
  await browser?.stop();
  await head.stop();
}
await takeover();
