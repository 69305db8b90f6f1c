// Volumes that are copied to another appliance with their lag, and incoming copies.

import { useState } from "preact/hooks";
import type { CopyView, Done, Peer, ReplicatedView, ReplicationView } from "../api/types";
import { mistake, post, type ApiError } from "../api/client";
import { poolPath } from "../api/paths";
import { Button, Card, Page, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Check, Input } from "../parts/fields";
import { bytes, duration, moment, parseSeconds } from "../parts/format";
import { State } from "../parts/state";
import { refresh } from "../state/live";
import { useLoaded } from "../state/loaded";
import { complain, tell } from "../state/notices";
import { servedPools } from "./volumes";

/** Snapshots of replication that are retained on each side by default. */
const KEEP = 8;

type Asked =
  | { kind: "set" | "accept" }
  | { kind: "promote"; dataset: string }
  | { kind: "remove"; of: ReplicatedView }
  | { kind: "revoke"; peer: Peer };

const path = (pool: string, verb = ""): string => `${poolPath(pool)}/replication${verb === "" ? "" : `/${verb}`}`;

export function ReplicationPage() {
  const pools = servedPools();
  return (
    <Page title="Replication">
      <p class="lead">
        Volumes are copied to another appliance, again and again, only what changed. When the site of the originals is lost, the copies
        take their place.
      </p>
      {pools.length === 0 && <p role="status">No pool is served: there is nothing to replicate.</p>}
      <div class="grid">{pools.map((pool) => <OfPool key={pool} pool={pool} />)}</div>
    </Page>
  );
}

function OfPool({ pool }: { pool: string }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const view = useLoaded<ReplicationView>(path(pool));
  const close = (): void => {
    setAsked(null);
    void view.reload();
  };
  const identify = async (): Promise<void> => {
    try {
      await post<ReplicationView>(path(pool, "identity"));
      await view.reload();
    } catch (error) {
      complain(error);
    }
  };
  const now = view.data;
  return (
    <Card
      title={`Pool ${pool}`}
      wide
      actions={
        <>
          <Button needs="admin" icon="plus" onClick={() => setAsked({ kind: "set" })}>Replicate a volume<span class="unseen"> of {pool}</span></Button>
          <Button needs="admin" onClick={() => setAsked({ kind: "accept" })}>Accept a pool<span class="unseen"> into {pool}</span></Button>
        </>
      }
    >
      {!now && <p role="status">{view.error ? view.error.failure.message : "Asking …"}</p>}
      {now && (
        <>
          <p>
            {now.fingerprint ? <>Other pools know it by <span class="mono fingerprint">{now.fingerprint}</span></> : "It has no certificate yet, by which other pools would know it."}{" "}
            {!now.fingerprint && <Button needs="admin" onClick={() => void identify()}>Make a certificate<span class="unseen"> for {pool}</span></Button>}
          </p>
          <h3>Goes out</h3>
          <Outgoing pool={pool} rows={now.replicated} ask={setAsked} reload={view.reload} />
          <h3>Has come in</h3>
          <Copies pool={pool} rows={now.copies ?? []} ask={setAsked} />
          <h3>May come in</h3>
          <Table<Peer>
            caption={`Pools that may replicate into ${pool}`}
            rows={now.peers}
            keyOf={(peer) => `${peer.fingerprint} ${peer.below}`}
            empty="No pool may replicate into this pool."
            columns={[
              { title: "From", cell: (peer) => <span class="mono fingerprint">{peer.fingerprint}</span> },
              { title: "Into", cell: (peer) => <span class="mono">{peer.below}</span> },
              {
                title: "Actions",
                quiet: true,
                cell: (peer) => (
                  <Button needs="admin" onClick={() => setAsked({ kind: "revoke", peer })}>Accept no more<span class="unseen"> from {peer.fingerprint}</span></Button>
                ),
              },
            ]}
          />
        </>
      )}
      {asked && <Dialogs pool={pool} asked={asked} onClose={close} />}
    </Card>
  );
}

interface OutgoingProps {
  pool: string;
  rows: ReplicatedView[];
  ask: (asked: Asked) => void;
  reload: () => Promise<void>;
}

