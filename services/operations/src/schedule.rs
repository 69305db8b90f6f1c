//! Scheduled snapshots: the volumes that a schedule covers, the rules that are due, and the
//! snapshots that expire. Schedules are properties of the pool, and the server of the pool runs
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::UNIX_EPOCH;

use control::answer::{Done, RuleView, ScheduleView};
use control::calendar::{compact_utc, from_compact_utc};
use control::operations::snapshot::schedule::ScheduleRequest;
use control::operations::snapshot::schedule::remove::Remove;
use control::operations::snapshot::schedule::set::Set;
use control::schedule::{Rule, SCHEDULE_PROPERTY, ScheduleDocument, check_rules, due};
use control::{Answer, Failure};
use engine::dataset::{DatasetErrorKind, DatasetInfo, PropertySource, Snapshots, Value};
use units::{SnapshotName, VolumeName};

use super::datasets::{Contents, Dataset};
use super::documents::{All, Documents, document_failure};
use super::events::NewEvent;
use super::loss::some_of;
use super::snapshot::replay;
use super::{Context, failures, holds};

/// Name prefix of scheduled snapshots; timestamp and kind of rule follow.
const NAME_PREFIX: &str = "auto-";
/// The snapshot property that names its creator. Snapshots without it are never removed.
const MADE_BY_PROPERTY: &str = "bulkhead:made-by";
const MADE_BY: &str = "schedule";

/// Performs one request.
pub fn perform(context: &Context<'_>, request: ScheduleRequest) -> Result<Answer, Failure> {
    match request {
        ScheduleRequest::Set(request) => set(context, request),
        ScheduleRequest::List => list(context),
        ScheduleRequest::Remove(Remove { of }) => {
            let all = context.all()?;
            if own(&all, &of).is_none() {
                return Ok(Done::already(format!("{of} has no schedule of its own")));
            }
            context.edit(&of, vec![(SCHEDULE_PROPERTY.to_owned(), None)])?;
            Ok(Done::changed(format!(
                "{of} has no schedule of its own; its snapshots stay"
            )))
        }
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}

fn own<'a>(all: &'a All, dataset: &str) -> Option<&'a String> {
    all.own(dataset)?.get(SCHEDULE_PROPERTY)
}

fn set(context: &Context<'_>, request: Set) -> Result<Answer, Failure> {
    let Set {
        of,
        rules,
        skip_unchanged,
    } = request;
    let of = of.as_str();
    check_rules(&rules).map_err(|error| Failure::usage(error.to_string()))?;
    let dataset = Dataset::parse(of)?;
    context
        .pool
        .dataset((&dataset).into())
        .map_err(failures::dataset)?;
    let all = context.all()?;
    let before = own(&all, of).and_then(|text| ScheduleDocument::decode(text).ok());
    if before.is_some_and(|before| before.rules == rules && before.skip_unchanged == skip_unchanged)
    {
        return Ok(Done::already(format!("{of} has this schedule already")));
    }
    let warning = without_room(context, &all, of, &rules)?;
    let document = ScheduleDocument {
        rules,
        since: now_s(),
        skip_unchanged,
    };
    let text = document
        .encode()
        .map_err(|error| document_failure(&error))?;
    let gone = too_many(context, &all, of, &text)?;
    context.edit(of, vec![(SCHEDULE_PROPERTY.to_owned(), Some(text))])?;
    let words: Vec<String> = document.rules.iter().map(Rule::to_string).collect();
    Ok(Done::changed(match words.is_empty() {
        true => format!("{of} is left out of schedules above it"),
        false => format!("{of} has the schedule: {}{gone}{warning}", words.join(", ")),
    }))
}

/// Describes the snapshots that setting this text on the dataset `of` would destroy at once, because it retains fewer.
fn too_many(context: &Context<'_>, all: &All, of: &str, text: &str) -> Result<String, Failure> {
    let infos = datasets_and_snapshots(context)?;
    let mut after = all.clone();
    let mut own = after.own(of).cloned().unwrap_or_default();
    own.insert(SCHEDULE_PROPERTY.to_owned(), text.to_owned());
    after.set(of, own);
    let names = newly_excess(all, &after, &infos);
    Ok(match names.is_empty() {
        true => String::new(),
        false => {
            let shown: Vec<&str> = names.iter().map(SnapshotName::as_str).collect();
            format!(
                "; {} older snapshot(s) are more than that, and are destroyed now: {}",
                names.len(),
                some_of(&shown)
            )
        }
    })
}

