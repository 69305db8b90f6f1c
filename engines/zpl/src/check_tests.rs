//! A small file system in maps, with each kind of damage that a check detects.

use std::collections::BTreeMap;

use super::*;
use crate::convert::entry_type;
use crate::objects::{Facts, ListedEntry, ListedQuota, Outcome, Step, Visitor};

const ROOT: u64 = 34;
const UNLINKED: u64 = 3;
const BLOCK: u64 = 512;

#[derive(Default)]
struct Maps {
    stored: BTreeMap<u64, Stored>,
    entries: BTreeMap<u64, BTreeMap<String, u64>>,
    links: BTreeMap<u64, Vec<u8>>,
    /// Access control lists.
    lists: BTreeMap<u64, Vec<u8>>,
    /// Offsets with data.
    data: BTreeMap<u64, u64>,
}

impl Maps {
    /// A root with a file of two names, a directory with a link in it, extended attributes, and a file that is to be removed.
    fn whole() -> Self {
        let mut maps = Self::default();
        maps.add(ROOT, 0o040_755, ROOT, 3 + 2, 3);
        maps.add(40, 0o100_644, ROOT, 700, 2);
        maps.add(41, 0o040_755, ROOT, 2 + 2, 2);
        maps.add(42, 0o120_777, 41, 4, 1);
        maps.add(43, 0o100_600, ROOT, 0, 0);
        maps.add(44, 0o040_700, 40, 1 + 2, 2);
        maps.add(45, 0o100_600, 44, 9, 1);
        for hidden in [44, 45] {
            maps.at(hidden).flags = flag::EXTENDED;
        }
        maps.at(40).extended = 44;
        maps.at(40).has = Has::NEW.with(Has::EXTENDED);
        for (directory, name, object) in [
            (ROOT, "file", 40),
            (ROOT, "second", 40),
            (ROOT, "directory", 41),
            (41, "link", 42),
            (41, "third", 46),
            (44, "user.a", 45),
        ] {
            maps.name(directory, name, object);
        }
        maps.add(46, 0o010_600, 41, 0, 1);
        maps.name(41, "third", 46);
        maps.entries
            .entry(UNLINKED)
            .or_default()
            .insert("2b".to_owned(), 43);
        maps.links.insert(42, b"file".to_vec());
        maps
    }

    fn add(&mut self, object: u64, mode: u64, parent: u64, size: u64, links: u64) {
        let stored = Stored {
            mode,
            parent,
            size,
            links,
            has: Has::NEW,
            block_size: BLOCK,
            ..Stored::default()
        };
        self.stored.insert(object, stored);
    }

    fn at(&mut self, object: u64) -> &mut Stored {
        self.stored.get_mut(&object).expect("it is there")
    }

    fn name(&mut self, directory: u64, name: &str, object: u64) {
        let kind = self
            .stored
            .get(&object)
            .map_or(0, |stored| entry_type(stored.mode));
        let entries = self.entries.entry(directory).or_default();
        entries.insert(name.to_owned(), object | kind);
    }
}

