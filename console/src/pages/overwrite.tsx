// Whether a disk may be used that holds something: the same words wherever disks are chosen.

import { Check } from "../parts/fields";
import { may } from "../state/session";

interface OverwriteProps {
  checked: boolean;
  onValue: (checked: boolean) => void;
}

/** What has to be typed, and is sent as confirmation, before these disks are overwritten. */
export const lost = (overwrite: boolean, paths: string[]): string | undefined => (overwrite ? paths.join(" ") : undefined);

/** It destroys data, so that only an admin is asked. */
export function Overwrite({ checked, onValue }: OverwriteProps) {
  if (!may("admin")) return null;
  return (
    <Check
      label="Use disks also if something is on them"
      hint="An old pool, a file system, partitions: all of it is lost."
      checked={checked}
      onValue={onValue}
    />
  );
}
