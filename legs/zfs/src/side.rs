//! Legs of an OpenZFS pool in this process, for the owner of their record (`legs`): stamps on disks, the barrier in the
//! device driver, and resilvers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use engine::pool::legs::Record;
use engine::pool::{GroupKind, GroupRole, GroupSpec};
use leg_record::{Completeness, DiskId, LenderState, Notice, Roots, decode_stamp, encode_stamp};
use legs::{DiskState, Reporter, Side};
use units::PoolName;
use zpool::device::legs::{self as barrier, LastLeg, LegFailure, Watcher};
use zpool::device::{
    Labelled, ProbeFailure, STAMP_BYTES, device_bytes, labelled, probe, read_stamps, write_labels,
    write_stamps,
};
use zpool::pool::legs as pool_legs;

/// Interval of checks of a leg during its resilver, and of an excluded leg.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of counts of failed reads, and of probes of the last leg.
const SLOW_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The root of one group may have been in flight when the leg was found complete, and the next root is written before
/// the one that confirms it.
const ROOTS_AFTER: u64 = 2;

/// Opens the pool with exactly the devices of a record.
pub type Open = Box<dyn Fn(Record) -> Result<(), String> + Send + Sync>;

/// The disks of a pool on this head, and the pool.
pub struct ZfsSide {
    pool: PoolName,
    guid: u64,
    record: u64,
    /// Path and I/O time-out of each.
    disks: RwLock<BTreeMap<DiskId, (PathBuf, Duration)>>,
    numbers: Arc<Numbers>,
    watcher: Arc<dyn Watcher>,
    reporter: Reporter,
    open: Open,
}

/// The numbers that ZFS assigned to the pool and its legs, if they differ from those of the record.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<Option<AssignedNumbers>>);

/// Assigned numbers.
#[derive(Clone)]
pub(crate) struct AssignedNumbers {
    pub(crate) pool: u64,
    pub(crate) legs: BTreeMap<DiskId, u64>,
}

impl Numbers {
    pub(crate) fn are(&self, given: AssignedNumbers) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
    }

    fn given(&self) -> Option<AssignedNumbers> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn leg(&self, disk: DiskId) -> u64 {
        let given = self.given();
        given.map_or(disk.0, |given| {
            given.legs.get(&disk).copied().unwrap_or_default()
        })
    }

    /// Removes a leg that is no device of the pool.
    pub(crate) fn remove(&self, disk: DiskId) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = &mut *given {
            given.legs.remove(&disk);
        }
    }

    /// Adds a leg that was attached or added.
    fn add(&self, disk: DiskId, leg: u64) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = &mut *given {
            given.legs.insert(disk, leg);
        }
    }

    fn disk(&self, leg: u64) -> DiskId {
        let given = self.given();
        let legs = given.iter().flat_map(|given| &given.legs);
        let found = legs.into_iter().find(|(_, number)| **number == leg);
        found.map_or(DiskId(leg), |(disk, _)| *disk)
    }
}

struct Reports(Reporter, Arc<Numbers>);

impl Watcher for Reports {
    fn leg_failed(&self, leg: u64, _: LegFailure, flushed: Option<u64>) {
        self.0.leg_failed(self.1.disk(leg), flushed);
    }
}

impl ZfsSide {
    /// The pool has the number `guid`, and the name `pool` once it is open. `response_timeout`: time-out of an I/O.
    pub fn new(
        (pool, guid): (PoolName, u64),
        disks: BTreeMap<DiskId, PathBuf>,
        response_timeout: Duration,
        reporter: Reporter,
        open: Open,
    ) -> Self {
        let numbers = Arc::<Numbers>::default();
        let disks = disks.into_iter();
        let disks = disks.map(|(disk, path)| (disk, (path, response_timeout)));
        Self {
            pool,
            guid,
            record: guid,
            disks: RwLock::new(disks.collect()),
            watcher: Arc::new(Reports(reporter.clone(), Arc::clone(&numbers))),
            reporter,
            numbers,
            open,
        }
    }

    /// Sets the number of the record.
    pub(crate) fn of_record(self, record: u64) -> Self {
        Self { record, ..self }
    }

    /// Adds a disk at that path, with the I/O time-out `within`.
    pub(crate) fn add_known(&self, disk: DiskId, path: PathBuf, within: Duration) {
        let mut disks = self.disks.write().unwrap_or_else(PoisonError::into_inner);
        disks.insert(disk, (path, within));
    }

