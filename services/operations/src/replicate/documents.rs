//! Requests about replication, and the properties that store its documents.

use control::answer::Done;
use control::operations::replicate::ReplicateRequest;
use control::operations::replicate::accept::Accept;
use control::operations::replicate::promote::Promote;
use control::operations::replicate::remove::Remove;
use control::operations::replicate::revoke::Revoke;
use control::operations::replicate::run::Run;
use control::operations::replicate::set::Set;
use control::replication::{
    EVERY_SECONDS_MAX, EVERY_SECONDS_MIN, KEEP_DAYS_MAX, KEEP_MAX, PEERS_VERSION, Peer,
    PeersDocument, REPLICATE_PROPERTY, REPLICATE_STATE_PROPERTY, REPLICATION_PEERS_PROPERTY,
    ReplicateDocument, ReplicateState, ReplicatedView, ReplicationView, Retention,
};
use control::{Answer, Failure, FailureKind};
use engine::dataset::Snapshots;
use serde::Serialize;
use serde::de::DeserializeOwned;
use units::VolumeName;

use super::{bases, copies, health, key, now_unix_s, promote, receiver, sender, under_way};
use crate::Context;
use crate::documents::{All, Documents};

/// Maximum number of peer pools; their list must fit into a property.
const PEERS_MAX: usize = 24;

/// Performs one request.
pub fn perform(
    context: &Context<'_>,
    request: ReplicateRequest,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    match request {
        ReplicateRequest::Identity => {
            key::identity(context)?;
            view(context)
        }
        ReplicateRequest::RotateKey => key::rotate(context),
        ReplicateRequest::Accept(Accept(peer)) => accept(context, peer),
        ReplicateRequest::Revoke(Revoke { fingerprint }) => {
            let mut document = peers(context)?;
            let before = document.peers.len();
            document
                .peers
                .retain(|peer| peer.fingerprint != fingerprint);
            if document.peers.len() == before {
                return Ok(Done::already(format!("{fingerprint} is not accepted")));
            }
            store(
                context,
                &root(context),
                REPLICATION_PEERS_PROPERTY,
                &document,
            )?;
            receiver::end_all_of(&fingerprint);
            Ok(Done::changed(format!(
                "{fingerprint} is not accepted any more"
            )))
        }
        ReplicateRequest::Set(Set { dataset, document }) => set(context, &dataset, document),
        ReplicateRequest::Remove(Remove { dataset }) => {
            let all = context.all()?;
            let own = all.own(dataset.as_str());
            // An unreadable document can still be removed.
            if !own.is_some_and(|own| own.contains_key(REPLICATE_PROPERTY)) {
                return Ok(Done::already(format!("{dataset} is not replicated")));
            }
            let document = document_of(context, &dataset);
            let gone = [REPLICATE_PROPERTY, REPLICATE_STATE_PROPERTY];
            let gone = gone.map(|name| (name.to_owned(), None));
            context.edit(dataset.as_str(), gone.into())?;
            if let Ok(Some(document)) = document {
                if let Err(failure) = bases::forget_bookmarks(context, &dataset, &document) {
                    tracing::warn!(%dataset, %failure, "bookmarks of replication stay");
                }
            }
            Ok(Done::changed(format!(
                "{dataset} is not replicated any more"
            )))
        }
        ReplicateRequest::List => view(context),
        ReplicateRequest::Promote(Promote {
            dataset,
            original_is_lost,
        }) => promote::perform(context, &dataset, original_is_lost),
        ReplicateRequest::Run(Run { dataset }) => {
            let document = document_of(context, &dataset)?.ok_or_else(|| {
                let advice = format!("`bulkhead replicate set {dataset}` sets the destination");
                Failure::not_found(format!("{dataset} is not replicated")).advise(advice)
            })?;
            let bytes = sender::run(context, &dataset, &document, progress)?;
            let size = control::words::bytes(bytes);
            Ok(Done::changed(format!(
                "replicated {dataset} to {}: {size}",
                document.to
            )))
        }
    }
}

fn root(context: &Context<'_>) -> String {
    context.pool.name().to_string()
}

