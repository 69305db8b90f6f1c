// A snapshot, the way back to it while the volume is offered, and another name for it.

import assert from "node:assert/strict";
import { button, dialog, send } from "../world/browser.mjs";

export async function rollsBack({ browser, head }) {
  const page = await browser.page({ role: "operator", path: "volumes/tank%2Fvm0" });
  await button(page, "Take a snapshot").click();
  await dialog(page).getByLabel("Name", { exact: true }).fill("monday");
  await send(page, "Take it");
  const table = page.getByRole("table", { name: "Snapshots of tank/vm0" });
  await table.getByText("@monday", { exact: true }).waitFor();

  await table.getByRole("button", { name: /^Roll back to it/ }).click();
  const form = dialog(page);
  // The name of the snapshot has to be typed first.
  assert.ok(await button(form, "Roll back").isDisabled());
  await form.getByLabel("Type tank/vm0@monday to continue", { exact: true }).fill("tank/vm0");
  assert.ok(await button(form, "Roll back").isDisabled());
  await form.getByLabel("Type tank/vm0@monday to continue", { exact: true }).fill("tank/vm0@monday");
  await send(page, "Roll back");
  await page.getByText(/tank\/vm0 is as it was at tank\/vm0@monday/).waitFor();

  // Renamed, and back: later journeys know it by its first name.
  for (const [before, after] of [["monday", "tuesday"], ["tuesday", "monday"]]) {
    await table.getByRole("button", { name: `Rename tank/vm0@${before}` }).click();
    await dialog(page).getByLabel("New name", { exact: true }).fill(after);
    await send(page, "Rename");
    await table.getByText(`@${after}`, { exact: true }).waitFor();
    const snapshots = await head.json("snapshot", "list", "tank");
    assert.deepEqual(snapshots.map((snapshot) => snapshot.name), [`tank/vm0@${after}`]);
  }
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
