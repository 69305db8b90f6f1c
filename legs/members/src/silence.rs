//! Reasons why a member does not respond for a pool.

/// Why a member does not respond for a pool. It never counts as a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    /// It never stored the pool.
    Unknown,
    /// It stored the pool, and its file is missing.
    Missing,
    /// Its file cannot be read or is invalid.
    Damaged,
    /// A change could not be made durable.
    NotStored,
    /// Its state was lost, and it has not received a newer record yet.
    Lost,
    /// A record names other members than its configuration does, or such a change was requested. Sent only by an
    /// earlier release, which cannot apply the change.
    Members,
}

impl Silence {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Unknown,
        Self::Missing,
        Self::Damaged,
        Self::NotStored,
        Self::Lost,
        Self::Members,
    ];

    /// Whether an administrator can end it by `readmit`.
    pub fn is_of_the_file(self) -> bool {
        matches!(self, Self::Missing | Self::Damaged)
    }

    /// Description for an administrator.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Unknown => "it never stored this pool",
            Self::Missing => {
                "its file of this pool is missing: see that its disk is sound, then run `readmit` there"
            }
            Self::Damaged => {
                "its file of this pool is damaged: see that its disk is sound, then run `readmit` there"
            }
            Self::NotStored => "it could not write a change",
            Self::Lost => {
                "its record was lost, and is sent again once the two other members have agreed"
            }
            Self::Members => {
                "the pool's record names other members than the configuration there, and its release cannot change them: install the same \
                 release of bulkhead on all members"
            }
        }
    }

    /// Code on the wire.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Unknown => 1,
            Self::Missing => 2,
            Self::Damaged => 3,
            Self::NotStored => 4,
            Self::Lost => 5,
            Self::Members => 6,
        }
    }
}
