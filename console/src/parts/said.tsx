// A sentence of the head. Commands are between backticks in it, and are shown as such.

export function Said({ text }: { text: string }) {
  const parts = text.split("`");
  // One that is never closed is no command.
  if (parts.length % 2 === 0) return <>{text}</>;
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}
