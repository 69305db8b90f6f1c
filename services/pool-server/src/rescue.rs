//! Rescues: access to a volume or a snapshot on a local NBD socket, in addition to the exports. A rescue of the volume
//! itself is exclusive. A temporary clone is recorded in the pool before it is created, so that the next start removes
//! the clone of a killed server.
//!
//! * *Why in the pool's server*: the pool is open in one process, and only that process can exclude initiators from an
//!   exported volume. Without a server, the command line starts one that serves only the rescue.
//! * *A unit under rescue is not ready; it is not unmapped.* Unmapping would change the stored exports, and some
//!   initiators forget a disk that vanishes. An NBD export vanishes, because NBD has no "not ready".
//! * *The server detects the end*, because a killed process cannot report it: the command line holds a lock (flock),
//!   and its release for any reason ends the rescue.
//! * *NBD, not a file*: a FUSE file system would be one more protocol in this process. `nbdfuse` exposes the socket as
//!   a file in a process of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::{BlockDevice, Extent, SharedDevice, WaitMode};
use control::answer::Done;
use control::operations::snapshot::rename::Rename;
use control::operations::volume::rescue::begin::Begin;
use control::operations::volume::rescue::end::End;
use control::request::{
    FilesystemRequest, KeyRequest, Request, RescueRequest, SnapshotRequest, VolumeRequest,
};
use control::rescue::RescueView;
use control::{Answer, Failure, FailureKind, PoolLock};
use engine::Volume;
use engine::dataset::DatasetErrorKind;
use engine::volume::OpenOptions;
use nbd::{Access, DesiredExport, Farewell, NbdServer, ServerLimits};
use operations::documents::no_volume;
use operations::in_use::Used;
use operations::{Context, dataset_failure, refuse_locked, rescue_clones};
use serving::ListenAddress;
use units::{PoolName, SnapshotName, VolumeName};

use super::core::Core;
use super::lazy::LOGICAL_BLOCK;
use super::rescue_commands::{commands, described};
use super::serving::listen_failure;

/// Concurrent rescues.
const RESCUES_MAX: usize = 16;
/// Threads of each rescue for blocking operations.
const WORKERS_MAX: usize = 4;
/// Time that a client of a rescue has to disconnect at its end.
const DISCONNECT_WAIT: Duration = Duration::from_secs(2);

/// The rescues of a pool.
pub struct Rescues {
    directory: PathBuf,
    all: Mutex<BTreeMap<VolumeName, Rescue>>,
}

struct Rescue {
    begin: Begin,
    /// `None` during start and end.
    open: Option<Open>,
}

/// The open resources of a rescue.
struct Open {
    view: RescueView,
    server: NbdServer,
    device: SharedDevice,
    /// A snapshot or clone that only this rescue has open.
    volume: Option<Arc<dyn Volume>>,
}

