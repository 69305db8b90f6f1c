//! Malformed and hostile files. Each one is either parsed or refused, and a parsed one can be
//! checked, rendered and planned without a panic.

use appliance::plan::{Actual, HeadActual};
use appliance::{Facts, Layout, check, desired_state, parse, plan};

const EXAMPLES: [&str; 10] = [
    include_str!("../../../examples/two-pools.toml"),
    include_str!("../../../examples/eight-pools.toml"),
    include_str!("../../../examples/witness.toml"),
    include_str!("../../../examples/single.toml"),
    include_str!("../../../examples/virtual.toml"),
    include_str!("../../../examples/ipv6.toml"),
    include_str!("../../../examples/legs-two-heads.toml"),
    include_str!("../../../examples/legs-two-heads-witness.toml"),
    include_str!("../../../examples/legs-three-heads.toml"),
    include_str!("../../../examples/legs-eight-pools.toml"),
];

/// Values that break arithmetic, lists and names.
const VALUES: [&str; 14] = [
    "0",
    "1",
    "255",
    "4294967295",
    "\"\"",
    "[]",
    "{}",
    "\"16E\"",
    "\"255.255.255.255\"",
    "\"::\"",
    "[\"0.0.0.0/0\", \"::/0\"]",
    "\"left\"",
    "\"<&'\\\"\\n>\"",
    "true",
];

/// Replaces, removes or repeats a line.
fn mutated(text: &str, random: &mut fastrand::Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..lines.len());
        match (random.u8(..4), lines[at].split_once(" = ")) {
            (0 | 1, Some((key, _))) => {
                lines[at] = format!("{key} = {}", VALUES[random.usize(..VALUES.len())]);
            }
            (2, _) => drop(lines.remove(at)),
            _ => {
                let from = random.usize(..lines.len());
                lines.insert(at, lines[from].clone());
            }
        }
    }
    lines.join("\n")
}

#[test]
fn mutated_files_never_panic() {
    let mut understood = 0;
    for seed in 0..4_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let text = mutated(EXAMPLES[random.usize(..EXAMPLES.len())], &mut random);
        let Ok(parsed) = parse(&text) else {
            continue;
        };
        understood += 1;
        for finding in check(&parsed, &Facts::default()) {
            assert!(!finding.to_string().is_empty(), "seed {seed}");
        }
        let desired = desired_state(&parsed.appliance, &text, &Layout::default());
        let mut actual = Actual::default();
        for (head, _) in &desired.heads {
            actual.heads.insert(head.clone(), HeadActual::default());
        }
        assert!(
            !plan(&desired, &actual).to_string().is_empty(),
            "seed {seed}"
        );
    }
    assert!(
        understood > 500,
        "only {understood} files were understood: mutate less"
    );
}

#[test]
fn invalid_toml_is_refused() {
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = EXAMPLES[0].as_bytes().to_vec();
        for _ in 0..random.usize(1..20) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        if let Err(finding) = parse(&String::from_utf8_lossy(&bytes)) {
            assert!(!finding.what.is_empty(), "seed {seed}");
        }
    }
    assert!(parse(&"[".repeat(1 << 19)).is_err(), "deep nesting");
    assert!(parse(&"x".repeat(2 << 20)).is_err(), "a huge file");
}
