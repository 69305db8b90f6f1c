// A client at work is seen in the page as it works, and the way around on a phone.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { assertAccessible, button, visit } from "../world/browser.mjs";

/** Bytes per second that the client reads and writes. */
const RATE = "2m,1m";
const legend = (page, label) => page.getByRole("list", { name: `${label}, now`, exact: true });

/** A stock client of the volume, at a pace of its own, until it is killed. */
async function work(head, volume) {
  await head.bulkhead("nbd", "export", volume);
  const status = await head.json("status", "tank");
  const listener = status.server.nbd_listeners.find((one) => !one.startsWith("unix"));
  const client = spawn("fio", [
    "--name=live", "--ioengine=nbd", `--uri=nbd://${listener}/${volume}`, "--rw=randrw", "--bs=16k", "--iodepth=2",
    "--time_based", "--runtime=600", "--size=32m", `--rate=${RATE}`,
  ], { stdio: "ignore", cwd: head.folder });
  await once(client, "spawn");
  return client;
}

export async function showsTraffic({ browser, head }) {
  const page = await browser.page({ role: "read-only" });
  const client = await work(head, "tank/vm0");
  try {
    // Without a reload: changes arrive by the stream.
    await legend(page, "Bytes read and written per second, by volume").getByText(/tank\/vm0 [\d.]+ MiB\/s/).waitFor();
    await legend(page, "Mean time of a response, by volume").getByText(/tank\/vm0 [\d.]+ (µs|ms)/).waitFor();
    await page.getByRole("region", { name: "Heads and pools" }).getByText("1 session").waitFor();
    await assertAccessible(page, "charts of a volume in use");
    const space = page.getByRole("meter", { name: "Space of tank in use" });
    await space.waitFor();
    assert.match(await space.getAttribute("aria-valuetext"), /^\d+ % full, [\d.]+ MiB of [\d.]+ MiB left$/);
    await page.getByText(/^\d+ % full, [\d.]+ MiB of [\d.]+ MiB left$/).waitFor();

    await visit(page, "volumes");
    const row = page.getByRole("table", { name: "Volumes" }).getByRole("row", { name: /tank\/vm0/ });
    await row.getByText(/MiB\/s/).first().waitFor();
    await visit(page, "volumes/tank%2Fvm0");
    const rates = legend(page, "Bytes per second");
    await rates.getByText(/read [\d.]+ MiB\/s/).waitFor();
    await rates.getByText(/write [\d.]+ (MiB|KiB)\/s/).waitFor();
  } finally {
    client.kill();
    await once(client, "exit");
  }
  await visit(page, "");
  await legend(page, "Bytes read and written per second, by volume").getByText(/tank\/vm0 0 B\/s/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  await head.bulkhead("nbd", "unexport", "tank/vm0", "--name", "tank/vm0");
}

/** The menu opens where the reader is, not at the top of a long page. */
export async function findsAroundOnPhone({ browser }) {
  const page = await browser.page({ size: "phone", path: "pools/tank" });
  await page.getByRole("list", { name: "Members of mirror-0" }).waitFor();
  await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
  const menu = button(page, "Menu");
  const place = page.getByRole("navigation").getByRole("link", { name: "Events" });
  const isInView = () => place.evaluate((element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
  });
  await menu.click();
  assert.ok(await isInView(), "the menu is not to be seen");
  await assertAccessible(page, "the menu of a phone");
  await page.keyboard.press("Escape");
  await place.waitFor({ state: "hidden" });
  await menu.click();
  await place.click();
  await page.getByRole("heading", { name: "Events", level: 1 }).waitFor();
  await place.waitFor({ state: "hidden" });
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
