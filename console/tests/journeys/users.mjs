// A new user is added and logs in; a token is shown once.

import assert from "node:assert/strict";
import { button, dialog, send } from "../world/browser.mjs";

const NEW = { user: "nils", password: "the password of nils" };

/** The log names the object and the change, whether they came by a command or by the console. */
export async function readsAuditLog({ browser, head }) {
  await head.bulkhead("volume", "create", "tank/audited/by-command", "--size", "8M", "--sparse", "--parents");
  const page = await browser.page({ path: "audit" });
  const table = page.getByRole("table", { name: "Audit log" });
  await table.getByText("volume.create").first().waitFor();
  await page.getByLabel("Object", { exact: true }).fill("tank/audited");
  await table.getByText(/tank\/audited\/by-command/).waitFor();
  await table.getByRole("row").nth(2).waitFor({ state: "detached" });
  await page.getByLabel("User", { exact: true }).fill("ann*");
  await page.getByText("There is no such entry.").waitFor();
  await page.getByLabel("Object", { exact: true }).fill("");
  await table.getByRole("cell", { name: browser.users.admin.user, exact: true }).first().waitFor();
  await page.getByLabel("Search entries", { exact: true }).fill("login");
  await table.getByText("login").first().waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  await head.bulkhead("volume", "destroy", "tank/audited/by-command", "--yes-destroy-data");
  const reader = await browser.page({ role: "operator" });
  assert.equal(await reader.getByRole("link", { name: "Audit log" }).count(), 0);
  await reader.context().close();
}

export async function addsUser({ browser }) {
  const page = await browser.page({ path: "users" });
  await button(page, "Add a user").click();
  const form = dialog(page);
  await form.getByLabel("Name", { exact: true }).fill(NEW.user);
  await form.getByLabel("Role", { exact: true }).selectOption("read-only");
  await form.getByLabel("Password", { exact: true }).fill(NEW.password);
  await send(page, "Add");
  await page.getByRole("table", { name: "Users" }).getByRole("cell", { name: NEW.user, exact: true }).waitFor();

  await button(page, "Make a token").click();
  await form.getByLabel("Purpose", { exact: true }).fill("backup");
  await form.getByLabel("Your password", { exact: true }).fill(browser.users.admin.password);
  await button(form, "Make it").click();
  const token = page.getByRole("region", { name: "Token", exact: true });
  await token.waitFor();
  assert.ok((await token.innerText()).length > 20);
  await button(dialog(page), "Done").click();
  await page.getByRole("table", { name: "Tokens" }).getByRole("cell", { name: "backup", exact: true }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const other = await browser.page({ role: null });
  await other.getByLabel("User", { exact: true }).fill(NEW.user);
  await other.getByLabel("Password", { exact: true }).fill(NEW.password);
  await button(other, "Log in").click();
  await other.getByText("read-only").waitFor();
  await other.context().close();
}
