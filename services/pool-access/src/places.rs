//! The locations of pools. The labels on the devices are authoritative. The cache here lists the devices that are always
//! searched, and how new the pool was, so that a copy of missing devices is not used instead of them. Without it only
//! that protection is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Failure, FailureKind};
use engine::pool::legs::Leg;
use engine::pool::{Candidate, CandidateState};
use operations::seals::{KeyFiles, Seals};
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::common::Common;
use crate::engines::{self, Search};
use crate::managed;

/// Searched if there are no other locations.
const DEFAULT_DIRECTORIES: [&str; 1] = ["/dev/disk/by-id"];

/// Time-out for the labels of an exported pool: a disk might hang.
const EXPORTED_READ_MAX: Duration = Duration::from_secs(2);

/// Version of the files in the state directory.
const VERSION: u32 = 1;

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct DeviceCache {
    version: u32,
    places: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<LastState>,
}

/// How new the pool was when this host opened or closed it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LastState {
    /// The number of the pool.
    guid: u64,
    /// The newest transaction group then.
    newest_txg: u64,
    /// Whether the pool was exported at that group. Otherwise it was opened at it, and later groups are unknown.
    is_exported: bool,
}

fn file_of(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.json"))
}

fn cached(path: &Path) -> Option<DeviceCache> {
    let text = std::fs::read(path).ok()?;
    let found: DeviceCache = serde_json::from_slice(&text).ok()?;
    (found.version == VERSION).then_some(found)
}

fn remembered(path: &Path) -> Option<Vec<PathBuf>> {
    cached(path).map(|found| found.places)
}

/// Returns the names of the known pools of this host.
pub fn known_pools(common: &Common) -> BTreeSet<PoolName> {
    let entries = std::fs::read_dir(&common.settings.state_dir);
    let entries = entries.into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".json")?.parse().ok()
    };
    entries.filter_map(name).collect()
}

