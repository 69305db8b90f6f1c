//! Two heads without a witness: reads the state of the other head periodically, and notes each of its messages. A pool
//! server that starts later, when the other head may be off, relies on both. Whether there is a witness or a third head
//! depends on the record of each pool, and may change.
//!
//! State received before a freeze of this process does not count: the head may have been considered off.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use certificates::Identity;
use leg_memory::{Awake, ContactCounter, Heart, Processes};
use leg_record::{MemberId, MemberState, Membership, Request, Response, Tag};
use legs_config::LegsFile;
use members::limits::WITNESS_HEARTBEAT;
use members::{Links, Member, Message, Peer, Received};

/// Heartbeats to the witness for each beat of this process and request for pools without a response.
const HEARTBEATS_PER_BEAT: u32 = 2;
/// Pools with a response that are requested again in each interval.
const AGAIN_MAX: usize = 16;

/// Notes messages of heads that share a pool with this one.
pub(crate) struct Listener {
    signs: ContactCounter,
    processes: Mutex<Processes>,
    member: Arc<Member>,
    configured: Membership,
    pools: Vec<u64>,
}

impl Listener {
    pub(crate) fn start(
        file: &Arc<LegsFile>,
        identity: &Identity,
        member: &Arc<Member>,
        folder: &Path,
        boot: u64,
    ) -> io::Result<Arc<Self>> {
        let me = file.me();
        let configured = file.membership();
        let listener = Arc::new(Self {
            signs: ContactCounter::open(folder)?,
            processes: Mutex::default(),
            member: Arc::clone(member),
            configured: configured.clone(),
            pools: file.pools.values().map(|pool| pool.guid).collect(),
        });
        let others = configured.heads().iter().filter(|head| **head != me);
        // A connection to the witness carries heartbeats only: they show the other head, before it powers this one off or starts alone, that this one is alive.
        let witness = configured.witness();
        let peers: Vec<Peer> = others
            .chain(&witness)
            .filter_map(|member| {
                let entry = file.member(*member)?;
                Some(Peer {
                    member: *member,
                    fingerprint: entry.fingerprint,
                    addresses: entry.members.clone(),
                })
            })
            .collect();
        let pools = file.pools.values().map(|pool| (pool.guid, None));
        let ear = Arc::new(PeerState {
            me,
            folder: folder.to_owned(),
            boot,
            member: Arc::clone(member),
            configured,
            state: Mutex::new(State {
                number: 0,
                pools: pools.collect(),
            }),
        });
        let heart = Heart::begin(folder)?;
        let receive = {
            let (ear, listener) = (Arc::clone(&ear), Arc::clone(&listener));
            move |received: Received| {
                if Some(received.from) == witness {
                    return;
                }
                listener.note(received.from, received.envelope.boot);
                ear.receive(received);
            }
        };
        let links = Arc::new(Links::start(me, boot, identity, peers, receive)?);
        crate::connections::start(&links, Arc::clone(file), folder)?;
        let thread = std::thread::Builder::new().name("leg-listen".into());
        thread.spawn(move || send_request(&links, &ear, heart, witness))?;
        Ok(listener)
    }

    /// Notes a message. A configured head that no record names yet is no sign of the other head.
    pub(crate) fn note(&self, from: MemberId, boot: u64) {
        let is_head = |pool: &u64| {
            let members = self.member.membership(*pool, &self.configured);
            members.is_none_or(|members| members.heads().contains(&from))
        };
        if self.pools.iter().any(is_head) {
            // Noted before a second thread can see the process as known.
            let mut processes = self.processes.lock().expect("no holder panics");
            self.signs.note(processes.receive(from, boot));
        }
    }
}

/// State that the other head sent, by pool.
struct PeerState {
    me: MemberId,
    folder: PathBuf,
    boot: u64,
    member: Arc<Member>,
    configured: Membership,
    state: Mutex<State>,
}

struct State {
    /// Responses to requests with another number predate a freeze.
    number: u32,
    pools: BTreeMap<u64, Option<MemberState>>,
}

