//! `bulkhead filesystem mount`: opens a pool without a server, and mounts one of its file systems in the kernel of this
//! host. After a kill of this process the mount is dead, and the pool is in the state after any crash: durable writes
//! are there.

mod arguments;
mod guest;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use control::{Failure, FailureKind, Holder, PoolLock};
use engine::Pool;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use engine::keys::KeyMaterial;
use engine::pool::CandidateState;
use fuse::{Mount, MountError, MountErrorKind};
use operations::{Context, DocumentCache, NoServer, dataset_failure};
use output::signals::{self, SignalEvent};
use rendering::Printer;
use serde_json::json;
use units::PoolName;

use crate::access::{Hold, hold};
use crate::common::Common;
use crate::open::{self, Access};
use crate::{audit, engines, managed, places};

pub use self::arguments::{EXAMPLES, MountArgs};

/// Pause between two attempts to unmount a busy file system.
const UNMOUNT_PAUSE: Duration = Duration::from_millis(200);
/// Time for the kernel's outstanding requests after a forced unmount.
const FORCED_END_WAIT: Duration = Duration::from_secs(5);

/// An event of a mount.
enum Event {
    /// A signal was received.
    SignalEvent(SignalEvent),
    /// The kernel's connection has closed.
    Ended(std::io::Result<()>),
}

impl From<SignalEvent> for Event {
    fn from(told: SignalEvent) -> Self {
        Self::SignalEvent(told)
    }
}

/// The sender and receiver of events.
type Events<'a> = (Sender<Event>, &'a Receiver<Event>);

/// Mounts, and blocks until the file system is unmounted.
pub fn run(args: &MountArgs, common: &Common, out: Printer) -> Result<(), Failure> {
    let pool = &args.pool();
    if let Some(at) = args.at() {
        fuse::check_mount_point(at).map_err(|error| mount_failure(&error))?;
    }
    if !args.devices().is_empty() {
        guest::check(args, common)?;
    }
    // During the prompt, Ctrl-C terminates the command as usual.
    let key = args.key()?;
    let (sender, events) = channel();
    let failed = Failure::of("wait for signals");
    signals::block().map_err(&failed)?;
    signals::forward(sender.clone()).map_err(&failed)?;
    let Hold::Own(lock) = hold(common, pool)? else {
        return Err(is_served(pool, args.dataset()));
    };
    if let Some(at) = args.at() {
        describe(&lock, args.dataset().as_str(), at);
    }
    let log = audit::path(common);
    audit::noted(&log, "filesystem.mount", args.dataset().as_str(), || {
        open_and_show(args, key.as_ref(), common, out, (sender, &events))
    })
}

/// Describes this command to those that need the pool.
fn describe(lock: &PoolLock, name: &str, at: &Path) {
    let at = std::path::absolute(at).unwrap_or_else(|_| at.to_owned());
    let (at, process) = (at.display(), std::process::id());
    let holder = Holder {
        command: format!("`bulkhead filesystem mount` of {name} at {at} (process {process})"),
        end: format!("unmount it with `umount {at}`, and repeat the command"),
    };
    if let Err(error) = lock.describe(&holder) {
        tracing::debug!(%error, "this mount is not described to other commands");
    }
}

fn open_and_show(
    args: &MountArgs,
    key: Option<&KeyMaterial>,
    common: &Common,
    out: Printer,
    events: Events<'_>,
) -> Result<(), Failure> {
    let (name, access) = (&args.pool(), args.access());
    let pool = match args.devices() {
        [] => open_own(args, common, name, out)?,
        _ => guest::import(args, common, out)?,
    };
    let shown = load_keys(args, key, common, &*pool).and_then(|()| match args.at() {
        Some(at) => show(args, at, &*pool, out, events),
        None => guest::list(&*pool, common, out),
    });
    let let_go = match access {
        Access::Change => open::export(pool).inspect(|()| {
            // A guest's pool is none of this host's.
            if args.devices().is_empty() {
                places::note_exported(common, name);
            }
        }),
        // Nothing was written, and its disks are released when this process exits.
        Access::ReadOnly => Ok(()),
    };
    shown.and(let_go)
}

