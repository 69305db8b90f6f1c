//! A writing process is killed repeatedly without warning. All data confirmed by a flush must be present afterwards,
//! and no 4 KiB block torn.
//!
//! The writer is this same binary, started again as a child (a process has one engine, and this one must survive). Its
//! writes follow from the seed and a sequence number alone, so the verifier only needs each thread's last confirmed
//! number. `ROUNDS=n SEED=s` extend or repeat it.

mod volume_support;

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use block_device::{BlockDevice, Extent, WaitMode, Zero};
use engine::Volume as _;
use engine::capabilities::Datasets;
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, ImportOptions, PoolSpec};
use engine::volume::OpenOptions;
use units::{ByteCount, PoolName};
use volume_support::{disk_files, judge, read, seed, start_engine, volume_name};
use zpool::pool::discover;
use zpool::{Pool, Volume};

const BLOCK: u64 = 4096;
const BLOCKS_PER_THREAD: u64 = 1024;
const THREADS: u64 = 3;
/// Longest operation, in blocks: longer than one log record.
const RUN_MAX: u64 = 24;
/// Maximum number of steps after a thread's last confirmation.
const WINDOW: u64 = 64;
const ROUNDS: u64 = 6;
/// One round in about twenty stops at a time that detects the bug.
const HALVES_ROUNDS: u64 = 60;
/// Confirmations after which a round stops at the latest.
const CONFIRMED_MAX: usize = 400;

/// The operation of a thread at one step.
struct Step {
    first: u64,
    count: u64,
    free: bool,
    flush: bool,
}

/// Follows from the seed, thread and number alone.
fn step(seed: u64, thread: u64, number: u64) -> Step {
    let mut random = fastrand::Rng::with_seed(seed ^ (thread << 56) ^ number);
    let count = if random.bool() {
        1
    } else {
        random.u64(1..=RUN_MAX)
    };
    Step {
        first: thread * BLOCKS_PER_THREAD + random.u64(0..=BLOCKS_PER_THREAD - count),
        count,
        free: random.u8(0..8) == 0,
        flush: random.u8(0..4) == 0,
    }
}

/// A block filled with its number and that of the step that wrote it.
fn block_image(block: u64, number: u64) -> Vec<u8> {
    [block.to_le_bytes(), number.to_le_bytes()]
        .concat()
        .repeat(BLOCK as usize / 16)
}

fn write_until_killed(
    volume: &Volume,
    seed: u64,
    thread: u64,
    from: u64,
    out: &Mutex<std::io::Stdout>,
) {
    let mut confirmed = from;
    for number in from.. {
        let step = step(seed, thread, number);
        let extent = Extent::new(step.first * BLOCK, step.count * BLOCK);
        if step.free {
            volume
                .write_zeroes(extent, Zero::MayFree, WaitMode::MayBlock)
                .expect("free");
        } else {
            let data: Vec<u8> = (step.first..step.first + step.count)
                .flat_map(|block| block_image(block, number))
                .collect();
            volume
                .write(extent.offset, &data, WaitMode::MayBlock)
                .expect("write");
        }
        if step.flush || number - confirmed + 2 >= WINDOW {
            volume.flush().expect("flush");
            confirmed = number;
            let mut out = out.lock().expect("no holder panics");
            writeln!(out, "confirmed {thread} {number}").expect("tell the parent");
            out.flush().expect("tell the parent");
        }
    }
}

/// The expected blocks of one thread: for each the number of the last confirmed step that touched it.
fn expected(seed: u64, thread: u64, spans: &[(u64, u64)]) -> Vec<Option<u64>> {
    let mut last = vec![None; BLOCKS_PER_THREAD as usize];
    for number in spans
        .iter()
        .flat_map(|(from, confirmed)| *from..=*confirmed)
    {
        let step = step(seed, thread, number);
        for block in step.first..step.first + step.count {
            last[(block - thread * BLOCKS_PER_THREAD) as usize] = Some(number);
        }
    }
    last
}

/// Whether a later, unconfirmed step may have left `found` in the block.
fn is_later(seed: u64, thread: u64, block: u64, number: u64, free: bool) -> bool {
    let step = step(seed, thread, number);
    (step.first..step.first + step.count).contains(&block) && step.free == free
}

fn check_block(seed: u64, thread: u64, block: u64, bytes: &[u8], last: Option<u64>, end: u64) {
    let first_later = last.unwrap_or(0);
    if bytes.iter().all(|byte| *byte == 0) {
        let freed =
            last.is_none() || (first_later..end).any(|n| is_later(seed, thread, block, n, true));
        assert!(freed, "block {block}: confirmed step {last:?} is lost");
        return;
    }
    let number = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    assert!(bytes == block_image(block, number), "block {block} is torn");
    assert!(
        last.is_none_or(|last| number >= last) && is_later(seed, thread, block, number, false),
        "block {block} holds step {number}, but step {last:?} was confirmed"
    );
}

