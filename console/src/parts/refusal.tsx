// What the server said against something, with what to do about it.

import type { ApiError } from "../api/client";
import { ToneIcon } from "./state";

export function Refusal({ error }: { error: ApiError | null }) {
  // The region exists before it is filled, so that screen readers notice it.
  return (
    <div role="alert" class={error ? "refusal" : "refusal none"}>
      {error && (
        <>
          <ToneIcon tone="bad" />
          <div>
            <p>{error.failure?.message ?? String(error)}</p>
            {error.failure?.advice && <p class="advice">{error.failure.advice}</p>}
          </div>
        </>
      )}
    </div>
  );
}
