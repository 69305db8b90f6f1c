// Cards, meters, tables and buttons: the elements of every page.

import type { ComponentChildren, JSX } from "preact";
import { may } from "../state/session";
import type { Role } from "../api/types";
import { Icon, type IconName } from "./icons";
import { percent } from "./format";

interface CardProps {
  title: string;
  id?: string;
  level?: 2 | 3;
  actions?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}

export function Card({ title, id, level = 2, actions, wide, children }: CardProps) {
  const Heading = `h${level}` as "h2";
  const anchor = id ?? `card-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  return (
    <section class={wide ? "card wide" : "card"} aria-labelledby={anchor}>
      <header class="card-head">
        <Heading id={anchor}>{title}</Heading>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

let lastNumber = 0;

export function uniqueId(prefix: string): string {
  lastNumber += 1;
  return `${prefix}-${lastNumber}`;
}

type Kind = "plain" | "primary" | "danger" | "quiet";

interface ButtonProps extends Omit<JSX.IntrinsicElements["button"], "icon" | "class"> {
  class?: string;
  kind?: Kind;
  icon?: IconName;
  /** The role that the server requires; without it the button is not shown. */
  needs?: Role;
  children?: ComponentChildren;
}

export function Button({ kind = "plain", icon, needs, children, class: more, ...rest }: ButtonProps) {
  if (needs && !may(needs)) return null;
  return (
    <button type="button" {...rest} class={["button", kind, more].filter(Boolean).join(" ")}>
      {icon && <Icon name={icon} size={16} />}
      {children}
    </button>
  );
}

interface MeterProps {
  label: string;
  part: number;
  whole: number;
  text: string;
  /** From this share on it is a warning, in percent. */
  warnAt?: number;
}

export function Meter({ label, part, whole, text, warnAt = 80 }: MeterProps) {
  const share = percent(part, whole);
  const tone = share >= 90 ? "bad" : share >= warnAt ? "warning" : "good";
  return (
    <div class="meter">
      <div
        class="meter-track"
        role="meter"
        aria-label={label}
        aria-valuenow={Math.round(share)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuetext={text}
      >
        <div class={`meter-fill tone-${tone}`} style={{ width: `${share}%` }} />
      </div>
      <span class="meter-text">{text}</span>
    </div>
  );
}

interface ProgressProps {
  label: string;
  share: number;
  text: string;
}

export function Progress({ label, share, text }: ProgressProps) {
  return (
    <div class="meter">
      <div
        class="meter-track"
        role="progressbar"
        aria-label={label}
        aria-valuenow={Math.round(share)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuetext={text}
      >
        <div class="meter-fill tone-busy" style={{ width: `${share}%` }} />
      </div>
      <span class="meter-text">{text}</span>
    </div>
  );
}

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers are aligned to the right. */
  number?: boolean;
  /** Long texts without spaces wrap within the column. */
  wraps?: boolean;
  /** The title is for screen readers only. */
  quiet?: boolean;
  /** Not shown while none of its cells has a value. */
  optional?: boolean;
  /** Shown instead of the title above the column. */
  header?: ComponentChildren;
  /** The order of the rows by this column, where they can be sorted. */
  sorted?: "ascending" | "descending" | "none";
}

const isBlank = (cell: ComponentChildren): boolean =>
  cell === "" || cell === "–" || cell === null || cell === undefined || cell === false;

interface TableProps<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  empty: ComponentChildren;
}

/** A table that becomes a list of cards on a narrow screen. */
export function Table<Row>({ caption, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const cells = columns.map((column) => rows.map(column.cell));
  const shown = columns
    .map((column, index) => ({ column, cells: cells[index] ?? [] }))
    .filter(({ column, cells }) => !(column.optional || column.quiet) || !cells.every(isBlank));
  // The explicit roles survive the style of narrow screens, which removes the display of tables.
  return (
    <table role="table">
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {shown.map(({ column }) => (
            <th key={column.title} role="columnheader" scope="col" class={column.number ? "number" : ""} aria-sort={column.sorted}>
              {column.header ?? (column.quiet ? <span class="unseen">{column.title}</span> : column.title)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row, at) => (
          <tr key={keyOf(row)} role="row">
            {shown.map(({ column, cells }) => (
              <td key={column.title} role="cell" class={column.number ? "number" : column.wraps ? "wraps" : ""} data-title={column.quiet ? "" : column.title}>
                <div>{cells[at]}</div>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Page({ title, above, actions, children }: {
  title: string;
  above?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <>
      <div class="page-head">
        <div>
          {above && <p class="above">{above}</p>}
          <h1 tabIndex={-1}>{title}</h1>
        </div>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </>
  );
}