/// Returns the snapshots that the old documents retain and the new ones do not.
fn newly_excess(before: &All, after: &All, infos: &[DatasetInfo]) -> Vec<SnapshotName> {
    let made = made_by_volume(infos);
    let of = |all: &All| excess(&schedules(all, infos).0, &made, &[]);
    let before: BTreeSet<SnapshotName> = of(before).into_iter().collect();
    let after = of(after).into_iter();
    after.filter(|name| !before.contains(name)).collect()
}

/// Returns the name of a rule's snapshot at `now_s`.
fn name_at(volume: &str, now_s: u64, label: &str) -> Result<SnapshotName, units::NameError> {
    format!("{volume}@{NAME_PREFIX}{}-{label}", compact_utc(now_s)).parse()
}

/// Refuses rules that cannot create a snapshot of any dataset that they cover now, because the names are too long. If
/// that applies to some datasets only, returns a warning.
fn without_room(
    context: &Context<'_>,
    all: &All,
    of: &str,
    rules: &[Rule],
) -> Result<String, Failure> {
    let infos = context
        .pool
        .datasets((&Dataset::parse(of)?).into(), Snapshots::Skip);
    let infos = infos.map_err(failures::dataset)?;
    let contents = Contents::of(&infos);
    // A dataset with its own schedule does not follow this one.
    let obeys = |info: &&DatasetInfo| {
        let own = ancestry(&info.name).find(|name| *name == of || own(all, name).is_some());
        contents.has(info) && own == Some(of)
    };
    let now_s = now_s();
    let fits = |name: &str| {
        let mut labels = rules.iter().map(|rule| rule.when.label());
        labels.all(|label| name_at(name, now_s, &label).is_ok())
    };
    let covered: Vec<&DatasetInfo> = infos.iter().filter(obeys).collect();
    let long: Vec<&str> = covered
        .iter()
        .map(|info| info.name.as_str())
        .filter(|name| !fits(name))
        .collect();
    let Some(first) = long.first() else {
        return Ok(String::new());
    };
    let message = format!(
        "no snapshot could be taken of {}: the name would be too long",
        some_of(&long)
    );
    match long.len() == covered.len() {
        true => Err(Failure::usage(message).advise(long_name_advice(first))),
        false => Ok(format!("; {message}; {}", long_name_advice(first))),
    }
}

fn long_name_advice(volume: &str) -> String {
    format!("rename it, or leave it out: `bulkhead snapshot schedule set {volume} --none`")
}

/// A schedule and the volumes that it covers: a volume obeys the nearest one above it.
struct Schedule {
    of: String,
    document: ScheduleDocument,
    volumes: Vec<VolumeName>,
}

fn schedules(all: &All, infos: &[DatasetInfo]) -> (Vec<Schedule>, Vec<NewEvent>) {
    let mut found = BTreeMap::new();
    let mut news = Vec::new();
    for (of, text) in all.having(SCHEDULE_PROPERTY) {
        match ScheduleDocument::decode(text) {
            Ok(document) => {
                let schedule = Schedule {
                    of: of.to_owned(),
                    document,
                    volumes: Vec::new(),
                };
                found.insert(of, schedule);
            }
            Err(error) => {
                let message = format!("the schedule of {of} is not obeyed: {error}");
                news.push(NewEvent::of_pool("schedule", message, true));
            }
        }
    }
    let contents = Contents::of(infos);
    for info in infos.iter().filter(|info| contents.has(info)) {
        let nearest = ancestry(&info.name).find(|name| own(all, name).is_some());
        if let Some(schedule) = nearest.and_then(|name| found.get_mut(name)) {
            match info.name.parse() {
                Ok(name) => schedule.volumes.push(name),
                Err(error) => {
                    let message =
                        format!("no scheduled snapshot of {}: {error}; rename it", info.name);
                    news.push(NewEvent::of_pool("schedule", message, true));
                }
            }
        }
    }
    (found.into_values().collect(), news)
}

