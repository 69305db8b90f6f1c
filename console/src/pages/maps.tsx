// The dialog that exports a volume over a target.

import { useState } from "preact/hooks";
import type { Done, TargetView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolPath, targetPath } from "../api/paths";
import { FormDialog } from "../parts/dialog";
import { Check, Input, Select } from "../parts/fields";
import { useLoaded } from "../state/loaded";
import { useVolumes } from "./volumes";

interface Props {
  pool: string;
  /** The volume, where it is known already. */
  volume?: string;
  /** The target, where it is known already. */
  target?: string;
  onClose: () => void;
}

const pairs = (names: string[]): [string, string][] => names.map((name) => [name, name]);

export function MapVolume({ pool, volume, target, onClose }: Props) {
  const targets = useLoaded<TargetView[]>(target ? null : `${poolPath(pool)}/targets`);
  const volumes = useVolumes(volume ? [] : [pool]);
  const targetNames = target ? [target] : (targets.data ?? []).map((one) => one.name);
  const volumeNames = volume ? [volume] : (volumes ?? []).map((one) => one.name);
  const [chosenTarget, setTarget] = useState(target ?? "");
  const [chosenVolume, setVolume] = useState(volume ?? "");
  const [lun, setLun] = useState("");
  const [readOnly, setReadOnly] = useState(false);
  const toTarget = chosenTarget || targetNames[0];
  const what = chosenVolume || volumeNames[0];
  return (
    <FormDialog
      title={volume ? `Export ${volume}` : "Export a volume"}
      action="Export"
      onClose={onClose}
      submit={async () => {
        if (!toTarget) throw mistake("there is no target yet: create one on the page Targets");
        if (!what) throw mistake("there is no volume yet: create one on the page Volumes");
        if (!/^\d*$/.test(lun)) throw mistake("a unit is a number from 0 on");
        const body = { volume: what, lun: lun === "" ? null : Number(lun), read_only: readOnly, write_cache: null };
        return (await post<Done>(`${targetPath(pool, toTarget)}/map`, body)).message;
      }}
    >
      {targetNames.length === 0 && targets.data && (
        <p>Pool {pool} has no target yet. Create one on the page Targets first.</p>
      )}
      {!target && <Select label="Target" value={toTarget ?? ""} onValue={setTarget} options={pairs(targetNames)} />}
      {!volume && <Select label="Volume" value={what ?? ""} onValue={setVolume} options={pairs(volumeNames)} />}
      <Input label="Unit (LUN)" hint="empty: the lowest that is free" value={lun} onValue={setLun} />
      <Check label="Read only" checked={readOnly} onValue={setReadOnly} />
    </FormDialog>
  );
}
