// The findings of the check, next to the field that each is about.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Finding } from "../../api/types";
import { ToneIcon, type Tone } from "../../parts/state";

/** Findings by the key of the field; `""` holds those of the whole. */
export const Findings = createContext<Map<string, Finding[]>>(new Map());

const toneOf = (finding: Finding): Tone =>
  finding.severity === "error" ? "bad" : finding.severity === "warning" ? "warning" : "idle";

const WEIGHT: Record<string, string> = { error: "Error", warning: "Warning", hint: "Hint" };

export function FindingList({ findings }: { findings: Finding[] }) {
  return (
    <ul class="findings">
      {findings.map((finding) => (
        <li key={`${finding.code} ${finding.what}`} class={`tone-${toneOf(finding)}`}>
          <ToneIcon tone={toneOf(finding)} size={16} />
          <span>
            <b>{WEIGHT[finding.severity] ?? finding.severity}:</b> {ended(finding.what)}
            {finding.mend && ` ${sentence(finding.mend)}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

const ended = (text: string): string => `${text.replace(/\.$/, "")}.`;

/** For texts that begin with a verb. A finding may begin with a name, whose case must not change. */
const sentence = (text: string): string => ended(`${text.charAt(0).toUpperCase()}${text.slice(1)}`);

/** For a field's `wrong`: the findings about it, or nothing. */
export function useFindings(key: string) {
  const found = useContext(Findings).get(key) ?? [];
  return found.length > 0 ? <FindingList findings={found} /> : null;
}

/** The findings about a part that is no single field. */
export function FindingsOf({ of }: { of: string }) {
  return useFindings(of);
}
