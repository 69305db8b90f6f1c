// Holds and bookmarks of one volume or file system: why a snapshot cannot be destroyed, and where a send can start.

import { useState } from "preact/hooks";
import type { BookmarkView, Done, HoldView, SnapshotView } from "../api/types";
import { mistake, post } from "../api/client";
import { poolOf, poolPath, snapshotPath, volumeOf } from "../api/paths";
import { Button, Card, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { moment } from "../parts/format";
import { useLoaded } from "../state/loaded";

type Asked =
  | { kind: "hold" | "bookmark" }
  | { kind: "release"; hold: HoldView }
  | { kind: "destroy"; bookmark: BookmarkView };

interface RetentionCardProps {
  /** The volume or file system. */
  of: string;
  snapshots: SnapshotView[] | null;
}

async function request(pool: string, body: unknown): Promise<string> {
  return (await post<{ done: Done }>(`${poolPath(pool)}/requests`, { request: body })).done.message;
}

export function RetentionCard({ of, snapshots }: RetentionCardProps) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const query = `?volume=${encodeURIComponent(of)}`;
  const holds = useLoaded<HoldView[]>(`${poolPath(poolOf(of))}/holds${query}`);
  const bookmarks = useLoaded<BookmarkView[]>(`${poolPath(poolOf(of))}/bookmarks${query}`);
  // The lists contain the datasets below, too.
  const ownHolds = (holds.data ?? []).filter((one) => volumeOf(one.snapshot) === of);
  const ownBookmarks = (bookmarks.data ?? []).filter((one) => one.name.split("#", 1)[0] === of);
  const names = (snapshots ?? []).map((one) => one.name).reverse();
  if (names.length === 0 && ownBookmarks.length === 0) return null;
  const close = (): void => {
    setAsked(null);
    void holds.reload();
    void bookmarks.reload();
  };
  return (
    <Card title="Holds and bookmarks" wide actions={names.length > 0 && (
      <>
        <Button needs="admin" onClick={() => setAsked({ kind: "hold" })}>Hold a snapshot</Button>
        <Button needs="admin" onClick={() => setAsked({ kind: "bookmark" })}>Create a bookmark</Button>
      </>
    )}>
      <Table<HoldView>
        caption={`Holds of snapshots of ${of}`}
        rows={ownHolds}
        keyOf={(one) => `${one.snapshot} ${one.tag}`}
        empty="No snapshot is held: each can be destroyed."
        columns={[
          { title: "Snapshot", cell: (one) => <span class="mono">@{one.snapshot.split("@")[1]}</span> },
          { title: "Hold", cell: (one) => <span class="mono">{one.tag}</span> },
          { title: "Since", cell: (one) => moment(one.since_unix_s * 1000) },
          {
            title: "Actions",
            quiet: true,
            cell: (one) => (
              <Button needs="admin" onClick={() => setAsked({ kind: "release", hold: one })}>
                Release<span class="unseen"> {one.tag} of {one.snapshot}</span>
              </Button>
            ),
          },
        ]}
      />
      <Table<BookmarkView>
        caption={`Bookmarks of ${of}`}
        rows={ownBookmarks}
        keyOf={(one) => one.name}
        empty="There is no bookmark. A send can start from one after its snapshot is destroyed."
        columns={[
          { title: "Bookmark", cell: (one) => <span class="mono">#{one.name.split("#")[1]}</span> },
          { title: "Contents of", cell: (one) => moment(one.created_unix_s * 1000) },
          {
            title: "Actions",
            quiet: true,
            cell: (one) => (
              <Button needs="admin" onClick={() => setAsked({ kind: "destroy", bookmark: one })}>
                Destroy<span class="unseen"> {one.name}</span>
              </Button>
            ),
          },
        ]}
      />
      {asked?.kind === "hold" && <Hold snapshots={names} onClose={close} />}
      {asked?.kind === "bookmark" && <Bookmark snapshots={names} onClose={close} />}
      {asked?.kind === "release" && (
        <FormDialog title={`Release ${asked.hold.tag}`} action="Release" onClose={close}
          submit={async () => (await post<Done>(`${snapshotPath(asked.hold.snapshot)}/release`, { tag: asked.hold.tag })).message}>
          <p>Without holds, {asked.hold.snapshot} can be destroyed, also by its schedule.</p>
        </FormDialog>
      )}
      {asked?.kind === "destroy" && (
        <FormDialog title={`Destroy ${asked.bookmark.name}`} action="Destroy the bookmark" danger onClose={close}
          submit={async () => request(poolOf(of), { snapshot: { destroy_bookmark: { volume: of, mark: asked.bookmark.name.split("#")[1] } } })}>
          <p>No data is lost. A later send cannot start from it.</p>
        </FormDialog>
      )}
    </Card>
  );
}

interface OfSnapshotProps {
  /** Their full names, the newest first. */
  snapshots: string[];
  onClose: () => void;
}

interface ChoiceProps {
  snapshots: string[];
  value: string;
  onValue: (value: string) => void;
}

function SnapshotChoice({ snapshots, value, onValue }: ChoiceProps) {
  return <Select label="Snapshot" value={value} onValue={onValue} options={snapshots.map((name) => [name, `@${name.split("@")[1]}`])} />;
}

function Hold({ snapshots, onClose }: OfSnapshotProps) {
  const [snapshot, setSnapshot] = useState(snapshots[0] ?? "");
  const [tag, setTag] = useState("");
  return (
    <FormDialog title="Hold a snapshot" action="Hold it" onClose={onClose}
      submit={async () => {
        if (tag.trim() === "") throw mistake("give the hold a name");
        return (await post<Done>(`${snapshotPath(snapshot)}/hold`, { tag: tag.trim() })).message;
      }}>
      <p>Until it is released, the snapshot is destroyed only with its pool.</p>
      <SnapshotChoice snapshots={snapshots} value={snapshot} onValue={setSnapshot} />
      <Input label="Name of the hold" hint="such as the software that needs the snapshot" value={tag} onValue={setTag} mono required />
    </FormDialog>
  );
}

function Bookmark({ snapshots, onClose }: OfSnapshotProps) {
  const [snapshot, setSnapshot] = useState(snapshots[0] ?? "");
  const [mark, setMark] = useState("");
  return (
    <FormDialog title="Create a bookmark" action="Create it" onClose={onClose}
      submit={async () => {
        if (mark.trim() === "") throw mistake("give the bookmark a name");
        return request(poolOf(snapshot), { transfer: { bookmark: { snapshot, mark: mark.trim() } } });
      }}>
      <p>It uses no space. Sends of later snapshots can start from it after the snapshot is destroyed.</p>
      <SnapshotChoice snapshots={snapshots} value={snapshot} onValue={setSnapshot} />
      <Input label="Name of the bookmark" value={mark} onValue={setMark} mono required />
    </FormDialog>
  );
}
