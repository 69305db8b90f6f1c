// All file systems: space, shares, clients; and a new one.

import { useState } from "preact/hooks";
import type { Done, FileSystemRates, FilesystemView, ShareView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolPath, withoutPool } from "../api/paths";
import { Button, Card, Page } from "../parts/basics";
import { Chart, meanLatency } from "../parts/chart";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { bytes, count, latency, parseSize, rate } from "../parts/format";
import { List, type ListColumn } from "../parts/list";
import { metrics } from "../state/live";
import { useOfPools } from "../state/loaded";
import { go, link } from "../state/route";
import { may } from "../state/session";
import { EncryptionFields, keyOf, NOT_ENCRYPTED } from "./datasets";
import { SnapshotMany } from "./snapshots";
import { COMPRESSIONS, servedPools, withoutPrefix } from "./volumes";

export function FilesystemsPage() {
  const [creating, setCreating] = useState(false);
  const [snapshotOf, setSnapshotOf] = useState<string[] | null>(null);
  const pools = servedPools();
  const found = useOfPools<FilesystemView>(pools, "filesystems");
  const rates = new Map((metrics.value?.filesystems ?? []).map((one): [string, FileSystemRates] => [one.filesystem, one]));
  /** A column of a rate; file systems that are not shared have none. */
  const measured = (
    title: string,
    value: (found: FileSystemRates) => number | null,
    show: (found: FileSystemRates) => string,
  ): ListColumn<FilesystemView> => {
    const of = <Out,>(one: FilesystemView, take: (found: FileSystemRates) => Out): Out | null => {
      const found = rates.get(one.name);
      return found ? take(found) : null;
    };
    return { title, number: true, optional: true, order: (one) => of(one, value), cell: (one) => of(one, show) ?? "–" };
  };
  return (
    <Page title="File systems">
      <div class="grid">
        <Card
          title="File systems"
          wide
          actions={pools.length > 0 && (
            <Button kind="primary" icon="plus" needs="operator" onClick={() => setCreating(true)}>Create a file system</Button>
          )}
        >
          {found === null && pools.length > 0 ? <p role="status">Asking …</p> : (
            <List<FilesystemView>
              name="filesystems"
              caption="File systems"
              many="file systems"
              rows={(found ?? []).map(({ item }) => item)}
              keyOf={(one) => one.name}
              texts={(one) => [one.name, withoutPool(one.name), one.share.value]}
              empty={pools.length > 0 ? "There is no file system yet." : "No pool is served; file systems live in pools."}
              columns={[
                { title: "File system", order: (one) => one.name, cell: (one) => <a href={link("filesystems", one.name)}>{one.name}</a> },
                { title: "Used", number: true, order: (one) => one.used, cell: (one) => bytes(one.used) },
                { title: "Available", number: true, order: (one) => one.available, cell: (one) => (one.locked ? "locked" : bytes(one.available)) },
                { title: "Shared", order: (one) => one.share.value, cell: (one) => <Share share={one.share} /> },
                measured("Reads", (found) => found.read_bytes_per_s, (found) => rate(found.read_bytes_per_s)),
                measured("Writes", (found) => found.write_bytes_per_s, (found) => rate(found.write_bytes_per_s)),
                measured("Requests", requests, (found) => `${count(requests(found))}/s`),
                measured("Latency, read / write / other", meanLatency, latencies),
                { title: "Clients", number: true, order: (one) => one.clients?.length ?? 0, cell: (one) => String(one.clients?.length ?? 0) },
              ]}
              bulk={{
                needs: "operator",
                actions: (selected) => (
                  <Button icon="snapshot" onClick={() => setSnapshotOf(selected.map((one) => one.name))}>Take snapshots</Button>
                ),
              }}
            />
          )}
        </Card>
        <Card title="Throughput"><Chart of="filesystems" measure="throughput" label="Bytes read and written per second, by file system" /></Card>
        <Card title="Latency"><Chart of="filesystems" measure="latency" label="Mean time of a read or write, by file system" /></Card>
      </div>
      {snapshotOf && <SnapshotMany of={snapshotOf} what="file system" onClose={() => setSnapshotOf(null)} />}
      {creating && <CreateFilesystem pools={pools} onClose={() => setCreating(false)} />}
    </Page>
  );
}

