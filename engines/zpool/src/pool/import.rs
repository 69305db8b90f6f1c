//! Opens a pool that was found, given proof that no other host has it.

use std::path::PathBuf;

use engine::pool::legs::{Confirmation, Verdict};
use engine::pool::{
    Candidate, CandidateDevice, Claims, DeviceState, ImportOptions, LeftOut, SafeToOwn,
};
use units::PoolName;
use zpool_sys as sys;

use super::copies::{ABANDONED_MAX, Abandoned, Behind};
use super::discover::{Contents, at_once};
use super::label::{self, Membership};
use super::status::reason;
use super::{Pool, c_text};
use crate::device::{self, Guarded, OpenFailure};
use crate::error::{PoolError, PoolErrorKind, SystemError, errno};
use crate::nvlist::NvList;
use crate::runtime::Engine;

/// The pool that has the device open or served, by its label.
fn used_by_pool(path: &std::path::Path) -> Option<String> {
    match label::read(path).ok()?? {
        Membership::Member(written) => {
            Some(written.last().pool_name.clone()).filter(|name| !name.is_empty())
        }
        Membership::Detached(..) => None,
    }
}

/// Translates the failure to open a device for the user.
pub(super) fn unusable(path: &std::path::Path, failure: OpenFailure) -> PoolErrorKind {
    let path = path.to_owned();
    match failure {
        OpenFailure::Missing => PoolErrorKind::DeviceMissing { path },
        OpenFailure::InUse { by } => {
            let by = match used_by_pool(&path) {
                Some(pool) => format!("pool {pool} ({by})"),
                None => by,
            };
            PoolErrorKind::DeviceInUse { path, by }
        }
        other => PoolErrorKind::DeviceUnusable {
            path,
            why: other.to_string(),
        },
    }
}

const DOING: &str = "import";
/// The name of the list of devices that could not be opened (`BH_IMPORT_UNOPENED`).
const UNOPENED: &str = "bulkhead:unopened";

/// How much the clocks of two heads may differ, in seconds.
const CLOCK_DIFFERENCE_MAX_S: u64 = 60;

/// A pool with its disks locked and reserved by this process, which is not open yet.
pub struct ClaimedPool<'a> {
    engine: &'static Engine,
    candidate: &'a Candidate,
    proof: SafeToOwn,
    options: &'a ImportOptions,
    name: PoolName,
    guarded: Guarded,
}

