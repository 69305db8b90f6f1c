//! Chooses the pool's device among several with labels that claim the same identity: copies by a storage array or a
//! hypervisor, a clone at rest, a disk that was copied before it was replaced. Pure: the labels and uberblocks go in, a
//! [`Choice`] comes out.
//!
//! `docs/formats/labels.md` defines the rule. A copy is left out only if the used device certainly has all acknowledged
//! data of the copy.

use crate::label::LabelState;
use crate::uberblock::Uberblock;

/// A ring holds at least this many uberblocks, with the largest blocks.
const ROOTS_MIN: u64 = 15;

/// The path that a label records, compared with the path of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// The path where the pool was last opened.
    Home,
    /// Somewhere else.
    Elsewhere,
    /// The recorded name is not stable, such as `/dev/sdb`.
    Unknown,
}

/// The identity of an uberblock: its transaction group and a part of its checksum.
pub type RootId = (u64, u64);

/// One of the devices with the same identity.
#[derive(Clone, Debug)]
pub struct Twin {
    /// Identifies the import that wrote its newest label.
    pub import: u64,
    /// The state of the pool in that label.
    pub state: LabelState,
    /// Its uberblocks, in ascending order.
    pub roots: Vec<Uberblock>,
    /// Where it is.
    pub path_match: PathMatch,
    /// Uberblocks of copies that an administrator rejected, from its label.
    pub rejected: Vec<RootId>,
}

impl Twin {
    /// The newest uberblock; the default if it has none.
    pub fn newest(&self) -> Uberblock {
        self.roots.last().copied().unwrap_or_default()
    }

    fn has_root_of(&self, other: &Self) -> bool {
        has_root(&self.roots, other.newest())
    }

    /// Whether the newest uberblock of `other` was never on this one, which is not older: both were written to since
    /// they diverged. For an older uberblock that is unknown.
    fn contradicts(&self, other: &Self) -> bool {
        let newest = other.newest();
        let mut roots = self.roots.iter();
        let is_recent = self.newest().txg < newest.txg + ROOTS_MIN;
        let has_another = roots.any(|root| root.txg == newest.txg && root.id() != newest.id());
        has_another || (is_recent && !self.has_root_of(other))
    }

    /// Whether this one has all acknowledged data of `other`.
    fn supersedes(&self, other: &Self) -> bool {
        let (own, others) = (self.newest(), other.newest());
        if own.txg < others.txg || self.contradicts(other) {
            return false;
        }
        // Only one of them is at its recorded path.
        let is_home = self.path_match == PathMatch::Home && other.path_match != PathMatch::Home;
        if own.id() == others.id() {
            // The writes that became durable since that root are in the intent log of the device that was in use.
            return is_home && self.import == other.import;
        }
        // Each import rewrites the labels with a new number: only one of the two was written to since.
        if self.import == other.import {
            return true;
        }
        // An exported pool has an empty intent log.
        let was_passed = other.state == LabelState::Exported && self.has_root_of(other);
        was_passed || (is_home && own.time_s >= others.time_s)
    }
}

/// Whether `root` is one of `roots`.
pub fn has_root(roots: &[Uberblock], root: Uberblock) -> bool {
    roots.iter().any(|one| one.id() == root.id())
}

/// The index of the chosen one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The device at that index.
    One(usize),
    /// Any choice may lose acknowledged writes. The device at that index has the newest root.
    Unclear(usize),
}

