// The confirmation to remove an object that clients are connected to, with the same text everywhere.

import type { SessionView } from "../api/types";
import { Check } from "../parts/fields";
import { plural } from "../parts/format";

interface AlsoThenProps {
  checked: boolean;
  onValue: (checked: boolean) => void;
}

interface InUseProps extends AlsoThenProps {
  sessions: SessionView[];
}

export function InUse({ sessions, checked, onValue }: InUseProps) {
  if (sessions.length === 0) return null;
  return (
    <>
      <p>In use by {plural(sessions.length, "client")}:</p>
      <ul class="list mono">{sessions.slice(0, 4).map((one) => <li key={one.peers.join(" ")}>{one.name} from {one.peers.join(", ")}</li>)}</ul>
      <AlsoThen checked={checked} onValue={onValue} />
    </>
  );
}

/** The same where only the number of clients is known. */
export function InUseBy({ count, checked, onValue }: AlsoThenProps & { count: number }) {
  if (count === 0) return null;
  return (
    <>
      <p>In use by {plural(count, "client")}.</p>
      <AlsoThen checked={checked} onValue={onValue} />
    </>
  );
}

function AlsoThen({ checked, onValue }: AlsoThenProps) {
  return (
    <Check label="Also while they are connected" hint="Their connections end, and their unwritten data is lost." checked={checked} onValue={onValue} />
  );
}
