//! The file systems that the NFS targets serve.

use std::sync::Arc;

use file_system::memory::MemoryFileSystem;
use nfs::handles::HandleKey;
use nfs::exports::{Exports, Shared};
use nfs::sharenfs::Share;
use nfs::v4::{Holders, NoRecord, Presentation, Service};

/// One empty file system, exported to this host.
#[allow(dead_code)]
pub fn service() -> Service {
    service_of_files().0
}

/// The same, with its files.
#[allow(dead_code)]
pub fn service_of_files() -> (Service, Arc<MemoryFileSystem>) {
    let presentation = Presentation {
        owner: b"fuzz".to_vec(),
        start: 1,
        handle_key: HandleKey::new(&[7; HandleKey::BYTES]),
        lease_seconds: 90,
        grace_seconds: 0,
    };
    let service = Service::new(presentation, Holders::default(), Arc::new(NoRecord));
    let files = Arc::new(MemoryFileSystem::new(1 << 20));
    let share = Share::parse("rw=127.0.0.1,no_root_squash").expect("a share");
    let shared = Shared {
        name: String::new(),
        share: share.expect("not off"),
        files: Arc::<MemoryFileSystem>::clone(&files),
    };
    service.share(Exports::new(vec![shared]).expect("one file system"));
    (service, files)
}
