// Hundreds of volumes and thousands of snapshots: found, sorted, paged, and destroyed together.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, send, visit } from "../world/browser.mjs";

const VOLUMES = 1000;
const SNAPSHOTS = 5000;
const ROWS_MAX = 50;
/** A page is drawn within this time, from the arrival of its data on. */
const DRAWN_MS_MAX = 1000;
const DAY_S = 86_400;

const volume = (number) => ({
  name: `tank/many/vm${number}`, size: number * 1024 * 1024, used: (VOLUMES - number) * 1024, referenced: 0, block_size: 16384,
  exports: number % 2 === 0 ? [`iscsi:iqn.2026-01.org.example:host${number}/0`] : [], sparse: true,
});

const snapshot = (number) => ({
  name: `tank/vm0@${number % 2 === 0 ? "auto" : "hand"}-s${number}`, used: number, referenced: 0,
  created_unix_s: Math.floor(Date.now() / 1000) - (SNAPSHOTS - number) * DAY_S,
});

const upTo = (count, make) => Array.from({ length: count }, (_, at) => make(at + 1));

/** A page that sees so many objects, which no pool of a test has. */
async function crowded(browser, options) {
  const page = await browser.page(options);
  const requests = [];
  // Pools of other journeys are empty here.
  const ofTank = (route, list) => route.fulfill({ json: route.request().url().includes("/pools/tank/") ? list : [] });
  await page.route(/\/pools\/\w+\/volumes$/, (route) => ofTank(route, upTo(VOLUMES, volume)));
  await page.route(/\/pools\/\w+\/snapshots(\?|$)/, (route) => ofTank(route, upTo(SNAPSHOTS, snapshot)));
  await page.route("**/api/v1/pools/tank/requests", (route) => {
    const { request, confirm } = route.request().postDataJSON();
    if (!request.snapshot?.destroy) return route.fallback();
    requests.push({ names: request.snapshot.destroy.names, confirm });
    return route.fulfill({ json: { done: { message: "destroyed", changed: true } } });
  });
  return { page, requests };
}

/** How long the browser needs from the last byte of a list until its first row is on the screen. */
async function drawnWithin(page, path, row) {
  await visit(page, "");
  await page.getByRole("heading", { name: "Heads and pools" }).waitFor();
  await page.evaluate(() => performance.clearResourceTimings());
  await visit(page, path);
  const took = await page.evaluate((text) => new Promise((resolve) => {
    const look = () => {
      const isThere = [...document.querySelectorAll("td")].some((cell) => cell.textContent.includes(text));
      if (!isThere) return requestAnimationFrame(look);
      const lists = performance.getEntriesByType("resource").filter((one) => /\/(volumes|snapshots)(\?|$)/.test(one.name));
      return resolve(performance.now() - Math.max(...lists.map((one) => one.responseEnd)));
    };
    look();
  }), row);
  assert.ok(took < DRAWN_MS_MAX, `${path} was drawn in ${took} ms`);
}

const names = (table) => table.getByRole("row").evaluateAll((rows) =>
  rows.slice(1).map((row) => [...row.querySelectorAll("td")].find((cell) => cell.dataset.title !== "")?.innerText));

