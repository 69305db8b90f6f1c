//! Two heads without a witness: asks the other one what it knows, at once and until it has answered, and notes whenever it is heard.
//! A pool server that starts later, when the other head may be off, relies on both.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use certificates::Identity;
use leg_memory::Signs;
use legs_config::LegsFile;
use members::{Heard, Links, Message, Peer};
use takeover::legs::{Answer, MemberId, Membership, Request, Tag};

/// Pause between two questions.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Listener {
    signs: Arc<Signs>,
}

impl Listener {
    pub(crate) fn start(
        file: &LegsFile,
        identity: &Identity,
        folder: &Path,
        boot: u64,
    ) -> io::Result<Self> {
        let signs = Arc::new(Signs::open(folder)?);
        let listener = Self {
            signs: Arc::clone(&signs),
        };
        let me = file.me();
        let other = match file.membership() {
            Membership::TwoHeads(heads) => heads.into_iter().find(|head| *head != me),
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
        let pools: BTreeSet<u64> = file.pools.values().map(|pool| pool.guid).collect();
        let unheard = Arc::new(Mutex::new(pools));
        let hear = hear(signs, Arc::clone(&unheard), folder.to_owned(), boot);
        let links = Links::start(me, boot, identity, vec![peer], hear)?;
        let thread = std::thread::Builder::new().name("leg-listen".into());
        thread.spawn(move || ask(&links, head, boot, &unheard))?;
        Ok(listener)
    }

    pub(crate) fn signs(&self) -> Arc<Signs> {
        Arc::clone(&self.signs)
    }
}

fn hear(
    signs: Arc<Signs>,
    unheard: Arc<Mutex<BTreeSet<u64>>>,
    folder: PathBuf,
    boot: u64,
) -> impl Fn(Heard) + Send + Sync + 'static {
    move |heard| {
        signs.note();
        let pool = heard.envelope.pool;
        let Message::Tell(Answer::Known(tag, memory)) = heard.envelope.message else {
            return;
        };
        if tag.boot != boot {
            return;
        }
        match leg_memory::note_heard(&folder, pool, boot, &memory) {
            Ok(()) => {
                tracing::info!(pool, "the other head said what it knows");
                unheard.lock().expect("no holder panics").remove(&pool);
            }
            Err(error) => {
                tracing::error!(pool, %error, "what the other head knows cannot be noted");
            }
        }
    }
}

/// For good: the connection is kept up, and a pool that is made later is asked for, too.
fn ask(links: &Links, head: MemberId, boot: u64, unheard: &Mutex<BTreeSet<u64>>) {
    let tag = Tag { boot, number: 0 };
    loop {
        let pools = unheard.lock().expect("no holder panics").clone();
        for pool in pools {
            links.say(head, pool, Message::Ask(Request::Read(tag)));
        }
        std::thread::sleep(ASK_INTERVAL);
    }
}
