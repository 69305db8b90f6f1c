// The form that describes an appliance: networks, heads, pools.

import type { ComponentChildren } from "preact";
import type { Appliance, DiskView, Head, Network, Pool, QuorumRule } from "../../api/types";
import { Button, Card } from "../../parts/basics";
import { DiskChoice, Select, TextArea } from "../../parts/fields";
import { bytes } from "../../parts/format";
import { freeName, keyOf, newHead, newPdu, newPool, renamed, withNetworkRenamed, withPduRenamed, without, withoutPdu, withRule } from "./draft";
import { FindingsOf, useFindings } from "./findings";
import { Keyed, KeyedList } from "./keyed";
import { PduFields, PowerFields } from "./power";

export interface FormProps {
  document: Appliance;
  onChange: (document: Appliance) => void;
  disks: DiskView[];
}

export function ApplianceForm(props: FormProps) {
  const { document, onChange } = props;
  const rule = document.quorum?.rule ?? "";
  return (
    <>
      <Card title="Appliance">
        <Keyed of="name" label="Name" value={document.name} onValue={(name) => onChange({ ...document, name })}
          hint="letters, digits, - and _" />
        <Select
          label="When heads do not see each other"
          value={rule}
          onValue={(value) => onChange(withRule(document, value as QuorumRule | ""))}
          options={[
            ["", "there is one head"],
            ["two-node", "two heads: the one that powers the other off continues"],
            ["majority", "three or more heads: more than half of them"],
            ["witness", "a witness, a third host, decides"],
          ]}
          wrong={useFindings("quorum")}
        />
        {rule === "witness" && <Witness {...props} />}
      </Card>
      <Networks {...props} />
      <Pdus {...props} />
      <Heads {...props} />
      <Pools {...props} />
    </>
  );
}

function Witness({ document, onChange }: FormProps) {
  const { quorum } = document;
  const witness = quorum?.witness ?? { address: "" };
  const change = (next: typeof witness): void => onChange({ ...document, quorum: { rule: "witness", ...quorum, witness: next } });
  return (
    <>
      <Keyed of="quorum.witness.address" label="Address of the witness" value={witness.address} mono
        hint="the host that runs corosync-qnetd; IPv4 or IPv6" onValue={(text) => change({ ...witness, address: text.trim() })} />
      <KeyedList of="quorum.witness.reach" label="Addresses that a healthy head reaches" values={witness.reach ?? []} mono
        hint="such as routers of the storage networks; a head that does not reach all of them loses" onValues={(reach) => change({ ...witness, reach })} />
    </>
  );
}

interface SectionProps {
  title: string;
  about: string;
  add: string;
  onAdd: () => void;
  children: ComponentChildren;
}

function Section({ title, about, add, onAdd, children }: SectionProps) {
  return (
    <Card title={title} wide actions={<Button icon="plus" onClick={onAdd}>{add}</Button>}>
      <p class="muted">{about}</p>
      <div class="entries-grid">{children}</div>
    </Card>
  );
}

function Entry({ title, remove, children }: { title: string; remove: () => void; children: ComponentChildren }) {
  return (
    <fieldset class="entry">
      <legend>{title}</legend>
      {children}
      <Button kind="quiet" onClick={remove}>Remove {title}</Button>
    </fieldset>
  );
}

