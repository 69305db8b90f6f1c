//! `bulkhead pool-server`: one process that owns one pool. Assembles the parts, notifies the service manager and runs
//! the main event loop. Crash-only: after any termination the next start recovers.

#![forbid(unsafe_code)]

pub mod args;
mod connections;
mod core;
mod deferred_start;
mod device_return;
mod diagnosis;
mod freeze;
mod freeze_commands;
mod headroom;
pub mod inspect;
mod journal;
pub mod keeper;
mod keys;
mod last_words;
mod lazy;
mod leg_watch;
pub mod listen;
mod noticed;
mod opening;
mod pending_events;
mod portals;
mod registration;
mod replay;
mod rescue;
mod rescue_commands;
mod restart_note;
mod retry;
mod room;
mod schedules;
mod secrets;
mod servers;
mod serving;
mod shared_pool;
mod spares;
mod swap_contents;
mod unit_store;
mod volumes;
mod waiting;
mod watch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::serving::{
    ConnectionLimits, EarlySockets, ListenAddress, ListenError as PortError, StaleConnection,
};
use cluster::Steps;
use cluster::agent::CLAIMED_LINE;
use control::answer::{Done, ServerStatus};
use control::server::ListenError;
use control::{Answer, Failure, FailureKind};
use engine::pool::Restart;
use leg_door::LegPool;
use operations::DocumentCache;
use operations::copy_rate;
use operations::events::NewEvent;
use operations::read_balancing;
use operations::replicate;
use operations::seals::{Keeper, Seals};
use output::{Supervisor, signals, write_until};
use pool_access::common::Common;
use pool_access::confine;
use pool_access::engines::{self, Faults, Options};
use pool_access::legs::{self, AwaitedDevices};
use pool_access::open;
use pool_access::places;
use pool_access::sockets;
use pool_access::{self, End};
use takeover::timeline::Step;
use units::PoolName;

use self::args::{ClaimsOption, ServeArgs};
use self::core::Core;
use self::deferred_start::Awaited;
use self::journal::Journal;
use self::opening::Opening;
use self::portals::Addresses;
use self::rescue::Rescues;
use self::restart_note::RestartNote;
use self::servers::Start;
use self::serving::{Serving, Setup};
use self::shared_pool::SharedPool;
use self::watch::Watch;

/// Interval of the liveness tick.
const TICK: Duration = Duration::from_millis(500);
/// Longest time for replies to leave the control socket before the process exits.
const LAST_REPLIES_WAIT: Duration = Duration::from_secs(2);
/// Time for the reply to a restart request to reach the client.
const RESTART_REPLY_TIME: Duration = Duration::from_millis(300);
/// Written to the descriptor of `--ready-fd` when the server accepts requests.
const READY: &str = "READY";
/// How long the write is retried when the reader does not read.
const WRITE_RETRY_LIMIT: Duration = Duration::from_secs(60);

