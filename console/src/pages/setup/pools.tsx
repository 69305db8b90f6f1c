// The pools of the appliance file: which exist on their disks, and the creation of the rest. That must precede the
// plan, because the cluster serves existing pools.

import { useState } from "preact/hooks";
import type { Appliance, Done, Pool, PoolFound } from "../../api/types";
import { mistake, post } from "../../api/client";
import { confirmed } from "../../api/paths";
import { Button, Card } from "../../parts/basics";
import { FormDialog } from "../../parts/dialog";
import { Select } from "../../parts/fields";
import { plural } from "../../parts/format";
import { State } from "../../parts/state";
import { useLoaded } from "../../state/loaded";
import { groupsOf, layoutProblem, LAYOUTS, type Layout } from "../layouts";
import { lost, Overwrite } from "../overwrite";

/** The sector size of disks if the file has none. */
const SECTOR_BYTES = 4096;

/** Whether the pool that was found is on these disks, whole or by a partition. */
const isOn = (found: PoolFound, disks: string[]): boolean =>
  [...found.devices, ...(found.missing ?? [])].some((device) =>
    disks.some((disk) => disk !== "" && (device === disk || device.startsWith(`${disk}-part`))));

export function PoolsCard({ document }: { document: Appliance }) {
  const [asked, setAsked] = useState<string | null>(null);
  const found = useLoaded<PoolFound[]>("/pools");
  // Pools with disks that belong to heads are created elsewhere: no head sees all of their disks.
  const pools = Object.entries(document.pools ?? {}).filter(([, pool]) => !pool.groups?.length);
  const wanted = asked === null ? undefined : document.pools?.[asked];
  const close = (): void => {
    setAsked(null);
    void found.reload();
  };
  return (
    <Card title="Pools on the disks">
      <ul class="list" aria-label="Pools of the file">
        {pools.map(([name, pool]) => {
          const called = (found.data ?? []).filter((one) => one.name === name);
          const isThere = called.some((one) => isOn(one, pool.disks ?? []));
          return (
            <li key={name}>
              <b>{name}</b>{" "}
              {found.data === null ? "…" : isThere ? <State word="on its disks" tone="good" /> : <State word="not made yet" tone="idle" />}{" "}
              {!isThere && called.length > 0 && (
                <State word={`another pool of this name is on ${called[0]?.devices[0] ?? "other disks"}`} tone="warning" />
              )}
              {found.data !== null && !isThere && (pool.disks ?? []).length > 0 && (
                <Button needs="admin" onClick={() => setAsked(name)}>Make {name}</Button>
              )}
            </li>
          );
        })}
      </ul>
      <p class="muted">A pool is made once, by one head that sees its disks, before the plan is applied.</p>
      {asked !== null && wanted && <MakePool name={asked} pool={wanted} onClose={close} />}
    </Card>
  );
}

function MakePool({ name, pool, onClose }: { name: string; pool: Pool; onClose: () => void }) {
  const devices = (pool.disks ?? []).filter(Boolean);
  const [layout, setLayout] = useState<Layout>(devices.length === 1 ? "stripe" : devices.length % 2 === 0 ? "mirror-pairs" : "mirror");
  const [overwrite, setOverwrite] = useState(false);
  const problem = layoutProblem(layout, devices);
  const typed = lost(overwrite, devices);
  return (
    <FormDialog
      title={`Make ${name}`}
      action="Make the pool"
      danger={overwrite}
      typed={typed}
      onClose={onClose}
      submit={async () => {
        if (problem) throw mistake(problem);
        const properties = { ashift: String(Math.log2(pool.sector_bytes ?? SECTOR_BYTES)) };
        const body = { name, groups: groupsOf(layout, devices), properties, overwrite, serve: false };
        return (await post<Done>(confirmed("/pools", typed), body)).message;
      }}
    >
      <p>Everything on these {plural(devices.length, "disk")} is lost:</p>
      <ul class="list mono">{devices.map((disk) => <li key={disk}>{disk}</li>)}</ul>
      <Select label="Layout" value={layout} onValue={(value) => setLayout(value as Layout)}
        options={LAYOUTS.map(([value, text]) => [value, text])} wrong={problem} />
      <Overwrite checked={overwrite} onValue={setOverwrite} />
    </FormDialog>
  );
}
