// Packets that are lost on purpose are shown with their cause.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { assertAccessible, assertFits, visit } from "../world/browser.mjs";

/** Sends packets to a socket that never reads. */
const LOSER = `
import socket
full, sender = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
full.bind(("127.0.0.1", 0))
print("bound", flush=True)
while True:
    sender.sendto(bytes(512), full.getsockname())
`;

export async function showsLostPackets({ browser }) {
  const loser = spawn("python3", ["-c", LOSER], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(loser.stdout, "data");
    const page = await browser.page({ role: "read-only", path: "network" });
    const table = page.getByRole("table", { name: "Lost packets of this head" });
    const row = table.getByRole("row", { name: /RcvbufErrors/ }).first();
    await row.waitFor();
    await row.getByText("the receive buffer of a UDP socket was full").waitFor();
    const count = await row.getByRole("cell").first().innerText();
    assert.match(count, /^[\d,]+$/);
    await page.getByText("Measured over 5 s").waitFor();
    await assertAccessible(page, "lost packets");
    assert.deepEqual(page.wrong, []);
    await page.context().close();

    const phone = await browser.page({ role: "read-only", size: "phone" });
    await visit(phone, "network");
    await phone.getByText("RcvbufErrors", { exact: true }).first().waitFor();
    await assertAccessible(phone, "lost packets on a phone");
    await assertFits(phone, "lost packets on a phone");
    assert.deepEqual(phone.wrong, []);
    await phone.context().close();
  } finally {
    loser.kill();
    await once(loser, "exit");
  }
}
