// One volume: its load, its snapshots, its clients.

import { useState } from "preact/hooks";
import type { Done, RescueView, RolledBack, SnapshotView, VolumeView } from "../api/types";
import { mistake, patch, post, remove } from "../api/client";
import { confirmed, poolOf, poolPath, volumePath } from "../api/paths";
import { Button, Card, Facts, Page } from "../parts/basics";
import { Chart } from "../parts/chart";
import { FormDialog } from "../parts/dialog";
import { Check, Input } from "../parts/fields";
import { bytes, duration, moment, parseSize, plural } from "../parts/format";
import { useLoaded } from "../state/loaded";
import { go, link } from "../state/route";
import { may } from "../state/session";
import { PromoteDataset, PropertiesCard, RenameDataset } from "./datasets";
import { Freeze, FreezeButton } from "./freeze";
import { MapVolume } from "./maps";
import { BeginRescue, RescueCard } from "./rescue";
import { RetentionCard } from "./retention";
import { CloneSnapshot, RemoveSnapshot, RenameSnapshot, SnapshotsCard, TakeSnapshot } from "./snapshots";
import { Exports } from "./volumes";

type Asked =
  | { kind: "snapshot" | "resize" | "destroy" | "map" | "another-name" | "promote" | "freeze" }
  | { kind: "rescue"; snapshot: string | null }
  | { kind: "rollback" | "rename" | "clone" | "forget"; snapshot: SnapshotView };

export function VolumePage({ name }: { name: string }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const volume = useLoaded<VolumeView>(volumePath(name));
  const snapshots = useLoaded<SnapshotView[]>(`${poolPath(poolOf(name))}/snapshots?volume=${encodeURIComponent(name)}`);
  const rescues = useLoaded<RescueView[]>(`${poolPath(poolOf(name))}/rescues`);
  const rescue = rescues.data?.find((one) => one.volume === name);
  const above = <><a href={link("volumes")}>Volumes</a> in <a href={link("pools", poolOf(name))}>{poolOf(name)}</a></>;
  const reload = (): void => {
    setAsked(null);
    void volume.reload();
    void snapshots.reload();
    void rescues.reload();
  };
  return (
    <Page
      title={`Volume ${name}`}
      above={above}
      actions={volume.data && (
        <>
          <Button needs="operator" kind="primary" icon="snapshot" onClick={() => setAsked({ kind: "snapshot" })}>Take a snapshot</Button>
          <Button needs="operator" onClick={() => setAsked({ kind: "map" })}>Export</Button>
          <Button needs="operator" onClick={() => setAsked({ kind: "resize" })}>Resize</Button>
          <FreezeButton volume={volume.data} onClick={() => setAsked({ kind: "freeze" })} />
          <Button needs="operator" onClick={() => setAsked({ kind: "another-name" })}>Rename</Button>
          {volume.data.origin && <Button needs="operator" onClick={() => setAsked({ kind: "promote" })}>Promote</Button>}
          {rescues.data && !rescue && (
            <Button needs="admin" onClick={() => setAsked({ kind: "rescue", snapshot: null })}>Look into it</Button>
          )}
          <Button needs="admin" kind="danger" onClick={() => setAsked({ kind: "destroy" })}>Destroy</Button>
        </>
      )}
    >
      {volume.error && <p role="alert">{volume.error.failure.message}</p>}
      <div class="grid">
        <Card title="Throughput"><Chart measure="throughput" name={name} label="Bytes per second" /></Card>
        <Card title="Latency"><Chart measure="latency" name={name} label="Mean time of a response" /></Card>
        {rescue && <RescueCard rescue={rescue} reload={reload} />}
        {volume.data && <Summary volume={volume.data} />}
        <SnapshotsCard of={name} snapshots={snapshots.data} onChange={reload}
          actions={(snapshot) => <SnapshotButtons snapshot={snapshot} canLook={!rescue} ask={setAsked} />} />
        <RetentionCard of={name} snapshots={snapshots.data} />
        {volume.data && (
          <PropertiesCard noun="volume" name={name} properties={volume.data.properties ?? {}} onChange={reload} />
        )}
      </div>
      {asked && volume.data && <Dialogs volume={volume.data} asked={asked} onClose={reload} />}
    </Page>
  );
}

interface SnapshotButtonsProps {
  snapshot: SnapshotView;
  canLook: boolean;
  ask: (asked: Asked) => void;
}

function SnapshotButtons({ snapshot, canLook, ask }: SnapshotButtonsProps) {
  const named = <span class="unseen"> {snapshot.name}</span>;
  return (
    <div class="actions">
      <Button needs="operator" onClick={() => ask({ kind: "rollback", snapshot })}>Roll back to it<span class="unseen">: {snapshot.name}</span></Button>
      <Button needs="operator" onClick={() => ask({ kind: "clone", snapshot })}>Clone{named}</Button>
      <Button needs="operator" onClick={() => ask({ kind: "rename", snapshot })}>Rename{named}</Button>
      {canLook && <Button needs="admin" onClick={() => ask({ kind: "rescue", snapshot: snapshot.name })}>Look into{named}</Button>}
      <Button needs="admin" onClick={() => ask({ kind: "forget", snapshot })}>Remove{named}</Button>
    </div>
  );
}

