// What the command line can do, the console can: names, properties, keys, clones, devices, pools that are not served.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, send, visit } from "../world/browser.mjs";

const INITIATOR = "iqn.1993-08.org.debian:01:host9";

/** From nothing to the commands for the client, in one form. */
export async function exportsGuided({ browser, head }) {
  const page = await browser.page({ role: "operator", path: "targets", size: "phone" });
  await button(page, "Export to a client").click();
  const form = dialog(page);
  await form.getByLabel("Name of the volume", { exact: true }).fill("guided/vm9");
  await form.getByLabel("Size", { exact: true }).fill("8M");
  const proposed = `iqn.${new Date().getFullYear()}-01.org.example:tank-guided-vm9`;
  assert.equal(await form.getByLabel("Target", { exact: true }).inputValue(), proposed);
  // The command line reserves space, so the console does.
  assert.equal(await form.getByLabel("Sparse: no space is reserved", { exact: true }).isChecked(), false);
  await assertAccessible(page, "the guided export");
  await assertFits(page, "the guided export");

  // A refusal in the middle: what exists already is no obstacle to the next try.
  await form.getByLabel("Initiator name", { exact: true }).fill("not a name");
  await button(form, "Export it").click();
  await form.getByRole("alert").filter({ hasText: /\S/ }).waitFor();
  await form.getByLabel("Initiator name", { exact: true }).fill(INITIATOR);
  await form.getByLabel("CHAP user", { exact: true }).fill("ann");
  await form.getByLabel("Secret", { exact: true }).fill("correct-horse");
  await button(form, "Export it").click();
  const commands = page.getByRole("region", { name: "Commands for the client" });
  await commands.waitFor();
  const text = await commands.innerText();
  assert.match(text, /^iscsiadm -m discovery -t sendtargets -p 127\.0\.0\.1:\d+$/m);
  assert.ok(text.includes(`iscsiadm -m node -T ${proposed} --login`), text);
  assert.ok(text.includes("authmethod -v CHAP") && !text.includes("correct-horse"), text);
  await page.getByText("The server listens on this head only.").waitFor();
  await assertAccessible(page, "the end of the guided export");
  await assertFits(page, "the end of the guided export");
  await button(dialog(page), "Done").click();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  const target = await head.json("target", "show", proposed);
  assert.deepEqual(target.units.map((unit) => unit.volume), ["tank/guided/vm9"]);
  assert.deepEqual([target.access.initiators, target.chap_users], [[INITIATOR], ["ann"]]);
  const volume = await head.json("volume", "show", "tank/guided/vm9");
  assert.deepEqual([volume.size, volume.sparse], [8 * 1024 * 1024, false]);
  await head.bulkhead("target", "destroy", proposed, "--mapped");
  await head.bulkhead("filesystem", "destroy", "tank/guided", "--recursive", "--yes-destroy-data");
}

/** An encrypted volume, its properties, another name, and a clone that becomes the original. */
export async function changesVolume({ browser, head }) {
  const page = await browser.page({ role: "operator", path: "volumes" });
  await button(page, "Create a volume").click();
  const form = dialog(page);
  await form.getByLabel("Name", { exact: true }).fill("sealed");
  await form.getByLabel("Size", { exact: true }).fill("8M");
  await form.getByLabel("Encryption", { exact: true }).selectOption("passphrase");
  await form.getByLabel("Passphrase", { exact: true }).fill("a long passphrase");
  await form.getByLabel("Passphrase again", { exact: true }).fill("another passphrase");
  await button(form, "Create the volume").click();
  await form.getByRole("alert").getByText(/the two passphrases differ/).waitFor();
  await form.getByLabel("Passphrase again", { exact: true }).fill("a long passphrase");
  await send(page, "Create the volume");
  await page.getByRole("heading", { name: "Volume tank/sealed", level: 1 }).waitFor();

  const properties = page.getByRole("table", { name: "Properties of tank/sealed" });
  await page.getByLabel("Search properties", { exact: true }).fill("compression");
  await properties.getByRole("button", { name: "Change compression" }).click();
  await form.getByLabel("Value", { exact: true }).fill("zstd");
  await send(page, "Set");
  await properties.getByRole("row", { name: /^compression zstd local/ }).waitFor();
  await properties.getByRole("button", { name: "Inherit compression" }).click();
  await send(page, "Inherit");
  await properties.getByRole("button", { name: "Inherit compression" }).waitFor({ state: "detached" });
  await button(page, "Set a property").click();
  await form.getByLabel("Property", { exact: true }).fill("org.example:owner");
  await form.getByLabel("Value", { exact: true }).fill("ann");
  await send(page, "Set");

  await button(page, "Rename").click();
  await form.getByLabel("New name", { exact: true }).fill("locked-away");
  await send(page, "Rename");
  await page.getByRole("heading", { name: "Volume tank/locked-away", level: 1 }).waitFor();
  const volume = await head.json("volume", "show", "tank/locked-away");
  assert.equal(volume.properties["org.example:owner"].value, "ann");
  const [key] = await head.json("volume", "key", "status", "tank/locked-away");
  assert.deepEqual([key.format, key.loaded], ["passphrase", true]);

  await head.bulkhead("snapshot", "create", "tank/locked-away@a");
  await head.bulkhead("snapshot", "clone", "tank/locked-away@a", "tank/fork");
  await visit(page, "volumes/tank%2Ffork");
  await button(page, "Promote").click();
  await send(page, "Promote");
  await button(page, "Promote").waitFor({ state: "detached" });
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  const clone = await head.json("volume", "show", "tank/locked-away");
  assert.equal(clone.origin, "tank/fork@a");
  await head.bulkhead("volume", "destroy", "tank/locked-away", "--yes-destroy-data");
  await head.bulkhead("volume", "destroy", "tank/fork", "--recursive", "--yes-destroy-data");
}

