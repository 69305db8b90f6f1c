//! Finds entries of the audit log in all of its files, also in those that were rotated.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use control::snapshot_set::is_like;

use crate::audit::Entry;

/// Which entries.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Not before, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Of this user: a name or a pattern.
    pub user: Option<String>,
    /// About this object and those below it, or about the objects of a pattern.
    pub object: Option<String>,
}

impl Wanted {
    /// Whether it selects among the entries at all.
    pub fn is_limited(&self) -> bool {
        self.since_ms.is_some() || self.user.is_some() || self.object.is_some()
    }

    fn accepts(&self, entry: &Entry) -> bool {
        let is_recent = self.since_ms.is_none_or(|since| entry.at_ms >= since);
        is_recent
            && self.user.as_deref().is_none_or(|user| is_user(user, entry))
            && self
                .object
                .as_deref()
                .is_none_or(|name| is_about(name, entry))
    }
}

/// The newest `count` entries of these files that are wanted, the newest first. Files that do not exist are empty.
///
/// # Errors
///
/// A file cannot be read.
pub fn find(paths: &[PathBuf], wanted: &Wanted, count: usize) -> Result<Vec<Entry>, FileError> {
    let mut newest = Newest::new(count);
    for path in paths {
        for (path, file) in opened(path)? {
            newest
                .add_all(&file, wanted)
                .map_err(|cause| FileError { path, cause })?;
        }
    }
    Ok(newest.into_entries())
}

/// The newest entries that were found so far: not all entries are held until the end.
struct Newest {
    count: usize,
    /// Entries with their numbers in the order of reading.
    found: Vec<(u64, Entry)>,
    read: u64,
}

impl Newest {
    fn new(count: usize) -> Self {
        Self {
            count,
            found: Vec::new(),
            read: 0,
        }
    }

    fn add_all(&mut self, file: &File, wanted: &Wanted) -> io::Result<()> {
        for line in BufReader::new(file).split(b'\n') {
            // A line that was cut by a full disk is no entry.
            let entry: Option<Entry> = serde_json::from_slice(&line?).ok();
            let Some(entry) = entry.filter(|entry| wanted.accepts(entry)) else {
                continue;
            };
            self.read += 1;
            self.found.push((self.read, entry));
            if self.found.len() >= (2 * self.count).max(64) {
                self.prune();
            }
        }
        Ok(())
    }

    /// Drops all but the newest. Within one millisecond the later line of a file is newer.
    fn prune(&mut self) {
        self.found
            .sort_by_key(|(number, entry)| std::cmp::Reverse((entry.at_ms, *number)));
        self.found.truncate(self.count);
    }

    fn into_entries(mut self) -> Vec<Entry> {
        self.prune();
        self.found.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// Opens a log and its previous file, which is read first. The current one is opened first: if the log is rotated in
/// between, it is the previous file of the same number.
fn opened(path: &Path) -> Result<Vec<(PathBuf, File)>, FileError> {
    let current = open(path)?;
    let rotated = rotated(path);
    let previous = open(&rotated)?;
    let is_same = match (&current, &previous) {
        (Some(current), Some(previous)) => {
            identity(current, path)? == identity(previous, &rotated)?
        }
        _ => false,
    };
    let previous = previous.filter(|_| !is_same).map(|file| (rotated, file));
    let current = current.map(|file| (path.to_owned(), file));
    Ok(previous.into_iter().chain(current).collect())
}

fn open(path: &Path) -> Result<Option<File>, FileError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(FileError {
            path: path.to_owned(),
            cause,
        }),
    }
}

/// The device and the inode.
fn identity(file: &File, path: &Path) -> Result<(u64, u64), FileError> {
    let found = file.metadata().map_err(|cause| FileError {
        path: path.to_owned(),
        cause,
    })?;
    Ok((found.dev(), found.ino()))
}

/// A file of the log cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read {}", path.display())]
pub struct FileError {
    path: PathBuf,
    /// The reason.
    #[source]
    pub cause: io::Error,
}

