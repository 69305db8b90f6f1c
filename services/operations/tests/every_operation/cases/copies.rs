//! Snapshots, streams, replication.

use super::{Case, volume};

pub const SNAPSHOTS: &[Case] = &[
    ("volume.create", volume!("tank/a"), "changed"),
    ("volume.create", volume!("tank/b"), "changed"),
    (
        "snapshot.create",
        r#"{"names":["tank/a@1","tank/b@1"]}"#,
        "changed",
    ),
    (
        "snapshot.create",
        r#"{"names":["tank/a@2","tank/b@1"]}"#,
        "Exists",
    ),
    (
        "snapshot.create",
        r#"{"names":["tank/a@2","tank/a@3"]}"#,
        "Usage",
    ),
    (
        "snapshot.create",
        r#"{"names":["tank/none@1"]}"#,
        "NotFound",
    ),
    ("snapshot.create", r#"{"names":["tank@all"]}"#, "Usage"),
    ("snapshot.create", r#"{"names":["tank/a@a b"]}"#, "Usage"),
    (
        "snapshot.create",
        r#"{"names":["tank@all"],"recursive":true}"#,
        "changed",
    ),
    ("snapshot.list", "{}", "told"),
    ("snapshot.list", r#"{"volume":"tank/a"}"#, "told"),
    ("snapshot.list", r#"{"volume":"tank/none"}"#, "NotFound"),
    ("snapshot.list", r#"{"only":"tank/a@*"}"#, "told"),
    ("snapshot.list", r#"{"only":"tank/a@%"}"#, "told"),
    ("snapshot.list", r#"{"only":"tank/a@none%"}"#, "NotFound"),
    (
        "snapshot.rename",
        r#"{"from":"tank/a@1","to":"tank/a@one"}"#,
        "changed",
    ),
    (
        "snapshot.rename",
        r#"{"from":"tank/a@one","to":"tank/a@one"}"#,
        "already",
    ),
    (
        "snapshot.rename",
        r#"{"from":"tank/a@one","to":"tank/a@all"}"#,
        "Exists",
    ),
    (
        "snapshot.rename",
        r#"{"from":"tank/a@none","to":"tank/a@x"}"#,
        "NotFound",
    ),
    (
        "snapshot.rename",
        r#"{"from":"tank/a@one","to":"tank/b@x"}"#,
        "Usage",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/a@one","to":"tank/clone","properties":{"sync":"always"}}"#,
        "changed",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/a@one","to":"tank/clone","properties":{}}"#,
        "Exists",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/a@none","to":"tank/x","properties":{}}"#,
        "NotFound",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/a@one","to":"tank/x/y","properties":{}}"#,
        "NotFound",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/a@one","to":"tank/x","properties":{"sync":"never"}}"#,
        "Usage",
    ),
    ("snapshot.destroy", r#"{"names":["tank/a@one"]}"#, "Busy"),
    ("snapshot.diff", r#"{"from":"tank/a@one"}"#, "told"),
    (
        "snapshot.diff",
        r#"{"from":"tank/a@one","to":"tank/a@all"}"#,
        "told",
    ),
    (
        "snapshot.diff",
        r#"{"from":"tank/a@all","to":"tank/a@one"}"#,
        "Usage",
    ),
    (
        "snapshot.diff",
        r#"{"from":"tank/a@one","to":"tank/b@all"}"#,
        "Usage",
    ),
    ("snapshot.diff", r#"{"from":"tank/a@none"}"#, "NotFound"),
    (
        "snapshot.hold",
        r#"{"tag":"backup","names":["tank/a@all","tank/b@*"]}"#,
        "changed",
    ),
    (
        "snapshot.hold",
        r#"{"tag":"backup","names":["tank/a@all"]}"#,
        "already",
    ),
    (
        "snapshot.hold",
        r#"{"tag":"a b","names":["tank/a@all"]}"#,
        "Usage",
    ),
    (
        "snapshot.hold",
        r#"{"tag":"backup","names":["tank/a@none"]}"#,
        "NotFound",
    ),
    ("snapshot.holds", "{}", "told"),
    ("snapshot.holds", r#"{"volume":"tank/none"}"#, "NotFound"),
    ("snapshot.holds", r#"{"only":"tank/b@*"}"#, "told"),
    ("snapshot.destroy", r#"{"names":["tank/a@all"]}"#, "Busy"),
    (
        "snapshot.destroy",
        r#"{"names":["tank/a@all"],"ask":true}"#,
        "NeedsConfirmation",
    ),
    (
        "volume.destroy",
        r#"{"name":"tank/b","recursive":true,"exported":false}"#,
        "Busy",
    ),
    (
        "snapshot.release",
        r#"{"tag":"other","names":["tank/a@all"]}"#,
        "already",
    ),
    (
        "snapshot.release",
        r#"{"tag":"backup","names":["tank/none@*"]}"#,
        "NotFound",
    ),
    (
        "snapshot.release",
        r#"{"tag":"backup","names":["tank/a@*","tank/b@*"]}"#,
        "changed",
    ),
    (
        "transfer.bookmark",
        r#"{"snapshot":"tank/a@one","mark":"sent"}"#,
        "changed",
    ),
    ("snapshot.bookmarks", "{}", "told"),
    (
        "snapshot.bookmarks",
        r#"{"volume":"tank/none"}"#,
        "NotFound",
    ),
    (
        "snapshot.destroy_bookmark",
        r#"{"volume":"tank/a","mark":"sent"}"#,
        "changed",
    ),
    (
        "snapshot.destroy_bookmark",
        r#"{"volume":"tank/a","mark":"sent"}"#,
        "already",
    ),
    (
        "snapshot.destroy_bookmark",
        r#"{"volume":"tank/none","mark":"sent"}"#,
        "NotFound",
    ),
    (
        "snapshot.destroy",
        r#"{"names":["tank/a@all","tank/b@none"]}"#,
        "NotFound",
    ),
    (
        "snapshot.destroy",
        r#"{"names":["tank/a@all","tank/b@all"]}"#,
        "changed",
    ),
];

pub const SCHEDULES: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    (
        "snapshot.schedule.set",
        r#"{"of":"tank","rules":["hourly keep 24","daily at 03:00 keep 7"]}"#,
        "changed",
    ),
    (
        "snapshot.schedule.set",
        r#"{"of":"tank/v","rules":[],"skip_unchanged":true}"#,
        "changed",
    ),
    (
        "snapshot.schedule.set",
        r#"{"of":"tank/none","rules":["hourly keep 24"]}"#,
        "NotFound",
    ),
    ("snapshot.schedule.list", "", "told"),
    ("snapshot.schedule.remove", r#"{"of":"tank/v"}"#, "changed"),
    ("snapshot.schedule.remove", r#"{"of":"tank/v"}"#, "already"),
    (
        "snapshot.schedule.remove",
        r#"{"of":"tank/none"}"#,
        "already",
    ),
];

pub const TRANSFERS: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    ("snapshot.create", r#"{"names":["tank/v@1"]}"#, "changed"),
    (
        "transfer.send",
        r#"{"what":{"snapshot":{"name":"tank/v@1","from":null,"raw":false,"embedded":false,"plain":false}},"estimate":true}"#,
        "told",
    ),
    (
        "transfer.send",
        r#"{"what":{"snapshot":{"name":"tank/v@none","from":null,"raw":false,"embedded":false,"plain":false}},"estimate":true}"#,
        "NotFound",
    ),
    (
        "transfer.send",
        r#"{"what":{"snapshot":{"name":"tank/v@1","from":"nonsense","raw":false,"embedded":false,"plain":false}},"estimate":true}"#,
        "Usage",
    ),
    (
        "transfer.send",
        r#"{"what":{"rest":{"token":"nonsense"}},"estimate":true}"#,
        "Usage",
    ),
    // The stream itself is passed separately.
    (
        "transfer.send",
        r#"{"what":{"snapshot":{"name":"tank/v@1","from":null,"raw":false,"embedded":false,"plain":false}}}"#,
        "Usage",
    ),
    ("transfer.receive", r#"{"volume":"tank/new"}"#, "Usage"),
    ("transfer.interrupted", r#"{"volume":"tank/v"}"#, "told"),
    ("transfer.interrupted", r#"{"volume":"other/v"}"#, "Usage"),
    ("transfer.abort", r#"{"volume":"tank/v"}"#, "NotFound"),
    (
        "transfer.bookmark",
        r#"{"snapshot":"tank/v@1","mark":"one"}"#,
        "changed",
    ),
    (
        "transfer.bookmark",
        r#"{"snapshot":"tank/v@1","mark":"one"}"#,
        "Exists",
    ),
    (
        "transfer.bookmark",
        r#"{"snapshot":"tank/v@none","mark":"two"}"#,
        "NotFound",
    ),
    (
        "transfer.bookmark",
        r#"{"snapshot":"tank/v@1","mark":"a/b"}"#,
        "Usage",
    ),
];

pub const REPLICATION: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    ("replicate.list", "", "told"),
    ("replicate.identity", "", "told"),
    ("replicate.rotate_key", "", "changed"),
    (
        "replicate.accept",
        r#"{"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000","below":"tank/copies"}"#,
        "changed",
    ),
    (
        "replicate.accept",
        r#"{"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000","below":"tank/copies"}"#,
        "already",
    ),
    (
        "replicate.accept",
        r#"{"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000","below":"other/copies"}"#,
        "Usage",
    ),
    (
        "replicate.revoke",
        r#"{"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
        "changed",
    ),
    (
        "replicate.revoke",
        r#"{"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
        "already",
    ),
    (
        "replicate.set",
        r#"{"dataset":"tank/v","document":{"version":1,"to":"127.0.0.1:1","peer":"0000000000000000000000000000000000000000000000000000000000000000","into":"other/v","keep":3}}"#,
        "changed",
    ),
    (
        "replicate.set",
        r#"{"dataset":"tank/v","document":{"version":1,"to":"127.0.0.1:1","peer":"0000000000000000000000000000000000000000000000000000000000000000","into":"other/v","keep":0}}"#,
        "Usage",
    ),
    (
        "replicate.set",
        r#"{"dataset":"tank/none","document":{"version":1,"to":"127.0.0.1:1","peer":"0000000000000000000000000000000000000000000000000000000000000000","into":"other/v","keep":3}}"#,
        "NotFound",
    ),
    ("replicate.list", "", "told"),
    ("replicate.run", r#"{"dataset":"tank/none"}"#, "NotFound"),
    // There is no listener at that address.
    ("replicate.run", r#"{"dataset":"tank/v"}"#, "Unreachable"),
    ("replicate.promote", r#"{"dataset":"tank/v"}"#, "NotFound"),
    ("replicate.remove", r#"{"dataset":"tank/v"}"#, "changed"),
    ("replicate.remove", r#"{"dataset":"tank/v"}"#, "already"),
];
