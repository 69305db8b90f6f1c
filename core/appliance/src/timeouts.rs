//! Time-outs of the cluster: three profiles, and single values over them.
//!
//! **The multihost interval of a pool with `multihost=on`** follows from the takeover budget of the appliance file.
//! ZFS's own interval (10 s) lets an import without proof wait 20 to 25 s, which exceeds the budget of every profile.
//! The owner may be silent for 40 % of the rest of `takeover_budget_s` after token, consensus and half a second for the
//! import, in whole seconds; at least 0.8 s and at most 10 s. It writes eight MMP blocks in each such period. The
//! interval is part of the MMP block, so a head with another profile cannot misjudge it. An import without proof is
//! delayed for twice that period and a random quarter more. An owner that wrote no MMP block for that period exits
//! (code 8) instead of staying suspended: another head may have imported the pool, and a new start checks ownership
//! with the cluster and the locks. Twice the shortest period is longer than the second after which a server that was
//! stalled reads the labels before it writes. The cost: a stall of all disks that is longer than the period is a
//! restart, where it would have been a pause. `pool-server` alone uses 10 s. `cargo test -p bulkhead --test cluster
//! ownership::` shows the delay and the exit.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A set of time-outs that were tested together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Takeover below a second, for hosts that never stall for 150 ms: no overcommitted virtual
    /// machines, no power saving that parks cores.
    Fast,
    /// Takeover in one to two seconds; tolerates the stalls of ordinary hosts.
    #[default]
    Default,
    /// Takeover in about ten seconds; for busy virtual machines and wide-area links.
    Conservative,
}

/// Single time-outs that override those of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimeoutWishes {
    /// The profile of all values that are not set here: `fast`, `default` or `conservative`.
    pub profile: Profile,
    /// Corosync's `token`: silence after which a head counts as lost, in milliseconds. A head that
    /// the hardware or the hypervisor stalls for longer is powered off although it is healthy.
    pub token_ms: Option<u32>,
    /// Corosync's `consensus`: time for the surviving heads to agree, in milliseconds.
    pub consensus_ms: Option<u32>,
    /// Time between probes of each link (`knet_ping_interval`), in milliseconds.
    pub link_probe_interval_ms: Option<u32>,
    /// Silence after which one link counts as down (`knet_ping_timeout`), in milliseconds.
    pub link_probe_timeout_ms: Option<u32>,
    /// Probes that must be answered before a link counts as up again (`knet_pong_count`).
    pub link_probes_up: Option<u32>,
    /// Bound of one power-off by a fence device, in seconds.
    pub fence_s: Option<u32>,
    /// Interval of tests that each fence device responds, in seconds.
    pub fence_monitor_s: Option<u32>,
    /// Bound of the start of a pool, in seconds. A pool that starts more slowly is moved to another
    /// head.
    pub pool_start_s: Option<u32>,
    /// Bound of the stop of a pool, in seconds. A head that stops more slowly is powered off. A
    /// server that does not respond for a hundredth of it (200 ms to 1 s) is killed.
    pub pool_stop_s: Option<u32>,
    /// Time between tests that a pool's server is alive, in seconds.
    pub pool_monitor_s: Option<u32>,
    /// Bound of one such test, in seconds. A server that does not respond for a tenth of it (300 ms
    /// to 3 s) counts as failed.
    pub pool_monitor_timeout_s: Option<u32>,
    /// How long a disk may take for one read or write, in seconds. A slower disk counts as failed, and the pool
    /// continues with the remaining ones; clients are blocked until then. Disks that try hard to read a bad sector need
    /// up to 7 s where their error recovery is bounded, and a minute where it is not.
    pub disk_answer_s: Option<u32>,
    /// The longest pause that clients are promised after the loss of a head, in seconds.
    pub takeover_budget_s: Option<u32>,
    /// Limit of the delay at boot, in seconds, in which a head awaits the other heads before it starts Pacemaker, which
    /// powers off heads that it does not see. With `rule = "two-node"` there is no limit.
    pub boot_wait_s: Option<u32>,
}

/// All time-outs, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// See [`TimeoutWishes::token_ms`].
    pub token_ms: u32,
    /// See [`TimeoutWishes::consensus_ms`].
    pub consensus_ms: u32,
    /// See [`TimeoutWishes::link_probe_interval_ms`].
    pub link_probe_interval_ms: u32,
    /// See [`TimeoutWishes::link_probe_timeout_ms`].
    pub link_probe_timeout_ms: u32,
    /// See [`TimeoutWishes::link_probes_up`].
    pub link_probes_up: u32,
    /// See [`TimeoutWishes::fence_s`].
    pub fence_s: u32,
    /// See [`TimeoutWishes::fence_monitor_s`].
    pub fence_monitor_s: u32,
    /// See [`TimeoutWishes::pool_start_s`].
    pub pool_start_s: u32,
    /// See [`TimeoutWishes::pool_stop_s`].
    pub pool_stop_s: u32,
    /// See [`TimeoutWishes::pool_monitor_s`].
    pub pool_monitor_s: u32,
    /// See [`TimeoutWishes::pool_monitor_timeout_s`].
    pub pool_monitor_timeout_s: u32,
    /// See [`TimeoutWishes::disk_answer_s`].
    pub disk_answer_s: u32,
    /// See [`TimeoutWishes::takeover_budget_s`].
    pub takeover_budget_s: u32,
    /// See [`TimeoutWishes::boot_wait_s`].
    pub boot_wait_s: u32,
}

