//! `bulkhead leg-server`: serves pools with legs on several heads. It stores their records and responds to the
//! other members ([`members`]), and it lends the host's disks ([`lender`]). It owns no pool and has no ZFS library.
//!
//! Crash-only: its responses are durable. A session of a disk that it lent is lost with the process; a disk that it
//! passed to a pool server of this host stays with that server.

#![forbid(unsafe_code)]

mod alone;
pub mod arguments;
mod connections;
mod files;
mod identity;
mod inspect;
mod listen;
mod power_off;
mod responses;

pub use files::{HostFiles, files};

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{Failure, FailureKind};
use leg_record::{DiskId, LenderResponse, MemberId, Membership};
use legs_config::{Kind, LegsFile};
use lender::{Lender, Settings};
use members::{
    AllowedMember, Envelope, Inspection, Lent, Member, Message, PoolState, Readmission,
    ReadmitError, Server,
};
use rendering::Printer;
use serde::Serialize;
use serving::ListenAddress;
use tokio::net::TcpListener;

use arguments::{ForgetArgs, LegServerCommand, LegServerVerb, ReadmitArgs};
use listen::Listener;

/// Threads that may block on disks: those that store records, and claims of every connection.
const BLOCKING_THREADS_MAX: usize = 256;
/// Time-out of a claim while earlier I/O, or the process that uses the disk, has not ended.
const DRAIN_WAIT: Duration = Duration::from_secs(10);
/// Time-out at the start for opening the disks. A slower one is lent once it is open.
const OPEN_WAIT: Duration = Duration::from_secs(2);
/// Connections of members that are not accepted yet.
const BACKLOG: i32 = 64;
/// Pause between two keep-alives to the service manager.
const TICK: Duration = Duration::from_millis(500);

/// Runs the command. `state_dir`: the records of this host are in its directory `legs`.
///
/// # Errors
///
/// It cannot start serving, with a remedy.
pub fn run(command: &LegServerCommand, state_dir: &Path, out: Printer) -> Result<(), Failure> {
    match &command.verb {
        Some(LegServerVerb::Fingerprint { folder }) => {
            let identity = identity::load_or_make(folder)?;
            out.text(&format!("{}\n", identity.fingerprint()))
        }
        Some(LegServerVerb::Pools) => {
            let folder = leg_memory::folder(state_dir);
            let pools = members::pools_in(&folder);
            let pools = pools.map_err(Failure::of(format!(
                "read the directory {}",
                folder.display()
            )))?;
            out.either(&pools, || {
                pools.iter().map(|number| format!("{number}\n")).collect()
            })
        }
        Some(LegServerVerb::Members) => {
            let folder = leg_memory::folder(state_dir);
            let members = remembering(&folder).map_err(Failure::of(format!(
                "read the directory {}",
                folder.display()
            )))?;
            out.either(&members, || {
                members.iter().map(ToString::to_string).collect()
            })
        }
        Some(LegServerVerb::Configuration) => {
            let read = leg_memory::configuration(&leg_memory::folder(state_dir));
            match read {
                Some(text) => out.text(&text),
                None => Err(Failure::not_found(
                    "no leg-server runs here, or it does not publish its configuration",
                )
                .advise("`systemctl restart bulkhead-leg-server` starts it")),
            }
        }
        Some(LegServerVerb::Look { disks }) => inspect::run(disks, out),
        Some(LegServerVerb::MayStartAlone { config }) => alone::run(config, out),
        Some(LegServerVerb::Readmit(args)) => readmit(args, state_dir, out),
        Some(LegServerVerb::Forget(args)) => forget(args, state_dir, out),
        None => serve(command, state_dir),
    }
}

/// Members of a pool, by their numbers.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PoolMembers {
    pool: u64,
    /// Empty if the record does not name its members: then those in legs.toml count.
    heads: Vec<u64>,
    witness: Option<u64>,
    /// The disks in the record.
    disks: Vec<u64>,
    /// Those of them that hold all data.
    current: Vec<u64>,
}

impl fmt::Display for PoolMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pool,
            heads,
            witness,
            disks: _,
            current: _,
        } = self;
        write!(f, "{pool}:")?;
        if heads.is_empty() {
            f.write_str(" as in legs.toml")?;
        }
        heads
            .iter()
            .try_for_each(|head| write!(f, " head {head}"))?;
        witness
            .iter()
            .try_for_each(|one| write!(f, " witness {one}"))?;
        writeln!(f)
    }
}