/// Describes the pools that are served or known on this host, except `missing`: a server that starts has its socket.
fn describe_known_pools(common: &Common, missing: &PoolName) -> Option<String> {
    let mut known = known_pools(common);
    known.extend(crate::sockets::served(common));
    known.remove(missing);
    let names: Vec<&str> = known.iter().map(PoolName::as_str).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Caches the devices of `pool`, which was created or renamed on them, and is exported. An error here is not an error of
/// the request.
pub fn cache_devices(common: &Common, pool: &PoolName, devices: &[PathBuf]) {
    let search = common.search();
    note_devices(common, pool, search.iter().chain(devices), None);
    note_exported(common, pool);
}

/// Caches the devices of `candidate`, which was opened for changes. A read-only command caches nothing.
pub fn note_opened(common: &Common, pool: &PoolName, candidate: &Candidate) {
    let search = common.search();
    let last = LastState {
        guid: candidate.guid,
        newest_txg: candidate.devices.legs.newest_txg,
        is_exported: false,
    };
    let devices = candidate.devices.present();
    note_devices(common, pool, search.iter().chain(devices), Some(last));
}

/// Caches the newest transaction group of `pool`, which this process exported.
pub fn note_exported(common: &Common, pool: &PoolName) {
    let Some(note) = cached(&file_of(common, pool)) else {
        return;
    };
    // Their disks are in the appliance file, and a head must stop in time.
    if managed::disks(pool).is_some() {
        return;
    }
    // A directory might contain copies.
    let devices = note.places.iter().filter(|place| place.exists());
    let devices: Vec<PathBuf> = devices.filter(|place| !place.is_dir()).cloned().collect();
    let is_it = |one: &Candidate| {
        let is_same = note.last.as_ref().is_none_or(|last| last.guid == one.guid);
        is_same && one.name == pool.as_str() && one.state == CandidateState::Exported
    };
    let (send, receive) = std::sync::mpsc::channel();
    let read = move || {
        // The process might be exiting already.
        let _ = send.send(engines::discover(Search::Places(&devices)).unwrap_or_default());
    };
    let reader = std::thread::Builder::new()
        .name("exported".into())
        .spawn(read);
    let found = reader
        .ok()
        .and_then(|_| receive.recv_timeout(EXPORTED_READ_MAX).ok());
    let Some(found) = found.into_iter().flatten().find(is_it) else {
        return;
    };
    let last = LastState {
        guid: found.guid,
        newest_txg: found.devices.legs.newest_txg,
        is_exported: true,
    };
    note_devices(common, pool, note.places.iter(), Some(last));
}

/// Adds devices that joined `pool` to the cache.
pub fn add_cached_devices(common: &Common, pool: &PoolName, devices: &[PathBuf]) {
    let (known, last) = known_devices(common, pool);
    note_devices(common, pool, known.iter().chain(devices), last);
}

fn known_devices(common: &Common, pool: &PoolName) -> (Vec<PathBuf>, Option<LastState>) {
    let found = cached(&file_of(common, pool));
    found.map_or_else(Default::default, |found| (found.places, found.last))
}

fn note_devices<'a>(
    common: &Common,
    pool: &PoolName,
    places: impl Iterator<Item = &'a PathBuf>,
    last: Option<LastState>,
) {
    let places: BTreeSet<&PathBuf> = places.collect();
    let note = DeviceCache {
        last,
        version: VERSION,
        places: places
            .into_iter()
            .filter_map(|place| std::path::absolute(place).ok())
            .collect(),
    };
    let path = file_of(common, pool);
    // A power failure must not restore the state of an earlier export.
    let is_durable = note.last.as_ref().is_some_and(|last| !last.is_exported);
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&common.settings.state_dir)?;
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec_pretty(&note)?)?;
        if is_durable {
            std::fs::File::open(&new)?.sync_all()?;
        }
        std::fs::rename(&new, &path)?;
        match is_durable {
            true => std::fs::File::open(&common.settings.state_dir)?.sync_all(),
            false => Ok(()),
        }
    };
    if cached(&path).as_ref() == Some(&note) {
        return;
    }
    if let Err(error) = write() {
        tracing::debug!(%error, path = %path.display(), "not remembered where the pool is");
    }
}

/// The options of the last server of a pool.
#[derive(Serialize, Deserialize)]
struct ServerOptions {
    version: u32,
    options: Vec<String>,
}

fn server_options_file(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.server"))
}

/// Stores the options of the server of `pool` for the advice to start it again. An error here is no error of the server.
pub fn note_server_options(common: &Common, pool: &PoolName, options: &[String]) {
    let path = server_options_file(common, pool);
    let note = ServerOptions {
        version: VERSION,
        options: options.to_vec(),
    };
    let write = || -> std::io::Result<()> {
        let new = path.with_extension("server-new");
        std::fs::write(&new, serde_json::to_vec_pretty(&note)?)?;
        std::fs::rename(&new, &path)
    };
    if let Err(error) = write() {
        tracing::debug!(%error, path = %path.display(), "the options of the server are not stored");
    }
}

/// The options with which a shell starts the server of `pool` as it was; none if it never ran here.
pub fn server_options(common: &Common, pool: &PoolName) -> Option<Vec<String>> {
    let text = std::fs::read(server_options_file(common, pool)).ok()?;
    let note: ServerOptions = serde_json::from_slice(&text).ok()?;
    let options = note.options.iter().map(|word| quoted(word));
    (note.version == VERSION).then(|| options.collect())
}

/// Quoted for a shell where that is needed.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Returns the file in which a server stores events that a suspended pool cannot store.
pub fn unwritten_events(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.events"))
}

/// The file that exists while a server of `pool` runs, with the reason if it crashed.
pub fn running_server(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.running"))
}

/// The file with the end of the last server of `pool` that did not close it.
pub fn ended_server(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.ended"))
}

/// The keys of the secrets in a pool.
pub fn seals(common: &Common) -> Seals {
    Seals::new(&common.settings.cluster_key, &common.settings.state_dir)
}

