//! The rule by which heads may act when they do not all see each other.

use super::{Checker, Code};
use crate::file::{Quorum, QuorumRule};
use crate::key::Key;

pub(super) fn check(checker: &mut Checker<'_>) {
    let heads = checker.appliance.heads.len();
    let Some(quorum) = &checker.appliance.quorum else {
        if heads > 1 {
            checker.find(
                Code::QuorumMissing,
                &Key::of("quorum"),
                format!("{heads} heads and no [quorum]"),
                match heads {
                    2 => "write [quorum] with rule = \"two-node\", or \"witness\" if there is a third host",
                    _ => "write [quorum] with rule = \"majority\"",
                },
            );
        }
        return;
    };
    check_rule(checker, quorum, heads);
    check_witness(checker, quorum);
}

fn check_rule(checker: &mut Checker<'_>, quorum: &Quorum, heads: usize) {
    let (fits, mend) = match quorum.rule {
        QuorumRule::TwoNode => (
            heads == 2,
            "use two-node with exactly two heads; leave [quorum] out with one, write \"majority\" with more",
        ),
        QuorumRule::Witness => (
            heads >= 2 && heads % 2 == 0,
            "use a witness with an even number of heads; write \"majority\" with an odd one",
        ),
        QuorumRule::Majority => (
            heads >= 3,
            "use majority with three heads or more; write \"two-node\" or \"witness\" with two",
        ),
    };
    if !fits {
        checker.find(
            Code::QuorumUnfit,
            &Key::of("quorum.rule"),
            format!("this rule does not fit {heads} head(s)"),
            mend,
        );
    }
    let wants_witness = quorum.rule == QuorumRule::Witness;
    if wants_witness != quorum.witness.is_some() {
        let (what, mend) = if wants_witness {
            (
                "the rule needs a witness, and none is described",
                "write [quorum.witness] with its address",
            )
        } else {
            (
                "a witness is described, and the rule does not ask it",
                "write rule = \"witness\", or remove [quorum.witness]",
            )
        };
        checker.find(Code::QuorumUnfit, &Key::of("quorum.witness"), what, mend);
    }
}

fn check_witness(checker: &mut Checker<'_>, quorum: &Quorum) {
    let appliance = checker.appliance;
    let Some(witness) = &quorum.witness else {
        return;
    };
    let key = Key::of("quorum.witness");
    let of_head = appliance
        .heads
        .values()
        .flat_map(|head| head.links.values())
        .flat_map(|link| &link.addresses);
    let of_pool = appliance
        .pools
        .values()
        .flat_map(|pool| pool.addresses.iter().map(|address| &address.address));
    let mut own = of_head.chain(of_pool);
    if own.any(|address| *address == witness.address) {
        checker.find(
            Code::WitnessSharesFate,
            &key.field("address"),
            format!("{} is an address of the appliance itself", witness.address),
            "run the witness on a third host",
        );
    }
    if witness.reach.is_empty() {
        checker.find(
            Code::WitnessBlind,
            &key,
            "the witness does not learn which head reaches its clients",
            "list routers or clients on the storage networks as reach = [...]",
        );
    }
}