/// An event that the main thread handles.
pub enum Event {
    /// Drain, export, exit. Holds the name of the signal.
    Stop(&'static str),
    /// Reload the exports.
    Reload,
    /// A client requests that the pool is closed.
    End(Ending),
    /// The process exits while the pool is suspended; the next start resumes it.
    Restart {
        /// How the pool is resumed.
        anew: Restart,
        /// Receives the result before the process exits.
        reply: Sender<Result<(), Failure>>,
    },
}

impl From<signals::SignalEvent> for Event {
    fn from(told: signals::SignalEvent) -> Self {
        match told {
            signals::SignalEvent::Stop(why) => Self::Stop(why),
            signals::SignalEvent::Reload => Self::Reload,
        }
    }
}

/// A client's request to close the pool.
pub struct Ending {
    /// How the pool is closed.
    pub end: End,
    /// Receives the result.
    pub reply: Sender<Result<Answer, Failure>>,
}

/// Serves until a signal or a request stops the server.
pub fn run(args: ServeArgs, common: &Common) -> Result<(), Failure> {
    let started = Instant::now();
    log_to_stderr(args.log_json);
    let core_dump = confine::prepare_core_dump();
    // Before any thread exists, so that all inherit it.
    signals::block().map_err(Failure::of("block signals"))?;
    let (sender, events) = channel();
    // Precedes the control socket. An agent that is killed before it registers its server leaves a server that a later
    // stop of the pool cannot find.
    if let Some(note) = &args.noted_in {
        registration::wait(note)?;
        tracing::debug!(pool = %args.pool, "registered by the agent");
    }
    if args.noted_in.is_none() {
        pool_access::managed::refuse_server(common.maintenance, &args.pool)?;
    }
    let control = claim_socket(&args, common)?;
    let limits = headroom::connection_limits(usize::from(args.workers));
    let early = Arc::new(early_sockets(&args, common)?);
    // Invalid settings are reported before the pool is touched.
    let mut setup = setup(&args, Arc::clone(&early), limits)?;
    if args.noted_in.is_none() {
        // Without an agent, no takeover adds addresses later.
        warn_of_foreign_addresses(&args);
    }
    let legs_of_pool = args.legs.as_ref();
    let legs_of_pool = legs_of_pool
        .map(|file| engines::legs().pool(&common.directories(), &args.pool, file))
        .transpose()?;
    let needs = confine::Needs {
        core_dump,
        ..needs(&args, common, control.path(), legs_of_pool.as_deref())
    };
    let keeper = Arc::new(keeper::Started::new(common, needs.socket_directories())?);
    let seals = Seals::kept_by(Arc::clone(&keeper) as Arc<dyn Keeper>);
    ::serving::bind_unix_by(Box::new(move |path| keeper.bind(path)));
    setup.unprotected = confine::pool_server(&needs);
    let awaited = AwaitedDevices::default();
    let opening = Arc::new(Opening::new(args.pool.clone(), started, awaited.clone()));
    control
        .serve_early(Arc::clone(&opening) as Arc<_>)
        .map_err(Failure::of("start to answer"))?;

    let [running, ended] =
        [places::running_server, places::ended_server].map(|of| of(common, &args.pool));
    let (running, previous_end) = last_words::begin(running, &ended, &args.pool);
    let mut options = engine_options(&args, common);
    options.crash_reason = running.crash_reason();
    let disk_wait = options.device_timeout;
    if let Some(legs) = &legs_of_pool {
        options.legs = Some(Box::new(|own| legs.install(own)));
    }
    let engine: Arc<dyn engine::Engine> = engines::start(options)?.into();
    let steps = Steps::of(&common.settings.state_dir);
    signals::forward(sender.clone()).map_err(Failure::of("wait for signals"))?;
    if args.until_stdin_closes {
        signals::stop_at_end_of_input(sender.clone())
            .map_err(Failure::of("wait for the end of input"))?;
    }
    let args = Arc::new(args);
    let told: Arc<Mutex<Vec<StaleConnection>>> = Arc::default();
    let ours = {
        let (told, early, args) = (Arc::clone(&told), Arc::clone(&early), Arc::clone(&args));
        let steps = steps.clone();
        move |note: &str| {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            *told = connections::noted(note);
            listen_during_import(&early, &args, &steps, started, &told)
        }
    };
    let (owner, has_legs) = (args.owner(), legs_of_pool.is_some());
    tracing::debug!(pool = %args.pool, previous_owner = ?owner, has_legs, "importing the pool");
    let (pool, owned_legs) = match &legs_of_pool {
        None => {
            let options = args.options(awaited);
            let pool = open::import_with_callback(&*engine, common, &args.pool, &options, ours)?;
            (pool, None)
        }
        Some(legs) => {
            let before = args.owner();
            let (legs, ours) = (Arc::clone(legs), Box::new(ours));
            let (pool, owned) = legs.open(Arc::clone(&engine), &before, disk_wait, ours)?;
            (pool, Some(owned))
        }
    };
    control.take_over();
    confine::no_more_rings();
    let told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    let imported_ms = started.elapsed().as_millis() as u64;
    steps.record_step(&args.pool, Step::Imported);
    tracing::info!(pool = %args.pool, after_ms = imported_ms, "pool imported");

    let pool = Arc::new(SharedPool::new(pool));
    let journal = Journal::new(places::unwritten_events(common, &args.pool));
    journal.add(NewEvent::of_pool("imported", imported_by(), false));
    if let Some(end) = &previous_end {
        journal.add(end.event());
    }
    running.date();
    let legs = owned_legs.as_ref().map(|legs| legs.control());
    let previous_end = previous_end.or_else(|| last_words::stored(&ended));
    let watch = Watch::start(Arc::clone(&pool), Arc::clone(&journal), legs, previous_end)
        .map_err(Failure::of("start the pool's watch"))?;
    opening.imported(&watch);
    let rescues = Rescues::new(
        control.path().parent().unwrap_or(&common.settings.run_dir),
        &args.pool,
    );
    let known = Arc::new(DocumentCache::with_seals(seals.clone()));
    // The pool for the key handover must be settled before a client can send a request.
    if let Err(failure) = pool.require().and_then(|pool| known.ring(&*pool)) {
        tracing::warn!(%failure, "the keys of secrets cannot be read yet");
    }
    let protocols = servers::all(&Start {
        setup: &setup,
        pool: &pool,
        documents: &known,
    });
    let serving = Serving::new(setup, protocols, Arc::clone(&pool), known, rescues, started);
    let name = args.pool.clone();
    let audit = api::audit::Lines::new(&pool_access::audit::path(common));
    let mut core = Core::new(name, pool, serving, watch, started, sender, audit);
    core.restart = Some(RestartNote::of_this_process(common, &args.pool));
    let core = Arc::new(core);
    keys::load_at_hand(&core);
    let is_counted = {
        let pool = core.pool.require()?;
        core.serving.count_others_at_import(&*pool)
    };
    let begun = core.serving.reconcile().and_then(|()| {
        announce(
            (&core, &opening),
            &control,
            &args,
            &told,
            is_counted,
            &steps,
        )
    });
    let mut supervisor = Supervisor::from_environment();
    let mut replication = None;
    let outcome = match begun {
        Ok(service) => {
            replication = Some(service);
            let restart = core.restart.iter();
            restart.for_each(|note| note.write(&core.serving.listens_at()));
            supervisor.ready(&format!("serving pool {}", args.pool));
            engines::all().iter().for_each(|engine| engine.is_serving());
            wait(&core, common, &seals, &events, &mut supervisor)
        }
        Err(failure) => Outcome::Failed(failure),
    };
    let wait = Duration::from_secs(args.drain_timeout);
    supervisor.stopping("draining", wait + Duration::from_secs(60));
    core.set_ending();
    if let Some(replication) = replication {
        replication.stop();
    }
    let ended = end(&core, common, outcome, wait);
    if let Some(legs) = owned_legs {
        legs.close();
    }
    control.finish(Instant::now() + LAST_REPLIES_WAIT);
    output::log().end();
    ended
}

fn log_to_stderr(json: bool) {
    output::set_log_nonblocking();
    output::start_log(output::Style {
        json,
        colours: true,
        ..output::Style::default()
    });
}

fn claim_socket(args: &ServeArgs, common: &Common) -> Result<control::Server, Failure> {
    let path = sockets::socket(common, &args.pool);
    control::Server::bind(&path).map_err(|error| {
        let kind = match &error {
            ListenError::InUse { .. } => FailureKind::Busy,
            ListenError::Io { cause, .. } => match cause.kind() {
                std::io::ErrorKind::PermissionDenied => FailureKind::Denied,
                _ => FailureKind::Failed,
            },
        };
        let failure = Failure::from_chain(kind, &error);
        if let ListenError::InUse {
            holder: Some(holder),
            ..
        } = error
        {
            return failure.advise(holder.end);
        }
        match kind {
            FailureKind::Busy => failure.advise(format!(
                "pool {} is served already: `bulkhead status {0}` shows by whom",
                args.pool
            )),
            _ => failure.advise("choose another --run-dir"),
        }
    })
}

fn imported_by() -> String {
    format!(
        "imported by bulkhead {} on {}",
        env!("CARGO_PKG_VERSION"),
        engine::host_name()
    )
}

/// Secrets of heads and of the cluster, which no pool server reads.
const HEADS_ONLY: [&str; 4] = [
    "/etc/bulkhead/head",
    "/etc/corosync",
    "/etc/pacemaker",
    "/var/lib/pacemaker",
];

/// Paths that stay accessible to this server for its whole run time.
fn needs(
    args: &ServeArgs,
    common: &Common,
    control: &Path,
    legs: Option<&dyn LegPool>,
) -> confine::Needs {
    let settings = &common.settings;
    let mut folders = vec![settings.run_dir.clone(), settings.state_dir.clone()];
    let sockets = args.listen.unix().map(PathBuf::as_path).chain([control]);
    folders.extend(sockets.filter_map(|path| path.parent().map(Path::to_owned)));
    // Create these directories before the rest of the file system is hidden or made read-only.
    let keys = places::make_key_directory(common);
    for made in [std::fs::create_dir_all(&settings.run_dir), keys] {
        if let Err(error) = made {
            tracing::debug!(%error, "cannot create a directory");
        }
    }
    let mut secrets: Vec<PathBuf> = HEADS_ONLY.map(PathBuf::from).into();
    secrets.extend(places::key_files(common));
    secrets.extend(pool_access::managed::fence_secrets());
    confine::Needs {
        secrets,
        only_devices: match legs {
            None => places::are_devices(common, &args.pool),
            Some(legs) => legs.own_paths().iter().all(|path| places::is_device(path)),
        },
        reservations: args.claims != ClaimsOption::Locks,
        local_services: !args.listen.keytabs.is_empty(),
        programs: operations::key_source::has_programs(),
        core_dump: false,
        folders,
    }
}

/// Binds all ports before the pool is touched.
fn early_sockets(args: &ServeArgs, common: &Common) -> Result<EarlySockets, Failure> {
    EarlySockets::bind(args.listen.early_tcp()).map_err(|error| {
        if let Some(failure) = no_such_pool(args, common) {
            return failure;
        }
        match &error.address {
            ListenAddress::Tcp(address) if error.cause.kind() == std::io::ErrorKind::AddrInUse => {
                taken(args, *address, taken_by(common, &args.pool, *address))
            }
            _ => port_failure(&error),
        }
    })
}

/// The failure for a pool that was never used here and is not found. A misspelled name conflicts with the server of the
/// intended pool, which listens at the default addresses.
fn no_such_pool(args: &ServeArgs, common: &Common) -> Option<Failure> {
    let is_known = args.legs.is_some()
        || places::known_pools(common).contains(&args.pool)
        || pool_access::managed::disks(&args.pool).is_some();
    if is_known {
        return None;
    }
    let failure = places::candidate(common, &args.pool).err()?;
    (failure.kind == FailureKind::NotFound).then_some(failure)
}

/// Describes the conflict at `address`. `other` is the pool of the server that listens there, if known, with its
/// option.
fn taken(args: &ServeArgs, address: SocketAddr, other: Option<(PoolName, String)>) -> Failure {
    let option = args.listen.protocol_at(address).map(|protocol| {
        format!(
            " with --{} {}, or --{}",
            protocol.name,
            protocol.form(),
            protocol.nowhere
        )
    });
    let choose = format!(
        "choose where this server listens{}; `bulkhead pool-server --help` lists the defaults",
        option.unwrap_or_default()
    );
    let (by, instead) = match other {
        Some((other, theirs)) => (
            format!("the server of pool {other}"),
            format!(
                "take the address from that server first: `bulkhead portal remove {other} {theirs}`"
            ),
        ),
        None => ("another process".to_owned(), "stop that process".to_owned()),
    };
    Failure::new(FailureKind::Busy, format!("{address} is in use by {by}"))
        .advise(format!("{choose}; or {instead}"))
}

/// Returns the pool of another server on this host that listens at `address`, and the matching option of `portal
/// remove`.
fn taken_by(common: &Common, own: &PoolName, address: SocketAddr) -> Option<(PoolName, String)> {
    let others = sockets::served(common).into_iter();
    others.filter(|pool| pool != own).find_map(|pool| {
        let server = pool_access::cached_status(common, &pool)?.server?;
        Some((pool, listens_as(&server, &address)?))
    })
}

/// Returns the option of `server` that conflicts with `address`.
fn listens_as(server: &ServerStatus, address: &SocketAddr) -> Option<String> {
    for (name, places) in server.all_listeners() {
        let places = places
            .iter()
            .filter_map(|text| text.parse::<::protocol_list::Place>().ok());
        let mut names = places.map(::protocol_list::Place::without_group);
        let in_the_way = |place: &::protocol_list::Place| {
            let theirs = place.tcp();
            theirs.is_some_and(|theirs| portals::overlap(&theirs, address))
        };
        if let Some(theirs) = names.find(in_the_way) {
            return Some(format!("--{name} {theirs}"));
        }
    }
    None
}

fn port_failure(error: &PortError) -> Failure {
    match error.cause.kind() {
        std::io::ErrorKind::AddrInUse => {
            let message = format!("{} is in use by another process", error.address);
            Failure::new(FailureKind::Busy, message).advise(format!(
                "stop that process, or choose another port with {}",
                listed()
            ))
        }
        _ => serving::listen_failure(error),
    }
}

/// Opens the listening sockets after the claim. The import is the slow part; clients that connect during it are served
/// after it. From here on, the process that started this server may route clients here.
fn listen_during_import(
    early: &EarlySockets,
    args: &ServeArgs,
    steps: &Steps,
    started: Instant,
    previous: &[StaleConnection],
) -> Result<(), Failure> {
    early.listen().map_err(|error| port_failure(&error))?;
    // Clients of the previous owner are about to reconnect. Addresses without such clients open after the shares are
    // read.
    let late = args.listen.late_tcp().into_iter();
    for address in late.filter(|late| connections::was_used(*late, previous)) {
        if let Err(error) = early.open([address]) {
            tracing::debug!(%error, "clients cannot connect there yet");
        }
    }
    tracing::debug!(pool = %args.pool, clients = previous.len(), "clients of the previous owner");
    steps.record_step(&args.pool, Step::Claimed);
    let after_ms = started.elapsed().as_millis() as u64;
    tracing::info!(pool = %args.pool, after_ms, "the pool is claimed: clients may connect and are served after the import");
    connections::reset_previous(previous, &args.listen.tcp());
    match args.ready_fd {
        Some(fd) if args.say_claimed => write_until(fd, CLAIMED_LINE, WRITE_RETRY_LIMIT)
            .map_err(Failure::of("report the claim")),
        _ => Ok(()),
    }
}

fn engine_options(args: &ServeArgs, common: &Common) -> Options<'static> {
    let mut options = Options::new(open::host_id(common, &args.pool));
    options.cache_bytes_max = args.arc_size;
    options.dirty_bytes_max = args.dirty_max;
    options.commit_interval_s = args.txg_timeout;
    if let Some(seconds) = args.disk_timeout {
        options.device_timeout = Duration::from_secs(seconds.into());
    }
    options.multihost_silence = args.multihost_silence.map(Duration::from_millis);
    options.faults = args.leg_faults.clone().map(Faults::Always);
    options
}

