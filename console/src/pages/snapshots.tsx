// Actions on snapshots, of volumes and of file systems alike.

import { useState } from "preact/hooks";
import type { Done, SnapshotView } from "../api/types";
import { post, remove } from "../api/client";
import { confirmed, poolOf, poolPath, snapshotPath } from "../api/paths";
import { FormDialog } from "../parts/dialog";
import { Input } from "../parts/fields";

export function TakeSnapshot({ of, onClose }: { of: string; onClose: () => void }) {
  const [name, setName] = useState(() => `at-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-")}`);
  return (
    <FormDialog title={`Take a snapshot of ${of}`} action="Take it" onClose={onClose}
      submit={async () => (await post<Done>(`${poolPath(poolOf(of))}/snapshots`, { names: [`${of}@${name}`] })).message}>
      <Input label="Name" value={name} onValue={setName} required mono />
    </FormDialog>
  );
}

export function RenameSnapshot({ snapshot, onClose }: { snapshot: SnapshotView; onClose: () => void }) {
  const [of, before] = snapshot.name.split("@");
  const [name, setName] = useState(before ?? "");
  return (
    <FormDialog title={`Rename ${snapshot.name}`} action="Rename" onClose={onClose}
      submit={async () => (await post<Done>(`${snapshotPath(snapshot.name)}/rename`, { to: `${of}@${name}` })).message}>
      <p>A schedule that took it no longer counts it, and never removes it.</p>
      <Input label="New name" value={name} onValue={setName} required mono />
    </FormDialog>
  );
}

/** `what` it is of: a volume, a file system. */
export function RemoveSnapshot({ snapshot, what, onClose }: { snapshot: SnapshotView; what: string; onClose: () => void }) {
  return (
    <FormDialog title={`Remove ${snapshot.name}`} action="Remove the snapshot" danger typed={snapshot.name} onClose={onClose}
      submit={async () => (await remove<Done>(confirmed(snapshotPath(snapshot.name), snapshot.name))).message}>
      <p>The {what} stays as it is; it cannot be rolled back to this moment any more.</p>
    </FormDialog>
  );
}

interface CloneProps {
  snapshot: SnapshotView;
  what: string;
  onMade: (name: string) => void;
  onClose: () => void;
}

export function CloneSnapshot({ snapshot, what, onMade, onClose }: CloneProps) {
  const [to, setTo] = useState(`${snapshot.name.split("@")[0]}-copy`);
  return (
    <FormDialog title={`Clone ${snapshot.name}`} action="Clone" onClose={onClose}
      submit={async () => {
        const done = await post<Done>(`${snapshotPath(snapshot.name)}/clone`, { to, properties: {} });
        onMade(to);
        return done.message;
      }}>
      <p>A new {what} with these contents. It takes space only for what is written to it.</p>
      <Input label={`New ${what}`} value={to} onValue={setTo} required mono />
    </FormDialog>
  );
}
