//! Names of file systems in the directories above them: no operation can create another object with
//! such a name.

use super::*;

const OK: u32 = 0;
const PERM: u32 = 1;
const NOENT: u32 = 2;
const EXIST: u32 = 17;
const ISDIR: u32 = 21;

/// `home` with three file systems in it: one for every client, one for other clients, one that is
/// not shared.
fn nested() -> (Arc<Service>, Arc<MemoryFileSystem>) {
    let service = service();
    let (home, files) = shared("home", 5, EVERYTHING);
    let all = vec![
        home,
        shared("home/seen", 6, EVERYTHING).0,
        shared("home/closed", 7, "rw=192.0.2.1").0,
        shared("home/way/below", 8, "rw=192.0.2.1").0,
    ];
    let names = [
        "home",
        "home/seen",
        "home/closed",
        "home/way",
        "home/way/below",
        "home/off",
    ];
    let exports = Exports::new(all).expect("a tree");
    service.share(exports.with_names(names.map(str::to_owned).into()));
    (service, files)
}

/// `OPEN` of a client of this minor version by name, creating the file in this way if it is
/// missing.
fn open(client: u64, name: &[u8], how: Option<u32>) -> Vec<u8> {
    let mut open = Writer::new();
    for word in [18, 1, 1, 0] {
        open.u32(word);
    }
    open.u64(client);
    // Another owner each time.
    open.opaque(format!("{name:?}{how:?}").as_bytes());
    match how {
        None => open.u32(0),
        Some(2) => open.append(&words(&[1, 2, 7, 7])),
        Some(how) => open.append(&words(&[1, how, 0, 0])),
    }
    open.u32(0);
    open.opaque(name);
    open.into_bytes()
}

/// Returns the status of operations in `home` with this minor version.
fn in_home(client: &mut Client, minor: u32, operations: &[&[u8]]) -> u32 {
    let (root, home) = (words(&[24]), path(&[b"home"]));
    let all = [&[&root[..], &home[..]], operations].concat();
    let answer = match minor {
        0 => {
            let compound = compound_of(0, &all);
            client.now_ms += 1;
            send(&client.service, client.uid, client.now_ms, &compound)
        }
        _ => client.ask_by(minor, &all),
    };
    Reader::new(&answer).u32().expect("a status")
}

fn without_sessions(service: &Service) -> u64 {
    let introduce = without_sessions::set_client(b"old", 1);
    let answer = send(service, 0, 0, &compound_of(0, &[&introduce]));
    let mut reader = Reader::new(&answer[20..]);
    let (client, confirmation) = (
        reader.u64().expect("a client"),
        reader.u64().expect("a verifier"),
    );
    let mut confirm = Writer::new();
    confirm.u32(36);
    confirm.u64(client);
    confirm.u64(confirmation);
    let answer = send(service, 0, 0, &compound_of(0, &[confirm.bytes()]));
    assert_eq!(answer[..4], words(&[0]));
    client
}

#[test]
fn create_at_a_file_system_name_is_refused() {
    for minor in 0..=2 {
        let (service, files) = nested();
        let mut client = Client::connect(&service, b"one", 0);
        let opener = match minor {
            0 => without_sessions(&service),
            _ => client.client,
        };
        let (save, file) = (words(&[32]), path(&[b"file"]));
        let home = [words(&[24]), path(&[b"home"])];
        assert_eq!(
            in_home(&mut client, minor, &[&open(opener, b"file", Some(0))]),
            OK
        );
        let objects = files.objects();
        for name in [&b"seen"[..], b"closed", b"way", b"off"] {
            let is_seen = name == b"seen";
            let mut status = |operations: &[&[u8]]| in_home(&mut client, minor, operations);
            let case = String::from_utf8_lossy(name);
            let found = if is_seen { OK } else { NOENT };
            assert_eq!(status(&[&path(&[name])]), found, "LOOKUP {case}");
            assert_eq!(status(&[&make_directory(name)]), EXIST, "CREATE {case}");
            assert_eq!(status(&[&make_link(name, b"to")]), EXIST, "CREATE {case}");
            let of_seen = |otherwise| if is_seen { ISDIR } else { otherwise };
            for (how, expected) in [
                (None, of_seen(NOENT)),
                (Some(0), of_seen(EXIST)),
                (Some(1), EXIST),
                (Some(2), of_seen(EXIST)),
            ] {
                let opened = status(&[&open(opener, name, how)]);
                assert_eq!(opened, expected, "OPEN {case} {how:?}");
            }
            let rename = named(29, &[b"file", name]);
            assert_eq!(status(&[&save, &rename]), EXIST, "RENAME to {case}");
            let link = [&file[..], &save, &home[0], &home[1], &named(11, &[name])];
            assert_eq!(status(&link), EXIST, "LINK {case}");
            let gone = if is_seen { PERM } else { NOENT };
            let rename = named(29, &[name, b"else"]);
            assert_eq!(status(&[&save, &rename]), gone, "RENAME of {case}");
            assert_eq!(status(&[&named(28, &[name])]), gone, "REMOVE {case}");
        }
        assert_eq!(files.objects(), objects);
    }
}

/// It is older than the file system, or came with a snapshot. A client that sees it may remove it,
/// and cannot create a new one.
#[test]
fn entry_hidden_by_a_file_system_is_removed_only_if_visible() {
    for minor in 1..=2 {
        let (home, files) = shared("home", 5, EVERYTHING);
        let service = service_of(vec![home.clone()]);
        let mut client = Client::connect(&service, b"one", 0);
        for name in [&b"seen"[..], b"off"] {
            assert_eq!(in_home(&mut client, minor, &[&make_directory(name)]), OK);
        }
        let seen = shared("home/seen", 6, EVERYTHING).0;
        let exports = Exports::new(vec![home, seen]).expect("a tree");
        let names = ["home", "home/seen", "home/off"];
        service.share(exports.with_names(names.map(str::to_owned).into()));
        let objects = files.objects();
        let save = words(&[32]);
        let mut status = |operations: &[&[u8]]| in_home(&mut client, minor, operations);
        assert_eq!(status(&[&named(28, &[b"seen"])]), PERM);
        assert_eq!(status(&[&save, &named(29, &[b"seen", b"else"])]), PERM);
        assert_eq!(files.objects(), objects);
        assert_eq!(status(&[&path(&[b"off"])]), OK);
        assert_eq!(status(&[&make_directory(b"off")]), EXIST);
        assert_eq!(status(&[&save, &named(29, &[b"off", b"else"])]), OK);
        assert_eq!(status(&[&save, &named(29, &[b"else", b"off"])]), EXIST);
    }
}
