//! Confirms to a pool's server that another head was fenced after its last message: with two members and no witness,
//! the fence replaces the vote of that head, and writes are blocked until then.

use std::time::{Duration, Instant};

use takeover::Peer;
use units::PoolName;

use super::{ClusterView, PoolBackend};

/// Polling interval of the cluster while the head is missing.
const INTERVAL: Duration = Duration::from_millis(500);
/// The interval while it responds and still counts as fenced: it has just been started.
const SELDOM: Duration = Duration::from_secs(2);

/// A fence that would count as a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// Identifies this request. After a later message from a process of the head, the number is a new one.
    pub number: u64,
    /// The fenced head.
    pub head: String,
    /// The head sends no messages.
    pub is_missed: bool,
}

/// The observed state of a request.
#[derive(Debug, Default)]
pub(super) struct Fences {
    request: Option<u64>,
    /// The head was seen as not fenced after the request, so that a later fence counts. A head that was fenced before
    /// may have been restarted since.
    may_come_true: bool,
    /// It was fenced at a check. After that, a later fence counts only if it has returned in between.
    was_fenced: bool,
    is_told: bool,
    looked: Option<Instant>,
}

impl Fences {
    /// Checks whether the server requests a fence, and whether it happened.
    pub(super) fn look(
        &mut self,
        pool: &PoolName,
        program: &dyn PoolBackend,
        cluster: &dyn ClusterView,
    ) {
        let Some(request) = program.requested_fence(pool) else {
            return;
        };
        if self.request != Some(request.number) {
            *self = Self {
                request: Some(request.number),
                ..Self::default()
            };
        }
        let pause = match (request.is_missed, self.may_come_true) {
            (true, _) => INTERVAL,
            (false, false) => SELDOM,
            (false, true) => return,
        };
        if self.is_told || self.looked.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        let peer = cluster.peer(&request.head, pool);
        self.looked = Some(Instant::now());
        tracing::trace!(%pool, head = %request.head, ?peer, state = ?self, "requested fence");
        match peer {
            Peer::Member | Peer::Stopped => self.may_come_true = true,
            Peer::Lost => self.may_come_true |= !self.was_fenced,
            Peer::Fenced if self.may_come_true && request.is_missed => {
                self.is_told = true;
                tracing::info!(%pool, request.head, "the other head was fenced: confirming it to the pool's server");
                match program.confirm_fence(pool, request.number) {
                    Ok(()) => tracing::debug!(%pool, head = %request.head, "fence confirmed"),
                    Err(why) => {
                        tracing::error!(%pool, why, "the fence cannot be confirmed to the pool's server, so writes stay blocked");
                    }
                }
            }
            Peer::Fenced => self.was_fenced = true,
            Peer::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::path::PathBuf;
    use std::process::Command;

    use takeover::{Grant, Label, Server};

    use super::super::Remains;
    use super::*;

    #[derive(Default)]
    struct World {
        request: RefCell<Option<FenceRequest>>,
        confirmed: RefCell<Vec<u64>>,
        peer: Cell<Option<Peer>>,
    }

    impl ClusterView for World {
        fn peer(&self, host_name: &str, _: &PoolName) -> Peer {
            assert_eq!(host_name, "right");
            self.peer.get().expect("it is asked")
        }
    }

    impl PoolBackend for World {
        fn requested_fence(&self, _: &PoolName) -> Option<FenceRequest> {
            self.request.borrow().clone()
        }
        fn confirm_fence(&self, _: &PoolName, number: u64) -> Result<(), String> {
            self.confirmed.borrow_mut().push(number);
            Ok(())
        }
        fn status(&self, _: &PoolName, _: Duration) -> Option<Server> {
            unreachable!("not a query of the server")
        }
        fn request_export(&self, _: &PoolName, _: Duration) -> Result<(), String> {
            unreachable!("it is left alone")
        }
        fn disks(&self, _: &PoolName) -> Result<Vec<PathBuf>, String> {
            unreachable!("no disk is touched")
        }
        fn await_release(&self, _: &PoolName, _: Remains<'_>) -> Result<(), String> {
            unreachable!("no disk is touched")
        }
        fn read_label(&self, _: &PoolName) -> Result<Label, String> {
            unreachable!("no disk is touched")
        }
        fn server_command(&self, _: &Grant) -> Result<Command, String> {
            unreachable!("nothing is started")
        }
        fn validate(&self, _: &PoolName) -> Result<(), String> {
            unreachable!("the file is not judged")
        }
    }

    const NUMBER: u64 = 7;

    fn request(number: u64, is_missed: bool) -> FenceRequest {
        FenceRequest {
            number,
            head: "right".to_owned(),
            is_missed,
        }
    }

    /// Whether the request is confirmed for this sequence of requests and states of the head in the cluster.
    fn is_confirmed(said: &[(FenceRequest, Peer)]) -> bool {
        let pool = "tank".parse().expect("a name");
        let world = World::default();
        let mut fences = Fences::default();
        fences.look(&pool, &world, &world);
        for (request, peer) in said {
            world.request.replace(Some(request.clone()));
            world.peer.set(Some(*peer));
            fences.looked = None;
            fences.look(&pool, &world, &world);
        }
        let confirmed = world.confirmed.into_inner();
        assert!(matches!(confirmed[..], [] | [NUMBER]), "{confirmed:?}");
        !confirmed.is_empty()
    }

    #[test]
    fn only_fence_after_the_request_counts() {
        use Peer::{Fenced, Lost, Member, Stopped, Unknown};
        let is_confirmed = |said: &[Peer]| {
            let missed = said.iter().map(|peer| (request(NUMBER, true), *peer));
            is_confirmed(&missed.collect::<Vec<_>>())
        };
        assert!(is_confirmed(&[Lost, Lost, Fenced, Fenced]));
        assert!(is_confirmed(&[Member, Fenced]));
        assert!(
            is_confirmed(&[Fenced, Member, Fenced]),
            "it was started, and fenced again"
        );
        assert!(!is_confirmed(&[Fenced, Lost, Fenced]), "the same fence");
        assert!(!is_confirmed(&[Fenced, Fenced]), "it may have been back");
        assert!(!is_confirmed(&[Unknown, Fenced]), "the same");
        assert!(!is_confirmed(&[Lost, Member, Stopped, Unknown]));
    }

    #[test]
    fn fence_counts_only_after_last_contact_with_head() {
        use Peer::{Fenced, Member};
        let (heard, missed) = (request(NUMBER, false), request(NUMBER, true));
        let anew = request(NUMBER + 1, true);
        let came_true = [(heard.clone(), Member), (missed.clone(), Fenced)];
        assert!(is_confirmed(&came_true));
        let started = [
            (heard.clone(), Fenced),
            (heard.clone(), Member),
            (missed, Fenced),
        ];
        assert!(is_confirmed(&started));
        assert!(!is_confirmed(&[
            (heard.clone(), Member),
            (heard.clone(), Fenced)
        ]));
        assert!(!is_confirmed(&[(heard, Member), (anew, Fenced)]));
    }
}