/// The previous file of a log.
fn rotated(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The user of a process is `root (anna)` where anna uses `sudo`: both names are hers.
fn is_user(wanted: &str, entry: &Entry) -> bool {
    let names = entry.who.split(['(', ')']).map(str::trim);
    let mut names = names.filter(|name| !name.is_empty());
    match has_pattern(wanted) {
        true => names.any(|name| is_like(wanted, name)),
        false => entry.who == wanted || names.any(|name| name == wanted),
    }
}

fn is_about(wanted: &str, entry: &Entry) -> bool {
    let details = entry.details.as_deref().unwrap_or_default();
    let words = details
        .split([' ', ','])
        .map(|word| word.trim_end_matches(':'));
    let words = words.filter(|word| !word.is_empty()).map(str::to_owned);
    let mut names = words.chain(objects(&entry.target));
    match has_pattern(wanted) {
        true => names.any(|name| is_like(wanted, &name)),
        false => names.any(|name| {
            let below = name.strip_prefix(wanted);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@', '#']))
        }),
    }
}

/// The objects of a target: itself, or those that a path of the API names, the smallest first.
fn objects(target: &str) -> Vec<String> {
    let Some(path) = target.strip_prefix("/api/v1/") else {
        return vec![target.to_owned()];
    };
    let parts: Vec<String> = path.split('/').map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let of_pool = |pool: &str, name: &str| format!("{pool}/{name}");
    match parts.as_slice() {
        ["pools", pool, "targets", name, ..] => vec![(*name).to_owned(), (*pool).to_owned()],
        ["pools", pool, kind, name, ..] if holds_datasets(kind) => {
            vec![of_pool(pool, name), (*pool).to_owned()]
        }
        ["pools" | "users" | "tokens", name, ..] => vec![(*name).to_owned()],
        _ => vec![target.to_owned()],
    }
}

/// Whether resources of this kind have the name of a dataset: it and its snapshots, and exports by a protocol.
fn holds_datasets(kind: &str) -> bool {
    let mut protocols = protocol_list::ALL.iter();
    ["volumes", "filesystems", "snapshots"].contains(&kind)
        || protocols.any(|protocol| protocol.name == kind)
}

/// A part of a path without its percent signs; bytes that are no text are replaced.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Entry {
    /// The object and the details of the change on one line, for terminals.
    pub fn subject(&self) -> String {
        let object = objects(&self.target).swap_remove(0);
        let Some(details) = &self.details else {
            return object;
        };
        let mut words = details.split([' ', ',']);
        let is_named = words.any(|word| {
            let rest = word.strip_prefix(object.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@', '#', ':']))
        });
        match is_named || object.is_empty() || object.starts_with('/') {
            true => details.clone(),
            false => format!("{object}: {details}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_ms: u64, who: &str, target: &str, details: Option<&str>) -> Entry {
        Entry {
            at_ms,
            who: who.to_owned(),
            target: target.to_owned(),
            details: details.map(str::to_owned),
            ..Entry::default()
        }
    }

    fn about(name: &str, entry: &Entry) -> bool {
        let object = Some(name.to_owned());
        let wanted = Wanted {
            object,
            ..Wanted::default()
        };
        wanted.accepts(entry)
    }

    #[test]
    fn object_is_found_from_every_way_in() {
        let command = entry(1, "root", "tank", Some("tank/vms/a@x recursive"));
        for wanted in [
            "tank",
            "tank/vms",
            "tank/vms/a",
            "tank/vms/a@x",
            "*/a@*",
            "tank/vms/?@x",
        ] {
            assert!(about(wanted, &command), "{wanted}");
        }
        for other in ["tank/vm", "vms", "tank/vms/b", "*/b*"] {
            assert!(!about(other, &command), "{other}");
        }
        let api = entry(
            1,
            "anna",
            "/api/v1/pools/tank/volumes/vms%2Fa",
            Some("size 20G"),
        );
        assert!(about("tank/vms/a", &api) && about("tank", &api) && !about("tank/vms/b", &api));
        assert_eq!(api.subject(), "tank/vms/a: size 20G");
        assert_eq!(command.subject(), "tank/vms/a@x recursive");
        assert_eq!(entry(1, "root", "tank", None).subject(), "tank");
        assert_eq!(
            entry(1, "root", "tank", Some("wait")).subject(),
            "tank: wait"
        );
        let bad = entry(1, "anna", "/api/v1/pools/t%zz%/volumes/%ff", None);
        assert_eq!(bad.subject(), "t%zz%/\u{fffd}");
    }

    #[test]
    fn user_of_sudo_is_found_by_both_names() {
        let sudo = entry(1, "root (anna)", "tank", None);
        for (user, is_found) in [
            ("anna", true),
            ("root", true),
            ("an*", true),
            ("ann", false),
        ] {
            let user = Some(user.to_owned());
            let wanted = Wanted {
                user,
                ..Wanted::default()
            };
            assert_eq!(wanted.accepts(&sudo), is_found, "{wanted:?}");
        }
    }

    #[test]
    fn rotated_files_and_cut_lines_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let line =
            |at_ms| serde_json::to_string(&entry(at_ms, "anna", "tank", None)).expect("JSON");
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("audit.log.1", format!("{}\n{}\n", line(1), line(2)));
        write("audit.log", format!("{}\n{{\"at_ms\": 9, \"cu\n", line(4)));
        write("access.log", format!("{}\n", line(3)));
        let paths = ["audit.log", "access.log", "none.log"].map(|name| folder.path().join(name));
        let times = |wanted: &Wanted, count| -> Vec<u64> {
            let found = find(&paths, wanted, count).expect("readable");
            found.iter().map(|entry| entry.at_ms).collect()
        };
        assert_eq!(times(&Wanted::default(), 10), [4, 3, 2, 1]);
        assert_eq!(times(&Wanted::default(), 2), [4, 3]);
        let since_ms = Some(3);
        assert_eq!(
            times(
                &Wanted {
                    since_ms,
                    ..Wanted::default()
                },
                10
            ),
            [4, 3]
        );
    }

    #[test]
    fn newest_of_many_entries_in_all_files_are_found_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, times: &[u64]| {
            let lines = times.iter().map(|at| {
                let line =
                    serde_json::to_string(&entry(*at, "root", &format!("{name}-{at}"), None));
                line.expect("an entry is JSON") + "\n"
            });
            let path = folder.path().join(name);
            std::fs::write(&path, lines.collect::<String>()).expect("written");
            path
        };
        let older: Vec<u64> = (0..300).collect();
        let newer: Vec<u64> = (300..700).rev().collect();
        write("api.log.1", &older);
        let api = write("api.log", &newer);
        let commands = write("commands.log", &[650, 650, 1]);
        let found = |paths: &[PathBuf], count| -> Vec<u64> {
            let found = find(paths, &Wanted::default(), count).expect("readable");
            found.iter().map(|entry| entry.at_ms).collect()
        };
        let both = [api.clone(), commands];
        assert_eq!(found(&both, 2), [699, 698]);
        assert_eq!(found(&both, 52)[48..], [651, 650, 650, 650]);
        assert_eq!(found(&both, 1000).len(), 703);
        // The log is rotated between the two opens.
        std::fs::hard_link(&api, folder.path().join("other.log")).expect("linked");
        std::fs::hard_link(&api, folder.path().join("other.log.1")).expect("linked");
        let once = found(&[folder.path().join("other.log")], 1000);
        assert_eq!(once.len(), 400);
    }
}
