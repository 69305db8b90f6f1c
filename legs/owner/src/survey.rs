//! Reads the state of a pool from all members. Read-only, and does not need a quorum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use leg_record::{Answer, MemberId, Memory, Request, Tag};
use members::{Links, Message};

use crate::linked::Network;
use crate::{Failure, Inbox, Input, random};

/// Members that have not responded by then count as silent.
const WAIT: Duration = Duration::from_secs(3);
/// Pause before a request is repeated.
const AGAIN: Duration = Duration::from_millis(500);
/// Interval of checks of the connections.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The members that respond to member `me`, each with its state of `pool`.
///
/// # Errors
///
/// The system cannot create a thread, or the key of this head is unusable.
pub fn survey(
    me: MemberId,
    pool: u64,
    network: Network,
) -> Result<BTreeMap<MemberId, Option<Memory>>, Failure> {
    let (boot, inbox) = (random(), Inbox::new());
    let reporter = inbox.reporter();
    let mut open: BTreeSet<MemberId> = network.peers.iter().map(|peer| peer.member).collect();
    let links = Links::start(me, boot, &network.identity, network.peers, move |heard| {
        reporter.send(Input::Heard(heard));
    });
    let links = links.map_err(|error| Failure::Side(format!("connect to members: {error}")))?;
    let question = Message::Ask(Request::Read(Tag { boot, number: 1 }));
    let until = Instant::now() + WAIT;
    let (mut answers, mut asked) = (BTreeMap::new(), BTreeMap::<MemberId, Instant>::new());
    while !open.is_empty() && Instant::now() < until {
        for member in &open {
            let is_due = asked.get(member).is_none_or(|at| at.elapsed() >= AGAIN);
            if is_due && links.say(*member, pool, question.clone()) {
                asked.insert(*member, Instant::now());
            }
        }
        let heard = match inbox.receiver.recv_timeout(LOOK_INTERVAL) {
            Ok(Input::Heard(heard)) => heard,
            Ok(_) | Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let memory = match heard.envelope.message {
            Message::Tell(Answer::Known(_, memory)) => Some(memory),
            Message::Tell(_) | Message::Silent(_) => None,
            _ => continue,
        };
        open.remove(&heard.from);
        answers.insert(heard.from, memory);
    }
    Ok(answers)
}
