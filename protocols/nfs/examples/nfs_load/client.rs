//! A minimal client of NFS 4.1 with one session.

use std::io::{BufReader, Read, Write};
use std::mem;
use std::net::TcpStream;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nfs::xdr::{Reader, Writer};

use crate::Done;

const PROGRAM: u32 = 100_003;
const INPUT_BYTES: usize = 2 << 20;
const CALL_BYTES_MAX: u32 = (1 << 20) + (16 << 10);
const OPERATIONS_MAX: u32 = 16;

const CLOSE: u32 = 4;
const COMMIT: u32 = 5;
const CREATE: u32 = 6;
const GETATTR: u32 = 9;
const GETFH: u32 = 10;
const LOOKUP: u32 = 15;
const OPEN: u32 = 18;
const PUTFH: u32 = 22;
const PUTROOTFH: u32 = 24;
const READ: u32 = 25;
const REMOVE: u32 = 28;
const WRITE: u32 = 38;
const EXCHANGE_ID: u32 = 42;
const CREATE_SESSION: u32 = 43;
const SEQUENCE: u32 = 53;
const RECLAIM_COMPLETE: u32 = 58;

const DIRECTORY: u32 = 2;
const READS_AND_WRITES: u32 = 3;
/// The bitmap with `mode`, and its value.
const MODE: [u32; 4] = [2, 0, 2, 4];
const STATEID_BYTES: usize = 16;
/// The attributes that the Linux client requests for each file after an open or a lookup.
const ATTRIBUTES: [u32; 3] = [2, 0x0010_011a, 0x00b0_a23a];
const UNCHECKED: [u32; 2] = [1, 0];
const HANDLE_BYTES_MAX: usize = 128;
/// `UNSTABLE4`.
const UNSTABLE: u32 = 0;
/// `FILE_SYNC4`.
const FILE_SYNC: u32 = 2;
/// The current stateid of the compound.
pub const CURRENT: [u8; STATEID_BYTES] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The operations of a compound.
#[derive(Default)]
pub struct Compound {
    count: u32,
    writer: Writer,
}

impl Compound {
    pub fn add(&mut self, operation: u32) -> &mut Writer {
        self.count += 1;
        self.writer.u32(operation);
        &mut self.writer
    }

    pub fn handle(&mut self, handle: &[u8]) {
        self.add(PUTFH).opaque(handle);
    }

    pub fn walk<'a>(&mut self, path: impl Iterator<Item = &'a str>) {
        self.add(PUTROOTFH);
        for name in path {
            self.look_up(name);
        }
    }

    pub fn look_up(&mut self, name: &str) {
        self.add(LOOKUP).opaque(name.as_bytes());
    }

    pub fn attributes(&mut self) {
        let out = self.add(GETATTR);
        for word in ATTRIBUTES {
            out.u32(word);
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.add(REMOVE).opaque(name.as_bytes());
    }

    /// Opens a file and creates it if it is missing.
    pub fn open(&mut self, client: u64, name: &str) {
        let out = self.begin_open(client);
        for word in UNCHECKED.into_iter().chain(MODE) {
            out.u32(word);
        }
        out.u32(0o644);
        out.u32(0);
        out.opaque(name.as_bytes());
    }

    /// Opens an existing file.
    pub fn open_existing(&mut self, client: u64, name: &str) {
        let out = self.begin_open(client);
        out.u32(0);
        out.u32(0);
        out.opaque(name.as_bytes());
    }

    fn begin_open(&mut self, client: u64) -> &mut Writer {
        let out = self.add(OPEN);
        for word in [0, READS_AND_WRITES, 0] {
            out.u32(word);
        }
        out.u64(client);
        out.opaque(b"load");
        out
    }

    /// Adds the operations that a client sends after an open. [`opened`] reads the results.
    pub fn look_at_opened(&mut self) {
        self.add(GETFH);
        self.attributes();
    }

    pub fn read(&mut self, state: &[u8], at: u64, bytes: usize) {
        let out = self.add(READ);
        out.fixed(state);
        out.u64(at);
        out.u32(bytes as u32);
    }

    /// Writes unstable data.
    pub fn write(&mut self, state: &[u8], at: u64, data: &[u8]) {
        self.write_as(UNSTABLE, state, at, data);
    }

    /// Writes data that is durable when the reply arrives.
    pub fn write_durably(&mut self, state: &[u8], at: u64, data: &[u8]) {
        self.write_as(FILE_SYNC, state, at, data);
    }

    fn write_as(&mut self, stability: u32, state: &[u8], at: u64, data: &[u8]) {
        let out = self.add(WRITE);
        out.fixed(state);
        out.u64(at);
        out.u32(stability);
        out.opaque(data);
    }

    pub fn commit(&mut self) {
        let out = self.add(COMMIT);
        out.u64(0);
        out.u32(0);
    }

    pub fn close(&mut self, state: &[u8]) {
        let out = self.add(CLOSE);
        out.u32(0);
        out.fixed(state);
    }
}

