// The guided replacement of a disk: the bad disk, the possible new disks, a preview, and the progress.

import { useEffect, useState } from "preact/hooks";
import type { DeviceView, Operation, PoolStatus, ReplacementView } from "../api/types";
import { get, post, type ApiError } from "../api/client";
import { poolPath } from "../api/paths";
import { Card } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { bytes, duration, moment } from "../parts/format";
import { Refusal } from "../parts/refusal";
import { State } from "../parts/state";
import { operations } from "../state/live";
import { Log } from "./drills";
import { lost, Overwrite } from "./overwrite";

/** The head scans all of its disks for each request, so requests are not sent with every typed letter. */
const ASK_AFTER_MS = 250;
/** The new disk is none of the list, but a path. */
const TYPED = "path";

const leaves = (device: DeviceView): DeviceView[] =>
  (device.members ?? []).length > 0 ? (device.members ?? []).flatMap(leaves) : [device];

interface Wish {
  device: string | null;
  with: string | null;
  overwrite: boolean;
}

export function GuidedReplacement({ pool, device = "", onClose }: { pool: PoolStatus; device?: string; onClose: () => void }) {
  const [old, setOld] = useState(device);
  const [chosen, setChosen] = useState("");
  const [typed, setTyped] = useState("");
  const [overwrite, setOverwrite] = useState(false);
  const wish: Wish = {
    device: old === "" ? null : old,
    with: chosen === "" ? null : chosen === TYPED ? typed.trim() || null : chosen,
    overwrite,
  };
  // For a disk that the head chooses, the replaced disk is known.
  const confirm = lost(overwrite, [wish.with ?? wish.device ?? pool.name]);
  const { view, refusal } = useView(pool.name, wish);
  const devices = pool.devices.flatMap(leaves).filter((device) => device.role === "data" || device.role === "log");
  const isBad = (name: string): boolean => view?.failing.some((one) => one.device === name) ?? false;
  return (
    <FormDialog
      title={`Replace a disk of ${pool.name}`}
      action={view?.under_way ? "Go on" : "Replace it"}
      isReady={isReady(view)}
      danger={overwrite}
      typed={confirm}
      onClose={onClose}
      submit={async () => {
        const request = { pool: { replace_disk: { ...wish, perform: true } } };
        await post<Operation>(`${poolPath(pool.name)}/requests`, { request, background: true, confirm: confirm ?? null });
        return "the replacement has begun; the page of the pool shows how far it is";
      }}
    >
      {view && <Failing view={view} />}
      <Select label="Disk to replace" value={old} onValue={setOld}
        options={[
          ["", view?.old ? `the one that is bad: ${view.old}` : "the one that is bad"],
          ...devices.map((device): [string, string] => [device.name, `${device.name} (${device.state.toLowerCase()}${isBad(device.name) ? ", bad" : ""})`]),
        ]} />
      <Select label="New disk" value={chosen} onValue={setChosen}
        options={[
          ["", view?.new && wish.with === null ? `one that fits: ${view.new}` : "one that fits"],
          ...(view?.candidates ?? []).map((disk): [string, string] => [
            disk.path, [disk.path, bytes(disk.size), disk.model, disk.serial, disk.refused].filter(Boolean).join(", "),
          ]),
          [TYPED, "a different one, by its path"],
        ]}
        hint={view && view.needed_bytes > 0 ? `It needs ${bytes(view.needed_bytes)}.` : undefined} />
      {chosen === TYPED && <Input label="Path of the new disk" value={typed} onValue={setTyped} mono />}
      <Overwrite checked={overwrite} onValue={setOverwrite} />
      <Refusal error={refusal} />
      {view && (
        <div role="status">
          {view.hindrance && <p class="alert tone-warning">{view.hindrance}</p>}
          {view.steps.length > 0 && <ol class="steps">{view.steps.map((step) => <li key={step}>{step}</li>)}</ol>}
        </div>
      )}
    </FormDialog>
  );
}

/** Whether the head would accept it now: both disks are known, and there is no obstacle. */
const isReady = (view: ReplacementView | null): boolean =>
  view !== null && (Boolean(view.under_way) || (Boolean(view.old) && Boolean(view.new) && !view.hindrance));

/** A preview of the replacement by the head. */
function useView(pool: string, wish: Wish): { view: ReplacementView | null; refusal: ApiError | null } {
  const [view, setView] = useState<ReplacementView | null>(null);
  const [refusal, setRefusal] = useState<ApiError | null>(null);
  useEffect(() => {
    let isOld = false;
    const ask = async (): Promise<void> => {
      try {
        const query = new URLSearchParams({ overwrite: String(wish.overwrite) });
        if (wish.device !== null) query.set("device", wish.device);
        if (wish.with !== null) query.set("with", wish.with);
        const answer = await get<ReplacementView>(`${poolPath(pool)}/replacement?${query.toString()}`);
        if (isOld) return;
        setView(answer);
        setRefusal(null);
      } catch (error) {
        if (!isOld) setRefusal(error as ApiError);
      }
    };
    const timer = window.setTimeout(() => void ask(), ASK_AFTER_MS);
    return () => {
      isOld = true;
      window.clearTimeout(timer);
    };
  }, [pool, wish.device, wish.with, wish.overwrite]);
  return { view, refusal };
}

function Failing({ view }: { view: ReplacementView }) {
  if (view.under_way) return <p><State word="running" /> {view.under_way} is being filled already.</p>;
  if (view.failing.length === 0) return <p><State word="no disk is bad" tone="good" /> Choose one, if it shall be replaced all the same.</p>;
  return (
    <ul class="list" aria-label="Disks that are bad">
      {view.failing.map((one) => (
        <li key={one.device}>
          <span class="mono">{one.device}</span> <State word={one.state} />{" "}
          <small>
            {one.note ?? `${one.read_errors} reads and ${one.write_errors} writes failed, ${one.checksum_errors} blocks were wrong`}
          </small>
        </li>
      ))}
    </ul>
  );
}

/** The replacement that runs, or ran last, on this head. */
export function ReplacementCard({ pool }: { pool: string }) {
  const run = operations.value.find((operation) => operation.title === `pool.replace_disk in ${pool}`);
  if (!run) return null;
  const result = run.result as { done?: { message: string } } | null | undefined;
  return (
    <Card title="Replacement of a disk" wide>
      <p>
        <State word={run.state} />{" "}
        <span class="muted">
          by {run.who}, {moment(run.started_at_ms)}{run.ended_at_ms ? `, took ${duration(run.ended_at_ms - run.started_at_ms)}` : ""}
        </span>
      </p>
      {run.state === "running" && <p>{run.progress.at(-1) ?? "It begins …"}</p>}
      {run.failure && <p class="alert tone-bad">{run.failure.message} {run.failure.advice}</p>}
      {result?.done && <p>{result.done.message}</p>}
      <Log lines={run.progress} label="Progress of the replacement" isLive={run.state === "running"} />
    </Card>
  );
}
