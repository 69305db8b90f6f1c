// The disks of this head: health, slots and locate lights; and the power supplies.

import type { DiskView, Done, PowerSupply, PowerView } from "../api/types";
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

const minutes = (seconds: number): string => `${Math.floor(seconds / 60)} min`;

/** Nothing if the appliance file lists no power supply. */
export function PowerCard() {
  const power = useLoaded<PowerView>("/power").data;
  if (!power || power.feeds.length === 0) return null;
  return (
    <Card title="Power supplies" wide>
      <Table<PowerSupply>
        caption="Power supplies"
        rows={power.feeds}
        keyOf={(feed) => feed.name}
        empty="The appliance file lists no power supply."
        columns={[
          { title: "Supply", cell: (feed) => feed.name },
          { title: "UPS", cell: (feed) => <code>{feed.ups}</code> },
          { title: "State", cell: (feed) => <State word={feed.state} /> },
          { title: "Charge", number: true, cell: (feed) => feed.charge_percent == null ? "–" : `${feed.charge_percent} %` },
          { title: "Runtime", number: true, cell: (feed) => feed.runtime_s == null ? "–" : minutes(feed.runtime_s) },
          { title: "Heads", cell: (feed) => feed.heads.join(", ") },
        ]}
      />
      {power.problems.map((problem) => <p key={problem} class="muted">{problem}</p>)}
      <p class="muted">Next: {power.next}</p>
    </Card>
  );
}
