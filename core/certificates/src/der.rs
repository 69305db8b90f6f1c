//! As much of DER (X.690) as a certificate needs.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// An element with these contents (section 8.1.3: the length in as few bytes as possible).
pub(crate) fn put(tag: u8, contents: &[Vec<u8>]) -> Vec<u8> {
    let length: usize = contents.iter().map(Vec::len).sum();
    let mut bytes = vec![tag];
    let digits = length.to_be_bytes();
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => bytes.push(short),
        _ => {
            bytes.push(0x80 | digits.len() as u8);
            bytes.extend(digits);
        }
    }
    bytes.extend(contents.iter().flatten());
    bytes
}

/// The first element: its tag, its contents, and what follows it.
pub(crate) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let add = |sum: usize, digit: &u8| sum << 8 | usize::from(*digit);
            (digits.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

/// The contents of the first element, if it has this tag, and what follows it.
pub(crate) fn read(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, contents, rest) = element(bytes)?;
    (found == tag).then_some((contents, rest))
}
