// The frame around every page: navigation, the state of the connection, short messages.

import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./parts/basics";
import { Icon, type IconName } from "./parts/icons";
import { Said } from "./parts/said";
import { ToneIcon } from "./parts/state";
import { connect, connection, disconnect, operations, overview } from "./state/live";
import { dismiss, notices } from "./state/notices";
import { go, link, route } from "./state/route";
import { logOut, login, may, resume } from "./state/session";
import { theme, type Theme } from "./state/theme";
import { AuditPage } from "./pages/audit";
import { DrillsPage } from "./pages/drills";
import { EventsPage } from "./pages/events";
import { FilesystemPage } from "./pages/filesystem";
import { FilesystemsPage } from "./pages/filesystems";
import { LoginPage } from "./pages/login";
import { NetworkPage } from "./pages/network";
import { OverviewPage } from "./pages/overview";
import { PoolPage } from "./pages/pool";
import { PoolsPage } from "./pages/pools";
import { ReplicationPage } from "./pages/replication";
import { SetupPage } from "./pages/setup";
import { SnapshotsPage } from "./pages/snapshots";
import { TargetPage } from "./pages/target";
import { TargetsPage } from "./pages/targets";
import { UsersPage } from "./pages/users";
import { VolumePage } from "./pages/volume";
import { VolumesPage } from "./pages/volumes";
import type { Role } from "./api/types";

interface Place {
  name: string;
  text: string;
  icon: IconName;
  needs?: Role;
}

const PLACES: Place[] = [
  { name: "", text: "Overview", icon: "overview" },
  { name: "pools", text: "Pools", icon: "pool" },
  { name: "volumes", text: "Volumes", icon: "volume" },
  { name: "filesystems", text: "File systems", icon: "files" },
  { name: "snapshots", text: "Snapshots", icon: "snapshot" },
  { name: "targets", text: "Targets", icon: "target" },
  { name: "replication", text: "Replication", icon: "replication" },
  { name: "events", text: "Events", icon: "events" },
  { name: "network", text: "Network", icon: "link" },
  { name: "drills", text: "Drills", icon: "drill" },
  { name: "setup", text: "Set-up", icon: "setup", needs: "operator" },
  { name: "users", text: "Access", icon: "users", needs: "admin" },
  { name: "audit", text: "Audit log", icon: "events", needs: "admin" },
];

function CurrentPage() {
  const [place, first, second] = route.value;
  switch (place ?? "") {
    case "":
      return <OverviewPage />;
    case "pools":
      return first ? <PoolPage key={first} name={first} /> : <PoolsPage />;
    case "volumes":
      return first ? <VolumePage key={first} name={first} /> : <VolumesPage />;
    case "filesystems":
      return first ? <FilesystemPage key={first} name={first} /> : <FilesystemsPage />;
    case "snapshots":
      return <SnapshotsPage />;
    case "targets":
      return first && second ? <TargetPage key={second} pool={first} name={second} /> : <TargetsPage />;
    case "replication":
      return <ReplicationPage />;
    case "events":
      return <EventsPage />;
    case "network":
      return <NetworkPage />;
    case "drills":
      return <DrillsPage />;
    case "setup":
      return <SetupPage />;
    case "users":
      return <UsersPage />;
    case "audit":
      return <AuditPage />;
    default:
      return <NoSuchPage />;
  }
}

function NoSuchPage() {
  return (
    <>
      <h1 tabIndex={-1}>There is no such page</h1>
      <p><a href={link()}>Go to the overview</a></p>
    </>
  );
}