    fn disks(&self) -> BTreeMap<DiskId, (PathBuf, Duration)> {
        let disks = self.disks.read();
        disks.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The assigned numbers.
    pub(crate) fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }

    fn leg(&self, disk: DiskId) -> u64 {
        self.numbers.leg(disk)
    }

    pub(crate) fn pool_number(&self) -> u64 {
        self.numbers.given().map_or(self.guid, |given| given.pool)
    }

    fn path(&self, disk: DiskId) -> Result<PathBuf, String> {
        let path = self.disks().remove(&disk).map(|(path, _)| path);
        path.ok_or_else(|| "no disk of this head".to_owned())
    }

    /// The newer one of the two stamps, with its sequence; the default for a disk without a stamp.
    fn stamp(&self, disk: DiskId) -> Result<(u64, LenderState), String> {
        let copies = read_stamps(&self.path(disk)?, disk.0).map_err(|error| error.to_string())?;
        let found = copies.iter().filter_map(|copy| decode_stamp(copy, disk));
        Ok(found
            .max_by_key(|(sequence, _)| *sequence)
            .unwrap_or_default())
    }

    /// Reports reads of legs that failed or returned wrong data, while the pool is open.
    fn check_damage(self: &Arc<Self>) {
        let side: Weak<Self> = Arc::downgrade(self);
        let inspect = move || {
            let mut counted = BTreeMap::new();
            while let Some(side) = side.upgrade() {
                for disk in side.disks().into_keys() {
                    side.check_damage_on(disk, counted.entry(disk).or_default());
                }
                drop(side);
                std::thread::sleep(SLOW_POLL_INTERVAL);
            }
        };
        in_background("leg-damage", inspect);
    }

    fn check_damage_on(&self, disk: DiskId, counted: &mut u64) {
        if !barrier::is_in_use(self.leg(disk)) {
            return;
        }
        if let Ok(found) = pool_legs::progress(&self.pool, self.leg(disk)) {
            // The count decreases when the errors of the leg are cleared.
            if std::mem::replace(counted, found.damaged_reads) < found.damaged_reads {
                self.reporter.read_failed(disk);
            }
        }
    }

    /// Polls in the background until the last leg responds at `is_there`, and then uses it again or restarts the
    /// process.
    pub(crate) fn await_last(
        self: &Arc<Self>,
        disk: DiskId,
        name: String,
        is_there: impl Fn() -> bool + Send + 'static,
    ) {
        let (side, path) = (Arc::clone(self), self.disks().remove(&disk));
        let wait = move || {
            let leg = side.leg(disk);
            let is_usable = || {
                let path = path.as_ref().map(|(path, _)| path);
                path.is_some_and(|path| probe(path, side.pool_number(), leg).is_ok())
            };
            loop {
                match barrier::last_leg(leg) {
                    // Another leg is current by now, or the pool is closed.
                    LastLeg::No => return,
                    LastLeg::Complete if is_usable() => {
                        tracing::debug!(leg = disk.0, "the last leg is usable again");
                        return side.reporter.leg_usable(disk);
                    }
                    LastLeg::Incomplete if is_there() => barrier::exit_for_restart(&format!(
                        "{name} failed, and no other leg was current; it responds again"
                    )),
                    LastLeg::Complete | LastLeg::Incomplete => {}
                }
                std::thread::sleep(SLOW_POLL_INTERVAL);
            }
        };
        in_background("last-leg", wait);
    }

    /// Uses the last leg again, in the background.
    fn use_again(self: &Arc<Self>, disk: DiskId) {
        let side = Arc::clone(self);
        in_background("last-leg", move || {
            if !barrier::use_again(side.leg(disk)) {
                return side.reporter.leg_failed(disk, None);
            }
            if let Err(error) = pool_legs::resume_with_leg(&side.pool, side.leg(disk)) {
                tracing::error!(leg = disk.0, %error, "the last leg is used again");
            }
        });
    }

