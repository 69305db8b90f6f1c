//! Decides whether the present devices of a pool might be older than the missing ones.
//!
//! The library opens a pool at the newest transaction group of the devices that it can open, and
//! ignores the rest. A stale leg of a mirror appears as a healthy pool without the newer one:
//! acknowledged writes are missing, and a newer leg that is attached later is overwritten. Each label
//! lists the devices that had failed when it was written. So a missing device that the labels of its
//! group list as failed is older than they are, and any other missing device might be newer.
//! Pure: the labels in, a [`Verdict`] out.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The library writes the root of a transaction group to so many groups of devices, or to all if there are
/// fewer (`SPA_SYNC_MIN_VDEVS`).
const ROOT_GROUPS: usize = 3;

/// The contents of a group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupContent {
    /// Data, and roots of transaction groups.
    Data,
    /// Records of synchronous writes only. A log is read up to the first unreadable record: on an older leg, all later
    /// records appear never to have been written.
    Log,
}

/// A device that holds a part of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Its number.
    pub guid: u64,
    /// Where it is, or was when the label was written.
    pub path: PathBuf,
    /// Where it was when the label was written.
    pub labelled: PathBuf,
    /// Whether it was found.
    pub is_present: bool,
    /// Whether the newest label of its group names it as failed, offline, removed or absent.
    pub is_marked: bool,
}

/// Devices that work together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegGroup {
    /// Its contents.
    pub content: GroupContent,
    /// Each with its devices: more than one during a replacement or with an active spare.
    pub members: Vec<Vec<Leg>>,
    /// The number of members that must hold all data.
    pub needed: usize,
}

impl LegGroup {
    fn missing(&self) -> impl Iterator<Item = &Leg> {
        let legs = self.members.iter().flatten();
        legs.filter(|leg| !leg.is_present && !leg.is_marked)
    }

    /// Returns whether missing devices might hold all data, while the present ones are out of date.
    fn is_doubtful(&self) -> bool {
        let may_be_newer = |legs: &&Vec<Leg>| {
            let mut legs = legs.iter();
            legs.any(|leg| !leg.is_present && !leg.is_marked)
        };
        self.members.iter().filter(may_be_newer).count() >= self.needed
    }

    /// Whether enough members have a device that is present and for which `holds` is true.
    fn is_held(&self, holds: impl Fn(&Leg) -> bool) -> bool {
        let has_one = |legs: &&Vec<Leg>| legs.iter().any(|leg| leg.is_present && holds(leg));
        self.members.iter().filter(has_one).count() >= self.needed
    }
}

/// The devices of a pool, as described by the labels of the present ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legs {
    /// Those of which a label was found.
    pub groups: Vec<LegGroup>,
    /// Further groups. No pool opens without all of its data.
    pub groups_missing: usize,
    /// The pool.
    pub pool_guid: u64,
    /// The newest transaction group that is present.
    pub newest_txg: u64,
    /// When that was written, in seconds since 1970.
    pub newest_time_s: u64,
    /// The number of its leg record, by the newest label. Only the record determines which legs hold all data.
    pub record: Option<u64>,
}

/// The devices that hold all data, as stored on another head or a witness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its number, which the labels of the pool have from then on. 0: they have none.
    pub number: u64,
    /// Their numbers.
    pub current: BTreeSet<u64>,
}

/// An administrator's confirmation for one state of one pool. An import changes that state, so a confirmation is valid
/// once.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Confirmation {
    /// The pool.
    pub pool_guid: u64,
    /// The newest transaction group that was present.
    pub newest_txg: u64,
    /// Numbers of devices that are missing and not newer.
    pub missing: BTreeSet<u64>,
    /// Whether the newest transaction groups may be lost, where they cannot be read.
    #[serde(default)]
    pub may_lose_newest: bool,
    /// Whether the pool may be opened without log devices that are missing.
    #[serde(default)]
    pub may_lose_logs: bool,
    /// Whether the pool permanently continues without its leg record.
    #[serde(default)]
    pub forgets_record: bool,
}