impl Rescues {
    /// Creates an empty set; the sockets of `pool` are created below `run_dir`.
    pub fn new(run_dir: &Path, pool: &PoolName) -> Self {
        Self {
            directory: run_dir.join(format!("{pool}.rescue")),
            all: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeName, Rescue>> {
        self.all.lock().expect("no holder panics")
    }

    /// The volumes that only a rescue may use.
    pub fn exclusive(&self) -> BTreeSet<VolumeName> {
        let all = self.lock();
        let exclusive = all
            .values()
            .filter(|rescue| rescue.begin.snapshot.is_none());
        exclusive
            .map(|rescue| rescue.begin.volume.clone())
            .collect()
    }

    /// Whether a rescue has this snapshot open.
    fn has_snapshot(&self, name: &SnapshotName) -> bool {
        let all = self.lock();
        all.values()
            .any(|rescue| rescue.begin.snapshot.as_ref() == Some(name))
    }

    /// Pairs of a volume that must not change and the rescued volume that requires it. A volume with a rescued snapshot
    /// only has to keep its name: it is included only if `is_gone`.
    fn held(&self, is_gone: bool) -> Vec<(VolumeName, VolumeName)> {
        let all = self.lock();
        let mut held = Vec::new();
        for Rescue { begin, open } in all.values() {
            if is_gone || begin.snapshot.is_none() {
                held.push((begin.volume.clone(), begin.volume.clone()));
            }
            let clone = open.as_ref().and_then(|open| open.view.clone.clone());
            held.extend(clone.map(|clone| (clone, begin.volume.clone())));
        }
        held
    }

    fn views(&self) -> Vec<RescueView> {
        let all = self.lock();
        let open = all.values().filter_map(|rescue| rescue.open.as_ref());
        open.map(|open| open.view.clone()).collect()
    }

    /// Removes the sockets of a killed server. Must precede the first rescue.
    pub fn forget_sockets(&self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// A path for a socket, in a directory that only its owner may access.
    fn socket(&self, hex: &str) -> std::io::Result<PathBuf> {
        let mut directory = std::fs::DirBuilder::new();
        directory
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        Ok(self.directory.join(format!("{hex}.sock")))
    }

    /// Acquires the lock of a lease if it is free. Only its file name counts: it is stored in the run directory.
    fn take_lease(&self, lease: &Path) -> std::io::Result<Option<PoolLock>> {
        let name = lease.file_name().unwrap_or_default();
        PoolLock::try_take(&self.directory.with_file_name(name))
    }

    /// The volumes with a rescue lock that is released.
    fn abandoned(&self) -> Vec<VolumeName> {
        let all = self.lock();
        let open = all.values().filter(|rescue| rescue.open.is_some());
        let abandoned = open.filter(|rescue| {
            let lease = rescue.begin.lease.as_deref();
            lease.is_some_and(|lease| matches!(self.take_lease(lease), Ok(Some(_))))
        });
        abandoned
            .map(|rescue| rescue.begin.volume.clone())
            .collect()
    }
}

impl Core {
    /// Performs a request about rescues.
    pub fn rescue(&self, request: RescueRequest) -> Result<Answer, Failure> {
        match request {
            RescueRequest::List => Ok(Answer::Rescues(self.serving.rescues.views())),
            RescueRequest::Begin(begin) => {
                let _changing = self.changing()?;
                self.begin_rescue(&begin)
            }
            RescueRequest::End(End { volume }) => {
                let _changing = self.changing()?;
                match self.end_rescue(&volume)? {
                    true => Ok(Done::changed(format!("the rescue of {volume} has ended"))),
                    false => Ok(Done::already(format!("{volume} is not being rescued"))),
                }
            }
        }
    }

    /// Refuses a request that would change or remove an exclusively rescued volume, or remove the name under which a
    /// rescue's clone is recorded; also one that would change, move or close a frozen volume.
    pub fn refuse_if_held(&self, request: &Request) -> Result<(), Failure> {
        let request = match request {
            Request::Volume(request) => request,
            Request::Key(KeyRequest::Unload(unload)) => return self.refuse_frozen(&unload.name),
            Request::Filesystem(FilesystemRequest::Destroy(destroy)) => {
                return self.refuse_rescued_below(&destroy.name, true);
            }
            Request::Filesystem(FilesystemRequest::Rename(rename)) => {
                return self.refuse_rescued_below(&rename.from, true);
            }
            Request::Snapshot(SnapshotRequest::Rename(Rename { from, .. }))
                if self.serving.rescues.has_snapshot(from) =>
            {
                return Err(is_rescued(from.as_str(), &from.volume()));
            }
            _ => return Ok(()),
        };
        let to_volume;
        let name = match request {
            VolumeRequest::Destroy(destroy) => &destroy.name,
            VolumeRequest::Resize(resize) => &resize.name,
            VolumeRequest::Rename(rename) => &rename.from,
            VolumeRequest::Rollback(rollback) => {
                to_volume = rollback.to.volume();
                &to_volume
            }
            _ => return Ok(()),
        };
        let is_gone = matches!(
            request,
            VolumeRequest::Destroy(_) | VolumeRequest::Rename(_)
        );
        self.refuse_rescued_below(name, is_gone)
    }

    /// Refuses if a rescue has a volume open at or below `name`, or, if `is_gone`, depends on a name there.
    fn refuse_rescued_below(&self, name: &VolumeName, is_gone: bool) -> Result<(), Failure> {
        self.refuse_frozen(name)?;
        let below = format!("{name}/");
        let held = self.serving.rescues.held(is_gone).into_iter();
        let mut held = held.filter(|(one, _)| one == name || one.as_str().starts_with(&below));
        match held.next() {
            None => Ok(()),
            Some((held, rescued)) => Err(is_rescued(held.as_str(), &rescued)),
        }
    }

    fn begin_rescue(&self, begin: &Begin) -> Result<Answer, Failure> {
        let volume = &begin.volume;
        self.check_rescue(begin)?;
        {
            let mut all = self.serving.rescues.lock();
            if all.contains_key(volume) {
                let message = format!("{volume} is being rescued already");
                return Err(Failure::new(FailureKind::Exists, message).advise(format!(
                    "`bulkhead volume rescue --end {volume}` terminates it"
                )));
            }
            if all.len() >= RESCUES_MAX {
                let message = format!("{RESCUES_MAX} volumes are being rescued already");
                return Err(Failure::new(FailureKind::Busy, message));
            }
            let rescue = Rescue {
                begin: begin.clone(),
                open: None,
            };
            all.insert(volume.clone(), rescue);
        }
        match self.open_rescue(begin) {
            Ok(open) => {
                let view = open.view.clone();
                tracing::info!(%volume, socket = %view.socket.display(), "a rescue begins");
                if let Some(rescue) = self.serving.rescues.lock().get_mut(volume) {
                    rescue.open = Some(open);
                }
                Ok(Answer::Rescue(Box::new(view)))
            }
            Err(failure) => {
                self.release(volume);
                Err(failure)
            }
        }
    }

    /// Performs the checks that need no change.
    fn check_rescue(&self, begin: &Begin) -> Result<(), Failure> {
        let volume = &begin.volume;
        if begin.allow_label_changes && !begin.writable {
            let message = "a rescue that refuses writes cannot change labels";
            return Err(Failure::usage(message).advise(match &begin.snapshot {
                Some(_) => {
                    "add --writable: labels are changed on a clone that is discarded at the end"
                }
                None => "omit --allow-label-changes, or --read-only",
            }));
        }
        let pool = self.pool.require()?;
        let info = pool
            .dataset(volume.into())
            .map_err(|error| match error.kind {
                DatasetErrorKind::NotFound => no_volume(volume),
                _ => dataset_failure(error),
            })?;
        let Some(shape) = info.volume else {
            return Err(Failure::usage(format!("{volume} is not a volume")));
        };
        refuse_locked(volume, shape)?;
        match &begin.snapshot {
            Some(snapshot) => {
                if snapshot.volume() != *volume {
                    let message = format!("{snapshot} is no snapshot of {volume}");
                    return Err(Failure::usage(message));
                }
                pool.dataset(snapshot.into()).map_err(dataset_failure)?;
                Ok(())
            }
            None => self.refuse_used(volume),
        }
    }

    fn refuse_used(&self, volume: &VolumeName) -> Result<(), Failure> {
        let users = self.serving.users_of(&Used::Volume(volume));
        let Some(first) = users.first() else {
            return Ok(());
        };
        let message = format!("{volume} is in use: {} client(s), {first}", users.len());
        Err(Failure::new(FailureKind::Busy, message).advise(
            "shut the virtual machine down and log its initiator out; or look at a snapshot, which \
             disturbs nobody",
        ))
    }

    fn open_rescue(&self, begin: &Begin) -> Result<Open, Failure> {
        let pool = self.pool.require()?;
        let options = OpenOptions {
            read_only: !begin.writable,
            logical_block: LOGICAL_BLOCK,
        };
        let hex = random_hex()?;
        let (device, volume, clone) = match &begin.snapshot {
            None => {
                // Serving again without it blocks new sessions. Clients that connected before win.
                self.serving.reconcile()?;
                self.refuse_used(&begin.volume)?;
                let device = self.serving.volumes.device(&begin.volume);
                self.serving.volumes.open(&begin.volume)?;
                (device as SharedDevice, None, None)
            }
            Some(snapshot) if !begin.writable => {
                let opened = pool.open_snapshot(snapshot, options);
                let volume = opened.map_err(dataset_failure)?;
                (Arc::clone(&volume).device(), Some(volume), None)
            }
            Some(snapshot) => {
                let clone =
                    self.in_pool(|context| rescue_clones::make(context, snapshot, &hex))??;
                match pool.open_volume(&clone, options) {
                    Ok(volume) => {
                        let device = Arc::clone(&volume).device();
                        (device, Some(volume), Some(clone))
                    }
                    Err(error) => {
                        self.remove_clone(&clone);
                        return Err(dataset_failure(error));
                    }
                }
            }
        };
        let shown = self.show(begin, &device, clone.clone(), &hex);
        match shown {
            Ok((view, server)) => Ok(Open {
                view,
                server,
                device,
                volume,
            }),
            Err(failure) => {
                if let Some(volume) = volume {
                    volume.close();
                }
                if let Some(clone) = clone {
                    self.remove_clone(&clone);
                }
                Err(failure)
            }
        }
    }

    /// Exports `device` on a socket of its own.
    fn show(
        &self,
        begin: &Begin,
        device: &SharedDevice,
        clone: Option<VolumeName>,
        hex: &str,
    ) -> Result<(RescueView, NbdServer), Failure> {
        let failed = Failure::of("make a socket");
        let socket = self.serving.rescues.socket(hex).map_err(&failed)?;
        let server = NbdServer::new(ServerLimits {
            workers_max: WORKERS_MAX,
            ..ServerLimits::default()
        });
        let export = DesiredExport {
            name: String::new(),
            description: begin
                .snapshot
                .as_ref()
                .map_or(begin.volume.to_string(), ToString::to_string),
            device: Arc::clone(device),
            read_only: !begin.writable,
            access: Access::Local,
            hidden: false,
        };
        let desired = nbd::DesiredState {
            listeners: vec![ListenAddress::Unix(socket.clone())],
            tls: None,
            exports: vec![export],
        };
        server.apply(desired).map_err(|error| match &error {
            nbd::ApplyError::Listen(listen) => listen_failure(listen),
            _ => Failure::from_chain(FailureKind::Failed, &error),
        })?;
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&socket, owner_only).map_err(&failed)?;
        let size = device.geometry().size;
        let disk = guest_disk::scan(&|at, length| read(&**device, at, length), size);
        let mut view = RescueView {
            volume: begin.volume.clone(),
            snapshot: begin.snapshot.clone(),
            clone,
            read_only: !begin.writable,
            allow_label_changes: begin.allow_label_changes,
            uri: format!("nbd+unix:///?socket={}", socket.display()),
            socket,
            size,
            partition_table: disk.table.name().to_owned(),
            partitions: disk.partitions.iter().map(described).collect(),
            commands: Vec::new(),
        };
        view.commands = commands(&view, &disk);
        Ok((view, server))
    }

    /// Terminates a rescue; `false` if there is none.
    pub fn end_rescue(&self, volume: &VolumeName) -> Result<bool, Failure> {
        let open = match self.serving.rescues.lock().get_mut(volume) {
            None => return Ok(false),
            Some(rescue) => rescue.open.take(),
        };
        let Some(open) = open else {
            let message = format!("the rescue of {volume} is starting or terminating");
            return Err(Failure::new(FailureKind::Busy, message).advise("try again in a second"));
        };
        open.server
            .drain(Instant::now() + DISCONNECT_WAIT, Farewell::Shutdown);
        drop(open.server);
        let _ = std::fs::remove_file(&open.view.socket);
        let flushed = open.device.flush();
        drop(open.device);
        if let Some(opened) = open.volume {
            opened.close();
        }
        if let Some(clone) = &open.view.clone {
            self.remove_clone(clone);
        }
        self.release(volume);
        tracing::info!(%volume, "a rescue has ended");
        flushed
            .map(|()| true)
            .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))
    }

