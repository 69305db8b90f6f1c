// A volume is copied to a pool of another server, its lag is shown, and its copy replaces it.

import assert from "node:assert/strict";
import { assertAccessible, assertFits, button, dialog, send, visit } from "../world/browser.mjs";

const pool = (page, name) => page.getByRole("region", { name: `Pool ${name}`, exact: true });

/** The digits by which other pools know one; made if there are none. */
async function fingerprint(card) {
  await card.getByRole("button", { name: /^Make a certificate/ }).click();
  const digits = card.locator("p .fingerprint");
  await digits.waitFor();
  return digits.innerText();
}

async function fillAll(page, fields) {
  for (const [label, text] of Object.entries(fields)) await dialog(page).getByLabel(label, { exact: true }).fill(text);
}

export async function replicates({ browser, head }) {
  await head.bulkhead("volume", "create", "tank/site", "--size", "16M");
  await head.bulkhead("pool", "create", "vault", head.disk("vault"));
  const receiver = await head.serveReceiver("vault");
  const page = await browser.page({ path: "replication" });
  const [tank, vault] = [pool(page, "tank"), pool(page, "vault")];
  const [ours, theirs] = [await fingerprint(tank), await fingerprint(vault)];

  await vault.getByRole("button", { name: /^Accept a pool/ }).click();
  await fillAll(page, { "Certificate of the other pool": ours, "Where it may write": "vault/from" });
  await send(page, "Accept it");
  await vault.getByRole("cell", { name: "vault/from" }).waitFor();

  await tank.getByRole("button", { name: /^Replicate a volume/ }).click();
  await fillAll(page, {
    "Volume or parent dataset": "tank/site", Receiver: receiver, "Certificate of the receiving pool": theirs,
    Into: "vault/from/site", "Pause between two runs": "soon",
  });
  await button(dialog(page), "Replicate it").click();
  await dialog(page).getByRole("alert").getByText("soon is no time").waitFor();
  await fillAll(page, { "Pause between two runs": "" });
  await send(page, "Replicate it");
  await tank.getByText("nothing has arrived").waitFor();
  await tank.getByText("when asked for").waitFor();
  await page.context().close();

  // An operator may run a configured replication at once.
  const operator = await browser.page({ role: "operator", path: "replication" });
  await pool(operator, "tank").getByRole("button", { name: "Run now tank/site" }).click();
  await pool(operator, "tank").getByText(/contents of/).waitFor();
  assert.equal(await operator.getByRole("button", { name: /Promote|Accept|Replicate / }).count(), 0);
  assert.deepEqual(operator.wrong, []);
  await operator.context().close();
  const volumes = await head.json("volume", "list", "vault");
  assert.deepEqual(volumes.map((volume) => volume.name), ["vault/from/site"]);
}

export async function promotesCopy({ browser, head }) {
  const page = await browser.page({ path: "replication", size: "phone", colours: "dark" });
  await pool(page, "vault").getByRole("button", { name: "Promote vault/from/site" }).click();
  const form = dialog(page);
  assert.equal(await form.getByLabel("Copies", { exact: true }).inputValue(), "vault/from/site");
  await button(form, "Show the preview").click();
  const told = form.getByRole("region", { name: "Preview" });
  await told.getByText(/contents of/).waitFor();
  await assertAccessible(page, "the promotion of a copy");
  await assertFits(page, "the promotion of a copy");
  assert.ok(await button(form, "Promote them").isDisabled());
  await form.getByLabel("Type vault/from/site to continue", { exact: true }).fill("vault/from/site");
  await button(form, "Promote them").click();
  await form.getByRole("alert").getByText(/say that the originals are lost/).waitFor();
  await form.getByLabel("The originals are served nowhere, and never will be again", { exact: true }).check();
  await send(page, "Promote them");
  await pool(page, "vault").getByText(/^promoted /).waitFor();
  await visit(page, "");
  await page.getByRole("heading", { name: "Heads and pools" }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();

  // It receives nothing more from there, and the page of the original shows that.
  const source = await browser.page({ path: "replication" });
  await pool(source, "tank").getByRole("button", { name: "Run now tank/site" }).click();
  await pool(source, "tank").getByText(/was promoted/).first().waitFor();
  await pool(source, "tank").getByRole("button", { name: "Replicate no more tank/site" }).click();
  await send(source, "Replicate it no more");
  await pool(source, "tank").getByText("Nothing of this pool is replicated.").waitFor();
  await source.context().close();
  const copies = await head.json("volume", "list", "vault");
  assert.equal(copies.length, 1);
}
