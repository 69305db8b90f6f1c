//! Performs a request through the pool's server if there is one. Otherwise this process itself
//! opens the pool, performs the request and exports the pool again.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control::answer::{Done, PoolStatus, PoolSummary, Status, UnitView};
use control::exports::Identity;
use control::operations::PoolSelector;
use control::operations::pool::create::PoolCreate;
use control::operations::pool::detach::Detach;
use control::operations::pool::layout;
use control::operations::replicate::ReplicateRequest;
use control::operations::target::create::Create;
use control::operations::volume::show::Show;
use control::request::{PoolRequest, TargetRequest, VolumeRequest};
use control::{Answer, Client, Failure, FailureKind, PoolLock, Request};
use engine::Pool;
use engine::pool::CandidateState;
use operations::{self, Context, DocumentCache, NoServer};
use units::{IscsiName, PoolName, VolumeName};

use crate::audit;
use crate::common::Common;
use crate::engines;
use crate::managed;
use crate::open::{self, Access, OpenOptions, PreviousOwner};
use crate::places;
use crate::promotions::{exported_originals, promotion, refuse_served_originals};
use crate::sockets::{self, Sockets};

/// Time-out for another command that has the pool open.
const HOLD_WAIT: Duration = Duration::from_secs(30);
/// Polling interval.
const HOLD_LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Sends the request to the server of `pool`, or opens the pool.
pub fn ask(
    common: &Common,
    pool: &PoolSelector,
    request: Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    request_with_descriptor(common, &named(common, pool)?, request, None, progress)
}

/// The addressed pool.
pub fn named(common: &Common, pool: &PoolSelector) -> Result<PoolName, Failure> {
    match pool {
        PoolSelector::Pool(pool) => Ok(pool.clone()),
        PoolSelector::Single => the_only_one(common),
    }
}

/// As [`ask`], with a descriptor that the request is about.
pub fn request_with_descriptor(
    common: &Common,
    pool: &PoolName,
    request: Request,
    descriptor: Option<OwnedFd>,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    refuse(common, pool, &request)?;
    let request = with_engine_device_names(common, pool, request)?;
    let (new_devices, old_device) = (new_devices(&request), old_device(&request));
    let is_served = || sockets::connect_for_state(common, pool);
    let held = match is_about_a_server(&request) {
        _ if is_state(&request) => match is_served()? {
            Some(client) => Hold::Server(client),
            None => hold(common, pool)?,
        },
        true => Hold::Server(sockets::connect(common, pool)?.ok_or_else(|| no_server(pool))?),
        false => hold(common, pool)?,
    };
    let answer = match held {
        Hold::Server(mut client) => {
            if let Some(dataset) = promotion(&request) {
                let list = ask_server(common, pool, Request::Replicate(ReplicateRequest::List))?;
                let notes = exported_originals(common, pool, dataset, &list);
                notes.iter().for_each(|note| progress(note));
            }
            let ends = is_end(&request);
            if audit::is_noted() {
                client = client.noted();
            }
            let passed = descriptor.as_ref().map(AsFd::as_fd);
            let answer = client.call_with(request, passed, progress)?;
            if ends == Some(End::Destroy) {
                places::forget(common, pool);
            }
            answer
        }
        Hold::Own(_lock) => {
            let ends = is_end(&request);
            let audit = audit::path(common);
            let answer = audit::noted_request(&audit, pool, request, |request| {
                open_and_perform(common, pool, request, descriptor, progress)
            })?;
            if ends.is_some() {
                // A killed server left the socket. Clients need not wait for that server any more.
                let _ = std::fs::remove_file(sockets::socket(common, pool));
            }
            answer
        }
    };
    if !new_devices.is_empty() {
        places::add_cached_devices(common, pool, &new_devices);
    }
    if let Some(device) = old_device {
        if has_left(common, pool, &device) {
            places::uncache_devices(common, pool, &[device]);
        }
    }
    Ok(answer)
}

