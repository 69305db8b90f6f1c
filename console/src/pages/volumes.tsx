// All volumes with their current load, and a new one.

import { useState } from "preact/hooks";
import type { Done, VolumeRates, VolumeView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolPath, withoutPool } from "../api/paths";
import { Button, Card, Page } from "../parts/basics";
import { Chart, meanLatency } from "../parts/chart";
import { FormDialog } from "../parts/dialog";
import { Check, Input, Select } from "../parts/fields";
import { bytes, latency, parseSize, rate } from "../parts/format";
import { List } from "../parts/list";
import { metrics, overview } from "../state/live";
import { useOfPools } from "../state/loaded";
import { go, link } from "../state/route";
import { EncryptionFields, keyOf, NOT_ENCRYPTED } from "./datasets";
import { GuidedExport } from "./guided";
import { SnapshotMany } from "./snapshots";

export function servedPools(): string[] {
  return (overview.value?.pools ?? []).filter((pool) => pool.state === "served").map((pool) => pool.name);
}

export function VolumesPage() {
  const pools = servedPools();
  return (
    <Page title="Volumes">
      <div class="grid">
        <VolumesCard pools={pools} wide />
        <Card title="Throughput"><Chart measure="throughput" label="Bytes read and written per second, by volume" /></Card>
        <Card title="Latency"><Chart measure="latency" label="Mean time of a response, by volume" /></Card>
      </div>
    </Page>
  );
}

/** The volumes of several pools; `null` until they are known. */
export function useVolumes(pools: string[]): VolumeView[] | null {
  return useOfPools<VolumeView>(pools, "volumes")?.map(({ item }) => item) ?? null;
}

export function VolumesCard({ pools, wide }: { pools: string[]; wide?: boolean }) {
  const [creating, setCreating] = useState(false);
  const [guided, setGuided] = useState(false);
  const [snapshotOf, setSnapshotOf] = useState<string[] | null>(null);
  const volumes = useVolumes(pools);
  const rates = new Map((metrics.value?.volumes ?? []).map((one): [string, VolumeRates] => [one.volume, one]));
  const now = (volume: VolumeView, show: (rates: VolumeRates) => string): string => {
    const found = rates.get(volume.name);
    return found ? show(found) : "–";
  };
  return (
    <Card
      title="Volumes"
      wide={wide}
      actions={pools.length > 0 && (
        <>
          <Button icon="target" needs="operator" onClick={() => setGuided(true)}>Export to a client</Button>
          <Button kind="primary" icon="plus" needs="operator" onClick={() => setCreating(true)}>Create a volume</Button>
        </>
      )}
    >
      {volumes === null && pools.length > 0 ? <p role="status">Asking …</p> : (
        <List<VolumeView>
          name="volumes"
          caption="Volumes"
          many="volumes"
          rows={volumes ?? []}
          keyOf={(volume) => volume.name}
          texts={(volume) => [volume.name, withoutPool(volume.name), ...volume.exports]}
          empty={pools.length > 0 ? "There is no volume yet." : "No pool is served; volumes live in pools."}
          columns={[
            { title: "Volume", order: (volume) => volume.name, cell: (volume) => <a href={link("volumes", volume.name)}>{volume.name}</a> },
            { title: "Size", number: true, order: (volume) => volume.size, cell: (volume) => (volume.locked ? "locked" : bytes(volume.size)) },
            { title: "Used", number: true, order: (volume) => volume.used, cell: (volume) => bytes(volume.used) },
            {
              title: "Reads",
              number: true,
              optional: true,
              order: (volume) => rates.get(volume.name)?.read_bytes_per_s,
              cell: (volume) => now(volume, (one) => rate(one.read_bytes_per_s)),
            },
            {
              title: "Writes",
              number: true,
              optional: true,
              order: (volume) => rates.get(volume.name)?.write_bytes_per_s,
              cell: (volume) => now(volume, (one) => rate(one.write_bytes_per_s)),
            },
            {
              title: "Latency, read / write",
              number: true,
              optional: true,
              order: (volume) => meanLatency(rates.get(volume.name) ?? null),
              cell: (volume) => now(volume, (one) => `${latency(one.read_latency_us)} / ${latency(one.write_latency_us)}`),
            },
            { title: "Exports", order: (volume) => volume.exports.length, cell: (volume) => (volume.exports.length > 0 ? <Exports volume={volume} /> : "none") },
          ]}
          bulk={{
            needs: "operator",
            actions: (selected) => (
              <Button icon="snapshot" onClick={() => setSnapshotOf(selected.map((volume) => volume.name))}>Take snapshots</Button>
            ),
          }}
        />
      )}
      {snapshotOf && <SnapshotMany of={snapshotOf} what="volume" onClose={() => setSnapshotOf(null)} />}
      {guided && <GuidedExport pools={pools} onClose={() => setGuided(false)} />}
      {creating && <CreateVolume pools={pools} onClose={() => setCreating(false)} />}
    </Card>
  );
}

