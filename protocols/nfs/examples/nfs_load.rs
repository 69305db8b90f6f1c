//! A load on a server of NFS 4.1, ours or another: `nfs_load ADDRESS PATH LOAD BYTES DEPTH SECONDS FILE_MIB`.
//!
//! PATH is a file system, such as `tank/home`. `fill` writes its file `load`; `read` reads from random places of it, so many BYTES at once;
//! `write` writes it from its start on, over and over, and ends with a commit; `create` makes empty files in a directory of its own. So many
//! calls as DEPTH are under way at any time. The program prints how many operations were answered, and in how many seconds.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nfs::xdr::{Reader, Writer};

type Failure = Box<dyn std::error::Error>;
type Done<T = ()> = Result<T, Failure>;

const PROGRAM: u32 = 100_003;
const INPUT_BYTES: usize = 2 << 20;
const FILL_BYTES: usize = 1 << 20;
const FILL_DEPTH: u32 = 4;
const CALL_BYTES_MAX: u32 = (1 << 20) + (16 << 10);
const OPERATIONS_MAX: u32 = 16;

const CLOSE: u32 = 4;
const COMMIT: u32 = 5;
const CREATE: u32 = 6;
const GETFH: u32 = 10;
const LOOKUP: u32 = 15;
const OPEN: u32 = 18;
const PUTFH: u32 = 22;
const PUTROOTFH: u32 = 24;
const READ: u32 = 25;
const WRITE: u32 = 38;
const EXCHANGE_ID: u32 = 42;
const CREATE_SESSION: u32 = 43;
const SEQUENCE: u32 = 53;
const RECLAIM_COMPLETE: u32 = 58;

const DIRECTORY: u32 = 2;
const READS_AND_WRITES: u32 = 3;
/// The bit of `mode` in the second word of a bitmap, and what it is set to.
const MODE: [u32; 4] = [2, 0, 2, 4];
const STATEID_BYTES: usize = 16;
/// The state that the operation before has left.
const CURRENT: [u8; STATEID_BYTES] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Operations of a compound.
#[derive(Default)]
struct Compound {
    count: u32,
    writer: Writer,
}

impl Compound {
    fn add(&mut self, operation: u32) -> &mut Writer {
        self.count += 1;
        self.writer.u32(operation);
        &mut self.writer
    }

    fn handle(&mut self, handle: &[u8]) {
        self.add(PUTFH).opaque(handle);
    }

    fn walk<'a>(&mut self, path: impl Iterator<Item = &'a str>) {
        self.add(PUTROOTFH);
        for name in path {
            self.add(LOOKUP).opaque(name.as_bytes());
        }
    }

    fn open(&mut self, client: u64, name: &str) {
        let out = self.add(OPEN);
        for word in [0, READS_AND_WRITES, 0] {
            out.u32(word);
        }
        out.u64(client);
        out.opaque(b"load");
        for word in [1, 0].into_iter().chain(MODE) {
            out.u32(word);
        }
        out.u32(0o644);
        out.u32(0);
        out.opaque(name.as_bytes());
    }
}

struct Client {
    input: BufReader<TcpStream>,
    output: Vec<u8>,
    client: u64,
    session: [u8; 16],
    sequences: Vec<u32>,
    credential: Vec<u8>,
}

