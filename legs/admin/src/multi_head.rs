//! Pools with legs on several heads: opens and creates them on this head.

mod groups;
mod third;
mod witness;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use certificates::Identity;
use control::answer::{Answer, Done};
use control::operations::pool::{DeviceGroup, GroupKind, GroupRole};
use control::{Failure, FailureKind};
use engine::pool::{Candidate, CandidateState, Claims, ImportOptions, PreviousOwner, SafeToOwn};
use engine::{Engine, Pool};
use leg_door::{Claim, Directories, LegRequest, LegStatus};
use leg_record::{DiskId, MemberId, MemberState};
use leg_zfs::multi_head::{LONG_CONNECT_WAIT, MultiHead, MultiHeadSide};
use legs::{Bootstrap, Inbox, Legs, Members, Network, Options, Proof, Reporter, Viewer};
use legs_config::{Kind, LegsFile, Redundancy, Role};
use members::Peer;
use units::PoolName;

use crate::requests::{self, Judged};
use crate::view;

/// Time-out of a command until a change of a leg is on record.
const CONFIRMATION_WAIT: Duration = Duration::from_secs(10);
/// The least size of a device of a pool.
const DEVICE_BYTES_MIN: u64 = 64 << 20;

/// The legs of one pool, and the members of its record.
pub struct LegsOfPool {
    file: LegsFile,
    identity: Arc<Identity>,
    pool: PoolName,
    path: PathBuf,
    state: PathBuf,
    multi_head: Arc<MultiHead>,
    /// The side of the open pool.
    side: OnceLock<Arc<MultiHeadSide>>,
    /// Held during a change of the members.
    is_changing: Mutex<()>,
}

/// Reads the configuration at `path`, with this head's key.
pub(crate) fn read(path: &Path) -> Result<(LegsFile, Identity), Failure> {
    let file = legs_config::read(path).map_err(|error| {
        Failure::from_chain(FailureKind::Usage, &error).advise(format!("see to {}", path.display()))
    })?;
    let identity = Identity::read(&file.certificate, &file.key)
        .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    let (own, listed) = (identity.fingerprint(), file.own().fingerprint);
    match own == listed {
        true => Ok((file, identity)),
        false => Err(Failure::usage(format!(
            "members.{}: the fingerprint is {listed}, and {} has {own}",
            file.me,
            file.certificate.display()
        ))
        .advise("write the right one into the configuration of every member")),
    }
}

pub(crate) fn names_no_pool(file: &LegsFile, pool: &PoolName, path: &Path) -> Failure {
    let names: Vec<&str> = file.pools.keys().map(PoolName::as_str).collect();
    Failure::not_found(format!("{} names no pool {pool}", path.display()))
        .advise(format!("it names: {}", names.join(" ")))
}

impl LegsOfPool {
    /// Reads the configuration at `path`. Accesses no disk.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used, or does not name the pool.
    pub fn read(directories: &Directories, pool: &PoolName, path: &Path) -> Result<Self, Failure> {
        let (file, identity) = read(path)?;
        let identity = Arc::new(identity);
        let run_dir = &directories.run;
        let multi_head = MultiHead::new(file.clone(), Arc::clone(&identity), pool, run_dir);
        let multi_head = multi_head.ok_or_else(|| names_no_pool(&file, pool, path))?;
        Ok(Self {
            file,
            identity,
            pool: pool.clone(),
            path: std::path::absolute(path)
                .map_err(Failure::of("resolve the current directory"))?,
            state: directories.state.clone(),
            multi_head,
            side: OnceLock::new(),
            is_changing: Mutex::default(),
        })
    }

    /// The name of the pool.
    pub(crate) fn name(&self) -> &PoolName {
        &self.pool
    }

    /// The number of the pool's record.
    pub fn record(&self) -> u64 {
        self.multi_head.record()
    }

    /// Wraps the driver in the `options` of the engine, so that the engine reaches the legs.
    pub fn install(&self, options: &mut dyn Any) {
        self.multi_head.install(options);
    }

    /// Paths of this head's legs.
    pub fn own_paths(&self) -> Vec<PathBuf> {
        self.multi_head.own_paths()
    }

    /// The configuration.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The position in the configuration of a disk.
    pub fn line_of(&self, disk: &Path) -> String {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let file = self.path.display();
        match legs_config::line_of(&text, disk) {
            Some(line) => format!("{file}, line {line},"),
            None => file.to_string(),
        }
    }

