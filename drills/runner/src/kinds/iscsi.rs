//! An initiator of iSCSI.

use units::PoolName;

use super::{Exported, Kind, Store, Words, carried, joined, words};

/// As the client calls itself.
const CLIENT_NAME: &str = "iqn.2026-01.org.example:drill";

/// iSCSI, by libiscsi.
pub const KIND: Kind = Kind {
    name: "iscsi",
    files: carried!["clients/libiscsi.py", "clients/iscsi.py"],
    prepare,
    store: Store::Volume { export },
    client_address,
};

fn target(pool: &PoolName) -> String {
    format!("iqn.2026-01.org.example:drill-{pool}")
}

fn prepare(pool: &PoolName) -> Vec<Words> {
    let (target, pool) = (target(pool), pool.as_str());
    let allow = ["target", "allow", &target, "--pool", pool];
    let mut allow = words(allow);
    allow.extend(words(["--initiator", CLIENT_NAME]));
    vec![words(["target", "create", &target, "--pool", pool]), allow]
}

fn export(of: &Exported<'_>) -> Words {
    let (target, lun) = (target(of.pool), of.number.to_string());
    words(["target", "map", &target, &of.dataset(), "--lun", &lun])
}

fn client_address(of: &Exported<'_>, hosts: &[String]) -> String {
    let portals = joined(hosts, |host| format!("{host}:3260"));
    format!("{portals}/{}/{}", target(of.pool), of.number)
}
