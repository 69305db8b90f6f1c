// Actions that volumes and file systems have in common: another name, promotion, properties, encryption.

import { useState } from "preact/hooks";
import type { Done, KeySettings, Property } from "../api/types";
import { mistake, patch, post } from "../api/client";
import { poolOf, poolPath, withoutPool } from "../api/paths";
import { Button, Card } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { List } from "../parts/list";

/** The noun of its requests. */
export type Noun = "volume" | "filesystem";

const WORDS: Record<Noun, string> = { volume: "volume", filesystem: "file system" };

async function ask(noun: Noun, name: string, request: unknown): Promise<string> {
  return (await post<{ done: Done }>(`${poolPath(poolOf(name))}/requests`, { request: { [noun]: request } })).done.message;
}

interface DatasetProps {
  noun: Noun;
  name: string;
  onClose: () => void;
}

interface RenameProps extends DatasetProps {
  /** Its resource in the API. */
  path: string;
  onRenamed: (name: string) => void;
}

export function RenameDataset({ noun, name, path, onRenamed, onClose }: RenameProps) {
  const [to, setTo] = useState(withoutPool(name));
  return (
    <FormDialog title={`Rename ${name}`} action="Rename" onClose={onClose}
      submit={async () => {
        if (to.trim() === "") throw mistake("give it a name");
        const full = `${poolOf(name)}/${to.trim()}`;
        const done = await patch<Done>(path, { name: full });
        onRenamed(full);
        return done.message;
      }}>
      <p>The {WORDS[noun]} stays in its pool, with its snapshots{noun === "volume" ? " and its exports" : ""}.</p>
      <Input label="New name" hint={`in ${poolOf(name)}`} value={to} onValue={setTo} required mono />
    </FormDialog>
  );
}

export function PromoteDataset({ noun, name, origin, onClose }: DatasetProps & { origin: string }) {
  return (
    <FormDialog title={`Promote ${name}`} action="Promote" onClose={onClose}
      submit={async () => ask(noun, name, { promote: { name, keep_rights: false } })}>
      <p>
        {name} is a clone of <b class="mono">{origin}</b>. After this it no longer depends on it: the snapshot, and those before it, become its
        own. Then the original can be destroyed.
      </p>
    </FormDialog>
  );
}

type Asked = { kind: "new" } | { kind: "change" | "inherit"; property: string; now: Property };

interface PropertiesProps {
  noun: Noun;
  name: string;
  properties: Record<string, Property>;
  onChange: () => void;
}

/** All properties, with their sources. */
export function PropertiesCard({ noun, name, properties, onChange }: PropertiesProps) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const rows = Object.entries(properties).map(([property, now]) => ({ property, now }));
  const close = (): void => {
    setAsked(null);
    onChange();
  };
  return (
    <Card title="Properties" wide actions={<Button needs="operator" icon="plus" onClick={() => setAsked({ kind: "new" })}>Set a property</Button>}>
      <List<{ property: string; now: Property }>
        name="properties"
        caption={`Properties of ${name}`}
        many="properties"
        rows={rows}
        keyOf={(row) => row.property}
        texts={(row) => [row.property, row.now.value, row.now.source]}
        empty="It has no property."
        columns={[
          { title: "Property", order: (row) => row.property, cell: (row) => <span class="mono">{row.property}</span> },
          { title: "Value", order: (row) => row.now.value, cell: (row) => <span class="mono">{row.now.value}</span> },
          { title: "Source", order: (row) => row.now.source, cell: (row) => (row.now.source === "-" ? "" : row.now.source) },
          {
            title: "Actions",
            quiet: true,
            // Those without a source only report a state.
            cell: (row) => row.now.source !== "-" && (
              <div class="actions">
                <Button needs="operator" onClick={() => setAsked({ kind: "change", ...row })}>Change<span class="unseen"> {row.property}</span></Button>
                {row.now.source === "local" && (
                  <Button needs="operator" onClick={() => setAsked({ kind: "inherit", ...row })}>Inherit<span class="unseen"> {row.property}</span></Button>
                )}
              </div>
            ),
          },
        ]}
      />
      {asked?.kind === "inherit" && (
        <FormDialog title={`Inherit ${asked.property}`} action="Inherit" onClose={close}
          submit={async () => ask(noun, name, { inherit: { name, names: [asked.property] } })}>
          <p>The value {asked.now.value} is removed. That of the parent applies again.</p>
        </FormDialog>
      )}
      {asked && asked.kind !== "inherit" && (
        <SetProperty noun={noun} name={name} of={asked.kind === "change" ? asked : null} onClose={close} />
      )}
    </Card>
  );
}

