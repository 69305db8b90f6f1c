// One pool: its devices with the recommended actions, its volumes and events.

import { useState } from "preact/hooks";
import type { Advice, DamageView, DeviceView, Done, HistoryEntry, Operation, PoolFound, PoolOverview, PoolStatus } from "../api/types";
import { post, remove } from "../api/client";
import { confirmed, poolPath } from "../api/paths";
import { AdviceLine } from "../parts/advice";
import { Button, Card, Facts, Page, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Check, Select } from "../parts/fields";
import { EventList } from "../parts/events";
import { bytes, duration, moment, plural } from "../parts/format";
import { GrowthCard, WorkCard } from "../parts/growth";
import { LegsCard } from "../parts/legs";
import { List } from "../parts/list";
import { Said } from "../parts/said";
import { ScanProgress } from "../parts/scan";
import { SpaceMeter, spaceFacts } from "../parts/space";
import { State, ToneIcon, type Tone } from "../parts/state";
import { Topology, shortened } from "../parts/topology";
import { events, overview, refresh } from "../state/live";
import { useLoaded } from "../state/loaded";
import { complain, tell } from "../state/notices";
import { go, link } from "../state/route";
import { may } from "../state/session";
import { AddDevices, RemoveDevice } from "./devices";
import { AttachDisk, ReplaceDisk } from "./disks";
import { useOlderEvents } from "./events";
import { KeysCard } from "./keys";
import { InUseBy } from "./inuse";
import { PortalsCard } from "./portals";
import { GuidedReplacement, ReplacementCard } from "./replacement";
import { SchedulesCard } from "./schedules";
import { VolumesCard } from "./volumes";

type Asked =
  | { kind: "replace" | "attach" | "detach" | "offline" | "remove"; device: DeviceView }
  | { kind: "guided"; pool: PoolStatus }
  | { kind: "move" | "export" | "destroy" | "add" };

export function PoolPage({ name }: { name: string }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const state = overview.value?.pools.find((pool) => pool.name === name);
  useOlderEvents(state?.state === "served" ? [name] : []);
  const above = <a href={link("pools")}>Pools</a>;
  if (!state) return <UnknownPool name={name} />;
  const pool = state.pool ?? null;
  const canMove = state.heads.length > 1;
  return (
    <Page
      title={`Pool ${name}`}
      above={above}
      actions={
        <>
          {canServe(state) && <ServeButton pool={name} />}
          {canMove && <Button needs="operator" onClick={() => setAsked({ kind: "move" })}>Move</Button>}
          {state.served_by && <Button needs="admin" onClick={() => setAsked({ kind: "export" })}>Export</Button>}
          <Button needs="admin" kind="danger" onClick={() => setAsked({ kind: "destroy" })}>Destroy</Button>
        </>
      }
    >
      {!state.served_by && <NotServed state={state} />}
      {pool && <AdviceList pool={pool} problems={state.problems} />}
      <div class="grid">
        <Summary state={state} />
        {pool && <ScrubCard pool={pool} />}
        {pool && <WorkCard work={pool.work ?? []} />}
        {pool?.legs && <LegsCard legs={pool.legs} />}
        {pool && (
          <Card title="Devices" wide actions={
            // Legs fail and return by their record, not by a button.
            !pool.legs && (
              <>
                <Button needs="admin" icon="plus" onClick={() => setAsked({ kind: "add" })}>Add devices</Button>
                <Button needs="operator" onClick={() => setAsked({ kind: "guided", pool })}>Replace a disk</Button>
                <ClearButton pool={name} />
              </>
            )
          }>
            <Topology pool={pool} actions={may("operator") && !pool.legs ? (device, group) => (
              <DiskButtons pool={name} device={device} group={group} ask={setAsked} />
            ) : undefined} />
          </Card>
        )}
        <ReplacementCard pool={name} />
        {pool && (pool.damaged ?? []).length > 0 && <Damage damaged={pool.damaged ?? []} />}
        {state.state === "served" && <GrowthCard pool={name} />}
        {state.state === "served" && <SchedulesCard pool={name} />}
        {state.state === "served" && <KeysCard pool={name} />}
        {state.state === "served" && <PortalsCard pool={name} />}
        {pool && <VolumesCard pools={[name]} wide />}
        <Card title="Events" wide>
          <EventList events={events.value.filter((one) => one.pool === name).slice(0, 50)} />
        </Card>
        {state.state === "served" && <HistoryCard pool={name} />}
      </div>
      {asked && <Dialogs state={state} asked={asked} onClose={() => setAsked(null)} />}
    </Page>
  );
}

