//! Hosts that send snapshots to each other, each with a server and clients of its own.

use std::io::Write;
use std::process::{Child, Stdio};

use super::nbd::Nbd as Client;
use super::{CommandOutput, ServerProcess, TestHost};

pub const MIB: usize = 1 << 20;
/// Size of the replicated volume, in bytes.
pub const SIZE: usize = 24 * MIB;

/// A host that serves an NBD export of `tank/v`.
pub struct Head {
    pub machine: TestHost,
    pub server: ServerProcess,
    options: String,
}

impl Head {
    pub fn new() -> Self {
        Self::with_options("")
    }

    pub fn with_options(options: &str) -> Self {
        let machine = TestHost::with_exported_volume();
        // The next owner has it, too.
        std::fs::write(machine.path("authkey"), [7; 128]).expect("written");
        let server = machine.serve(options);
        Self {
            machine,
            server,
            options: options.to_owned(),
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.machine.nbd_socket(), "v").expect("connected")
    }

    pub fn killed_and_restarted(self) -> Self {
        self.server.kill();
        let server = self.machine.serve(&self.options);
        Self {
            machine: self.machine,
            server,
            options: self.options,
        }
    }

    /// The server is killed, and another head, with only the disks and the cluster's key, takes the pool over.
    pub fn taken_over(self, by: &str) -> Self {
        self.server.kill();
        let _ = std::fs::remove_dir_all(self.machine.path("state"));
        let disks = self.machine.directory.path().display();
        let options = format!("{} --host-id {by} --search {disks}", self.options);
        let first = format!("{options} --previous-owner-is-stopped");
        let server = self.machine.serve(&first);
        Self {
            machine: self.machine,
            server,
            options,
        }
    }

    /// A stream, as a file's bytes.
    pub fn stream(&self, words: &str) -> Vec<u8> {
        let mut command = self.machine.command(words);
        let output = command.output().expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {errors}");
        output.stdout
    }

    pub fn start_receive(&self, words: &str) -> Child {
        let mut command = self.machine.command(words);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    pub fn receive(&self, words: &str, stream: &[u8]) -> CommandOutput {
        let mut child = self.start_receive(words);
        let mut input = child.stdin.take().expect("piped");
        // A receive that was refused reads no further.
        let _ = input.write_all(stream);
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn received(&self, words: &str, stream: &[u8]) {
        let said = self.receive(words, stream);
        assert_eq!(said.code, 0, "{words}: {} {}", said.out, said.err);
    }

    pub fn refused(&self, words: &str, stream: &[u8], code: i32, part: &str) {
        let said = self.receive(words, stream);
        assert_eq!(said.code, code, "{words}: {} {}", said.out, said.err);
        assert!(said.err.contains(part), "{words}: {}", said.err);
    }

    /// Returns the contents of a volume, by a clone of its snapshot that is exported temporarily.
    pub fn contents(&self, snapshot: &str) -> Vec<u8> {
        self.machine
            .ok(&format!("snapshot clone {snapshot} tank/look"));
        self.machine.ok("nbd export tank/look --name look");
        let socket = self.machine.nbd_socket();
        let mut client = Client::connect(&socket, "look").expect("connected");
        let mut bytes = Vec::new();
        for piece in 0..SIZE / MIB {
            let offset = (piece * MIB) as u64;
            bytes.extend(client.read(offset, MIB).expect("read"));
        }
        drop(client);
        let destroy = "volume destroy tank/look --exported --yes-destroy-data";
        self.machine.ok(destroy);
        bytes
    }

    pub fn token(&self, volume: &str) -> String {
        let words = format!("snapshot receive {volume} --token --json");
        let left = self.machine.ok(&words).json();
        left["token"].as_str().unwrap_or_default().to_owned()
    }
}

/// Returns incompressible bytes, different for each seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub fn fill(client: &mut Client, seed: u64) {
    for piece in 0..SIZE / MIB {
        let data = noise(seed + piece as u64, MIB);
        client.write((piece * MIB) as u64, &data).expect("written");
    }
    client.flush().expect("flushed");
}
