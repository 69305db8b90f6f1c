//! Reports the open files, locks and activity of clients.

use ::nfs::activity::Activity;
use ::nfs::v4::{ClientUse, FileUse, LockUse, OpenUse, Usage};
use block_device::Direction;
use control::answer::{FileClientView, FileLockView, FileSystemActivity, OpenFileView, OpenFilesView, OpenView, RequestActivity};
use units::VolumeName;

/// Longest client-supplied name, in characters.
const NAME_MAX: usize = 120;
/// Bits of share access and share deny.
const READ: u32 = 1;
const WRITE: u32 = 2;

pub fn view(name: &VolumeName, usage: &Usage) -> OpenFilesView {
    OpenFilesView {
        name: name.to_string(),
        clients: usage.clients.iter().map(client).collect(),
        file_count: usage.file_count,
        files: usage.files.iter().map(file).collect(),
    }
}

pub fn activity(name: &str, done: &Activity) -> FileSystemActivity {
    FileSystemActivity {
        name: name.to_owned(),
        reads: requests(&done.reads),
        writes: requests(&done.writes),
        others: requests(&done.others),
        errors: done.failed(),
    }
}

fn requests(done: &Direction) -> RequestActivity {
    let done = done.snapshot();
    RequestActivity {
        count: done.count(),
        bytes: done.bytes,
        us: done.us,
        times: done.times.to_vec(),
    }
}

fn number(client: u64) -> String {
    format!("{client:x}")
}

/// Restricts a client-supplied name to one readable line.
fn readable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let shown = text.chars().take(NAME_MAX);
    shown
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn client(one: &ClientUse) -> FileClientView {
    FileClientView {
        client: number(one.client),
        name: readable(&one.name),
        version: one.version.to_owned(),
        address: one.address.to_canonical().to_string(),
        silent_s: one.silent_ms / 1000,
        expired: one.is_expired,
        opens: one.opens,
        locks: one.locks,
        waiting: one.waiting,
    }
}

fn file(one: &FileUse) -> OpenFileView {
    OpenFileView {
        object: one.object,
        path: one.path.clone(),
        of_snapshot: one.is_of_snapshot,
        opens: one.opens.iter().map(open).collect(),
        open_count: one.open_count,
        locks: one.locks.iter().map(lock).collect(),
        lock_count: one.lock_count,
        waiting: one.waiting.iter().map(lock).collect(),
    }
}

fn open(one: &OpenUse) -> OpenView {
    OpenView {
        client: number(one.client),
        read: one.access & READ != 0,
        write: one.access & WRITE != 0,
        denies_read: one.deny & READ != 0,
        denies_write: one.deny & WRITE != 0,
    }
}

fn lock(one: &LockUse) -> FileLockView {
    let process = one.process.as_ref();
    FileLockView {
        client: number(one.client),
        process: process.map(|(number, name)| format!("{number} of {}", readable(name))),
        offset: one.offset,
        length: one.length,
        exclusive: one.is_exclusive,
    }
}