/** A pool that no head reports; this head may find it on its disks. */
function UnknownPool({ name }: { name: string }) {
  const found = useLoaded<PoolFound[]>("/pools").data?.find((pool) => pool.name === name);
  return (
    <Page title={found ? `Pool ${name}` : name} above={<a href={link("pools")}>Pools</a>} actions={found && <ServeButton pool={name} />}>
      <p role="status">
        {!overview.value && "Waiting for the head …"}
        {overview.value && `No head of this appliance serves a pool ${name}.`}
        {overview.value && found && ` Its ${plural(found.devices.length, "device")} are on this head, and its state is ${found.state}.`}
      </p>
    </Page>
  );
}

/** Entries of the history that are requested. */
const HISTORY_MAX = 1000;

/** The changes that the pool has stored; they are read when they are wanted. */
function HistoryCard({ pool }: { pool: string }) {
  const [isOpen, setOpen] = useState(false);
  const history = useLoaded<HistoryEntry[]>(isOpen ? `${poolPath(pool)}/history?limit=${HISTORY_MAX}` : null);
  const rows = (history.data ?? []).map((entry, at) => ({ ...entry, key: String(at) }));
  return (
    <Card title="History of changes" wide actions={<Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{isOpen ? "Hide" : "Show"}</Button>}>
      {!isOpen && <p class="muted">ZFS stores each change in the pool. The audit log names their users.</p>}
      {isOpen && (
        <List<HistoryEntry & { key: string }>
          name="history"
          caption={`History of ${pool}`}
          many="changes"
          rows={rows}
          keyOf={(entry) => entry.key}
          texts={(entry) => [entry.what, entry.of ?? "", entry.details ?? ""]}
          empty={history.error?.failure.message ?? (history.data ? "No change is stored." : "Asking …")}
          newestBy="Time"
          columns={[
            { title: "Time", order: (entry) => entry.at_unix_s, cell: (entry) => moment(entry.at_unix_s * 1000) },
            { title: "Change", order: (entry) => entry.what, cell: (entry) => entry.what },
            { title: "Of", order: (entry) => entry.of, cell: (entry) => <span class="mono">{entry.of ?? pool}</span> },
            { title: "Details", optional: true, order: (entry) => entry.details, cell: (entry) => entry.details ?? "" },
          ]}
        />
      )}
    </Card>
  );
}

/** Performs an action and reports its result. */
async function perform(path: string, body: unknown): Promise<void> {
  try {
    tell((await post<Done>(path, body)).message);
    await refresh();
  } catch (error) {
    complain(error);
  }
}

/** Whether its server can be started here: no head serves it, and the cluster does not decide where. */
export const canServe = (state: PoolOverview): boolean => !state.served_by && !state.home && state.heads.length < 2;

/** Starts the server of a pool that no head serves. */
export function ServeButton({ pool }: { pool: string }) {
  return (
    <Button needs="admin" kind="primary" onClick={() => void perform(`${poolPath(pool)}/serve`, {})}>
      Serve<span class="unseen"> {pool}</span>
    </Button>
  );
}

function NotServed({ state }: { state: PoolOverview }) {
  return (
    <section class="alerts" aria-label="Not served">
      <div class="alert tone-warning">
        <ToneIcon tone="warning" />
        <p>
          <strong>No head serves {state.name}.</strong> Its volumes and file systems are not available.
          {!canServe(state) && ` The cluster decides where it is served: ${state.heads.join(", ")}.`}
          {canServe(state) && (may("admin") ? " Serve starts its server on this head." : " An administrator can serve it here.")}
        </p>
      </div>
    </section>
  );
}

const TONES: Record<Advice["severity"], Tone> = { error: "bad", warning: "warning", info: "idle" };

function AdviceList({ pool, problems }: { pool: PoolStatus; problems: string[] }) {
  if (pool.advice.length + problems.length === 0) return null;
  return (
    <section class="alerts" aria-label="What to do next">
      {pool.advice.map((advice) => (
        <div class={`alert tone-${TONES[advice.severity]}`} key={`${advice.what} ${advice.why}`}>
          <ToneIcon tone={TONES[advice.severity]} />
          <div>
            {advice.why && <p><strong>{advice.why}</strong></p>}
            {advice.since_ms != null && <p class="muted">Since {moment(advice.since_ms)}</p>}
            {(advice.details ?? []).length > 0 && <ul class="muted">{(advice.details ?? []).map((detail) => <li key={detail}>{detail}</li>)}</ul>}
            <AdviceLine advice={advice} pool={pool} />
          </div>
        </div>
      ))}
      {problems.map((sentence) => (
        <div class="alert tone-warning" key={sentence}>
          <ToneIcon tone="warning" />
          <p><Said text={sentence} /></p>
        </div>
      ))}
    </section>
  );
}

