//! The distribution of client reads over the legs of mirrors, which the pool stores.

use control::answer::Done;
use control::read_balancing::{READ_BALANCING_PROPERTY, ReadBalancing, ReadBalancingDocument};
use control::{Answer, Failure};
use engine::Pool;
use engine::pool::ReadBalancing as OfEngine;

use super::documents::{Documents as _, document_failure};
use super::{Context, failures};

/// Returns the mode that the pool stores; the default if it stores none.
///
/// # Errors
///
/// The property cannot be read, or is of another version.
pub fn stored(pool: &dyn Pool) -> Result<ReadBalancing, Failure> {
    let own = pool.own_user_properties(pool.name().into(), READ_BALANCING_PROPERTY);
    let own = own.map_err(failures::dataset)?;
    let Some(text) = own.get(READ_BALANCING_PROPERTY) else {
        return Ok(ReadBalancing::default());
    };
    let document = ReadBalancingDocument::decode(text);
    let document = document.map_err(|error| document_failure(&error))?;
    Ok(document.mode)
}

/// Applies the stored mode to the reads of the open pool.
///
/// # Errors
///
/// As for [`stored`].
pub fn apply(pool: &dyn Pool) -> Result<(), Failure> {
    // Without this capability an engine has no mirrors.
    if let Ok(upkeep) = pool.upkeep() {
        upkeep.balance_reads(match stored(pool)? {
            ReadBalancing::PreferLocal => OfEngine::PreferLocal,
            ReadBalancing::LeastPending => OfEngine::LeastPending,
        });
    }
    Ok(())
}

/// Shows the mode, or stores a new one and applies it. A pool without legs stores it, too: it may get legs later.
///
/// # Errors
///
/// The property cannot be read or stored.
pub fn perform(context: &Context<'_>, mode: Option<ReadBalancing>) -> Result<Answer, Failure> {
    let root = context.root();
    let before = stored(context.pool);
    let shown = |mode: ReadBalancing| {
        let reads = match mode {
            ReadBalancing::PreferLocal => "use the legs of the head that serves it",
            ReadBalancing::LeastPending => "use the leg with the shortest queue, on any head",
        };
        let without = match context.hooks.has_legs() {
            true => "",
            false => "; the pool has no leg on another head, so all modes are the same",
        };
        format!("{mode}: client reads of pool {root} {reads}{without}")
    };
    let Some(mode) = mode else {
        return Ok(Done::already(shown(before?)));
    };
    // A document that cannot be read is replaced.
    if before.is_ok_and(|before| before == mode) {
        apply(context.pool)?;
        return Ok(Done::already(shown(mode)));
    }
    let text = match mode {
        ReadBalancing::PreferLocal => None,
        ReadBalancing::LeastPending => Some(ReadBalancingDocument { mode }.encode()),
    };
    let text = text.transpose();
    let text = text.map_err(|error| document_failure(&error))?;
    context.edit(&root, vec![(READ_BALANCING_PROPERTY.to_owned(), text)])?;
    apply(context.pool)?;
    Ok(Done::changed(shown(mode)))
}
