//! A client of NBD.

use super::{Exported, Kind, Store, Words, carried, joined, words};

/// NBD, by libnbd.
pub const KIND: Kind = Kind {
    name: "nbd",
    files: carried!["clients/nbd.py"],
    prepare: |_| Vec::new(),
    store: Store::Volume { export },
    client_address,
};

fn export(of: &Exported<'_>) -> Words {
    let volume = of.dataset();
    words([
        "nbd",
        "export",
        &volume,
        "--name",
        of.name,
        "--allow-everyone",
    ])
}

fn client_address(of: &Exported<'_>, hosts: &[String]) -> String {
    joined(hosts, |host| format!("nbd://{host}/{}", of.name))
}