/// Returns the request with the device names of the engine, for a leg to be detached from a pool that continues without
/// its leg record.
fn with_engine_device_names(
    common: &Common,
    pool: &PoolName,
    request: Request,
) -> Result<Request, Failure> {
    let Request::Pool(PoolRequest::Detach(detach)) = &request else {
        return Ok(request);
    };
    let device = &detach.device;
    let has_legs = || {
        let answer = ask_server(common, pool, Request::Pool(PoolRequest::Status));
        matches!(answer, Ok(Answer::Pool(status)) if status.legs.is_some())
    };
    let leg = device.to_string_lossy();
    if !layout::is_leg(&leg) || has_legs() {
        return Ok(request);
    }
    let file = Path::new(leg_door::DEFAULT_PATH);
    let device = engines::legs().path_of(&common.directories(), pool, &leg, file)?;
    let detach = Detach {
        device,
        ..detach.clone()
    };
    Ok(Request::Pool(PoolRequest::Detach(detach)))
}

/// Returns whether the request is for the state of the pool, which a server reports while it opens the pool, too.
fn is_state(request: &Request) -> bool {
    matches!(
        request,
        Request::Status | Request::Pool(PoolRequest::Status)
    )
}

/// Returns whether only a running server can perform the request.
fn is_about_a_server(request: &Request) -> bool {
    matches!(request, Request::Portal(_) | Request::Server(_))
}

/// Returns a device that is no longer part of the pool once the request succeeds, at once or later.
fn old_device(request: &Request) -> Option<PathBuf> {
    request.operation().leaving_device()
}

/// Returns whether `device` is not part of the pool. Otherwise its data might still be in transfer
/// to other devices.
fn has_left(common: &Common, pool: &PoolName, device: &Path) -> bool {
    let status = Request::Pool(PoolRequest::Status);
    let Ok(Answer::Pool(status)) = ask_server(common, pool, status) else {
        // Without a server the labels determine it at the next import.
        return false;
    };
    let mut queue: Vec<_> = status.devices.iter().collect();
    while let Some(found) = queue.pop() {
        if Path::new(&found.name) == device {
            return false;
        }
        queue.extend(&found.members);
    }
    true
}

/// Sends the request to the server of `pool`, which must be running.
pub fn ask_server(common: &Common, pool: &PoolName, request: Request) -> Result<Answer, Failure> {
    let client = match is_state(&request) {
        true => sockets::connect_for_state(common, pool)?,
        false => sockets::connect(common, pool)?,
    };
    let mut client = client.ok_or_else(|| no_server(pool))?;
    client.call(request, &mut |_| ())
}

/// Returns the failure for a pool without a server.
pub fn no_server(pool: &PoolName) -> Failure {
    let message = format!("no server of pool {pool} runs");
    Failure::new(FailureKind::Unreachable, message)
        .advise(format!("`bulkhead pool-server {pool}` starts one"))
}

/// Devices that are part of the pool if the request succeeds.
fn new_devices(request: &Request) -> Vec<PathBuf> {
    let mut devices = request.operation().joining_devices();
    if let Request::Pool(PoolRequest::Online(online)) = request {
        // It was absent when the pool was opened. A name or a number needs no place.
        let device = &online.device;
        devices.extend((device.is_absolute() && device.exists()).then(|| device.clone()));
    }
    devices
}

/// The current holder of the pool.
pub(crate) enum Hold {
    /// A server.
    Server(Client),
    /// This process, which may open it.
    Own(PoolLock),
}

/// Connects to the pool's server, or acquires its lock for a command. Blocks on another command
/// that holds the lock, and for a server that is just starting.
pub(crate) fn hold(common: &Common, pool: &PoolName) -> Result<Hold, Failure> {
    let socket = sockets::socket(common, pool);
    let deadline = Instant::now() + HOLD_WAIT;
    loop {
        if let Some(client) = sockets::connect(common, pool)? {
            return Ok(Hold::Server(client));
        }
        let lock = PoolLock::try_take(&socket).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => FailureKind::Denied,
                _ => FailureKind::Failed,
            };
            let path = PoolLock::path(&socket);
            Failure::new(kind, format!("lock {}: {error}", path.display()))
                .advise("run it as root, or choose another --run-dir")
        })?;
        if let Some(lock) = lock {
            return Ok(Hold::Own(lock));
        }
        // It has the pool for as long as its user wants.
        if let Some(holder) = PoolLock::holder(&socket) {
            let message = format!("{} has pool {pool} open", holder.command);
            return Err(Failure::new(FailureKind::Busy, message).advise(holder.end));
        }
        if Instant::now() >= deadline {
            let message = format!("another command, or a starting server, has pool {pool}");
            return Err(Failure::new(FailureKind::Busy, message).advise("try again shortly"));
        }
        std::thread::sleep(HOLD_LOOK_INTERVAL);
    }
}

