// The usual layouts of a pool, and the groups that each builds from a list of disks.

import type { DeviceGroup, GroupKind } from "../api/types";

export type Layout = "mirror" | "mirror-pairs" | "raidz1" | "raidz2" | "raidz3" | "stripe";

export const LAYOUTS: [Layout, string, number][] = [
  ["mirror", "Mirror: every disk holds all data", 2],
  ["mirror-pairs", "Mirrors of two disks each", 2],
  ["raidz1", "raidz1: one disk may fail", 3],
  ["raidz2", "raidz2: two disks may fail", 4],
  ["raidz3", "raidz3: three disks may fail", 5],
  ["stripe", "Stripe: no disk may fail", 1],
];

export function groupsOf(layout: Layout, devices: string[]): DeviceGroup[] {
  const group = (kind: GroupKind, of: string[]): DeviceGroup => ({ kind, role: "data", devices: of });
  switch (layout) {
    case "mirror":
      return [group("mirror", devices)];
    case "mirror-pairs":
      return devices.filter((_, index) => index % 2 === 0).map((_, pair) => group("mirror", devices.slice(pair * 2, pair * 2 + 2)));
    case "stripe":
      return [group("stripe", devices)];
    default:
      return [group({ raidz: { parity: Number(layout.slice(-1)) } }, devices)];
  }
}

export function layoutProblem(layout: Layout, devices: string[]): string | null {
  const least = LAYOUTS.find(([name]) => name === layout)?.[2] ?? 1;
  if (devices.length < least) return `choose at least ${least} disks for this layout`;
  if (layout === "mirror-pairs" && devices.length % 2 === 1) return "choose an even number of disks";
  return null;
}
