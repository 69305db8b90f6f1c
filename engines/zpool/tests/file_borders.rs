//! Files at the limits of offsets, lengths, numbers and names: random operations compared with a model, invalid steps,
//! and invalid log records. The library aborts the process on an unexpected argument.

#[path = "support/log.rs"]
mod log;
mod support;

use std::collections::HashMap;

use engine::OpenFileSystem;
use engine::capabilities::{FileSystems, Ownership};
use engine::dataset::{FileSystemSpec, Value};
use file_system::{
    Content, FileError, FileSystem, Guard, Identity, Make, Node, Removable, SetAttributes,
};
use log::log;
use support::borders::{Written, engine, new_pool, say, seed};
use support::{Parts, dir, export, isolated, kill_oneself, part};
use units::VolumeName;
use zpl::objects::{Has, Objects, Step, Stored, Text};
use zpl::records::{Bytes, Creation, Record, Setting, set};
use zpool::Pool;
use zpool::files::FileSystem as Opened;

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};
const LAST: u64 = i64::MAX as u64;
/// Operations on the files of each file system.
const ROUNDS: usize = 250;
/// The largest piece that is written or read.
const PIECE_MAX: u64 = 300 << 10;

fn name(name: &str) -> VolumeName {
    format!("tank/{name}").parse().expect("a name")
}

fn create(pool: &Pool, called: &str, record_size: u64) -> Opened {
    let spec = FileSystemSpec {
        properties: vec![("recordsize".to_owned(), Value::Number(record_size))],
        ..FileSystemSpec::plain(name(called))
    };
    pool.create_file_system(&spec).expect("create");
    open(pool, called).expect("open")
}

fn open(pool: &Pool, called: &str) -> Result<Opened, engine::dataset::DatasetError> {
    pool.open_files((&name(called)).into(), false)
}

fn with_size(size: u64) -> SetAttributes {
    SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    }
}

fn make(files: &dyn FileSystem, name: &[u8], attributes: &SetAttributes) -> Node {
    let made = files.make(&ROOT, files.root(), name, Make::File, attributes, None);
    made.expect("a new object").object.node
}

fn set_size(files: &dyn FileSystem, node: Node, size: u64) -> Result<(), FileError> {
    let set = files.set_attributes(&ROOT, node, &with_size(size), &Guard::default(), None);
    set.map(drop)
}

fn is_whole(opened: &Opened) {
    let summary = opened.check(&mut |told| panic!("{told:?}"));
    assert_eq!(summary.expect("checked").faults, 0);
}

/// An offset at a limit: of a file, of a block, of an indirect block, of numbers.
fn border(known: &Written, random: &mut fastrand::Rng) -> u64 {
    let shift = random.u32(0..64);
    let one = known.ranges.get(random.usize(0..known.ranges.len().max(1)));
    let base = match random.u8(0..8) {
        0 => 0,
        1 => known.size,
        2 => one.map_or(0, |range| range.1),
        3 => LAST,
        4 => 1 << shift,
        5 => (512 << 10) * random.u64(0..4),
        6 => (128 << 20) * random.u64(0..4),
        _ => random.u64(0..1 << 20),
    };
    match random.u8(0..6) {
        0 => base.saturating_sub(1),
        1 => base.saturating_add(1),
        2 => base.saturating_sub(4096),
        3 => base.saturating_add(random.u64(0..1 << 20)),
        _ => base,
    }
}

fn length(random: &mut fastrand::Rng) -> u64 {
    let base = [0, 512, 4096, 128 << 10, 256 << 10][random.usize(0..5)];
    let length: u64 = match random.u8(0..4) {
        0 => base,
        1 => base + 1,
        2 => base.saturating_sub(1),
        _ => random.u64(0..PIECE_MAX),
    };
    length.clamp(1, PIECE_MAX)
}

