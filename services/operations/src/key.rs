//! Requests about keys of encrypted volumes.

use std::collections::BTreeSet;

use control::answer::Done;
use control::key::{
    KEY_COMMANDS_PROPERTY, KeyBytes, KeyLocation, KeySettings, KeyView, decode_commands,
    encode_commands,
};
use control::operations::key::KeyRequest;
use control::{Answer, Failure, FailureKind};
use engine::dataset::DatasetErrorKind;
use engine::keys::{KeyFormat, KeyInfo, KeyMaterial, NewKey};
use units::VolumeName;

use super::datasets::Dataset;
use super::documents::{All, Documents, document_failure};
use super::{Context, failures};
use crate::key_source;
use crate::needs;

/// Performs one request.
pub fn perform(context: &Context<'_>, request: KeyRequest) -> Result<Answer, Failure> {
    match request {
        KeyRequest::Create(request) => create(context, &request.name, &request.key),
        KeyRequest::Load(request) => {
            let (location, key) = (request.location.as_ref(), request.key.as_ref());
            load(context, &request.name, location, key)
        }
        KeyRequest::LoadAll => load_all(context),
        KeyRequest::Unload(request) => unload(context, &request.name),
        KeyRequest::Change(request) => change(context, &request.name, &request.key),
        KeyRequest::Inherit(request) => inherit(context, &request.name),
        KeyRequest::Status(request) => status(context, request.name.as_ref()),
    }
}

/// Returns the requested key. Reads it from its location if the request does not contain it.
pub fn new_key(desired: &KeySettings) -> Result<NewKey, Failure> {
    let format = desired.format.parse();
    let format =
        format.map_err(|error: engine::keys::MaterialError| Failure::usage(error.to_string()))?;
    let material = match &desired.key {
        Some(key) => material(key),
        None => key_source::fetch(&desired.location).map_err(|error| {
            let message = format!("there is no key to begin with: {error}");
            Failure::new(FailureKind::NotFound, message)
        })?,
    };
    Ok(NewKey {
        suite: desired.encryption.clone(),
        format,
        material,
        iterations: desired.iterations,
        location: desired.location.for_zfs(),
    })
}

fn material(key: &KeyBytes) -> KeyMaterial {
    KeyMaterial::new(key.reveal().clone())
}

/// Returns the Bulkhead property for a dataset with a key program.
pub fn own_property(desired: &KeySettings) -> Option<(String, String)> {
    match &desired.location {
        KeyLocation::Command(words) => {
            let value = encode_commands(std::slice::from_ref(words));
            Some((KEY_COMMANDS_PROPERTY.to_owned(), value))
        }
        KeyLocation::Prompt | KeyLocation::File(_) => None,
    }
}

/// Returns the key locations of an encryption root, in search order.
pub fn locations(all: &All, root: &KeyInfo) -> Result<Vec<KeyLocation>, Failure> {
    let mut found = Vec::new();
    match root.location.parse() {
        Ok(KeyLocation::Prompt) => {}
        Ok(location) => found.push(location),
        // For example a URL, which kernel ZFS supports.
        Err(_) => tracing::debug!(
            root = root.dataset,
            "its key location is supported by other ZFS software only"
        ),
    }
    let value = all
        .own(&root.dataset)
        .and_then(|own| own.get(KEY_COMMANDS_PROPERTY));
    if let Some(value) = value {
        let commands = decode_commands(value).map_err(|error| document_failure(&error))?;
        found.extend(commands.into_iter().map(KeyLocation::Command));
    }
    Ok(found)
}

/// Loads the key of `root` from the first location that has it. Each returned sentence describes
/// the error of one location.
pub fn load_from(
    pool: &dyn engine::Pool,
    root: &KeyInfo,
    places: &[KeyLocation],
) -> Result<(), Vec<String>> {
    let name = Dataset::parse(&root.dataset).map_err(|failure| vec![failure.message])?;
    let keys = pool.keys().map_err(|missing| vec![missing.to_string()])?;
    let mut wrong = Vec::new();
    for place in places {
        let tried = key_source::fetch(place)
            .map_err(|error| error.to_string())
            .and_then(|material| match keys.load_key((&name).into(), &material) {
                Ok(()) => Ok(()),
                // Another thread loaded it concurrently.
                Err(error) if error.kind == DatasetErrorKind::Exists => Ok(()),
                Err(error) => Err(format!("{place}: {}", error.kind)),
            });
        match tried {
            Ok(()) => return Ok(()),
            Err(sentence) => wrong.push(sentence),
        }
    }
    if wrong.is_empty() {
        wrong.push(key_source::SourceError::Prompt.to_string());
    }
    Err(wrong)
}

