//! Changes the text of an appliance file, and leaves all comments and other lines as they are.

use std::ops::RangeInclusive;

use units::PoolName;

use crate::parse::parse;

/// A file without a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// The text without the pool's lines.
    pub text: String,
    /// The removed lines, counted from 1.
    pub lines: Vec<RangeInclusive<usize>>,
}

/// Removes `[pools.NAME]` and its tables. `None` if the result would differ from the file in more than that pool, such
/// as for a pool that is written as an inline table.
pub fn without_pool(text: &str, pool: &PoolName) -> Option<Shortened> {
    let before = parse(text).ok()?.appliance;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut removed: Vec<RangeInclusive<usize>> = Vec::new();
    let mut begin = None;
    for (index, line) in lines.iter().map(|line| line.trim()).enumerate() {
        if !line.starts_with('[') {
            continue;
        }
        removed.extend(
            begin
                .take()
                .map(|begin| begin..=last_of(&lines, begin, index)),
        );
        begin = is_of(line, pool).then_some(index);
    }
    removed.extend(begin.map(|begin| begin..=last_of(&lines, begin, lines.len())));
    let is_kept = |index: &usize| !removed.iter().any(|range| range.contains(index));
    let kept = (0..lines.len()).filter(is_kept);
    let text: String = kept.map(|index| lines[index]).collect();
    let mut expected = before;
    expected.pools.remove(pool)?;
    let is_right = parse(&text).is_ok_and(|after| after.appliance == expected);
    let counted = removed
        .iter()
        .map(|range| range.start() + 1..=range.end() + 1);
    is_right.then(|| Shortened {
        lines: counted.collect(),
        text,
    })
}

/// The last line of a table. Comments and empty lines in front of the next table belong to that.
fn last_of(lines: &[&str], begin: usize, next: usize) -> usize {
    let is_content = |index: &usize| {
        let line = lines[*index].trim();
        !line.is_empty() && !line.starts_with('#')
    };
    (begin..next).rev().find(is_content).unwrap_or(begin)
}

/// Whether a header is that of the pool or of a table in it.
fn is_of(header: &str, pool: &PoolName) -> bool {
    let key = header.trim_start_matches('[').trim_start();
    let Some(rest) = key.strip_prefix("pools") else {
        return false;
    };
    let rest = rest.trim_start().strip_prefix('.').unwrap_or_default();
    let rest = rest.trim_start();
    let names = [pool.to_string(), format!("\"{pool}\""), format!("'{pool}'")];
    names.iter().any(|name| {
        let rest = rest.strip_prefix(name.as_str()).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with([']', '.']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_POOLS: &str = include_str!("../../../examples/legs-three-heads.toml");
    const PAIR: &str = include_str!("../../../examples/pair.toml");

    fn name(text: &str) -> PoolName {
        text.parse().expect("a name")
    }

    #[test]
    fn a_pool_is_cut_out_and_all_other_lines_stay() {
        // A comment in front of the next table belongs to that.
        let tables = PAIR.to_owned()
            + "\n[pools.tank.tls.nbd]\ncertificate_file = \"/a\"\nkey_file = \"/b\"\n\n# The other one.\n[pools.tank2]\n\
               disks = [\"/dev/disk/by-id/x\"]\naddresses = []\n";
        for (text, pool, left) in [
            (TWO_POOLS, "vault", "tank"),
            (TWO_POOLS, "tank", "vault"),
            (&tables, "tank", "tank2"),
        ] {
            let found = without_pool(text, &name(pool)).expect("cut out");
            let pools = parse(&found.text).expect("valid").appliance.pools;
            let pools: Vec<&str> = pools.keys().map(PoolName::as_str).collect();
            assert_eq!(pools, [left]);
            let of_next = "# The other one.";
            assert_eq!(found.text.contains(of_next), text.contains(of_next));
            let removed = found
                .lines
                .iter()
                .map(|range| range.end() - range.start() + 1);
            let removed: usize = removed.sum();
            assert_eq!(text.lines().count() - removed, found.text.lines().count());
        }
    }

    /// Otherwise the last pool of an appliance could not be retired.
    #[test]
    fn an_example_without_a_pool_has_no_error() {
        for text in [
            TWO_POOLS,
            PAIR,
            include_str!("../../../examples/legs-two-heads-witness.toml"),
            include_str!("../../../examples/legs-two-heads.toml"),
            include_str!("../../../examples/two-pools.toml"),
            include_str!("../../../examples/witness.toml"),
            include_str!("../../../examples/single.toml"),
        ] {
            let pools = parse(text).expect("valid").appliance.pools;
            for pool in pools.keys() {
                let found = without_pool(text, pool).expect("cut out");
                let parsed = parse(&found.text).expect("valid");
                let findings = crate::check(&parsed, &crate::Facts::default());
                let worst = crate::check::worst(&findings);
                assert_ne!(worst, Some(crate::Severity::Error), "{pool}: {findings:?}");
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_cut_is_left_alone() {
        assert_eq!(without_pool(PAIR, &name("vault")), None);
        let inline = PAIR.replace("[pools.tank]", "[pools]\ntank.home = \"left\"\n[x.tank]");
        assert_eq!(without_pool(&inline, &name("tank")), None);
    }
}
