// Set-up of an appliance: describe it, see what the check finds, see the plan, apply it, watch.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { post } from "../api/client";
import type { ApplianceDocument, ApplianceFile, CheckReport, Change, Disk, Finding, Operation, Plan } from "../api/types";
import { Button, Card, Page } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { plural } from "../parts/format";
import { Refusal } from "../parts/refusal";
import { State, ToneIcon } from "../parts/state";
import { operations } from "../state/live";
import { useLoaded } from "../state/loaded";
import { may } from "../state/session";
import { Log } from "./drills";
import { cleaned, fieldsOf, newDocument, sortFindings } from "./setup/draft";
import { FindingList, Findings } from "./setup/findings";
import { ApplianceForm } from "./setup/form";

/** The check runs when nothing was typed for so long. */
const CHECK_AFTER_MS = 500;

interface Checked {
  report: CheckReport | null;
  refusal: ApiError | null;
  isChecking: boolean;
}

/** Has the document checked by the head whenever it changed. */
function useCheck(document: ApplianceDocument | null): Checked {
  const [checked, setChecked] = useState<Checked>({ report: null, refusal: null, isChecking: false });
  const latest = useRef(0);
  useEffect(() => {
    if (!document) return;
    latest.current += 1;
    const mine = latest.current;
    const check = async (): Promise<void> => {
      setChecked((before) => ({ ...before, isChecking: true }));
      try {
        const report = await post<CheckReport>("/appliance/check", { appliance: cleaned(document) });
        if (mine === latest.current) setChecked({ report, refusal: null, isChecking: false });
      } catch (error) {
        if (mine === latest.current) setChecked({ report: null, refusal: error as ApiError, isChecking: false });
      }
    };
    const timer = window.setTimeout(() => void check(), CHECK_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, [document]);
  return checked;
}

export function SetupPage() {
  const file = useLoaded<ApplianceFile>("/appliance");
  const disks = useLoaded<Disk[]>("/disks");
  const [draft, setDraft] = useState<ApplianceDocument | null>(null);
  const document = draft ?? file.data?.appliance ?? null;
  const isNew = file.data !== null && !file.data.appliance || file.error?.failure.kind === "not_found";
  const checked = useCheck(document);
  const findings = sortFindings(checked.report?.findings ?? [], document ? fieldsOf(document) : []);
  return (
    <Page title="Set-up">
      <p class="lead">One file describes the appliance, the same on every head. Fill it in, mind what the check says, look at the plan, apply it.</p>
      {!document && isNew && (
        <Card title="A new appliance">
          <p>This head belongs to no appliance yet.</p>
          <Button kind="primary" onClick={() => setDraft(newDocument())}>Describe a new appliance</Button>
        </Card>
      )}
      {!document && !isNew && file.error && <Refusal error={file.error} />}
      {document && (
        <Findings.Provider value={findings}>
          <div class="setup">
            <div class="setup-form">
              <ApplianceForm document={document} onChange={setDraft} disks={disks.data ?? []} />
            </div>
            <aside class="setup-side" aria-label="Check, plan and apply">
              <CheckCard checked={checked} whole={findings.get("") ?? []} />
              <PlanCard document={document} checked={checked} />
            </aside>
          </div>
        </Findings.Provider>
      )}
    </Page>
  );
}

function CheckCard({ checked, whole }: { checked: Checked; whole: Finding[] }) {
  const findings = checked.report?.findings ?? [];
  const number = (severity: string): number => findings.filter((finding) => finding.severity === severity).length;
  const [errors, warnings, hints] = [number("error"), number("warning"), number("hint")];
  return (
    <Card title="Check">
      <p role="status" class="check-result">
        {checked.isChecking || (!checked.report && !checked.refusal) ? <><ToneIcon tone="busy" /> Checking …</> : checked.refusal ? "" : (
          <>
            <ToneIcon tone={errors > 0 ? "bad" : warnings > 0 ? "warning" : "good"} />
            {findings.length === 0 ? "Nothing was found." : [
              errors > 0 ? plural(errors, "error") : "", warnings > 0 ? plural(warnings, "warning") : "", hints > 0 ? plural(hints, "hint") : "",
            ].filter(Boolean).join(", ")}
          </>
        )}
      </p>
      <Refusal error={checked.refusal} />
      {whole.length > 0 && <FindingList findings={whole} />}
      {checked.report?.toml && (
        <details>
          <summary>The file, appliance.toml</summary>
          <pre class="log" tabIndex={0} role="region" aria-label="appliance.toml">{checked.report.toml}</pre>
        </details>
      )}
    </Card>
  );
}

function PlanCard({ document, checked }: { document: ApplianceDocument; checked: Checked }) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const [found, setFound] = useState<Finding[]>([]);
  const [refusal, setRefusal] = useState<ApiError | null>(null);
  const [isPlanning, setPlanning] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const hasErrors = checked.report?.findings.some((finding) => finding.severity === "error") ?? true;
  // A plan of another file than the one that is shown would mislead.
  useEffect(() => {
    setPlan(null);
    setFound([]);
  }, [document]);
  const makePlan = async (): Promise<void> => {
    setPlanning(true);
    setRefusal(null);
    try {
      const answer = await post<Plan | CheckReport>("/appliance/plan", { appliance: cleaned(document) });
      // Heads that could be asked may know of errors that the file does not show.
      if ("findings" in answer) setFound(answer.findings);
      else setPlan(answer);
    } catch (error) {
      setRefusal(error as ApiError);
    }
    setPlanning(false);
  };
  const run = operations.value.find((operation) => operation.kind === "apply");
  if (!may("admin")) return <Card title="Plan"><p>An administrator can plan and apply it.</p></Card>;
  return (
    <Card title="Plan" actions={<Button disabled={hasErrors || isPlanning} onClick={() => void makePlan()}>{isPlanning ? "Planning …" : "Make the plan"}</Button>}>
      {hasErrors && checked.report && <p>Mend the errors first.</p>}
      <Refusal error={refusal} />
      {found.length > 0 && <FindingList findings={found} />}
      {plan && <PlanView plan={plan} />}
      {plan && plan.obstacles.length === 0 && plan.changes.length > 0 && (
        <Button kind="primary" onClick={() => setAsking(true)}>Apply it</Button>
      )}
      {run && <Applied run={run} />}
      {isAsking && (
        <FormDialog title={`Apply to ${document.name}`} action="Apply" danger typed={document.name} onClose={() => setAsking(false)}
          submit={async () => {
            await post<Operation>("/appliance/apply", { appliance: cleaned(document) });
            return "the plan is being applied";
          }}>
          <p>{plural(plan?.changes.length ?? 0, "change")} on the heads, in the order of the plan.</p>
        </FormDialog>
      )}
    </Card>
  );
}

function PlanView({ plan }: { plan: Plan }) {
  if (plan.obstacles.length > 0) {
    return (
      <>
        <p>Something is in the way:</p>
        <ul class="list">{plan.obstacles.map((one) => <li key={one.what}><b>{one.what}</b>: {one.mend}</li>)}</ul>
      </>
    );
  }
  if (plan.changes.length === 0) return <p role="status">Everything is as the file says already.</p>;
  return (
    <ol class="plan" aria-label="The plan">
      {plan.changes.map((change, index) => <li key={index}>{words(change)}</li>)}
    </ol>
  );
}

function words(change: Change): string {
  const where = change.head ? ` on ${change.head}` : "";
  switch (change.action) {
    case "write_file":
      return `${change.is_new ? "write" : "change"} ${change.path}${where}`;
    case "write_authkey":
      return `write the cluster's secret${where}`;
    case "reload_corosync":
      return "have Corosync read its file again; nothing is interrupted";
    case "stop_unit":
      return `stop ${change.unit}${where}, now and at boot`;
    case "start_unit":
      return `start ${change.unit}${where}, now and at boot`;
    case "configure_pacemaker":
      return `change Pacemaker's configuration in one step (${plural(change.changes?.length ?? 0, "change")})`;
    default:
      return `${change.action.replace(/_/g, " ")}${where}`;
  }
}

function Applied({ run }: { run: Operation }) {
  return (
    <div>
      <p><State word={run.state} /> {run.title}</p>
      {run.failure && <p class="alert tone-bad">{run.failure.message} {run.failure.advice}</p>}
      <Log lines={run.progress} label="Progress" isLive={run.state === "running"} />
    </div>
  );
}
