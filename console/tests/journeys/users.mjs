// A new user is added and logs in; a token is shown once.

import assert from "node:assert/strict";
import { button, dialog, send } from "../world/browser.mjs";

const NEW = { user: "nils", password: "the password of nils" };

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
