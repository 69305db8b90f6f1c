// Fields of the appliance file, each with the findings about its key.

import { useState } from "preact/hooks";
import { Input } from "../../parts/fields";
import { words } from "./draft";
import { useFindings } from "./findings";

interface KeyedProps {
  of: string;
  label: string;
  hint?: string;
  mono?: boolean;
  list?: string[];
}

/** One value. */
export function Keyed({ of, ...rest }: KeyedProps & { value: string; onValue: (value: string) => void }) {
  return <Input {...rest} wrong={useFindings(of)} />;
}

/** Several values in a line, separated as users do it. The typed text stays unchanged, with its commas. */
export function KeyedList({ of, values, onValues, ...rest }: KeyedProps & { values: string[]; onValues: (values: string[]) => void }) {
  const [typed, setTyped] = useState(values.join(", "));
  const isCurrent = words(typed).join(" ") === values.join(" ");
  const change = (text: string): void => {
    setTyped(text);
    onValues(words(text));
  };
  return <Input {...rest} value={isCurrent ? typed : values.join(", ")} onValue={change} wrong={useFindings(of)} />;
}