export async function addsAndRemovesDevices({ browser, head }) {
  const [spare, log] = [head.disk("spare"), head.disk("log")];
  const page = await browser.page({ path: "pools/tank" });
  for (const [role, label, path] of [["spare", "Spares of tank", spare], ["log", "Log of synchronous writes of tank", log]]) {
    await button(page, "Add devices").click();
    const form = dialog(page);
    await form.getByLabel("As", { exact: true }).selectOption(role);
    if (role === "log") await form.getByLabel("Layout", { exact: true }).selectOption("stripe");
    await form.getByLabel("Other devices or files", { exact: true }).fill(path);
    await assertAccessible(page, `adding a ${role}`);
    await send(page, "Add them");
    const group = page.getByRole("list", { name: label });
    await group.getByTitle(path, { exact: true }).waitFor();
    await group.getByRole("button", { name: `Remove ${path}` }).click();
    await form.getByLabel(`Type ${path} to continue`, { exact: true }).fill(path);
    await send(page, "Remove");
    await group.waitFor({ state: "detached" });
  }
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  const shown = JSON.stringify(await head.json("pool", "status", "tank"));
  assert.ok(!shown.includes(spare) && !shown.includes(log), shown);
}

/** The page of a pool without a server reports that, and has the button that starts one. */
export async function servesExportedPool({ browser, head }) {
  await head.bulkhead("pool", "create", "shelf", head.disk("shelf"));
  await head.serve("shelf");
  const page = await browser.page({ path: "pools/shelf" });
  await button(page, "Export").click();
  await dialog(page).getByLabel("Type shelf to continue", { exact: true }).fill("shelf");
  await send(page, "Export");
  for (const path of ["pools", "pools/shelf"]) {
    await visit(page, path);
    await page.getByRole("button", { name: "Serve shelf", exact: true }).waitFor();
    await assertAccessible(page, `${path} without a server`);
  }
  await page.getByText(/No head .*serves/).first().waitFor();
  await page.getByRole("button", { name: "Serve shelf", exact: true }).click();
  await page.getByRole("region", { name: "Summary" }).getByText("online", { exact: false }).first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Serve shelf" }).count(), 0);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  await head.bulkhead("pool", "export", "shelf");
  await head.bulkhead("pool", "destroy", "shelf", "--yes-destroy-all-data");
}

