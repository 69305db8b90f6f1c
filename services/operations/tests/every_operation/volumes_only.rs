//! The tables on an engine without any optional capability. An operation that demands one is refused, always in the same way; each
//! other operation does what it says.

use std::collections::{BTreeMap, BTreeSet};

use engine::Capability;
use memory_engine::MemoryEngine;
use operations::{NoServer, demanded};

use super::cases::ALL;
use super::{Bench, request};

#[test]
fn operations_on_volumes_only_engine_succeed_or_are_unsupported() {
    let mut refused: BTreeMap<Capability, BTreeSet<&str>> = BTreeMap::new();
    let (mut done, mut free) = (BTreeSet::new(), BTreeSet::new());
    for (table, lines) in ALL {
        let bench = Bench::on(MemoryEngine::volumes_only());
        // Whether all lines so far were performed as the table has them.
        let mut is_as_told = true;
        for (verb, arguments, expected) in *lines {
            if let Some(what) = verb.strip_prefix('!') {
                // The others are about devices, logs and files.
                match what {
                    "file" => bench.perform_step(what, arguments),
                    _ => is_as_told = false,
                }
                continue;
            }
            let line = format!("{table}: {verb} {arguments}");
            let before = bench.dataset_state();
            let outcome = bench.ask(&NoServer, verb, arguments);
            let is_unsupported = outcome.kind == "Unsupported";
            if is_unsupported || !["changed", "told"].contains(&outcome.kind.as_str()) {
                assert_eq!(bench.dataset_state(), before, "{line}: {}", outcome.text);
            }
            let capability = demanded(&request(verb, &bench.filled_in(arguments)));
            if capability.is_none() {
                free.insert(*verb);
            }
            assert!(
                is_unsupported || capability.is_none(),
                "{line}: {}",
                outcome.text
            );
            if is_unsupported {
                let names = |one: &&Capability| {
                    let noun = one.noun();
                    outcome.text.contains(&format!(
                        "pool tank is kept by the engine in memory for volumes only, which has no {noun}\""
                    ))
                };
                let named = Capability::ALL.iter().find(names);
                let named = named.unwrap_or_else(|| panic!("{line}: {}", outcome.text));
                assert!(
                    capability.is_none_or(|one| one == *named),
                    "{line}: {}",
                    outcome.text
                );
                refused.entry(*named).or_default().insert(verb);
                is_as_told = false;
            } else if outcome.kind == *expected {
                done.insert(*verb);
            } else {
                assert!(!is_as_told, "{line}: {}", outcome.text);
            }
        }
    }
    let without_a_line: Vec<_> = Capability::ALL
        .iter()
        .filter(|one| !refused.contains_key(one))
        .collect();
    assert!(
        without_a_line.is_empty(),
        "no operation demands {without_a_line:?}"
    );
    let never: Vec<_> = free.difference(&done).collect();
    assert!(
        never.is_empty(),
        "{never:?} demand nothing, and are never done"
    );
}
