// The progress of a scrub or a resilver, and its result.

import type { ScanView } from "../api/types";
import { Progress } from "./basics";
import { bytes, duration, moment, percent, plural } from "./format";

export function ScanProgress({ scan }: { scan: ScanView | null }) {
  if (!scan) return <p class="muted">Never scrubbed.</p>;
  const name = scan.function === "resilver" ? "Resilver" : "Scrub";
  const found = `${scan.repaired > 0 ? `${bytes(scan.repaired)} repaired` : "nothing to repair"}${
    scan.errors > 0 ? `, ${plural(scan.errors, "block")} lost` : ""}`;
  if (scan.state !== "running" && scan.state !== "paused") {
    const began = scan.started ? `, began ${moment(scan.started * 1000)}` : "";
    return <p class="muted">{name} {scan.state}{began}: {found}.</p>;
  }
  const left = scan.state === "running" && scan.remaining_s ? `, ${duration(scan.remaining_s * 1000)} left` : "";
  const share = percent(scan.examined, scan.to_examine);
  return (
    <Progress
      label={`${name} of the pool`}
      share={share}
      text={`${name} ${scan.state}: ${Math.floor(share)} %, ${bytes(scan.examined)} of ${bytes(scan.to_examine)}, ${found}${left}`}
    />
  );
}
