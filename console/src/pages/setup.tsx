// Set-up of an appliance: describe it, check it, view the plan, apply it, watch the progress.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { post } from "../api/client";
import type { Appliance, ApplianceCheckReport, ApplianceFile, AppliancePlan, Change, DiskView, Finding, Operation } from "../api/types";
import { Button, Card, Page } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { plural } from "../parts/format";
import { Refusal } from "../parts/refusal";
import { State, ToneIcon } from "../parts/state";
import { operations, overview } from "../state/live";
import { useLoaded } from "../state/loaded";
import { link } from "../state/route";
import { may } from "../state/session";
import { Log } from "./drills";
import { cleaned, fieldsOf, isToFillIn, newDocument, sortFindings } from "./setup/draft";
import { FindingList, Findings } from "./setup/findings";
import { ApplianceForm } from "./setup/form";
import { PoolsCard } from "./setup/pools";
import { HeadsAsked, WayToHeads } from "./setup/ways";

/** The check runs when nothing was typed for so long. */
const CHECK_AFTER_MS = 500;

interface Checked {
  report: ApplianceCheckReport | null;
  refusal: ApiError | null;
  isChecking: boolean;
}

interface Checking extends Checked {
  /** Checks again, and also queries the other heads, which needs a few seconds. */
  askHeads: () => void;
}

/** Has the document checked by the head whenever it changed. */
function useCheck(document: Appliance | null): Checking {
  const [checked, setChecked] = useState<Checked>({ report: null, refusal: null, isChecking: false });
  const latest = useRef(0);
  const timer = useRef(0);
  const check = async (reach_heads: boolean): Promise<void> => {
    if (!document || !may("admin")) return;
    // A click right after typing must use the typed text.
    window.clearTimeout(timer.current);
    latest.current += 1;
    const mine = latest.current;
    setChecked((before) => ({ ...before, isChecking: true }));
    try {
      const report = await post<ApplianceCheckReport>("/appliance/check", { appliance: cleaned(document), reach_heads });
      if (mine === latest.current) setChecked({ report, refusal: null, isChecking: false });
    } catch (error) {
      if (mine === latest.current) setChecked({ report: null, refusal: error as ApiError, isChecking: false });
    }
  };
  useEffect(() => {
    // A pending response is about another document.
    latest.current += 1;
    timer.current = window.setTimeout(() => void check(false), CHECK_AFTER_MS);
    return () => window.clearTimeout(timer.current);
  }, [document]);
  return { ...checked, askHeads: () => void check(true) };
}

export function SetupPage() {
  const file = useLoaded<ApplianceFile>("/appliance");
  const disks = useLoaded<DiskView[]>("/disks");
  const [draft, setDraft] = useState<Appliance | null>(null);
  const document = draft ?? file.data?.appliance ?? null;
  const isNew = file.data !== null && !file.data.appliance || file.error?.failure.kind === "not_found";
  const checked = useCheck(document);
  const all = checked.report?.findings ?? [];
  const open = document ? all.filter((finding) => isToFillIn(document, finding)) : [];
  const findings = sortFindings(all.filter((finding) => !open.includes(finding)), document ? fieldsOf(document) : []);
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
              <CheckCard document={document} checked={checked} whole={findings.get("") ?? []} open={open} />
              <PoolsCard document={document} />
              <PlanCard document={document} checked={checked} />
            </aside>
          </div>
        </Findings.Provider>
      )}
    </Page>
  );
}

interface CheckProps {
  document: Appliance;
  checked: Checking;
  whole: Finding[];
  /** About fields that are still empty: not shown as errors. */
  open: Finding[];
}

