//! Finds the path of an object.

use crate::convert::entry_object;
use crate::objects::Objects;

/// Maximum depth of a path.
const DEPTH_MAX: usize = 64;

/// A path to an object, from the parents that its directories record. `None` if one of these does not name it, or if
/// more than `names_left` names would have to be compared; `names_left` is decremented for each.
pub(crate) fn path(
    objects: &impl Objects,
    root: u64,
    object: u64,
    names_left: &mut u64,
) -> Option<String> {
    let (mut at, mut names) = (object, Vec::new());
    while at != root {
        if names.len() == DEPTH_MAX || *names_left == 0 {
            return None;
        }
        let parent = objects.stored(at).ok()?.parent;
        names.push(name_in(objects, parent, at, names_left)?);
        at = parent;
    }
    names.reverse();
    Some(format!("/{}", names.join("/")))
}

fn name_in(
    objects: &impl Objects,
    directory: u64,
    object: u64,
    names_left: &mut u64,
) -> Option<String> {
    let mut found = None;
    let listed = objects.list(directory, 0, &mut |entry| {
        *names_left = names_left.saturating_sub(1);
        if entry_object(entry.value) == object {
            found = Some(String::from_utf8_lossy(entry.name).into_owned());
        }
        found.is_none() && *names_left > 0
    });
    listed.ok().and(found)
}
