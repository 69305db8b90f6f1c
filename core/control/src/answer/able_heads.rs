//! The failures that a pool survives, corrected for the heads that could not serve it: the cluster would not start it
//! there, or too few members of its record respond to the head.

use std::collections::BTreeMap;

use super::PoolStatus;
use crate::advice::{Advice, Severity};
use crate::legs::reports::{Ability, HeadReport, Obstacle, ability};

/// Corrects the failures that a pool survives, and the risks of its advice, for heads on which the cluster would not
/// start it, and for heads to which too few members respond by `reports`. The server of the pool has no access to either.
/// `server`: the head that serves it now. A head without an entry in `reports` was not queried.
pub fn exclude_heads(
    pool: &mut PoolStatus,
    server: Option<&str>,
    cannot_serve: &BTreeMap<String, String>,
    reports: &BTreeMap<String, HeadReport>,
) {
    let Some(legs) = pool.legs.as_mut().filter(|legs| legs.survives.is_some()) else {
        return;
    };
    let mut cannot_serve = cannot_serve.clone();
    let (mut unknown, mut advice) = (BTreeMap::new(), Vec::new());
    let reported = reports.iter().filter(|(head, _)| {
        legs.members
            .iter()
            .any(|one| one.name == **head && !one.is_witness)
    });
    for (head, report) in reported {
        let Some(server) = server.filter(|server| server != head) else {
            continue;
        };
        if cannot_serve.contains_key(head) {
            continue;
        }
        match ability(legs, Some(server), head, report) {
            Ability::Able(None) => {}
            Ability::Able(Some(refusal)) => advice.push(of_refusal(head, refusal)),
            Ability::Unable(obstacle) => {
                // The server reports a member that does not respond to it, either.
                let mut members = legs.members.iter();
                let is_reported = members.any(|one| one.name == obstacle.member && !one.answers);
                if obstacle.is_refusal || !is_reported {
                    advice.push(of_obstacle(&pool.name, head, &obstacle));
                }
                cannot_serve.insert(head.clone(), obstacle.why);
            }
            Ability::Unknown { why, is_lasting } => {
                advice.push(of_unknown(&pool.name, head, &why, is_lasting));
                unknown.insert(head.clone(), why);
            }
        }
    }
    let Some(survives) = legs.survives.as_mut() else {
        return;
    };
    let before = survives.risk(&pool.name);
    survives.exclude(server, cannot_serve);
    if let Some(server) = server {
        survives.doubt(server, unknown);
    }
    let after = survives.risk(&pool.name);
    let outdated = pool.advice.iter_mut().map(|advice| &mut advice.risk);
    for risk in outdated.filter(|risk| risk.is_some() && **risk == before) {
        risk.clone_from(&after);
    }
    for new in advice {
        let is_same = |known: &Advice| known.head == new.head && known.what == new.what;
        pool.advice.retain(|known| !is_same(known));
        pool.advice.push(new.risking(after.clone()));
    }
}

/// Advice on a head that could not open the pool after the loss of its server.
fn of_obstacle(pool: &str, head: &str, obstacle: &Obstacle) -> Advice {
    let why = format!("{head} could not take {pool} over: {}", obstacle.why);
    Advice::new(Severity::Warning, obstacle.action.clone(), why).caused_by(head)
}

/// Advice on a refused certificate that prevents no takeover now.
fn of_refusal(head: &str, refusal: Obstacle) -> Advice {
    Advice::new(Severity::Warning, refusal.action, refusal.why).caused_by(head)
}