/// Returns stateid and handle from the results of `PUTFH`, an open and
/// [`Compound::look_at_opened`].
pub fn opened(results: &[u8]) -> Done<(Vec<u8>, Vec<u8>)> {
    let mut reader = Reader::new(results);
    reader.fixed(16)?;
    let state = reader.fixed(STATEID_BYTES)?.to_vec();
    // The change of the directory, and flags.
    reader.fixed(20 + 4)?;
    for _ in 0..reader.u32()? {
        reader.u32()?;
    }
    if reader.u32()? != 0 {
        return Err("an unexpected delegation".into());
    }
    reader.fixed(8)?;
    Ok((state, reader.opaque(HANDLE_BYTES_MAX)?.to_vec()))
}

/// Generates the calls.
pub trait Calls {
    /// Adds the operations of the next call to `compound`. Returns false if it is the last one.
    fn next(&mut self, slot: u32, compound: &mut Compound) -> bool;

    /// Handles the results of the call in this slot.
    fn answered(&mut self, _slot: u32, _results: &[u8]) -> Done {
        Ok(())
    }
}

/// Calls of which only the replies are counted.
impl<F: FnMut(&mut Compound) -> bool> Calls for F {
    fn next(&mut self, _slot: u32, compound: &mut Compound) -> bool {
        self(compound)
    }
}

pub struct Client {
    input: BufReader<TcpStream>,
    output: Vec<u8>,
    sender: Option<Sender<Vec<u8>>>,
    pub client: u64,
    session: [u8; 16],
    sequences: Vec<u32>,
    credential: Vec<u8>,
}

impl Client {
    pub fn connect(address: &str, depth: u32) -> Done<Self> {
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
            sender: None,
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

    /// Queues a call, in a slot of the session if one is given.
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

    /// Sends from a separate thread from now on, so that large calls and large replies can be in
    /// progress at the same time.
    pub fn send_apart(&mut self) -> Done {
        let mut stream = self.input.get_ref().try_clone()?;
        let (sender, calls) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || calls.iter().try_for_each(|bytes| stream.write_all(&bytes)));
        self.sender = Some(sender);
        Ok(())
    }

    fn flush(&mut self) -> Done {
        match &self.sender {
            Some(sender) => sender.send(mem::take(&mut self.output))?,
            None => {
                self.input.get_mut().write_all(&self.output)?;
                self.output.clear();
            }
        }
        Ok(())
    }

    /// Receives the next reply. Returns its slot, and the results after the one of `SEQUENCE`.
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

    pub fn call(&mut self, slot: Option<u32>, compound: &Compound) -> Done<Vec<u8>> {
        self.queue(slot, compound);
        self.flush()?;
        Ok(self.receive()?.1)
    }

    /// Returns the handle of a path.
    pub fn handle(&mut self, path: &str) -> Done<Vec<u8>> {
        let mut walk = Compound::default();
        walk.walk(path.split('/'));
        walk.add(GETFH);
        let skipped = 8 * walk.count as usize;
        let answer = self.call(Some(0), &walk)?;
        Ok(Reader::new(&answer[skipped..])
            .opaque(HANDLE_BYTES_MAX)?
            .to_vec())
    }

    /// Opens or creates a file. Returns stateid and handle.
    pub fn open(&mut self, folder: &[u8], name: &str) -> Done<(Vec<u8>, Vec<u8>)> {
        let mut open = Compound::default();
        open.handle(folder);
        open.open(self.client, name);
        open.look_at_opened();
        opened(&self.call(Some(0), &open)?)
    }

    /// Creates a directory. Returns its handle.
    pub fn make_directory(&mut self, path: &str, name: &str) -> Done<Vec<u8>> {
        let mut make = Compound::default();
        make.walk(path.split('/'));
        let out = make.add(CREATE);
        out.u32(DIRECTORY);
        out.opaque(name.as_bytes());
        for word in MODE.into_iter().chain([0o755]) {
            out.u32(word);
        }
        self.call(Some(0), &make)?;
        self.handle(&format!("{path}/{name}"))
    }

    /// Runs calls in all slots until the time is over. Returns the number of replies.
    pub fn run(&mut self, seconds: f64, calls: &mut impl Calls) -> Done<u64> {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut under_way = 0;
        let mut answered = 0;
        let mut free: Vec<u32> = (0..self.sequences.len() as u32).collect();
        let mut goes_on = true;
        loop {
            while goes_on {
                let Some(slot) = free.pop() else { break };
                let mut compound = Compound::default();
                goes_on = calls.next(slot, &mut compound) && Instant::now() < until;
                self.queue(Some(slot), &compound);
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(answered);
            }
            if self.input.buffer().is_empty() {
                self.flush()?;
            }
            let (slot, results) = self.receive()?;
            calls.answered(slot, &results)?;
            free.push(slot);
            under_way -= 1;
            answered += 1;
        }
    }
}
