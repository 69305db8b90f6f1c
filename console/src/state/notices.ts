// Short messages about completed actions, for the eye and for screen readers.

import { signal } from "@preact/signals";
import type { ApiError } from "../api/client";

export interface Notice {
  id: number;
  good: boolean;
  text: string;
  advice: string | null;
}

const NOTICES_MAX = 4;
const SHOWN_MS = 8_000;

export const notices = signal<Notice[]>([]);
let last = 0;

function show(notice: Omit<Notice, "id">): void {
  last += 1;
  const id = last;
  notices.value = [...notices.value, { id, ...notice }].slice(-NOTICES_MAX);
  // Errors stay until they are dismissed.
  if (notice.good) window.setTimeout(() => dismiss(id), SHOWN_MS);
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function tell(text: string): void {
  show({ good: true, text, advice: null });
}

export function complain(error: unknown): void {
  const { failure } = error as Partial<ApiError>;
  show({
    good: false,
    text: failure?.message ?? String(error),
    advice: failure?.advice ?? null,
  });
}
