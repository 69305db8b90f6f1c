// The packets that this head loses: where, why, and between which addresses.

import { useEffect } from "preact/hooks";
import type { DropView, DropsView } from "../api/types";
import { Card, Page } from "../parts/basics";
import { List } from "../parts/list";
import { useLoaded } from "../state/loaded";

/** The first interval is measured so long, in milliseconds. */
const MEASURED_AFTER_MS = 6_000;

const digits = new Intl.NumberFormat("en");
const orDash = (text: string | null | undefined): string => text ?? "–";
const keyOf = (loss: DropView): string => [loss.layer, loss.at, loss.reason, loss.local, loss.peer].join(" ");

export function NetworkPage() {
  return (
    <Page title="Network">
      <DropsCard />
    </Page>
  );
}

function DropsCard() {
  const { data, error, reload } = useLoaded<DropsView>("/drops");
  const seconds = data?.seconds ?? null;
  const isFirst = data !== null && seconds === null;
  useEffect(() => {
    if (!isFirst) return;
    const timer = window.setTimeout(() => void reload(), MEASURED_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, [isFirst, reload]);
  const empty = error?.failure.message
    ?? (data === null ? "Asking …" : isFirst ? "The first interval is being measured." : `No packet was lost in the last ${seconds} s.`);
  return (
    <Card title="Lost packets of this head" wide>
      {seconds !== null && <p class="muted">Measured over {seconds} s, while this page is open. Sockets are those of Bulkhead and Corosync.</p>}
      <List<DropView>
        name="drops"
        caption="Lost packets of this head"
        many="reasons"
        rows={data?.losses ?? []}
        keyOf={keyOf}
        texts={(loss) => [loss.layer, loss.at, loss.reason, loss.local ?? "", loss.peer ?? "", loss.cause ?? ""]}
        empty={empty}
        newestBy="Packets"
        columns={[
          { title: "Packets", number: true, order: (loss) => loss.count, cell: (loss) => digits.format(loss.count) },
          { title: "Layer", order: (loss) => loss.layer, cell: (loss) => loss.layer },
          { title: "Interface, queue or protocol", wraps: true, order: (loss) => loss.at, cell: (loss) => <span class="mono">{loss.at}</span> },
          { title: "Reason", wraps: true, order: (loss) => loss.reason, cell: (loss) => <Reason loss={loss} /> },
          { title: "Address here", wraps: true, optional: true, order: (loss) => loss.local ?? "", cell: (loss) => orDash(loss.local) },
          { title: "Peer", wraps: true, optional: true, order: (loss) => loss.peer ?? "", cell: (loss) => orDash(loss.peer) },
          { title: "Since the counter began", number: true, cell: (loss) => loss.total == null ? "–" : digits.format(loss.total) },
        ]}
      />
      {data !== null && data.more > 0 && <p class="muted">{digits.format(data.more)} smaller losses are not shown.</p>}
      {data?.notes.map((note) => <p key={note} class="muted">{note}</p>)}
    </Card>
  );
}

function Reason({ loss }: { loss: DropView }) {
  return (
    <>
      <code>{loss.reason}</code>
      {loss.cause && <p class="muted">{loss.cause}</p>}
      {loss.remedy && <p class="muted">{loss.remedy}</p>}
    </>
  );
}