/// Refuses requests that neither a server nor an open pool can decide, before either receives them.
///
/// # Errors
///
/// The cluster manages a pool that would be exported or destroyed, or another pool of this host has a target of that
/// name.
pub fn refuse(common: &Common, pool: &PoolName, request: &Request) -> Result<(), Failure> {
    managed::refuse_destroy_or_export(common.maintenance, pool, request)?;
    refuse_taken_target(common, pool, request)?;
    // A volume that is not found is a failure of the request itself.
    let shown = mapped(request).map(|volume| ask_server(common, pool, identity_of(volume)));
    if let Some(Ok(shown)) = shown {
        refuse_served_twin(common, pool, &shown)?;
    }
    match promotion(request) {
        Some(dataset) if sockets::is_served(common, pool)? => {
            let list = Request::Replicate(ReplicateRequest::List);
            let list = ask_server(common, pool, list)?;
            refuse_served_originals(common, pool, dataset, &list)
        }
        _ => Ok(()),
    }
}

/// Returns the volume that becomes a unit of a target.
fn mapped(request: &Request) -> Option<&VolumeName> {
    match request {
        Request::Target(TargetRequest::Map(map)) => Some(&map.volume),
        _ => None,
    }
}

fn identity_of(volume: &VolumeName) -> Request {
    let name = volume.clone();
    Request::Volume(VolumeRequest::Show(Show { name }))
}

/// Refuses to map a volume with the identity of a unit of another pool of this host, such as the original of a promoted
/// copy. `shown`: the volume.
fn refuse_served_twin(common: &Common, pool: &PoolName, shown: &Answer) -> Result<(), Failure> {
    let Answer::Volume(volume) = shown else {
        return Ok(());
    };
    let Some(identity) = &volume.identity else {
        return Ok(());
    };
    let mut others = sockets::served(common)
        .into_iter()
        .filter(|other| other != pool);
    let found = others.find_map(|other| {
        let twin = served_twin(identity, &cached_status(common, &other)?)?;
        Some((other, twin))
    });
    match found {
        None => Ok(()),
        Some((other, (target, twin))) => {
            let message = format!(
                "{} has the identity of {twin}, which pool {other} of this host shows in target {target}",
                volume.name
            );
            Err(Failure::new(FailureKind::Exists, message).advise(format!(
                "initiators take both for one disk: unmap the one that is not the disk, such as with `bulkhead target unmap {target} {twin}`"
            )))
        }
    }
}

/// The unit of another pool with this identity, and its target.
fn served_twin(identity: &Identity, status: &Status) -> Option<(IscsiName, VolumeName)> {
    status.targets.iter().find_map(|target| {
        let mut units = target.units.iter();
        let is_twin = |unit: &&UnitView| unit.naa == identity.naa || unit.serial == identity.serial;
        let twin = units.find(is_twin)?;
        Some((target.name.clone(), twin.volume.clone()))
    })
}

/// Refuses to create a target that another server of this host has: an initiator identifies targets by their names
/// only, and would merge the units of both.
fn refuse_taken_target(common: &Common, pool: &PoolName, request: &Request) -> Result<(), Failure> {
    let Request::Target(TargetRequest::Create(Create { name, .. })) = request else {
        return Ok(());
    };
    let has_it = |other: &PoolName| {
        let glance = cached_status(common, other);
        glance.is_some_and(|status| status.targets.iter().any(|one| one.name == *name))
    };
    let mut others = sockets::served(common)
        .into_iter()
        .filter(|other| other != pool);
    match others.find(has_it) {
        None => Ok(()),
        Some(other) => {
            let message =
                format!("pool {other}, which this host serves, already has a target {name}");
            Err(Failure::new(FailureKind::Exists, message)
                .advise("choose another name: initiators tell targets apart by nothing else"))
        }
    }
}

/// Returns the cached state from the server of `pool`, without disk access; `None` if the server does not respond in
/// time.
pub fn cached_status(common: &Common, pool: &PoolName) -> Option<Status> {
    match sockets::brief_answer(common, pool, Request::Status) {
        Some(Answer::Status(status)) => Some(*status),
        _ => None,
    }
}