fn setup(
    args: &ServeArgs,
    early: Arc<EarlySockets>,
    connections: ConnectionLimits,
) -> Result<Setup, Failure> {
    let addresses = Addresses::read(&args.listen.places, ::protocol_list::ALL)?;
    let addresses = addresses.with_real_ports(&early);
    let setup = Setup {
        addresses: addresses.map_err(|error| port_failure(&error))?,
        is_of_a_cluster: args.noted_in.is_some(),
        tls: args.listen.tls.clone(),
        keytabs: args.listen.keytabs.clone(),
        connections,
        workers: usize::from(args.workers),
        early,
        unprotected: Vec::new(),
    };
    servers::check(&setup)?;
    Ok(setup)
}

/// Returns the options that set a listening address, for messages.
fn listed() -> String {
    let options = ::protocol_list::ALL.iter();
    let options: Vec<_> = options.map(|one| format!("--{}", one.name)).collect();
    options.join(", ")
}

/// Warns of listening addresses that this host does not have. Without a takeover that adds them, no client can connect.
fn warn_of_foreign_addresses(args: &ServeArgs) {
    let mut addresses: Vec<_> = args.listen.tcp().iter().map(SocketAddr::ip).collect();
    addresses.sort_unstable();
    addresses.dedup();
    for address in addresses {
        if !::serving::is_here(address) {
            tracing::warn!(
                %address,
                "this host does not have the address: no client can connect until it does. \
                 `ip address` lists those that it has; {} say where to listen",
                listed()
            );
        }
    }
}

