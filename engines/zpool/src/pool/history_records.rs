//! The records of the history, as `spa_history.c` writes them: the length in eight bytes, the lowest first, then a packed
//! list of names and values in the byte order of the host that wrote it ("native" encoding of `nvpair.c`).

use engine::HistoryRecord;

/// Encoding, byte order and two reserved bytes.
const HEADER_BYTES: usize = 4;
/// Version and flags of a list.
const VERSION_BYTES: usize = 8;
/// Size, length of the name, a reserved number, count of values, type.
const ENTRY_BYTES_MIN: usize = 16;
const ENCODING_NATIVE: u8 = 0;
const LITTLE_ENDIAN: u8 = 1;
/// Type numbers of entries.
const TYPE_U64: u32 = 8;
const TYPE_TEXT: u32 = 9;
const TYPE_LIST: u32 = 19;
/// The library accepts no larger record.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// The records in `tail`, of which the first may be cut, the oldest first.
pub(super) fn records(tail: &[u8]) -> Vec<HistoryRecord> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tail.len() {
        match record(&tail[at..]) {
            Some((record, length)) => {
                found.push(record);
                at += length;
            }
            // Within a record that is cut, or in one that another version wrote.
            None => at += 1,
        }
    }
    found
}

/// The record at the start of `bytes` with its length.
fn record(bytes: &[u8]) -> Option<(HistoryRecord, usize)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    if length > RECORD_BYTES_MAX {
        return None;
    }
    let list = List::of(rest.get(..length)?)?;
    let text = |name: &str| list.text(name);
    let internal = text("internal_name").or_else(|| text("ioctl"));
    let (what, details) = match internal {
        Some(what) => (what, text("history internal str")),
        None => ("command".to_owned(), text("history command")),
    };
    let record = HistoryRecord {
        at_unix_s: list.number("history time")?,
        txg: list.number("history txg"),
        what,
        of: text("dsname"),
        details: details.filter(|details| !details.trim().is_empty()),
    };
    Some((record, 8 + length))
}

enum Value<'a> {
    Number(u64),
    Text(&'a [u8]),
}

struct List<'a>(Vec<(&'a [u8], Value<'a>)>);

impl<'a> List<'a> {
    /// The list that fills `packed`; entries of other types are skipped.
    fn of(packed: &'a [u8]) -> Option<Self> {
        let (header, list) = packed.split_at_checked(HEADER_BYTES)?;
        let is_little = header[1] == LITTLE_ENDIAN;
        if header[0] != ENCODING_NATIVE || header[1] > LITTLE_ENDIAN || header[2..] != [0, 0] {
            return None;
        }
        let mut rest = list.get(VERSION_BYTES..)?;
        let mut entries = Vec::new();
        loop {
            let size = number(rest, 4, is_little)? as usize;
            if size == 0 {
                return (!entries.is_empty()).then_some(Self(entries));
            }
            if size < ENTRY_BYTES_MIN || size % 8 != 0 {
                return None;
            }
            let entry = rest.get(..size)?;
            rest = &rest[size..];
            let name_bytes = number(entry.get(4..)?, 2, is_little)? as usize;
            let kind = number(entry.get(12..)?, 4, is_little)? as u32;
            let name = entry.get(ENTRY_BYTES_MIN..)?.get(..name_bytes)?;
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            let value = entry.get((ENTRY_BYTES_MIN + name_bytes).next_multiple_of(8)..)?;
            match kind {
                TYPE_U64 => entries.push((name, Value::Number(number(value, 8, is_little)?))),
                TYPE_TEXT => {
                    let end = value.iter().position(|byte| *byte == 0)?;
                    entries.push((name, Value::Text(&value[..end])));
                }
                // Its entries would follow here. Such records repeat what those of commands contain.
                TYPE_LIST => return None,
                _ => {}
            }
        }
    }

    fn find(&self, name: &str) -> Option<&Value<'a>> {
        let found = self.0.iter().find(|(one, _)| *one == name.as_bytes());
        found.map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.find(name)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.find(name)? {
            Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Value::Number(_) => None,
        }
    }
}

/// The number of so many bytes at the start.
fn number(bytes: &[u8], count: usize, is_little: bool) -> Option<u64> {
    let bytes = bytes.get(..count)?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(match is_little {
        true => bytes.iter().rev().fold(0, add),
        false => bytes.iter().fold(0, add),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry in the native encoding: `nvpair.h`, `NVP_SIZE_CALC`.
    fn entry(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        let name_bytes = name.len() + 1;
        let value_at = (ENTRY_BYTES_MIN + name_bytes).next_multiple_of(8);
        let mut bytes = vec![0; (value_at + value.len()).next_multiple_of(8)];
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..6].copy_from_slice(&(name_bytes as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&kind.to_le_bytes());
        bytes[16..16 + name.len()].copy_from_slice(name.as_bytes());
        bytes[value_at..value_at + value.len()].copy_from_slice(value);
        bytes
    }

    fn packed(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut list = vec![ENCODING_NATIVE, LITTLE_ENDIAN, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        list.extend(entries.concat());
        list.extend([0; 4]);
        let mut record = (list.len() as u64).to_le_bytes().to_vec();
        record.extend(list);
        record
    }

    #[test]
    fn records_after_a_cut_one_are_read() {
        let created = packed(&[
            entry("history time", TYPE_U64, &1_700_000_000_u64.to_le_bytes()),
            entry("history txg", TYPE_U64, &42_u64.to_le_bytes()),
            entry("internal_name", TYPE_TEXT, b"create\0"),
            entry("dsname", TYPE_TEXT, b"tank/vm0\0"),
            entry("history internal str", TYPE_TEXT, b" \0"),
            entry("dsid", TYPE_U64, &77_u64.to_le_bytes()),
        ]);
        let command = packed(&[
            entry("history time", TYPE_U64, &1_700_000_001_u64.to_le_bytes()),
            entry("history command", TYPE_TEXT, b"zpool scrub tank\0"),
            entry("elapsed_ns", 7, &[1, 2, 3]),
        ]);
        let mut tail = created[9..].to_vec();
        tail.extend(&created);
        tail.extend(packed(&[
            entry("ioctl", TYPE_TEXT, b"scrub\0"),
            entry("in_nvl", TYPE_LIST, &[0; 24]),
        ]));
        tail.extend(&command);
        tail.extend(&command[..command.len() - 1]);
        let found = records(&tail);
        let record =
            |at_unix_s, txg, what: &str, of: Option<&str>, details: Option<&str>| HistoryRecord {
                at_unix_s,
                txg,
                what: what.to_owned(),
                of: of.map(str::to_owned),
                details: details.map(str::to_owned),
            };
        let wanted = [
            record(1_700_000_000, Some(42), "create", Some("tank/vm0"), None),
            record(
                1_700_000_001,
                None,
                "command",
                None,
                Some("zpool scrub tank"),
            ),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn arbitrary_bytes_are_no_record() {
        let mut state = 1_u64;
        let mut bytes = Vec::new();
        for _ in 0..4096 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.push((state >> 56) as u8 % 24);
        }
        let _ = records(&bytes);
        assert_eq!(records(&[0; 256]), []);
    }
}
