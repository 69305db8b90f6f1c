// Exporting a volume to one initiator.

import assert from "node:assert/strict";
import { button, dialog, send, visit } from "../world/browser.mjs";

export const TARGET = "iqn.2026-01.org.example:tank";
const INITIATOR = "iqn.2026-01.org.example:host7";

export async function exportsVolume({ browser, head }) {
  const page = await browser.page({ role: "operator", path: "targets" });
  await button(page, "Create a target").click();
  await dialog(page).getByLabel("Name", { exact: true }).fill(TARGET);
  await send(page, "Create the target");
  await page.getByRole("heading", { name: TARGET, level: 1 }).waitFor();

  await button(page, "Export a volume").click();
  await dialog(page).getByLabel("Volume", { exact: true }).selectOption("tank/vm0");
  await send(page, "Export");
  await page.getByRole("table", { name: `Units of ${TARGET}` }).getByRole("link", { name: "tank/vm0" }).waitFor();

  await button(page, "Allow").click();
  await dialog(page).getByLabel("Initiator", { exact: true }).fill("not a name");
  await button(dialog(page), "Allow").click();
  await dialog(page).getByRole("alert").filter({ hasText: /\S/ }).waitFor();
  await dialog(page).getByLabel("Initiator", { exact: true }).fill(INITIATOR);
  await send(page, "Allow");
  await page.getByRole("region", { name: "Allowed initiators" }).getByText(INITIATOR).first().waitFor();

  await visit(page, "volumes/tank%2Fvm0");
  await page.getByText(`iscsi:${TARGET}/0`).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const target = await head.json("target", "show", TARGET);
  assert.deepEqual(target.access.initiators, [INITIATOR]);
  assert.deepEqual(target.units.map((unit) => [unit.lun, unit.volume]), [[0, "tank/vm0"]]);
}

/** The exports of a protocol that the console does not support specifically. */
const ECHO = {
  name: "echo",
  listeners: ["unix:/run/tank.echo"],
  exports: [{ name: "echo0", volumes: ["tank/vm0"], sessions: [{ name: "somebody", peers: ["10.77.1.9:40000"] }] }],
};

export async function showsUnknownProtocol({ browser }) {
  const page = await browser.page({ role: "operator" });
  await page.route("**/api/v1/pools/tank", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), other_protocols: [ECHO] } });
  });
  await visit(page, "targets");
  const table = page.getByRole("table", { name: "Exports of tank by echo" });
  await table.getByRole("link", { name: "tank/vm0" }).waitFor();
  await table.getByText("10.77.1.9:40000").waitFor();
  await page.getByText("unix:/run/tank.echo").waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
