//! Checks a file system for inconsistencies: dangling names, objects without a name, wrong counts of names and entries,
//! directories that are not connected to the root, contents beyond the end of a file.
//!
//! The check changes no data. The file system must not change during the check, so it runs on a snapshot. Its memory is
//! bounded: names are counted for a range of objects at a time, and all directories are read again for the next range.

use std::collections::HashMap;
use std::ops::Range;

use file_system::Kind;
use file_system::check::{CheckReport, Fault, Summary};

use crate::acl;
use crate::convert::{entry_object, flag, kind_of, type_of};
use crate::file_system::TEXT_BYTES_MAX;
use crate::objects::{Has, ObjectError, Objects, Stored, Text};
use crate::path::path;

/// Number of objects per counting pass: 64 MiB of counters.
const COUNTED_MAX: u64 = 16 << 20;
/// Entries of a directory that are read at a time.
const ENTRIES_MAX: usize = 1024;
/// Directories known to be connected to the root, in memory.
const KNOWN_MAX: usize = 64 << 10;
/// Maximum depth of the directory tree.
const DEPTH_MAX: usize = 4096;
/// Names that are searched for the path of one fault.
const PATH_NAMES_MAX: u64 = 1 << 20;
/// Objects between two progress reports.
const OBJECTS_PER_REPORT: u64 = 10_000;
/// Maximum target of a symbolic link, in bytes.
const LINK_BYTES_MAX: usize = 64 << 10;
/// Type in a directory's entry.
const ENTRY_TYPE_SHIFT: u32 = 60;

/// Why a check stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The consumer of the reports cancelled the check.
    Canceled,
    /// A read failed.
    Failed(ObjectError),
}

impl From<ObjectError> for Ended {
    fn from(error: ObjectError) -> Self {
        Self::Failed(error)
    }
}

/// Reports inconsistencies; `tell` returns whether to continue.
pub fn check<O: Objects>(
    objects: &O,
    tell: &mut dyn FnMut(CheckReport) -> bool,
) -> Result<Summary, Ended> {
    let mut check = Check::new(objects, tell);
    check.run(COUNTED_MAX)?;
    Ok(check.summary)
}

struct Check<'a, O> {
    objects: &'a O,
    tell: &'a mut dyn FnMut(CheckReport) -> bool,
    root: u64,
    unlinked: u64,
    summary: Summary,
    /// Whether a directory is connected to the root.
    known: HashMap<u64, bool>,
    done: u64,
    of: u64,
}

/// The number of names of the objects in a range.
struct Names {
    first: u64,
    end: u64,
    counts: Vec<u32>,
}

impl Names {
    fn of(range: &Range<u64>) -> Self {
        Self {
            first: range.start,
            end: range.end,
            counts: Vec::new(),
        }
    }

