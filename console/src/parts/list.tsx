// A table of many objects, such as hundreds of volumes: with a search, an order by any column, pages, and a selection.
// Its settings are in the address, so that new data does not reset them.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Role } from "../api/types";
import { isNarrow } from "../state/narrow";
import { set, settings } from "../state/route";
import { may } from "../state/session";
import { Button, Table, type Column } from "./basics";
import { Input, Select } from "./fields";
import { matcher, sorted, type Ordered } from "./search";

/** Rows of a page, on a wide and on a narrow screen. */
const ROWS_MAX = 50;
const ROWS_MAX_NARROW = 20;
/** Fewer rows need no search. */
const SEARCHED_FROM = 8;

export interface ListColumn<Row> extends Column<Row> {
  /** The value that rows are sorted by; a column without one cannot be chosen for it. */
  order?: (row: Row) => Ordered;
}

export interface Bulk<Row> {
  needs: Role;
  /** The buttons for the selected rows; `clear` removes the selection. */
  actions: (selected: Row[], clear: () => void) => ComponentChildren;
}

interface ListProps<Row> {
  /** The name of its settings in the address. */
  name: string;
  caption: string;
  /** The rows in the plural, such as "volumes". */
  many: string;
  columns: ListColumn<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  /** The texts that are searched. */
  texts: (row: Row) => string[];
  empty: ComponentChildren;
  /** The column that sorts the rows in descending order until one is chosen; without it they keep their order. */
  newestBy?: string;
  bulk?: Bulk<Row>;
}

interface Order {
  title: string;
  isDescending: boolean;
}

/** Stored as the title of the column, with `-` in front if it is descending. */
const orderOf = (text: string): Order => ({ title: text.replace(/^-/, ""), isDescending: text.startsWith("-") });
const orderText = ({ title, isDescending }: Order): string => `${isDescending ? "-" : ""}${title}`;

const digits = new Intl.NumberFormat("en");

export function List<Row>(props: ListProps<Row>) {
  const { name, caption, many, columns, rows, keyOf, texts, empty, newestBy, bulk } = props;
  const setting = (which: string): string => settings.value.get(`${name}.${which}`) ?? "";
  const change = (changes: Record<string, string>): void =>
    set(Object.fromEntries(Object.entries(changes).map(([which, value]) => [`${name}.${which}`, value || null])));
  const search = setting("search");
  const order = orderOf(setting("sort") || (newestBy ? `-${newestBy}` : ""));
  const found = select(rows, texts, search, columns.find((column) => column.title === order.title)?.order, order);

  const size = isNarrow.value ? ROWS_MAX_NARROW : ROWS_MAX;
  const pages = Math.max(1, Math.ceil(found.length / size));
  const page = Math.min(pages, Math.max(1, Math.floor(Number(setting("page"))) || 1));
  const shown = found.slice((page - 1) * size, page * size);

  const selection = useSelection(found, keyOf, bulk !== undefined && may(bulk.needs));
  const sort = (next: Order): void => change({ sort: orderText(next), page: "" });
  const headed = columns.map((column) => withHeader(column, order, sort));
  return (
    <>
      {(rows.length >= SEARCHED_FROM || search !== "") && (
        <div class="list-tools">
          <Input label={`Search ${many}`} hint="part of a name, or a pattern such as vm*-data" type="search" value={search}
            onValue={(value) => change({ search: value, page: "" })} />
          {isNarrow.value && <SortChoice many={many} columns={columns} order={order} onOrder={sort} />}
        </div>
      )}
      {bulk && selection.isAllowed && (
        <SelectionBar many={many} selected={selection.rows} found={found} bulk={bulk} onSelect={selection.select} />
      )}
      <Table<Row>
        caption={caption}
        rows={shown}
        keyOf={keyOf}
        empty={rows.length === 0 ? empty : `None of the ${digits.format(rows.length)} ${many} matches "${search}".`}
        columns={bulk && selection.isAllowed ? [selectionColumn(shown, keyOf, selection), ...headed] : headed}
      />
      {found.length > 0 && (pages > 1 || search !== "") && (
        <Pages many={many} page={page} pages={pages} size={size} found={found.length} all={rows.length}
          onPage={(next) => change({ page: next === 1 ? "" : String(next) })} />
      )}
    </>
  );
}

function select<Row>(
  rows: Row[],
  texts: (row: Row) => string[],
  search: string,
  value: ((row: Row) => Ordered) | undefined,
  { isDescending }: Order,
): Row[] {
  const isFound = matcher(search);
  const found = search === "" ? rows : rows.filter((row) => isFound(texts(row)));
  return value ? sorted(found, value, isDescending) : found;
}

