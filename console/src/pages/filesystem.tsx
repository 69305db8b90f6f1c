// One file system: its share and clients, its limits, its snapshots.

import { useState } from "preact/hooks";
import type { Done, FilesystemView, FileClientView, OpenFilesView, OpenFileView, RolledBack, SnapshotView } from "../api/types";
import { patch, post, remove } from "../api/client";
import { confirmed, filesystemPath, poolOf, poolPath } from "../api/paths";
import { Button, Card, Facts, Page, Table } from "../parts/basics";
import { Chart } from "../parts/chart";
import { FormDialog } from "../parts/dialog";
import { Check, Input } from "../parts/fields";
import { bytes, duration } from "../parts/format";
import { useLoaded } from "../state/loaded";
import { go, link } from "../state/route";
import { may } from "../state/session";
import { PromoteDataset, PropertiesCard, RenameDataset } from "./datasets";
import { Share, sizeOf } from "./filesystems";
import { OwnersCard } from "./owners";
import { RetentionCard } from "./retention";
import { CloneSnapshot, RemoveSnapshot, RenameSnapshot, SnapshotsCard, TakeSnapshot } from "./snapshots";

type Asked =
  | { kind: "snapshot" | "share" | "limits" | "destroy" | "another-name" | "promote" }
  | { kind: "expire"; client: FileClientView }
  | { kind: "rollback" | "rename" | "clone" | "forget"; snapshot: SnapshotView };

export function FilesystemPage({ name }: { name: string }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const found = useLoaded<FilesystemView>(filesystemPath(name));
  const open = useLoaded<OpenFilesView>(`${filesystemPath(name)}/open-files`);
  const snapshots = useLoaded<SnapshotView[]>(`${poolPath(poolOf(name))}/snapshots?volume=${encodeURIComponent(name)}`);
  const above = <><a href={link("filesystems")}>File systems</a> in <a href={link("pools", poolOf(name))}>{poolOf(name)}</a></>;
  const reload = (): void => {
    setAsked(null);
    void found.reload();
    void open.reload();
    void snapshots.reload();
  };
  return (
    <Page
      title={`File system ${name}`}
      above={above}
      actions={found.data && (
        <>
          <Button needs="operator" kind="primary" icon="snapshot" onClick={() => setAsked({ kind: "snapshot" })}>Take a snapshot</Button>
          <Button needs="admin" onClick={() => setAsked({ kind: "share" })}>Share it</Button>
          <Button needs="operator" onClick={() => setAsked({ kind: "limits" })}>Limits</Button>
          <Button needs="operator" onClick={() => setAsked({ kind: "another-name" })}>Rename</Button>
          {found.data.origin && <Button needs="operator" onClick={() => setAsked({ kind: "promote" })}>Promote</Button>}
          <Button needs="admin" kind="danger" onClick={() => setAsked({ kind: "destroy" })}>Destroy</Button>
        </>
      )}
    >
      {found.error && <p role="alert">{found.error.failure.message}</p>}
      <div class="grid">
        {found.data && <Summary found={found.data} />}
        {found.data && found.data.share.value !== "off" && (
          <>
            <Card title="Throughput"><Chart of="filesystems" measure="throughput" name={name} label="Bytes per second" /></Card>
            <Card title="Latency"><Chart of="filesystems" measure="latency" name={name} label="Mean time of a response" /></Card>
          </>
        )}
        {found.data && <Clients found={found.data} />}
        {open.data && <Holders open={open.data} ask={setAsked} />}
        {open.data && open.data.files.length > 0 && <OpenFiles open={open.data} />}
        {found.data && !found.data.locked && <OwnersCard name={name} />}
        <SnapshotsCard of={name} snapshots={snapshots.data} onChange={reload}
          actions={(snapshot) => <SnapshotButtons snapshot={snapshot} ask={setAsked} />} />
        <RetentionCard of={name} snapshots={snapshots.data} />
        {found.data && (
          <PropertiesCard noun="filesystem" name={name} properties={found.data.properties ?? {}} onChange={reload} />
        )}
      </div>
      {asked && found.data && <Dialogs found={found.data} asked={asked} onClose={reload} />}
    </Page>
  );
}

