// The devices that power a head off, in the order of use: its BMC, then all outlets that feed it.

import type { Appliance, Fencing, Head, Pdu } from "../../api/types";
import { keyOf } from "./draft";
import { FindingsOf } from "./findings";
import { Keyed, KeyedList } from "./keyed";

/** Agents of units that are common; any other name can be typed. */
const AGENTS = ["fence_apc_snmp", "fence_apc", "fence_eaton_snmp", "fence_raritan", "fence_ipdu"];

export function PduFields({ of, pdu, onChange }: { of: string; pdu: Pdu; onChange: (pdu: Pdu) => void }) {
  return (
    <>
      <Keyed of={`${of}.agent`} label="Fence agent" value={pdu.agent} mono list={AGENTS} hint="the agent for its model"
        onValue={(agent) => onChange({ ...pdu, agent: agent.trim() })} />
      <Keyed of={`${of}.address`} label="Address of the unit" value={pdu.address} mono hint="IPv4 or IPv6; without it the unit is left out"
        onValue={(address) => onChange({ ...pdu, address: address.trim() })} />
      <Keyed of={`${of}.user`} label="User of the unit" value={pdu.user ?? ""} hint="if it requires one"
        onValue={(user) => onChange({ ...pdu, user })} />
      <Keyed of={`${of}.password_file`} label="File with its password" value={pdu.password_file ?? ""} mono
        hint="on every head, readable by root only" onValue={(password_file) => onChange({ ...pdu, password_file })} />
    </>
  );
}

interface PowerProps {
  document: Appliance;
  name: string;
  head: Head;
  onChange: (fencing: Fencing) => void;
}

export function PowerFields({ document, name, head, onChange }: PowerProps) {
  const key = `${keyOf("heads", name)}.fencing`;
  const fencing = head.fencing ?? {};
  const { bmc } = fencing;
  const changeBmc = (field: string, value: string): void =>
    onChange({ ...fencing, bmc: { address: "", user: "", password_file: "", ...bmc, [field]: value } });
  const outlets = fencing.outlets ?? [];
  const setOutlets = (pdu: string, numbers: string[]): void =>
    onChange({ ...fencing, outlets: [...outlets.filter((one) => one.pdu !== pdu), ...numbers.map((outlet) => ({ pdu, outlet }))] });
  return (
    <>
      <FindingsOf of={key} />
      <FindingsOf of={`${key}.bmc`} />
      <Keyed of={`${key}.bmc.address`} label="Address of its BMC" value={bmc?.address ?? ""} mono hint="IPMI; a hypervisor is set in the file"
        onValue={(text) => changeBmc("address", text.trim())} />
      <Keyed of={`${key}.bmc.user`} label="User of its BMC" value={bmc?.user ?? ""} onValue={(text) => changeBmc("user", text)} />
      <Keyed of={`${key}.bmc.password_file`} label="File with the BMC's password" value={bmc?.password_file ?? ""} mono
        hint="on every head, readable by root only" onValue={(text) => changeBmc("password_file", text)} />
      {Object.keys(document.pdus ?? {}).map((pdu, index) => (
        // Errors of the outlets are shown once.
        <KeyedList key={pdu} of={index === 0 ? `${key}.outlets` : `${key}.outlets of ${pdu}`} label={`Outlets of ${pdu} that feed it`} mono
          values={outlets.filter((one) => one.pdu === pdu).map((one) => one.outlet)}
          onValues={(numbers) => setOutlets(pdu, numbers)} hint="all of them must be off; tried when the BMC does not respond" />
      ))}
      <Keyed of={`${key}.delay_s`} label="Delay before it is powered off, in seconds" value={String(fencing.delay_s ?? 0)}
        hint="longer on exactly one of two heads: that one survives a split"
        onValue={(text) => onChange({ ...fencing, delay_s: Number(text) || 0 })} />
    </>
  );
}
