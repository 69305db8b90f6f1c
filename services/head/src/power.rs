//! Watches the power supplies of the appliance file, and acts when they are low; and `head power`, which shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::view::{PowerSupply, PowerView};
use appliance::{Appliance, Feed, Ups};
use cluster::host::Local;
use cluster::power::{
    Action, Actor, ClusterView, Judge, Limits, Reading, Session, Silence, Supply,
};
use control::Failure;
use pool_access::common::Common;
use rendering::{Printer, Table};
use units::HeadName;

use super::cluster_view;
use crate::args::HeadArgs;

/// Interval of polls while there are mains.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Interval otherwise.
const POLL_INTERVAL_ON_BATTERY: Duration = Duration::from_secs(2);
/// The cluster is queried every so many polls while there are mains.
const CLUSTER_ROUNDS: u64 = 6;
/// Interval at which the file is read while it lists no supply.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// The note of a head that left its cluster, in the directory of the control sockets.
const NOTE: &str = "power.left";

/// The state of the supplies, for the alerts.
#[derive(Debug, Default)]
pub struct PowerWatch {
    /// As of the last poll. `None` before it, and in a process that does not watch.
    last: Mutex<Option<PowerView>>,
}

impl PowerWatch {
    /// Sentences about the supplies. Polls them now if this process does not watch them.
    pub fn problems(&self, file: &Path, watches: bool) -> Vec<String> {
        let known = self.last.lock().expect("no holder panics").clone();
        let now = || (!watches).then(|| polled(file)).flatten();
        known.or_else(now).unwrap_or_default().problems
    }

    /// The supplies, as of the last poll.
    pub fn shown(&self) -> PowerView {
        let last = self.last.lock().expect("no holder panics");
        last.clone().unwrap_or_default()
    }

    fn store(&self, view: PowerView) {
        let mut last = self.last.lock().expect("no holder panics");
        // The charge changes with each reply.
        let without_numbers =
            |text: &String| text.replace(|letter: char| letter.is_ascii_digit(), "");
        let before = last.iter().flat_map(|last| &last.problems);
        let before: BTreeSet<String> = before.map(without_numbers).collect();
        for problem in view
            .problems
            .iter()
            .filter(|one| !before.contains(&without_numbers(one)))
        {
            tracing::warn!("{problem}");
        }
        *last = Some(view);
    }
}

type Feeds = BTreeMap<String, Feed>;
type Sessions = BTreeMap<String, Session>;