function SnapshotButtons({ snapshot, ask }: { snapshot: SnapshotView; ask: (asked: Asked) => void }) {
  const named = <span class="unseen"> {snapshot.name}</span>;
  return (
    <div class="actions">
      <Button needs="operator" onClick={() => ask({ kind: "rollback", snapshot })}>Roll back to it<span class="unseen">: {snapshot.name}</span></Button>
      <Button needs="operator" onClick={() => ask({ kind: "clone", snapshot })}>Clone{named}</Button>
      <Button needs="operator" onClick={() => ask({ kind: "rename", snapshot })}>Rename{named}</Button>
      <Button needs="admin" onClick={() => ask({ kind: "forget", snapshot })}>Remove{named}</Button>
    </div>
  );
}

const limit = (size: number | null | undefined): string => (size ? bytes(size) : "none");

function Summary({ found }: { found: FilesystemView }) {
  const property = (name: string): string => found.properties?.[name]?.value ?? "–";
  return (
    <Card title="Summary" wide>
      <Facts
        facts={[
          ["State", found.locked ? "locked: its key is not loaded" : "open"],
          ["Shared", <Share share={found.share} />],
          ["Used with its snapshots", bytes(found.used)],
          ["Its files", bytes(found.referenced)],
          ["Available", bytes(found.available)],
          ["Quota", limit(found.space?.quota)],
          ["Quota without snapshots", limit(found.space?.refquota)],
          ["Reserved", limit(found.space?.reservation)],
          ["Record size", bytes(Number(found.properties?.recordsize?.value ?? 0))],
          ["Compression", property("compression")],
          ["Clone of", found.origin ?? "nothing"],
        ]}
      />
    </Card>
  );
}

function Clients({ found }: { found: FilesystemView }) {
  return (
    <Card title="Clients" wide>
      <Table<string>
        caption={`Clients of ${found.name}`}
        rows={found.clients ?? []}
        keyOf={(client) => client}
        empty={found.share.value === "off" ? "No client can use it: it is not shared." : "No client uses it now."}
        columns={[{ title: "Client", cell: (client) => <span class="mono">{client}</span> }]}
      />
    </Card>
  );
}

function Holders({ open, ask }: { open: OpenFilesView; ask: (asked: Asked) => void }) {
  return (
    <Card title="Clients with open files" wide>
      <Table<FileClientView>
        caption={`Clients that have files of ${open.name} open or locked`}
        rows={open.clients}
        keyOf={(one) => one.client}
        empty="No client has a file open or locked."
        columns={[
          { title: "Client", cell: (one) => <span class="mono">{one.address}</span> },
          { title: "Calls itself", optional: true, cell: (one) => one.name },
          { title: "NFS", cell: (one) => one.version },
          { title: "Heard of", cell: (one) => (one.expired ? `${one.silent_s} s ago: its lease is over` : `${one.silent_s} s ago`) },
          { title: "Open", number: true, cell: (one) => one.opens },
          { title: "Locks", number: true, cell: (one) => one.locks },
          { title: "Waits for", number: true, optional: true, cell: (one) => one.waiting || "" },
          {
            title: "Actions",
            quiet: true,
            cell: (one) => (
              <Button needs="operator" onClick={() => ask({ kind: "expire", client: one })}>
                Take it away<span class="unseen"> from {one.address}</span>
              </Button>
            ),
          },
        ]}
      />
    </Card>
  );
}

const range = (offset: number, length: number | null | undefined): string =>
  length == null ? (offset === 0 ? "all" : `from ${offset}`) : `${offset}–${offset + length - 1}`;

