//! The audit log: each change with its user and origin, as lines of JSON in files that only their owner may read, and
//! in the process log. The contents of a request are not written, so no secret can be.
//!
//! Unauthorized clients can cause any number of entries. These are in a file of their own, where equal entries within a
//! period become one line: they cannot rotate out the log of changes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use control::{Failure, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A longer file is rotated; the previous rotated file is deleted.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes at the end that are read to show entries.
const SHOWN_BYTES_MAX: u64 = 1 << 20;
/// Most entries that are shown.
pub const ENTRIES_MAX: usize = 1000;
/// Equal entries within this time become one line, after the first.
const ALIKE_WITHIN: Duration = Duration::from_secs(60);
/// Distinct names per client address within that time.
const NAMES_MAX: usize = 16;
/// Kinds of entries that are counted concurrently.
const KINDS_MAX: usize = 1024;
/// Longest details of an operation, in characters.
const DETAILS_MAX: usize = 400;
/// Replaces all further names.
const OTHERS: &str = "others";

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub struct Entry {
    /// The time, in milliseconds since 1970; of several entries the last one's.
    pub at_ms: u64,
    /// The user, or the name in a failed login.
    pub who: String,
    /// Their role.
    pub role: Option<String>,
    /// The client's address, or the process.
    pub from: String,
    /// The action: a verb such as `volume.create`, or a method and a path.
    pub what: String,
    /// The subject: the path of the resource.
    pub target: String,
    /// The operation's own details, such as the names of properties that it set. Never a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// `done`, or the kind of the failure.
    pub outcome: String,
    /// The HTTP status; for a command its exit code.
    pub code: u16,
    /// The number of further equal entries within a minute, if the line is for several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Entry {
    /// The entry of a completed action, with its failure if it failed. Its code is that of a command.
    pub fn ended(self, failure: Option<&Failure>) -> Self {
        Self {
            at_ms: crate::now_ms(),
            outcome: outcome(failure),
            code: failure.map_or(0, |failure| failure.kind.exit_code().into()),
            ..self
        }
    }
}

/// Members of requests that are names, and never a secret.
const NAMES: &[&str] = &[
    "name",
    "names",
    "volume",
    "dataset",
    "of",
    "from",
    "to",
    "into",
    "below",
    "device",
    "existing",
    "old",
    "new",
    "with",
    "user",
    "lun",
    "fingerprint",
    "tag",
    "leg",
    "head",
    "witness",
    "action",
    "when",
    "rules",
    "devices",
    "initiators",
    "networks",
    "identities",
    "address",
    "peer",
    "inherit",
];

/// Members of requests that contain such members: groups of devices, access rules, documents.
const CONTAINERS: &[&str] = &["groups", "who", "access", "document"];

/// The members with the addresses of a protocol: texts, or objects with an address.
fn protocols() -> impl Iterator<Item = &'static str> {
    protocol_list::ALL.iter().map(|protocol| protocol.name)
}

/// The subject of a request on one line: the operation's own details, or the names in it and its enabled flags.
pub fn details(request: &Request) -> Option<String> {
    let said = request.operation().details().or_else(|| names(request))?;
    Some(harmless(&said))
}

/// The same of the body of a request that is none of a pool.
pub(crate) fn details_of_body(body: &Value) -> Option<String> {
    let mut words = Vec::new();
    add_names(body, &mut words);
    let properties = body.get("properties").and_then(Value::as_object);
    words.extend(properties.into_iter().flat_map(|all| all.keys().cloned()));
    (!words.is_empty()).then(|| harmless(&words.join(" ")))
}

