// All pools, and a new one.

import { useState } from "preact/hooks";
import type { DiskView, Done, PoolFound, PoolOverview } from "../api/types";
import { mistake, post } from "../api/client";
import { confirmed } from "../api/paths";
import { Button, Card, Page, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { DiskChoice, Input, Select, TextArea } from "../parts/fields";
import { bytes } from "../parts/format";
import { SpaceMeter } from "../parts/space";
import { State } from "../parts/state";
import { overview } from "../state/live";
import { useLoaded } from "../state/loaded";
import { complain, tell } from "../state/notices";
import { go, link } from "../state/route";
import { DisksCard, PowerCard } from "./hardware";
import { groupsOf, layoutProblem, LAYOUTS, type Layout } from "./layouts";
import { lost, Overwrite } from "./overwrite";
import { canServe, ServeButton } from "./pool";

export function PoolsPage() {
  const [creating, setCreating] = useState(false);
  const pools = overview.value?.pools ?? [];
  const found = useLoaded<PoolFound[]>("/pools");
  const others = (found.data ?? []).filter((pool) => !pools.some((known) => known.name === pool.name));
  return (
    <Page
      title="Pools"
      actions={<Button kind="primary" icon="plus" needs="admin" onClick={() => setCreating(true)}>Create a pool</Button>}
    >
      <Card title="Pools of this appliance" wide>
        <Table<PoolOverview>
          caption="Pools of this appliance"
          rows={pools}
          keyOf={(pool) => pool.name}
          empty="There is no pool yet. A pool is made of disks; volumes live in it."
          columns={[
            { title: "Pool", cell: (pool) => <a href={link("pools", pool.name)}>{pool.name}</a> },
            { title: "State", cell: (pool) => <State word={pool.pool?.health ?? pool.state} /> },
            { title: "Served by", cell: (pool) => pool.served_by ?? "no head" },
            { title: "Volumes", number: true, cell: (pool) => pool.volume_count },
            { title: "Space", cell: (pool) => <Space pool={pool} /> },
            { title: "Actions", quiet: true, cell: (pool) => canServe(pool) && <ServeButton pool={pool.name} /> },
          ]}
        />
      </Card>
      <DisksCard />
      <PowerCard />
      {others.length > 0 && <Found pools={others} reload={found.reload} />}
      {creating && <CreatePool onClose={() => setCreating(false)} />}
    </Page>
  );
}

function Space({ pool }: { pool: PoolOverview }) {
  const status = pool.pool;
  if (!status) return <>–</>;
  return <SpaceMeter label={`Space of ${pool.name} in use`} pool={status} />;
}

function Found({ pools, reload }: { pools: PoolFound[]; reload: () => Promise<void> }) {
  const serve = async (name: string): Promise<void> => {
    try {
      tell((await post<Done>(`/pools/${encodeURIComponent(name)}/serve`)).message);
      await reload();
    } catch (error) {
      complain(error);
    }
  };
  return (
    <Card title="Found on disks, not served" wide>
      <Table<PoolFound>
        caption="Pools that were found on disks"
        rows={pools}
        keyOf={(pool) => pool.guid}
        empty=""
        columns={[
          { title: "Pool", cell: (pool) => pool.name },
          { title: "State", cell: (pool) => <State word={pool.state} /> },
          { title: "Devices", number: true, cell: (pool) => pool.devices.length },
          { title: "Actions", quiet: true, cell: (pool) => <Button needs="admin" onClick={() => void serve(pool.name)}>Serve {pool.name}</Button> },
        ]}
      />
    </Card>
  );
}

function CreatePool({ onClose }: { onClose: () => void }) {
  const disks = useLoaded<DiskView[]>("/disks");
  const [name, setName] = useState("tank");
  const [layout, setLayout] = useState<Layout>("mirror");
  const [chosen, setChosen] = useState<string[]>([]);
  const [files, setFiles] = useState("");
  const [overwrite, setOverwrite] = useState(false);
  const [tried, setTried] = useState(false);
  const devices = [...chosen, ...files.split(/\s+/).filter(Boolean)];
  const problem = layoutProblem(layout, devices);
  const typed = lost(overwrite, devices);
  return (
    <FormDialog
      title="Create a pool"
      action="Create the pool"
      danger={overwrite}
      typed={typed}
      onClose={onClose}
      submit={async () => {
        setTried(true);
        if (problem) throw mistake(problem);
        const done = await post<Done>(confirmed("/pools", typed), {
          name, groups: groupsOf(layout, devices), properties: {}, overwrite, serve: true,
        });
        go("pools", name);
        return done.message;
      }}
    >
      <Input label="Name" value={name} onValue={setName} required />
      <Select
        label="Layout"
        value={layout}
        onValue={(value) => setLayout(value as Layout)}
        options={LAYOUTS.map(([value, text]) => [value, text])}
        wrong={tried ? problem : null}
      />
      {disks.data && disks.data.length > 0 && (
        <DiskChoice
          legend="Disks of this head"
          disks={disks.data.map((disk) => ({
            path: disk.path,
            about: [bytes(disk.size), disk.model].filter(Boolean).join(", "),
            used: disk.used_by ?? null,
          }))}
          chosen={chosen}
          onValue={setChosen}
        />
      )}
      <TextArea
        label="Other devices or files"
        hint="one path a line"
        rows={3}
        value={files}
        onValue={setFiles}
      />
      <Overwrite checked={overwrite} onValue={setOverwrite} />
    </FormDialog>
  );
}