function Networks({ document, onChange }: FormProps) {
  const change = (name: string, network: Network): void =>
    onChange({ ...document, networks: { ...document.networks, [name]: network } });
  const add = (): void => {
    const name = freeName(document.networks, "network-");
    change(name, { subnets: [], heartbeat: Object.keys(document.networks).length, mtu: 1500 });
  };
  return (
    <Section title="Networks" about="At least two that fail apart from each other: heartbeats run over all of them." add="Add a network" onAdd={add}>
      {Object.entries(document.networks).map(([name, network], index) => {
        const key = keyOf("networks", name);
        return (
          <Entry key={index} title={`network ${name}`} remove={() => onChange({ ...document, networks: without(document.networks, name) })}>
            <Keyed of={key} label="Name of the network" value={name} onValue={(to) => onChange(withNetworkRenamed(document, name, to))} />
            <KeyedList of={`${key}.subnets`} label="Subnets" mono values={network.subnets}
              onValues={(subnets) => change(name, { ...network, subnets })} hint="such as 10.77.1.0/24, fd77:1::/64" />
            <Keyed of={`${key}.mtu`} label="Largest packet (MTU)" value={String(network.mtu ?? 1500)}
              onValue={(text) => change(name, { ...network, mtu: Number(text) || 0 })} />
            <Keyed of={`${key}.heartbeat`} label="Number of its heartbeat" value={String(network.heartbeat ?? "")}
              onValue={(text) => change(name, { ...network, heartbeat: text === "" ? null : Number(text) })} hint="0 to 7; empty: none" />
          </Entry>
        );
      })}
    </Section>
  );
}

function Pdus({ document, onChange }: FormProps) {
  const pdus = document.pdus ?? {};
  const add = (): void => onChange({ ...document, pdus: { ...pdus, [freeName(pdus, "pdu-")]: newPdu() } });
  return (
    <Section title="Power distribution units" about="A second way to power a head off, for when its BMC does not respond. Without such units leave this empty." add="Add a unit" onAdd={add}>
      {Object.entries(pdus).map(([name, pdu], index) => (
        <Entry key={index} title={`unit ${name}`} remove={() => onChange(withoutPdu(document, name))}>
          <Keyed of={keyOf("pdus", name)} label="Name of the unit" value={name} onValue={(to) => onChange(withPduRenamed(document, name, to))} />
          <PduFields of={keyOf("pdus", name)} pdu={pdu} onChange={(next) => onChange({ ...document, pdus: { ...pdus, [name]: next } })} />
        </Entry>
      ))}
    </Section>
  );
}

function Heads(props: FormProps) {
  const { document, onChange } = props;
  const add = (): void => {
    const number = Math.max(0, ...Object.values(document.heads).map((head) => head.number)) + 1;
    const head = newHead(number, Object.keys(document.networks));
    onChange({ ...document, heads: { ...document.heads, [freeName(document.heads, "head-")]: head } });
  };
  return (
    <Section title="Heads" about="The hosts, and how each is powered off when it no longer responds." add="Add a head" onAdd={add}>
      {Object.entries(document.heads).map(([name, head], index) => (
        <HeadEntry key={index} {...props} name={name} head={head} />
      ))}
    </Section>
  );
}

function HeadEntry({ document, onChange, name, head }: FormProps & { name: string; head: Head }) {
  const key = keyOf("heads", name);
  const change = (next: Head): void => onChange({ ...document, heads: { ...document.heads, [name]: next } });
  return (
    <Entry title={`head ${name}`} remove={() => onChange({ ...document, heads: without(document.heads, name) })}>
      <Keyed of={key} label="Name of the head" value={name} hint="as uname -n prints it there"
        onValue={(to) => onChange({ ...document, heads: renamed(document.heads, name, to) })} />
      <Keyed of={`${key}.number`} label="Number" value={String(head.number)} hint="never changes"
        onValue={(text) => change({ ...head, number: Number(text) || 0 })} />
      <Keyed of={`${key}.memory`} label="Memory" value={head.memory ?? ""} hint="such as 64G; empty: as the host reports"
        onValue={(text) => change({ ...head, memory: text })} />
      {Object.keys(document.networks).map((network) => {
        const link = head.links[network] ?? { interface: "", addresses: [] };
        const linkKey = keyOf("heads", name, "links", network);
        const set = (next: typeof link): void => change({ ...head, links: { ...head.links, [network]: next } });
        return (
          <div class="pair" key={network}>
            <Keyed of={`${linkKey}.interface`} label={`Interface in ${network}`} value={link.interface} mono hint="such as ens1f0"
              onValue={(text) => set({ ...link, interface: text.trim() })} />
            <KeyedList of={`${linkKey}.addresses`} label={`Address in ${network}`} values={link.addresses} mono
              hint="IPv4, IPv6 or one of each" onValues={(addresses) => set({ ...link, addresses })} />
            <FindingsOf of={linkKey} />
          </div>
        );
      })}
      <PowerFields document={document} name={name} head={head} onChange={(fencing) => change({ ...head, fencing })} />
    </Entry>
  );
}

