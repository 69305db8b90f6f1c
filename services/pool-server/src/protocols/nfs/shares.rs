//! Which file systems are shared: each has the property `sharenfs` of its own, or that of the nearest dataset above it that has one.

use std::collections::BTreeMap;

use ::nfs::sharenfs::Share;
use control::exports::Problem;
use engine::Pool;
use engine::dataset::{DatasetError, DatasetKind, DatasetRef, Snapshots};

/// The property, as kernel ZFS has it.
const PROPERTY: &str = "sharenfs";

/// What shall be shared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Who may use a file system, by its name.
    pub all: BTreeMap<String, Share>,
    /// Properties that are no shares.
    pub problems: Vec<Problem>,
}

impl Shares {
    /// Those of a pool. Opens the datasets below those that have the property, and no others.
    pub fn read(pool: &dyn Pool) -> Result<Self, DatasetError> {
        let mut set = BTreeMap::new();
        for (dataset, mut own) in pool.user_properties(PROPERTY)? {
            if let Some(text) = own.remove(PROPERTY) {
                set.insert(dataset, text);
            }
        }
        let (rules, problems) = rules(&set);
        let mut shares = Self {
            all: BTreeMap::new(),
            problems,
        };
        for top in tops(&rules) {
            let listed = pool.datasets(DatasetRef::from_checked(top), Snapshots::Skip)?;
            let file_systems = listed.into_iter().filter(|one| one.kind == DatasetKind::Filesystem);
            for one in file_systems {
                if let Some(share) = rule_of(&rules, &one.name) {
                    shares.all.insert(one.name, share.clone());
                }
            }
        }
        Ok(shares)
    }
}

/// By dataset; nothing where what is below is not shared.
type Rules = BTreeMap<String, Option<Share>>;

fn rules(set: &BTreeMap<String, String>) -> (Rules, Vec<Problem>) {
    let mut problems = Vec::new();
    let rules = set.iter().map(|(dataset, text)| {
        let share = Share::parse(text).unwrap_or_else(|error| {
            problems.push(Problem {
                subject: dataset.clone(),
                sentence: format!("it is not shared over NFS: {error}"),
            });
            None
        });
        (dataset.clone(), share)
    });
    (rules.collect(), problems)
}

pub fn is_below(dataset: &str, above: &str) -> bool {
    let rest = dataset.strip_prefix(above);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The datasets that share something and are below no other such.
fn tops(rules: &Rules) -> Vec<&str> {
    let sharing = rules.iter().filter(|(_, share)| share.is_some());
    let mut tops: Vec<&str> = Vec::new();
    for (dataset, _) in sharing {
        // What is above comes before in the order of names.
        if !tops.iter().any(|top| is_below(dataset, top)) {
            tops.push(dataset);
        }
    }
    tops
}

fn rule_of<'a>(rules: &'a Rules, dataset: &str) -> Option<&'a Share> {
    let mut at = dataset;
    loop {
        if let Some(share) = rules.get(at) {
            return share.as_ref();
        }
        (at, _) = at.rsplit_once('/')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(dataset, text)| ((*dataset).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn the_nearest_property_decides() {
        let set = set(&[
            ("tank/a", "rw=10.0.0.0/8"),
            ("tank/a/private", "off"),
            ("tank/a/private/read", "ro=10.0.0.1"),
            ("tank/a-b", "rw=10.0.0.2"),
        ]);
        let (rules, problems) = rules(&set);
        assert!(problems.is_empty());
        assert_eq!(tops(&rules), ["tank/a", "tank/a-b"]);
        let text_of = |dataset: &str| {
            let share = rule_of(&rules, dataset);
            let texts = set.values();
            let mut parsed = texts.filter(|text| Share::parse(text).ok().flatten().as_ref() == share);
            share.and_then(|_| parsed.next().map(String::as_str))
        };
        assert_eq!(text_of("tank"), None);
        assert_eq!(text_of("tank/a/b/c"), Some("rw=10.0.0.0/8"));
        assert_eq!(text_of("tank/a/private"), None);
        assert_eq!(text_of("tank/a/private/x"), None);
        assert_eq!(text_of("tank/a/private/read/x"), Some("ro=10.0.0.1"));
        assert_eq!(text_of("tank/a-b"), Some("rw=10.0.0.2"));
    }

    #[test]
    fn what_is_no_share_is_told_once_and_shares_nothing_below() {
        let set = set(&[("tank", "rw=10.0.0.0/8"), ("tank/open", "on")]);
        let (rules, problems) = rules(&set);
        assert_eq!(rule_of(&rules, "tank/open/a"), None);
        assert!(rule_of(&rules, "tank/other").is_some());
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert_eq!(problem.subject, "tank/open");
        assert!(problem.sentence.contains("everybody"), "{problem}");
    }
}