/// The encryption root of a dataset.
fn root_of(context: &Context<'_>, name: &VolumeName) -> Result<KeyInfo, Failure> {
    let info = needs(context.pool.keys())?
        .key_info(name.into())
        .map_err(failures::dataset)?;
    let Some(root) = info.root.clone() else {
        return Err(Failure::usage(format!("{name} is not encrypted")));
    };
    if info.is_root() {
        return Ok(info);
    }
    let root = needs(context.pool.keys())?.key_info((&Dataset::parse(&root)?).into());
    root.map_err(failures::dataset)
}

/// Returns the datasets that use the key of `root`, itself included.
fn sharing(context: &Context<'_>, root: &str) -> Result<Vec<String>, Failure> {
    let all = crate::encrypted_datasets(context.pool)?;
    let theirs = all
        .into_iter()
        .filter(|info| info.root.as_deref() == Some(root));
    Ok(theirs.map(|info| info.dataset).collect())
}

fn create(
    context: &Context<'_>,
    name: &VolumeName,
    desired: &KeySettings,
) -> Result<Answer, Failure> {
    let key = new_key(desired)?;
    let properties: Vec<_> = own_property(desired).into_iter().collect();
    let created = needs(context.pool.keys())?.create_key_parent(name, &key, &properties);
    context.documents.changed(name.as_str());
    created.map_err(failures::dataset)?;
    Ok(Done::changed(format!(
        "created {name}: volumes made below it are encrypted with its key"
    )))
}

fn load(
    context: &Context<'_>,
    name: &VolumeName,
    location: Option<&KeyLocation>,
    key: Option<&KeyBytes>,
) -> Result<Answer, Failure> {
    let root = root_of(context, name)?;
    let dataset = &root.dataset;
    if root.loaded {
        return Ok(Done::already(format!(
            "the key of {dataset} is loaded already"
        )));
    }
    match (key, location) {
        (Some(key), _) => {
            let name = Dataset::parse(dataset)?;
            let loaded = needs(context.pool.keys())?.load_key((&name).into(), &material(key));
            loaded.map_err(failures::dataset)?;
        }
        (None, location) => {
            let places = match location {
                Some(location) => vec![location.clone()],
                None => {
                    let all = context.all()?;
                    locations(&all, &root)?
                }
            };
            load_from(context.pool, &root, &places)
                .map_err(|wrong| missing(dataset, root.format, &wrong))?;
        }
    }
    let message = match context.hooks.keys_changed()? {
        true => format!("loaded the key of {dataset}"),
        false => {
            replay(context, dataset)?;
            format!("the key of {dataset} fits; no server runs that would keep it")
        }
    };
    Ok(Done::changed(message))
}

fn missing(dataset: &str, format: Option<KeyFormat>, wrong: &[String]) -> Failure {
    let message = format!("the key of {dataset} is not loaded: {}", wrong.join("; "));
    Failure::new(FailureKind::Unavailable, message).advise(format!(
        "bring the key to its location, or {}",
        other_way(dataset, format)
    ))
}

/// How a key is loaded that is not at its location. A raw key cannot be typed.
fn other_way(dataset: &str, format: Option<KeyFormat>) -> String {
    let load = format!("bulkhead volume key load {dataset}");
    match format {
        Some(KeyFormat::Raw) => {
            format!("name a file with it: `{load} --key-location file:///PATH`")
        }
        _ => format!("enter it: `{load} --prompt`"),
    }
}

/// Where no server is that would do it.
fn replay(context: &Context<'_>, root: &str) -> Result<(), Failure> {
    let theirs: BTreeSet<String> = sharing(context, root)?.into_iter().collect();
    let Ok(logs) = context.pool.logs() else {
        return Ok(());
    };
    for name in logs.unreplayed_volumes().map_err(failures::dataset)? {
        if theirs.contains(name.as_str()) {
            logs.replay(&name).map_err(failures::dataset)?;
        }
    }
    Ok(())
}

