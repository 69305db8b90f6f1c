// Numbers, sizes and times as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function scaled(value: number, units: string[], base: number): string {
  let rest = value;
  let step = 0;
  while (Math.abs(rest) >= base && step < units.length - 1) {
    rest /= base;
    step += 1;
  }
  const digits = step === 0 || Math.abs(rest) >= 100 ? 0 : Math.abs(rest) >= 10 ? 1 : 2;
  return `${Number(rest.toFixed(digits))} ${units[step]}`;
}

export const bytes = (value: number): string => scaled(value, UNITS, 1024);
export const rate = (value: number): string => `${scaled(value, UNITS, 1024)}/s`;
export const count = (value: number): string => scaled(value, ["", "k", "M"], 1000).trim();

export function latency(us: number | null | undefined): string {
  if (us === null || us === undefined) return "–";
  if (us >= 1_000_000) return `${Number((us / 1_000_000).toFixed(1))} s`;
  return us >= 1000 ? `${Number((us / 1000).toFixed(us >= 10_000 ? 0 : 1))} ms` : `${Math.round(us)} µs`;
}

export function percent(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.max(0, (part / whole) * 100)) : 0;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${Number(s.toFixed(s < 10 ? 2 : 1))} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function moment(at_ms: number): string {
  const when = new Date(at_ms);
  const isToday = when.toDateString() === new Date().toDateString();
  return (isToday ? clock : dated).format(when);
}

export const fullMoment = (at_ms: number): string => dated.format(new Date(at_ms));

/** How long ago a moment was, in its largest unit. */
export function age(at_ms: number, now_ms = Date.now()): string {
  const minutes = Math.max(0, Math.floor((now_ms - at_ms) / 60_000));
  if (minutes < 1) return "under a minute";
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`;
}

const SUFFIXES: Record<string, number> = { "": 0, k: 1, m: 2, g: 3, t: 4, p: 5 };

/** Reads `10G`, `1.5 TiB` or plain bytes; `null` when it is none of them, such as `10GB`, which may mean powers of 1000. */
export function parseSize(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgtp])(?:ib)?|b)?\s*$/i.exec(text);
  if (!found) return null;
  const power = SUFFIXES[(found[2] ?? "").toLowerCase()] ?? 0;
  const value = Number(found[1]) * 1024 ** power;
  return Number.isSafeInteger(Math.floor(value)) ? Math.floor(value) : null;
}

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Reads `90s`, `15m`, `4h` or `1d`; `null` when it is none of them. */
export function parseSeconds(text: string): number | null {
  const found = /^\s*(\d+)\s*([smhd])\s*$/i.exec(text);
  const unit = SECONDS[(found?.[2] ?? "").toLowerCase()];
  return found && unit ? Number(found[1]) * unit : null;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
