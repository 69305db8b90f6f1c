// Whether a disk may be used that holds something: the same words wherever disks are chosen.

import { Check } from "../parts/fields";

interface OverwriteProps {
  checked: boolean;
  onValue: (checked: boolean) => void;
}

export function Overwrite({ checked, onValue }: OverwriteProps) {
  return (
    <Check
      label="Use disks also if something is on them"
      hint="An old pool, a file system, partitions: all of it is lost."
      checked={checked}
      onValue={onValue}
    />
  );
}