/// Decides which of `twins`, of which there is at least one, is the pool's device.
///
/// # Panics
///
/// There is none.
pub fn choose(twins: &[Twin]) -> Choice {
    let newest = |one: &usize| (twins[*one].newest().txg, twins[*one].newest().time_s);
    let is_rejected = |one: usize| {
        let id = twins[one].newest().id();
        let mut others = twins.iter().enumerate();
        others.any(|(index, other)| index != one && other.rejected.contains(&id))
    };
    let mut left: Vec<usize> = (0..twins.len()).filter(|one| !is_rejected(*one)).collect();
    if left.is_empty() {
        left = (0..twins.len()).collect();
    }
    let passes_all = |one: &&usize| {
        let mut others = left.iter().filter(|other| other != one);
        others.all(|other| twins[**one].supersedes(&twins[*other]))
    };
    match left.iter().find(passes_all) {
        Some(one) => Choice::One(*one),
        None => {
            let newest = left.iter().copied().max_by_key(newest);
            Choice::Unclear(newest.expect("at least one"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `groups` of one history: `A` and `B` name histories, as in `A30-33` or `A30-31 B32`.
    fn roots(text: &str) -> Vec<Uberblock> {
        let mut all = Vec::new();
        for part in text.split(' ') {
            let (history, range) = part.split_at(1);
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (
                first.parse().expect("a number"),
                last.parse().expect("a number"),
            );
            all.extend((first..=last).map(|txg| Uberblock {
                txg,
                root_txg: txg,
                time_s: 1000 + txg,
                sum: u64::from(history.as_bytes()[0]),
                is_watched: false,
            }));
        }
        all
    }

    fn twin(import: u64, place: char, text: &str) -> Twin {
        let (state, path_match) = match place {
            'h' => (LabelState::Active, PathMatch::Home),
            'H' => (LabelState::Exported, PathMatch::Home),
            'e' => (LabelState::Active, PathMatch::Elsewhere),
            'E' => (LabelState::Exported, PathMatch::Elsewhere),
            'u' => (LabelState::Active, PathMatch::Unknown),
            _ => panic!("no such place"),
        };
        Twin {
            import,
            state,
            roots: roots(text),
            path_match,
            rejected: Vec::new(),
        }
    }

    /// The same in every order, independent of the names.
    fn chosen(twins: &[Twin]) -> Option<usize> {
        let count = twins.len();
        let choices: Vec<Option<usize>> = (0..count)
            .flat_map(|turn| [false, true].map(|is_reversed| (turn, is_reversed)))
            .map(|(turn, is_reversed)| {
                let mut order: Vec<usize> = (0..count).collect();
                order.rotate_left(turn);
                if is_reversed {
                    order.reverse();
                }
                let ordered: Vec<Twin> = order.iter().map(|one| twins[*one].clone()).collect();
                match choose(&ordered) {
                    Choice::One(one) => Some(order[one]),
                    Choice::Unclear(_) => None,
                }
            })
            .collect();
        assert!(
            choices.iter().all(|choice| *choice == choices[0]),
            "by order: {choices:?} of {twins:?}"
        );
        choices[0]
    }

    #[test]
    fn twin_with_all_data_is_used_and_ambiguous_twins_are_refused() {
        for (twins, expected) in [
            // Copied while it was served: one process continued with one of them, whatever their names are now.
            (
                vec![twin(1, 'h', "A30-33"), twin(1, 'e', "A30-32")],
                Some(0),
            ),
            (
                vec![twin(1, 'e', "A30-32"), twin(1, 'e', "A30-33")],
                Some(1),
            ),
            (
                vec![twin(1, 'h', "A30-32"), twin(1, 'e', "A30-33")],
                Some(1),
            ),
            (
                vec![
                    twin(1, 'h', "A1-99"),
                    twin(1, 'e', "A1-9"),
                    twin(1, 'e', "A1-50"),
                ],
                Some(0),
            ),
            // The same root: the writes flushed since are in the intent log of the device that was in use.
            (
                vec![twin(1, 'h', "A30-33"), twin(1, 'e', "A30-33")],
                Some(0),
            ),
            (
                vec![twin(1, 'H', "A30-33"), twin(1, 'E', "A30-33")],
                Some(0),
            ),
            (vec![twin(1, 'e', "A30-33"), twin(1, 'e', "A30-33")], None),
            (vec![twin(1, 'E', "A30-33"), twin(1, 'E', "A30-33")], None),
            (vec![twin(1, 'u', "A30-33"), twin(1, 'e', "A30-33")], None),
            // A copy of an earlier start, which was killed: it may have the last log records.
            (
                vec![twin(2, 'h', "A30-40"), twin(1, 'e', "A20-33")],
                Some(0),
            ),
            (vec![twin(2, 'e', "A30-40"), twin(1, 'e', "A20-33")], None),
            (vec![twin(2, 'e', "A30-40"), twin(1, 'h', "A20-33")], None),
            (vec![twin(2, 'u', "A30-40"), twin(1, 'u', "A20-33")], None),
            // Both were opened at their current paths.
            (vec![twin(2, 'h', "A30-40"), twin(1, 'h', "A20-33")], None),
            // A clone at rest, of an exported pool: it has no log.
            (
                vec![twin(2, 'e', "A30-40"), twin(1, 'E', "A20-33")],
                Some(0),
            ),
            (
                vec![twin(2, 'h', "A60-90"), twin(1, 'E', "A20-33")],
                Some(0),
            ),
            (vec![twin(2, 'e', "A60-90"), twin(1, 'E', "A20-33")], None),
            // Both were written to, in groups that the other one does not have.
            (
                vec![twin(1, 'h', "A30-33 A36"), twin(1, 'e', "A30-33 A35")],
                None,
            ),
            (
                vec![twin(2, 'h', "A30-33 B34-40"), twin(1, 'e', "A30-35")],
                None,
            ),
            (
                vec![twin(2, 'h', "A30-33 B34"), twin(3, 'e', "A30-34")],
                None,
            ),
            // One of three is unclear.
            (
                vec![
                    twin(2, 'h', "A30-40"),
                    twin(1, 'e', "A20-33"),
                    twin(1, 'h', "A20-32"),
                ],
                None,
            ),
        ] {
            assert_eq!(chosen(&twins), expected, "{twins:?}");
        }
    }

    #[test]
    fn rejected_copy_stays_excluded_until_it_is_written_to() {
        let mut used = twin(2, 'h', "A30-31 B32-34");
        let other = twin(1, 'h', "A30-40");
        assert_eq!(chosen(&[used.clone(), other.clone()]), None);
        used.rejected = vec![other.newest().id()];
        assert_eq!(chosen(&[used.clone(), other]), Some(0));
        assert_eq!(chosen(&[used, twin(1, 'h', "A30-41")]), None);
    }

    #[test]
    fn single_device_without_twin_is_used() {
        assert_eq!(chosen(&[twin(1, 'e', "A30-33")]), Some(0));
    }
}
