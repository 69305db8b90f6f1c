// What the API says, as types. `tests/contract.test.mjs` compares them with the OpenAPI document
// that `bulkhead head openapi` prints, so they cannot drift apart.

export type Role = "admin" | "operator" | "read-only";

export interface Session {
  user: string;
  role: Role;
  csrf: string;
  expires_at_ms: number;
}

/** Why something was refused, in the words of the command line. */
export interface Failure {
  kind: string;
  message: string;
  advice?: string | null;
}

export interface Done {
  changed: boolean;
  message: string;
}

export type GroupKind = "stripe" | "mirror" | { raidz: { parity: number } };
export type GroupRole = "data" | "log" | "cache" | "spare";

export interface DeviceGroup {
  kind: GroupKind;
  role: GroupRole;
  devices: string[];
}

export interface DeviceView {
  name: string;
  role: string;
  state: string;
  read_errors: number;
  write_errors: number;
  checksum_errors: number;
  note?: string | null;
  members?: DeviceView[];
}

export interface ScanView {
  function: string;
  state: string;
  started?: number;
  examined: number;
  to_examine: number;
  repaired: number;
  errors: number;
  ended?: number | null;
  remaining_s?: number | null;
}

export interface DamageView {
  dataset: string;
  offset?: number | null;
  length: number;
  snapshot?: string | null;
}

/** What to do, the same wherever a state is shown. */
export interface Advice {
  severity: "error" | "warning" | "info";
  what: string;
  why: string;
  command?: string | null;
  button?: "replace_disk" | "clear" | "online" | "scrub" | "resume_scrub" | "space" | null;
  device?: string | null;
}

/** The space of a pool as its volumes have it. */
export interface PoolSpace {
  usable: number;
  written: number;
  reserved: number;
  available: number;
  promised: number;
  overcommitted: number;
  full_percent: number;
  has_quota?: boolean;
  refused_writes?: number;
  refuses?: boolean;
}

export interface PoolStatus {
  name: string;
  guid: string;
  health: string;
  suspended: boolean;
  size: number;
  allocated: number;
  free: number;
  space?: PoolSpace | null;
  fragmentation_percent?: number | null;
  devices: DeviceView[];
  scan?: ScanView | null;
  advice: Advice[];
  damaged?: DamageView[];
  scrub_schedule?: { when: string; next: number } | null;
}

export interface PoolSummary {
  name: string;
  guid: string;
  state: string;
  devices: string[];
  missing?: string[];
  served_by?: string | null;
}

export interface Property {
  value: string;
  source: string;
}

export interface VolumeView {
  name: string;
  size: number;
  block_size: number;
  used: number;
  referenced: number;
  sparse: boolean;
  locked?: boolean;
  origin?: string | null;
  exports: string[];
  properties?: Record<string, Property>;
}

export interface SnapshotView {
  name: string;
  used: number;
  referenced: number;
  created_unix_s?: number | null;
}

/** Who may log in. What is absent is empty; all empty means loopback only. */
export interface AccessRule {
  initiators?: string[];
  networks?: string[];
  identities?: string[];
  everyone?: boolean;
}

/** What came of a rollback. */
export interface RolledBack {
  to: string;
  size: number;
  destroyed: string[];
  took_ms: number;
  pause_ms?: number | null;
  sessions_told: number;
  connections_closed: number;
}

export interface SessionView {
  name: string;
  peers: string[];
}

export interface UnitView {
  lun: number;
  volume: string;
  read_only: boolean;
  write_cache: boolean;
  naa: string;
  serial: string;
}

export interface TargetView {
  name: string;
  portal_groups: number[];
  access: AccessRule;
  chap_users: string[];
  mutual_user?: string | null;
  units: UnitView[];
  sessions?: SessionView[];
}

export interface DiscoveryView {
  pool: string;
  chap_users: string[];
  mutual_user?: string | null;
}

