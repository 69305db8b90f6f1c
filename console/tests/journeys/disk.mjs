// A disk of a mirror is taken offline, and replaced.

import assert from "node:assert/strict";
import { dialog, send } from "../world/browser.mjs";

export async function replacesDisk({ browser, head }) {
  const [old, fresh] = [head.place("disks", "b"), head.disk("c")];
  const page = await browser.page({ role: "operator", path: "pools/tank" });
  const members = page.getByRole("list", { name: "Members of mirror-0" });

  await members.getByRole("button", { name: `Take offline ${old}` }).click();
  await send(page, "Take offline");
  await members.getByRole("button", { name: `Use again ${old}` }).waitFor();
  await members.getByText("offline", { exact: true }).waitFor();
  // What to do next is said on the first page, too.
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("region", { name: "What to do next" }).locator(".alert").first().waitFor();
  await page.getByRole("link", { name: "Details of tank" }).click();

  await members.getByRole("button", { name: `Replace ${old}` }).click();
  await dialog(page).getByLabel("New disk", { exact: true }).fill(fresh);
  await send(page, "Replace");
  await members.getByText(fresh).first().waitFor();
  await members.getByTitle(old, { exact: true }).waitFor({ state: "detached" });
  await page.getByText(/Resilver finished/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const shown = JSON.stringify(await head.json("status", "tank"));
  assert.ok(shown.includes(fresh) && !shown.includes(`${old}"`), shown);
}
