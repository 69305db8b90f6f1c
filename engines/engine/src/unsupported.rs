//! The optional capabilities of an engine, and the error of a pool without one.

/// Declares each capability: its trait, its name after "has no", and an alternative for the user.
macro_rules! capabilities {
    ($($capability:ident, $noun:literal, $instead:literal;)*) => {
        /// A capability that an engine may have, by the name of its trait.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Capability {
            $(#[doc = concat!("The trait `", stringify!($capability), "`.")] $capability,)*
        }

        impl Capability {
            /// Every capability.
            pub const ALL: &[Self] = &[$(Self::$capability),*];

            /// Its name after "has no".
            pub const fn noun(self) -> &'static str {
                match self {
                    $(Self::$capability => $noun,)*
                }
            }

            /// The alternative for the user.
            pub const fn instead(self) -> &'static str {
                match self {
                    $(Self::$capability => $instead,)*
                }
            }
        }
    };
}

capabilities! {
    FileSystems, "file systems", "use volumes, or a pool of an engine that has file systems";
    IntentLogs, "intent logs", "acknowledged writes never need to be replayed or discarded";
    Promotion, "promotion of clones", "destroy the clones before their origin";
    Sending, "send streams", "copy the contents of the volume as one of its clients";
    Receiving, "streams to receive", "copy the contents into a volume as one of its clients";
    Keys, "encryption keys", "encrypt at the clients, or in the storage below it";
    Upkeep, "scrub, trim or repair of its own", "use the tools of the storage below it";
    History, "history", "the log of the server has its events";
    Devices, "devices", "use the tools of the storage below it";
    PoolProperties, "properties of a pool", "use the tools of the storage below it";
}

/// The pool's engine has no such capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pool {pool} is kept by {engine}, which has no {}: {}", capability.noun(), capability.instead())]
pub struct Unsupported {
    /// The pool's name.
    pub pool: String,
    /// The engine's name.
    pub engine: &'static str,
    /// The capability that is missing.
    pub capability: Capability,
}
