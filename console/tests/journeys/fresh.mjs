// From two servers to an appliance, in the browser of a first-time user.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, send, visit } from "../world/browser.mjs";

/** Time limit for the heads to form a cluster and serve the pool, on a slow host. */
const SERVED_MS = 240_000;

const NETWORKS = { "storage-a": [1, "ens1f0"], "storage-b": [2, "ens1f1"], management: [9, "eno1"] };
const HEADS = { left: 1, right: 2 };
const DISKS = [0, 1, 2, 3, 4, 5].map((number) => `/dev/disk/by-id/scsi-35000c500a1b20${number}00`);

const region = (page, name) => page.getByRole("region", { name, exact: true });

const checked = (page) => page.waitForFunction(() => {
  const text = document.querySelector(".check-result")?.textContent ?? "";
  return text !== "" && !text.includes("Checking");
});

/** The draft exists in the page only: one page is used for all of it. */
export async function describesAppliance(world) {
  const page = await world.left.page({ path: "setup" });
  world.page = page;
  await button(page, "Describe a new appliance").click();
  await region(page, "Check").getByText(/to fill in/).first().waitFor();
  const fill = (group, field, text) => page.getByRole("group", { name: group, exact: true }).getByLabel(field, { exact: true }).fill(text);

  for (const [network, [number]] of Object.entries(NETWORKS)) {
    await fill(`network ${network}`, "Subnets", `10.77.${number}.0/24`);
    await fill(`network ${network}`, "Largest packet (MTU)", network === "management" ? "1500" : "9000");
  }
  for (const [head, number] of Object.entries(HEADS)) {
    const group = `head ${head}`;
    for (const [network, [subnet, nic]] of Object.entries(NETWORKS)) {
      await fill(group, `Interface in ${network}`, nic);
      await fill(group, `Address in ${network}`, `10.77.${subnet}.1${number}`);
    }
    await fill(group, "Address of its BMC", `10.77.9.2${number}`);
    await fill(group, "File with the BMC's password", `/etc/bulkhead/secrets/bmc-${head}`);
  }
  await fill("pool tank", "Disks", DISKS.join("\n"));
  await fill("pool tank", "Memory for its cache", "256M");
  for (const network of ["storage-a", "storage-b"]) {
    await fill("pool tank", `Its address in ${network}`, `10.77.${NETWORKS[network][0]}.100`);
  }
  await checked(page);
}

/** An error that only the other head can detect is shown next to its field. */
export async function asksHeads({ page, left }) {
  const group = page.getByRole("group", { name: "head right", exact: true });
  const nic = group.getByLabel("Interface in storage-b", { exact: true });
  await nic.fill("ens9");
  await checked(page);
  await button(page, "Ask the heads").click();
  const asked = page.getByRole("list", { name: "Queried heads" });
  for (const head of Object.keys(HEADS)) await asked.locator("li", { hasText: head }).getByText("asked", { exact: true }).waitFor();
  const wrong = group.locator(".field.is-wrong", { hasText: "Interface in storage-b" });
  await wrong.getByText(/ens9/).waitFor();
  await assertAccessible(page, "the findings of the heads");
  await assertFits(page, "the findings of the heads");
  await nic.fill("ens1f1");
  await wrong.waitFor({ state: "detached" });
  await button(page, "Ask the heads").click();
  for (const head of Object.keys(HEADS)) await asked.locator("li", { hasText: head }).getByText("asked", { exact: true }).waitFor();
  await checked(page);
  assert.doesNotMatch(await page.locator(".check-result").innerText(), /error/);
  assert.deepEqual([...left.strangers], []);
}

export async function makesPool({ page }) {
  const pools = page.getByRole("list", { name: "Pools of the file" });
  await pools.getByText("not made yet").waitFor();
  await button(pools, "Make tank").click();
  await dialog(page).getByText(DISKS[5]).waitFor();
  await send(page, "Make the pool");
  await pools.getByText("on its disks").waitFor();
}

export async function plansAndApplies({ page, lab }) {
  const card = region(page, "Plan");
  await button(card, "Make the plan").click();
  const plan = card.getByRole("list", { name: "The plan" });
  for (const head of Object.keys(HEADS)) await plan.getByText(`corosync.conf on ${head}`).waitFor();
  await plan.getByText(/change Pacemaker's configuration in one step/).waitFor();
  await button(card, "Apply it").click();
  await dialog(page).getByLabel("Type attic to continue", { exact: true }).fill("attic");
  await send(page, "Apply");
  // Each change is shown while it is made; then the cluster forms, and the pool comes up.
  await card.getByRole("region", { name: "Progress" }).getByText(/start corosync\.service/).first().waitFor();
  await card.getByText("The appliance is in service.").waitFor({ timeout: SERVED_MS });
  await card.getByText("by left at 10.77.1.100, 10.77.2.100").waitFor();
  await assertAccessible(page, "an appliance that was applied");
  assert.deepEqual(page.wrong, []);
  assert.equal(await lab.owner("tank"), "left");
}

export async function servesAtBothHeads({ page, right }) {
  const card = region(page, "Plan");
  await button(card, "Make the plan").click();
  await card.getByText("Everything is as the file says already.").waitFor();
  await page.context().close();
  const other = await right.page();
  const heads = other.getByRole("list", { name: "Heads" });
  for (const head of Object.keys(HEADS)) {
    const shown = heads.locator(":scope > li").filter({ has: other.getByRole("heading", { name: head, exact: true }) });
    await shown.locator("header").getByText("online").waitFor();
  }
  await heads.getByRole("link", { name: /tank/ }).waitFor();
  // The pool on left is managed from right: the heads have found each other.
  await visit(other, "pools/tank");
  await other.getByRole("heading", { name: "Pool tank", level: 1 }).waitFor();
  await other.getByText("mirror-2").first().waitFor();
  assert.deepEqual(other.wrong, []);
  await other.context().close();
}
