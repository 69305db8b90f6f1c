// The user of the session and their role. The server decides; the console only hides actions that it would refuse.

import { signal } from "@preact/signals";
import { ApiError, get, post, useSession, whenLoggedOut } from "../api/client";
import type { Role, Session } from "../api/types";

export type Login =
  | { kind: "unknown" }
  | { kind: "out"; noUsers: boolean; notice: string | null }
  | { kind: "unreachable"; message: string }
  | { kind: "in"; session: Session };

export const login = signal<Login>({ kind: "unknown" });

const RANK: Record<Role, number> = { "read-only": 0, operator: 1, admin: 2 };

/** Whether the user has at least the role `role`. */
export function may(role: Role): boolean {
  const now = login.value;
  return now.kind === "in" && RANK[now.session.role] >= RANK[role];
}

/** Whether `user` is the user of the session. */
export function isMe(user: string): boolean {
  const now = login.value;
  return now.kind === "in" && now.session.user === user;
}

function enter(session: Session): void {
  useSession(session);
  login.value = { kind: "in", session };
}

function leave(noUsers: boolean, notice: string | null): void {
  useSession(null);
  login.value = { kind: "out", noUsers, notice };
}

whenLoggedOut(() => leave(false, "The session has ended. Log in again to continue."));

/** Finds out whether the browser has a session. */
export async function resume(): Promise<void> {
  try {
    enter(await get<Session>("/session"));
  } catch (error) {
    const failure = error as ApiError;
    if (failure.status === 401) {
      const wasIn = login.value.kind === "in";
      leave(failure.noUsers, wasIn ? "The session has ended. Log in again to continue." : null);
    } else if (login.value.kind !== "in") {
      login.value = { kind: "unreachable", message: failure.message };
    }
  }
}

export async function logIn(user: string, password: string): Promise<void> {
  enter(await post<Session>("/login", { user, password }));
}

export async function logOut(): Promise<void> {
  try {
    await post("/logout");
  } finally {
    leave(false, "You are logged out.");
  }
}
