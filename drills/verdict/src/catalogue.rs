//! The drills by name: the fault of each, and its expectation.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::expectation::{Expectation, Fencing, Kind, Notice, Place};

/// The delay of a slow BMC, in milliseconds.
pub const SLOW_BMC_MS: u32 = 2_000;
/// How long the outlets of a head take, which are switched one after the other, in milliseconds.
const OUTLETS_MS: u32 = 2_000;

macro_rules! drills {
    ($($variant:ident $name:literal: $about:literal, $kind:ident $place:ident $fencing:ident;)*) => {
        /// A fault made on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Drill {
            $(#[doc = $about] $variant,)*
        }

        impl Drill {
            /// All, in the order in which they are run.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The fault.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }

            /// Whether it sets the clock of a head.
            pub const fn sets_clock(self) -> bool {
                matches!(self, Self::ClockJump | Self::ClockJumpBack)
            }

            /// Whether each round has a lab of its own, because the fault cannot be undone.
            pub const fn has_own_labs(self) -> bool {
                matches!(self, Self::ThirdHeadJoins)
            }

            /// Whether it is about disks that belong to heads, and about the record of legs.
            pub const fn is_of_legs(self) -> bool {
                matches!(
                    self,
                    Self::LegLinkCut
                        | Self::LegHalfOpen
                        | Self::LegHung
                        | Self::LegSlow
                        | Self::LegServerKilled
                        | Self::LenderReboots
                        | Self::LastLegDamaged
                        | Self::WitnessLost
                        | Self::WitnessHung
                        | Self::StaleAlone
                        | Self::OneReturns
                        | Self::BootsApart
                        | Self::BothBootApart
                        | Self::HeadsApart
                        | Self::ServingHeadApart
                        | Self::OtherHeadApart
                        | Self::ShortOutage
                        | Self::WitnessThenPower
                        | Self::PowerInTurn
                        | Self::PowerLostDuringReturn
                        | Self::PartitionFenceDead
                        | Self::ThirdHeadJoins
                )
            }

            /// Whether it is about two heads with a witness that does not vote.
            pub const fn is_without_vote(self) -> bool {
                matches!(
                    self,
                    Self::BootsApart
                        | Self::BothBootApart
                        | Self::HeadsApart
                        | Self::ServingHeadApart
                        | Self::OtherHeadApart
                        | Self::ShortOutage
                        | Self::WitnessThenPower
                )
            }

            /// Its expectation.
            pub const fn expectation(self) -> Expectation {
                let (kind, place, fencing) = match self {
                    $(Self::$variant => (Kind::$kind, Place::$place, Fencing::$fencing),)*
                };
                let added_ms = match self {
                    // A fence request that exceeds a second is retried, so that the delay counts
                    // twice.
                    Self::BmcSlow | Self::ServingHeadApart => 2 * SLOW_BMC_MS + 1_000,
                    Self::BmcDead => OUTLETS_MS,
                    _ => 0,
                };
                let notice = match self {
                    Self::ServerKilled => Notice::Monitor,
                    Self::ServerFrozen => Notice::MonitorTimeout,
                    Self::DiskHangs => Notice::Disk,
                    Self::BmcDead => Notice::DeadBmc,
                    _ => Notice::Cluster,
                };
                Expectation { kind, place, fencing, notice, added_ms }
            }
        }
    };
}