/// Runs in a thread of its own because a pool may have very many datasets.
fn count_other_volumes(core: &Arc<Core>) {
    let core = Arc::clone(core);
    let count = move || {
        if let Ok(pool) = core.pool.require() {
            core.serving.count_others(&*pool);
        }
    };
    let thread = std::thread::Builder::new().name("count".into());
    if let Err(error) = thread.spawn(count) {
        tracing::warn!(%error, "volumes of other software are not counted");
    }
}

/// Directs the requests of the control socket to the pool, and logs all listening addresses.
fn announce(
    (core, opening): (&Arc<Core>, &Opening),
    control: &control::Server,
    args: &ServeArgs,
    told: &[StaleConnection],
    is_counted: bool,
    steps: &Steps,
) -> Result<replicate::Service, Failure> {
    let failed = Failure::of("start to answer");
    let after_ms = core.is_listening();
    let stale_connections = core.serving.reset_previous_clients(told);
    let awaited = Awaited::of(&stale_connections);
    core.connections.inherit(stale_connections);
    core.serving.rescues.forget_sockets();
    connections::keep(core).map_err(&failed)?;
    opening.ready(core);
    let listeners = core.serving.listeners();
    let listeners = listeners.iter().filter(|(_, all)| !all.is_empty());
    let listeners = listeners.map(|(name, all)| format!("{name} {}", all.join(" ")));
    tracing::info!(
        pool = %args.pool,
        at = listeners.collect::<Vec<_>>().join("; "),
        control = %control.path().display(),
        after_ms,
        "listening"
    );
    steps.record_step(&args.pool, Step::Listening);
    bound_copies(core);
    balance_reads(core);
    replay::start(core, awaited.is_any()).map_err(&failed)?;
    schedules::start(core).map_err(&failed)?;
    keys::start(core).map_err(&failed)?;
    retry::start(core).map_err(&failed)?;
    let access = Arc::clone(core) as Arc<dyn replicate::Access>;
    let replication = replicate::Service::start(access, args.replication).map_err(&failed)?;
    if let Some(address) = replication.address {
        tracing::info!(%address, "listening for replication");
    }
    // After the claim was reported, clients already reach this server, so that READY may follow later.
    let (now, later) = match args.say_claimed {
        true => (None, args.ready_fd),
        false => (args.ready_fd, None),
    };
    let say_ready = |fd: i32| write_until(fd, READY, WRITE_RETRY_LIMIT);
    now.map_or(Ok(()), say_ready).map_err(&failed)?;
    let after_return = move |core: &Arc<Core>| {
        if let Err(error) = later.map_or(Ok(()), say_ready) {
            tracing::error!(%error, "the supervisor cannot be notified that the server is ready");
        }
        start_deferred_work(core, is_counted);
    };
    deferred_start::then(core, awaited, after_return).map_err(&failed)?;
    Ok(replication)
}

