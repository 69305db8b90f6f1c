// Every page, judged by axe, in both colours and at the width of a phone; dialogs as well.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, visit } from "../world/browser.mjs";
import { TARGET } from "./target.mjs";

const PAGES = [
  "", "pools", "pools/tank", "volumes", "volumes/tank%2Fvm0", "filesystems", "filesystems/tank%2Fhome", "snapshots", "targets", `targets/tank/${encodeURIComponent(TARGET)}`,
  "replication", "events", "network", "drills", "setup", "users", "audit",
];

const LOOKS = [
  { colours: "light", size: "desktop" },
  { colours: "dark", size: "desktop" },
  { colours: "light", size: "phone" },
];

export async function isAccessible({ browser }) {
  for (const look of LOOKS) {
    const page = await browser.page(look);
    await page.getByRole("heading", { name: "Heads and pools" }).waitFor();
    for (const path of PAGES) {
      const what = `${path || "overview"}, ${look.colours}, ${look.size}`;
      await visit(page, path);
      await page.getByText(/^(Asking|Waiting for the head) …$/).first().waitFor({ state: "detached" });
      await page.getByRole("heading", { level: 2 }).first().waitFor();
      await assertAccessible(page, what);
      await assertFits(page, what);
    }
    await visit(page, "volumes");
    await button(page, "Create a volume").click();
    await dialog(page).waitFor();
    await assertAccessible(page, `a dialog, ${look.colours}, ${look.size}`);
    await assertFits(page, `a dialog, ${look.colours}, ${look.size}`);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
  const stranger = await browser.page({ role: null });
  await stranger.getByLabel("User", { exact: true }).waitFor();
  await assertAccessible(stranger, "login");
  await stranger.context().close();
}
