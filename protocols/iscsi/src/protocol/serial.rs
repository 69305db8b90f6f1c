//! Serial numbers (RFC 1982 with 32 bits, as RFC 7143 section 4.2.2.1 prescribes).

/// A number that wraps: CmdSN, StatSN, DataSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Serial(pub u32);

impl Serial {
    /// Returns the number plus `count`.
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Whether `self` precedes `other`. Numbers 2^31 apart compare false both ways.
    pub const fn is_before(self, other: Self) -> bool {
        let distance = other.0.wrapping_sub(self.0);
        distance != 0 && distance < 1 << 31
    }

    /// Returns the distance from `earlier` to `self`.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_order_survives_wraparound() {
        assert!(Serial(u32::MAX).is_before(Serial(0)));
        assert!(Serial(u32::MAX - 3).is_before(Serial(u32::MAX)));
        assert!(!Serial(5).is_before(Serial(5)));
        assert!(!Serial(0).is_before(Serial(u32::MAX)));
        assert!(!Serial(0).is_before(Serial(1 << 31)));
        assert!(!Serial(1 << 31).is_before(Serial(0)));
        assert_eq!(Serial(2).since(Serial(u32::MAX)), 3);
    }
}
