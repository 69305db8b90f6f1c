// Keys of encrypted volumes: which are loaded, where each is kept, and how to give one by hand.

import { useState } from "preact/hooks";
import type { Done, KeyView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolPath } from "../api/paths";
import { Button, Card, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input } from "../parts/fields";
import { State } from "../parts/state";
import { useLoaded } from "../state/loaded";
import { digitsOf, EncryptionFields, keyOf, NOT_ENCRYPTED, type Encryption } from "./datasets";

/** Shown where the pool has an encrypted dataset at all. */
export function KeysCard({ pool }: { pool: string }) {
  const [asked, setAsked] = useState<{ verb: "load" | "unload" | "change"; key: KeyView } | null>(null);
  const keys = useLoaded<KeyView[]>(`${poolPath(pool)}/keys`);
  const rows = (keys.data ?? []).filter((key) => key.encryption !== "off");
  if (rows.length === 0) return null;
  const close = (): void => {
    setAsked(null);
    void keys.reload();
  };
  return (
    <Card title="Keys" wide>
      <Table<KeyView>
        caption={`Keys of ${pool}`}
        rows={rows}
        keyOf={(key) => key.dataset}
        empty=""
        columns={[
          { title: "Of", cell: (key) => <span class="mono">{key.dataset}</span> },
          { title: "Key", cell: (key) => <State word={key.loaded ? "loaded" : "not loaded"} /> },
          { title: "Kept", cell: (key) => (key.shared_with ? `with that of ${key.shared_with}` : (key.locations ?? []).join(", ") || "given by hand") },
          { title: "Cipher", cell: (key) => key.encryption },
          {
            title: "Actions",
            quiet: true,
            cell: (key) => !key.shared_with && (key.loaded
              ? (
                <div class="actions">
                  <Button needs="admin" onClick={() => setAsked({ verb: "change", key })}>Change it<span class="unseen">: the key of {key.dataset}</span></Button>
                  <Button needs="admin" onClick={() => setAsked({ verb: "unload", key })}>Forget it<span class="unseen">: the key of {key.dataset}</span></Button>
                </div>
              )
              : <Button needs="operator" onClick={() => setAsked({ verb: "load", key })}>Load it<span class="unseen">: the key of {key.dataset}</span></Button>),
          },
        ]}
      />
      {asked?.verb === "load" && <LoadKey pool={pool} of={asked.key} onClose={close} />}
      {asked?.verb === "change" && <ChangeKey pool={pool} of={asked.key} onClose={close} />}
      {asked?.verb === "unload" && (
        <FormDialog title={`Forget the key of ${asked.key.dataset}`} action="Forget the key" danger onClose={close}
          submit={async () => tell(pool, { unload: { name: asked.key.dataset } })}>
          <p>Its volumes cannot be read or written until the key is loaded again; initiators wait.</p>
        </FormDialog>
      )}
    </Card>
  );
}

async function tell(pool: string, key: unknown): Promise<string> {
  return (await post<{ done: Done }>(`${poolPath(pool)}/requests`, { request: { key } })).done.message;
}

function LoadKey({ pool, of, onClose }: { pool: string; of: KeyView; onClose: () => void }) {
  const [text, setText] = useState("");
  const isRaw = of.format === "raw";
  return (
    <FormDialog title={`Load the key of ${of.dataset}`} action="Load the key" onClose={onClose}
      submit={async () => {
        if (text === "" && (of.locations ?? []).every((place) => place === "prompt")) throw mistake("type the key: it is kept nowhere");
        const key = text === "" ? null : isRaw ? text.trim() : digitsOf(text);
        return tell(pool, { load: { name: of.dataset, location: null, key } });
      }}>
      <Input label={isRaw ? "Key, as hex digits" : of.format === "hex" ? "Key, as its 64 hex digits" : "Passphrase"} type="password"
        autocomplete="off" value={text} onValue={setText} hint="empty: it is looked for where it is kept" />
    </FormDialog>
  );
}

function ChangeKey({ pool, of, onClose }: { pool: string; of: KeyView; onClose: () => void }) {
  const [value, setValue] = useState<Encryption>({ ...NOT_ENCRYPTED, choice: "passphrase" });
  return (
    <FormDialog title={`Change the key of ${of.dataset}`} action="Change the key" danger onClose={onClose}
      submit={async () => {
        const key = keyOf(value);
        return tell(pool, key ? { change: { name: of.dataset, key } } : { inherit: { name: of.dataset } });
      }}>
      <p>
        The old key no longer opens {of.dataset}. No data is written again: a backup of the pool's disks from before the change can still be
        opened with the old key.
      </p>
      <EncryptionFields label="New key" hint="Without the key the data is lost." value={value} onValue={setValue} />
    </FormDialog>
  );
}
