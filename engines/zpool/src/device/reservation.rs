//! Persistent reservations on disks (SPC-4, 5.13; NVM Express base specification, 8.19): the disk itself refuses the
//! writes of a head that lost the pool, even if that head does not know it.
//!
//! Each head registers its own key and holds, or shares, the reservation *write exclusive, registrants only*. A head
//! that imports a pool removes the registration of the previous owner, with proof that it has stopped; from then on
//! the disk rejects its writes with RESERVATION CONFLICT. The kernel translates the requests (`linux/pr.h`): SCSI,
//! NVMe, and all paths of a multipath device at once.

use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// The key that a head registers: never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

/// Upper half of all keys of this project, "BULK".
const KEY_PREFIX: u64 = 0x4255_4c4b;

impl Key {
    /// The key of the host with that host id.
    pub(super) const fn of_host(host_id: NonZeroU32) -> Self {
        Self(KEY_PREFIX << 32 | host_id.get() as u64)
    }
}

/// The registrations that may be removed to acquire a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removable {
    /// Nobody's.
    None,
    /// The registration of the host with this key, which is proven to have stopped.
    One(Key),
    /// All registrations: an administrator has confirmed that their hosts have stopped.
    All,
}

/// Why a disk could not be acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not support persistent reservations.
    Unsupported,
    /// Another head holds it.
    Conflict,
    /// The system refused.
    System(Errno),
}

/// One request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Registers the key, replacing an existing registration.
    Register(Key),
    /// Removes the registered key and the reservation that it holds.
    Unregister(Key),
    /// Reserves with the registered key.
    Reserve(Key),
    /// Removes all registrations of the key `old`, aborts its commands, and acquires its reservation.
    Preempt {
        /// The key to preempt.
        old: Key,
        /// Ours.
        new: Key,
    },
    /// Removes all registrations and reservations.
    Clear(Key),
    /// Releases a key that is not registered: it changes nothing, and shows whether the disk supports reservations.
    Probe,
}

/// A disk that accepts reservation requests.
pub(super) trait Registrar {
    /// Executes one request.
    fn request(&self, request: Request) -> Result<(), Refusal>;
}

/// Whether the disk supports persistent reservations. A partition has none of its own: the kernel refuses the request
/// there, even from root.
pub(super) fn is_supported(disk: &impl Registrar) -> bool {
    !matches!(
        disk.request(Request::Probe),
        Err(Refusal::Unsupported | Refusal::System(Errno::PERM))
    )
}

/// Whether the block device at `path` supports persistent reservations; the device is not changed. `None` if it is no
/// block device or cannot be opened.
pub fn supports_reservations(path: &Path) -> Option<bool> {
    let disk = labels::open_disk(path, OFlags::RDONLY).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&disk).ok()?.st_mode);
    (kind == FileType::BlockDevice).then(|| is_supported(&Kernel(disk.as_fd())))
}

/// Acquires the disk for the head with the key `own`. On failure no registration of ours remains there.
///
/// Only a registered initiator can reserve a disk, and every registered initiator can write. So there is an interval in
/// which this head can write without holding the disk, and it persists if the head dies in it. It is not used: the
/// caller has the disk's lock, which an earlier process of this head holds until the last of its requests is done, and
/// writes only after this has succeeded.
pub(super) fn take(disk: &impl Registrar, own: Key, removable: Removable) -> Result<(), Refusal> {
    disk.request(Request::Register(own))?;
    let taken = reserve(disk, own, removable);
    if taken.is_err() {
        let _ = disk.request(Request::Unregister(own));
    }
    taken
}

fn reserve(disk: &impl Registrar, own: Key, removable: Removable) -> Result<(), Refusal> {
    let reserved = disk.request(Request::Reserve(own));
    match removable {
        Removable::One(old) if old != own => match disk.request(Request::Preempt { old, new: own })
        {
            Ok(()) => Ok(()),
            // It was not registered: the result of the reservation decides whether the disk is ours.
            Err(Refusal::Conflict) => reserved,
            Err(refusal) => Err(refusal),
        },
        Removable::All if reserved == Err(Refusal::Conflict) => {
            disk.request(Request::Clear(own))?;
            disk.request(Request::Register(own))?;
            disk.request(Request::Reserve(own))
        }
        Removable::None | Removable::One(_) | Removable::All => reserved,
    }
}

/// Releases the disk.
pub(super) fn give_back(disk: &impl Registrar, own: Key) -> Result<(), Refusal> {
    disk.request(Request::Unregister(own))
}

/// The kernel's interface (`linux/pr.h`).
pub(super) struct Kernel<'a>(pub(super) BorrowedFd<'a>);

