//! Byte counts with the suffixes that administrators type, and extents of a device.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, written by people as `512`, `64K`, `1.5G`, `10GiB` (powers of 1024).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// `count` KiB.
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// `count` MiB.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// `count` GiB.
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the multiples of `block` around it that are valid sizes, in words: `16384 or 32768`.
    pub fn multiples_near(self, block: u64) -> String {
        let block = block.max(1);
        let below = self.0 / block * block;
        match (below, below.checked_add(block)) {
            (0, _) => block.to_string(),
            (below, None) => below.to_string(),
            (below, Some(above)) => format!("{below} or {above}"),
        }
    }
}

/// Why a text is not a byte count.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseByteCountError {
    /// Not a number followed by at most one known suffix.
    #[error("{text:?} is not a size: write a number and one of K, M, G, T, P, such as 10G or 1.5T")]
    Malformed {
        /// The invalid text.
        text: String,
    },
    /// A suffix that is ambiguous between powers of 1000 and of 1024.
    #[error("{text:?} may mean powers of 1000: write {plain}, which means powers of 1024 here")]
    Ambiguous {
        /// The invalid text.
        text: String,
        /// The same without the ambiguous letter.
        plain: String,
    },
    /// More than 2^64 - 1 bytes.
    #[error("{text:?} is larger than any device can be")]
    TooLarge {
        /// The invalid text.
        text: String,
    },
}

impl FromStr for ByteCount {
    type Err = ParseByteCountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseByteCountError::Malformed {
            text: text.to_owned(),
        };
        let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
        let number_end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
        let (number, suffix) = text.split_at(number_end);
        let upper = suffix.to_ascii_uppercase();
        let (unit, is_ambiguous) = match upper.strip_suffix("IB") {
            Some(unit) if !unit.is_empty() => (unit, false),
            Some(_) => return Err(malformed()),
            None => match upper.strip_suffix('B') {
                Some(unit) => (unit, !unit.is_empty()),
                None => (upper.as_str(), false),
            },
        };
        let shift = match unit {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            "P" => 50,
            "E" => 60,
            _ => return Err(malformed()),
        };
        let count = scaled(number, shift).ok_or_else(malformed)?;
        if is_ambiguous {
            return Err(ParseByteCountError::Ambiguous {
                text: text.to_owned(),
                plain: text[..text.len() - 1].to_owned(),
            });
        }
        let too_large = |_| ParseByteCountError::TooLarge {
            text: text.to_owned(),
        };
        u64::try_from(count).map(ByteCount).map_err(too_large)
    }
}

/// Largest number of decimals.
const FRACTION_DIGITS_MAX: usize = 9;

/// Returns `number` times two to the power of `shift`, rounded down to bytes. `None` if it is no number.
fn scaled(number: &str, shift: u32) -> Option<u128> {
    let (whole, fraction) = match number.split_once('.') {
        // A count of bytes has no fraction.
        Some((whole, fraction)) if shift > 0 && !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_bad = whole.is_empty() || !is_digits(whole) || !is_digits(fraction);
    if is_bad || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    // A number with this many digits is too large in any case.
    let whole = whole.parse::<u64>().map_or(1 << u64::BITS, u128::from);
    let tenths = 10_u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u64>().unwrap_or(0);
    Some((whole << shift) + ((u128::from(part) << shift) / tenths))
}

impl fmt::Display for ByteCount {
    /// The largest unit that divides evenly, or one decimal of the largest below the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 6] = [
            ("E", 60),
            ("P", 50),
            ("T", 40),
            ("G", 30),
            ("M", 20),
            ("K", 10),
        ];
        for (name, shift) in UNITS {
            if self.0 >> shift == 0 {
                continue;
            }
            return if self.0.trailing_zeros() >= shift {
                write!(f, "{}{name}", self.0 >> shift)
            } else {
                write!(f, "{:.1}{name}", self.0 as f64 / (1_u64 << shift) as f64)
            };
        }
        write!(f, "{}", self.0)
    }
}

/// A range of bytes of a device: `length` bytes from byte `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes; may be zero.
    pub length: u64,
}

impl Extent {
    /// `length` bytes from `offset`.
    pub const fn new(offset: u64, length: u64) -> Self {
        Self { offset, length }
    }

    /// One past the last byte; `None` if that does not fit in 64 bits.
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }

    /// Returns whether the whole extent is within a device of `size` bytes.
    pub const fn fits(self, size: u64) -> bool {
        match self.end() {
            Some(end) => end <= size,
            None => false,
        }
    }

    /// Returns whether start and end are multiples of `block` bytes (a power of two).
    pub const fn is_aligned(self, block: u64) -> bool {
        (self.offset | self.length) & (block - 1) == 0
    }

    /// Whether the two share a byte.
    pub const fn overlaps(self, other: Self) -> bool {
        self.offset < other.offset.saturating_add(other.length)
            && other.offset < self.offset.saturating_add(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_in_common_notations() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64K", 65_536),
            ("10g", 10 << 30),
            ("1MiB", 1 << 20),
            ("2tib", 2 << 40),
            ("7B", 7),
            ("1.5G", 3 << 29),
            ("0.25K", 256),
            ("1.1K", 1126),
            ("1.000000001K", 1024),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "1.5",
            "1.",
            "1.G",
            ".5G",
            "1.2.3G",
            "10Q",
            "10 G",
            "1KK",
            "1iB",
            "1KBB",
            "1.0000000001G",
        ] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
        for (text, plain) in [("10MB", "10M"), ("1.5gb", "1.5g"), ("2TB", "2T")] {
            let refused = text.parse::<ByteCount>().expect_err(text).to_string();
            assert!(refused.contains(&format!("write {plain},")), "{refused}");
        }
        let many_digits = "9".repeat(40);
        assert!(many_digits.parse::<ByteCount>().is_err());
        assert!(matches!(
            "16E".parse::<ByteCount>(),
            Err(ParseByteCountError::TooLarge { .. })
        ));
    }

    #[test]
    fn sizes_are_printed_in_the_largest_fitting_unit() {
        assert_eq!(ByteCount::gib(10).to_string(), "10G");
        assert_eq!(ByteCount(1536).to_string(), "1.5K");
        assert_eq!(ByteCount(7).to_string(), "7");
    }

    #[test]
    fn overflowing_extent_fits_no_device() {
        assert!(!Extent::new(u64::MAX, 2).fits(u64::MAX));
        assert!(Extent::new(4096, 0).fits(4096));
    }
}