function Summary({ state }: { state: PoolOverview }) {
  const pool = state.pool;
  return (
    <Card title="Summary">
      {pool && (
        <SpaceMeter label="Space in use" pool={pool} />
      )}
      <Facts
        facts={[
          ["Health", <State word={pool?.suspended ? "suspended" : pool?.health ?? state.state} />],
          ["Served by", `${state.served_by ?? "no head"}${state.home ? ` (home: ${state.home})` : ""}`],
          ["Addresses", state.addresses.join(", ") || "those of the head"],
          ...spaceFacts(pool ?? null),
          ...(pool?.read_balancing ? [["Reads of legs", pool.read_balancing] as [string, string]] : []),
          ["Sessions", state.session_count],
          ["Served for", state.uptime_s === null || state.uptime_s === undefined ? "–" : duration(state.uptime_s * 1000)],
        ]}
      />
    </Card>
  );
}

function ScrubCard({ pool }: { pool: PoolStatus }) {
  const path = `${poolPath(pool.name)}/scrub`;
  const state = pool.scan?.function === "resilver" ? null : pool.scan?.state;
  const isActive = state === "running" || state === "paused";
  const act = (action: string) => () => void perform(path, { action });
  return (
    <Card
      title="Scrub"
      actions={
        <>
          {state !== "running" && (
            <Button needs="operator" onClick={act("start")}>{state === "paused" ? "Go on" : "Start"}</Button>
          )}
          {state === "running" && <Button needs="operator" onClick={act("pause")}>Pause</Button>}
          {isActive && <Button needs="operator" onClick={act("stop")}>Stop</Button>}
        </>
      }
    >
      <p>A scrub reads every block, and repairs what a disk returns wrongly.</p>
      <ScanProgress scan={pool.scan ?? null} />
      {pool.scrub_schedule && (
        <p class="muted">By itself {pool.scrub_schedule.when}, next {moment(pool.scrub_schedule.next * 1000)}.</p>
      )}
      {pool.copy_rate_max && (
        <p class="muted">Scrubs and resilvers read at most {bytes(Number(pool.copy_rate_max))} a second.</p>
      )}
    </Card>
  );
}

/** Data that no disk holds any more, and the snapshot that still contains it. */
function Damage({ damaged }: { damaged: DamageView[] }) {
  const where = (one: DamageView): string =>
    one.offset === null || one.offset === undefined ? "somewhere" : `${bytes(one.length)} from byte ${one.offset} on`;
  return (
    <Card title="Damaged beyond repair" wide>
      <Table<DamageView>
        caption="Damaged data"
        rows={damaged}
        keyOf={(one) => `${one.dataset} ${one.offset ?? ""} ${one.length}`}
        empty=""
        columns={[
          { title: "Volume", cell: (one) => one.dataset },
          { title: "Where", cell: where },
          { title: "Newest whole snapshot", cell: (one) => one.snapshot ?? "none" },
        ]}
      />
    </Card>
  );
}

function ClearButton({ pool }: { pool: string }) {
  return (
    <Button needs="operator" onClick={() => void perform(`${poolPath(pool)}/clear`, { device: null })}>
      Clear errors
    </Button>
  );
}

interface DiskButtonsProps {
  pool: string;
  device: DeviceView;
  group: DeviceView | null;
  ask: (asked: Asked) => void;
}