/// `struct pr_reservation`
#[repr(C)]
struct Reservation {
    key: u64,
    kind: u32,
    flags: u32,
}

/// `struct pr_registration`
#[repr(C)]
struct Registration {
    old_key: u64,
    new_key: u64,
    flags: u32,
    padding: u32,
}

/// `struct pr_preempt`. Its first key is sent as the key of the requester, the second as the one to preempt (SPC-4,
/// 5.13.11.2; CRKEY and PRKEY of NVM Express), whatever their names `old_key` and `new_key` suggest.
#[repr(C)]
struct Preemption {
    own_key: u64,
    preempted_key: u64,
    kind: u32,
    flags: u32,
}

/// `struct pr_clear`
#[repr(C)]
struct Clearing {
    key: u64,
    flags: u32,
    padding: u32,
}

/// `PR_FL_IGNORE_KEY`
const IGNORE_KEY: u32 = 1;
/// `PR_WRITE_EXCLUSIVE_REG_ONLY`
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u32 = 3;
/// The result of a request: the disk's status in the lowest byte, and above it flags of the kernel, which differ
/// between versions (Linux 6.1 adds `DID_NEXUS_FAILURE` to a conflict, later ones do not).
const STATUS: i32 = 0xff;
/// The status RESERVATION CONFLICT of SCSI (SAM-5), and of NVMe where the kernel passes it on.
const CONFLICTS: [i32; 2] = [0x18, 0x83];
/// Statuses for an unknown command: CHECK CONDITION of SCSI, *invalid opcode* and *invalid field* of NVMe.
const UNKNOWN: [i32; 2] = [0x01, 0x02];
/// After many kinds of event, a disk replies to its first command only with a unit attention.
const ATTEMPTS_MAX: u32 = 4;

/// A request of `linux/pr.h`: it reads its argument and writes no memory. Its result is the disk's status.
struct Call<T> {
    opcode: Opcode,
    argument: T,
}

// SAFETY: `linux/pr.h` defines that these requests read the structure that is passed, with the layout above, and write
// no memory.
unsafe impl<T> Ioctl for Call<T> {
    type Output = i32;
    const IS_MUTATING: bool = false;
    fn opcode(&self) -> Opcode {
        self.opcode
    }
    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        (&raw mut self.argument).cast()
    }
    unsafe fn output_from_ptr(
        answer: IoctlOutput,
        _argument: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<i32> {
        Ok(answer)
    }
}

impl Kernel<'_> {
    fn call<T>(&self, number: u8, argument: T) -> Result<i32, Errno> {
        let call = Call {
            opcode: opcode::write::<T>(b'p', number),
            argument,
        };
        // SAFETY: `Call` is made for the requests of `linux/pr.h`, of which this is one, and `T`
        // is its structure.
        unsafe { ioctl(self.0.as_fd(), call) }
    }

    fn once(&self, request: Request) -> Result<i32, Errno> {
        let register = |old_key, new_key, flags| {
            let argument = Registration {
                old_key,
                new_key,
                flags,
                padding: 0,
            };
            self.call(200, argument)
        };
        let reservation = |number, Key(key)| {
            let argument = Reservation {
                key,
                kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
                flags: 0,
            };
            self.call(number, argument)
        };
        match request {
            Request::Register(Key(key)) => register(0, key, IGNORE_KEY),
            Request::Unregister(Key(key)) => register(key, 0, 0),
            Request::Reserve(key) => reservation(201, key),
            Request::Probe => reservation(202, Key(KEY_PREFIX << 32)),
            Request::Preempt { old, new } => {
                let argument = Preemption {
                    own_key: new.0,
                    preempted_key: old.0,
                    kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
                    flags: 0,
                };
                self.call(204, argument)
            }
            Request::Clear(Key(key)) => {
                let argument = Clearing {
                    key,
                    flags: 0,
                    padding: 0,
                };
                self.call(205, argument)
            }
        }
    }
}

impl Registrar for Kernel<'_> {
    fn request(&self, request: Request) -> Result<(), Refusal> {
        let mut answer = self.once(request);
        for _ in 1..ATTEMPTS_MAX {
            match answer {
                Ok(status) if status != 0 && !CONFLICTS.contains(&(status & STATUS)) => {}
                _ => break,
            }
            answer = self.once(request);
        }
        judge(answer)
    }
}