    fn add(&mut self, object: u64) {
        if !(self.first..self.end).contains(&object) {
            return;
        }
        let at = (object - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    fn count(&self, object: u64) -> u32 {
        let at = (object - self.first) as usize;
        self.counts.get(at).copied().unwrap_or_default()
    }
}

/// An entry of a directory, copied.
struct Entry {
    name: Vec<u8>,
    value: u64,
}

impl<'a, O: Objects> Check<'a, O> {
    fn new(objects: &'a O, tell: &'a mut dyn FnMut(CheckReport) -> bool) -> Self {
        let facts = objects.facts();
        let [_, _, count, _] = objects.space().unwrap_or_default();
        Self {
            objects,
            tell,
            root: facts.root,
            unlinked: facts.unlinked,
            summary: Summary::default(),
            known: HashMap::new(),
            done: 0,
            of: count,
        }
    }

    /// The whole check, with this many objects per counting pass.
    fn run(&mut self, counted_max: u64) -> Result<(), Ended> {
        let mut range = 0..counted_max;
        loop {
            let last = self.count_and_judge(&range)?;
            if last < range.end {
                return Ok(());
            }
            range = range.end..range.end.saturating_add(counted_max);
            self.of = self.of.saturating_add(self.summary.objects);
        }
    }

    /// Counts the names of the objects in the range, and checks those objects. Returns the last existing object.
    fn count_and_judge(&mut self, range: &Range<u64>) -> Result<u64, Ended> {
        let is_first = range.start == 0;
        let mut names = Names::of(range);
        let (mut at, mut last) = (0, 0);
        while let Some(object) = self.objects.next_object(at)? {
            (at, last) = (object, object);
            let Some(stored) = self.stored(object)? else {
                continue;
            };
            self.progress()?;
            if is_first {
                self.summary.objects += 1;
                self.judge_alone(object, &stored)?;
            }
            if stored.has.has(Has::EXTENDED) {
                names.add(stored.extended);
            }
            if kind_of(stored.mode) == Some(Kind::Directory) {
                let visit = &mut |target| names.add(target);
                self.directory(object, &stored, is_first, visit)?;
            }
        }
        let mut at = range.start.saturating_sub(1);
        while let Some(object) = self.objects.next_object(at)? {
            if object >= range.end {
                break;
            }
            at = object;
            if let Some(stored) = self.stored(object)? {
                self.judge_names(object, &stored, names.count(object))?;
            }
        }
        Ok(last)
    }

    /// The attributes of a file system's object; `None` for ZAPs and the library's own objects.
    fn stored(&self, object: u64) -> Result<Option<Stored>, Ended> {
        match self.objects.stored(object) {
            Ok(stored) => Ok(Some(stored)),
            Err(ObjectError::Missing) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn progress(&mut self) -> Result<(), Ended> {
        self.done += 1;
        if self.done % OBJECTS_PER_REPORT != 0 {
            return Ok(());
        }
        let of = self.of.max(self.done);
        match (self.tell)(CheckReport::Progress {
            done: self.done,
            of,
        }) {
            true => Ok(()),
            false => Err(Ended::Canceled),
        }
    }

    fn fault(&mut self, object: u64, what: String) -> Result<(), Ended> {
        self.summary.faults += 1;
        let mut names_left = PATH_NAMES_MAX;
        let path = path(self.objects, self.root, object, &mut names_left);
        match (self.tell)(CheckReport::Fault(Fault { object, path, what })) {
            true => Ok(()),
            false => Err(Ended::Canceled),
        }
    }

    /// Checks an object on its own.
    fn judge_alone(&mut self, object: u64, stored: &Stored) -> Result<(), Ended> {
        if !stored.has.has(Has::ESSENTIAL) {
            return self.fault(object, "is without required attributes".to_owned());
        }
        self.judge_list(object, stored)?;
        match kind_of(stored.mode) {
            None => self.fault(
                object,
                format!("has a type that is none: mode {:o}", stored.mode),
            ),
            Some(Kind::File) => self.judge_end(object, stored),
            Some(Kind::Link) => self.judge_link(object, stored),
            Some(Kind::Directory) => match self.is_below_root(object)? {
                true => Ok(()),
                false => self.fault(object, "does not hang below the root directory".to_owned()),
            },
            Some(_) => Ok(()),
        }
    }

    /// A non-trivial list must be valid.
    fn judge_list(&mut self, object: u64, stored: &Stored) -> Result<(), Ended> {
        if stored.flags & flag::ACL_TRIVIAL != 0 {
            return Ok(());
        }
        match self.objects.text(object, Text::Acl, TEXT_BYTES_MAX) {
            Ok(list) if acl::decode(&list).is_none() => {
                self.fault(object, "has an invalid access control list".to_owned())
            }
            Ok(_) | Err(ObjectError::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn judge_end(&mut self, object: u64, stored: &Stored) -> Result<(), Ended> {
        // The last block is stored as a whole.
        let block = stored.block_size.max(1);
        let end = stored.size.div_ceil(block).saturating_mul(block);
        match self.objects.next(object, end, false)? {
            None => Ok(()),
            Some(at) => self.fault(
                object,
                format!("has contents at {at}, beyond its end at {}", stored.size),
            ),
        }
    }

    fn judge_link(&mut self, object: u64, stored: &Stored) -> Result<(), Ended> {
        match self.objects.text(object, Text::Link, LINK_BYTES_MAX) {
            Ok(text) if text.len() as u64 == stored.size => Ok(()),
            Ok(text) => self.fault(
                object,
                format!(
                    "has a target of {} bytes, and {} are stored",
                    stored.size,
                    text.len()
                ),
            ),
            Err(ObjectError::Missing) => {
                self.fault(object, "is a link that leads nowhere".to_owned())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Visits the objects that a directory names, and checks the entries on request.
    fn directory(
        &mut self,
        object: u64,
        stored: &Stored,
        judges: bool,
        visit: &mut dyn FnMut(u64),
    ) -> Result<(), Ended> {
        let (mut cursor, mut entries, mut directories) = (0, 0_u64, 0_u64);
        loop {
            let (some, is_end) = self.some_entries(object, &mut cursor)?;
            for entry in &some {
                let target = entry_object(entry.value);
                visit(target);
                entries += 1;
                if judges && self.judge_entry(object, stored, entry)? {
                    directories += 1;
                }
            }
            if is_end {
                break;
            }
        }
        if !judges {
            return Ok(());
        }
        self.summary.names += entries;
        if stored.size != entries.saturating_add(2) {
            let said = stored.size.saturating_sub(2);
            self.fault(object, format!("counts {said} entries, and has {entries}"))?;
        }
        if stored.links != 0 && stored.links != directories.saturating_add(2) {
            let said = stored.links.saturating_sub(2);
            self.fault(
                object,
                format!("counts {said} directories, and has {directories}"),
            )?;
        }
        Ok(())
    }

    /// The next entries after the cursor, and whether they are the last.
    fn some_entries(&self, directory: u64, cursor: &mut u64) -> Result<(Vec<Entry>, bool), Ended> {
        let mut some = Vec::new();
        let is_end = self.objects.list(directory, *cursor, &mut |entry| {
            if some.len() == ENTRIES_MAX {
                return false;
            }
            some.push(Entry {
                name: entry.name.to_vec(),
                value: entry.value,
            });
            *cursor = entry.cursor;
            true
        })?;
        Ok((some, is_end))
    }

    /// Whether it names a subdirectory of this one.
    fn judge_entry(&mut self, directory: u64, of: &Stored, entry: &Entry) -> Result<bool, Ended> {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let target = entry_object(entry.value);
        let Some(stored) = self.stored(target)? else {
            let what =
                format!("has the name {name:?}, which leads to object {target}, and there is none");
            return self.fault(directory, what).map(|()| false);
        };
        let kind = kind_of(stored.mode);
        let told = entry.value >> ENTRY_TYPE_SHIFT;
        if kind.is_some_and(|kind| told != 0 && told != type_of(kind) >> 12) {
            let what = format!("has the name {name:?} with a type other than its object's");
            self.fault(directory, what)?;
        }
        let is_hidden = |stored: &Stored| stored.flags & flag::EXTENDED != 0;
        if is_hidden(&stored) != is_hidden(of) {
            let what =
                format!("has the name {name:?}, which connects a visible and a hidden object");
            self.fault(directory, what)?;
        }
        if kind != Some(Kind::Directory) {
            return Ok(false);
        }
        if stored.parent != directory {
            let parent = stored.parent;
            let what = format!(
                "is in directory {directory} by the name {name:?}, but its parent is {parent}"
            );
            self.fault(target, what)?;
        }
        Ok(true)
    }

    /// Compares the number of names with the link count.
    fn judge_names(&mut self, object: u64, stored: &Stored, names: u32) -> Result<(), Ended> {
        let (names, links) = (u64::from(names), stored.links);
        let is_directory = kind_of(stored.mode) == Some(Kind::Directory);
        let wanted = match is_directory {
            true => u64::from(object != self.root),
            false => links,
        };
        if links == 0 {
            let key = format!("{object:x}");
            let waits = match self.objects.look_up(self.unlinked, key.as_bytes()) {
                Ok(_) => true,
                Err(ObjectError::Missing) => false,
                Err(error) => return Err(error.into()),
            };
            return match (names, waits) {
                (0, true) => Ok(()),
                (0, false) => self.fault(
                    object,
                    "has no name, and is not listed to be removed".to_owned(),
                ),
                _ => self.fault(object, format!("has a link count of 0, and {names} names")),
            };
        }
        match names {
            _ if names == wanted => Ok(()),
            0 => self.fault(
                object,
                "cannot be reached: no directory names it".to_owned(),
            ),
            _ => self.fault(object, format!("counts {wanted} names, and has {names}")),
        }
    }

    /// Whether the chain of a directory's parents reaches the root. The parent of an attribute directory is the object
    /// with the attributes.
    fn is_below_root(&mut self, directory: u64) -> Result<bool, Ended> {
        let (mut at, mut way) = (directory, Vec::new());
        let hangs = loop {
            if at == self.root {
                break true;
            }
            if let Some(known) = self.known.get(&at) {
                break *known;
            }
            way.push(at);
            match self.stored(at)? {
                Some(stored) if way.len() < DEPTH_MAX && stored.parent != at => at = stored.parent,
                _ => break false,
            }
        };
        if self.known.len() + way.len() > KNOWN_MAX {
            self.known.clear();
        }
        self.known.extend(way.into_iter().map(|one| (one, hangs)));
        Ok(hangs)
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
