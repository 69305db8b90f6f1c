// Which page is shown: the part of the address behind `#`, such as `#/pools/tank`. What a list shows of its rows follows
// a question mark, such as `#/volumes?volumes.search=vm`, so that it survives a reload and the way back.

import { signal } from "@preact/signals";

/** Browsers refuse an address that changes with each key. */
const WRITTEN_AFTER_MS = 300;

function halves(): [path: string, query: string] {
  const [path = "", ...query] = location.hash.replace(/^#\/?/, "").split("?");
  return [path, query.join("?")];
}

function parts(): string[] {
  return halves()[0]
    .split("/")
    .filter((part) => part !== "")
    .map(decode);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Typed by hand; shown as it is.
    return part;
  }
}

export const route = signal<string[]>(parts());
/** The settings of the lists of this page. */
export const settings = signal(new URLSearchParams(halves()[1]));

let writing = 0;

window.addEventListener("hashchange", () => {
  window.clearTimeout(writing);
  route.value = parts();
  settings.value = new URLSearchParams(halves()[1]);
});

/** Changes settings of this page; `null` removes one. No new entry of the browser's history is made. */
export function set(changes: Record<string, string | null>): void {
  const next = new URLSearchParams(settings.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  settings.value = next;
  window.clearTimeout(writing);
  writing = window.setTimeout(() => {
    const text = next.toString();
    history.replaceState(history.state, "", `#/${halves()[0]}${text === "" ? "" : `?${text}`}`);
  }, WRITTEN_AFTER_MS);
}

/** The address of a page. */
export function link(...names: string[]): string {
  return `#/${names.map(encodeURIComponent).join("/")}`;
}

export function go(...names: string[]): void {
  location.hash = link(...names);
}