impl Confirmation {
    /// Whether it is about this state of this pool.
    pub fn applies_to(&self, legs: &Legs) -> bool {
        self.pool_guid == legs.pool_guid && self.newest_txg == legs.newest_txg
    }

    fn resolves(&self, doubt: &Doubt) -> bool {
        let missing = doubt.missing.iter().map(|leg| leg.guid);
        self.pool_guid == doubt.pool_guid
            && self.newest_txg == doubt.newest_txg
            && self.missing == missing.collect()
    }
}

/// The reason not to open a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The pool.
    pub pool_guid: u64,
    /// The newest transaction group that is present.
    pub newest_txg: u64,
    /// When that was written, in seconds since 1970.
    pub newest_time_s: u64,
    /// The devices that may be newer.
    pub missing: Vec<Leg>,
}

impl Doubt {
    /// Returns the confirmation that would override it.
    pub fn word(&self) -> Confirmation {
        Confirmation {
            pool_guid: self.pool_guid,
            newest_txg: self.newest_txg,
            missing: self.missing.iter().map(|leg| leg.guid).collect(),
            may_lose_newest: false,
            may_lose_logs: false,
            forgets_record: false,
        }
    }

    /// The devices that may be newer, by their places.
    pub fn missing_paths(&self) -> String {
        let paths: Vec<_> = self.missing.iter().map(|leg| leg.path.display()).collect();
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        paths.join(", ")
    }
}

/// Why a pool may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// By their labels, present devices hold all data.
    Labels,
    /// By an external record.
    Record,
    /// By an administrator's confirmation, which is consumed.
    Confirmation,
}

/// The decision about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Open it.
    Import(Basis),
    /// Read the labels again shortly: a device might only be late.
    Wait,
    /// Leave it alone.
    Refuse(Doubt),
    /// Do not open it: it has a leg record of this number, which was not queried.
    NeedsRecord(u64),
}

/// Evidence in addition to the labels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// An external record. It overrides the labels.
    pub record: Option<&'a Record>,
    /// An administrator's confirmation.
    pub word: Option<&'a Confirmation>,
    /// Whether the time-out for late devices has passed.
    pub has_waited: bool,
}

impl Legs {
    fn all(&self) -> impl Iterator<Item = &Leg> {
        let members = self.groups.iter().flat_map(|group| &group.members);
        members.flatten()
    }