    /// The state of the legs of the open pool.
    pub fn status(&self, viewer: &Viewer, reporter: &Reporter) -> LegStatus {
        let shown = viewer.shown();
        if !shown.differing.is_empty() {
            self.check_file_follows(viewer, reporter);
        }
        let (file, name) = (self.multi_head.file(), &self.pool);
        let device = |disk| self.multi_head.place(disk).to_string_lossy().into_owned();
        // Read only when an old configuration can be the cause: this is called each second.
        let is_suspect = requests::has_other_configuration(&shown);
        let read = is_suspect.then(|| legs_config::read(&self.path).ok());
        let mut advice = match read.flatten() {
            Some(read) if requests::is_outdated(&file, &read, name) => {
                requests::advice_if_outdated((&file, &self.path), name, &shown)
            }
            _ => requests::advice((&file, &self.path), name, &shown),
        };
        if let Some(side) = self.side.get() {
            let is_part = |disk| side.is_part(disk);
            advice.extend(requests::unfinished_additions(&file, name, &shown, is_part));
        }
        LegStatus {
            advice,
            do_writes_wait: view::do_writes_wait(&shown),
            is_leg_excluded: view::is_leg_excluded(&shown),
            view: view::view(&file, &file.pools[name], &shown, device),
        }
    }

    /// Performs a request about the leg with the name `leg`.
    pub fn perform(
        &self,
        (viewer, reporter): (&Viewer, &Reporter),
        leg: &str,
        request: &LegRequest,
    ) -> Result<Answer, Failure> {
        if let LegRequest::Add {
            group,
            overwrite,
            mismatch,
        } = request
        {
            return self.add_group((viewer, reporter), group, *overwrite, mismatch.as_ref());
        }
        let (shown, file, name) = (viewer.shown(), self.multi_head.file(), &self.pool);
        let place = |disk| self.multi_head.place(disk);
        let disk = requests::find(&file, &file.pools[name], place, leg)?;
        let known = file.disk_name(disk);
        tracing::debug!(pool = %self.pool, leg = disk.0, ?request, "a request about a leg");
        match (
            request,
            requests::judge(request, &shown, disk, name, &known)?,
        ) {
            (_, Judged::Done(why)) => Ok(Done::already(why)),
            (LegRequest::Readmit, Judged::ToDo) => {
                reporter.readmit(disk);
                Ok(Done::changed(format!(
                    "leg {known} is tried again now: it is resilvered as soon as its head responds"
                )))
            }
            (LegRequest::Discard, Judged::ToDo) => {
                give_up(viewer, reporter, disk, &known)?;
                Ok(Done::changed(format!(
                    "the data on leg {known} is given up: the pool is copied to it in full when its head responds"
                )))
            }
            (LegRequest::Attach { new, overwrite }, Judged::ToDo) => {
                self.attach(viewer, reporter, (disk, new), *overwrite)
            }
            (LegRequest::Replace { new, overwrite }, Judged::ToDo) => {
                self.replace(viewer, reporter, disk, new.as_deref(), *overwrite)
            }
            (LegRequest::Add { .. }, Judged::ToDo) => unreachable!("performed above"),
        }
    }

    /// Attaches a new leg to the group of a disk.
    fn attach(
        &self,
        viewer: &Viewer,
        reporter: &Reporter,
        (beside, new): (DiskId, &str),
        may_overwrite: bool,
    ) -> Result<Answer, Failure> {
        self.add_leg(new, reporter);
        let file = self.multi_head.file();
        let pool = &file.pools[&self.pool];
        let disk = requests::joining((&file, &self.path), pool, beside, new)?;
        requests::are_in_order(&file, &self.pool, &viewer.shown(), beside, disk)?;
        if requests::is_named(&viewer.shown(), disk) {
            return Ok(Done::already(format!("{new} is a leg of the pool")));
        }
        let mut network = self.network(Proof::None);
        network.configuration = file.digest(self.record()).unwrap_or_default();
        let names = self.names((*file).clone());
        legs::inspect_new_disk(self.config(), network, disk, may_overwrite, names)
            .map_err(|error| self.unfit(&error))?;
        self.fits(&file, disk)?;
        give_up(viewer, reporter, disk, new)?;
        reporter.readmit(disk);
        Ok(Done::changed(format!(
            "{new} joins the pool: all data is copied to it, and it counts when that is complete"
        )))
    }