function Outgoing({ pool, rows, ask, reload }: OutgoingProps) {
  const [running, setRunning] = useState<string | null>(null);
  const run = async (dataset: string): Promise<void> => {
    setRunning(dataset);
    try {
      tell((await post<Done>(path(pool, "run"), { dataset })).message);
    } catch (error) {
      complain(error);
    }
    await reload();
    setRunning(null);
  };
  return (
    <Table<ReplicatedView>
      caption={`What ${pool} replicates`}
      rows={rows}
      keyOf={(one) => one.dataset}
      empty="Nothing of this pool is replicated."
      columns={[
        { title: "Of", cell: (one) => <span class="mono">{one.dataset}</span> },
        { title: "To", cell: (one) => <span class="mono">{one.document.into} at {one.document.to}</span> },
        { title: "When", cell: (one) => (one.document.every_s ? `every ${duration(one.document.every_s * 1000)}` : "when asked for") },
        { title: "Behind", cell: (one) => <Lag of={one} /> },
        {
          title: "Actions",
          quiet: true,
          cell: (one) => (
            <div class="actions">
              <Button needs="operator" disabled={running !== null} onClick={() => void run(one.dataset)}>
                {running === one.dataset ? "Replicating …" : "Run now"}<span class="unseen"> {one.dataset}</span>
              </Button>
              <Button needs="admin" onClick={() => ask({ kind: "remove", of: one })}>Replicate no more<span class="unseen"> {one.dataset}</span></Button>
            </div>
          ),
        },
      ]}
    />
  );
}

interface CopiesProps {
  pool: string;
  rows: CopyView[];
  ask: (asked: Asked) => void;
}

function Copies({ pool, rows, ask }: CopiesProps) {
  return (
    <Table<CopyView>
      caption={`Copies in ${pool}`}
      rows={rows}
      keyOf={(copy) => copy.volume}
      empty="No volume of another pool has come in."
      columns={[
        { title: "Copy", cell: (copy) => <span class="mono">{copy.volume}</span> },
        {
          title: "State",
          cell: (copy) => (copy.promoted_unix_s
            ? <State word={`promoted ${moment(copy.promoted_unix_s * 1000)}`} tone="idle" />
            : copy.orphaned_unix_s && !copy.is_arriving
              ? <State word={`original gone ${moment(copy.orphaned_unix_s * 1000)}`} tone="idle" />
              : <State word={copy.is_arriving ? "arriving" : "copy"} tone={copy.is_arriving ? "busy" : "good"} />),
        },
        { title: "Contents of", cell: (copy) => (copy.contents_unix_s ? moment(copy.contents_unix_s * 1000) : "–") },
        { title: "Served as, if promoted", cell: (copy) => (copy.exports ?? []).join(", ") || "–" },
        {
          title: "Actions",
          quiet: true,
          cell: (copy) => !copy.promoted_unix_s && (
            <Button needs="admin" kind="danger" onClick={() => ask({ kind: "promote", dataset: copy.volume })}>
              Promote<span class="unseen"> {copy.volume}</span>
            </Button>
          ),
        },
      ]}
    />
  );
}

function Lag({ of: { lag_s, state, document, under_way } }: { of: ReplicatedView }) {
  const isLate = lag_s === null || lag_s === undefined || (document.every_s ? lag_s > 2 * document.every_s : false);
  const word = lag_s === null || lag_s === undefined ? "nothing has arrived" : `${duration(lag_s * 1000)}`;
  return (
    <>
      <State word={word} tone={state.failure ? "bad" : isLate ? "warning" : "good"} />{" "}
      {state.succeeded_unix_s ? <small>contents of {moment(state.succeeded_unix_s * 1000)}, {bytes(state.bytes ?? 0)} last</small> : null}
      {under_way && <p><State word="running" /> {under_way}</p>}
      {state.failure && <p class="alert tone-bad">{state.failure}</p>}
    </>
  );
}

function Dialogs({ pool, asked, onClose }: { pool: string; asked: Asked; onClose: () => void }) {
  const act = (verb: string, body: unknown) => async () => (await post<Done>(path(pool, verb), body)).message;
  switch (asked.kind) {
    case "set":
      return <SetReplication pool={pool} onClose={onClose} />;
    case "accept":
      return <AcceptPool pool={pool} onClose={onClose} />;
    case "promote":
      return <Promote pool={pool} first={asked.dataset} onClose={onClose} />;
    case "remove":
      return (
        <FormDialog title={`Replicate ${asked.of.dataset} no more`} action="Replicate it no more" danger onClose={onClose}
          submit={act("remove", { dataset: asked.of.dataset })}>
          <p>What has arrived at {asked.of.document.to} stays there.</p>
        </FormDialog>
      );
    case "revoke":
      return (
        <FormDialog title="Accept no more" action="Accept no more" danger onClose={onClose}
          submit={act("revoke", { fingerprint: asked.peer.fingerprint })}>
          <p>The pool <span class="mono fingerprint">{asked.peer.fingerprint}</span> can write no more into {asked.peer.below}. What has arrived stays.</p>
        </FormDialog>
      );
  }
}