/// Applies the pool's bound on its copies before the first one resumes, some transaction groups after the import.
fn bound_copies(core: &Core) {
    let pool = core.pool.require();
    if let Err(failure) = pool.and_then(|pool| copy_rate::apply(&*pool)) {
        tracing::error!(%failure, "resilvers and scrubs have no bound on their rate");
    }
}

/// Applies the pool's distribution of client reads. Until then reads stay on this head.
fn balance_reads(core: &Core) {
    let pool = core.pool.require();
    if let Err(failure) = pool.and_then(|pool| read_balancing::apply(&*pool)) {
        tracing::error!(%failure, "client reads stay on this head");
    }
}

/// Starts the work that must not delay clients.
fn start_deferred_work(core: &Arc<Core>, is_counted: bool) {
    if let Err(error) = core.watch.journal().start(&core.pool) {
        tracing::warn!(%error, "no events will be stored");
    }
    core.watch.enable_dataset_reads();
    secrets::seal_in_background(core);
    if !is_counted {
        count_other_volumes(core);
    }
}

/// Why the main thread left its loop.
enum Outcome {
    /// A signal.
    Signal,
    /// A client's request to close the pool.
    Requested(Ending),
    /// The start failed.
    Failed(Failure),
}

fn wait(
    core: &Arc<Core>,
    common: &Common,
    seals: &Seals,
    events: &Receiver<Event>,
    supervisor: &mut Supervisor,
) -> Outcome {
    let mut stamp = seals.stamp();
    loop {
        let now = seals.stamp();
        if std::mem::replace(&mut stamp, now) != now {
            secrets::seal_in_background(core);
        }
        match events.recv_timeout(TICK) {
            Ok(Event::Stop(signal)) => {
                tracing::info!(signal, "stopping");
                return Outcome::Signal;
            }
            Ok(Event::End(ending)) => {
                tracing::info!(end = ?ending.end, "stopping on request");
                return Outcome::Requested(ending);
            }
            Ok(Event::Reload) => {
                if let Err(failure) = core.serving.read_again() {
                    tracing::error!(%failure, "the exports could not be read again");
                }
                secrets::seal_in_background(core);
            }
            Ok(Event::Restart { anew, reply }) => exit_for_restart(core, common, &anew, &reply),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Outcome::Signal,
        }
        core.watch.tick();
        if core.watch.is_lost() {
            leave_lost(core, common);
        }
        if let Some(refused) = core.serving.refused_for_space() {
            core.watch.refused(refused);
        }
        rescue::end_abandoned(core);
        core.report_expired_freezes();
        supervisor.tick(&format!("pool {}: {}", core.name, core.watch.health()));
        output::log().catch_up();
    }
}

