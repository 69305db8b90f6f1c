// Logging in and out.

import { button } from "../world/browser.mjs";
import { USERS } from "../world/head.mjs";

export async function logsIn({ browser }) {
  const page = await browser.page({ role: null });
  const { user, password } = USERS.admin;
  await page.getByLabel("User", { exact: true }).fill(user);
  await page.getByLabel("Password", { exact: true }).fill("wrong");
  await button(page, "Log in").click();
  await page.getByRole("alert").filter({ hasText: /\S/ }).waitFor();

  await page.getByLabel("Password", { exact: true }).fill(password);
  await button(page, "Log in").click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("live from left").waitFor();
  const next = page.getByRole("region", { name: "What to do next" });
  await next.getByText("Ready for a first pool.").waitFor();
  await next.getByRole("link", { name: "Create a pool" }).waitFor();
  await next.getByRole("link", { name: "set up an appliance" }).waitFor();

  await button(page, "Log out").click();
  await page.getByText("You are logged out.").waitFor();
  await page.context().close();
}
