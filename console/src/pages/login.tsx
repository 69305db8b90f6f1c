// The login page.

import { useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { logIn } from "../state/session";
import { Button } from "../parts/basics";
import { Input } from "../parts/fields";
import { Refusal } from "../parts/refusal";

export function LoginPage({ noUsers, notice }: { noUsers: boolean; notice: string | null }) {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);

  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      await logIn(user, password);
    } catch (error) {
      setFailure(error as ApiError);
      setBusy(false);
    }
  };

  return (
    <main class="alone" id="main">
      <img src="icon.svg" alt="" width="56" height="56" />
      <h1>Bulkhead</h1>
      {notice && <p role="status">{notice}</p>}
      {noUsers ? (
        <div class="card">
          <p>Nobody can log in yet: this head has no users. Make the first one on the head itself, then load this page again:</p>
          <pre>bulkhead user add NAME --role admin</pre>
        </div>
      ) : (
        <form class="card" onSubmit={send}>
          <Input label="User" value={user} onValue={setUser} autocomplete="username" required />
          <Input
            label="Password"
            type="password"
            value={password}
            onValue={setPassword}
            autocomplete="current-password"
            required
          />
          <Refusal error={failure} />
          <Button type="submit" kind="primary" disabled={busy}>{busy ? "Logging in …" : "Log in"}</Button>
        </form>
      )}
    </main>
  );
}
