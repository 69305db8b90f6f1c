// The space that users, groups or projects use in a file system, and their quotas.

import { useState } from "preact/hooks";
import type { Done, OwnersView, OwnerView } from "../api/types";
import { patch } from "../api/client";
import { filesystemPath } from "../api/paths";
import { Button, Card, Table } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Input, Select } from "../parts/fields";
import { bytes } from "../parts/format";
import { useLoaded } from "../state/loaded";
import { sizeOf } from "./filesystems";

const KINDS: [value: string, text: string][] = [["", "no owners"], ["user", "users"], ["group", "groups"], ["project", "projects"]];

/** Nothing is requested before a kind is chosen: a file system that is not shared is opened for each request. */
export function OwnersCard({ name }: { name: string }) {
  const [of, setOf] = useState("");
  const [changed, setChanged] = useState<OwnerView | "new" | null>(null);
  const found = useLoaded<OwnersView>(of === "" ? null : `${filesystemPath(name)}/userspace?of=${of}`);
  const close = (): void => {
    setChanged(null);
    void found.reload();
  };
  return (
    <Card title="Space by owner" wide>
      <Select label="Show the space of" value={of} onValue={setOf} options={KINDS} />
      {found.error && <p role="alert">{found.error.failure.message}</p>}
      {found.data && (
        <>
          <div class="actions">
            <Button needs="operator" onClick={() => setChanged("new")}>Set a quota</Button>
          </div>
          <Table<OwnerView>
            caption={`Space of ${of}s in ${name}`}
            rows={found.data.owners}
            keyOf={(one) => `${one.id}`}
            empty="It has no files and no quota."
            columns={[
              { title: "Name", cell: (one) => one.name ?? one.id },
              { title: "Used", number: true, cell: (one) => bytes(one.used) },
              { title: "Quota", number: true, cell: (one) => (one.quota ? bytes(one.quota) : "none") },
              { title: "Files", number: true, optional: true, cell: (one) => one.objects ?? "–" },
              { title: "Quota of files", number: true, optional: true, cell: (one) => one.object_quota ?? "none" },
              {
                title: "Actions",
                quiet: true,
                cell: (one) => (
                  <Button needs="operator" onClick={() => setChanged(one)}>
                    Change<span class="unseen"> the quota of {one.name ?? one.id}</span>
                  </Button>
                ),
              },
            ]}
          />
          {found.data.left_out ? <p>{found.data.left_out} more use no more than these.</p> : null}
        </>
      )}
      {changed && <SetQuota name={name} of={of} owner={changed === "new" ? null : changed} onClose={close} />}
    </Card>
  );
}

/** Sends sizes as typed, so that their spelling is preserved. */
function SetQuota({ name, of, owner, onClose }: { name: string; of: string; owner: OwnerView | null; onClose: () => void }) {
  const [id, setId] = useState(owner ? String(owner.id) : "");
  const [size, setSize] = useState(owner?.quota ? String(owner.quota) : "");
  const [count, setCount] = useState(owner?.object_quota ? String(owner.object_quota) : "");
  return (
    <FormDialog title={owner ? `Quota of ${owner.name ?? `${of} ${owner.id}`}` : `Quota of a ${of}`} action="Set the quota" onClose={onClose}
      submit={async () => {
        const properties = {
          [`${of}quota@${id.trim()}`]: sizeOf(size) ?? "none",
          [`${of}objquota@${id.trim()}`]: count.trim() || "none",
        };
        return (await patch<Done>(filesystemPath(name), { properties })).message;
      }}>
      {!owner && <Input label={`Number of the ${of}`} hint="such as 1000" value={id} onValue={setId} numeric required />}
      <Input label="Quota" hint="of its files in this file system, such as 10G; empty: none" value={size} onValue={setSize} />
      <Input label="Quota of files" hint="their number, such as 50000; empty: none" value={count} onValue={setCount} numeric />
    </FormDialog>
  );
}
