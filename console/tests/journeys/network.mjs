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

/** A socket between IPv6 addresses on an interface with the longest name, and a long reason. */
const LONGEST = {
  at: "enp129s0f1np1d15.queue-rx-123456",
  cause: "a queue of the network driver was full, because the processor that empties it was busy",
  count: 123_456_789_012,
  layer: "interface",
  local: "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535",
  peer: "[2001:db8:1234:5678:9abc:def0:8765:4321]:65535",
  reason: "SKB_DROP_REASON_TCP_ABORT_ON_DATA_UNKNOWN",
  remedy: "a larger queue: ethtool -G enp129s0f1np1d15 rx 8192",
  total: 123_456_789_012,
};

async function fitsLongNames(browser) {
  for (const size of ["desktop", "phone"]) {
    const page = await browser.page({ role: "read-only", size });
    const view = { seconds: 5, losses: [LONGEST], more: 0, notes: [] };
    await page.route("**/api/v1/drops", (route) => route.fulfill({ json: view }));
    await visit(page, "network");
    await page.getByText(LONGEST.reason, { exact: true }).first().waitFor();
    await assertFits(page, `long names of lost packets, ${size}`);
    await page.context().close();
  }
}

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
    await fitsLongNames(browser);
  } finally {
    loser.kill();
    await once(loser, "exit");
  }
}
