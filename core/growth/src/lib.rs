//! Plans the growth of a Ceph cluster: the bytes that move, the fill of each disk, the hours. Pure: the caller runs
//! Ceph's tools and passes their output. Placement is computed by those tools, never here.

#![forbid(unsafe_code)]

pub mod chart;
pub mod crush;
mod error;
pub mod movement;
pub mod osdmap;
pub mod placement;
pub mod plan;
pub mod progress;
pub mod rates;
pub mod request;
pub mod reweight;
pub mod stages;
pub mod stored;

pub use error::{GrowthError, GrowthErrorKind};

/// The identifier of a disk's daemon (OSD).
pub type OsdId = u32;

/// Largest OSD identifier that is accepted. Ceph has no such limit; memory has.
pub const OSD_ID_MAX: OsdId = 1_000_000;

/// CRUSH weights are fixed-point numbers with 16 binary digits of fraction; 1.0 is one TiB by convention.
pub const WEIGHT_ONE: u64 = 1 << 16;

/// Bytes of a disk with this CRUSH weight.
pub const fn bytes_of_weight(weight: u64) -> u64 {
    weight.saturating_mul((1 << 40) / WEIGHT_ONE)
}

/// The weight of a disk of this size, as it is typed behind `ceph osd crush reweight`.
pub fn weight_text(bytes: u64) -> String {
    format!("{:.5}", bytes as f64 / (1_u64 << 40) as f64)
}

/// The weight that Ceph reads from that text: it computes with 24 binary digits, and rounds down.
pub fn weight_of_bytes(bytes: u64) -> u64 {
    let typed: f32 = weight_text(bytes).parse().unwrap_or(0.0);
    (typed * WEIGHT_ONE as f32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_that_ceph_reads() {
        let four_tb = 4_000_000_000_000;
        assert_eq!(weight_text(four_tb), "3.63798");
        assert_eq!(weight_of_bytes(four_tb), 238_418);
        assert_eq!(weight_of_bytes(1 << 40), WEIGHT_ONE);
        assert_eq!(weight_of_bytes(1 << 20), 0);
        assert_eq!(bytes_of_weight(WEIGHT_ONE), 1 << 40);
    }
}