impl Client {
    fn connect(address: &str, depth: u32) -> Done<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut credential = Writer::new();
        credential.u32(0);
        credential.opaque(b"load");
        for word in [0, 0, 0] {
            credential.u32(word);
        }
        let mut client = Self {
            input: BufReader::with_capacity(INPUT_BYTES, stream),
            output: Vec::new(),
            client: 0,
            session: [0; 16],
            sequences: Vec::new(),
            credential: credential.into_bytes(),
        };
        client.begin(depth)?;
        Ok(client)
    }

    fn begin(&mut self, depth: u32) -> Done {
        let mut exchange = Compound::default();
        let out = exchange.add(EXCHANGE_ID);
        out.u64(std::process::id().into());
        out.opaque(format!("load {}", std::process::id()).as_bytes());
        for word in [0, 0, 0] {
            out.u32(word);
        }
        let answer = self.call(None, &exchange)?;
        let mut reader = Reader::new(&answer[8..]);
        self.client = reader.u64()?;
        let sequence = reader.u32()?;
        let mut create = Compound::default();
        let out = create.add(CREATE_SESSION);
        out.u64(self.client);
        let channel = [
            0,
            CALL_BYTES_MAX,
            CALL_BYTES_MAX,
            2048,
            OPERATIONS_MAX,
            depth,
            0,
        ];
        let words = [sequence, 0].into_iter().chain(channel).chain(channel);
        for word in words.chain([0x4000_0000, 1, 0]) {
            out.u32(word);
        }
        let answer = self.call(None, &create)?;
        self.session.copy_from_slice(&answer[8..24]);
        self.sequences = vec![0; depth as usize];
        let mut complete = Compound::default();
        complete.add(RECLAIM_COMPLETE).u32(0);
        self.call(Some(0), &complete)?;
        Ok(())
    }

    /// Queues a call, in a slot of the session if one is named.
    fn queue(&mut self, slot: Option<u32>, compound: &Compound) {
        let mut record = Writer::with_capacity(256 + compound.writer.len());
        let transaction = slot.unwrap_or(u32::MAX);
        for word in [0, transaction, 0, 2, PROGRAM, 4, 1, 1] {
            record.u32(word);
        }
        record.opaque(&self.credential);
        for word in [0, 0, 0, 1, compound.count + u32::from(slot.is_some())] {
            record.u32(word);
        }
        if let Some(slot) = slot {
            let sequence = &mut self.sequences[slot as usize];
            *sequence += 1;
            record.u32(SEQUENCE);
            record.fixed(&self.session);
            let highest = self.sequences.len() as u32 - 1;
            for word in [self.sequences[slot as usize], slot, highest, 0] {
                record.u32(word);
            }
        }
        record.append(compound.writer.bytes());
        record.set_u32(0, 1 << 31 | (record.len() - 4) as u32);
        self.output.extend_from_slice(record.bytes());
    }

    fn flush(&mut self) -> Done {
        self.input.get_mut().write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Takes the next answer: its slot, and the results behind the one of `SEQUENCE`.
    fn receive(&mut self) -> Done<(u32, Vec<u8>)> {
        let mut mark = [0; 4];
        self.input.read_exact(&mut mark)?;
        let mut record = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        self.input.read_exact(&mut record)?;
        let mut reader = Reader::new(&record);
        let transaction = reader.u32()?;
        reader.fixed(12)?;
        reader.opaque(400)?;
        if reader.u32()? != 0 {
            return Err("a call was not executed".into());
        }
        let status = reader.u32()?;
        reader.opaque(1024)?;
        reader.u32()?;
        if status != 0 {
            return Err(format!("a compound was answered with {status}").into());
        }
        if transaction != u32::MAX {
            reader.fixed(8 + 36)?;
        }
        Ok((transaction, reader.rest().to_vec()))
    }

    fn call(&mut self, slot: Option<u32>, compound: &Compound) -> Done<Vec<u8>> {
        self.queue(slot, compound);
        self.flush()?;
        Ok(self.receive()?.1)
    }

    /// The handle of a path.
    fn handle(&mut self, path: &str) -> Done<Vec<u8>> {
        let mut walk = Compound::default();
        walk.walk(path.split('/'));
        walk.add(GETFH);
        let skipped = 8 * walk.count as usize;
        let answer = self.call(Some(0), &walk)?;
        Ok(Reader::new(&answer[skipped..]).opaque(128)?.to_vec())
    }

    /// Opens or makes a file; its state id.
    fn open(&mut self, folder: &[u8], name: &str) -> Done<Vec<u8>> {
        let mut open = Compound::default();
        open.handle(folder);
        open.open(self.client, name);
        let answer = self.call(Some(0), &open)?;
        Ok(answer[16..16 + STATEID_BYTES].to_vec())
    }

    /// Keeps as many calls under way as there are slots, until the time is over; how many were answered.
    fn run(&mut self, seconds: f64, mut next: impl FnMut(&mut Compound) -> bool) -> Done<u64> {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut under_way = 0;
        let mut answered = 0;
        let mut free: Vec<u32> = (0..self.sequences.len() as u32).collect();
        let mut goes_on = true;
        loop {
            while goes_on {
                let Some(slot) = free.pop() else { break };
                let mut compound = Compound::default();
                goes_on = next(&mut compound) && Instant::now() < until;
                self.queue(Some(slot), &compound);
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(answered);
            }
            if self.input.buffer().is_empty() {
                self.flush()?;
            }
            free.push(self.receive()?.0);
            under_way -= 1;
            answered += 1;
        }
    }
}

