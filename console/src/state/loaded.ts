// Data of one page: requested when the page is shown, again after a change in the stream, and periodically, since the
// stream does not contain all data.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError } from "../api/client";
import { poolPath } from "../api/paths";
import { connection, shape } from "./live";

const AGAIN_MS = 10_000;
/** The pause is at least so many times the duration of the request: a long list costs the server work. */
const PAUSES_PER_REQUEST = 10;

/** Runs `load` now, and again after each pause, until the returned function is called. */
function repeat(load: () => Promise<void>, isFirstDue: boolean): () => void {
  let timer = 0;
  let isOver = false;
  const run = async (): Promise<void> => {
    const began = performance.now();
    await load();
    const took = performance.now() - began;
    if (!isOver) timer = window.setTimeout(() => void run(), Math.max(AGAIN_MS, took * PAUSES_PER_REQUEST));
  };
  if (isFirstDue) void run();
  else timer = window.setTimeout(() => void run(), AGAIN_MS);
  return () => {
    isOver = true;
    window.clearTimeout(timer);
  };
}

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  reload: () => Promise<void>;
}

/** The JSON at `path`; `null` requests nothing. */
export function useLoaded<T>(path: string | null): Loaded<T> {
  const [state, setState] = useState<{ path: string; data: T | null; error: ApiError | null } | null>(null);
  const current = useRef(path);
  current.current = path;

  const reload = useCallback(async () => {
    if (path === null) return;
    try {
      const data = await get<T>(path);
      if (current.current === path) setState({ path, data, error: null });
    } catch (error) {
      if (current.current !== path) return;
      // The data stays visible; the line at the top shows that the head is unreachable.
      setState((before) => ({
        path,
        data: before?.path === path ? before.data : null,
        error: error as ApiError,
      }));
    }
  }, [path]);

  const now = shape.value;
  const isConnected = connection.value === "connected";
  useEffect(() => {
    void reload();
  }, [reload, now, isConnected]);
  useEffect(() => repeat(reload, false), [reload]);

  const mine = state?.path === path ? state : null;
  return { data: mine?.data ?? null, error: mine?.error ?? null, reload };
}

export interface OfPool<T> {
  pool: string;
  item: T;
}

/**
 * The lists of several pools in one, such as all their `volumes`; `null` until each pool has responded. While a pool
 * does not respond, its last data stays.
 */
export function useOfPools<T>(pools: string[], what: string): OfPool<T>[] | null {
  const [items, setItems] = useState<OfPool<T>[] | null>(null);
  const names = pools.join(" ");
  const now = shape.value;
  useEffect(() => {
    let isGone = false;
    const load = async (): Promise<void> => {
      const lists = names.split(" ").filter(Boolean).map(async (pool) => {
        const list = await get<T[]>(`${poolPath(pool)}/${what}`);
        return list.map((item): OfPool<T> => ({ pool, item }));
      });
      try {
        const all = await Promise.all(lists);
        if (!isGone) setItems(all.flat());
      } catch {
        // The line at the top shows that the head is unreachable, the overview that a pool is.
      }
    };
    const stop = repeat(load, true);
    return () => {
      isGone = true;
      stop();
    };
  }, [names, what, now]);
  return items;
}
