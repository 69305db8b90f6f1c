// A leg falls behind and returns: the pool's page shows the legs by head.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button } from "../world/browser.mjs";
import { Legs } from "../world/legs.mjs";

const POOL = "loft";

export async function showsLegsOfBothHeads({ browser, head }) {
  const legs = await Legs.start(head, POOL);
  try {
    const page = await browser.page({ role: "operator", path: `pools/${POOL}` });
    const card = page.getByRole("region", { name: "Legs", exact: true });
    const on = (name) => card.getByRole("list", { name: `Legs on ${name}` });
    for (const name of ["left", "right"]) {
      await on(name).getByText("current", { exact: true }).waitFor();
      await on(name).getByText(`leg-of-${name}`).waitFor();
      await card.getByRole("region", { name: `Head ${name}` }).getByText("answers", { exact: true }).waitFor();
    }
    await card.getByRole("region", { name: "Member witness" }).getByText("answers", { exact: true }).waitFor();
    // A leg comes and goes by its record: nothing here is to be clicked.
    assert.equal(await button(page, "Replace a disk").count(), 0);
    assert.equal(await page.getByRole("button", { name: /^Take offline/ }).count(), 0);

    await legs.killLegServer("right");
    await on("right").getByText("stale", { exact: true }).waitFor();
    await on("right").getByText(/^since /).waitFor();
    await on("right").getByText(/It is missing all writes since transaction group \d+/).waitFor();
    await card.getByRole("region", { name: "Head right" }).getByText("silent", { exact: true }).waitFor();
    await on("left").getByText("current", { exact: true }).waitFor();
    const next = page.getByRole("region", { name: "What to do next" });
    await next.getByText(/Its legs return automatically/).waitFor();
    await assertAccessible(page, "a pool with a stale leg");
    const phone = await browser.page({ role: "operator", path: `pools/${POOL}`, size: "phone", colours: "dark" });
    await phone.getByRole("list", { name: "Legs on right" }).getByText("stale", { exact: true }).waitFor();
    await assertAccessible(phone, "a pool with a stale leg, on a phone");
    await assertFits(phone, "a pool with a stale leg, on a phone");
    await phone.context().close();

    legs.startLegServer("right");
    await on("right").getByText("current", { exact: true }).waitFor();
    const events = page.getByRole("list", { name: "Events, newest first" });
    await events.getByText(`right:${legs.leg("right")} is missing writes`).waitFor();
    await events.getByText(`leg right:${legs.leg("right")} is complete`).waitFor();
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  } finally {
    legs.stop();
  }
}
