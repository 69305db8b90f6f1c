//! The optional attributes in a record of the intent log, in addition to mode, owner and times (`lr_attr_t` in
//! `sys/zil.h`): flags that `chattr` sets, a project, and the creation time.

use crate::objects::StoredTime;
use crate::reader::Reader;

/// Optional attributes that were set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Flags that are set or cleared, in their stored form: the mask, and the values.
    pub flags: [u64; 2],
    /// The project.
    pub project: Option<u64>,
    /// The creation time.
    pub created: Option<StoredTime>,
}

/// A flag in a record (`XAT0_*`), and as it is stored.
const FLAGS: [(u64, u64); 15] = [
    (0x2, 0x8_0000_0000),
    (0x4, 0x4_0000_0000),
    (0x8, 0x1_0000_0000),
    (0x10, 0x2_0000_0000),
    (0x20, 0x20_0000_0000),
    (0x40, 0x10_0000_0000),
    (0x80, 0x40_0000_0000),
    (0x100, 0x80_0000_0000),
    (0x200, 0x100_0000_0000),
    (0x400, 0x200_0000_0000),
    (0x800, 0x400_0000_0000),
    (0x2000, 0x800_0000_0000),
    (0x8000, 0x1000_0000_0000),
    (0x1_0000, 0x2000_0000_0000),
    (0x2_0000, 0x4000_0000_0000),
];
const CREATED: u64 = 0x1;
const PROJECT: u64 = 0x4_0000;
/// The number for no project (`ZFS_INVALID_PROJID`).
const NO_PROJECT: u64 = u64::MAX;
/// 32-bit words of the map of optional attributes (`XVA_MAPSIZE`).
const MAP_WORDS: u64 = 3;

impl Options {
    /// Reads them. Returns `None` if they are truncated. The inner value is `None` if they include unsupported ones,
    /// such as the stamp of a virus scanner.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Option<Self>> {
        let words = reader.number()?;
        // Two words of 32 bits: the length of the map, and its first.
        let (count, which) = match cfg!(target_endian = "little") {
            true => (words & 0xffff_ffff, words >> 32),
            false => (words >> 32, words & 0xffff_ffff),
        };
        let others = reader.number()?;
        let values = reader.number()?;
        let created = reader.pair()?;
        // The slot of a virus scanner's stamp.
        let [project, ..] = [reader.pair()?, reader.pair()?].concat()[..] else {
            return None;
        };
        let known = FLAGS
            .iter()
            .fold(CREATED | PROJECT, |known, (bit, _)| known | bit);
        let is_no_project = which & PROJECT != 0 && project == NO_PROJECT;
        if count != MAP_WORDS || others != 0 || which & !known != 0 || is_no_project {
            return Some(None);
        }
        let stored = |bits: u64| {
            let set = FLAGS.iter().filter(|(bit, _)| bits & bit != 0);
            set.fold(0, |stored, (_, flag)| stored | flag)
        };
        Some(Some(Self {
            flags: [stored(which), stored(which & values)],
            project: (which & PROJECT != 0).then_some(project),
            created: (which & CREATED != 0).then_some(created),
        }))
    }

    /// The same as words of a record.
    pub(crate) fn words(&self) -> [u64; 9] {
        let bits = |stored: u64| {
            let set = FLAGS.iter().filter(|(_, flag)| stored & flag != 0);
            set.fold(0, |bits, (bit, _)| bits | bit)
        };
        let [which, values] = self.flags.map(bits);
        let has = |is_there: bool, bit: u64| if is_there { bit } else { 0 };
        let which =
            which | has(self.project.is_some(), PROJECT) | has(self.created.is_some(), CREATED);
        let map = match cfg!(target_endian = "little") {
            true => MAP_WORDS | which << 32,
            false => MAP_WORDS << 32 | which,
        };
        let [seconds, nanoseconds] = self.created.unwrap_or_default();
        let project = self.project.unwrap_or(0);
        [map, 0, values, seconds, nanoseconds, project, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_number_of_no_project_decodes_to_none() {
        let decode = |project| {
            let options = Options {
                project: Some(project),
                ..Options::default()
            };
            let bytes: Vec<u8> = options
                .words()
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            Options::decode(&mut Reader { rest: &bytes })
        };
        assert_eq!(decode(u64::MAX), Some(None));
        let most = decode(u64::MAX - 1)
            .flatten()
            .and_then(|options| options.project);
        assert_eq!(most, Some(u64::MAX - 1));
    }
}
