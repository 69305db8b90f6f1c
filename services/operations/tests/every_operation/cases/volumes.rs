//! Volumes, their properties, contents and keys.

use super::{Case, volume};

pub const VOLUMES: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    ("volume.create", volume!("tank/v"), "Exists"),
    ("volume.create", volume!("tank/dir/v"), "NotFound"),
    ("volume.create", volume!("tank/v/w"), "Usage"),
    ("volume.create", volume!("tank/a b"), "Usage"),
    ("volume.create", volume!("other/v"), "Usage"),
    (
        "volume.create",
        r#"{"name":"tank/dir/v","size":8192,"block_size":4096,"sparse":false,"properties":{"compression":"zstd-3"},"parents":true,"exist_ok":false}"#,
        "changed",
    ),
    (
        "volume.create",
        r#"{"name":"tank/v","size":16777216,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":true}"#,
        "already",
    ),
    (
        "volume.create",
        r#"{"name":"tank/v","size":8192,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":true}"#,
        "Exists",
    ),
    (
        "volume.create",
        r#"{"name":"tank/odd","size":5000,"block_size":4096,"sparse":true,"properties":{},"parents":false,"exist_ok":false}"#,
        "Usage",
    ),
    (
        "volume.create",
        r#"{"name":"tank/huge","size":1099511627776,"block_size":null,"sparse":false,"properties":{},"parents":false,"exist_ok":false}"#,
        "NoSpace",
    ),
    (
        "volume.create",
        r#"{"name":"tank/ours","size":8192,"block_size":4096,"sparse":true,"properties":{"bulkhead:export":"x"},"parents":false,"exist_ok":false}"#,
        "Usage",
    ),
    ("volume.list", "{}", "told"),
    ("volume.list", r#"{"only":"tank/a*"}"#, "told"),
    ("volume.list", r#"{"only":"tank/none"}"#, "NotFound"),
    ("volume.space", "", "told"),
    ("status", "", "told"),
    ("volume.show", r#"{"name":"tank/v"}"#, "told"),
    ("volume.show", r#"{"name":"tank/none"}"#, "NotFound"),
    ("volume.show", r#"{"name":"tank/dir"}"#, "Usage"),
    // Without a server no client writes.
    (
        "volume.freeze",
        r#"{"names":["tank/v","tank/v"],"seconds":10}"#,
        "Unavailable",
    ),
    (
        "volume.freeze",
        r#"{"names":["tank/v"],"seconds":61}"#,
        "Usage",
    ),
    ("volume.freeze", r#"{"names":["tank/none"]}"#, "NotFound"),
    ("volume.freeze", r#"{"names":["tank/dir"]}"#, "Usage"),
    ("volume.thaw", r#"{"names":["tank/v"]}"#, "Unavailable"),
    ("volume.thaw", r#"{"names":["tank/none"]}"#, "NotFound"),
    (
        "volume.resize",
        r#"{"name":"tank/v","size":33554432,"allow_shrink":false}"#,
        "changed",
    ),
    (
        "volume.resize",
        r#"{"name":"tank/v","size":33554432,"allow_shrink":false}"#,
        "already",
    ),
    (
        "volume.resize",
        r#"{"name":"tank/v","size":16777216,"allow_shrink":false}"#,
        "NeedsConfirmation",
    ),
    (
        "volume.resize",
        r#"{"name":"tank/v","size":16777216,"allow_shrink":true}"#,
        "changed",
    ),
    (
        "volume.resize",
        r#"{"name":"tank/v","size":1000,"allow_shrink":true}"#,
        "Usage",
    ),
    (
        "volume.resize",
        r#"{"name":"tank/none","size":8192,"allow_shrink":true}"#,
        "NotFound",
    ),
    (
        "volume.resize",
        r#"{"name":"tank/dir/v","size":16384,"allow_shrink":false}"#,
        "changed",
    ),
    (
        "volume.rename",
        r#"{"from":"tank/v","to":"tank/dir/w"}"#,
        "changed",
    ),
    (
        "volume.rename",
        r#"{"from":"tank/dir/w","to":"tank/dir/v"}"#,
        "Exists",
    ),
    (
        "volume.rename",
        r#"{"from":"tank/none","to":"tank/x"}"#,
        "NotFound",
    ),
    (
        "volume.rename",
        r#"{"from":"tank/dir","to":"tank/dir/x"}"#,
        "Usage",
    ),
    (
        "volume.rename",
        r#"{"from":"tank/dir","to":"tank/a b"}"#,
        "Usage",
    ),
    (
        "snapshot.create",
        r#"{"names":["tank/dir/w@s"]}"#,
        "changed",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/dir/w@s","to":"tank/clone","properties":{}}"#,
        "changed",
    ),
    (
        "volume.destroy",
        r#"{"name":"tank/dir/w","recursive":false,"exported":false}"#,
        "Busy",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/dir","recursive":true,"shared":false}"#,
        "Busy",
    ),
    ("volume.promote", r#"{"name":"tank/none"}"#, "NotFound"),
    ("volume.promote", r#"{"name":"tank/dir/w"}"#, "already"),
    ("volume.promote", r#"{"name":"tank/clone"}"#, "changed"),
    (
        "nbd.export",
        r#"{"volume":"tank/dir/w","name":null,"read_only":false,"access":{}}"#,
        "changed",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/dir","recursive":true,"shared":false}"#,
        "Busy",
    ),
    // A parent of volumes is not a volume, and all its descendants would be destroyed.
    (
        "volume.destroy",
        r#"{"name":"tank/dir","recursive":true,"exported":true}"#,
        "Usage",
    ),
    (
        "volume.destroy",
        r#"{"name":"tank/dir","recursive":false,"exported":true}"#,
        "Usage",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/dir","recursive":true,"shared":true}"#,
        "changed",
    ),
    (
        "volume.destroy",
        r#"{"name":"tank/dir","recursive":true,"exported":true}"#,
        "NotFound",
    ),
    ("nbd.list", "", "told"),
    ("volume.rescue.list", "", "Unreachable"),
    (
        "volume.rescue.begin",
        r#"{"volume":"tank/clone"}"#,
        "Unreachable",
    ),
    (
        "volume.rescue.end",
        r#"{"volume":"tank/clone"}"#,
        "Unreachable",
    ),
];

pub const PROPERTIES: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"compression":"zstd-3","sync":"always"}}"#,
        "changed",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"compression":"strong"}}"#,
        "Usage",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"atime":"on"}}"#,
        "Usage",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"refreservation":"1M"}}"#,
        "changed",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"refreservation":"10T"}}"#,
        "NoSpace",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"quota":"64M","copies":"2"}}"#,
        "changed",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"quota":"none"}}"#,
        "changed",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"volsize":"32M"}}"#,
        "changed",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"volsize":"64M","sync":"always"}}"#,
        "Usage",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"bulkhead:export":"x"}}"#,
        "Usage",
    ),
    (
        "volume.set",
        r#"{"name":"tank/none","properties":{"sync":"always"}}"#,
        "NotFound",
    ),
    // One of two cannot be set: neither is.
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"compression":"zstd","refreservation":"100T","user:c":"d"}}"#,
        "NoSpace",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"compression":"lz4","user:a":"c"}}"#,
        "changed",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"compression":"zstd","refreservation":"100T","user:a":"d"}}"#,
        "NoSpace",
    ),
    (
        "volume.set",
        r#"{"name":"tank","properties":{"compression":"off","user:a":"b"}}"#,
        "changed",
    ),
    ("volume.get", r#"{"name":"tank/v","names":[]}"#, "told"),
    (
        "volume.get",
        r#"{"name":"tank/v","names":["compression","user:a","user:none"]}"#,
        "told",
    ),
    (
        "volume.get",
        r#"{"name":"tank/v","names":["compression,sync","used","used"]}"#,
        "told",
    ),
    ("volume.get", r#"{"name":"tank/v","names":["all"]}"#, "told"),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"comprssion":"on"}}"#,
        "Usage",
    ),
    (
        "volume.get",
        r#"{"name":"tank/v","names":["nonsense"]}"#,
        "NotFound",
    ),
    (
        "volume.get",
        r#"{"name":"tank/none","names":[]}"#,
        "NotFound",
    ),
    (
        "volume.inherit",
        r#"{"name":"tank/v","names":["compression"]}"#,
        "changed",
    ),
    (
        "volume.inherit",
        r#"{"name":"tank/v","names":["volsize"]}"#,
        "Usage",
    ),
    (
        "volume.inherit",
        r#"{"name":"tank/v","names":["bulkhead:export"]}"#,
        "Usage",
    ),
    (
        "volume.inherit",
        r#"{"name":"tank/none","names":["compression"]}"#,
        "NotFound",
    ),
];