/// Opens a pool of this host.
fn open_own(
    args: &MountArgs,
    common: &Common,
    name: &PoolName,
    out: Printer,
) -> Result<Box<dyn Pool>, Failure> {
    managed::refuse(common.maintenance, name)?;
    let candidate = places::candidate(common, name)?;
    if args.is_read_only() && candidate.state != CandidateState::Exported {
        out.progress(
            "the pool was not exported: the durable writes of its last seconds are in its intent log, and are not shown. \
             A mount without --read-only shows it.",
        );
    }
    let engine = engines::start(open::small_engine(common, name))?;
    open::import(
        &*engine,
        common,
        name,
        &args.previous_owner(),
        args.access(),
    )
}

/// Loads the given key, or all keys with a stored location. A location in a guest's pool would be a file of this host
/// that the guest chose, and is not read.
fn load_keys(
    args: &MountArgs,
    key: Option<&KeyMaterial>,
    common: &Common,
    pool: &dyn Pool,
) -> Result<(), Failure> {
    let context = Context {
        pool,
        hooks: &NoServer,
        documents: &DocumentCache::with_seals(places::seals(common)),
    };
    let is_own = args.devices().is_empty();
    if args.access() == Access::Change && is_own {
        operations::rescue_clones::clean_up(&context, &BTreeSet::new());
    }
    let Some(key) = key else {
        if is_own {
            operations::key::load_stored_keys(&context);
        }
        return Ok(());
    };
    let keys = operations::needs(pool.keys())?;
    let known = keys.key_info(args.dataset()).map_err(dataset_failure)?;
    let root = known.root.ok_or_else(|| {
        let message = format!("{} is not encrypted", args.dataset().as_str());
        Failure::usage(message).advise("give no key")
    })?;
    let loaded = keys.load_key(DatasetRef::from_checked(&root), key);
    loaded.map_err(dataset_failure)
}

/// Returns the failure of an open. The advice differs from a server's: a key is given to this command, and no other
/// process holds the pool.
fn open_failure(name: &str, error: DatasetError) -> Failure {
    let kind = error.kind.clone();
    let failure = dataset_failure(error);
    let (why, advice) = match kind {
        DatasetErrorKind::KeyMissing => (
            "its encryption key is not loaded",
            "add --prompt, or --key-stdin".to_owned(),
        ),
        DatasetErrorKind::Busy => (
            "it was received in part only",
            format!("receive the rest, or give it up: `bulkhead snapshot receive {name} --abort`"),
        ),
        _ => return failure,
    };
    Failure::new(failure.kind, format!("open {name}: {why}")).advise(advice)
}

fn show(
    args: &MountArgs,
    at: &Path,
    pool: &dyn Pool,
    out: Printer,
    (sender, events): Events<'_>,
) -> Result<(), Failure> {
    let read_only = args.access() == Access::ReadOnly;
    let opened = operations::needs(pool.files())?.open_file_system(args.dataset(), read_only);
    let name = args.dataset().as_str();
    let opened = opened.map_err(|error| open_failure(name, error))?;
    let files = opened.files();
    let how = fuse::Options {
        read_only,
        has_only_modes: !files.limits().has_acls,
    };
    let mounted = fuse::mount(name, at, how);
    let (mount, device) = mounted.map_err(|error| mount_failure(&error))?;
    let serving = serve(files, device, sender);
    let ended = serving.and_then(|()| {
        tell(&mount, name, read_only, out)?;
        wait(&mount, name, out, events)
    });
    if ended.is_err() {
        let _ = mount.force_unmount();
    }
    opened.close();
    ended
}

fn serve(
    files: Arc<dyn engine::files::FileSystem>,
    device: OwnedFd,
    events: Sender<Event>,
) -> Result<(), Failure> {
    let serving = std::thread::Builder::new().name("mount".into());
    let started = serving.spawn(move || {
        // After a forced end there is no receiver.
        let _ = events.send(Event::Ended(fuse::serve(files, device)));
    });
    started.map(drop).map_err(Failure::of("start a thread"))
}

