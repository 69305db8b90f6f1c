//! An OpenZFS pool with legs on several heads, for the owner of its record (`legs`).

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek as _, SeekFrom};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use certificates::Identity;
use engine::pool::{Candidate, GroupKind, GroupRole};
use leg_record::{Completeness, DiskId, LenderState, MemberId, Notice, Roots, Session};
use legs::{DiskState, Granted, Reporter, Side};
use legs_config::{Leg, LegsFile, Member, Redundancy, Role};
use remote_leg::{Access, Event, NbdLeg, Settings, Transport as _};
use takeover::budget::{DEVICE_DEADLINE, LEG_DEADLINE, LEG_LIFE_WAIT, LEG_SILENCE};
use units::PoolName;
use zpool::EngineOptions;
use zpool::device::legs::{self as barrier, LegFailure};
use zpool::device::{OpenFailure, ProbeFailure, probe};
use zpool::pool::{discover, legs as pool_legs};

use crate::remote::Remotes;
use crate::side::{AssignedNumbers, Open, Watched, ZfsSide, in_background};

/// Time-out for connecting to a lender.
const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// The same for an interactive command.
pub const LONG_CONNECT_WAIT: Duration = Duration::from_secs(10);
/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The legs of one pool, as this head reaches them.
pub struct MultiHead {
    pool: PoolName,
    /// The configuration as last read.
    file: RwLock<Arc<LegsFile>>,
    identity: Arc<Identity>,
    remotes: Arc<Remotes>,
    granted: Mutex<BTreeMap<DiskId, Granted>>,
}

/// Opens a discovered pool, with exactly the devices of a record.
pub type OpenFound =
    Box<dyn Fn(Candidate, engine::pool::legs::Record) -> Result<(), String> + Send + Sync>;

impl MultiHead {
    /// The legs of `pool`. Their names are in the pool's directory in `run_dir`. `None`: the file does not name the
    /// pool.
    pub fn new(
        file: LegsFile,
        identity: Arc<Identity>,
        pool: &PoolName,
        run_dir: &Path,
    ) -> Option<Arc<Self>> {
        let me = file.me.clone();
        Self::reaching(file, identity, pool, run_dir, |leg| leg.head == me)
    }

    /// The same for read-only access: all legs are reached through their lenders, also those of this head, which its
    /// lender has open.
    pub fn for_inspection(
        file: LegsFile,
        identity: Arc<Identity>,
        pool: &PoolName,
        run_dir: &Path,
    ) -> Option<Arc<Self>> {
        Self::reaching(file, identity, pool, run_dir, |_| false)
    }

    fn reaching(
        file: LegsFile,
        identity: Arc<Identity>,
        pool: &PoolName,
        run_dir: &Path,
        is_own: impl Fn(&Leg) -> bool,
    ) -> Option<Arc<Self>> {
        let legs = file.pools.get(pool)?.groups.iter();
        let legs: Vec<_> = legs.flat_map(|group| &group.legs).cloned().collect();
        let (own, others): (Vec<_>, Vec<_>) = legs.into_iter().partition(is_own);
        // Paths of devices are absolute.
        let run_dir = std::path::absolute(run_dir).ok()?;
        let folder = run_dir.join("legs").join(pool.as_str());
        let own: BTreeSet<DiskId> = own.into_iter().map(|leg| DiskId(leg.disk)).collect();
        let others = others.into_iter().map(|leg| DiskId(leg.disk));
        Some(Arc::new(Self {
            pool: pool.clone(),
            identity,
            remotes: Remotes::new(folder, own, others),
            granted: Mutex::default(),
            file: RwLock::new(Arc::new(file)),
        }))
    }

    /// Wraps the driver in the `options` of the engine, so that the engine reaches these legs.
    ///
    /// # Panics
    ///
    /// The options are of another engine.
    pub fn install(&self, options: &mut dyn Any) {
        let options = options.downcast_mut::<EngineOptions>();
        let options = options.expect("options of the engine that the legs are of");
        options.devices.wrap = Some(self.remotes.wrap(options.devices.wrap.take()));
    }

