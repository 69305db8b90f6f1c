// The legs of a pool by head: the state of each, the progress of its copy, and the members that store the record.

import type { PoolLeg, PoolLegMember, PoolLegs, PoolSurvives } from "../api/types";
import { Card, Progress } from "./basics";
import { bytes, duration, fullMoment, moment, percent } from "./format";
import { Icon } from "./icons";
import { State } from "./state";
import { shortened } from "./topology";

export function LegsCard({ legs }: { legs: PoolLegs }) {
  const heads = [...new Set(legs.legs.map((leg) => leg.head))];
  const others = legs.members.filter((member) => !heads.includes(member.name));
  const groups = new Set(legs.legs.map((leg) => leg.group)).size;
  return (
    <Card title="Legs" wide>
      <p class="muted">
        Each group of disks lies on several heads. What is acknowledged is on every leg that is current. The record is of epoch {legs.epoch}.
      </p>
      {legs.survives && <p>{survived(legs.survives)}</p>}
      {legs.survives && excluded(legs.survives).map((sentence) => <p class="muted" key={sentence}>{sentence}</p>)}
      <div class="legs">
        {heads.map((head) => (
          <section class="legs-head" key={head} aria-label={`Head ${head}`}>
            <h3>{head} <Member member={legs.members.find((member) => member.name === head)} /></h3>
            <ul aria-label={`Legs on ${head}`}>
              {legs.legs.filter((leg) => leg.head === head).map((leg) => <Leg key={leg.disk} leg={leg} hasGroups={groups > 1} />)}
            </ul>
          </section>
        ))}
        {others.map((member) => (
          <section class="legs-head" key={member.name} aria-label={`Member ${member.name}`}>
            <h3>{member.name} <Member member={member} /></h3>
            <p class="muted">{role(member)}</p>
          </section>
        ))}
      </div>
    </Card>
  );
}

/** The failures that the pool survives now. */
function survived({ disks, heads, not_heads, uncertain_heads, disks_without_head }: PoolSurvives): string {
  const some = (count: number) => (count === 0 ? "no disk" : count === 1 ? "any one disk" : `any ${count} disks`);
  const others = not_heads.length === 0 ? "" : `, not ${not_heads.join(" or ")}`;
  const unknown = uncertain_heads?.length ? ` (unknown for ${uncertain_heads.join(" or ")})` : "";
  const head = heads.length === 0 ? `no head${unknown}` : `${heads.join(" or ")}${others}${unknown}, and then ${some(disks_without_head)}`;
  return `It survives the failure of ${some(disks)}, or the loss of ${head}.`;
}

/** The heads that could not serve the pool, or of which that is unknown. */
function excluded({ cannot_serve, unknown }: PoolSurvives): string[] {
  const unable = Object.entries(cannot_serve ?? {}).map(([head, why]) => `${head} cannot serve it: ${why}.`);
  const unclear = Object.entries(unknown ?? {}).map(([head, why]) => `It is unknown whether ${head} could serve it: ${why}.`);
  return [...unable, ...unclear];
}

function role(member: PoolLegMember): string {
  if (member.is_leaving) return "The witness is to be none any more. It has a vote until the other head has agreed.";
  return member.is_witness ? "The witness stores which legs are current, and has no disk." : "It stores which legs are current.";
}

function Member({ member }: { member: PoolLegMember | undefined }) {
  if (!member) return null;
  return (
    <>
      {member.is_leaving && <State word="leaving" />}
      <State word={member.answers ? "answers" : "silent"} />
      {member.why && <span class="legs-why">{member.why}</span>}
    </>
  );
}

function Leg({ leg, hasGroups }: { leg: PoolLeg; hasGroups: boolean }) {
  return (
    <li>
      <div class={`node tone-${TONES[leg.state]}`}>
        <div class="node-name">
          <Icon name="disk" size={16} />
          <span class="mono path" title={leg.path}>{shortened(leg.path)}</span>
        </div>
        <State word={leg.state} />
        {hasGroups && <span class="muted">group {leg.group}</span>}
        {leg.since_ms !== null && leg.since_ms !== undefined && (
          <span class="muted" title={fullMoment(leg.since_ms)}>since {moment(leg.since_ms)}</span>
        )}
        <Lacks leg={leg} />
      </div>
    </li>
  );
}

const TONES: Record<PoolLeg["state"], string> = {
  current: "good", failing: "bad", stale: "warning", copying: "busy", faulted: "bad", divergent: "bad",
};

/** The missing data of a leg that is not current, and its next state. */
function Lacks({ leg }: { leg: PoolLeg }) {
  switch (leg.state) {
    case "current":
      return null;
    case "failing":
      return <p class="note">Writes wait until it is on record that this leg failed.</p>;
    case "divergent":
      return <p class="note">It may hold writes that nobody else has. Nothing is written to it.</p>;
    case "faulted":
      return <p class="note">{`It failed again and again, and is missing all writes${sinceGroup(leg)}. It is not tried again${beforeTime(leg)}, unless \`pool online\` says so.`}</p>;
    case "stale":
      return <p class="note">It is missing all writes{sinceGroup(leg)}. It comes back by itself.</p>;
    case "copying": {
      const [copied, left] = [leg.copied ?? 0, leg.left];
      if (left === null || left === undefined) return <p class="note">What it lacks{sinceGroup(leg)} is copied to it.</p>;
      const time = leg.remaining_s === null || leg.remaining_s === undefined ? "" : `, about ${duration(leg.remaining_s * 1000)}`;
      const text = `${bytes(copied)} copied, ${bytes(left)} left at most${time}`;
      return <Progress label={`Copy to ${shortened(leg.path)}`} share={percent(copied, copied + left)} text={text} />;
    }
  }
}

function beforeTime(leg: PoolLeg): string {
  return leg.tried_again_ms === null || leg.tried_again_ms === undefined ? "" : ` before ${fullMoment(leg.tried_again_ms)}`;
}

function sinceGroup(leg: PoolLeg): string {
  return leg.lacks_since_group === null || leg.lacks_since_group === undefined ? "" : ` since transaction group ${leg.lacks_since_group}`;
}
