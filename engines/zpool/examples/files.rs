//! A driver for proofs: executes commands from standard input on the files of a pool's file systems, and replies to
//! each with a line.
//!
//! `files POOL FOLDER create|import SECONDS`: the pool is on all files of the directory, and SECONDS is the interval of
//! transaction groups. A command starts with its lane: each lane has its own thread, and runs its commands in order. A
//! reply starts with the lane, too: `LANE ok WORDS` or `LANE error WHY`. The end of the input terminates the process at
//! once, like a crash; `LANE export` closes the pool in good order first.
//!
//! Arguments of a command are separated by spaces. Names and texts are written by `%XX` where they are not letters, digits or `._-/`.
//!
//! | command | effect |
//! |---|---|
//! | `create DATASET` | creates a file system |
//! | `create-secret DATASET HEX` | creates an encrypted one |
//! | `key DATASET HEX` | loads its key |
//! | `set DATASET PROPERTY VALUE` | sets a property of it |
//! | `open DATASET` | opens it, and returns the number of its root; the lane's further commands are about its files |
//! | `close` | closes it |
//! | `make KIND PATH MODE UID GID [TEXT]` | `file`, `directory`, `link`, `block`, `character`, `socket`, `pipe`; of a link where it leads, of a device `MAJOR:MINOR` |
//! | `write PATH OFFSET LENGTH TOKEN` | writes TOKEN, 16 characters, over and over; where one begins depends on the offset only |
//! | `read PATH OFFSET LENGTH` | returns the bytes in hex, fewer at the end |
//! | `size PATH BYTES`, `punch PATH OFFSET LENGTH` | |
//! | `mode PATH OCTAL`, `owner PATH UID GID`, `times PATH ATIME MTIME` | times in nanoseconds since 1970 |
//! | `rename FROM TO`, `link PATH NEW`, `remove PATH`, `remove-directory PATH` | |
//! | `hold PATH` | retains an object when it loses its last name |
//! | `attribute PATH NAME [VALUE]` | sets or removes an extended attribute |
//! | `attributes PATH` | returns them: `NAME=VALUE` each |
//! | `list PATH ENTRY...` | sets the access control list. An entry is `+` or `-`, flags, rights and subject, with commas: `+,3,1,u70`. `o`, `g` and `e` are owner, group and everyone, `u` and `g` with a number another user or group |
//! | `entries PATH` | returns them |
//! | `quota KIND NUMBER MEASURE LIMIT` | of a `user`, `group` or `project`, of `bytes` or `objects` |
//! | `log KIND HEX` | adds a record to the intent log, and changes nothing |
//! | `note NAME NUMBER` | an entry of the master node |
//! | `orphan` | creates an object without a name; returns its number |
//! | `projects` | returns the objects that belong to one: `PATH=NUMBER` each |
//! | `commit`, `sync` | by the intent log, by a transaction group |
//! | `tree` | a line of `LANE entry WORDS` for each name, then the reply |

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use engine::OpenFileSystem;
use engine::capabilities::{FileSystems, Keys, Ownership, Properties};
use engine::dataset::Value;
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use engine::pool::{GroupKind, ImportOptions, PoolSpec, SafeToOwn};
use file_system::acl::{Entry, Who};
use file_system::{
    Attributes, FileSystem, Guard, Identity, Kind, Make, Measure, Node, Owner, OwnerKind, Quota,
    Removable, SetAttributes, SetExtended, SetTime, Time,
};
use units::VolumeName;
use zeroize::Zeroizing;
use zpl::objects::{Has, Objects, Step, Stored};
use zpool::{Engine, EngineOptions, HostId, Pool};

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
const MASTER_NODE: u64 = 1;
const TOKEN_BYTES: usize = 16;
const READ_BYTES: usize = 1 << 20;
/// Of a longer file only its head and tail are hashed: an emulated processor needs minutes for a gigabyte.
const SUMMED_BYTES_MAX: u64 = 64 << 20;
const END_BYTES: u64 = 4 << 20;

type Reply = Result<String, String>;
type Visit<'a> = &'a mut dyn FnMut(&[u8], Node, &Attributes) -> Result<(), String>;

fn error_text(error: impl std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words = format!("{words}: {error}");
        source = error.source();
    }
    words.replace('\n', " ")
}