/// Iterates over the dataset itself and its ancestors, up to the pool.
fn ancestry(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| Some(name.rsplit_once('/')?.0))
}

/// Returns the time of a rule's snapshot of this kind, if its name has that form.
fn snapshot_time_of(name: &str) -> Option<(u64, &str)> {
    let (_, tag) = name.split_once('@')?;
    let (moment, label) = tag.strip_prefix(NAME_PREFIX)?.split_once('-')?;
    Some((from_compact_utc(moment)?, label))
}

/// A snapshot with the name of a scheduled one.
struct Made<'a> {
    info: &'a DatasetInfo,
    at_s: u64,
    label: &'a str,
}

/// Lists all datasets, and their snapshots after them. No snapshot is opened: a pool has thousands.
fn datasets_and_snapshots(context: &Context<'_>) -> Result<Vec<DatasetInfo>, Failure> {
    let list = |snapshots| {
        let found = context.pool.datasets(context.pool.name().into(), snapshots);
        found.map_err(failures::dataset)
    };
    let mut infos = list(Snapshots::Skip)?;
    infos.extend(list(Snapshots::Only)?);
    Ok(infos)
}

/// Returns the snapshots of each volume, oldest transaction group first, independent of the clock.
fn made_by_volume(infos: &[DatasetInfo]) -> BTreeMap<&str, Vec<Made<'_>>> {
    let mut by_volume: BTreeMap<&str, Vec<Made<'_>>> = BTreeMap::new();
    for info in infos.iter().filter(|info| info.snapshot) {
        if let Some((at_s, label)) = snapshot_time_of(&info.name) {
            let volume = info.name.split('@').next().unwrap_or_default();
            let made = Made { info, at_s, label };
            by_volume.entry(volume).or_default().push(made);
        }
    }
    for made in by_volume.values_mut() {
        made.sort_by_key(|made| made.info.creation_txg);
    }
    by_volume
}

fn list(context: &Context<'_>) -> Result<Answer, Failure> {
    let all = context.all()?;
    let infos = datasets_and_snapshots(context)?;
    let made = made_by_volume(&infos);
    let (schedules, _) = schedules(&all, &infos);
    let now_s = now_s();
    let view = |schedule: Schedule| {
        let of_rule = |rule: &Rule| {
            let label = rule.when.label();
            let all = schedule.volumes.iter();
            let all = all.filter_map(|name| made.get(name.as_str())).flatten();
            let mine: Vec<u64> = all
                .filter(|made| made.label == label)
                .map(|made| made.at_s)
                .collect();
            RuleView {
                rule: *rule,
                next: rule.when.next(now_s),
                latest: mine.iter().max().copied(),
                snapshots: mine.len() as u64,
            }
        };
        ScheduleView {
            rules: schedule.document.rules.iter().map(of_rule).collect(),
            of: schedule.of,
            skip_unchanged: schedule.document.skip_unchanged,
            volumes: schedule.volumes,
        }
    };
    Ok(Answer::Schedules(schedules.into_iter().map(view).collect()))
}

/// The state that the schedules retain between runs.
#[derive(Default)]
pub struct Memory {
    /// Moments that were seen to without a snapshot, by volume and kind of rule.
    skipped: BTreeMap<(VolumeName, String), u64>,
    /// Problems that were reported and persist.
    told: BTreeSet<String>,
}

/// The outcome of a run.
pub struct Outcome {
    /// Events to report.
    pub news: Vec<NewEvent>,
    /// Number of created snapshots.
    pub taken: usize,
    /// Snapshots that were removed.
    pub removed: usize,
    /// Whether to retry soon.
    pub has_failed: bool,
}

