//! Numbers and text at offsets of a byte string; `None` beyond its end.

/// A little-endian number of 16 bits.
pub fn u16_le(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(array(bytes, at)?))
}

/// A little-endian number of 32 bits.
pub fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(array(bytes, at)?))
}

/// A little-endian number of 64 bits.
pub fn u64_le(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array(bytes, at)?))
}

/// A big-endian number of 16 bits.
pub fn u16_be(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(array(bytes, at)?))
}

/// A big-endian number of 32 bits.
pub fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(array(bytes, at)?))
}

/// A big-endian number of 64 bits.
pub fn u64_be(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(array(bytes, at)?))
}

/// `LENGTH` bytes.
pub fn array<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<[u8; LENGTH]> {
    let end = at.checked_add(LENGTH)?;
    bytes.get(at..end)?.try_into().ok()
}

/// Whether `mark` is at that offset.
pub fn has(bytes: &[u8], at: usize, mark: &[u8]) -> bool {
    at.checked_add(mark.len())
        .and_then(|end| bytes.get(at..end))
        .is_some_and(|found| found == mark)
}

/// Text of at most `length` bytes, up to a NUL; empty beyond the end.
pub fn text(bytes: &[u8], at: usize, length: usize) -> String {
    let end = at.saturating_add(length).min(bytes.len());
    let field = bytes.get(at..end).unwrap_or_default();
    let field = field.split(|byte| *byte == 0).next().unwrap_or_default();
    plain(&String::from_utf8_lossy(field))
}

/// UTF-16 text up to a NUL.
pub fn utf16(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|two| u16::from_le_bytes([two[0], two[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    plain(&String::from_utf16_lossy(&units))
}

/// Text without characters that would disturb a terminal, and without spaces around it.
pub fn plain(text: &str) -> String {
    let plain: String = text.chars().filter(|one| !one.is_control()).collect();
    plain.trim().to_owned()
}

/// A UUID as text; empty for zeros.
pub fn uuid(bytes: [u8; 16]) -> String {
    if bytes == [0; 16] {
        return String::new();
    }
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The UUID at that offset; empty beyond the end.
pub fn uuid_at(bytes: &[u8], at: usize) -> String {
    array(bytes, at).map(uuid).unwrap_or_default()
}

/// A GUID of Microsoft as text: its first three groups are little-endian.
pub fn guid(bytes: [u8; 16]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    uuid(ORDER.map(|at| bytes[at]))
}
