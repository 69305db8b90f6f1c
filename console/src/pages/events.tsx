// The event log of the pools; it is stored in the pools and moves with them.

import { useEffect, useState } from "preact/hooks";
import { Card, Page } from "../parts/basics";
import { EventList } from "../parts/events";
import { Input, Select } from "../parts/fields";
import { complain } from "../state/notices";
import { events, loadEvents } from "../state/live";
import { servedPools } from "./volumes";

export function useOlderEvents(pools: string[]): void {
  const names = pools.join(" ");
  useEffect(() => {
    for (const name of names.split(" ").filter(Boolean)) void loadEvents(name).catch(complain);
  }, [names]);
}

export function EventsPage() {
  const served = servedPools();
  const [pool, setPool] = useState("");
  const [words, setWords] = useState("");
  useOlderEvents(served);
  const wanted = words.toLowerCase();
  const found = events.value.filter(
    (one) => (pool === "" || one.pool === pool) && `${one.event.kind} ${one.event.message}`.toLowerCase().includes(wanted),
  );
  return (
    <Page title="Events">
      <Card title="What happened" wide>
        <div class="row">
          <Select
            label="Pool"
            value={pool}
            onValue={setPool}
            options={[["", "all pools"], ...served.map((name): [string, string] => [name, name])]}
          />
          <Input label="Only with these words" value={words} onValue={setWords} />
        </div>
        <EventList events={found} empty={events.value.length > 0 ? "No event of these pools has these words." : undefined} />
      </Card>
    </Page>
  );
}
