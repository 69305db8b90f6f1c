// The overview: alerts, heads and pools, space, throughput.

import type { Alert, HeadView, LinkView, Overview, PoolOverview, PoolStatus } from "../api/types";
import { AdviceLine } from "../parts/advice";
import { Card, Page } from "../parts/basics";
import { Chart } from "../parts/chart";
import { duration, moment, plural } from "../parts/format";
import { Icon } from "../parts/icons";
import { Said } from "../parts/said";
import { ScanProgress } from "../parts/scan";
import { SpaceMeter } from "../parts/space";
import { State, ToneIcon, toneOf, type Tone } from "../parts/state";
import { Timeline } from "../parts/timeline";
import { Topology } from "../parts/topology";
import { EventList } from "../parts/events";
import { events, overview } from "../state/live";
import { link } from "../state/route";
import { may } from "../state/session";
import { useOlderEvents } from "./events";
import { ReceiversCard } from "./receivers";
import { servedPools } from "./volumes";

const TAKEOVER_TITLES: Record<string, string> = { start: "Last start", restart: "Last restart", "hand-over": "Last move" };

export function OverviewPage() {
  const now = overview.value;
  useOlderEvents(servedPools());
  if (!now) return <Page title="Overview"><p role="status">Waiting for the head …</p></Page>;
  return (
    <Page title="Overview">
      <Alerts now={now} />
      <div class="grid">
        <Appliance now={now} />
        {(now.receivers ?? []).length > 0 && <ReceiversCard receivers={now.receivers ?? []} />}
        <Card title="Throughput"><Chart measure="throughput" label="Bytes read and written per second, by volume" /></Card>
        <Card title="Latency"><Chart measure="latency" label="Mean time of a response, by volume" /></Card>
        <div class="column">
          {now.pools.filter((pool) => pool.pool).map((pool) => <PoolCard key={pool.name} pool={pool} />)}
        </div>
        <div class="column">
          {now.last_takeover && (
            <Card title={TAKEOVER_TITLES[now.last_takeover.kind] ?? "Last takeover"}><Timeline takeover={now.last_takeover} /></Card>
          )}
          <Card title="Latest events">
            <EventList events={events.value.slice(0, 8)} />
            <p><a href={link("events")}>All events</a></p>
          </Card>
        </div>
      </div>
    </Page>
  );
}

const toneOfAlert = (alert: Alert): Tone =>
  alert.severity === "error" ? "bad" : alert.severity === "warning" ? "warning" : "idle";

const poolOf = (now: Overview, alert: Alert): PoolStatus | null =>
  now.pools.find((pool) => alert.about === `pool ${pool.name}`)?.pool ?? null;

/** The recommended actions, in sentences; one calm line if there are none. */
function Alerts({ now }: { now: Overview }) {
  const urgent = now.alerts.filter((alert) => alert.severity !== "info");
  // Without a pool the calm line contains the first step.
  const told = now.alerts.filter((alert) => alert.about !== "pools");
  const served = now.pools.filter((pool) => pool.state === "served").length;
  return (
    <section class="alerts" aria-label="What to do next">
      {urgent.length === 0 && (
        <p class="calm">
          <ToneIcon tone="good" />
          <span>
            <strong>{now.pools.length === 0 ? "Ready for a first pool." : "All is well."}</strong>{" "}
            {now.pools.length > 0 && `${plural(served, "pool")} served, nothing to do.`}
            {now.pools.length === 0 && (
              <>
                <a href={link("pools")}>Create a pool</a> of this head's disks
                {may("operator") && <>, or <a href={link("setup")}>set up an appliance</a> of several heads</>}.
              </>
            )}
          </span>
        </p>
      )}
      {told.map((alert) => (
        <div key={`${alert.about} ${alert.sentence}`} class={`alert tone-${toneOfAlert(alert)}`}>
          <ToneIcon tone={toneOfAlert(alert)} />
          <div>
            <p><strong><Said text={alert.sentence} /></strong></p>
            {alert.since_ms != null && alert.severity !== "info" && <p class="muted">Since {moment(alert.since_ms)}</p>}
            {(alert.details ?? []).length > 0 && <ul class="muted">{(alert.details ?? []).map((detail) => <li key={detail}>{detail}</li>)}</ul>}
            {alert.advice && <AdviceLine advice={alert.advice} pool={poolOf(now, alert)} />}
          </div>
        </div>
      ))}
    </section>
  );
}