function OpenFiles({ open }: { open: OpenFilesView }) {
  const addresses = new Map(open.clients.map((one) => [one.client, one.address]));
  const who = (client: string): string => addresses.get(client) ?? client;
  const more = (count: number, told: number): string => (count > told ? ` and ${count - told} more` : "");
  return (
    <Card title="Open files" wide>
      <Table<OpenFileView>
        caption={`Files of ${open.name} that are open or locked`}
        rows={open.files}
        keyOf={(file) => `${file.of_snapshot} ${file.object}`}
        empty="No file is open or locked."
        columns={[
          { title: "File", cell: (file) => <span class="mono">{file.path ?? `object ${file.object}${file.of_snapshot ? " of a snapshot" : ""}`}</span> },
          {
            title: "Open",
            optional: true,
            cell: (file) =>
              (file.opens ?? []).map((one) => `${who(one.client)} (${one.write ? "writes" : "reads"})`).join(", ") + more(file.open_count, (file.opens ?? []).length),
          },
          {
            title: "Locked",
            optional: true,
            cell: (file) =>
              (file.locks ?? []).map((one) => `${who(one.client)} (${one.exclusive ? "exclusive" : "shared"}, ${range(one.offset, one.length)})`).join(", ") +
              more(file.lock_count, (file.locks ?? []).length),
          },
          { title: "Waits", optional: true, cell: (file) => (file.waiting ?? []).map((one) => who(one.client)).join(", ") },
        ]}
      />
      {open.file_count > open.files.length && <p>{open.file_count - open.files.length} more files are open.</p>}
    </Card>
  );
}

function Expire({ found, client, onClose }: { found: FilesystemView; client: FileClientView; onClose: () => void }) {
  return (
    <FormDialog title={`Take away what ${client.address} has open`} action="Take it away" onClose={onClose}
      submit={async () => {
        const request = { filesystem: { expire_client: { name: found.name, client: client.client, in_use: true } } };
        return (await post<{ done: Done }>(`${poolPath(poolOf(found.name))}/requests`, { request })).done.message;
      }}>
      <p>It loses all files that it has open in this pool, and all locks. Whoever waits for one of them gets it. If the client still lives, its programs that had locks get errors.</p>
    </FormDialog>
  );
}

function Dialogs({ found, asked, onClose }: { found: FilesystemView; asked: Asked; onClose: () => void }) {
  switch (asked.kind) {
    case "snapshot":
      return <TakeSnapshot of={found.name} onClose={onClose} />;
    case "share":
      return <ShareIt found={found} onClose={onClose} />;
    case "limits":
      return <Limits found={found} onClose={onClose} />;
    case "destroy":
      return <Destroy found={found} onClose={onClose} />;
    case "another-name":
      return (
        <RenameDataset noun="filesystem" name={found.name} path={filesystemPath(found.name)} onRenamed={(name) => go("filesystems", name)} onClose={onClose} />
      );
    case "promote":
      return <PromoteDataset noun="filesystem" name={found.name} origin={found.origin ?? ""} onClose={onClose} />;
    case "expire":
      return <Expire found={found} client={asked.client} onClose={onClose} />;
    case "rollback":
      return <Rollback found={found} snapshot={asked.snapshot} onClose={onClose} />;
    case "rename":
      return <RenameSnapshot snapshot={asked.snapshot} onClose={onClose} />;
    case "clone":
      return <CloneSnapshot snapshot={asked.snapshot} what="file system" onMade={(name) => go("filesystems", name)} onClose={onClose} />;
    case "forget":
      return <RemoveSnapshot snapshot={asked.snapshot} what="file system" onClose={onClose} />;
  }
}

