//! Hand-made streams against the guard.

use super::*;
use crate::begin::HeaderKind;

const BLOCK: u32 = 4096;

struct Made(Vec<u8>);

/// A record of `kind` with fields at their offsets.
fn record(kind: u32, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    for (at, field) in fields {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    bytes
}

impl Made {
    fn begin(version: u64) -> Self {
        Self(record(
            kind::BEGIN,
            &[
                (8, &0x2_f5ba_cbac_u64.to_le_bytes()),
                (16, &version.to_le_bytes()),
                (32, &3_u32.to_le_bytes()),
                (40, &77_u64.to_le_bytes()),
                (56, b"tank/vm0@monday"),
            ],
        ))
    }

    fn object(mut self, object: u64, object_type: u32, block: u32) -> Self {
        self.0.extend(record(
            kind::OBJECT,
            &[
                (8, &object.to_le_bytes()),
                (16, &object_type.to_le_bytes()),
                (24, &block.to_le_bytes()),
            ],
        ));
        self
    }

    fn write(mut self, object: u64, object_type: u32, offset: u64, length: u64) -> Self {
        self.0.extend(record(
            kind::WRITE,
            &[
                (8, &object.to_le_bytes()),
                (16, &object_type.to_le_bytes()),
                (24, &offset.to_le_bytes()),
                (32, &length.to_le_bytes()),
            ],
        ));
        self.0.extend(vec![7; length as usize]);
        self
    }

    fn compressed(mut self, compression: u8, stored: u64) -> Self {
        let block = u64::from(BLOCK);
        self.0.extend(record(
            kind::WRITE,
            &[
                (8, &1_u64.to_le_bytes()),
                (16, &DATA_TYPE.to_le_bytes()),
                (32, &block.to_le_bytes()),
                (50, &[compression]),
                (96, &stored.to_le_bytes()),
            ],
        ));
        self.0.extend(vec![7; stored.min(1 << 20) as usize]);
        self
    }

    fn free(mut self, object: u64, offset: u64, length: u64) -> Self {
        self.0.extend(record(
            kind::FREE,
            &[
                (8, &object.to_le_bytes()),
                (16, &offset.to_le_bytes()),
                (24, &length.to_le_bytes()),
            ],
        ));
        self
    }

    fn end(mut self) -> Self {
        self.0.extend(record(kind::END, &[]));
        self
    }

    /// The bytes that passed, or the reason for the refusal.
    fn guarded(&self) -> Result<Vec<u8>, Kind> {
        let mut source = self.0.as_slice();
        let begin = Begin::read(&mut source).map_err(|error| error.kind)?;
        assert_eq!(begin.header, HeaderKind::Snapshot);
        let mut sink = Vec::new();
        pass(&begin, &mut source, &mut sink).map_err(|error| error.kind)?;
        Ok(sink)
    }
}

fn plain() -> Made {
    Made::begin(1).object(1, DATA_TYPE, BLOCK)
}

fn is_malformed(made: Made) -> bool {
    matches!(made.guarded(), Err(Kind::Malformed(_)))
}

#[test]
fn volume_stream_passes_the_guard_unchanged() {
    let made = plain()
        .write(1, DATA_TYPE, 0, 4096)
        .write(1, DATA_TYPE, 8192, 4096)
        .free(1, 12288, TO_THE_END)
        .object(2, TABLE_TYPE, 512)
        .write(2, TABLE_TYPE, 0, 512)
        .free(2, 512, TO_THE_END)
        .end();
    let out = made.guarded().expect("well-formed");
    assert_eq!(out, made.0[RECORD_BYTES..]);
}

#[test]
fn stream_without_begin_record_is_refused() {
    let mut other = Made::begin(1);
    other.0[8] ^= 1;
    assert_eq!(other.guarded().err(), Some(Kind::NotAStream));
    let mut swapped = Made::begin(1);
    swapped.0[8..16].reverse();
    assert_eq!(swapped.guarded().err(), Some(Kind::ByteOrder));
    let mut meta = Made::begin(1);
    meta.0[32] = 1;
    assert!(matches!(meta.guarded(), Err(Kind::Unsupported(_))));
    for feature in [0, 21, 40] {
        let made = Made::begin(1 | 1 << (feature + 2));
        assert!(
            matches!(made.guarded(), Err(Kind::Unsupported(_))),
            "{feature}"
        );
    }
    assert_eq!(Made(vec![0; 100]).guarded().err(), Some(Kind::Cut));
    let mut endless_name = Made::begin(1);
    endless_name.0[56..312].fill(b'a');
    assert!(is_malformed(endless_name));
}

#[test]
fn truncation_at_any_byte_is_detected() {
    let made = plain().write(1, DATA_TYPE, 0, 4096).end();
    for length in (0..made.0.len()).step_by(97) {
        let cut = Made(made.0[..length].to_vec());
        assert_eq!(cut.guarded().err(), Some(Kind::Cut), "{length}");
    }
}

#[test]
fn records_that_would_abort_the_library_are_refused() {
    let first = |made: Made| made.write(1, DATA_TYPE, 4096, 4096);
    assert!(is_malformed(Made::begin(1).write(1, DATA_TYPE, 0, 4096)));
    assert!(is_malformed(first(plain()).write(1, DATA_TYPE, 0, 4096)));
    assert!(is_malformed(plain().write(1, DATA_TYPE, 100, 4096)));
    assert!(is_malformed(plain().write(1, DATA_TYPE, 0, 8192)));
    assert!(is_malformed(plain().write(1, TABLE_TYPE, 0, 4096)));
    assert!(is_malformed(plain().write(1, DATA_TYPE, !0 - 4095, 4096)));
    assert!(is_malformed(plain().object(3, 19, 512)));
    assert!(is_malformed(plain().object(2, DATA_TYPE, 512)));
    assert!(is_malformed(plain().object(2, TABLE_TYPE, 0)));
    assert!(is_malformed(Made::begin(1).object(1, DATA_TYPE, 1 << 20)));
    assert!(is_malformed(Made::begin(1).object(1, DATA_TYPE, 5120)));
    assert!(is_malformed(plain().free(1, 1, TO_THE_END)));
    assert!(is_malformed(plain().free(1, 4096, !0 - 4095)));
    assert!(is_malformed(
        plain().object(2, TABLE_TYPE, 512).free(2, 0, TO_THE_END)
    ));
}

#[test]
fn impossible_compressed_lengths_are_refused() {
    for (compression, stored, fine) in [
        (15, 512, true),
        (15, 3584, true),
        (16, 1024, true),
        (15, 4096, false),
        (15, 0, false),
        (15, 100, false),
        (2, 4096, false),
        (1, 512, false),
        (17, 512, false),
        (15, !511, false),
        // For `lzjb` the library reads past the end; the next kind has no contents.
        (3, 512, false),
        (4, 512, false),
    ] {
        let made = plain().compressed(compression, stored).end();
        assert_eq!(made.guarded().is_ok(), fine, "{compression} {stored}");
    }
}

/// Byte-swapped contents of a ZAP would be used before they are checked.
#[test]
fn volume_zap_in_foreign_byte_order_is_refused() {
    let object = |number: u64, object_type: u32, block: u32| {
        record(
            kind::OBJECT,
            &[
                (8, &number.to_le_bytes()),
                (16, &object_type.to_le_bytes()),
                (24, &block.to_le_bytes()),
                (48, &[12, 1, 1]),
            ],
        )
    };
    let with = |number: u64, object_type: u32, length: u32, flags: u8| {
        let mut made = Made::begin(RAW);
        made.0[4..8].copy_from_slice(&8_u32.to_le_bytes());
        made.0.extend([0; 8]);
        made.0.extend(object(1, DATA_TYPE, BLOCK));
        made.0.extend(object(2, TABLE_TYPE, 512));
        made.0.extend(record(
            kind::WRITE,
            &[
                (8, &number.to_le_bytes()),
                (16, &object_type.to_le_bytes()),
                (32, &u64::from(length).to_le_bytes()),
                (49, &[flags, 2]),
                (96, &u64::from(length).to_le_bytes()),
            ],
        ));
        made.0.extend(vec![7; length as usize]);
        made.end().guarded()
    };
    assert!(with(2, TABLE_TYPE, 512, 0).is_ok());
    let swapped = with(2, TABLE_TYPE, 512, 2);
    assert!(matches!(swapped, Err(Kind::Unsupported(_))), "{swapped:?}");
}

const MASTER: u32 = 21;
const FILE: u32 = 19;
const SYSTEM_ATTRIBUTES: u32 = 44;
/// Raw, with the features of an encrypted stream.
const RAW: u64 = 1 | 1 << (24 + 2);

/// An object of a file system: number, type, block size, bonus type and length, slots, and the value that only a raw
/// stream has.
struct Described(u64, u32, u32, u32, u32, u8, Option<u32>);

impl Described {
    const FILE: Self = Self(7, FILE, BLOCK, SYSTEM_ATTRIBUTES, 168, 1, None);
}

impl Made {
    fn files(version: u64) -> Self {
        let mut made = Self::begin(version);
        made.0[32] = 2;
        if version == RAW {
            made.0[4] = 8;
            made.0.extend([0; 8]);
        }
        made
    }

    fn of(mut self, what: &Described) -> Self {
        let Described(number, of_type, block, bonus, length, slots, raw) = *what;
        let tree: &[u8] = if raw.is_some() { &[17, 1, 1] } else { &[] };
        self.0.extend(record(
            kind::OBJECT,
            &[
                (8, &number.to_le_bytes()),
                (16, &of_type.to_le_bytes()),
                (20, &bonus.to_le_bytes()),
                (24, &block.to_le_bytes()),
                (28, &length.to_le_bytes()),
                (34, &[slots]),
                (36, &raw.unwrap_or(0).to_le_bytes()),
                (48, tree),
            ],
        ));
        let payload = raw.unwrap_or_else(|| length.next_multiple_of(8));
        self.0.extend(vec![5; payload.min(1 << 20) as usize]);
        self
    }

    fn spill(mut self, object: u64, length: u64, compression: u8, stored: u64) -> Self {
        self.0.extend(record(
            kind::SPILL,
            &[
                (8, &object.to_le_bytes()),
                (16, &length.to_le_bytes()),
                (33, &[compression]),
                (40, &stored.to_le_bytes()),
                (84, &SYSTEM_ATTRIBUTES.to_le_bytes()),
            ],
        ));
        let payload = if stored == 0 { length } else { stored };
        self.0.extend(vec![6; payload.min(1 << 20) as usize]);
        self
    }

    fn range(mut self, of_kind: u32, first: u64, count: u64) -> Self {
        let fields: [(usize, &[u8]); 2] = [(8, &first.to_le_bytes()), (16, &count.to_le_bytes())];
        self.0.extend(record(of_kind, &fields));
        self
    }
}

fn passes_unchanged(made: Made) {
    let made = made.end();
    let begun = Begin::read(&mut made.0.as_slice()).expect("it begins");
    let out = made.guarded().expect("well-formed");
    assert_eq!(out, made.0[RECORD_BYTES + begun.payload.len()..]);
}

#[test]
fn file_system_stream_passes_the_guard_unchanged() {
    let large = Described(32, FILE, 131_072, SYSTEM_ATTRIBUTES, 500, 2, None);
    let odd = Described(9, FILE, 1536, SYSTEM_ATTRIBUTES, 168, 1, None);
    passes_unchanged(
        Made::files(1)
            .of(&Described(1, MASTER, 1024, 0, 0, 1, None))
            .write(1, MASTER, 0, 1024)
            .range(kind::FREEOBJECTS, 2, 5)
            .of(&Described::FILE)
            .spill(7, 512, 0, 0)
            .write(7, FILE, 0, 4096)
            .write(7, FILE, 8192, 4096)
            .free(7, 12288, TO_THE_END)
            .of(&odd)
            .write(9, FILE, 0, 1536)
            .free(9, 1536, TO_THE_END)
            .of(&Described(10, 0xc0, 4096, 0, 0, 1, None))
            .of(&large)
            .range(kind::FREEOBJECTS, 34, 1 << 40),
    );
    passes_unchanged(
        Made::files(RAW)
            .range(kind::OBJECT_RANGE, 32, 32)
            .of(&Described(
                33,
                FILE,
                BLOCK,
                SYSTEM_ATTRIBUTES,
                168,
                1,
                Some(320),
            ))
            .spill(33, 1024, 15, 512),
    );
}

#[test]
fn file_system_records_that_would_abort_are_refused() {
    let file = || Made::files(1).of(&Described::FILE);
    let described = |what: Described| Made::files(1).of(&what);
    let raw = |what: Described| Made::files(RAW).of(&what);
    let refused = [
        Made::files(1).write(7, FILE, 0, 4096),
        file().write(8, FILE, 0, 4096),
        file().of(&Described::FILE),
        file().write(7, FILE, 4096, 4096).write(7, FILE, 0, 4096),
        file().write(7, FILE, 0, 8192),
        file().write(7, FILE, 100, 4096),
        file().write(7, FILE, !0 - 4095, 4096),
        file().write(7, MASTER, 0, 4096),
        file().free(7, 1, TO_THE_END),
        file().spill(7, 100, 0, 0),
        file().spill(7, 512, 15, 1024),
        file().spill(7, 1 << 20, 0, 0),
        file().range(kind::FREEOBJECTS, 1, 1),
        file().range(kind::FREEOBJECTS, 2, u64::MAX),
        file().range(kind::OBJECT_RANGE, 0, 32),
        // A single block with a size that is not a power of two cannot have a successor.
        described(Described(9, FILE, 1536, SYSTEM_ATTRIBUTES, 168, 1, None))
            .write(9, FILE, 1536, 1536),
        // Only contents are sent compressed.
        described(Described(1, MASTER, BLOCK, 0, 0, 1, None)).compressed(15, 512),
        described(Described(0, FILE, BLOCK, SYSTEM_ATTRIBUTES, 168, 1, None)),
        described(Described(
            1 << 48,
            FILE,
            BLOCK,
            SYSTEM_ATTRIBUTES,
            168,
            1,
            None,
        )),
        described(Described(7, 23, BLOCK, 0, 0, 1, None)),
        described(Described(7, 10, BLOCK, 0, 0, 1, None)),
        described(Described(7, 0xca, BLOCK, 0, 0, 1, None)),
        described(Described(7, 0x180, BLOCK, 0, 0, 1, None)),
        described(Described(7, FILE, 100, SYSTEM_ATTRIBUTES, 168, 1, None)),
        described(Described(7, FILE, 1 << 20, SYSTEM_ATTRIBUTES, 168, 1, None)),
        described(Described(7, FILE, BLOCK, SYSTEM_ATTRIBUTES, 328, 1, None)),
        described(Described(7, FILE, BLOCK, 0, 168, 1, None)),
        described(Described(7, FILE, BLOCK, SYSTEM_ATTRIBUTES, 0, 1, None)),
        // It would extend into the next dnode block.
        described(Described(31, FILE, BLOCK, SYSTEM_ATTRIBUTES, 168, 2, None)),
        described(Described(
            7,
            FILE,
            BLOCK,
            SYSTEM_ATTRIBUTES,
            168,
            1,
            Some(168),
        )),
        raw(Described(
            7,
            FILE,
            BLOCK,
            SYSTEM_ATTRIBUTES,
            168,
            1,
            Some(160),
        )),
        raw(Described(
            7,
            FILE,
            BLOCK,
            SYSTEM_ATTRIBUTES,
            168,
            1,
            Some(328),
        )),
        Made::files(RAW).range(kind::OBJECT_RANGE, 1, 32),
    ];
    for (number, made) in refused.into_iter().enumerate() {
        assert!(is_malformed(made), "{number}");
    }
}

#[test]
fn package_without_nvlist_is_malformed() {
    let mut made = Made::begin(2);
    let begun = Begin::read(&mut made.0.as_slice());
    assert!(begun.is_err_and(|error| matches!(error.kind, Kind::Malformed(_))));
    made.0[4] = 5;
    made.0.extend(b"lists");
    let begun = Begin::read(&mut made.0.as_slice()).expect("a package");
    assert_eq!(
        (begun.header, begun.payload),
        (HeaderKind::Package, b"lists".to_vec())
    );
    assert_eq!(begun.to_name, "tank/vm0@monday");
}
