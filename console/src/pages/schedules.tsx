// The schedules of automatic snapshots, and how many are retained: a card of the page of a pool.

import { useState } from "preact/hooks";
import type { Done, ScheduleView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolPath } from "../api/paths";
import { Button, Card, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Check, Input, TextArea } from "../parts/fields";
import { moment, plural } from "../parts/format";
import { useLoaded } from "../state/loaded";

export function SchedulesCard({ pool }: { pool: string }) {
  const [changed, setChanged] = useState<ScheduleView | "new" | null>(null);
  const [gone, setGone] = useState<ScheduleView | null>(null);
  const asked = useLoaded<ScheduleView[]>(`${poolPath(pool)}/schedules`);
  const close = (): void => {
    setChanged(null);
    setGone(null);
    void asked.reload();
  };
  return (
    <Card
      title="Snapshots on a schedule"
      wide
      actions={<Button icon="plus" needs="admin" onClick={() => setChanged("new")}>Add a schedule</Button>}
    >
      {asked.data === null ? <p role="status">{asked.error ? asked.error.failure.message : "Asking …"}</p> : (
        <Table<ScheduleView>
          caption={`Schedules of ${pool}`}
          rows={asked.data}
          keyOf={(one) => one.of}
          empty="There are no automatic snapshots. A schedule creates them and removes the oldest; it moves with the pool."
          columns={[
            { title: "Of", cell: (one) => <span class="mono">{one.of}</span> },
            { title: "Rules", cell: (one) => (one.rules.length > 0 ? <Rules schedule={one} /> : "none: left out") },
            { title: "Covers", cell: (one) => plural(one.volumes.length, "volume") },
            {
              title: "Actions",
              quiet: true,
              cell: (one) => (
                <div class="actions">
                  <Button needs="admin" onClick={() => setChanged(one)}>Change<span class="unseen"> the schedule of {one.of}</span></Button>
                  <Button needs="admin" onClick={() => setGone(one)}>Remove<span class="unseen"> the schedule of {one.of}</span></Button>
                </div>
              ),
            },
          ]}
        />
      )}
      {changed && <ChangeSchedule pool={pool} schedule={changed === "new" ? null : changed} onClose={close} />}
      {gone && (
        <FormDialog title={`Remove the schedule of ${gone.of}`} action="Remove the schedule" danger onClose={close}
          submit={async () => done(pool, { snapshot: { schedule: { remove: { of: gone.of } } } })}>
          <p>No more snapshots are taken by it. Those that were taken stay.</p>
        </FormDialog>
      )}
    </Card>
  );
}

async function done(pool: string, request: unknown): Promise<string> {
  return (await post<{ done: Done }>(`${poolPath(pool)}/requests`, { request })).done.message;
}

function Rules({ schedule }: { schedule: ScheduleView }) {
  return (
    <ul class="list">
      {schedule.rules.map((one) => (
        <li key={one.rule}>{one.rule}, next {moment(one.next * 1000)}, {plural(one.snapshots, "snapshot")} now</li>
      ))}
    </ul>
  );
}

function ChangeSchedule({ pool, schedule, onClose }: { pool: string; schedule: ScheduleView | null; onClose: () => void }) {
  const [of, setOf] = useState(schedule?.of ?? pool);
  const [rules, setRules] = useState(schedule ? schedule.rules.map((one) => one.rule).join("\n") : "hourly keep 24\ndaily at 03:00 keep 7");
  const [skip, setSkip] = useState(schedule?.skip_unchanged ?? true);
  return (
    <FormDialog
      title={schedule ? `Change the schedule of ${schedule.of}` : "Add a schedule"}
      action="Set the schedule"
      onClose={onClose}
      submit={async () => {
        if (of.trim() === "") throw mistake("say of which volume or pool");
        const lines = rules.split("\n").map((line) => line.trim()).filter(Boolean);
        return done(pool, { snapshot: { schedule: { set: { of: of.trim(), rules: lines, skip_unchanged: skip } } } });
      }}
    >
      {!schedule && <Input label="Of" hint="a volume, a parent dataset, or the pool" value={of} onValue={setOf} mono required />}
      <TextArea label="Rules" rows={4} value={rules} onValue={setRules}
        hint="one a line, such as: hourly keep 24; daily at 03:00 keep 7; weekly keep 4. None: these volumes are left out" />
      <Check label="No snapshot of unchanged datasets" checked={skip} onValue={setSkip} />
    </FormDialog>
  );
}
