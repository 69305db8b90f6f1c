//! Streams, which are passed separately from their requests.

use std::io::{Seek, SeekFrom};
use std::os::fd::OwnedFd;

use control::request::TransferRequest;
use operations::NoServer;
use operations::transfer::{self, Data};

use super::{Bench, Outcome};

const VOLUME: &str = r#"{"name":"tank/v","size":4194304,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":false}"#;

/// Performs a request with `stream` as its stream.
fn ask(bench: &Bench, request: &str, stream: &std::fs::File) -> Outcome {
    let request: TransferRequest = serde_json::from_str(request).expect("a request");
    let data = Data {
        descriptor: OwnedFd::from(stream.try_clone().expect("a descriptor")),
        is_abandoned: &|| false,
    };
    let context = bench.context(&NoServer);
    Outcome::of(transfer::perform(
        &context,
        request,
        Some(data),
        &mut |_| {},
    ))
}

fn fill(bench: &Bench) {
    bench.pool.write("tank/v", 0, &vec![7; 2 << 20]);
}

const SEND: &str = r#"{"send":{"what":{"snapshot":{"name":"tank/v@1","from":null,"raw":false,"embedded":false,"plain":false}}}}"#;

#[test]
fn volume_is_sent_to_another_pool_and_resumed_after_a_cut() {
    let (from, to) = (Bench::prepared(), Bench::prepared());
    for (verb, arguments) in [
        ("volume.create", VOLUME),
        ("snapshot.create", r#"{"names":["tank/v@1"]}"#),
    ] {
        if verb.starts_with("snapshot") {
            fill(&from);
        }
        let done = from.ask(&NoServer, verb, arguments);
        assert_eq!(done.kind, "changed", "{}", done.text);
    }
    let mut stream = tempfile::tempfile().expect("a file");
    let sent = ask(&from, SEND, &stream);
    assert_eq!(sent.kind, "told", "{}", sent.text);
    let length = stream.stream_position().expect("its end");
    assert!(length > 2 << 20);

    // Half of it arrives.
    let whole = stream.try_clone().expect("a descriptor");
    let mut half = tempfile::tempfile().expect("a file");
    stream.seek(SeekFrom::Start(0)).expect("its begin");
    let mut part = std::io::Read::take(&whole, length / 2);
    std::io::copy(&mut part, &mut half).expect("copied");
    half.seek(SeekFrom::Start(0)).expect("its begin");
    let receive = r#"{"receive":{"volume":"tank/copy","resumable":true}}"#;
    let cut = ask(&to, receive, &half);
    assert_eq!(cut.kind, "Failed", "{}", cut.text);
    assert!(cut.text.contains("--resume"), "{}", cut.text);
    let left = to.ask(
        &NoServer,
        "transfer.interrupted",
        r#"{"volume":"tank/copy"}"#,
    );
    let token = left
        .text
        .split("memory-")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let token = format!("memory-{}", token.expect("a token"));

    // The rest follows.
    let rest = tempfile::tempfile().expect("a file");
    let send = format!(r#"{{"send":{{"what":{{"rest":{{"token":"{token}"}}}}}}}}"#);
    let sent = ask(&from, &send, &rest);
    assert_eq!(sent.kind, "told", "{}", sent.text);
    let mut rest = rest;
    assert!(rest.stream_position().expect("its end") < length);
    rest.seek(SeekFrom::Start(0)).expect("its begin");
    let done = ask(&to, receive, &rest);
    assert_eq!(done.kind, "told", "{}", done.text);
    let shown = to.ask(&NoServer, "volume.show", r#"{"name":"tank/copy"}"#);
    assert_eq!(shown.kind, "told", "{}", shown.text);

    // A second one of that name is refused, and noise is no stream.
    stream.seek(SeekFrom::Start(0)).expect("its begin");
    let again = ask(&to, receive, &stream);
    assert_eq!(again.kind, "Exists", "{}", again.text);
    let noise = tempfile::tempfile().expect("a file");
    noise.set_len(4096).expect("its length");
    let refused = ask(&to, r#"{"receive":{"volume":"tank/noise"}}"#, &noise);
    assert_eq!(refused.kind, "Usage", "{}", refused.text);
}

#[test]
fn interrupted_receive_is_discarded_by_abort() {
    let bench = Bench::prepared();
    for (verb, arguments) in [
        ("volume.create", VOLUME),
        ("snapshot.create", r#"{"names":["tank/v@1"]}"#),
    ] {
        assert_eq!(bench.ask(&NoServer, verb, arguments).kind, "changed");
    }
    let mut stream = tempfile::tempfile().expect("a file");
    assert_eq!(ask(&bench, SEND, &stream).kind, "told");
    let length = stream.stream_position().expect("its end");
    stream.set_len(length - 1).expect("cut");
    stream.seek(SeekFrom::Start(0)).expect("its begin");
    let receive = r#"{"receive":{"volume":"tank/copy","resumable":true}}"#;
    assert_eq!(ask(&bench, receive, &stream).kind, "Failed");
    let abort = r#"{"volume":"tank/copy"}"#;
    assert_eq!(
        bench.ask(&NoServer, "transfer.abort", abort).kind,
        "changed"
    );
    assert_eq!(
        bench.ask(&NoServer, "transfer.abort", abort).kind,
        "NotFound"
    );
}
