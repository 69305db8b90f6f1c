//! Why a member does not answer.

/// Why a member says nothing of a pool. That is no answer: it counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    /// It was never told of the pool.
    Unknown,
    /// It remembered the pool, and its file is not there any more.
    Missing,
    /// Its file cannot be read, or says what it cannot mean.
    Damaged,
    /// A change could not be made durable.
    Unkept,
    /// It lost what it remembered, and is not told of a newer record yet.
    Lost,
    /// A record names other members than its configuration does, or such a change was asked for: said by an earlier release, which cannot
    /// follow a change.
    Members,
}

impl Silence {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Unknown,
        Self::Missing,
        Self::Damaged,
        Self::Unkept,
        Self::Lost,
        Self::Members,
    ];

    /// Whether a person's word ends it.
    pub fn is_of_the_file(self) -> bool {
        matches!(self, Self::Missing | Self::Damaged)
    }

    /// For people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Unknown => "it was never told of this pool",
            Self::Missing => {
                "its file of this pool is missing: see that its disk is sound, then say `readmit` there"
            }
            Self::Damaged => {
                "its file of this pool is damaged: see that its disk is sound, then say `readmit` there"
            }
            Self::Unkept => "it could not write a change",
            Self::Lost => {
                "it lost what it remembered, and is told as soon as the two others have agreed to that"
            }
            Self::Members => {
                "the pool's record names other members than the configuration there, and its release cannot change them: install the same \
                 release of bulkhead on all members"
            }
        }
    }

    /// In a message.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Unknown => 1,
            Self::Missing => 2,
            Self::Damaged => 3,
            Self::Unkept => 4,
            Self::Lost => 5,
            Self::Members => 6,
        }
    }
}