/// Returns the next due time after `now_s` for these values of [`SCHEDULE_PROPERTY`].
pub fn next_due_time<'a>(texts: impl Iterator<Item = &'a str>, now_s: u64) -> Option<u64> {
    let documents = texts.filter_map(|text| ScheduleDocument::decode(text).ok());
    let rules = documents.flat_map(|document| document.rules);
    rules.map(|rule| rule.when.next(now_s)).min()
}

/// Creates the snapshots that are due at `now_s`, all at the same time, and removes those beyond the
/// retention.
pub fn run(context: &Context<'_>, memory: &mut Memory, now_s: u64) -> Result<Outcome, Failure> {
    let all = context.all()?;
    let infos = datasets_and_snapshots(context)?;
    let (schedules, mut news) = schedules(&all, &infos);
    let made = made_by_volume(&infos);
    let (wanted, unwanted) = wanted(context, memory, &schedules, &infos, &made, now_s);
    let (taken, failed) = take(context, wanted);
    let has_failed = !failed.is_empty() || !unwanted.is_empty();
    news.extend(unwanted);
    news.extend(failed);
    let excess = excess(&schedules, &made, &taken);
    let (removed, kept) = remove(context, &excess);
    news.extend(kept);
    // Reported once, for as long as the problem persists.
    let told: BTreeSet<String> = news.iter().map(|one| one.message.clone()).collect();
    news.retain(|one| !memory.told.contains(&one.message));
    memory.told = told;
    Ok(Outcome {
        news,
        taken: taken.len(),
        removed,
        has_failed,
    })
}

/// The snapshots to create, and the reasons why some cannot be created.
fn wanted(
    context: &Context<'_>,
    memory: &mut Memory,
    schedules: &[Schedule],
    infos: &[DatasetInfo],
    made: &BTreeMap<&str, Vec<Made<'_>>>,
    now_s: u64,
) -> (Vec<SnapshotName>, Vec<NewEvent>) {
    let mut news = Vec::new();
    let born: BTreeMap<&str, u64> = infos
        .iter()
        .map(|info| (info.name.as_str(), info.creation_time_s))
        .collect();
    let mut wanted = Vec::new();
    let mut skipped = BTreeMap::new();
    let mut is_synced = false;
    for schedule in schedules {
        for volume in &schedule.volumes {
            let born = born.get(volume.as_str()).copied().unwrap_or(0);
            let since = schedule.document.since.max(born);
            let mine = made.get(volume.as_str()).map_or(&[][..], Vec::as_slice);
            for rule in &schedule.document.rules {
                let label = rule.when.label();
                let key = (volume.clone(), label);
                let skipped_at = memory.skipped.get(&key).copied();
                let done = mine.iter().filter(|made| made.label == key.1);
                let done = done.map(|made| made.at_s).chain(skipped_at);
                if due(rule.when, now_s, since, done).is_none() {
                    skipped.extend(skipped_at.map(|at| (key, at)));
                    continue;
                }
                let is_new = !schedule.document.skip_unchanged
                    || has_changed(context, volume, &mut is_synced).unwrap_or_else(|failure| {
                        // One too many is better than one too few.
                        tracing::warn!(%volume, %failure, "whether it has changed is not known");
                        true
                    });
                if !is_new {
                    skipped.insert(key, now_s);
                    continue;
                }
                match name_at(volume.as_str(), now_s, &key.1) {
                    Ok(name) => wanted.push(name),
                    Err(error) => {
                        let advice = long_name_advice(volume.as_str());
                        let message =
                            format!("no scheduled snapshot of {volume}: {error}; {advice}");
                        news.push(NewEvent::of_pool("schedule", message, true));
                    }
                }
            }
        }
    }
    memory.skipped = skipped;
    (wanted, news)
}

/// Returns whether `volume` was written since its newest snapshot, after a sync of the writes in memory.
fn has_changed(
    context: &Context<'_>,
    volume: &VolumeName,
    is_synced: &mut bool,
) -> Result<bool, Failure> {
    if !std::mem::replace(is_synced, true) {
        context.pool.sync().map_err(failures::pool)?;
    }
    Ok(!is_unchanged(context, volume)?)
}

