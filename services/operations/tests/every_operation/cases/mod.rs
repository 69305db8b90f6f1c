//! The requests, with their outcomes: `changed`, `already` so, `told`, or the kind of the refusal. A line that begins
//! with `!` changes the pool between requests.

mod clients;
mod copies;
mod filesystems;
mod pools;
mod rights;
mod volumes;

/// A verb, its arguments as JSON, the outcome.
pub type Case = (&'static str, &'static str, &'static str);

/// Operations that nothing but a failing device can refuse.
pub const NEVER_REFUSED: &[&str] = &[
    "key.load_all",
    "pool.copy_rate",
    "pool.read_balancing",
    "pool.scrub",
    "pool.scrub_schedule",
    "replicate.remove",
    "replicate.revoke",
    "replicate.rotate_key",
    "snapshot.schedule.remove",
    "target.discovery.chap_clear",
];

/// Tables by their names.
pub const ALL: &[(&str, &[Case])] = &[
    ("volumes", volumes::VOLUMES),
    ("filesystems", filesystems::FILESYSTEMS),
    ("properties", volumes::PROPERTIES),
    ("rollbacks", volumes::ROLLBACKS),
    ("logs", volumes::LOGS),
    ("keys", volumes::KEYS),
    ("snapshots", copies::SNAPSHOTS),
    ("schedules", copies::SCHEDULES),
    ("targets", clients::TARGETS),
    ("secrets", clients::SECRETS),
    ("nbd", clients::NBD),
    ("transfers", copies::TRANSFERS),
    ("replication", copies::REPLICATION),
    ("rights", rights::RIGHTS),
    ("portals", clients::PORTALS),
    ("the_pool", pools::THE_POOL),
    ("devices", pools::DEVICES),
    ("replacements", pools::REPLACEMENTS),
    ("scrubs", pools::SCRUBS),
    ("a_suspended_pool", pools::A_SUSPENDED_POOL),
];

/// Creates a sparse volume of 16 MiB.
macro_rules! volume {
    ($name:literal) => {
        concat!(
            r#"{"name":""#,
            $name,
            r#"","size":16777216,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":false}"#
        )
    };
    ($name:literal, $more:literal) => {
        concat!(
            r#"{"name":""#,
            $name,
            r#"","size":16777216,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":false,"#,
            $more,
            "}"
        )
    };
}
use volume;
