//! Renders lists as tables with selected columns, and sorts them.

use std::time::UNIX_EPOCH;

use control::Answer;
use control::answer::{
    FilesystemView, NbdView, OwnerView, OwnersView, SnapshotView, SpaceView, TargetView, VolumeView,
};
use control::calendar::utc;
use control::operations::{Columns, TableOptions, filesystem, nbd, snapshot, target, volume};
use control::words::bytes;

use crate::daily::{share, times};
use crate::table::{Table, dash};

/// Width of a terminal. A table with the default columns is no wider, as far as its names permit.
const WIDTH: usize = 80;

/// Sorts by it. An absent value is less than each present one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Missing,
    Number(u64),
    Text(String),
}

/// A value in a row.
struct Cell {
    key: Key,
    /// A row has as many lines as its longest cell.
    lines: Vec<String>,
}

impl Cell {
    fn new(key: Key, line: String) -> Self {
        let lines = vec![line];
        Self { key, lines }
    }

    fn text(text: impl ToString) -> Self {
        let text = text.to_string();
        Self::new(Key::Text(text.clone()), text)
    }

    fn bytes(count: u64) -> Self {
        Self::new(Key::Number(count), bytes(count))
    }

    fn count(count: usize) -> Self {
        Self::number(count as u64)
    }

    fn number(number: u64) -> Self {
        Self::new(Key::Number(number), number.to_string())
    }

    fn percent(percent: u64) -> Self {
        Self::new(Key::Number(percent), times(percent))
    }

    fn optional<T>(value: Option<T>, cell: impl Fn(T) -> Self) -> Self {
        value.map_or_else(|| Self::new(Key::Missing, dash()), cell)
    }

    /// Sorted by its first line.
    fn lines(lines: Vec<String>) -> Self {
        match lines.first() {
            None => Self::new(Key::Missing, dash()),
            Some(first) => Self {
                key: Key::Text(first.clone()),
                lines,
            },
        }
    }

    /// Sorted by its first number.
    fn numbers(numbers: &[u64]) -> Self {
        match numbers.first() {
            None => Self::new(Key::Missing, dash()),
            Some(first) => Self {
                key: Key::Number(*first),
                lines: numbers.iter().map(ToString::to_string).collect(),
            },
        }
    }
}

/// A column of a list of `T`.
struct Column<T> {
    /// As `--columns` names it.
    name: &'static str,
    /// As [`Table::new`] expects it.
    heading: &'static str,
    cell: fn(&T) -> Cell,
    /// The value among the default columns, where it is shorter.
    brief: Option<fn(&T) -> String>,
    /// Whether its values are cut where the table is too wide.
    is_cut: bool,
}

impl<T> Column<T> {
    const fn new(name: &'static str, heading: &'static str, cell: fn(&T) -> Cell) -> Self {
        Self {
            name,
            heading,
            cell,
            brief: None,
            is_cut: false,
        }
    }

    const fn cut(mut self) -> Self {
        self.is_cut = true;
        self
    }

    const fn brief(mut self, brief: fn(&T) -> String) -> Self {
        self.brief = Some(brief);
        self
    }
}