    /// Writes labels to a disk that an administrator gave up or replaced. Its roots may be of later groups than the
    /// pool's, or it has no label: the roots must be removed, and the library needs a label.
    fn relabel(&self, disk: DiskId) -> Result<(), String> {
        let (path, leg) = (self.path(disk)?, self.leg(disk));
        let bytes = device_bytes(&path, leg).map_err(|error| error.to_string())?;
        let least = self.least_bytes(disk)?;
        if bytes < least {
            return Err(too_small(bytes, least));
        }
        write_labels(&path, leg, |offset| {
            let label = pool_legs::label(&self.pool, leg, offset);
            label
                .map(|(text, _)| text)
                .map_err(|error| error.to_string())
        })
    }

    /// Checks, as far as possible, that a disk to be resilvered has the label of that leg.
    fn is_it(&self, disk: DiskId) -> Result<(), String> {
        match labelled(&self.path(disk)?, self.pool_number(), self.leg(disk)) {
            Ok(Labelled::No) => Err(ProbeFailure::Another.to_string()),
            Ok(Labelled::Sibling) => Err(DIFFERENT_LEG.to_owned()),
            Ok(Labelled::Itself) | Err(_) => Ok(()),
        }
    }

    /// The minimum size of a disk that replaces that one, or joins its mirror.
    pub(crate) fn least_bytes(&self, disk: DiskId) -> Result<u64, String> {
        let label = pool_legs::label(&self.pool, self.leg(disk), 0);
        label
            .map(|(_, least)| least)
            .map_err(|error| error.to_string())
    }

    /// Whether the disk is a device of the pool in the library.
    pub(crate) fn is_known(&self, disk: DiskId) -> bool {
        self.leg(disk) != 0
    }

    /// Attaches a new disk to the other legs of its group.
    pub(crate) fn attach(&self, disk: DiskId, group: &[DiskId]) -> Result<(), String> {
        let mut legs = group.iter().map(|one| self.leg(*one));
        let sibling = legs.rfind(|leg| barrier::is_in_use(*leg));
        let sibling = sibling.ok_or("no other leg of its group is in use")?;
        let leg = pool_legs::attach(&self.pool, sibling, &self.path(disk)?);
        let leg = leg.map_err(|error| error.to_string())?;
        let within = self.disks().get(&disk).map(|(_, within)| *within);
        let within = within.unwrap_or_default();
        barrier::register_legs(self.pool_number(), [leg], within, &self.watcher);
        self.numbers.add(disk, leg);
        // The library opened it before it was a leg: it must open it again.
        barrier::exclude(leg, 1);
        Ok(())
    }

    /// Adds a group of disks to the pool, all of which are current on record and no devices of the pool yet.
    pub(crate) fn add(
        &self,
        kind: GroupKind,
        role: GroupRole,
        disks: &[DiskId],
    ) -> Result<(), String> {
        let known = self.disks();
        let of = |disk: &DiskId| known.get(disk).cloned();
        let devices: Option<BTreeMap<PathBuf, Duration>> = disks.iter().map(of).collect();
        let devices = devices.ok_or("a disk of the group is unknown")?;
        let beside = known
            .keys()
            .map(|disk| self.leg(*disk))
            .find(|leg| *leg != 0);
        let beside = beside.ok_or("the pool is not open")?;
        let group = GroupSpec {
            kind,
            role,
            devices: disks.iter().filter_map(|disk| Some(of(disk)?.0)).collect(),
        };
        let numbers = Arc::clone(&self.numbers);
        let named = move |path: &Path, leg: u64| {
            let disk = known.iter().find(|(_, (place, _))| place == path);
            if let Some((disk, _)) = disk {
                numbers.add(*disk, leg);
            }
        };
        let (pool, watcher) = (self.pool_number(), &self.watcher);
        let added = barrier::add((pool, devices), watcher, Arc::new(named), || {
            pool_legs::add(&self.pool, &[group], beside)
        });
        added.map_err(|error| {
            disks.iter().for_each(|disk| self.numbers.remove(*disk));
            error.to_string()
        })
    }

    /// Prepares a disk of a group that is no part of the pool yet: it has no data to copy, and loses its labels.
    ///
    /// # Errors
    ///
    /// It cannot be written, or the pool has not passed `beyond`, its newest root before: it must be claimed again.
    pub(crate) fn prepare(&self, disk: DiskId, beyond: u64) -> Result<Completeness, String> {
        let text = |error: engine::pool::PoolError| error.to_string();
        pool_legs::erase_labels("prepare a leg of", &self.pool, &self.path(disk)?).map_err(text)?;
        pool_legs::write_group(&self.pool).map_err(text)?;
        let progress = pool_legs::progress(&self.pool, 0).map_err(text)?;
        match progress.synced_group > beyond {
            true => Ok(Completeness {
                lacks_nothing: true,
                are_groups_synced: true,
                is_flushed: true,
                group: progress.synced_group,
            }),
            false => Err("its old labels were erased, and it is claimed again".to_owned()),
        }
    }