/// By the records that this head accepted. Unreadable files are skipped. A file is replaced as a whole, so no lock is
/// needed.
fn remembering(folder: &Path) -> io::Result<Vec<PoolMembers>> {
    let pools = members::pools_in(folder)?.into_iter();
    let found = pools.filter_map(|pool| {
        let bytes = std::fs::read(leg_memory::path_of(folder, pool)).ok()?;
        let record = leg_record::decode_state(&bytes).ok()?.accepted?;
        let members = record.members.as_ref();
        let heads = members.map(|members| members.heads()).unwrap_or_default();
        Some(PoolMembers {
            pool,
            heads: heads.iter().map(|head| head.0).collect(),
            witness: members.and_then(Membership::witness).map(|one| one.0),
            disks: record.disks().iter().map(|disk| disk.0).collect(),
            current: record.current.keys().map(|disk| disk.0).collect(),
        })
    });
    Ok(found.collect())
}

fn readmit(args: &ReadmitArgs, state_dir: &Path, out: Printer) -> Result<(), Failure> {
    let (file, _) = identity::config(&args.config)?;
    if matches!(
        file.membership(),
        Membership::TwoHeads(_) | Membership::OneHead(_)
    ) {
        let message = "without a witness no other member has the promises of this head";
        return Err(Failure::new(FailureKind::Failed, message).advise(
            "if the pool has a witness by the record (`bulkhead leg-server members` on the other head), write the witness back into the file of \
             this head, and run the command again. If this head's disks are current, or the other ones are gone for good: `bulkhead pool \
             confirm POOL --forget-legs --missing-devices-are-not-newer` makes the pool one of a single head",
        ));
    }
    let word = Readmission {
        life: random()?.max(1),
        is_replaced: args.replaced,
    };
    let folder = leg_memory::folder(state_dir);
    std::fs::create_dir_all(&folder).map_err(Failure::of(format!(
        "create the directory {}",
        folder.display()
    )))?;
    members::readmit(&folder, args.pool, word).map_err(|error| {
        let kind = match error {
            ReadmitError::HasRecord(_) | ReadmitError::Waits(_) => FailureKind::Exists,
            ReadmitError::Unknown(_) => FailureKind::NotFound,
            ReadmitError::System(..) | ReadmitError::Store(..) => FailureKind::Failed,
        };
        Failure::from_chain(kind, &error)
    })?;
    out.text(&format!(
        "this head receives the record of pool {} from the head that serves it, once the two other members have agreed. If the record names \
         two heads alone (`bulkhead leg-server members` there), there is no second vote: run `bulkhead pool confirm POOL --forget-legs` instead\n",
        args.pool
    ))
}

/// Refused while a disk of this head carries a label with the record: an owner could still open the pool.
fn forget(args: &ForgetArgs, state_dir: &Path, out: Printer) -> Result<(), Failure> {
    let (folder, number) = (leg_memory::folder(state_dir), args.pool);
    if leg_memory::is_owned(&folder, number) {
        let message = format!("a server of this head has the pool {number}");
        return Err(Failure::new(FailureKind::Busy, message)
            .advise("stop it first; of an appliance, `bulkhead appliance retire` does all of it"));
    }
    let file = legs_config::read(&args.config).ok();
    let own = file.iter().flat_map(|file| file.own_legs());
    for leg in own {
        let label = labels::Label::read_unless_wiped(&leg.path).ok().flatten();
        let label = label.filter(|label| label.state != labels::LabelState::Destroyed);
        if label.is_some_and(|label| label.record == Some(number)) {
            let message = format!("{} carries a leg of the pool {number}", leg.path.display());
            return Err(Failure::new(FailureKind::Busy, message).advise(format!(
                "if nothing on it is needed, run `wipefs --all {}` first",
                leg.path.display()
            )));
        }
    }
    let is_removed = members::forget(&folder, number).map_err(Failure::of(format!(
        "remove the record in {}",
        folder.display()
    )))?;
    out.text(&match is_removed {
        true => format!("the record of pool {number} is removed from this head\n"),
        false => format!("this head has no record of pool {number}\n"),
    })
}

