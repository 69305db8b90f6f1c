//! The locations of pools. The labels on the devices are authoritative. The cache here only lists
//! the first devices to search, and can be lost or wrong without harm.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use control::{Failure, FailureKind};
use engine::pool::{Candidate, CandidateState};
use operations::seals::{KeyFiles, Seals};
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::common::Common;
use crate::engines::{self, Search};
use crate::managed;

/// Searched if there are no other locations.
const DEFAULT_DIRECTORIES: [&str; 1] = ["/dev/disk/by-id"];

/// Version of the files in the state directory.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct DeviceCache {
    version: u32,
    places: Vec<PathBuf>,
}

fn file_of(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.state_dir.join(format!("{pool}.json"))
}

fn remembered(path: &Path) -> Option<Vec<PathBuf>> {
    let text = std::fs::read(path).ok()?;
    let found: DeviceCache = serde_json::from_slice(&text).ok()?;
    (found.version == VERSION).then_some(found.places)
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

/// Describes the pools that are served or known on this host.
pub fn describe_known_pools(common: &Common) -> Option<String> {
    let mut known = known_pools(common);
    known.extend(crate::sockets::served(common));
    let names: Vec<&str> = known.iter().map(PoolName::as_str).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Caches the devices of `pool`. An error here is not an error of the request.
pub fn cache_devices(common: &Common, pool: &PoolName, devices: &[PathBuf]) {
    let search = common.search();
    note_devices(common, pool, search.iter().chain(devices));
}

/// Adds devices that joined `pool` to the cache.
pub fn add_cached_devices(common: &Common, pool: &PoolName, devices: &[PathBuf]) {
    let known = remembered(&file_of(common, pool)).unwrap_or_default();
    note_devices(common, pool, known.iter().chain(devices));
}

fn note_devices<'a>(common: &Common, pool: &PoolName, places: impl Iterator<Item = &'a PathBuf>) {
    let places: BTreeSet<&PathBuf> = places.collect();
    let note = DeviceCache {
        version: VERSION,
        places: places
            .into_iter()
            .filter_map(|place| std::path::absolute(place).ok())
            .collect(),
    };
    let path = file_of(common, pool);
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&common.settings.state_dir)?;
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec_pretty(&note)?)?;
        std::fs::rename(&new, &path)
    };
    if remembered(&path).as_ref() == Some(&note.places) {
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
    let known = remembered(&file_of(common, pool)).unwrap_or_default();
    let gone: BTreeSet<PathBuf> = devices
        .iter()
        .filter_map(|device| std::path::absolute(device).ok())
        .collect();
    note_devices(
        common,
        pool,
        known.iter().filter(|place| !gone.contains(*place)),
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
    let search = common.search();
    if !search.is_empty() {
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
    candidates_in(&places(common, pool), &[])
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
    let known = match describe_known_pools(common) {
        None => String::new(),
        Some(known) => format!("known here: {known}; for a different one, "),
    };
    Failure::not_found(message).advise(format!(
        "{known}name the directory or the devices it is on with --search"
    ))
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
    match found.len() {
        1 if !found[0].devices.conflicts.is_empty() => Err(operations::copies::refusal(
            pool.as_str(),
            &found[0].devices.conflicts,
        )),
        1 => Ok(found.remove(0)),
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
