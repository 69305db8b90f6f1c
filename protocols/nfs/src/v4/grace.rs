//! Who may take back what an earlier server of the pool had let them open and lock (RFC 8881, 8.4.2). Clients that may have something
//! are kept over restarts, so that a server waits for those, admits nobody else to it, and waits for nobody where nobody had anything.

use std::collections::BTreeSet;

/// A client as it is kept: a hash of what it calls itself.
pub type ClientKey = u64;

/// The key of the client with this `co_ownerid` (FNV-1a: it must stay the same over versions).
pub fn key_of(owner: &[u8]) -> ClientKey {
    owner.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Clients that may have something open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holders {
    /// These, and no others.
    Known(BTreeSet<ClientKey>),
    /// Nobody knows, or there are too many to be kept.
    Anybody,
}

impl Default for Holders {
    fn default() -> Self {
        Self::Known(BTreeSet::new())
    }
}

/// Where clients are kept.
pub trait ClientRecord: Send + Sync {
    /// Keeps them in the place of those before: durable when it returns. May block. False if that failed.
    fn keep(&self, holders: &Holders) -> bool;
}

/// Keeps nobody, for a server that nothing is left of.
pub struct NoRecord;

impl ClientRecord for NoRecord {
    fn keep(&self, _: &Holders) -> bool {
        true
    }
}

/// The time in which clients take back what they had.
pub(super) struct Grace {
    earlier: Holders,
    /// Those of `earlier` that have not said that they are done.
    awaited: BTreeSet<ClientKey>,
    ends_ms: u64,
    is_over: bool,
}

impl Grace {
    pub(super) fn new(earlier: Holders, length_ms: u64) -> Self {
        let (awaited, is_over) = match &earlier {
            Holders::Known(clients) => (clients.clone(), clients.is_empty()),
            Holders::Anybody => (BTreeSet::new(), length_ms == 0),
        };
        Self {
            earlier,
            awaited,
            ends_ms: length_ms,
            is_over,
        }
    }

    pub(super) const fn is_now(&self, now_ms: u64) -> bool {
        !self.is_over && now_ms < self.ends_ms
    }

    /// Whether it is over now and was not at the last call.
    pub(super) fn ends(&mut self, now_ms: u64) -> bool {
        let ends = !self.is_over && !self.is_now(now_ms);
        self.is_over |= ends;
        ends
    }

    pub(super) fn may_take_back(&self, client: ClientKey, now_ms: u64) -> bool {
        let had_something = match &self.earlier {
            Holders::Known(clients) => clients.contains(&client),
            Holders::Anybody => true,
        };
        had_something && self.is_now(now_ms)
    }

    /// A client has taken back all that it had, or will never do.
    pub(super) fn is_done(&mut self, client: ClientKey) {
        self.awaited.remove(&client);
        if self.awaited.is_empty() && matches!(self.earlier, Holders::Known(_)) {
            // The next question finds that it has ended.
            self.ends_ms = 0;
        }
    }

    /// Whom the next server has to know, if these have something now: while it lasts, all that were known to this one, too.
    pub(super) fn holders(&self, now: BTreeSet<ClientKey>) -> Holders {
        match &self.earlier {
            Holders::Known(clients) if !self.is_over => {
                Holders::Known(clients.union(&now).copied().collect())
            }
            Holders::Anybody if !self.is_over => Holders::Anybody,
            _ => Holders::Known(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(clients: &[ClientKey]) -> Holders {
        Holders::Known(clients.iter().copied().collect())
    }

    #[test]
    fn keys_stay_the_same_over_versions() {
        assert_eq!(key_of(b""), 0xcbf2_9ce4_8422_2325);
        // Test vector of the FNV reference code.
        assert_eq!(key_of(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn where_nobody_had_anything_nobody_is_waited_for() {
        let grace = Grace::new(Holders::default(), 20_000);
        assert!(!grace.is_now(0) && !grace.may_take_back(1, 0));
        assert_eq!(grace.holders([7].into()), known(&[7]));
    }

    #[test]
    fn it_ends_when_the_last_client_is_done_and_none_else_takes_anything_back() {
        let mut grace = Grace::new(known(&[1, 2]), 20_000);
        assert!(grace.is_now(1) && grace.may_take_back(1, 1) && !grace.may_take_back(3, 1));
        grace.is_done(1);
        grace.is_done(3);
        assert!(!grace.ends(2) && grace.may_take_back(2, 2));
        assert_eq!(
            grace.holders([1].into()),
            known(&[1, 2]),
            "another may start meanwhile"
        );
        grace.is_done(2);
        assert!(grace.ends(3) && !grace.ends(3) && !grace.is_now(3));
        assert_eq!(grace.holders([1].into()), known(&[1]));
    }

    #[test]
    fn a_client_that_does_not_come_back_in_time_is_known_no_more() {
        let mut grace = Grace::new(known(&[1, 2]), 20_000);
        grace.is_done(1);
        assert!(!grace.ends(19_999) && grace.ends(20_000));
        assert!(!grace.may_take_back(2, 20_000));
        assert_eq!(grace.holders([1].into()), known(&[1]));
    }

    #[test]
    fn where_nobody_knows_who_had_something_all_of_the_time_passes() {
        let mut grace = Grace::new(Holders::Anybody, 20_000);
        assert!(grace.may_take_back(1, 1));
        grace.is_done(1);
        assert!(grace.is_now(19_999));
        assert_eq!(grace.holders([1].into()), Holders::Anybody);
        assert!(grace.ends(20_000));
        assert_eq!(grace.holders([1].into()), known(&[1]));
    }
}
