// The audit log of this head: each change with its user, the newest first.

import { useEffect, useState } from "preact/hooks";
import type { AuditEntry } from "../api/types";
import { Card, Page } from "../parts/basics";
import { Input } from "../parts/fields";
import { moment } from "../parts/format";
import { List } from "../parts/list";
import { State } from "../parts/state";
import { useLoaded } from "../state/loaded";

/** Most entries that the head returns. */
const ENTRIES_MAX = 1000;
/** A text that is being typed is not sent before this pause. */
const TYPED_AFTER_MS = 400;

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text.trim()), TYPED_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return settled;
}

export function AuditPage() {
  const [object, setObject] = useState("");
  const [user, setUser] = useState("");
  const query = new URLSearchParams({ limit: String(ENTRIES_MAX) });
  const wanted = { object: useSettled(object), user: useSettled(user) };
  for (const [name, value] of Object.entries(wanted)) if (value !== "") query.set(name, value);
  const audit = useLoaded<AuditEntry[]>(`/audit?${query.toString()}`);
  const rows = (audit.data ?? []).map((entry, at) => ({ ...entry, key: `${entry.at_ms} ${at}` }));
  return (
    <Page title="Audit log">
      <Card title="Changes on this head" wide>
        <div class="row">
          <Input label="Object" hint="with those below it, such as tank/vms, or a pattern such as tank/*@auto-*" value={object} onValue={setObject} mono />
          <Input label="User" hint="a name, or a pattern" value={user} onValue={setUser} />
        </div>
        <List<AuditEntry & { key: string }>
          name="audit"
          caption="Audit log"
          many="entries"
          rows={rows}
          keyOf={(entry) => entry.key}
          texts={(entry) => [entry.who, entry.from, deed(entry), entry.target, entry.details ?? "", entry.outcome]}
          empty={audit.error?.failure.message ?? (audit.data ? "There is no such entry." : "Asking …")}
          newestBy="Time"
          columns={[
            { title: "Time", order: (entry) => entry.at_ms, cell: (entry) => moment(entry.at_ms) },
            { title: "User", order: (entry) => entry.who, cell: (entry) => entry.who },
            { title: "From", order: (entry) => entry.from, cell: (entry) => <span class="mono">{entry.from}</span> },
            { title: "Action", order: deed, cell: deed },
            {
              title: "Object",
              order: (entry) => entry.details ?? entry.target,
              cell: (entry) => <span class="mono">{entry.target}{entry.details && ` (${entry.details})`}</span>,
            },
            {
              title: "Outcome",
              order: (entry) => entry.outcome,
              cell: (entry) => (
                <State word={entry.count ? `${entry.outcome}, ${entry.count} more` : entry.outcome} tone={entry.outcome === "done" ? "good" : "warning"} />
              ),
            },
          ]}
        />
      </Card>
    </Page>
  );
}

/** The action in short: a verb such as volume.create, or the last part of the path. */
function deed(entry: AuditEntry): string {
  const [method, place, ...rest] = entry.what.split(" ");
  if (place !== entry.target || rest.length > 0) return entry.what;
  switch (method) {
    case "DELETE":
      return "remove";
    case "PATCH":
      return "change";
    default:
      return place.split("/").at(-1) ?? entry.what;
  }
}
