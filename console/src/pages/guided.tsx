// The guided way to a disk of a client: volume, target, LUN and access in one form, then the commands for the client.

import { useState } from "preact/hooks";
import type { Done, Status, TargetView } from "../api/types";
import { get, mistake, post } from "../api/client";
import { poolPath, targetPath } from "../api/paths";
import { Button } from "../parts/basics";
import { Dialog, FormDialog } from "../parts/dialog";
import { Check, Input, Select } from "../parts/fields";
import { bytes, parseSize } from "../parts/format";
import { complain, tell } from "../state/notices";
import { link } from "../state/route";
import { EncryptionFields, keyOf, NOT_ENCRYPTED } from "./datasets";
import { useVolumes, withoutPrefix } from "./volumes";

/** A domain that is reserved for examples, where the console is opened by an address. */
const EXAMPLE_DOMAIN = "org.example";

/** `org.example` of `left.example.org`. */
function domain(host = location.hostname): string {
  const labels = host.split(".").filter(Boolean);
  const isName = labels.length > 2 && !/^[\d.]+$/.test(host) && !host.includes(":");
  return isName ? labels.slice(1).reverse().join(".") : EXAMPLE_DOMAIN;
}

/** A name for the target of a volume: of this year, this domain, and the volume. */
export function proposedName(volume: string): string {
  const last = volume.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `iqn.${new Date().getFullYear()}-01.${domain()}:${last || "target"}`;
}

type Access = "initiator" | "network" | "everyone";

const NEW = "";

interface Result {
  target: string;
  volume: string;
  user: string;
  commands: string;
  /** The server listens for clients of this head only. */
  isLocal: boolean;
}

export function GuidedExport({ pools, onClose }: { pools: string[]; onClose: () => void }) {
  const [result, setResult] = useState<Result | null>(null);
  if (result) return <Ready result={result} onClose={onClose} />;
  return <Form pools={pools} onClose={onClose} onReady={setResult} />;
}

function Form({ pools, onClose, onReady }: { pools: string[]; onClose: () => void; onReady: (result: Result) => void }) {
  const [pool, setPool] = useState(pools[0] ?? "");
  const [existing, setExisting] = useState(NEW);
  const [name, setName] = useState("");
  const [size, setSize] = useState("10G");
  const [sparse, setSparse] = useState(false);
  const [encryption, setEncryption] = useState(NOT_ENCRYPTED);
  const [made, setMade] = useState<string | null>(null);
  const [typedTarget, setTarget] = useState<string | null>(null);
  const [access, setAccess] = useState<Access>("initiator");
  const [client, setClient] = useState("");
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  const volumes = (useVolumes([pool]) ?? []).map((one) => one.name);
  const bytesWanted = parseSize(size);
  const volume = existing || `${pool}/${withoutPrefix(name.trim(), pool)}`;
  const target = typedTarget ?? proposedName(volume);
  const perform = async (): Promise<void> => {
    if (existing === NEW && name.trim() === "") throw mistake("give the volume a name");
    if (existing === NEW && bytesWanted === null) throw mistake(`${size} is no size: write 10G or 1.5T`);
    if (access !== "everyone" && client.trim() === "") throw mistake("name the client that is allowed");
    if (user.trim() !== "" && secret === "") throw mistake("type the secret of the user");
    const at = targetPath(pool, target.trim());
    // Names of volumes can differ in characters that names of targets do not have.
    if (typedTarget === null) await refuseAnotherVolume(pool, target.trim(), volume);
    // Each step succeeds if its result exists, so that the form can be sent again after a refusal. A new volume must not
    // exist before the first attempt: another client may use it.
    if (existing === NEW && made !== volume) {
      await post<Done>(`${poolPath(pool)}/volumes`, {
        name: volume, size: bytesWanted, block_size: null, sparse, properties: {}, parents: volume.split("/").length > 2, exist_ok: false,
        key: keyOf(encryption),
      });
      setMade(volume);
    }
    await post<Done>(`${poolPath(pool)}/targets`, { name: target.trim(), portal_groups: [] });
    // The secret comes before the access, so that no client gets in without it.
    if (user.trim() !== "") await post<Done>(`${at}/chap`, { user: user.trim(), secret });
    await post<Done>(`${at}/map`, { volume, lun: null, read_only: false, write_cache: null });
    await post<Done>(`${at}/allow`, {
      initiators: access === "initiator" ? [client.trim()] : [],
      networks: access === "network" ? [client.trim()] : [],
      everyone: access === "everyone",
      instead_of_everyone: false,
    });
    onReady(await commandsFor(pool, target.trim(), volume, user.trim()));
  };
  return (
    <FormDialog title="Export a volume to a client" action="Export it" onClose={() => undefined} onCancel={onClose} submit={perform}>
      <Select label="Pool" value={pool} onValue={(value) => { setPool(value); setExisting(NEW); }}
        options={pools.map((one): [string, string] => [one, one])} />
      <Select label="Volume" value={existing} onValue={setExisting}
        options={[[NEW, "a new one"], ...volumes.map((one): [string, string] => [one, one])]} />
      {existing === NEW && (
        <>
          <Input label="Name of the volume" hint="such as vm0 or vms/vm0" value={name} onValue={setName} required />
          <Input label="Size" hint={bytesWanted === null ? "such as 10G or 1.5T" : bytes(bytesWanted)} value={size} onValue={setSize} required />
          <EncryptionFields value={encryption} onValue={setEncryption} />
          <Check label="Sparse: no space is reserved" checked={sparse} onValue={setSparse} />
        </>
      )}
      <Input label="Target" hint="the name by which the client finds it" value={target} onValue={setTarget} mono required />
      <Select label="Allowed" value={access} onValue={(value) => setAccess(value as Access)}
        options={[["initiator", "a client by its initiator name"], ["network", "a network"], ["everyone", "everyone (for tests)"]]} />
      {access === "initiator" && (
        <Input label="Initiator name" hint="on Linux in /etc/iscsi/initiatorname.iscsi, such as iqn.1993-08.org.debian:01:host7" value={client} onValue={setClient} mono required />
      )}
      {access === "network" && <Input label="Network" hint="such as 10.77.1.0/24" value={client} onValue={setClient} mono required />}
      {access === "everyone" && <p>Any host that reaches the address can read and write the volume.</p>}
      <Input label="CHAP user" hint="empty: no secret is required" value={user} onValue={setUser} />
      {user.trim() !== "" && (
        <Input label="Secret" type="password" autocomplete="new-password" hint="12 to 16 characters for most initiators" value={secret} onValue={setSecret} required />
      )}
    </FormDialog>
  );
}