/// The pool that a command without a pool's name is about.
fn the_only_one(common: &Common) -> Result<PoolName, Failure> {
    let sockets = sockets::look(common);
    let mut found = match sockets.served.is_empty() {
        true => unserved(common, &sockets)?,
        false => sockets.served,
    };
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(PoolName::as_str).collect();
        let message = format!("there are several pools: {}", names.join(" "));
        return Err(Failure::usage(message).advise("name one with --pool"));
    }
    found.pop_first().ok_or_else(|| {
        Failure::not_found("no pool is served or known here")
            .advise("name one, or say where to look with --search")
    })
}

/// Returns whether the changed devices of a pool are stored in, or removed from, the cache after `request` succeeds.
pub fn changes_device_cache(request: &Request) -> bool {
    let changes_devices = !new_devices(request).is_empty() || old_device(request).is_some();
    changes_devices || is_end(request) == Some(End::Destroy)
}

/// Returns the pools without a server that might be on this host: the known pools, and those with a killed server. If
/// no pool is served, and device directories are configured or no pool is known, the pools found by their labels
/// replace the known ones. If some pool is served, no disk is read, because status must be available while disks hang.
pub fn unserved(common: &Common, sockets: &Sockets) -> Result<BTreeSet<PoolName>, Failure> {
    let known = places::known_pools(common);
    let is_told_where = !common.search().is_empty();
    let mut found = match sockets.served.is_empty() && (is_told_where || known.is_empty()) {
        true => {
            let candidates = places::candidates(common, None)?;
            let names = candidates.iter().filter_map(|one| one.name.parse().ok());
            names.collect()
        }
        false => known,
    };
    found.extend(sockets.left.iter().cloned());
    found.retain(|pool| !sockets.served.contains(pool));
    Ok(found)
}

/// The ways to close a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Export it.
    Export,
    /// Destroy it.
    Destroy,
}

/// Returns how `request` closes the pool, if it does.
pub fn is_end(request: &Request) -> Option<End> {
    match request {
        Request::Pool(PoolRequest::Export | PoolRequest::Close(_)) => Some(End::Export),
        Request::Pool(PoolRequest::Destroy(destroy)) if !destroy.preview.is_wanted() => {
            Some(End::Destroy)
        }
        _ => None,
    }
}

fn open_and_perform(
    common: &Common,
    name: &PoolName,
    request: Request,
    descriptor: Option<OwnedFd>,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    managed::refuse(common.maintenance, name)?;
    // Searched first, so that a wrong name fails without starting an engine.
    let candidate = places::candidate(common, name)?;
    refuse_unserved(common, name, &request)?;
    let end = is_end(&request);
    if end == Some(End::Export) && candidate.state == CandidateState::Exported {
        return Ok(Done::already(format!("pool {name} is exported already")));
    }
    let engine = engines::start(open::small_engine(common, name))?;
    let access = match request.is_read_only() {
        true => Access::ReadOnly,
        false => Access::Change,
    };
    let pool = open::import(&*engine, common, name, &PreviousOwner::Unknown, access)?;
    match end {
        Some(End::Export) => {
            open::export(pool)?;
            places::note_exported(common, name);
            Ok(Done::changed(format!("exported pool {name}")))
        }
        Some(End::Destroy) => {
            destroy(pool)?;
            places::forget(common, name);
            Ok(Done::changed(format!("destroyed pool {name}")))
        }
        None => {
            let context = Context {
                pool: &*pool,
                hooks: &NoServer,
                documents: &DocumentCache::with_seals(places::seals(common)),
            };
            if access == Access::Change {
                operations::rescue_clones::clean_up(&context, &BTreeSet::new());
            }
            if request.operation().opens_volumes() {
                operations::key::load_stored_keys(&context);
            }
            let allowed = match promotion(&request) {
                None => Ok(()),
                Some(dataset) => {
                    let list = Request::Replicate(ReplicateRequest::List);
                    let list = operations::perform(&context, list, progress);
                    list.and_then(|list| {
                        refuse_served_originals(common, name, dataset, &list)?;
                        let notes = exported_originals(common, name, dataset, &list);
                        notes.iter().for_each(|note| progress(note));
                        Ok(())
                    })
                }
            };
            let allowed = allowed.and_then(|()| match mapped(&request) {
                None => Ok(()),
                Some(volume) => {
                    let shown = operations::perform(&context, identity_of(volume), progress);
                    shown.map_or(Ok(()), |shown| refuse_served_twin(common, name, &shown))
                }
            });
            let answer = allowed.and_then(|()| match request {
                Request::Transfer(request) => {
                    let data = descriptor.map(|descriptor| operations::transfer::Data {
                        descriptor,
                        is_abandoned: &|| false,
                    });
                    operations::transfer::perform(&context, request, data, progress)
                }
                other => operations::perform(&context, other, progress),
            });
            let let_go = match access {
                Access::Change => {
                    open::export(pool).inspect(|()| places::note_exported(common, name))
                }
                // Nothing was written, and its disks are released when this process exits.
                Access::ReadOnly => Ok(()),
            };
            let answer = answer?;
            let_go.map(|()| answer)
        }
    }
}