function DiskButtons({ pool, device, group, ask }: DiskButtonsProps) {
  const named = <span class="unseen"> {device.name}</span>;
  // A member leaves with its group, or by a detach.
  const remove = !group && <Button needs="admin" onClick={() => ask({ kind: "remove", device })}>Remove{named}</Button>;
  if ((device.members ?? []).length > 0 || (device.role !== "data" && device.role !== "log")) return remove;
  const isOffline = device.state === "OFFLINE" || device.state === "REMOVED";
  const isMirrored = group !== null && !group.name.startsWith("raidz");
  return (
    <>
      <Button onClick={() => ask({ kind: "replace", device })}>Replace{named}</Button>
      {isOffline && (
        <Button onClick={() => void perform(`${poolPath(pool)}/online`, { device: device.name })}>Use again{named}</Button>
      )}
      {!isOffline && group && <Button onClick={() => ask({ kind: "offline", device })}>Take offline{named}</Button>}
      {(isMirrored || !group) && <Button onClick={() => ask({ kind: "attach", device })}>Mirror{named}</Button>}
      {isMirrored && <Button needs="admin" onClick={() => ask({ kind: "detach", device })}>Detach{named}</Button>}
      {remove}
    </>
  );
}

function Dialogs({ state, asked, onClose }: { state: PoolOverview; asked: Asked; onClose: () => void }) {
  const path = poolPath(state.name);
  const [inUse, setInUse] = useState(false);
  const users = <InUseBy count={state.session_count} checked={inUse} onValue={setInUse} />;
  const [withoutRedundancy, setWithoutRedundancy] = useState(false);
  const redundancy = <Check label="Even if a disk of its group has failed and no redundancy is left"
    checked={withoutRedundancy} onValue={setWithoutRedundancy} />;
  const act = (verb: string, body: unknown) => async () => (await post<Done>(`${path}/${verb}`, body)).message;
  switch (asked.kind) {
    case "replace":
      return <ReplaceDisk pool={state.name} device={asked.device} onClose={onClose} />;
    case "guided":
      return <GuidedReplacement pool={asked.pool} onClose={onClose} />;
    case "attach":
      return <AttachDisk pool={state.name} device={asked.device} onClose={onClose} />;
    case "detach":
      return (
        <FormDialog title={`Detach ${shortened(asked.device.name)}`} action="Detach" danger onClose={onClose}
          submit={act("detach", { device: asked.device.name, without_redundancy: withoutRedundancy })}>
          <p>The mirror continues without this disk. The data on it is no part of the pool any more.</p>
          {redundancy}
        </FormDialog>
      );
    case "offline":
      return (
        <FormDialog title={`Take ${shortened(asked.device.name)} offline`} action="Take offline" onClose={onClose}
          submit={act("offline", { device: asked.device.name, temporary: false, without_redundancy: withoutRedundancy })}>
          <p>The pool continues with less redundancy until the disk is used again; then only the missing data is copied.</p>
          {redundancy}
        </FormDialog>
      );
    case "add":
      return <AddDevices pool={state.name} onClose={onClose} />;
    case "remove":
      return <RemoveDevice pool={state.name} device={asked.device} onClose={onClose} />;
    case "move":
      return <MovePool state={state} onClose={onClose} />;
    case "export":
      return (
        <FormDialog title={`Export ${state.name}`} action="Export" danger typed={state.name} onClose={onClose}
          submit={act("export", { in_use: inUse })}>
          <p>The pool is closed, and its server stops. The data stays: the pool can be served again, here or elsewhere.</p>
          {users}
        </FormDialog>
      );
    case "destroy":
      return (
        <FormDialog title={`Destroy ${state.name}`} action="Destroy the pool" danger typed={state.name} onClose={onClose}
          submit={async () => {
            const done = await remove<Done>(confirmed(path, state.name, `&in_use=${inUse}`));
            go("pools");
            return done.message;
          }}>
          <p>All volumes and snapshots of {state.name} are lost.</p>
          {users}
        </FormDialog>
      );
  }
}

function MovePool({ state, onClose }: { state: PoolOverview; onClose: () => void }) {
  const others = state.heads.filter((head) => head !== state.served_by);
  const [to, setTo] = useState(others[0] ?? "");
  const [withoutKeys, setWithoutKeys] = useState(false);
  return (
    <FormDialog
      title={`Move ${state.name}`}
      action="Move"
      onClose={onClose}
      submit={async () => {
        await post<Operation>(`${poolPath(state.name)}/move`, { to, without_keys: withoutKeys });
        return `${state.name} is moving to ${to}`;
      }}
    >
      <p>Initiators pause for a moment and go on with the other head; none sees an error.</p>
      <Select label="To the head" value={to} onValue={setTo} options={others.map((head): [string, string] => [head, head])} />
      <Check label="Also if keys of encrypted volumes are missing there" checked={withoutKeys} onValue={setWithoutKeys}
        hint="Those volumes are unavailable there until their keys are loaded." />
    </FormDialog>
  );
}
