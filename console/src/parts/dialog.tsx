// Dialogs: the browser's own `<dialog>`, which holds the focus inside, closes on Escape and restores the focus. A form
// in it is sent once, and shows the server's refusal.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { tell } from "../state/notices";
import { refresh } from "../state/live";
import { Button, uniqueId } from "./basics";
import { Input } from "./fields";
import { Refusal } from "./refusal";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const [id] = useState(() => uniqueId("dialog"));
  useEffect(() => {
    const opener = document.activeElement as HTMLElement | null;
    element.current?.showModal();
    return () => opener?.isConnected && opener.focus();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={id} onClose={onClose} onCancel={onClose}>
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" icon="close" aria-label="Close" onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}

interface FormDialogProps {
  title: string;
  /** The label of the button, such as "Create". */
  action: string;
  danger?: boolean;
  /** The name that has to be typed first. */
  typed?: string;
  /** Whether the form can be sent. */
  isReady?: boolean;
  onClose: () => void;
  /** Called instead of `onClose` when the form is left without being sent. */
  onCancel?: () => void;
  /** Performs the action; a returned string is shown as a message. */
  submit: () => Promise<string | void>;
  children?: ComponentChildren;
}

export function FormDialog(props: FormDialogProps) {
  const { title, action, danger, typed, isReady = true, onClose, onCancel = onClose, submit, children } = props;
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [word, setWord] = useState("");
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setFailure(null);
    try {
      const said = await submit();
      onClose();
      if (said) tell(said);
      // The change is made; that it is not shown yet is no failure of it.
      void refresh().catch(() => undefined);
    } catch (error) {
      setFailure(error as ApiError);
      setBusy(false);
    }
  };
  const isMissingWord = typed !== undefined && word !== typed;
  return (
    <Dialog title={title} onClose={onCancel}>
      <form onSubmit={send} noValidate>
        {children}
        {typed !== undefined && (
          <Input
            label={`Type ${typed} to continue`}
            value={word}
            onValue={setWord}
            autocomplete="off"
            mono
          />
        )}
        <Refusal error={failure} />
        <div class="dialog-foot">
          <Button onClick={onCancel}>Cancel</Button>
          <Button type="submit" kind={danger ? "danger" : "primary"} disabled={busy || isMissingWord || !isReady}>
            {busy ? "Working …" : action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
