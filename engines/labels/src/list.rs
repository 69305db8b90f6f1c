//! The list of names and values in a label, packed as XDR (RFC 4506): each entry starts with its length, so that
//! unneeded entries are skipped. `docs/formats/labels.md` lists the entries that are read.

/// Encoding XDR, in the first byte of a packed list.
const ENCODING_XDR: u8 = 1;
/// Encoding, byte order and two reserved bytes.
const HEADER_BYTES: usize = 4;
/// Version and flags of a list.
const VERSION_BYTES: usize = 8;
/// Bytes of an entry that are not its name and value: two lengths, the name's length, type, count.
const ENTRY_BYTES_MIN: usize = 20;
/// Type numbers of entries.
const TYPE_U64: u32 = 8;
const TYPE_TEXT: u32 = 9;
const TYPE_LIST: u32 = 19;
const TYPE_LISTS: u32 = 20;

/// A value of one of the types that are read from labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Text(&'a [u8]),
}

/// The entries of the outermost list in `packed`; `None` if it is malformed.
pub(crate) fn entries(packed: &[u8]) -> Option<Vec<(&[u8], Value<'_>)>> {
    values(outermost(packed)?)
}

/// The entries of the nested list of that name in the outermost one; `None` if it is missing or malformed.
pub(crate) fn nested<'a>(packed: &'a [u8], name: &str) -> Option<Vec<(&'a [u8], Value<'a>)>> {
    values(nested_list(packed, name)?)
}

/// That list, from its version on.
fn nested_list<'a>(packed: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut list = None;
    walk(outermost(packed)?, |one, value| {
        if let (Found::List(bytes), true) = (value, one == name.as_bytes()) {
            list = Some(bytes);
        }
    })?;
    list
}

/// The names of all entries of the nested list of that name in the outermost one, also of those without a value.
pub(crate) fn names<'a>(packed: &'a [u8], name: &str) -> Option<Vec<&'a [u8]>> {
    let mut found = Vec::new();
    walk(nested_list(packed, name)?, |name, _| found.push(name))?;
    Some(found)
}

/// The number of lists in the array `inner` of the nested list `name`.
pub(crate) fn lists(packed: &[u8], name: &str, inner: &str) -> Option<u32> {
    let mut count = None;
    walk(nested_list(packed, name)?, |one, value| {
        if let (Found::Lists(number), true) = (value, one == inner.as_bytes()) {
            count = Some(number);
        }
    })?;
    count
}

/// The outermost list, from its version on.
fn outermost(packed: &[u8]) -> Option<&[u8]> {
    let (header, list) = packed.split_at_checked(HEADER_BYTES)?;
    (header[0] == ENCODING_XDR).then_some(list)
}

/// The entries of a list that begins with its version.
fn values(list: &[u8]) -> Option<Vec<(&[u8], Value<'_>)>> {
    let mut found = Vec::new();
    walk(list, |name, value| {
        if let Found::Value(value) = value {
            found.push((name, value));
        }
    })?;
    Some(found)
}

/// The value found for an entry.
enum Found<'a> {
    Value(Value<'a>),
    /// From its version on.
    List(&'a [u8]),
    /// The number of lists in an array.
    Lists(u32),
    /// Of another type, or without a value.
    Other,
}

/// Visits the entries of a list, which begins with its version.
fn walk<'a>(list: &'a [u8], mut visit: impl FnMut(&'a [u8], Found<'a>)) -> Option<()> {
    let mut rest = list.get(VERSION_BYTES..)?;
    loop {
        let mut entry = rest;
        let length = usize::try_from(number(&mut entry)?).ok()?;
        if length == 0 {
            return Some(());
        }
        if length < ENTRY_BYTES_MIN {
            return None;
        }
        let mut entry = rest.get(..length)?.get(8..)?;
        rest = rest.get(length..)?;
        let name = text(&mut entry)?;
        let (kind, count) = (number(&mut entry)?, number(&mut entry)?);
        let value = match (kind, count) {
            (TYPE_U64, 1) => Found::Value(Value::Number(u64::from_be_bytes(take(&mut entry)?))),
            (TYPE_TEXT, 1) => Found::Value(Value::Text(text(&mut entry)?)),
            (TYPE_LIST, 1) => Found::List(entry),
            (TYPE_LISTS, count) => Found::Lists(count),
            _ => Found::Other,
        };
        visit(name, value);
    }
}