/// Advice on a head that does not report its connections. A head that starts does so within seconds.
fn of_unknown(pool: &str, head: &str, why: &str, is_lasting: bool) -> Advice {
    let severity = match is_lasting {
        true => Severity::Warning,
        false => Severity::Info,
    };
    let what = format!(
        "check on {head} that bulkhead-head and bulkhead-leg-server run (`systemctl status`), and that it has this release of Bulkhead"
    );
    let why = format!("it is unknown whether {head} could take {pool} over: {why}");
    Advice::new(severity, what, why).caused_by(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legs::reports::{MemberConnection, MemberReport, MemberResponse};
    use crate::legs::{LegMemberView, LegsView, Survives};

    #[test]
    fn risk_of_advice_names_the_head_without_a_second_one() {
        let survives = Survives {
            heads: vec!["left".to_owned(), "right".to_owned()],
            ..Survives::default()
        };
        let risk = survives.risk("tank");
        let advice = |risk| crate::Advice::default().risking(risk);
        let mut pool = PoolStatus {
            name: "tank".to_owned(),
            advice: vec![
                advice(risk),
                advice(None),
                advice(Some("of another kind".to_owned())),
            ],
            legs: Some(LegsView {
                survives: Some(survives),
                ..LegsView::default()
            }),
            ..PoolStatus::default()
        };
        let cannot_serve = BTreeMap::from([("right".to_owned(), "it is in standby".to_owned())]);
        for _ in 0..2 {
            exclude_heads(&mut pool, Some("left"), &cannot_serve, &BTreeMap::new());
            let risks: Vec<_> = pool.advice.iter().map(|one| one.risk.as_deref()).collect();
            let named = "one copy only: if one more disk or left fails, tank is down";
            assert_eq!(risks, [Some(named), None, Some("of another kind")]);
        }
    }

    fn healthy() -> PoolStatus {
        let member = |name: &str| LegMemberView {
            name: name.to_owned(),
            is_witness: name == "third",
            answers: true,
            ..LegMemberView::default()
        };
        PoolStatus {
            name: "tank".to_owned(),
            legs: Some(LegsView {
                members: ["left", "right", "third"].map(member).to_vec(),
                survives: Some(Survives {
                    disks: 1,
                    heads: vec!["left".to_owned(), "right".to_owned()],
                    ..Survives::default()
                }),
                ..LegsView::default()
            }),
            ..PoolStatus::default()
        }
    }

    fn report(witness: MemberResponse) -> BTreeMap<String, HeadReport> {
        let connection = |state| MemberConnection {
            state,
            ..MemberConnection::default()
        };
        let members = [
            ("left".to_owned(), connection(MemberResponse::Responds)),
            ("third".to_owned(), connection(witness)),
        ];
        let report = HeadReport::Members(MemberReport {
            at_ms: 1,
            members: members.into(),
        });
        BTreeMap::from([("right".to_owned(), report)])
    }

    /// The server reaches all members, and the witness does not accept the certificate of the other head.
    #[test]
    fn refused_certificate_of_the_other_head_is_a_risk_with_the_remedy() {
        let mut pool = healthy();
        // The correction by a head, and that by a command that shows its reply.
        for _ in 0..2 {
            let refused = report(MemberResponse::Refused);
            exclude_heads(&mut pool, Some("left"), &BTreeMap::new(), &refused);
            exclude_heads(&mut pool, Some("left"), &BTreeMap::new(), &BTreeMap::new());
        }
        let survives = pool.legs.as_ref().and_then(|legs| legs.survives.as_ref());
        let survives = survives.expect("the failures that are survived");
        assert_eq!(
            (&*survives.heads, &*survives.not_heads),
            (&["right".to_owned()][..], &["left".to_owned()][..])
        );
        assert!(survives.cannot_serve["right"].contains("the witness third"));
        assert_eq!(pool.advice.len(), 1, "{:#?}", pool.advice);
        let advice = &pool.advice[0];
        assert_eq!(advice.severity, Severity::Warning);
        assert_eq!(advice.head.as_deref(), Some("right"));
        assert_eq!(
            advice.risk.as_deref(),
            Some("if left is lost, tank is down")
        );
        assert!(advice.what.contains("leg-server fingerprint"), "{advice:?}");
        let mut pool = healthy();
        let connected = report(MemberResponse::Responds);
        exclude_heads(&mut pool, Some("left"), &BTreeMap::new(), &connected);
        assert_eq!(pool, healthy());
    }

    /// An earlier release sends no report.
    #[test]
    fn head_without_a_report_is_not_counted_as_a_second_head() {
        let unknown = |is_lasting| HeadReport::Unknown {
            why: "it sends no report".to_owned(),
            is_lasting,
        };
        for (is_lasting, severity) in [(false, Severity::Info), (true, Severity::Warning)] {
            let mut pool = healthy();
            let reports = BTreeMap::from([("right".to_owned(), unknown(is_lasting))]);
            exclude_heads(&mut pool, Some("left"), &BTreeMap::new(), &reports);
            let survives = pool.legs.as_ref().and_then(|legs| legs.survives.as_ref());
            let survives = survives.expect("the failures that are survived");
            assert_eq!(survives.heads, ["right"]);
            assert_eq!(survives.uncertain_heads, ["left"]);
            assert_eq!(pool.advice[0].severity, severity);
            assert_eq!(
                pool.advice[0].risk.as_deref(),
                Some("it is unknown whether tank survives the loss of left")
            );
        }
    }

    /// The witness is down: the server reports that already.
    #[test]
    fn member_that_responds_to_no_head_is_reported_once() {
        let mut pool = healthy();
        let legs = pool.legs.as_mut().expect("legs");
        legs.members[2].answers = false;
        let lost = report(MemberResponse::Unreachable);
        exclude_heads(&mut pool, Some("left"), &BTreeMap::new(), &lost);
        assert_eq!(pool.advice, []);
    }
}
