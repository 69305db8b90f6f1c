//! Sends and receives between two pools of one process: streams arrive unchanged, interrupted ones can be resumed,
//! mismatched ones are refused, and no forged stream terminates the process.

mod support;

use std::io::{Read, Write};

use block_device::{BlockDevice, Extent, WaitMode};
use engine::capabilities::{Datasets, FileSystems, Ownership, Receiving, Sending, Snapshotting};
use engine::dataset::{DatasetRef, Snapshots, VolumeSpec};
use engine::keys::{KeyFormat, KeyMaterial, NewKey};
use engine::transfer::{Base, ReceiveSpec, SendForm, SendSpec, TransferError, TransferErrorKind};
use engine::volume::OpenOptions;
use support::records::{RECORD, records, with_checksums};
use support::{Parts, export, isolated};
use units::{ByteCount, SnapshotName, VolumeName};
use zpool::Pool;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;

fn volume(name: &str) -> VolumeName {
    name.parse().expect("a name")
}

fn snapshot(name: &str) -> SnapshotName {
    name.parse().expect("a name")
}

struct Two {
    tank: Pool,
    vault: Pool,
}

fn two_pools() -> Two {
    let (tank, vault) = support::two_pools();
    Two { tank, vault }
}

impl Two {
    fn end(self) {
        export(self.tank);
        export(self.vault);
    }

    /// A volume with contents: noise, compressible data, and holes.
    fn source(&self, name: &str, block: u64) -> VolumeName {
        let spec = VolumeSpec {
            block_size: ByteCount(block),
            ..VolumeSpec::sparse(volume(name), ByteCount(SIZE))
        };
        self.tank.create_volume(&spec).expect("create");
        self.change(&spec.name, 1);
        spec.name
    }

    /// Writes data that depends on `seed`, and frees some blocks.
    fn change(&self, name: &VolumeName, seed: u64) {
        let device = self.open(&self.tank, name);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut noise = vec![0; 1 << 20];
        random.fill(&mut noise);
        for piece in 0..3 {
            let at = random.u64(0..SIZE / MIB) * MIB;
            device.write(at, &noise, WaitMode::MayBlock).expect("write");
            let text = format!("{seed} {piece} ").repeat(20_000);
            let at = random.u64(0..SIZE / MIB) * MIB;
            let text = &text.as_bytes()[..64 << 10];
            device.write(at, text, WaitMode::MayBlock).expect("write");
        }
        let freed = Extent::new(random.u64(0..SIZE / MIB) * MIB, MIB / 2);
        let freeing = device.unmap(freed, WaitMode::MayBlock);
        freeing.expect("free");
        device.flush().expect("flush");
    }

    fn open(&self, pool: &Pool, name: &VolumeName) -> zpool::Volume {
        pool.open_volume(name, OpenOptions::default())
            .expect("open")
    }

    fn take(&self, name: &str) -> SnapshotName {
        let name = snapshot(name);
        self.tank
            .snapshot(std::slice::from_ref(&name))
            .expect("snapshot");
        name
    }

    fn resize(&self, name: &VolumeName, size: u64) {
        let resized = self.tank.resize_volume(name, ByteCount(size));
        resized.expect("resized");
    }

    fn contents(&self, pool: &Pool, name: &SnapshotName) -> Vec<u8> {
        let device = pool
            .open_snapshot(name, OpenOptions::default())
            .expect("open");
        let loan = device.read(Extent::new(0, SIZE), WaitMode::MayBlock);
        let loan = loan.expect("read");
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        parts.concat()
    }

    /// A raw stream of a new encrypted volume.
    fn raw_stream(&self) -> Vec<u8> {
        let spec = VolumeSpec {
            block_size: ByteCount(4096),
            key: Some(NewKey {
                suite: None,
                format: KeyFormat::Hex,
                material: KeyMaterial::new("30".repeat(32).into_bytes().into()),
                iterations: None,
                location: "prompt".to_owned(),
            }),
            ..VolumeSpec::sparse(volume("tank/v"), ByteCount(SIZE))
        };
        self.tank.create_volume(&spec).expect("create");
        self.change(&spec.name, 1);
        let first = self.take("tank/v@first");
        self.stream(&SendSpec {
            form: SendForm::RAW,
            ..SendSpec::full(first)
        })
    }

