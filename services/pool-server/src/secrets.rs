//! Seals what stands in the clear in the pool, as older programs left it, and what was sealed with
//! a key that is not the present one any more.

use std::sync::Arc;

use control::Failure;
use operations::Context;
use operations::events::News;
use operations::secrets::{Outcome, seal_all};

use super::core::Core;

/// Does it, and tells what became of it.
pub fn seal(core: &Core) {
    match try_to(core) {
        Ok(outcome) => tell(core, &outcome),
        Err(_) if core.is_going() => {}
        Err(failure) => {
            tracing::error!(%failure, "secrets stand in the pool as they did");
            let message = format!(
                "secrets in the pool could not be sealed: {}",
                failure.message
            );
            core.watch
                .journal()
                .add(News::of_pool("secrets", message, true));
        }
    }
}

/// The same, beside everything else.
pub fn seal_beside(core: &Arc<Core>) {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("seal".into());
    if let Err(error) = thread.spawn(move || seal(&core)) {
        tracing::error!(%error, "secrets stand in the pool as they did");
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
    // A key may have come that opens what nothing opened before.
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
            "{} secret(s) that stood in the clear in the pool are sealed now; the pool's history and old \
             copies of its devices keep the old text: set other CHAP secrets (`bulkhead target chap \
             set`), and make another key for replication (`bulkhead replicate rotate-key`)",
            outcome.plain
        );
        journal.add(News::of_pool("secrets", message, true));
    }
    for failed in &outcome.failed {
        let message = format!("a secret stays in the clear in the pool: {failed}");
        journal.add(News::of_pool("secrets", message, true));
    }
}
