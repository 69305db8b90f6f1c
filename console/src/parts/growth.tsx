// The growth of a pool: long work on its devices, its fill by day with the forecast, and the plan of a change.

import { useEffect, useState } from "preact/hooks";
import type { FillView, ForecastView, GrowthView, PlanView, PlannedChange, WorkView } from "../api/types";
import { post, type ApiError } from "../api/client";
import { poolPath } from "../api/paths";
import { useLoaded } from "../state/loaded";
import { Card, Meter, Progress } from "./basics";
import { bytes, duration, percent, rate } from "./format";
import { Refusal } from "./refusal";

const DAY_S = 86_400;
const WIDTH = 640;
const HEIGHT = 150;
/** The forecast is drawn for so many days at most. */
const AHEAD_DAYS = 30;

/** Work that is not complete, in one form for all kinds. */
export function WorkCard({ work }: { work: WorkView[] }) {
  if (work.length === 0) return null;
  return (
    <Card title="Work on the devices">
      {work.map((one) => (
        <Progress
          key={`${one.kind} ${one.started}`}
          label={`Progress of the ${one.kind}`}
          share={percent(one.done, one.total)}
          text={workText(one)}
        />
      ))}
    </Card>
  );
}

export function workText(work: WorkView): string {
  const of = work.group ? ` of ${work.group}` : "";
  const share = Math.floor(percent(work.done, work.total));
  const speed = work.bytes_per_s ? `, ${rate(work.bytes_per_s)}` : "";
  const left = work.remaining_s ? `, ${duration(work.remaining_s * 1000)} left` : "";
  return `${work.kind}${of} ${work.state}: ${share} %, ${bytes(work.done)} of ${bytes(work.total)}${speed}${left}`;
}

const day = (at_s: number): string => new Date(at_s * 1000).toISOString().slice(0, 10);

/** The forecast in a sentence. */
export function forecastText(forecast: ForecastView): string {
  const growth = forecast.bytes_per_day ?? null;
  if (growth === null) {
    return `No forecast: ${forecast.days_used} of the last 30 days have a sample, and at least 5 are needed.`;
  }
  const speed = growth < 0 ? `It shrinks by ${bytes(-growth)} a day.` : `It grows by ${bytes(growth)} a day.`;
  if (forecast.full_at === null || forecast.full_at === undefined) return `No date of a full pool. ${speed}`;
  return `Full in ${forecast.full_in_days ?? 0} days (on ${day(forecast.full_at)}) at the rate of the last 30 days. ${speed}`;
}

export function GrowthCard({ pool }: { pool: string }) {
  const { data, error } = useLoaded<GrowthView>(`${poolPath(pool)}/growth`);
  const samples = data ? samplesOf(data) : [];
  const last = samples.at(-1);
  return (
    <Card title="Growth" wide>
      {!data && <p class="muted">{error ? error.failure.message : "Asking …"}</p>}
      {data && !last && <p class="muted">The first sample is recorded within an hour.</p>}
      {data && last && (
        <>
          <p>{forecastText(data.forecast)}</p>
          <FillChart samples={samples} forecast={data.forecast} />
          {last.groups.map((group) => (
            <Meter key={group.group} label={`Fill of ${group.group}`} part={group.allocated} whole={group.size}
              text={`${group.group}: ${bytes(group.allocated)} of ${bytes(group.size)}, ${Math.round(percent(group.allocated, group.size))} %`} />
          ))}
        </>
      )}
    </Card>
  );
}

/** The days, and after the last of them the hours. */
function samplesOf(view: GrowthView): FillView[] {
  const lastDay = view.days.at(-1)?.at ?? 0;
  return [...view.days, ...view.hours.filter((one) => one.at > lastDay)];
}

/** The used space up to now, the capacity, and the forecast as a dashed line. */
function FillChart({ samples, forecast }: { samples: FillView[]; forecast: ForecastView }) {
  const first = samples[0];
  const last = samples.at(-1);
  if (!first || !last) return null;
  const growth = forecast.bytes_per_day ?? 0;
  const isDrawn = growth > 0;
  const end = isDrawn ? last.at + AHEAD_DAYS * DAY_S : last.at;
  const top = Math.max(1, ...samples.map((one) => one.usable));
  const x = (at: number): number => ((at - first.at) / Math.max(DAY_S, end - first.at)) * WIDTH;
  const y = (value: number): number => HEIGHT - Math.min(1, value / top) * HEIGHT;
  const line = (value: (one: FillView) => number): string =>
    samples.map((one) => `${x(one.at).toFixed(1)},${y(value(one)).toFixed(1)}`).join(" ");
  const then = last.used + growth * AHEAD_DAYS;
  return (
    <figure class="chart">
      <figcaption>Used space of {bytes(last.usable)}, {day(first.at)} to {day(end)}</figcaption>
      <svg class="fill-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
        aria-label={`Used space from ${bytes(first.used)} on ${day(first.at)} to ${bytes(last.used)} on ${day(last.at)}`}>
        <polyline class="fill-usable" points={line((one) => one.usable)} />
        <polyline class="fill-used" points={line((one) => one.used)} />
        {isDrawn && <line class="fill-forecast" x1={x(last.at)} y1={y(last.used)} x2={x(end)} y2={y(then)} />}
      </svg>
      <ul class="legend" aria-label="Lines of the chart">
        <li><span class="swatch series-1" aria-hidden="true" /> <span class="legend-name">used</span> <b>{bytes(last.used)}</b></li>
        <li><span class="swatch series-3" aria-hidden="true" /> <span class="legend-name">usable</span> <b>{bytes(last.usable)}</b></li>
        {isDrawn && <li><span class="swatch series-2 dashed" aria-hidden="true" /> <span class="legend-name">forecast</span> <b>{bytes(growth)} a day</b></li>}
      </ul>
    </figure>
  );
}

/** The consequences of a change, before it is made. */
export function PlanPreview({ pool, change }: { pool: string; change: PlannedChange }) {
  const [plan, setPlan] = useState<PlanView | null>(null);
  const [refusal, setRefusal] = useState<ApiError | null>(null);
  const key = JSON.stringify(change);
  useEffect(() => {
    let isOld = false;
    post<PlanView>(`${poolPath(pool)}/plan`, { change: JSON.parse(key) as PlannedChange }).then(
      (view) => { if (!isOld) setPlan(view); },
      (error: unknown) => { if (!isOld) setRefusal(error as ApiError); },
    );
    return () => { isOld = true; };
  }, [pool, key]);
  if (!plan) return <Refusal error={refusal} />;
  if (plan.refused) return <p class="alert tone-warning" role="status">{plan.refused}</p>;
  return (
    <ul class="list" aria-label="Consequences" role="list">
      <li>{plan.total > 0 ? `${bytes(plan.total)} are copied${plan.duration_s ? `, about ${duration(plan.duration_s * 1000)}` : ""}.` : "No data is copied."}</li>
      {plan.full_percent_after !== null && plan.full_percent_after !== undefined && (
        <li>The pool is {plan.full_percent_after} % full afterwards, of {bytes(plan.usable_after ?? 0)}; now it is {plan.full_percent_before ?? 0} %, of {bytes(plan.usable_before ?? 0)}.</li>
      )}
      {[...plan.meanwhile, ...(plan.notes ?? [])].map((sentence) => <li key={sentence}>{sentence}</li>)}
    </ul>
  );
}
