// The head is killed and restarts: the console reconnects.

import assert from "node:assert/strict";
import { button } from "../world/browser.mjs";
import { USERS } from "../world/head.mjs";

export async function survivesRestartOfHead({ browser, head }) {
  const page = await browser.page({ path: "pools/tank" });
  const tree = page.getByRole("list", { name: "Members of mirror-0" });
  await tree.waitFor();
  await head.kill();
  await page.getByText("reconnecting …").waitFor();
  // The last state stays on the screen.
  assert.ok(await tree.isVisible());

  await head.startAgain();
  // Sessions exist in the head's memory: the user must log in again, and the page returns.
  browser.forgetLogins();
  await page.getByText("The session has ended. Log in again to continue.").waitFor();
  await page.getByLabel("User", { exact: true }).fill(USERS.admin.user);
  await page.getByLabel("Password", { exact: true }).fill(USERS.admin.password);
  await button(page, "Log in").click();
  await page.getByText("live from left").waitFor();
  await tree.waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
