//! Loads of several kinds of server, after the personalities of filebench (`workloads/*.f` of its
//! version 1.5): the same operations in the same order on as many files of the same sizes by as
//! many threads, except where noted.
//!
//! filebench uses a mounted file system. Here each operation is the compound that an NFS client
//! without a cache would send. A written file is committed before it is closed, as in each client.
//! Two personalities have a tenth of filebench's 10,000 files, so that they are created in seconds.

use std::io::{self, Read, Write};
use std::time::Instant;

use crate::client::{CURRENT, Calls, Client, Compound, opened};
use crate::{Done, noise, print_rate};

/// Maximum calls in progress of the Linux client in a session: further threads wait.
const CALLS_MAX: u32 = 64;
/// The shape of the sizes' gamma distribution.
const SHAPE: f64 = 1.5;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes of an append; the minimum is one.
const APPEND_BYTES_MAX: u64 = 16 << 10;
const FILL_SECONDS_MAX: f64 = 120.0;
const SEED: u64 = 0x5851_f42d_4c95_7f2d;

/// One operation of a thread.
#[derive(Clone, Copy)]
enum Step {
    Create,
    WriteWhole,
    Append,
    Sync,
    Close,
    Open,
    ReadWhole,
    Delete,
    Stat,
    /// Appends to a file that all threads have open.
    Log,
}

use Step::{Append, Close, Create, Delete, Log, Open, ReadWhole, Stat, Sync, WriteWhole};

const LOOK: &[Step] = &[Open, ReadWhole, Close];

/// A kind of server.
pub struct Personality {
    name: &'static str,
    threads: u32,
    files: usize,
    /// Percentage of the files that exist at the start.
    percent: usize,
    mean_bytes: u64,
    /// Whether sizes differ.
    is_spread: bool,
    /// The loop of each thread: repetitions and steps.
    steps: &'static [(usize, &'static [Step])],
}

const ALL: [Personality; 4] = [
    Personality {
        name: "varmail",
        threads: 16,
        files: 1000,
        percent: 80,
        mean_bytes: 16 << 10,
        is_spread: false,
        steps: &[
            (
                1,
                &[
                    Delete, Create, Append, Sync, Close, Open, ReadWhole, Append, Sync, Close,
                ],
            ),
            (1, LOOK),
        ],
    },
    Personality {
        name: "webserver",
        threads: 100,
        files: 1000,
        percent: 100,
        mean_bytes: 16 << 10,
        is_spread: true,
        steps: &[(10, LOOK), (1, &[Log])],
    },
    Personality {
        name: "fileserver",
        threads: 50,
        files: 1000,
        percent: 80,
        mean_bytes: 128 << 10,
        is_spread: true,
        steps: &[
            (1, &[Create, WriteWhole, Close, Open, Append, Close]),
            (1, LOOK),
            (1, &[Delete, Stat]),
        ],
    },
    Personality {
        name: "webproxy",
        threads: 100,
        files: 1000,
        percent: 80,
        mean_bytes: 16 << 10,
        is_spread: false,
        steps: &[(1, &[Delete, Create, Append, Close]), (5, LOOK)],
    },
];

impl Personality {
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|personality| personality.name == name)
    }

    /// Returns the number of calls in progress.
    pub fn depth(&self) -> u32 {
        self.threads.min(CALLS_MAX)
    }

    /// Creates the files, runs the load on request, and removes the files on request.
    pub fn perform(self, client: &mut Client, path: &str, seconds: f64) -> Done {
        client.send_apart()?;
        let folder =
            client.make_directory(path, &format!("{}-{}", self.name, std::process::id()))?;
        let mut world = World::new(&self, folder, client.client);
        world.fill(client)?;
        world.log = Some(
            client
                .open(&world.folder, "log")
                .map(|(state, handle)| File::new(0, state, handle))?,
        );
        writeln!(io::stdout(), "filled")?;
        io::stdin().read_line(&mut String::new())?;
        let started = Instant::now();
        let operations = client.run(seconds, &mut world)?;
        print_rate(operations, started)?;
        io::stdin().read_to_end(&mut Vec::new())?;
        world.remove(client)
    }
}

/// An open file.
struct File {
    number: usize,
    state: Vec<u8>,
    handle: Vec<u8>,
    /// Whether data was written since the last commit.
    is_dirty: bool,
}

impl File {
    fn new(number: usize, state: Vec<u8>, handle: Vec<u8>) -> Self {
        Self {
            number,
            state,
            handle,
            is_dirty: false,
        }
    }
}

/// The state of a thread.
#[derive(Default)]
struct Thread {
    /// Index of the next or current step.
    at: usize,
    /// The file of this step.
    number: usize,
    file: Option<File>,
}

/// The files and threads. A file is used by one thread at a time, as in filebench.
struct World {
    steps: Vec<Step>,
    threads: Vec<Thread>,
    folder: Vec<u8>,
    client: u64,
    /// The size of each file, existing or not. A file that is created again has its old size when
    /// it is written whole.
    planned: Vec<u64>,
    sizes: Vec<u64>,
    there: Vec<usize>,
    absent: Vec<usize>,
    log: Option<File>,
    log_bytes: u64,
    noise: Vec<u8>,
    random: Random,
}

fn name(number: usize) -> String {
    format!("file-{number}")
}

