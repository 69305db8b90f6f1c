//! Requests of a command to the members: their records, and the heads from which the witness receives heartbeats.

use std::collections::BTreeMap;
use std::time::Instant;

use certificates::Identity;
use control::Failure;
use leg_record::{MemberId, Record, Request, Response, Tag};
use legs_config::LegsFile;
use members::{Exchange, LinkState, Liveness, Message, Peer, Received};

use crate::random;

/// The responses of the members.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    /// By member and number of the pool; none if the member cannot vote for the pool.
    pub(crate) records: BTreeMap<(MemberId, u64), Option<Record>>,
    pub(crate) liveness: Option<Liveness>,
    /// Why the witness is not connected.
    pub(crate) lost: Option<String>,
}

/// Connections to some members.
pub(crate) struct Requester {
    exchange: Exchange,
    boot: u64,
}

impl Requester {
    /// Starts to connect to these members.
    pub(crate) fn start(
        file: &LegsFile,
        identity: &Identity,
        members: &[MemberId],
    ) -> Result<Self, Failure> {
        let boot = random()?;
        let peers = members.iter().filter_map(|member| {
            let entry = file.member(*member)?;
            Some(Peer {
                member: *member,
                fingerprint: entry.fingerprint,
                addresses: entry.members.clone(),
            })
        });
        let exchange = Exchange::start(file.me(), boot, identity, peers.collect())
            .map_err(Failure::of("connect to the witness"))?;
        Ok(Self { exchange, boot })
    }

    /// Requests the records of all pools of the file from these members. `number` differs from that of earlier requests.
    pub(crate) fn records(
        &self,
        file: &LegsFile,
        members: &[MemberId],
        number: u32,
        until: Instant,
        responses: &mut Responses,
    ) {
        let boot = self.boot;
        let requests = |responses: &Responses| {
            let guids = file.pools.values().map(|pool| pool.guid);
            let reads = guids.flat_map(|guid| members.iter().map(move |member| (*member, guid)));
            reads
                .filter(|read| !responses.records.contains_key(read))
                .map(|(member, pool)| {
                    let read = Request::Read(Tag { boot, number });
                    (member, pool, Message::Request(read))
                })
                .collect()
        };
        self.exchange
            .run(until, responses, requests, Responses::take);
    }

    /// Requests from the witness which heads are alive.
    pub(crate) fn liveness(&self, witness: MemberId, until: Instant, responses: &mut Responses) {
        let requests = |responses: &Responses| match responses.liveness {
            Some(_) => Vec::new(),
            None => vec![(witness, 0, Message::RequestLiveness)],
        };
        self.exchange
            .run(until, responses, requests, Responses::take);
        responses.lost = match self.exchange.states().remove(&witness) {
            Some(LinkState::Connected(_)) => None,
            Some(LinkState::Lost(why) | LinkState::Stranger(why)) => Some(why),
            None => Some("no connection yet".to_owned()),
        };
    }
}

impl Responses {
    fn take(&mut self, received: Received) {
        let key = (received.from, received.envelope.pool);
        match received.envelope.message {
            Message::Response(Response::Known(_, state)) => {
                self.records.insert(key, state.accepted);
            }
            Message::Response(_) | Message::Silent(_) => {
                self.records.insert(key, None);
            }
            Message::Liveness(liveness) => self.liveness = Some(liveness),
            _ => {}
        }
    }
}
