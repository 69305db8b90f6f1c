// Messages about alerts: an operator tests a receiver and reads the history; a reader sees the results only. And the
// power supplies of the same file.

import assert from "node:assert/strict";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { assertAccessible, assertFits, button } from "../world/browser.mjs";

export async function testsReceivers({ browser, head }) {
  const [script, file] = [head.place("page"), head.place("appliance.toml")];
  writeFileSync(script, `#!/bin/sh\n[ ! -e ${head.place("refuse")} ] || { echo the modem is off >&2; exit 3; }\n`);
  chmodSync(script, 0o700);
  writeFileSync(file, `format = 1\nname = "attic"\n[networks]\n[heads]\n[alerts.receivers.duty.program]\npath = "${script}"\n[ups.feeds.a]\nups = "rack-a@127.0.0.1:1"\n`);
  const page = await browser.page({ role: "operator", path: "" });
  const card = page.getByRole("region", { name: "Messages about alerts" });
  await card.getByText("unknown").waitFor();
  await button(card, "Test duty").click();
  await page.getByText("duty accepted the test message").waitFor();
  await card.getByText("works").waitFor();
  await button(card, "History").click();
  await card.getByText("[attic] test of a receiver of alerts").waitFor();
  writeFileSync(head.place("refuse"), "");
  await button(card, "Test duty").click();
  await card.getByText("the modem is off").waitFor();
  await card.getByText("failed", { exact: true }).waitFor();
  await assertAccessible(page, "the receivers of alerts");
  await assertFits(page, "the receivers of alerts");
  await page.context().close();

  const reader = await browser.page({ role: "read-only", path: "", size: "phone" });
  const seen = reader.getByRole("region", { name: "Messages about alerts" });
  await seen.getByText("the modem is off").waitFor();
  assert.equal(await seen.getByRole("button", { name: "Test duty" }).count(), 0);
  await assertFits(reader, "the receivers of alerts on a phone");
  await reader.context().close();
  await showsPowerSupplies(browser);
  rmSync(file);
}

/** No upsd runs at the port: the state of the supply is unknown. */
async function showsPowerSupplies(browser) {
  const page = await browser.page({ role: "read-only", path: "pools" });
  const card = page.getByRole("region", { name: "Power supplies" });
  await card.getByText("rack-a@127.0.0.1:1").waitFor({ timeout: 40_000 });
  await card.getByText("unknown").first().waitFor();
  await assertAccessible(page, "the power supplies");
  await assertFits(page, "the power supplies");
  await page.context().close();
}