    fn stream(&self, spec: &SendSpec) -> Vec<u8> {
        let mut stream = Vec::new();
        let sent = self.tank.send(spec, &mut stream).expect("send");
        assert_eq!(sent, stream.len() as u64);
        stream
    }

    fn receive(&self, spec: &ReceiveSpec, stream: &[u8]) -> Result<(), TransferError> {
        let mut source = stream;
        let received = self.vault.receive(spec, &|_, _| Vec::new(), &mut source)?;
        assert_eq!(received.bytes, stream.len() as u64);
        Ok(())
    }

    fn refused(&self, spec: &ReceiveSpec, stream: &[u8]) -> TransferErrorKind {
        self.receive(spec, stream).expect_err("refused").kind
    }
}

fn into(name: &str) -> ReceiveSpec {
    ReceiveSpec {
        volume: volume(name),
        tag: None,
        force: false,
        resumable: false,
        only_volumes: false,
    }
}

fn since(base: &str, snapshot: SnapshotName) -> SendSpec {
    SendSpec {
        base: Some(Base::parse(&snapshot.volume(), base).expect("a base")),
        ..SendSpec::full(snapshot)
    }
}

#[test]
fn received_volume_equals_the_sent_one() {
    let parts = Parts::of("received_volume_equals_the_sent_one");
    if support::part().is_none() {
        parts.pass("all");
        parts.zdb_is_content("tank");
        parts.zdb_is_content("vault");
        return;
    }
    let two = two_pools();
    for (block, form) in [
        (16 << 10, SendForm::default()),
        (1 << 20, SendForm::default()),
        (
            1 << 20,
            SendForm {
                large_blocks: false,
                ..SendForm::default()
            },
        ),
        (
            4096,
            SendForm {
                compressed: false,
                ..SendForm::default()
            },
        ),
        (4096, SendForm::RAW),
    ] {
        let index = format!(
            "{block}{}{}",
            u8::from(form.large_blocks),
            u8::from(form.raw)
        );
        let name = two.source(&format!("tank/v{index}"), block);
        let first = two.take(&format!("{name}@first"));
        let target = format!("vault/w{index}");
        let whole = SendSpec {
            form,
            ..SendSpec::full(first.clone())
        };
        two.receive(&into(&target), &two.stream(&whole))
            .expect("received");
        let arrived = snapshot(&format!("{target}@first"));
        assert_eq!(
            two.contents(&two.vault, &arrived),
            two.contents(&two.tank, &first)
        );

        // The base is destroyed, and its bookmark is used instead.
        two.tank.create_bookmark(&first, "first").expect("bookmark");
        two.change(&name, 2);
        let second = two.take(&format!("{name}@second"));
        two.tank.destroy_snapshots(&[first]).expect("destroy");
        let changes = SendSpec {
            form,
            ..since("#first", second.clone())
        };
        let stream = two.stream(&changes);
        let estimate = two.tank.send_estimate(&changes).expect("estimate");
        assert!(
            estimate.abs_diff(stream.len() as u64) < 8 * MIB,
            "{estimate}"
        );
        two.receive(&into(&target), &stream).expect("received");
        let arrived = snapshot(&format!("{target}@second"));
        assert_eq!(
            two.contents(&two.vault, &arrived),
            two.contents(&two.tank, &second)
        );
        let shape = two
            .vault
            .dataset((&volume(&target)).into())
            .expect("there")
            .volume;
        assert_eq!(shape.expect("a volume").size, ByteCount(SIZE));
    }
    two.end();
}