/// One operation, on the file and on the model.
fn step(random: &mut fastrand::Rng, files: &dyn FileSystem, node: Node, known: &mut Written) {
    let at = border(known, random);
    match random.u8(0..12) {
        0..4 => {
            let (length, byte) = (length(random), random.u8(1..));
            let done = files.write(node, at, &vec![byte; length as usize]);
            let end = at.checked_add(length).filter(|end| *end <= LAST);
            match end {
                None => assert_eq!(done.err(), Some(FileError::TooLarge)),
                Some(end) => {
                    done.expect("there is room");
                    known.put(at, end, byte);
                    known.size = known.size.max(end);
                }
            }
        }
        4..6 => match set_size(files, node, at) {
            Ok(()) => known.resize(at),
            Err(error) => assert!(at > LAST, "{error}"),
        },
        6..9 => {
            let length = match random.u8(0..4) {
                0 => border(known, random).saturating_sub(at),
                1 => u64::MAX - at,
                2 => random.u64(0..16 << 20),
                _ => length(random),
            };
            let done = files.deallocate(node, at, length);
            match at.checked_add(length) {
                None => assert_eq!(done.err(), Some(FileError::Invalid)),
                Some(end) => {
                    done.expect("a hole");
                    known.put(at, end, 0);
                }
            }
        }
        9 => check_seek(files, node, at, known),
        10 => match random.bool() {
            true => files.commit(None).expect("durable"),
            false => known.size = files.attributes(node).expect("it is there").size,
        },
        _ => {
            let mut read = vec![0xff; length(random) as usize];
            let there = files.read(node, at, &mut read).expect("it is whole");
            let expected = known.size.saturating_sub(at).min(read.len() as u64);
            assert_eq!(there.length as u64, expected);
            assert!(known.read(at, there.length) == read[..there.length]);
            let mut onto = Vec::new();
            let lent = files.read_or_lend(node, at, read.len(), &mut onto);
            let (there, loan) = lent.expect("it is whole");
            assert_eq!(there.length as u64, expected);
            let mut parts = Vec::new();
            if let Some(loan) = &loan {
                loan.append_parts(&mut parts);
                onto = parts.concat();
            }
            assert!(read[..there.length] == onto);
        }
    }
}

fn check_seek(files: &dyn FileSystem, node: Node, at: u64, known: &Written) {
    let data = files.seek(node, at, Content::Data);
    let hole = files.seek(node, at, Content::Hole);
    if at >= known.size {
        let beyond = Err(FileError::BeyondEnd);
        assert_eq!((data, hole), (beyond, beyond));
        return;
    }
    let data = data.unwrap_or(known.size);
    assert!(at <= data && known.is_empty(at, data), "{at} {data}");
    let hole = hole.expect("one is behind the end");
    // To the end of the smallest block.
    let end = (hole / 512 + 1).saturating_mul(512).min(known.size);
    let is_hole = (at..=known.size).contains(&hole) && known.is_empty(hole, end);
    assert!(is_hole, "{hole} from {at} on");
    // After the last block that was ever written.
    let blocks = |range: &(u64, u64, u8)| range.2 != 0 && range.1.saturating_add(16 << 20) > at;
    if !known.ranges.iter().any(blocks) {
        assert_eq!((data, hole), (known.size, at));
    }
}

#[test]
fn random_operations_at_borders_match_written_data() {
    const TEST: &str = "random_operations_at_borders_match_written_data";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        parts.zdb_is_content("tank");
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let pool = new_pool();
    for record_size in [512, 4 << 10, 128 << 10, 16 << 20] {
        let called = format!("records{record_size}");
        let mut opened = create(&pool, &called, record_size);
        let mut files = opened.files();
        let names = [&b"empty"[..], b"small", b"large", b"last"];
        let sizes = [0, 700, 64 << 20, LAST];
        let mut known: Vec<_> = std::iter::zip(names, sizes)
            .map(|(name, size)| {
                let known = Written {
                    size,
                    ..Written::default()
                };
                (make(&*files, name, &with_size(size)), known)
            })
            .collect();
        for round in 0..ROUNDS {
            let which = random.usize(0..known.len());
            let (node, known) = &mut known[which];
            step(&mut random, &*files, *node, known);
            match round % 50 {
                25 => pool.sync().expect("sync"),
                49 => {
                    is_whole(&opened);
                    drop((files, opened));
                    opened = open(&pool, &called).expect("open");
                    files = opened.files();
                }
                _ => {}
            }
        }
        is_whole(&opened);
        for name in names {
            let removed = files.remove(&ROOT, files.root(), name, Removable::Any, None);
            removed.expect("it is there");
        }
    }
    export(pool);
}