/** The heads side by side, each with the pools that it serves, and the links between them. */
function Appliance({ now }: { now: Overview }) {
  const homeless = now.pools.filter((pool) => !now.heads.some((head) => head.name === pool.served_by));
  return (
    <Card title="Heads and pools" wide>
      <div class="appliance">
        <ul class="heads" aria-label="Heads">
          {now.heads.map((head) => (
            <Head key={head.name} head={head} pools={now.pools} />
          ))}
        </ul>
        {homeless.length > 0 && (
          <div class="homeless">
            <h3>Served by no head</h3>
            <PoolChips pools={homeless} />
          </div>
        )}
        <Links links={now.links} />
      </div>
    </Card>
  );
}

function Head({ head, pools: all }: { head: HeadView; pools: PoolOverview[] }) {
  const pools = all.filter((pool) => pool.served_by === head.name);
  const away = all.filter((pool) => pool.home === head.name && pool.served_by !== head.name);
  return (
    <li class={`head tone-${toneOf(head.state)}`}>
      <header>
        <Icon name="head" />
        <h3>{head.name}</h3>
        {head.here && <span class="here">this head</span>}
        <State word={head.state} />
      </header>
      {head.note && <p class="note">{head.note}</p>}
      {pools.length > 0 ? <PoolChips pools={pools} /> : <p class="muted">serves no pool</p>}
      {away.length > 0 && (
        <p class="muted">
          home of {away.map((pool) => `${pool.name} (${pool.served_by ? `${pool.served_by} serves it` : "no head serves it"})`).join(", ")}
        </p>
      )}
    </li>
  );
}

function PoolChips({ pools }: { pools: PoolOverview[] }) {
  return (
    <ul class="chips">
      {pools.map((pool) => (
        <li key={pool.name}>
          <a class="chip" href={link("pools", pool.name)}>
            <Icon name="pool" size={16} />
            <b>{pool.name}</b>
            <State word={pool.pool?.suspended ? "suspended" : pool.pool?.health ?? pool.state} />
            <small>
              {pool.addresses.length > 0 ? pool.addresses.join(", ") : plural(pool.session_count, "session")}
            </small>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Links({ links }: { links: LinkView[] }) {
  if (links.length === 0) return null;
  return (
    <div class="links">
      <h3>Links</h3>
      <ul>
        {links.map((one) => (
          <li key={`${one.network} ${one.from} ${one.to}`} class={`tone-${toneOf(one.state)}`}>
            <span>{one.from}</span>
            <span class="wire" aria-hidden="true" />
            <span class="wire-name">{one.network}</span>
            <State word={one.state} />
            <span class="wire" aria-hidden="true" />
            <span>{one.to}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function PoolCard({ pool }: { pool: PoolOverview }) {
  const status = pool.pool;
  if (!status) return null;
  return (
    <Card title={`Pool ${pool.name}`} actions={<a href={link("pools", pool.name)}>Details<span class="unseen"> of {pool.name}</span></a>}>
      <SpaceMeter label={`Space of ${pool.name} in use`} pool={status} />
      <p class="muted">
        {plural(pool.volume_count, "volume")}, {plural(pool.target_count, "target")}, {plural(pool.session_count, "session")}
        {pool.uptime_s !== null && pool.uptime_s !== undefined && `, served for ${duration(pool.uptime_s * 1000)}`}
      </p>
      <ScanProgress scan={status.scan ?? null} />
      <Topology pool={status} />
    </Card>
  );
}