impl World {
    fn new(personality: &Personality, folder: Vec<u8>, client: u64) -> Self {
        let mut random = Random(SEED);
        let mean = personality.mean_bytes;
        let size = |_| {
            if personality.is_spread {
                random.gamma(mean)
            } else {
                mean
            }
        };
        let planned: Vec<u64> = (0..personality.files).map(size).collect();
        let there = personality.files * personality.percent / 100;
        Self {
            steps: personality
                .steps
                .iter()
                .flat_map(|(times, steps)| steps.repeat(*times))
                .collect(),
            threads: (0..personality.depth())
                .map(|_| Thread::default())
                .collect(),
            folder,
            client,
            sizes: planned.clone(),
            planned,
            there: (0..there).collect(),
            absent: (there..personality.files).collect(),
            log: None,
            log_bytes: 0,
            noise: noise(FILE_BYTES_MAX as usize),
            random,
        }
    }

    /// Creates the initial files.
    fn fill(&mut self, client: &mut Client) -> Done {
        let mut numbers = self.there.iter();
        let mut left = self.there.len();
        client.run(FILL_SECONDS_MAX, &mut |compound: &mut Compound| {
            let Some(number) = numbers.next() else {
                return false;
            };
            compound.handle(&self.folder);
            compound.open(self.client, &name(*number));
            compound.write(&CURRENT, 0, &self.noise[..self.sizes[*number] as usize]);
            compound.commit();
            compound.close(&CURRENT);
            left -= 1;
            left > 0
        })?;
        Ok(())
    }

    /// Removes all files except the log.
    fn remove(&self, client: &mut Client) -> Done {
        let held = self
            .threads
            .iter()
            .filter_map(|thread| thread.file.as_ref())
            .map(|file| file.number);
        for number in self.there.iter().copied().chain(held) {
            let mut compound = Compound::default();
            compound.handle(&self.folder);
            compound.remove(&name(number));
            client.call(Some(0), &compound)?;
        }
        Ok(())
    }

    fn append(&mut self, thread: &mut Thread, compound: &mut Compound) {
        let bytes = 1 + self.random.below(APPEND_BYTES_MAX);
        if let Some(file) = &mut thread.file {
            let size = &mut self.sizes[file.number];
            let at = (*size).min(FILE_BYTES_MAX - bytes);
            *size = at + bytes;
            file.is_dirty = true;
            compound.handle(&file.handle);
            compound.write(&file.state, at, &self.noise[..bytes as usize]);
        }
    }

    fn append_to_log(&mut self, compound: &mut Compound) {
        let bytes = 1 + self.random.below(APPEND_BYTES_MAX);
        if let Some(log) = &self.log {
            compound.handle(&log.handle);
            compound.write(&log.state, self.log_bytes, &self.noise[..bytes as usize]);
            self.log_bytes += bytes;
        }
    }

    /// Adds a step on a name: of an existing or a new file.
    fn add_name_step(&mut self, step: Step, thread: &mut Thread, compound: &mut Compound) {
        let from = if matches!(step, Create) {
            &mut self.absent
        } else {
            &mut self.there
        };
        let place = self.random.below(from.len() as u64) as usize;
        thread.number = from.swap_remove(place);
        let name = name(thread.number);
        compound.handle(&self.folder);
        match step {
            Create => compound.open(self.client, &name),
            Open => compound.open_existing(self.client, &name),
            Delete => return compound.remove(&name),
            _ => {
                compound.look_up(&name);
                return compound.attributes();
            }
        }
        compound.look_at_opened();
    }

    /// Adds a step on the thread's open file.
    fn add_file_step(&mut self, step: Step, thread: &mut Thread, compound: &mut Compound) {
        let Some(file) = &mut thread.file else { return };
        compound.handle(&file.handle);
        match step {
            WriteWhole => {
                let size = self.planned[file.number];
                self.sizes[file.number] = size;
                file.is_dirty = true;
                compound.write(&file.state, 0, &self.noise[..size as usize]);
            }
            ReadWhole => compound.read(&file.state, 0, self.sizes[file.number] as usize),
            _ => {
                if file.is_dirty {
                    compound.commit();
                    file.is_dirty = false;
                }
                if matches!(step, Close) {
                    compound.close(&file.state);
                }
            }
        }
    }
}

impl Calls for World {
    fn next(&mut self, slot: u32, compound: &mut Compound) -> bool {
        let mut thread = std::mem::take(&mut self.threads[slot as usize]);
        let step = self.steps[thread.at];
        match step {
            Append => self.append(&mut thread, compound),
            Log => self.append_to_log(compound),
            Create | Open | Delete | Stat => self.add_name_step(step, &mut thread, compound),
            WriteWhole | ReadWhole | Sync | Close => {
                self.add_file_step(step, &mut thread, compound)
            }
        }
        self.threads[slot as usize] = thread;
        true
    }

    fn answered(&mut self, slot: u32, results: &[u8]) -> Done {
        let thread = &mut self.threads[slot as usize];
        let step = self.steps[thread.at];
        match step {
            Create | Open => {
                let (state, handle) = opened(results)?;
                thread.file = Some(File::new(thread.number, state, handle));
                if matches!(step, Create) {
                    self.sizes[thread.number] = 0;
                }
            }
            Close => self
                .there
                .extend(thread.file.take().map(|file| file.number)),
            Delete => self.absent.push(thread.number),
            Stat => self.there.push(thread.number),
            _ => {}
        }
        thread.at = (thread.at + 1) % self.steps.len();
        Ok(())
    }
}

/// Returns the same numbers in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number above 0 and up to 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a size with this mean: the sum of an exponential number and of half the square of a
    /// normal one has the shape.
    fn gamma(&mut self, mean: u64) -> u64 {
        let angle = std::f64::consts::TAU * self.unit();
        let drawn = -self.unit().ln() - self.unit().ln() * angle.cos().powi(2);
        ((mean as f64 / SHAPE * drawn) as u64).clamp(1, FILE_BYTES_MAX)
    }
}
