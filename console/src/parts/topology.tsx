// A pool's devices as the tree that they form, with the errors of each.

import type { ComponentChildren } from "preact";
import type { DeviceView, PoolStatus } from "../api/types";
import { Icon } from "./icons";
import { State, toneOf, type Tone } from "./state";

interface TopologyProps {
  pool: PoolStatus;
  /** Buttons of one disk, or of a group, which has members. */
  actions?: (device: DeviceView, group: DeviceView | null) => ComponentChildren;
}

const ROLES: Record<string, string> = {
  data: "Data",
  log: "Log of synchronous writes",
  cache: "Read cache",
  spare: "Spares",
};

export function Topology({ pool, actions }: TopologyProps) {
  const roles = [...new Set(pool.devices.map((device) => device.role))];
  return (
    <div class="topology">
      <div class={`node root tone-${toneOf(pool.health)}`}>
        <Icon name="pool" />
        <strong>{pool.name}</strong>
        <State word={pool.suspended ? "suspended" : pool.health} />
      </div>
      {roles.map((role) => (
        <div class="branch" key={role}>
          {roles.length > 1 && <p class="role">{ROLES[role] ?? role}</p>}
          <ul aria-label={`${ROLES[role] ?? role} of ${pool.name}`}>
            {pool.devices
              .filter((device) => device.role === role)
              .map((device) => <Node key={device.name} device={device} group={null} actions={actions} />)}
          </ul>
        </div>
      ))}
    </div>
  );
}

interface NodeProps {
  device: DeviceView;
  group: DeviceView | null;
  actions: TopologyProps["actions"];
}

function Node({ device, group, actions }: NodeProps) {
  const members = device.members ?? [];
  const isGroup = members.length > 0;
  return (
    <li class={isGroup ? "group" : "leaf"}>
      <div class={`node tone-${toneOfDevice(device)}`}>
        <div class="node-name">
          <Icon name={isGroup ? "link" : "disk"} size={16} />
          <span class={isGroup ? "" : "mono path"} title={device.name}>{isGroup ? device.name : shortened(device.name)}</span>
        </div>
        <State word={device.state} />
        <Errors device={device} />
        {device.note && <p class="note">{device.note}</p>}
        {actions && <div class="actions">{actions(device, group)}</div>}
      </div>
      {isGroup && (
        <ul aria-label={`Members of ${device.name}`}>
          {members.map((member) => <Node key={member.name} device={member} group={device} actions={actions} />)}
        </ul>
      )}
    </li>
  );
}

/** A disk with errors is highlighted even while it is in use. */
function toneOfDevice(device: DeviceView): Tone {
  const tone = toneOf(device.state);
  const errors = device.read_errors + device.write_errors + device.checksum_errors;
  return tone === "good" && errors > 0 ? "warning" : tone;
}

function Errors({ device }: { device: DeviceView }) {
  const counts: [string, number][] = [
    ["read", device.read_errors],
    ["write", device.write_errors],
    ["checksum", device.checksum_errors],
  ];
  const found = counts.filter(([, number]) => number > 0);
  if (found.length === 0) return <span class="errors none">no errors</span>;
  return (
    <span class="errors">
      {found.map(([kind, number]) => `${number} ${kind}`).join(", ")} {found.length === 1 && found[0]?.[1] === 1 ? "error" : "errors"}
    </span>
  );
}

/** Long paths differ at their end; the tooltip has the whole path. */
export function shortened(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
