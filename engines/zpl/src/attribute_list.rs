//! The extended attributes stored among an object's own attributes (`ZPL_DXATTR`): an nvlist of names with bytes, in
//! XDR form (`sys/nvpair.h`, encoding 1). Kernel ZFS writes it with `xattr=sa`, and reads it independently of that
//! property.

/// Maximum bytes of a value stored this way (`DXATTR_MAX_ENTRY_SIZE`).
pub const VALUE_BYTES_MAX: usize = 32 << 10;
/// Maximum bytes of a whole list. A larger attribute cannot be stored there.
pub const LIST_BYTES_MAX: usize = 65_528;

/// Encoding XDR, byte order of this host: a reader checks only the first.
const HEADER: [u8; 4] = [1, 1, 0, 0];
/// `NV_VERSION`.
const VERSION: u32 = 0;
/// `NV_UNIQUE_NAME`.
const FLAGS: u32 = 1;
/// `DATA_TYPE_BYTE_ARRAY`.
const BYTES: u32 = 10;
/// A pair in memory before its name (`nvpair_t`). The list includes its size in memory.
const PAIR_BYTES: usize = 16;

/// Names with their values.
pub type List<'a> = Vec<(&'a [u8], &'a [u8])>;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// Bytes, with padding to a multiple of four bytes.
    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let bytes = self.0.get(..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..)?;
        Some(bytes)
    }
}

/// Decodes a list. Returns `None` if it is damaged or has pairs that are not extended attributes.
pub fn decode(bytes: &[u8]) -> Option<List<'_>> {
    let (header, rest) = bytes.split_first_chunk::<4>()?;
    if header[0] != HEADER[0] {
        return None;
    }
    let mut reader = Reader(rest);
    if reader.word()? != VERSION {
        return None;
    }
    reader.word()?;
    let mut list = Vec::new();
    loop {
        let (encoded, decoded) = (reader.word()?, reader.word()?);
        if encoded == 0 && decoded == 0 {
            return Some(list);
        }
        let length = reader.word()?;
        let name = reader.bytes(length)?;
        let (kind, count) = (reader.word()?, reader.word()?);
        if kind != BYTES || name.is_empty() {
            return None;
        }
        list.push((name, reader.bytes(count)?));
    }
}

/// The bytes of a list.
pub fn encode(list: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    };
    words(&mut bytes, &[VERSION, FLAGS]);
    for (name, value) in list {
        let encoded = 20 + name.len().next_multiple_of(4) + value.len().next_multiple_of(4);
        let decoded =
            (PAIR_BYTES + name.len() + 1).next_multiple_of(8) + value.len().next_multiple_of(8);
        words(
            &mut bytes,
            &[encoded as u32, decoded as u32, name.len() as u32],
        );
        for part in [Some(name), None, Some(value)] {
            let Some(part) = part else {
                words(&mut bytes, &[BYTES, value.len() as u32]);
                continue;
            };
            bytes.extend(*part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
    }
    words(&mut bytes, &[0, 0]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As written by a Linux kernel: `setfattr -n user.a -v xyz`.
    const ONE: &[u8] = b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\
        \0\0\0\x20\0\0\0\x20\0\0\0\x06user.a\0\0\0\0\0\x0a\0\0\0\x03xyz\0\
        \0\0\0\0\0\0\0\0";

    #[test]
    fn attribute_list_equals_the_bytes_of_kernel_zfs() {
        let list: List<'_> = vec![(b"user.a", b"xyz")];
        assert_eq!(encode(&list), ONE);
        assert_eq!(decode(ONE), Some(list));
    }

    #[test]
    fn truncated_or_foreign_attribute_list_is_rejected() {
        for length in 0..ONE.len() {
            assert_eq!(decode(&ONE[..length]), None, "{length}");
        }
        let mut other = ONE.to_vec();
        other[35] = 9;
        assert_eq!(decode(&other), None, "no bytes but text");
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
    }
}