impl ClaimedPool<'_> {
    /// Whether the pool is ours whatever the import finds: no fact about its previous owner is open, and a failure of
    /// the import has another cause.
    pub fn is_certain(&self) -> bool {
        !self.proof.needs_activity_check()
    }

    /// The previous owner's note in the labels.
    pub fn note(&self) -> Option<&str> {
        self.candidate.note.as_deref()
    }

    /// Opens the pool. Needs from 50 ms to some seconds, depending on the size of its intent logs.
    pub fn open(self) -> Result<Pool, PoolError> {
        let (candidate, options, proof) = (self.candidate, self.options, self.proof);
        let mut properties = NvList::new();
        if options.read_only {
            properties.set_u64("readonly", 1);
        }
        let mut flags = 0;
        if proof.may_skip_watch() {
            flags |= sys::BH_IMPORT_SKIP_ACTIVITY_CHECK;
        }
        let word = options.word.as_ref();
        let may_lose_logs = |word| candidate.devices.legs.may_lose_logs(word);
        if options.without_log || word.is_some_and(may_lose_logs) {
            flags |= sys::BH_IMPORT_MISSING_LOG;
        }
        if word.is_some_and(|word| candidate.devices.legs.may_lose_newest(word)) {
            flags |= sys::BH_IMPORT_REWIND;
        } else if may_have_lost_power_since(candidate.devices.legs.newest_time_s) {
            flags |= sys::BH_IMPORT_CHECK_NEWEST;
        }
        let note = c_text(candidate.note.as_deref().unwrap_or_default());
        let record = options.record.as_ref().map_or(0, |record| record.number);
        // The import writes labels: the note in them stays until it is replaced. SAFETY: the text is copied.
        unsafe {
            sys::bh_label_note(candidate.guid, note.as_ptr());
            sys::bh_label_record(record);
        }
        let contents = Contents::of(candidate);
        let rejected = &contents.rejected;
        let rejected: Vec<u64> = rejected
            .iter()
            .flat_map(|(txg, sum)| [*txg, *sum])
            .collect();
        // Renamed copies are about to become a new pool. Until they have its GUID they must not be mistaken for the
        // original, which another process may open at any time.
        let becomes_own = contents.are_all && options.rename.is_some() && !options.read_only;
        let leaves = if becomes_own { candidate.guid } else { 0 };
        // SAFETY: the list, which is no longer than the header allows, is copied.
        unsafe { sys::bh_label_start(rejected.as_ptr(), rejected.len() as u32, leaves) };
        let abandoned = abandoned(candidate, word);
        // The library would open any device at the path of one that was not found.
        let is_absent = |one: &&Abandoned| {
            let mut devices = candidate.devices.all.iter();
            !devices.any(|device| device.guid == one.guid && device.present)
        };
        let closed: Vec<u64> = abandoned
            .iter()
            .filter(is_absent)
            .map(|one| one.guid)
            .collect();
        let words = abandoned.iter().flat_map(|one| [one.guid, one.txg]);
        let words: Vec<u64> = words.collect();
        let (count, closed_count) = (words.len() as u32, closed.len() as u32);
        // SAFETY: the lists, which are no longer than the header allows, are copied.
        unsafe { sys::bh_label_abandoned(words.as_ptr(), count, closed.as_ptr(), closed_count) };
        let load = |flags| load(candidate, &self.name, &properties, flags, options);
        let imported = load(flags);
        let checks = sys::BH_IMPORT_CHECK_NEWEST | sys::BH_IMPORT_REWIND;
        match imported {
            // A rewind load determines whether an older state is readable.
            Err(error) if error.kind == PoolErrorKind::Damaged && flags & checks == 0 => {
                let flags = flags | sys::BH_IMPORT_CHECK_NEWEST;
                load(flags)?;
            }
            imported => imported?,
        }
        drop(proof);
        if let Some(guard) = self.guarded.guard {
            guard.keep();
        }
        let mut pool = Pool::opened(self.engine, &self.name, DOING)?;
        pool.abandoned = abandoned;
        pool.left_out.clone_from(&self.candidate.devices.left_out);
        match options.read_only {
            true => pool.behind.clone_from(&contents.behind),
            false => pool.owner = pool.watch_ownership(candidate),
        }
        Ok(pool)
    }
}

/// The devices with data that was given up, now or before. A leg record has its own rule.
fn abandoned(candidate: &Candidate, word: Option<&Confirmation>) -> Vec<Abandoned> {
    let legs = &candidate.devices.legs;
    if legs.record.is_some() {
        return Vec::new();
    }
    let mut abandoned = Contents::of(candidate).abandoned.clone();
    let word = word.filter(|word| word.applies_to(legs));
    for guid in word.into_iter().flat_map(|word| &word.missing) {
        abandoned.retain(|one| one.guid != *guid);
        abandoned.push(Abandoned {
            guid: *guid,
            txg: legs.newest_txg,
        });
    }
    // The oldest ones are the first in the list of a label.
    abandoned.drain(..abandoned.len().saturating_sub(ABANDONED_MAX));
    abandoned
}

