//! Files and block devices that this process holds, each locked against other processes.
//!
//! Two processes that write one pool destroy it, and nothing in ZFS stops them unless `multihost` is on. An exclusive
//! advisory lock (flock) prevents that on one host; it is released when the process terminates for any reason. While a
//! [`Guard`] is in force, disks are also reserved against other hosts.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use engine::pool::Previous;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;

use super::reservation::{self, Kernel, Key, Refusal, Removable};
use super::{Access, OpenFailure};
use crate::HostId;

/// The identity of a device: its file system and inode, or its device number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Identity {
    File { file_system: u64, inode: u64 },
    Disk { number: u64 },
}

/// An open, locked file or block device.
#[derive(Debug)]
pub(super) struct LockedFile {
    pub(super) fd: OwnedFd,
    pub(super) is_disk: bool,
    pub(super) access: Access,
    /// Device number of a disk.
    pub(super) disk_number: u64,
    /// Counts completed writes and discards.
    written: AtomicU64,
    /// The value of `written` when the last successful flush began.
    durable: AtomicU64,
    /// The key of its reservation.
    reserved: Mutex<Option<Key>>,
}

impl LockedFile {
    /// Reserves a disk that is written to, as the guard in force requires. Does nothing without a guard.
    fn reserve(&self) -> Result<(), OpenFailure> {
        let guard = *GUARD.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((own, removable)) = guard else {
            return Ok(());
        };
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_disk || self.access != Access::ReadWrite || reserved.is_some() {
            return Ok(());
        }
        match reservation::take(&Kernel(self.fd.as_fd()), own, removable) {
            Ok(()) => {
                *reserved = Some(own);
                Ok(())
            }
            Err(Refusal::Conflict) => Err(OpenFailure::InUse {
                by: "another head, which has reserved it".into(),
            }),
            // The disks at import were checked earlier; this one was added later.
            Err(Refusal::Unsupported) => Err(OpenFailure::System(Errno::OPNOTSUPP)),
            Err(Refusal::System(errno)) => Err(OpenFailure::System(errno)),
        }
    }

    /// Whether its descriptor bypasses the page cache.
    pub(super) fn is_direct(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.fd).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
    }

    /// Whether it can be reserved.
    fn is_reservable(&self) -> bool {
        self.is_disk && reservation::is_supported(&Kernel(self.fd.as_fd()))
    }

    /// Counts a write, after its execution and before its completion is reported: a flush that began in between would
    /// be assumed to cover it.
    pub(super) fn note_written(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a flush would be a no-op.
    pub(super) fn is_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire) == self.written.load(Ordering::Acquire)
    }

    /// Flushes all completed writes.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        let written = self.written.load(Ordering::Acquire);
        if self.durable.load(Ordering::Acquire) == written {
            return Ok(());
        }
        rustix::fs::fdatasync(&self.fd)?;
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        let reserved = self
            .reserved
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = reserved.take() {
            // A head that preempted us has removed the registration, too.
            let _ = reservation::give_back(&Kernel(self.fd.as_fd()), own);
        }
    }
}

/// How disks are reserved: the key, and the registrations that may be removed.
static GUARD: Mutex<Option<(Key, Removable)>> = Mutex::new(None);

/// Disks that are opened for writing are reserved for as long as this is in force.
#[derive(Debug)]
pub(crate) struct Guard(());

/// The guard of a pool that is being opened, with its disks.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// In force, if the disks can be reserved.
    pub(crate) guard: Option<Guard>,
    /// The disks, until the library has opened them.
    pub(crate) claims: Vec<super::Claim>,
}

/// Reserves the disks among `claims`, and those that are opened later, for the host `own`, if all of `claims` can be
/// reserved; registrations of `previous` may be removed.
pub(crate) fn guard(
    claims: Vec<super::Claim>,
    own: HostId,
    previous: Previous,
) -> Result<Guarded, (usize, OpenFailure)> {
    let can_all = !claims.is_empty() && claims.iter().all(|claim| claim.file.is_reservable());
    let mut guarded = Guarded {
        guard: None,
        claims,
    };
    if can_all {
        let own = Key::of_host(own.0);
        let removable = match previous {
            Previous::NoHost => Removable::None,
            Previous::Host(host) => Removable::One(Key::of_host(host.0)),
            Previous::AllHosts => Removable::All,
        };
        set(Some((own, removable)));
        guarded.guard = Some(Guard(()));
        for (index, claim) in guarded.claims.iter().enumerate() {
            claim.file.reserve().map_err(|failure| (index, failure))?;
        }
    }
    Ok(guarded)
}

