// The console in a real Chromium, against a real head with real pools: each journey of an
// administrator, one after another on the same appliance.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Browser } from "./world/browser.mjs";
import { Head } from "./world/head.mjs";
import { logsIn } from "./journeys/login.mjs";
import { findsAroundOnPhone, showsTraffic } from "./journeys/live.mjs";
import { showsLostPackets } from "./journeys/network.mjs";
import { createsPool, showsGrowth, showsHistory, watchesScrub } from "./journeys/pool.mjs";
import { createsVolume, createsVolumeByKeyboard } from "./journeys/volume.mjs";
import { makesFileSystem } from "./journeys/filesystem.mjs";
import { exportsVolume, showsUnknownProtocol } from "./journeys/target.mjs";
import { addsAndRemovesDevices, changesVolume, exportsGuided, holdsFreezesAndChangesKey, servesExportedPool } from "./journeys/parity.mjs";
import { rollsBack } from "./journeys/rollback.mjs";
import { replacesDisk, replacesDiskGuided } from "./journeys/disk.mjs";
import { showsLegsOfBothHeads } from "./journeys/legs.mjs";
import { isRefusedWhileInUse, looksIntoVolume } from "./journeys/rescue.mjs";
import { promotesCopy, replicates } from "./journeys/replication.mjs";
import { testsReceivers } from "./journeys/receivers.mjs";
import { setsUp } from "./journeys/setup.mjs";
import { offersNoMoreThanTheRoleMay } from "./journeys/roles.mjs";
import { addsUser, readsAuditLog } from "./journeys/users.mjs";
import { runsDrill } from "./journeys/drill.mjs";
import { destroysManySnapshots, findsOneOfMany, findsOneOfManyOnPhone, showsLongReplications } from "./journeys/many.mjs";
import { isAccessible } from "./journeys/accessible.mjs";
import { survivesRestartOfHead } from "./journeys/restart.mjs";

const world = {};

before(async () => {
  world.head = await Head.start();
  world.browser = await Browser.start(world.head.url);
});

after(async () => {
  await world.browser?.stop();
  await world.head?.stop();
});

const journey = (name, walk) => test(name, (t) => walk(world, t));

journey("an unknown user must log in, and sees the error", logsIn);
journey("an administrator creates a pool of files", createsPool);
journey("an operator creates a volume", createsVolume);
journey("a volume is made by keyboard alone", createsVolumeByKeyboard);
journey("a file system is made, shared by an administrator, and taken back to a snapshot", makesFileSystem);
journey("the load by a client of a volume is shown live", showsTraffic);
journey("lost packets are shown with their cause", showsLostPackets);
journey("a volume is exported over a target to one initiator", exportsVolume);
journey("a volume is exported to a client in one form that shows the commands", exportsGuided);
journey("an encrypted volume gets properties and another name, and a clone is promoted", changesVolume);
journey("a snapshot is held, a volume is frozen, and a key is changed", holdsFreezesAndChangesKey);
journey("a spare and a log are added and removed", addsAndRemovesDevices);
journey("a pool that no head serves is served again", servesExportedPool);
journey("the exports of an unknown protocol are shown", showsUnknownProtocol);
journey("a snapshot is taken and the volume rolled back to it", rollsBack);
journey("a receiver of alerts is tested, fails, and shows its history", testsReceivers);
journey("the history of a pool is shown", showsHistory);
journey("the fill of a pool is drawn, with the reason for no forecast", showsGrowth);
journey("a scrub is started, paused, resumed and completed", watchesScrub);
journey("a disk is replaced and the tree shows the new one", replacesDisk);
journey("a disk is replaced the guided way, on a phone", replacesDiskGuided);
journey("a leg of another head falls behind, and returns", showsLegsOfBothHeads);
journey("a snapshot is looked into, and closed by keyboard alone", looksIntoVolume);
journey("a volume that is looked into is looked into once, and by an administrator", isRefusedWhileInUse);
journey("a volume is replicated, and how far behind it is is shown", replicates);
journey("a copy replaces its original, after a warning", promotesCopy);
journey("the set-up shows findings next to their fields", setsUp);
journey("actions beyond a role are not offered", offersNoMoreThanTheRoleMay);
journey("the menu of a phone opens where the reader is", findsAroundOnPhone);
journey("one of a thousand volumes is found", findsOneOfMany);
journey("hundreds of snapshots are destroyed with one confirmation", destroysManySnapshots);
journey("one of a thousand volumes is found on a phone", findsOneOfManyOnPhone);
journey("long names of replications fit, wide and narrow", showsLongReplications);
journey("a user is added and logs in, a token is shown once", addsUser);
journey("the audit log is searched by object and user", readsAuditLog);
journey("every page is accessible, light and dark, wide and narrow", isAccessible);
journey("a drill is run and watched", runsDrill);
journey("a restarted head is waited for", survivesRestartOfHead);

test("no page sends a request to any other host", () => {
  assert.deepEqual([...world.browser.strangers], []);
});