function CheckCard({ document, checked, whole, open }: CheckProps) {
  const findings = (checked.report?.findings ?? []).filter((finding) => !open.includes(finding));
  const number = (severity: string): number => findings.filter((finding) => finding.severity === severity).length;
  const [errors, warnings, hints] = [number("error"), number("warning"), number("hint")];
  return (
    <Card title="Check" actions={<Button needs="admin" disabled={checked.isChecking} onClick={checked.askHeads}>Ask the heads</Button>}>
      <p role="status" class="check-result">
        {!may("admin") ? "An admin may have the file checked." : checked.isChecking || (!checked.report && !checked.refusal) ? <><ToneIcon tone="busy" /> Checking …</> : checked.refusal ? "" : (
          <>
            <ToneIcon tone={errors > 0 ? "bad" : warnings > 0 ? "warning" : open.length > 0 ? "idle" : "good"} />
            {findings.length + open.length === 0 ? "Nothing was found." : [
              open.length > 0 ? `${plural(open.length, "thing")} to fill in` : "",
              errors > 0 ? plural(errors, "error") : "", warnings > 0 ? plural(warnings, "warning") : "", hints > 0 ? plural(hints, "hint") : "",
            ].filter(Boolean).join(", ")}
          </>
        )}
      </p>
      <Refusal error={checked.refusal} />
      {whole.length > 0 && <FindingList findings={whole} />}
      {open.length > 0 && (
        <details>
          <summary>What is to be filled in</summary>
          <ul class="list">{open.map((finding) => <li key={`${finding.code} ${finding.what}`}>{finding.what}</li>)}</ul>
        </details>
      )}
      <HeadsAsked document={document} report={checked.report} />
      {checked.report?.toml && (
        <details>
          <summary>The file, appliance.toml</summary>
          <pre class="log" tabIndex={0} role="region" aria-label="appliance.toml">{checked.report.toml}</pre>
        </details>
      )}
    </Card>
  );
}