/// Refuses a request with a response that would be wrong without a server: a pool that is opened for one command has only
/// the I/O counters of that command, and one that is open read-only does not count the data of its groups.
fn refuse_unserved(common: &Common, name: &PoolName, request: &Request) -> Result<(), Failure> {
    let why = match request {
        Request::Pool(PoolRequest::Iostat) => "its devices have no I/O counters",
        Request::Pool(PoolRequest::Plan(_)) => {
            "the data of its groups is not counted, so that the bytes to move are unknown"
        }
        _ => return Ok(()),
    };
    let pool = PoolStatus {
        name: name.to_string(),
        server_options: places::server_options(common, name).unwrap_or_default(),
        ..PoolStatus::default()
    };
    let message = format!("pool {name} is not served: {why}");
    Err(
        Failure::new(FailureKind::Unreachable, message).advise(format!(
            "start its server with `{}`, and repeat the command",
            pool.server_command()
        )),
    )
}

/// Destroys the pool. If that fails, exports it, so that it is left in a clean state.
pub fn destroy(pool: Box<dyn Pool>) -> Result<(), Failure> {
    pool.destroy().map_err(|(pool, error)| {
        if let Err(failure) = open::export(pool) {
            tracing::warn!(%failure, "export the pool that could not be destroyed");
        }
        operations::pool_failure(error)
    })
}

/// Removes a pool from the known pools of this host, if no disk of it is found.
pub fn forget(common: &Common, pool: &PoolName) -> Result<Answer, Failure> {
    if sockets::is_served(common, pool)? {
        let message = format!("pool {pool} is served here");
        return Err(Failure::new(FailureKind::Busy, message).advise(format!(
            "nothing was changed; `bulkhead pool destroy {pool}` destroys it"
        )));
    }
    let found = match places::candidates(common, Some(pool)) {
        Ok(found) => found,
        Err(failure) if failure.kind == FailureKind::NotFound => Vec::new(),
        Err(failure) => return Err(failure),
    };
    if found.iter().any(|one| one.name == pool.as_str()) {
        let message = format!("disks of pool {pool} are on this host");
        return Err(Failure::new(FailureKind::Busy, message).advise(format!(
            "nothing was changed; `bulkhead pool destroy {pool}` destroys it. A pool with removed disks from the host can be forgotten"
        )));
    }
    if !places::known_pools(common).contains(pool) {
        return Ok(Done::already(format!(
            "pool {pool} is not known on this host"
        )));
    }
    places::forget(common, pool);
    Ok(Done::changed(format!(
        "pool {pool} is not known on this host any more"
    )))
}

/// Creates a pool, and exports it.
///
/// `legs`: a configuration of legs on several heads, by which it is made; `create` names no devices then.
pub fn create(common: &Common, create: PoolCreate, legs: Option<&Path>) -> Result<Answer, Failure> {
    let name = create.name.clone();
    audit::noted(&audit::path(common), "pool.create", name.as_str(), || {
        create_unnoted(common, create, legs)
    })
}