impl PeerState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn receive(&self, received: Received) {
        let (from, pool) = (received.from, received.envelope.pool);
        let Message::Response(Response::Known(tag, memory)) = received.envelope.message else {
            return;
        };
        let mut state = self.state();
        let boot = self.boot;
        if tag
            != (Tag {
                boot,
                number: state.number,
            })
            || !state.pools.contains_key(&pool)
            || self.other_of_two(pool) != Some(from)
        {
            tracing::trace!(
                pool,
                member = from.0,
                ?tag,
                "a record that does not count is ignored"
            );
            return;
        }
        let known = state.pools.get(&pool).and_then(Option::as_ref);
        if known == Some(&memory) {
            return;
        }
        let is_first = known.is_none();
        let term = memory.promised.epoch;
        tracing::debug!(
            pool,
            member = from.0,
            term,
            "the other head has a new record"
        );
        match leg_memory::note_received(&self.folder, pool, boot, &memory) {
            Ok(()) => {
                if is_first {
                    tracing::info!(pool, "the other head sent its record");
                }
                state.pools.insert(pool, Some(memory));
            }
            Err(error) => {
                tracing::error!(pool, %error, "the record of the other head cannot be stored");
            }
        }
    }

    /// Removes all received state. Returns whether that is complete.
    fn forget(&self) -> bool {
        tracing::debug!("the records of the other head are removed");
        let mut state = self.state();
        state.number = state.number.wrapping_add(1);
        let mut is_done = true;
        for (pool, known) in &mut state.pools {
            *known = None;
            if let Err(error) = leg_memory::discard_received(&self.folder, *pool) {
                tracing::error!(pool, %error, "the stored record of the other head cannot be removed");
                is_done = false;
            }
        }
        is_done
    }

    /// The other head of a pool, if its state counts for the pool.
    fn other_of_two(&self, pool: u64) -> Option<MemberId> {
        match self.member.membership(pool, &self.configured)? {
            Membership::TwoHeads(heads) | Membership::WitnessLeaves { heads, .. } => {
                heads.into_iter().find(|head| *head != self.me)
            }
            _ => None,
        }
    }

    /// The number of the next requests, and their pools, each with the receiving head: all pools without a response,
    /// and some with one in turn.
    fn due(&self, turn: &mut usize) -> (u32, Vec<(MemberId, u64)>) {
        let state = self.state();
        let pools = state.pools.iter();
        let pools = pools.filter_map(|(pool, known)| {
            let head = self.other_of_two(*pool)?;
            Some(((head, *pool), known))
        });
        let (known, unknown): (Vec<_>, Vec<_>) = pools.partition(|(_, known)| known.is_some());
        let mut due: Vec<_> = unknown
            .into_iter()
            .map(|(requested, _)| requested)
            .collect();
        let first = *turn % known.len().max(1);
        let again = known
            .iter()
            .cycle()
            .skip(first)
            .take(known.len().min(AGAIN_MAX));
        due.extend(again.map(|(requested, _)| *requested));
        *turn = first + AGAIN_MAX;
        (state.number, due)
    }
}

/// Runs forever, so that the connection stays open, and pools that are created later are requested, too.
fn send_request(links: &Links, ear: &PeerState, mut heart: Heart, witness: Option<MemberId>) {
    let boot = ear.boot;
    let mut awake = Awake::new();
    let (mut turn, mut is_frozen) = (0, false);
    loop {
        for _ in 0..HEARTBEATS_PER_BEAT {
            if let Some(witness) = witness {
                links.send(witness, 0, Message::Alive);
            }
            std::thread::sleep(WITNESS_HEARTBEAT);
        }
        is_frozen |= awake.was_frozen();
        let beaten = if is_frozen {
            // No beat until the state is removed.
            let is_done = ear.forget();
            tracing::warn!(
                "this process was frozen: the stored records of the other head are removed"
            );
            is_frozen = !is_done;
            if is_done { heart.froze() } else { Ok(()) }
        } else {
            heart.beat()
        };
        if let Err(error) = beaten {
            tracing::error!(%error, "the beat of this process cannot be written, so received records are not used");
        }
        let (number, pools) = ear.due(&mut turn);
        for (head, pool) in pools {
            let tag = Tag { boot, number };
            links.send(head, pool, Message::Request(Request::Read(tag)));
        }
    }
}
