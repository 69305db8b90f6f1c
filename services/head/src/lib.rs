//! `bulkhead head`: serves the HTTP API and the console of this host. It holds no pool itself: it sends requests to
//! servers over their sockets, and runs a separate process for a pool without a server
//! ([`pool_access::child::perform`]), so that a fault of a pool does not affect the head.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod alert_receivers;
pub mod args;
pub mod audit_log;
mod backend;
mod clients;
mod cluster_view;
mod console;
mod crm_output;
mod disk_health;
mod disks;
mod drops;
pub mod facts;
pub mod hand_over;
mod heartbeats;
mod host_losses;
mod interfaces;
mod logs;
mod manual_settings;
pub mod move_keys;
mod move_legs;
pub mod other_heads;
pub mod peer_key;
pub mod pool_growth;
mod power;
mod refreshed;
mod safeguards;
mod sensors;
mod slow_servers;
mod validity;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use control::{Failure, FailureKind};
use pool_access::common::Common;
use rendering::Printer;

use self::args::{CertificateArgs, HeadArgs, HeadCommand, HeadVerb};

/// Threads for blocking work; further work is queued.
const BLOCKING_THREADS_MAX: usize = 96;
/// How long the readiness notification to a busy service manager is repeated.
const READY_LIMIT: Duration = Duration::from_secs(300);
/// Interval of updates of the other heads' addresses.
const PEERS_INTERVAL: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(command: &HeadCommand, common: &Common, out: Printer) -> Result<(), Failure> {
    let folder = &command.place.head_dir;
    match &command.verb {
        None => serve(command, common),
        Some(HeadVerb::Openapi) => out.text(&rendering::document(&api::openapi())),
        Some(HeadVerb::Alerts) => alerts(&command.serve, common, out),
        Some(HeadVerb::Disks) => show_disks(&command.serve, common, out),
        Some(HeadVerb::Locate(args)) => out.answer(&disks::locate(&args.disk, !args.off)?),
        Some(HeadVerb::Power(args)) => power::show(&args.file, out),
        Some(HeadVerb::Perform) => pool_access::child::perform(common, out),
        Some(HeadVerb::Certificate(args)) => {
            let message = certificate(args, folder)?;
            out.answer(&control::answer::Done::changed(message))
        }
    }
}

