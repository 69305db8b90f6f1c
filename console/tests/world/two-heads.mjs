// The heads of a lab, left and right, with a browser at the console of each: for the tests of one file.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Browser } from "./browser.mjs";
import { Lab } from "./lab.mjs";

/**
 * Starts the lab before the tests of the file and stops it after them, with the options of `Lab.start`.
 *
 * `journey` declares a test that walks through the world, skipped where this host cannot run a lab; `keepsToItself`, to
 * be declared last, one that no page sent a request to another host.
 */
export function twoHeads(...which) {
  const world = {};

  before(async () => {
    const { lab, lacks } = await Lab.start(...which);
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

  return {
    journey: (name, walk) => test(name, (t) => (world.lab ? walk(world) : t.skip(world.lacks))),
    keepsToItself: (name) =>
      test(name, () => {
        for (const browser of [world.left, world.right]) assert.deepEqual([...(browser?.strangers ?? [])], []);
      }),
  };
}
