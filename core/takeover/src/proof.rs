//! Proof that the previous owner of a pool has stopped.

use units::{HeadName, PoolName};

/// The state of the labels on a pool's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// Its owner exported it.
    Exported,
    /// A host opened it and did not export it.
    InUse {
        /// By this very host, according to the host id.
        by_this_host: bool,
        /// The owner's host name, if the label has one.
        host_name: Option<String>,
        /// An import can detect by itself whether the owner is running. Either the pool has `multihost=on`, so the
        /// owner writes MMP blocks and an import checks for them; or it is a pool of legs, and the members of the
        /// record detect the owner.
        is_watched: bool,
    },
}

/// The cluster's evidence about the previous owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It is a member of the cluster now.
    Member,
    /// It is a member, and its own agent has verified that no process there has the pool and that
    /// its kernel has completed all writes of one that had. The last result of the pool on that
    /// head is a successful stop, or a probe that found nothing.
    Stopped,
    /// It is no member, and a fence device has confirmed that it is off since it was last one
    /// ([`Records`](crate::Records)).
    Fenced,
    /// It is no member, and its state is unknown.
    Lost,
    /// It is no head of this appliance, or the cluster does not respond.
    Unknown,
}

/// The evidence for the start of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The pool.
    pub pool: PoolName,
    /// The state of its labels.
    pub label: Label,
    /// The cluster's evidence about the owner that the label names; `Unknown` where it names none.
    pub owner: Peer,
}

/// Why it is safe to own a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// It was exported.
    Exported,
    /// This host had it. The server still has to lock every device, which fails as long as the
    /// process that had it runs.
    SameHost,
    /// The host that had it was powered off.
    Fenced {
        /// Which.
        head: HeadName,
    },
    /// The head that had it is running, and its agent has verified that no process there has it any
    /// more, such as after its server crashed.
    Stopped {
        /// Which.
        head: HeadName,
    },
    /// No proof, but the pool is watched: the import checks for activity of a running owner and
    /// fails if there is any.
    Watched,
}

/// Permission to own one pool. Only [`judge`] can create one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pool: PoolName,
    basis: Basis,
}

impl Grant {
    /// The pool.
    pub const fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// Why it is safe.
    pub const fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Returns whether the import may skip the wait for activity of an owner. Only where no writes
    /// are possible any more, not where only the cluster's own processes are known to have exited.
    pub const fn may_skip_watch(&self) -> bool {
        matches!(self.basis, Basis::Exported | Basis::Fenced { .. })
    }
}

/// Why a pool may not be owned. The sentence contains the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its owner is running and has not exported it.
    #[error(
        "{owner} is a member of the cluster and did not export {pool}: stop it there first, or power {owner} off"
    )]
    OwnerAlive {
        /// The pool.
        pool: PoolName,
        /// The current owner.
        owner: String,
    },
    /// Its owner is gone and may still write.
    #[error(
        "{owner} did not export {pool}, and no fence device has confirmed that it is off: if it is off for certain, run stonith_admin --confirm {owner}"
    )]
    OwnerUnconfirmed {
        /// The pool.
        pool: PoolName,
        /// The last owner.
        owner: String,
    },
    /// Its owner is unknown.
    #[error(
        "{pool} was not exported by {owner}, which is no head of this appliance: export it there, or import it once by hand with --previous-owner-is-stopped"
    )]
    OwnerForeign {
        /// The pool.
        pool: PoolName,
        /// The last owner.
        owner: String,
    },
}