const VOLUMES: &[Column<VolumeView>] = &[
    Column::new("name", "NAME", |one| Cell::text(&one.name)),
    Column::new("size", ">SIZE", |one| match one.locked {
        true => Cell::new(Key::Missing, "locked".to_owned()),
        false => Cell::bytes(one.size),
    }),
    Column::new("used", ">USED", |one| Cell::bytes(one.used)),
    Column::new("refer", ">REFER", |one| Cell::bytes(one.referenced)),
    Column::new("block", ">BLOCK", |one| Cell::bytes(one.block_size.into())),
    Column::new("exports", "EXPORTS", |one: &VolumeView| {
        Cell::text(one.exports.join(" "))
    })
    .brief(|one| {
        let exports = one.exports.iter();
        exports
            .map(|one| brief_export(one))
            .collect::<Vec<_>>()
            .join(" ")
    })
    .cut(),
    Column::new("avail", ">AVAIL", |one| Cell::bytes(one.space.available)),
    Column::new("snapshots", ">SNAPSHOTS", |one| {
        Cell::bytes(one.space.by_snapshots)
    }),
    Column::new("reserved", ">RESERVED", |one| {
        Cell::bytes(one.space.by_reservation)
    }),
    Column::new("written", ">WRITTEN", |one| Cell::bytes(one.space.written)),
    Column::new("logical", ">LOGICAL", |one| {
        Cell::bytes(one.space.logical_used)
    }),
    Column::new("ratio", ">RATIO", |one| {
        Cell::percent(one.space.compress_percent)
    }),
    Column::new("quota", ">QUOTA", |one| {
        Cell::optional(one.space.quota, Cell::bytes)
    }),
    Column::new("origin", "ORIGIN", |one| {
        Cell::optional(one.origin.as_ref(), Cell::text)
    }),
];

const FILE_SYSTEMS: &[Column<FilesystemView>] = &[
    Column::new("name", "NAME", |one| Cell::text(&one.name)),
    Column::new("used", ">USED", |one| Cell::bytes(one.used)),
    Column::new("avail", ">AVAIL", |one| Cell::bytes(one.available)),
    Column::new("refer", ">REFER", |one| Cell::bytes(one.referenced)),
    Column::new("clients", ">CLIENTS", |one| Cell::count(one.clients.len())),
    Column::new("shared", "SHARED", |one: &FilesystemView| {
        let share = share(&one.share);
        Cell::text(match (one.locked, &one.share.problem) {
            (true, _) => "locked".to_owned(),
            (false, Some(_)) => format!("NOT SHARED: {share}"),
            (false, None) => share,
        })
    })
    .cut(),
    Column::new("snapshots", ">SNAPSHOTS", |one| {
        Cell::bytes(one.space.by_snapshots)
    }),
    Column::new("reserved", ">RESERVED", |one| {
        Cell::bytes(one.space.by_reservation)
    }),
    Column::new("written", ">WRITTEN", |one| Cell::bytes(one.space.written)),
    Column::new("logical", ">LOGICAL", |one| {
        Cell::bytes(one.space.logical_used)
    }),
    Column::new("ratio", ">RATIO", |one| {
        Cell::percent(one.space.compress_percent)
    }),
    Column::new("quota", ">QUOTA", |one| {
        Cell::optional(one.space.quota, Cell::bytes)
    }),
    Column::new("refquota", ">REFQUOTA", |one| {
        Cell::optional(one.space.refquota, Cell::bytes)
    }),
    Column::new("origin", "ORIGIN", |one| {
        Cell::optional(one.origin.as_ref(), Cell::text)
    }),
];

const OWNERS: &[Column<OwnerView>] = &[
    Column::new("type", "TYPE", |one| Cell::text(one.of)),
    Column::new("name", "NAME", |one| match &one.name {
        Some(name) => Cell::text(name),
        None => Cell::new(Key::Number(one.id), one.id.to_string()),
    }),
    Column::new("used", ">USED", |one| Cell::bytes(one.used)),
    Column::new("quota", ">QUOTA", |one| {
        Cell::optional(one.quota, Cell::bytes)
    }),
    Column::new("objused", ">OBJUSED", |one| {
        Cell::optional(one.objects, Cell::number)
    }),
    Column::new("objquota", ">OBJQUOTA", |one| {
        Cell::optional(one.object_quota, Cell::number)
    }),
    Column::new("id", ">ID", |one| Cell::number(one.id)),
];