/// Disks that are opened from now on are not reserved.
pub(crate) fn unguard() {
    set(None);
}

fn set(guard: Option<(Key, Removable)>) {
    *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = guard;
}

impl Guard {
    /// From now on, disks are reserved without a preemption.
    pub(crate) fn keep(self) {
        let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, removable)) = guard.as_mut() {
            *removable = Removable::None;
        }
        std::mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        set(None);
    }
}

/// How long a disk may be under a shared lock until it counts as in use: udev acquires one at each event, such as the
/// close of a disk that was open for writing; so does an agent that checks whether a disk is in use.
const SHARED_LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long writes of a killed process may stay in the kernel, which holds its lock until they are done. A disk that is
/// slower has failed.
const LEFTOVER_WRITES_WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause between two attempts to acquire the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// One descriptor per device: a second one of the same process would not obtain the lock. The library opens a device
/// twice when a spare is in use.
static HELD: Mutex<Option<HashMap<Identity, Weak<LockedFile>>>> = Mutex::new(None);

/// Opens and locks `path`, or shares an existing descriptor.
pub(super) fn acquire(
    path: &Path,
    access: Access,
    flags: OFlags,
) -> Result<Arc<LockedFile>, OpenFailure> {
    let found = rustix::fs::stat(path).map_err(failure)?;
    let (identity, is_disk) = identify(&found)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let held = held.get_or_insert_default();
    held.retain(|_, file| file.strong_count() != 0);
    if let Some(file) = held.get(&identity).and_then(Weak::upgrade) {
        if file.access == Access::ReadWrite || access == Access::Read {
            file.reserve()?;
            return Ok(file);
        }
        // A reader has it open, such as the examination of the pool before its import, which the library is about to
        // close.
        return Err(OpenFailure::InUse {
            by: "this process, for reading".into(),
        });
    }
    let mode = match access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite if is_disk => OFlags::RDWR | OFlags::EXCL,
        Access::ReadWrite => OFlags::RDWR,
    };
    let fd = open(path, mode | flags | OFlags::CLOEXEC, Mode::empty()).map_err(failure)?;
    let opened = fstat(&fd).map_err(failure)?;
    if identify(&opened)?.0 != identity {
        return Err(OpenFailure::System(Errno::STALE));
    }
    match lock(&fd, SHARED_LOCK_WAIT_MAX, || holder_is_gone(&fd, &opened)) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(OpenFailure::InUse {
                by: holder(&fd, &opened).unwrap_or_else(|| "another process".into()),
            });
        }
        Err(errno) => return Err(OpenFailure::System(errno)),
    }
    let file = Arc::new(LockedFile {
        fd,
        is_disk,
        access,
        disk_number: opened.st_rdev,
        // An earlier process may have left writes in the page cache that are readable but not durable yet: the first
        // flush is needed.
        written: AtomicU64::new(1),
        durable: AtomicU64::new(0),
        reserved: Mutex::default(),
    });
    file.reserve()?;
    held.insert(identity, Arc::downgrade(&file));
    Ok(file)
}