#[test]
fn mismatched_streams_are_refused_with_their_kind() {
    isolated("mismatched_streams_are_refused_with_their_kind", || {
        let two = two_pools();
        let name = two.source("tank/v", 16 << 10);
        let first = two.take("tank/v@first");
        let whole = two.stream(&SendSpec::full(first.clone()));
        two.change(&name, 2);
        let second = two.take("tank/v@second");
        let changes = two.stream(&since("@first", second.clone()));
        two.change(&name, 3);
        let third = two.stream(&since("@second", two.take("tank/v@third")));

        let target = into("vault/w");
        assert_eq!(two.refused(&target, &changes), TransferErrorKind::NoBase);
        assert_eq!(
            two.refused(&into("vault/no/w"), &whole),
            TransferErrorKind::Dataset(engine::dataset::DatasetErrorKind::ParentMissing)
        );
        two.receive(&target, &whole).expect("received");
        assert_eq!(two.refused(&target, &whole), TransferErrorKind::Exists);
        assert_eq!(two.refused(&target, &third), TransferErrorKind::NoBase);

        let device = two.open(&two.vault, &target.volume);
        device
            .write(0, &[9; 4096], WaitMode::MayBlock)
            .expect("write");
        device.flush().expect("flush");
        drop(device);
        two.vault.sync().expect("sync");
        assert_eq!(two.refused(&target, &changes), TransferErrorKind::Diverged);
        let forced = ReceiveSpec {
            force: true,
            ..target.clone()
        };
        two.receive(&forced, &changes).expect("received");
        let arrived = snapshot("vault/w@second");
        assert_eq!(
            two.contents(&two.vault, &arrived),
            two.contents(&two.tank, &second)
        );
        two.receive(&target, &third).expect("received");
        let backwards = two
            .tank
            .send(&since("@second", first), &mut std::io::sink());
        assert_eq!(
            backwards.expect_err("refused").kind,
            TransferErrorKind::NotAncestor
        );
        two.end();
    });
}

/// Stops after so many bytes.
struct Cut<W>(W, usize);

