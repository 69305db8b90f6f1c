// An appliance of two heads: its pages in the console, a move, a pulled cable, and a pulled plug.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, send, tabTo, visit } from "../world/browser.mjs";
import { PATIENCE_MS } from "../world/head.mjs";

const heads = (page) => page.getByRole("list", { name: "Heads" });
const head = (page, name) => heads(page).locator(":scope > li").filter({ has: page.getByRole("heading", { name, exact: true }) });
const link = (page, network) => page.locator(".links li").filter({ hasText: network });
const card = (page, title) => page.locator("section.card").filter({ has: page.getByRole("heading", { name: title, exact: true }) });

/** The messages about the head itself, not about its pools. */
const stateOf = (page, name) => head(page, name).locator("header");

/** Resolves when a head of this name is shown as the one that serves the pool. */
const serves = (page, name) => head(page, name).getByRole("link", { name: /tank/ }).waitFor();

/** The names of the steps of a time line, in their order. */
async function steps(place) {
  return place.locator(".timeline li").evaluateAll((items) => items.map((item) => item.dataset.step));
}

function assertOrder(found, wanted, what) {
  const places = wanted.map((step) => found.indexOf(step));
  assert.ok(places.every((place, index) => place > (index === 0 ? -1 : places[index - 1])), `${what}: ${found.join(", ")}`);
}

export async function showsBothHeads({ left }) {
  const page = await left.page();
  await head(page, "left").getByText("this head").waitFor();
  for (const name of ["left", "right"]) await stateOf(page, name).getByText("online").waitFor();
  await serves(page, "left");
  await head(page, "right").getByText("serves no pool").waitFor();
  for (const network of ["storage-a", "storage-b", "management"]) await link(page, network).getByText("up").waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

/** Power and temperature from the BMCs of both heads are in the metrics of either. */
export async function measuresPower({ left }) {
  const page = await left.page();
  const wanted = ["left", "right"].flatMap((name) => [
    new RegExp(`^bulkhead_head_power_watts\\{[^}]*head="${name}"[^}]*\\} 126$`, "m"),
    new RegExp(`^bulkhead_head_temperature_celsius\\{[^}]*head="${name}"[^}]*\\} 23$`, "m"),
  ]);
  let text = "";
  const isThere = async () => {
    const answer = await page.request.get(`${left.url}/metrics`);
    text = await answer.text();
    return answer.ok() && wanted.every((one) => one.test(text));
  };
  // A BMC is slow, and queried in the background: its response is in one of the next samples.
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await isThere())) {
    assert.ok(Date.now() < deadline, text.split("\n").filter((line) => line.startsWith("bulkhead_head")).join("\n") || text);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  await page.context().close();
}

export async function showsPulledCable({ left, lab }) {
  const page = await left.page();
  await link(page, "storage-b").getByText("up").waitFor();
  await lab.do("cut", "right", "storage-b");
  await link(page, "storage-b").getByText("down").waitFor();
  await link(page, "storage-a").getByText("up").waitFor();
  await lab.do("mend", "right", "storage-b");
  await link(page, "storage-b").getByText("up").waitFor();
  // One cable is no reason to move anything.
  await serves(page, "left");
  await page.context().close();
}

export async function movesPool({ left, lab }) {
  const page = await left.page({ path: "pools/tank" });
  await button(page, "Move").click();
  await dialog(page).getByLabel("To the head", { exact: true }).selectOption("right");
  await send(page, "Move");
  await visit(page, "");
  await serves(page, "right");
  const last = card(page, "Last move");
  await last.getByText(/tank was handed over from left to right in/).waitFor();
  await last.getByText("all addresses").waitFor();
  assertOrder(await steps(last), ["pool stop", "stopped", "pool start", "imported", "listening"], "the move");
  await head(page, "left").getByText("home of tank (right serves it)").waitFor();
  assert.equal(await lab.owner("tank"), "right");
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

/** A pool on the other head is managed from here. */
export async function asksTheOtherHead({ left, lab }) {
  const page = await left.page({ path: "volumes" });
  await button(page, "Create a volume").click();
  await dialog(page).getByLabel("Name", { exact: true }).fill("vm0");
  await dialog(page).getByLabel("Size", { exact: true }).fill("64M");
  await send(page, "Create the volume");
  await page.getByRole("heading", { name: "Volume tank/vm0", level: 1 }).waitFor();
  const volumes = JSON.parse(await lab.exec("right", "bulkhead", "volume", "list", "tank", "--json"));
  assert.deepEqual(volumes.map((volume) => volume.name), ["tank/vm0"]);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

export async function showsTakeover({ left, right, lab }) {
  const survivor = await left.page();
  const lost = await right.page();
  await serves(survivor, "right");
  await head(lost, "right").getByText("this head").waitFor();
  await lab.do("power", "right", "off");
  await serves(survivor, "left");
  const last = card(survivor, "Last takeover");
  await last.getByText(/left took tank over from right in/).waitFor();
  await last.getByText("all addresses").waitFor();
  const wanted = ["detected", "fenced", "pool start", "imported", "listening"];
  assertOrder(await steps(last), wanted, "the takeover");
  await stateOf(survivor, "right").getByText(/offline|unclean/).waitFor();
  // The head that is off stays in the page: its links are there, and it is home to no pool.
  for (const network of ["storage-a", "storage-b", "management"]) await link(survivor, network).getByText(/down|unknown/).waitFor();
  await lost.getByText(/reconnecting/).first().waitFor();
  assert.deepEqual(survivor.wrong, []);
  for (const page of [survivor, lost]) await page.context().close();
}

export async function isAccessibleAfterIt({ left }) {
  const looks = [
    { colours: "light", size: "desktop" }, { colours: "dark", size: "desktop" },
    { colours: "light", size: "phone" }, { colours: "dark", size: "phone" },
  ];
  for (const look of looks) {
    const page = await left.page(look);
    await page.locator(".timeline").getByText("its server answers").waitFor();
    const what = `the overview of a pair, ${look.colours}, ${look.size}`;
    await assertAccessible(page, what);
    await assertFits(page, what);
    await page.context().close();
  }
}

/** The head gets its power again, joins, and gets the pool back: without a mouse. */
export async function movesBackByKeyboard({ left, lab }) {
  await lab.do("power", "right", "on");
  const page = await left.page({ path: "pools/tank", size: "phone" });
  await button(page, "Move").waitFor();
  await visit(page, "");
  await stateOf(page, "right").getByText("online").waitFor();
  await visit(page, "pools/tank");
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  await tabTo(page, "Move");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor();
  await tabTo(page, "Move");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor({ state: "detached" });
  await visit(page, "");
  await serves(page, "right");
  await card(page, "Last move").getByText(/from left to right/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
