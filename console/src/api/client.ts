// Requests to the head. Every failure becomes an `ApiError` with the server's own messages.

import type { Failure, Refusal, Session } from "./types";

/** Time limit for a head to respond after a takeover or restart. */
const REQUEST_TIMEOUT_MS = 60_000;

/** The server refused or did not respond. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly failure: Failure,
    /** Set when no user exists at all, so that login is impossible. */
    readonly noUsers = false,
  ) {
    super(failure.message);
  }
}

/** An error that the console detects before it sends a request. */
export const mistake = (message: string): ApiError => new ApiError(0, { kind: "usage", message });

/** After this time without a key or a click, requests are marked as automatic and do not extend the session. */
const UNATTENDED_AFTER_MS = 60_000;

let touchedAt = Date.now();
for (const kind of ["pointerdown", "keydown", "wheel", "touchstart"]) {
  window.addEventListener(kind, () => { touchedAt = Date.now(); }, { capture: true, passive: true });
}

let csrf = "";
let onLoggedOut = (): void => {};

/** Sets the session's token, which later changes carry. */
export function useSession(session: Session | null): void {
  csrf = session?.csrf ?? "";
}

/** Called when the session is no longer valid. */
export function whenLoggedOut(callback: () => void): void {
  onLoggedOut = callback;
}

async function failureOf(response: Response): Promise<ApiError> {
  let body: Partial<Refusal> = {};
  try {
    body = (await response.json()) as Refusal;
  } catch {
    // Not JSON: a proxy between this page and the head responded.
  }
  const failure = body.failure ?? {
    kind: "failed",
    message: `the head answered ${response.status} ${response.statusText}`,
  };
  return new ApiError(response.status, failure, body.no_users === true);
}

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method === "GET" && Date.now() - touchedAt > UNATTENDED_AFTER_MS) headers["X-Bulkhead-Unattended"] = "1";
  if (method !== "GET" && csrf !== "") headers["X-Bulkhead-CSRF"] = csrf;
  try {
    return await fetch(`/api/v1${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
  } catch (cause) {
    const timedOut = cause instanceof DOMException && cause.name === "TimeoutError";
    throw new ApiError(0, {
      kind: "unreachable",
      message: timedOut
        ? `the head did not answer within ${REQUEST_TIMEOUT_MS / 1000} seconds`
        : "the head cannot be reached",
      advice: "wait until the console is connected again, check which changes were made, and repeat the rest",
    });
  }
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await send(method, path, body);
  if (!response.ok) {
    const failure = await failureOf(response);
    const asksWhoWeAre = path === "/session" || path === "/login";
    if (response.status === 401 && !asksWhoWeAre) onLoggedOut();
    throw failure;
  }
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

export const get = <T>(path: string): Promise<T> => ask<T>("GET", path);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => ask<T>("POST", path, body);
export const patch = <T>(path: string, body: unknown): Promise<T> => ask<T>("PATCH", path, body);
export const remove = <T>(path: string): Promise<T> => ask<T>("DELETE", path);
