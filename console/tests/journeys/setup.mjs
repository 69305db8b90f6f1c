// The guided set-up: a new appliance, mistakes and their mending.

import assert from "node:assert/strict";
import { button } from "../world/browser.mjs";

export async function setsUp({ browser }) {
  const page = await browser.page({ role: "admin", path: "setup" });
  await button(page, "Describe a new appliance").click();
  const check = page.getByRole("region", { name: "Check" });
  // An empty field is no error yet.
  await check.getByText(/to fill in/).first().waitFor();
  const wrong = await page.locator(".findings li", { hasText: "Error:" }).allInnerTexts();
  assert.deepEqual(wrong, []);
  assert.ok(await button(page, "Make the plan").isDisabled());

  const fill = async (group, field, text) =>
    page.getByRole("group", { name: group }).getByLabel(field, { exact: true }).fill(text);

  // An error is shown next to its field, and disappears when it is corrected.
  await fill("head left", "Number", "0");
  const number = page.getByRole("group", { name: "head left" }).locator(".field.is-wrong", { hasText: "Number" });
  await number.getByText(/^Error:/).waitFor();
  assert.equal(await number.getByLabel("Number", { exact: true }).getAttribute("aria-invalid"), "true");
  await fill("head left", "Number", "1");
  await number.waitFor({ state: "detached" });

  // Addresses without a host, which fail at once: no host of this appliance exists.
  for (const [index, network] of ["storage-a", "storage-b", "management"].entries()) {
    await fill(`network ${network}`, "Subnets", `fd77:${index}::/64`);
  }
  for (const [head, host] of [["left", 11], ["right", 12]]) {
    const group = `head ${head}`;
    for (const [index, network] of ["storage-a", "storage-b", "management"].entries()) {
      await fill(group, `Interface in ${network}`, `ens${index}`);
      await fill(group, `Address in ${network}`, `fd77:${index}::${host}`);
    }
    await fill(group, "Address of its BMC", `fd77:2::${host + 10}`);
  }
  const disks = ["a", "b"].map((name) => `/dev/disk/by-id/scsi-${name}`).join("\n");
  await fill("pool tank", "Disks", disks);
  await fill("pool tank", "Its address in storage-a", "fd77:0::100");
  await fill("pool tank", "Its address in storage-b", "fd77:1::100");

  // A second way to power heads off, and a third host that decides; lists are typed as users write them.
  const type = async (group, field, text) =>
    page.getByRole("group", { name: group }).getByLabel(field, { exact: true }).pressSequentially(text);
  await button(page, "Add a unit").click();
  await fill("unit pdu-1", "Name of the unit", "cellar");
  await fill("unit cellar", "Address of the unit", "fd77:2::31");
  await type("head left", "Outlets of cellar that feed it", "1, 2");
  await type("head right", "Outlets of cellar that feed it", "3, 4");
  await page.getByLabel("When heads do not see each other").selectOption("witness");
  await page.getByLabel("Address of the witness").fill("fd77:2::41");
  await page.getByLabel("Addresses that a healthy head reaches").pressSequentially("fd77:0::1, fd77:1::1");
  await fill("pool tank", "Its address in storage-a", "");
  await type("pool tank", "Its address in storage-a", "fd77:0::100, fd77:0::101");

  await page.waitForFunction(() => {
    const text = document.querySelector(".check-result")?.textContent ?? "";
    return text !== "" && !/Checking|error|to fill in/.test(text);
  });
  await check.getByText("The file, appliance.toml").click();
  await check.getByText(/\[heads\.left/).first().waitFor();
  const file = await check.getByRole("region", { name: "appliance.toml" }).innerText();
  for (const part of [/\[pdus\.cellar\]/, /outlet = "4"/, /fd77:1::1/, /fd77:0::101/, /rule = "witness"/]) assert.match(file, part);
  assert.ok(await button(page, "Make the plan").isEnabled());

  // The plan shows the obstacles, and nothing can be applied.
  const plan = page.getByRole("region", { name: "Plan" });
  await button(plan, "Make the plan").click();
  await plan.getByText("left does not answer").waitFor();
  assert.equal(await button(plan, "Apply it").count(), 0);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
