//! The host id that a pool stores for its last owner.

use std::num::NonZeroU32;
use std::str::FromStr;

/// Identifies a head. A pool stores the host id of its last owner, and an import with
/// `multihost=on` is refused to a second host only if the host ids differ: two heads must never
/// share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostId(pub NonZeroU32);

/// The node name that `uname -n` prints.
pub fn host_name() -> String {
    let machine = rustix::system::uname();
    machine.nodename().to_string_lossy().into_owned()
}

impl HostId {
    /// Derives a host id for `pool` on the host identified by `machine` (its machine-id: a string that is stable
    /// across reboots and unique per host).
    pub fn derive(machine: &str, pool: &str) -> Self {
        // FNV-1a: the host id is stored in pools, so the algorithm must not change.
        const OFFSET: u32 = 0x811c_9dc5;
        const PRIME: u32 = 0x0100_0193;
        let hash = machine
            .trim()
            .bytes()
            .chain([0])
            .chain(pool.bytes())
            .fold(OFFSET, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(PRIME)
            });
        Self(NonZeroU32::new(hash).unwrap_or(NonZeroU32::MIN))
    }

    /// The host id for `pool` on this host.
    pub fn of_this_host(pool: &str) -> Self {
        let machine = ["/etc/machine-id", "/etc/hostid", "/etc/hostname"]
            .iter()
            .find_map(|path| {
                let bytes = std::fs::read(path).ok().filter(|b| !b.is_empty())?;
                Some(bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
            })
            .unwrap_or_else(host_name);
        Self::derive(&machine, pool)
    }
}

/// The text is not a valid host id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHostId;

impl std::fmt::Display for NoHostId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("write 1 to 8 hex digits, not all zero")
    }
}

impl std::error::Error for NoHostId {}

/// In the form of a command line: eight hex digits at most, not zero.
impl FromStr for HostId {
    type Err = NoHostId;

    fn from_str(text: &str) -> Result<Self, NoHostId> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let number = u32::from_str_radix(digits, 16).ok();
        number.and_then(NonZeroU32::new).map(Self).ok_or(NoHostId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ids_are_stable_and_differ_by_host_and_pool() {
        let one = HostId::derive("abc", "tank");
        assert_eq!(one, HostId::derive("abc\n", "tank"));
        assert_ne!(one, HostId::derive("abd", "tank"));
        assert_ne!(one, HostId::derive("abc", "tonk"));
        assert_eq!(one.0.get(), 1_257_048_757);
    }

    #[test]
    fn host_id_round_trips_its_text() {
        let one = HostId::derive("abc", "tank");
        assert_eq!(format!("{:08x}", one.0).parse(), Ok(one));
        assert_eq!(format!("0x{:x}", one.0).parse(), Ok(one));
        for wrong in ["", "0", "123456789", "xyz"] {
            assert_eq!(wrong.parse::<HostId>(), Err(NoHostId), "{wrong}");
        }
    }
}