const SPACES: &[Column<SpaceView>] = &[
    Column::new("name", "NAME", |one| Cell::text(&one.name)),
    Column::new("used", ">USED", |one| Cell::bytes(one.used)),
    Column::new("data", ">DATA", |one| Cell::bytes(one.by_data)),
    Column::new("snapshots", ">SNAPSHOTS", |one| {
        Cell::bytes(one.by_snapshots)
    }),
    Column::new("below", ">BELOW", |one| Cell::bytes(one.by_children)),
    Column::new("reserved", ">RESERVED", |one| {
        Cell::bytes(one.by_reservation)
    }),
    Column::new("avail", ">AVAIL", |one| Cell::bytes(one.available)),
    Column::new("ratio", ">RATIO", |one| Cell::percent(one.compress_percent)),
    Column::new("quota", ">QUOTA", |one| {
        Cell::optional(one.quota.or(one.refquota), Cell::bytes)
    }),
    Column::new("written", ">WRITTEN", |one| Cell::bytes(one.written)),
    Column::new("logical", ">LOGICAL", |one| Cell::bytes(one.logical_used)),
    Column::new("refquota", ">REFQUOTA", |one| {
        Cell::optional(one.refquota, Cell::bytes)
    }),
];

const SNAPSHOTS: &[Column<SnapshotView>] = &[
    Column::new("name", "NAME", |one| Cell::text(&one.name)),
    Column::new("created", "CREATED", |one| {
        Cell::optional(one.created_unix_s, |at| Cell::new(Key::Number(at), utc(at)))
    }),
    Column::new("age", ">AGE", |one| {
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        Cell::optional(one.created_unix_s, |at| {
            let seconds = now.saturating_sub(at);
            Cell::new(Key::Number(seconds), age(seconds))
        })
    }),
    Column::new("used", ">USED", |one| Cell::bytes(one.used)),
    Column::new("refer", ">REFER", |one| Cell::bytes(one.referenced)),
];

const TARGETS: &[Column<TargetView>] = &[
    Column::new("target", "TARGET", |one| Cell::text(&one.name)),
    Column::new("unit", "UNIT", |one| {
        let units = one.units.iter().map(|unit| unit.lun.into());
        Cell::numbers(&units.collect::<Vec<_>>())
    }),
    Column::new("volume", "VOLUME", |one| {
        let units = one.units.iter().map(|unit| unit.volume.to_string());
        Cell::lines(units.collect())
    }),
    // Complete: a client that a cut list does not show would seem to have no access.
    Column::new("allowed", "ALLOWED", |one: &TargetView| {
        Cell::lines(one.access.entries())
    }),
    Column::new("chap", "CHAP", |one| match &one.mutual_user {
        _ if one.chap_users.is_empty() => Cell::new(Key::Missing, dash()),
        None => Cell::text(one.chap_users.join(" ")),
        Some(mutual) => Cell::text(format!("{} / {mutual}", one.chap_users.join(" "))),
    }),
    Column::new("sessions", ">SESSIONS", |one| {
        Cell::count(one.sessions.len())
    }),
    Column::new("groups", "GROUPS", |one| {
        let groups = one.portal_groups.iter().map(ToString::to_string);
        Cell::text(match one.portal_groups.is_empty() {
            true => "all".to_owned(),
            false => groups.collect::<Vec<_>>().join(" "),
        })
    }),
];

const NBD: &[Column<NbdView>] = &[
    Column::new("export", "NBD EXPORT", |one| Cell::text(&one.export.name)),
    Column::new("volume", "VOLUME", |one| Cell::text(&one.volume)),
    Column::new("mode", "MODE", |one| {
        Cell::text(match one.export.read_only {
            true => "read-only",
            false => "read-write",
        })
    }),
    Column::new("allowed", "ALLOWED", |one: &NbdView| {
        Cell::lines(one.export.access.entries())
    }),
    Column::new("clients", ">CLIENTS", |one| Cell::count(one.sessions.len())),
];

pub fn volumes(list: &[VolumeView], options: &TableOptions) -> String {
    render(VOLUMES, volume::list::COLUMNS, list, options)
}

pub fn file_systems(list: &[FilesystemView], options: &TableOptions) -> String {
    render(FILE_SYSTEMS, filesystem::list::COLUMNS, list, options)
}