/// Without line breaks and other control characters, and not too long.
fn harmless(text: &str) -> String {
    let shown = text.chars().take(DETAILS_MAX);
    shown
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn names(request: &Request) -> Option<String> {
    let whole = serde_json::to_value(request).expect("requests are JSON");
    // The nesting depth of its verb.
    let depth = crate::role::verb_of(&whole).split('.').count();
    let mut inner = &whole;
    for _ in 0..depth {
        inner = inner.as_object()?.values().next()?;
    }
    let mut words = Vec::new();
    add_names(inner, &mut words);
    (!words.is_empty()).then(|| words.join(" "))
}

fn add_names(value: &Value, words: &mut Vec<String>) {
    let Some(members) = value.as_object() else {
        return;
    };
    let named = NAMES.iter().copied().chain(protocols());
    for value in named.filter_map(|name| members.get(name)) {
        match value {
            Value::String(text) => words.push(text.clone()),
            Value::Number(number) => words.push(number.to_string()),
            Value::Array(all) => {
                words.extend(all.iter().filter_map(Value::as_str).map(str::to_owned))
            }
            _ => {}
        }
    }
    if let Some(size) = members.get("size").and_then(Value::as_u64) {
        words.push(format!("size {}", units::ByteCount(size)));
    }
    let containers = CONTAINERS.iter().copied().chain(protocols());
    for inner in containers.filter_map(|name| members.get(name)) {
        match inner {
            Value::Array(all) => all.iter().for_each(|inner| add_names(inner, words)),
            one => add_names(one, words),
        }
    }
    let flags = members
        .iter()
        .filter(|(_, value)| **value == Value::Bool(true));
    words.extend(flags.map(|(name, _)| name.clone()));
}

/// Returns the outcome: `done` or the kind of the failure.
pub(crate) fn outcome(failure: Option<&Failure>) -> String {
    let kind = failure.map(|failure| serde_json::to_value(failure.kind).unwrap_or_default());
    let word = kind.as_ref().and_then(|kind| kind.as_str());
    word.unwrap_or("done").to_owned()
}

/// The logs of a head.
pub struct Audit {
    /// The log of changes.
    changes: Lines,
    /// Logins and refusals.
    access: Lines,
    alike: Mutex<Alike>,
    /// The log of changes by commands.
    commands: PathBuf,
}

/// The files of the log of a head with its accounts in `folder`; `commands` is that of commands.
pub fn files(folder: &Path, commands: &Path) -> [PathBuf; 3] {
    let [changes, access] = ["audit.log", "access.log"].map(|name| folder.join(name));
    [changes, access, commands.to_owned()]
}

impl Audit {
    /// Logs in `folder`, opened by the first entry. Entries of `commands` are shown as well.
    pub fn new(folder: &Path, commands: &Path) -> Self {
        let [changes, access, commands] = files(folder, commands);
        Self {
            changes: Lines::new(&changes),
            access: Lines::new(&access),
            alike: Mutex::default(),
            commands,
        }
    }

    /// Logs a change, or the attempt of an authorized user.
    pub fn changed(&self, entry: &Entry) {
        self.changes.write(entry);
    }

    /// Logs a login or a refusal.
    pub fn accessed(&self, entry: Entry) {
        let due = self
            .alike
            .lock()
            .expect("no holder panics")
            .take(entry, Instant::now());
        due.iter().for_each(|entry| self.access.write(entry));
    }

    /// Its files, with all entries until now.
    pub fn files(&self) -> [PathBuf; 3] {
        self.write_counts();
        self.paths()
    }

    fn paths(&self) -> [PathBuf; 3] {
        [&self.changes.path, &self.access.path, &self.commands].map(PathBuf::clone)
    }

    fn write_counts(&self) {
        let counted = self
            .alike
            .lock()
            .expect("no holder panics")
            .end(Instant::now());
        counted.iter().for_each(|entry| self.access.write(entry));
    }

    /// The newest entries, the newest first.
    pub fn newest(&self, count: usize) -> io::Result<Vec<Entry>> {
        self.write_counts();
        let mut all = Vec::new();
        for path in self.paths() {
            all.extend(newest_of(&path, count.min(ENTRIES_MAX))?);
        }
        // Within one millisecond the later line of a file comes first.
        all.sort_by_key(|entry| std::cmp::Reverse(entry.at_ms));
        all.truncate(count.min(ENTRIES_MAX));
        Ok(all)
    }
}

/// A file of entries; each process has its own.
pub struct Lines {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl Lines {
    /// The file at `path`, opened by the first entry.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: Mutex::new(None),
        }
    }

    /// Writes an entry, also to the process log.
    pub fn write(&self, entry: &Entry) {
        let Entry {
            who,
            from,
            what,
            target,
            details,
            outcome,
            count,
            ..
        } = entry;
        tracing::info!(
            who,
            from,
            what,
            on = target,
            details,
            outcome,
            more = count,
            "audit"
        );
        let mut line = serde_json::to_vec(entry).expect("an entry is JSON");
        line.push(b'\n');
        let mut file = self.file.lock().expect("no holder panics");
        if let Err(error) = self.append(&mut file, &line) {
            *file = None;
            tracing::error!(%error, path = %self.path.display(), "the audit log cannot be written");
        }
    }

    fn append(&self, slot: &mut Option<File>, line: &[u8]) -> io::Result<()> {
        if let Some(file) = slot.as_ref() {
            let open = file.metadata()?;
            // Another process may have rotated it.
            let is_there = std::fs::metadata(&self.path).is_ok_and(|there| is_same(&there, &open));
            if is_there && open.len() > FILE_BYTES_MAX {
                std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
                *slot = None;
            } else if !is_there {
                *slot = None;
            }
        }
        if slot.is_none() {
            if let Some(folder) = self.path.parent() {
                crate::accounts::create_private_directory(folder)?;
            }
            *slot = Some(crate::accounts::append_private(&self.path)?);
        }
        match slot {
            Some(file) => file.write_all(line),
            None => Ok(()),
        }
    }
}

fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn newest_of(path: &Path, count: usize) -> io::Result<Vec<Entry>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let entries = text.lines().rev();
    Ok(entries
        .filter_map(|line| serde_json::from_str(line).ok())
        .take(count)
        .collect())
}

/// Origin, user, action and outcome.
type Kind = (String, String, String, String);

/// Counts equal entries. Pure: the time is an argument.
#[derive(Default)]
struct Alike(HashMap<Kind, Counted>);

struct Counted {
    since: Instant,
    last: Entry,
    /// The number after the first, which was written.
    more: u64,
}

impl Counted {
    fn line(self) -> Option<Entry> {
        (self.more > 0).then_some(Entry {
            count: Some(self.more),
            ..self.last
        })
    }
}

impl Alike {
    /// Returns the due lines: this entry, if it is the first of its kind, and expired counts.
    fn take(&mut self, mut entry: Entry, now: Instant) -> Vec<Entry> {
        let mut due = self.end(now);
        let names = self.0.keys().filter(|(from, ..)| *from == entry.from);
        let is_known = self.0.contains_key(&kind(&entry));
        if !is_known && (names.count() >= NAMES_MAX || self.0.len() >= KINDS_MAX) {
            entry.who = OTHERS.to_owned();
        }
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&kind(&entry)) {
            // A client with a token can produce any number of paths.
            for text in [
                &mut entry.from,
                &mut entry.who,
                &mut entry.what,
                &mut entry.outcome,
            ] {
                *text = OTHERS.to_owned();
            }
        }
        if let Some(counted) = self.0.get_mut(&kind(&entry)) {
            counted.more += 1;
            counted.last = entry;
            return due;
        }
        let counted = Counted {
            since: now,
            last: entry.clone(),
            more: 0,
        };
        self.0.insert(kind(&entry), counted);
        due.push(entry);
        due
    }

    /// Returns the lines of expired counts.
    fn end(&mut self, now: Instant) -> Vec<Entry> {
        let is_over =
            |counted: &Counted| now.saturating_duration_since(counted.since) >= ALIKE_WITHIN;
        let (over, left) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(_, counted)| is_over(counted));
        self.0 = left;
        let over: HashMap<Kind, Counted> = over;
        over.into_values().filter_map(Counted::line).collect()
    }
}