function PlanCard({ document, checked }: { document: Appliance; checked: Checked }) {
  const [plan, setPlan] = useState<AppliancePlan | null>(null);
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
      const answer = await post<AppliancePlan | ApplianceCheckReport>("/appliance/plan", { appliance: cleaned(document) });
      // The queried heads may report errors that the file does not show.
      if ("findings" in answer) setFound(answer.findings);
      else setPlan(answer);
    } catch (error) {
      setRefusal(error as ApiError);
    }
    setPlanning(false);
  };
  const run = operations.value.find((operation) => operation.kind === "apply");
  // The plan has been applied; further changes need a new plan.
  useEffect(() => {
    if (run?.state === "done") setPlan(null);
  }, [run?.id, run?.state]);
  if (!may("admin")) return <Card title="Plan"><p>An administrator can plan and apply it.</p></Card>;
  return (
    <Card title="Plan" actions={<Button disabled={hasErrors || isPlanning} onClick={() => void makePlan()}>{isPlanning ? "Planning …" : "Make the plan"}</Button>}>
      {hasErrors && checked.report && <p>Fill in what is empty and mend the errors first.</p>}
      <Refusal error={refusal} />
      {found.length > 0 && <FindingList findings={found} />}
      {plan && <PlanView document={document} plan={plan} />}
      {plan && plan.obstacles.length === 0 && plan.changes.length > 0 && (
        <Button kind="primary" onClick={() => setAsking(true)}>Apply it</Button>
      )}
      {run && <Applied run={run} document={document} />}
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

function PlanView({ document, plan }: { document: Appliance; plan: AppliancePlan }) {
  if (plan.obstacles.length > 0) {
    return (
      <>
        <p>Something is in the way:</p>
        <ul class="list">{plan.obstacles.map((one) => <li key={one.what}><b>{one.what}</b>: {one.mend}</li>)}</ul>
        {plan.obstacles.some((one) => one.what.endsWith(" does not answer")) && <WayToHeads document={document} />}
      </>
    );
  }
  const toMake = plan.pools_to_make;
  if (plan.changes.length + toMake.length === 0) return <p role="status">Everything is as the file says already.</p>;
  return (
    <>
      {plan.changes.length > 0 && (
        <ol class="plan" aria-label="The plan">
          {plan.changes.map((change, index) => <li key={index}>{words(change)}</li>)}
        </ol>
      )}
      {toMake.length > 0 && (
        <>
          <p>{plan.changes.length > 0 ? "When that is applied, make" : "Make"} these pools, each by its command on the head that is named. Then make the plan again.</p>
          <ul class="list" aria-label="Pools to make">
            {toMake.map((one) => <li key={one.pool}><b>{one.head}</b>: <code>bulkhead {one.words.join(" ")}</code></li>)}
          </ul>
        </>
      )}
    </>
  );
}

function words(change: Change): string {
  const where = "head" in change ? ` on ${change.head}` : "";
  switch (change.action) {
    case "write_file":
      return `${change.is_new ? "write" : "change"} ${change.path}${where}`;
    case "write_authkey":
      return `write the cluster's secret${where}`;
    case "write_peer_key":
      return `write the key of the heads${where}`;
    case "set_witness":
      return change.witness
        ? `add ${change.witness} to the record of ${change.pool}${where}, while it is served`
        : `remove the witness from the record of ${change.pool}${where}, while it is served`;
    case "add_head":
      return `add the head ${change.coming} to the record of ${change.pool}${where}, while it is served`;
    case "attach_leg":
      return `attach ${change.leg} to ${change.pool}${where}, while it is served`;
    case "add_group":
      return `add a group to ${change.pool}${where}, while it is served: ${change.group.join(" ")}`;
    case "await_legs":
      return `wait until the legs of ${change.pools.join(", ")} are current, as far as they can be, and the disks${where} can be away`;
    case "stop_resources":
      return `have Pacemaker stop ${change.resources.join(", ")}, which the file does not have any more`;
    case "await_witness":
      return `wait until the witness answers${where}`;
    case "reload_corosync":
      return "have Corosync read its file again; nothing is interrupted";
    case "stop_unit":
      return `stop ${change.unit}${where}, now and at boot`;
    case "start_unit":
      return `start ${change.unit}${where}, now and at boot`;
    case "make_certificate":
      return `make a certificate for the console${where}`;
    case "configure_pacemaker":
      return `change Pacemaker's configuration in one step (${plural(change.changes.length, "change")})`;
    default:
      return `${change.action.replace(/_/g, " ")}${where}`;
  }
}

function Applied({ run, document }: { run: Operation; document: Appliance }) {
  return (
    <div>
      <p><State word={run.state} /> {run.title}</p>
      {run.failure && <p class="alert tone-bad">{run.failure.message} {run.failure.advice}</p>}
      {run.state === "done" && <InService names={Object.keys(document.pools ?? {})} />}
      <Log lines={run.progress} label="Progress" isLive={run.state === "running"} />
    </div>
  );
}

/** From the last change of a plan until clients can work: the heads and their pools, as they appear. */
function InService({ names }: { names: string[] }) {
  const pools = overview.value?.pools ?? [];
  const rows = names.map((name) => ({ name, pool: pools.find((one) => one.name === name) }));
  const isWhole = rows.every(({ pool }) => pool?.state === "served" && pool.pool);
  return (
    <>
      <p role="status">
        <ToneIcon tone={isWhole ? "good" : "busy"} size={16} />{" "}
        {isWhole ? <>The appliance is in service. <a href={link("")}>Go to the overview</a></> : "The heads come together, and start to serve …"}
      </p>
      <ul class="list" aria-label="Pools of the appliance">
        {rows.map(({ name, pool }) => (
          <li key={name}>
            <b>{name}</b> <State word={pool?.state ?? "stopped"} />
            {pool?.served_by && <> by {pool.served_by}{pool.addresses.length > 0 && ` at ${pool.addresses.join(", ")}`}</>}
          </li>
        ))}
      </ul>
    </>
  );
}
