//! Volumes of a copied pool become disks of their own for those who use them.

use control::Failure;

use crate::Context;
use crate::documents::{Documents, Edits, new_identity};

/// Gives each volume that has an identity another one; how many there are. An initiator would take two volumes with one for two paths to one
/// disk.
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
