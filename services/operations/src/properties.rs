//! Refused properties in words: an unknown name with the nearest one, or a wrong value with the valid ones.

use control::owners::{OwnerProperty, prefixes};
use control::{Failure, FailureKind};
use engine::dataset::{DatasetError, DatasetErrorKind, UNKNOWN_PROPERTY_OR_VALUE};
use engine::pool::{PoolError, PoolErrorKind};

use super::datasets::Dataset;
use super::{Context, failures, owners};

/// Explains why properties of `dataset`, which may not exist yet, are refused. `value` returns the value of a name in
/// the request.
pub fn of_dataset<'v>(
    context: &Context<'_>,
    error: DatasetError,
    dataset: &str,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Failure {
    let DatasetErrorKind::Property { property, why } = &error.kind else {
        return failures::dataset_of(context.pool, error);
    };
    if OwnerProperty::parse(property).is_some() {
        return owners::misplaced(property);
    }
    // Users may set any name with a colon.
    if property.contains(':') {
        return failures::dataset_of(context.pool, error);
    }
    match context.pool.property_values(property) {
        None => unknown(
            FailureKind::Usage,
            dataset,
            property,
            &names(context, dataset),
        ),
        Some(values) if *why == UNKNOWN_PROPERTY_OR_VALUE => match value(property) {
            Some(value) => wrong_value(dataset, property, value, &values),
            None => not_inherited(dataset, property),
        },
        Some(values) if why.ends_with("out of range") => failures::dataset_of(context.pool, error)
            .advise(format!("valid values: {}", readable(&values))),
        Some(_) => failures::dataset_of(context.pool, error),
    }
}

/// The same for properties of the pool itself.
pub fn of_pool<'v>(
    context: &Context<'_>,
    error: PoolError,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Failure {
    let (PoolErrorKind::Property { property, .. }, Ok(pool)) =
        (&error.kind, context.pool.pool_properties())
    else {
        return failures::pool(error);
    };
    let name = context.pool.name().to_string();
    // A feature is no property with values of its own.
    if property.starts_with("feature@") {
        return failures::pool(error);
    }
    match (pool.property_values(property), value(property)) {
        (Some(values), Some(_)) if values.starts_with('<') => failures::pool(error),
        (Some(values), Some(value)) => wrong_value(&name, property, value, &values),
        (None, Some(_)) => {
            let all = pool.properties().unwrap_or_default().into_iter();
            let names: Vec<String> = all.map(|one| one.name).collect();
            unknown(FailureKind::Usage, &name, property, &names)
        }
        (_, None) => failures::pool(error),
    }
}

/// The properties that can be set when a pool is created.
const OF_NEW_POOLS: [&str; 10] = [
    "ashift",
    "autoexpand",
    "autoreplace",
    "autotrim",
    "comment",
    "compatibility",
    "delegation",
    "failmode",
    "listsnapshots",
    "multihost",
];

/// The same for a pool that could not be created. `valid`: the valid values of the property; none if pools do not have
/// it.
pub fn of_new_pool(
    failure: Failure,
    pool: &str,
    property: &str,
    value: Option<String>,
    valid: Option<String>,
    is_of_datasets: bool,
) -> Failure {
    if property.starts_with("feature@") {
        return failure;
    }
    match (valid, value) {
        (Some(valid), _) if valid.starts_with('<') || valid.is_empty() => failure,
        (Some(valid), Some(value)) => wrong_value(pool, property, &value, &valid),
        (None, Some(value)) if is_of_datasets => {
            Failure::usage(format!("{property} is no property of a pool")).advise(format!(
                "it is one of file systems and volumes: create the pool without it, then \
                 `bulkhead filesystem set {pool} {property}={value}`"
            ))
        }
        (None, Some(_)) => {
            let names = OF_NEW_POOLS.map(str::to_owned);
            let failure = Failure::usage(format!("{pool} has no property {property}"));
            failure.advise(match nearest(property, &names) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("a new pool can have: {}", names.join(", ")),
            })
        }
        (_, None) => failure,
    }
}