/// Creates the directory of those keys, and the state directory, accessible by the owner only.
pub fn make_key_directory(common: &Common) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let [_, folder] = key_files(common);
    std::fs::create_dir_all(&common.settings.state_dir)?;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

/// The files and folders of those keys.
pub fn key_files(common: &Common) -> [PathBuf; 2] {
    let files = KeyFiles::new(&common.settings.cluster_key, &common.settings.state_dir);
    [
        common.settings.cluster_key.clone(),
        files.folder().to_owned(),
    ]
}

/// Removes devices that left `pool` from the cache.
pub fn uncache_devices(common: &Common, pool: &PoolName, devices: &[PathBuf]) {
    let (known, last) = known_devices(common, pool);
    let gone: BTreeSet<PathBuf> = devices
        .iter()
        .filter_map(|device| std::path::absolute(device).ok())
        .collect();
    note_devices(
        common,
        pool,
        known.iter().filter(|place| !gone.contains(*place)),
        last,
    );
}

/// Removes a destroyed pool from the cache.
pub fn forget(common: &Common, pool: &PoolName) {
    let _ = std::fs::remove_file(unwritten_events(common, pool));
    let _ = std::fs::remove_file(server_options_file(common, pool));
    let _ = std::fs::remove_file(ended_server(common, pool));
    let _ = std::fs::remove_file(file_of(common, pool));
}

/// The places to search for `pool`, or for all pools.
fn places(common: &Common, pool: Option<&PoolName>) -> Vec<PathBuf> {
    let mut search = common.search();
    if !search.is_empty() {
        search.extend(pool.into_iter().flat_map(|pool| last_devices(common, pool)));
        return search;
    }
    let known = match pool {
        Some(pool) => BTreeSet::from([pool.clone()]),
        None => known_pools(common),
    };
    let files = known.iter().map(|pool| file_of(common, pool));
    let mut found: BTreeSet<PathBuf> = files.filter_map(|f| remembered(&f)).flatten().collect();
    found.extend(DEFAULT_DIRECTORIES.map(PathBuf::from));
    found.extend(pool.and_then(managed::disks).unwrap_or_default());
    // Removed devices are ignored.
    found.into_iter().filter(|place| place.exists()).collect()
}

/// The readable devices on which `pool` was last: they are searched in addition to other places. Those of a pool of the
/// appliance are in the appliance file, and the agent names those of them that respond.
fn last_devices(common: &Common, pool: &PoolName) -> Vec<PathBuf> {
    if managed::disks(pool).is_some() {
        return Vec::new();
    }
    let known = remembered(&file_of(common, pool)).unwrap_or_default();
    let is_readable = |place: &PathBuf| std::fs::File::open(place).is_ok();
    known.into_iter().filter(is_readable).collect()
}

/// Returns whether `pool` is searched among device nodes only, regardless of links to them.
pub fn are_devices(common: &Common, pool: &PoolName) -> bool {
    places(common, Some(pool))
        .iter()
        .all(|place| is_device(place))
}

/// Whether it is a device, whatever links lead to it.
pub fn is_device(place: &Path) -> bool {
    let found = std::fs::canonicalize(place);
    found.is_ok_and(|place| place.starts_with("/dev"))
}

/// Every pool that can be found, destroyed ones left out.
pub fn candidates(common: &Common, pool: Option<&PoolName>) -> Result<Vec<Candidate>, Failure> {
    let mut places = places(common, pool);
    let found = candidates_in(&places, &[])?;
    if pool.is_some() || common.search().is_empty() {
        return Ok(found);
    }
    // A copy that was found there is not listed instead of its original.
    let names = found.iter().filter_map(|one| one.name.parse().ok());
    let last: Vec<PathBuf> = names
        .flat_map(|name: PoolName| last_devices(common, &name))
        .collect();
    if last.is_empty() {
        return Ok(found);
    }
    places.extend(last);
    let mut all = candidates_in(&places, &[])?;
    all.retain(|one| found.iter().any(|other| other.guid == one.guid));
    Ok(all)
}