/// Stores the confirmation for the next start and exits. Returns only if that cannot be stored.
fn exit_for_restart(
    core: &Core,
    common: &Common,
    anew: &Restart,
    reply: &Sender<Result<(), Failure>>,
) {
    let kept = anew
        .word
        .as_ref()
        .map_or(Ok(()), |word| legs::keep(common, &core.name, word));
    let is_kept = kept.is_ok();
    // The client may have disconnected.
    let _ = reply.send(kept);
    if !is_kept {
        return;
    }
    std::thread::sleep(RESTART_REPLY_TIME);
    leave_suspended(
        core,
        common,
        "the next start uses the data on the devices that are back",
    )
}

/// Exits while the pool is blocked on its devices. The pool cannot be closed, and all data acknowledged as durable is
/// on the devices. Clients lose their sessions and reconnect; none receives an error.
fn leave_suspended(core: &Core, common: &Common, how_on: &str) -> ! {
    last_words::exits_in_order(&places::running_server(common, &core.name));
    core.serving.drop_sessions();
    tracing::error!(
        pool = %core.name,
        how_on,
        "exited while the pool is suspended, without exporting it"
    );
    // A return would close the volumes, which would block on the devices.
    std::process::exit(i32::from(FailureKind::Unavailable.exit_code()))
}