function SetReplication({ pool, onClose }: { pool: string; onClose: () => void }) {
  const [dataset, setDataset] = useState(`${pool}/`);
  const [to, setTo] = useState("");
  const [peer, setPeer] = useState("");
  const [into, setInto] = useState("");
  const [every, setEvery] = useState("15m");
  const [raw, setRaw] = useState(false);
  return (
    <FormDialog title={`Replicate a volume of ${pool}`} action="Replicate it" onClose={onClose}
      submit={async () => {
        const every_s = every.trim() === "" ? null : parseSeconds(every);
        if (every.trim() !== "" && every_s === null) throw mistake(`${every} is no time: write 30s, 15m, 4h or 1d`);
        const document = { version: 1, to: to.trim(), peer: peer.trim(), into: into.trim(), every_s, keep: KEEP, raw };
        return (await post<Done>(path(pool, "set"), { dataset: dataset.trim(), document })).message;
      }}>
      <p>The other pool has to accept this one first; its page shows the certificate.</p>
      <Input label="Volume or parent dataset" value={dataset} onValue={setDataset} required mono />
      <Input label="Receiver" hint="host and port, such as backup.example.org:8873" value={to} onValue={setTo} required mono />
      <Input label="Certificate of the receiving pool" hint="its 64 digits" value={peer} onValue={setPeer} required mono />
      <Input label="Into" hint="its name there, such as vault/from-tank/vm0" value={into} onValue={setInto} required mono />
      <Input label="Pause between two runs" hint="such as 30s, 15m, 4h, 1d; empty: only on request" value={every} onValue={setEvery} />
      <Check label="Encrypted volumes stay encrypted on the way and there" checked={raw} onValue={setRaw} />
    </FormDialog>
  );
}

function AcceptPool({ pool, onClose }: { pool: string; onClose: () => void }) {
  const [fingerprint, setFingerprint] = useState("");
  const [below, setBelow] = useState(`${pool}/`);
  return (
    <FormDialog title={`Accept a pool into ${pool}`} action="Accept it" onClose={onClose}
      submit={async () => (await post<Done>(path(pool, "accept"), { fingerprint: fingerprint.trim(), below: below.trim() })).message}>
      <Input label="Certificate of the other pool" hint="its 64 digits, as its page of replication shows them" value={fingerprint} onValue={setFingerprint} required mono />
      <Input label="Where it may write" hint="a volume or a parent dataset" value={below} onValue={setBelow} required mono />
    </FormDialog>
  );
}

/** First shows a preview with the age of the data; then requires the confirmation that the originals are gone. */
function Promote({ pool, first, onClose }: { pool: string; first: string; onClose: () => void }) {
  const [dataset, setDataset] = useState(first);
  const [told, setTold] = useState<string | null>(null);
  const [isLost, setLost] = useState(false);
  const ask = (original_is_lost: boolean): Promise<Done> =>
    post<Done>(path(pool, "promote"), { dataset: dataset.trim(), original_is_lost });
  return (
    <FormDialog
      title={`Promote copies in ${pool}`}
      action={told === null ? "Show the preview" : "Promote them"}
      danger={told !== null}
      typed={told === null ? undefined : dataset.trim()}
      onClose={onClose}
      submit={async () => {
        if (told !== null) {
          if (!isLost) throw mistake("say that the originals are lost: two disks of one identity destroy each other's data");
          const done = await ask(true);
          await refresh();
          return done.message;
        }
        try {
          return (await ask(false)).message;
        } catch (error) {
          const { failure } = error as ApiError;
          if (failure.kind !== "needs_confirmation") throw error;
          setTold(failure.message);
          throw mistake("Nothing was changed yet.");
        }
      }}
    >
      <p class="alert tone-warning">
        Only when the site of the originals is lost. The copies get their identities and targets: initiators find the same disks, with
        the contents of the last run. Nothing is replicated into them any more.
      </p>
      <Input label="Copies" hint="a copy or a parent of copies" value={dataset} required mono
        onValue={(value) => {
          setDataset(value);
          setTold(null);
          setLost(false);
        }} />
      {told !== null && (
        <>
          <pre class="log wrapped" tabIndex={0} role="region" aria-label="Preview">{told}</pre>
          <Check label="The originals are served nowhere, and never will be again" checked={isLost} onValue={setLost} />
        </>
      )}
    </FormDialog>
  );
}