fn candidates_in(places: &[PathBuf], chosen: &[PathBuf]) -> Result<Vec<Candidate>, Failure> {
    let found = engines::discover(Search::Everywhere { places, chosen }).map_err(|error| {
        let kind = match error.cause.kind() {
            std::io::ErrorKind::PermissionDenied => FailureKind::Denied,
            std::io::ErrorKind::NotFound => FailureKind::NotFound,
            _ => FailureKind::Failed,
        };
        Failure::from_chain(kind, &error)
    })?;
    let is_pool = |candidate: &Candidate| {
        matches!(
            candidate.state,
            CandidateState::Active | CandidateState::Exported
        )
    };
    Ok(found.into_iter().filter(is_pool).collect())
}

/// The one pool of that name, if it is clear which devices are its own.
pub fn candidate(common: &Common, pool: &PoolName) -> Result<Candidate, Failure> {
    candidate_among(common, pool, &[], &[])
}

/// The failure for a pool that was used here, of which no disk is found any more.
fn disks_gone(pool: &PoolName, known: &[PathBuf]) -> Failure {
    let all: Vec<String> = known.iter().map(|one| one.display().to_string()).collect();
    let are_there = known.iter().any(|one| one.exists());
    let why = match are_there {
        true => "and what is there now has no label of it",
        false => "and nothing is there now",
    };
    let message = format!(
        "no pool {pool} was found: it was last on {}, {why}",
        all.join(" ")
    );
    Failure::not_found(message).advise(format!(
        "check the cables and the power of the disks; if they are elsewhere now, name the directory or the devices with --search; if \
         the pool is gone for good, `bulkhead pool forget {pool}`"
    ))
}

/// Sentences about the pools that were used on this host and of which no disk was found. `found`: the pools with disks. None if the
/// directories to search are given, which may be those of other pools.
pub fn vanished(common: &Common, found: &BTreeSet<PoolName>) -> Vec<String> {
    if !common.search().is_empty() {
        return Vec::new();
    }
    let known = known_pools(common).into_iter();
    let gone = known.filter(|pool| !found.contains(pool) && managed::disks(pool).is_none());
    let sentences = gone.filter_map(|pool| {
        let devices = remembered(&file_of(common, &pool)).filter(|known| !known.is_empty())?;
        let failure = disks_gone(&pool, &devices);
        Some(format!(
            "{}; `bulkhead pool status {pool}` shows the remedy",
            failure.message
        ))
    });
    sentences.collect()
}

fn not_found(common: &Common, pool: &PoolName, places: &[PathBuf]) -> Failure {
    let legs = engines::legs();
    if let Some(failure) = legs.not_served(pool, Path::new(leg_door::DEFAULT_PATH)) {
        return failure;
    }
    let known = remembered(&file_of(common, pool)).unwrap_or_default();
    if common.search().is_empty() && !known.is_empty() {
        return disks_gone(pool, &known);
    }
    let message = match places {
        [] => format!("no pool {pool} was found: nothing is known of where it may be"),
        places => {
            let places: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
            format!("no pool {pool} was found in: {}", places.join(" "))
        }
    };
    let known = match describe_known_pools(common, pool) {
        None => String::new(),
        Some(known) => format!("known here: {known}; for a different one, "),
    };
    Failure::not_found(message).advise(format!("{known}{}", engines::advice_to_search()))
}

