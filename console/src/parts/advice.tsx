// The head's recommended actions, each with the reason, the command, and the button that performs it.

import { useState } from "preact/hooks";
import type { Advice, Done, PoolStatus } from "../api/types";
import { post } from "../api/client";
import { poolPath } from "../api/paths";
import { Button } from "./basics";
import { Said } from "./said";
import { refresh } from "../state/live";
import { complain, tell } from "../state/notices";
import { link } from "../state/route";
import { GuidedReplacement } from "../pages/replacement";

/** The action, in words; `pool` is the pool that it is about, if any. */
export function AdviceLine({ advice, pool }: { advice: Advice; pool: PoolStatus | null }) {
  return (
    <div class="advice">
      <p>
        <Said text={advice.what} />
        {advice.command && <>: <code>{advice.command}</code></>}
      </p>
      {advice.risk && <p class="muted">At risk: {advice.risk}</p>}
      {pool && <AdviceButton advice={advice} pool={pool} />}
    </div>
  );
}

const WORDS: Record<string, string> = {
  replace_disk: "Replace a disk",
  clear: "Clear errors",
  online: "Use it again",
  scrub: "Scrub",
  resume_scrub: "Resume the scrub",
};

function AdviceButton({ advice, pool }: { advice: Advice; pool: PoolStatus }) {
  const [isReplacing, setReplacing] = useState(false);
  if (!advice.button) return null;
  if (advice.button === "space") return <p><a href={link("volumes")}>Volumes and what they take</a></p>;
  const act = async (): Promise<void> => {
    const [verb, body] = requestOf(advice);
    try {
      tell((await post<Done>(`${poolPath(pool.name)}/${verb}`, body)).message);
      await refresh();
    } catch (error) {
      complain(error);
    }
  };
  const begin = advice.button === "replace_disk" ? () => setReplacing(true) : () => void act();
  return (
    <>
      <Button needs="operator" onClick={begin}>
        {WORDS[advice.button] ?? advice.button}<span class="unseen"> of {pool.name}{advice.device ? `: ${advice.device}` : ""}</span>
      </Button>
      {isReplacing && <GuidedReplacement pool={pool} device={advice.device ?? ""} onClose={() => setReplacing(false)} />}
    </>
  );
}

function requestOf(advice: Advice): [string, unknown] {
  switch (advice.button) {
    case "online":
      return ["online", { device: advice.device }];
    case "scrub":
    case "resume_scrub":
      return ["scrub", { action: "start" }];
    default:
      return ["clear", { device: null }];
  }
}
