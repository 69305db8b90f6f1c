//! File systems: their creation, shares and snapshots.

use super::{Case, volume};

/// Creates a file system with properties.
macro_rules! files {
    ($name:literal) => {
        files!($name, "")
    };
    ($name:literal, $properties:literal) => {
        concat!(
            r#"{"name":""#,
            $name,
            r#"","owner":0,"group":0,"mode":"0755","properties":{"#,
            $properties,
            r#"},"parents":false,"exist_ok":false}"#
        )
    };
}

pub const FILESYSTEMS: &[Case] = &[
    ("filesystem.create", files!("tank/f"), "changed"),
    ("filesystem.create", files!("tank/f"), "Exists"),
    ("filesystem.create", files!("tank/none/f"), "NotFound"),
    ("filesystem.create", files!("tank/a b"), "Usage"),
    ("filesystem.create", files!("other/f"), "Usage"),
    (
        "filesystem.create",
        r#"{"name":"tank/deep/er/f","owner":1000,"group":100,"mode":"2770","properties":{"quota":"64M","recordsize":"1M","utf8only":"on","casesensitivity":"sensitive","normalization":"none"},"parents":true,"exist_ok":false}"#,
        "changed",
    ),
    (
        "filesystem.create",
        r#"{"name":"tank/f","owner":0,"group":0,"mode":"0755","properties":{},"parents":false,"exist_ok":true}"#,
        "already",
    ),
    ("volume.create", volume!("tank/v"), "changed"),
    (
        "filesystem.create",
        r#"{"name":"tank/v","owner":0,"group":0,"mode":"0755","properties":{},"parents":false,"exist_ok":true}"#,
        "Exists",
    ),
    ("filesystem.create", files!("tank/v/f"), "Usage"),
    // Properties that cannot be served are refused, and nothing is created.
    (
        "filesystem.create",
        files!("tank/g", r#""casesensitivity":"insensitive""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""normalization":"formC""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""utf8only":"yes""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""acltype":"posix""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""sharenfs":"on""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""sharenfs":"rw=192.0.2.0/24,speed=high""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""recordsize":"100K""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""volsize":"1M""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""bulkhead:schedule":"x""#),
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""reservation":"10T""#),
        "NoSpace",
    ),
    ("filesystem.show", r#"{"name":"tank/g"}"#, "NotFound"),
    ("filesystem.list", "{}", "told"),
    ("filesystem.list", r#"{"only":"tank/none"}"#, "NotFound"),
    ("filesystem.show", r#"{"name":"tank/f"}"#, "told"),
    ("filesystem.show", r#"{"name":"tank/v"}"#, "Usage"),
    (
        "filesystem.get",
        r#"{"name":"tank/f","names":["sharenfs","utf8only"]}"#,
        "told",
    ),
    ("filesystem.get", r#"{"name":"tank/v","names":[]}"#, "Usage"),
    (
        "filesystem.get",
        r#"{"name":"tank/g","names":[]}"#,
        "NotFound",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"sharenfs":"rw=192.0.2.0/24","quota":"1G"}}"#,
        "changed",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"sharenfs":"rw"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"acltype":"posix"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"utf8only":"on"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/v","properties":{"quota":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/g","properties":{"quota":"1G"}}"#,
        "NotFound",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank","properties":{"sharenfs":"ro=192.0.2.0/24"}}"#,
        "changed",
    ),
    // Quotas of users: known names, valid values, of one existing file system, and alone.
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userquota@1000":"10G","userobjquota@1000":"50000","groupquota@100":"1.5G"}}"#,
        "changed",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userquota@1000":"10G"}}"#,
        "already",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"groupquota@100":"none","groupobjquota@7":"none"}}"#,
        "changed",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"groupquota@100":"0"}}"#,
        "already",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userquota@1000":"much"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userobjquota@1000":"1.5"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userused@1000":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userquota@anna":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"usrquota@1000":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userquota@1000":"1G","userquota@01000":"2G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"userquota@1000":"1G","quota":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"projectquota@7":"1G"}}"#,
        "Unsupported",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank","properties":{"userquota@1000":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/v","properties":{"userquota@1000":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/g","properties":{"userquota@1000":"1G"}}"#,
        "NotFound",
    ),
    (
        "volume.set",
        r#"{"name":"tank/v","properties":{"userquota@1000":"1G"}}"#,
        "Usage",
    ),
    (
        "filesystem.create",
        files!("tank/g", r#""userquota@1000":"1G""#),
        "Usage",
    ),
    (
        "filesystem.inherit",
        r#"{"name":"tank/f","names":["userquota@1000"]}"#,
        "Usage",
    ),
    (
        "filesystem.get",
        r#"{"name":"tank/f","names":["userquota@1000","userused@1000","quota"]}"#,
        "told",
    ),
    (
        "filesystem.get",
        r#"{"name":"tank/f","names":["usrquota@1000"]}"#,
        "NotFound",
    ),
    (
        "volume.get",
        r#"{"name":"tank/v","names":["userquota@1000"]}"#,
        "NotFound",
    ),
    ("filesystem.userspace", r#"{"name":"tank/f"}"#, "told"),
    (
        "filesystem.userspace",
        r#"{"name":"tank/f","of":"group"}"#,
        "told",
    ),
    (
        "filesystem.userspace",
        r#"{"name":"tank/f","of":"project"}"#,
        "Unsupported",
    ),
    (
        "filesystem.userspace",
        r#"{"name":"tank/f","snapshot":"tank/f@none"}"#,
        "NotFound",
    ),
    (
        "filesystem.userspace",
        r#"{"name":"tank/f","snapshot":"tank/v@1"}"#,
        "Usage",
    ),
    ("filesystem.userspace", r#"{"name":"tank/v"}"#, "Usage"),
    ("filesystem.userspace", r#"{"name":"tank/g"}"#, "NotFound"),
    // Shared by a local and by an inherited property: neither is destroyed by accident.
    (
        "filesystem.destroy",
        r#"{"name":"tank/f","recursive":false,"shared":false}"#,
        "Busy",
    ),
    (
        "filesystem.inherit",
        r#"{"name":"tank/f","names":["sharenfs"]}"#,
        "changed",
    ),
    (
        "filesystem.inherit",
        r#"{"name":"tank/f","names":["utf8only"]}"#,
        "Usage",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/f","recursive":false,"shared":false}"#,
        "Busy",
    ),
    (
        "volume.destroy",
        r#"{"name":"tank/f","recursive":false,"exported":false}"#,
        "Usage",
    ),
    ("!make files", "tank/f", ""),
    (
        "volume.destroy",
        r#"{"name":"tank/f","recursive":false,"exported":false}"#,
        "Usage",
    ),
    (
        "volume.rename",
        r#"{"from":"tank/f","to":"tank/g"}"#,
        "Usage",
    ),
    (
        "filesystem.set",
        r#"{"name":"tank/f","properties":{"quota":"10MB"}}"#,
        "Usage",
    ),
    (
        "filesystem.inherit",
        r#"{"name":"tank","names":["sharenfs"]}"#,
        "changed",
    ),
    (
        "filesystem.rename",
        r#"{"from":"tank/f","to":"tank/deep/f"}"#,
        "changed",
    ),
    (
        "filesystem.rename",
        r#"{"from":"tank/deep/f","to":"tank/v/f"}"#,
        "Usage",
    ),
    (
        "filesystem.rename",
        r#"{"from":"tank/v","to":"tank/w"}"#,
        "Usage",
    ),
    (
        "filesystem.rename",
        r#"{"from":"tank/g","to":"tank/h"}"#,
        "NotFound",
    ),
    ("filesystem.check", r#"{"name":"tank/deep/f"}"#, "told"),
    ("filesystem.check", r#"{"name":"tank/v"}"#, "Usage"),
    (
        "filesystem.open_files",
        r#"{"name":"tank/deep/f"}"#,
        "Unavailable",
    ),
    ("filesystem.open_files", r#"{"name":"tank/v"}"#, "Usage"),
    (
        "filesystem.open_files",
        r#"{"name":"tank/none"}"#,
        "NotFound",
    ),
    (
        "filesystem.expire_client",
        r#"{"name":"tank/deep/f","client":"1f"}"#,
        "Unavailable",
    ),
    (
        "filesystem.expire_client",
        r#"{"name":"tank/deep/f","client":"of nobody"}"#,
        "Usage",
    ),
    (
        "snapshot.create",
        r#"{"names":["tank/deep/f@1"]}"#,
        "changed",
    ),
    // A file system never hides a file of the one above it.
    ("filesystem.create", files!("tank/deep/f/file0"), "Exists"),
    ("filesystem.create", files!("tank/deep/f/.zfs"), "Usage"),
    (
        "filesystem.create",
        r#"{"name":"tank/deep/f/file0/below","owner":0,"group":0,"mode":"0755","properties":{},"parents":true,"exist_ok":false}"#,
        "Exists",
    ),
    (
        "filesystem.rename",
        r#"{"from":"tank/deep/er/f","to":"tank/deep/f/file0"}"#,
        "Exists",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/deep/f@1","to":"tank/deep/f/file0","properties":{}}"#,
        "Exists",
    ),
    (
        "snapshot.create",
        r#"{"names":["tank/deep/f@2"]}"#,
        "changed",
    ),
    (
        "filesystem.rollback",
        r#"{"to":"tank/deep/f@1"}"#,
        "NeedsConfirmation",
    ),
    // The same for a file that is created later.
    ("!remove file", "tank/deep/f file0", ""),
    ("filesystem.create", files!("tank/deep/f/file0"), "changed"),
    (
        "filesystem.rollback",
        r#"{"to":"tank/deep/f@1","destroy_newer":true}"#,
        "Exists",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/deep/f/file0","recursive":false,"shared":false}"#,
        "changed",
    ),
    (
        "filesystem.rollback",
        r#"{"to":"tank/deep/f@1","destroy_newer":true}"#,
        "changed",
    ),
    (
        "filesystem.rollback",
        r#"{"to":"tank/deep/f@none"}"#,
        "NotFound",
    ),
    ("filesystem.rollback", r#"{"to":"tank/v@1"}"#, "Usage"),
    (
        "snapshot.clone",
        r#"{"from":"tank/deep/f@1","to":"tank/c","properties":{"sharenfs":"rw"}}"#,
        "Usage",
    ),
    (
        "snapshot.clone",
        r#"{"from":"tank/deep/f@1","to":"tank/c","properties":{"recordsize":"64K"}}"#,
        "changed",
    ),
    ("filesystem.promote", r#"{"name":"tank/deep/f"}"#, "already"),
    ("filesystem.promote", r#"{"name":"tank/v"}"#, "Usage"),
    ("filesystem.promote", r#"{"name":"tank/c"}"#, "changed"),
    (
        "filesystem.destroy",
        r#"{"name":"tank/v","recursive":false,"shared":false}"#,
        "Usage",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/none","recursive":false,"shared":false}"#,
        "NotFound",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/deep/er","recursive":false,"shared":false}"#,
        "Busy",
    ),
    (
        "filesystem.destroy",
        r#"{"name":"tank/deep","recursive":true,"shared":false}"#,
        "changed",
    ),
    // A file system that inherits unsupported properties would not be served.
    (
        "filesystem.set",
        r#"{"name":"tank/c","properties":{"atime":"off","snapdir":"visible","xattr":"sa"}}"#,
        "changed",
    ),
];
