// One target: its units, its access rule, its sessions.

import { useState } from "preact/hooks";
import type { DiscoveryView, Done, SessionView, TargetView, UnitView } from "../api/types";
import { mistake, post, remove } from "../api/client";
import { confirmed, poolPath, targetPath } from "../api/paths";
import { Button, Card, Facts, Page, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Check, Input, Select } from "../parts/fields";
import { List } from "../parts/list";
import { State, ToneIcon } from "../parts/state";
import { useLoaded } from "../state/loaded";
import { complain, tell } from "../state/notices";
import { go, link } from "../state/route";
import { may } from "../state/session";
import { InUse } from "./inuse";
import { MapVolume } from "./maps";

type Asked = { kind: "map" | "allow" | "chap" | "mutual" | "destroy" } | { kind: "clear"; user: string } | { kind: "unmap"; unit: UnitView };

export function TargetPage({ pool, name }: { pool: string; name: string }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const loaded = useLoaded<TargetView>(targetPath(pool, name));
  const target = loaded.data;
  const close = (): void => {
    setAsked(null);
    void loaded.reload();
  };
  return (
    <Page
      title={name}
      above={<><a href={link("targets")}>Targets</a> in <a href={link("pools", pool)}>{pool}</a></>}
      actions={target && (
        <>
          <Button needs="operator" kind="primary" icon="plus" onClick={() => setAsked({ kind: "map" })}>Export a volume</Button>
          <Button needs="admin" kind="danger" onClick={() => setAsked({ kind: "destroy" })}>Destroy</Button>
        </>
      )}
    >
      {loaded.error && <p role="alert">{loaded.error.failure.message}</p>}
      {target && (
        <div class="grid">
          <Units target={target} ask={setAsked} />
          <Access pool={pool} target={target} ask={setAsked} reload={loaded.reload} />
          <Sessions sessions={target.sessions ?? []} />
        </div>
      )}
      {target && asked && <Dialogs pool={pool} target={target} asked={asked} onClose={close} />}
    </Page>
  );
}

function Units({ target, ask }: { target: TargetView; ask: (asked: Asked) => void }) {
  return (
    <Card title="Units" wide>
      <List<UnitView>
        name="units"
        caption={`Units of ${target.name}`}
        many="units"
        rows={target.units}
        keyOf={(unit) => String(unit.lun)}
        texts={(unit) => [unit.volume, unit.serial, unit.naa]}
        empty="It exports no volume yet."
        columns={[
          { title: "LUN", number: true, order: (unit) => unit.lun, cell: (unit) => unit.lun },
          { title: "Volume", order: (unit) => unit.volume, cell: (unit) => <a href={link("volumes", unit.volume)}>{unit.volume}</a> },
          { title: "Access", order: (unit) => String(unit.read_only), cell: (unit) => (unit.read_only ? "read only" : "read and write") },
          { title: "Serial", cell: (unit) => <span class="mono">{unit.serial}</span> },
          { title: "NAA", cell: (unit) => <span class="mono">{unit.naa}</span> },
          {
            title: "Actions",
            quiet: true,
            cell: (unit) => (
              <Button needs="operator" onClick={() => ask({ kind: "unmap", unit })}>
                Unexport<span class="unseen"> {unit.volume}</span>
              </Button>
            ),
          },
        ]}
      />
    </Card>
  );
}

/** The discovery secrets, in words. */
function finders({ chap_users: users }: DiscoveryView): string {
  return users.length > 0 ? `requires the secret of ${users.join(", ")}` : "requires no secret";
}

interface AccessProps {
  pool: string;
  target: TargetView;
  ask: (asked: Asked) => void;
  reload: () => Promise<void>;
}

