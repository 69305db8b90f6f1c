//! The shape of the pool of a label: how many devices belong together, and which software can read them.

use crate::label::{find_number, find_text};
use crate::list::{Value, entries, lists, names, nested};

/// The longest name of a feature.
const FEATURE_BYTES_MAX: usize = 128;

/// The shape of a pool, as one of its devices describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The version of the format; 5000 means features.
    pub version: Option<u64>,
    /// The number of top-level vdevs.
    pub groups: u64,
    /// The type of the device's own top-level vdev: `disk`, `file`, `mirror`, `raidz`, ...
    pub kind: Option<String>,
    /// The number of devices of that vdev.
    pub members: u32,
    /// Features without which software cannot read the pool, by their short names.
    pub features_for_read: Vec<String>,
}

impl Shape {
    /// Reads a packed list; `None` if it is malformed.
    pub fn parse(packed: &[u8]) -> Option<Self> {
        let outer = entries(packed)?;
        let group = nested(packed, "vdev_tree").unwrap_or_default();
        let text = |entries: &[(&[u8], Value<'_>)], name| {
            let text = find_text(entries, name)?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let features = names(packed, "features_for_read").unwrap_or_default();
        let short = |name: &[u8]| {
            let name = std::str::from_utf8(name).ok()?;
            let short = name.rsplit(':').next()?;
            let is_plain = |one: char| one.is_ascii_alphanumeric() || "_-.".contains(one);
            let is_valid = short.len() <= FEATURE_BYTES_MAX && short.chars().all(is_plain);
            is_valid.then(|| short.to_owned())
        };
        Some(Self {
            version: find_number(&outer, "version"),
            groups: find_number(&outer, "vdev_children").unwrap_or(1),
            kind: text(&group, "type"),
            members: lists(packed, "vdev_tree", "children").unwrap_or(1),
            features_for_read: features.into_iter().filter_map(short).collect(),
        })
    }

    /// The number of devices of the pool, if the label is sufficient to compute it.
    pub fn devices(&self) -> Option<u32> {
        (self.groups == 1).then_some(self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::tests::{a_list, a_mark, a_number, a_text, lists_of, packed};

    #[test]
    fn shape_counts_groups_and_members() {
        let features = a_list(
            "features_for_read",
            &[
                a_mark("org.open-zfs:large_blocks"),
                a_mark("com.delphix:hole_birth"),
            ],
        );
        let tree = a_list(
            "vdev_tree",
            &[
                a_text("type", "mirror"),
                lists_of("children", 3, &[a_text("type", "disk")]),
            ],
        );
        let bytes = packed(&[
            a_number("version", 5000),
            a_number("vdev_children", 2),
            tree,
            features,
        ]);
        let shape = Shape::parse(&bytes).expect("valid");
        assert_eq!(
            (shape.version, shape.groups, shape.members),
            (Some(5000), 2, 3)
        );
        assert_eq!(shape.kind.as_deref(), Some("mirror"));
        assert_eq!(shape.features_for_read, ["large_blocks", "hole_birth"]);
        assert_eq!(shape.devices(), None);
        for length in 0..bytes.len() - 4 {
            assert_eq!(Shape::parse(&bytes[..length]), None, "{length}");
        }
    }
}
