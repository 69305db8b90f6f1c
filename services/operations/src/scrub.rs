//! Scrubs: started, paused, resumed and stopped by hand, and started by a schedule that is stored
//! in the pool.

use std::time::Duration;

use control::answer::{Done, ScanView, ScrubScheduleView};
use control::operations::pool::scrub::ScrubAction;
use control::schedule::{SCRUB_PROPERTY, ScrubDocument, When, due};
use control::{Answer, Failure, FailureKind};
use engine::Pool;
use engine::pool::{
    PoolError, PoolErrorKind, ScanKind, ScanState, ScanStatus, ScrubCommand, Suspension,
};

use super::documents::{All, Documents, document_failure};
use super::events::NewEvent;
use super::schedule::now_s;
use super::status::{scan, scan_name};
use super::{Context, failures};
use crate::needs;

/// Polling interval of an active scan.
const SCAN_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Polls between two progress reports.
const POLLS_PER_REPORT: u32 = 5;

/// Polls without a scan after which there is none. ZFS briefly shows none while it replaces a scan with a new one,
/// such as the resilver of a device that is available again.
const POLLS_WITHOUT_SCAN_MAX: u32 = 50;

/// Maximum number of restarts of an awaited scrub after a resilver replaced it.
const RESTARTS_MAX: u32 = 3;

/// Performs a scrub request.
pub fn perform(
    context: &Context<'_>,
    action: ScrubAction,
    wait: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let name = context.pool.name();
    let (command, what) = match action {
        ScrubAction::Start => (ScrubCommand::Start, "scrubs"),
        ScrubAction::Resume => (ScrubCommand::Start, "resumes its scrub"),
        ScrubAction::Pause => (ScrubCommand::Pause, "pauses its scrub"),
        ScrubAction::Stop => (ScrubCommand::Cancel, "stops its scrub"),
    };
    let background = match command == ScrubCommand::Start && !wait {
        true => super::pool::while_served(context),
        false => String::new(),
    };
    let state = match action {
        ScrubAction::Resume => {
            let status = context.pool.status().map_err(failures::pool)?;
            status.scan.map(|scan| scan.state)
        }
        _ => Some(ScanState::Paused),
    };
    if wait && action == ScrubAction::Start {
        await_resilver(context, progress)?;
    }
    let begun = match state == Some(ScanState::Paused) {
        true => command_scrub(
            context.pool,
            command,
            format!("pool {name} {what}{background}"),
        )?,
        false => Done::already(format!("no scrub of pool {name} is paused")),
    };
    let is_scanning = matches!(state, Some(ScanState::Paused | ScanState::Running));
    if !wait || !is_scanning || !matches!(action, ScrubAction::Start | ScrubAction::Resume) {
        return Ok(begun);
    }
    let mut scan = wait_for_scan(context, progress)?;
    let is_resilver = |scan: &ScanView| scan.function == scan_name(ScanKind::Resilver);
    let mut restarts = 0;
    // A device is available again, and ZFS resilvers it first.
    while is_resilver(&scan) && action == ScrubAction::Start && restarts < RESTARTS_MAX {
        restarts += 1;
        std::thread::sleep(SCAN_POLL_INTERVAL);
        await_resilver(context, progress)?;
        command_scrub(context.pool, command, String::new())?;
        scan = wait_for_scan(context, progress)?;
    }
    if is_resilver(&scan) {
        let message = format!(
            "a device of pool {name} is available again, and its resilver replaced the scrub"
        );
        return Err(Failure::new(FailureKind::Busy, message).advise("say it again"));
    }
    if scan.errors > 0 {
        let message = format!(
            "the scrub of pool {name} found {} blocks that cannot be repaired",
            scan.errors
        );
        return Err(Failure::new(FailureKind::Failed, message).advise(format!(
            "`bulkhead pool status {name}` shows the recommended action"
        )));
    }
    Ok(Done::changed(format!(
        "{} of pool {name} {}: {} bytes repaired, no errors left{}",
        scan.function,
        scan.state,
        scan.repaired,
        unread(context)?
    )))
}

/// What a scrub could not read: a device that does not work has no errors.
fn unread(context: &Context<'_>) -> Result<String, Failure> {
    let health = super::status::pool_status(context, None)?.health;
    Ok(match health.as_str() {
        "ONLINE" => String::new(),
        _ => format!(
            " on the devices that work; the pool is {health}, which `bulkhead status {}` explains",
            context.pool.name()
        ),
    })
}

/// Blocks until no resilver is active: ZFS starts no scrub before.
fn await_resilver(context: &Context<'_>, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    loop {
        let status = context.pool.status().map_err(failures::pool)?;
        let running = |scan: &&ScanStatus| {
            scan.kind == ScanKind::Resilver && scan.state == ScanState::Running
        };
        if status.scan.as_ref().filter(running).is_none() {
            return Ok(());
        }
        progress("the scrub begins when the resilver has ended");
        wait_for_scan(context, progress)?;
    }
}

fn command_scrub(pool: &dyn Pool, command: ScrubCommand, done: String) -> Result<Answer, Failure> {
    match needs(pool.upkeep())?.scrub(command) {
        Ok(()) => Ok(Done::changed(done)),
        Err(PoolError {
            kind: PoolErrorKind::NothingToDo { why },
            ..
        }) => Ok(Done::already(why)),
        Err(error) => Err(failures::pool(error)),
    }
}