function Summary({ volume }: { volume: VolumeView }) {
  const property = (name: string): string => volume.properties?.[name]?.value ?? "–";
  return (
    <Card title="Summary" wide>
      <Facts
        facts={[
          ["Size", volume.locked ? "locked: its key is not loaded" : bytes(volume.size)],
          ["Block size", volume.locked ? "–" : bytes(volume.block_size)],
          ["Used with its snapshots", bytes(volume.used)],
          ["Present contents", bytes(volume.referenced)],
          ["Space", volume.sparse ? "sparse, none reserved" : "reserved"],
          ["Compression", property("compression")],
          ...(volume.frozen ? [["Writes", `paused until ${moment(volume.frozen.until_ms)}`] as [string, string]] : []),
          ["Clone of", volume.origin ?? "nothing"],
          ["Exports", volume.exports.length > 0 ? <Exports volume={volume} /> : "none"],
        ]}
      />
    </Card>
  );
}

function Dialogs({ volume, asked, onClose }: { volume: VolumeView; asked: Asked; onClose: () => void }) {
  switch (asked.kind) {
    case "snapshot":
      return <TakeSnapshot of={volume.name} onClose={onClose} />;
    case "resize":
      return <Resize volume={volume} onClose={onClose} />;
    case "destroy":
      return <Destroy volume={volume} onClose={onClose} />;
    case "map":
      return <MapVolume pool={poolOf(volume.name)} volume={volume.name} onClose={onClose} />;
    case "another-name":
      return (
        <RenameDataset noun="volume" name={volume.name} path={volumePath(volume.name)} onRenamed={(name) => go("volumes", name)} onClose={onClose} />
      );
    case "promote":
      return <PromoteDataset noun="volume" name={volume.name} origin={volume.origin ?? ""} onClose={onClose} />;
    case "freeze":
      return <Freeze volume={volume} onClose={onClose} />;
    case "rescue":
      return <BeginRescue volume={volume.name} snapshot={asked.snapshot} onClose={onClose} />;
    case "rollback":
      return <Rollback volume={volume} snapshot={asked.snapshot} onClose={onClose} />;
    case "rename":
      return <RenameSnapshot snapshot={asked.snapshot} onClose={onClose} />;
    case "clone":
      return <CloneSnapshot snapshot={asked.snapshot} what="volume" onMade={(name) => go("volumes", name)} onClose={onClose} />;
    case "forget":
      return <RemoveSnapshot snapshot={asked.snapshot} what="volume" onClose={onClose} />;
  }
}

function Resize({ volume, onClose }: { volume: VolumeView; onClose: () => void }) {
  const [size, setSize] = useState(String(volume.size));
  const [shrink, setShrink] = useState(false);
  const wanted = parseSize(size);
  return (
    <FormDialog title={`Resize ${volume.name}`} action="Resize" danger={shrink} typed={shrink ? volume.name : undefined} onClose={onClose}
      submit={async () => {
        if (wanted === null) throw mistake(`${size} is no size: write 20G or 1.5T`);
        return (await patch<Done>(confirmed(volumePath(volume.name), shrink ? volume.name : undefined), { size: wanted, allow_shrink: shrink })).message;
      }}>
      <Input label="New size" hint={`now ${bytes(volume.size)}; ${wanted === null ? "such as 20G" : `then ${bytes(wanted)}`}`}
        value={size} onValue={setSize} required />
      {wanted !== null && wanted < volume.size && may("admin") && (
        <Check label="Shrink it: data beyond the new end is lost" checked={shrink} onValue={setShrink} />
      )}
    </FormDialog>
  );
}

function Destroy({ volume, onClose }: { volume: VolumeView; onClose: () => void }) {
  const [recursive, setRecursive] = useState(false);
  const [exported, setExported] = useState(false);
  return (
    <FormDialog title={`Destroy ${volume.name}`} action="Destroy the volume" danger typed={volume.name} onClose={onClose}
      submit={async () => {
        const more = `${recursive ? "&recursive=true" : ""}${exported ? "&exported=true" : ""}`;
        const done = await remove<Done>(confirmed(volumePath(volume.name), volume.name, more));
        go("volumes");
        return done.message;
      }}>
      <p>All that {volume.name} holds is lost.</p>
      <Check label="Its snapshots too" checked={recursive} onValue={setRecursive} />
      {volume.exports.length > 0 && (
        <Check label="Even though it is exported: its clients lose it" checked={exported} onValue={setExported} />
      )}
    </FormDialog>
  );
}

function Rollback({ volume, snapshot, onClose }: { volume: VolumeView; snapshot: SnapshotView; onClose: () => void }) {
  const [destroyNewer, setDestroyNewer] = useState(false);
  return (
    <FormDialog title={`Roll ${volume.name} back`} action="Roll back" danger typed={snapshot.name} onClose={onClose}
      submit={async () => {
        const answer = await post<{ rolled_back: RolledBack }>(`${poolPath(poolOf(volume.name))}/requests`, {
          request: { volume: { rollback: { to: snapshot.name, destroy_newer: destroyNewer } } },
          confirm: snapshot.name,
        });
        return toldOf(volume.name, answer.rolled_back);
      }}>
      <p>
        {volume.name} becomes what it was at <b class="mono">@{snapshot.name.split("@")[1]}</b>. What was written since is lost.
        It may stay in use: initiators are told that the contents changed.
      </p>
      {may("admin") && (
        <Check label="Remove the snapshots that are newer" checked={destroyNewer} onValue={setDestroyNewer}
          hint="A volume can only go back past a snapshot when that snapshot goes." />
      )}
    </FormDialog>
  );
}

function toldOf(name: string, done: RolledBack): string {
  const pause = done.pause_ms === null || done.pause_ms === undefined ? "" : `, clients waited ${duration(done.pause_ms)}`;
  const told = done.sessions_told > 0 ? `, ${plural(done.sessions_told, "session")} told` : "";
  return `${name} is as it was at ${done.to} (${duration(done.took_ms)}${pause}${told})`;
}
