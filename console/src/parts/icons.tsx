// The few pictures of the console, drawn with the colour of the text around them.

const PATHS = {
  overview: "M3 12l9-8 9 8M6 10v9h12v-9M10 19v-5h4v5",
  pool: "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
  volume: "M4 7l8-4 8 4-8 4-8-4v10l8 4 8-4V7M12 11v10",
  files: "M3 6h7l2 2h9v11H3zM3 11h18",
  target: "M12 3a9 9 0 100 18 9 9 0 000-18M12 8a4 4 0 100 8 4 4 0 000-8M12 12h.01",
  replication: "M4 9h13M13 5l4 4-4 4M20 15H7M11 11l-4 4 4 4",
  events: "M5 6h14M5 12h14M5 18h9",
  drill: "M13 2L5 14h6l-1 8 9-13h-6l0-7",
  setup: "M12 9a3 3 0 100 6 3 3 0 000-6M12 3v3M12 18v3M3 12h3M18 12h3M5.6 5.6l2.1 2.1M16.3 16.3l2.1 2.1M5.6 18.4l2.1-2.1M16.3 7.7l2.1-2.1",
  users: "M9 11a3.5 3.5 0 100-7 3.5 3.5 0 000 7M2.5 20c0-3.5 3-6 6.5-6s6.5 2.5 6.5 6M16 4.5a3.5 3.5 0 010 6.5M18 14.5c2.2.8 3.5 2.9 3.5 5.5",
  head: "M4 4h16v6H4zM4 14h16v6H4zM7.5 7h.01M7.5 17h.01",
  disk: "M5 3h14v18H5zM12 7a3 3 0 100 6 3 3 0 000-6M8 17.5h3",
  snapshot: "M4 8h3l2-3h6l2 3h3v11H4zM12 10a3.5 3.5 0 100 7 3.5 3.5 0 000-7",
  link: "M9 12h6M8 8H6a4 4 0 000 8h2M16 8h2a4 4 0 010 8h-2",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  good: "M5 12.5l4.5 4.5L19 7.5",
  warning: "M12 4L2.5 20h19zM12 10v4.5M12 17.5h.01",
  bad: "M8 3h8l5 5v8l-5 5H8l-5-5V8zM9 9l6 6M15 9l-6 6",
  idle: "M6 12h12",
  busy: "M12 3a9 9 0 109 9",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5",
  moon: "M20 14.5A8.5 8.5 0 019.5 4a8.5 8.5 0 1010.5 10.5",
  out: "M14 4H5v16h9M10 12h11M17.5 8.5L21 12l-3.5 3.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      class={`icon icon-${name}`}
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