pub fn owners(view: &OwnersView, options: &TableOptions) -> String {
    let mut text = render(
        OWNERS,
        filesystem::userspace::COLUMNS,
        &view.owners,
        options,
    );
    if view.left_out > 0 {
        text.push_str(&format!("{} more use no more than these\n", view.left_out));
    }
    text
}

pub fn spaces(list: &[SpaceView], options: &TableOptions) -> String {
    render(SPACES, volume::space::COLUMNS, list, options)
}

pub fn snapshots(list: &[SnapshotView], options: &TableOptions) -> String {
    render(SNAPSHOTS, snapshot::list::COLUMNS, list, options)
}

pub fn targets(list: &[TargetView], options: &TableOptions) -> String {
    render(TARGETS, target::list::COLUMNS, list, options)
}

pub fn nbd(list: &[NbdView], options: &TableOptions) -> String {
    render(NBD, nbd::list::COLUMNS, list, options)
}

/// Sorts a list as requested.
pub fn sort(answer: &mut Answer, options: &TableOptions) {
    match answer {
        Answer::Volumes(list) => sort_by(VOLUMES, list, options),
        Answer::Filesystems(list) => sort_by(FILE_SYSTEMS, list, options),
        Answer::Owners(view) => sort_by(OWNERS, &mut view.owners, options),
        Answer::Space(list) => sort_by(SPACES, list, options),
        Answer::Snapshots(list) => sort_by(SNAPSHOTS, list, options),
        Answer::Targets(list) => sort_by(TARGETS, list, options),
        Answer::Nbd(list) => sort_by(NBD, list, options),
        _ => {}
    }
}

fn sort_by<T>(columns: &[Column<T>], list: &mut [T], options: &TableOptions) {
    let by = options.sort.as_ref();
    if let Some(column) = by.and_then(|name| columns.iter().find(|one| one.name == *name)) {
        list.sort_by_cached_key(|one| (column.cell)(one).key);
    }
    if options.reverse {
        list.reverse();
    }
}

fn render<T>(all: &[Column<T>], known: Columns, list: &[T], options: &TableOptions) -> String {
    let is_default = options.columns.is_empty();
    let names: Vec<&str> = match is_default {
        true => known.shown.to_vec(),
        false => options.columns.iter().map(String::as_str).collect(),
    };
    let columns = names.iter();
    let columns: Vec<&Column<T>> = columns
        .filter_map(|name| all.iter().find(|one| one.name == *name))
        .collect();
    let headings: Vec<&str> = columns.iter().map(|one| one.heading).collect();
    let mut table = Table::new(&headings);
    for one in list {
        let cells = columns.iter().map(|column| match column.brief {
            Some(brief) if is_default => vec![brief(one)],
            _ => (column.cell)(one).lines,
        });
        let cells: Vec<Vec<String>> = cells.collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let cells = cells.iter();
            let line = cells.map(|lines| lines.get(line).cloned().unwrap_or_default());
            table.push(line.collect());
        }
    }
    if is_default {
        if let Some(column) = columns.iter().position(|one| one.is_cut) {
            table.cut(column, WIDTH);
        }
    }
    table.render()
}

/// An export without the first part of a target's name: `iscsi:tank/0` for `iscsi:iqn.2026-01.org.example:tank/0`.
fn brief_export(export: &str) -> String {
    let target = export.strip_prefix("iscsi:");
    match target.and_then(|target| target.rsplit_once(':')) {
        Some((_, last)) => format!("iscsi:{last}"),
        None => export.to_owned(),
    }
}