fn alerts(args: &HeadArgs, common: &Common, out: Printer) -> Result<(), Failure> {
    let now_s = api::now_ms() / 1000;
    let backend = backend::Host::for_single_check(args.clone(), common.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(Failure::of("start the runtime"))?;
    let peers = {
        let _inside = runtime.enter();
        api::Peers::new(peer_key::PeerKey::new(&args.peer_key, common).read())
    };
    let own = cluster_view::own_name(args);
    let mut heads = peer_addresses(args, &own).unwrap_or_default();
    heads.insert(own, own_addresses(args));
    peers.set_heads(heads);
    let alerts = api::alerts_now(Arc::new(backend), peers);
    // A head that does not respond must not delay the end.
    runtime.shutdown_background();
    out.either(&alerts, || match alerts.is_empty() {
        true => "all is well\n".to_owned(),
        false => alerts
            .iter()
            .map(|alert| alert_lines(alert, now_s))
            .collect(),
    })
}

fn show_disks(args: &HeadArgs, common: &Common, out: Printer) -> Result<(), Failure> {
    let backend = backend::Host::for_single_check(args.clone(), common.clone());
    let pools = api::Backend::discover(&backend).unwrap_or_default();
    let (health, missing) = disk_health::read_all();
    let disks = disks::all(&pools, &health);
    out.either(&disks, || {
        let mut text = disks::table(&disks);
        if let Some(why) = &missing {
            text.push_str(&format!(
                "the health is unknown: {why}; install smartmontools\n"
            ));
        }
        text
    })
}

/// An alert for terminals, with the time unless it was first seen just now.
fn alert_lines(alert: &api::view::Alert, now_s: u64) -> String {
    let since_s = alert.since_ms.map(|since_ms| since_ms / 1000);
    let since = since_s.filter(|since_s| since_s + 1 < now_s);
    let since = since.map_or_else(String::new, |since_s| {
        format!(" (since {})", control::calendar::utc(since_s))
    });
    let details = alert.details.iter().map(|detail| format!("  {detail}\n"));
    // The time and the reason are in the line above.
    let advice = alert.advice.clone().map(|advice| control::Advice {
        since_ms: None,
        why: match alert.sentence.contains(&advice.why) {
            true => String::new(),
            false => advice.why,
        },
        ..advice
    });
    let advice = advice.map_or_else(String::new, |advice| format!("  next: {advice}\n"));
    let details: String = details.collect();
    format!(
        "{}: {}{since}\n{details}{advice}",
        alert.severity, alert.sentence
    )
}

fn certificate(args: &CertificateArgs, folder: &std::path::Path) -> Result<String, Failure> {
    let place = folder.join(api::certificate::CERTIFICATE);
    if let (Some(certificate), Some(key)) = (&args.certificate, &args.key) {
        api::certificate::take(folder, certificate, key)?;
        return Ok(format!("took the certificate into {}", place.display()));
    }
    let names = match args.name.is_empty() {
        true => api::certificate::usual_names(engine::host_name()),
        false => args.name.clone(),
    };
    api::certificate::make(folder, &names)?;
    let names = names.join(", ");
    Ok(format!(
        "made a certificate for {names}: {}",
        place.display()
    ))
}

fn serve(command: &HeadCommand, common: &Common) -> Result<(), Failure> {
    log_to_stderr();
    pool_access::confine::head();
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Failure::new(FailureKind::Failed, format!("{what}: {error}"))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .map_err(|error| failed("start the runtime", &error))?;
    let args = command.serve.clone();
    if !api::Accounts::new(&command.place.head_dir).has_users() {
        tracing::warn!("there is no user yet: `bulkhead user add NAME --role admin` adds one");
    }
    let backend = Arc::new(backend::Host::new(args.clone(), common.clone()));
    backend
        .watch_power()
        .map_err(Failure::of("watch the power supplies"))?;
    let key = peer_key::PeerKey::new(&args.peer_key, common);
    let served = runtime.block_on(async {
        let peers = api::Peers::new(key.read());
        tokio::spawn(follow_peers(peers.clone(), args.clone(), key));
        start_notifications(&backend, &peers);
        let settings = api::Settings {
            listen: args.listen.clone(),
            folder: command.place.head_dir.clone(),
            commands: pool_access::audit::path(common),
            peers,
            listening: Box::new(announce),
        };
        api::serve(backend, settings).await
    });
    served.map_err(|error| {
        Failure::from_chain(FailureKind::Failed, &error).advise("choose another --listen")
    })
}

/// Starts the thread that sends messages about alerts.
fn start_notifications(backend: &backend::Host, peers: &api::Peers) {
    let (service, peers) = (backend.notifications(), peers.clone());
    let started = std::thread::Builder::new()
        .name("notifications".into())
        .spawn(move || service.run(&|head| peers.notifications(head)));
    if let Err(error) = started {
        tracing::error!(%error, "no messages about alerts are sent: start the thread");
    }
}

/// Prints the address of the API for the parent process, and notifies the service manager.
fn announce(address: &str) {
    let line = format!("listening {address}\n");
    output::Line::default().write_line(std::io::stdout().as_fd(), line.as_bytes());
    tracing::info!(address, "listening");
    output::Supervisor::from_environment().ready_without_tick(address, READY_LIMIT);
}

/// Updates the addresses of the other heads from the appliance file, and the key of the heads.
async fn follow_peers(peers: api::Peers, args: HeadArgs, key: peer_key::PeerKey) {
    loop {
        let (args, own) = (args.clone(), cluster_view::own_name(&args));
        let key = key.clone();
        let looked = tokio::task::spawn_blocking(move || (peer_addresses(&args, &own), key.read()));
        if let Ok((heads, key)) = looked.await {
            peers.set_key(key);
            // While the file cannot be read, the addresses are unchanged.
            if let Some(heads) = heads {
                peers.set_heads(heads);
            }
        }
        tokio::time::sleep(PEERS_INTERVAL).await;
    }
}

/// Where the daemon of this head listens.
fn own_addresses(args: &HeadArgs) -> Vec<SocketAddr> {
    let listen = args.listen.iter().map(|address| {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, address.port())
    });
    listen.collect()
}

fn peer_addresses(args: &HeadArgs, own: &str) -> Option<BTreeMap<String, Vec<SocketAddr>>> {
    let appliance = cluster::appliance_file::load(&args.file).ok()?;
    let port = args
        .peer_port
        .or_else(|| Some(args.listen.first()?.port()))?;
    let others = appliance.heads.keys().filter(|head| head.as_str() != own);
    let others = others.map(|head| {
        let addresses = appliance.addresses_of(head).into_iter();
        let addresses = addresses.map(|address| SocketAddr::new(address, port));
        (head.to_string(), addresses.collect())
    });
    Some(others.collect())
}

fn log_to_stderr() {
    output::set_log_nonblocking();
    output::start_log(output::Style::default());
}
