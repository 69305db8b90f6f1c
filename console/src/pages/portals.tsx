// The addresses where clients reach a pool.

import type { PortalView } from "../api/types";
import { poolPath } from "../api/paths";
import { Card, Table } from "../parts/basics";
import { State } from "../parts/state";
import { useLoaded } from "../state/loaded";

export function PortalsCard({ pool }: { pool: string }) {
  const rows = useLoaded<PortalView[]>(`${poolPath(pool)}/portals`).data;
  return (
    <Card title="Addresses for clients" wide>
      <Table<PortalView>
        caption={`Addresses of ${pool}`}
        rows={rows ?? []}
        keyOf={(one) => `${one.protocol} ${one.address}`}
        empty={rows ? "The server of the pool listens at no address." : "Asking …"}
        columns={[
          { title: "Protocol", cell: (one) => one.protocol },
          { title: "Address", cell: (one) => <span class="mono">{one.address}</span> },
          { title: "Portal group", number: true, optional: true, cell: (one) => one.group ?? "" },
          { title: "Clients", number: true, cell: (one) => one.clients },
          { title: "State", cell: (one) => <State word={one.is_here ? "on this head" : "not on this head"} /> },
        ]}
      />
      <p class="muted">
        The addresses of a pair are in <code>appliance.toml</code>, and <code>bulkhead appliance apply</code> changes them while clients are
        connected. <code>bulkhead portal add {pool}</code> adds one until the server exits.
      </p>
    </Card>
  );
}