    /// Returns the volume to the exports.
    fn release(&self, volume: &VolumeName) {
        let rescue = self.serving.rescues.lock().remove(volume);
        let was_exclusive = rescue.is_some_and(|rescue| rescue.begin.snapshot.is_none());
        if was_exclusive {
            if let Err(failure) = self.serving.reconcile() {
                tracing::error!(%volume, %failure, "serve the volume again after its rescue");
            }
        }
    }

    /// Terminates all rescues at shutdown.
    pub fn end_rescues(&self) {
        for view in self.serving.rescues.views() {
            if let Err(failure) = self.end_rescue(&view.volume) {
                tracing::warn!(volume = %view.volume, %failure, "end a rescue");
            }
        }
        self.serving.rescues.forget_sockets();
    }

    /// Runs `work` on the pool.
    fn in_pool<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> Result<T, Failure> {
        let pool = self.pool.require()?;
        Ok(work(&Context {
            pool: &*pool,
            hooks: self,
            documents: &self.serving.documents,
        }))
    }

    /// Destroys a temporary clone.
    fn remove_clone(&self, clone: &VolumeName) {
        if let Err(failure) = self.in_pool(|context| rescue_clones::remove(context, clone)) {
            tracing::warn!(%clone, %failure, "the clone of a rescue is left until the next start");
        }
    }