fn decoded(word: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let digits = behind
                .get(..2)
                .and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or("a % without two digits")?);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    Ok(bytes)
}

fn encoded(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' => {
                char::from(*byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

fn unhex(digits: &str) -> Result<Vec<u8>, String> {
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.ok_or_else(|| "no hex digits".to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The words of a command.
struct Arguments<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Arguments<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.0
            .next()
            .ok_or_else(|| "an argument is missing".to_owned())
    }

    fn number(&mut self) -> Result<u64, String> {
        self.word()?.parse().map_err(error_text)
    }

    fn id(&mut self) -> Result<u32, String> {
        self.word()?.parse().map_err(error_text)
    }

    fn octal(&mut self) -> Result<u32, String> {
        u32::from_str_radix(self.word()?, 8).map_err(error_text)
    }

    fn time(&mut self) -> Result<SetTime, String> {
        let nanoseconds: i128 = self.word()?.parse().map_err(error_text)?;
        let second = 1_000_000_000;
        Ok(SetTime::To(Time {
            seconds: nanoseconds.div_euclid(second) as i64,
            nanoseconds: nanoseconds.rem_euclid(second) as u32,
        }))
    }

    fn dataset(&mut self) -> Result<VolumeName, String> {
        self.word()?.parse().map_err(error_text)
    }

    fn text(&mut self) -> Result<Vec<u8>, String> {
        decoded(self.word()?)
    }
}

/// A lane: its thread, and its open file system.
struct Lane {
    pool: Arc<Mutex<Option<Pool>>>,
    opened: Option<zpool::files::FileSystem>,
    says: Sender<String>,
    number: u32,
}

impl Lane {
    fn run(mut self, commands: &Receiver<String>) {
        for command in commands {
            let answer = match self.perform(&command) {
                Ok(words) => format!("{} ok {words}", self.number),
                Err(why) => format!("{} error {why}", self.number),
            };
            if self.says.send(answer).is_err() {
                return;
            }
        }
    }

    fn files(&self) -> Result<Arc<dyn FileSystem>, String> {
        let opened = self.opened.as_ref().ok_or("no file system is open")?;
        Ok(opened.files())
    }

    fn perform(&mut self, command: &str) -> Reply {
        let mut words = Arguments(command.split_whitespace());
        match words.word()? {
            "open" => {
                let name = words.dataset()?;
                let pool = self.pool.lock().expect("no panic");
                let pool = pool.as_ref().ok_or("the pool is exported")?;
                let opened = pool.open_files((&name).into(), false).map_err(error_text)?;
                let root = opened.files().root();
                self.opened = Some(opened);
                Ok(root.object.to_string())
            }
            "close" => {
                self.opened = None;
                Ok(String::new())
            }
            "tree" => self.tree(),
            "projects" => self.projects(),
            what @ ("log" | "note" | "orphan") => self.experiment(what, &mut words),
            what @ ("create" | "create-secret" | "key" | "set" | "sync" | "export") => {
                self.administer(what, &mut words)
            }
            what => perform(&*self.files()?, what, &mut words),
        }
    }

    fn administer(&self, what: &str, words: &mut Arguments<'_>) -> Reply {
        let mut guard = self.pool.lock().expect("no panic");
        if what == "export" {
            let pool = guard.take().ok_or("the pool is exported")?;
            pool.export().map_err(|(_, error)| error_text(error))?;
            return Ok(String::new());
        }
        let pool = guard.as_ref().ok_or("the pool is exported")?;
        if what == "sync" {
            pool.sync().map_err(error_text)?;
            return Ok(String::new());
        }
        let name = words.dataset()?;
        let done = match what {
            "create" => pool.create_parents(&format!("{name}/below").parse().map_err(error_text)?),
            "key" => pool.load_key((&name).into(), &material(words)?),
            "create-secret" => {
                let key = NewKey {
                    suite: None,
                    format: KeyFormat::Raw,
                    material: material(words)?,
                    iterations: None,
                    location: "prompt".to_owned(),
                };
                pool.create_key_parent(&name, &key, &[])
            }
            _ => {
                let property = words.word()?.to_owned();
                let value = words.word()?;
                let value = match value.parse() {
                    Ok(number) => Value::Number(number),
                    Err(_) => Value::Text(value.to_owned()),
                };
                pool.set_dataset_properties((&name).into(), &[(property, value)])
            }
        };
        done.map_err(error_text)?;
        Ok(String::new())
    }

    /// Operations that no file system performs, to test the kernel's reaction.
    fn experiment(&self, what: &str, words: &mut Arguments<'_>) -> Reply {
        let opened = self.opened.as_ref().ok_or("no file system is open")?;
        let name;
        let stored = Stored {
            mode: 0o100_600,
            links: 1,
            has: Has::NEW,
            ..Stored::default()
        };
        let list = zpl::acl::trivial(0o600, Kind::File);
        let step = match what {
            "orphan" => Step::Make {
                claims: None,
                stored: &stored,
                acl: &list,
                link: None,
            },
            "log" => Step::Log {
                kind: words.number()?,
                body: unhex(words.word()?)?,
                is_new: false,
                generation: 0,
            },
            _ => {
                name = words.text()?;
                Step::Enter {
                    directory: MASTER_NODE,
                    name: &name,
                    value: words.number()?,
                    is_new: false,
                    replaces: true,
                }
            }
        };
        let outcome = opened.objects().change(&[step], false);
        Ok(outcome.map_err(error_text)?.object.to_string())
    }

    fn tree(&self) -> Reply {
        let files = self.files()?;
        let mut seen = HashMap::new();
        let count = self.walk(&mut |path, node, attributes| {
            let said = entry(&*files, node, attributes, &mut seen)?;
            let line = format!("{} entry {} {said}", self.number, encoded(path));
            self.says.send(line).map_err(error_text)
        })?;
        Ok(count.to_string())
    }

    fn projects(&self) -> Reply {
        let opened = self.opened.as_ref().ok_or("no file system is open")?;
        let mut all = Vec::new();
        self.walk(&mut |path, node, _| {
            let stored = opened.objects().stored(node.object).map_err(error_text)?;
            if stored.project != 0 {
                all.push(format!("{}={}", encoded(path), stored.project));
            }
            Ok(())
        })?;
        Ok(all.join(" "))
    }

    /// Visits each name with its object; returns their number.
    fn walk(&self, visit: Visit<'_>) -> Result<usize, String> {
        let files = self.files()?;
        let mut waiting = vec![(b"/".to_vec(), files.root())];
        let mut count = 0;
        while let Some((path, node)) = waiting.pop() {
            let attributes = files.attributes(node).map_err(error_text)?;
            visit(&path, node, &attributes)?;
            count += 1;
            if attributes.kind == Kind::Directory {
                waiting.extend(inside(&*files, &path, node)?);
            }
        }
        Ok(count)
    }
}

/// The names in a directory.
fn inside(
    files: &dyn FileSystem,
    path: &[u8],
    directory: Node,
) -> Result<Vec<(Vec<u8>, Node)>, String> {
    let mut names = Vec::new();
    let mut visit = |entry: file_system::Entry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    files
        .read_directory(&ROOT, directory, 0, &mut visit)
        .map_err(error_text)?;
    let slash = match path {
        b"/" => &b""[..],
        _ => b"/",
    };
    let found = names.into_iter().map(|name| {
        let object = files.look_up(&ROOT, directory, &name).map_err(error_text)?;
        Ok(([path, slash, &name].concat(), object.node))
    });
    found.collect()
}

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// Kind, mode, owner, links, size, times, device, and contents of an object.
fn entry(
    files: &dyn FileSystem,
    node: Node,
    attributes: &Attributes,
    seen: &mut HashMap<u64, String>,
) -> Reply {
    let (kind, contents) = match attributes.kind {
        Kind::File => ("file", sum(files, node, attributes.size, seen)?),
        Kind::Directory => ("directory", "-".to_owned()),
        Kind::Link => ("link", encoded(&files.read_link(node).map_err(error_text)?)),
        Kind::BlockDevice => ("block", "-".to_owned()),
        Kind::CharacterDevice => ("character", "-".to_owned()),
        Kind::Socket => ("socket", "-".to_owned()),
        Kind::Pipe => ("pipe", "-".to_owned()),
    };
    Ok(format!(
        "{kind} {:o} {} {} {} {} {} {} {} {}:{} {contents}",
        attributes.mode,
        attributes.uid,
        attributes.gid,
        attributes.links,
        attributes.size,
        nanoseconds(attributes.accessed),
        nanoseconds(attributes.modified),
        nanoseconds(attributes.created),
        attributes.device.0,
        attributes.device.1,
    ))
}

/// The SHA-256 of a file's contents, or of the head and tail of a long one.
fn sum(files: &dyn FileSystem, node: Node, size: u64, seen: &mut HashMap<u64, String>) -> Reply {
    if let Some(sum) = seen.get(&node.object) {
        return Ok(sum.clone());
    }
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut buffer = vec![0; READ_BYTES];
    let parts = match size {
        ..=SUMMED_BYTES_MAX => [0..size, size..size],
        _ => [0..END_BYTES, size - END_BYTES..size],
    };
    for part in parts {
        let mut at = part.start;
        while at < part.end {
            let length = READ_BYTES.min((part.end - at) as usize);
            let read = files
                .read(node, at, &mut buffer[..length])
                .map_err(error_text)?;
            context.update(&buffer[..read.length]);
            at += read.length as u64;
            if read.length == 0 {
                return Err(format!("a file of {size} bytes has its end at {at}"));
            }
        }
    }
    let digest = context.finish();
    let text: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    seen.insert(node.object, text.clone());
    Ok(text)
}

fn material(words: &mut Arguments<'_>) -> Result<KeyMaterial, String> {
    Ok(KeyMaterial::new(Zeroizing::new(unhex(words.word()?)?)))
}

fn found(files: &dyn FileSystem, path: &[u8]) -> Result<Node, String> {
    let mut node = files.root();
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        node = files.look_up(&ROOT, node, name).map_err(error_text)?.node;
    }
    Ok(node)
}

/// The directory of a path, and its last name.
fn place<'a>(files: &dyn FileSystem, path: &'a [u8]) -> Result<(Node, &'a [u8]), String> {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    let slash = slash.ok_or("a path begins with /")?;
    Ok((found(files, &path[..slash])?, &path[slash + 1..]))
}

