// The users of this head's console and API.

import { useState } from "preact/hooks";
import type { Role, TokenView, UserView } from "../api/types";
import { mistake, patch, post, remove } from "../api/client";
import { Button, Card, Page, Table } from "../parts/basics";
import { Dialog, FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { moment } from "../parts/format";
import { useLoaded } from "../state/loaded";
import { isMe } from "../state/session";

const ROLES: [Role, string][] = [
  ["read-only", "read-only: looks"],
  ["operator", "operator: daily work"],
  ["admin", "admin: everything"],
];

type Asked = { kind: "add" | "token" } | { kind: "remove" | "change"; user: UserView } | { kind: "revoke"; token: TokenView } | { kind: "shown"; secret: string };

export function UsersPage() {
  const users = useLoaded<UserView[]>("/users");
  const tokens = useLoaded<TokenView[]>("/tokens");
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = (): void => {
    setAsked((now) => (now?.kind === "shown" ? now : null));
    void users.reload();
    void tokens.reload();
  };
  return (
    <Page title="Access">
      <div class="grid">
        <Card title="Users" wide actions={<Button kind="primary" icon="plus" needs="admin" onClick={() => setAsked({ kind: "add" })}>Add a user</Button>}>
          <Table<UserView>
            caption="Users"
            rows={users.data ?? []}
            keyOf={(user) => user.name}
            empty={users.error?.failure.message ?? "Asking …"}
            columns={[
              { title: "User", cell: (user) => user.name },
              { title: "Role", cell: (user) => user.role },
              { title: "Since", cell: (user) => (user.created_at_ms ? moment(user.created_at_ms) : "–") },
              {
                title: "Actions",
                quiet: true,
                cell: (user) => (
                  <div class="actions">
                    <Button onClick={() => setAsked({ kind: "change", user })}>Change<span class="unseen"> {user.name}</span></Button>
                    <Button onClick={() => setAsked({ kind: "remove", user })}>Remove<span class="unseen"> {user.name}</span></Button>
                  </div>
                ),
              },
            ]}
          />
        </Card>
        <Card title="Tokens for programs" wide actions={<Button icon="plus" onClick={() => setAsked({ kind: "token" })}>Make a token</Button>}>
          <Table<TokenView>
            caption="Tokens"
            rows={tokens.data ?? []}
            keyOf={(token) => token.id}
            empty={tokens.error?.failure.message ?? "There is none."}
            columns={[
              { title: "Token", cell: (token) => token.name },
              { title: "Role", cell: (token) => token.role },
              { title: "Ends", cell: (token) => (token.expires_at_ms ? moment(token.expires_at_ms) : "never") },
              { title: "Actions", quiet: true, cell: (token) => <Button onClick={() => setAsked({ kind: "revoke", token })}>Revoke<span class="unseen"> {token.name}</span></Button> },
            ]}
          />
        </Card>
      </div>
      {asked && <Dialogs asked={asked} onClose={close} onShown={(secret) => setAsked({ kind: "shown", secret })} onPutAway={() => setAsked(null)} />}
    </Page>
  );
}

interface DialogsProps {
  asked: Asked;
  onClose: () => void;
  onShown: (secret: string) => void;
  onPutAway: () => void;
}

function Dialogs({ asked, onClose, onShown, onPutAway }: DialogsProps) {
  switch (asked.kind) {
    case "add":
      return <AddUser onClose={onClose} />;
    case "change":
      return <ChangeUser user={asked.user} onClose={onClose} />;
    case "remove":
      return (
        <FormDialog title={`Remove ${asked.user.name}`} action="Remove" danger typed={asked.user.name} onClose={onClose}
          submit={async () => { await remove(`/users/${encodeURIComponent(asked.user.name)}`); return `${asked.user.name} is removed`; }}>
          <p>Sessions of {asked.user.name} end.</p>
        </FormDialog>
      );
    case "token":
      return <MakeToken onClose={onClose} onShown={onShown} />;
    case "revoke":
      return (
        <FormDialog title={`Revoke ${asked.token.name}`} action="Revoke" danger onClose={onClose}
          submit={async () => { await remove(`/tokens/${encodeURIComponent(asked.token.id)}`); return `${asked.token.name} is revoked`; }}>
          <p>Programs that use it are refused from now on.</p>
        </FormDialog>
      );
    case "shown":
      return (
        <Dialog title="The token" onClose={onPutAway}>
          <p>Copy it now: it is shown only once.</p>
          <pre class="secret" tabIndex={0} role="region" aria-label="Token">{asked.secret}</pre>
          <div class="dialog-foot"><Button kind="primary" onClick={onPutAway}>Done</Button></div>
        </Dialog>
      );
  }
}

function AddUser({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("operator");
  const [password, setPassword] = useState("");
  return (
    <FormDialog title="Add a user" action="Add" onClose={onClose}
      submit={async () => {
        if (name === "") throw mistake("give the user a name");
        await post("/users", { name, role, password });
        return `${name} can log in`;
      }}>
      <Input label="Name" value={name} onValue={setName} required />
      <Select label="Role" value={role} onValue={(value) => setRole(value as Role)} options={ROLES} />
      <Input label="Password" type="password" value={password} onValue={setPassword} autocomplete="new-password" required />
    </FormDialog>
  );
}

function ChangeUser({ user, onClose }: { user: UserView; onClose: () => void }) {
  const [role, setRole] = useState<Role>(user.role);
  const [password, setPassword] = useState("");
  const [current, setCurrent] = useState("");
  const own = isMe(user.name);
  return (
    <FormDialog title={`Change ${user.name}`} action="Change" onClose={onClose}
      submit={async () => {
        const change = password === "" ? { role } : { role, password, current_password: own ? current : null };
        await patch(`/users/${encodeURIComponent(user.name)}`, change);
        return own && password !== "" ? "Log in again with the new password" : `${user.name} is changed`;
      }}>
      <Select label="Role" value={role} onValue={(value) => setRole(value as Role)} options={ROLES} />
      <Input label="New password" type="password" hint="empty: the old one stays" value={password} onValue={setPassword} autocomplete="new-password" />
      {own && <Input label="Present password" type="password" hint="required for a new one" value={current} onValue={setCurrent} autocomplete="current-password" />}
    </FormDialog>
  );
}

const DAY_S = 86_400;

function MakeToken({ onClose, onShown }: { onClose: () => void; onShown: (secret: string) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("read-only");
  const [days, setDays] = useState("90");
  const [current, setCurrent] = useState("");
  return (
    <FormDialog title="Make a token" action="Make it" onClose={onClose}
      submit={async () => {
        if (name === "") throw mistake("describe the purpose of the token");
        const made = await post<TokenView>("/tokens", { name, role, expires_in_s: Math.max(1, Number(days) || 90) * DAY_S, current_password: current });
        onShown(made.token ?? "");
      }}>
      <Input label="Purpose" value={name} onValue={setName} required />
      <Select label="Role" value={role} onValue={(value) => setRole(value as Role)} options={ROLES} />
      <Input label="Days until it expires" numeric value={days} onValue={setDays} />
      <Input label="Your password" type="password" value={current} onValue={setCurrent} autocomplete="current-password" required />
    </FormDialog>
  );
}