drills! {
    ActivePower "active-power": "the power of the head that serves the pool is pulled",
        Crash Elsewhere Allowed;
    PowerBlinks "power-blinks": "the power of the serving head fails briefly",
        Crash Elsewhere Allowed;
    PassivePower "passive-power": "the power of a standby head is pulled",
        Hidden Same Allowed;
    ServerKilled "server-killed": "the pool's server process is killed",
        Crash Anywhere Allowed;
    ServerFrozen "server-frozen": "the pool's server process is stopped (SIGSTOP)",
        CutOff Anywhere Allowed;
    HeadFrozen "head-frozen": "every process of the serving head is stopped; it wakes up after the takeover",
        CutOff Elsewhere Required;
    AllLinksCut "all-links-cut": "the serving head loses all its links",
        CutOff Elsewhere Required;
    OneLinkCut "one-link-cut": "the serving head loses one of its links to clients",
        Hidden Same Forbidden;
    OneNetworkDown "one-network-down": "one storage network is gone for everybody",
        Hidden Same Forbidden;
    FenceDead "fence-dead": "a head and its fence devices are gone together; a person confirms it after a while",
        Unbounded Elsewhere Allowed;
    DiskFails "disk-fails": "a disk of the pool fails every request",
        Hidden Same Forbidden;
    DiskHangs "disk-hangs": "a disk of the pool hangs",
        Hidden Same Forbidden;
    DiskSlow "disk-slow": "a disk of the pool is slow: a tenth of a second for each request",
        Hidden Same Forbidden;
    BothLegsGone "both-legs-gone": "both disks of a mirror are gone; after a while one is back, or both, and an operator clears the pool",
        Unbounded Same Forbidden;
    BmcSlow "bmc-slow": "every process of the serving head is stopped, and its BMC is two seconds late",
        CutOff Elsewhere Required;
    BmcDead "bmc-dead": "every process of the serving head is stopped, and its BMC does not respond",
        CutOff Elsewhere Required;
    MemoryExhausted "memory-exhausted": "a process allocates all memory of the serving head",
        Unbounded Anywhere Allowed;
    Move "move": "the pool is moved to another head",
        Move Elsewhere Forbidden;
    MoveBack "move-back": "the pool is moved back to the head that it was moved away from",
        Move Elsewhere Forbidden;
    BothPowerCycled "both-power-cycled": "all heads lose their power, and get it back",
        Unbounded Anywhere Allowed;
    FileChanges "file-changes": "the appliance file changes, and is applied to the running pair",
        Hidden Same Forbidden;
    ClockJump "clock-jump": "the wall clock of the serving head jumps an hour ahead",
        Hidden Same Forbidden;
    ClockJumpBack "clock-jump-back": "the wall clock of the serving head jumps an hour back",
        Hidden Same Forbidden;
    LegLinkCut "leg-link-cut": "legs: the cables to another head's disks are pulled",
        Hidden Same Forbidden;
    LegHalfOpen "leg-half-open": "legs: another head receives requests for its disks, and its replies are lost",
        Hidden Same Forbidden;
    LegHung "leg-hung": "legs: the leg-server of another head is stopped (SIGSTOP)",
        Hidden Same Forbidden;
    LegSlow "leg-slow": "legs: the disks of another head are slow: a tenth of a second for each request",
        Hidden Same Forbidden;
    LegServerKilled "leg-server-killed": "legs: the leg-server of a head is killed",
        Hidden Same Forbidden;
    LenderReboots "lender-reboots": "legs: the power of another head is gone for less than half a second",
        Hidden Same Allowed;
    LastLegDamaged "last-leg-damaged": "legs: blocks of the last current leg cannot be read, or are wrong, while the other head is off",
        Hidden Same Allowed;
    WitnessLost "witness-lost": "legs: no head reaches the witness",
        Hidden Same Forbidden;
    WitnessHung "witness-hung": "legs: every process of the witness is stopped (SIGSTOP)",
        Hidden Same Forbidden;
    StaleAlone "stale-alone": "legs: a leg falls behind, all lose their power, and the head with all that was acknowledged is late",
        Unbounded Anywhere Allowed;
    OneReturns "one-returns": "legs: all lose their power, and one of two heads returns alone",
        Unbounded Anywhere Allowed;
    BootsApart "boots-apart": "legs: a head reboots, and does not see the serving head; both reach the witness",
        Hidden Same Allowed;
    BothBootApart "both-boot-apart": "legs: all lose their power, boot, and do not see each other; both reach the witness",
        Unbounded Anywhere Forbidden;
    HeadsApart "heads-apart": "legs: two heads do not see each other; both reach the witness",
        Hidden Same Allowed;
    ServingHeadApart "serving-head-apart": "legs: two heads do not see each other, and the serving one does not reach the witness",
        CutOff Elsewhere Required;
    OtherHeadApart "other-head-apart": "legs: two heads do not see each other, and the one that does not serve does not reach the witness",
        Hidden Same Allowed;
    ShortOutage "short-outage": "legs: all cables of both heads are cut for a short time",
        Unbounded Anywhere Allowed;
    WitnessThenPower "witness-then-power": "legs: the witness is lost, then the power of the serving head; the witness returns",
        Unbounded Elsewhere Allowed;
    PowerInTurn "power-in-turn": "legs: heads lose their power one after the other, and get it back in another order",
        Unbounded Anywhere Allowed;
    PowerLostDuringReturn "power-lost-during-return": "legs: a leg is resilvered, and a head loses its power during that",
        Unbounded Anywhere Allowed;
    PartitionFenceDead "partition-fence-dead": "legs: two heads do not hear each other, and cannot power each other off",
        Unbounded Anywhere Allowed;
    ThirdHeadJoins "third-head-joins": "legs: a third head is added to two that serve; then the power of the serving head is pulled, and later that of the third one",
        Crash Elsewhere Allowed;
}

impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Drill {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that no drill has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no drill {0}: `bulkhead drill --list` names them")]
pub struct UnknownDrill(pub String);

impl FromStr for Drill {
    type Err = UnknownDrill;

    fn from_str(name: &str) -> Result<Self, UnknownDrill> {
        let found = Self::ALL.iter().find(|drill| drill.name() == name);
        found.copied().ok_or_else(|| UnknownDrill(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drill_is_found_by_its_name() {
        for drill in Drill::ALL {
            assert_eq!(drill.name().parse(), Ok(*drill));
        }
        assert!("power".parse::<Drill>().is_err());
    }

    #[test]
    fn fault_masked_by_redundancy_causes_no_move_or_fence() {
        for drill in Drill::ALL {
            let Expectation { kind, place, .. } = drill.expectation();
            if kind == Kind::Hidden {
                assert_eq!(place, Place::Same, "{drill}");
            }
        }
    }
}