/// The replies of all supplies, which are polled at the same time.
fn poll(sessions: &mut Sessions, feeds: &Feeds) -> Vec<(String, Result<Reading, Silence>)> {
    sessions.retain(|name, session| feeds.get(name).is_some_and(|feed| session.is_of(feed)));
    for (name, feed) in feeds {
        let session = || Session::new(feed);
        sessions.entry(name.clone()).or_insert_with(session);
    }
    std::thread::scope(|scope| {
        let polls: Vec<_> = sessions
            .iter_mut()
            .map(|(name, session)| {
                let poll = move || {
                    let reply = session.poll();
                    reply.map_err(|why| Silence {
                        why,
                        is_refused: session.is_refused(),
                    })
                };
                (name.clone(), scope.spawn(poll))
            })
            .collect();
        let replies = polls.into_iter().map(|(name, poll)| match poll.join() {
            Ok(reply) => (name, reply),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        replies.collect()
    })
}

/// The result for each supply, for `appliance check`: `None` if it reports its state.
pub fn replies(feeds: &Feeds) -> BTreeMap<String, Option<String>> {
    let replies = poll(&mut Sessions::new(), feeds);
    replies
        .into_iter()
        .map(|(name, reply)| (name, reply.err().map(|silence| silence.why)))
        .collect()
}

/// Watches, until the process terminates.
pub fn watch(watch: &PowerWatch, args: &HeadArgs, common: &Common) {
    let own = cluster_view::own_name(args);
    let Ok(own) = own.parse::<HeadName>() else {
        tracing::warn!(
            own,
            "power supplies are not watched: this is no name of a head"
        );
        return;
    };
    let note = common.settings.run_dir.join(NOTE);
    let started = Instant::now();
    let machine = Local::default();
    let (mut judge, mut sessions) = (Judge::default(), Sessions::new());
    // After a restart of this process there may be marks.
    let (mut has_marks, mut rounds) = (false, 0_u64);
    let mut is_start = true;
    let mut appliance = None;
    loop {
        // A file that cannot be read during a power failure changes nothing.
        let before = appliance.filter(|_| args.file.exists());
        appliance = cluster::appliance_file::load(&args.file).ok().or(before);
        let Some((appliance, ups)) = appliance
            .as_ref()
            .and_then(|all| Some((all, all.ups.as_ref()?)))
        else {
            sessions.clear();
            judge = Judge::default();
            let actor = appliance.as_ref().map(|appliance| Actor {
                machine: &machine,
                appliance,
                own: &own,
                note: &note,
            });
            // Without [ups] nothing holds the heads back.
            has_marks = actor.is_some_and(|actor| {
                (has_marks || is_start || actor.has_left()) && release(&actor)
            });
            is_start = false;
            watch.store(PowerView::default());
            std::thread::sleep(IDLE_INTERVAL);
            continue;
        };
        judge.retain(ups);
        for (feed, reply) in poll(&mut sessions, &ups.feeds) {
            judge.note(&feed, reply, Limits::of(ups), started.elapsed());
        }
        let mut problems = judge.problems(appliance);
        let actor = Actor {
            machine: &Local::default(),
            appliance,
            own: &own,
            note: &note,
        };
        let all_well = ups
            .feeds
            .keys()
            .all(|feed| judge.supply(feed) == Supply::Mains)
            && !actor.has_left();
        if !all_well || has_marks || rounds % CLUSTER_ROUNDS == 0 {
            let cluster = actor.look();
            has_marks = cluster
                .as_ref()
                .is_some_and(|cluster| !cluster.marks.is_empty());
            problems.extend(act(&mut judge, &actor, cluster.as_ref(), started.elapsed()));
        }
        rounds += 1;
        watch.store(view(&judge, appliance, ups, problems));
        std::thread::sleep(match all_well {
            true => POLL_INTERVAL,
            false => POLL_INTERVAL_ON_BATTERY,
        });
    }
}

/// Ends what the power supplies have caused; returns whether something is left.
fn release(actor: &Actor<'_>) -> bool {
    let action = match actor.look() {
        Some(view) if !view.marks.is_empty() => Action::Release(view.marks.into_keys().collect()),
        None if actor.has_left() => Action::Return,
        _ => return false,
    };
    tracing::warn!(%action, "the appliance file lists no power supplies any more");
    if let Err(error) = actor.perform(&action) {
        tracing::warn!(%error, %action, "end the effects of the power supplies");
    }
    true
}

/// Decides, performs the action, and returns sentences about the result.
fn act(
    judge: &mut Judge,
    actor: &Actor<'_>,
    cluster: Option<&ClusterView>,
    now: Duration,
) -> Vec<String> {
    // An administrator has started it again, or it was not stopped.
    if cluster.is_some() && actor.has_left() {
        actor.remove_note();
    }
    let action = judge.decide(actor.appliance, actor.own, cluster, actor.has_left(), now);
    if action != Action::None {
        tracing::warn!(%action, "acting on the state of the power supplies");
    }
    let mut sentences = Vec::new();
    if let Err(error) = actor.perform(&action) {
        let why = control::failure::chain(&error);
        sentences.push(format!("{} could not: {action}: {why}", actor.own));
    }
    for (head, by) in cluster.into_iter().flat_map(|cluster| &cluster.marks) {
        sentences.push(format!(
            "{head} serves no pool for lack of power, as {by} decided"
        ));
    }
    if actor.has_left() {
        sentences.push(format!(
            "{} has left the cluster for lack of power",
            actor.own
        ));
    }
    sentences
}

/// The supplies of a file, polled once. `None` if it lists none, or cannot be read.
fn polled(file: &Path) -> Option<PowerView> {
    let appliance = cluster::appliance_file::load(file).ok()?;
    let ups = appliance.ups.as_ref()?;
    let mut judge = Judge::once();
    for (feed, reply) in poll(&mut Sessions::new(), &ups.feeds) {
        judge.note(&feed, reply, Limits::of(ups), Duration::ZERO);
    }
    let problems = judge.problems(&appliance);
    Some(view(&judge, &appliance, ups, problems))
}

/// The supplies, as they replied last.
fn view(judge: &Judge, appliance: &Appliance, ups: &Ups, problems: Vec<String>) -> PowerView {
    let every_head = || appliance.heads.keys().cloned().collect::<Vec<HeadName>>();
    let feed = |(name, feed): (&String, &Feed)| {
        let reading = judge.last(name).0;
        let heads = feed.heads.clone().unwrap_or_else(every_head);
        PowerSupply {
            name: name.clone(),
            ups: feed.ups.to_string(),
            state: judge.supply(name).to_string(),
            status: reading.map(|reading| reading.status.clone()),
            charge_percent: reading.and_then(|reading| reading.charge_percent),
            runtime_s: reading.and_then(|reading| reading.runtime_s),
            heads: heads.iter().map(ToString::to_string).collect(),
        }
    };
    let heads = appliance
        .heads
        .keys()
        .map(|head| (head.to_string(), judge.power(ups, head).to_string()));
    PowerView {
        feeds: ups.feeds.iter().map(feed).collect(),
        heads: heads.collect(),
        next: judge.prospect(appliance),
        problems,
    }
}

/// Shows the supplies, as they report now.
pub fn show(file: &Path, out: Printer) -> Result<(), Failure> {
    // A mistake in the file is reported as such.
    cluster::appliance_file::load(file)?;
    let Some(report) = polled(file) else {
        let shown = file.display();
        return Err(Failure::new(
            control::FailureKind::NotFound,
            format!("{shown} lists no power supply"),
        )
        .advise("add `[ups.feeds.NAME]` to it, as the guide to power supplies describes"));
    };
    out.either(&report, || shown(&report))
}

fn shown(report: &PowerView) -> String {
    let dash = || "-".to_owned();
    let mut table = Table::new(&["SUPPLY", "UPS", "STATE", ">CHARGE", ">RUNTIME", "HEADS"]);
    for feed in &report.feeds {
        let (charge, runtime) = (feed.charge_percent, feed.runtime_s);
        table.row([
            feed.name.clone(),
            feed.ups.clone(),
            feed.state.clone(),
            charge.map_or_else(dash, |charge| format!("{charge} %")),
            runtime.map_or_else(dash, |time| format!("{} min", time / 60)),
            feed.heads.join(", "),
        ]);
    }
    let problems = report
        .problems
        .iter()
        .map(|problem| format!("warning: {problem}\n"));
    let problems: String = problems.collect();
    format!("{}\n{problems}next: {}\n", table.render(), report.next)
}