fn make(files: &dyn FileSystem, words: &mut Arguments<'_>) -> Reply {
    let kind = words.word()?;
    let path = words.text()?;
    let (mode, uid, gid) = (words.octal()?, words.id()?, words.id()?);
    let text = words.0.next().map_or(Ok(Vec::new()), decoded)?;
    let device = || {
        let text = std::str::from_utf8(&text).ok()?;
        let (major, minor) = text.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let device = || device().ok_or("a device is MAJOR:MINOR");
    let what = match kind {
        "file" => Make::File,
        "directory" => Make::Directory,
        "link" => Make::Link(&text),
        "block" => device().map(|(major, minor)| Make::BlockDevice(major, minor))?,
        "character" => device().map(|(major, minor)| Make::CharacterDevice(major, minor))?,
        "socket" => Make::Socket,
        "pipe" => Make::Pipe,
        _ => return Err("no such kind".to_owned()),
    };
    let attributes = SetAttributes {
        mode: Some(mode),
        uid: Some(uid),
        gid: Some(gid),
        ..SetAttributes::default()
    };
    let (directory, name) = place(files, &path)?;
    let made = files
        .make(&ROOT, directory, name, what, &attributes, None)
        .map_err(error_text)?;
    Ok(made.object.node.object.to_string())
}

fn write(files: &dyn FileSystem, words: &mut Arguments<'_>) -> Reply {
    let node = found(files, &words.text()?)?;
    let (offset, length) = (words.number()?, words.number()? as usize);
    let token = words.word()?.as_bytes();
    if token.len() != TOKEN_BYTES {
        return Err("a token has 16 characters".to_owned());
    }
    let first = (offset % TOKEN_BYTES as u64) as usize;
    let bytes: Vec<u8> = token
        .iter()
        .cycle()
        .skip(first)
        .take(length)
        .copied()
        .collect();
    files.write(node, offset, &bytes).map_err(error_text)?;
    Ok(String::new())
}

fn read(files: &dyn FileSystem, words: &mut Arguments<'_>) -> Reply {
    let node = found(files, &words.text()?)?;
    let (offset, length) = (words.number()?, words.number()? as usize);
    let mut bytes = vec![0; length];
    let read = files.read(node, offset, &mut bytes).map_err(error_text)?;
    Ok(hex(&bytes[..read.length]))
}

fn change(files: &dyn FileSystem, path: &[u8], changes: &SetAttributes) -> Reply {
    let node = found(files, path)?;
    let guard = Guard::default();
    files
        .set_attributes(&ROOT, node, changes, &guard, None)
        .map_err(error_text)?;
    Ok(String::new())
}

fn set(files: &dyn FileSystem, what: &str, words: &mut Arguments<'_>) -> Reply {
    let path = words.text()?;
    let mut changes = SetAttributes::default();
    match what {
        "size" => changes.size = Some(words.number()?),
        "mode" => changes.mode = Some(words.octal()?),
        "owner" => (changes.uid, changes.gid) = (Some(words.id()?), Some(words.id()?)),
        _ => (changes.accessed, changes.modified) = (Some(words.time()?), Some(words.time()?)),
    }
    change(files, &path, &changes)
}

fn entry_of(word: &str) -> Result<Entry, String> {
    let parts: Vec<&str> = word.split(',').collect();
    let [how, flags, mask, whom] = parts[..] else {
        return Err("an entry has four parts".to_owned());
    };
    Ok(Entry {
        allows: how == "+",
        flags: flags.parse().map_err(error_text)?,
        mask: mask.parse().map_err(error_text)?,
        who: match (whom, whom.get(1..)) {
            ("o", _) => Who::Owner,
            ("g", _) => Who::Group,
            ("e", _) => Who::Everyone,
            (_, Some(id)) if whom.starts_with('u') => Who::User(id.parse().map_err(error_text)?),
            (_, Some(id)) if whom.starts_with('g') => Who::Members(id.parse().map_err(error_text)?),
            _ => return Err("nobody".to_owned()),
        },
    })
}

fn entry_text(entry: &Entry) -> String {
    let how = if entry.allows { '+' } else { '-' };
    let whom = match entry.who {
        Who::Owner => "o".to_owned(),
        Who::Group => "g".to_owned(),
        Who::Everyone => "e".to_owned(),
        Who::User(id) => format!("u{id}"),
        Who::Members(id) => format!("g{id}"),
    };
    format!("{how},{},{},{whom}", entry.flags, entry.mask)
}

fn quota(words: &mut Arguments<'_>) -> Result<Quota, String> {
    let kind = match words.word()? {
        "user" => OwnerKind::User,
        "group" => OwnerKind::Group,
        _ => OwnerKind::Project,
    };
    let id = words.number()?;
    let measure = match words.word()? {
        "objects" => Measure::Objects,
        _ => Measure::Bytes,
    };
    Ok(Quota {
        owner: Owner { kind, id },
        measure,
        limit: Some(words.number()?).filter(|limit| *limit > 0),
    })
}

fn perform(files: &dyn FileSystem, what: &str, words: &mut Arguments<'_>) -> Reply {
    match what {
        "make" => return make(files, words),
        "write" => return write(files, words),
        "read" => return read(files, words),
        "size" | "mode" | "owner" | "times" => return set(files, what, words),
        "commit" => files.commit(None).map_err(error_text)?,
        "quota" => files.set_quotas(&[quota(words)?]).map_err(error_text)?,
        "punch" => {
            let node = found(files, &words.text()?)?;
            let (offset, length) = (words.number()?, words.number()?);
            files.deallocate(node, offset, length).map_err(error_text)?;
        }
        "rename" => {
            let (from, to) = (words.text()?, words.text()?);
            let (from, to) = (place(files, &from)?, place(files, &to)?);
            files.rename(&ROOT, from, to, None).map_err(error_text)?;
        }
        "link" => {
            let node = found(files, &words.text()?)?;
            let new = words.text()?;
            let (directory, name) = place(files, &new)?;
            files
                .link(&ROOT, node, directory, name, None)
                .map_err(error_text)?;
        }
        "remove" | "remove-directory" => {
            let path = words.text()?;
            let (directory, name) = place(files, &path)?;
            let what = match what {
                "remove" => Removable::NoDirectory,
                _ => Removable::Directory,
            };
            files
                .remove(&ROOT, directory, name, what, None)
                .map_err(error_text)?;
        }
        "attribute" => {
            let (node, name) = (found(files, &words.text()?)?, words.text()?);
            let value = words.0.next().map(decoded).transpose()?;
            let done = match value {
                Some(value) => {
                    files.set_extended(&ROOT, node, &name, &value, SetExtended::Either, None)
                }
                None => files.remove_extended(&ROOT, node, &name, None),
            };
            done.map_err(error_text)?;
        }
        "attributes" => {
            let node = found(files, &words.text()?)?;
            let mut told_all = Vec::new();
            for name in files.extended_names(&ROOT, node).map_err(error_text)? {
                let value = files.extended(&ROOT, node, &name).map_err(error_text)?;
                told_all.push(format!("{}={}", encoded(&name), encoded(&value)));
            }
            return Ok(told_all.join(" "));
        }
        "list" => {
            let node = found(files, &words.text()?)?;
            let entries: Result<Vec<_>, _> = words.0.by_ref().map(entry_of).collect();
            files
                .set_acl(&ROOT, node, &entries?, None)
                .map_err(error_text)?;
        }
        "entries" => {
            let node = found(files, &words.text()?)?;
            let entries = files.acl(&ROOT, node).map_err(error_text)?;
            return Ok(entries.iter().map(entry_text).collect::<Vec<_>>().join(" "));
        }
        "hold" => files
            .hold(found(files, &words.text()?)?)
            .map_err(error_text)?,
        _ => return Err("no such command".to_owned()),
    }
    Ok(String::new())
}

fn open_pool(words: &[String]) -> Result<Pool, String> {
    let [pool, dir, how, seconds] = words else {
        return Err("files POOL FOLDER create|import SECONDS".to_owned());
    };
    let mut options = EngineOptions::new(HostId::derive("proof of files", pool));
    options.arc_bytes_max = units::ByteCount::mib(128);
    options.txg_timeout_s = seconds.parse().map_err(error_text)?;
    let engine = Engine::start(options).map_err(error_text)?;
    let dir = PathBuf::from(dir);
    if how == "create" {
        let disks = std::fs::read_dir(&dir).map_err(error_text)?;
        let disks: Result<Vec<_>, _> = disks.map(|disk| disk.map(|disk| disk.path())).collect();
        let name = pool.parse().map_err(error_text)?;
        let spec = PoolSpec::new(name, GroupKind::Stripe, disks.map_err(error_text)?);
        let pool = Pool::create(engine, &spec).map_err(error_text)?;
        pool.complete_root().map_err(error_text)?;
        return Ok(pool);
    }
    let found = zpool::discover(&[dir]).map_err(error_text)?;
    let candidate = found.first().ok_or("no pool is there")?;
    // No other host has it: the proof has terminated any previous owner.
    let proof = SafeToOwn::operator_confirms(candidate);
    Pool::import(engine, candidate, proof, &ImportOptions::default()).map_err(error_text)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let pool = match open_pool(&words) {
        Ok(pool) => Arc::new(Mutex::new(Some(pool))),
        Err(why) => {
            let error_text = writeln!(std::io::stderr(), "files: {why}");
            std::process::exit(if error_text.is_ok() { 1 } else { 2 });
        }
    };
    let (says, answers) = channel::<String>();
    std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        for answer in answers {
            if writeln!(out, "{answer}")
                .and_then(|()| out.flush())
                .is_err()
            {
                return;
            }
        }
    });
    says.send("ready".to_owned()).expect("the thread runs");
    let mut lanes: HashMap<u32, Sender<String>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Some((number, command)) = line.split_once(' ') else {
            break;
        };
        let Ok(number) = number.parse() else { break };
        let lane = lanes.entry(number).or_insert_with(|| {
            let (sender, commands) = channel();
            let lane = Lane {
                pool: Arc::clone(&pool),
                opened: None,
                says: says.clone(),
                number,
            };
            std::thread::spawn(move || lane.run(&commands));
            sender
        });
        lane.send(command.to_owned()).expect("the lane runs");
    }
    // The library's threads never terminate by themselves.
    std::process::exit(0);
}
