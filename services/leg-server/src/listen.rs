//! Two heads without a witness: asks the other one what it knows, at once and again and again, and notes whenever it is heard. A pool
//! server that starts later, when the other head may be off, relies on both. Whether there is a witness is said by the record of each pool,
//! and may change.
//!
//! What was heard says nothing any more after this process stood still: it may have been taken for one that is off.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use certificates::Identity;
use leg_memory::{Awake, Heart, Signs};
use legs_config::LegsFile;
use members::{Heard, Links, Member, Message, Peer};
use takeover::legs::{Answer, MemberId, Membership, Memory, Request, Tag};

/// Pause between two beats, and two questions about pools of which nothing was heard.
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Pools of which something was heard that are asked for again with each of these questions.
const AGAIN_MAX: usize = 16;

pub(crate) struct Listener {
    signs: Arc<Signs>,
}

impl Listener {
    pub(crate) fn start(
        file: &LegsFile,
        identity: &Identity,
        member: &Arc<Member>,
        folder: &Path,
        boot: u64,
    ) -> io::Result<Self> {
        let signs = Arc::new(Signs::open(folder)?);
        let listener = Self {
            signs: Arc::clone(&signs),
        };
        let me = file.me();
        let configured = file.membership();
        let other = match configured.heads() {
            [one, other] if *one == me => Some(*other),
            [one, _] => Some(*one),
            _ => None,
        };
        let Some((head, entry)) = other.and_then(|head| Some((head, file.member(head)?))) else {
            return Ok(listener);
        };
        let peer = Peer {
            member: head,
            fingerprint: entry.fingerprint,
            addresses: entry.members.clone(),
        };
        let pools = file.pools.values().map(|pool| (pool.guid, None));
        let ear = Arc::new(Ear {
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
        let hear = {
            let ear = Arc::clone(&ear);
            move |heard| {
                signs.note();
                ear.hear(heard);
            }
        };
        let links = Links::start(me, boot, identity, vec![peer], hear)?;
        let thread = std::thread::Builder::new().name("leg-listen".into());
        thread.spawn(move || ask(&links, head, &ear, heart))?;
        Ok(listener)
    }

    pub(crate) fn signs(&self) -> Arc<Signs> {
        Arc::clone(&self.signs)
    }
}

/// What the other head said, by pool.
struct Ear {
    folder: PathBuf,
    boot: u64,
    member: Arc<Member>,
    configured: Membership,
    state: Mutex<State>,
}

struct State {
    /// Answers to questions of another number came from before a freeze.
    number: u32,
    pools: BTreeMap<u64, Option<Memory>>,
}

impl Ear {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn hear(&self, heard: Heard) {
        let pool = heard.envelope.pool;
        let Message::Tell(Answer::Known(tag, memory)) = heard.envelope.message else {
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
        {
            return;
        }
        let known = state.pools.get(&pool).and_then(Option::as_ref);
        if known == Some(&memory) {
            return;
        }
        let is_first = known.is_none();
        match leg_memory::note_heard(&self.folder, pool, boot, &memory) {
            Ok(()) => {
                if is_first {
                    tracing::info!(pool, "the other head said what it knows");
                }
                state.pools.insert(pool, Some(memory));
            }
            Err(error) => {
                tracing::error!(pool, %error, "what the other head knows cannot be noted");
            }
        }
    }

    /// Whether all that was heard is forgotten.
    fn forget(&self) -> bool {
        let mut state = self.state();
        state.number = state.number.wrapping_add(1);
        let mut is_done = true;
        for (pool, known) in &mut state.pools {
            *known = None;
            if let Err(error) = leg_memory::forget_heard(&self.folder, *pool) {
                tracing::error!(pool, %error, "what the other head said cannot be forgotten");
                is_done = false;
            }
        }
        is_done
    }

    /// Whether what the other head knows counts for the pool.
    fn is_of_two(&self, pool: u64) -> bool {
        let members = self.member.membership(pool, &self.configured);
        matches!(
            members,
            Some(Membership::TwoHeads(_) | Membership::WitnessLeaves { .. })
        )
    }

    /// The number of the next questions, and the pools that they are about: all of which nothing was heard, and some others in turn.
    fn due(&self, turn: &mut usize) -> (u32, Vec<u64>) {
        let state = self.state();
        let pools = state.pools.iter();
        let pools = pools.filter(|(pool, _)| self.is_of_two(**pool));
        let (known, unknown): (Vec<_>, Vec<_>) = pools.partition(|(_, known)| known.is_some());
        let mut due: Vec<u64> = unknown.into_iter().map(|(pool, _)| *pool).collect();
        let first = *turn % known.len().max(1);
        let again = known
            .iter()
            .cycle()
            .skip(first)
            .take(known.len().min(AGAIN_MAX));
        due.extend(again.map(|(pool, _)| **pool));
        *turn = first + AGAIN_MAX;
        (state.number, due)
    }
}

/// For good: the connection is kept up, and a pool that is made later is asked for, too.
fn ask(links: &Links, head: MemberId, ear: &Ear, mut heart: Heart) {
    let boot = ear.boot;
    let mut awake = Awake::new();
    let (mut turn, mut is_frozen) = (0, false);
    loop {
        is_frozen |= awake.was_frozen();
        let beaten = if is_frozen {
            // It does not beat before it has forgotten.
            let is_done = ear.forget();
            tracing::warn!(
                "this process stood still: what the other head said before is forgotten"
            );
            is_frozen = !is_done;
            if is_done { heart.froze() } else { Ok(()) }
        } else {
            heart.beat()
        };
        if let Err(error) = beaten {
            tracing::error!(%error, "that this process runs cannot be noted, so what it hears is not relied on");
        }
        let (number, pools) = ear.due(&mut turn);
        for pool in pools {
            let tag = Tag { boot, number };
            links.say(head, pool, Message::Ask(Request::Read(tag)));
        }
        std::thread::sleep(ASK_INTERVAL);
    }
}
