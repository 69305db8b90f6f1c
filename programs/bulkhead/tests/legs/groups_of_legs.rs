//! Additions of groups of legs that other heads, or later servers, complete or refuse.

use crate::common::legs::{Head, Pair};

use super::shapes_of_legs::{add, write_on};

fn status(head: &Head) -> String {
    let said = head.machine.ok("pool status tank").out;
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As the owner it would exclude all legs of the group, and no head could open the pool any more.
#[test]
fn head_with_earlier_file_refuses_a_pool_with_an_added_group() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1)]);
    let earlier = std::fs::read_to_string(pair.b.config()).expect("written");
    let legs = pair.name_group(("ab", 1), 11);
    pair.a.await_all_current();
    pair.a.machine.ok(&add(&legs));
    pair.a.await_whole();
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    let named = std::fs::read_to_string(pair.b.config()).expect("written");
    pair.b.reconfigure(|_| earlier);
    let before = pair.b.memory();
    let said = pair.b.refused("--previous-owner-is-stopped");
    for part in [
        "legs.toml of this head does not name disk 11, disk 12",
        "Write the file of head a here",
        "restart bulkhead-leg-server",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(pair.b.memory(), before, "nothing is promised or recorded");
    pair.b.reconfigure(|_| named);
    let server = pair.b.serve("--previous-owner-is-stopped");
    let mut client = pair.b.client();
    pair.check(&mut client);
    assert!(status(&pair.b).contains("mirror-1"), "{}", status(&pair.b));
    drop(client);
    assert_eq!(server.stop(), 0);
}