/// What is asked for.
struct Load {
    bytes: usize,
    seconds: f64,
    file_bytes: u64,
}

impl Load {
    fn read(&self, client: &mut Client, path: &str) -> Done<u64> {
        let folder = client.handle(path)?;
        let state = client.open(&folder, "load")?;
        let file = client.handle(&format!("{path}/load"))?;
        let (blocks, mut place) = (self.file_bytes / self.bytes as u64, 0_u64);
        client.run(self.seconds, |compound| {
            // An odd step near the golden section comes to every place, and no read-ahead knows the next one.
            place = (place + ((blocks * 618 / 1000) | 1)) % blocks;
            compound.handle(&file);
            let out = compound.add(READ);
            out.fixed(&state);
            out.u64(place * self.bytes as u64);
            out.u32(self.bytes as u32);
            true
        })
    }

    /// Writes the file once, or until the time is over.
    fn write(&self, client: &mut Client, path: &str, once: bool) -> Done<u64> {
        let folder = client.handle(path)?;
        let state = client.open(&folder, "load")?;
        let file = client.handle(&format!("{path}/load"))?;
        let noise = noise(self.bytes);
        let mut at = 0;
        let written = client.run(self.seconds, |compound| {
            compound.handle(&file);
            let out = compound.add(WRITE);
            out.fixed(&state);
            out.u64(at);
            out.u32(0);
            out.opaque(&noise);
            at += self.bytes as u64;
            let is_end = at >= self.file_bytes;
            at %= self.file_bytes;
            !(is_end && once)
        })?;
        let mut commit = Compound::default();
        commit.handle(&file);
        let out = commit.add(COMMIT);
        out.u64(0);
        out.u32(0);
        client.call(Some(0), &commit)?;
        Ok(written)
    }

    fn create(&self, client: &mut Client, path: &str) -> Done<u64> {
        let name = format!("made-{}", std::process::id());
        let mut make = Compound::default();
        make.walk(path.split('/'));
        let out = make.add(CREATE);
        out.u32(DIRECTORY);
        out.opaque(name.as_bytes());
        for word in MODE.into_iter().chain([0o755]) {
            out.u32(word);
        }
        client.call(Some(0), &make)?;
        let folder = client.handle(&format!("{path}/{name}"))?;
        let (id, mut number) = (client.client, 0);
        client.run(self.seconds, |compound| {
            number += 1;
            compound.handle(&folder);
            compound.open(id, &format!("file-{number}"));
            let out = compound.add(CLOSE);
            out.u32(0);
            out.fixed(&CURRENT);
            true
        })
    }
}

/// Bytes that do not compress.
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
    let is_fill = what == "fill";
    let depth = if is_fill { FILL_DEPTH } else { depth.parse()? };
    let mut client = Client::connect(address, depth)?;
    let started = Instant::now();
    let operations = match &what[..] {
        "fill" => {
            load.bytes = FILL_BYTES;
            load.write(&mut client, path, true)?
        }
        "read" => load.read(&mut client, path)?,
        "write" => load.write(&mut client, path, false)?,
        "create" => load.create(&mut client, path)?,
        _ => return Err("a load is fill, read, write or create".into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    writeln!(std::io::stdout(), "{operations} {seconds:.6}")?;
    Ok(())
}