    /// Checks that a disk is large enough for its group, and can be used by this server.
    fn fits(&self, file: &LegsFile, disk: DiskId) -> Result<(), Failure> {
        self.is_usable_here(file, disk)?;
        let (_, leg) = file.leg(disk).expect("it was found there");
        let side = self.side.get().expect("the pool is open");
        side.has_room_on(disk, &leg.path)
            .map_err(|why| unsuitable(file, disk, &why))
    }

    /// Checks that a disk of a new group has the least size of a device, and can be used by this server.
    fn is_large_enough(&self, file: &LegsFile, disk: DiskId) -> Result<(), Failure> {
        self.is_usable_here(file, disk)?;
        let (_, leg) = file.leg(disk).expect("it was found there");
        let side = self.side.get().expect("the pool is open");
        match side.bytes_of(disk, &leg.path) {
            Ok(bytes) if bytes >= DEVICE_BYTES_MIN => Ok(()),
            Ok(bytes) => {
                let why = format!("it has {bytes} bytes, and {DEVICE_BYTES_MIN} are needed");
                Err(unsuitable(file, disk, &why))
            }
            Err(why) => Err(unsuitable(file, disk, &why)),
        }
    }

    /// Checks that this server may open the disk, if it is one of this head.
    fn is_usable_here(&self, file: &LegsFile, disk: DiskId) -> Result<(), Failure> {
        let (_, leg) = file.leg(disk).expect("it was found there");
        let new = file.disk_name(disk);
        let has_devices_only = self.own_paths().iter().all(|path| is_device(path));
        if self.multi_head.is_own(disk) && has_devices_only && !is_device(&leg.path) {
            let message = format!(
                "nothing was changed: {new} is no device below /dev, and this server uses devices only"
            );
            return Err(
                Failure::usage(message).advise("use a device, or restart the pool's server")
            );
        }
        Ok(())
    }

    /// Replaces a disk: the data on the new one does not count, and all data is copied to it.
    fn replace(
        &self,
        viewer: &Viewer,
        reporter: &Reporter,
        disk: DiskId,
        new: Option<&str>,
        may_overwrite: bool,
    ) -> Result<Answer, Failure> {
        let known = self.multi_head.file();
        let (read, _) = read(&self.path)?;
        requests::moved(&known, (&read, &self.path), &self.pool, disk, new)?;
        let (before, after) = (known.disk_name(disk), read.disk_name(disk));
        self.is_spare(viewer, disk)?;
        let mut network = self.network(Proof::None);
        network.configuration = read.digest(self.record()).unwrap_or_default();
        let names = self.names(read.clone());
        legs::inspect_new_disk(self.config(), network, disk, may_overwrite, names)
            .map_err(|error| self.unfit(&error))?;
        self.fits(&read, disk)?;
        let side = self.side.get().expect("the pool is open");
        side.try_all()
            .map_err(|why| Failure::new(FailureKind::Failed, why))?;
        self.is_spare(viewer, disk)?;
        // Otherwise the old disk is still in use, or its late failures would count for the new one.
        side.remove_device(disk);
        let shown = viewer.wait_for(CONFIRMATION_WAIT, |shown| requests::is_idle(shown, disk));
        if !requests::is_idle(&shown, disk) {
            return Err(requests::unrecorded(&before));
        }
        let moved = self.multi_head.has_moved(disk);
        moved.map_err(Failure::of("create the names of legs"))?;
        self.has_read(read, reporter);
        give_up(viewer, reporter, disk, &after)?;
        reporter.readmit(disk);
        Ok(Done::changed(format!(
            "{after} replaces {before}, which counts no more: the pool is copied to it in full"
        )))
    }

    /// Checks that the pool is readable without that leg.
    fn is_spare(&self, viewer: &Viewer, disk: DiskId) -> Result<(), Failure> {
        match requests::is_spare(&self.config(), &viewer.shown(), disk) {
            true => Ok(()),
            false => {
                let leg = self.multi_head.file().disk_name(disk);
                let message = format!("leg {leg} is needed: no other leg of its group is current");
                let failure = Failure::new(FailureKind::NeedsConfirmation, message);
                Err(failure.advise("wait until another leg of its group is current"))
            }
        }
    }

    fn unfit(&self, error: &legs::Failure) -> Failure {
        let failure = self.refused(error);
        match error {
            legs::Failure::Overwrites(_) => failure.advise(
                "check that the disk is the intended one; --overwrite-old-labels overwrites it",
            ),
            _ => failure,
        }
    }

    fn names(&self, file: LegsFile) -> NamesOfFile {
        NamesOfFile(file, self.path.clone())
    }