fn kind(entry: &Entry) -> Kind {
    let Entry {
        from,
        who,
        what,
        outcome,
        ..
    } = entry.clone();
    (from, who, what, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit() -> (tempfile::TempDir, Audit) {
        let folder = tempfile::tempdir().expect("a folder");
        let commands = folder.path().join("state/audit.log");
        let audit = Audit::new(&folder.path().join("head"), &commands);
        (folder, audit)
    }

    #[test]
    fn audit_names_changed_setting_without_value() {
        let properties = [("sharenfs", "rw=10.0.0.1"), ("quota\n", "1G")];
        let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let set = control::operations::filesystem::set::Set {
            name: "tank/home".to_owned(),
            properties: properties.into(),
        };
        let said = details(&Request::Filesystem(set.into())).expect("it says something");
        assert_eq!(said, "tank/home: quota\u{fffd}, sharenfs");
        let expire = control::operations::filesystem::expire_client::ExpireClient {
            name: "tank/home".parse().expect("a name"),
            client: "1f".to_owned(),
            in_use: false,
        };
        let expire = Request::Filesystem(expire.into());
        assert_eq!(details(&expire).as_deref(), Some("client 1f of tank/home"));
    }

    /// Commands of a shell have no path with names in it.
    #[test]
    fn audit_names_destroyed_objects_without_secrets() {
        use serde_json::json;
        const IQN: &str = "iqn.2026-01.org.example:t";
        for (request, said) in [
            (
                json!({"volume": {"destroy": {"name": "tank/v", "recursive": true, "exported": false}}}),
                "tank/v recursive",
            ),
            (
                json!({"snapshot": {"destroy": {"names": ["tank/v@a", "tank/v@b"]}}}),
                "tank/v@a tank/v@b",
            ),
            (
                json!({"target": {"destroy": {"name": IQN, "mapped": true}}}),
                "iqn.2026-01.org.example:t mapped",
            ),
            (
                json!({"target": {"unmap": {"name": IQN, "volume": "tank/v"}}}),
                "iqn.2026-01.org.example:t tank/v",
            ),
            (
                json!({"target": {"chap_set": {"name": IQN, "user": "ann", "secret": "correct-horse-battery"}}}),
                "iqn.2026-01.org.example:t ann",
            ),
            (
                json!({"target": {"discovery": {"chap_clear": {"user": "finder", "no_secret": true}}}}),
                "finder no_secret",
            ),
            (
                json!({"nbd": {"unexport": {"volume": "tank/v", "name": "v", "in_use": true}}}),
                "v tank/v in_use",
            ),
            (
                json!({"snapshot": {"rename": {"from": "tank/v@a", "to": "tank/v@b"}}}),
                "tank/v@a tank/v@b",
            ),
            (
                json!({"snapshot": {"schedule": {"remove": {"of": "tank/v"}}}}),
                "tank/v",
            ),
            (
                json!({"replicate": {"promote": {"dataset": "tank/z", "original_is_lost": true}}}),
                "tank/z original_is_lost",
            ),
            (
                json!({"pool": {"replace": {"old": "/dev/a", "new": "/dev/b", "overwrite": true}}}),
                "/dev/a /dev/b overwrite",
            ),
            (
                json!({"target": {"allow": {"name": IQN, "who": {"networks": ["10.0.0.0/24"], "initiators": [], "everyone": true}}}}),
                "iqn.2026-01.org.example:t 10.0.0.0/24 everyone",
            ),
            (
                json!({"portal": {"add": {"iscsi": [{"address": "10.1.0.1:3260", "group": 2}], "nbd": ["unix:/run/x"], "nfs": []}}}),
                "unix:/run/x 10.1.0.1:3260",
            ),
            (
                json!({"pool": {"add": {"groups": [{"kind": "mirror", "role": "log", "devices": ["/dev/a", "/dev/b"]}], "mismatched": true, "overwrite": false}}}),
                "/dev/a /dev/b mismatched",
            ),
            (
                json!({"pool": {"scrub": {"action": "pause", "wait": false}}}),
                "pause",
            ),
            (
                json!({"volume": {"resize": {"name": "tank/v", "size": 21_474_836_480_u64, "allow_shrink": false}}}),
                "tank/v size 20G",
            ),
            (
                json!({"key": {"load": {"name": "tank/v", "location": null, "key": "30".repeat(64)}}}),
                "tank/v",
            ),
        ] {
            let parsed: Request = serde_json::from_value(request.clone())
                .unwrap_or_else(|error| panic!("{request}: {error}"));
            assert_eq!(details(&parsed).as_deref(), Some(said), "{request}");
        }
        let scrub = serde_json::from_value(json!({"pool": "export"})).expect("a request");
        assert_eq!(details(&scrub), None);
    }

    fn login(who: &str) -> Entry {
        Entry {
            at_ms: 1,
            who: who.to_owned(),
            from: "10.0.0.1".to_owned(),
            what: "POST /api/v1/login".to_owned(),
            outcome: "denied".to_owned(),
            code: 401,
            ..Entry::default()
        }
    }

    #[test]
    fn entries_of_all_logs_are_returned_newest_first() {
        let (folder, audit) = audit();
        assert!(audit.newest(10).expect("none").is_empty());
        let entry = |at_ms| Entry {
            at_ms,
            ..Entry::default()
        };
        audit.changed(&entry(1));
        audit.accessed(entry(2));
        Lines::new(&folder.path().join("state/audit.log")).write(&entry(3));
        audit.changed(&entry(4));
        let moments = |count| -> Vec<u64> {
            let entries = audit.newest(count).expect("readable");
            entries.iter().map(|entry| entry.at_ms).collect()
        };
        assert_eq!(moments(10), [4, 3, 2, 1]);
        assert_eq!(moments(1), [4]);
    }

    /// A hundred thousand wrong passwords, each with a different name, and a change before them.
    #[test]
    fn failed_logins_evict_no_entry_and_are_counted() {
        let (folder, audit) = audit();
        audit.changed(&Entry {
            who: "anna".into(),
            ..Entry::default()
        });
        for number in 0..100_000 {
            audit.accessed(login(&format!("user{number}")));
        }
        let size = |name: &str| {
            let data = std::fs::metadata(folder.path().join("head").join(name));
            data.map_or(0, |data| data.len())
        };
        assert!(size("access.log") < 10_000, "{}", size("access.log"));
        assert!(size("audit.log") < 1_000, "{}", size("audit.log"));
        let shown = audit.newest(100).expect("readable");
        assert!(shown.iter().any(|entry| entry.who == "anna"));
    }

    #[test]
    fn repeated_entries_are_merged_into_one_line() {
        let (mut alike, now) = (Alike::default(), Instant::now());
        assert_eq!(alike.take(login("anna"), now), [login("anna")]);
        for _ in 0..5 {
            assert_eq!(alike.take(login("anna"), now), []);
        }
        assert_eq!(alike.take(login("bert"), now).len(), 1);
        let later = now + ALIKE_WITHIN;
        let counted = alike.end(later);
        assert_eq!(
            counted,
            [Entry {
                count: Some(5),
                ..login("anna")
            }]
        );
        assert_eq!(alike.take(login("anna"), later).len(), 1);
    }

    #[test]
    fn counted_kinds_are_bounded() {
        let (mut alike, now) = (Alike::default(), Instant::now());
        for number in 0..3 * KINDS_MAX {
            let from = format!("10.0.{}.{}", number / 250, number % 250);
            alike.take(
                Entry {
                    from,
                    ..login("anna")
                },
                now,
            );
        }
        assert!(alike.0.len() <= KINDS_MAX + 1, "{}", alike.0.len());
    }

    /// A client with a read-only token tries every possible name.
    #[test]
    fn probed_paths_do_not_create_unbounded_kinds() {
        let (mut alike, now) = (Alike::default(), Instant::now());
        let lines = (0..3 * KINDS_MAX).map(|number| {
            let entry = Entry {
                what: format!("DELETE /api/v1/users/{number}"),
                ..login("anna")
            };
            alike.take(entry, now).len()
        });
        assert!(lines.sum::<usize>() <= KINDS_MAX + 1);
        assert!(alike.0.len() <= KINDS_MAX + 1, "{}", alike.0.len());
    }
}
