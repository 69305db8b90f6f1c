//! Parsers of single words that need more than a type's own.

use std::num::NonZeroU32;

use control::request::Properties;
use units::ByteCount;

/// `NAME=VALUE`.
pub fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Pairs as properties; a later one wins.
pub fn properties(pairs: Vec<(String, String)>) -> Properties {
    pairs.into_iter().collect()
}

/// A volume's block size.
pub fn block_size(text: &str) -> Result<u32, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    match u32::try_from(size.get()) {
        Ok(size) if size.is_power_of_two() && (512..=16 << 20).contains(&size) => Ok(size),
        _ => Err("use a power of two from 512 to 16M".to_owned()),
    }
}

/// Eight hex digits at most, not zero.
pub fn host_id(text: &str) -> Result<NonZeroU32, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16)
        .ok()
        .and_then(NonZeroU32::new)
        .ok_or_else(|| "write 1 to 8 hex digits, not all zero".to_owned())
}
