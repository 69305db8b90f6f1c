//! A client of NFS.

use super::{Exported, Kind, Store, Words, carried, joined, words};

/// Everybody in the lab. A rule has to name networks.
const SHARE: &str = "rw=0.0.0.0/1:128.0.0.0/1:[::]/1:[8000::]/1,no_root_squash";
/// Size in bytes of the file that is used like a volume.
const FILE_BYTES: u32 = 8 << 20;

/// NFS 4.2, by a client of our own.
pub const KIND: Kind = Kind {
    name: "nfs",
    files: carried![
        "clients/nfs.py",
        "clients/rpc.py",
        "clients/xdr.py",
        "drill/files.py",
        "drill/names.py",
    ],
    prepare: |_| Vec::new(),
    store: Store::FileSystem { create },
    client_address,
};

fn create(of: &Exported<'_>) -> Words {
    words(["filesystem", "create", &of.dataset(), "--share", SHARE])
}

fn client_address(of: &Exported<'_>, hosts: &[String]) -> String {
    let dataset = of.dataset();
    joined(hosts, |host| {
        format!("nfs://{host}/{dataset}/file?bytes={FILE_BYTES}")
    })
}