    /// Removes the clones of a killed server.
    pub fn clean_up_rescues(&self) {
        // If refused, the next server does it.
        let Ok(_changing) = self.changing() else {
            return;
        };
        let views = self.serving.rescues.views();
        let in_use = views.into_iter().filter_map(|view| view.clone).collect();
        if let Err(failure) = self.in_pool(|context| rescue_clones::clean_up(context, &in_use)) {
            tracing::warn!(%failure, "find clones of earlier rescues");
        }
    }
}

fn is_rescued(what: &str, rescued: &VolumeName) -> Failure {
    let message = format!("{what} is being rescued");
    Failure::new(FailureKind::Busy, message).advise(format!(
        "end that first: `bulkhead volume rescue --end {rescued}`"
    ))
}

/// Terminates the rescues that lost their command line, each in a thread of its own.
pub fn end_abandoned(core: &Arc<Core>) {
    for volume in core.serving.rescues.abandoned() {
        let core = Arc::clone(core);
        let thread = std::thread::Builder::new().name("rescue-end".into());
        let started = thread.spawn(move || {
            // If refused, the server is shutting down and terminates the rescue.
            let Ok(_changing) = core.changing() else {
                return;
            };
            match core.end_rescue(&volume) {
                Ok(_) => {}
                Err(failure) => tracing::warn!(%volume, %failure, "end an abandoned rescue"),
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "end an abandoned rescue");
        }
    }
}

/// Bytes of a device; `None` if they are beyond its end or cannot be read.
fn read(device: &dyn BlockDevice, at: u64, length: usize) -> Option<Vec<u8>> {
    let extent = Extent::new(at, length as u64);
    if !extent.fits(device.geometry().size) {
        return None;
    }
    let loan = device.read(extent, WaitMode::MayBlock).ok()?;
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    Some(parts.concat())
}

fn random_hex() -> Result<String, Failure> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(Failure::of("make a name"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
