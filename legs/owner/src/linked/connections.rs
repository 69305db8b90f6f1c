//! Connections to members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use certificates::Identity;
use leg_record::MemberId;
use members::{LinkState, Links, Message, Peer, Received};

use super::Halt;
use crate::Failure;
use crate::shown::Unresponsive;

/// Connections to all members in the configuration, for one pool.
pub(super) struct Connections {
    pool: u64,
    links: Links,
    identity: Arc<Identity>,
    /// Members without a connection, with the time it was lost.
    lost: BTreeMap<MemberId, Instant>,
    /// Whether there was a new connection since the last check.
    is_new: bool,
}

impl Connections {
    /// `me`: this head, and the random number of its process.
    pub(super) fn start(
        (me, boot): (MemberId, u64),
        pool: u64,
        identity: Arc<Identity>,
        peers: Vec<Peer>,
        receive: impl Fn(Received) + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let now = Instant::now();
        let lost = peers.iter().map(|peer| (peer.member, now)).collect();
        let links = Links::start(me, boot, &identity, peers, receive);
        let links = links.map_err(|error| Failure::Side(format!("connect to members: {error}")))?;
        Ok(Self {
            pool,
            links,
            identity,
            lost,
            is_new: true,
        })
    }

    /// Whether the configuration has addresses for a member.
    pub(super) fn lists(&self, member: MemberId) -> bool {
        self.links.has(member)
    }

    /// Connects to a new member.
    pub(super) fn add(&mut self, peer: Peer) -> Result<(), Halt> {
        let member = peer.member;
        let is_new = self.links.add(&self.identity, peer);
        let is_new =
            is_new.map_err(|error| Halt::Because(format!("connect to a member: {error}")))?;
        if is_new {
            self.lost.insert(member, Instant::now());
        }
        Ok(())
    }

    /// Sets the current members.
    pub(super) fn follow(&mut self, members: &BTreeSet<MemberId>) {
        let now = Instant::now();
        for member in members.iter().filter(|one| !self.links.has(**one)) {
            self.lost.entry(*member).or_insert(now);
        }
        self.lost
            .retain(|member, _| self.links.has(*member) || members.contains(member));
    }

    /// Sends a message and returns the time, or `None` without a connection.
    pub(super) fn send(&self, member: MemberId, message: Message) -> Option<Instant> {
        let said = self.links.send(member, self.pool, message);
        said.then(Instant::now)
    }

    /// Number of connections to a member so far.
    pub(super) fn count(&self, member: MemberId) -> u64 {
        self.links.connections(member)
    }

    /// Updates the state of all connections. Returns members with a new one.
    pub(super) fn inspect(&mut self, now: Instant) -> Vec<MemberId> {
        let mut found = Vec::new();
        for (member, state) in self.links.states() {
            match state {
                LinkState::Connected(_) => {
                    if self.lost.remove(&member).is_some() {
                        self.is_new = true;
                        tracing::debug!(pool = self.pool, member = member.0, "a member is back");
                        found.push(member);
                    }
                }
                LinkState::Lost(why) | LinkState::Stranger(why) => {
                    let pool = self.pool;
                    self.lost.entry(member).or_insert_with(|| {
                        tracing::debug!(pool, member = member.0, why, "a member is lost");
                        now
                    });
                }
            }
        }
        found
    }

    /// Whether there was a new connection since [`was_seen`](Self::was_seen).
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Clears the flag of [`is_new`](Self::is_new).
    pub(super) fn was_seen(&mut self) {
        self.is_new = false;
    }

    /// Whether there is no connection to a member.
    pub(super) fn is_lost(&self, member: MemberId) -> bool {
        self.lost.contains_key(&member)
    }

    /// Whether there was no connection to a member for at least `wait`.
    pub(super) fn is_lost_for(&self, member: MemberId, wait: Duration, now: Instant) -> bool {
        let since = self.lost.get(&member);
        since.is_some_and(|since| now.duration_since(*since) >= wait)
    }

    /// Members without a connection, each with the reason.
    pub(super) fn lost(&self) -> BTreeMap<MemberId, Unresponsive> {
        let states = self.links.states();
        let lost = self.lost.keys().map(|member| {
            let why = match states.get(member) {
                Some(LinkState::Lost(why)) => Unresponsive::Lost(why.clone()),
                Some(LinkState::Stranger(why)) => Unresponsive::Stranger(why.clone()),
                _ if self.links.has(*member) => Unresponsive::Lost("no connection yet".to_owned()),
                _ => Unresponsive::Unnamed,
            };
            (*member, why)
        });
        lost.collect()
    }
}
