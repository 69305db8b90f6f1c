// The form that describes an appliance: networks, heads, pools.

import type { ComponentChildren } from "preact";
import type { ApplianceDocument, Disk, HeadDocument, NetworkDocument, PoolDocument } from "../../api/types";
import { Button, Card } from "../../parts/basics";
import { DiskChoice, Input, Select, TextArea } from "../../parts/fields";
import { bytes } from "../../parts/format";
import { freeName, keyOf, newHead, newPool, renamed, withNetworkRenamed, without, words } from "./draft";
import { FindingsOf, useFindings } from "./findings";

export interface FormProps {
  document: ApplianceDocument;
  onChange: (document: ApplianceDocument) => void;
  disks: Disk[];
}

interface KeyedProps {
  of: string;
  label: string;
  value: string;
  onValue: (value: string) => void;
  hint?: string;
  mono?: boolean;
  list?: string[];
}

/** A field with the findings about its key. */
function Keyed({ of, ...rest }: KeyedProps) {
  return <Input {...rest} wrong={useFindings(of)} />;
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
          onValue={(value) => onChange({ ...document, quorum: value === "" ? null : { ...document.quorum, rule: value } })}
          options={[
            ["", "there is one head"],
            ["two-node", "two heads: the one that powers the other off goes on"],
            ["majority", "three or more heads: more than half of them"],
            ["witness", "a witness decides (set its address in the file)"],
          ]}
          wrong={useFindings("quorum")}
        />
      </Card>
      <Networks {...props} />
      <Heads {...props} />
      <Pools {...props} />
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
  const change = (name: string, network: NetworkDocument): void =>
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
            <Keyed of={`${key}.subnets`} label="Subnets" mono value={network.subnets.join(", ")}
              onValue={(text) => change(name, { ...network, subnets: words(text) })} hint="such as 10.77.1.0/24" />
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

function Heads(props: FormProps) {
  const { document, onChange } = props;
  const add = (): void => {
    const number = Math.max(0, ...Object.values(document.heads).map((head) => head.number)) + 1;
    const head = newHead(number, Object.keys(document.networks));
    onChange({ ...document, heads: { ...document.heads, [freeName(document.heads, "head-")]: head } });
  };
  return (
    <Section title="Heads" about="The machines, and how the others power each off when it no longer answers." add="Add a head" onAdd={add}>
      {Object.entries(document.heads).map(([name, head], index) => (
        <HeadEntry key={index} {...props} name={name} head={head} />
      ))}
    </Section>
  );
}

function HeadEntry({ document, onChange, name, head }: FormProps & { name: string; head: HeadDocument }) {
  const key = keyOf("heads", name);
  const change = (next: HeadDocument): void => onChange({ ...document, heads: { ...document.heads, [name]: next } });
  const changeBmc = (field: string, value: string): void => {
    const bmc = { address: "", user: "", password_file: "", ...head.fencing?.bmc, [field]: value };
    change({ ...head, fencing: { ...head.fencing, bmc } });
  };
  const bmc = head.fencing?.bmc;
  return (
    <Entry title={`head ${name}`} remove={() => onChange({ ...document, heads: without(document.heads, name) })}>
      <Keyed of={key} label="Name of the head" value={name} hint="as uname -n prints it there"
        onValue={(to) => onChange({ ...document, heads: renamed(document.heads, name, to) })} />
      <Keyed of={`${key}.number`} label="Number" value={String(head.number)} hint="never changes"
        onValue={(text) => change({ ...head, number: Number(text) || 0 })} />
      <Keyed of={`${key}.memory`} label="Memory" value={head.memory ?? ""} hint="such as 64G; empty: what the machine says"
        onValue={(text) => change({ ...head, memory: text })} />
      {Object.keys(document.networks).map((network) => {
        const link = head.links[network] ?? { interface: "", addresses: [] };
        const linkKey = keyOf("heads", name, "links", network);
        const set = (next: typeof link): void => change({ ...head, links: { ...head.links, [network]: next } });
        return (
          <div class="pair" key={network}>
            <Keyed of={`${linkKey}.interface`} label={`Interface in ${network}`} value={link.interface} mono hint="such as ens1f0"
              onValue={(text) => set({ ...link, interface: text.trim() })} />
            <Keyed of={`${linkKey}.addresses`} label={`Address in ${network}`} value={link.addresses.join(", ")} mono
              onValue={(text) => set({ ...link, addresses: words(text) })} />
            <FindingsOf of={linkKey} />
          </div>
        );
      })}
      <FindingsOf of={`${key}.fencing`} />
      <FindingsOf of={`${key}.fencing.bmc`} />
      <Keyed of={`${key}.fencing.bmc.address`} label="Address of its BMC" value={bmc?.address ?? ""} mono hint="IPMI; other fence devices are set in the file"
        onValue={(text) => changeBmc("address", text.trim())} />
      <Keyed of={`${key}.fencing.bmc.user`} label="User of its BMC" value={bmc?.user ?? ""} onValue={(text) => changeBmc("user", text)} />
      <Keyed of={`${key}.fencing.bmc.password_file`} label="File with the BMC's password" value={bmc?.password_file ?? ""} mono
        hint="on every head, readable by root only" onValue={(text) => changeBmc("password_file", text)} />
      <Keyed of={`${key}.fencing.delay_s`} label="Delay before it is powered off, in seconds" value={String(head.fencing?.delay_s ?? 0)}
        hint="longer on exactly one of two heads: that one survives a split"
        onValue={(text) => change({ ...head, fencing: { ...head.fencing, delay_s: Number(text) || 0 } })} />
    </Entry>
  );
}

function Pools(props: FormProps) {
  const { document, onChange } = props;
  const add = (): void => {
    const pool = newPool(Object.keys(document.networks));
    onChange({ ...document, pools: { ...document.pools, [freeName(document.pools, "pool")]: pool } });
  };
  return (
    <Section title="Pools" about="What is served, on which disks, at which addresses. Addresses move with their pool." add="Add a pool" onAdd={add}>
      {Object.entries(document.pools).map(([name, pool], index) => (
        <PoolEntry key={index} {...props} name={name} pool={pool} />
      ))}
    </Section>
  );
}

function PoolEntry({ document, onChange, disks, name, pool }: FormProps & { name: string; pool: PoolDocument }) {
  const key = keyOf("pools", name);
  const change = (next: PoolDocument): void => onChange({ ...document, pools: { ...document.pools, [name]: next } });
  const heads = Object.keys(document.heads);
  const seen = disks.map((disk) => disk.path);
  const addressIn = (network: string): string => pool.addresses.find((one) => one.network === network)?.address ?? "";
  const setAddress = (network: string, address: string): void =>
    change({ ...pool, addresses: [...pool.addresses.filter((one) => one.network !== network), { network, address }] });
  return (
    <Entry title={`pool ${name}`} remove={() => onChange({ ...document, pools: without(document.pools, name) })}>
      <Keyed of={key} label="Name of the pool" value={name} onValue={(to) => onChange({ ...document, pools: renamed(document.pools, name, to) })} />
      <Select label="Home" value={pool.home ?? ""} onValue={(home) => change({ ...pool, home })}
        options={[["", "any head"], ...heads.map((head): [string, string] => [head, head])]}
        hint="where it starts when it may choose" wrong={useFindings(`${key}.home`)} />
      {seen.length > 0 && (
        <DiskChoice
          legend="Disks that this head sees"
          disks={disks.map((disk) => ({ path: disk.path, about: [bytes(disk.size), disk.model].filter(Boolean).join(", "), used: null }))}
          chosen={pool.disks}
          onValue={(chosen) => change({ ...pool, disks: chosen })}
        />
      )}
      <DiskPaths of={`${key}.disks`} disks={pool.disks} onValue={(paths) => change({ ...pool, disks: paths })} />
      <Keyed of={`${key}.arc`} label="Memory for its cache" value={pool.arc ?? ""} hint="such as 16G" onValue={(arc) => change({ ...pool, arc })} />
      <FindingsOf of={`${key}.addresses`} />
      {Object.keys(document.networks).filter((network) => network !== "management" || addressIn(network) !== "").map((network) => (
        <Input key={network} label={`Its address in ${network}`} mono value={addressIn(network)}
          onValue={(text) => setAddress(network, text.trim())} hint="clients connect to it" />
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