/// The value of a property of `dataset`.
pub fn load<T: DeserializeOwned>(
    all: &All,
    dataset: &str,
    property: &str,
) -> Result<Option<T>, Failure> {
    let Some(text) = all.own(dataset).and_then(|own| own.get(property)) else {
        return Ok(None);
    };
    serde_json::from_str(text).map(Some).map_err(|error| {
        let message = format!("property {property} of {dataset} cannot be read: {error}");
        Failure::new(FailureKind::Failed, message)
            .advise("a newer version may have written it; set it again to replace it")
    })
}

fn store(
    context: &Context<'_>,
    dataset: &str,
    property: &str,
    document: &impl Serialize,
) -> Result<(), Failure> {
    let text = serde_json::to_string(document).expect("documents are JSON");
    context.edit(dataset, vec![(property.to_owned(), Some(text))])
}

/// Returns the peers that can replicate into the pool.
pub fn peers(context: &Context<'_>) -> Result<PeersDocument, Failure> {
    let found = load(&*context.all()?, &root(context), REPLICATION_PEERS_PROPERTY)?;
    let mut document: PeersDocument = found.unwrap_or_default();
    if document.version < PEERS_VERSION {
        // A peer of an older version retains its permission to replicate file systems after an
        // upgrade.
        document.peers.iter_mut().for_each(|peer| peer.files = true);
        document.version = PEERS_VERSION;
    }
    Ok(document)
}

fn accept(context: &Context<'_>, peer: Peer) -> Result<Answer, Failure> {
    if peer.below.pool() != *context.pool.name() {
        return Err(Failure::usage(format!("{} is in another pool", peer.below)));
    }
    let Retention { newest, days } = peer.retention;
    if !(1..=KEEP_MAX).contains(&newest) || days > KEEP_DAYS_MAX {
        return Err(Failure::usage(format!(
            "keep 1 to {KEEP_MAX} snapshots, and those of {KEEP_DAYS_MAX} days at most"
        )));
    }
    let mut document = peers(context)?;
    if document.peers.contains(&peer) {
        return Ok(Done::already(format!(
            "{} is accepted already",
            peer.fingerprint
        )));
    }
    let is_same = |other: &Peer| other.fingerprint == peer.fingerprint && other.below == peer.below;
    document.peers.retain(|other| !is_same(other));
    if document.peers.len() >= PEERS_MAX {
        let message = format!("{PEERS_MAX} pools are accepted already");
        return Err(Failure::new(FailureKind::Failed, message).advise("revoke one"));
    }
    let message = format!("{} may replicate below {}", peer.fingerprint, peer.below);
    document.peers.push(peer);
    store(
        context,
        &root(context),
        REPLICATION_PEERS_PROPERTY,
        &document,
    )?;
    Ok(Done::changed(message))
}

fn set(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: ReplicateDocument,
) -> Result<Answer, Failure> {
    let every = document.every_s.unwrap_or(EVERY_SECONDS_MIN);
    if !(EVERY_SECONDS_MIN..=EVERY_SECONDS_MAX).contains(&every) {
        return Err(Failure::usage("replicate every 10 seconds to 366 days"));
    }
    if !(1..=KEEP_MAX).contains(&document.keep) {
        return Err(Failure::usage(format!("keep 1 to {KEEP_MAX} snapshots")));
    }
    let exists = context.pool.dataset(dataset.into());
    exists.map_err(crate::dataset_failure)?;
    // An unreadable document is replaced.
    if matches!(document_of(context, dataset), Ok(Some(before)) if before == document) {
        return Ok(Done::already(format!("{dataset} is replicated so already")));
    }
    if !document.raw && !document.decrypt {
        refuse_encrypted(context, dataset)?;
    }
    let left_out = left_out(context, dataset)?;
    let fingerprint = key::identity(context)?.fingerprint;
    let state = ReplicateState {
        version: 1,
        since_unix_s: now_unix_s(),
        failure: None,
        ..state_of(context, dataset)
    };
    let text = |value: Result<String, serde_json::Error>| value.expect("documents are JSON");
    let rule = text(serde_json::to_string(&document));
    let state = text(serde_json::to_string(&state));
    let edits = [
        (REPLICATE_PROPERTY, rule),
        (REPLICATE_STATE_PROPERTY, state),
    ];
    let edits = edits.map(|(name, value)| (name.to_owned(), Some(value)));
    context.edit(dataset.as_str(), edits.into())?;
    Ok(Done::changed(format!(
        "{dataset} is replicated to {} at {}; there, accept {fingerprint}{left_out}",
        document.into, document.to
    )))
}