const requests = (one: FileSystemRates): number => one.read_ops_per_s + one.write_ops_per_s + one.other_ops_per_s;

const latencies = (one: FileSystemRates): string =>
  [one.read_latency_us, one.write_latency_us, one.other_latency_us].map(latency).join(" / ");

/** How it is shared, and where that is set. */
export function Share({ share }: { share: ShareView }) {
  if (share.value === "off") return <>not shared</>;
  return (
    <>
      <span class="mono">{share.value}</span>
      {share.from && <> as {share.from}</>}
      {share.problem && <p role="alert">{share.problem}</p>}
    </>
  );
}

const RECORD_SIZES: [string, string][] = [
  ["", "as the pool: usually 128 KiB"], ["16384", "16 KiB: databases"], ["131072", "128 KiB"], ["1048576", "1 MiB: large files"],
];

/** A size or nothing; any other input is an error. */
export function sizeOf(text: string): string | null {
  const wanted = text.trim();
  if (wanted === "") return null;
  if (parseSize(wanted) === null) throw mistake(`${wanted} is no size: write 10G or 1.5T`);
  return wanted;
}

function CreateFilesystem({ pools, onClose }: { pools: string[]; onClose: () => void }) {
  const [pool, setPool] = useState(pools[0] ?? "");
  const [name, setName] = useState("");
  const [share, setShare] = useState("");
  const [quota, setQuota] = useState("");
  const [owner, setOwner] = useState("0");
  const [mode, setMode] = useState("0755");
  const [recordSize, setRecordSize] = useState("");
  const [compression, setCompression] = useState("");
  const [encryption, setEncryption] = useState(NOT_ENCRYPTED);
  return (
    <FormDialog
      title="Create a file system"
      action="Create the file system"
      onClose={onClose}
      submit={async () => {
        if (name.trim() === "") throw mistake("give the file system a name");
        if (!/^\d+$/.test(owner)) throw mistake(`${owner} is no number of a user: write 1000`);
        const full = `${pool}/${withoutPrefix(name.trim(), pool)}`;
        const wanted: [string, string | null][] = [
          ["sharenfs", share.trim() || null], ["quota", sizeOf(quota)], ["recordsize", recordSize || null], ["compression", compression || null],
        ];
        const properties = Object.fromEntries(wanted.filter(([, value]) => value !== null));
        const done = await post<Done>(`${poolPath(pool)}/filesystems`, {
          name: full,
          owner: Number(owner),
          mode,
          properties,
          parents: full.split("/").length > 2,
          key: keyOf(encryption),
        });
        go("filesystems", full);
        return done.message;
      }}
    >
      <Select label="Pool" value={pool} onValue={setPool} options={pools.map((one): [string, string] => [one, one])} />
      <Input label="Name" hint="such as home or home/ann" value={name} onValue={setName} required />
      {may("admin") && (
        <Input label="Shared with" hint="such as rw=192.0.2.0/24; nothing: as the one above it" value={share} onValue={setShare} mono />
      )}
      <Input label="Quota" hint="most that it may take, such as 100G; nothing: no limit" value={quota} onValue={setQuota} />
      <Input label="Owner" hint="number of the user that its root directory belongs to" value={owner} onValue={setOwner} numeric required />
      <Input label="Permissions" hint="of its root directory, in the form of chmod" value={mode} onValue={setMode} mono required />
      <Select label="Record size" value={recordSize} onValue={setRecordSize} options={RECORD_SIZES} />
      <Select label="Compression" value={compression} onValue={setCompression} options={COMPRESSIONS} />
      <EncryptionFields value={encryption} onValue={setEncryption} />
    </FormDialog>
  );
}
