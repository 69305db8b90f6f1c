//! Options that several operations take on the command line.

use clap::Args;
use units::{ByteCount, NameError, PoolName, VolumeName};

use super::PoolSelector;
use crate::Failure;
use crate::request::Properties;
use crate::snapshot_set::SnapshotSet;

/// A pool, as a positional argument or an option: users type either.
#[derive(Debug, Args)]
pub struct PoolArgument {
    /// The pool [default: all that are served here, or the only one that is known]
    #[arg(value_name = "POOL", conflicts_with = "pool_option")]
    pool: Option<PoolName>,
    /// The same
    #[arg(long = "pool", id = "pool_option", value_name = "POOL")]
    option: Option<PoolName>,
}

impl From<PoolArgument> for PoolSelector {
    fn from(which: PoolArgument) -> Self {
        which.pool.or(which.option).into()
    }
}

/// `--pool`
#[derive(Debug, Args)]
pub struct PoolOption {
    /// The pool [default: the only one that is served or known here, or that of the named object]
    #[arg(long)]
    pub pool: Option<PoolName>,
}

impl PoolOption {
    /// Returns the text of the positional argument where a pool or an object in it may be named, or
    /// of the option.
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

/// Returns the names of properties from arguments that each may have several, separated by commas; empty means all.
pub fn property_names(arguments: &[String]) -> Vec<String> {
    let names = arguments.iter().flat_map(|one| one.split(','));
    let names: Vec<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    match names.iter().any(|name| name == "all") {
        true => Vec::new(),
        false => names,
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

/// Returns the pool of a checked name.
///
/// # Panics
///
/// If the name was not checked by [`dataset`].
pub fn pool_named(dataset: &str) -> PoolName {
    let pool = dataset.split('/').next().unwrap_or_default();
    pool.parse().expect("checked by the parser")
}

/// A pool, or a volume and its pool.
///
/// # Errors
///
/// It is neither.
pub fn pool_or_volume(text: &str) -> Result<(PoolName, Option<VolumeName>), Failure> {
    let usage = |error: NameError| Failure::usage(error.to_string());
    if text.contains('/') {
        let volume: VolumeName = text.parse().map_err(usage)?;
        return Ok((volume.pool(), Some(volume)));
    }
    Ok((text.parse().map_err(usage)?, None))
}

/// A pool, a volume and its pool, or a set of snapshots and its pool.
///
/// # Errors
///
/// It is none of them.
pub fn pool_or_snapshots(
    text: &str,
) -> Result<(PoolName, Option<VolumeName>, Option<SnapshotSet>), Failure> {
    if text.contains('@') {
        let only = text.parse::<SnapshotSet>();
        let only = only.map_err(|error| Failure::usage(error.to_string()))?;
        return Ok((only.pool(), None, Some(only)));
    }
    let (pool, volume) = pool_or_volume(text)?;
    Ok((pool, volume, None))
}

/// A size such as 10G, in bytes.
///
/// # Errors
///
/// It is none.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    Ok(size.get())
}

/// A time such as `15m`, in seconds.
///
/// # Errors
///
/// It is none.
pub fn duration_s(text: &str) -> Result<u64, String> {
    let wrong = || "write a number and s, m, h or d, such as 15m".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

/// A volume's block size.
///
/// # Errors
///
/// It is none.
pub fn block_size(text: &str) -> Result<u32, String> {
    match u32::try_from(bytes(text)?) {
        Ok(size) if size.is_power_of_two() && (512..=16 << 20).contains(&size) => Ok(size),
        _ => Err("use a power of two from 512 to 16M".to_owned()),
    }
}

/// Returns the pool of all names.
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