fn judge(answer: Result<i32, Errno>) -> Result<(), Refusal> {
    match answer {
        Ok(0) => Ok(()),
        Ok(status) if CONFLICTS.contains(&(status & STATUS)) => Err(Refusal::Conflict),
        Err(Errno::BADE) => Err(Refusal::Conflict),
        Ok(status) if UNKNOWN.contains(&(status & STATUS)) => Err(Refusal::Unsupported),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => {
            Err(Refusal::Unsupported)
        }
        // No path leads to the disk, or it is busy for long.
        Ok(_) => Err(Refusal::System(Errno::IO)),
        Err(errno) => Err(Refusal::System(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// A model of a disk after SPC-4, as far as it is used here, and the registrations of each initiator.
    #[derive(Default)]
    struct Disk {
        /// By initiator.
        registered: Vec<(usize, Key)>,
        /// The key that holds the reservation.
        holder: Option<Key>,
    }

    /// One initiator's path to the disk.
    struct Path(usize, Rc<RefCell<Disk>>);

    impl Path {
        fn may_write(&self) -> bool {
            let disk = self.1.borrow();
            disk.holder.is_none() || disk.registered.iter().any(|(who, _)| *who == self.0)
        }
    }

    impl Registrar for Path {
        fn request(&self, request: Request) -> Result<(), Refusal> {
            let mut disk = self.1.borrow_mut();
            let own = disk.registered.iter().find(|(who, _)| *who == self.0);
            let own = own.map(|(_, key)| *key);
            let needs = |key| match own == Some(key) {
                true => Ok(()),
                false => Err(Refusal::Conflict),
            };
            match request {
                Request::Register(key) => {
                    disk.registered.retain(|(who, _)| *who != self.0);
                    disk.registered.push((self.0, key));
                    if own.is_some() && disk.holder == own {
                        disk.holder = Some(key);
                    }
                }
                Request::Unregister(key) => {
                    needs(key)?;
                    disk.registered.retain(|(who, _)| *who != self.0);
                    disk.holder = disk.holder.filter(|holder| *holder != key);
                }
                Request::Reserve(key) => {
                    needs(key)?;
                    match disk.holder {
                        Some(holder) if holder != key => return Err(Refusal::Conflict),
                        _ => disk.holder = Some(key),
                    }
                }
                Request::Preempt { old, new } => {
                    needs(new)?;
                    if !disk.registered.iter().any(|(_, key)| *key == old) {
                        return Err(Refusal::Conflict);
                    }
                    disk.registered.retain(|(_, key)| *key != old);
                    if disk.holder == Some(old) {
                        disk.holder = Some(new);
                    }
                }
                Request::Clear(key) => {
                    needs(key)?;
                    *disk = Disk::default();
                }
                Request::Probe => return Err(Refusal::Conflict),
            }
            Ok(())
        }
    }

    fn key(number: u32) -> Key {
        Key::of_host(NonZeroU32::new(number).expect("not zero"))
    }

    fn paths() -> [Path; 3] {
        let disk = Rc::default();
        [0, 1, 2].map(|who| Path(who, Rc::clone(&disk)))
    }

    #[test]
    fn fenced_owner_cannot_write_after_it_resumes() {
        let [old, new, _] = paths();
        take(&old, key(1), Removable::None).expect("free");
        take(&new, key(2), Removable::One(key(1))).expect("proven");
        assert!(new.may_write() && !old.may_write());
        // Its release on exit changes nothing.
        assert_eq!(give_back(&old, key(1)), Err(Refusal::Conflict));
        assert!(new.may_write() && !old.may_write());
    }

    #[test]
    fn live_owner_keeps_reservation_without_proof() {
        let [old, new, _] = paths();
        take(&old, key(1), Removable::None).expect("free");
        assert_eq!(take(&new, key(2), Removable::None), Err(Refusal::Conflict));
        // A proof about one host proves nothing about another.
        let wrong = Removable::One(key(3));
        assert_eq!(take(&new, key(2), wrong), Err(Refusal::Conflict));
        assert!(old.may_write() && !new.may_write());
        assert_eq!(old.1.borrow().registered.len(), 1);
    }

    #[test]
    fn host_reacquires_its_own_reservation_after_a_crash() {
        let [own, _, _] = paths();
        take(&own, key(1), Removable::None).expect("free");
        take(&own, key(1), Removable::None).expect("its own");
        give_back(&own, key(1)).expect("registered");
        assert_eq!(own.1.borrow().holder, None);
    }

    #[test]
    fn registration_without_reservation_is_preempted_too() {
        let [old, new, _] = paths();
        old.request(Request::Register(key(1))).expect("registers");
        take(&new, key(2), Removable::One(key(1))).expect("free");
        assert!(new.may_write() && !old.may_write());
    }

    /// A head that acquires the disk while a second one does the same, and that may die in between.
    struct Interrupted<'a> {
        path: &'a Path,
        /// Number of its requests.
        made: RefCell<usize>,
        /// The request before which the other head acquires the disk.
        other_at: usize,
        other: Box<dyn Fn() + 'a>,
        /// The request before which it dies.
        dies_at: usize,
    }

    impl Registrar for Interrupted<'_> {
        fn request(&self, request: Request) -> Result<(), Refusal> {
            let number = self.made.replace_with(|made| *made + 1);
            if number == self.other_at {
                (self.other)();
            }
            if number >= self.dies_at {
                return Err(Refusal::System(Errno::SRCH));
            }
            self.path.request(request)
        }
    }

    /// More requests than a head needs to acquire a disk.
    const REQUESTS_MAX: usize = 7;

    /// One head acquires a disk that is free, its own, the other head's or a stranger's; the other head acquires it
    /// halfway, with proof that the first one has died.
    fn race(owner: Option<usize>, removable: Removable, other_at: usize, dies_at: usize) {
        let [one, two, stranger] = paths();
        if let Some(owner) = owner {
            let path = [&one, &two, &stranger][owner];
            take(path, key(owner as u32 + 1), Removable::None).expect("free");
        }
        let two_has = RefCell::new(false);
        let interrupted = Interrupted {
            path: &one,
            made: RefCell::default(),
            other_at,
            other: Box::new(|| {
                *two_has.borrow_mut() = take(&two, key(2), Removable::One(key(1))).is_ok();
            }),
            dies_at,
        };
        let taken = take(&interrupted, key(1), removable);
        let has_died = *interrupted.made.borrow() > dies_at;
        let one_has = taken.is_ok();
        drop(interrupted);
        let case = format!("{owner:?} {removable:?} {other_at} {dies_at}: {taken:?}");
        assert!(!has_died || !one_has, "{case}");
        let can_both = one_has && *two_has.borrow() && one.may_write() && two.may_write();
        assert!(!can_both, "{case}");
        // A head with proof of that death removes any remaining registration.
        if has_died && take(&two, key(2), Removable::One(key(1))).is_ok() {
            assert!(two.may_write() && !one.may_write(), "{case}");
        } else if !has_died && !one_has && owner != Some(0) {
            let left = one.1.borrow().registered.iter().any(|(who, _)| *who == 0);
            assert!(!left, "{case}");
        }
    }

    #[test]
    fn racing_or_crashing_heads_never_both_hold_a_disk() {
        for owner in [None, Some(0), Some(1), Some(2)] {
            for removable in [Removable::None, Removable::One(key(2)), Removable::All] {
                for other_at in 0..=REQUESTS_MAX {
                    for dies_at in 0..=REQUESTS_MAX {
                        race(owner, removable, other_at, dies_at);
                    }
                }
            }
        }
    }

    #[test]
    fn administrator_confirmation_preempts_an_unknown_key() {
        let [stranger, _, new] = paths();
        take(&stranger, key(7), Removable::None).expect("free");
        take(&new, key(2), Removable::All).expect("vouched for");
        assert!(new.may_write() && !stranger.may_write());
    }

    #[test]
    fn kernel_errors_map_to_distinct_refusals() {
        assert_eq!(judge(Ok(0)), Ok(()));
        let of_linux_6_1 = Ok(0x11_0018);
        for answer in [
            Ok(0x18),
            Ok(0x83),
            of_linux_6_1,
            Ok(0x4083),
            Err(Errno::BADE),
        ] {
            assert_eq!(judge(answer), Err(Refusal::Conflict), "{answer:?}");
        }
        let of_linux_5_10 = Ok(0x0800_0002);
        for answer in [
            Ok(2),
            of_linux_5_10,
            Err(Errno::OPNOTSUPP),
            Err(Errno::NOTTY),
        ] {
            assert_eq!(judge(answer), Err(Refusal::Unsupported), "{answer:?}");
        }
        let no_way = Ok(0x1_0000);
        assert_eq!(judge(no_way), Err(Refusal::System(Errno::IO)));
        assert_eq!(judge(Err(Errno::PERM)), Err(Refusal::System(Errno::PERM)));
    }

    #[test]
    fn partition_does_not_support_reservations() {
        struct Partition;
        impl Registrar for Partition {
            fn request(&self, _request: Request) -> Result<(), Refusal> {
                judge(Err(Errno::PERM))
            }
        }
        assert!(!is_supported(&Partition));
    }

    #[test]
    fn reservation_support_is_known_of_block_devices_only() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for path in [
            file.path(),
            std::path::Path::new("/nowhere"),
            std::path::Path::new("/dev/null"),
        ] {
            assert_eq!(supports_reservations(path), None, "{}", path.display());
        }
    }

    #[test]
    fn file_does_not_support_reservations() {
        let file = tempfile::tempfile().expect("a file");
        assert!(!is_supported(&Kernel(file.as_fd())));
    }
}