fn verify(volume: &Volume, seed: u64, spans: &[Vec<(u64, u64)>]) {
    for thread in 0..THREADS {
        let end = spans[thread as usize]
            .last()
            .map_or(0, |span| span.1 + WINDOW);
        let last = expected(seed, thread, &spans[thread as usize]);
        let at = thread * BLOCKS_PER_THREAD;
        let bytes = read(volume, Extent::new(at * BLOCK, BLOCKS_PER_THREAD * BLOCK));
        for (index, content) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            check_block(seed, thread, at + index as u64, content, last[index], end);
        }
    }
}

fn open_pool(dir: &Path) -> Pool {
    let engine = start_engine();
    let found = discover(&[dir.to_owned()]).expect("search");
    let Some(candidate) = found.first() else {
        let name: PoolName = "tank".parse().expect("a name");
        let devices: Vec<PathBuf> = disk_files(dir, 2, 512 << 20);
        let pool = Pool::create(engine, &PoolSpec::new(name, GroupKind::Mirror, devices));
        let pool = pool.expect("create");
        for (name, block_size) in [("tank/small", 4 << 10), ("tank/large", 64 << 10)] {
            let mut spec = VolumeSpec::sparse(volume_name(name), ByteCount::mib(16));
            spec.block_size = ByteCount(block_size);
            pool.create_volume(&spec).expect("create a volume");
        }
        return pool;
    };
    let proof = zpool::pool::same_host_and_locked(engine, candidate).expect("the writer is dead");
    Pool::import(engine, candidate, proof, &ImportOptions::default()).expect("import")
}

/// Spans of confirmed steps by thread, as text for the child's environment.
fn spans_text(spans: &[Vec<(u64, u64)>]) -> String {
    let line = |spans: &Vec<(u64, u64)>| {
        let pairs: Vec<String> = spans.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        pairs.join(",")
    };
    spans.iter().map(line).collect::<Vec<_>>().join(";")
}

fn parse_spans(text: &str) -> Vec<Vec<(u64, u64)>> {
    let pair = |text: &str| {
        let (from, confirmed) = text.split_once('-')?;
        Some((from.parse().ok()?, confirmed.parse().ok()?))
    };
    text.split(';')
        .map(|line| line.split(',').filter_map(pair).collect())
        .collect()
}

/// The first step of the next round: no earlier step has its number.
fn next_step(spans: &[(u64, u64)]) -> u64 {
    spans.last().map_or(1, |span| span.1 + WINDOW)
}

fn child(dir: &Path, seed: u64, volume: &str, spans: &str, only_verify: bool) {
    let spans = parse_spans(spans);
    let pool = open_pool(dir);
    let volume = pool
        .open_volume(&volume_name(volume), OpenOptions::default())
        .expect("open and replay");
    verify(&volume, seed, &spans);
    if only_verify {
        volume.close();
        pool.export().map_err(|(_, error)| error).expect("export");
        return;
    }
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, out) = (&volume, &out);
            let from = next_step(&spans[thread as usize]);
            scope.spawn(move || write_until_killed(volume, seed, thread, from, out));
        }
    });
}

fn start_child(
    dir: &Path,
    seed: u64,
    volume: &str,
    spans: &[Vec<(u64, u64)>],
    verify: bool,
) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["confirmed_writes_survive_a_kill", "--exact", "--nocapture"])
        .env("VOLUME_CRASH_FOLDER", dir)
        .env("VOLUME_CRASH_VOLUME", volume)
        .env("VOLUME_CRASH_SPANS", spans_text(spans))
        .env("VOLUME_CRASH_VERIFY", u8::from(verify).to_string())
        .env("SEED", seed.to_string())
        .stdout(Stdio::piped());
    command
}

/// Runs a writer until it is killed and adds its confirmed steps to `spans`.
fn round(dir: &Path, seed: u64, volume: &str, spans: &mut [Vec<(u64, u64)>], patience: usize) {
    let mut process = start_child(dir, seed, volume, spans, false)
        .spawn()
        .expect("start the writer");
    let output = BufReader::new(process.stdout.take().expect("piped"));
    let starts: Vec<u64> = spans.iter().map(|spans| next_step(spans)).collect();
    let mut confirmed: Vec<Option<u64>> = vec![None; THREADS as usize];
    let mut seen = 0;
    for line in output.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let ["confirmed", thread, number] = words[..] else {
            continue;
        };
        let thread: usize = thread.parse().expect("a thread");
        confirmed[thread] = Some(number.parse().expect("a number"));
        seen += 1;
        if seen == patience {
            process.kill().expect("kill the writer");
        }
    }
    process.wait().expect("reap the writer");
    assert!(seen >= patience, "the writer of {volume} died by itself");
    for (thread, confirmed) in confirmed.into_iter().enumerate() {
        // A thread without confirmations has started steps with numbers that must not be reused.
        let start = starts[thread];
        let end = confirmed.unwrap_or(start.saturating_sub(1));
        spans[thread].push((start, end.max(start.saturating_sub(1))));
    }
}