fn create_unnoted(
    common: &Common,
    mut create: PoolCreate,
    legs: Option<&Path>,
) -> Result<Answer, Failure> {
    let name = create.name.clone();
    let legs = legs
        .map(|path| engines::legs().pool(&common.directories(), &name, path))
        .transpose()?;
    operations::refuse_space(name.as_str())?;
    let Hold::Own(_lock) = hold(common, &name)? else {
        return Err(exists(&name));
    };
    let taken = places::candidates(common, Some(&name))?;
    if taken
        .iter()
        .any(|candidate| candidate.name == name.as_str())
    {
        return Err(exists(&name));
    }
    let mut options = open::small_engine(common, &name);
    let bootstrap = match &legs {
        Some(legs) => {
            options.legs = Some(Box::new(|own| legs.install(own)));
            create.groups = legs.groups();
            Some(legs.begin_pool(create.overwrite)?)
        }
        None => None,
    };
    let engine = engines::start(options)?;
    let spec = engine::pool::PoolSpec {
        record: legs.as_ref().map(|legs| legs.record()),
        ..operations::pool_spec(&create)
    };
    operations::refuse_small_spares(&spec)?;
    let pool = engine.create(&spec).map_err(|error| {
        let failure = not_created(error, &create);
        match &legs {
            Some(legs) => legs.with_names(failure),
            None => failure,
        }
    })?;
    if let Ok(files) = pool.files() {
        files.complete_root().map_err(operations::dataset_failure)?;
    }
    open::export(pool)?;
    match (legs, bootstrap) {
        (Some(legs), Some(bootstrap)) => {
            let file = legs.path().display().to_string();
            bootstrap.finish()?;
            return Ok(Done::changed(format!(
                "created pool {name}, with its legs recorded at all members: `bulkhead pool-server {name} --legs {file}` serves it"
            )));
        }
        _ => {
            let devices: Vec<PathBuf> = spec.devices().cloned().collect();
            places::cache_devices(common, &name, &devices);
        }
    }
    let unused = operations::unused_space(&spec.groups);
    let unused = unused.map_or_else(String::new, |unused| format!("; {unused}"));
    Ok(Done::changed(format!(
        "created pool {name}: `bulkhead volume create {name}/NAME --size SIZE` is next{unused}"
    )))
}

/// Why a pool was not made.
fn not_created(error: engine::pool::PoolError, create: &PoolCreate) -> Failure {
    use engine::pool::PoolErrorKind::{self, DeviceHolds, DeviceInPool, DeviceKept};
    if let (PoolErrorKind::Property { property, .. }, Some(tools)) = (&error.kind, engines::tools())
    {
        let value = create.properties.get(property).cloned();
        let (property, pool) = (property.clone(), create.name.as_str());
        let valid = tools.pool_property_values(&property);
        let is_of_datasets = tools.dataset_property_values(&property).is_some();
        let failure = operations::pool_failure(error);
        return operations::of_new_pool(failure, pool, &property, value, valid, is_of_datasets);
    }
    let in_pool = matches!(
        error.kind,
        DeviceInPool { .. } | DeviceKept { .. } | DeviceHolds { .. }
    );
    let failure = operations::pool_failure(error);
    match in_pool && !create.overwrite {
        true => failure.advise(
            "--overwrite-old-labels overwrites exported and destroyed pools and contents other than ZFS",
        ),
        false => failure,
    }
}

fn exists(name: &PoolName) -> Failure {
    let message = format!("there is already a pool {name} on this host");
    Failure::new(FailureKind::Exists, message).advise("choose another name")
}

/// Lists the pools that are served or can be found.
pub fn discover(common: &Common) -> Result<Answer, Failure> {
    discovered(common).map(Answer::Pools)
}

/// The pools that are served on this host or can be found here.
pub(crate) fn discovered(common: &Common) -> Result<Vec<PoolSummary>, Failure> {
    let mut pools: Vec<PoolSummary> = Vec::new();
    for name in sockets::served(common) {
        pools.extend(served(common, &name));
    }
    for candidate in places::candidates(common, None)? {
        let guid = candidate.guid.to_string();
        let Ok(name) = candidate.name.parse() else {
            continue;
        };
        if pools.iter().any(|pool| pool.guid == guid) {
            continue;
        }
        let text = |path: &PathBuf| path.display().to_string();
        let state = match candidate.state {
            CandidateState::Exported => "exported",
            _ => "active",
        };
        pools.push(PoolSummary {
            name,
            guid,
            state: state.to_owned(),
            served_elsewhere: None,
            size: None,
            allocated: None,
            space: None,
            health: None,
            last_host: candidate.host_name.clone(),
            devices: candidate.devices.present().map(text).collect(),
            missing: candidate.devices.missing().map(text).collect(),
            left_out: operations::copies::left_out(&candidate.devices.left_out),
            unclear: operations::copies::unclear(&candidate.devices.conflicts),
        });
    }
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pools)
}

/// A pool as its server describes it.
fn served(common: &Common, name: &PoolName) -> Option<PoolSummary> {
    let mut client = sockets::connect_for_state(common, name).ok()??;
    let request = Request::Pool(PoolRequest::Status);
    let Ok(Answer::Pool(status)) = client.call(request, &mut |_| ()) else {
        return None;
    };
    Some(summary(name, *status))
}

