// A second look at a volume: a snapshot of it is opened, read by a stock client, and closed again.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { assertAccessible, assertFits, button, dialog, send, tabTo, visit } from "../world/browser.mjs";

const run = promisify(execFile);

export async function looksIntoVolume({ browser, head }) {
  const page = await browser.page({ path: "volumes/tank%2Fvm0" });
  const snapshots = page.getByRole("table", { name: "Snapshots of tank/vm0" });
  await snapshots.getByRole("button", { name: "Look into tank/vm0@monday" }).click();
  await dialog(page).getByText("Its virtual machine continues to run.").waitFor();
  await send(page, "Open it");

  const card = page.getByRole("region", { name: "Second look" });
  const uri = await card.getByText(/^nbd\+unix:/).first().innerText();
  await card.getByText("tank/vm0@monday", { exact: true }).waitFor();
  await card.getByText("There is neither a table of partitions").waitFor();
  await card.getByText(/nbdfuse|nbd-client|nbdcopy/).first().waitFor();
  const { stdout } = await run("nbdinfo", ["--size", uri]);
  const volume = await head.json("volume", "show", "tank/vm0");
  assert.equal(Number(stdout), volume.size);
  for (const [colours, size] of [["light", "desktop"], ["dark", "phone"]]) {
    const other = await browser.page({ role: "read-only", colours, size, path: "volumes/tank%2Fvm0" });
    const shown = other.getByRole("region", { name: "Second look" });
    await shown.getByText(uri, { exact: true }).waitFor();
    assert.equal(await button(shown, "End it").count(), 0);
    await assertAccessible(other, `a second look, ${colours}, ${size}`);
    await assertFits(other, `a second look, ${colours}, ${size}`);
    await other.context().close();
  }

  // Its end, without a mouse.
  await visit(page, "volumes");
  await page.getByRole("heading", { name: "Volumes", level: 1 }).waitFor();
  await visit(page, "volumes/tank%2Fvm0");
  await button(card, "End it").waitFor();
  await tabTo(page, "End it");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor();
  await tabTo(page, "End it");
  await page.keyboard.press("Enter");
  await card.waitFor({ state: "detached" });
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  assert.deepEqual(await head.json("volume", "rescue", "tank/vm0", "--list"), []);
}

/** The volume itself cannot be opened while a client uses it; the page shows the server's own message. */
export async function isRefusedWhileInUse({ browser, head }) {
  const operator = await browser.page({ role: "operator", path: "volumes/tank%2Fvm0" });
  await button(operator, "Take a snapshot").waitFor();
  assert.equal(await operator.getByRole("button", { name: /^Look into/ }).count(), 0);
  await operator.context().close();

  await head.json("volume", "rescue", "tank/vm0@monday", "--background");
  const page = await browser.page({ path: "volumes/tank%2Fvm0" });
  await page.getByRole("region", { name: "Second look" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Look into/ }).count(), 0);
  await head.bulkhead("volume", "rescue", "tank/vm0", "--end");
  await page.context().close();
}