fn serve(command: &LegServerCommand, state_dir: &Path) -> Result<(), Failure> {
    output::set_log_nonblocking();
    output::start_log(output::Style::default());
    let (file, text) = identity::config(&command.config)?;
    let file = Arc::new(file);
    let identity = identity::of(&file)?;
    let folder = leg_memory::folder(state_dir);
    std::fs::create_dir_all(&folder).map_err(Failure::of(format!(
        "create the directory {}",
        folder.display()
    )))?;
    let _lock = lock(&folder)?;
    if let Err(error) = leg_memory::note_configuration(&folder, &text) {
        tracing::warn!(%error, "the configuration that was read cannot be published");
    }
    let boot = random()?;
    let lender = Arc::new(lend(&file, &identity, &folder)?);
    open_disks(&file, &lender);
    let serves = {
        let folder = folder.clone();
        Box::new(move |pool| leg_memory::is_owned(&folder, pool))
    };
    let member = Member::open(&folder, file.me(), boot, serves);
    let member = member.map_err(Failure::of(format!("read {}", folder.display())))?;
    let member = Arc::new(member);
    let listener = Listener::start(&file, &identity, &member, &folder, boot)
        .map_err(Failure::of("listen to the other head"))?;
    let server = response(&file, &identity, Arc::clone(&member), lender, &listener)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .map_err(Failure::of("start the runtime"))?;
    runtime.block_on(async {
        for address in &file.own().members {
            let bound = listen(*address).map_err(|error| {
                Failure::of(format!("listen on {address}"))(error)
                    .advise("`members` of this head in the configuration has its addresses")
            })?;
            tokio::spawn(Arc::clone(&server).serve(bound));
        }
        tracing::info!(
            me = file.me,
            fingerprint = %identity.fingerprint(),
            members = ?file.own().members,
            lends = ?file.own().lends,
            "serves records, and lends disks"
        );
        attend(&member).await
    })
}

/// Also binds addresses that an interface gets later: a network that is down must not affect the other ones.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let (socket, _) = serving::bind_tcp(address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn random() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("make a random number: {error}"),
        )
    })
}

/// Only one process at a time may use a directory.
fn lock(folder: &Path) -> Result<File, Failure> {
    let path = folder.join("lock");
    members::lock_file(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            let message = format!(
                "{} is locked: another leg-server uses this directory",
                path.display()
            );
            Failure::new(FailureKind::Busy, message).advise(
                "`systemctl status bulkhead-leg-server` shows it; or choose another --state-dir",
            )
        }
        _ => Failure::of(format!("lock {}", path.display()))(error),
    })
}

fn lend(
    file: &LegsFile,
    identity: &certificates::Identity,
    folder: &Path,
) -> Result<Lender, Failure> {
    let heads = file.members.values().filter(|one| one.kind == Kind::Head);
    let heads = heads.map(|head| head.fingerprint).collect();
    let tls = identity.server(heads).map_err(identity::unusable)?;
    let settings = Settings {
        listeners: file
            .own()
            .lends
            .iter()
            .copied()
            .map(ListenAddress::Tcp)
            .collect(),
        tls: Some(tls),
        // The certificate decides.
        access: nbd::Access::Everyone,
        folder: folder.to_owned(),
        drain_wait: DRAIN_WAIT,
    };
    let lender = Lender::start(settings, random()?)
        .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    for leg in file.own_legs() {
        lender
            .lend_when_free(DiskId(leg.disk), &leg.path)
            .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    }
    Ok(lender)
}

/// Opens all disks, each on its own thread.
fn open_disks(file: &LegsFile, lender: &Arc<Lender>) {
    let until = Instant::now() + OPEN_WAIT;
    let (notify, reported) = std::sync::mpsc::channel::<()>();
    for leg in file.own_legs() {
        let (lender, disk, notify) = (Arc::clone(lender), DiskId(leg.disk), notify.clone());
        let thread = std::thread::Builder::new().name("leg-open".into());
        let opening = thread.spawn(move || {
            lender.open_ahead(disk);
            drop(notify);
        });
        if let Err(error) = opening {
            tracing::warn!(leg = disk.0, %error, "a disk is opened when it is claimed");
        }
    }
    drop(notify);
    // Returns when each thread has ended: no value is ever sent.
    let _ = reported.recv_timeout(until.saturating_duration_since(Instant::now()));
}