/// The last block is the last one of an indirect block. A hole crosses it, and the end of that.
#[test]
fn hole_crosses_the_end_of_an_indirect_block() {
    const TEST: &str = "hole_crosses_the_end_of_an_indirect_block";
    isolated(TEST, || {
        let pool = new_pool();
        let opened = create(&pool, "files", 128 << 10);
        let files = opened.files();
        for (name, end) in [(&b"near"[..], 128 << 20), (b"far", 128 << 30)] {
            let node = make(&*files, name, &SetAttributes::default());
            files
                .write(node, end - 4096, &[7; 4096])
                .expect("there is room");
            set_size(&*files, node, end + (12 << 20)).expect("root may");
            for round in 0..2 {
                let first = end - (1 << 20);
                files.deallocate(node, first, 10 << 20).expect("a hole");
                pool.sync().expect("sync");
                let data = files.seek(node, 0, Content::Data);
                assert_eq!(data, Err(FileError::BeyondEnd), "round {round}");
            }
            let size = files.attributes(node).expect("it is there").size;
            assert_eq!(size, end + (12 << 20));
        }
        is_whole(&opened);
        drop((files, opened));
        export(pool);
    });
}

/// The block tree on disk has one level, and the one in memory the maximum.
#[test]
fn maximal_file_is_truncated_and_removed_before_sync() {
    const TEST: &str = "maximal_file_is_truncated_and_removed_before_sync";
    isolated(TEST, || {
        let pool = new_pool();
        let opened = create(&pool, "files", 512);
        let files = opened.files();
        for name in ["holed", "cut", "removed", "cut and removed"] {
            let node = make(&*files, name.as_bytes(), &SetAttributes::default());
            let write = |at| files.write(node, at, &[1; 4096]).expect("there is room");
            write(0);
            pool.sync().expect("sync");
            write(LAST - 4096);
            if name == "holed" {
                files.deallocate(node, 100, LAST - 100).expect("a hole");
            }
            if name.contains("cut") {
                set_size(&*files, node, 1).expect("root may");
            }
            if name.contains("removed") {
                let (root, any) = (files.root(), Removable::Any);
                let removed = files.remove(&ROOT, root, name.as_bytes(), any, None);
                removed.expect("it is there");
            } else {
                let data = files.seek(node, 4096, Content::Data);
                assert_eq!(data, Err(FileError::BeyondEnd), "{name}");
            }
        }
        is_whole(&opened);
        drop((files, opened));
        export(pool);
    });
}

/// A file that was truncated to zero, or extended, has no data after the last write; `filesystem check` reports no
/// fault.
#[test]
fn range_after_the_last_block_is_a_hole() {
    isolated("range_after_the_last_block_is_a_hole", || {
        let pool = new_pool();
        let opened = create(&pool, "files", 128 << 10);
        let files = opened.files();
        let none = SetAttributes::default();
        let cut = make(&*files, b"cut", &none);
        files.write(cut, 0, &[1; 5000]).expect("there is room");
        pool.sync().expect("sync");
        set_size(&*files, cut, 0).expect("root may");
        is_whole(&opened);
        set_size(&*files, cut, 100).expect("root may");
        let seek = |node, at, content| files.seek(node, at, content);
        assert_eq!(seek(cut, 0, Content::Data), Err(FileError::BeyondEnd));
        assert_eq!(seek(cut, 0, Content::Hole), Ok(0));
        let long = make(&*files, b"long", &none);
        files.write(long, 0, b"bytes").expect("there is room");
        set_size(&*files, long, 1 << 40).expect("root may");
        is_whole(&opened);
        // The number of blocks of a tree of one level, or of two.
        for at in [128 << 10, 128 << 20, 128 << 30, (1 << 40) - 1] {
            assert_eq!(seek(long, at, Content::Data), Err(FileError::BeyondEnd));
            assert_eq!(seek(long, at, Content::Hole), Ok(at));
        }
        assert_eq!(seek(long, 0, Content::Data), Ok(0));
        assert_eq!(seek(long, 0, Content::Hole), Ok(128 << 10));
        drop((files, opened));
        export(pool);
    });
}

