//! `bulkhead lab`: the functions of this crate for people and scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::{Failure, FailureKind};
use output::signals;
use rendering::Printer;
use serde_json::json;
use units::HeadName;

use crate::arguments::{
    BmcArgs, CableArgs, ConsoleArgs, ExecArgs, LabCommand, OnOff, OutletArgs, PowerArgs, UpArgs,
    WhichLab,
};
use crate::{
    CONSOLE_USER, ClusterState, DEFAULT_BASE, Impairment, Lab, LabError, Node, State, UpOptions,
    inside,
};

/// The check finds errors in the file: the same as for `appliance check`.
const EXIT_ERRORS: u8 = 12;
/// This host cannot run a lab.
pub const EXIT_INCAPABLE: u8 = 15;
/// Interval between two checks whether a lab still runs.
const ALIVE_INTERVAL: Duration = Duration::from_millis(500);

/// Runs a part of a lab, if this process was started as one.
pub fn start_inside() -> Option<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (first, rest) = words.split_first()?;
    if first != inside::COMMAND {
        return None;
    }
    // A second subscriber cannot exist: this is called once.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false)
        .try_init();
    // The creator of the lab may wait for them in a thread; no process in the lab does.
    signals::unblock();
    Some(inside::main(rest))
}

/// Performs the command.
pub fn run(command: &LabCommand, out: Printer) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Up(args) => return up(args, out),
        LabCommand::Exec(args) => return exec(args),
        LabCommand::Console(args) => return console(args, out),
        LabCommand::Status(which) => return status(&open(which)?, out),
        LabCommand::Down(which) => {
            let name = lab_name(which)?;
            Lab::down(&which.labs.dir, &name).map_err(|error| failure(&error))?;
            out.either(&json!({"name": name, "down": true}), || {
                format!("the lab {name} is gone\n")
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        LabCommand::Power(PowerArgs { head, to, which }) => open(which)?.power(head, *to),
        LabCommand::Outlet(OutletArgs {
            pdu,
            outlet,
            to,
            which,
        }) => open(which)?.outlet(pdu, outlet, *to == OnOff::On),
        LabCommand::Cut(CableArgs {
            head,
            networks,
            which,
        }) => open(which)?.cut(head, networks),
        LabCommand::Mend(CableArgs {
            head,
            networks,
            which,
        }) => open(which)?.mend(head, networks),
        LabCommand::Impair(args) => {
            let impairment = Impairment {
                delay_us: args.delay_us,
                loss_percent: args.loss_percent,
            };
            open(&args.which)?.impair(&args.head, &args.networks, impairment)
        }
        LabCommand::Freeze(args) => open(&args.which)?.freeze(&args.head),
        LabCommand::Thaw(args) => open(&args.which)?.thaw(&args.head),
        LabCommand::Bmc(args) => bmc(&open(&args.which)?, args),
    }
    .map_err(|error| failure(&error))?;
    out.either(&json!({"done": true}), String::new)?;
    Ok(ExitCode::SUCCESS)
}

/// The kind by which scripts know a failure.
fn failure(error: &LabError) -> Failure {
    let kind = match error {
        LabError::Missing(_) => FailureKind::Failed,
        LabError::File(_) | LabError::Place(_) => FailureKind::Usage,
        LabError::Exists(_) => FailureKind::Exists,
        LabError::NotFound(_) | LabError::NoNode(_) => FailureKind::NotFound,
        LabError::Dead(_) | LabError::Off(_) => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    };
    let failure = Failure::from_chain(kind, error);
    match error {
        LabError::Exists(_) | LabError::Dead(_) => {
            failure.advise("`bulkhead lab down` removes it with all its contents")
        }
        _ => failure,
    }
}

/// The name that was given, or that of the only lab.
fn lab_name(which: &WhichLab) -> Result<String, Failure> {
    if let Some(name) = &which.name {
        return Ok(name.clone());
    }
    let mut names = Lab::names(&which.labs.dir);
    match names.len() {
        1 => Ok(names.remove(0)),
        0 => {
            let message = format!("there is no lab in {}", which.labs.dir.display());
            Err(Failure::not_found(message))
        }
        _ => Err(Failure::usage(format!(
            "say which lab with --name: {}",
            names.join(", ")
        ))),
    }
}

fn open(which: &WhichLab) -> Result<Lab, Failure> {
    let name = lab_name(which)?;
    Lab::open(&which.labs.dir, &name).map_err(|error| failure(&error))
}

fn up(args: &UpArgs, out: Printer) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(Failure::of("find this program"))?;
    let text = cluster::appliance_file::read(&args.file)?;
    let base = std::path::absolute(&args.which.labs.dir)
        .map_err(|error| Failure::usage(format!("--dir: {error}")))?;
    let options = UpOptions {
        name: args.which.name.clone(),
        disk_bytes: args.disk_size,
        arc_bytes_max: args.arc_max,
        creates_pools: !args.no_pools,
        has_console: !args.no_console,
        is_bare: args.bare,
        time_limit: Duration::from_secs(args.timeout),
        keeps_failed: args.keep_failed,
        ..UpOptions::new(text, base, program)
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    clean_up_when_interrupted(&options, &interrupted)?;
    let up = Lab::up(&options, &mut |text| out.progress(text));
    while up.is_err() && interrupted.load(Ordering::Acquire) {
        // It failed because the lab is being stopped, which terminates this process.
        std::thread::park();
    }
    match up {
        Ok(lab) => {
            if !out.is_json() {
                out.text(&access_hints(&lab, &args.which.labs.dir))?;
            }
            status(&lab, out)
        }
        Err(LabError::Missing(missing)) => report_missing("", &missing, out),
        Err(error @ LabError::File(_)) => {
            out.either(&json!({"errors": error.to_string()}), || {
                format!("{error}\n")
            })?;
            Ok(ExitCode::from(EXIT_ERRORS))
        }
        Err(error) => Err(failure(&error)),
    }
}

/// Reports that this host cannot run a lab, after `before`.
pub fn report_missing(before: &str, missing: &[String], out: Printer) -> Result<ExitCode, Failure> {
    out.either(&json!({"missing": missing}), || {
        let missing = missing.join("\n  ");
        format!("{before}this host cannot run a lab:\n  {missing}\n")
    })?;
    Ok(ExitCode::from(EXIT_INCAPABLE))
}

/// An interrupted start removes the whole lab, unless its failure is to be analyzed.
fn clean_up_when_interrupted(
    options: &UpOptions,
    interrupted: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let named = appliance::parse(&options.file_text).map(|parsed| parsed.appliance.name);
    let name = options.name.clone().or(named.ok());
    let Some(name) = name.filter(|_| !options.keeps_failed) else {
        return Ok(());
    };
    if Lab::names(&options.base).contains(&name) {
        // It belongs to another process: this command will refuse.
        return Ok(());
    }
    let (base, interrupted) = (options.base.clone(), Arc::clone(interrupted));
    signals::stop_after(move || {
        interrupted.store(true, Ordering::Release);
        // There may be none yet.
        let _ = Lab::down(&base, &name);
    })
    .map_err(Failure::of("wait for signals"))
}

/// How to look around.
fn access_hints(lab: &Lab, base: &Path) -> String {
    let name = lab.name();
    let place = match base == Path::new(DEFAULT_BASE) {
        true => String::new(),
        false => format!(" --dir {}", base.display()),
    };
    let mut text = format!("the lab {name} is up, in {}\n", lab.path().display());
    let first = lab.heads().first().map(ToString::to_string);
    let first = first.unwrap_or_default();
    for (what, words) in [
        ("enter a head", format!("exec {first}")),
        ("be a client", "exec client".to_owned()),
    ] {
        let _ = writeln!(
            text,
            "  {what}: bulkhead lab {words} --name {name}{place} -- bash"
        );
    }
    if let Some(password) = lab.console_password_file() {
        let _ = writeln!(
            text,
            "  see its consoles: bulkhead lab console --name {name}{place}\n    \
             and log in as {CONSOLE_USER} with the password in {}",
            password.display()
        );
    }
    let _ = writeln!(text, "  end it: bulkhead lab down --name {name}{place}");
    text
}

/// Forwards consoles until the lab stops or the user interrupts it.
fn console(args: &ConsoleArgs, out: Printer) -> Result<ExitCode, Failure> {
    let lab = open(&args.which)?;
    let password = lab.console_password_file().ok_or_else(|| {
        let message = format!("the heads of the lab {} have no console", lab.name());
        Failure::not_found(message).advise("bring it up without --no-console")
    })?;
    let heads = match args.heads.as_slice() {
        [] => lab.heads(),
        some => some.to_vec(),
    };
    let mut addresses = BTreeMap::new();
    for (head, offset) in heads.iter().zip(0_u16..) {
        let port = args.port.map_or(0, |first| first.saturating_add(offset));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            Failure::usage(format!("listen on port {port}: {error}"))
                .advise("choose another --port, or leave it out")
        })?;
        let at = listener.local_addr().map_err(Failure::of("listen"))?;
        lab.forward(head, listener)
            .map_err(|error| failure(&error))?;
        addresses.insert(head.to_string(), format!("https://{at}/"));
    }
    let told = json!({
        "heads": addresses, "user": CONSOLE_USER, "password_file": password,
    });
    out.text(&match out.is_json() {
        // On one line: the user reads it while the start continues.
        true => format!("{told}\n"),
        false => {
            let lines = addresses
                .iter()
                .map(|(head, url)| format!("{head}: {url}\n"));
            let lines: String = lines.collect();
            let password = password.display();
            format!("{lines}log in as {CONSOLE_USER} with the password in {password}\n")
        }
    })?;
    while lab.is_alive() {
        std::thread::sleep(ALIVE_INTERVAL);
    }
    Ok(ExitCode::SUCCESS)
}