export interface NbdView {
  volume: string;
  export: { name: string; read_only?: boolean; access?: AccessRule };
  sessions?: SessionView[];
}

export interface ScheduleView {
  of: string;
  rules: { rule: string; next: number; latest?: number | null; snapshots: number }[];
  skip_unchanged: boolean;
  volumes: string[];
}

export interface KeyView {
  dataset: string;
  encryption: string;
  shared_with?: string | null;
  format?: string | null;
  loaded: boolean;
  locations?: string[];
}

/** A second look at a volume, and how to use it. */
export interface RescueView {
  volume: string;
  snapshot?: string | null;
  clone?: string | null;
  read_only: boolean;
  socket: string;
  uri: string;
  size: number;
  partition_table: string;
  partitions: { number: number; start: number; size: number; type: string; name?: string; contents?: string | null }[];
  commands: { purpose: string; lines: string[] }[];
}

export interface ReplicationPeer {
  fingerprint: string;
  below: string;
}

export interface ReplicatedView {
  dataset: string;
  document: {
    version: number;
    to: string;
    peer: string;
    into: string;
    every_s?: number | null;
    keep: number;
    raw?: boolean;
  };
  state: {
    attempted_unix_s?: number;
    succeeded_unix_s?: number;
    bytes?: number;
    bytes_total?: number;
    failure?: string | null;
  };
  lag_s?: number | null;
  under_way?: string | null;
}

/** A volume that was replicated into a pool. */
export interface CopyView {
  volume: string;
  contents_unix_s?: number | null;
  age_s?: number | null;
  is_arriving?: boolean;
  exports?: string[];
  promoted_unix_s?: number | null;
}

export interface ReplicationView {
  pool: string;
  fingerprint?: string | null;
  peers: ReplicationPeer[];
  replicated: ReplicatedView[];
  copies?: CopyView[];
}

/** A disk that nothing uses, and why it is not taken by itself. */
export interface UnusedDisk {
  path: string;
  size: number;
  model?: string | null;
  serial?: string | null;
  refused?: string | null;
}

/** What the replacement of a disk would do. */
export interface ReplacementView {
  pool: string;
  under_way?: string | null;
  failing: { device: string; state: string; read_errors: number; write_errors: number; checksum_errors: number; note?: string | null }[];
  needed_bytes: number;
  candidates: UnusedDisk[];
  old?: string | null;
  new?: string | null;
  hindrance?: string | null;
  steps: string[];
}

export interface PoolEvent {
  number: number;
  at_ms: number;
  kind: string;
  device?: string | null;
  message: string;
}

export interface HeadState {
  name: string;
  here: boolean;
  state: string;
  note?: string | null;
}

export interface PoolState {
  name: string;
  state: string;
  served_by?: string | null;
  home?: string | null;
  heads: string[];
  addresses: string[];
  pool?: PoolStatus | null;
  volume_count: number;
  target_count: number;
  nbd_count: number;
  session_count: number;
  uptime_s?: number | null;
  problems: string[];
}

export interface LinkState {
  network: string;
  from: string;
  to: string;
  state: string;
}

export interface TakeoverStep {
  name: string;
  after_ms: number;
}

export interface Takeover {
  pool: string;
  kind: string;
  from?: string | null;
  to: string;
  at_ms: number;
  duration_ms?: number | null;
  steps: TakeoverStep[];
}

export interface Alert {
  severity: string;
  about: string;
  sentence: string;
  advice?: Advice | null;
}

export interface Operation {
  id: string;
  kind: string;
  title: string;
  state: string;
  who: string;
  started_at_ms: number;
  ended_at_ms?: number | null;
  progress: string[];
  result?: unknown;
  failure?: Failure | null;
}

export interface Overview {
  appliance?: string | null;
  this_head: string;
  version: string;
  at_ms: number;
  heads: HeadState[];
  pools: PoolState[];
  links: LinkState[];
  last_takeover?: Takeover | null;
  alerts: Alert[];
  operations: Operation[];
}