/// Refuses a destination that would store the encrypted datasets at or below `dataset` without
/// encryption.
pub fn refuse_encrypted(context: &Context<'_>, dataset: &VolumeName) -> Result<(), Failure> {
    let keys = crate::encrypted_datasets(context.pool)?;
    let is_meant = |name: &str| {
        let name = name.parse::<VolumeName>();
        name.is_ok_and(|name| name.is_at_or_below(dataset))
    };
    let mut encrypted = keys
        .iter()
        .filter(|key| key.root.is_some() && is_meant(&key.dataset));
    let Some(first) = encrypted.next() else {
        return Ok(());
    };
    let message = format!(
        "{} is encrypted, and would be sent decrypted: the receiver stores it like any unencrypted dataset",
        first.dataset
    );
    Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "set it with --raw, so that it stays encrypted and the receiver needs no key; or with --decrypt if you intend that",
    ))
}

/// Describes the file systems with files that are not replicated because they are not shared.
fn left_out(context: &Context<'_>, dataset: &VolumeName) -> Result<String, Failure> {
    let all = context.pool.datasets(dataset.into(), Snapshots::Skip);
    let all = all.map_err(crate::dataset_failure)?;
    let shares = crate::filesystem::shares(context)?;
    let contents = crate::datasets::Contents::of(&all);
    let names: Vec<&str> = all
        .iter()
        .filter(|info| info.volume.is_none() && contents.has(info) && shares.of(info).is_none())
        .map(|info| info.name.as_str())
        .collect();
    Ok(match names.is_empty() {
        true => String::new(),
        false => format!(
            "; not replicated, because not shared: {}",
            crate::loss::some_of(&names)
        ),
    })
}

/// Where `dataset` is replicated to.
pub fn document_of(
    context: &Context<'_>,
    dataset: &VolumeName,
) -> Result<Option<ReplicateDocument>, Failure> {
    load(&*context.all()?, dataset.as_str(), REPLICATE_PROPERTY)
}

/// How it went.
pub fn state_of(context: &Context<'_>, dataset: &VolumeName) -> ReplicateState {
    let load = |all: &All| load(all, dataset.as_str(), REPLICATE_STATE_PROPERTY);
    let found = context.all().and_then(|all| load(&all));
    found.ok().flatten().unwrap_or_default()
}

/// Stores the result of a run.
pub fn keep_state(
    context: &Context<'_>,
    dataset: &VolumeName,
    state: &ReplicateState,
) -> Result<(), Failure> {
    store(context, dataset.as_str(), REPLICATE_STATE_PROPERTY, state)
}

/// Returns all replicated datasets. Unreadable documents are left out: `health` reports them.
pub fn replicated(context: &Context<'_>) -> Result<Vec<(VolumeName, ReplicateDocument)>, Failure> {
    let all = context.all()?;
    let mut found = Vec::new();
    for name in all.with_property(REPLICATE_PROPERTY) {
        let Ok(name) = name.parse::<VolumeName>() else {
            continue;
        };
        if let Ok(Some(document)) = document_of(context, &name) {
            found.push((name, document));
        }
    }
    Ok(found)
}

fn view(context: &Context<'_>) -> Result<Answer, Failure> {
    let now = now_unix_s();
    let running = under_way::now();
    let one = |(dataset, document): (VolumeName, ReplicateDocument)| {
        let state = state_of(context, &dataset);
        ReplicatedView {
            under_way: running
                .as_ref()
                .filter(|run| run.dataset == dataset)
                .map(ToString::to_string),
            lag_s: health::lag_s(&state, now),
            dataset,
            document,
            state,
        }
    };
    Ok(Answer::Replication(Box::new(ReplicationView {
        pool: context.pool.name().clone(),
        fingerprint: key::fingerprint_of(context)?,
        peers: peers(context)?.peers,
        replicated: replicated(context)?.into_iter().map(one).collect(),
        copies: copies::views(context)?,
    })))
}