/// Fails if the pool is suspended: `work` makes no progress before an administrator resumes the pool.
pub fn refuse_suspended(context: &Context<'_>, work: &str) -> Result<(), Failure> {
    let health = context.pool.health();
    let Some(suspension) = health.and_then(|health| health.suspended) else {
        return Ok(());
    };
    let name = context.pool.name();
    let why = match suspension {
        Suspension::DevicesFailed => "too many devices failed",
        Suspension::OtherHost => "another host may use it",
    };
    let message = format!(
        "pool {name} is suspended, because {why}; {work} continues when the pool is resumed"
    );
    Err(Failure::new(FailureKind::Unavailable, message).advise(format!(
        "`bulkhead pool status {name}` shows what to do first, and `bulkhead pool clear {name}` resumes the pool"
    )))
}

/// Blocks until no scan is active, or until a pause, a suspension of the pool or the shutdown of the server.
pub fn wait_for_scan(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<ScanView, Failure> {
    let (mut looks, mut without) = (0, 0);
    loop {
        refuse_suspended(context, "its scan")?;
        let status = context.pool.status().map_err(failures::pool)?;
        let running = |found: &&ScanStatus| found.state == ScanState::Running;
        let Some(found) = status.scan.as_ref() else {
            without += 1;
            if without > POLLS_WITHOUT_SCAN_MAX {
                let message = "the pool reports no scan";
                return Err(Failure::new(FailureKind::Failed, message));
            }
            std::thread::sleep(SCAN_POLL_INTERVAL);
            continue;
        };
        without = 0;
        let view = scan(found);
        if Some(found).filter(running).is_none() {
            return Ok(view);
        }
        if context.hooks.is_ending() {
            let message = format!(
                "the server is stopping; the {} resumes at its next start",
                view.function
            );
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        if looks % POLLS_PER_REPORT == 0 {
            progress(&control::words::scan_line(&view));
        }
        looks += 1;
        std::thread::sleep(SCAN_POLL_INTERVAL);
    }
}

/// Sets when the pool is scrubbed, or that it is not.
pub fn set_schedule(context: &Context<'_>, when: Option<When>) -> Result<Answer, Failure> {
    let root = context.root();
    let all = context.all()?;
    let before = document(&all, &root);
    if before.as_ref().map(|document| document.when) == when {
        return Ok(Done::already(match when {
            Some(when) => format!("pool {root} is scrubbed {when} already"),
            None => format!("pool {root} has no schedule of scrubs"),
        }));
    }
    let encode = |when| {
        let since = now_s();
        ScrubDocument { when, since }.encode()
    };
    let text = when.map(encode).transpose();
    let text = text.map_err(|error| document_failure(&error))?;
    context.edit(&root, vec![(SCRUB_PROPERTY.to_owned(), text)])?;
    Ok(Done::changed(match when {
        Some(when) => format!("pool {root} is scrubbed {when} from now on"),
        None => format!("pool {root} is scrubbed only on request from now on"),
    }))
}

fn document(all: &All, root: &str) -> Option<ScrubDocument> {
    ScrubDocument::decode(all.own(root)?.get(SCRUB_PROPERTY)?).ok()
}

/// The pool's own schedule. Reads little.
pub fn schedule_view(pool: &dyn Pool) -> Option<ScrubScheduleView> {
    let own = pool
        .own_user_properties(pool.name().into(), SCRUB_PROPERTY)
        .ok()?;
    let document = ScrubDocument::decode(own.get(SCRUB_PROPERTY)?).ok()?;
    Some(ScrubScheduleView {
        next: document.when.next(now_s()),
        when: document.when,
    })
}

/// The next due time of a scrub.
pub fn next_due_time(all: &All, root: &str, now_s: u64) -> Option<u64> {
    document(all, root).map(|document| document.when.next(now_s))
}

/// State that is retained between runs.
#[derive(Default)]
pub struct Memory {
    begun_s: Option<u64>,
    is_told: bool,
}

/// Starts the scrub that is due at `now_s`, unless a scan is active: then it is postponed to the
/// second return value. A scrub that an administrator paused stays paused.
pub fn obey(
    context: &Context<'_>,
    memory: &mut Memory,
    now_s: u64,
) -> Result<(Option<NewEvent>, bool), Failure> {
    let all = context.all()?;
    let Some(document) = document(&all, &context.root()) else {
        return Ok((None, false));
    };
    let status = context.pool.status().map_err(failures::pool)?;
    let scrub = status
        .scan
        .filter(|scan| scan.kind == ScanKind::Scrub || is_under_way(scan));
    let done = scrub.iter().map(|scan| scan.started_s);
    let done = done.chain(memory.begun_s);
    if due(document.when, now_s, document.since, done).is_none() {
        return Ok((None, false));
    }
    if scrub.as_ref().is_some_and(is_under_way) {
        let is_told = std::mem::replace(&mut memory.is_told, true);
        let message = "the scheduled scrub is postponed until the active scan has finished";
        let news = (!is_told).then(|| NewEvent::of_pool("scan", message, false));
        return Ok((news, true));
    }
    memory.is_told = false;
    memory.begun_s = Some(now_s);
    needs(context.pool.upkeep())?
        .scrub(ScrubCommand::Start)
        .map_err(failures::pool)?;
    let message = format!("the scheduled scrub ({}) begins", document.when);
    Ok((Some(NewEvent::of_pool("scan", message, false)), false))
}

fn is_under_way(scan: &ScanStatus) -> bool {
    matches!(scan.state, ScanState::Running | ScanState::Paused)
}