/// Exits because the pool has another owner for good. Clients lose their sessions and reconnect to that owner; none
/// receives an error. The exit code prevents that a service manager starts this server again.
fn leave_lost(core: &Core, common: &Common) -> ! {
    last_words::exits_in_order(&places::running_server(common, &core.name));
    core.serving.drop_sessions();
    tracing::error!(
        pool = %core.name,
        "another head has taken the pool over: this server exits. To take it back, start it again with the option that \
         its message names"
    );
    // A socket without a process would be taken for that of a killed server.
    let _ = std::fs::remove_file(sockets::socket(common, &core.name));
    // A return would close the volumes, which belong to the other head.
    std::process::exit(i32::from(FailureKind::NeedsConfirmation.exit_code()))
}

/// The result of a close request while the pool is suspended.
fn ended_suspended(core: &Core, common: &Common) -> Failure {
    let why = core.watch.writes_wait().map(|wait| format!(": {wait}"));
    let options = places::server_options(common, &core.name).unwrap_or_default();
    let message = format!(
        "the server of pool {} exited, but could not export the pool{}",
        core.name,
        why.unwrap_or_default()
    );
    Failure::new(FailureKind::Unavailable, message).advise(format!(
        "data acknowledged as durable is on its devices: bring them back, and start its server again, with `bulkhead pool-server {}{}`",
        core.name,
        options.iter().map(|word| format!(" {word}")).collect::<String>()
    ))
}

