// The disks of this head: health, slots and locate lights.

import type { DiskView, Done } from "../api/types";
import { post } from "../api/client";
import { Button, Card, Table } from "../parts/basics";
import { bytes } from "../parts/format";
import { State } from "../parts/state";
import { useLoaded } from "../state/loaded";
import { complain, tell } from "../state/notices";

const orDash = (text: string | null | undefined): string => text ?? "–";

async function locate(disk: string, on: boolean): Promise<void> {
  try {
    tell((await post<Done>("/disks/locate", { disk, on })).message);
  } catch (error) {
    complain(error);
  }
}

function Health({ disk }: { disk: DiskView }) {
  const health = disk.health;
  if (!health) return <>–</>;
  return (
    <>
      <State word={health.state} />
      {(health.faults ?? []).map((fault) => <p key={fault} class="muted">{fault}</p>)}
    </>
  );
}

function Light({ disk }: { disk: DiskView }) {
  if (!disk.has_light) return null;
  return (
    <>
      <Button needs="operator" onClick={() => void locate(disk.path, true)}>Light on</Button>
      <Button needs="operator" onClick={() => void locate(disk.path, false)}>Light off</Button>
    </>
  );
}

export function DisksCard() {
  const disks = useLoaded<DiskView[]>("/disks");
  return (
    <Card title="Disks of this head" wide>
      <Table<DiskView>
        caption="Disks of this head"
        rows={disks.data ?? []}
        keyOf={(disk) => disk.path}
        empty="This head has no disk of its own."
        columns={[
          { title: "Disk", cell: (disk) => <code>{disk.path}</code> },
          { title: "Size", number: true, cell: (disk) => bytes(disk.size) },
          { title: "Model", cell: (disk) => [disk.model, disk.health?.serial].filter(Boolean).join(", ") || "–" },
          { title: "Slot", cell: (disk) => orDash(disk.slot) },
          { title: "Temperature", number: true, cell: (disk) => disk.health?.temperature_celsius == null ? "–" : `${disk.health.temperature_celsius} °C` },
          { title: "Wear", number: true, cell: (disk) => disk.health?.wear_percent == null ? "–" : `${disk.health.wear_percent} %` },
          { title: "Health", cell: (disk) => <Health disk={disk} /> },
          { title: "Used by", cell: (disk) => orDash(disk.used_by) },
          { title: "Actions", quiet: true, cell: (disk) => <Light disk={disk} /> },
        ]}
      />
    </Card>
  );
}
