//! Reads the state of a pool from all members. Read-only, and does not need a quorum.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leg_record::{Answer, MemberId, Memory, Request, Tag};
use members::{Exchange, Heard, Message};

use crate::linked::Network;
use crate::{Failure, random};

/// Members that have not responded by then count as silent.
const WAIT: Duration = Duration::from_secs(3);

type Responses = BTreeMap<MemberId, Option<Memory>>;

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
    let question = Message::Ask(Request::Read(Tag { boot, number: 1 }));
    let requests = |responses: &Responses| {
        let open = members.iter();
        let open = open.filter(|member| !responses.contains_key(member));
        open.map(|member| (*member, pool, question.clone()))
            .collect()
    };
    let take = |responses: &mut Responses, heard: Heard| {
        let memory = match heard.envelope.message {
            Message::Tell(Answer::Known(_, memory)) => Some(memory),
            Message::Tell(_) | Message::Silent(_) => None,
            _ => return,
        };
        responses.insert(heard.from, memory);
    };
    let mut responses = Responses::new();
    exchange.run(Instant::now() + WAIT, &mut responses, requests, take);
    Ok(responses)
}
