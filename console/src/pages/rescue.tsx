// Rescues of a volume: its address, its contents, the commands to use it, and its end.

import { useState } from "preact/hooks";
import type { Done, Partition, RescueView } from "../api/types";
import { post, remove } from "../api/client";
import { poolOf, poolPath, withoutPool } from "../api/paths";
import { Button, Card, Facts, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Check } from "../parts/fields";
import { bytes } from "../parts/format";
import { State } from "../parts/state";
import { overview } from "../state/live";

const rescues = (volume: string): string => `${poolPath(poolOf(volume))}/rescues`;

interface BeginProps {
  volume: string;
  /** A snapshot of it; `null` means the volume itself. */
  snapshot: string | null;
  onClose: () => void;
}

export function BeginRescue({ volume, snapshot, onClose }: BeginProps) {
  const [writable, setWritable] = useState(snapshot === null);
  return (
    <FormDialog
      title={`Look into ${snapshot ?? volume}`}
      action="Open it"
      onClose={onClose}
      submit={async () => {
        await post<RescueView>(rescues(volume), { volume, snapshot, writable });
        return `${snapshot ?? volume} is open for a second look`;
      }}
    >
      {snapshot === null ? (
        <p>Its virtual machine has to be off: while somebody looks, nobody else may use the volume. What is written stays.</p>
      ) : (
        <p>Its virtual machine continues to run. Writes go to a copy, which is discarded at the end.</p>
      )}
      <Check label="It may be written to" checked={writable} onValue={setWritable} />
    </FormDialog>
  );
}

/** The facts about the contents of a partition that have no column. */
function details(one: Partition): string {
  const uuid = one.uuid ? [`UUID ${one.uuid}`] : [];
  const volumes = one.volumes?.length ? [`volumes ${one.volumes.join(" ")}`] : [];
  return [...uuid, ...(one.notes ?? []), ...volumes].join(", ");
}

/** The rescue of a volume, while there is one. */
export function RescueCard({ rescue, reload }: { rescue: RescueView; reload: () => void }) {
  const [ending, setEnding] = useState(false);
  const server = overview.value?.pools.find((pool) => pool.name === poolOf(rescue.volume))?.served_by;
  const close = (): void => {
    setEnding(false);
    reload();
  };
  return (
    <Card title="Second look" wide actions={<Button needs="admin" onClick={() => setEnding(true)}>End it</Button>}>
      <p>
        <State word="open" tone="busy" /> <span class="mono">{rescue.snapshot ?? rescue.volume}</span>, on the head that serves its
        pool{server && <>, <b>{server}</b></>}. It ends when it is ended here, or when the pool's server ends.
      </p>
      <Facts
        facts={[
          ["Opened for", rescue.read_only ? "reading" : "reading and writing"],
          ["Size", bytes(rescue.size)],
          ["Temporary copy", rescue.clone ?? "none"],
          ["For NBD clients there", <span class="mono">{rescue.uri}</span>],
        ]}
      />
      <Table
        caption={`Partitions of ${rescue.volume}`}
        rows={rescue.partitions}
        keyOf={(one) => String(one.number)}
        empty={rescue.partition_table === "none" ? "There is neither a table of partitions nor a known file system on it." : "Its table of partitions is empty."}
        columns={[
          { title: "Partition", cell: (one) => (one.number === 0 ? "the whole disk" : one.number) },
          { title: "Holds", cell: (one) => one.contents ?? "unknown" },
          { title: "Label", cell: (one) => one.label ?? "" },
          { title: "Name", cell: (one) => one.name ?? "" },
          { title: "Size", number: true, cell: (one) => bytes(one.size) },
          { title: "Details", cell: (one) => details(one) },
        ]}
      />
      {rescue.commands.map((command) => (
        <div key={command.purpose}>
          <h3>{command.purpose}</h3>
          {command.lines.length > 0 && (
            <pre class="log" tabIndex={0} role="region" aria-label={command.purpose}>{command.lines.join("\n")}</pre>
          )}
        </div>
      ))}
      {ending && (
        <FormDialog title={`End the second look at ${rescue.volume}`} action="End it" danger onClose={close}
          submit={async () => (await remove<Done>(`${rescues(rescue.volume)}/${encodeURIComponent(withoutPool(rescue.volume))}`)).message}>
          <p>
            Unmount it first: whoever still has it open loses it.
            {rescue.clone && " Writes to the copy are discarded."}
          </p>
        </FormDialog>
      )}
    </Card>
  );
}