/// Decides whether this host may own a pool.
///
/// # Errors
///
/// There is no proof that the previous owner has stopped.
pub fn judge(evidence: &Evidence) -> Result<Grant, Refusal> {
    let pool = || evidence.pool.clone();
    let grant = |basis| {
        Ok(Grant {
            pool: pool(),
            basis,
        })
    };
    let Label::InUse {
        by_this_host,
        host_name,
        is_watched,
    } = &evidence.label
    else {
        return grant(Basis::Exported);
    };
    if *by_this_host {
        return grant(Basis::SameHost);
    }
    let owner = || {
        host_name
            .clone()
            .unwrap_or_else(|| "an unnamed host".to_owned())
    };
    let head = host_name.as_ref().and_then(|name| name.parse().ok());
    match (evidence.owner, head) {
        (Peer::Fenced, Some(head)) => grant(Basis::Fenced { head }),
        (Peer::Stopped, Some(head)) => grant(Basis::Stopped { head }),
        _ if *is_watched => grant(Basis::Watched),
        (Peer::Member | Peer::Stopped, _) => Err(Refusal::OwnerAlive {
            pool: pool(),
            owner: owner(),
        }),
        (Peer::Lost | Peer::Fenced, _) => Err(Refusal::OwnerUnconfirmed {
            pool: pool(),
            owner: owner(),
        }),
        (Peer::Unknown, _) => Err(Refusal::OwnerForeign {
            pool: pool(),
            owner: owner(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(label: Label, owner: Peer) -> Evidence {
        Evidence {
            pool: "tank".parse().expect("a good name"),
            label,
            owner,
        }
    }

    fn in_use(by_this_host: bool, host_name: Option<&str>, is_watched: bool) -> Label {
        Label::InUse {
            by_this_host,
            host_name: host_name.map(str::to_owned),
            is_watched,
        }
    }

    #[test]
    fn every_label_and_peer_combination_is_decided() {
        let left = || "left".parse::<HeadName>().expect("a good name");
        let fenced = || Basis::Fenced { head: left() };
        let named = Some("left");
        let cases = [
            (Label::Exported, Peer::Member, Some(Basis::Exported)),
            (Label::Exported, Peer::Unknown, Some(Basis::Exported)),
            (
                in_use(true, named, false),
                Peer::Unknown,
                Some(Basis::SameHost),
            ),
            (in_use(false, named, false), Peer::Fenced, Some(fenced())),
            (in_use(false, named, true), Peer::Fenced, Some(fenced())),
            (
                in_use(false, named, false),
                Peer::Stopped,
                Some(Basis::Stopped { head: left() }),
            ),
            (in_use(false, None, false), Peer::Stopped, None),
            (in_use(false, named, true), Peer::Lost, Some(Basis::Watched)),
            (
                in_use(false, named, true),
                Peer::Member,
                Some(Basis::Watched),
            ),
            (
                in_use(false, None, true),
                Peer::Unknown,
                Some(Basis::Watched),
            ),
            (in_use(false, named, false), Peer::Member, None),
            (in_use(false, named, false), Peer::Lost, None),
            (in_use(false, named, false), Peer::Unknown, None),
            (in_use(false, None, false), Peer::Unknown, None),
            // A fence without a named owner proves nothing.
            (in_use(false, None, false), Peer::Fenced, None),
            (in_use(false, Some("Not A Head"), false), Peer::Fenced, None),
        ];
        for (label, owner, basis) in cases {
            let evidence = evidence(label, owner);
            let found = judge(&evidence).ok().map(|grant| grant.basis().clone());
            assert_eq!(found, basis, "{evidence:?}");
        }
    }

    #[test]
    fn multihost_wait_is_skipped_only_with_proof() {
        for (label, owner, may_skip) in [
            (Label::Exported, Peer::Unknown, true),
            (in_use(false, Some("left"), true), Peer::Fenced, true),
            (in_use(false, Some("left"), true), Peer::Lost, false),
            (in_use(false, Some("left"), true), Peer::Stopped, false),
            (in_use(true, Some("left"), true), Peer::Unknown, false),
            (in_use(false, Some("left"), true), Peer::Member, false),
        ] {
            let grant = judge(&evidence(label, owner)).expect("a grant");
            assert_eq!(grant.may_skip_watch(), may_skip, "{grant:?}");
        }
    }

    #[test]
    fn refusal_includes_advice() {
        let refusal = judge(&evidence(in_use(false, Some("left"), false), Peer::Lost));
        let text = refusal.expect_err("no proof").to_string();
        assert!(text.contains("stonith_admin --confirm left"), "{text}");
    }
}