async function refuseAnotherVolume(pool: string, target: string, volume: string): Promise<void> {
  const targets = await get<TargetView[]>(`${poolPath(pool)}/targets`);
  const other = targets.find((one) => one.name === target)?.units.find((unit) => unit.volume !== volume);
  if (other) throw mistake(`target ${target} exports ${other.volume} already: type another name of the target`);
}

const LOOPBACK = /^(127\.|\[::1\]|unix:)/;

/** A wildcard names no address that a client could use. */
const WILDCARD = /^(0\.0\.0\.0|\[::\]):/;

async function commandsFor(pool: string, target: string, volume: string, user: string): Promise<Result> {
  const server = (await get<Status>(poolPath(pool))).server;
  const listeners = (server?.listeners?.iscsi ?? server?.iscsi_portals ?? []).map((one) => one.replace(/,\d+$/, ""));
  const reached = listeners.find((one) => !LOOPBACK.test(one));
  const portal = (reached ?? listeners[0] ?? "ADDRESS:3260").replace(WILDCARD, `${location.hostname}:`);
  const chap = user === "" ? [] : [
    ["authmethod", "CHAP"], ["username", user], ["password", "THE-SECRET"],
  ].map(([name, value]) => `iscsiadm -m node -T ${target} -o update -n node.session.auth.${name} -v ${value}`);
  const commands = [
    `iscsiadm -m discovery -t sendtargets -p ${portal}`,
    ...chap,
    `iscsiadm -m node -T ${target} --login`,
    "lsblk --scsi",
  ].join("\n");
  return { target, volume, user, commands, isLocal: reached === undefined };
}

function Ready({ result, onClose }: { result: Result; onClose: () => void }) {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(result.commands);
      tell("the commands are copied");
    } catch (error) {
      complain(error);
    }
  };
  return (
    <Dialog title={`${result.volume} is exported`} onClose={onClose}>
      <div class="ready">
        <p>On a Linux client with open-iscsi, as root:</p>
        <pre tabIndex={0} role="region" aria-label="Commands for the client">{result.commands}</pre>
        {result.user !== "" && <p>Replace THE-SECRET by the secret of {result.user}.</p>}
        {result.isLocal && (
          <p class="alert tone-warning">
            The server listens on this head only. Give it an address for clients: <code>bulkhead portal add POOL --iscsi ADDRESS:3260,1</code>, or
            the addresses of the appliance file.
          </p>
        )}
        <p>The disk also needs multipath and longer time-outs on the client before it survives a takeover: see the guide, clients.</p>
        <div class="dialog-foot">
          <a class="button" href={link("volumes", result.volume)} onClick={onClose}>Open the volume</a>
          <Button onClick={() => void copy()}>Copy the commands</Button>
          <Button kind="primary" onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
