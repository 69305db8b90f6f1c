//! The members of the pool by the record that the member of this head accepted, and the state that members report.

use std::collections::{BTreeMap, BTreeSet};

use leg_record::{Config, DiskId, LegGroup, MemberId, MemberState, Record, Response};
use members::Silence;

use crate::Configured;
use crate::shown::Unresponsive;

/// The members, and the head that lends each disk.
pub(super) struct Membership {
    me: MemberId,
    /// Its members count for records that name none.
    config: Config,
    lenders: BTreeMap<DiskId, MemberId>,
    own: MemberState,
    /// Whether the member of this head has sent its state, or the reason why not, since the opening began.
    has_own: bool,
    /// The current members.
    members: BTreeSet<MemberId>,
    silent: BTreeMap<MemberId, Silence>,
    /// Digest of the pool's configuration that this process has read.
    configuration: [u8; 32],
    /// The heads that must have read the same one.
    heads: Vec<MemberId>,
    /// Heads with a different configuration of the pool.
    differing: BTreeSet<MemberId>,
}

fn lenders(groups: &[LegGroup]) -> BTreeMap<DiskId, MemberId> {
    let lenders = groups.iter().flat_map(|group| &group.lenders);
    lenders.map(|(disk, head)| (*disk, *head)).collect()
}

impl Membership {
    pub(super) fn new(config: &Config, configuration: [u8; 32], heads: Vec<MemberId>) -> Self {
        Self {
            me: config.me,
            config: config.clone(),
            lenders: lenders(&config.groups),
            own: MemberState::default(),
            has_own: false,
            members: config.members().into_iter().collect(),
            silent: BTreeMap::new(),
            configuration,
            heads,
            differing: BTreeSet::new(),
        }
    }

    /// Returns the durable state of the member of this head.
    pub(super) fn own(&self) -> &MemberState {
        &self.own
    }

    pub(super) fn has_own(&self) -> bool {
        self.has_own
    }

    pub(super) fn discard_own(&mut self) {
        self.has_own = false;
    }

    pub(super) fn members(&self) -> &BTreeSet<MemberId> {
        &self.members
    }

    pub(super) fn heads(&self) -> &[MemberId] {
        &self.heads
    }

    pub(super) fn lender(&self, disk: DiskId) -> Option<MemberId> {
        self.lenders.get(&disk).copied()
    }

    pub(super) fn differing(&self) -> &BTreeSet<MemberId> {
        &self.differing
    }

    pub(super) fn is_silent(&self, member: MemberId) -> bool {
        self.silent.contains_key(&member)
    }

    pub(super) fn is_any_silent(&self) -> bool {
        self.members.iter().any(|member| self.is_silent(*member))
    }

    /// Members that do not respond for the pool, each with the reason.
    pub(super) fn silent(&self) -> impl Iterator<Item = (MemberId, Unresponsive)> {
        let silent = self.silent.iter();
        silent.map(|(member, why)| (*member, Unresponsive::Silent(*why)))
    }

    /// Whether a record names other members than the configured ones, which are used while the member of this head
    /// sends no state.
    pub(super) fn is_on_other_head(&self, record: &Record) -> bool {
        let named = record.members.as_ref();
        let rule = self.config.by(self.own.accepted.as_ref());
        self.is_silent(self.me) && named.is_some_and(|named| *named != rule.membership)
    }

    /// Applies the record that the member of this head accepted. Returns the other one of two heads alone.
    pub(super) fn follow(&mut self) -> Option<MemberId> {
        let rule = self.config.by(self.own.accepted.as_ref());
        let (other, members) = (rule.other_of_two(), rule.members());
        self.members = members.into_iter().collect();
        other
    }

    /// Notes a head's digest of its configuration of the pool.
    pub(super) fn has_configuration(&mut self, from: MemberId, digest: Option<[u8; 32]>) {
        let pool = self.config.pool;
        let is_changed = match digest == Some(self.configuration) {
            true => self.differing.remove(&from),
            false => self.differing.insert(from),
        };
        if is_changed {
            let is_same = !self.differing.contains(&from);
            tracing::debug!(
                pool,
                member = from.0,
                is_same,
                "the configuration of a head"
            );
        }
    }

    /// This process has read a new configuration of the pool.
    pub(super) fn configured(&mut self, configured: Configured) {
        let Configured {
            digest,
            heads,
            groups,
        } = configured;
        self.configuration = digest;
        self.heads = heads;
        self.lenders = lenders(&groups);
        self.config.groups = groups;
        self.differing.clear();
    }

    /// A member responds for the pool.
    pub(super) fn responses(&mut self, member: MemberId) {
        self.silent.remove(&member);
    }

    /// A member does not respond for the pool.
    pub(super) fn note_silence(&mut self, from: MemberId, why: Silence) {
        let is_new = self.silent.insert(from, why) != Some(why);
        if is_new && self.members.contains(&from) {
            tracing::error!(
                member = from.0,
                ?why,
                "a member does not respond for the pool"
            );
        }
        self.has_own |= from == self.me;
    }

    /// The member of this head responded. `proposed`: the record that it accepted.
    pub(super) fn note_own(&mut self, response: &Response, proposed: Option<Record>) {
        self.has_own |= matches!(response, Response::Known(..));
        match response {
            Response::Known(_, memory) => self.own = memory.clone(),
            Response::Promised { ballot, record, .. } => {
                self.own.promised = *ballot;
                self.own.accepted = record.clone();
            }
            Response::Accepted(ballot, _) => {
                self.own.promised = *ballot;
                self.own.accepted = proposed.or(self.own.accepted.take());
            }
            Response::Serves(_) | Response::Refused { .. } | Response::StateLost(..) => {}
        }
    }
}