/// Has the library open the pool, with every device that has a valid label. Devices that it cannot open count as
/// missing.
fn load(
    candidate: &Candidate,
    name: &PoolName,
    properties: &NvList,
    flags: u32,
    options: &ImportOptions,
) -> Result<(), PoolError> {
    let mut legs = candidate.devices.legs.clone();
    loop {
        let expected = legs.expected();
        let (config, cause) = match attempt(candidate, name, properties, flags, &expected) {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        let unopened = unopened(&config);
        // The number decreases in each round.
        let Some((guid, aux)) = unopened.first() else {
            return Err(explain(candidate, &config, cause));
        };
        legs = legs.without(|leg| unopened.iter().any(|(guid, _)| *guid == leg.guid));
        let path = legs.path_of(*guid).unwrap_or_default();
        let why = reason(DeviceState::Unavailable, *aux, Some(path.clone())).unwrap_or_default();
        tracing::warn!(pool = candidate.name, path = %path.display(), why, "a device that has a label cannot be opened");
        if let Verdict::Refuse(doubt) = legs.judge(&options.evidence()) {
            let doubt = Box::new(doubt);
            let kind = PoolErrorKind::UnopenedMayBeNewer { doubt, path, why };
            return Err(PoolError::because(DOING, &candidate.name, kind, cause));
        }
    }
}

/// The expected devices that the library could not open, by their numbers, with its reasons.
fn unopened(config: &NvList) -> Vec<(u64, u64)> {
    let listed = config.view().numbers(UNOPENED).into_iter();
    let parsed = listed.filter_map(|(number, aux)| Some((number.parse().ok()?, aux)));
    parsed.collect()
}

/// One import by the library; if it fails, the facts that it recorded.
fn attempt(
    candidate: &Candidate,
    name: &PoolName,
    properties: &NvList,
    flags: u32,
    expected: &[u64],
) -> Result<(), (NvList, SystemError)> {
    let found = Contents::of(candidate);
    let (config, aux_paths) = (found.config.clone(), found.aux_paths());
    let behind: Vec<u64> = found.behind.iter().flat_map(Behind::words).collect();
    let c_name = c_text(name.as_str());
    // SAFETY: the list is valid until the import on this thread is over, and is discarded then.
    unsafe { sys::bh_import_behind(behind.as_ptr(), (behind.len() / 3) as u32) };
    // SAFETY: the library runs; name, numbers and lists are valid for the call. It adds its findings to `config`, which
    // has no other user.
    let code = unsafe {
        sys::bh_pool_import(
            c_name.as_ptr(),
            config.as_raw(),
            properties.as_raw(),
            aux_paths.as_raw(),
            flags,
            expected.as_ptr(),
            expected.len() as u32,
        )
    };
    // SAFETY: an empty list is not read.
    unsafe { sys::bh_import_behind(std::ptr::null(), 0) };
    SystemError::check(code).map_err(|cause| (config, cause))
}

/// Whether this host, and with it the pool's disks, may have lost power after `time_s`, in seconds since 1970: it was
/// booted after that. The clocks of heads are not synchronised to the second.
fn may_have_lost_power_since(time_s: u64) -> bool {
    use rustix::time::{ClockId, clock_gettime};
    let now_s = clock_gettime(ClockId::Realtime).tv_sec;
    let up_s = clock_gettime(ClockId::Boottime).tv_sec;
    let started_s = u64::try_from(now_s - up_s).unwrap_or(0);
    time_s < started_s.saturating_add(CLOCK_DIFFERENCE_MAX_S)
}

impl Pool {
    /// Claims the disks of `candidate` and opens the pool on them.
    ///
    /// # Panics
    /// If the proof is about another pool.
    pub fn import(
        engine: &'static Engine,
        candidate: &Candidate,
        proof: SafeToOwn,
        options: &ImportOptions,
    ) -> Result<Self, PoolError> {
        Self::claim(engine, candidate, proof, options)?.open()
    }

    /// Locks the disks of `candidate` and, where they support it, reserves them against other hosts, until the claimed
    /// pool is dropped. Refuses a pool with a newest state that may be on missing devices, and one that was written to
    /// after its labels were read.
    ///
    /// # Panics
    /// If the proof is about another pool.
    pub fn claim<'a>(
        engine: &'static Engine,
        candidate: &'a Candidate,
        proof: SafeToOwn,
        options: &'a ImportOptions,
    ) -> Result<ClaimedPool<'a>, PoolError> {
        assert_eq!(
            proof.pool_guid(),
            candidate.guid,
            "proof about another pool"
        );
        let name = match &options.rename {
            Some(name) => name.clone(),
            None => name_of(candidate)?,
        };
        if !candidate.devices.conflicts.is_empty() {
            let kind = PoolErrorKind::Copies(candidate.devices.conflicts.clone().into());
            return Err(PoolError::new(DOING, &candidate.name, kind));
        }
        log_left_out(candidate);
        if let Some(kind) = PoolErrorKind::against(&candidate.devices.legs, options) {
            return Err(PoolError::new(DOING, &candidate.name, kind));
        }
        let guarded = guard(engine, candidate, &proof, options)?;
        still_the_same(candidate)?;
        Ok(ClaimedPool {
            engine,
            candidate,
            proof,
            options,
            name,
            guarded,
        })
    }
}

