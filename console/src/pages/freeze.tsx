// Pausing the writes of a volume for a copy elsewhere, and resuming them.

import { useState } from "preact/hooks";
import type { Done, VolumeView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolOf, poolPath } from "../api/paths";
import { Button } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input } from "../parts/fields";

const SECONDS = 10;
/** The server's limit. */
const SECONDS_MAX = 60;

/** Nothing for a volume without exports, which has no writes. */
export function FreezeButton({ volume, onClick }: { volume: VolumeView; onClick: () => void }) {
  if (volume.exports.length === 0 && !volume.frozen) return null;
  return <Button needs="operator" onClick={onClick}>{volume.frozen ? "Thaw" : "Freeze"}</Button>;
}

export function Freeze({ volume, onClose }: { volume: VolumeView; onClose: () => void }) {
  const [seconds, setSeconds] = useState(String(SECONDS));
  const { name } = volume;
  if (volume.frozen) {
    return (
      <FormDialog title={`Thaw ${name}`} action="Thaw" onClose={onClose}
        submit={async () => (await post<Done>(`${poolPath(poolOf(name))}/thaw`, { names: [name] })).message}>
        <p>Writes of clients continue. This fails if writes were not paused until now: then a copy is not consistent.</p>
      </FormDialog>
    );
  }
  return (
    <FormDialog title={`Freeze ${name}`} action="Freeze" onClose={onClose}
      submit={async () => {
        const wanted = Number(seconds);
        if (!Number.isInteger(wanted) || wanted < 1 || wanted > SECONDS_MAX) {
          throw mistake(`${seconds} is no number of seconds from 1 to ${SECONDS_MAX}`);
        }
        return (await post<Done>(`${poolPath(poolOf(name))}/freeze`, { names: [name], seconds: wanted })).message;
      }}>
      <p>All written data is flushed to the disks. Writes of clients are paused, reads continue. Clients are not notified.</p>
      <Input label="Seconds" hint="After this time writes continue by themselves." value={seconds} onValue={setSeconds} numeric required />
    </FormDialog>
  );
}