/// An encrypted dataset without a loaded key, and one reason for each location.
pub type NotLoaded = (String, Vec<String>);

/// Loads all missing keys that have a reachable location. Returns the number of loaded keys, and
/// the reasons for each key that was not loaded.
pub fn load_missing(
    pool: &dyn engine::Pool,
    all: &All,
    wanted: impl Fn(&KeyInfo, &[KeyLocation]) -> bool,
) -> Result<(u64, Vec<NotLoaded>), Failure> {
    let datasets = crate::encrypted_datasets(pool)?;
    let (mut loaded, mut left) = (0, Vec::new());
    for root in datasets
        .iter()
        .filter(|info| info.is_root() && info.is_locked())
    {
        // An invalid property of one root must not prevent the other keys from being loaded.
        let places = match locations(all, root) {
            Ok(places) => places,
            Err(failure) => {
                left.push((root.dataset.clone(), vec![failure.message]));
                continue;
            }
        };
        if !wanted(root, &places) {
            continue;
        }
        match load_from(pool, root, &places) {
            Ok(()) => loaded += 1,
            Err(wrong) => left.push((root.dataset.clone(), wrong)),
        }
    }
    Ok((loaded, left))
}

/// Loads every key with a stored location, for a command that opens the pool for a short time. An
/// operation that needs a missing key reports it itself.
pub fn load_stored_keys(context: &Context<'_>) {
    let is_kept = |_: &KeyInfo, places: &[KeyLocation]| !places.is_empty();
    let looked = context
        .all()
        .and_then(|all| load_missing(context.pool, &all, is_kept));
    match looked {
        Ok((_, left)) => left.iter().for_each(|(root, wrong)| {
            tracing::warn!(root, "its key is not loaded: {}", wrong.join("; "));
        }),
        Err(failure) => tracing::warn!(%failure, "no keys are loaded"),
    }
}

fn load_all(context: &Context<'_>) -> Result<Answer, Failure> {
    let all = context.all()?;
    let (loaded, left) = load_missing(context.pool, &all, |_, _| true)?;
    if loaded > 0 {
        context.hooks.keys_changed()?;
    }
    if let Some((dataset, wrong)) = left.first() {
        let datasets = crate::encrypted_datasets(context.pool)?;
        let root = datasets.iter().find(|info| info.dataset == *dataset);
        let failure = missing(dataset, root.and_then(|root| root.format), wrong);
        let others = left.len() - 1;
        return Err(match others {
            0 => failure,
            _ => failure.advise(format!(
                "{others} more are missing: `bulkhead volume key status`"
            )),
        });
    }
    Ok(match loaded {
        0 => Done::already("no key is missing"),
        1 => Done::changed("loaded one key"),
        _ => Done::changed(format!("loaded {loaded} keys")),
    })
}

fn unload(context: &Context<'_>, name: &VolumeName) -> Result<Answer, Failure> {
    let root = root_of(context, name)?;
    let dataset = &root.dataset;
    if !root.loaded {
        return Ok(Done::already(format!("the key of {dataset} is not loaded")));
    }
    let theirs = sharing(context, dataset)?;
    for theirs in &theirs {
        let volume = theirs.parse::<VolumeName>();
        if volume.is_ok_and(|volume| context.hooks.is_open(&volume)) {
            let message = format!("{theirs}, which has the key of {dataset}, is in use");
            return Err(Failure::new(FailureKind::Busy, message).advise(
                "end its exports first: `bulkhead target unmap`, `bulkhead nbd unexport`",
            ));
        }
    }
    let unloaded = needs(context.pool.keys())?.unload_key((&Dataset::parse(dataset)?).into());
    unloaded.map_err(failures::dataset)?;
    // An encrypted volume without its key shows no properties, not even its size.
    let theirs = theirs.iter().filter_map(|name| name.parse().ok());
    theirs.for_each(|volume: VolumeName| context.hooks.resized(&volume));
    context.hooks.exports_changed()?;
    Ok(Done::changed(format!("unloaded the key of {dataset}")))
}

