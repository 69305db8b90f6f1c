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
    /// Number of the requests. Later responses to earlier requests are ignored: they may be out of date.
    pub(crate) number: u32,
    /// By member and number of the pool; none if the member cannot vote for the pool. Without a response of a member for
    /// a pool there is no entry.
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

    /// Requests the records of all pools of the file from these members.
    pub(crate) fn records(
        &self,
        file: &LegsFile,
        members: &[MemberId],
        until: Instant,
        responses: &mut Responses,
    ) {
        let requests = |responses: &Responses| self.reads(file, members, responses);
        self.exchange
            .run(until, responses, requests, Responses::take);
    }

    /// The requests for records without a response.
    fn reads(
        &self,
        file: &LegsFile,
        members: &[MemberId],
        responses: &Responses,
    ) -> Vec<(MemberId, u64, Message)> {
        let tag = Tag {
            boot: self.boot,
            number: responses.number,
        };
        let guids = file.pools.values().map(|pool| pool.guid);
        let reads = guids.flat_map(|guid| members.iter().map(move |member| (*member, guid)));
        reads
            .filter(|read| !responses.records.contains_key(read))
            .map(|(member, pool)| (member, pool, Message::Request(Request::Read(tag))))
            .collect()
    }

    /// Requests from the witness which heads are alive.
    pub(crate) fn liveness(&self, witness: MemberId, until: Instant, responses: &mut Responses) {
        let requests =
            |responses: &Responses| responses.missing_liveness(witness, Message::RequestLiveness);
        self.exchange
            .run(until, responses, requests, Responses::take);
        self.note_state(witness, responses);
    }

    /// Requests both at once, in one round trip.
    pub(crate) fn liveness_and_records(
        &self,
        file: &LegsFile,
        witness: MemberId,
        until: Instant,
        responses: &mut Responses,
    ) {
        let requests = |responses: &Responses| {
            // The first message: the witness detects by it that this connection does not belong to a leg-server, and a
            // blocked disk there does not delay its response.
            let mut requests = responses.missing_liveness(witness, Message::RequestSteadiness);
            requests.extend(self.reads(file, &[witness], responses));
            requests
        };
        self.exchange
            .run(until, responses, requests, Responses::take);
        self.note_state(witness, responses);
    }

    fn note_state(&self, witness: MemberId, responses: &mut Responses) {
        responses.lost = match self.exchange.states().remove(&witness) {
            Some(LinkState::Connected(_)) => None,
            Some(LinkState::Lost(why) | LinkState::Stranger(why)) => Some(why),
            None => Some("no connection yet".to_owned()),
        };
    }
}

impl Responses {
    /// No responses yet to requests of this number, which differs from that of earlier requests.
    pub(crate) fn to(number: u32) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Sent as the number of a pool, which has no other meaning in these messages: the response repeats it. No record has
    /// so great a number.
    fn liveness_number(&self) -> u64 {
        u64::MAX - u64::from(self.number)
    }

    fn missing_liveness(
        &self,
        witness: MemberId,
        request: Message,
    ) -> Vec<(MemberId, u64, Message)> {
        match self.liveness {
            Some(_) => Vec::new(),
            None => vec![(witness, self.liveness_number(), request)],
        }
    }

    fn take(&mut self, received: Received) {
        let key = (received.from, received.envelope.pool);
        match received.envelope.message {
            Message::Response(Response::Known(tag, state)) if tag.number == self.number => {
                self.records.insert(key, state.accepted);
            }
            Message::Response(Response::StateLost(..)) | Message::Silent(_) => {
                self.records.insert(key, None);
            }
            Message::Liveness(liveness) if key.1 == self.liveness_number() => {
                self.liveness = Some(liveness);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use members::Envelope;

    const WITNESS: MemberId = MemberId(3);

    /// A record may have the same number as the requests.
    #[test]
    fn liveness_counts_if_it_is_the_response_to_this_request() {
        let mut responses = Responses::to(2);
        let requests = responses.missing_liveness(WITNESS, Message::RequestSteadiness);
        let (_, current, _) = requests[0];
        assert_ne!(current, 2);
        for (pool, is_taken) in [(2, false), (current + 1, false), (current, true)] {
            responses.take(Received {
                from: WITNESS,
                envelope: Envelope {
                    pool,
                    boot: 9,
                    message: Message::Liveness(Liveness::default()),
                },
            });
            assert_eq!(responses.liveness.is_some(), is_taken, "{pool}");
        }
    }
}
