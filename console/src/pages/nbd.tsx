// The exports over NBD: a card of the page Targets.

import { useState } from "preact/hooks";
import type { Done, NbdView } from "../api/types";
import { mistake, post, remove } from "../api/client";
import { nbdPath, poolOf, poolPath } from "../api/paths";
import { Button, Card } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Check, Input, Select } from "../parts/fields";
import { List } from "../parts/list";
import { useOfPools, type OfPool } from "../state/loaded";
import { link } from "../state/route";
import { InUse } from "./inuse";
import { useVolumes } from "./volumes";

/** The access rule, in words. */
function clientWords({ access }: NbdView["export"]): string {
  if (access?.everyone) return "everyone";
  const named = [...(access?.networks ?? []), ...(access?.identities ?? []).map((name) => `certificate of ${name}`)];
  return named.length > 0 ? named.join(", ") : "this head only (loopback)";
}

export function NbdCard({ pools }: { pools: string[] }) {
  const [creating, setCreating] = useState(false);
  const [leaving, setLeaving] = useState<NbdView | null>(null);
  const [inUse, setInUse] = useState(false);
  const rows = useOfPools<NbdView>(pools, "nbd");
  return (
    <Card
      title="NBD exports"
      wide
      actions={pools.length > 0 && (
        <Button icon="plus" needs="operator" onClick={() => setCreating(true)}>Export over NBD</Button>
      )}
    >
      {rows === null && pools.length > 0 ? <p role="status">Asking …</p> : (
        <List<OfPool<NbdView>>
          name="nbd"
          caption="NBD exports"
          many="NBD exports"
          rows={rows ?? []}
          keyOf={(row) => `${row.item.volume} ${row.item.export.name}`}
          texts={(row) => [row.item.export.name, row.item.volume, clientWords(row.item.export)]}
          empty="No volume is exported over NBD. Hypervisors such as QEMU read and write volumes by it without an initiator."
          columns={[
            { title: "Export", order: (row) => row.item.export.name, cell: (row) => <span class="mono">{row.item.export.name}</span> },
            { title: "Volume", order: (row) => row.item.volume, cell: (row) => <a href={link("volumes", row.item.volume)}>{row.item.volume}</a> },
            { title: "Access", order: (row) => String(row.item.export.read_only), cell: (row) => (row.item.export.read_only ? "read only" : "read and write") },
            { title: "Allowed", order: (row) => clientWords(row.item.export), cell: (row) => clientWords(row.item.export) },
            { title: "Clients", number: true, order: (row) => row.item.sessions?.length ?? 0, cell: (row) => row.item.sessions?.length ?? 0 },
            {
              title: "Actions",
              quiet: true,
              cell: (row) => (
                <Button needs="operator" onClick={() => { setInUse(false); setLeaving(row.item); }}>
                  Unexport<span class="unseen">: {row.item.export.name}</span>
                </Button>
              ),
            },
          ]}
        />
      )}
      {creating && <ExportOverNbd pools={pools} onClose={() => setCreating(false)} />}
      {leaving && (
        <FormDialog title={`Unexport ${leaving.export.name}`} action="Unexport" danger onClose={() => setLeaving(null)}
          submit={async () => (await remove<Done>(`${nbdPath(leaving.volume)}?name=${encodeURIComponent(leaving.export.name)}&in_use=${inUse}`)).message}>
          <p>The volume {leaving.volume} stays.</p>
          <InUse sessions={leaving.sessions ?? []} checked={inUse} onValue={setInUse} />
        </FormDialog>
      )}
    </Card>
  );
}

function ExportOverNbd({ pools, onClose }: { pools: string[]; onClose: () => void }) {
  const volumes = useVolumes(pools) ?? [];
  const [volume, setVolume] = useState("");
  const [name, setName] = useState("");
  const [networks, setNetworks] = useState("");
  const [readOnly, setReadOnly] = useState(false);
  const chosen = volume || volumes[0]?.name;
  return (
    <FormDialog
      title="Export a volume over NBD"
      action="Export"
      onClose={onClose}
      submit={async () => {
        if (!chosen) throw mistake("there is no volume yet: create one on the page Volumes");
        const list = networks.split(/[\s,]+/).filter(Boolean);
        return (await post<Done>(`${poolPath(poolOf(chosen))}/nbd`, {
          volume: chosen,
          name: name.trim() === "" ? null : name.trim(),
          read_only: readOnly,
          access: list.length > 0 ? { networks: list } : {},
        })).message;
      }}
    >
      <Select label="Volume" value={chosen ?? ""} onValue={setVolume} options={volumes.map((one): [string, string] => [one.name, one.name])} />
      <Input label="Name of the export" hint="empty: the name of the volume" value={name} onValue={setName} mono />
      <Input label="Clients" hint="networks such as 10.77.1.0/24; empty: this head only" value={networks} onValue={setNetworks} mono />
      <Check label="Read only" checked={readOnly} onValue={setReadOnly} />
    </FormDialog>
  );
}
