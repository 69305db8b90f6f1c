//! Requests about streams of snapshots.

use std::os::fd::OwnedFd;

use control::exports::{HANDLE_KEY_PROPERTY, PROPERTY_PREFIX};
use control::failure::chain;
use control::operations::transfer::TransferRequest;
use control::operations::transfer::abort::Abort;
use control::operations::transfer::bookmark::Bookmark;
use control::operations::transfer::interrupted::Interrupted;
use control::operations::transfer::receive::Receive;
use control::operations::transfer::send::Send;
use control::request::Properties;
use control::transfer::{InterruptedView, SendWhat, TransferView};
use control::{Answer, Failure, FailureKind};
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetKind, Value};
use engine::transfer::{
    Base, ReceiveSpec, Received, SendForm, SendSpec, StreamFault, TransferError, TransferErrorKind,
};
use units::VolumeName;

use super::documents::{Documents, Edits, export_document, new_identity};
use super::{Context, directory_names, failures, filesystem, volume};
use crate::needs;
use crate::stream::{Meter, Stream};

/// Prefix of Bulkhead properties that arrived with a received volume: stored, without effect.
pub const SOURCE_PREFIX: &str = "bulkhead-source:";

/// Bytes of the first record of a stream, by which it is recognised.
const FIRST_RECORD_BYTES: u64 = 312;

/// The stream that a request is about.
pub struct Data<'a> {
    /// To be read or written.
    pub descriptor: OwnedFd,
    /// Returns whether the requester has disconnected.
    pub is_abandoned: &'a dyn Fn() -> bool,
}

/// Performs one request.
pub fn perform(
    context: &Context<'_>,
    request: TransferRequest,
    data: Option<Data<'_>>,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let with = |data: Option<_>| {
        data.ok_or_else(|| {
            Failure::usage("a stream needs a descriptor that comes with the request")
        })
    };
    match request {
        TransferRequest::Send(request) if request.estimate => estimate(context, &request),
        TransferRequest::Send(request) => send(context, &request, with(data)?, progress),
        TransferRequest::Receive(request) => receive(context, &request, with(data)?, progress),
        TransferRequest::Interrupted(Interrupted { volume }) => interrupted(context, &volume),
        TransferRequest::Abort(Abort { volume }) => {
            let aborted = needs(context.pool.receiving())?.abort_receive(&volume);
            context.documents.changed(volume.as_str());
            aborted.map_err(failure)?;
            let message = format!("forgot the interrupted receive of {volume}");
            Ok(control::answer::Done::changed(message))
        }
        TransferRequest::Bookmark(Bookmark { snapshot, mark }) => {
            let made = needs(context.pool.sending())?.create_bookmark(&snapshot, &mark);
            made.map_err(failure)?;
            let message = format!("created bookmark {}#{mark}", snapshot.volume());
            Ok(control::answer::Done::changed(message))
        }
    }
}

/// Returns the stream to send, and the bytes of it that arrived earlier.
fn spec_of(context: &Context<'_>, what: &SendWhat) -> Result<(SendSpec, u64), Failure> {
    match what {
        SendWhat::Rest { token } => {
            let token = needs(context.pool.sending())?
                .parse_token(token)
                .map_err(failure)?;
            let spec = needs(context.pool.sending())?
                .resumed_send(&token)
                .map_err(failure)?;
            Ok((spec, token.bytes))
        }
        SendWhat::Snapshot {
            name,
            from,
            raw,
            embedded,
            plain,
        } => {
            let base = from.as_deref().map(|text| {
                let base = Base::parse(&name.volume(), text);
                base.map_err(|error| Failure::usage(error.to_string()))
            });
            let form = match (*raw, *plain) {
                (true, _) => SendForm::RAW,
                (false, true) => SendForm {
                    embedded: *embedded,
                    large_blocks: false,
                    compressed: false,
                    raw: false,
                },
                (false, false) => SendForm {
                    embedded: *embedded,
                    ..SendForm::default()
                },
            };
            let spec = SendSpec {
                snapshot: name.clone(),
                base: base.transpose()?,
                form,
                resume: None,
            };
            Ok((spec, 0))
        }
    }
}