    /// Excludes the disk on an administrator's request.
    pub(crate) fn remove_device(&self, disk: DiskId) {
        barrier::fail(self.leg(disk), LegFailure::Replaced);
    }

    /// Blocks until the leg is missing no data.
    fn await_healthy(&self, disk: DiskId) -> Result<u64, String> {
        loop {
            if !barrier::is_in_use(self.leg(disk)) {
                return Err("it failed while data was copied to it".into());
            }
            let found = pool_legs::progress(&self.pool, self.leg(disk))
                .map_err(|error| error.to_string())?;
            if found.is_whole {
                return Ok(found.synced_group);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Why a disk is not resilvered if it has the number or the path of another leg in the configuration.
pub const DIFFERENT_LEG: &str = "the disk at its path is another leg of the pool";

/// Why a disk is too small as a replacement.
pub(crate) fn too_small(bytes: u64, least: u64) -> String {
    format!("it has {bytes} bytes, and the leg needs {least}: take a larger disk")
}

pub(crate) fn in_background(name: &str, body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.into());
    // As with memory: a process that cannot create threads cannot continue.
    thread.spawn(body).expect("a thread");
}

/// The side that also checks for damaged blocks.
pub struct Watched(pub Arc<ZfsSide>);

impl Side for Watched {
    fn inspect(&self, disk: DiskId) -> Result<DiskState, String> {
        let (_, kept) = self.0.stamp(disk)?;
        let newest = pool_legs::newest_roots(&self.0.path(disk)?);
        let newest = newest.ok_or("it has no label of a pool")?;
        Ok(DiskState {
            kept,
            roots: Roots {
                newest: newest.group,
                before: newest.before,
            },
            newest_time: Some(newest.time),
        })
    }

    fn keep(&self, disk: DiskId, kept: &LenderState) -> Result<(), String> {
        let (sequence, _) = self.0.stamp(disk)?;
        let mut block = encode_stamp(disk, sequence + 1, kept).to_vec();
        block.resize(STAMP_BYTES, 0);
        write_stamps(&self.0.path(disk)?, disk.0, &block).map_err(|error| error.to_string())
    }

    fn open(
        &self,
        current: &BTreeSet<DiskId>,
        lacking: &BTreeMap<DiskId, u64>,
    ) -> Result<(), String> {
        let side = &self.0;
        let disks = side.disks().into_iter();
        for (disk, (_, within)) in disks.filter(|(disk, _)| side.is_known(*disk)) {
            barrier::register_legs(side.pool_number(), [side.leg(disk)], within, &side.watcher);
        }
        // A group may be on record that is no part of the pool yet.
        let known = || current.iter().filter(|disk| side.is_known(**disk));
        for disk in known() {
            barrier::admit(side.leg(*disk));
        }
        (side.open)(Record {
            number: side.record,
            current: known().map(|disk| side.leg(*disk)).collect(),
        })?;
        // The addition of a group was interrupted. A label of one of its disks names all of them.
        let disks = side.disks().into_keys();
        for disk in disks.filter(|disk| side.is_known(*disk)) {
            if !pool_legs::is_part(&side.pool, side.leg(disk)) {
                side.numbers.remove(disk);
            }
        }
        // If the library could not use one when it opened the pool.
        for disk in known() {
            let found = pool_legs::progress(&side.pool, side.leg(*disk));
            if !found.is_ok_and(|found| found.is_written) {
                tracing::debug!(pool = %side.pool, leg = disk.0, "the library cannot use a leg");
                barrier::fail_and_wait(side.leg(*disk), LegFailure::Unusable);
            }
        }
        let lacking = lacking.iter().filter(|(disk, _)| side.is_known(**disk));
        let noted = lacking.into_iter().try_for_each(|(disk, since)| {
            pool_legs::note_missing_data(&side.pool, side.leg(*disk), *since, false)
        });
        noted
            .and_then(|()| pool_legs::write_group(&side.pool))
            .map_err(|error| error.to_string())?;
        side.check_damage();
        Ok(())
    }

    fn exclude(&self, disk: DiskId, since: u64) {
        tracing::debug!(pool = %self.0.pool, leg = disk.0, since, "a leg is excluded");
        barrier::exclude(self.0.leg(disk), since);
    }

    fn keep_last(&self, disk: DiskId) {
        tracing::debug!(pool = %self.0.pool, leg = disk.0, "the last leg is not excluded");
        barrier::keep_last(self.0.leg(disk));
        let side = Arc::clone(&self.0);
        let is_there = move || {
            let path = side.path(disk).ok();
            path.is_some_and(|path| probe(&path, side.pool_number(), side.leg(disk)).is_ok())
        };
        self.0.await_last(disk, self.name(disk), is_there);
    }

    fn use_again(&self, disk: DiskId) {
        self.0.use_again(disk);
    }

    fn is_back(&self, disk: DiskId, is_given_up: bool) -> Result<(), String> {
        let (path, leg) = (self.0.path(disk)?, self.0.leg(disk));
        match is_given_up {
            true => device_bytes(&path, leg)
                .map(|_| ())
                .map_err(|error| error.to_string()),
            false => probe(&path, self.0.pool_number(), leg).map_err(|failure| failure.to_string()),
        }
    }

    fn newest_group(&self) -> Option<u64> {
        let (disk, _) = self.0.disks().pop_first()?;
        let progress = pool_legs::progress(&self.0.pool, self.0.leg(disk)).ok()?;
        Some(progress.synced_group)
    }

    fn resilver(&self, disk: DiskId, since: u64, beyond: u64) -> Result<Completeness, String> {
        let side = &self.0;
        let text = |error: engine::pool::PoolError| error.to_string();
        match since {
            0 => side.relabel(disk)?,
            // The library would only report that it cannot be used.
            _ => side.is_it(disk)?,
        }
        tracing::debug!(pool = %side.pool, leg = disk.0, since, beyond, "a resilver begins");
        pool_legs::note_missing_data(&side.pool, side.leg(disk), since, true).map_err(text)?;
        barrier::admit(side.leg(disk));
        pool_legs::bring_back(&side.pool, side.leg(disk)).map_err(text)?;
        let whole_at = side.await_healthy(disk)?;
        let (pool, leg) = (&side.pool, disk.0);
        tracing::debug!(%pool, leg, whole_at, since, beyond, "the data of a leg is complete");
        let enough = beyond.max(whole_at + ROOTS_AFTER);
        let mut last = 0;
        loop {
            pool_legs::write_group(&side.pool).map_err(text)?;
            side.await_healthy(disk)?;
            // The flush of a later group covers all copied data, and the groups of the log that were written during the
            // copy.
            match barrier::flushed_group(side.leg(disk)) {
                Some(group) if group > enough => {
                    tracing::debug!(%pool, leg, group, "the return of a leg is flushed");
                    return Ok(Completeness {
                        lacks_nothing: true,
                        are_groups_synced: true,
                        is_flushed: true,
                        group,
                    });
                }
                Some(group) if group > last => last = group,
                _ => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn stop(&self) {
        barrier::end("the record of its legs names another owner");
    }

    fn name(&self, disk: DiskId) -> String {
        match self.0.path(disk) {
            Ok(path) => path.display().to_string(),
            Err(_) => format!("disk {}", disk.0),
        }
    }

    fn notify(&self, notice: &Notice) {
        match notice {
            Notice::Refused(why) => tracing::error!(?why, "the pool is not opened"),
            Notice::WritesWait { accepted } => tracing::error!(
                ?accepted,
                "writes wait: a leg failed, and too few members respond to put that on record"
            ),
            Notice::LastLeg(disk) => tracing::error!(
                name = self.name(*disk),
                "writes wait: the last current leg failed; repair it, the server restarts when it responds"
            ),
            Notice::OlderImage(disk) => tracing::error!(
                name = self.name(*disk),
                "a returning disk is older than it was when it became stale, like a restored image: it is copied in full"
            ),
            Notice::MembersStay => tracing::warn!(
                "the members of the record are unchanged: the other head did not accept the change in time"
            ),
            Notice::Divergent(disk) => tracing::error!(
                name = self.name(*disk),
                "a disk has a history that is not this pool's, and is not used"
            ),
        }
    }
}
