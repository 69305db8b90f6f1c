// Making a pool, and a scrub of it.

import assert from "node:assert/strict";
import { assertAccessible, button, dialog, send } from "../world/browser.mjs";

export async function createsPool({ browser, head }) {
  const page = await browser.page({ path: "pools" });
  await button(page, "Create a pool").click();
  const form = dialog(page);
  await form.getByLabel("Name", { exact: true }).fill("tank");
  await form.getByLabel("Layout", { exact: true }).selectOption("mirror");

  // One disk is no mirror: the console shows that next to the field, and sends nothing.
  const files = [head.disk("a"), head.disk("b")];
  await form.getByLabel("Other devices or files", { exact: true }).fill(files[0]);
  await button(form, "Create the pool").click();
  await form.getByRole("alert").getByText("choose at least 2 disks for this layout").waitFor();

  await form.getByLabel("Other devices or files", { exact: true }).fill(files.join("\n"));
  await send(page, "Create the pool");
  await page.getByRole("heading", { name: "Pool tank", level: 1 }).waitFor();
  const members = page.getByRole("list", { name: "Members of mirror-0" });
  await members.getByText("no errors").first().waitFor();
  assert.equal(await members.getByRole("listitem").count(), 2);
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const status = await head.json("status", "tank");
  assert.equal((status.pool ?? status).health, "ONLINE");
}

/**
 * A long scrub of a slow disk, paused in the middle and resumed. No slow step may come between its start and the pause,
 * or the scrub of a small pool is over before it.
 */
/** The changes that the pool itself has stored. */
export async function showsHistory({ browser }) {
  const page = await browser.page({ role: "operator", path: "pools/tank" });
  const card = page.getByRole("region", { name: "History of changes" });
  await button(card, "Show").click();
  const table = card.getByRole("table", { name: "History of tank" });
  await card.getByLabel("Search changes", { exact: true }).fill("tank/vm0");
  await table.getByRole("row", { name: /create tank\/vm0/ }).waitFor();
  await assertAccessible(page, "the history of a pool");
  await button(card, "Hide").click();
  await table.waitFor({ state: "detached" });
  await page.context().close();
}

export async function watchesScrub({ browser, head }) {
  const page = await browser.page({ role: "operator", path: "pools/tank" });
  const card = page.getByRole("region", { name: "Scrub" });
  head.slowDown("a");
  await button(card, "Start").click();
  const progress = card.getByRole("progressbar", { name: "Scrub of the pool" });
  await progress.waitFor();
  await card.getByText(/Scrub running: \d+ %, .+ of .+, nothing to repair/).waitFor();
  await button(card, "Pause").click();
  await card.getByText(/Scrub paused: \d+ %/).waitFor();
  const work = page.getByRole("region", { name: "Work on the devices" });
  await work.getByText(/scrub paused: \d+ %, .+ of .+/).waitFor();
  head.slowDown(null);
  await assertAccessible(page, "a paused scrub");
  await button(card, "Go on").click();
  await card.getByText(/Scrub finished.*nothing to repair/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

/** The fill of a pool with its groups. The first sample is there as soon as the head has seen the pool. */
export async function showsGrowth({ browser }) {
  const page = await browser.page({ role: "operator", path: "pools/tank" });
  const card = page.getByRole("region", { name: "Growth" });
  await card.getByRole("img", { name: /^Used space from .+ on \d{4}-\d\d-\d\d to .+/ }).waitFor();
  await card.getByText(/^No forecast: 1 of the last 30 days have a sample/).waitFor();
  await card.getByRole("meter", { name: "Fill of mirror-0" }).waitFor();
  await assertAccessible(page, "the growth of a pool");
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
