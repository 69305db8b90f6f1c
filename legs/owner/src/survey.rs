//! Reads the state of a pool from all members. Read-only, and does not need a quorum.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_record::{MemberId, MemberState, Request, Response, Tag};
use members::{Exchange, Message, Received};

use crate::linked::Network;
use crate::{Failure, random};

/// Members that have not responded by then count as silent.
const WAIT: Duration = Duration::from_secs(3);

type Responses = BTreeMap<MemberId, Option<MemberState>>;

/// The members that respond to member `me`, each with its state of `pool`.
///
/// # Errors
///
/// The system cannot create a thread, or the key of this head is unusable.
pub fn survey(me: MemberId, pool: u64, network: Network) -> Result<Responses, Failure> {
    let boot = random();
    let members: Vec<MemberId> = network.peers.iter().map(|peer| peer.member).collect();
    let exchange = Exchange::start(me, boot, &network.identity, network.peers)
        .map_err(|error| Failure::Side(format!("connect to members: {error}")))?;
    let question = Message::Request(Request::Read(Tag { boot, number: 1 }));
    let requests = |responses: &Responses| {
        let open = members.iter();
        let open = open.filter(|member| !responses.contains_key(member));
        open.map(|member| (*member, pool, question.clone()))
            .collect()
    };
    let take = |responses: &mut Responses, received: Received| {
        let memory = match received.envelope.message {
            Message::Response(Response::Known(_, memory)) => Some(memory),
            Message::Response(_) | Message::Silent(_) => None,
            _ => return,
        };
        responses.insert(received.from, memory);
    };
    let mut responses = Responses::new();
    exchange.run(Instant::now() + WAIT, &mut responses, requests, take);
    Ok(responses)
}