function Access({ pool, target, ask, reload }: AccessProps) {
  const rule = target.access;
  const discovery = useLoaded<DiscoveryView>(`${poolPath(pool)}/discovery`).data;
  const deny = async (who: unknown): Promise<void> => {
    try {
      tell((await post<Done>(`${targetPath(pool, target.name)}/deny`, who)).message);
      await reload();
    } catch (error) {
      complain(error);
    }
  };
  const hasBoth = !rule.everyone && (rule.initiators ?? []).length > 0 && (rule.networks ?? []).length > 0;
  const entries: [string, unknown][] = [
    ...(rule.initiators ?? []).map((name): [string, unknown] => [name, { initiators: [name], networks: [], everyone: false }]),
    ...(rule.networks ?? []).map((name): [string, unknown] => [name, { initiators: [], networks: [name], everyone: false }]),
    ...(rule.everyone ? [["everyone", { initiators: [], networks: [], everyone: true }] as [string, unknown]] : []),
  ];
  return (
    <Card
      title="Allowed initiators"
      actions={
        <>
          <Button needs="operator" onClick={() => ask({ kind: "allow" })}>Allow</Button>
          <Button needs="operator" onClick={() => ask({ kind: "chap" })}>Set a secret</Button>
          {target.chap_users.length > 0 && <Button needs="operator" onClick={() => ask({ kind: "mutual" })}>Prove the target</Button>}
        </>
      }
    >
      {rule.everyone && (
        <p class="alert tone-warning"><ToneIcon tone="warning" /> Anybody who reaches the address may log in.</p>
      )}
      {entries.length === 0 && <p>Only processes on this head.</p>}
      {hasBoth && <p>A client must have one of these names, and an address in one of these networks.</p>}
      <ul class="list entries">
        {entries.map(([name, who]) => (
          <li key={name}>
            <span class="mono">{name}</span>
            {may("operator") && (
              <Button onClick={() => void deny(who)}>Withdraw<span class="unseen"> {name}</span></Button>
            )}
          </li>
        ))}
      </ul>
      <Facts
        facts={[
          ["CHAP users", target.chap_users.length > 0 ? <ChapUsers users={target.chap_users} ask={ask} /> : "none: no secret is required"],
          ["Proves itself as", target.mutual_user ?? "nobody"],
          ["Discovery in this pool", discovery ? finders(discovery) : "unknown"],
          ["Portal groups", target.portal_groups.join(", ") || "all"],
        ]}
      />
    </Card>
  );
}

function ChapUsers({ users, ask }: { users: string[]; ask: (asked: Asked) => void }) {
  return (
    <ul class="list entries">
      {users.map((user) => (
        <li key={user}>
          <span class="mono">{user}</span>
          <Button needs="operator" onClick={() => ask({ kind: "clear", user })}>Remove<span class="unseen"> the secret of {user}</span></Button>
        </li>
      ))}
    </ul>
  );
}

function Sessions({ sessions }: { sessions: SessionView[] }) {
  return (
    <Card title="Sessions">
      <Table<SessionView>
        caption="Sessions"
        rows={sessions}
        keyOf={(session) => `${session.name} ${session.peers.join(" ")}`}
        empty="No initiator is logged in."
        columns={[
          { title: "Initiator", cell: (session) => <span class="mono">{session.name}</span> },
          { title: "From", cell: (session) => <span class="mono">{session.peers.join(", ")}</span> },
          { title: "State", cell: () => <State word="logged in" tone="good" /> },
        ]}
      />
    </Card>
  );
}

interface DialogsProps {
  pool: string;
  target: TargetView;
  asked: Asked;
  onClose: () => void;
}

function Dialogs({ pool, target, asked, onClose }: DialogsProps) {
  const path = targetPath(pool, target.name);
  const [inUse, setInUse] = useState(false);
  const users = <InUse sessions={target.sessions ?? []} checked={inUse} onValue={setInUse} />;
  switch (asked.kind) {
    case "map":
      return <MapVolume pool={pool} target={target.name} onClose={onClose} />;
    case "allow":
      return <Allow path={path} isOpen={target.access.everyone ?? false} onClose={onClose} />;
    case "chap":
      return <SetSecret path={path} onClose={onClose} />;
    case "mutual":
      return <ProveTarget path={path} onClose={onClose} />;
    case "clear":
      return <ClearSecret path={path} user={asked.user} isLast={target.chap_users.length === 1} onClose={onClose} />;
    case "unmap":
      return (
        <FormDialog title={`Unexport ${asked.unit.volume}`} action="Unexport" danger onClose={onClose}
          submit={async () => (await post<Done>(`${path}/unmap`, { volume: asked.unit.volume, in_use: inUse })).message}>
          <p>Initiators lose unit {asked.unit.lun} of {target.name}. The volume and its data stay.</p>
          {users}
        </FormDialog>
      );
    case "destroy":
      return (
        <FormDialog title={`Destroy ${target.name}`} action="Destroy the target" danger typed={target.name} onClose={onClose}
          submit={async () => {
            const done = await remove<Done>(confirmed(path, target.name, `&in_use=${inUse}`));
            go("targets");
            return done.message;
          }}>
          <p>The volumes and their data stay.</p>
          {users}
        </FormDialog>
      );
  }
}

