// The server's refusal, with the recommended action.

import type { ApiError } from "../api/client";
import { Said } from "./said";
import { ToneIcon } from "./state";

export function Refusal({ error }: { error: ApiError | null }) {
  // The region exists before it is filled, so that screen readers notice it.
  return (
    <div role="alert" class={error ? "refusal" : "refusal none"}>
      {error && (
        <>
          <ToneIcon tone="bad" />
          <div>
            <p><Said text={error.failure?.message ?? String(error)} /></p>
            {error.failure?.advice && <p class="advice"><Said text={error.failure.advice} /></p>}
          </div>
        </>
      )}
    </div>
  );
}
