//! The bound on the rate of resilvers and scrubs, which the pool stores.

use control::answer::Done;
use control::copy_rate::{COPY_RATE_PROPERTY, CopyRateDocument, RateMax};
use control::{Answer, Failure};
use engine::Pool;

use super::documents::{Documents as _, document_failure};
use super::{Context, failures};

/// Returns the bound that the pool stores; `None` if it stores none.
///
/// # Errors
///
/// The property cannot be read, or is of another version.
pub fn stored(pool: &dyn Pool) -> Result<Option<RateMax>, Failure> {
    let own = pool.own_user_properties(pool.name().into(), COPY_RATE_PROPERTY);
    let own = own.map_err(failures::dataset)?;
    let Some(text) = own.get(COPY_RATE_PROPERTY) else {
        return Ok(None);
    };
    let document = CopyRateDocument::decode(text);
    let document = document.map_err(|error| document_failure(&error))?;
    Ok(Some(document.max))
}

/// Applies the stored bound to the copies of the open pool.
///
/// # Errors
///
/// As for [`stored`].
pub fn apply(pool: &dyn Pool) -> Result<(), Failure> {
    // Without this capability an engine has no copies.
    if let Ok(upkeep) = pool.upkeep() {
        upkeep.bound_copies(stored(pool)?.and_then(RateMax::bytes_per_s));
    }
    Ok(())
}

/// Shows the bound, or stores a new one and applies it.
///
/// # Errors
///
/// The property cannot be read or stored.
pub fn perform(context: &Context<'_>, max: Option<RateMax>) -> Result<Answer, Failure> {
    let root = context.root();
    let before = stored(context.pool);
    let shown = |max: RateMax| match max {
        RateMax::Unlimited => format!("copies of pool {root} are as fast as its clients allow"),
        RateMax::AtMost(_) => format!("copies of pool {root} read at most {max} a second"),
    };
    let Some(max) = max else {
        return Ok(Done::already(shown(before?.unwrap_or(RateMax::Unlimited))));
    };
    // A document that cannot be read is replaced.
    if before.is_ok_and(|before| before.unwrap_or(RateMax::Unlimited) == max) {
        apply(context.pool)?;
        return Ok(Done::already(shown(max)));
    }
    let text = match max {
        RateMax::Unlimited => None,
        RateMax::AtMost(_) => Some(CopyRateDocument { max }.encode()),
    };
    let text = text.transpose();
    let text = text.map_err(|error| document_failure(&error))?;
    context.edit(&root, vec![(COPY_RATE_PROPERTY.to_owned(), text)])?;
    apply(context.pool)?;
    Ok(Done::changed(format!("{} from now on", shown(max))))
}
