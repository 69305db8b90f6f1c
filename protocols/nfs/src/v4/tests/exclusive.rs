//! Exclusive creates: a verifier in the times of the file identifies a retransmission.

use super::*;
use file_system::{Guard, Identity, SetAttributes};

const ACCESS: u32 = 13;
const EXIST: u32 = 17;
const OWNER: u32 = 1000;
const VERIFIER: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

impl Client {
    /// Creates and opens a file of the root for reading and writing: EXCLUSIVE4.
    fn open_exclusively(&mut self, name: &[u8], verifier: [u8; 8]) -> u32 {
        let mut open = Writer::new();
        for word in [18, 0, 3, 0] {
            open.u32(word);
        }
        open.u64(self.client);
        open.opaque(b"owner");
        // OPEN4_CREATE, EXCLUSIVE4, the verifier, CLAIM_NULL.
        for word in [1, 2] {
            open.u32(word);
        }
        open.fixed(&verifier);
        open.u32(0);
        open.opaque(name);
        self.status(&[&words(&[24]), open.bytes()])
    }
}

#[test]
fn guessed_exclusive_verifier_does_not_open_a_file() {
    let (home, files) = shared("", 1, EVERYTHING);
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let set = |node, mode| {
        let changes = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&root, node, &changes, &Guard::default(), None);
        set.expect("root may");
    };
    set(files.root(), 0o777);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.uid = OWNER;
    assert_eq!(client.open_exclusively(b"file", VERIFIER), 0);
    let found = files.look_up(&root, files.root(), b"file");
    set(found.expect("it was made").node, 0);
    // The owner may repeat it, regardless of the mode, and so may root.
    for (uid, status) in [(OWNER, 0), (0, 0), (OWNER + 1, ACCESS)] {
        let mut client = Client::connect(&service, &uid.to_be_bytes(), 0);
        client.uid = uid;
        assert_eq!(client.open_exclusively(b"file", VERIFIER), status, "{uid}");
        assert_eq!(client.open_exclusively(b"file", [9; 8]), EXIST, "{uid}");
    }
}