/// Returns whether `volume` was not written since its newest snapshot. Data in the intent log
/// counts as written.
fn is_unchanged(context: &Context<'_>, volume: &VolumeName) -> Result<bool, Failure> {
    let logs = context.pool.logs();
    let waits = logs.map_or(Ok(false), |logs| logs.is_unreplayed(volume));
    if waits.map_err(failures::dataset)? {
        return Ok(false);
    }
    let own = context.pool.dataset_properties(volume.into());
    let own = own.map_err(failures::dataset)?;
    let written = own.get("written").map(|property| &property.value);
    Ok(written == Some(&Value::Number(0)))
}

/// Creates the snapshots `names`, all at once. If that fails, creates them one by one. Returns the snapshots
/// taken and the events to report.
fn take(context: &Context<'_>, names: Vec<SnapshotName>) -> (Vec<SnapshotName>, Vec<NewEvent>) {
    let (mut taken, mut news) = (Vec::new(), Vec::new());
    for moment in batches(names) {
        if take_together(context, &moment).is_ok() {
            taken.extend(moment);
            continue;
        }
        for name in moment {
            match take_together(context, std::slice::from_ref(&name)) {
                Ok(()) => taken.push(name),
                Err(failure) => {
                    news.push(NewEvent::of_pool("schedule", missed(&name, &failure), true));
                }
            }
        }
    }
    (taken, news)
}

/// Leaves out the snapshot's name, which differs at each attempt, so that a persistent problem is
/// reported once.
fn missed(name: &SnapshotName, failure: &Failure) -> String {
    let why = failure.message.as_str();
    let why = why
        .strip_prefix(&format!("snapshot {name}: "))
        .unwrap_or(why);
    let advice = failure.advice.as_ref();
    let advice = advice.map(|advice| format!("; {advice}"));
    format!(
        "no scheduled snapshot of {}: {why}{}",
        name.volume(),
        advice.unwrap_or_default()
    )
}

/// Groups the names by transaction group, which can hold one snapshot of a volume. If several rules
/// of a volume are due, the first of every volume is taken at once, then the second.
fn batches(names: Vec<SnapshotName>) -> Vec<Vec<SnapshotName>> {
    let mut taken: BTreeMap<VolumeName, usize> = BTreeMap::new();
    let mut batches: Vec<Vec<SnapshotName>> = Vec::new();
    for name in names {
        let count = taken.entry(name.volume()).or_default();
        match batches.get_mut(*count) {
            Some(moment) => moment.push(name),
            None => batches.push(vec![name]),
        }
        *count += 1;
    }
    batches
}

fn take_together(context: &Context<'_>, names: &[SnapshotName]) -> Result<(), Failure> {
    replay(context, names)?;
    let marks = [(MADE_BY_PROPERTY.to_owned(), Value::from(MADE_BY))];
    let taken = context.pool.snapshot_marked(names, &marks);
    taken.map_err(failures::dataset)
}

/// Returns the snapshots beyond the retention of their rules, by their names, apart from the new
/// ones.
fn excess(
    schedules: &[Schedule],
    made: &BTreeMap<&str, Vec<Made<'_>>>,
    taken: &[SnapshotName],
) -> Vec<SnapshotName> {
    let mut excess = Vec::new();
    for schedule in schedules {
        for volume in &schedule.volumes {
            let mine = made.get(volume.as_str()).map_or(&[][..], Vec::as_slice);
            for rule in &schedule.document.rules {
                let label = rule.when.label();
                let is_new = |name: &&SnapshotName| {
                    name.volume() == *volume
                        && snapshot_time_of(name.as_str()).is_some_and(|(_, of)| of == label)
                };
                let new = taken.iter().filter(is_new).count();
                let old: Vec<_> = mine.iter().filter(|made| made.label == label).collect();
                let too_many = (old.len() + new).saturating_sub(rule.keep as usize);
                let names = old.iter().take(too_many);
                excess.extend(names.filter_map(|made| made.info.name.parse().ok()));
            }
        }
    }
    excess
}