/// The largest unit of which there are two or more: `90 s`, `5 min`, `47 h`, `400 d`.
fn age(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    let unit = units.iter().find(|(length, _)| seconds >= 2 * length);
    match unit {
        Some((length, unit)) => format!("{} {unit}", seconds / length),
        None => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<T>(columns: &[Column<T>]) -> Vec<&'static str> {
        columns.iter().map(|one| one.name).collect()
    }

    #[test]
    fn every_column_of_the_command_line_is_rendered() {
        let all = |known: Columns| known.all().collect::<Vec<_>>();
        assert_eq!(names(VOLUMES), all(volume::list::COLUMNS));
        assert_eq!(names(FILE_SYSTEMS), all(filesystem::list::COLUMNS));
        assert_eq!(names(OWNERS), all(filesystem::userspace::COLUMNS));
        assert_eq!(names(SPACES), all(volume::space::COLUMNS));
        assert_eq!(names(SNAPSHOTS), all(snapshot::list::COLUMNS));
        assert_eq!(names(TARGETS), all(target::list::COLUMNS));
        assert_eq!(names(NBD), all(nbd::list::COLUMNS));
    }

    fn volume(name: &str, size: u64, exports: &[&str]) -> VolumeView {
        let view = serde_json::json!({
            "name": name, "size": size, "block_size": 16384, "used": 57344, "referenced": 57344, "sparse": true,
            "exports": exports, "space": {"used": 0, "available": 0, "by_data": 0, "by_snapshots": 0,
            "by_children": 0, "by_reservation": 0, "written": 0, "logical_used": 0, "logical_referenced": 0,
            "compress_percent": 100},
        });
        serde_json::from_value(view).expect("a volume")
    }

    fn options(columns: &[&str], sort: Option<&str>, reverse: bool) -> TableOptions {
        TableOptions {
            columns: columns.iter().map(ToString::to_string).collect(),
            sort: sort.map(str::to_owned),
            reverse,
        }
    }

    #[test]
    fn sizes_are_sorted_as_numbers_and_the_order_is_reversed() {
        let list = [("tank/a", 9 << 30), ("tank/b", 1 << 40), ("tank/c", 0)];
        let list = list.map(|(name, size)| volume(name, size, &[])).to_vec();
        let sorted = |sort, reverse| {
            let options = options(&["name"], sort, reverse);
            let mut answer = Answer::Volumes(list.clone());
            sort_answer(&mut answer, &options)
        };
        assert_eq!(sorted(Some("size"), false), "cab");
        assert_eq!(sorted(Some("size"), true), "bac");
        assert_eq!(sorted(None, true), "cba");
        assert_eq!(sorted(Some("name"), false), "abc");
    }

    fn sort_answer(answer: &mut Answer, options: &TableOptions) -> String {
        sort(answer, options);
        let Answer::Volumes(list) = answer else {
            panic!("volumes");
        };
        let last = list
            .iter()
            .filter_map(|one| one.name.as_str().chars().last());
        last.collect()
    }

    #[test]
    fn default_columns_fit_a_terminal_and_chosen_ones_are_complete() {
        let exports = [
            "iscsi:iqn.2026-01.org.example:tank/0",
            "iscsi:iqn.2026-01.org.example:attic/0",
            "nbd:tank/vm0",
        ];
        let list = [volume("tank/a-volume-with-a-long-name", 10 << 30, &exports)];
        let text = volumes(&list, &TableOptions::default());
        let widths = text.lines().map(|line| line.chars().count());
        assert!(widths.max() <= Some(WIDTH), "{text}");
        assert!(
            text.contains("iscsi:tank/0") && text.contains('…'),
            "{text}"
        );
        let text = volumes(&list, &options(&["size", "exports"], None, false));
        let expected = format!("SIZE  EXPORTS\n 10G  {}\n", exports.join(" "));
        assert_eq!(text, expected);
    }

    #[test]
    fn a_thousand_rows_are_rendered_in_order() {
        let list: Vec<VolumeView> = (0..1000)
            .map(|at| volume(&format!("tank/{at}"), at, &[]))
            .collect();
        let mut answer = Answer::Volumes(list);
        let options = options(&["name"], Some("size"), true);
        sort(&mut answer, &options);
        let Answer::Volumes(list) = &answer else {
            panic!("volumes");
        };
        let text = volumes(list, &options);
        assert!(text.starts_with("NAME\ntank/999\ntank/998\n"), "{text}");
        assert_eq!(text.lines().count(), 1001);
    }
}
