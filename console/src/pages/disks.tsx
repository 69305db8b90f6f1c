// Dialogs that put a disk into a pool.

import { useState } from "preact/hooks";
import type { DeviceView, DiskView, Done } from "../api/types";
import { mistake, post } from "../api/client";
import { confirmed, poolPath } from "../api/paths";
import { FormDialog } from "../parts/dialog";
import { Input } from "../parts/fields";
import { bytes } from "../parts/format";
import { shortened } from "../parts/topology";
import { useLoaded } from "../state/loaded";
import { lost, Overwrite } from "./overwrite";

interface Props {
  pool: string;
  device: DeviceView;
  onClose: () => void;
}

function useFreeDisks(): { paths: string[]; text: string } {
  const disks = useLoaded<DiskView[]>("/disks");
  const free = (disks.data ?? []).filter((disk) => !disk.used_by);
  const text = free.length === 0
    ? "This head sees no unused disk; a path can be typed."
    : `Unused here: ${free.map((disk) => `${disk.path} (${bytes(disk.size)})`).join(", ")}.`;
  return { paths: free.map((disk) => disk.path), text };
}

export function ReplaceDisk({ pool, device, onClose }: Props) {
  const free = useFreeDisks();
  const [path, setPath] = useState("");
  const [overwrite, setOverwrite] = useState(false);
  const typed = lost(overwrite, [path === "" ? device.name : path]);
  return (
    <FormDialog
      title={`Replace ${shortened(device.name)}`}
      action="Replace"
      danger={overwrite}
      typed={typed}
      onClose={onClose}
      submit={async () => {
        const body = { old: device.name, new: path === "" ? null : path, overwrite };
        return (await post<Done>(confirmed(`${poolPath(pool)}/replace`, typed), body)).message;
      }}
    >
      <ol class="steps">
        <li>Put the new disk in, at least as large as the old one.</li>
        <li>Name it here. Everything is copied to it; the pool shows the progress.</li>
        <li>When it is done the old disk is no part of the pool, and can be pulled.</li>
      </ol>
      <Input
        label="New disk"
        hint={`${free.text} Leave it empty if the new disk is in the old one's place.`}
        value={path}
        onValue={setPath}
        list={free.paths}
        mono
      />
      <Overwrite checked={overwrite} onValue={setOverwrite} />
    </FormDialog>
  );
}

export function AttachDisk({ pool, device, onClose }: Props) {
  const free = useFreeDisks();
  const [path, setPath] = useState("");
  const [overwrite, setOverwrite] = useState(false);
  const typed = lost(overwrite, [path]);
  return (
    <FormDialog
      title={`Mirror ${shortened(device.name)}`}
      action="Attach"
      danger={overwrite}
      typed={typed}
      onClose={onClose}
      submit={async () => {
        if (path === "") throw mistake("name the disk that shall hold a copy");
        const body = { existing: device.name, new: path, overwrite };
        return (await post<Done>(confirmed(`${poolPath(pool)}/attach`, typed), body)).message;
      }}
    >
      <p>The new disk gets a copy of everything that this one holds, and of every write from now on.</p>
      <Input label="New disk" hint={free.text} value={path} onValue={setPath} list={free.paths} mono />
      <Overwrite checked={overwrite} onValue={setOverwrite} />
    </FormDialog>
  );
}