    fn network(&self, proof: Proof) -> Network {
        self.network_of(&self.multi_head.file(), proof)
    }

    fn network_of(&self, file: &LegsFile, proof: Proof) -> Network {
        Network {
            identity: Arc::clone(&self.identity),
            peers: file.members.values().map(peer).collect(),
            folder: legs::folder(&self.state),
            proof,
            configuration: file.digest(self.record()).unwrap_or_default(),
            heads: file
                .members
                .values()
                .filter(|member| member.kind == Kind::Head)
                .map(|member| MemberId(member.number))
                .collect(),
        }
    }

    /// The members that respond now, each with its state of the pool with that number.
    ///
    /// # Errors
    ///
    /// No request can be sent.
    pub fn survey(&self, number: u64) -> Result<BTreeMap<MemberId, Option<MemberState>>, Failure> {
        let found = legs::survey(self.config().me, number, self.network(Proof::None));
        found.map_err(|error| self.refused(&error))
    }

    /// The configuration, as it was read.
    pub(crate) fn file(&self) -> &LegsFile {
        &self.file
    }

    /// Converts the proof about the previous owner, resolving the members' names.
    fn proof(&self, said: &PreviousOwner) -> Result<Proof, Failure> {
        let head = |name: &String| {
            let found = self.file.members.get(name);
            let found = found.filter(|member| member.kind == Kind::Head);
            let number = found.map(|member| MemberId(member.number));
            number.ok_or_else(|| {
                Failure::usage(format!("the configuration of legs names no head {name}"))
                    .advise("name the head that used the pool last as it is named there")
            })
        };
        Ok(match said {
            PreviousOwner::IsStopped => Proof::Confirmation,
            PreviousOwner::HostIsStopped(name) => Proof::Stopped(head(name)?),
            PreviousOwner::HostIsOff(name) => Proof::Fenced(head(name)?),
            PreviousOwner::Unknown | PreviousOwner::IsWatched => Proof::None,
        })
    }

    pub(crate) fn config(&self) -> leg_record::Config {
        let config = self.multi_head.file().config(&self.pool);
        config.expect("it names the pool")
    }