/// A served pool by its status.
pub(crate) fn summary(name: &PoolName, mut status: PoolStatus) -> PoolSummary {
    status.name_legs();
    let mut devices = Vec::new();
    let mut queue: Vec<_> = status.devices.iter().collect();
    while let Some(device) = queue.pop() {
        match device.members.is_empty() {
            true => devices.push(device.name.clone()),
            false => queue.extend(&device.members),
        }
    }
    devices.sort();
    PoolSummary {
        name: name.clone(),
        guid: status.guid,
        state: "served".to_owned(),
        served_elsewhere: None,
        size: Some(status.size),
        allocated: Some(status.allocated),
        space: status.space,
        health: Some(status.health),
        last_host: None,
        devices,
        missing: Vec::new(),
        left_out: status.left_out,
        unclear: Vec::new(),
    }
}

/// Imports a pool, so that it is marked as this host's, and exports it again. Of several devices with the same
/// identity, `devices` are used.
pub fn take_over(
    common: &Common,
    name: &PoolName,
    previous_owner_is_stopped: bool,
    devices: &[PathBuf],
) -> Result<Answer, Failure> {
    let Hold::Own(_lock) = hold(common, name)? else {
        return Ok(Done::already(format!("pool {name} is served here already")));
    };
    let owner = match previous_owner_is_stopped {
        true => PreviousOwner::IsStopped,
        false => PreviousOwner::Unknown,
    };
    managed::refuse(common.maintenance, name)?;
    places::candidate_among(common, name, &[], devices)?;
    let engine = engines::start(open::small_engine(common, name))?;
    let options = OpenOptions {
        chosen: devices.to_vec(),
        ..OpenOptions::new(owner, Access::Change)
    };
    let pool = open::import_with_callback(&*engine, common, name, &options, |_| Ok(()))?;
    open::export(pool)?;
    places::note_exported(common, name);
    Ok(Done::changed(format!(
        "pool {name} is in good order and free: `bulkhead pool-server {name}` serves it"
    )))
}

#[cfg(test)]
mod tests {
    use control::operations::Preview;
    use control::operations::pool::{attach::Attach, destroy::Destroy, remove::Remove};

    use super::*;

    /// A copy of another pool was promoted, and its original is mapped again.
    #[test]
    fn unit_of_another_pool_with_either_designator_is_a_twin() {
        let identity = Identity::from_entropy([1; 16]);
        let other = Identity::from_entropy(*b"0123456789abcdef");
        let found = |naa: &str, serial: &str| {
            let target = "iqn.2026-01.org.example:attic";
            let unit = UnitView {
                lun: 0,
                volume: "attic/v".parse().expect("a name"),
                read_only: false,
                write_cache: false,
                naa: naa.to_owned(),
                serial: serial.to_owned(),
            };
            let status = Status {
                targets: vec![control::answer::TargetView {
                    name: target.parse().expect("a name"),
                    portal_groups: Vec::new(),
                    access: control::exports::AccessRule::default(),
                    chap_users: Vec::new(),
                    mutual_user: None,
                    units: vec![unit],
                    sessions: Vec::new(),
                }],
                ..Status::default()
            };
            served_twin(&identity, &status).map(|(_, volume)| volume.to_string())
        };
        let twin = Some("attic/v".to_owned());
        assert_eq!(found(&identity.naa, &identity.serial), twin);
        assert_eq!(found(&identity.naa, &other.serial), twin);
        assert_eq!(found(&other.naa, &identity.serial), twin);
        assert_eq!(found(&other.naa, &other.serial), None);
    }

    #[test]
    fn removed_devices_leave_the_device_cache() {
        let device = || PathBuf::from("/dev/sda");
        let detach = Detach {
            device: device(),
            without_redundancy: false,
        };
        let detach = detach.into();
        let remove = Remove { device: device() }.into();
        let attach = Attach {
            existing: device(),
            new: "/dev/sdb".into(),
            overwrite: false,
        };
        let destroy = Destroy {
            in_use: false,
            preview: Preview::default(),
        };
        let destroy = destroy.into();
        for request in [detach, remove, attach.into(), destroy] {
            let request = Request::Pool(request);
            assert!(changes_device_cache(&request), "{request:?}");
        }
        assert!(!changes_device_cache(&Request::Pool(PoolRequest::Status)));
    }
}
