// How this head reaches the other heads during the set-up of an appliance: by ssh.

import type { Appliance, ApplianceCheckReport } from "../../api/types";
import { State } from "../../parts/state";
import { overview } from "../../state/live";

/** The queried heads, and the recommended actions for those that could not be reached. */
export function HeadsAsked({ document, report }: { document: Appliance; report: ApplianceCheckReport | null }) {
  const heads = Object.entries(report?.heads ?? {});
  if (heads.length === 0) return null;
  const isTried = heads.some(([, head]) => !head.asked && !/--ssh or --reach/.test(head.why ?? ""));
  return (
    <>
      <ul class="list" aria-label="Queried heads">
        {heads.map(([name, head]) => (
          <li key={name}>
            <b>{name}</b> <State word={head.asked ? "asked" : "not asked"} tone={head.asked ? "good" : "idle"} />
            {head.asked && (head.unknown ?? []).length > 0 && <> not known: {head.unknown?.join(", ")}</>}
          </li>
        ))}
      </ul>
      {isTried && <WayToHeads document={document} />}
    </>
  );
}

/** The first address of a head in a network without clients, or else any. */
function addressOf(document: Appliance, name: string): string | undefined {
  const forClients = new Set(Object.values(document.pools ?? {}).flatMap((pool) => pool.addresses.map((one) => one.network)));
  const links = Object.entries(document.heads[name]?.links ?? {}).filter(([, link]) => link.addresses.length > 0);
  const best = links.find(([network]) => !forClients.has(network)) ?? links[0];
  return best?.[1].addresses[0];
}

export function WayToHeads({ document }: { document: Appliance }) {
  const own = overview.value?.this_head ?? "";
  const others = Object.keys(document.heads).filter((name) => name !== own);
  const lines = [
    "ssh-keygen -t ed25519",
    ...others.map((name) => `ssh-copy-id root@${addressOf(document, name) ?? `ADDRESS-OF-${name.toUpperCase()}`}`),
  ];
  return (
    <div class="hint">
      <p>
        {own} sets the others up by ssh, as root, with a key that needs no question. Where that does not work yet, type this once
        as root on {own}, then ask again:
      </p>
      <pre class="log" tabIndex={0} role="region" aria-label={`Commands for ${own}`}>{lines.join("\n")}</pre>
    </div>
  );
}
