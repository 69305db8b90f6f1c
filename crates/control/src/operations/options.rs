//! Options that several operations take on the command line.

use clap::Args;
use units::{NameError, PoolName, VolumeName};

use super::PoolSelector;
use crate::Failure;
use crate::request::Properties;

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

impl From<WhichPool> for PoolSelector {
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

impl From<PoolOption> for PoolSelector {
    fn from(option: PoolOption) -> Self {
        option.pool.into()
    }
}

/// `--property`
#[derive(Debug, Args)]
pub struct PropertyOptions {
    /// Set a property of the new volume; may be repeated
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_parser = property)]
    property: Vec<(String, String)>,
}

impl From<PropertyOptions> for Properties {
    fn from(options: PropertyOptions) -> Self {
        options.property.into_iter().collect()
    }
}

/// `NAME=VALUE`.
///
/// # Errors
///
/// It has no name or no `=`.
pub fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// A volume's or a pool's name.
///
/// # Errors
///
/// It is neither.
pub fn dataset(text: &str) -> Result<String, NameError> {
    if text.contains('/') {
        return text.parse::<VolumeName>().map(String::from);
    }
    text.parse::<PoolName>().map(String::from)
}

/// The pool of a checked name.
///
/// # Panics
///
/// If the name was not checked by [`dataset`].
pub fn pool_named(dataset: &str) -> PoolName {
    let pool = dataset.split('/').next().unwrap_or_default();
    pool.parse().expect("checked by the parser")
}

/// The pool that all names are in.
///
/// # Errors
///
/// They are in several.
pub fn one_pool(pools: impl IntoIterator<Item = PoolName>) -> Result<PoolSelector, Failure> {
    let mut pools = pools.into_iter();
    let first = pools.next();
    match pools.find(|pool| Some(pool) != first.as_ref()) {
        None => Ok(first.into()),
        Some(other) => {
            let first = first.map_or_else(String::new, String::from);
            let message = format!("the names are in two pools, {first} and {other}");
            Err(Failure::usage(message).advise("use one command for each pool"))
        }
    }
}