export async function findsOneOfMany({ browser }) {
  const { page } = await crowded(browser, { role: "operator" });
  await drawnWithin(page, "volumes", "tank/many/vm50");
  const table = page.getByRole("table", { name: "Volumes" });
  assert.equal((await names(table)).length, ROWS_MAX);
  await page.getByText("1–50 of 1,000").waitFor();

  // By a part of the name, by a pattern, and by what it is exported as.
  const search = page.getByLabel("Search volumes", { exact: true });
  await search.fill("vm99");
  await page.getByText("1–11 of 11 found of 1,000").waitFor();
  await search.fill("many/vm?7");
  await page.getByText("1–9 of 9 found of 1,000").waitFor();
  await search.fill("host998");
  await table.getByText("tank/many/vm998", { exact: true }).waitFor();
  assert.deepEqual(await names(table), ["tank/many/vm998"]);
  await search.fill("nothing like it");
  await page.getByText('None of the 1,000 volumes matches "nothing like it".').waitFor();
  await search.fill("");

  // Sorted by a click on the title, as numbers in names are read; then by size, the largest first.
  const title = (name) => table.getByRole("columnheader", { name, exact: true });
  await title("Volume").getByRole("button").click();
  assert.equal(await title("Volume").getAttribute("aria-sort"), "ascending");
  assert.deepEqual((await names(table)).slice(0, 3), ["tank/many/vm1", "tank/many/vm2", "tank/many/vm3"]);
  await title("Size").getByRole("button").click();
  await title("Size").getByRole("button").click();
  assert.equal(await title("Size").getAttribute("aria-sort"), "descending");
  assert.equal(await title("Volume").getAttribute("aria-sort"), "none");
  assert.equal((await names(table))[0], "tank/many/vm1000");

  // The page stays when new data arrives, after the way back, and after a reload.
  await page.getByRole("button", { name: "Next page of volumes" }).click();
  await page.getByText("51–100 of 1,000").waitFor();
  await page.waitForResponse((response) => response.url().endsWith("/pools/tank/volumes"));
  await page.getByText("51–100 of 1,000").waitFor();
  await page.waitForURL(/volumes\.page=2/);
  await page.reload();
  await page.getByText("51–100 of 1,000").waitFor();
  assert.equal((await names(table))[0], "tank/many/vm950");
  await page.getByRole("button", { name: "Last page of volumes" }).click();
  await page.getByText("951–1,000 of 1,000").waitFor();
  await assertAccessible(page, "a list of many volumes");

  // All that were found are handled together.
  await search.fill("vm99");
  await page.getByRole("button", { name: "Select all 11" }).click();
  await button(page, "Take snapshots").click();
  await dialog(page).getByRole("heading", { name: "Take a snapshot of 11 volumes" }).waitFor();
  assert.equal(await dialog(page).getByRole("listitem").count(), 11);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

export async function destroysManySnapshots({ browser }) {
  const { page, requests } = await crowded(browser, {});
  await drawnWithin(page, "volumes/tank%2Fvm0", "auto-s5000");
  const table = page.getByRole("table", { name: "Snapshots of tank/vm0" });
  // The newest first, with its age.
  assert.equal((await names(table))[0], "@auto-s5000");
  await table.getByText("10 days ago").waitFor();
  await drawnWithin(page, "snapshots", "tank/vm0@auto-s5000");
  const all = page.getByRole("table", { name: "Snapshots" });
  await page.getByLabel("Search snapshots", { exact: true }).fill("*@hand-s1???");
  await page.getByText("1–50 of 500 found of 5,000").waitFor();
  await all.getByLabel("Select all of this page", { exact: true }).check();
  await page.getByText("50 of 500 snapshots selected").waitFor();
  await page.getByRole("button", { name: "Select all 500" }).click();
  // A single one of them is spared.
  await all.getByLabel("Select tank/vm0@hand-s1999", { exact: true }).uncheck();
  await button(page, "Destroy 499 snapshots").click();
  const form = dialog(page);
  assert.equal(await form.getByRole("listitem").count(), 499);
  assert.ok(await button(form, "Destroy 499 snapshots").isDisabled());
  await assertAccessible(page, "the destruction of many snapshots");
  await form.getByLabel("Type 499 snapshots to continue", { exact: true }).fill("499 snapshots");
  await send(page, "Destroy 499 snapshots");
  const destroyed = requests.flatMap((one) => one.names);
  assert.deepEqual([destroyed.length, new Set(destroyed).size], [499, 499]);
  assert.ok(!destroyed.includes("tank/vm0@hand-s1999"));
  assert.ok(requests.every((one) => one.confirm === one.names.join(" ")));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

/** The same at the width of a phone, where the titles of the columns cannot be clicked. */
export async function findsOneOfManyOnPhone({ browser }) {
  const { page } = await crowded(browser, { size: "phone" });
  for (const [path, many] of [["volumes", "volumes"], ["volumes/tank%2Fvm0", "snapshots"], ["snapshots", "snapshots"]]) {
    await visit(page, path);
    await page.getByLabel(`Search ${many}`, { exact: true }).waitFor();
    await page.getByLabel(`Sort ${many} by`, { exact: true }).waitFor();
    await assertAccessible(page, `many ${many} on a phone`);
    await assertFits(page, `many ${many} on a phone`);
  }
  await page.getByLabel("Sort snapshots by", { exact: true }).selectOption("Held only by it, ascending");
  const table = page.getByRole("table", { name: "Snapshots" });
  assert.equal((await names(table))[0], "tank/vm0@hand-s1");
  assert.equal((await names(table)).length, 20);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

const FINGERPRINT = "0123456789abcdef".repeat(4);
const LONG_AGO_S = 1_700_000_000;

/** Long names, failures and states of replication need no sideways scrolling. */
export async function showsLongReplications({ browser }) {
  for (const size of ["desktop", "phone"]) await showsLongReplicationsAt(browser, size);
}

async function showsLongReplicationsAt(browser, size) {
  const page = await browser.page({ size });
  const dataset = "tank/customers/a-customer-with-a-long-name/database-volume-number-0001";
  const into = `vault/${dataset}`;
  const view = {
    fingerprint: FINGERPRINT,
    peers: [{ fingerprint: FINGERPRINT, below: into }],
    replicated: [{
      dataset,
      document: { version: 1, to: "backup.a-long-subdomain.example.org:8873", peer: FINGERPRINT, into, every_s: 900, keep: 8, raw: false },
      lag_s: 9_000_000,
      state: { failure: `received fatal alert: CertificateUnknown:${FINGERPRINT}`, succeeded_unix_s: LONG_AGO_S, bytes: 123456789 },
      under_way: "sending 123.4 MiB of 999.9 GiB to backup.a-long-subdomain.example.org:8873",
    }],
    copies: [
      { volume: into, promoted_unix_s: LONG_AGO_S, contents_unix_s: LONG_AGO_S, exports: [`iscsi:iqn.2026-01.org.example:${into}/0`] },
      { volume: `${into}-2`, orphaned_unix_s: LONG_AGO_S, contents_unix_s: LONG_AGO_S, is_arriving: false, exports: [] },
    ],
  };
  await page.route("**/api/v1/pools/tank/replication", (route) => route.fulfill({ json: view }));
  await visit(page, "replication");
  await page.getByText(`${into}-2`, { exact: true }).first().waitFor();
  await assertFits(page, `long names of replications, ${size}`);
  await assertAccessible(page, `long names of replications, ${size}`);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
