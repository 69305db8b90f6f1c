// Fields of forms: a label, a hint, and the error, connected for screen readers.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { uniqueId } from "./basics";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  wrong?: ComponentChildren;
}

interface InputProps extends FieldProps {
  value: string;
  onValue: (value: string) => void;
  type?: "text" | "password" | "search";
  /** Phones then show digits. */
  numeric?: boolean;
  placeholder?: string;
  autocomplete?: string;
  mono?: boolean;
  required?: boolean;
  list?: string[];
}

function useFieldIds(): { field: string; hint: string; wrong: string; list: string } {
  const [id] = useState(() => uniqueId("field"));
  return { field: id, hint: `${id}-hint`, wrong: `${id}-wrong`, list: `${id}-list` };
}

function describedBy(props: FieldProps, ids: { hint: string; wrong: string }): string | undefined {
  const named = [props.hint ? ids.hint : "", props.wrong ? ids.wrong : ""].filter(Boolean);
  return named.length > 0 ? named.join(" ") : undefined;
}

function Around({ props, ids, children }: {
  props: FieldProps;
  ids: ReturnType<typeof useFieldIds>;
  children: ComponentChildren;
}) {
  return (
    <div class={props.wrong ? "field is-wrong" : "field"}>
      <label for={ids.field}>{props.label}</label>
      {children}
      {props.hint && <p class="hint" id={ids.hint}>{props.hint}</p>}
      {props.wrong && <div class="wrong" id={ids.wrong}>{props.wrong}</div>}
    </div>
  );
}

export function Input(props: InputProps) {
  const ids = useFieldIds();
  return (
    <Around props={props} ids={ids}>
      <input
        id={ids.field}
        class={props.mono ? "mono" : ""}
        // The types of attributes know no list at a password; there is none.
        type={(props.type ?? "text") as "text"}
        inputMode={props.numeric ? "numeric" : undefined}
        value={props.value}
        onInput={(event) => props.onValue(event.currentTarget.value)}
        placeholder={props.placeholder}
        autocomplete={props.autocomplete ?? "off"}
        autocapitalize="off"
        spellcheck={false}
        required={props.required}
        list={props.list ? ids.list : undefined}
        aria-describedby={describedBy(props, ids)}
        aria-invalid={props.wrong ? true : undefined}
      />
      {props.list && (
        <datalist id={ids.list}>
          {props.list.map((value) => <option key={value} value={value} />)}
        </datalist>
      )}
    </Around>
  );
}

interface SelectProps extends FieldProps {
  value: string;
  onValue: (value: string) => void;
  options: [value: string, text: string][];
}

export function Select(props: SelectProps) {
  const ids = useFieldIds();
  return (
    <Around props={props} ids={ids}>
      <select
        id={ids.field}
        value={props.value}
        onChange={(event) => props.onValue(event.currentTarget.value)}
        aria-describedby={describedBy(props, ids)}
        aria-invalid={props.wrong ? true : undefined}
      >
        {props.options.map(([value, text]) => (
          <option key={value} value={value} selected={value === props.value}>{text}</option>
        ))}
      </select>
    </Around>
  );
}

interface TextProps extends FieldProps {
  value: string;
  onValue: (value: string) => void;
  rows?: number;
}

export function TextArea(props: TextProps) {
  const ids = useFieldIds();
  return (
    <Around props={props} ids={ids}>
      <textarea
        id={ids.field}
        class="mono"
        rows={props.rows ?? 4}
        value={props.value}
        spellcheck={false}
        onInput={(event) => props.onValue(event.currentTarget.value)}
        aria-describedby={describedBy(props, ids)}
        aria-invalid={props.wrong ? true : undefined}
      />
    </Around>
  );
}

interface CheckProps {
  label: ComponentChildren;
  checked: boolean;
  onValue: (checked: boolean) => void;
  disabled?: boolean;
  hint?: string;
}

export function Check({ label, checked, onValue, disabled, hint }: CheckProps) {
  const ids = useFieldIds();
  return (
    <div class="check">
      <input
        id={ids.field}
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onValue(event.currentTarget.checked)}
        aria-describedby={hint ? ids.hint : undefined}
      />
      <label for={ids.field}>{label}</label>
      {hint && <p class="hint" id={ids.hint}>{hint}</p>}
    </div>
  );
}

interface DisksProps {
  legend: string;
  disks: { path: string; about: string; used: string | null }[];
  chosen: string[];
  onValue: (chosen: string[]) => void;
}

/** Which disks, in the order in which they were chosen. */
export function DiskChoice({ legend, disks, chosen, onValue }: DisksProps) {
  const toggle = (path: string, on: boolean): void =>
    onValue(on ? [...chosen, path] : chosen.filter((one) => one !== path));
  return (
    <fieldset>
      <legend>{legend}</legend>
      <div class="disk-choice">
        {disks.map((disk) => (
          <Check
            key={disk.path}
            label={<><span class="mono">{disk.path}</span> <small>{disk.used ? `used: ${disk.used}` : disk.about}</small></>}
            checked={chosen.includes(disk.path)}
            disabled={disk.used !== null}
            onValue={(on) => toggle(disk.path, on)}
          />
        ))}
      </div>
    </fieldset>
  );
}