/// Removes those of `names` that schedules created. Returns their number and the events to report.
fn remove(context: &Context<'_>, names: &[SnapshotName]) -> (usize, Vec<NewEvent>) {
    let names: Vec<SnapshotName> = names
        .iter()
        .filter(|name| is_made_by_schedule(context, name))
        .cloned()
        .collect();
    if context.pool.destroy_snapshots(&names).is_ok() {
        return (names.len(), Vec::new());
    }
    let (mut removed, mut news) = (0, Vec::new());
    for name in &names {
        match context.pool.destroy_snapshots(std::slice::from_ref(name)) {
            Ok(()) => removed += 1,
            Err(error) => {
                let why = match error.kind {
                    DatasetErrorKind::HasClones => "it has clones".to_owned(),
                    DatasetErrorKind::Busy => match holds::tag_of(context, name) {
                        Some(tag) => format!("it is held by {tag}"),
                        None => "it is in use".to_owned(),
                    },
                    _ => error.to_string(),
                };
                let message = format!("{name} is kept beyond its schedule: {why}");
                news.push(NewEvent::of_pool("schedule", message, false));
            }
        }
    }
    (removed, news)
}

fn is_made_by_schedule(context: &Context<'_>, name: &SnapshotName) -> bool {
    let Ok(own) = context.pool.dataset_properties(name.into()) else {
        return false;
    };
    own.get(MADE_BY_PROPERTY).is_some_and(|property| {
        property.value == Value::from(MADE_BY)
            && matches!(
                property.source,
                PropertySource::Local | PropertySource::Received
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::dataset::{DatasetKind, SpaceUse, VolumeShape};
    use units::ByteCount;

    fn info(name: &str, creation_txg: u64) -> DatasetInfo {
        let shape = VolumeShape {
            size: ByteCount(1 << 20),
            block_size: ByteCount(16 << 10),
        };
        let is_volume = name.contains("/v");
        DatasetInfo {
            name: name.to_owned(),
            kind: match is_volume {
                true => DatasetKind::Volume,
                false => DatasetKind::Filesystem,
            },
            snapshot: name.contains('@'),
            origin: None,
            guid: creation_txg,
            creation_txg,
            creation_time_s: 0,
            used: ByteCount(0),
            referenced: ByteCount(0),
            available: ByteCount(0),
            logical_referenced: ByteCount(0),
            refreservation: ByteCount(0),
            space: SpaceUse::default(),
            objects: 0,
            volume: is_volume.then_some(shape),
        }
    }

    fn all(set: &[(&str, &[&str])]) -> All {
        let own = |rules: &[&str]| {
            let rules = rules.iter().map(|rule| rule.parse().expect("a rule"));
            let document = ScheduleDocument {
                rules: rules.collect(),
                ..ScheduleDocument::default()
            };
            let text = document.encode().expect("fits");
            BTreeMap::from([(SCHEDULE_PROPERTY.to_owned(), text)])
        };
        let set = set.iter().map(|(of, rules)| ((*of).to_owned(), own(rules)));
        set.collect()
    }

    #[test]
    fn reduced_schedule_lists_snapshots_to_destroy() {
        let infos: Vec<DatasetInfo> = (1..=5_u64)
            .map(|day| {
                let at_s = 1_790_000_000 + day * 24 * 3600;
                let label = "daily keep 5".parse::<Rule>().expect("a rule").when.label();
                let name = name_at("tank/v0", at_s, &label).expect("a name");
                info(name.as_str(), day)
            })
            .chain([info("tank/v0", 1)])
            .collect();
        let with = |rule: &str| all(&[("tank", &[rule])]);
        let gone = newly_excess(&with("daily keep 5"), &with("daily keep 3"), &infos);
        assert_eq!(gone.len(), 2);
        assert_eq!(gone[0].as_str(), infos[0].name);
        for (before, after) in [
            ("daily keep 3", "daily keep 5"),
            ("daily keep 3", "daily keep 3"),
        ] {
            assert!(newly_excess(&with(before), &with(after), &infos).is_empty());
        }
    }

    #[test]
    fn nearest_schedule_above_a_volume_applies() {
        let infos: Vec<DatasetInfo> = [
            "tank",
            "tank/v0",
            "tank/db",
            "tank/db/v1",
            "tank/db/v2",
            "tank/dba/v3",
        ]
        .iter()
        .map(|name| info(name, 1))
        .collect();
        let all = all(&[
            ("tank", &["daily keep 7"]),
            ("tank/db", &["hourly keep 24"]),
            ("tank/db/v2", &[]),
        ]);
        let (schedules, news) = schedules(&all, &infos);
        assert!(news.is_empty());
        let covered: Vec<(String, Vec<String>)> = schedules
            .into_iter()
            .map(|schedule| {
                let volumes = schedule.volumes.iter().map(ToString::to_string);
                (schedule.of, volumes.collect())
            })
            .collect();
        let words = |of: &str, volumes: &[&str]| {
            let volumes = volumes.iter().map(|&name| name.to_owned()).collect();
            (of.to_owned(), volumes)
        };
        assert_eq!(
            covered,
            [
                words("tank", &["tank/v0", "tank/dba/v3"]),
                words("tank/db", &["tank/db/v1"]),
                words("tank/db/v2", &["tank/db/v2"]),
            ]
        );
    }

    #[test]
    fn repeated_missed_snapshot_has_the_same_message() {
        let words = |name: &str| {
            let kind = DatasetErrorKind::NoSpace;
            let failure = Failure::usage(format!("snapshot {name}: {kind}"));
            missed(&name.parse().expect("a name"), &failure)
        };
        let first = words("tank/v@auto-20261121T030000Z-daily");
        assert_eq!(first, words("tank/v@auto-20261121T030100Z-daily"));
        assert!(first.starts_with("no scheduled snapshot of tank/v: there is not"));
    }

    #[test]
    fn batch_holds_one_snapshot_per_volume() {
        let names = ["tank/v@a", "tank/v@b", "tank/w@b", "tank/v@c"];
        let names = names.map(|name| name.parse().expect("a name"));
        let batches = batches(names.to_vec());
        let words = |moment: &Vec<SnapshotName>| -> Vec<String> {
            moment.iter().map(ToString::to_string).collect()
        };
        let batches: Vec<Vec<String>> = batches.iter().map(words).collect();
        assert_eq!(
            batches,
            [
                vec!["tank/v@a", "tank/w@b"],
                vec!["tank/v@b"],
                vec!["tank/v@c"]
            ]
        );
    }

    #[test]
    fn expired_snapshots_are_ordered_by_txg_not_by_clock() {
        let infos = [
            info("tank/v", 1),
            info("tank/v@auto-20400101T030000Z-daily", 2),
            info("tank/v@auto-20261119T030000Z-daily", 3),
            info("tank/v@auto-20261120T030000Z-daily", 4),
            info("tank/v@auto-20261118T030000Z-hourly", 5),
            info("tank/v@mine", 1),
            info("tank/v@auto-mine-daily", 1),
        ];
        let all = all(&[("tank", &["daily keep 2", "hourly keep 1"])]);
        let (schedules, _) = schedules(&all, &infos);
        let made = made_by_volume(&infos);
        let names = |taken: &[&str]| -> Vec<String> {
            let taken: Vec<SnapshotName> = taken
                .iter()
                .map(|name| name.parse().expect("a name"))
                .collect();
            let excess = excess(&schedules, &made, &taken);
            excess.iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(&[]), ["tank/v@auto-20400101T030000Z-daily"]);
        assert_eq!(
            names(&["tank/v@auto-20261121T030000Z-daily"]),
            [
                "tank/v@auto-20400101T030000Z-daily",
                "tank/v@auto-20261119T030000Z-daily"
            ]
        );
    }

    #[test]
    fn schedule_of_newer_version_is_reported_and_runs_nothing() {
        let infos = [info("tank/v", 1)];
        let newer = BTreeMap::from([(SCHEDULE_PROPERTY.to_owned(), r#"{"version":2}"#.to_owned())]);
        let mut all = all(&[("tank", &["daily keep 1"])]);
        all.set("tank/v", newer);
        let (schedules, news) = schedules(&all, &infos);
        assert_eq!(news.len(), 1);
        assert!(schedules.iter().all(|schedule| schedule.volumes.is_empty()));
    }
}