export interface VolumeRates {
  pool: string;
  volume: string;
  read_bytes_per_s: number;
  write_bytes_per_s: number;
  read_ops_per_s: number;
  write_ops_per_s: number;
  read_latency_us?: number | null;
  write_latency_us?: number | null;
}

export interface Metrics {
  at_ms: number;
  volumes: VolumeRates[];
}

export interface Disk {
  path: string;
  size: number;
  model?: string | null;
  used_by?: string | null;
}

export interface Drill {
  name: string;
  about: string;
  expectation: { kind: "crash" | "cut-off" | "move" | "hidden" | "unbounded" };
}

/** What came of one drill, in seconds; the parts that the console shows. */
export interface DrillReport {
  drill: string;
  skipped?: string | null;
  bounds?: { median_s?: number | null; worst_s: number } | null;
  median_s?: number | null;
  worst_s?: number | null;
  steps_s: Record<string, number>;
  broken?: unknown;
  rounds: { errors: string[]; violations: string[]; double_imports: string[]; broken: unknown[] }[];
}

/** One step of a plan; which fields it has depends on its action. */
export interface Change {
  action: string;
  head?: string;
  path?: string;
  unit?: string;
  is_new?: boolean;
  lines?: string[];
  changes?: unknown[];
}

export interface Plan {
  obstacles: { what: string; mend: string }[];
  changes: Change[];
}

export interface ApplianceFile {
  path: string;
  text: string;
  appliance?: ApplianceDocument | null;
}

/** The appliance file as JSON. Fields that the console does not edit travel through unchanged. */
export interface ApplianceDocument {
  format: number;
  name: string;
  quorum?: { rule: string; witness?: WitnessDocument | null; [field: string]: unknown } | null;
  networks: Record<string, NetworkDocument>;
  heads: Record<string, HeadDocument>;
  pdus?: Record<string, PduDocument>;
  pools: Record<string, PoolDocument>;
  [field: string]: unknown;
}

export interface WitnessDocument {
  address: string;
  reach?: string[];
  [field: string]: unknown;
}

/** A power distribution unit. */
export interface PduDocument {
  agent: string;
  address: string;
  user?: string | null;
  password_file?: string | null;
  [field: string]: unknown;
}

export interface NetworkDocument {
  subnets: string[];
  heartbeat?: number | null;
  mtu?: number;
  [field: string]: unknown;
}

export interface HeadDocument {
  number: number;
  memory?: string | null;
  links: Record<string, { interface: string; addresses: string[] }>;
  fencing?: FencingDocument | null;
  [field: string]: unknown;
}

export interface FencingDocument {
  delay_s?: number;
  bmc?: { address: string; user: string; password_file: string; [field: string]: unknown } | null;
  outlets?: { pdu: string; outlet: string }[];
  [field: string]: unknown;
}

export interface PoolDocument {
  sector_bytes?: number;
  home?: string | null;
  disks: string[];
  arc?: string | null;
  addresses: { network: string; address: string }[];
  [field: string]: unknown;
}

export interface Finding {
  code: string;
  severity: string;
  where: { line?: number | null; key?: string | null };
  what: string;
  why?: string | null;
  mend?: string | null;
}

/** Whether a head was asked for facts; if not, why. */
export interface HeadAsked {
  asked: boolean;
  why?: string;
  unknown?: string[];
}

export interface CheckReport {
  findings: Finding[];
  heads?: Record<string, HeadAsked>;
  toml?: string | null;
}

export interface User {
  name: string;
  role: Role;
  created_at_ms?: number | null;
}

export interface Token {
  id: string;
  name: string;
  role: Role;
  expires_at_ms?: number | null;
  token?: string | null;
}

export interface AuditEntry {
  at_ms: number;
  who: string;
  role?: string | null;
  from: string;
  what: string;
  target: string;
  outcome: string;
  code?: number | null;
  /** It is the line for so many more like the one before. */
  count?: number | null;
}