/// A size set at the creation, and a read before the first write.
#[test]
fn file_created_with_a_size_has_large_blocks() {
    isolated("file_created_with_a_size_has_large_blocks", || {
        let pool = new_pool();
        let opened = create(&pool, "files", 128 << 10);
        let files = opened.files();
        let block = |node: Node| {
            let stored = opened.objects().stored(node.object);
            stored.expect("it is there").block_size
        };
        for (name, size, reads) in [
            (&b"large"[..], 64 << 20, false),
            (b"read", 64 << 20, true),
            (b"last", LAST, true),
        ] {
            let node = make(&*files, name, &with_size(size));
            if reads {
                let mut bytes = [1; 4096];
                files.read(node, 1 << 20, &mut bytes).expect("it is there");
                assert_eq!(bytes, [0; 4096]);
            }
            let first = files.write(node, 300 << 10, &[1; 100]);
            first.expect("there is room");
            assert_eq!(block(node), 128 << 10, "{name:?}");
        }
        let small = make(&*files, b"small", &with_size(700));
        assert_eq!(block(small), 1024);
        // By a log the file is longer than its only block, of an odd size.
        let odd = make(&*files, b"odd", &SetAttributes::default());
        files.write(odd, 0, &[1; 5000]).expect("there is room");
        let longer = Stored {
            size: 1 << 20,
            has: Has::SIZE,
            ..Stored::default()
        };
        let step = Step::Set {
            object: odd.object,
            stored: longer,
            acl: None,
        };
        opened.objects().change(&[step], false).expect("set");
        files
            .write(odd, 500 << 10, &[2; 100])
            .expect("there is room");
        assert_eq!(block(odd), 128 << 10);
        is_whole(&opened);
        drop(files);
        drop(opened);
        export(pool);
    });
}

const NUMBERS: [u64; 22] = [
    0,
    1,
    511,
    512,
    513,
    4095,
    4096,
    (128 << 10) - 1,
    128 << 10,
    (128 << 10) + 1,
    (16 << 20) - 1,
    16 << 20,
    (16 << 20) + 1,
    (32 << 20) + 1,
    (1 << 31) - 1,
    1 << 31,
    1 << 48,
    LAST - 1,
    LAST,
    LAST + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// The target of invalid steps.
struct Tried<'a> {
    objects: &'a dyn Objects,
    random: fastrand::Rng,
    known: Vec<u64>,
    long: Vec<u8>,
}

impl Tried<'_> {
    fn number(&mut self) -> u64 {
        NUMBERS[self.random.usize(0..NUMBERS.len())]
    }

    fn object(&mut self) -> u64 {
        match self.random.u8(0..3) {
            0 => self.number(),
            _ => self.known[self.random.usize(0..self.known.len())],
        }
    }

    fn name(&mut self) -> Vec<u8> {
        let length = [0, 1, 3, 49, 50, 254, 255, 256, 1023, 1024, 5000][self.random.usize(0..11)];
        vec![b'a' + self.random.u8(0..3); length]
    }

    fn bytes(&mut self) -> Vec<u8> {
        // The largest ones are rare, because they are slow.
        let number = match self.number() as usize {
            large if large > 1 << 20 && self.random.u8(0..16) != 0 => 5000,
            number => number.min(self.long.len()),
        };
        self.long[..number].to_vec()
    }

    fn block_size(&mut self) -> Option<u64> {
        self.random.bool().then(|| self.number())
    }

    /// One step of each kind: all are either refused or applied; most have no further defined result.
    fn step(&mut self) {
        let (object, value, name, bytes) =
            (self.object(), self.number(), self.name(), self.bytes());
        let block_size = self.block_size();
        let stored = Stored {
            mode: [0o100_644, 0o040_755, 0o120_777][self.random.usize(0..3)],
            slots: self.number(),
            block_size: block_size.unwrap_or(0),
            has: Has::NEW,
            ..Stored::default()
        };
        let length = self.number();
        let step = match self.random.u8(0..11) {
            0 => Step::Make {
                claims: self.random.bool().then_some(object),
                stored: &stored,
                acl: &bytes,
                link: Some(&name[..]),
            },
            1 => Step::Set {
                object,
                stored: Stored {
                    size: value,
                    has: Has::SIZE.with(Has::UID),
                    uid: value,
                    ..stored
                },
                acl: self.random.bool().then_some(bytes),
            },
            2 => Step::Enter {
                directory: object,
                name: &name,
                value,
                is_new: false,
                replaces: self.random.bool(),
            },
            3 => Step::Leave {
                directory: object,
                name: &name,
            },
            4 => Step::Unlink { object },
            5 => Step::Forget { object },
            6 => Step::Free { object },
            7 => Step::Write {
                object,
                offset: value,
                bytes: &bytes,
                block_size,
            },
            8 => Step::Hole {
                object,
                offset: value,
                length: Some(length),
            },
            9 => Step::Extend {
                object,
                list: &bytes,
            },
            _ => Step::Clone {
                object,
                offset: value,
                length,
                pointers: &bytes[..bytes.len() / 128 * 128],
                block_size,
            },
        };
        let _ = self.objects.change(&[step], false);
    }

    /// Calls that only read, or that are a change of their own.
    fn call(&mut self) {
        let (object, at, length) = (self.object(), self.number(), self.number());
        let name = self.name();
        let mut into = self.bytes();
        match self.random.u8(0..10) {
            0 => drop(self.objects.read(object, at, &mut into)),
            1 => drop(self.objects.lend(object, at, into.len())),
            2 => drop(self.objects.next(object, at, self.random.bool())),
            3 => drop(self.objects.next_object(at)),
            4 => drop(self.objects.list(object, at, &mut |_| true)),
            5 => drop(self.objects.look_up(object, &name)),
            6 => drop(self.objects.count(object)),
            7 => drop(self.objects.text(object, Text::Acl, into.len())),
            8 => drop(self.objects.stored(object)),
            _ => drop(self.objects.free(object, at, Some(length))),
        }
    }
}

