//! Tells a pool's server that another head was fenced since the server missed it: with two heads that remember, and nobody else, the
//! fence stands in for the vote of that head, and writes wait until then.

use std::time::{Duration, Instant};

use takeover::Peer;
use units::PoolName;

use super::{ClusterView, PoolProgram};

/// Pause between two questions to the cluster.
const INTERVAL: Duration = Duration::from_millis(500);

/// What was seen of a wish.
#[derive(Debug, Default)]
pub(super) struct Fences {
    wish: Option<u64>,
    /// The head was not fenced when this was looked at first. One that was may have been started and heard the server since.
    may_come_true: bool,
    looked: Option<Instant>,
}

impl Fences {
    /// Looks whether the server waits for a fence, and whether there was one.
    pub(super) fn look(
        &mut self,
        pool: &PoolName,
        program: &dyn PoolProgram,
        cluster: &dyn ClusterView,
    ) {
        let Some((number, head)) = program.wished_fence(pool) else {
            return;
        };
        let is_new = self.wish != Some(number);
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= INTERVAL);
        if !is_new && (!is_due || !self.may_come_true) {
            return;
        }
        let is_fenced = cluster.peer(&head, pool) == Peer::Fenced;
        self.looked = Some(Instant::now());
        self.wish = Some(number);
        if is_new {
            self.may_come_true = !is_fenced;
            return;
        }
        if is_fenced {
            self.may_come_true = false;
            tracing::info!(%pool, head, "the other head was fenced: the pool's server is told");
            if let Err(why) = program.confirm_fence(pool, number) {
                tracing::error!(%pool, why, "the pool's server cannot be told of the fence, so writes wait");
            }
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
        wish: Cell<Option<u64>>,
        confirmed: RefCell<Vec<u64>>,
        peer: Cell<Option<Peer>>,
    }

    impl ClusterView for World {
        fn peer(&self, host_name: &str, _: &PoolName) -> Peer {
            assert_eq!(host_name, "right");
            self.peer.get().expect("it is asked")
        }
    }

    impl PoolProgram for World {
        fn wished_fence(&self, _: &PoolName) -> Option<(u64, String)> {
            Some((self.wish.get()?, "right".to_owned()))
        }
        fn confirm_fence(&self, _: &PoolName, number: u64) -> Result<(), String> {
            self.confirmed.borrow_mut().push(number);
            Ok(())
        }
        fn status(&self, _: &PoolName, _: Duration) -> Option<Server> {
            unreachable!("it is no question of the server")
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

    /// Whether the wish is confirmed when the cluster says these of the head, one after the other.
    fn is_confirmed(said: &[Peer]) -> bool {
        let pool = "tank".parse().expect("a name");
        let world = World::default();
        let mut fences = Fences::default();
        fences.look(&pool, &world, &world);
        world.wish.set(Some(7));
        for peer in said {
            world.peer.set(Some(*peer));
            fences.looked = None;
            fences.look(&pool, &world, &world);
        }
        let confirmed = world.confirmed.into_inner();
        assert!(matches!(confirmed[..], [] | [7]), "{confirmed:?}");
        !confirmed.is_empty()
    }

    #[test]
    fn a_fence_counts_that_came_after_the_wish_and_no_earlier_one() {
        use Peer::{Fenced, Lost, Member, Stopped, Unknown};
        assert!(is_confirmed(&[Lost, Lost, Fenced, Fenced]));
        assert!(is_confirmed(&[Member, Fenced]));
        assert!(!is_confirmed(&[Fenced, Fenced]), "it may have been back");
        assert!(!is_confirmed(&[Fenced, Lost, Fenced]), "the same");
        assert!(!is_confirmed(&[Lost, Member, Stopped, Unknown]));
    }
}
