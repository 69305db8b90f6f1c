//! Assigns new identities to the volumes of a copied pool, so that initiators see them as separate
//! disks.

use control::Failure;

use crate::Context;
use crate::documents::{Documents, Edits, new_identity};

/// Generates a new identity for each volume that has one. Returns their number. An initiator would treat two volumes
/// with one identity as two paths to one disk.
pub fn volumes(context: &Context<'_>) -> Result<usize, Failure> {
    let all = context.all()?;
    let known = all.volumes().filter(|facts| facts.identity.is_some());
    let edits: Vec<(String, Edits)> = known
        .map(|facts| Ok((facts.name.to_string(), vec![new_identity()?])))
        .collect::<Result<_, Failure>>()?;
    let count = edits.len();
    context.edit_all(edits)?;
    Ok(count)
}