type Kind = "initiator" | "network" | "everyone";

function Allow({ path, isOpen, onClose }: { path: string; isOpen: boolean; onClose: () => void }) {
  const [kind, setKind] = useState<Kind>("initiator");
  const [who, setWho] = useState("");
  const [only, setOnly] = useState(false);
  return (
    <FormDialog title="Allow" action="Allow" danger={kind === "everyone"} onClose={onClose}
      submit={async () => {
        if (kind !== "everyone" && who.trim() === "") throw mistake("name the allowed initiators");
        const body = {
          initiators: kind === "initiator" ? [who.trim()] : [],
          networks: kind === "network" ? [who.trim()] : [],
          everyone: kind === "everyone",
          instead_of_everyone: kind !== "everyone" && isOpen && only,
        };
        return (await post<Done>(`${path}/allow`, body)).message;
      }}>
      <Select label="Who" value={kind} onValue={(value) => setKind(value as Kind)}
        options={[["initiator", "an initiator by its name"], ["network", "a network"], ["everyone", "everyone (for tests)"]]} />
      {kind === "initiator" && (
        <Input label="Initiator" hint="such as iqn.1993-08.org.debian:01:host7" value={who} onValue={setWho} mono required />
      )}
      {kind === "network" && <Input label="Network" hint="such as 10.77.1.0/24" value={who} onValue={setWho} mono required />}
      {kind !== "everyone" && isOpen && (
        <Check label="Only these from now on" hint="Everyone is let in now; as long as that is so, naming some changes nothing." checked={only} onValue={setOnly} />
      )}
      {kind === "everyone" && <p>Anybody who reaches the address can read and write the volumes of this target.</p>}
    </FormDialog>
  );
}

function ProveTarget({ path, onClose }: { path: string; onClose: () => void }) {
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  return (
    <FormDialog title="Prove the target to initiators" action="Set it" onClose={onClose}
      submit={async () => (await post<Done>(`${path}/mutual`, { user, secret })).message}>
      <p>Initiators that ask for it then see that the target knows this secret, too (mutual CHAP). It is unlike any initiator's.</p>
      <Input label="The target's user name" value={user} onValue={setUser} autocomplete="off" required />
      <Input label="Secret" type="password" hint="12 to 16 characters for most initiators" value={secret} onValue={setSecret}
        autocomplete="new-password" required />
    </FormDialog>
  );
}

function ClearSecret({ path, user, isLast, onClose }: { path: string; user: string; isLast: boolean; onClose: () => void }) {
  const [noSecret, setNoSecret] = useState(false);
  return (
    <FormDialog title={`Remove the secret of ${user}`} action="Remove it" danger onClose={onClose}
      submit={async () => (await remove<Done>(`${path}/chap?user=${encodeURIComponent(user)}&no_secret=${noSecret}`)).message}>
      <p>Initiators that log in as {user} are refused from now on.</p>
      {isLast && (
        <Check label="Even though no secret is required afterwards" checked={noSecret} onValue={setNoSecret}
          hint="It is the last one: all allowed initiators then log in without a secret." />
      )}
    </FormDialog>
  );
}

function SetSecret({ path, onClose }: { path: string; onClose: () => void }) {
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  return (
    <FormDialog title="Set a secret" action="Set it" onClose={onClose}
      submit={async () => (await post<Done>(`${path}/chap`, { user, secret })).message}>
      <p>Initiators then have to prove that they know it (CHAP).</p>
      <Input label="The initiator's user name" value={user} onValue={setUser} autocomplete="off" required />
      <Input label="Secret" type="password" hint="12 to 16 characters for most initiators" value={secret} onValue={setSecret}
        autocomplete="new-password" required />
    </FormDialog>
  );
}