/// Locks exclusively. Tolerates shared locks as long as `patience` allows, and for pending kernel I/O of a terminated
/// process, but not for another exclusive lock.
fn lock(fd: &OwnedFd, patience: Duration, holder_is_gone: impl Fn() -> bool) -> Result<(), Errno> {
    let started = Instant::now();
    loop {
        match flock(fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {}
            decided => return decided,
        }
        let waited = started.elapsed();
        if !(waited < LEFTOVER_WRITES_WAIT_MAX && holder_is_gone()) {
            if waited >= patience {
                return Err(Errno::WOULDBLOCK);
            }
            // Granted only if all locks are shared.
            flock(fd, FlockOperation::NonBlockingLockShared)?;
            flock(fd, FlockOperation::Unlock)?;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

fn identify(stat: &rustix::fs::Stat) -> Result<(Identity, bool), OpenFailure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((
            Identity::File {
                file_system: stat.st_dev,
                inode: stat.st_ino,
            },
            false,
        )),
        FileType::BlockDevice => Ok((
            Identity::Disk {
                number: stat.st_rdev,
            },
            true,
        )),
        _ => Err(OpenFailure::NotADevice),
    }
}

/// The identity of the device at `path`; `None` if there is none.
pub(super) fn identity_of(path: &Path) -> Option<Identity> {
    let found = rustix::fs::stat(path).ok()?;
    identify(&found).ok().map(|(identity, _)| identity)
}

fn failure(errno: Errno) -> OpenFailure {
    match errno {
        Errno::NOENT | Errno::NXIO | Errno::NODEV => OpenFailure::Missing,
        // A disk that is mounted, or in use by another kernel service.
        Errno::BUSY => OpenFailure::InUse {
            by: "the operating system (mounted, or part of a RAID or volume group)".into(),
        },
        errno => OpenFailure::System(errno),
    }
}

/// The holder of the lock of the file open as `fd`: "process 123 (name)", or "the server of pool tank (process 123)".
fn holder(fd: &OwnedFd, stat: &rustix::fs::Stat) -> Option<String> {
    let pid = holder_pid(fd, stat)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(match service_in(&command) {
        Some(service) => format!("{service} (process {pid})"),
        None => format!("process {pid} ({})", name.trim()),
    })
}

/// The service of this appliance with the command line `command`, with a zero byte after each argument. A user who
/// reads its name does not take it for a process to be killed.
fn service_in(command: &[u8]) -> Option<String> {
    let mut words = command
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy);
    let program = words.next()?;
    if !Path::new(&*program)
        .file_name()?
        .to_string_lossy()
        .starts_with("bulkhead")
    {
        return None;
    }
    let service = words.find(|word| matches!(&**word, "pool-server" | "leg-server"))?;
    match (&*service, words.next()) {
        ("leg-server", _) => Some("the leg-server of this head".to_owned()),
        (_, Some(pool)) if !pool.starts_with('-') => Some(format!("the server of pool {pool}")),
        _ => Some("the server of a pool".to_owned()),
    }
}

/// Whether the process that holds the lock has terminated. A process of another PID namespace is invisible, and counts
/// as alive.
fn holder_is_gone(fd: &OwnedFd, stat: &rustix::fs::Stat) -> bool {
    holder_pid(fd, stat).is_some_and(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        // A zombie was not reaped yet.
        status.map_or(true, |status| status.contains("\nState:\tZ"))
    })
}

/// The process id of the lock's holder, from the system's table.
fn holder_pid(fd: &OwnedFd, stat: &rustix::fs::Stat) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = mounted_device(fd).unwrap_or_else(|| {
        (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        )
    });
    holder_in(&table, major, minor, stat.st_ino)
}

/// Number of the file system that `fd` is on, as in the table of locks. On Btrfs, `stat` reports a different one for
/// each subvolume.
fn mounted_device(fd: &OwnedFd) -> Option<(u32, u32)> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let mount = about
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    device_of_mount(
        &std::fs::read_to_string("/proc/self/mountinfo").ok()?,
        mount.trim(),
    )
}

