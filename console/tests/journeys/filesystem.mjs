// A file system: made by an operator, shared by an administrator, taken back to a snapshot.

import assert from "node:assert/strict";
import { button, dialog, send, visit } from "../world/browser.mjs";

export async function makesFileSystem({ browser, head }) {
  const operator = await browser.page({ role: "operator", path: "filesystems" });
  await button(operator, "Create a file system").click();
  const form = dialog(operator);
  await form.getByLabel("Name", { exact: true }).fill("home");
  await form.getByLabel("Quota", { exact: true }).fill("much");
  // Only an administrator may change access.
  assert.equal(await form.getByLabel("Shared with", { exact: true }).count(), 0);
  await button(form, "Create the file system").click();
  await form.getByRole("alert").getByText("much is no size").waitFor();
  await form.getByLabel("Quota", { exact: true }).fill("64M");
  await form.getByLabel("Owner", { exact: true }).fill("1000");
  await form.getByLabel("Permissions", { exact: true }).fill("2770");
  await send(operator, "Create the file system");
  await operator.getByRole("heading", { name: "File system tank/home", level: 1 }).waitFor();
  await operator.getByRole("region", { name: "Summary" }).getByText("not shared").waitFor();
  assert.equal(await button(operator, "Share it").count(), 0);

  const owners = operator.getByRole("region", { name: "Space by owner" });
  await owners.getByLabel("Show the space of", { exact: true }).selectOption("user");
  const users = operator.getByRole("table", { name: "Space of users in tank/home" });
  await button(owners, "Set a quota").click();
  await dialog(operator).getByLabel("Number of the user", { exact: true }).fill("54321");
  await dialog(operator).getByLabel("Quota", { exact: true }).fill("1G");
  await dialog(operator).getByLabel("Quota of files", { exact: true }).fill("many");
  await button(dialog(operator), "Set the quota").click();
  await dialog(operator).getByRole("alert").getByText(/this is no number of files/).waitFor();
  await dialog(operator).getByLabel("Quota of files", { exact: true }).fill("500");
  await send(operator, "Set the quota");
  await users.getByRole("row", { name: /^54321 .* 1(\.0)? GiB (0|–) 500/ }).waitFor();
  await users.getByRole("button", { name: "Change the quota of 54321" }).click();
  await dialog(operator).getByLabel("Quota", { exact: true }).fill("");
  await dialog(operator).getByLabel("Quota of files", { exact: true }).fill("");
  await send(operator, "Set the quota");
  await users.getByRole("row", { name: /^54321/ }).waitFor({ state: "detached" });

  await button(operator, "Take a snapshot").click();
  await dialog(operator).getByLabel("Name", { exact: true }).fill("before");
  await send(operator, "Take it");
  const table = operator.getByRole("table", { name: "Snapshots of tank/home" });
  await table.getByText("@before", { exact: true }).waitFor();
  await table.getByRole("button", { name: /^Roll back to it/ }).click();
  await dialog(operator).getByLabel("Type tank/home@before to continue", { exact: true }).fill("tank/home@before");
  await send(operator, "Roll back");
  await operator.getByText(/tank\/home is as it was at tank\/home@before/).waitFor();
  assert.deepEqual(operator.wrong, []);
  await operator.context().close();

  await share({ browser, head });
}

async function share({ browser, head }) {
  const page = await browser.page({ path: "filesystems/tank%2Fhome" });
  await button(page, "Share it").click();
  const form = dialog(page);
  await form.getByLabel("As the one above it", { exact: true }).uncheck();
  // The server's own words are shown where the mistake was made.
  await form.getByLabel("Shared with", { exact: true }).fill("rw");
  await button(form, "Share").click();
  await form.getByRole("alert").getByText(/shares with everybody/).waitFor();
  await form.getByLabel("Shared with", { exact: true }).fill("rw=192.0.2.0/24");
  await send(page, "Share");
  await page.getByRole("region", { name: "Summary" }).getByText("rw=192.0.2.0/24").waitFor();
  const shared = await head.json("filesystem", "show", "tank/home");
  assert.deepEqual([shared.share.value, shared.space.quota], ["rw=192.0.2.0/24", 64 * 1024 * 1024]);

  await page.getByRole("button", { name: "Remove tank/home@before" }).click();
  await dialog(page).getByLabel("Type tank/home@before to continue", { exact: true }).fill("tank/home@before");
  await send(page, "Remove the snapshot");
  await page.getByText("There is no snapshot.").waitFor();

  // Later journeys find it as it was made.
  await button(page, "Share it").click();
  await form.getByLabel("As the one above it", { exact: true }).check();
  await send(page, "Share");
  await page.getByRole("region", { name: "Summary" }).getByText("not shared").waitFor();
  await visit(page, "filesystems");
  await page.getByRole("table", { name: "File systems" }).getByRole("link", { name: "tank/home" }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
