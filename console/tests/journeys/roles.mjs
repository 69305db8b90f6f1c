// Actions beyond a role are not offered; the server decides all the same.

import assert from "node:assert/strict";
import { button } from "../world/browser.mjs";

export async function offersNoMoreThanTheRoleMay({ browser }) {
  const reader = await browser.page({ role: "read-only", path: "pools/tank" });
  await reader.getByRole("list", { name: "Members of mirror-0" }).waitFor();
  const main = reader.getByRole("main");
  // The titles of lists sort, and parts of the page unfold, for every role.
  assert.equal(await main.locator("button:not(.sort, [aria-expanded])").count(), 0);
  assert.equal(await reader.getByRole("link", { name: "Access" }).count(), 0);
  const refused = await reader.evaluate(async () => {
    const session = await (await fetch("/api/v1/session")).json();
    const answer = await fetch("/api/v1/pools/tank/scrub", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Bulkhead-CSRF": session.csrf },
      body: JSON.stringify({ action: "start" }),
    });
    return answer.status;
  });
  assert.equal(refused, 403);
  await reader.context().close();

  const operator = await browser.page({ role: "operator", path: "pools/tank" });
  await button(operator, "Clear errors").waitFor();
  assert.equal(await button(operator, "Destroy").count(), 0);
  await operator.context().close();
}
