// The events of pools, newest first.

import type { PoolEvent } from "../api/types";
import { fullMoment, moment } from "./format";
import { ToneIcon, type Tone } from "./state";

const TONES: Record<string, Tone> = {
  errors: "bad",
  checksum: "warning",
  left: "warning",
  suspended: "bad",
  spare: "warning",
  joined: "good",
  resumed: "good",
  server_ended: "warning",
  imported: "good",
  leg_current: "good",
  leg_copying: "busy",
  leg_failing: "bad",
  leg_stale: "warning",
  leg_faulted: "bad",
  leg_divergent: "bad",
  member_lost: "warning",
  member_back: "good",
};

interface EventListProps {
  events: PoolEvent[];
  /** The text of an empty list. */
  empty?: string;
}

export function EventList({ events, empty = "Nothing has happened yet." }: EventListProps) {
  if (events.length === 0) return <p class="empty">{empty}</p>;
  return (
    <ol class="events" aria-label="Events, newest first">
      {events.map(({ pool, event }) => (
        <li key={`${pool} ${event.number}`}>
          <ToneIcon tone={TONES[event.kind] ?? "idle"} size={16} />
          <time dateTime={new Date(event.at_ms).toISOString()} title={fullMoment(event.at_ms)}>{moment(event.at_ms)}</time>
          <span class="event-pool">{pool}</span>
          <span class="event-text">{event.message}</span>
        </li>
      ))}
    </ol>
  );
}