export function Exports({ volume }: { volume: VolumeView }) {
  return <ul class="list">{volume.exports.map((one) => <li key={one} class="mono">{one}</li>)}</ul>;
}

const BLOCK_SIZES: [string, string][] = [
  ["", "the usual"], ["4096", "4 KiB: databases"], ["8192", "8 KiB"], ["16384", "16 KiB"],
  ["65536", "64 KiB"], ["131072", "128 KiB: large files, backups"],
];

export const COMPRESSIONS: [string, string][] = [["", "as the pool"], ["lz4", "lz4: fast"], ["zstd", "zstd: smaller"], ["off", "none"]];

function CreateVolume({ pools, onClose }: { pools: string[]; onClose: () => void }) {
  const [pool, setPool] = useState(pools[0] ?? "");
  const [name, setName] = useState("");
  const [size, setSize] = useState("10G");
  const [blockSize, setBlockSize] = useState("");
  const [compression, setCompression] = useState("");
  // As the command line does.
  const [sparse, setSparse] = useState(false);
  const [encryption, setEncryption] = useState(NOT_ENCRYPTED);
  const wanted = parseSize(size);
  return (
    <FormDialog
      title="Create a volume"
      action="Create the volume"
      onClose={onClose}
      submit={async () => {
        if (name.trim() === "") throw mistake("give the volume a name");
        if (wanted === null) throw mistake(`${size} is no size: write 10G or 1.5T`);
        const full = `${pool}/${withoutPrefix(name.trim(), pool)}`;
        const done = await post<Done>(`${poolPath(pool)}/volumes`, {
          name: full,
          size: wanted,
          block_size: blockSize === "" ? null : Number(blockSize),
          sparse,
          properties: compression === "" ? {} : { compression },
          parents: full.split("/").length > 2,
          exist_ok: false,
          key: keyOf(encryption),
        });
        go("volumes", full);
        return done.message;
      }}
    >
      <Select label="Pool" value={pool} onValue={setPool} options={pools.map((one): [string, string] => [one, one])} />
      <Input label="Name" hint="such as vm0 or vms/vm0" value={name} onValue={setName} required />
      <Input
        label="Size"
        hint={wanted === null ? "such as 10G or 1.5T" : bytes(wanted)}
        value={size}
        onValue={setSize}
        required
      />
      <Select label="Block size" value={blockSize} onValue={setBlockSize} options={BLOCK_SIZES}
        hint="It cannot be changed later." />
      <Select label="Compression" value={compression} onValue={setCompression} options={COMPRESSIONS} />
      <EncryptionFields value={encryption} onValue={setEncryption} />
      <Check label="Sparse: no space is reserved" checked={sparse} onValue={setSparse}
        hint="Writes fail when the pool is full, also within its size." />
    </FormDialog>
  );
}

export function withoutPrefix(name: string, pool: string): string {
  return name.startsWith(`${pool}/`) ? withoutPool(name) : name;
}
