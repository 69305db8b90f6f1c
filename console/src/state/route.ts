// Which page is shown: the part of the address behind `#`, such as `#/pools/tank`.

import { signal } from "@preact/signals";

function parts(): string[] {
  return location.hash
    .replace(/^#\/?/, "")
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

window.addEventListener("hashchange", () => {
  route.value = parts();
});

/** The address of a page. */
export function link(...names: string[]): string {
  return `#/${names.map(encodeURIComponent).join("/")}`;
}

export function go(...names: string[]): void {
  location.hash = link(...names);
}
