// The appliance file while it is being edited: an initial one, and small changes that leave the rest of the document
// unchanged.

import type { Appliance, Finding, Head, Network, Outlet, Pdu, Pool, QuorumRule } from "../../api/types";

const NETWORKS: [string, string][] = [["storage-a", "10.77.1.0/24"], ["storage-b", "10.77.2.0/24"], ["management", "10.77.9.0/24"]];

/** Two heads that share a shelf of disks: the most common appliance. */
export function newDocument(): Appliance {
  const networks = Object.fromEntries(
    NETWORKS.map(([name, subnet], index): [string, Network] => [name, { subnets: [subnet], heartbeat: index, mtu: 1500 }]),
  );
  return {
    format: 1,
    name: "attic",
    quorum: { rule: "two-node" },
    networks,
    heads: { left: newHead(1, Object.keys(networks)), right: newHead(2, Object.keys(networks)) },
    pools: { tank: newPool(Object.keys(networks)) },
  };
}

export function newHead(number: number, networks: string[]): Head {
  return {
    number,
    links: Object.fromEntries(networks.map((name) => [name, { interface: "", addresses: [] }])),
    fencing: {
      delay_s: number === 2 ? 1 : 0,
      bmc: { address: "", user: "fence", password_file: `/etc/bulkhead/secrets/bmc-${number}` },
    },
  };
}

export function newPool(networks: string[]): Pool {
  const forClients = networks.filter((name) => name !== "management");
  return { disks: [], addresses: forClients.map((network) => ({ network, address: "" })) };
}

export function newPdu(): Pdu {
  return { agent: "fence_apc_snmp", address: "", user: "fence", password_file: "/etc/bulkhead/secrets/pdu" };
}

/** Changes the rule; only the one with a witness retains the witness. */
export function withRule(document: Appliance, rule: QuorumRule | ""): Appliance {
  if (rule === "") return { ...document, quorum: null };
  const witness = rule === "witness" ? document.quorum?.witness ?? { address: "" } : null;
  return { ...document, quorum: { ...document.quorum, rule, witness } };
}

function withOutlets(document: Appliance, change: (outlets: Outlet[]) => Outlet[]): Appliance["heads"] {
  const heads = Object.entries(document.heads).map(([name, head]): [string, Head] => [
    name,
    head.fencing?.outlets ? { ...head, fencing: { ...head.fencing, outlets: change(head.fencing.outlets) } } : head,
  ]);
  return Object.fromEntries(heads);
}

/** Renames a power distribution unit everywhere. */
export function withPduRenamed(document: Appliance, from: string, to: string): Appliance {
  const pdus = document.pdus ?? {};
  if (to in pdus) return document;
  const heads = withOutlets(document, (outlets) => outlets.map((one) => (one.pdu === from ? { ...one, pdu: to } : one)));
  return { ...document, pdus: renamed(pdus, from, to), heads };
}

/** Removes a power distribution unit, and the outlets of heads at it. */
export function withoutPdu(document: Appliance, name: string): Appliance {
  const heads = withOutlets(document, (outlets) => outlets.filter((one) => one.pdu !== name));
  return { ...document, pdus: without(document.pdus ?? {}, name), heads };
}

/** Renames an entry without a change of its position. */
export function renamed<T>(entries: Record<string, T>, from: string, to: string): Record<string, T> {
  if (to in entries && to !== from) return entries;
  return Object.fromEntries(Object.entries(entries).map(([name, value]) => [name === from ? to : name, value]));
}

export function without<T>(entries: Record<string, T>, name: string): Record<string, T> {
  return Object.fromEntries(Object.entries(entries).filter(([known]) => known !== name));
}

/** A name that no entry has yet. */
export function freeName(entries: Record<string, unknown>, stem: string): string {
  let number = 1;
  while (`${stem}${number}` in entries) number += 1;
  return `${stem}${number}`;
}

/** Renames a network everywhere. */
export function withNetworkRenamed(document: Appliance, from: string, to: string): Appliance {
  const heads = Object.entries(document.heads).map(([name, head]): [string, Head] =>
    [name, { ...head, links: renamed(head.links, from, to) }]);
  const pools = Object.entries(document.pools ?? {}).map(([name, pool]): [string, Pool] =>
    [name, { ...pool, addresses: pool.addresses.map((one) => (one.network === from ? { ...one, network: to } : one)) }]);
  return {
    ...document,
    networks: renamed(document.networks, from, to),
    heads: Object.fromEntries(heads),
    pools: Object.fromEntries(pools),
  };
}

function withWitness(document: Appliance): Appliance {
  const { quorum } = document;
  return quorum?.witness?.address === "" ? { ...document, quorum: { ...quorum, witness: null } } : document;
}

