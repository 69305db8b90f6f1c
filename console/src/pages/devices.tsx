// Dialogs that widen a pool, and remove devices from it.

import { useState } from "preact/hooks";
import type { DeviceGroup, DeviceView, DiskView, Done } from "../api/types";
import { mistake, post } from "../api/client";
import { confirmed, poolPath } from "../api/paths";
import { FormDialog } from "../parts/dialog";
import { Check, DiskChoice, Select, TextArea } from "../parts/fields";
import { bytes } from "../parts/format";
import { PlanPreview } from "../parts/growth";
import { shortened } from "../parts/topology";
import { useLoaded } from "../state/loaded";
import { groupsOf, layoutProblem, LAYOUTS, type Layout } from "./layouts";
import { lost, Overwrite } from "./overwrite";

type Role = DeviceGroup["role"];

const ROLES: [Role, string][] = [
  ["data", "Data: more room"],
  ["log", "Log: synchronous writes become faster"],
  ["cache", "Cache: reads become faster"],
  ["spare", "Spare: replaces a disk that fails"],
];

/** Logs are stripes or mirrors, caches and spares are single devices. */
const LAYOUTS_OF: Record<Role, Layout[]> = {
  data: LAYOUTS.map(([layout]) => layout),
  log: ["mirror", "stripe"],
  cache: ["stripe"],
  spare: ["stripe"],
};

const WARNINGS: Partial<Record<Role, string>> = {
  data: "A group of raidz cannot be removed again, and no group can from a pool with one.",
  log: "Without a mirror, the loss of the device together with the head loses the last second of synchronous writes.",
};

export function AddDevices({ pool, onClose }: { pool: string; onClose: () => void }) {
  const disks = useLoaded<DiskView[]>("/disks");
  const [role, setRole] = useState<Role>("data");
  const [layout, setLayout] = useState<Layout>("mirror");
  const [chosen, setChosen] = useState<string[]>([]);
  const [files, setFiles] = useState("");
  const [mismatched, setMismatched] = useState(false);
  const [overwrite, setOverwrite] = useState(false);
  const devices = [...chosen, ...files.split(/\s+/).filter(Boolean)];
  const layouts = LAYOUTS.filter(([name]) => LAYOUTS_OF[role].includes(name));
  const typed = lost(overwrite, devices);
  const changeRole = (next: Role): void => {
    setRole(next);
    setLayout(LAYOUTS_OF[next][0] ?? "stripe");
  };
  return (
    <FormDialog title={`Add devices to ${pool}`} action="Add them" danger={overwrite} typed={typed} onClose={onClose}
      submit={async () => {
        const problem = layoutProblem(layout, devices);
        if (problem) throw mistake(problem);
        const groups = groupsOf(layout, devices).map((group) => ({ ...group, role }));
        return (await post<Done>(confirmed(`${poolPath(pool)}/add`, typed), { groups, mismatched, overwrite })).message;
      }}>
      <Select label="As" value={role} onValue={(value) => changeRole(value as Role)} options={ROLES} hint={WARNINGS[role]} />
      {layouts.length > 1 && (
        <Select label="Layout" value={layout} onValue={(value) => setLayout(value as Layout)} options={layouts.map(([value, text]) => [value, text])} />
      )}
      {disks.data && disks.data.length > 0 && (
        <DiskChoice
          legend="Disks of this head"
          disks={disks.data.map((disk) => ({ path: disk.path, about: [bytes(disk.size), disk.model].filter(Boolean).join(", "), used: disk.used_by ?? null }))}
          chosen={chosen}
          onValue={setChosen}
        />
      )}
      <TextArea label="Other devices or files" hint="one path a line" rows={2} value={files} onValue={setFiles} />
      {role === "data" && <Check label="Even with less redundancy than the groups of the pool" checked={mismatched} onValue={setMismatched} />}
      <Overwrite checked={overwrite} onValue={setOverwrite} />
    </FormDialog>
  );
}

/** A device, or a group of them such as `mirror-1`. */
export function RemoveDevice({ pool, device, onClose }: { pool: string; device: DeviceView; onClose: () => void }) {
  return (
    <FormDialog title={`Remove ${shortened(device.name)}`} action="Remove" danger typed={device.name} onClose={onClose}
      submit={async () => (await post<Done>(confirmed(`${poolPath(pool)}/remove`, device.name), { device: device.name })).message}>
      <p>
        {device.role === "data"
          ? "Its data is moved to the other devices first, which must have room for it. Then it is no part of the pool any more."
          : "It is no part of the pool any more. The pool loses no data."}
      </p>
      <PlanPreview pool={pool} change={{ remove: { device: device.name } }} />
    </FormDialog>
  );
}
