// The exports of protocols that this console does not support specifically: cards of the page Targets.

import type { ExportView, ProtocolView, Status } from "../api/types";
import { poolPath } from "../api/paths";
import { Card, Table } from "../parts/basics";
import { plural } from "../parts/format";
import { useLoaded } from "../state/loaded";
import { link } from "../state/route";

/** A card for each such protocol of the pool; nothing where there is none. */
export function OthersCards({ pool }: { pool: string }) {
  const status = useLoaded<Status>(poolPath(pool)).data;
  return <>{status?.other_protocols?.map((protocol) => <ProtocolCard key={protocol.name} pool={pool} protocol={protocol} />)}</>;
}

function ProtocolCard({ pool, protocol }: { pool: string; protocol: ProtocolView }) {
  const title = `Exports of ${pool} by ${protocol.name}`;
  return (
    <Card title={title} wide>
      <Table<ExportView>
        caption={title}
        rows={protocol.exports}
        keyOf={(row) => row.name}
        empty={`No volume is exported over ${protocol.name}.`}
        columns={[
          { title: "Export", cell: (row) => <span class="mono">{row.name}</span> },
          { title: "Volumes", cell: (row) => row.volumes.map((volume) => <a key={volume} href={link("volumes", volume)}>{volume} </a>) },
          { title: "Clients", number: true, cell: (row) => row.sessions?.length ?? 0 },
          { title: "From", cell: (row) => (row.sessions ?? []).flatMap((session) => session.peers).join(", ") },
        ]}
      />
      {protocol.secured_by && <p>Clients can use {protocol.secured_by.join(" and ")}.</p>}
      {protocol.recovery && (
        <p role="status">
          Clients take back what they had open and locked at the server before, for {Math.ceil(protocol.recovery.remaining_ms / 1000)} s more.
          {protocol.recovery.awaited_clients != null && ` It waits for ${plural(protocol.recovery.awaited_clients, "client")}.`}
        </p>
      )}
      <p>The server listens at {protocol.listeners.length > 0 ? <span class="mono">{protocol.listeners.join(" ")}</span> : "no address"}.</p>
    </Card>
  );
}
