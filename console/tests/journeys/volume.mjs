// Making volumes: with the mouse, and without one.

import assert from "node:assert/strict";
import { button, dialog, send, tabTo } from "../world/browser.mjs";

export async function createsVolume({ browser, head }) {
  const page = await browser.page({ role: "operator", path: "volumes" });
  await button(page, "Create a volume").click();
  const form = dialog(page);
  await form.getByLabel("Name", { exact: true }).fill("vm0");
  await form.getByLabel("Size", { exact: true }).fill("much");
  await button(form, "Create the volume").click();
  await form.getByRole("alert").getByText("much is no size").waitFor();

  await form.getByLabel("Size", { exact: true }).fill("64M");
  await form.getByLabel("Compression", { exact: true }).selectOption("lz4");
  await send(page, "Create the volume");
  await page.getByRole("heading", { name: "Volume tank/vm0", level: 1 }).waitFor();
  await page.getByRole("region", { name: "Summary" }).getByText("64 MiB").waitFor();

  // The server's own message, with the advice, is shown next to the error.
  await page.getByRole("link", { name: "Volumes" }).first().click();
  await button(page, "Create a volume").click();
  await form.getByLabel("Name", { exact: true }).fill("vm0");
  await form.getByLabel("Size", { exact: true }).fill("64M");
  await button(form, "Create the volume").click();
  await form.getByRole("alert").getByText(/exists/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const volumes = await head.json("volume", "list", "tank");
  assert.deepEqual(volumes.map((volume) => [volume.name, volume.size]), [["tank/vm0", 64 * 1024 * 1024]]);
}

export async function createsVolumeByKeyboard({ browser, head }) {
  const page = await browser.page({ role: "operator" });
  await page.getByText("live from left").waitFor();
  await tabTo(page, "Volumes");
  await page.keyboard.press("Enter");
  const heading = page.getByRole("heading", { name: "Volumes", level: 1 });
  await heading.waitFor();
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");

  await button(page, "Create a volume").waitFor();
  await tabTo(page, "Create a volume");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor();

  // Escape returns the focus to its previous element.
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.textContent === "Create a volume");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor();

  await tabTo(page, "Name");
  await page.keyboard.type("typed");
  await tabTo(page, "Size");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("32M");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Volume tank/typed", level: 1 }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const volume = await head.json("volume", "show", "tank/typed");
  assert.equal(volume.size, 32 * 1024 * 1024);
}