/** Leaves empty texts out, which the file has no use for, and devices and a witness without an address. */
export function cleaned(whole: Appliance): Appliance {
  const unfinished = Object.entries(whole.pdus ?? {}).filter(([, pdu]) => pdu.address === "");
  const document = unfinished.reduce((rest, [name]) => withoutPdu(rest, name), withWitness(whole));
  const heads = Object.entries(document.heads).map(([name, head]): [string, Head] => {
    const links = Object.entries(head.links).filter(([, link]) => link.interface !== "" || link.addresses.length > 0);
    const bmc = head.fencing?.bmc;
    const fencing = bmc && bmc.address === "" ? { ...head.fencing, bmc: null } : head.fencing;
    return [name, { ...head, links: Object.fromEntries(links), fencing }];
  });
  const pools = Object.entries(document.pools ?? {}).map(([name, pool]): [string, Pool] => [
    name,
    { ...pool, addresses: pool.addresses.filter((one) => one.address !== "") },
  ]);
  const filled = { ...document, heads: Object.fromEntries(heads), pools: Object.fromEntries(pools) };
  const isEmpty = (value: unknown): boolean => value === null || value === "";
  return JSON.parse(JSON.stringify(filled, (_key, value: unknown) => (isEmpty(value) ? undefined : value))) as Appliance;
}

/** Splits lists as people write them. */
export const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** Quotes a name in a key as TOML does. */
export function keyOf(...names: string[]): string {
  return names.map((name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name))).join(".");
}

function isBelow(key: string, above: string): boolean {
  return key === above || key.startsWith(`${above}.`) || key.startsWith(`${above}[`);
}

/** Assigns each finding to the field with the nearest key; the rest belong to the whole. */
export function sortFindings(findings: Finding[], fields: string[]): Map<string, Finding[]> {
  const sorted = new Map<string, Finding[]>();
  for (const finding of findings) {
    const key = finding.where.key ?? "";
    const nearest = fields.filter((field) => isBelow(key, field)).sort((a, b) => b.length - a.length)[0] ?? "";
    sorted.set(nearest, [...(sorted.get(nearest) ?? []), finding]);
  }
  return sorted;
}

/** Whether an error is about a field of the form that is still empty. */
export function isToFillIn(document: Appliance, finding: Finding): boolean {
  const key = finding.where.key ?? "";
  return finding.severity === "error" && key !== "" && isUnfinished(valueAt(document, key));
}

function valueAt(document: unknown, key: string): unknown {
  const names = [...key.matchAll(/"((?:[^"\\]|\\.)*)"|[^.[\]]+/g)].map((found) => found[1] ?? found[0]);
  return names.reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), document);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** An empty value, or one with an empty field in it. */
function isUnfinished(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (!isObject(value)) return false;
  const inner = Object.values(value);
  return inner.length === 0 || inner.some(isUnfinished);
}

/** The keys of all fields that the form shows. */
export function fieldsOf(document: Appliance): string[] {
  const networks = Object.keys(document.networks).flatMap((name) => {
    const key = keyOf("networks", name);
    return [key, `${key}.subnets`, `${key}.mtu`, `${key}.heartbeat`];
  });
  const heads = Object.keys(document.heads).flatMap((name) => {
    const key = keyOf("heads", name);
    const links = Object.keys(document.networks).flatMap((network) => {
      const link = keyOf("heads", name, "links", network);
      return [`${link}.interface`, `${link}.addresses`, link];
    });
    // The field of the first unit shows the errors of the outlets; without units there is none.
    const outlets = Object.keys(document.pdus ?? {}).length > 0 ? [`${key}.fencing.outlets`] : [];
    const bmc = ["address", "user", "password_file"].map((field) => `${key}.fencing.bmc.${field}`);
    return [key, `${key}.number`, `${key}.memory`, `${key}.fencing`, ...outlets, `${key}.fencing.delay_s`, `${key}.fencing.bmc`, ...bmc, ...links];
  });
  const pdus = Object.keys(document.pdus ?? {}).flatMap((name) => {
    const key = keyOf("pdus", name);
    return [key, ...["agent", "address", "user", "password_file"].map((field) => `${key}.${field}`)];
  });
  const quorum = document.quorum?.rule === "witness" ? ["quorum.witness.address", "quorum.witness.reach"] : [];
  const pools = Object.keys(document.pools ?? {}).flatMap((name) => {
    const key = keyOf("pools", name);
    return [key, `${key}.home`, `${key}.disks`, `${key}.arc`, `${key}.addresses`];
  });
  return ["name", "quorum", ...quorum, ...networks, ...pdus, ...heads, ...pools];
}
