// Drills: injected faults in a lab on this host, and their effect on clients.

import { useState } from "preact/hooks";
import type { DrillKind, DrillReport, DrillsReport, DrillView, Operation } from "../api/types";
import { post, remove } from "../api/client";
import { Button, Card, Page, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { duration, moment } from "../parts/format";
import { State } from "../parts/state";
import { Steps } from "../parts/timeline";
import { operations } from "../state/live";
import { useLoaded } from "../state/loaded";
import { complain } from "../state/notices";

const EXPECTED: Record<DrillKind, string> = {
  crash: "clients pause briefly, none sees an error",
  "cut-off": "clients pause for some moments, none sees an error",
  move: "clients hardly notice",
  hidden: "clients notice nothing",
  unbounded: "clients wait until it is over, none sees an error, nothing is lost",
};

export function DrillsPage() {
  const drills = useLoaded<DrillView[]>("/drills");
  const [asked, setAsked] = useState<DrillView | null>(null);
  const runs = operations.value.filter((operation) => operation.kind === "drill");
  return (
    <Page title="Drills">
      <p class="lead">
        A drill makes a fault on purpose while initiators work, and says what they saw. It happens in a lab on this machine, with heads,
        disks and networks of its own: what is served here is not touched.
      </p>
      {drills.error && <p role="alert">{drills.error.failure.message}</p>}
      <div class="grid">
        {runs.slice(0, 5).map((run) => <Run key={run.id} run={run} />)}
        <Card title="Faults to try" wide>
          <Table<DrillView>
            caption="Drills"
            rows={drills.data ?? []}
            keyOf={(drill) => drill.name}
            empty="Asking …"
            columns={[
              { title: "Drill", cell: (drill) => <span class="mono">{drill.name}</span> },
              { title: "Fault", cell: (drill) => drill.about },
              { title: "Expected outcome", cell: (drill) => EXPECTED[drill.expectation.kind] },
              {
                title: "Actions",
                quiet: true,
                cell: (drill) => (
                  <Button needs="operator" icon="drill" onClick={() => setAsked(drill)}>
                    Run<span class="unseen"> {drill.name}</span>
                  </Button>
                ),
              },
            ]}
          />
        </Card>
      </div>
      {asked && <RunDrill drill={asked} onClose={() => setAsked(null)} />}
    </Page>
  );
}

function RunDrill({ drill, onClose }: { drill: DrillView; onClose: () => void }) {
  const [rounds, setRounds] = useState("1");
  const [profile, setProfile] = useState("fast");
  return (
    <FormDialog
      title={`Run ${drill.name}`}
      action="Run the drill"
      onClose={onClose}
      submit={async () => {
        const body = { names: [drill.name], rounds: Number(rounds) || 1, seed: null, profile: profile || null };
        await post<Operation>("/drills", body);
        return `the drill ${drill.name} has begun`;
      }}
    >
      <p>In a lab: {drill.about}.</p>
      <Input label="How often" numeric value={rounds} onValue={setRounds} />
      <Select label="Time-outs" value={profile} onValue={setProfile}
        options={[["fast", "fast"], ["", "those of the appliance file"]]} />
    </FormDialog>
  );
}

function Run({ run }: { run: Operation }) {
  const cancel = (): void => void remove(`/operations/${encodeURIComponent(run.id)}`).catch(complain);
  const report = reportOf(run);
  return (
    <Card
      title={run.title}
      id={`operation-${run.id}`}
      wide
      actions={run.state === "running" && <Button needs="operator" onClick={cancel}>Cancel</Button>}
    >
      <p>
        <State word={run.state} />{" "}
        <span class="muted">
          by {run.who}, {moment(run.started_at_ms)}
          {run.ended_at_ms ? `, took ${duration(run.ended_at_ms - run.started_at_ms)}` : ""}
        </span>
      </p>
      {run.failure && <p class="alert tone-bad">{run.failure.message} {run.failure.advice}</p>}
      {report?.drills.map((drill) => <Verdict key={drill.drill} drill={drill} />)}
      <Log lines={run.progress} label={`Progress of ${run.title}`} isLive={run.state === "running"} />
    </Card>
  );
}

/** The report of a drill that has ended, if it is one. */
function reportOf(run: Operation): DrillsReport | null {
  return run.result && "drills" in run.result ? run.result : null;
}

const seconds = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : duration(value * 1000);

function Verdict({ drill }: { drill: DrillReport }) {
  if (drill.skipped) return <p><State word="skipped" tone="idle" /> {drill.skipped}</p>;
  const lost = drill.rounds.reduce((sum, round) => sum + round.violations.length, 0);
  const errors = drill.rounds.reduce((sum, round) => sum + round.errors.length, 0);
  const twice = drill.rounds.reduce((sum, round) => sum + round.double_imports.length, 0);
  const isBroken = Boolean(drill.broken) || drill.rounds.some((round) => round.broken.length > 0);
  const steps = Object.entries(drill.steps_s).sort(([, a], [, b]) => a - b)
    .map(([name, after_s]) => ({ name, after_ms: after_s * 1000 }));
  return (
    <div class="verdict">
      <p>
        <State word={isBroken ? "promise broken" : "promise kept"} tone={isBroken ? "bad" : "good"} />{" "}
        I/O paused for <b>{seconds(drill.median_s)}</b>
        {drill.bounds && ` (promised: ${seconds(drill.bounds.worst_s)} at most)`}
        {`; ${errors} errors seen, ${lost} writes lost, ${twice} double imports.`}
      </p>
      {steps.length > 0 && <Steps steps={steps} whole_ms={(drill.worst_s ?? 0) * 1000} />}
    </div>
  );
}

/** Lines as they come; the newest is spoken by screen readers, not all of them. */
export function Log({ lines, label, isLive }: { lines: string[]; label: string; isLive: boolean }) {
  return (
    <>
      <p class="unseen" role="status">{isLive ? lines.at(-1) : ""}</p>
      <details open={isLive}>
        <summary>{label}</summary>
        <pre class="log" tabIndex={0} role="region" aria-label={label}>{lines.join("\n") || "…"}</pre>
      </details>
    </>
  );
}