/// Reports the devices of the pool that were found and are not used.
fn log_left_out(candidate: &Candidate) {
    let pool = &candidate.name;
    for left_out in &candidate.devices.left_out {
        match left_out {
            LeftOut::SameDevice { path, used } => {
                let (path, used) = (path.display(), used.display());
                tracing::info!(pool, %path, %used, "two names of one device: one of them is used");
            }
            LeftOut::Copy { path, used } => {
                let (path, used) = (path.display(), used.display());
                tracing::warn!(
                    pool, %path, %used,
                    "a copy of a device of the pool is left out: take it away from this host, or give it an identity of its own with \
                     `bulkhead pool reidentify`"
                );
            }
            LeftOut::Abandoned { path, newest_txg } => tracing::warn!(
                pool, path = %path.display(), newest_txg,
                "a device that was in use without the rest of the pool is left out: `pool confirm` gave up its data"
            ),
            LeftOut::Removed { path } => tracing::warn!(
                pool, path = %path.display(),
                "an image of a device that was removed from the pool is left out: take it away from this host"
            ),
            LeftOut::Older { path, newest_txg } => tracing::warn!(
                pool, path = %path.display(), newest_txg,
                "an older copy of a device of the pool is left out: it is not where the pool was last opened"
            ),
        }
    }
}

/// Locks, and where required reserves, the devices of `candidate`.
fn guard(
    engine: &Engine,
    candidate: &Candidate,
    proof: &SafeToOwn,
    options: &ImportOptions,
) -> Result<Guarded, PoolError> {
    let refused = |kind| PoolError::new(DOING, &candidate.name, kind);
    let (paths, claims) = lock_devices(candidate)?;
    if options.read_only || options.claims == Claims::Locks {
        return Ok(Guarded {
            guard: None,
            // A reader in the library would conflict with them.
            claims: if options.read_only {
                Vec::new()
            } else {
                claims
            },
        });
    }
    let guarded = device::guard(claims, engine.host_id(), proof.previous())
        .map_err(|(index, failure)| refused(unusable(&paths[index], failure)))?;
    if guarded.guard.is_none() && options.claims == Claims::Reservations {
        let why = "not every disk of the pool supports persistent reservations".to_owned();
        let path = paths.first().cloned().unwrap_or_default();
        return Err(refused(PoolErrorKind::DeviceUnusable { path, why }));
    }
    let by = if guarded.guard.is_some() {
        "reservations"
    } else {
        "locks"
    };
    tracing::info!(
        pool = candidate.name,
        by,
        "the disks are kept from other heads"
    );
    Ok(guarded)
}

/// A writer between the reading of the labels and the claim has written a newer uberblock, or a device that was locked
/// then has been released since.
fn still_the_same(candidate: &Candidate) -> Result<(), PoolError> {
    let present = candidate.devices.all.iter().filter(|device| device.present);
    let paths: Vec<&PathBuf> = present.map(|device| &device.path).collect();
    let found = at_once(&paths, |path| label::newest_uberblock(path));
    let newest = found.into_iter().flatten().map(|root| root.txg).max();
    match newest.unwrap_or(0) > candidate.devices.legs.newest_txg {
        true => Err(PoolError::new(
            DOING,
            &candidate.name,
            PoolErrorKind::Changed,
        )),
        false => Ok(()),
    }
}

fn name_of(candidate: &Candidate) -> Result<PoolName, PoolError> {
    candidate.name.parse().map_err(|_| {
        let why = "its name is not valid here: import it under a different name".into();
        PoolError::new(DOING, &candidate.name, PoolErrorKind::Shape { why })
    })
}