impl<W: Write> Write for Cut<W> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if self.1 == 0 {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        let taken = data.len().min(self.1);
        self.1 -= taken;
        self.0.write(&data[..taken])
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Another system supplies the resume position.
#[test]
fn resume_at_an_invalid_position_ends_or_is_refused() {
    const TEST: &str = "resume_at_an_invalid_position_ends_or_is_refused";
    isolated(TEST, || {
        let two = two_pools();
        let volume = two.source("tank/v", 16 << 10);
        let first = two.take("tank/v@first");
        two.change(&volume, 2);
        let second = two.take("tank/v@second");
        let files = engine::dataset::FileSystemSpec::plain("tank/f".parse().expect("a name"));
        two.tank.create_file_system(&files).expect("create");
        let of_files = two.take("tank/f@first");
        let sends = [
            SendSpec::full(first),
            since("@first", second),
            SendSpec::full(of_files),
        ];
        let objects = [
            0,
            1,
            2,
            3,
            1000,
            (1 << 48) - 1,
            1 << 48,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        let offsets = [0, 1, 16 << 10, 1 << 40, i64::MAX as u64, 1 << 63, u64::MAX];
        for send in sends {
            for object in objects {
                for offset in offsets {
                    let spec = SendSpec {
                        resume: Some(engine::Opaque::new((object, offset))),
                        ..send.clone()
                    };
                    let _ = two.tank.send(&spec, &mut std::io::sink());
                }
            }
        }
        export(two.tank);
        export(two.vault);
    });
}

#[test]
fn truncated_stream_is_resumed_at_the_cut() {
    isolated("truncated_stream_is_resumed_at_the_cut", || {
        let two = two_pools();
        let name = two.source("tank/v", 16 << 10);
        let first = two.take("tank/v@first");
        two.change(&name, 2);
        let second = two.take("tank/v@second");
        let target = ReceiveSpec {
            resumable: true,
            only_volumes: false,
            ..into("vault/w")
        };
        for (spec, arrived) in [
            (SendSpec::full(first.clone()), "vault/w@first"),
            (since("@first", second.clone()), "vault/w@second"),
        ] {
            let length = two.stream(&spec).len();
            let mut from = spec.clone();
            let mut rounds = 0;
            loop {
                let mut part = Vec::new();
                let sent = two.tank.send(&from, &mut Cut(&mut part, length * 2 / 5));
                let outcome = two.receive(&target, &part);
                if sent.is_ok() {
                    outcome.expect("the rest arrived");
                    break;
                }
                assert_eq!(sent.expect_err("cut").kind, TransferErrorKind::Sink);
                outcome.expect_err("cut");
                let left = two.vault.interrupted(&target.volume).expect("look");
                let left = left.expect("something is left");
                assert_eq!(left.is_partial, spec.base.is_none());
                let token =
                    zpool::transfer::parse_token(&left.token.expect("a token")).expect("valid");
                assert_eq!(token.to_name, spec.snapshot.as_str());
                // A listing must tolerate the partial dataset.
                let all = two
                    .vault
                    .datasets(two.vault.name().into(), engine::dataset::Snapshots::Include);
                assert!(all.is_ok());
                from = two.tank.resumed_send(&token).expect("still there");
                rounds += 1;
                assert!(rounds < 8, "it does not get on");
            }
            assert!(rounds > 1, "it was cut {rounds} times");
            let arrived = snapshot(arrived);
            assert_eq!(
                two.contents(&two.vault, &arrived),
                two.contents(&two.tank, &spec.snapshot)
            );
        }
        assert_eq!(two.vault.interrupted(&target.volume).expect("look"), None);
        interrupted_receive_can_be_aborted(&two, &first);
        two.end();
    });
}

fn interrupted_receive_can_be_aborted(two: &Two, first: &SnapshotName) {
    let target = ReceiveSpec {
        resumable: true,
        only_volumes: false,
        ..into("vault/part")
    };
    let whole = two.stream(&SendSpec::full(first.clone()));
    let half = &whole[..whole.len() / 2];
    two.refused(&target, half);
    assert_eq!(two.refused(&target, &whole), TransferErrorKind::Partial);
    two.vault.abort_receive(&target.volume).expect("forgotten");
    let again = two
        .vault
        .abort_receive(&target.volume)
        .expect_err("nothing is left");
    assert!(matches!(
        again.kind,
        TransferErrorKind::NothingPartial
            | TransferErrorKind::Dataset(engine::dataset::DatasetErrorKind::NotFound)
    ));
    two.receive(&target, &whole).expect("received");
}

#[test]
fn forged_streams_do_not_abort_the_process() {
    isolated("forged_streams_do_not_abort_the_process", || {
        let two = two_pools();
        let name = two.source("tank/v", 4096);
        let first = two.take("tank/v@first");
        let form = SendForm {
            embedded: true,
            ..SendForm::default()
        };
        let whole = two.stream(&SendSpec {
            form,
            ..SendSpec::full(first)
        });
        two.change(&name, 2);
        let second = two.take("tank/v@second");
        let changes = two.stream(&SendSpec {
            form,
            ..since("@first", second)
        });
        two.receive(&into("vault/w"), &whole).expect("received");
        let mut random = fastrand::Rng::with_seed(seed());
        let mut refused = 0;
        for round in 0..120 {
            let (stream, target) = match round % 2 {
                0 => (&whole, into("vault/new")),
                _ => (&changes, into("vault/w")),
            };
            let mut bytes = stream.clone();
            let records = records(stream);
            for _ in 0..random.usize(1..4) {
                let record = records[random.usize(..records.len())];
                // The offsets of the fields of every record.
                bytes[record + random.usize(0..112)] = random.u8(..);
            }
            let bytes = with_checksums(bytes);
            match two
                .vault
                .receive(&target, &|_, _| Vec::new(), &mut bytes.as_slice())
            {
                Err(_) => refused += 1,
                Ok(_) if round % 2 == 0 => {
                    let made = &target.volume;
                    two.vault
                        .destroy_dataset(made, engine::dataset::Depth::Recursive)
                        .expect("destroyed");
                }
                // Its contents differ now, which cannot be detected; restart.
                Ok(_) => {
                    two.vault
                        .destroy_dataset(&target.volume, engine::dataset::Depth::Recursive)
                        .expect("destroyed");
                    two.receive(&target, &whole).expect("received");
                }
            }
        }
        assert!(refused > 20, "only {refused} were refused");
        two.end();
    });
}

/// The offset of a number in the list at the start of a raw stream: after its name, aligned to the pairs, which start
/// at byte 12.
fn number_at(stream: &[u8], name: &str) -> usize {
    const PAIRS: usize = RECORD + 12;
    let text = format!("{name}\0");
    let mut found = (RECORD..stream.len()).filter(|at| stream[*at..].starts_with(text.as_bytes()));
    let end = found.next().expect("the name") + text.len();
    PAIRS + (end - PAIRS).next_multiple_of(8)
}

fn with_number(stream: &[u8], name: &str, value: u64) -> Vec<u8> {
    let at = number_at(stream, name);
    let mut made = stream.to_vec();
    made[at..at + 8].copy_from_slice(&value.to_le_bytes());
    with_checksums(made)
}

/// The list in front of a raw stream of an encrypted volume defines the layout of its dnode table, which the library
/// then builds.
#[test]
fn raw_stream_with_impossible_dnode_table_is_refused() {
    isolated("raw_stream_with_impossible_dnode_table_is_refused", || {
        let two = two_pools();
        let whole = two.raw_stream();
        let at = number_at(&whole, "mdn_blksz");
        assert_eq!(whole[at..at + 8], (16_u64 << 10).to_le_bytes());
        for (name, value) in [
            ("mdn_blksz", 1536),
            ("mdn_blksz", 512),
            ("mdn_maxblkid", 1 << 60),
            ("mdn_maxblkid", u64::MAX),
            ("mdn_nlevels", 0),
        ] {
            let made = with_number(&whole, name, value);
            let refused = two.receive(&into("vault/w"), &made);
            assert!(refused.is_err(), "{name} {value}");
        }
        let same = with_number(&whole, "mdn_blksz", 16 << 10);
        two.receive(&into("vault/w"), &same).expect("received");
        two.end();
    });
}

/// The offset of the contents of a volume's table in a stream.
fn table_in(stream: &[u8]) -> usize {
    const WRITE: u8 = 3;
    let is_table = |at: &usize| stream[*at] == WRITE && stream[at + 8] == 2;
    records(stream).into_iter().find(is_table).expect("a table") + RECORD
}

/// The library trusts the entries of a ZAP, and aborts the process when two of them collide. That would happen at every
/// access to the volume, on each head.
#[test]
fn volume_with_a_zap_that_would_abort_is_refused() {
    isolated("volume_with_a_zap_that_would_abort_is_refused", || {
        const HEADER: usize = 64;
        const ENTRY: usize = 64;
        let two = two_pools();
        two.source("tank/v", 4096);
        let first = two.take("tank/v@first");
        let whole = two.stream(&SendSpec::full(first));
        let table = table_in(&whole);
        assert_eq!(&whole[table + HEADER + 14..table + HEADER + 19], b"size\0");
        let with = |places: &[(usize, &[u8])]| {
            let mut stream = whole.clone();
            for (place, bytes) in places {
                let at = table + place;
                stream[at..at + bytes.len()].copy_from_slice(bytes);
            }
            with_checksums(stream)
        };
        let name = |number: usize| HEADER + number * ENTRY + 14;
        for (what, places) in [
            (
                "an entry twice",
                vec![(name(1), &b"twin"[..]), (name(2), &b"twin"[..])],
            ),
            ("names that are folded", vec![(16, &[1][..])]),
            ("a hash that begins at nothing", vec![(8, &[0; 8][..])]),
            (
                "a number of a collision that is cut",
                vec![(HEADER + 8, &[0, 0, 1][..])],
            ),
            ("no size", vec![(name(0), &b"sizf"[..])]),
            (
                "a size that is not a multiple of the block",
                vec![(HEADER, &[1][..])],
            ),
            ("a size that no disk has", vec![(HEADER + 7, &[0x7f][..])]),
        ] {
            let made = with(&places);
            let refused = two.receive(&into("vault/w"), &made);
            let all = two
                .vault
                .datasets(DatasetRef::from_checked("vault"), Snapshots::Include);
            let names: Vec<String> = all
                .expect("listed")
                .into_iter()
                .map(|one| one.name)
                .collect();
            assert!(refused.is_err(), "{what}: {names:?}");
            assert_eq!(names, ["vault"], "{what}");
        }
        two.receive(&into("vault/w"), &with(&[])).expect("received");
        // Into an existing volume, which stays unchanged.
        let second = two.take("tank/v@second");
        let mut changes = two.stream(&since("@first", second));
        two.change(&volume("tank/v"), 3);
        two.resize(&volume("tank/v"), SIZE * 2);
        let third = two.take("tank/v@third");
        let resized = two.stream(&since("@second", third));
        let table = table_in(&resized);
        let mut made = resized.clone();
        made[table + name(1)..table + name(1) + 4].copy_from_slice(b"twin");
        two.receive(&into("vault/w"), &std::mem::take(&mut changes))
            .expect("received");
        two.receive(&into("vault/w"), &with_checksums(made))
            .expect_err("refused");
        two.receive(&into("vault/w"), &resized).expect("received");
        two.end();
    });
}

/// The same for raw streams, including the list in front and the contents of the table.
#[test]
fn forged_raw_streams_do_not_abort_the_process() {
    isolated("forged_raw_streams_do_not_abort_the_process", || {
        let two = two_pools();
        let whole = two.raw_stream();
        let mut random = fastrand::Rng::with_seed(seed());
        let mut refused = 0;
        for _ in 0..ROUNDS {
            let mut bytes = whole.clone();
            let records = records(&whole);
            let list = RECORD..records[1];
            let table = table_in(&whole);
            for _ in 0..random.usize(1..4) {
                let record = records[random.usize(..records.len())];
                let at = match random.u8(..3) {
                    0 => random.usize(list.clone()),
                    1 => table + random.usize(..512),
                    _ => record + random.usize(0..112),
                };
                bytes[at] = random.u8(..);
            }
            let bytes = with_checksums(bytes);
            let target = into("vault/new");
            match two
                .vault
                .receive(&target, &|_, _| Vec::new(), &mut bytes.as_slice())
            {
                Err(_) => refused += 1,
                Ok(_) => {
                    let all = two
                        .vault
                        .datasets(DatasetRef::from_checked("vault"), Snapshots::Include);
                    all.expect("listed");
                    two.vault
                        .destroy_dataset(&target.volume, engine::dataset::Depth::Recursive)
                        .expect("destroyed");
                }
            }
        }
        assert!(refused > ROUNDS / 6, "only {refused} were refused");
        two.end();
    });
}

/// Forged streams per run.
const ROUNDS: usize = 120;

/// The seed of the forged streams: `SEED` in the environment, or a fixed one.
fn seed() -> u64 {
    let given = std::env::var("SEED").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// The tools of stock ZFS read our streams.
#[test]
fn stock_zstream_parses_sent_streams() {
    isolated("stock_zstream_parses_sent_streams", || {
        let two = two_pools();
        two.source("tank/v", 16 << 10);
        let first = two.take("tank/v@first");
        let stream = two.stream(&SendSpec::full(first));
        let path = support::dir().join("stream");
        std::fs::write(&path, stream).expect("written");
        let search = std::env::var("PATH").unwrap_or_default();
        let output = std::process::Command::new("zstream")
            .env("PATH", format!("{search}:/usr/sbin:/sbin"))
            .args(["dump", "-v"])
            .arg(&path)
            .output()
            .expect("zstream (package zfsutils-linux) is installed");
        let mut text = String::new();
        output
            .stdout
            .as_slice()
            .read_to_string(&mut text)
            .expect("text");
        assert!(output.status.success(), "{text}");
        assert!(text.contains("toname = tank/v@first"), "{text}");
        assert!(text.contains("END checksum"), "{text}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("ncorrect checksum"), "{errors}");
        two.end();
    });
}

/// A list as stock `zfs send -p` packs it (XDR): names with texts or lists.
enum Packed {
    Text(&'static str),
    List(Vec<(&'static str, Packed)>),
}

fn xdr_text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn xdr_list(entries: &[(&'static str, Packed)]) -> Vec<u8> {
    const UNIQUE_NAMES: u32 = 1;
    const TEXT: u32 = 9;
    const LIST: u32 = 19;
    // The size in memory of an entry and a nested list, which the decoder compares.
    const ENTRY_BYTES: usize = 16;
    const LIST_BYTES: usize = 24;
    let mut bytes = 0_u32.to_be_bytes().to_vec();
    bytes.extend(UNIQUE_NAMES.to_be_bytes());
    for (name, value) in entries {
        let (kind, value, bytes_in_memory) = match value {
            Packed::Text(text) => (TEXT, xdr_text(text), text.len() + 1),
            Packed::List(inner) => (LIST, xdr_list(inner), LIST_BYTES),
        };
        let name_bytes = (ENTRY_BYTES + name.len() + 1).next_multiple_of(8);
        let decoded = name_bytes + bytes_in_memory.next_multiple_of(8);
        let mut entry = xdr_text(name);
        entry.extend(kind.to_be_bytes());
        entry.extend(1_u32.to_be_bytes());
        entry.extend(value);
        bytes.extend((entry.len() as u32 + 8).to_be_bytes());
        bytes.extend((decoded as u32).to_be_bytes());
        bytes.extend(entry);
    }
    bytes.extend([0; 8]);
    bytes
}

/// `zfs send -p` puts a list with the volume's properties before the stream.
#[test]
fn package_carries_user_properties() {
    isolated("package_carries_user_properties", || {
        let two = two_pools();
        two.source("tank/v", 16 << 10);
        let first = two.take("tank/v@first");
        let stream = two.stream(&SendSpec::full(first.clone()));
        let property = vec![
            ("value", Packed::Text("kept")),
            ("source", Packed::Text("tank/v")),
        ];
        let properties = vec![("org.example:note", Packed::List(property))];
        let volume = vec![
            ("name", Packed::Text("tank/v")),
            ("props", Packed::List(properties)),
        ];
        let volumes = Packed::List(vec![("0x1", Packed::List(volume))]);
        let mut list = vec![1, 1, 0, 0];
        list.extend(xdr_list(&[("fss", volumes)]));

        let mut package = vec![0; RECORD];
        package[4..8].copy_from_slice(&(list.len() as u32).to_le_bytes());
        package[8..16].copy_from_slice(&0x2_f5ba_cbac_u64.to_le_bytes());
        package[16] = 2;
        package[56..68].copy_from_slice(b"tank/v@first");
        let mut end = vec![0; RECORD];
        end[0] = 5;
        package.extend(&list);
        package.extend(&end);
        package.extend(&stream);
        package.extend(&end);
        let mut source = package.as_slice();
        let received = two
            .vault
            .receive(&into("vault/w"), &|_, _| Vec::new(), &mut source)
            .expect("received");
        assert_eq!(received.snapshots, [snapshot("vault/w@first")]);
        let note = ("org.example:note".to_owned(), "kept".to_owned());
        assert_eq!(received.properties, [note]);
        let arrived = &received.snapshots[0];
        assert_eq!(
            two.contents(&two.vault, arrived),
            two.contents(&two.tank, &first)
        );
        two.end();
    });
}
