//! Members of a pool of legs that lost their records, with real processes: an administrator's confirmation restores
//! their membership, with full rights.

use crate::common::eventually;
use crate::common::legs::Pair;

/// Returns the state of the members from the server on head `a`.
fn members(pair: &Pair) -> String {
    pair.a.machine.ok("pool status tank --json").out
}

/// Its file is lost: it does not vote, and cannot be used to open the pool, until an administrator confirms it and the
/// owner has sent it the record.
#[test]
fn witness_without_file_has_no_vote_until_updated() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 10);
    let (is_done, said) = pair.witness_does(&["readmit", "77", "--forget"]);
    assert!(
        !is_done && said.contains("has the record of pool 77"),
        "{said}"
    );
    pair.witness.kill();
    std::fs::remove_file(pair.witness_file()).expect("lost");
    pair.start_witness();
    eventually("the owner has detected it", || {
        members(&pair).contains("its file of this pool is missing")
    });
    drop(client);
    assert_eq!(server.stop(), 0);
    pair.b.leg_server.kill();
    let said = pair.a.refused("--previous-owner-is-stopped");
    assert!(said.contains("too few members respond"), "{said}");
    let (is_done, said) = pair.witness_does(&["readmit", "77", "--forget"]);
    assert!(is_done, "{said}");
    let said = pair.a.refused("--previous-owner-is-stopped");
    assert!(said.contains("too few members respond"), "{said}");
    pair.b.start_leg_server();
    let server = pair.a.serve("");
    pair.await_witness_updated();
    // The second loss: the witness signs that the leg of `b` is out, and stores that.
    let mut client = pair.a.client();
    pair.b.leg_server.kill();
    pair.write(&mut client, 10);
    assert!(!pair.a.is_current("b"));
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    pair.b.start_leg_server();
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("is current"), "{said}");
    pair.a.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    pair.a.await_current("b", true);
    assert_eq!(server.stop(), 0);
}

/// The witness and the owner restore the membership of the head while the pool is served. Then the witness is lost, and
/// the two heads decide.
#[test]
fn head_without_file_is_updated_while_pool_is_served() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 10);
    let file = pair.b.machine.path("state/legs/77.legs");
    pair.b.leg_server.kill();
    std::fs::write(&file, "damaged").expect("written over");
    pair.b.start_leg_server();
    pair.write(&mut client, 10);
    pair.a.await_current("b", true);
    eventually("the owner has detected it", || {
        members(&pair).contains("its file of this pool is damaged")
    });
    let alone = pair.b.machine.path("alone.toml");
    let text = std::fs::read_to_string(pair.b.config()).expect("written");
    let (heads, rest) = text.split_once("[members.w]").expect("a witness");
    let pools = rest.split_once("[pools.").expect("a pool").1;
    std::fs::write(&alone, format!("{heads}[pools.{pools}")).expect("written");
    let readmit = |config: &str| {
        let words = format!("leg-server readmit 77 --forget --config {config}");
        pair.b.machine.run(&words)
    };
    let refused = readmit(&alone.display().to_string());
    assert!(refused.err.contains("without a witness"), "{}", refused.err);
    let done = readmit(&pair.b.config());
    assert_eq!(done.code, 0, "{}", done.err);
    eventually("it was told", || {
        !members(&pair).contains("its record was lost")
            && std::fs::metadata(&file).is_ok_and(|file| file.len() > 100)
    });
    assert!(file.with_extension("legs.refused-1").exists());
    pair.witness.kill();
    drop(client);
    assert_eq!(server.stop(), 0);
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// Its host was replaced: another key, the same number.
#[test]
fn witness_on_another_host_replaces_former_one() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 10);
    drop(client);
    pair.replace_witness();
    for head in [&mut pair.a, &mut pair.b] {
        head.leg_server.kill();
        head.start_leg_server();
    }
    assert_eq!(server.stop(), 0);
    let server = pair.a.serve("");
    let (is_done, said) = pair.witness_does(&["readmit", "77", "--forget", "--replaced"]);
    assert!(is_done, "{said}");
    pair.await_witness_updated();
    pair.a.await_all_current();
    let mut client = pair.a.client();
    pair.b.leg_server.kill();
    pair.write(&mut client, 10);
    drop(client);
    server.kill();
    let server = pair.a.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}
