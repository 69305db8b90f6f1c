//! The failures that a pool survives, corrected for the heads on which the cluster would not start it.

use std::collections::BTreeMap;

use super::PoolStatus;

/// Corrects the failures that a pool survives, and the risks of its advice, for heads on which the cluster would not
/// start it. The server of the pool has no access to the cluster.
pub fn exclude_heads(
    pool: &mut PoolStatus,
    server: Option<&str>,
    cannot_serve: &BTreeMap<String, String>,
) {
    let legs = pool.legs.as_mut();
    let Some(survives) = legs.and_then(|legs| legs.survives.as_mut()) else {
        return;
    };
    let before = survives.risk(&pool.name);
    survives.exclude(server, cannot_serve.clone());
    let after = survives.risk(&pool.name);
    let outdated = pool.advice.iter_mut().map(|advice| &mut advice.risk);
    for risk in outdated.filter(|risk| risk.is_some() && **risk == before) {
        risk.clone_from(&after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legs::{LegsView, Survives};

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
            exclude_heads(&mut pool, Some("left"), &cannot_serve);
            let risks: Vec<_> = pool.advice.iter().map(|one| one.risk.as_deref()).collect();
            let named = "one copy only: if one more disk or left fails, tank is down";
            assert_eq!(risks, [Some(named), None, Some("of another kind")]);
        }
    }
}
