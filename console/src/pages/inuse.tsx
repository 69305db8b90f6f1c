// What clients are connected to is taken away only if somebody says so: the same words wherever that is done.

import type { SessionView } from "../api/types";
import { Check } from "../parts/fields";
import { plural } from "../parts/format";

interface InUseProps {
  sessions: SessionView[];
  checked: boolean;
  onValue: (checked: boolean) => void;
}

export function InUse({ sessions, checked, onValue }: InUseProps) {
  if (sessions.length === 0) return null;
  return (
    <>
      <p>In use by {plural(sessions.length, "client")}:</p>
      <ul class="list mono">{sessions.slice(0, 4).map((one) => <li key={one.peers.join(" ")}>{one.name} from {one.peers.join(", ")}</li>)}</ul>
      <Check label="Also while they are connected" hint="Their connections end, and what they have not written is lost." checked={checked} onValue={onValue} />
    </>
  );
}