fn estimate(context: &Context<'_>, request: &Send) -> Result<Answer, Failure> {
    let (spec, before) = spec_of(context, &request.what)?;
    let bytes = needs(context.pool.sending())?
        .send_estimate(&spec)
        .map_err(|error| send_failure(context, &spec, error))?;
    Ok(Answer::Transfer(TransferView {
        snapshots: vec![spec.snapshot.to_string()],
        bytes: bytes.saturating_sub(before),
        elapsed_ms: 0,
        is_estimate: true,
    }))
}

/// Why a stream is stopped from this side.
fn reason_to_stop(context: &Context<'_>, data: &Data<'_>) -> Option<&'static str> {
    if context.hooks.is_ending() {
        return Some("the pool is being let go of");
    }
    (data.is_abandoned)().then_some("the command that requested it has exited")
}

fn send(
    context: &Context<'_>,
    request: &Send,
    data: Data<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let (spec, before) = spec_of(context, &request.what)?;
    let total = needs(context.pool.sending())?
        .send_estimate(&spec)
        .map_err(|error| send_failure(context, &spec, error))?;
    let descriptor = data.descriptor.try_clone().map_err(no_descriptor)?;
    let stop = || reason_to_stop(context, &data);
    let meter = Meter::new(progress, Some(total), before);
    let mut stream = Stream::new(descriptor, meter, &stop);
    let bytes = needs(context.pool.sending())?
        .send(&spec, &mut stream)
        .map_err(|error| send_failure(context, &spec, error))?;
    Ok(Answer::Transfer(TransferView {
        snapshots: vec![spec.snapshot.to_string()],
        bytes,
        elapsed_ms: stream.meter.elapsed().as_millis() as u64,
        is_estimate: false,
    }))
}

/// Names the base instead of the snapshot if only the base is missing.
fn send_failure(context: &Context<'_>, spec: &SendSpec, mut error: TransferError) -> Failure {
    let is_missing = matches!(
        error.kind,
        TransferErrorKind::Dataset(DatasetErrorKind::NotFound)
    );
    let is_here = || context.pool.dataset((&spec.snapshot).into()).is_ok();
    let is_of_base = is_missing && spec.base.is_some() && is_here();
    if !is_of_base {
        return failure(error);
    }
    let (snapshot, base) = (error.dataset.clone(), spec.base_name().to_owned());
    error.dataset = base.clone();
    let volume = spec.snapshot.volume();
    let failure = failure(error);
    let message = format!("send the changes to {snapshot}: its base {base} does not exist");
    Failure { message, ..failure }.advise(format!(
        "`bulkhead snapshot list {volume}` and `bulkhead snapshot bookmarks {volume}` list the possible bases"
    ))
}

fn no_descriptor(error: std::io::Error) -> Failure {
    Failure::new(FailureKind::Failed, format!("use the stream: {error}"))
}

fn receive(
    context: &Context<'_>,
    request: &Receive,
    data: Data<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let descriptor = data.descriptor.try_clone().map_err(no_descriptor)?;
    let stop = || reason_to_stop(context, &data);
    let meter = Meter::new(progress, None, 0);
    let mut stream = Stream::new(descriptor, meter, &stop);
    let received = receive_from(context, request, false, &mut stream)?;
    Ok(Answer::Transfer(TransferView {
        snapshots: received.snapshots.iter().map(ToString::to_string).collect(),
        bytes: received.bytes,
        elapsed_ms: stream.meter.elapsed().as_millis() as u64,
        is_estimate: false,
    }))
}

/// Receives the stream of `source`. A new volume gets a new identity and no exports. A new file system is not shared,
/// whatever it would inherit.
pub fn receive_from(
    context: &Context<'_>,
    request: &Receive,
    only_volumes: bool,
    source: &mut dyn std::io::Read,
) -> Result<Received, Failure> {
    let (is_new, parents) = {
        let _alone = context.hooks.alone();
        let parents = context.make_parents(&request.volume, request.parents)?;
        (prepare(context, request)?, parents)
    };
    let spec = ReceiveSpec {
        volume: request.volume.clone(),
        tag: request.tag.clone(),
        force: request.force,
        resumable: request.resumable,
        only_volumes,
    };
    let (name, identity) = new_identity()?;
    let initial = |kind: DatasetKind, said: &[(String, String)]| {
        let own = match kind {
            DatasetKind::Volume => identity.clone().map(|text| (name.clone(), text)),
            DatasetKind::Filesystem | DatasetKind::Other => {
                Some((filesystem::SHARE.to_owned(), filesystem::OFF.to_owned()))
            }
        };
        let mut initial = volume::values(&kept(said));
        initial.extend(own.map(|(name, text)| (name, Value::Text(text))));
        initial
    };
    let mut source = Counted { source, count: 0 };
    let received = needs(context.pool.receiving())?.receive(&spec, &initial, &mut source);
    let _alone = context.hooks.alone();
    context.documents.changed(request.volume.as_str());
    let received = received.map_err(|error| with_token(context, request, source.count, error))?;
    parents.keep();
    if !is_new {
        keep_properties(context, &request.volume, &received.properties)?;
    }
    context.documents.changed(request.volume.as_str());
    Ok(received)
}