/// No change of a file system has such steps: they could only result from a forged log.
#[test]
fn invalid_log_steps_are_refused() {
    const TEST: &str = "invalid_log_steps_are_refused";
    if part().is_none() {
        let parts = Parts::of(TEST);
        parts.pass("all");
        parts.zdb_is_content("tank");
        return;
    }
    let random = fastrand::Rng::with_seed(seed());
    let pool = new_pool();
    let opened = create(&pool, "files", 128 << 10);
    let files = opened.files();
    let root = files.root();
    let none = SetAttributes::default();
    let mut known = vec![root.object, opened.objects().facts().unlinked];
    for (index, size) in [0, 1, 5000, 128 << 10, 200 << 10].into_iter().enumerate() {
        let node = make(&*files, format!("file{index}").as_bytes(), &none);
        files.write(node, 0, &vec![7; size]).expect("there is room");
        known.push(node.object);
    }
    for (name, what) in [
        (&b"directory"[..], Make::Directory),
        (b"link", Make::Link(b"to")),
    ] {
        let made = files.make(&ROOT, root, name, what, &none, None);
        known.push(made.expect("a new object").object.node.object);
    }
    let mut tried = Tried {
        objects: opened.objects(),
        random,
        known,
        long: vec![7; (33 << 20) + 2],
    };
    // A range without block pointers: it must not be declared to a transaction, in billions of parts.
    let unbacked = Step::Clone {
        object: tried.known[2],
        offset: 0,
        length: 1 << 62,
        pointers: &[],
        block_size: None,
    };
    assert!(tried.objects.change(&[unbacked], false).is_err());
    for round in 0..1500 {
        tried.step();
        tried.call();
        if round % 100 == 99 {
            pool.sync().expect("sync");
        }
    }
    for length in [100 << 10, 127 << 10, 128 << 10, 1 << 20] {
        let step = Step::Log {
            kind: 19,
            body: vec![0; length],
            is_new: false,
            generation: 0,
        };
        let logged = opened.objects().change(&[step], false);
        logged.expect("the transaction group has it");
        opened.objects().commit().expect("durable");
    }
    drop((files, opened));
    export(pool);
}

