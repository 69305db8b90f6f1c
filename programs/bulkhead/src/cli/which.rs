//! Which pool a command is about: said by its place, by `--pool`, or not at all.

use clap::Args;
use units::PoolName;

use super::Whose;

/// A pool, by its place or by an option: hands type either.
#[derive(Debug, Args)]
pub struct WhichPool {
    /// The pool [default: all that are served here, or the only one that is known]
    #[arg(value_name = "POOL", conflicts_with = "pool_option")]
    pool: Option<PoolName>,
    /// The same
    #[arg(long = "pool", id = "pool_option", value_name = "POOL")]
    option: Option<PoolName>,
}

impl From<WhichPool> for Whose {
    fn from(which: WhichPool) -> Self {
        which.pool.or(which.option).into()
    }
}

/// `--pool`
#[derive(Debug, Args)]
pub struct PoolOption {
    /// The pool [default: the only one that is served or known here, or the one that has what is named]
    #[arg(long)]
    pub pool: Option<PoolName>,
}

impl PoolOption {
    /// The text of the place where a pool or something in it may be named, or of the option.
    pub fn or(self, place: Option<String>) -> Option<String> {
        place.or_else(|| self.pool.map(String::from))
    }
}

impl From<PoolOption> for Whose {
    fn from(option: PoolOption) -> Self {
        option.pool.into()
    }
}