/// Refuses a dataset in use, and replays its intent log. Returns whether it is new.
fn prepare(context: &Context<'_>, request: &Receive) -> Result<bool, Failure> {
    let name = &request.volume;
    directory_names::refuse_taken(context, name)?;
    let is_new = match needs(context.pool.receiving())?
        .interrupted(name)
        .map_err(failure)?
    {
        Some(left) => left.is_partial,
        None => match context.pool.dataset(name.into()) {
            Ok(_) => false,
            Err(error) if error.kind == DatasetErrorKind::NotFound => true,
            Err(error) => return Err(failures::dataset(error)),
        },
    };
    if is_new {
        return Ok(true);
    }
    let info = context.pool.dataset(name.into());
    filesystem::refuse_change_under_clients(context, &info.map_err(failures::dataset)?)?;
    let all = context.all()?;
    let mut of_it = all.volumes().filter(|facts| facts.name == *name);
    let is_exported = |facts| !export_document(facts).is_ok_and(|d| d.is_empty());
    if of_it.any(is_exported) {
        let message =
            format!("{name} is exported, and its contents would change under its clients");
        return Err(Failure::new(FailureKind::Busy, message)
            .advise("unmap or unexport it first, or receive into another volume"));
    }
    drop(context.close(name));
    if let Ok(logs) = context.pool.logs() {
        if logs.is_unreplayed(name).map_err(failures::dataset)? {
            logs.replay(name).map_err(failures::dataset)?;
        }
    }
    Ok(false)
}

/// The sender's properties, those of ours under names without effect, in which its key would be readable.
fn kept(properties: &[(String, String)]) -> Properties {
    let others = properties
        .iter()
        .filter(|(name, _)| name != HANDLE_KEY_PROPERTY);
    let kept = others.map(|(name, value)| {
        let own = name.strip_prefix(PROPERTY_PREFIX);
        let name = own.map_or(name.clone(), |own| format!("{SOURCE_PREFIX}{own}"));
        (name, value.clone())
    });
    kept.collect()
}

/// Stores the properties of the sender's volume. Exports and identities are stored without effect,
/// because two volumes with one identity must not be on one network.
pub fn keep_properties(
    context: &Context<'_>,
    name: &VolumeName,
    properties: &[(String, String)],
) -> Result<(), Failure> {
    let kept = kept(properties);
    if kept.is_empty() {
        return Ok(());
    }
    let set = context
        .pool
        .set_dataset_properties(name.into(), &volume::values(&kept));
    set.map_err(failures::dataset)
}

/// Like [`keep_properties`], and removes stored properties that the sender no longer sends.
pub fn replace_properties(
    context: &Context<'_>,
    name: &VolumeName,
    properties: &[(String, String)],
) -> Result<(), Failure> {
    keep_properties(context, name, properties)?;
    let kept = context.pool.own_user_properties(name.into(), SOURCE_PREFIX);
    let said = |kept: &str| {
        let mut names = properties
            .iter()
            .map(|(name, _)| name.strip_prefix(PROPERTY_PREFIX));
        names.any(|name| name.is_some() && name == kept.strip_prefix(SOURCE_PREFIX))
    };
    let kept = kept.map_err(failures::dataset)?.into_keys();
    let stale: Edits = kept
        .filter(|kept| !said(kept))
        .map(|kept| (kept, None))
        .collect();
    match stale.is_empty() {
        true => Ok(()),
        false => context.edit(name.as_str(), stale),
    }
}

/// A stream with the number of bytes that were read from it.
struct Counted<'a> {
    source: &'a mut dyn std::io::Read,
    count: u64,
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}