    /// Opens the pool by its record. Calls `ours` with the previous owner's note in the labels before the import, which
    /// is the slow part. `disk_wait`: time-out of an I/O of a leg on this head.
    ///
    /// # Errors
    ///
    /// The record does not allow it, or the pool cannot be opened.
    pub fn open(
        &self,
        engine: Arc<dyn Engine>,
        owner_before: &PreviousOwner,
        disk_wait: Duration,
        ours: Box<Claim>,
    ) -> Result<(Box<dyn Pool>, Legs), Failure> {
        let opened: Arc<Mutex<Option<Box<dyn Pool>>>> = Arc::default();
        let slot = Arc::clone(&opened);
        let open = move |candidate: Candidate, record| {
            let pool = import(&*engine, &candidate, record, &*ours)?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool);
            Ok(())
        };
        let inbox = Inbox::new();
        let side = MultiHeadSide::new(
            &self.multi_head,
            disk_wait,
            inbox.reporter(),
            Box::new(open),
        );
        let options = Options {
            config: self.config(),
            members: Members::Links(self.network(self.proof(owner_before)?)),
            before_action: None,
        };
        let side = Arc::new(side);
        let legs =
            Legs::open(options, Arc::clone(&side), inbox).map_err(|error| self.refused(&error))?;
        // A pool is opened once.
        let _ = self.side.set(side);
        let pool = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        let pool = pool.ok_or_else(|| Failure::new(FailureKind::Failed, "the pool is not open"))?;
        Ok((pool, legs))
    }

    fn refused(&self, error: &legs::Failure) -> Failure {
        self.with_names(refused(&self.pool, error))
    }

    /// Replaces the engine's names of legs in a message by those in the configuration.
    pub fn with_names(&self, failure: Failure) -> Failure {
        let file = self.multi_head.file();
        let legs = file.pools[&self.pool]
            .groups
            .iter()
            .flat_map(|group| &group.legs);
        legs.fold(failure, |failure, leg| {
            let place = self.multi_head.place(DiskId(leg.disk));
            let name = file.disk_name(DiskId(leg.disk));
            failure.map_text(|text| text.replace(&*place.to_string_lossy(), &name))
        })
    }

    /// The layout of a new pool.
    pub fn groups(&self) -> Vec<DeviceGroup> {
        let groups = self.file.pools[&self.pool].groups.iter();
        let group = |group: &legs_config::Group| DeviceGroup {
            kind: kind_of(group),
            role: role_of(group),
            devices: group
                .legs
                .iter()
                .map(|leg| self.multi_head.place(DiskId(leg.disk)))
                .collect(),
        };
        groups.map(group).collect()
    }

    /// Claims all legs for a pool that is to be created on them. They can be opened afterwards.
    ///
    /// # Errors
    ///
    /// A member does not respond, has the pool, or does not lend a leg; a leg is in use, or contains data without
    /// `may_overwrite`.
    pub fn begin_bootstrap(&self, may_overwrite: bool) -> Result<Bootstrap, Failure> {
        let (config, network) = (self.config(), self.network(Proof::None));
        let names = self.names(self.file.clone());
        let (bootstrap, granted) = Bootstrap::begin(config, network, may_overwrite, names)
            .map_err(|error| {
                let failure = self.refused(&error);
                match error {
                    legs::Failure::Overwrites(_) => failure.advise(
                        "--overwrite-old-labels overwrites all data that is not in use, also of other systems: check that these disks are the intended ones",
                    ),
                    _ => failure,
                }
            })?;
        for (disk, granted) in granted {
            if self.multi_head.is_own(disk) {
                continue;
            }
            self.multi_head.grant(disk, granted);
            let connected = self.multi_head.connect(disk, LONG_CONNECT_WAIT, |_| {});
            connected.map_err(|why| {
                let message = format!("{}: {why}", self.file.disk_name(disk));
                Failure::new(FailureKind::Unavailable, message)
                    .advise("check the leg-server of that head, and `lends` in the configuration")
            })?;
        }
        self.multi_head
            .lay_out(|_| true)
            .map_err(Failure::of("create the names of legs"))?;
        Ok(bootstrap)
    }

    /// Claims the disks of this head, which are all of the pool's, to put them on record. `is_labelled`: their labels
    /// name the record.
    ///
    /// # Errors
    ///
    /// A member does not respond, or has another pool; a disk is in use; a group has no disk of this head, or cannot be
    /// mirrored.
    pub fn begin_record(&self, is_labelled: bool) -> Result<Bootstrap, Failure> {
        let mut config = self.config();
        let me = config.me;
        let disks = config.groups.iter().flat_map(|group| &group.lenders);
        let joining_member = disks.filter(|(_, head)| **head != me);
        let joining_member = joining_member.map(|(disk, head)| (*disk, *head)).collect();
        for group in &mut config.groups {
            group.lenders.retain(|_, head| *head == me);
        }
        let mut groups = config.groups.iter();
        if groups.any(|group| group.lenders.len() != 1 || group.needed != 1) {
            let message = format!(
                "nothing was changed: a group of {} has no disk of this head, or is a raidz",
                self.path.display()
            );
            return Err(Failure::usage(message).advise(
                "each group needs `needed = 1`, and the disk of this head that the pool has",
            ));
        }
        let names = self.names(self.file.clone());
        let network = self.network(Proof::None);
        let bootstrap = Bootstrap::start_again(config, network, joining_member, is_labelled, names)
            .map_err(|error| self.refused(&error))?;
        Ok(bootstrap)
    }

    /// Opens the pool of disks that are about to be on record. Its labels name the record from then on.
    ///
    /// # Errors
    ///
    /// Another process has opened it, or it cannot be opened.
    pub fn open_unrecorded(&self, engine: &dyn Engine) -> Result<Box<dyn Pool>, Failure> {
        let failed = |why| Failure::new(FailureKind::Failed, why);
        self.multi_head
            .lay_out(|_| true)
            .map_err(Failure::of("create the names of legs"))?;
        let candidate = self.multi_head.found().map_err(failed)?;
        if candidate.devices.legs.record.is_none() && candidate.state != CandidateState::Exported {
            let message = format!("pool {} was opened elsewhere in the meantime", self.pool);
            return Err(Failure::new(FailureKind::Busy, message)
                .advise("check that no other head serves it, and repeat the command"));
        }
        let record = engine::pool::legs::Record {
            number: self.record(),
            current: candidate
                .devices
                .all
                .iter()
                .map(|device| device.guid)
                .collect(),
        };
        import(engine, &candidate, record, &|_| Ok(())).map_err(failed)
    }
}

fn unsuitable(file: &LegsFile, disk: DiskId, why: &str) -> Failure {
    let new = file.disk_name(disk);
    let message = format!("nothing was changed: {new} cannot be used: {why}");
    Failure::new(FailureKind::Failed, message)
}

