// The steps of a takeover, each a bar as long as the time until it.

import type { Step, Takeover } from "../api/types";
import { duration, fullMoment } from "./format";

/** The meaning of each step for users without knowledge of Corosync and Pacemaker. */
const STEP_WORDS: Record<string, string> = {
  detected: "a sign of life is missed",
  membership: "the remaining heads continue alone",
  "fence asked": "its power-off is requested",
  fenced: "its power is off",
  "pool stop": "the pool's stop begins",
  stopped: "the pool is let go of",
  "pool start": "the pool's start begins",
  claimed: "its disks are taken over",
  imported: "the pool is open",
  listening: "its server answers",
  address: "its first address is up",
  "all addresses": "all addresses are up",
  "first I/O": "a client has a response",
};

export function Timeline({ takeover }: { takeover: Takeover }) {
  return (
    <>
      <p>
        {describe(takeover)} <span class="muted">{fullMoment(takeover.at_ms)}</span>
      </p>
      <Steps steps={takeover.steps} whole_ms={takeover.duration_ms ?? 0} />
    </>
  );
}

/** Steps with the time until each, counted from the first sign. */
export function Steps({ steps, whole_ms }: { steps: Step[]; whole_ms: number }) {
  const whole = Math.max(whole_ms, ...steps.map((step) => step.after_ms), 1);
  return (
    <ol class="timeline">
      {steps.map((step) => (
        <li key={step.name} data-step={step.name}>
          <span class="step-name">{STEP_WORDS[step.name] ?? step.name}</span>
          <span class="step-bar" aria-hidden="true">
            <span style={{ width: `${(step.after_ms / whole) * 100}%` }} />
          </span>
          <span class="step-time">{duration(step.after_ms)}</span>
        </li>
      ))}
    </ol>
  );
}

function describe(takeover: Takeover): string {
  // Then it is not known how long the pool was not served before.
  const countsFromStart = takeover.steps[0]?.name === "server started";
  const took = !takeover.duration_ms ? "" : countsFromStart ? `, ${duration(takeover.duration_ms)} after its start` : ` in ${duration(takeover.duration_ms)}`;
  if (takeover.kind === "start") return `${takeover.pool} started on ${takeover.to}${took}.`;
  if (takeover.kind === "restart") return `The server of ${takeover.pool} ended, and was started again on ${takeover.to}${took}.`;
  if (takeover.kind === "takeover" && countsFromStart) return `${takeover.to} started the server of ${takeover.pool}${took}.`;
  const from = takeover.from ? ` from ${takeover.from}` : "";
  return takeover.kind === "hand-over"
    ? `${takeover.pool} was handed over${from} to ${takeover.to}${took}.`
    : `${takeover.to} took ${takeover.pool} over${from}${took}.`;
}
