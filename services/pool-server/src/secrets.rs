//! Seals secrets that older versions stored in the clear, and secrets that were sealed with an outdated key.

use std::sync::Arc;

use control::Failure;
use operations::Context;
use operations::events::NewEvent;
use operations::secrets::{Outcome, seal_all};

use super::core::Core;

/// Seals the secrets and reports the result.
pub fn seal(core: &Core) {
    match try_to(core) {
        Ok(outcome) => tell(core, &outcome),
        Err(_) if core.is_shutting_down() => {}
        Err(failure) => {
            tracing::error!(%failure, "secrets in the pool are unchanged");
            let message = format!(
                "secrets in the pool could not be sealed: {}",
                failure.message
            );
            core.watch
                .journal()
                .add(NewEvent::of_pool("secrets", message, true));
        }
    }
}

/// Like [`seal`], in a thread of its own.
pub fn seal_in_background(core: &Arc<Core>) {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("seal".into());
    if let Err(error) = thread.spawn(move || seal(&core)) {
        tracing::error!(%error, "secrets in the pool are unchanged");
    }
}

fn try_to(core: &Core) -> Result<Outcome, Failure> {
    let _changing = core.changing()?;
    let outcome = {
        let pool = core.pool.require()?;
        seal_all(&Context {
            pool: &*pool,
            hooks: core,
            documents: &core.serving.documents,
        })?
    };
    // A new key may open secrets that were unreadable before.
    core.serving.reconcile()?;
    Ok(outcome)
}

fn tell(core: &Core, outcome: &Outcome) {
    let journal = core.watch.journal();
    if outcome.written > 0 {
        tracing::info!(
            properties = outcome.written,
            "secrets are sealed with the present key"
        );
    }
    if outcome.plain > 0 {
        let message = format!(
            "{} secret(s) that were stored in the clear in the pool are sealed now; the pool's history and old \
             copies of its devices keep the old text: set other CHAP secrets (`bulkhead target chap \
             set`), and make another key for replication (`bulkhead replicate rotate-key`)",
            outcome.plain
        );
        journal.add(NewEvent::of_pool("secrets", message, true));
    }
    for failed in &outcome.failed {
        let message = format!("a secret stays in the clear in the pool: {failed}");
        journal.add(NewEvent::of_pool("secrets", message, true));
    }
}
