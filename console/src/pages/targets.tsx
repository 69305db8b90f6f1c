// All iSCSI targets, and a new one.

import { useState } from "preact/hooks";
import type { AccessRule, Done, TargetView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolPath } from "../api/paths";
import { Button, Card, Page } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { List } from "../parts/list";
import { useOfPools, type OfPool } from "../state/loaded";
import { go, link } from "../state/route";
import { GuidedExport, proposedName } from "./guided";
import { NbdCard } from "./nbd";
import { OthersCards } from "./others";
import { servedPools } from "./volumes";

/** The access rule, in words. */
export function accessWords(rule: AccessRule): string {
  if (rule.everyone) return "everyone";
  const lists = [rule.initiators ?? [], rule.networks ?? []].filter((list) => list.length > 0);
  // A client must be in each list.
  return lists.map((list) => list.join(", ")).join(" from ") || "this head only (loopback)";
}

export function TargetsPage() {
  const [creating, setCreating] = useState(false);
  const [guided, setGuided] = useState(false);
  const pools = servedPools();
  const rows = useOfPools<TargetView>(pools, "targets");
  return (
    <Page
      title="Targets"
      actions={pools.length > 0 && (
        <>
          <Button kind="primary" icon="target" needs="operator" onClick={() => setGuided(true)}>Export to a client</Button>
          <Button icon="plus" needs="operator" onClick={() => setCreating(true)}>Create a target</Button>
        </>
      )}
    >
      <div class="grid">
      <Card title="iSCSI targets" wide>
        {rows === null && pools.length > 0 ? <p role="status">Asking …</p> : (
          <List<OfPool<TargetView>>
            name="targets"
            caption="iSCSI targets"
            many="targets"
            rows={rows ?? []}
            keyOf={(row) => row.item.name}
            texts={(row) => [row.item.name, row.pool, accessWords(row.item.access), ...row.item.units.map((unit) => unit.volume)]}
            empty={pools.length > 0
              ? "There is no target yet. Initiators log in to a target; volumes are its units."
              : "No pool is served; targets live in pools."}
            columns={[
              { title: "Target", order: (row) => row.item.name, cell: (row) => <a class="mono" href={link("targets", row.pool, row.item.name)}>{row.item.name}</a> },
              { title: "Pool", order: (row) => row.pool, cell: (row) => <a href={link("pools", row.pool)}>{row.pool}</a> },
              { title: "Units", number: true, order: (row) => row.item.units.length, cell: (row) => row.item.units.length },
              { title: "Allowed", order: (row) => accessWords(row.item.access), cell: (row) => accessWords(row.item.access) },
              { title: "Sessions", number: true, order: (row) => row.item.sessions?.length ?? 0, cell: (row) => row.item.sessions?.length ?? 0 },
            ]}
          />
        )}
      </Card>
      <NbdCard pools={pools} />
      {pools.map((pool) => <OthersCards key={pool} pool={pool} />)}
      </div>
      {guided && <GuidedExport pools={pools} onClose={() => setGuided(false)} />}
      {creating && <CreateTarget pools={pools} onClose={() => setCreating(false)} />}
    </Page>
  );
}

function CreateTarget({ pools, onClose }: { pools: string[]; onClose: () => void }) {
  const [pool, setPool] = useState(pools[0] ?? "");
  const [name, setName] = useState(() => proposedName(pools[0] ?? "target"));
  return (
    <FormDialog
      title="Create a target"
      action="Create the target"
      onClose={onClose}
      submit={async () => {
        if (name.trim() === "") throw mistake("give the target a name");
        const done = await post<Done>(`${poolPath(pool)}/targets`, { name: name.trim(), portal_groups: [] });
        go("targets", pool, name.trim());
        return done.message;
      }}
    >
      <Select label="Pool" value={pool} onValue={setPool} options={pools.map((one): [string, string] => [one, one])}
        hint="The target is stored in the pool and moves with it." />
      <Input label="Name" value={name} onValue={setName} mono required
        hint="iqn.YEAR-MONTH.your.domain.reversed:anything" />
    </FormDialog>
  );
}