function ShareIt({ found, onClose }: { found: FilesystemView; onClose: () => void }) {
  const isOwn = found.properties?.sharenfs?.source === "local";
  const [inherit, setInherit] = useState(!isOwn);
  const [value, setValue] = useState(isOwn && found.share.value !== "off" ? found.share.value : "");
  return (
    <FormDialog title={`Share ${found.name}`} action="Share" onClose={onClose}
      submit={async () => {
        const change = inherit ? { inherit: ["sharenfs"] } : { properties: { sharenfs: value.trim() || "off" } };
        return (await patch<Done>(filesystemPath(found.name), change)).message;
      }}>
      <p>Clients of these networks use it over NFS. It changes at once, also for clients that are connected.</p>
      <Check label="As the one above it" checked={inherit} onValue={setInherit} />
      {!inherit && (
        <Input label="Shared with" hint="such as rw=192.0.2.0/24,ro=198.51.100.7; nothing: it is not shared" value={value} onValue={setValue} mono />
      )}
    </FormDialog>
  );
}

/** Sends sizes as typed, so that their spelling is preserved. */
function Limits({ found, onClose }: { found: FilesystemView; onClose: () => void }) {
  const before = (size: number | null | undefined): string => (size ? String(size) : "");
  const [quota, setQuota] = useState(before(found.space?.quota));
  const [refquota, setRefquota] = useState(before(found.space?.refquota));
  const [reservation, setReservation] = useState(before(found.space?.reservation));
  return (
    <FormDialog title={`Limits of ${found.name}`} action="Set the limits" onClose={onClose}
      submit={async () => {
        const properties = {
          quota: sizeOf(quota) ?? "none", refquota: sizeOf(refquota) ?? "none", reservation: sizeOf(reservation) ?? "none",
        };
        return (await patch<Done>(filesystemPath(found.name), { properties })).message;
      }}>
      <Input label="Quota" hint="including its snapshots and descendants, such as 100G; empty: no limit" value={quota} onValue={setQuota} />
      <Input label="Quota without snapshots" hint="its own files alone; nothing: no limit" value={refquota} onValue={setRefquota} />
      <Input label="Reserved" hint="space that is guaranteed to it; empty: none" value={reservation} onValue={setReservation} />
    </FormDialog>
  );
}

function Destroy({ found, onClose }: { found: FilesystemView; onClose: () => void }) {
  const [recursive, setRecursive] = useState(false);
  const [shared, setShared] = useState(false);
  return (
    <FormDialog title={`Destroy ${found.name}`} action="Destroy the file system" danger typed={found.name} onClose={onClose}
      submit={async () => {
        const path = confirmed(filesystemPath(found.name), found.name, `&recursive=${recursive}&shared=${shared}`);
        const done = await remove<Done>(path);
        go("filesystems");
        return done.message;
      }}>
      <p>All files of {found.name} are lost.</p>
      <Check label="Its snapshots too, and all that is below it" checked={recursive} onValue={setRecursive} />
      {found.share.value !== "off" && (
        <Check label="Even though it is shared: its clients lose it" checked={shared} onValue={setShared} />
      )}
    </FormDialog>
  );
}

function Rollback({ found, snapshot, onClose }: { found: FilesystemView; snapshot: SnapshotView; onClose: () => void }) {
  const [destroyNewer, setDestroyNewer] = useState(false);
  return (
    <FormDialog title={`Roll ${found.name} back`} action="Roll back" danger typed={snapshot.name} onClose={onClose}
      submit={async () => {
        const answer = await post<{ rolled_back: RolledBack }>(`${poolPath(poolOf(found.name))}/requests`, {
          request: { filesystem: { rollback: { to: snapshot.name, destroy_newer: destroyNewer } } },
          confirm: snapshot.name,
        });
        return `${found.name} is as it was at ${answer.rolled_back.to} (${duration(answer.rolled_back.took_ms)})`;
      }}>
      <p>
        {found.name} becomes what it was at <b class="mono">@{snapshot.name.split("@")[1]}</b>. What was written since is lost.
        Clients wait meanwhile. What they have open and was made since is gone for them.
      </p>
      {may("admin") && (
        <Check label="Remove the snapshots that are newer" checked={destroyNewer} onValue={setDestroyNewer}
          hint="A file system can only go back past a snapshot when that snapshot goes." />
      )}
    </FormDialog>
  );
}