/** A hold that protects a snapshot, a bookmark, writes that are paused, another key, and the addresses of the pool. */
export async function holdsFreezesAndChangesKey({ browser, head }) {
  await head.bulkhead("volume", "create", "tank/quiet", "--size", "8M");
  await head.bulkhead("nbd", "export", "tank/quiet");
  await head.bulkhead("snapshot", "create", "tank/quiet@a");
  const page = await browser.page({ path: "volumes/tank%2Fquiet" });
  const form = dialog(page);
  await button(page, "Hold a snapshot").click();
  await button(form, "Hold it").click();
  await form.getByRole("alert").getByText("give the hold a name").waitFor();
  await form.getByLabel("Name of the hold", { exact: true }).fill("backup");
  await assertAccessible(page, "a hold");
  await send(page, "Hold it");
  await page.getByRole("table", { name: "Holds of snapshots of tank/quiet" }).getByRole("row", { name: /^@a backup/ }).waitFor();
  await page.getByRole("button", { name: "Remove tank/quiet@a" }).click();
  await form.getByLabel("Type tank/quiet@a to continue", { exact: true }).fill("tank/quiet@a");
  await button(form, "Remove the snapshot").click();
  await form.getByRole("alert").getByText("tank/quiet@a is held by backup").waitFor();
  await button(form, "Cancel").click();

  await button(page, "Create a bookmark").click();
  await form.getByLabel("Name of the bookmark", { exact: true }).fill("sent");
  await send(page, "Create it");
  const bookmarks = page.getByRole("table", { name: "Bookmarks of tank/quiet" });
  await bookmarks.getByRole("row", { name: /^#sent/ }).waitFor();
  await assertAccessible(page, "holds and bookmarks");
  await bookmarks.getByRole("button", { name: "Destroy tank/quiet#sent" }).click();
  await send(page, "Destroy the bookmark");
  await bookmarks.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Release backup of tank/quiet@a" }).click();
  await send(page, "Release");
  await page.getByText("No snapshot is held").waitFor();

  await button(page, "Freeze").click();
  await form.getByLabel("Seconds", { exact: true }).fill("61");
  await button(form, "Freeze").click();
  await form.getByRole("alert").getByText(/61 is no number of seconds/).waitFor();
  await form.getByLabel("Seconds", { exact: true }).fill("60");
  await send(page, "Freeze");
  await page.getByRole("region", { name: "Summary" }).getByText(/^paused until/).waitFor();
  assert.ok((await head.json("volume", "show", "tank/quiet")).frozen);
  await button(page, "Thaw").click();
  await send(page, "Thaw");
  await button(page, "Freeze").waitFor();

  await visit(page, "pools/tank");
  await page.getByRole("table", { name: "Addresses of tank" }).getByRole("row", { name: /^nbd .* on this head/i }).waitFor();
  assert.deepEqual(page.wrong, []);
  await head.bulkhead("nbd", "unexport", "tank/quiet", "--in-use");
  await head.bulkhead("volume", "destroy", "tank/quiet", "--recursive", "--yes-destroy-data");
  await changesKey({ page, head });
}

async function changesKey({ page, head }) {
  await visit(page, "volumes");
  await button(page, "Create a volume").click();
  const form = dialog(page);
  await form.getByLabel("Name", { exact: true }).fill("coded");
  await form.getByLabel("Size", { exact: true }).fill("8M");
  await form.getByLabel("Encryption", { exact: true }).selectOption("passphrase");
  await form.getByLabel("Passphrase", { exact: true }).fill("the first passphrase");
  await form.getByLabel("Passphrase again", { exact: true }).fill("the first passphrase");
  await send(page, "Create the volume");
  await visit(page, "pools/tank");
  const keys = page.getByRole("table", { name: "Keys of tank" });
  await keys.getByRole("button", { name: /^Change it ?: the key of tank\/coded/ }).click();
  await form.getByLabel("Passphrase", { exact: true }).fill("the second passphrase");
  await form.getByLabel("Passphrase again", { exact: true }).fill("the second passphrase");
  await assertAccessible(page, "the change of a key");
  await send(page, "Change the key");
  await keys.getByRole("button", { name: /^Forget it ?: the key of tank\/coded/ }).click();
  await send(page, "Forget the key");
  await keys.getByRole("button", { name: /^Load it ?: the key of tank\/coded/ }).click();
  await form.getByLabel("Passphrase", { exact: true }).fill("the first passphrase");
  await button(form, "Load the key").click();
  await form.getByRole("alert").filter({ hasText: /\S/ }).waitFor();
  await form.getByLabel("Passphrase", { exact: true }).fill("the second passphrase");
  await send(page, "Load the key");
  await keys.getByRole("button", { name: /^Change it ?: the key of tank\/coded/ }).waitFor();
  await page.context().close();
  await head.bulkhead("volume", "destroy", "tank/coded", "--yes-destroy-data");
}