/// After a crash within the change the old key or the new one is valid, and a location for it is
/// stored: both key programs are stored before the change, and the old one is removed after it.
fn change(
    context: &Context<'_>,
    name: &VolumeName,
    desired: &KeySettings,
) -> Result<Answer, Failure> {
    let info = needs(context.pool.keys())?
        .key_info(name.into())
        .map_err(failures::dataset)?;
    if info.is_locked() {
        let message = format!("the present key of {name} is not loaded");
        return Err(
            Failure::new(FailureKind::Unavailable, message).advise(format!(
                "load it into a running server first: `bulkhead pool-server {}`; then {}",
                name.pool(),
                other_way(name.as_str(), info.format)
            )),
        );
    }
    let key = new_key(desired)?;
    let all = context.all()?;
    let own = all.own(name.as_str());
    let before = own.and_then(|own| own.get(KEY_COMMANDS_PROPERTY)).cloned();
    let old = before.as_deref().map(decode_commands).and_then(Result::ok);
    let property = |value: Option<String>| vec![(KEY_COMMANDS_PROPERTY.to_owned(), value)];
    let after = own_property(desired).map(|(_, value)| value);
    if let KeyLocation::Command(words) = &desired.location {
        let mut both = vec![words.clone()];
        both.extend(old.unwrap_or_default());
        context.edit(name.as_str(), property(Some(encode_commands(&both))))?;
    }
    let changed = needs(context.pool.keys())?.change_key(name.into(), &key);
    if changed.is_err() && before.is_some() {
        context.edit(name.as_str(), property(before))?;
    } else if changed.is_ok() || after.is_some() {
        let after = after.filter(|_| changed.is_ok());
        context.edit(name.as_str(), property(after))?;
    }
    changed.map_err(failures::dataset)?;
    Ok(Done::changed(format!(
        "{name} has another key now; the old one opens it no more, and still opens old copies of the \
         devices"
    )))
}

fn inherit(context: &Context<'_>, name: &VolumeName) -> Result<Answer, Failure> {
    let info = needs(context.pool.keys())?
        .key_info(name.into())
        .map_err(failures::dataset)?;
    if info.root.is_some() && !info.is_root() {
        let root = info.root.unwrap_or_default();
        return Ok(Done::already(format!(
            "{name} shares the key of {root} already"
        )));
    }
    needs(context.pool.keys())?
        .inherit_key(name.into())
        .map_err(failures::dataset)?;
    let gone = vec![(KEY_COMMANDS_PROPERTY.to_owned(), None)];
    context.edit(name.as_str(), gone)?;
    Ok(Done::changed(format!(
        "{name} shares the key of its parent now"
    )))
}

fn status(context: &Context<'_>, name: Option<&VolumeName>) -> Result<Answer, Failure> {
    let all = context.all()?;
    let infos = match name {
        Some(name) => vec![
            needs(context.pool.keys())?
                .key_info(name.into())
                .map_err(failures::dataset)?,
        ],
        None => crate::encrypted_datasets(context.pool)?,
    };
    let view = |info: &KeyInfo| {
        let mut places: Vec<String> = Vec::new();
        if info.is_root() {
            let found = locations(&all, info).unwrap_or_default();
            places.extend(found.iter().map(ToString::to_string));
            if places.is_empty() {
                places.push(info.location.clone());
            }
        }
        KeyView {
            dataset: info.dataset.clone(),
            encryption: info.suite.clone(),
            shared_with: info.root.clone().filter(|_| !info.is_root()),
            format: info.format.map(|format| format.word().to_owned()),
            loaded: info.loaded,
            locations: places,
        }
    };
    Ok(Answer::Keys(infos.iter().map(view).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_key_is_never_asked_for_at_a_prompt() {
        let advice = |format| missing("tank/v", format, &[]).advice.unwrap_or_default();
        let raw = advice(Some(KeyFormat::Raw));
        assert!(raw.contains("`bulkhead volume key load tank/v --key-location file:///PATH`"));
        assert!(!raw.contains("--prompt"), "{raw}");
        for format in [Some(KeyFormat::Hex), Some(KeyFormat::Passphrase), None] {
            assert!(advice(format).contains("`bulkhead volume key load tank/v --prompt`"));
        }
    }
}