/// Sectors of a block that a step frees: its head or its tail, alternately. Neither starts and stops with the block.
fn half(number: u64) -> Extent {
    match number % 2 {
        0 => Extent::new(0, 1536),
        _ => Extent::new(1536, BLOCK - 1536),
    }
}

/// Repeatedly writes one block and frees one half of it, while other threads write elsewhere and flush: concurrent
/// flushes block each other, and read newer data than they record.
fn rewrite_until_killed(volume: &Volume, from: u64) {
    let elsewhere = vec![1; BLOCK as usize];
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    volume
                        .write(BLOCKS_PER_THREAD * BLOCK, &elsewhere, WaitMode::MayBlock)
                        .expect("write");
                    volume.flush().expect("flush");
                    // The parent has enough confirmations, and is about to kill.
                    let _ = writeln!(std::io::stdout(), "flushed");
                }
            });
        }
        for number in from.. {
            let data = block_image(0, number);
            volume.write(0, &data, WaitMode::MayBlock).expect("write");
            volume
                .write_zeroes(half(number), Zero::MayFree, WaitMode::MayBlock)
                .expect("free");
            // So that few of these records follow many of the other kind.
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    });
}

/// The step that the block contains: as written, or with the half freed by the same step.
fn shown_step(bytes: &[u8]) -> u64 {
    let mut numbers = bytes.chunks_exact(16).map(|pair| &pair[8..]);
    let number = numbers.find(|number| number.iter().any(|byte| *byte != 0));
    let Some(number) = number else {
        assert!(bytes.iter().all(|byte| *byte == 0), "the block is torn");
        return 0;
    };
    let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
    let whole = block_image(0, number);
    let mut freed = whole.clone();
    let Extent { offset, length } = half(number);
    freed[offset as usize..(offset + length) as usize].fill(0);
    assert!(
        bytes == whole || bytes == freed,
        "step {number} shows in one half of the block, a free before it in the other"
    );
    number
}

#[test]
fn free_of_half_a_block_does_not_tear_a_later_write() {
    const TEST: &str = "free_of_half_a_block_does_not_tear_a_later_write";
    const DIR: &str = "VOLUME_CRASH_HALVES";
    if let Ok(dir) = std::env::var(DIR) {
        let pool = open_pool(Path::new(&dir));
        let volume = pool
            .open_volume(&volume_name("tank/large"), OpenOptions::default())
            .expect("open and replay");
        let shown = shown_step(&read(&volume, Extent::new(0, BLOCK)));
        return rewrite_until_killed(&volume, shown + 1);
    }
    let dir = tempfile::tempdir().expect("temporary dir");
    let mut random = fastrand::Rng::with_seed(seed());
    // Each writer first checks the state that the previous one left.
    for _ in 0..=HALVES_ROUNDS {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args([TEST, "--exact", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the writer");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let patience = random.usize(1..CONFIRMED_MAX);
        let flushes = output.lines().map_while(Result::ok);
        let flushes = flushes.filter(|line| line == "flushed").take(patience);
        assert_eq!(flushes.count(), patience, "the writer ended by itself");
        process.kill().expect("kill the writer");
        process.wait().expect("reap the writer");
    }
}

#[test]
fn confirmed_writes_survive_a_kill() {
    let seed = seed();
    if let Ok(dir) = std::env::var("VOLUME_CRASH_FOLDER") {
        let variable = |name| std::env::var(name).expect("set by the parent");
        let only_verify = variable("VOLUME_CRASH_VERIFY") == "1";
        let (volume, spans) = (
            variable("VOLUME_CRASH_VOLUME"),
            variable("VOLUME_CRASH_SPANS"),
        );
        return child(Path::new(&dir), seed, &volume, &spans, only_verify);
    }
    let dir = tempfile::tempdir().expect("temporary dir");
    let rounds = std::env::var("ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut random = fastrand::Rng::with_seed(seed);
    let volumes = ["tank/small", "tank/large"];
    let mut spans = volumes.map(|_| vec![Vec::new(); THREADS as usize]);
    for number in 0..rounds.unwrap_or(ROUNDS) {
        let which = number as usize % volumes.len();
        // Often within the very first steps: a new log is a case of its own.
        let patience = if random.bool() {
            random.usize(1..4)
        } else {
            random.usize(1..CONFIRMED_MAX)
        };
        round(
            dir.path(),
            seed,
            volumes[which],
            &mut spans[which],
            patience,
        );
    }
    for (which, volume) in volumes.iter().enumerate() {
        let output = start_child(dir.path(), seed, volume, &spans[which], true)
            .output()
            .expect("start the judge");
        assert!(output.status.success(), "{volume}: {output:?}");
    }
    judge(dir.path());
}