/// Serves all heads including this one: its pool servers use messages, too.
fn response(
    file: &LegsFile,
    identity: &certificates::Identity,
    member: Arc<Member>,
    lender: Arc<Lender>,
    listener: &Arc<Listener>,
) -> Result<Arc<Server>, Failure> {
    // A witness sends no requests. With a stolen key of it, no disk can be claimed and no record written.
    let heads = file.members.values().filter(|one| one.kind == Kind::Head);
    let friends = heads.map(|one| AllowedMember {
        member: MemberId(one.number),
        fingerprint: one.fingerprint,
    });
    let (me, listener) = (file.me(), Arc::clone(listener));
    let remembers = Arc::clone(&member);
    let digests: BTreeMap<u64, _> = file
        .pools
        .values()
        .map(|pool| (pool.guid, file.digest(pool.guid)))
        .collect();
    let lend = move |from: MemberId, question: &Envelope| match question.message {
        Message::RequestConfiguration => {
            let digest = digests.get(&question.pool).copied().flatten();
            Some(Message::Configuration(digest))
        }
        Message::LenderRequest(disk, request) => {
            let grant = lender.response(disk, request, from, from == me)?;
            let (pool, response, denial) = (question.pool, grant.response, grant.denial);
            tracing::debug!(
                pool,
                leg = disk.0,
                member = from.0,
                ?response,
                ?denial,
                "a request to the lender"
            );
            let export = match grant.response {
                LenderResponse::Admitted(..) => grant.export.unwrap_or_else(|| "own".into()),
                LenderResponse::Begun(_) | LenderResponse::Refused(_) => String::new(),
            };
            Some(Message::Lent(Lent {
                disk,
                response: grant.response,
                export,
                denial: grant.denial,
            }))
        }
        Message::Inspect(disk) => {
            let inspect = lender.inspect(disk);
            let (holder, enforced) = (inspect.holder, inspect.enforced);
            tracing::trace!(
                leg = disk.0,
                member = from.0,
                ?holder,
                ?enforced,
                "the state of a leg"
            );
            Some(Message::Inspection(Inspection {
                disk,
                holder: inspect.holder,
                enforced: inspect.enforced,
                pool: remembers.pool_of(disk),
                contents: inspect.contents,
            }))
        }
        _ => None,
    };
    let received = move |from: MemberId, envelope: &members::Envelope| {
        if from != me {
            listener.note(from, envelope.boot);
        }
    };
    Server::with_lender(member, identity, friends.collect(), received, lend)
        .map_err(identity::unusable)
}

/// Reports the state to the service manager, forever.
async fn attend(member: &Member) -> Result<(), Failure> {
    let mut supervisor = output::Supervisor::from_environment();
    supervisor.ready(&summary(member));
    loop {
        tokio::time::sleep(TICK).await;
        supervisor.tick(&summary(member));
        output::log().catch_up();
    }
}

fn summary(member: &Member) -> String {
    let states = member.states();
    let is_silent = |state: &&PoolState| matches!(state, PoolState::Silent(_) | PoolState::Lost);
    let silent = states.values().filter(is_silent).count();
    let remembered = states.len() - silent;
    match silent {
        0 => format!("has records of {remembered} pools"),
        _ => {
            format!("has records of {remembered} pools, does not respond for {silent}: see the log")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leg_memory::Store;
    use leg_record::{Ballot, MemberState, Record};

    #[test]
    fn members_are_read_from_accepted_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let (heads, witness) = ([MemberId(1), MemberId(2)], MemberId(3));
        let three = Membership::TwoHeadsAndWitness { heads, witness };
        for (pool, members) in [(7, None), (8, Some(three))] {
            let mut record = Record::new(pool, Ballot::default(), [DiskId(1)]);
            record.members = members;
            drop(Store::create(folder.path(), pool, MemberState::new(record)).expect("made"));
        }
        std::fs::write(leg_memory::path_of(folder.path(), 9), "damaged").expect("written");
        let found = remembering(folder.path()).expect("readable");
        assert_eq!(found[0].disks, [1]);
        let reported: String = found.iter().map(ToString::to_string).collect();
        assert_eq!(reported, "7: as in legs.toml\n8: head 1 head 2 witness 3\n");
    }
}
