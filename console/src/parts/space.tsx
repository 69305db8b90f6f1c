// The space of a pool as available to its volumes; the space of the devices until that is known.

import type { ComponentChildren } from "preact";
import type { PoolStatus } from "../api/types";
import { Meter } from "./basics";
import { bytes, percent } from "./format";

export function SpaceMeter({ label, pool }: { label: string; pool: PoolStatus }) {
  const space = pool.space;
  if (!space) {
    const share = Math.round(percent(pool.allocated, pool.size));
    return <Meter label={label} part={pool.allocated} whole={pool.size} text={`${bytes(pool.allocated)} of ${bytes(pool.size)}, ${share} %`} />;
  }
  const full = space.refuses ? 100 : space.full_percent;
  const word = space.refuses ? "writes are refused" : `${space.full_percent} % full`;
  return <Meter label={label} part={full} whole={100} text={`${word}, ${bytes(space.available)} of ${bytes(space.usable)} left`} />;
}

/** Further text. */
export function spaceFacts(pool: PoolStatus | null): [string, ComponentChildren][] {
  const space = pool?.space;
  if (!space) return [["Free on the devices", pool ? bytes(pool.free) : "–"]];
  const facts: [string, ComponentChildren][] = [
    ["Written", bytes(space.written)],
    ["Reserved and not written", bytes(space.reserved)],
    ["Left", bytes(space.available)],
    ["Sizes of all volumes", bytes(space.promised)],
  ];
  if (space.overcommitted > 0) facts.push(["More than there is room for", bytes(space.overcommitted)]);
  return facts;
}
