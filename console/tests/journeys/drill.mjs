// A drill in a lab of two heads: started, watched, judged. The pool is handed over, so this is
// also the journey of a move.

import assert from "node:assert/strict";
import { dialog, send } from "../world/browser.mjs";

/** A lab starts, a pool moves, the lab stops: much work on a slow host. */
const DRILL_MS = 300_000;

export async function runsDrill({ browser }, t) {
  const page = await browser.page({ role: "operator", path: "drills" });
  const rows = page.getByRole("table", { name: "Drills" }).getByRole("row");
  await rows.nth(1).waitFor();
  // The promise of each fault is a sentence.
  const promised = await rows.locator("td:nth-child(3)").allInnerTexts();
  for (const text of promised) assert.match(text, /clients /);
  await page.getByRole("button", { name: "Run move", exact: true }).click();
  await dialog(page).getByLabel("How often", { exact: true }).fill("1");
  await send(page, "Run the drill");
  const card = page.locator("section.card").filter({ has: page.getByText("Progress of") }).first();
  await card.getByText("running").first().waitFor();
  const end = card.locator(".state").filter({ hasText: /^(done|failed|canceled)$/ });
  await end.first().waitFor({ timeout: DRILL_MS });
  const text = await card.innerText();
  if (/cannot run a lab|missing/.test(text)) {
    t.skip("this host cannot run a lab");
    await page.context().close();
    return;
  }
  assert.match(text, /promise (kept|broken)/);
  assert.match(text, /0 errors seen, 0 writes lost, 0 double imports/);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