const DEFAULT: Timeouts = Timeouts {
    token_ms: 1_000,
    consensus_ms: 200,
    // Half the token, Corosync's own default, is shorter than two probes where the token is short:
    // links would flap and heads fence each other.
    link_probe_interval_ms: 200,
    link_probe_timeout_ms: 1_000,
    link_probes_up: 2,
    fence_s: 20,
    fence_monitor_s: 60,
    // Within the default time-out of open-iscsi, 120 s, including the power-off before it.
    pool_start_s: 60,
    pool_stop_s: 60,
    pool_monitor_s: 5,
    pool_monitor_timeout_s: 10,
    disk_answer_s: 10,
    takeover_budget_s: 5,
    // Equal hosts that get power at the same time boot within a minute of each other.
    boot_wait_s: 60,
};

impl Profile {
    /// The values of the profile.
    pub const fn timeouts(self) -> Timeouts {
        match self {
            Self::Fast => Timeouts {
                token_ms: 300,
                consensus_ms: 100,
                // A BMC that responds at all does so within half of that.
                fence_s: 10,
                // The agent's response time-out is 200 ms before it kills, and 400 ms in a monitor.
                pool_stop_s: 20,
                pool_monitor_s: 1,
                pool_monitor_timeout_s: 4,
                disk_answer_s: 4,
                takeover_budget_s: 3,
                ..DEFAULT
            },
            Self::Default => DEFAULT,
            Self::Conservative => Timeouts {
                token_ms: 5_000,
                consensus_ms: 6_000,
                link_probe_interval_ms: 500,
                link_probe_timeout_ms: 2_500,
                fence_s: 30,
                pool_stop_s: 120,
                pool_monitor_s: 15,
                pool_monitor_timeout_s: 30,
                disk_answer_s: 20,
                takeover_budget_s: 30,
                ..DEFAULT
            },
        }
    }
}

impl TimeoutWishes {
    /// The profile with the single values over it.
    pub fn resolve(&self) -> Timeouts {
        let base = self.profile.timeouts();
        Timeouts {
            token_ms: self.token_ms.unwrap_or(base.token_ms),
            consensus_ms: self.consensus_ms.unwrap_or(base.consensus_ms),
            link_probe_interval_ms: self
                .link_probe_interval_ms
                .unwrap_or(base.link_probe_interval_ms),
            link_probe_timeout_ms: self
                .link_probe_timeout_ms
                .unwrap_or(base.link_probe_timeout_ms),
            link_probes_up: self.link_probes_up.unwrap_or(base.link_probes_up),
            fence_s: self.fence_s.unwrap_or(base.fence_s),
            fence_monitor_s: self.fence_monitor_s.unwrap_or(base.fence_monitor_s),
            pool_start_s: self.pool_start_s.unwrap_or(base.pool_start_s),
            pool_stop_s: self.pool_stop_s.unwrap_or(base.pool_stop_s),
            pool_monitor_s: self.pool_monitor_s.unwrap_or(base.pool_monitor_s),
            pool_monitor_timeout_s: self
                .pool_monitor_timeout_s
                .unwrap_or(base.pool_monitor_timeout_s),
            disk_answer_s: self.disk_answer_s.unwrap_or(base.disk_answer_s),
            takeover_budget_s: self.takeover_budget_s.unwrap_or(base.takeover_budget_s),
            boot_wait_s: self.boot_wait_s.unwrap_or(base.boot_wait_s),
        }
    }
}

/// Time for the import itself after the wait for MMP blocks, in milliseconds.
const IMPORT_MS: u32 = 500;
/// The delay of an import is twice the silence and a random quarter more, in which it reads the
/// disks once a second.
const SILENCES_PER_WAIT_PERCENT: u32 = 250;
/// Shorter silences occur on healthy hosts, and the library supports none.
const MULTIHOST_SILENCE_MS_MIN: u32 = 800;
/// Longer ones have no benefit.
const MULTIHOST_SILENCE_MS_MAX: u32 = 10_000;

/// Milliseconds that Corosync adds to the token for each head after the second. With its default of 650 a third head
/// would be taken over twice as late as a second one.
pub(crate) const TOKEN_COEFFICIENT_MS: u32 = 50;

impl Timeouts {
    /// The longest stop of a pool, and its start on another head.
    pub fn pool_move(&self) -> Duration {
        Duration::from_secs(u64::from(self.pool_stop_s) + u64::from(self.pool_start_s))
    }