/// The same, with `more` devices to read. Of several with the same identity, those at `chosen` are used.
pub fn candidate_among(
    common: &Common,
    pool: &PoolName,
    more: &[PathBuf],
    chosen: &[PathBuf],
) -> Result<Candidate, Failure> {
    let mut places = places(common, Some(pool));
    places.extend_from_slice(more);
    let mut found = candidates_in(&places, chosen)?;
    found.retain(|candidate| candidate.name == pool.as_str());
    let search = common.search();
    if found.len() > 1 && !search.is_empty() {
        // The search names one of several pools with this name.
        let named = candidates_in(&search, chosen)?;
        found.retain(|one| named.iter().any(|other| other.guid == one.guid));
    }
    match found.len() {
        1 if !found[0].devices.conflicts.is_empty() => Err(operations::copies::refusal(
            pool.as_str(),
            &found[0].devices.conflicts,
        )),
        1 => {
            refuse_older(common, pool, &found[0], chosen)?;
            Ok(found.remove(0))
        }
        0 => Err(not_found(common, pool, &places)),
        _ => {
            let guids: Vec<_> = found.iter().map(|c| c.guid.to_string()).collect();
            let message = format!("several pools are called {pool}: {}", guids.join(", "));
            Err(Failure::new(FailureKind::Exists, message)
                .advise(format!(
                    "narrow the search to the devices of one with --search; or give one another name: `bulkhead pool reidentify {pool} NAME --device PATH`"
                )))
        }
    }
}

/// Refuses devices in new places that might be older than those on which this host had the pool last, none of which was
/// found. An administrator can name them instead.
fn refuse_older(
    common: &Common,
    pool: &PoolName,
    candidate: &Candidate,
    chosen: &[PathBuf],
) -> Result<(), Failure> {
    let Some(note) = cached(&file_of(common, pool)) else {
        return Ok(());
    };
    let legs = &candidate.devices.legs;
    let groups = legs.groups.iter().flat_map(|group| &group.members);
    let present: Vec<&Leg> = groups.flatten().filter(|leg| leg.is_present).collect();
    let resolved = |path: &PathBuf| std::fs::canonicalize(path).ok();
    let mut known: Vec<PathBuf> = note
        .places
        .iter()
        .chain(chosen)
        .filter_map(resolved)
        .collect();
    known.extend(managed::disks(pool).iter().flatten().filter_map(resolved));
    let is_known = |leg: &&Leg| resolved(&leg.path).is_some_and(|path| known.contains(&path));
    let is_elsewhere = !note.places.is_empty() && legs.record.is_none();
    if !is_elsewhere || present.is_empty() || present.iter().any(is_known) {
        return Ok(());
    }
    let is_current = match &note.last {
        Some(last) if last.guid != candidate.guid => true,
        Some(last) if last.is_exported => legs.newest_txg >= last.newest_txg,
        Some(last) => {
            legs.newest_txg > last.newest_txg && present.iter().all(|leg| is_original(leg))
        }
        None => present.iter().all(|leg| is_original(leg)),
    };
    match is_current {
        true => Ok(()),
        false => Err(older(pool, &note, legs.newest_txg, &present)),
    }
}

/// Whether the device is where its label records it, or under a name that the kernel assigns at each boot.
fn is_original(leg: &Leg) -> bool {
    let has_kernel_name = leg.labelled.parent() == Some(Path::new("/dev")) && is_device(&leg.path);
    leg.path == leg.labelled || has_kernel_name
}

fn older(pool: &PoolName, note: &DeviceCache, newest_txg: u64, present: &[&Leg]) -> Failure {
    let names = |paths: Vec<&PathBuf>| {
        let names = paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<String>>()
    };
    let found = names(present.iter().map(|leg| &leg.path).collect());
    let known = names(note.places.iter().filter(|place| !place.is_dir()).collect()).join(" ");
    let state = match &note.last {
        Some(last) if last.is_exported => format!(
            "this host exported the pool at transaction group {}",
            last.newest_txg
        ),
        _ => "this host did not export the pool, so that they might be without its last writes"
            .to_owned(),
    };
    let message = format!(
        "the devices that were found of pool {pool} might be an older copy: {} are of transaction group {newest_txg}, \
         {state}, and none of its last devices was found: {known}",
        found.join(" ")
    );
    let devices: String = found
        .iter()
        .map(|path| format!(" --device {path}"))
        .collect();
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "nothing was opened. Reconnect the last devices. If their files or disks were moved, or to use the copy without later writes: \
         `bulkhead pool import {pool}{devices}`"
    ))
}
