//! Text of key=value pairs (RFC 7143 section 6): parsing, building, numbers and binary values.

/// Maximum text of one exchange, summed over its C-bit parts. Section 6.2 demands 8 KiB.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum pairs of one exchange.
pub const PAIRS_MAX: usize = 256;
/// Maximum bytes of a key name (section 6.1).
pub const KEY_BYTES_MAX: usize = 63;

/// Response to an unknown key.
pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// Response to a key that is not applicable.
pub const IRRELEVANT: &str = "Irrelevant";
/// Response to an unacceptable value.
pub const REJECT: &str = "Reject";

/// Text that is not a list of key=value pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed key=value text")]
pub struct MalformedText;

/// A key and its value, as sent.
pub type Pair<'a> = (&'a str, &'a str);

/// Splits `bytes` into pairs, in order.
pub fn parse(bytes: &[u8]) -> Result<Vec<Pair<'_>>, MalformedText> {
    let mut pairs = Vec::new();
    for item in bytes.split(|byte| *byte == 0) {
        if item.is_empty() {
            // Padding, or the end.
            continue;
        }
        let item = std::str::from_utf8(item).map_err(|_| MalformedText)?;
        let (key, value) = item.split_once('=').ok_or(MalformedText)?;
        if !is_key(key) || pairs.len() == PAIRS_MAX {
            return Err(MalformedText);
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn is_key(key: &str) -> bool {
    key.len() <= KEY_BYTES_MAX
        && key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-+@_#".contains(&byte))
}

/// Pairs to be sent to the peer.
#[derive(Debug, Default)]
pub struct ResponsePairs {
    bytes: Vec<u8>,
}

impl ResponsePairs {
    /// Adds a pair.
    pub fn add(&mut self, key: &str, value: impl std::fmt::Display) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let _ = write!(self.bytes, "{key}={value}\0");
    }

    /// The text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Collects the C-bit parts of one exchange.
#[derive(Debug, Default)]
pub struct Accumulator {
    bytes: Vec<u8>,
}

impl Accumulator {
    /// Adds a part; an exchange over [`TEXT_BYTES_MAX`] is malformed.
    pub fn push(&mut self, part: &[u8]) -> Result<(), MalformedText> {
        if self.bytes.len() + part.len() > TEXT_BYTES_MAX {
            return Err(MalformedText);
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Returns the whole text and starts over.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// A decimal or hexadecimal number (section 6.1).
pub fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hex {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// A binary value, `0x…` in hexadecimal or `0b…` in base64, of at most `max` bytes.
pub fn binary(text: &str, max: usize) -> Option<Vec<u8>> {
    let bytes = match text.get(..2)? {
        "0x" | "0X" => from_hex(&text[2..])?,
        "0b" | "0B" => from_base64(&text[2..])?,
        _ => return None,
    };
    (bytes.len() <= max).then_some(bytes)
}

/// An odd count means that a leading zero was left out.
fn from_hex(digits: &str) -> Option<Vec<u8>> {
    match digits.len() % 2 {
        0 => units::hex::decode(digits),
        _ => units::hex::decode(&format!("0{digits}")),
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if text.len() - body.len() > 2 || body.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(body.len() * 3 / 4);
    let mut bits = 0_u32;
    let mut bit_count = 0;
    for byte in body.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            bytes.push((bits >> bit_count) as u8);
            bits &= (1 << bit_count) - 1;
        }
    }
    Some(bytes)
}

/// `bytes` as `0x…`.
pub fn to_hex(bytes: &[u8]) -> String {
    format!("0x{}", units::hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_zero_bytes() {
        assert_eq!(
            parse(b"A=1\0B=x=y\0\0\0"),
            Ok(vec![("A", "1"), ("B", "x=y")])
        );
        for bad in [
            &b"novalue\0"[..],
            b"=x\0",
            b"1A=x\0",
            b"A b=x\0",
            b"\xff=1\0",
        ] {
            assert_eq!(parse(bad), Err(MalformedText));
        }
    }

    #[test]
    fn an_endless_text_is_refused() {
        let mut text = Accumulator::default();
        for _ in 0..TEXT_BYTES_MAX / 1024 {
            text.push(&[b'A'; 1024]).unwrap();
        }
        assert_eq!(text.push(b"A"), Err(MalformedText));
    }

    #[test]
    fn numbers_parse_as_decimal_and_hex() {
        assert_eq!(number("8192"), Some(8192));
        assert_eq!(number("0x2000"), Some(8192));
        for bad in ["", "-1", "+1", "12a", "0x+1", "99999999999999999999"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn binary_values_parse_as_hex_and_base64() {
        assert_eq!(binary("0x0fa", 9), Some(vec![0x00, 0xfa]));
        assert_eq!(binary("0bAQID", 9), Some(vec![1, 2, 3]));
        assert_eq!(binary("0bAQI=", 9), Some(vec![1, 2]));
        assert_eq!(binary("0bAQ==", 9), Some(vec![1]));
        for bad in ["", "0", "0xg1", "0bA", "0b****", "17", "0bAQ==="] {
            assert_eq!(binary(bad, 9), None, "{bad}");
        }
        assert_eq!(binary("0x010203", 2), None);
        assert_eq!(to_hex(&[1, 0xab]), "0x01ab");
    }
}
