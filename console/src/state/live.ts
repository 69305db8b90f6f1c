// The stream of the head: the overview, rates of volumes and file systems, events of pools, operations. The browser
// reconnects automatically; until then the console shows that, and the last known state.

import { computed, signal } from "@preact/signals";
import type { Event, FileSystemRates, Metrics, Operation, Overview, PoolEvent, Streamed, VolumeRates } from "../api/types";
import { get } from "../api/client";
import { resume } from "./session";

/** Seconds of rates that are kept for the charts. */
export const HISTORY_S = 300;
/** Events of pools that are cached here; older ones are requested. */
const EVENTS_MAX = 500;
const OPERATIONS_MAX = 100;
/** A stream that is silent for this long is dead: the head sends an event each second. */
const SILENCE_MAX_MS = 15_000;
const RETRY_MS = 1_000;

export type Connection = "connecting" | "connected" | "reconnecting";

export const connection = signal<Connection>("connecting");
export const overview = signal<Overview | null>(null);
export const metrics = signal<Metrics | null>(null);
export const events = signal<PoolEvent[]>([]);
export const operations = signal<Operation[]>([]);

/** Changes when an object appears, disappears or changes its state, not with every written byte. */
export const shape = computed(() =>
  (overview.value?.pools ?? [])
    .map((pool) => [
      pool.name, pool.state, pool.served_by, pool.pool?.health, pool.volume_count, pool.target_count, pool.nbd_count, pool.session_count,
    ].join(" "))
    .join("\n"),
);

/** The common rates of a volume and of a file system. */
export type Rates = Omit<VolumeRates, "pool" | "volume">;

/** The objects that have rates. */
export type Measured = "volumes" | "filesystems";

type Kept = Map<string, (Rates | null)[]>;

/** Rates of each volume and file system over the last seconds, ready for a chart. */
export const history: { at_s: number[] } & Record<Measured, Kept> = { at_s: [], volumes: new Map(), filesystems: new Map() };

/** The name of a file system in a table of them. */
export const nameOf = (rates: FileSystemRates): string => rates.filesystem || `others of ${rates.pool}`;

function remember(sample: Metrics): void {
  history.at_s.push(sample.at_ms / 1000);
  keep(history.volumes, sample.volumes.map((rates) => [rates.volume, rates]));
  keep(history.filesystems, (sample.filesystems ?? []).map((rates) => [nameOf(rates), rates]));
  if (history.at_s.length > HISTORY_S) history.at_s.shift();
}

function keep(all: Kept, sample: [string, Rates][]): void {
  const length = history.at_s.length;
  for (const [name, rates] of sample) {
    let kept = all.get(name);
    if (!kept) {
      kept = new Array<Rates | null>(length - 1).fill(null);
      all.set(name, kept);
    }
    kept.push(rates);
  }
  for (const [name, kept] of all) {
    if (kept.length < length) kept.push(null);
    if (length > HISTORY_S) kept.shift();
    if (kept.every((rates) => rates === null)) all.delete(name);
  }
}

function takeOperation(operation: Operation): void {
  const others = operations.value.filter((known) => known.id !== operation.id);
  operations.value = [operation, ...others]
    .sort((a, b) => b.started_at_ms - a.started_at_ms)
    .slice(0, OPERATIONS_MAX);
}

function takeOverview(next: Overview): void {
  overview.value = next;
  next.operations.forEach(takeOperation);
}

function takeEvents(more: PoolEvent[]): void {
  const known = new Set(events.value.map((one) => `${one.pool} ${one.event.number}`));
  const fresh = more.filter((one) => !known.has(`${one.pool} ${one.event.number}`));
  if (fresh.length === 0) return;
  events.value = [...fresh, ...events.value]
    .sort((a, b) => b.event.at_ms - a.event.at_ms || b.event.number - a.event.number)
    .slice(0, EVENTS_MAX);
}

/** Requests the stored events of a pool. */
export async function loadEvents(pool: string): Promise<void> {
  const older = await get<Event[]>(`/pools/${encodeURIComponent(pool)}/events`);
  takeEvents(older.map((event) => ({ pool, event })));
}

let source: EventSource | null = null;
let watchdog = 0;

function heard(): void {
  connection.value = "connected";
  window.clearTimeout(watchdog);
  watchdog = window.setTimeout(reconnect, SILENCE_MAX_MS);
}

function reconnect(): void {
  source?.close();
  source = null;
  window.clearTimeout(watchdog);
  connection.value = "reconnecting";
  watchdog = window.setTimeout(() => {
    // Also detects whether the session has expired.
    void resume();
    connect();
  }, RETRY_MS);
}

type Data<Name> = Extract<Streamed, { event: Name }>["data"];

function listen<Name extends Streamed["event"]>(stream: EventSource, name: Name, take: (data: Data<Name>) => void): void {
  stream.addEventListener(name, (message) => {
    heard();
    take(JSON.parse(message.data) as Data<Name>);
  });
}

/** Opens the stream; done once when a user has logged in. */
export function connect(): void {
  disconnect();
  const stream = new EventSource("/api/v1/stream");
  source = stream;
  watchdog = window.setTimeout(reconnect, SILENCE_MAX_MS);
  stream.onopen = heard;
  stream.onerror = reconnect;
  listen(stream, "overview", takeOverview);
  listen(stream, "metrics", (sample) => {
    remember(sample);
    metrics.value = sample;
  });
  listen(stream, "event", (one) => takeEvents([one]));
  listen(stream, "operation", takeOperation);
}

export function disconnect(): void {
  source?.close();
  source = null;
  window.clearTimeout(watchdog);
}

/** Shows a change at once, before the next overview. */
export async function refresh(): Promise<void> {
  takeOverview(await get<Overview>("/overview"));
}
