// Two heads as on the day that they were installed, and a newcomer with a browser: from the empty form to a pool
// that is served.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Browser } from "./world/browser.mjs";
import { Lab } from "./world/lab.mjs";
import { asksHeads, describesAppliance, makesPool, plansAndApplies, servesAtBothHeads } from "./journeys/fresh.mjs";

const world = {};

before(async () => {
  const { lab, lacks } = await Lab.start("fresh", ["--bare"]);
  if (!lab) {
    world.lacks = lacks;
    return;
  }
  world.lab = lab;
  world.left = await Browser.start(lab.heads.left, lab.users);
  world.right = await Browser.start(lab.heads.right, lab.users);
});

after(async () => {
  await world.left?.stop();
  await world.right?.stop();
  await world.lab?.stop();
});

const journey = (name, walk) => test(name, (t) => (world.lab ? walk(world) : t.skip(world.lacks)));

journey("an appliance of two heads is described in an empty form", describesAppliance);
journey("what the heads say of it is shown beside the fields", asksHeads);
journey("its pool is made on the disks", makesPool);
journey("the plan is shown, applied and watched until the pool is served", plansAndApplies);
journey("both heads show the appliance, and there is nothing left to plan", servesAtBothHeads);

test("nothing of it asks any other host for anything", () => {
  for (const browser of [world.left, world.right]) assert.deepEqual([...(browser?.strangers ?? [])], []);
});
