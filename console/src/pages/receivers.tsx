// The receivers of messages about alerts: the last results, a test, and the messages that were sent.

import { useState } from "preact/hooks";
import type { ReceiverTest, ReceiverView, SentMessage } from "../api/types";
import { mistake, post } from "../api/client";
import { Button, Card, Table } from "../parts/basics";
import { moment } from "../parts/format";
import { State } from "../parts/state";
import { useLoaded } from "../state/loaded";
import { complain, tell } from "../state/notices";

const KINDS: Record<string, string> = { mail: "mail", webhook: "webhook", alertmanager: "Alertmanager", ntfy: "ntfy", program: "program" };

export function ReceiversCard({ receivers }: { receivers: ReceiverView[] }) {
  const [busy, setBusy] = useState<string | null>(null);
  const [isShown, setShown] = useState(false);
  const test = async (receiver: string): Promise<void> => {
    setBusy(receiver);
    try {
      for (const result of await post<ReceiverTest[]>("/alerts/test", { receiver })) {
        if (!result.is_delivered) throw mistake(`${result.receiver}: ${result.why ?? "not delivered"}`);
        tell(`${result.receiver} accepted the test message`);
      }
    } catch (error) {
      complain(error);
    } finally {
      setBusy(null);
    }
  };
  return (
    <Card
      title="Messages about alerts"
      wide
      actions={<Button kind="quiet" aria-expanded={isShown} onClick={() => setShown(!isShown)}>History</Button>}
    >
      <Table<ReceiverView>
        caption="Receivers of alerts"
        rows={receivers}
        keyOf={(one) => one.name}
        empty="No receiver"
        columns={[
          { title: "Receiver", cell: (one) => <><span class="mono">{one.name}</span> <small class="muted">{KINDS[one.kind] ?? one.kind}</small></> },
          { title: "To", cell: (one) => one.destination },
          { title: "From severity", cell: (one) => one.least },
          { title: "Last success", cell: (one) => (one.last_success_ms ? moment(one.last_success_ms) : "none yet") },
          { title: "State", cell: (one) => <Result receiver={one} /> },
          {
            title: "Actions",
            quiet: true,
            cell: (one) => (
              <Button needs="operator" disabled={busy !== null} onClick={() => void test(one.name)}>
                Test<span class="unseen"> {one.name}</span>
              </Button>
            ),
          },
        ]}
      />
      {isShown && <History />}
    </Card>
  );
}

function Result({ receiver }: { receiver: ReceiverView }) {
  if (!receiver.failing_since_ms) return <State word={receiver.last_success_ms ? "works" : "unknown"} />;
  return (
    <>
      <State word="failed" /> <small class="muted">{receiver.last_failure}</small>
    </>
  );
}

function History() {
  const history = useLoaded<SentMessage[]>("/alerts/history");
  return (
    <>
      {history.error && <p role="alert">{history.error.failure.message}</p>}
      <Table<SentMessage>
        caption="Messages that this head has sent"
        rows={(history.data ?? []).slice(0, 20)}
        keyOf={(one) => `${one.at_ms} ${one.receiver}`}
        empty={history.data ? "No message yet" : "Asking …"}
        columns={[
          { title: "Time", cell: (one) => moment(one.at_ms) },
          { title: "Receiver", cell: (one) => <span class="mono">{one.receiver}</span> },
          { title: "Subject", cell: (one) => one.subject },
        ]}
      />
    </>
  );
}