/// The failure for a property that `owner` does not have, with the nearest of `names`.
pub fn unknown(kind: FailureKind, owner: &str, property: &str, names: &[String]) -> Failure {
    let failure = Failure::new(kind, format!("{owner} has no property {property}"));
    if OwnerProperty::parse(property).is_some() {
        return failure.advise("`bulkhead filesystem get` shows it of a file system");
    }
    if let Some(name) = nearest_of_owner(property) {
        return failure.advise(format!("did you mean {name}?"));
    }
    let verb = match owner.contains('/') {
        true => "volume get",
        false => "pool get",
    };
    failure.advise(match nearest(property, names) {
        Some(name) => format!("did you mean {name}?"),
        None => format!("`bulkhead {verb} {owner}` lists all; a name of your own has a colon, such as org.example:owner"),
    })
}

fn wrong_value(owner: &str, property: &str, value: &str, values: &str) -> Failure {
    if values.starts_with("<read-only>") || values.is_empty() {
        return Failure::usage(format!("{property} of {owner} cannot be set"));
    }
    Failure::usage(format!("{property} of {owner} cannot be {value:?}"))
        .advise(format!("valid values: {}", readable(values)))
}

fn not_inherited(owner: &str, property: &str) -> Failure {
    Failure::usage(format!("{property} of {owner} is not inherited"))
        .advise("set it instead; a limit is removed by the value none")
}

/// `on, off` for `on | off`.
fn readable(values: &str) -> String {
    values.replace(" | ", ", ")
}

/// The names of the native properties of a dataset, or of the pool's root where it does not exist.
fn names(context: &Context<'_>, dataset: &str) -> Vec<String> {
    let root = context.pool.name();
    let dataset = Dataset::parse(dataset).ok();
    let found = dataset.and_then(|one| context.pool.dataset_properties((&one).into()).ok());
    let found = found.or_else(|| context.pool.dataset_properties(root.into()).ok());
    let names = found.unwrap_or_default().into_keys();
    names.filter(|name| !name.contains(':')).collect()
}

/// The name that is written most like `property`, if one is.
fn nearest<'n>(property: &str, names: &'n [String]) -> Option<&'n str> {
    let near = names.iter().map(|name| (distance(property, name), name));
    let (count, name) = near.min_by_key(|(count, _)| *count)?;
    (count <= 1 + property.chars().count() / 4).then_some(name.as_str())
}

/// The same for the property of a user, group or project, which is in no list.
fn nearest_of_owner(property: &str) -> Option<String> {
    let (before, owner) = property.split_once('@')?;
    let names: Vec<String> = prefixes().map(|name| name.replace('@', "")).collect();
    let name = nearest(before, &names)?;
    Some(format!("{name}@{owner}"))
}

/// The number of characters that are inserted, removed, replaced, or exchanged with the next one between two names.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, one) in from.iter().enumerate() {
        let mut next = vec![at + 1];
        for (other_at, other) in to.iter().enumerate() {
            let replaced = row[other_at] + usize::from(one != other);
            let mut least = replaced.min(row[other_at + 1] + 1).min(next[other_at] + 1);
            let is_exchanged =
                at > 0 && other_at > 0 && from[at - 1] == *other && to[other_at - 1] == *one;
            if is_exchanged {
                least = least.min(before[other_at - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (from, to, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("compression", "compression", 0),
            ("comprssion", "compression", 1),
            ("recordsiez", "recordsize", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), count, "{from} {to}");
            assert_eq!(distance(to, from), count, "{to} {from}");
        }
    }

    #[test]
    fn misspelled_quota_of_a_user_is_recognised() {
        for (property, expected) in [
            ("usrquota@1000", Some("userquota@1000")),
            ("userqouta@anna", Some("userquota@anna")),
            ("groupobjqota@7", Some("groupobjquota@7")),
            ("projectuse@7", Some("projectused@7")),
            ("feature@edonr", None),
            ("quota", None),
        ] {
            assert_eq!(
                nearest_of_owner(property).as_deref(),
                expected,
                "{property}"
            );
        }
    }

    #[test]
    fn only_a_similar_name_is_proposed() {
        let names = ["compression", "checksum", "copies", "sync"].map(str::to_owned);
        for (property, expected) in [
            ("comprssion", Some("compression")),
            ("compresion", Some("compression")),
            ("snyc", Some("sync")),
            ("copy", None),
            ("nonsense", None),
        ] {
            assert_eq!(nearest(property, &names), expected, "{property}");
        }
    }
}
