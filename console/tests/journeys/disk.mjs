// A disk of a mirror is taken offline, and replaced.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, send } from "../world/browser.mjs";

export async function replacesDisk({ browser, head }) {
  const [old, fresh] = [head.place("disks", "b"), head.disk("c")];
  // A disk that is a file is an admin's: root opens it.
  const page = await browser.page({ role: "admin", path: "pools/tank" });
  const members = page.getByRole("list", { name: "Members of mirror-0" });

  await members.getByRole("button", { name: `Take offline ${old}` }).click();
  await send(page, "Take offline");
  await members.getByRole("button", { name: `Use again ${old}` }).waitFor();
  await members.getByText("offline", { exact: true }).waitFor();
  // The recommended action is on the first page, too.
  await page.getByRole("link", { name: "Overview" }).click();
  const next = page.getByRole("region", { name: "What to do next" });
  await next.getByText(`${old} was taken offline`).waitFor();
  await next.getByText(`bulkhead pool online tank ${old}`).waitFor();
  await next.getByRole("button", { name: `Use it again of tank: ${old}` }).waitFor();
  await page.getByRole("link", { name: "Events", exact: true }).click();
  const words = page.getByLabel("Only with these words");
  await words.fill("IS OFFLINE");
  const events = page.getByRole("list", { name: "Events, newest first" });
  await events.getByText(`${old} was ONLINE, is OFFLINE`).waitFor();
  assert.equal(await events.getByRole("listitem").count(), 1);
  await words.fill("no such thing");
  await page.getByText("No event of these pools has these words.").waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("link", { name: "Details of tank" }).click();

  await members.getByRole("button", { name: `Replace ${old}` }).click();
  await dialog(page).getByLabel("New disk", { exact: true }).fill(fresh);
  await send(page, "Replace");
  await members.getByText(fresh).first().waitFor();
  await members.getByTitle(old, { exact: true }).waitFor({ state: "detached" });
  await page.getByText(/Resilver finished/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const shown = JSON.stringify(await head.json("status", "tank"));
  assert.ok(shown.includes(fresh) && !shown.includes(`${old}"`), shown);
}

/** The guided way: a preview first, then the progress. */
export async function replacesDiskGuided({ browser, head }) {
  const [old, fresh] = [head.place("disks", "c"), head.disk("d")];
  const page = await browser.page({ role: "admin", path: "pools/tank", size: "phone" });
  await button(page, "Replace a disk").click();
  const form = dialog(page);
  await form.getByText("no disk is bad").waitFor();
  // Nothing is chosen yet: there is nothing to do, and no size that a new disk needs.
  assert.ok(await button(form, "Replace it").isDisabled());
  assert.equal(await form.getByText(/needs 0/).count(), 0);
  await form.getByLabel("Disk to replace", { exact: true }).selectOption(old);
  await form.getByLabel("New disk", { exact: true }).selectOption("path");
  await form.getByLabel("Path of the new disk", { exact: true }).fill(fresh);
  await form.getByText(`${fresh} joins the pool next to ${old}`).waitFor();
  await assertAccessible(page, "the guided replacement of a disk");
  await assertFits(page, "the guided replacement of a disk");
  await send(page, "Replace it");
  const card = page.getByRole("region", { name: "Replacement of a disk" });
  await card.getByText(`${fresh} has replaced it and holds all data`).waitFor();
  await card.getByText("done", { exact: true }).waitFor();
  const members = page.getByRole("list", { name: "Members of mirror-0" });
  await members.getByTitle(old, { exact: true }).waitFor({ state: "detached" });
  await members.getByTitle(fresh, { exact: true }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