fn tell(mount: &Mount, name: &str, read_only: bool, out: Printer) -> Result<(), Failure> {
    let at = mount.at().display().to_string();
    let document = json!({"filesystem": name, "at": at, "read_only": read_only});
    out.either(&document, || {
        let how = if read_only { ", for reading" } else { "" };
        format!("{name} is mounted at {at}{how}. Ctrl-C or `umount {at}` unmounts it.\n")
    })
}

/// Blocks until the file system is unmounted, by another process or because this process receives a signal. A second
/// signal forces the unmount. If the kernel holds the connection nevertheless, it closes when this process exits.
fn wait(mount: &Mount, name: &str, out: Printer, events: &Receiver<Event>) -> Result<(), Failure> {
    let failed = Failure::of(format!("unmount {}", mount.at().display()));
    let mut stops = 0;
    let mut until: Option<Instant> = None;
    loop {
        let event = match stops {
            0 => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            _ => events.recv_timeout(UNMOUNT_PAUSE),
        };
        match event {
            Ok(Event::Ended(ended)) => {
                return ended.map_err(Failure::of(format!("answer for {name}")));
            }
            Ok(Event::SignalEvent(SignalEvent::Reload)) => continue,
            Ok(Event::SignalEvent(SignalEvent::Stop(_))) => stops += 1,
            Err(RecvTimeoutError::Timeout) => {}
            // The signal thread is gone: handled like a signal.
            Err(RecvTimeoutError::Disconnected) => stops += 1,
        }
        if stops > 1 {
            mount.force_unmount().map_err(&failed)?;
            let until = *until.get_or_insert_with(|| Instant::now() + FORCED_END_WAIT);
            if Instant::now() >= until {
                return Ok(());
            }
        } else if !mount.unmount().map_err(&failed)? && matches!(event, Ok(Event::SignalEvent(_))) {
            let at = mount.at().display();
            out.progress(&format!(
                "{at} is in use: it is unmounted when files and directories in it are closed. Another Ctrl-C does not wait."
            ));
        }
    }
}

/// A server has the pool.
fn is_served(pool: &PoolName, what: DatasetRef<'_>) -> Failure {
    let message = format!("pool {pool} is served here: its server has its file systems");
    let name = what.as_str().split('@').next().unwrap_or_default();
    Failure::new(FailureKind::Busy, message).advise(format!(
        "mount it by NFS: share it (`bulkhead filesystem set {name} sharenfs=rw=127.0.0.1`), then `mount -t nfs -o vers=4.2 ADDRESS:/{name} DIRECTORY`"
    ))
}

fn mount_failure(error: &MountError) -> Failure {
    let at = error.at.display();
    let (kind, advice) = match &error.kind {
        MountErrorKind::NoDevice => (
            FailureKind::Unavailable,
            "`modprobe fuse` loads it; a container has to be given the device (`--device /dev/fuse --cap-add SYS_ADMIN`)".to_owned(),
        ),
        MountErrorKind::NotFound => (FailureKind::NotFound, format!("make it: `mkdir -p {at}`")),
        MountErrorKind::NotDirectory | MountErrorKind::NotEmpty => (
            FailureKind::Usage,
            "name an empty directory".to_owned(),
        ),
        MountErrorKind::InUse => (
            FailureKind::Busy,
            format!("`findmnt {at}` shows the mount; `umount {at}` unmounts it"),
        ),
        MountErrorKind::Abandoned => (FailureKind::Busy, format!("`umount {at}` unmounts it")),
        MountErrorKind::Denied => (
            FailureKind::Denied,
            "run it as root; a container needs the right to mount (`--cap-add SYS_ADMIN`)".to_owned(),
        ),
        MountErrorKind::System(_) => return Failure::from_chain(FailureKind::Failed, error),
    };
    Failure::new(kind, error.to_string()).advise(advice)
}