fn bmc(lab: &Lab, args: &BmcArgs) -> Result<(), LabError> {
    if let Some(dead) = args.dead {
        lab.set_bmc_dead(&args.head, dead)?;
    }
    if let Some(delay_ms) = args.delay_ms {
        lab.set_bmc_delay(&args.head, Duration::from_millis(delay_ms))?;
    }
    Ok(())
}

fn exec(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let lab = open(&args.which)?;
    let words = lab.enter(&args.who).map_err(|error| failure(&error))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(&args.command);
    if matches!(args.who, Node::Head(_) | Node::Witness) {
        command.current_dir("/");
    }
    Err(Failure::of("run nsenter")(command.exec()))
}

fn status(lab: &Lab, out: Printer) -> Result<ExitCode, Failure> {
    let state = lab.state().map_err(|error| failure(&error))?;
    let views = lab.cluster_views().map_err(|error| failure(&error))?;
    let with_quorum = views.values().find(|view| view.has_quorum);
    let cluster = with_quorum.or_else(|| views.values().next());
    let document = document(lab, &state, (cluster, &views));
    out.either(&document, || shown(lab, &state, (cluster, &views)))?;
    Ok(ExitCode::SUCCESS)
}

/// The cluster by a head with quorum, if one has it, and as each head sees it.
type Views<'a> = (
    Option<&'a ClusterState>,
    &'a BTreeMap<HeadName, ClusterState>,
);

