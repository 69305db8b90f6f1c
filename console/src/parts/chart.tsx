// Live charts of volumes or file systems, drawn by uPlot: throughput or latency over the last minutes. A sentence next
// to each has the current values, for users of screen readers.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { HISTORY_S, type Measured, type Rates, history, metrics } from "../state/live";
import { isDark } from "../state/theme";
import { latency, rate } from "./format";

export type Measure = "throughput" | "latency";

interface ChartProps {
  measure: Measure;
  of?: Measured;
  /** One of them: reads and writes. None: the busiest, reads and writes together. */
  name?: string;
  label: string;
}

const HEIGHT = 180;
const LINES_MAX = 6;
/** A page that was just opened has little to show; it does not stretch it over the whole width. */
const WIDTH_S_MIN = 60;

interface Line {
  label: string;
  dashed: boolean;
  value: (rates: Rates | null) => number | null;
  name: string;
}

const throughput = (rates: Rates | null): number | null =>
  rates && rates.read_bytes_per_s + rates.write_bytes_per_s;

/** The mean over reads and writes, by their numbers. */
export function meanLatency(rates: Rates | null): number | null {
  if (!rates) return null;
  const reads = rates.read_latency_us ?? null;
  const writes = rates.write_latency_us ?? null;
  if (reads === null || writes === null) return reads ?? writes;
  const operations = rates.read_ops_per_s + rates.write_ops_per_s;
  return operations > 0
    ? (reads * rates.read_ops_per_s + writes * rates.write_ops_per_s) / operations
    : null;
}

function linesOf(measure: Measure, of: Measured, name: string | undefined): Line[] {
  if (name !== undefined) {
    const value = (key: "read" | "write") => (rates: Rates | null): number | null =>
      rates && ((measure === "throughput" ? rates[`${key}_bytes_per_s`] : rates[`${key}_latency_us`]) ?? null);
    return [
      { label: "read", dashed: false, value: value("read"), name },
      { label: "write", dashed: true, value: value("write"), name },
    ];
  }
  const value = measure === "throughput" ? throughput : meanLatency;
  const busy = [...history[of]].map(([name, kept]) => ({
    name,
    sum: kept.reduce((sum, rates) => sum + (throughput(rates) ?? 0), 0),
  }));
  return busy
    .sort((a, b) => b.sum - a.sum || a.name.localeCompare(b.name))
    .slice(0, LINES_MAX)
    // A volume retains its colour when the order by load changes.
    .sort((a, b) => a.name.localeCompare(b.name))
    .map(({ name }, index) => ({ label: name, dashed: index % 2 === 1, value, name }));
}

function dataOf(of: Measured, lines: Line[]): uPlot.AlignedData {
  const columns = lines.map((line) => (history[of].get(line.name) ?? []).map(line.value));
  return [history.at_s.slice(), ...columns] as uPlot.AlignedData;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Steps of the axis that are round numbers of KiB, MiB and GiB. */
const BINARY_STEPS = Array.from({ length: 40 }, (_, power) => 2 ** power);

const shown = (measure: Measure, value: number | null): string =>
  value === null ? "–" : measure === "throughput" ? rate(value) : latency(value);

function options(measure: Measure, lines: Line[], width: number): uPlot.Options {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      x: { range: (_plot, min, max) => [Math.max(max - HISTORY_S, Math.min(min, max - WIDTH_S_MIN)), max] },
      y: { range: (_plot, _min, max) => [0, Math.max(max * 1.1, measure === "throughput" ? 1024 : 100)] },
    },
    axes: [
      { ...axis, space: 70, size: 30, values: "{HH}:{mm}:{ss}" as unknown as uPlot.Axis.Values },
      { ...axis, size: 78, ...(measure === "throughput" ? { incrs: BINARY_STEPS } : {}), values: (_plot, splits) => splits.map((split) => shown(measure, split)) },
    ],
    series: [
      {},
      ...lines.map((line, index) => ({
        label: line.label,
        stroke: colour(`--series-${(index % LINES_MAX) + 1}`),
        width: 1.8,
        dash: line.dashed ? [6, 4] : [],
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

export function Chart({ measure, of = "volumes", name, label }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<{ chart: uPlot; key: string } | null>(null);
  const lines = linesOf(measure, of, name);
  const key = `${measure} ${isDark.value} ${lines.map((line) => line.label).join("|")}`;
  // Reading it subscribes the chart to each second's sample.
  const now = metrics.value;

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    if (plot.current?.key !== key) {
      plot.current?.chart.destroy();
      const chart = new uPlot(options(measure, lines, element.clientWidth), dataOf(of, lines), element);
      plot.current = { chart, key };
    } else {
      plot.current.chart.setData(dataOf(of, lines));
    }
  }, [now, key]);

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const watcher = new ResizeObserver(() =>
      plot.current?.chart.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.current?.chart.destroy();
      plot.current = null;
    };
  }, []);

  const last = (line: Line): number | null => line.value(history[of].get(line.name)?.at(-1) ?? null);
  return (
    <figure class="chart">
      <figcaption>{label}</figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
      {lines.length === 0 && <p class="muted">{of === "volumes" ? "Volumes" : "File systems"} appear here when they are in use.</p>}
      <ul class="legend" aria-label={`${label}, now`}>
        {lines.map((line, index) => (
          <li key={line.label}>
            <span class={`swatch series-${(index % LINES_MAX) + 1}${line.dashed ? " dashed" : ""}`} aria-hidden="true" />
            <span class="legend-name">{line.label}</span> <b>{shown(measure, last(line))}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}
