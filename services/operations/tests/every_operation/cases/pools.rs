//! The pool and its devices.

use super::{Case, volume};

pub const THE_POOL: &[Case] = &[
    ("pool.status", "", "told"),
    ("pool.iostat", "", "told"),
    ("pool.events", r#"{"after":null}"#, "told"),
    ("pool.history", r#"{"limit":null}"#, "told"),
    ("pool.history", r#"{"limit":1}"#, "told"),
    ("pool.get", r#"{"names":[]}"#, "told"),
    ("pool.get", r#"{"names":["autotrim","comment"]}"#, "told"),
    ("pool.get", r#"{"names":["nonsense"]}"#, "NotFound"),
    ("pool.log_level", r#"{"filter":null}"#, "Unavailable"),
    ("pool.log_level", r#"{"filter":"debug"}"#, "Unavailable"),
    (
        "pool.set",
        r#"{"properties":{"autotrim":"on","comment":"hello"}}"#,
        "changed",
    ),
    (
        "pool.set",
        r#"{"properties":{"autotrim":"perhaps"}}"#,
        "Usage",
    ),
    ("pool.set", r#"{"properties":{"nonsense":"x"}}"#, "Usage"),
    // The owner of the pool must close it.
    ("pool.close", "{}", "Failed"),
    ("pool.export", "", "Failed"),
    ("pool.destroy", "{}", "Failed"),
];

pub const DEVICES: &[Case] = &[
    (
        "pool.offline",
        r#"{"device":"/disks/a","temporary":false}"#,
        "changed",
    ),
    (
        "pool.offline",
        r#"{"device":"/disks/b","temporary":false}"#,
        "NeedsConfirmation",
    ),
    (
        "pool.offline",
        r#"{"device":"/disks/none","temporary":false}"#,
        "NotFound",
    ),
    ("pool.online", r#"{"device":"/disks/a"}"#, "changed"),
    (
        "pool.online",
        r#"{"device":"/disks/a","expand":true}"#,
        "changed",
    ),
    ("pool.online", r#"{"device":"/disks/none"}"#, "NotFound"),
    (
        "pool.plan",
        r#"{"change":{"attach":{"existing":"/disks/a","new":"/disks/c"}}}"#,
        "told",
    ),
    (
        "pool.plan",
        r#"{"change":{"add":{"groups":[{"kind":"stripe","role":"data","devices":["/disks/f"]}]}}}"#,
        "told",
    ),
    (
        "pool.plan",
        r#"{"change":{"remove":{"device":"/disks/none"}}}"#,
        "told",
    ),
    (
        "pool.plan",
        r#"{"change":{"replace":{"old":"/disks/b","new":"/disks/d"}}}"#,
        "told",
    ),
    (
        "pool.plan",
        r#"{"change":{"expand":{"device":"/disks/a"}}}"#,
        "told",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/c"}"#,
        "changed",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/c"}"#,
        "Usage",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/none"}"#,
        "NotFound",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/none","new":"/disks/d"}"#,
        "NotFound",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/small"}"#,
        "Usage",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/used"}"#,
        "Busy",
    ),
    (
        "pool.attach",
        r#"{"existing":"/disks/a","new":"/disks/used","overwrite":true}"#,
        "changed",
    ),
    ("pool.detach", r#"{"device":"/disks/used"}"#, "changed"),
    ("pool.detach", r#"{"device":"/disks/c"}"#, "changed"),
    ("pool.detach", r#"{"device":"/disks/c"}"#, "NotFound"),
    ("pool.discard_leg", r#"{"leg":"b:/disks/a"}"#, "Unavailable"),
    ("pool.set_witness", r#"{"witness":"w"}"#, "Unavailable"),
    ("pool.set_witness", "{}", "Unavailable"),
    ("pool.add_head", r#"{"head":"c"}"#, "Unavailable"),
    (
        "pool.replace",
        r#"{"old":"/disks/b","new":"/disks/d"}"#,
        "changed",
    ),
    (
        "pool.replace",
        r#"{"old":"/disks/b","new":"/disks/c"}"#,
        "NotFound",
    ),
    (
        "pool.replace",
        r#"{"old":"/disks/d","new":"/disks/small"}"#,
        "Usage",
    ),
    ("!errors", "/disks/a", ""),
    ("pool.clear", r#"{"device":"/disks/a"}"#, "changed"),
    ("pool.clear", r#"{"device":null}"#, "changed"),
    ("pool.clear", r#"{"device":"/disks/none"}"#, "NotFound"),
    (
        "pool.add",
        r#"{"groups":[{"kind":"stripe","role":"spare","devices":["/disks/e"]}]}"#,
        "changed",
    ),
    (
        "pool.add",
        r#"{"groups":[{"kind":"stripe","role":"data","devices":["/disks/f"]}]}"#,
        "NeedsConfirmation",
    ),
    (
        "pool.add",
        r#"{"groups":[{"kind":"stripe","role":"log","devices":["/disks/e"]}]}"#,
        "Busy",
    ),
    (
        "pool.add",
        r#"{"groups":[{"kind":{"raidz":{"parity":1}},"role":"log","devices":["/disks/b","/disks/f"]}]}"#,
        "Usage",
    ),
    (
        "pool.add",
        r#"{"groups":[{"kind":"stripe","role":"data","devices":["/disks/f"]}],"mismatched":true}"#,
        "changed",
    ),
    ("pool.remove", r#"{"device":"/disks/f"}"#, "changed"),
    ("pool.remove", r#"{"device":"/disks/e"}"#, "changed"),
    ("pool.remove", r#"{"device":"/disks/a"}"#, "Usage"),
    ("pool.remove", r#"{"device":"/disks/none"}"#, "NotFound"),
    ("pool.status", "", "told"),
];

pub const REPLACEMENTS: &[Case] = &[
    (
        "pool.replace_disk",
        r#"{"device":null,"with":null}"#,
        "told",
    ),
    (
        "pool.replace_disk",
        r#"{"device":null,"with":null,"perform":true}"#,
        "already",
    ),
    (
        "pool.replace_disk",
        r#"{"device":"/disks/none","with":"/disks/c","perform":true}"#,
        "Usage",
    ),
    ("!remove disk", "/disks/b", ""),
    (
        "pool.replace_disk",
        r#"{"device":null,"with":"/disks/c"}"#,
        "told",
    ),
    (
        "pool.replace_disk",
        r#"{"device":null,"with":"/disks/used","perform":true}"#,
        "Busy",
    ),
    (
        "pool.replace_disk",
        r#"{"device":null,"with":"/disks/c","perform":true}"#,
        "changed",
    ),
    (
        "pool.replace_disk",
        r#"{"device":"/disks/b","with":"/disks/c","perform":true}"#,
        "already",
    ),
];

pub const SCRUBS: &[Case] = &[
    ("pool.scrub", r#"{"action":"start","wait":true}"#, "changed"),
    (
        "pool.scrub",
        r#"{"action":"pause","wait":false}"#,
        "already",
    ),
    (
        "pool.scrub",
        r#"{"action":"resume","wait":false}"#,
        "already",
    ),
    ("pool.scrub", r#"{"action":"stop","wait":false}"#, "already"),
    ("!hold scans", "yes", ""),
    (
        "pool.scrub",
        r#"{"action":"start","wait":false}"#,
        "changed",
    ),
    (
        "pool.scrub",
        r#"{"action":"start","wait":false}"#,
        "already",
    ),
    (
        "pool.scrub",
        r#"{"action":"pause","wait":false}"#,
        "changed",
    ),
    (
        "pool.scrub",
        r#"{"action":"resume","wait":false}"#,
        "changed",
    ),
    ("pool.scrub", r#"{"action":"stop","wait":false}"#, "changed"),
    (
        "pool.scrub",
        r#"{"action":"start","wait":false}"#,
        "changed",
    ),
    ("!finish scan", "", ""),
    (
        "pool.scrub",
        r#"{"action":"pause","wait":false}"#,
        "already",
    ),
    (
        "pool.scrub_schedule",
        r#"{"when":"daily at 03:00"}"#,
        "changed",
    ),
    (
        "pool.scrub_schedule",
        r#"{"when":"daily at 03:00"}"#,
        "already",
    ),
    ("pool.scrub_schedule", r#"{"when":null}"#, "changed"),
    ("pool.copy_rate", r#"{"max":null}"#, "already"),
    ("pool.copy_rate", r#"{"max":"50M"}"#, "changed"),
    ("pool.copy_rate", r#"{"max":"52428800"}"#, "already"),
    ("pool.copy_rate", r#"{"max":"unlimited"}"#, "changed"),
    ("pool.copy_rate", r#"{"max":"unlimited"}"#, "already"),
    ("pool.read_balancing", r#"{"mode":null}"#, "already"),
    (
        "pool.read_balancing",
        r#"{"mode":"prefer-local"}"#,
        "already",
    ),
    (
        "pool.read_balancing",
        r#"{"mode":"least-pending"}"#,
        "changed",
    ),
    (
        "pool.read_balancing",
        r#"{"mode":"least-pending"}"#,
        "already",
    ),
    ("pool.read_balancing", r#"{"mode":null}"#, "already"),
    (
        "pool.read_balancing",
        r#"{"mode":"prefer-local"}"#,
        "changed",
    ),
];

pub const A_SUSPENDED_POOL: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    ("!remove disk", "/disks/a", ""),
    ("pool.status", "", "told"),
    ("!remove disk", "/disks/b", ""),
    ("pool.status", "", "told"),
    (
        "pool.scrub",
        r#"{"action":"start","wait":false}"#,
        "Unavailable",
    ),
    (
        "pool.set",
        r#"{"properties":{"autotrim":"on"}}"#,
        "Unavailable",
    ),
    ("pool.clear", r#"{"device":null}"#, "Unavailable"),
    ("!return disk", "/disks/b", ""),
    ("pool.clear", r#"{"device":null}"#, "changed"),
    ("volume.create", volume!("tank/w"), "changed"),
    ("!return disk", "/disks/a", ""),
    ("pool.online", r#"{"device":"/disks/a"}"#, "changed"),
];
