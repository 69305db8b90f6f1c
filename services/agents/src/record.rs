//! The last owner of a pool with legs, by this head's record. The pool's disks do not show it: they may be stale or
//! dead, or on other heads only. It only determines the head about which the cluster is queried: the server checks with
//! the members that the pool is free.

use appliance::Appliance;
use leg_door::LastOwner;
use takeover::Label;
use units::HeadName;

/// By the newest record on this head. For two heads alone it is always the other one, because its fence replaces its
/// vote: a head that was away may have itself as owner on record, and an export that no other head has on record is no
/// vote.
pub fn owner(appliance: &Appliance, own: &HeadName, last: LastOwner) -> Label {
    let in_use = |head: Option<&HeadName>| Label::InUse {
        by_this_host: head == Some(own),
        host_name: head.map(HeadName::to_string),
        // Members make no promise while an owner is there, so no proof is needed.
        is_watched: true,
    };
    let mut others = appliance.heads.keys().filter(|name| *name != own);
    let other = match (others.next(), others.next()) {
        (Some(other), None) => Some(other),
        _ => None,
    };
    let is_exported = last == LastOwner::Exported;
    match other {
        Some(other) if appliance.witness.is_none() || !is_exported => in_use(Some(other)),
        _ if is_exported => Label::Exported,
        _ => {
            let is_last = |head: &appliance::Head| last == LastOwner::Head(head.number.into());
            let mut heads = appliance.heads.iter();
            let named = heads.find(|(_, head)| is_last(head));
            in_use(named.map(|(name, _)| name))
        }
    }
}

#[cfg(test)]
mod tests {
    use takeover::{Evidence, Peer, judge};

    use super::*;

    const TWO: &str = include_str!("../../../examples/legs-two-heads.toml");
    const WITNESS: &str = include_str!("../../../examples/legs-two-heads-witness.toml");
    const THREE: &str = include_str!("../../../examples/legs-three-heads.toml");

    /// The head that `left` checks with the cluster; none if there is none. Whatever the record, it may start a server.
    fn asked(text: &str, record: Option<Option<u64>>) -> Option<String> {
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let last = match record {
            None => LastOwner::Unknown,
            Some(None) => LastOwner::Exported,
            Some(Some(head)) => LastOwner::Head(head),
        };
        let own = "left".parse().expect("a name");
        let label = owner(&appliance, &own, last);
        let evidence = Evidence {
            pool: "tank".parse().expect("a name"),
            label: label.clone(),
            owner: Peer::Lost,
        };
        judge(&evidence).expect("a grant");
        match label {
            Label::InUse {
                by_this_host: false,
                host_name,
                ..
            } => host_name,
            _ => None,
        }
    }

    #[test]
    fn cluster_is_queried_for_last_owner() {
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(asked(THREE, Some(Some(2))), name("right"));
        assert_eq!(asked(THREE, Some(Some(1))), None);
        assert_eq!(asked(THREE, Some(Some(99))), None);
        for unknown in [None, Some(None)] {
            assert_eq!(asked(THREE, unknown), None);
        }
        for remembered in [None, Some(Some(1)), Some(Some(2))] {
            assert_eq!(asked(TWO, remembered), name("right"));
            assert_eq!(asked(WITNESS, remembered), name("right"));
        }
        assert_eq!(asked(TWO, Some(None)), name("right"));
        assert_eq!(asked(WITNESS, Some(None)), None);
    }
}
