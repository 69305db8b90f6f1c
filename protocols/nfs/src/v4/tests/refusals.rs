//! A refusal may depend on a change without a delivered reply, and a client that retries mistakes
//! the refusal for that reply. So it must be as durable as a reply.

use super::*;

const NOENT: u32 = 2;
const EXIST: u32 = 17;

#[test]
fn state_that_refuses_a_change_is_durable() {
    let (home, files) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    let root = words(&[24]);
    let in_root = |client: &mut Client, operation: &[u8]| client.status(&[&root, operation]);
    assert_eq!(in_root(&mut client, &make_directory(b"made")), 0);
    // A client without a session that could identify the call.
    let mut again = Client::connect(&service, b"two", 0);
    for (operation, status) in [
        (make_directory(b"made"), EXIST),
        (named(28, &[b"removed"]), NOENT),
    ] {
        let before = files.commits();
        assert_eq!(in_root(&mut again, &operation), status);
        assert_eq!(files.commits(), before + 1);
    }
    let before = files.commits();
    let rename = named(29, &[b"old", b"made"]);
    assert_eq!(again.status(&[&root, &words(&[32]), &rename]), NOENT);
    assert_eq!(files.commits(), before + 1);
}

#[test]
fn change_is_durable_before_its_reply() {
    let (home, files) = shared("", 5, EVERYTHING);
    let service = service_of(vec![home]);
    let mut client = Client::connect(&service, b"one", 0);
    client.at(&[], &make_directory(b"made"));
    assert_eq!(files.commits(), 1);
    client.open(b"file", 3, 0).expect("it is free");
    assert_eq!(files.commits(), 2);
    client.open(b"file", 3, 0).expect("it is there");
    assert_eq!(files.commits(), 3, "another call may have made it");
}
