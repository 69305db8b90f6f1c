// States: a colour, and always a shape and a text as well.

import { Icon, type IconName } from "./icons";

export type Tone = "good" | "warning" | "bad" | "idle" | "busy";

const TONES: Record<string, Tone> = {
  good: "good",
  online: "good",
  served: "good",
  up: "good",
  done: "good",
  finished: "good",
  avail: "good",
  loaded: "good",
  current: "good",
  answers: "good",
  works: "good",
  mains: "good",
  battery: "warning",
  low: "bad",
  "not loaded": "warning",
  inuse: "warning",
  running: "busy",
  starting: "busy",
  copying: "busy",
  paused: "warning",
  degraded: "warning",
  stale: "warning",
  waiting: "bad",
  warning: "warning",
  offline: "warning",
  standby: "idle",
  stopped: "idle",
  canceled: "idle",
  info: "idle",
  hint: "idle",
  unknown: "idle",
  removed: "bad",
  unavail: "bad",
  faulted: "bad",
  failing: "bad",
  divergent: "bad",
  silent: "bad",
  suspended: "bad",
  failed: "bad",
  unreachable: "bad",
  unclean: "bad",
  down: "bad",
  error: "bad",
};

/** The tone of a state's text, in any case. */
export function toneOf(word: string): Tone {
  return TONES[word.toLowerCase()] ?? "idle";
}

const ICONS: Record<Tone, IconName> = {
  good: "good",
  warning: "warning",
  bad: "bad",
  idle: "idle",
  busy: "busy",
};

export function State({ word, tone = toneOf(word) }: { word: string; tone?: Tone }) {
  return (
    <span class={`state tone-${tone}`}>
      <Icon name={ICONS[tone]} size={14} />
      {word.toLowerCase()}
    </span>
  );
}

export function ToneIcon({ tone, size = 20 }: { tone: Tone; size?: number }) {
  return (
    <span class={`tone-icon tone-${tone}`}>
      <Icon name={ICONS[tone]} size={size} />
    </span>
  );
}
