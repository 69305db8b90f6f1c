//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes `digits`, in upper or lower case; none if one is no digit, or if their count is odd.
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let byte = |pair: &[u8]| Some((value(pair[0])? << 4 | value(pair[1])?) as u8);
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_invalid_digits_are_refused() {
        assert_eq!(encode(&[0, 0xff, 0x1a]), "00ff1a");
        assert_eq!(decode("00fF1a"), Some(vec![0, 0xff, 0x1a]));
        assert_eq!(decode(""), Some(Vec::new()));
        for bad in ["0", "0g", "\u{e9}0", "+1", "00 "] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