/// A line is `36 35 98:0 / /mnt rw …`: its number, its parent's, and the device's in decimal.
fn device_of_mount(table: &str, mount: &str) -> Option<(u32, u32)> {
    table.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (number, _parent, device) = (fields.next()?, fields.next()?, fields.next()?);
        let (major, minor) = device.split_once(':')?;
        (number == mount).then_some(())?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

/// A line is `1: FLOCK ADVISORY WRITE 4711 fe:00:131090 0 EOF`; the device number is in hex.
fn holder_in(table: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [_, "FLOCK", _, _, pid, place, ..] if *place == wanted => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_open_in_one_process_shares_the_lock() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let one = acquire(file.path(), Access::ReadWrite, OFlags::empty()).expect("first");
        let two = acquire(file.path(), Access::Read, OFlags::empty()).expect("second");
        assert!(Arc::ptr_eq(&one, &two));
        drop((one, two));
        let again = acquire(file.path(), Access::Read, OFlags::empty()).expect("again");
        assert_eq!(again.access, Access::Read);
    }

    #[test]
    fn locked_file_is_refused_with_its_holder() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        // A separate descriptor holds its own lock, as another process would.
        flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).expect("lock");
        match acquire(file.path(), Access::ReadWrite, OFlags::empty()) {
            Err(OpenFailure::InUse { by }) => {
                assert!(by.contains(&std::process::id().to_string()), "{by}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn server_that_holds_a_disk_is_named_by_its_pool() {
        let service = |words: &[&str]| service_in((words.join("\0") + "\0").as_bytes());
        let of = |service: &str| Some(service.to_owned());
        let serve = [
            "/usr/bin/bulkhead",
            "--json",
            "pool-server",
            "tank",
            "--iscsi",
            "none",
        ];
        assert_eq!(service(&serve), of("the server of pool tank"));
        let early = ["bulkhead", "pool-server", "--iscsi", "none", "tank"];
        assert_eq!(service(&early), of("the server of a pool"));
        let lends = ["bulkhead", "leg-server"];
        assert_eq!(service(&lends), of("the leg-server of this head"));
        assert_eq!(service(&["vim", "pool-server", "tank"]), None);
        assert_eq!(service(&["bulkhead", "pool", "status"]), None);
        assert_eq!(service(&[]), None);
    }

    #[test]
    fn lock_waits_for_a_probe_of_udev() {
        const WAIT_MAX: Duration = Duration::from_secs(60);
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let look = file.reopen().expect("a descriptor of its own");
        flock(&look, FlockOperation::NonBlockingLockShared).expect("looks");
        let fd = OwnedFd::from(file.reopen().expect("another"));
        assert_eq!(lock(&fd, Duration::ZERO, || false), Err(Errno::WOULDBLOCK));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lock(&fd, WAIT_MAX, || false));
            drop(look);
            assert_eq!(waits.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn exclusive_lock_of_another_process_fails_at_once() {
        const WAIT_MAX: Duration = Duration::from_secs(600);
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).expect("lock");
        let fd = OwnedFd::from(file.reopen().expect("a descriptor of its own"));
        let started = Instant::now();
        assert_eq!(lock(&fd, WAIT_MAX, || false), Err(Errno::WOULDBLOCK));
        assert!(started.elapsed() < WAIT_MAX / 2);
    }

    #[test]
    fn lock_waits_for_writes_of_a_killed_process() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let remains = file.reopen().expect("a descriptor of its own");
        let given = remains.try_clone().expect("the same one");
        // Locks the descriptor that it inherits, and exits.
        let ended = std::process::Command::new("flock")
            .args(["--exclusive", "--nonblock", "0"])
            .stdin(given)
            .status();
        assert!(ended.expect("flock of util-linux").success());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| acquire(file.path(), Access::ReadWrite, OFlags::empty()));
            std::thread::sleep(10 * LOCK_PAUSE);
            assert!(!waits.is_finished());
            drop(remains);
            waits.join().expect("no panic").expect("locked");
        });
    }

    #[test]
    fn holder_is_read_from_proc_locks() {
        let table = "1: POSIX  ADVISORY  WRITE 1 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:00:7 0 EOF\n";
        assert_eq!(holder_in(table, 0xfe, 0, 7), Some(4711));
        assert_eq!(holder_in(table, 0xfe, 1, 7), None);
    }

    #[test]
    fn device_of_a_mount_is_read_from_mountinfo() {
        let table = "30 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                     31 30 0:51 / /srv rw shared:7 - btrfs /dev/vdb rw\n";
        assert_eq!(device_of_mount(table, "31"), Some((0, 51)));
        assert_eq!(device_of_mount(table, "3"), None);
    }

    #[test]
    fn directory_is_not_a_device() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let result = acquire(folder.path(), Access::ReadWrite, OFlags::empty());
        assert!(matches!(result, Err(OpenFailure::NotADevice)));
    }
}