/// Drains, closes, exports or destroys, and sends the result to the client.
fn end(core: &Core, common: &Common, outcome: Outcome, wait: Duration) -> Result<(), Failure> {
    core.set_ending();
    if core.watch.is_suspended() || !core.await_change() {
        if let Outcome::Requested(ending) = &outcome {
            // The client may have disconnected.
            let _ = ending.reply.send(Err(ended_suspended(core, common)));
            // A socket without a process would be taken for that of a killed server.
            let _ = std::fs::remove_file(sockets::socket(common, &core.name));
            std::thread::sleep(RESTART_REPLY_TIME);
        }
        leave_suspended(
            core,
            common,
            "when its devices are back, the next start recovers it",
        );
    }
    let drain_started = Instant::now();
    // The active change may be a freeze.
    core.serving.volumes.thaw_all();
    core.end_rescues();
    core.watch.end();
    core.serving.drain(wait);
    core.watch.journal().add(NewEvent::of_pool(
        "exported",
        "the server closes the pool",
        false,
    ));
    // One commit covers the last event and the latest writes of clients. No volume then needs a commit of its own.
    std::thread::scope(|scope| {
        scope.spawn(|| core.watch.journal().end());
        // A pool that cannot be written cannot flush its volumes either.
        let _ = core.pool.get().map(|pool| pool.sync());
    });
    core.serving.close_volumes();
    let drained_ms = drain_started.elapsed().as_millis() as u64;
    let Some(pool) = core.pool.take() else {
        return Ok(());
    };
    let name = &core.name;
    let (end, reply) = match &outcome {
        Outcome::Requested(ending) => (ending.end, Some(&ending.reply)),
        Outcome::Signal | Outcome::Failed(_) => (End::Export, None),
    };
    let (closed, message) = match end {
        End::Export => (open::export(pool), format!("exported pool {name}")),
        End::Destroy => (pool_access::destroy(pool), format!("destroyed pool {name}")),
    };
    match end {
        End::Destroy if closed.is_ok() => places::forget(common, name),
        End::Export if closed.is_ok() => places::note_exported(common, name),
        _ => {}
    }
    match &closed {
        Ok(()) => {
            let took_ms = drain_started.elapsed().as_millis() as u64;
            tracing::info!(drained_ms, took_ms, "{message}");
        }
        Err(failure) => tracing::error!(%failure, "the pool could not be closed cleanly"),
    }
    if let Some(reply) = reply {
        // The client may have disconnected.
        let _ = reply.send(closed.clone().map(|()| Done::changed(message)));
    }
    match outcome {
        Outcome::Failed(failure) => Err(failure),
        Outcome::Signal | Outcome::Requested(_) => closed,
    }
}