/// The kind of a group in the configuration.
fn kind_of(group: &legs_config::Group) -> GroupKind {
    match group.redundancy() {
        Some(Redundancy::None) | None => GroupKind::Stripe,
        Some(Redundancy::Mirror) => GroupKind::Mirror,
        Some(Redundancy::Parity(parity)) => GroupKind::Raidz { parity },
    }
}

/// The role of a group in the configuration.
fn role_of(group: &legs_config::Group) -> GroupRole {
    match group.role {
        Role::Data => GroupRole::Data,
        Role::Log => GroupRole::Log,
    }
}

/// Whether the path resolves to a device.
fn is_device(place: &Path) -> bool {
    let found = std::fs::canonicalize(place);
    found.is_ok_and(|place| place.starts_with("/dev"))
}

/// The addresses and certificate of a member.
fn peer(member: &legs_config::Member) -> Peer {
    Peer {
        member: MemberId(member.number),
        fingerprint: member.fingerprint,
        addresses: member.members.clone(),
    }
}

/// Converts a failure of the coordinator.
pub(crate) fn refused(pool: &PoolName, error: &legs::Failure) -> Failure {
    let kind = match error {
        legs::Failure::Refused(_) | legs::Failure::Overwrites(_) => FailureKind::NeedsConfirmation,
        legs::Failure::Exists(_) => FailureKind::Exists,
        legs::Failure::Store(_) | legs::Failure::Side(_) => FailureKind::Unavailable,
    };
    let failure = Failure::from_chain(kind, error);
    let message = format!("pool {pool}: {}", failure.message);
    Failure::new(kind, message)
}

/// Puts on record that the data on a leg does not count. `known`: name of the leg.
fn give_up(viewer: &Viewer, reporter: &Reporter, disk: DiskId, known: &str) -> Result<(), Failure> {
    reporter.discard(disk);
    let shown = viewer.wait_for(CONFIRMATION_WAIT, |shown| {
        requests::is_given_up(shown, disk)
    });
    match requests::is_given_up(&shown, disk) {
        true => Ok(()),
        false => Err(requests::unrecorded(known)),
    }
}

/// The names in a configuration, and its path.
struct NamesOfFile(LegsFile, PathBuf);

impl legs::Names for NamesOfFile {
    fn member(&self, member: MemberId) -> String {
        self.0.name(member)
    }

    fn disk(&self, disk: DiskId) -> String {
        self.0.disk_name(disk)
    }

    fn pool(&self, number: u64) -> String {
        let mut pools = self.0.pools.iter();
        match pools.find(|(_, pool)| pool.guid == number) {
            Some((name, _)) => format!("pool {name}"),
            None => format!("the pool of number {number}"),
        }
    }

    fn configuration(&self) -> String {
        self.1.display().to_string()
    }
}

fn import(
    engine: &dyn Engine,
    candidate: &Candidate,
    record: engine::pool::legs::Record,
    ours: &Claim,
) -> Result<Box<dyn Pool>, String> {
    let options = ImportOptions {
        // The lenders exclude other users.
        claims: Claims::Locks,
        record: Some(record),
        ..ImportOptions::default()
    };
    let proof = SafeToOwn::record_names_this_head(candidate);
    let text = |error| operations::pool_failure(error).message;
    let claimed = engine.claim(candidate, proof, &options).map_err(text)?;
    ours(claimed.note().unwrap_or_default()).map_err(|failure| failure.message)?;
    claimed.open().map_err(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// All files are in `folder`.
    pub fn in_directory(folder: &Path) -> Directories {
        Directories {
            run: folder.join("run"),
            state: folder.join("state"),
        }
    }

    /// A leg on each of two heads.
    pub fn two_heads() -> LegsFile {
        let text = format!(
            r#"
me = "a"
certificate = "/c"
key = "/k"
[members.a]
number = 1
kind = "head"
members = ["10.9.1.1:7071"]
lends = ["10.9.1.1:7072"]
fingerprint = "{}"
[members.b]
number = 2
kind = "head"
members = ["10.9.1.2:7071"]
lends = ["10.9.1.2:7072"]
fingerprint = "{}"
[pools.tank]
guid = 123
[[pools.tank.groups]]
needed = 1
legs = [{{ disk = 11, head = "a", path = "/x" }}, {{ disk = 22, head = "b", path = "/y" }}]
"#,
            "0a".repeat(32),
            "0b".repeat(32)
        );
        legs_config::parse(&text).expect("it is whole")
    }
}