fn document(lab: &Lab, state: &State, (cluster, views): Views<'_>) -> serde_json::Value {
    json!({
        "name": lab.name(),
        "folder": lab.path().display().to_string(),
        "first_pid": lab.first_pid(),
        "heads": state.heads,
        "others": state.others,
        "outlets_off": state.outlets_off,
        "cluster": cluster,
        "views": views,
    })
}

/// The differences between the view of a head and that of the cluster.
fn difference(cluster: Option<&ClusterState>, view: Option<&ClusterState>) -> Vec<String> {
    let Some(view) = view else {
        return Vec::new();
    };
    let mut words = Vec::new();
    if !view.has_quorum {
        words.push("without quorum, so it serves no pool".to_owned());
    }
    if cluster.is_some_and(|cluster| cluster.online != view.online) {
        let seen: Vec<&str> = view.online.iter().map(String::as_str).collect();
        words.push(format!("it sees the members {}", seen.join(", ")));
    }
    words
}

fn shown(lab: &Lab, state: &State, (cluster, views): Views<'_>) -> String {
    let mut text = String::new();
    for (name, head) in &state.heads {
        let sees_it = |view: &ClusterState| view.online.contains(name.as_str());
        let view = views.get(name);
        let is_online = view.or(cluster).is_some_and(sees_it);
        let mut words = vec![match (head.powered, head.frozen, is_online) {
            (false, ..) => "off".to_owned(),
            (true, true, _) => "frozen".to_owned(),
            (true, false, true) => "on, a member".to_owned(),
            (true, false, false) => "on, not a member".to_owned(),
        }];
        words.extend(difference(cluster, view));
        if !head.cut.is_empty() {
            let cut: Vec<&str> = head.cut.iter().map(|network| network.as_str()).collect();
            words.push(format!("cut off from {}", cut.join(", ")));
        }
        for (network, bad) in &head.impaired {
            let (delay, loss) = (bad.delay_us, bad.loss_percent);
            words.push(format!(
                "packets over {network} are delayed by {delay} us, {loss} % is lost"
            ));
        }
        if head.bmc_dead {
            words.push("its BMC does not respond".to_owned());
        }
        if head.bmc_delay_ms > 0 {
            words.push(format!("its BMC is delayed by {} ms", head.bmc_delay_ms));
        }
        let _ = writeln!(text, "head {name}: {}", words.join("; "));
    }
    for (pdu, outlet) in &state.outlets_off {
        let _ = writeln!(text, "outlet {outlet} of {pdu}: off");
    }
    match cluster {
        Some(cluster) => {
            for (name, pool) in &cluster.pools {
                let addresses = lab.appliance().pools[name].addresses.iter();
                let addresses: Vec<String> = addresses.map(|one| one.address.to_string()).collect();
                let place = match (&pool.head, pool.is_served()) {
                    (Some(head), true) => format!("served by {head} at {}", addresses.join(", ")),
                    (Some(head), false) => format!(
                        "on {head}, {} of {} addresses up",
                        pool.addresses_up, pool.addresses
                    ),
                    (None, _) => "not served".to_owned(),
                };
                let _ = writeln!(text, "pool {name}: {place}");
            }
        }
        None => text.push_str("Pacemaker responds on no head\n"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_without_quorum_and_with_another_view_is_shown() {
        let view = |has_quorum, online: &[&str]| ClusterState {
            has_quorum,
            online: online.iter().map(|&head| head.to_owned()).collect(),
            ..ClusterState::default()
        };
        let cluster = view(true, &["left"]);
        assert!(difference(Some(&cluster), Some(&cluster)).is_empty());
        assert!(difference(Some(&cluster), None).is_empty());
        let apart = difference(Some(&cluster), Some(&view(false, &["right"])));
        assert_eq!(
            apart,
            [
                "without quorum, so it serves no pool",
                "it sees the members right"
            ]
        );
    }
}