    /// Path of a leg's name on this head.
    pub fn place(&self, disk: DiskId) -> PathBuf {
        self.remotes.place(disk)
    }

    /// The pool's number in the record.
    pub fn record(&self) -> u64 {
        self.file().pools[&self.pool].guid
    }

    /// The configuration as last read.
    pub fn file(&self) -> Arc<LegsFile> {
        Arc::clone(&self.file.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes the name of `disk`, which has a new path.
    ///
    /// # Errors
    ///
    /// The directory of names cannot be written.
    pub fn has_moved(&self, disk: DiskId) -> std::io::Result<()> {
        self.remotes.remove_name(disk)
    }

    /// Sets the configuration. `file` adds a witness or a head, or changes the path of a disk; it must not differ
    /// otherwise.
    pub fn has_read(&self, file: LegsFile) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
    }

    /// The other disks of a disk's group.
    pub fn group(&self, disk: DiskId) -> Vec<DiskId> {
        let file = self.file();
        let mut groups = file.pools[&self.pool].groups.iter();
        let group = groups.find(|group| group.legs.iter().any(|leg| leg.disk == disk.0));
        let legs = group.into_iter().flat_map(|group| &group.legs);
        let disks = legs.map(|leg| DiskId(leg.disk));
        disks.filter(|one| *one != disk).collect()
    }

    /// Whether the disk is on this head.
    pub fn is_own(&self, disk: DiskId) -> bool {
        self.remotes.is_own(disk)
    }

    /// Paths of the disks of this head.
    pub fn own_paths(&self) -> Vec<PathBuf> {
        let own = self.remotes.own().into_iter();
        own.filter_map(|disk| self.own_path(disk)).collect()
    }

    fn own_path(&self, disk: DiskId) -> Option<PathBuf> {
        let file = self.file();
        let (_, leg) = file.leg(disk).filter(|_| self.is_own(disk))?;
        Some(leg.path.clone())
    }

    fn grants(&self) -> MutexGuard<'_, BTreeMap<DiskId, Granted>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the session that a lender admitted.
    pub fn grant(&self, disk: DiskId, granted: Granted) {
        self.grants().insert(disk, granted);
    }

    fn access(&self, disk: DiskId, within: Duration) -> Result<(Access, Settings), String> {
        let granted = self.grants().get(&disk).cloned();
        let granted = granted.ok_or("its lender admitted no session")?;
        let head = self.lender(disk)?;
        let access = Access {
            session: granted.session,
            incarnation: granted.incarnation,
            export: granted.export,
            addresses: head.lends.clone(),
        };
        Ok((access, self.settings(&head, false, within)?))
    }

    fn lender(&self, disk: DiskId) -> Result<Member, String> {
        let file = self.file();
        let head = file.leg(disk).and_then(|(head, _)| file.member(head));
        Ok(head.ok_or("no head lends it")?.clone())
    }

    fn settings(
        &self,
        head: &Member,
        only_looks: bool,
        connect_wait: Duration,
    ) -> Result<Settings, String> {
        let tls = self.identity.client(head.fingerprint);
        Ok(Settings {
            tls: Some(tls.map_err(|error| error.to_string())?),
            only_looks,
            deadline: LEG_DEADLINE,
            connect_wait,
            silence: LEG_SILENCE,
            life_wait: LEG_LIFE_WAIT,
        })
    }

    /// Connects to a leg for read-only access without a session: the session of an owner is not affected.
    ///
    /// # Errors
    ///
    /// No address of its lender responds, or the leg is not lent now.
    pub fn inspect(&self, disk: DiskId) -> Result<(), String> {
        let slot = self.remotes.slot(disk).ok_or("it is on this head")?;
        slot.connect(self.inspected(disk)?);
        Ok(())
    }

    fn inspected(&self, disk: DiskId) -> Result<NbdLeg, String> {
        let head = self.lender(disk)?;
        let access = Access {
            session: Session::default(),
            incarnation: 0,
            export: disk.0.to_string(),
            addresses: head.lends.clone(),
        };
        let settings = self.settings(&head, true, LONG_CONNECT_WAIT)?;
        let leg = NbdLeg::connect(disk, &access, settings, |_| {});
        leg.map_err(|error| error.to_string())
    }

    /// Connects to a leg of another head with the last granted session.
    ///
    /// # Errors
    ///
    /// No address of its lender accepts the session in time.
    pub fn connect(
        &self,
        disk: DiskId,
        within: Duration,
        notify: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<(), String> {
        let slot = self.remotes.slot(disk).ok_or("it is on this head")?;
        let (access, settings) = self.access(disk, within)?;
        let leg = NbdLeg::connect(disk, &access, settings, notify);
        slot.connect(leg.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Creates the names of the own legs that `named` selects, and the labels of all connected legs.
    ///
    /// # Errors
    ///
    /// The directory of names cannot be written.
    pub fn lay_out(&self, named: impl Fn(DiskId) -> bool) -> std::io::Result<()> {
        let own = self.remotes.own().into_iter().filter(|disk| named(*disk));
        let own: Vec<(DiskId, PathBuf)> = own
            .filter_map(|disk| Some((disk, self.own_path(disk)?)))
            .collect();
        self.remotes.lay_out(&own)
    }

    /// Discovers the pool from the legs that are laid out.
    ///
    /// # Errors
    ///
    /// They belong to no pool, or to several.
    pub fn found(&self) -> Result<Candidate, String> {
        let some = self.remotes.own().pop_first().unwrap_or(DiskId(0));
        let place = self.remotes.place(some);
        let folder = place.parent().map(Path::to_owned).unwrap_or_default();
        let found = discover(&[folder]).map_err(|error| error.to_string())?;
        let mut found = found
            .into_iter()
            .filter(|one| one.name == self.pool.as_str());
        match (found.next(), found.next()) {
            (Some(candidate), None) => Ok(candidate),
            (None, _) => Err(format!(
                "no current leg has a label of pool {}: is legs.toml about another pool?",
                self.pool
            )),
            (Some(_), Some(_)) => Err(format!(
                "the legs belong to several pools called {}",
                self.pool
            )),
        }
    }
}

/// Adds groups of legs to the pool in the library.
struct Adder {
    multi_head: Arc<MultiHead>,
    zfs: Arc<ZfsSide>,
    /// Held while a group is added.
    adding: Mutex<()>,
}

impl Adder {
    /// Adds the group of a disk to the pool in the library: all of its disks are current on record.
    ///
    /// # Errors
    ///
    /// The library rejects a device.
    fn add(&self, disk: DiskId) -> Result<(), String> {
        let _one_at_a_time = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if self.zfs.is_known(disk) {
            return Ok(());
        }
        let file = self.multi_head.file();
        let mut groups = file.pools[&self.multi_head.pool].groups.iter();
        let group = groups.find(|group| group.legs.iter().any(|leg| leg.disk == disk.0));
        let group = group.ok_or("no group has the disk")?;
        let disks: Vec<DiskId> = group.legs.iter().map(|leg| DiskId(leg.disk)).collect();
        let kind = match group.redundancy() {
            Some(Redundancy::Mirror) => GroupKind::Mirror,
            Some(Redundancy::Parity(1)) => GroupKind::Raidz1,
            Some(Redundancy::Parity(2)) => GroupKind::Raidz2,
            Some(Redundancy::Parity(_)) => GroupKind::Raidz3,
            Some(Redundancy::None) | None => GroupKind::Stripe,
        };
        let role = match group.role {
            Role::Data => GroupRole::Data,
            Role::Log => GroupRole::Log,
        };
        self.zfs.add(kind, role, &disks)?;
        let (pool, disks) = (&self.multi_head.pool, disks.len());
        tracing::info!(%pool, disks, "a group of legs is part of the pool");
        Ok(())
    }

    /// A disk of each group that is whole on record, and no part of the pool in the library: its addition was
    /// interrupted, or is in progress.
    fn interrupted(&self, current: &BTreeSet<DiskId>) -> Vec<DiskId> {
        let file = self.multi_head.file();
        let groups = file.pools[&self.multi_head.pool].groups.iter();
        let of_group = |group: &legs_config::Group| {
            let mut disks = group.legs.iter().map(|leg| DiskId(leg.disk));
            let is_whole = disks.clone().all(|disk| current.contains(&disk));
            let is_part = disks.clone().any(|disk| self.zfs.is_known(disk));
            disks.next().filter(|_| is_whole && !is_part)
        };
        groups.filter_map(of_group).collect()
    }

    /// Completes the addition of groups.
    fn add_interrupted(&self, current: &BTreeSet<DiskId>) {
        for disk in self.interrupted(current) {
            if let Err(why) = self.add(disk) {
                let name = self.multi_head.file().disk_name(disk);
                tracing::error!(
                    name,
                    why,
                    "a group of legs on record cannot be added to the pool"
                );
            }
        }
    }
}

/// The interface between the record and the legs of all heads.
pub struct MultiHeadSide {
    multi_head: Arc<MultiHead>,
    zfs: Watched,
    reporter: Reporter,
    /// Time-out of an I/O of a leg on this head.
    response_timeout: Duration,
    adder: Arc<Adder>,
    found: Arc<Mutex<Option<Candidate>>>,
}

impl MultiHeadSide {
    /// `response_timeout`: time-out of an I/O of a leg on this head. `open` opens the pool.
    pub fn new(
        multi_head: &Arc<MultiHead>,
        response_timeout: Duration,
        reporter: Reporter,
        open: OpenFound,
    ) -> Self {
        let found = Arc::new(Mutex::new(None::<Candidate>));
        let taken = Arc::clone(&found);
        let open: Open = Box::new(move |record| {
            let candidate = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
            open(candidate.ok_or("no pool was found")?, record)
        });
        let disks = multi_head.remotes.own().into_iter();
        let places = disks.map(|disk| (disk, multi_head.place(disk))).collect();
        let zfs = ZfsSide::new(
            (multi_head.pool.clone(), 0),
            places,
            response_timeout,
            reporter.clone(),
            open,
        )
        .of_record(multi_head.record());
        for disk in multi_head.remotes.disks() {
            zfs.add_known(disk, multi_head.place(disk), DEVICE_DEADLINE);
        }
        let zfs = Arc::new(zfs);
        Self {
            multi_head: Arc::clone(multi_head),
            adder: Arc::new(Adder {
                multi_head: Arc::clone(multi_head),
                zfs: Arc::clone(&zfs),
                adding: Mutex::default(),
            }),
            zfs: Watched(zfs),
            reporter,
            response_timeout,
            found,
        }
    }

    /// Sets the configuration, and adds the legs of a new head or of new groups.
    pub fn has_read(&self, file: LegsFile) {
        let legs = file.pools.get(&self.multi_head.pool).into_iter();
        let legs = legs.flat_map(|pool| &pool.groups);
        for leg in legs.flat_map(|group| &group.legs) {
            let (disk, is_own) = (DiskId(leg.disk), leg.head == file.me);
            if self.multi_head.remotes.add(disk, is_own) {
                let within = match is_own {
                    true => self.response_timeout,
                    false => DEVICE_DEADLINE,
                };
                let place = self.multi_head.place(disk);
                self.zfs.0.add_known(disk, place, within);
            }
        }
        self.multi_head.has_read(file);
    }

    /// Whether a disk is a device of the pool in the library.
    pub fn is_part(&self, disk: DiskId) -> bool {
        self.zfs.0.is_known(disk)
    }

    /// Adds the group of a disk to the pool in the library: all of its disks are current on record.
    ///
    /// # Errors
    ///
    /// The library rejects a device.
    pub fn add(&self, disk: DiskId) -> Result<(), String> {
        self.adder.add(disk)
    }

    /// Checks that the disk at `path`, which its lender has read of, is large enough to replace that disk.
    ///
    /// # Errors
    ///
    /// It is too small, or cannot be read.
    pub fn has_room_on(&self, disk: DiskId, path: &Path) -> Result<(), String> {
        let bytes = self.bytes_of(disk, path)?;
        let mut group = self.multi_head.group(disk).into_iter().chain([disk]);
        let known = group.rfind(|one| self.zfs.0.is_known(*one));
        let least = self
            .zfs
            .0
            .least_bytes(known.ok_or("no leg of its group is known")?)?;
        match bytes < least {
            true => Err(crate::side::too_small(bytes, least)),
            false => Ok(()),
        }
    }

    /// The size of the disk at `path`, which its lender has read of.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn bytes_of(&self, disk: DiskId, path: &Path) -> Result<u64, String> {
        match self.multi_head.is_own(disk) {
            true => std::fs::File::open(path)
                .and_then(|mut file| file.seek(SeekFrom::End(0)))
                .map_err(|error| error.to_string()),
            false => Ok(self.multi_head.inspected(disk)?.bytes()),
        }
    }

    /// Writes to all legs. Every leg that is current on return has completed a write and a flush; one on a lost head is
    /// stale in the record.
    ///
    /// # Errors
    ///
    /// The pool is not open.
    pub fn try_all(&self) -> Result<(), String> {
        pool_legs::write_group(&self.multi_head.pool).map_err(|error| error.to_string())
    }

    /// Excludes the disk on an administrator's request. The record follows soon.
    pub fn remove_device(&self, disk: DiskId) {
        self.zfs.0.remove_device(disk);
    }

    fn is_elsewhere(&self, disk: DiskId) -> bool {
        self.multi_head.remotes.slot(disk).is_some()
    }

    fn connect(&self, disk: DiskId) -> Result<(), String> {
        let (reporter, numbers) = (self.reporter.clone(), Arc::clone(self.zfs.0.numbers()));
        self.multi_head
            .connect(disk, CONNECT_WAIT, move |event| match event {
                Event::Lost => {
                    tracing::debug!(leg = disk.0, "the connection to a leg is lost");
                    reporter.link_lost(disk, barrier::flushed_group(numbers.leg(disk)));
                }
                Event::Failed(remote_leg::LegError::Closed) => {}
                Event::Failed(error) => {
                    tracing::warn!(leg = disk.0, %error, "a leg of another head failed");
                    barrier::fail(numbers.leg(disk), LegFailure::TimedOut);
                }
            })
    }
}

impl MultiHeadSide {
    /// If two disks of a head swap their paths in `legs.toml`, they would be confused: the record counts copies by the
    /// groups of the file, and the library by their labels. The labels of its mirror show the group of a missing
    /// leg.
    fn refuse_crossed(&self, candidate: &Candidate) -> Result<(), String> {
        let file = self.multi_head.file();
        let configured = &file.pools[&self.multi_head.pool].groups;
        let group_of = |disk: &DiskId| {
            let mut groups = configured.iter();
            groups.position(|group| group.legs.iter().any(|leg| leg.disk == disk.0))
        };
        let mut labelled: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, group) in candidate.devices.legs.groups.iter().enumerate() {
            for leg in group.members.iter().flatten() {
                let Some(disk) = self.multi_head.remotes.at(&leg.path) else {
                    continue;
                };
                let Some(named) = group_of(&disk) else {
                    continue;
                };
                let was = self.multi_head.remotes.at(&leg.labelled);
                let is_itself = was.is_none_or(|was| was == disk);
                let is_alone = labelled
                    .iter()
                    .all(|(one, of)| (*one == named) == (*of == number));
                if !is_itself || !is_alone {
                    let (pool, leg) = (&self.multi_head.pool, disk.0);
                    tracing::debug!(%pool, leg, is_itself, is_alone, "labels and file differ");
                    return Err(format!(
                        "{} is another disk of pool {} by its label than by legs.toml: two disks have each other's number there, or each other's \
                         path. Correct the entries. Nothing was written to them",
                        self.name(disk),
                        self.multi_head.pool
                    ));
                }
                labelled.insert(named, number);
            }
        }
        Ok(())
    }
}

impl Side for MultiHeadSide {
    fn inspect(&self, disk: DiskId) -> Result<DiskState, String> {
        let path = self
            .multi_head
            .own_path(disk)
            .ok_or("it is on another head")?;
        let newest = pool_legs::newest_roots(&path);
        let newest = newest.ok_or("it has no label of a pool")?;
        Ok(DiskState {
            // It is stored by the lender.
            kept: LenderState::default(),
            roots: Roots {
                newest: newest.group,
                before: newest.before,
            },
            newest_time: Some(newest.time),
        })
    }

    fn keep(&self, disk: DiskId, _: &LenderState) -> Result<(), String> {
        Err(format!("the lender of disk {} stores it", disk.0))
    }

    fn open(
        &self,
        current: &BTreeSet<DiskId>,
        lacking: &BTreeMap<DiskId, u64>,
    ) -> Result<(), String> {
        for disk in current.iter().filter(|disk| self.is_elsewhere(**disk)) {
            if let Err(why) = self.connect(*disk) {
                let name = self.name(*disk);
                tracing::warn!(name, why, "a leg of another head cannot be opened");
            }
        }
        let multi_head = &self.multi_head;
        let laid_out = multi_head.lay_out(|disk| current.contains(&disk));
        laid_out.map_err(|error| format!("create the names of legs: {error}"))?;
        let candidate = multi_head.found()?;
        self.refuse_crossed(&candidate)?;
        let devices = candidate.devices.all.iter();
        let legs = devices.filter_map(|one| Some((multi_head.remotes.at(&one.path)?, one.guid)));
        self.zfs.0.numbers().are(AssignedNumbers {
            pool: candidate.guid,
            legs: legs.collect(),
        });
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(candidate);
        let opened = self.zfs.open(current, lacking);
        multi_head.remotes.drop_cached_labels();
        if opened.is_ok() {
            self.adder.add_interrupted(current);
        }
        opened
    }

    /// The record that makes a group whole is the last one of its addition, also if the command that began it was
    /// interrupted.
    fn committed(&self, current: &BTreeSet<DiskId>) {
        if self.adder.interrupted(current).is_empty() {
            return;
        }
        let (adder, current) = (Arc::clone(&self.adder), current.clone());
        in_background("leg-add", move || adder.add_interrupted(&current));
    }

    fn exclude(&self, disk: DiskId, since: u64) {
        self.zfs.exclude(disk, since);
        if let Some(slot) = self.multi_head.remotes.slot(disk) {
            slot.close();
        }
    }

    fn keep_last(&self, disk: DiskId) {
        if !self.is_elsewhere(disk) {
            return self.zfs.keep_last(disk);
        }
        tracing::debug!(pool = %self.multi_head.pool, leg = disk.0, "the last leg is kept");
        barrier::keep_last(self.zfs.0.numbers().leg(disk));
        let (name, head) = (self.name(disk), self.multi_head.lender(disk));
        let addresses = head.map(|head| head.lends).unwrap_or_default();
        let is_there = move || {
            let mut addresses = addresses.iter();
            addresses.any(|one| TcpStream::connect_timeout(one, CONNECT_WAIT).is_ok())
        };
        self.zfs.0.await_last(disk, name, is_there);
    }

    fn use_again(&self, disk: DiskId) {
        self.zfs.use_again(disk);
    }

    fn is_back(&self, disk: DiskId, is_given_up: bool) -> Result<(), String> {
        let path = self
            .multi_head
            .own_path(disk)
            .ok_or("it is on another head")?;
        let linked = self.multi_head.remotes.link(disk, &path);
        linked.map_err(|error| format!("create its name: {error}"))?;
        if is_given_up {
            // Its lender checks whether it can be opened.
            return Ok(());
        }
        let numbers = self.zfs.0.numbers();
        let probed = probe(
            &self.multi_head.place(disk),
            self.zfs.0.pool_number(),
            numbers.leg(disk),
        );
        match probed {
            // Its lender has it open, and passes it on when it is claimed.
            Err(ProbeFailure::Open(OpenFailure::InUse { .. }))
                if pool_legs::newest_roots(&path).is_some() =>
            {
                Ok(())
            }
            other => other.map_err(|failure| failure.to_string()),
        }
    }

    fn newest_group(&self) -> Option<u64> {
        self.zfs.newest_group()
    }

    fn granted(&self, disk: DiskId, granted: Granted) {
        let (term, session) = (granted.session.ballot.epoch, granted.session.number);
        tracing::debug!(pool = %self.multi_head.pool, leg = disk.0, term, session, "a granted session");
        self.multi_head.grant(disk, granted);
    }

    fn resume(&self, disk: DiskId) -> Result<(), String> {
        let slot = self
            .multi_head
            .remotes
            .slot(disk)
            .ok_or("it is on this head")?;
        let leg = slot.leg().ok_or("it was given up")?;
        let (access, _) = self.multi_head.access(disk, CONNECT_WAIT)?;
        tracing::debug!(pool = %self.multi_head.pool, leg = disk.0, "resuming the connection to a leg");
        let until = Instant::now() + LEG_DEADLINE;
        loop {
            match leg.resume(&access) {
                Err(remote_leg::LegError::Unreachable(_)) if Instant::now() < until => {
                    std::thread::sleep(CONNECT_PAUSE);
                }
                // The leg fails at its deadline.
                other => return other.map_err(|error| error.to_string()),
            }
        }
    }

    fn resilver(&self, disk: DiskId, since: u64, beyond: u64) -> Result<Completeness, String> {
        match self.multi_head.own_path(disk) {
            Some(path) => {
                let linked = self.multi_head.remotes.link(disk, &path);
                linked.map_err(|error| error.to_string())?;
            }
            None => self.connect(disk)?,
        }
        if !self.zfs.0.is_known(disk) {
            let group = self.multi_head.group(disk);
            if !group.iter().any(|one| self.zfs.0.is_known(*one)) {
                return self.zfs.0.prepare(disk, beyond);
            }
            self.zfs.0.attach(disk, &group)?;
        }
        self.zfs.resilver(disk, since, beyond)
    }

    fn stop(&self) {
        self.zfs.stop();
    }

    fn name(&self, disk: DiskId) -> String {
        self.multi_head.file().disk_name(disk)
    }

    fn member_name(&self, member: MemberId) -> String {
        self.multi_head.file().name(member)
    }

    fn notify(&self, notice: &Notice) {
        match notice {
            Notice::WritesWait { accepted } => {
                let accepted: Vec<_> = accepted.iter().map(|one| self.member_name(*one)).collect();
                tracing::error!(
                    ?accepted,
                    "writes wait: a leg failed, and too few members respond to put that on record: start their leg-servers, or the \
                     witness"
                );
            }
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
            Notice::Refused(why) => tracing::debug!(?why, "the pool is not opened"),
        }
    }
}
