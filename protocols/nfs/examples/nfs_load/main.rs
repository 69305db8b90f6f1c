//! A load generator for NFS 4.1 servers: `nfs_load ADDRESS PATH LOAD BYTES DEPTH SECONDS FILE_MIB`.
//!
//! PATH is a file system, such as `tank/home`. `fill` writes its file `load`. `read` reads BYTES at
//! random offsets of the file. `write` writes it sequentially, in a loop, followed by a commit.
//! `rewrite` writes at random offsets, followed by a commit. `rewrite-durably` does so with stable
//! writes, which the Linux client sends for a single write to a file that was opened with
//! `O_DIRECT`. `create` creates empty files in a new directory. DEPTH calls are in progress at any
//! time. The output is the number of completed operations and the seconds.
//!
//! LOAD may also be the name of a [personality], with its own files, sizes and depth. It prints
//! `filled` when its files exist. The load starts after a line of input, and the files are removed
//! at the end of the input.

mod client;
mod personality;

use std::io::{self, Write};
use std::time::Instant;

use client::{CURRENT, Client, Compound};
use personality::Personality;

type Failure = Box<dyn std::error::Error>;
type Done<T = ()> = Result<T, Failure>;

const FILL_BYTES: usize = 1 << 20;
const FILL_DEPTH: u32 = 4;

/// Adds a write of bytes, given a stateid and an offset.
type WriteCall = fn(&mut Compound, &[u8], u64, &[u8]);

/// The parameters.
struct Load {
    bytes: usize,
    seconds: f64,
    file_bytes: u64,
}

impl Load {
    /// Returns a different block of the file each time: an odd step near the golden section reaches
    /// every block, and defeats read-ahead.
    fn places(&self) -> impl FnMut() -> u64 {
        let (bytes, blocks, mut place) =
            (self.bytes as u64, self.file_bytes / self.bytes as u64, 0);
        move || {
            place = (place + ((blocks * 618 / 1000) | 1)) % blocks;
            place * bytes
        }
    }

    fn read(&self, client: &mut Client, path: &str) -> Done<u64> {
        let folder = client.handle(path)?;
        let (state, file) = client.open(&folder, "load")?;
        let mut place = self.places();
        client.run(self.seconds, &mut |compound: &mut Compound| {
            compound.handle(&file);
            compound.read(&state, place(), self.bytes);
            true
        })
    }

    /// Writes the file once, or until the time is over.
    fn write(&self, client: &mut Client, path: &str, once: bool) -> Done<u64> {
        let mut next = 0;
        self.write_at(client, path, Compound::write, || {
            let at = next;
            next = (next + self.bytes as u64) % self.file_bytes;
            (at, !(next == 0 && once))
        })
    }

    fn rewrite(&self, client: &mut Client, path: &str, write: WriteCall) -> Done<u64> {
        let mut place = self.places();
        self.write_at(client, path, write, || (place(), true))
    }

    /// Writes at the generated offsets, until the time is over or the last offset is written.
    fn write_at(
        &self,
        client: &mut Client,
        path: &str,
        write: WriteCall,
        mut place: impl FnMut() -> (u64, bool),
    ) -> Done<u64> {
        let folder = client.handle(path)?;
        let (state, file) = client.open(&folder, "load")?;
        let noise = noise(self.bytes);
        let written = client.run(self.seconds, &mut |compound: &mut Compound| {
            let (at, goes_on) = place();
            compound.handle(&file);
            write(compound, &state, at, &noise);
            goes_on
        })?;
        let mut commit = Compound::default();
        commit.handle(&file);
        commit.commit();
        client.call(Some(0), &commit)?;
        Ok(written)
    }

    fn create(&self, client: &mut Client, path: &str) -> Done<u64> {
        let folder = client.make_directory(path, &format!("made-{}", std::process::id()))?;
        let (id, mut number) = (client.client, 0);
        client.run(self.seconds, &mut |compound: &mut Compound| {
            number += 1;
            compound.handle(&folder);
            compound.open(id, &format!("file-{number}"));
            compound.close(&CURRENT);
            true
        })
    }
}

/// Returns incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(bytes).collect()
}

fn main() -> Done {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, what, bytes, depth, seconds, file_mib] = &words[..] else {
        return Err("nfs_load ADDRESS PATH LOAD BYTES DEPTH SECONDS FILE_MIB".into());
    };
    let mut load = Load {
        bytes: bytes.parse()?,
        seconds: seconds.parse()?,
        file_bytes: file_mib.parse::<u64>()? << 20,
    };
    let personality = Personality::named(what);
    let depth = match (&personality, &what[..]) {
        (Some(personality), _) => personality.depth(),
        (None, "fill") => FILL_DEPTH,
        _ => depth.parse()?,
    };
    let mut client = Client::connect(address, depth)?;
    if let Some(personality) = personality {
        return personality.perform(&mut client, path, load.seconds);
    }
    let started = Instant::now();
    let operations =
        match &what[..] {
            "fill" => {
                load.bytes = FILL_BYTES;
                load.write(&mut client, path, true)?
            }
            "read" => load.read(&mut client, path)?,
            "write" => load.write(&mut client, path, false)?,
            "rewrite" => load.rewrite(&mut client, path, Compound::write)?,
            "rewrite-durably" => load.rewrite(&mut client, path, Compound::write_durably)?,
            "create" => load.create(&mut client, path)?,
            _ => return Err(
                "a load is fill, read, write, rewrite, rewrite-durably, create or a personality"
                    .into(),
            ),
        };
    print_rate(operations, started)
}

/// Prints the number of completed operations and the elapsed time.
fn print_rate(operations: u64, started: Instant) -> Done {
    let seconds = started.elapsed().as_secs_f64();
    writeln!(io::stdout(), "{operations} {seconds:.6}")?;
    Ok(())
}