impl Objects for Maps {
    fn facts(&self) -> Facts {
        Facts {
            root: ROOT,
            unlinked: UNLINKED,
            ..Facts::default()
        }
    }
    fn stored(&self, object: u64) -> Result<Stored, ObjectError> {
        self.stored
            .get(&object)
            .copied()
            .ok_or(ObjectError::Missing)
    }
    fn text(&self, object: u64, which: Text, _: usize) -> Result<Vec<u8>, ObjectError> {
        let texts = match which {
            Text::Acl => &self.lists,
            _ => &self.links,
        };
        texts.get(&object).cloned().ok_or(ObjectError::Missing)
    }
    fn look_up(&self, directory: u64, name: &[u8]) -> Result<u64, ObjectError> {
        let name = std::str::from_utf8(name).expect("text");
        let found = self.entries.get(&directory).and_then(|all| all.get(name));
        found.copied().ok_or(ObjectError::Missing)
    }
    fn list(
        &self,
        directory: u64,
        cursor: u64,
        visit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<bool, ObjectError> {
        let all = self.entries.get(&directory).into_iter().flatten();
        for (at, (name, value)) in all.enumerate().skip(cursor as usize) {
            let taken = visit(ListedEntry {
                name: name.as_bytes(),
                value: *value,
                cursor: at as u64 + 1,
            });
            if !taken {
                return Ok(false);
            }
        }
        Ok(true)
    }
    fn next(&self, object: u64, offset: u64, _: bool) -> Result<Option<u64>, ObjectError> {
        Ok(self.data.get(&object).copied().filter(|at| *at >= offset))
    }
    fn next_object(&self, after: u64) -> Result<Option<u64>, ObjectError> {
        Ok(self
            .stored
            .range(after + 1..)
            .next()
            .map(|(object, _)| *object))
    }
    fn space(&self) -> Result<[u64; 4], ObjectError> {
        Ok([0; 4])
    }
    fn count(&self, _: u64) -> Result<u64, ObjectError> {
        unreachable!("a check only reads")
    }
    fn read(&self, _: u64, _: u64, _: &mut [u8]) -> Result<(), ObjectError> {
        unreachable!("contents are the scrub's")
    }
    fn read_onto(&self, _: u64, _: u64, _: usize, _: &mut Vec<u8>) -> Result<(), ObjectError> {
        unreachable!("contents are the scrub's")
    }
    fn record_size(&self) -> u64 {
        unreachable!("a check only reads")
    }
    fn change(&self, _: &[Step<'_>], _: bool) -> Result<Outcome, ObjectError> {
        unreachable!("a check changes nothing")
    }
    fn free(&self, _: u64, _: u64, _: Option<u64>) -> Result<(), ObjectError> {
        unreachable!("a check changes nothing")
    }
    fn commit(&self) -> Result<(), ObjectError> {
        unreachable!("a check changes nothing")
    }
    fn make_receipts(&self) -> Result<u64, ObjectError> {
        unreachable!("a check changes nothing")
    }
    fn settle(&self) -> Result<(), ObjectError> {
        unreachable!("a check changes nothing")
    }
    fn set_quotas(&self, _: &[ListedQuota<'_>]) -> Result<(), ObjectError> {
        unreachable!("a check changes nothing")
    }
    fn walk_log(&self, _: Visitor<'_>) -> Result<(), ObjectError> {
        unreachable!("a snapshot has no log")
    }
    fn replay_log(&self, _: Visitor<'_>) -> Result<(), ObjectError> {
        unreachable!("a snapshot has no log")
    }
}

/// The reports of a check with the given number of objects per pass.
fn check_reports(maps: &Maps, counted_max: u64) -> (Summary, Vec<String>) {
    let mut faults = Vec::new();
    let mut tell = |check_reports| {
        if let CheckReport::Fault(fault) = check_reports {
            let path = fault
                .path
                .unwrap_or_else(|| format!("object {}", fault.object));
            faults.push(format!("{path} {}", fault.what));
        }
        true
    };
    let mut check = Check::new(maps, &mut tell);
    check.run(counted_max).expect("nothing fails");
    let summary = check.summary;
    (summary, faults)
}

#[test]
fn consistent_file_system_has_no_fault_at_any_batch_size() {
    for counted_max in [1, 7, COUNTED_MAX] {
        let (summary, faults) = check_reports(&Maps::whole(), counted_max);
        assert_eq!(faults, [""; 0], "{counted_max}");
        let wanted = Summary {
            objects: 8,
            names: 6,
            faults: 0,
        };
        assert_eq!(summary, wanted);
    }
}

/// A damage to a file system, and the expected reports.
type Damage = (fn(&mut Maps), &'static [&'static str]);

#[test]
fn each_damage_is_reported_with_its_path() {
    let damages: &[Damage] = &[
        (
            |maps| maps.at(40).links = 3,
            &["/file counts 3 names, and has 2"],
        ),
        (
            |maps| {
                maps.stored.remove(&46);
            },
            &["/directory has the name \"third\", which leads to object 46, and there is none"],
        ),
        (
            |maps| {
                maps.entries
                    .get_mut(&41)
                    .expect("it is there")
                    .remove("link");
            },
            &[
                "/directory counts 2 entries, and has 1",
                "object 42 cannot be reached: no directory names it",
            ],
        ),
        (
            |maps| maps.at(ROOT).links = 2,
            &["/ counts 0 directories, and has 1"],
        ),
        (
            |maps| maps.at(41).parent = 40,
            &["object 41 is in directory 34 by the name \"directory\", but its parent is 40"],
        ),
        (
            |maps| {
                maps.data.insert(40, 4096);
            },
            &["/file has contents at 4096, beyond its end at 700"],
        ),
        (
            |maps| {
                maps.data.insert(40, 512);
            },
            &[],
        ),
        (
            |maps| maps.at(42).size = 5,
            &["/directory/link has a target of 5 bytes, and 4 are stored"],
        ),
        (
            |maps| {
                maps.entries.remove(&UNLINKED);
            },
            &["object 43 has no name, and is not listed to be removed"],
        ),
        (
            |maps| maps.at(46).mode = 0o140_600,
            &["/directory has the name \"third\" with a type other than its object's"],
        ),
        (
            |maps| maps.at(40).has = Has::NEW,
            &["object 44 cannot be reached: no directory names it"],
        ),
        (
            |maps| maps.at(46).has = Has::MODE,
            &["/directory/third is without required attributes"],
        ),
        (
            |maps| {
                maps.lists.insert(40, vec![0; 7]);
                maps.lists
                    .insert(46, crate::acl::trivial(0o755, Kind::File));
            },
            &["/file has an invalid access control list"],
        ),
        (
            // Two directories in each other.
            |maps| {
                maps.add(50, 0o040_755, 51, 3, 3);
                maps.add(51, 0o040_755, 50, 3, 3);
                maps.name(50, "a", 51);
                maps.name(51, "b", 50);
            },
            &[
                "object 50 does not hang below the root directory",
                "object 51 does not hang below the root directory",
            ],
        ),
    ];
    for (damage, wanted) in damages {
        let mut maps = Maps::whole();
        damage(&mut maps);
        for counted_max in [3, COUNTED_MAX] {
            let (summary, faults) = check_reports(&maps, counted_max);
            assert_eq!(faults, *wanted, "{counted_max}");
            assert_eq!(summary.faults, wanted.len() as u64);
        }
    }
}

#[test]
fn check_is_canceled_by_its_caller() {
    let mut maps = Maps::whole();
    maps.at(40).links = 7;
    maps.at(42).size = 7;
    let mut count = 0;
    let ended = check(&maps, &mut |_| {
        count += 1;
        false
    });
    assert_eq!((ended, count), (Err(Ended::Canceled), 1));
}