/// Records about objects that each file system has: a file of 5,000 bytes in one block, a large one, and a directory.
fn records(objects: &HashMap<&str, u64>) -> Vec<Record<'static>> {
    let mut records = Vec::new();
    for object in objects.values().copied().chain([0, 1, 1 << 47]) {
        for (offset, length) in [
            (0, LAST),
            (LAST - 1, 1),
            (LAST, 0),
            (5000, 0),
            (127 << 20, 10 << 20),
            (1 << 40, 1 << 40),
            (100, 4000),
        ] {
            records.push(Record::Truncate {
                object,
                offset,
                length,
            });
            records.push(Record::WriteAgain {
                object,
                offset,
                length,
            });
        }
        for offset in [0, 5119, 128 << 20, LAST - 10] {
            records.push(Record::Write {
                object,
                offset,
                length: 10,
                end: offset + 10,
                bytes: Bytes::Here(&[b'r'; 10]),
            });
        }
        for size in [0, 1, 5121, LAST, LAST + 1, u64::MAX] {
            records.push(Record::Set(Setting {
                object,
                mask: set::SIZE,
                size,
                ..Setting::default()
            }));
        }
        for block_size in [512, 513, 5120, 128 << 10, 1 << 20, 1 << 30] {
            records.push(Record::Clone {
                object,
                offset: 0,
                length: block_size,
                block_size,
                pointers: &[0xa5; 128],
            });
        }
        records.push(Record::Create(Creation {
            directory: objects["directory"],
            object: object + 1,
            slots: 200,
            mode: 0o100_644,
            generation: 5,
            name: b"new",
            ..Creation::default()
        }));
        records.push(Record::Create(Creation {
            directory: object,
            object: 1000,
            slots: 1,
            mode: 0o120_777,
            generation: 5,
            name: &[b'n'; 300],
            link: Some(&[b'l'; 70_000]),
            ..Creation::default()
        }));
        records.push(Record::Link {
            directory: object,
            object,
            name: b"again",
        });
    }
    records
}

/// Whatever their origin, the file system either replays them or is refused, and the process survives.
#[test]
fn records_at_borders_are_replayed_or_refused() {
    const TEST: &str = "records_at_borders_are_replayed_or_refused";
    const AT_A_TIME: usize = 12;
    const MADE: [&str; 3] = ["small", "large", "directory"];
    let objects_of = |opened: &Opened| -> HashMap<&str, u64> {
        let files = opened.files();
        let find = |name: &&'static str| {
            let found = files.look_up(&ROOT, files.root(), name.as_bytes());
            (*name, found.expect("it was made").node.object)
        };
        MADE.iter().map(find).collect()
    };
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            assert!(!parts.run("crash").success, "it kills itself");
            parts.pass("look");
            parts.zdb_is_content("tank");
        }
        Some("crash") => {
            let pool = new_pool();
            let first = make_files(&pool, 0);
            let count = records(&objects_of(&first)).len();
            let others = (1..count.div_ceil(AT_A_TIME)).map(|index| make_files(&pool, index));
            let all: Vec<_> = std::iter::once(first).chain(others).collect();
            pool.sync().expect("sync");
            for opened in &all {
                opened.objects().commit().expect("durable");
            }
            for (index, opened) in all.iter().enumerate() {
                let records = records(&objects_of(opened));
                for record in records.iter().skip(index).step_by(all.len()) {
                    log(opened, record);
                }
                opened.objects().commit().expect("durable");
            }
            std::fs::write(dir().join("count"), all.len().to_string()).expect("write");
            kill_oneself()
        }
        Some(_) => {
            let pool = support::import(engine());
            let count = std::fs::read_to_string(dir().join("count")).expect("written");
            let count: usize = count.parse().expect("a number");
            let opened = |index: &usize| open(&pool, &format!("files{index}"));
            let refused = (0..count).filter(|index| opened(index).is_err()).count();
            say(&format!("{refused} of {count} refused"));
            // They stay unchanged, and do not harm other file systems.
            let again = (0..count).filter(|index| opened(index).is_err()).count();
            assert_eq!(refused, again);
            let fresh = create(&pool, "fresh", 128 << 10);
            make(&*fresh.files(), b"new", &SetAttributes::default());
            drop(fresh);
            export(pool);
        }
    }
}

fn make_files(pool: &Pool, index: usize) -> Opened {
    let opened = create(pool, &format!("files{index}"), 128 << 10);
    let files = opened.files();
    let none = SetAttributes::default();
    let small = make(&*files, b"small", &none);
    files.write(small, 0, &[1; 5000]).expect("there is room");
    let large = make(&*files, b"large", &none);
    let end = (128 << 20) - 4096;
    files.write(large, end, &[1; 4096]).expect("there is room");
    let made = files.make(
        &ROOT,
        files.root(),
        b"directory",
        Make::Directory,
        &none,
        None,
    );
    made.expect("a new object");
    drop(files);
    opened
}