pub const ROLLBACKS: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    ("snapshot.create", r#"{"names":["tank/v@1"]}"#, "changed"),
    ("volume.rollback", r#"{"to":"tank/v@1"}"#, "changed"),
    ("volume.rollback", r#"{"to":"tank/v@none"}"#, "NotFound"),
    ("volume.rollback", r#"{"to":"tank/none@1"}"#, "NotFound"),
    ("snapshot.create", r#"{"names":["tank/v@2"]}"#, "changed"),
    (
        "transfer.bookmark",
        r#"{"snapshot":"tank/v@2","mark":"two"}"#,
        "changed",
    ),
    (
        "volume.rollback",
        r#"{"to":"tank/v@1"}"#,
        "NeedsConfirmation",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/v@2","to":"tank/clone","properties":{}}"#,
        "changed",
    ),
    (
        "volume.rollback",
        r#"{"to":"tank/v@1","destroy_newer":true}"#,
        "Busy",
    ),
    (
        "volume.destroy",
        r#"{"name":"tank/clone","recursive":false,"exported":false}"#,
        "changed",
    ),
    (
        "volume.rollback",
        r#"{"to":"tank/v@1","destroy_newer":true}"#,
        "changed",
    ),
    ("snapshot.destroy", r#"{"names":["tank/v@2"]}"#, "NotFound"),
];

pub const LOGS: &[Case] = &[
    ("volume.create", volume!("tank/v"), "changed"),
    ("volume.discard_log", r#"{"name":"tank/v"}"#, "already"),
    ("!log unreadable", "tank/v", ""),
    (
        "snapshot.create",
        r#"{"names":["tank/v@1"]}"#,
        "Unavailable",
    ),
    ("volume.discard_log", r#"{"name":"tank/v"}"#, "changed"),
    ("volume.discard_log", r#"{"name":"tank/none"}"#, "NotFound"),
    ("!log waits", "tank/v", ""),
    ("snapshot.create", r#"{"names":["tank/v@1"]}"#, "changed"),
    ("volume.discard_log", r#"{"name":"tank/v"}"#, "already"),
];

pub const KEYS: &[Case] = &[
    (
        "!file",
        "key 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "",
    ),
    (
        "!file",
        "other ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "",
    ),
    ("!file", "short 0011", ""),
    (
        "key.create",
        r#"{"name":"tank/p","key":{"format":"hex","location":"file://FOLDER/key"}}"#,
        "changed",
    ),
    (
        "key.create",
        r#"{"name":"tank/p","key":{"format":"hex","location":"file://FOLDER/key"}}"#,
        "Exists",
    ),
    (
        "key.create",
        r#"{"name":"tank/q","key":{"format":"hex","location":"file://FOLDER/none"}}"#,
        "NotFound",
    ),
    (
        "key.create",
        r#"{"name":"tank/q","key":{"format":"hex","location":"file://FOLDER/short"}}"#,
        "Usage",
    ),
    (
        "key.create",
        r#"{"name":"tank/q","key":{"format":"word","location":"file://FOLDER/key"}}"#,
        "Usage",
    ),
    ("volume.create", volume!("tank/p/v"), "changed"),
    (
        "volume.create",
        volume!(
            "tank/own",
            r#""key":{"format":"hex","location":"file://FOLDER/other","encryption":"aes-128-gcm"}"#
        ),
        "changed",
    ),
    ("volume.create", volume!("tank/plain"), "changed"),
    ("key.status", "{}", "told"),
    ("key.status", r#"{"name":"tank/p/v"}"#, "told"),
    ("key.status", r#"{"name":"tank/none"}"#, "NotFound"),
    ("key.load", r#"{"name":"tank/p/v"}"#, "already"),
    ("key.load", r#"{"name":"tank/plain"}"#, "Usage"),
    ("key.unload", r#"{"name":"tank/plain"}"#, "Usage"),
    ("key.unload", r#"{"name":"tank/p/v"}"#, "changed"),
    ("key.unload", r#"{"name":"tank/p"}"#, "already"),
    ("volume.create", volume!("tank/p/w"), "Unavailable"),
    (
        "volume.resize",
        r#"{"name":"tank/p/v","size":33554432,"allow_shrink":false}"#,
        "Unavailable",
    ),
    (
        "key.change",
        r#"{"name":"tank/p","key":{"format":"hex","location":"file://FOLDER/other"}}"#,
        "Unavailable",
    ),
    (
        "key.load",
        r#"{"name":"tank/p","location":"file://FOLDER/other"}"#,
        "Unavailable",
    ),
    (
        "key.load",
        r#"{"name":"tank/p","key":"66663131323233333434353536363737383839396161626263636464656566663030313132323333343435353636373738383939616162626363646465656666"}"#,
        "Denied",
    ),
    ("!log waits", "tank/p/v", ""),
    ("key.load", r#"{"name":"tank/p"}"#, "changed"),
    ("key.unload", r#"{"name":"tank/p"}"#, "changed"),
    ("key.load_all", "", "changed"),
    ("key.load_all", "", "already"),
    (
        "key.change",
        r#"{"name":"tank/p/v","key":{"format":"hex","location":"file://FOLDER/other"}}"#,
        "changed",
    ),
    (
        "key.change",
        r#"{"name":"tank/plain","key":{"format":"hex","location":"file://FOLDER/other"}}"#,
        "Usage",
    ),
    ("key.inherit", r#"{"name":"tank/p/v"}"#, "changed"),
    ("key.inherit", r#"{"name":"tank/p/v"}"#, "already"),
    ("key.inherit", r#"{"name":"tank/plain"}"#, "Usage"),
    (
        "volume.rename",
        r#"{"from":"tank/p/v","to":"tank/v"}"#,
        "Usage",
    ),
];