/// Without this, a device locked by another process would count as missing, and a mirror would be opened without it
/// while that process writes to it.
fn lock_devices(candidate: &Candidate) -> Result<(Vec<PathBuf>, Vec<device::Claim>), PoolError> {
    let (mut paths, mut claims) = (Vec::new(), Vec::new());
    for device in candidate.devices.all.iter().filter(|device| device.present) {
        match device::claim(&device.path) {
            Ok(claim) => {
                paths.push(device.path.clone());
                claims.push(claim);
            }
            Err(failure @ OpenFailure::InUse { .. }) => {
                let kind = unusable(&device.path, failure);
                return Err(PoolError::new(DOING, &candidate.name, kind));
            }
            // The library detects that, and continues without it if it can.
            Err(_) => {}
        }
    }
    Ok((paths, claims))
}

/// The library's findings during the failed import are in the configuration.
fn explain(candidate: &Candidate, config: &NvList, cause: SystemError) -> PoolError {
    use rustix::io::Errno;
    let info = config.view().list("load_info");
    let missing: Vec<String> = candidate
        .devices
        .missing()
        .map(|path| path.display().to_string())
        .collect();
    let unknown: Vec<String> = info
        .and_then(|info| info.list("unsup_feat"))
        .map(|list| list.entries().into_iter().map(|(name, _)| name).collect())
        .unwrap_or_default();
    let log_missing = info
        .and_then(|info| info.list("missing_vdevs"))
        .is_some_and(|tree| tree.lists("children").iter().any(is_log));
    let readable_time_s = info
        .and_then(|info| info.list("rewind_info"))
        .and_then(|older| older.u64("rewind_txg_ts"));
    if let Some(readable_time_s) = readable_time_s {
        let kind = PoolErrorKind::NewestUnreadable {
            newest_txg: candidate.devices.legs.newest_txg,
            newest_time_s: candidate.devices.legs.newest_time_s,
            readable_time_s,
        };
        return PoolError::because(DOING, &candidate.name, kind, cause);
    }
    let kind = match errno(cause.0) {
        Errno::NOTSUP if !unknown.is_empty() => PoolErrorKind::FeatureUnknown {
            features: unknown.join(", "),
        },
        Errno::REMOTEIO => PoolErrorKind::ActiveElsewhere,
        Errno::NXIO | Errno::NOENT if log_missing => PoolErrorKind::LogMissing,
        Errno::NXIO | Errno::NOENT | Errno::OVERFLOW => PoolErrorKind::DevicesMissing {
            missing: if missing.is_empty() {
                "the labels do not tell which".to_owned()
            } else {
                missing.join(", ")
            },
        },
        Errno::IO => PoolErrorKind::Damaged,
        _ => return PoolError::common(DOING, &candidate.name, cause),
    };
    PoolError::because(DOING, &candidate.name, kind, cause)
}

fn is_log(vdev: &crate::nvlist::NvRef<'_>) -> bool {
    vdev.u64("is_log") == Some(1)
}

/// The proof that this host was the last to use the pool, and that the process which did has terminated.
pub fn same_host_and_locked(
    engine: &Engine,
    candidate: &Candidate,
) -> Result<SafeToOwn, PoolError> {
    let refused = |kind| PoolError::new("claim", &candidate.name, kind);
    if candidate.host_id != Some(engine.host_id().0.get()) {
        return Err(refused(PoolErrorKind::ActiveElsewhere));
    }
    let present = candidate.devices.all.iter().filter(|device| device.present);
    let claim = |device: &CandidateDevice| {
        device::claim(&device.path).map_err(|failure| refused(unusable(&device.path, failure)))
    };
    let claims: Vec<device::Claim> = present.map(claim).collect::<Result<_, _>>()?;
    Ok(SafeToOwn::same_host_and_locked(candidate, claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_from_before_boot_may_be_from_a_power_cut() {
        let now_s = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as u64;
        assert!(may_have_lost_power_since(0));
        assert!(may_have_lost_power_since(1_800_000));
        assert!(!may_have_lost_power_since(
            now_s + 2 * CLOCK_DIFFERENCE_MAX_S
        ));
    }
}