function Pools(props: FormProps) {
  const { document, onChange } = props;
  const add = (): void => {
    const pool = newPool(Object.keys(document.networks));
    onChange({ ...document, pools: { ...document.pools, [freeName(document.pools ?? {}, "pool")]: pool } });
  };
  return (
    <Section title="Pools" about="The pools, with their disks and addresses. Addresses move with their pool." add="Add a pool" onAdd={add}>
      {Object.entries(document.pools ?? {}).map(([name, pool], index) => (
        <PoolEntry key={index} {...props} name={name} pool={pool} />
      ))}
    </Section>
  );
}

function PoolEntry({ document, onChange, disks, name, pool }: FormProps & { name: string; pool: Pool }) {
  const key = keyOf("pools", name);
  const change = (next: Pool): void => onChange({ ...document, pools: { ...document.pools, [name]: next } });
  const heads = Object.keys(document.heads);
  const seen = disks.map((disk) => disk.path);
  const addressesIn = (network: string): string[] =>
    pool.addresses.filter((one) => one.network === network && one.address !== "").map((one) => one.address);
  const setAddresses = (network: string, addresses: string[]): void =>
    change({ ...pool, addresses: [...pool.addresses.filter((one) => one.network !== network), ...addresses.map((address) => ({ network, address }))] });
  return (
    <Entry title={`pool ${name}`} remove={() => onChange({ ...document, pools: without(document.pools ?? {}, name) })}>
      <Keyed of={key} label="Name of the pool" value={name} onValue={(to) => onChange({ ...document, pools: renamed(document.pools ?? {}, name, to) })} />
      <Select label="Home" value={pool.home ?? ""} onValue={(home) => change({ ...pool, home })}
        options={[["", "any head"], ...heads.map((head): [string, string] => [head, head])]}
        hint="where it starts when it may choose" wrong={useFindings(`${key}.home`)} />
      {seen.length > 0 && (
        <DiskChoice
          legend="Disks that this head sees"
          disks={disks.map((disk) => ({ path: disk.path, about: [bytes(disk.size), disk.model].filter(Boolean).join(", "), used: null }))}
          chosen={pool.disks ?? []}
          onValue={(chosen) => change({ ...pool, disks: chosen })}
        />
      )}
      <DiskPaths of={`${key}.disks`} disks={pool.disks ?? []} onValue={(paths) => change({ ...pool, disks: paths })} />
      <Keyed of={`${key}.arc`} label="Memory for its cache" value={pool.arc ?? ""} hint="such as 16G" onValue={(arc) => change({ ...pool, arc })} />
      <FindingsOf of={`${key}.addresses`} />
      {Object.keys(document.networks).filter((network) => network !== "management" || addressesIn(network).length > 0).map((network) => (
        <KeyedList key={network} of={`${key}.addresses in ${network}`} label={`Its address in ${network}`} mono values={addressesIn(network)}
          onValues={(addresses) => setAddresses(network, addresses)} hint="clients connect to it; IPv4, IPv6 or one of each" />
      ))}
    </Entry>
  );
}

function DiskPaths({ of, disks, onValue }: { of: string; disks: string[]; onValue: (disks: string[]) => void }) {
  return (
    <TextArea label="Disks" rows={Math.min(8, disks.length + 2)} value={disks.join("\n")}
      hint="one a line, by names that are the same on every head, such as /dev/disk/by-id/…"
      onValue={(text) => onValue(text.split("\n").map((line) => line.trim()).filter((line, index, all) => line !== "" || index === all.length - 1))}
      wrong={useFindings(of)} />
  );
}
