//! Checks the uninterruptible power supplies: names, thresholds, logins, and whether each responds to each head.

use super::{Checker, Code, head_key};
use crate::facts::ProbeResult;
use crate::key::Key;

/// At a higher charge a short failure would shut the heads down.
const SHUTDOWN_BELOW_MAX: u8 = 95;
/// The time that a shutdown needs at least, in seconds.
const RUNTIME_MIN_S: u32 = 60;

pub(super) fn check(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let Some(ups) = &appliance.ups else {
        return;
    };
    let key = Key::of("ups");
    if !(1..=SHUTDOWN_BELOW_MAX).contains(&ups.shutdown_below) {
        checker.find(
            Code::UpsThreshold,
            &key.field("shutdown_below"),
            format!("shutdown_below is {} percent", ups.shutdown_below),
            format!("write a charge from 1 to {SHUTDOWN_BELOW_MAX} percent, such as 30"),
        );
    }
    if ups.shutdown_runtime_s < RUNTIME_MIN_S {
        checker.find(
            Code::UpsThreshold,
            &key.field("shutdown_runtime_s"),
            format!(
                "shutdown_runtime_s is {}, and a shutdown needs longer",
                ups.shutdown_runtime_s
            ),
            format!("write {RUNTIME_MIN_S} or more, such as 300"),
        );
    }
    for (name, feed) in &ups.feeds {
        let key = key.field("feeds").field(name);
        let heads = feed.heads.iter().flatten();
        for head in heads.filter(|head| !appliance.heads.contains_key(*head)) {
            checker.find(
                Code::UnknownName,
                &key.field("heads"),
                format!("{head} is no head"),
                "write the name of a head, or leave `heads` out for all",
            );
        }
        if feed.user.is_some() != feed.password_file.is_some() {
            checker.find(
                Code::UpsLogin,
                &key,
                format!("{name} has only one of user and password_file"),
                "write both, or neither where upsd requires no login",
            );
        }
    }
    for head in appliance.heads.keys() {
        if ups.feeds_of(head).next().is_none() {
            checker.find(
                Code::UpsHeadUnfed,
                &head_key(head),
                format!("no power supply is listed for {head}"),
                format!("add {head} to the heads of its power supplies"),
            );
        }
    }
    replies(checker);
}

fn replies(checker: &mut Checker<'_>) {
    let facts = checker.facts;
    for (head, known) in &facts.heads {
        for (name, reply) in &known.feeds {
            if let ProbeResult::Missing(why) = reply {
                checker.find(
                    Code::UpsSilent,
                    &Key::of("ups.feeds").field(name),
                    format!("{name} does not report its state to {head}: {why}"),
                    "start upsd and its driver, and check address, name, LISTEN in upsd.conf and the password; `upsc \
                     NAME@ADDRESS` sends the same request",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Finding, check};
    use crate::facts::{Facts, HeadFacts};

    const PAIR: &str = include_str!("../../../../examples/pair.toml");
    const UPS: &str = "[ups]\nshutdown_below = 40\n\
        [ups.feeds.a]\nups = \"rack-a@10.77.9.51\"\nheads = [\"left\"]\nuser = \"bulkhead\"\n\
        password_file = \"/etc/bulkhead/secrets/ups-a\"\n[ups.feeds.b]\nups = \"rack-b@10.77.9.52\"\n";

    fn codes(ups: &str, facts: &Facts) -> Vec<Code> {
        let parsed = crate::parse::parse(&format!("{PAIR}\n{ups}")).expect("well formed");
        let usual = check(&crate::parse::parse(PAIR).expect("well formed"), facts);
        let usual: Vec<String> = usual.iter().map(|one| one.what.clone()).collect();
        let is_new = |finding: &Finding| !usual.contains(&finding.what);
        let found = check(&parsed, facts).into_iter().filter(is_new);
        found.map(|finding| finding.code).collect()
    }

    #[test]
    fn each_mistake_about_supplies_yields_its_finding() {
        let cases = [
            (UPS.to_owned(), vec![]),
            (
                UPS.replace("below = 40", "below = 99"),
                vec![Code::UpsThreshold],
            ),
            (
                UPS.replace("below = 40", "runtime_s = 5"),
                vec![Code::UpsThreshold],
            ),
            (
                UPS.replace("[\"left\"]", "[\"middle\"]"),
                vec![Code::UnknownName],
            ),
            (
                UPS.replace("user = \"bulkhead\"\n", ""),
                vec![Code::UpsLogin],
            ),
            (
                UPS.replace(
                    "rack-b@10.77.9.52\"",
                    "rack-b@10.77.9.52\"\nheads = [\"left\"]",
                ),
                vec![Code::UpsHeadUnfed],
            ),
        ];
        for (ups, wanted) in cases {
            assert_eq!(codes(&ups, &Facts::default()), wanted, "{ups}");
        }
    }

    #[test]
    fn silent_supply_and_missing_password_are_reported() {
        let mut facts = Facts::default();
        let mut left = HeadFacts::default();
        left.feeds.insert("a".to_owned(), ProbeResult::Given);
        left.feeds.insert(
            "b".to_owned(),
            ProbeResult::Missing("Connection refused".to_owned()),
        );
        left.secrets
            .insert("/etc/bulkhead/secrets/ups-a".into(), None);
        facts.heads.insert("left".parse().expect("a name"), left);
        let mut found = codes(UPS, &facts);
        found.sort();
        assert_eq!(found, [Code::SecretMissing, Code::UpsSilent]);
    }
}