function SetProperty({ noun, name, of, onClose }: DatasetProps & { of: { property: string; now: Property } | null }) {
  const [property, setProperty] = useState(of?.property ?? "");
  const [value, setValue] = useState(of?.now.value ?? "");
  return (
    <FormDialog title={of ? `Change ${of.property} of ${name}` : `Set a property of ${name}`} action="Set" onClose={onClose}
      submit={async () => {
        if (property.trim() === "") throw mistake("name the property");
        return ask(noun, name, { set: { name, properties: { [property.trim()]: value.trim() } } });
      }}>
      {!of && <Input label="Property" hint="such as compression, or one of yours, such as org.example:owner" value={property} onValue={setProperty} mono required />}
      <Input label="Value" value={value} onValue={setValue} mono required />
    </FormDialog>
  );
}

export type KeyChoice = "inherit" | "passphrase" | "file";

/** The choice of a key at creation, and the form of it in a request. */
export interface Encryption {
  choice: KeyChoice;
  passphrase: string;
  repeated: string;
  path: string;
}

export const NOT_ENCRYPTED: Encryption = { choice: "inherit", passphrase: "", repeated: "", path: "" };

const PASSPHRASE_CHARS_MIN = 8;

/** The key settings of a request; none where it inherits. */
export function keyOf(encryption: Encryption): KeySettings | null {
  switch (encryption.choice) {
    case "inherit":
      return null;
    case "passphrase":
      if (encryption.passphrase.length < PASSPHRASE_CHARS_MIN) throw mistake(`a passphrase has at least ${PASSPHRASE_CHARS_MIN} characters`);
      if (encryption.passphrase !== encryption.repeated) throw mistake("the two passphrases differ: type the same one twice");
      return { format: "passphrase", location: "prompt", key: digitsOf(encryption.passphrase) };
    case "file":
      if (!encryption.path.startsWith("/")) throw mistake("name the file of the key by its whole path, such as /etc/bulkhead/keys/vm0");
      return { format: "raw", location: `file://${encryption.path}` };
  }
}

/** A key travels as the hex digits of its bytes. */
export function digitsOf(text: string): string {
  return [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface EncryptionFieldsProps {
  value: Encryption;
  onValue: (value: Encryption) => void;
  label?: string;
  hint?: string;
}

const AT_CREATION = "It cannot be changed later. Without the key the data is lost.";

export function EncryptionFields({ value, onValue, label = "Encryption", hint = AT_CREATION }: EncryptionFieldsProps) {
  const set = (change: Partial<Encryption>): void => onValue({ ...value, ...change });
  return (
    <>
      <Select label={label} value={value.choice} onValue={(choice) => set({ choice: choice as KeyChoice })}
        hint={hint}
        options={[["inherit", "as its parent"], ["passphrase", "a passphrase, to be typed after each start"], ["file", "a key in a file of the heads"]]} />
      {value.choice === "passphrase" && (
        <>
          <Input label="Passphrase" type="password" autocomplete="new-password" value={value.passphrase} onValue={(passphrase) => set({ passphrase })} required />
          <Input label="Passphrase again" type="password" autocomplete="new-password" value={value.repeated} onValue={(repeated) => set({ repeated })} required />
        </>
      )}
      {value.choice === "file" && (
        <Input label="File of the key" hint="32 bytes, in the same place on every head, such as /etc/bulkhead/keys/vm0" value={value.path} onValue={(path) => set({ path })} mono required />
      )}
    </>
  );
}