/** A click on the title sorts by the column, a second click in the opposite direction. */
function withHeader<Row>(column: ListColumn<Row>, order: Order, onOrder: (order: Order) => void): Column<Row> {
  // The titles of a narrow screen are for screen readers only, which must not find buttons that cannot be seen.
  if (!column.order || isNarrow.value) return column;
  const isCurrent = order.title === column.title;
  const next = { title: column.title, isDescending: isCurrent && !order.isDescending };
  const arrow = isCurrent ? (order.isDescending ? "↓" : "↑") : "↕";
  return {
    ...column,
    sorted: isCurrent ? (order.isDescending ? "descending" : "ascending") : "none",
    header: (
      <button type="button" class={isCurrent ? "sort current" : "sort"} onClick={() => onOrder(next)}>
        {column.title}<span class="arrow" aria-hidden="true">{`\u00a0${arrow}`}</span>
      </button>
    ),
  };
}

interface SortChoiceProps<Row> {
  many: string;
  columns: ListColumn<Row>[];
  order: Order;
  onOrder: (order: Order) => void;
}

function SortChoice<Row>({ many, columns, order, onOrder }: SortChoiceProps<Row>) {
  const titles = columns.filter((column) => column.order).map((column) => column.title);
  const options = titles.flatMap((title): [string, string][] => [
    [orderText({ title, isDescending: false }), `${title}, ascending`],
    [orderText({ title, isDescending: true }), `${title}, descending`],
  ]);
  return (
    <Select label={`Sort ${many} by`} value={orderText(order)} onValue={(value) => onOrder(orderOf(value))}
      options={order.title === "" ? [["", "as they come"], ...options] : options} />
  );
}

interface Selection<Row> {
  isAllowed: boolean;
  keys: ReadonlySet<string>;
  rows: Row[];
  select: (some: Row[], isOn: boolean) => void;
}

/** Rows that disappear leave the selection. */
function useSelection<Row>(rows: Row[], keyOf: (row: Row) => string, isAllowed: boolean): Selection<Row> {
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  const selected = isAllowed && keys.size > 0 ? rows.filter((row) => keys.has(keyOf(row))) : [];
  const select = (some: Row[], isOn: boolean): void => {
    const next = new Set(selected.map(keyOf));
    for (const row of some) {
      if (isOn) next.add(keyOf(row));
      else next.delete(keyOf(row));
    }
    setKeys(next);
  };
  return { isAllowed, keys, rows: selected, select };
}

function selectionColumn<Row>(shown: Row[], keyOf: (row: Row) => string, { keys, select }: Selection<Row>): Column<Row> {
  const isAll = shown.every((row) => keys.has(keyOf(row)));
  return {
    title: "Selected",
    quiet: true,
    header: isNarrow.value ? undefined : (
      <input type="checkbox" aria-label="Select all of this page" checked={isAll}
        onChange={(event) => select(shown, event.currentTarget.checked)} />
    ),
    cell: (row) => (
      <input type="checkbox" aria-label={`Select ${keyOf(row)}`} checked={keys.has(keyOf(row))}
        onChange={(event) => select([row], event.currentTarget.checked)} />
    ),
  };
}

interface SelectionBarProps<Row> {
  many: string;
  selected: Row[];
  found: Row[];
  bulk: Bulk<Row>;
  onSelect: (some: Row[], isOn: boolean) => void;
}

function SelectionBar<Row>({ many, selected, found, bulk, onSelect }: SelectionBarProps<Row>) {
  if (found.length < 2 && selected.length === 0) return null;
  const clear = (): void => onSelect(selected, false);
  return (
    <div class="selection" role="group" aria-label={`Selected ${many}`}>
      <span role="status">{digits.format(selected.length)} of {digits.format(found.length)} {many} selected</span>
      <div class="actions">
        {found.length > 1 && <Button onClick={() => onSelect(found, true)}>Select all {digits.format(found.length)}</Button>}
        {selected.length > 0 && <Button onClick={clear}>Select none</Button>}
        {selected.length > 0 && bulk.actions(selected, clear)}
      </div>
    </div>
  );
}

interface PagesProps {
  many: string;
  page: number;
  pages: number;
  size: number;
  found: number;
  all: number;
  onPage: (page: number) => void;
}

function Pages({ many, page, pages, size, found, all, onPage }: PagesProps) {
  const from = (page - 1) * size + 1;
  const to = Math.min(found, page * size);
  const of = found === all ? digits.format(all) : `${digits.format(found)} found of ${digits.format(all)}`;
  return (
    <div class="pages" role="group" aria-label={`Pages of ${many}`}>
      <p role="status">{digits.format(from)}–{digits.format(to)} of {of}</p>
      {pages > 1 && (
        <div class="actions">
          <Button disabled={page === 1} onClick={() => onPage(1)}>First<span class="unseen"> page of {many}</span></Button>
          <Button disabled={page === 1} onClick={() => onPage(page - 1)}>Previous<span class="unseen"> page of {many}</span></Button>
          <Button disabled={page === pages} onClick={() => onPage(page + 1)}>Next<span class="unseen"> page of {many}</span></Button>
          <Button disabled={page === pages} onClick={() => onPage(pages)}>Last<span class="unseen"> page of {many}</span></Button>
        </div>
      )}
    </div>
  );
}
