//! A closed directory protects the files below it: a client cannot forge a filehandle that it has
//! not received, and cannot mount a path to it.

use file_system::{Guard, Handle, Identity, Node, SetAttributes};

use super::*;
use crate::handles::without_code;

const STALE: u32 = 70;
const BAD: u32 = 10_001;
const ACCES: u32 = 13;
const OTHER_USER: u32 = 2000;

/// A directory that only root may enter, with a file that every user may read.
struct Closed {
    client: Client,
    home: Vec<u8>,
    directory: Vec<u8>,
    file: Vec<u8>,
}

impl Closed {
    fn new() -> Self {
        let mut client = Client::new(EVERYTHING);
        let home = client.mount("/tank/home").expect("it is shared");
        let mut make = named(&home, "closed");
        nothing_set(&mut make);
        assert_eq!(client.status(procedure::MKDIR, &make), 0);
        let directory = client.mount("/tank/home/closed").expect("root enters");
        let file = client.create(&directory, "file");
        let root = Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        let mode = SetAttributes {
            mode: Some(0o700),
            ..SetAttributes::default()
        };
        let node = unverified(&directory).expect("a handle").node;
        let set = client
            .files
            .set_attributes(&root, node, &mode, &Guard::default(), None);
        set.expect("set");
        client.uid = OTHER_USER;
        Self {
            client,
            home,
            directory,
            file,
        }
    }

    fn attributes_of(&mut self, handle: &[u8]) -> u32 {
        let mut arguments = Writer::new();
        arguments.opaque(handle);
        self.client.status(procedure::GETATTR, &arguments)
    }

    fn guess(&self, object: u64) -> Handle {
        let known = unverified(&self.home).expect("a handle");
        let node = Node {
            object,
            generation: unverified(&self.file).expect("a handle").node.generation,
        };
        Handle { node, ..known }
    }
}

#[test]
fn guessed_handles_reach_no_file_of_a_closed_directory() {
    let mut closed = Closed::new();
    let file = closed.file.clone();
    assert_eq!(closed.attributes_of(&file), 0, "the handle is valid");
    let node = unverified(&file).expect("a handle").node;
    // The generation is known and the number can be guessed. Only the code is missing.
    assert!(node.object < 600);
    let code = closed.home[36..].to_vec();
    for object in 0..600 {
        let guess = closed.guess(object);
        let home = unverified(&closed.home).expect("a handle");
        if guess == home {
            continue;
        }
        let mut signed = key().sign(guess);
        signed[36..].copy_from_slice(&code);
        assert_eq!(closed.attributes_of(&signed), STALE, "{object}");
        signed[36..].fill(0);
        assert_eq!(closed.attributes_of(&signed), STALE, "{object}");
        assert_eq!(
            closed.attributes_of(&without_code(guess)),
            STALE,
            "{object}"
        );
        for cut in [36, 40, 47] {
            assert_eq!(closed.attributes_of(&signed[..cut]), BAD, "{object}");
        }
    }
}

#[test]
fn root_handle_needs_no_mac_and_others_not_until_expiry() {
    let mut closed = Closed::new();
    let [home, file] = [&closed.home, &closed.file].map(|one| {
        let handle = unverified(one).expect("a handle");
        without_code(handle)
    });
    assert_eq!(closed.attributes_of(&home), 0, "every client finds it");
    assert_eq!(closed.attributes_of(&file), STALE);
    let exports = |client: &Client| {
        Exports::new(vec![Shared {
            name: "tank/home".to_owned(),
            share: Share::parse(EVERYTHING).expect("a share").expect("not off"),
            files: Arc::<MemoryFileSystem>::clone(&client.files),
        }])
    };
    let client = &mut closed.client;
    client.service.sign_by(key().with_unsigned_until(1000));
    client.service.share(exports(client).expect("a tree"));
    client.now_ms = 999;
    assert_eq!(closed.attributes_of(&file), 0, "of an earlier version");
    closed.client.now_ms = 1000;
    assert_eq!(closed.attributes_of(&file), STALE);
}

#[test]
fn mount_path_checks_search_permission() {
    let closed = Closed::new();
    let client = &closed.client;
    assert_eq!(
        client.mount("/tank/home/closed").as_ref(),
        Ok(&closed.directory)
    );
    // Existing and missing files cannot be distinguished.
    for path in ["/tank/home/closed/file", "/tank/home/closed/none"] {
        assert_eq!(client.mount(path), Err(ACCES), "{path}");
    }
    let mut squashed = Client::new("rw=127.0.0.1");
    squashed.files = Arc::clone(&client.files);
    let shared = Shared {
        name: "tank/home".to_owned(),
        share: Share::parse("rw=127.0.0.1")
            .expect("a share")
            .expect("not off"),
        files: Arc::<MemoryFileSystem>::clone(&client.files),
    };
    squashed
        .service
        .share(Exports::new(vec![shared]).expect("a tree"));
    assert_eq!(
        squashed.mount("/tank/home/closed/none"),
        Err(ACCES),
        "root is nobody"
    );
}
