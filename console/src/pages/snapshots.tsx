// Lists of snapshots and actions on them, of volumes and of file systems alike.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Done, FilesystemView, SnapshotView } from "../api/types";
import { post, remove } from "../api/client";
import { confirmed, poolOf, poolPath, snapshotPath, volumeOf, withoutPool } from "../api/paths";
import { Button, Card, Page } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input } from "../parts/fields";
import { age, bytes, moment, plural } from "../parts/format";
import { List, type ListColumn } from "../parts/list";
import { useOfPools } from "../state/loaded";
import { link } from "../state/route";
import { servedPools } from "./volumes";

/** Snapshots that one request destroys: a request has a maximum length. */
const DESTROYED_AT_ONCE_MAX = 200;

const tagOf = (snapshot: string): string => snapshot.split("@")[1] ?? "";

const COLUMNS: ListColumn<SnapshotView>[] = [
  { title: "Taken", order: (one) => one.created_unix_s, cell: (one) => <Taken at_s={one.created_unix_s} /> },
  { title: "Held only by it", number: true, order: (one) => one.used, cell: (one) => bytes(one.used) },
];

function Taken({ at_s }: { at_s: number | null | undefined }) {
  if (!at_s) return <>–</>;
  return <>{moment(at_s * 1000)} <small class="age">{age(at_s * 1000)} ago</small></>;
}

interface SnapshotsCardProps {
  /** The volume or file system. */
  of: string;
  snapshots: SnapshotView[] | null;
  actions: (snapshot: SnapshotView) => ComponentChildren;
  onChange: () => void;
}

/** The snapshots of one volume or file system, the newest first. */
export function SnapshotsCard({ of, snapshots, actions, onChange }: SnapshotsCardProps) {
  const [destroying, setDestroying] = useState<string[] | null>(null);
  return (
    <Card title="Snapshots" wide>
      <List<SnapshotView>
        name="snapshots"
        caption={`Snapshots of ${of}`}
        many="snapshots"
        rows={snapshots ?? []}
        keyOf={(one) => one.name}
        texts={(one) => [tagOf(one.name), one.name]}
        empty={snapshots ? "There is no snapshot. Create one before a risky change: it needs no time and no space." : "Asking …"}
        newestBy="Taken"
        columns={[
          { title: "Snapshot", order: (one) => tagOf(one.name), cell: (one) => <span class="mono">@{tagOf(one.name)}</span> },
          ...COLUMNS,
          { title: "Actions", quiet: true, cell: actions },
        ]}
        bulk={{ needs: "admin", actions: (selected) => <DestroySelected selected={selected} onAsk={setDestroying} /> }}
      />
      {destroying && <DestroySnapshots names={destroying} onClose={() => { setDestroying(null); onChange(); }} />}
    </Card>
  );
}

/** The snapshots of all pools. */
export function SnapshotsPage() {
  const pools = servedPools();
  const [destroying, setDestroying] = useState<string[] | null>(null);
  const found = useOfPools<SnapshotView>(pools, "snapshots");
  const filesystems = new Set((useOfPools<FilesystemView>(pools, "filesystems") ?? []).map(({ item }) => item.name));
  const ownerLink = (snapshot: string): string =>
    link(filesystems.has(volumeOf(snapshot)) ? "filesystems" : "volumes", volumeOf(snapshot));
  const rows = (found ?? []).map(({ item }) => item);
  return (
    <Page title="Snapshots">
      <Card title="Snapshots of all volumes and file systems" wide>
        {found === null && pools.length > 0 ? <p role="status">Asking …</p> : (
          <List<SnapshotView>
            name="snapshots"
            caption="Snapshots"
            many="snapshots"
            rows={rows}
            keyOf={(one) => one.name}
            texts={(one) => [one.name, withoutPool(one.name), tagOf(one.name)]}
            empty={pools.length > 0 ? "There is no snapshot yet." : "No pool is served; snapshots are of volumes in pools."}
            newestBy="Taken"
            columns={[
              { title: "Snapshot", order: (one) => one.name, cell: (one) => <a class="mono" href={ownerLink(one.name)}>{one.name}</a> },
              ...COLUMNS,
            ]}
            bulk={{ needs: "admin", actions: (selected) => <DestroySelected selected={selected} onAsk={setDestroying} /> }}
          />
        )}
      </Card>
      {destroying && <DestroySnapshots names={destroying} onClose={() => setDestroying(null)} />}
    </Page>
  );
}

function DestroySelected({ selected, onAsk }: { selected: SnapshotView[]; onAsk: (names: string[]) => void }) {
  return (
    <Button kind="danger" onClick={() => onAsk(selected.map((one) => one.name))}>
      Destroy {plural(selected.length, "snapshot")}
    </Button>
  );
}

/** One confirmation for all of them, which it names. */
export function DestroySnapshots({ names, onClose }: { names: string[]; onClose: () => void }) {
  const count = plural(names.length, "snapshot");
  return (
    <FormDialog title={`Destroy ${count}`} action={`Destroy ${count}`} danger typed={names.length === 1 ? names[0] : count} onClose={onClose}
      submit={async () => {
        for (const some of batches(names)) {
          const request = { snapshot: { destroy: { names: some } } };
          await post<{ done: Done }>(`${poolPath(poolOf(some[0] ?? ""))}/requests`, { request, confirm: some.join(" ") });
        }
        return `${count} destroyed`;
      }}>
      <p>The data that only they contain is lost. The volumes and file systems stay as they are.</p>
      <ul class="list names mono" tabIndex={0} role="list" aria-label="Snapshots that are destroyed">
        {names.map((name) => <li key={name}>{name}</li>)}
      </ul>
    </FormDialog>
  );
}

/** A request is to one pool. */
function batches(names: string[]): string[][] {
  const ofPools = new Map<string, string[]>();
  for (const name of names) ofPools.set(poolOf(name), [...(ofPools.get(poolOf(name)) ?? []), name]);
  return [...ofPools.values()].flatMap((all) => {
    const count = Math.ceil(all.length / DESTROYED_AT_ONCE_MAX);
    return Array.from({ length: count }, (_, at) => all.slice(at * DESTROYED_AT_ONCE_MAX, (at + 1) * DESTROYED_AT_ONCE_MAX));
  });
}

const newName = (): string => `at-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-")}`;

interface SnapshotManyProps {
  of: string[];
  /** What each of them is, in the singular. */
  what: string;
  onClose: () => void;
}

/** A snapshot of each; those of one pool at the same instant. */
export function SnapshotMany({ of, what, onClose }: SnapshotManyProps) {
  const [name, setName] = useState(newName);
  return (
    <FormDialog title={`Take a snapshot of ${plural(of.length, what)}`} action="Take them" onClose={onClose}
      submit={async () => {
        for (const some of batches(of)) {
          await post<Done>(`${poolPath(poolOf(some[0] ?? ""))}/snapshots`, { names: some.map((one) => `${one}@${name}`) });
        }
        return `${plural(of.length, what)}: snapshot @${name} taken`;
      }}>
      <ul class="list names mono" tabIndex={0} role="list" aria-label="Of these">{of.map((one) => <li key={one}>{one}</li>)}</ul>
      <Input label="Name" value={name} onValue={setName} required mono />
    </FormDialog>
  );
}

export function TakeSnapshot({ of, onClose }: { of: string; onClose: () => void }) {
  const [name, setName] = useState(newName);
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