fn take<const LENGTH: usize>(bytes: &mut &[u8]) -> Option<[u8; LENGTH]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn number(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_be_bytes)
}

/// A string starts with its length and is padded to a multiple of four bytes.
fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length.checked_next_multiple_of(4)?)?;
    *bytes = rest;
    text.get(..length)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A list with these entries, each given as the bytes after its two lengths.
    pub(crate) fn packed(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for entry in entries {
            let length = u32::try_from(entry.len() + 8).expect("short");
            bytes.extend(length.to_be_bytes());
            bytes.extend([0, 0, 0, 64]);
            bytes.extend(entry);
        }
        bytes.extend([0; 8]);
        bytes
    }

    fn word(text: &str) -> Vec<u8> {
        let mut bytes = u32::try_from(text.len())
            .expect("short")
            .to_be_bytes()
            .to_vec();
        bytes.extend(text.bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn a_number(name: &str, value: u64) -> Vec<u8> {
        let kind = [0, 0, 0, 8, 0, 0, 0, 1];
        [word(name), kind.to_vec(), value.to_be_bytes().to_vec()].concat()
    }

    pub(crate) fn a_text(name: &str, value: &str) -> Vec<u8> {
        let kind = [0, 0, 0, 9, 0, 0, 0, 1];
        [word(name), kind.to_vec(), word(value)].concat()
    }

    pub(crate) fn a_list(name: &str, entries: &[Vec<u8>]) -> Vec<u8> {
        let kind = [0, 0, 0, 19, 0, 0, 0, 1];
        [
            word(name),
            kind.to_vec(),
            packed(entries)[HEADER_BYTES..].to_vec(),
        ]
        .concat()
    }

    /// A name without a value.
    pub(crate) fn a_mark(name: &str) -> Vec<u8> {
        [word(name), vec![0, 0, 0, 1, 0, 0, 0, 0]].concat()
    }

    /// An array of equal lists.
    pub(crate) fn lists_of(name: &str, count: u32, entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = word(name);
        bytes.extend([0, 0, 0, 20]);
        bytes.extend(count.to_be_bytes());
        for _ in 0..count {
            bytes.extend(&packed(entries)[HEADER_BYTES..]);
        }
        bytes
    }

    #[test]
    fn nvlist_numbers_and_strings_are_read_and_other_types_skipped() {
        // A nested list. Its entries must not be found in the outer list.
        let inner = a_list("vdev_tree", &[a_number("txg", 5)]);
        let bytes = packed(&[a_text("name", "tank"), inner, a_number("txg", 77)]);
        let expected: [(&[u8], Value<'_>); 2] =
            [(b"name", Value::Text(b"tank")), (b"txg", Value::Number(77))];
        assert_eq!(entries(&bytes).as_deref(), Some(expected.as_slice()));
        let expected: [(&[u8], Value<'_>); 1] = [(b"txg", Value::Number(5))];
        let found = nested(&bytes, "vdev_tree");
        assert_eq!(found.as_deref(), Some(expected.as_slice()));
        assert_eq!(nested(&bytes, "other"), None);
    }

    #[test]
    fn truncated_nvlist_is_rejected_at_every_length() {
        let bytes = packed(&[a_text("name", "tank"), a_number("txg", 77)]);
        // The last four bytes are the second half of the terminator.
        for length in 0..bytes.len() - 4 {
            assert_eq!(entries(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn nvlist_with_invalid_lengths_is_rejected() {
        for length in [1, 8, 19, u32::MAX] {
            let mut bytes = packed(&[a_number("txg", 77)]);
            bytes[12..16].copy_from_slice(&length.to_be_bytes());
            assert_eq!(entries(&bytes), None, "{length}");
        }
        let mut bytes = packed(&[a_number("txg", 77)]);
        bytes[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(entries(&bytes), None);
    }
}
