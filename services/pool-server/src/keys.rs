//! Loads the keys of encrypted volumes. Keys in files are loaded before any volume is served. The other keys, which may
//! need a key server, are loaded in the background. A missing key is reported once and retried while the server runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::key::{KeyLocation, how_to_load};
use control::{Failure, FailureKind};
use engine::keys::{KeyFormat, KeyInfo};
use operations::events::NewEvent;
use operations::key;

use super::core::Core;

/// First and longest delay between attempts to load missing keys.
const AGAIN_AFTER_MIN: Duration = Duration::from_secs(2);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);
/// Polling interval for a shutdown.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Whether the key can be loaded by reading a file.
fn is_at_hand(root: &KeyInfo, places: &[KeyLocation]) -> bool {
    root.format != Some(KeyFormat::Passphrase)
        && matches!(places.first(), Some(KeyLocation::File(_)))
}

/// Loads the keys that are in files, so that their volumes are served from the start.
pub fn load_at_hand(core: &Core) {
    if let Err(failure) = look(core, is_at_hand) {
        tracing::error!(%failure, "cannot load keys from files; this is retried");
    }
}

/// Starts to load the other keys in a thread of its own.
pub fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("key-loader".into());
    thread.spawn(move || run(&core)).map(drop)
}

fn run(core: &Core) {
    let mut told = Missing::new();
    let mut failure: Option<String> = None;
    let mut pause = AGAIN_AFTER_MIN;
    // A key that is unloaded later stays unloaded.
    let mut pending: Option<BTreeSet<String>> = None;
    while !core.is_shutting_down() && pending.as_ref().is_none_or(|roots| !roots.is_empty()) {
        let is_pending = |root: &KeyInfo| {
            let pending = pending.as_ref();
            pending.is_none_or(|roots| roots.contains(&root.dataset))
        };
        match check_and_serve(core, is_pending) {
            Ok(left) => {
                failure = None;
                tell(core, &told, &left);
                pending = Some(left.keys().cloned().collect());
                told = left;
            }
            Err(new) => {
                if let Some(news) = check_failed(&mut failure, &new) {
                    core.watch.journal().add(news);
                }
            }
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !core.is_shutting_down() {
            std::thread::sleep(POLL_INTERVAL);
        }
        pause = (pause * 2).min(AGAIN_AFTER_MAX);
    }
}

/// The event for a failed attempt, each failure once. A concurrent change is no failure.
fn check_failed(before: &mut Option<String>, failure: &Failure) -> Option<NewEvent> {
    let is_new = before.as_ref() != Some(&failure.message);
    if failure.kind == FailureKind::Busy || !is_new {
        return None;
    }
    *before = Some(failure.message.clone());
    let message = format!(
        "keys are not loaded, and their volumes are not served: {}; this is retried every {} seconds",
        failure.message,
        AGAIN_AFTER_MAX.as_secs()
    );
    Some(NewEvent::of_pool("key", message, true))
}

/// Encryption roots with missing keys, each with the error of each key location.
type Missing = BTreeMap<String, Vec<String>>;

fn look(
    core: &Core,
    wanted: impl Fn(&KeyInfo, &[KeyLocation]) -> bool,
) -> Result<(u64, Missing), Failure> {
    let pool = core.pool.require()?;
    let all = core.serving.documents.all(&*pool)?;
    let (loaded, left) = key::load_missing(&*pool, &all, wanted)?;
    Ok((loaded, left.into_iter().collect()))
}

fn check_and_serve(core: &Core, wanted: impl Fn(&KeyInfo) -> bool) -> Result<Missing, Failure> {
    let (loaded, left) = look(core, |root, _| wanted(root))?;
    if loaded > 0 {
        let _changing = core.changing()?;
        core.serve_unlocked()?;
    }
    Ok(left)
}

/// Reports keys that are missing since the last attempt, and keys that are available again.
fn tell(core: &Core, told: &Missing, left: &Missing) {
    let journal = core.watch.journal();
    for (root, wrong) in left.iter().filter(|(root, _)| !told.contains_key(*root)) {
        let load = how_to_load("volume", root);
        let message = format!("the key of {root} is missing: {}; {load}", wrong.join("; "));
        journal.add(NewEvent::of_pool("key", message, true));
    }
    for root in told.keys().filter(|root| !left.contains_key(*root)) {
        let message = format!("the key of {root} is loaded");
        journal.add(NewEvent::of_pool("key", message, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_lookup_failure_yields_one_event_per_cause() {
        let mut before = None;
        let failure = |message: &str| Failure::new(FailureKind::Failed, message.to_owned());
        let busy = Failure::new(FailureKind::Busy, "a change is under way");
        assert!(check_failed(&mut before, &busy).is_none());
        let news = check_failed(&mut before, &failure("no document")).expect("an event");
        assert!(news.is_bad && news.message.contains("no document"));
        assert!(check_failed(&mut before, &failure("no document")).is_none());
        assert!(check_failed(&mut before, &failure("another")).is_some());
    }
}