function Navigation({ isOpen, onChosen }: { isOpen: boolean; onChosen: () => void }) {
  const here = route.value[0] ?? "";
  useEffect(() => {
    if (!isOpen) return;
    const close = (event: KeyboardEvent): void => {
      if (event.key === "Escape") onChosen();
    };
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [isOpen]);
  return (
    <nav id="navigation" aria-label="Console" class={isOpen ? "open" : ""}>
      <ul>
        {PLACES.filter((place) => !place.needs || may(place.needs)).map((place) => (
          <li key={place.name}>
            <a href={link(place.name)} aria-current={here === place.name ? "page" : undefined} onClick={onChosen}>
              <Icon name={place.icon} />
              {place.text}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const THEMES: [Theme, string][] = [["system", "as the system"], ["light", "light"], ["dark", "dark"]];

function ThemeChoice() {
  const now = THEMES.findIndex(([name]) => name === theme.value);
  const [next, nextText] = THEMES[(now + 1) % THEMES.length] ?? ["system", ""];
  return (
    <Button
      kind="quiet"
      icon={theme.value === "dark" ? "moon" : "sun"}
      aria-label={`Colours: ${THEMES[now]?.[1]}. Change to ${nextText}`}
      title={`Colours: ${THEMES[now]?.[1]}`}
      onClick={() => { theme.value = next; }}
    />
  );
}

function Header({ isOpen, onMenu }: { isOpen: boolean; onMenu: () => void }) {
  const now = login.value;
  const seen = overview.value;
  return (
    <header class="top">
      <Button
        kind="quiet"
        icon="menu"
        class="menu"
        aria-label="Menu"
        aria-expanded={isOpen}
        aria-controls="navigation"
        onClick={onMenu}
      />
      <a class="brand" href={link()}>
        <img src="icon.svg" alt="" width="26" height="26" />
        <span>{seen?.appliance ?? "Bulkhead"}</span>
      </a>
      <ConnectionState />
      <div class="who">
        <ThemeChoice />
        {now.kind === "in" && (
          <>
            <span class="user">
              {now.session.user} <small>{now.session.role}</small>
            </span>
            <Button kind="quiet" icon="out" aria-label="Log out" title="Log out" onClick={() => void logOut()} />
          </>
        )}
      </div>
    </header>
  );
}

function ConnectionState() {
  const now = connection.value;
  const seen = overview.value;
  return (
    <p class={`connection ${now}`} role="status">
      {now === "connected" && seen && <span><span class="dot" aria-hidden="true" /> live from {seen.this_head}</span>}
      {now === "connecting" && <span>connecting …</span>}
      {now === "reconnecting" && <span><Icon name="busy" size={14} /> reconnecting …</span>}
    </p>
  );
}

function Running() {
  const running = operations.value.filter((operation) => operation.state === "running");
  if (running.length === 0) return null;
  return (
    <aside class="running" aria-label="Running now">
      {running.map((operation) => (
        <p key={operation.id}>
          <ToneIcon tone="busy" size={16} />
          <strong>{operation.title}</strong> <span class="muted">{operation.progress.at(-1) ?? "running"}</span>
        </p>
      ))}
    </aside>
  );
}

function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map((notice) => (
        <div key={notice.id} class={notice.good ? "notice" : "notice bad"}>
          <ToneIcon tone={notice.good ? "good" : "bad"} />
          <div>
            <p><Said text={notice.text} /></p>
            {notice.advice && <p class="advice"><Said text={notice.advice} /></p>}
          </div>
          <Button kind="quiet" icon="close" aria-label="Dismiss" onClick={() => dismiss(notice.id)} />
        </div>
      ))}
    </div>
  );
}

/** After a change of page the focus goes to its heading, as it would after loading a page. */
function useFocusOnNewPage(): void {
  const address = route.value.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    const heading = document.querySelector<HTMLElement>("main h1");
    heading?.focus();
    window.scrollTo(0, 0);
  }, [address]);
}

function useTitle(): void {
  const name = overview.value?.appliance ?? "Bulkhead";
  const [place, ...rest] = route.value;
  const text = PLACES.find((known) => known.name === (place ?? ""))?.text ?? "Console";
  document.title = [rest.at(-1), text, name].filter(Boolean).join(" · ");
}

function Frame() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    connect();
    return disconnect;
  }, []);
  useFocusOnNewPage();
  useTitle();
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the content</a>
      <Header isOpen={isOpen} onMenu={() => setOpen(!isOpen)} />
      <Navigation isOpen={isOpen} onChosen={() => setOpen(false)} />
      <main id="main" tabIndex={-1}>
        <Running />
        <CurrentPage />
      </main>
    </>
  );
}

export function App() {
  const now = login.value;
  return (
    <>
      {now.kind === "in" && <Frame />}
      {now.kind === "out" && <LoginPage noUsers={now.noUsers} notice={now.notice} />}
      {now.kind === "unknown" && <main class="alone"><p role="status">connecting …</p></main>}
      {now.kind === "unreachable" && (
        <main class="alone">
          <h1>No connection</h1>
          <p role="alert">{now.message}</p>
          <Button kind="primary" onClick={() => { go(); void resume(); }}>Try again</Button>
        </main>
      )}
      <Notices />
    </>
  );
}