/// A stream that ended within its first record.
fn too_short(volume: &VolumeName, bytes: u64) -> Failure {
    let why = match bytes {
        0 => "the stream is empty".to_owned(),
        bytes => format!("this is no ZFS send stream: it has only {bytes} bytes"),
    };
    Failure::new(FailureKind::Failed, format!("receive {volume}: {why}"))
        .advise("check whether the sender reported an error, and send it again")
}

/// Returns a failure, with advice on the resume token if there is one. `count`: the bytes that were read.
fn with_token(
    context: &Context<'_>,
    request: &Receive,
    count: u64,
    error: TransferError,
) -> Failure {
    let is_cut = matches!(&error.kind, TransferErrorKind::Stream(stream) if stream.fault == StreamFault::Cut);
    if is_cut && count < FIRST_RECORD_BYTES {
        return too_short(&request.volume, count);
    }
    let failure = failure(error);
    let receiving = context.pool.receiving().ok();
    let left = receiving.and_then(|receiving| receiving.interrupted(&request.volume).ok());
    match left.flatten().and_then(|left| left.token) {
        Some(_) if failure.advice.is_none() => failure.advise(format!(
            "resume with `bulkhead snapshot send --resume TOKEN`; `bulkhead snapshot receive {} \
             --token` prints it",
            request.volume
        )),
        None if is_cut && failure.advice.is_none() => failure.advise(
            "send it again from its start; with --resumable the received part is kept for a resume",
        ),
        _ => failure,
    }
}

fn interrupted(context: &Context<'_>, volume: &VolumeName) -> Result<Answer, Failure> {
    let left = needs(context.pool.receiving())?
        .interrupted(volume)
        .map_err(failure)?;
    Ok(Answer::Interrupted(match left {
        Some(left) => InterruptedView {
            volume: volume.to_string(),
            token: left.token,
            is_partial: left.is_partial,
        },
        None => InterruptedView {
            volume: volume.to_string(),
            ..InterruptedView::default()
        },
    }))
}

/// A transfer that failed.
pub fn failure(error: TransferError) -> Failure {
    use TransferErrorKind as Kind;
    let kind = match &error.kind {
        Kind::Dataset(kind) => {
            return failures::dataset(DatasetError {
                doing: error.doing,
                dataset: error.dataset,
                kind: kind.clone(),
                cause: None,
            });
        }
        Kind::Stream(stream)
            if matches!(
                stream.fault,
                StreamFault::Cut | StreamFault::Read | StreamFault::Write
            ) =>
        {
            FailureKind::Failed
        }
        Kind::OfFiles => FailureKind::Denied,
        Kind::Stream(_)
        | Kind::FeatureMissing
        | Kind::LargeBlocksSplit
        | Kind::SnapshotName(_)
        | Kind::NotAVolume
        | Kind::Token(_) => FailureKind::Usage,
        Kind::NoBase | Kind::Diverged | Kind::Exists | Kind::EncryptionDiffers => {
            FailureKind::Exists
        }
        Kind::NotAncestor => FailureKind::Usage,
        Kind::Partial => FailureKind::Busy,
        Kind::NothingPartial | Kind::TokenSnapshotGone => FailureKind::NotFound,
        Kind::Sink | Kind::Library => FailureKind::Failed,
    };
    let advice = match &error.kind {
        Kind::Diverged => Some("--force throws the changes away".to_owned()),
        Kind::OfFiles => Some(
            "if the sender is trusted with this head: `bulkhead replicate accept … --files` on the pool that receives"
                .to_owned(),
        ),
        Kind::Partial => {
            let name = error.dataset.split('@').next().unwrap_or_default();
            Some(format!(
                "`bulkhead snapshot receive {name} --token` prints the token; `bulkhead snapshot receive {name} --abort` \
                 discards the received part"
            ))
        }
        _ => None,
    };
    // A specific error kind does not need the library's message.
    let is_clear = match &error.kind {
        Kind::Sink | Kind::Library => false,
        Kind::Stream(stream) => !matches!(stream.fault, StreamFault::Read | StreamFault::Write),
        _ => true,
    };
    let message = if is_clear {
        error.to_string()
    } else {
        chain(&error)
    };
    let failure = Failure::new(kind, message);
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}