    /// Decides whether the pool may be opened with the devices that are present.
    pub fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
        let forgets = |word: &Confirmation| word.forgets_record && word.applies_to(self);
        if let (None, Some(number)) = (evidence.record, self.record) {
            if !evidence.word.is_some_and(forgets) {
                return Verdict::NeedsRecord(number);
            }
        }
        let (doubt, basis) = match evidence.record {
            Some(record) => (self.against(record), Basis::Record),
            None => (self.doubt(), Basis::Labels),
        };
        match doubt {
            Some(doubt) if evidence.word.is_some_and(|word| word.resolves(&doubt)) => {
                Verdict::Import(Basis::Confirmation)
            }
            Some(doubt) if evidence.has_waited => Verdict::Refuse(doubt),
            Some(_) => Verdict::Wait,
            // The library decides whether the pool opens without them.
            None if self.groups_missing > 0 && !evidence.has_waited => Verdict::Wait,
            None => Verdict::Import(basis),
        }
    }

    /// Returns the GUIDs of the current devices: no device of their group is known to be newer.
    pub fn expected(&self) -> Vec<u64> {
        let legs = self.groups.iter().flat_map(|group| group.members.iter());
        let expected = legs
            .flatten()
            .filter(|leg| leg.is_present && !leg.is_marked);
        expected.map(|leg| leg.guid).collect()
    }

    /// The same pool while those devices are missing.
    pub fn without(mut self, is_missing: impl Fn(&Leg) -> bool) -> Self {
        let groups = self.groups.iter_mut();
        for leg in groups.flat_map(|group| group.members.iter_mut()).flatten() {
            leg.is_present &= !is_missing(leg);
        }
        self
    }

    /// Where the device of that number is.
    pub fn path_of(&self, guid: u64) -> Option<PathBuf> {
        let leg = self.all().find(|leg| leg.guid == guid);
        leg.map(|leg| leg.path.clone())
    }

    /// Whether enough devices are present for the pool to be opened.
    pub fn is_enough(&self) -> bool {
        self.groups_missing == 0 && self.groups.iter().all(|one| one.is_held(|_| true))
    }

    /// Returns whether devices that are present and in `record` hold all data.
    pub fn are_held_by(&self, record: &Record) -> bool {
        let is_current = |leg: &Leg| record.current.contains(&leg.guid);
        self.groups.iter().all(|one| one.is_held(is_current))
    }

    /// Where the devices were that are missing.
    pub fn missing_paths(&self) -> Vec<PathBuf> {
        let missing = self.all().filter(|leg| !leg.is_present);
        missing.map(|leg| leg.path.clone()).collect()
    }

    /// Returns whether `word` permits the loss of the newest transaction groups of this state.
    pub fn may_lose_newest(&self, word: &Confirmation) -> bool {
        word.may_lose_newest && word.applies_to(self)
    }

    /// Returns whether `word` permits the loss of what only missing log devices hold.
    pub fn may_lose_logs(&self, word: &Confirmation) -> bool {
        word.may_lose_logs && word.applies_to(self)
    }

    /// Returns whether all missing devices of the doubt belong to logs.
    pub fn is_about_logs(&self, doubt: &Doubt) -> bool {
        let legs = self.logs().flat_map(|group| group.members.iter().flatten());
        let logs: BTreeSet<u64> = legs.map(|leg| leg.guid).collect();
        doubt.missing.iter().all(|leg| logs.contains(&leg.guid))
    }

    /// Returns whether a device of a log may be missing. No label describes a group without any device.
    pub fn may_miss_logs(&self) -> bool {
        self.groups_missing > 0 || self.logs().any(|group| !group.is_held(|_| true))
    }

    fn logs(&self) -> impl Iterator<Item = &LegGroup> {
        let groups = self.groups.iter();
        groups.filter(|one| one.content == GroupContent::Log)
    }

    /// By the labels alone.
    fn doubt(&self) -> Option<Doubt> {
        let is_data = |group: &&LegGroup| group.content == GroupContent::Data;
        let doubtful: Vec<&LegGroup> = self.groups.iter().filter(|one| one.is_doubtful()).collect();
        let data_count = self.groups.iter().filter(is_data).count() + self.groups_missing;
        let doubtful_data = doubtful.iter().copied().filter(is_data).count();
        // The root block of groups without doubt is present, and with it the list of each device's missing data.
        let root_is_here = doubtful_data < data_count.clamp(1, ROOT_GROUPS);
        let missing = doubtful.into_iter().filter(|group| {
            let is_held = group.is_held(|leg| !leg.is_marked);
            !(root_is_here && is_held && group.content == GroupContent::Data)
        });
        self.doubt_about(missing.flat_map(LegGroup::missing).cloned().collect())
    }

    /// By a record.
    fn against(&self, record: &Record) -> Option<Doubt> {
        let is_current = |leg: &Leg| record.current.contains(&leg.guid);
        let short = self.groups.iter().filter(|one| !one.is_held(is_current));
        let legs = short.flat_map(|group| group.members.iter().flatten());
        let missing = legs.filter(|leg| !leg.is_present && is_current(leg));
        self.doubt_about(missing.cloned().collect())
    }

    fn doubt_about(&self, missing: Vec<Leg>) -> Option<Doubt> {
        (!missing.is_empty()).then_some(Doubt {
            pool_guid: self.pool_guid,
            newest_txg: self.newest_txg,
            newest_time_s: self.newest_time_s,
            missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leg by a letter: `p` present, `P` present and named as failed by a newer label, `m` missing, `M` missing
    /// and marked.
    fn leg(letter: char, guid: u64) -> Leg {
        Leg {
            guid,
            path: PathBuf::from(format!("/{guid}")),
            labelled: PathBuf::new(),
            is_present: letter.eq_ignore_ascii_case(&'p'),
            is_marked: letter.is_ascii_uppercase(),
        }
    }

    /// Such as `1:pm`, `log 1:pp`, `2:p(pm)m`: the number of members that must hold all data, and the members; those of
    /// one replacement in brackets.
    fn group(text: &str, first_guid: u64) -> LegGroup {
        let (content, text) = match text.strip_prefix("log ") {
            Some(text) => (GroupContent::Log, text),
            None => (GroupContent::Data, text),
        };
        let (needed, letters) = text.split_once(':').expect("a number");
        let mut members: Vec<Vec<Leg>> = Vec::new();
        let mut is_inside = false;
        for (guid, letter) in (first_guid..).zip(letters.chars()) {
            match letter {
                '(' => members.push(Vec::new()),
                ')' => {}
                _ if is_inside => members.last_mut().expect("begun").push(leg(letter, guid)),
                _ => members.push(vec![leg(letter, guid)]),
            }
            is_inside = letter != ')' && (is_inside || letter == '(');
        }
        LegGroup {
            content,
            members,
            needed: needed.parse().expect("a number"),
        }
    }

    fn legs(groups: &[&str]) -> Legs {
        let firsts = (1..).map(|index| index * 100);
        Legs {
            groups: firsts
                .zip(groups)
                .map(|(first, text)| group(text, first))
                .collect(),
            groups_missing: 0,
            pool_guid: 5,
            newest_txg: 77,
            newest_time_s: 1_800_000_000,
            record: None,
        }
    }

    const WAITED: Evidence<'_> = Evidence {
        record: None,
        word: None,
        has_waited: true,
    };

    fn doubted(groups: &[&str]) -> Option<Vec<u64>> {
        match legs(groups).judge(&WAITED) {
            Verdict::Import(basis) => {
                assert_eq!(basis, Basis::Labels);
                None
            }
            Verdict::Wait | Verdict::NeedsRecord(_) => panic!("it has waited, and has no record"),
            Verdict::Refuse(doubt) => Some(doubt.missing.iter().map(|leg| leg.guid).collect()),
        }
    }

    #[test]
    fn import_is_refused_if_present_legs_may_be_stale() {
        for (groups, expected) in [
            // No device is missing, or the missing ones are known to have failed.
            (&["1:pp"][..], None),
            (&["1:pM"], None),
            (&["1:Pp"], None),
            (&["1:pMM"], None),
            // The other leg, or legs, may have gone on alone.
            (&["1:pm"], Some(vec![101])),
            (&["1:ppm"], Some(vec![102])),
            (&["1:pMm"], Some(vec![102])),
            (&["1:pmm"], Some(vec![101, 102])),
            // In a raidz, as many members as are not parity must hold all data: some of them are present.
            (&["2:ppm"], None),
            (&["4:ppppmm"], None),
            (&["4:ppppmmm"], None),
            // Unless the missing ones are enough.
            (&["1:mp"], Some(vec![100])),
            (&["2:ppmm"], Some(vec![102, 103])),
            (&["2:pppmm"], Some(vec![103, 104])),
            (&["2:ppmM"], None),
            // With another complete group, the newest root and the list of out-of-date devices are
            // present.
            (&["1:pm", "1:pp"], None),
            (&["1:pm", "1:pm"], Some(vec![101, 201])),
            (&["1:pm", "1:pm", "1:pp"], None),
            // The newest root went to three groups, which may be the three in doubt.
            (&["1:pm", "1:pm", "1:pp", "1:pp"], None),
            (&["1:pm", "1:pm", "1:pm", "1:pp"], Some(vec![101, 201, 301])),
            // The present devices are certainly out of date.
            (&["1:Pm", "1:pp"], Some(vec![101])),
            // A log is read up to the first unreadable record.
            (&["1:pp", "log 1:pm"], Some(vec![201])),
            (&["1:pp", "log 1:pM"], None),
            (&["1:pp", "log 1:pp"], None),
            // No roots are on logs.
            (&["1:pm", "log 1:pp"], Some(vec![101])),
            // During a replacement, either device can be the complete one.
            (&["1:p(pm)"], Some(vec![103])),
            (&["1:p(Mp)"], None),
            (&["2:pp(pm)"], None),
        ] {
            assert_eq!(doubted(groups), expected, "{groups:?}");
        }
    }

    #[test]
    fn import_waits_for_late_devices() {
        let patient = Evidence::default();
        assert_eq!(legs(&["1:pm"]).judge(&patient), Verdict::Wait);
        let good = Verdict::Import(Basis::Labels);
        assert_eq!(legs(&["1:pp"]).judge(&patient), good, "at once");
        // The library reports the missing group more precisely.
        let mut without = legs(&["1:pp"]);
        without.groups_missing = 1;
        assert_eq!(without.judge(&patient), Verdict::Wait);
        assert_eq!(without.judge(&WAITED), good);
    }

    #[test]
    fn confirmation_is_valid_for_its_pool_state_only() {
        let said = match legs(&["1:pm"]).judge(&WAITED) {
            Verdict::Refuse(doubt) => doubt.word(),
            other => panic!("{other:?}"),
        };
        let with_word = |legs: &Legs| {
            legs.judge(&Evidence {
                word: Some(&said),
                ..WAITED
            })
        };
        assert_eq!(
            with_word(&legs(&["1:pm"])),
            Verdict::Import(Basis::Confirmation)
        );
        let mut later = legs(&["1:pm"]);
        later.newest_txg += 1;
        let mut other = legs(&["1:pm"]);
        other.pool_guid += 1;
        for changed in [later, other, legs(&["1:mp"]), legs(&["1:pmm"])] {
            assert!(
                matches!(with_word(&changed), Verdict::Refuse(_)),
                "{changed:?}"
            );
        }
        // Not needed, and not used.
        assert_eq!(with_word(&legs(&["1:pp"])), Verdict::Import(Basis::Labels));
    }

    #[test]
    fn import_needs_the_record_or_a_confirmation_of_this_state() {
        // Its labels leave no doubt.
        let mut whole = legs(&["1:pp"]);
        whole.record = Some(77);
        assert_eq!(whole.judge(&WAITED), Verdict::NeedsRecord(77));
        assert_eq!(whole.judge(&Evidence::default()), Verdict::NeedsRecord(77));
        let record = Record {
            number: 77,
            current: BTreeSet::from([100, 101]),
        };
        let by_record = Evidence {
            record: Some(&record),
            ..WAITED
        };
        assert_eq!(whole.judge(&by_record), Verdict::Import(Basis::Record));
        let word = |newest_txg, forgets_record| Confirmation {
            pool_guid: whole.pool_guid,
            newest_txg,
            missing: BTreeSet::new(),
            may_lose_newest: false,
            may_lose_logs: false,
            forgets_record,
        };
        let judged = |legs: &Legs, word: &Confirmation| {
            legs.judge(&Evidence {
                word: Some(word),
                ..WAITED
            })
        };
        let said = word(whole.newest_txg, true);
        assert_eq!(judged(&whole, &said), Verdict::Import(Basis::Labels));
        for other in [
            word(whole.newest_txg + 1, true),
            word(whole.newest_txg, false),
        ] {
            assert_eq!(judged(&whole, &other), Verdict::NeedsRecord(77));
        }
        // The record has no entry for the missing device.
        let mut half = legs(&["1:pm"]);
        half.record = Some(77);
        assert!(matches!(judged(&half, &said), Verdict::Refuse(_)));
    }

    #[test]
    fn record_of_members_overrides_labels() {
        let judged = |groups: &[&str], current: &[u64]| {
            let record = Record {
                number: 0,
                current: current.iter().copied().collect(),
            };
            legs(groups).judge(&Evidence {
                record: Some(&record),
                ..WAITED
            })
        };
        let good = Verdict::Import(Basis::Record);
        assert_eq!(judged(&["1:pm"], &[100]), good);
        assert_eq!(judged(&["1:pm"], &[100, 101]), good);
        assert_eq!(judged(&["2:ppm"], &[100, 101]), good);
        // The label marks the device that is current by the record.
        for (groups, current) in [(&["1:pM"], &[101][..]), (&["2:ppm"], &[101, 102])] {
            let refused = judged(groups, current);
            assert!(matches!(refused, Verdict::Refuse(_)), "{refused:?}");
        }
    }
}
