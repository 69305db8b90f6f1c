// The confirmation to use a disk that contains data, with the same text everywhere.

import { Check } from "../parts/fields";
import { may } from "../state/session";

interface OverwriteProps {
  checked: boolean;
  onValue: (checked: boolean) => void;
}

/** The text that must be typed, and is sent as confirmation, before these disks are overwritten. */
export const lost = (overwrite: boolean, paths: string[]): string | undefined => (overwrite ? paths.join(" ") : undefined);

/** It destroys data, so it is offered to an admin only. */
export function Overwrite({ checked, onValue }: OverwriteProps) {
  if (!may("admin")) return null;
  return (
    <Check
      label="Use disks even if they contain data"
      hint="An old pool, a file system, partitions: all of it is lost."
      checked={checked}
      onValue={onValue}
    />
  );
}