    /// Silence after which a head of `heads` counts as lost, in milliseconds (corosync.conf(5),
    /// `token_coefficient`).
    pub fn token_effective_ms(&self, heads: usize) -> u32 {
        let more_than_two = u32::try_from(heads.saturating_sub(2)).unwrap_or(u32::MAX);
        self.token_ms
            .saturating_add(more_than_two.saturating_mul(TOKEN_COEFFICIENT_MS))
    }

    /// How long the owner of a pool with `multihost=on` may fail to write an MMP block before it abandons the pool, in
    /// milliseconds. It is the longest period with which an import without proof, which is delayed for 2 to 2.5 times
    /// as long, still completes within the takeover budget.
    pub fn multihost_silence_ms(&self, heads: usize) -> u32 {
        let promised_ms = self.takeover_budget_s.saturating_mul(1_000);
        let left_ms = promised_ms
            .saturating_sub(self.token_effective_ms(heads))
            .saturating_sub(self.consensus_ms)
            .saturating_sub(IMPORT_MS);
        let whole_seconds_ms = left_ms / 1_000 * 1_000;
        let silence_ms = whole_seconds_ms.saturating_mul(100) / SILENCES_PER_WAIT_PERCENT;
        silence_ms.clamp(MULTIHOST_SILENCE_MS_MIN, MULTIHOST_SILENCE_MS_MAX)
    }

    /// Returns the longest takeover before the cluster itself times out, in seconds: the loss is
    /// detected, the head is fenced (after `fence_delay_s`), the pool starts.
    pub fn takeover_worst_s(&self, heads: usize, fence_delay_s: u32) -> u32 {
        let detection_ms = self
            .token_effective_ms(heads)
            .saturating_add(self.consensus_ms);
        detection_ms
            .div_ceil(1_000)
            .saturating_add(fence_delay_s)
            .saturating_add(self.fence_s)
            .saturating_add(self.pool_start_s)
    }
}

#[cfg(test)]
mod tests {
    use takeover::budget;

    use super::*;

    const PROFILES: [Profile; 3] = [Profile::Fast, Profile::Default, Profile::Conservative];

    #[test]
    fn import_with_multihost_wait_fits_the_takeover_budget() {
        for (profile, silence_ms) in PROFILES.into_iter().zip([800, 1_200, 7_200]) {
            let times = profile.timeouts();
            assert_eq!(times.multihost_silence_ms(2), silence_ms, "{profile:?}");
            let wait_ms = (silence_ms * SILENCES_PER_WAIT_PERCENT / 100).next_multiple_of(1_000);
            let pause_ms = times.token_effective_ms(2) + times.consensus_ms + wait_ms + IMPORT_MS;
            assert!(pause_ms <= times.takeover_budget_s * 1_000, "{profile:?}");
        }
    }

    /// The default of open-iscsi, which the guide promises to work with every profile.
    const INITIATORS_WAIT_S: u32 = 120;

    #[test]
    fn each_profile_matches_the_takeover_budget() {
        let ms = |time: std::time::Duration| u32::try_from(time.as_millis()).expect("short");
        for profile in PROFILES {
            let times = profile.timeouts();
            // The next head serves before clients notice more than promised.
            let detected_ms = times.token_effective_ms(3) + times.consensus_ms;
            let begun_ms = detected_ms + ms(budget::TRANSITION_DELAY_WITNESS) + IMPORT_MS;
            assert!(begun_ms < times.takeover_budget_s * 1_000, "{profile:?}");
            // If every step uses its full bound, initiators still wait.
            assert!(
                times.takeover_worst_s(3, 1) < INITIATORS_WAIT_S,
                "{profile:?}"
            );
            // One lost probe does not take a link down.
            assert!(times.link_probe_timeout_ms >= 3 * times.link_probe_interval_ms);
            // A leg of another head fails before the pool's own time-out for a disk.
            assert!(ms(budget::DEVICE_DEADLINE) < times.disk_answer_s * 1_000);
            // A disk that hangs does not make a start or stop fail.
            assert!(2 * times.disk_answer_s <= times.pool_start_s.min(times.pool_stop_s));
            // The profile's monitor is bounded by the profile, and not by the constants.
            let response_ms = times.pool_monitor_timeout_s * 100;
            assert!(
                response_ms >= ms(budget::MONITOR_RESPONSE_MIN),
                "{profile:?}"
            );
            assert!(
                response_ms <= ms(budget::MONITOR_RESPONSE_MAX),
                "{profile:?}"
            );
            assert!(times.pool_stop_s * 10 >= ms(budget::STOP_RESPONSE_MIN));
        }
    }

    #[test]
    fn unreachable_budget_uses_the_minimum_multihost_silence() {
        let desired = TimeoutWishes {
            takeover_budget_s: Some(1),
            ..TimeoutWishes::default()
        };
        let silence_ms = desired.resolve().multihost_silence_ms(4);
        assert_eq!(silence_ms, MULTIHOST_SILENCE_MS_MIN);
    }
}
