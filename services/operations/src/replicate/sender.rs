//! The sending side: creates a snapshot of all replicated volumes at once, queries the state of the
//! copies, and sends the differences.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use certificates::UnpinnedCertificate;
use control::exports::{
    AccessRule, EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, TargetDocument, target_property,
};
use control::replication::{
    RESERVED_PROPERTY, ReplicateDocument, ReplicateState, ReservedDocument,
};
use control::{Failure, FailureKind};
use engine::dataset::{DatasetInfo, DatasetKind, Snapshots};
use engine::transfer::{Base, Bookmark, SendForm, SendSpec, TransferErrorKind};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use units::{SnapshotName, VolumeName};

use super::bases;
use super::documents;
use super::key;
use super::under_way::Turn;
use super::wire::{self, FromReceiver, FromSender, List, Listed, Offer, Present};
use super::{SHARE_PROPERTY, now_unix_s};
use crate::documents::{Documents, target_document};
use crate::needs;
use crate::stream::Meter;
use crate::{Context, filesystem};

/// Name prefix of the snapshots that replication creates; seconds since 1970 follow.
pub const TAG_PREFIX: &str = "repl-";
/// Bytes per write to TLS.
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of interrupted streams that one run completes before it sends its own snapshot.
const RESUMES_MAX: usize = 4;
/// Consecutive broken connections after which the run fails.
const BROKEN_MAX: usize = 3;
/// Volumes that the failure of a run names.
const FAILURES_NAMED_MAX: usize = 3;
/// Maximum length of a stored failure.
const FAILURE_CHARS_MAX: usize = 1_500;
/// Tags that are further ahead of the clock are never the next.
const AHEAD_SECONDS_MAX: u64 = 366 * 24 * 3600;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Replicates `dataset` now, and stores the result. Returns the bytes sent.
pub fn run(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: &ReplicateDocument,
    progress: &mut dyn FnMut(&str),
) -> Result<u64, Failure> {
    let turn = Turn::take(dataset)?;
    let began = now_unix_s();
    let run = run_once(context, dataset, document, began, &turn, progress);
    let (bytes, outcome) = match run {
        Ok(run) => (run.bytes, run.failure().map_or(Ok(run.bytes), Err)),
        Err(failure) => (0, Err(failure)),
    };
    let before = documents::state_of(context, dataset);
    let bytes_total = before.bytes_total.saturating_add(bytes);
    let state = match &outcome {
        Ok(bytes) => ReplicateState {
            version: 1,
            attempted_unix_s: began,
            succeeded_unix_s: began,
            bytes: *bytes,
            bytes_total,
            failure: None,
            ..before
        },
        Err(failure) => ReplicateState {
            version: 1,
            attempted_unix_s: began,
            bytes_total,
            failure: Some(shortened(&failure.message)),
            ..before
        },
    };
    let _alone = context.hooks.alone();
    // A rule that was removed concurrently has no state any more.
    if documents::document_of(context, dataset)?.is_some() {
        if let Err(failure) = documents::keep_state(context, dataset, &state) {
            tracing::warn!(%dataset, %failure, "how the replication went is not kept");
            return outcome.and(Err(failure));
        }
    }
    outcome
}

/// A property has an end.
fn shortened(message: &str) -> String {
    match message.char_indices().nth(FAILURE_CHARS_MAX) {
        None => message.to_owned(),
        Some((at, _)) => format!("{} ...", &message[..at]),
    }
}

/// The bytes that a run sent, and its failures.
#[derive(Default)]
struct Run {
    bytes: u64,
    /// All volumes, including those that did not arrive.
    count: usize,
    failed: Vec<(VolumeName, Failure)>,
}

impl Run {
    fn failed(&mut self, volume: &VolumeName, failure: Failure) {
        tracing::warn!(%volume, %failure, "a volume is not replicated");
        self.failed.push((volume.clone(), failure));
    }

    /// Merges all failures into one; a single failure is returned unchanged.
    fn failure(&self) -> Option<Failure> {
        let (volume, first) = self.failed.first()?;
        let are_same = self
            .failed
            .iter()
            .all(|(_, failure)| failure.message == first.message);
        if are_same && self.failed.len() == self.count {
            return Some(first.clone());
        }
        let named = self.failed.iter().take(FAILURES_NAMED_MAX);
        let named: Vec<String> = named
            .map(|(volume, failure)| format!("{volume}: {}", failure.message))
            .collect();
        let more = match self.failed.len().saturating_sub(FAILURES_NAMED_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let message = format!(
            "{} of {} were not replicated: {}{more}",
            self.failed.len(),
            self.count,
            named.join("; ")
        );
        let advice = first.advice.as_ref();
        let advice = advice.map(|advice| format!("{volume}: {advice}"));
        Some(Failure {
            message,
            advice,
            ..first.clone()
        })
    }
}

/// Replicates each volume. A failure of one does not affect the rest.
fn run_once(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: &ReplicateDocument,
    began: u64,
    turn: &Turn,
    progress: &mut dyn FnMut(&str),
) -> Result<Run, Failure> {
    let volumes = volumes_of(context, dataset)?;
    let copies = super::copies(context)?;
    let mut run = Run {
        count: volumes.len(),
        ..Run::default()
    };
    let mut session = Session::new(context, document);
    session.tls()?;
    let (originals, received): (Vec<_>, Vec<_>) =
        volumes.iter().partition(|volume| !copies.contains(*volume));
    // No snapshot is created while no receiver would accept it.
    let mut asked = Vec::new();
    let mut tags = BTreeSet::new();
    let mut takes_lists = false;
    for volume in originals {
        let ready = into_of(dataset, document, volume)
            .and_then(|into| session.query_copy(&into))
            .and_then(|present| {
                refuse_other_formats(context, &present)?;
                refuse_decryption(context, document, volume, &present)?;
                bases::forget_failed(context, volume, document, &present)?;
                Ok(present)
            });
        match ready {
            Ok(present) => {
                tags.extend(present.tags);
                takes_lists |= present.takes_lists;
                asked.push(volume.clone());
            }
            Err(failure) => {
                session.reset(&failure);
                run.failed(volume, failure);
            }
        }
    }
    if takes_lists {
        let listed = listed(context, dataset, document, &volumes)?;
        if let Err(failure) = session.list(listed) {
            // The copies have priority: the next run sends the list again.
            tracing::warn!(%dataset, %failure, "the receiver does not know which volumes there are");
            session.reset(&failure);
        }
    }
    let tag = free_tag(context, dataset, began, &tags)?;
    let mut ways = take_snapshots(context, asked, document, &tag, &mut run)?;
    for volume in received {
        // A received volume is forwarded as it arrived: a local snapshot would prevent the next incremental receive.
        match bases::newest_arrived(context, volume)? {
            Some(info) => ways.push((volume.clone(), parse(&info.name)?)),
            None => {
                let message = format!("nothing of {volume} has arrived yet, of which it is a copy");
                run.failed(volume, Failure::new(FailureKind::NotFound, message));
            }
        }
    }
    let mut told = |text: &str| {
        turn.set_progress(text);
        progress(text);
    };
    for (number, (volume, snapshot)) in (1..).zip(&ways) {
        turn.begin(volume, number, ways.len());
        let sent = into_of(dataset, document, volume).and_then(|into| {
            let one = One {
                context,
                dataset,
                document,
                volume,
                into,
                snapshot: snapshot.clone(),
                is_copy: copies.contains(volume),
            };
            one.replicate(&mut session, &mut told, &mut run.bytes)
        });
        if let Err(failure) = sent {
            session.reset(&failure);
            run.failed(volume, failure);
        }
    }
    session.end();
    Ok(run)
}

/// Returns the destination of a volume.
fn into_of(
    dataset: &VolumeName,
    document: &ReplicateDocument,
    volume: &VolumeName,
) -> Result<VolumeName, Failure> {
    let below = &volume.as_str()[dataset.as_str().len()..];
    let into = format!("{}{below}", document.into).parse();
    into.map_err(|error: units::NameError| Failure::usage(error.to_string()))
}

/// Returns the volumes of the rule, by their names in it.
fn listed(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: &ReplicateDocument,
    volumes: &[VolumeName],
) -> Result<List, Failure> {
    let all = context.all()?;
    let identity = |volume: &VolumeName| {
        let own = all.own(volume.as_str())?.get(IDENTITY_PROPERTY)?;
        Identity::decode(IDENTITY_PROPERTY, own).ok()
    };
    let one = |volume: &VolumeName| {
        Ok(Listed {
            volume: into_of(dataset, document, volume)?,
            identity: identity(volume),
        })
    };
    Ok(List {
        from: dataset.clone(),
        volumes: volumes.iter().map(one).collect::<Result<_, Failure>>()?,
    })
}

/// Refuses a receiver with an engine that does not support our stream format.
fn refuse_other_formats(context: &Context<'_>, present: &Present) -> Result<(), Failure> {
    let format = needs(context.pool.sending())?.format();
    if present.formats.is_empty() || present.formats.iter().any(|one| one == format) {
        return Ok(());
    }
    let message = format!(
        "this pool sends by {format}, and the receiver's engine receives {} only",
        present.formats.join(" or ")
    );
    Err(Failure::new(FailureKind::Unsupported, message)
        .advise("replicate to a pool of the same engine"))
}

/// Refuses to create an unencrypted first copy of an encrypted volume, unless the rule permits it.
fn refuse_decryption(
    context: &Context<'_>,
    document: &ReplicateDocument,
    volume: &VolumeName,
    present: &Present,
) -> Result<(), Failure> {
    if document.raw || document.decrypt || !present.guids.is_empty() {
        return Ok(());
    }
    documents::refuse_encrypted(context, volume)
}

/// Returns the name of this run's snapshots: the current second, or one after the newest on either side. The receiver
/// might retain names that are free again here. A run within a second of another must not mistake that run's snapshots
/// for its own, because later writes would be missing. `there`: the snapshots of the receiver.
fn free_tag(
    context: &Context<'_>,
    dataset: &VolumeName,
    began: u64,
    there: &BTreeSet<u64>,
) -> Result<String, Failure> {
    let all = context.pool.datasets(dataset.into(), Snapshots::Include);
    let all = all.map_err(crate::dataset_failure)?;
    let here = all.iter().filter_map(|info| {
        let tag = info.name.split_once('@')?.1;
        tag.strip_prefix(TAG_PREFIX)?.parse::<u64>().ok()
    });
    let taken: BTreeSet<u64> = here.chain(there.iter().copied()).collect();
    Ok(format!("{TAG_PREFIX}{}", first_free(began, &taken)))
}

/// A number from a wrong clock, or a manual one, is ignored.
fn first_free(began: u64, taken: &BTreeSet<u64>) -> u64 {
    let bound = began.saturating_add(AHEAD_SECONDS_MAX);
    let newest = taken.range(..bound).next_back();
    let mut number = newest.map_or(began, |newest| began.max(newest + 1));
    while taken.contains(&number) {
        number += 1;
    }
    number
}

fn parse(name: &str) -> Result<SnapshotName, Failure> {
    let parsed = name.parse();
    parsed.map_err(|error: units::NameError| Failure::usage(error.to_string()))
}

/// Returns the volume or file system, and those below the dataset. An unshared file system usually only contains other
/// datasets and is skipped, unless it was shared and replicated before: then replication continues, and its copy is
/// marked as unshared.
pub fn volumes_of(context: &Context<'_>, dataset: &VolumeName) -> Result<Vec<VolumeName>, Failure> {
    let all = context.pool.datasets(dataset.into(), Snapshots::Include);
    let all = all.map_err(crate::dataset_failure)?;
    let shares = filesystem::shares(context)?;
    let sent = all.iter().filter(|info| bases::is_of_replication(info));
    let sent: BTreeSet<&str> = sent
        .filter_map(|info| info.name.split('@').next())
        .collect();
    let is_meant = |info: &&DatasetInfo| {
        !info.snapshot
            && (info.volume.is_some()
                || shares.of(info).is_some()
                || (info.kind == DatasetKind::Filesystem && sent.contains(info.name.as_str())))
    };
    let volumes = all.iter().filter(is_meant);
    let volumes: Vec<VolumeName> = volumes.filter_map(|info| info.name.parse().ok()).collect();
    match volumes.is_empty() {
        true => Err(Failure::not_found(format!(
            "there is neither a volume nor a shared file system at or below {dataset}"
        ))),
        false => Ok(volumes),
    }
}

/// Creates all snapshots at the same time, including the data of replayed intent logs. Volumes of which no snapshot can
/// be taken are left out.
fn take_snapshots(
    context: &Context<'_>,
    volumes: Vec<VolumeName>,
    document: &ReplicateDocument,
    tag: &str,
    run: &mut Run,
) -> Result<Vec<(VolumeName, SnapshotName)>, Failure> {
    let _alone = context.hooks.alone();
    let mut ways = Vec::new();
    for volume in volumes {
        let ready = parse(&format!("{volume}@{tag}")).and_then(|name| {
            crate::replay_before_snapshot(context, std::slice::from_ref(&name))?;
            Ok(name)
        });
        match ready {
            Ok(name) => ways.push((volume, name)),
            Err(failure) => run.failed(&volume, failure),
        }
    }
    let names: Vec<SnapshotName> = ways.iter().map(|(_, name)| name.clone()).collect();
    let taken = context
        .pool
        .snapshot_marked(&names, &[bases::mark(document)]);
    taken.map_err(crate::dataset_failure)?;
    Ok(ways)
}

/// Returns the space reserved for the volume, which is not part of the stream.
fn reserved(info: &DatasetInfo) -> Option<(String, String)> {
    let document = ReservedDocument {
        version: 1,
        refreservation: info.refreservation.get(),
        reservation: info.space.reservation.get(),
    };
    (!document.is_nothing()).then(|| {
        let value = serde_json::to_string(&document).expect("a document is JSON");
        (RESERVED_PROPERTY.to_owned(), value)
    })
}

fn connect(context: &Context<'_>, document: &ReplicateDocument) -> Result<Tls, Failure> {
    let to = &document.to;
    let unreachable = |error: io::Error| {
        let message = format!("connect to {to}: {error}");
        Failure::new(FailureKind::Unreachable, message).advise(
            "there, `bulkhead pool-server --replication ADDRESS:PORT` listens, and `bulkhead \
             replicate accept` lets this pool in",
        )
    };
    let identity = {
        let _alone = context.hooks.alone();
        key::identity(context)?
    };
    let config = identity
        .client(&document.peer)
        .map_err(Failure::of("use the key for replication"))?;
    let name = ServerName::try_from("bulkhead").expect("a name");
    let mut last = io::Error::other("the name has no address");
    for address in to.to_socket_addrs().map_err(unreachable)? {
        let stream = match TcpStream::connect_timeout(&address, wire::CONNECT_MAX) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        wire::bound(&stream).map_err(unreachable)?;
        let session = ClientConnection::new(Arc::clone(&config), name);
        let session = session.map_err(|error| unreachable(io::Error::other(error)))?;
        let mut tls = StreamOwned::new(session, stream);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).map_err(|error| {
                other_fingerprint(document, &error).unwrap_or_else(|| unreachable(error))
            })?;
        }
        return Ok(tls);
    }
    Err(unreachable(last))
}

/// The failure for a pool with another certificate than the rule names. `None` for other errors.
fn other_fingerprint(document: &ReplicateDocument, error: &io::Error) -> Option<Failure> {
    let UnpinnedCertificate(real) = UnpinnedCertificate::of(error)?;
    let ReplicateDocument { to, peer, .. } = document;
    let message = format!("the pool at {to} has the fingerprint {real}, and --peer names {peer}");
    Some(
        Failure::new(FailureKind::Unreachable, message).advise(format!(
            "compare it with the fingerprint that `bulkhead replicate list` shows there; if {real} is that of the intended pool, \
             repeat `bulkhead replicate set` with `--peer {real}`"
        )),
    )
}

/// The connection to the receiver, which closes it after each failure.
struct Session<'a> {
    context: &'a Context<'a>,
    document: &'a ReplicateDocument,
    tls: Option<Tls>,
    /// Connections in a row that broke off.
    broken: usize,
    /// Why the last one ended.
    last: Option<Failure>,
}

impl<'a> Session<'a> {
    fn new(context: &'a Context<'a>, document: &'a ReplicateDocument) -> Self {
        Self {
            context,
            document,
            tls: None,
            broken: 0,
            last: None,
        }
    }

    /// The connection, a new one if there is none. Fails at once if the receiver is gone for all.
    fn tls(&mut self) -> Result<&mut Tls, Failure> {
        let tls = match self.tls.take() {
            Some(tls) => tls,
            None => {
                let last = self.last.take();
                if let Some(last) =
                    last.filter(|_| self.broken >= BROKEN_MAX || self.context.hooks.is_ending())
                {
                    self.last = Some(last.clone());
                    return Err(last);
                }
                connect(self.context, self.document).inspect_err(|_| self.broken = BROKEN_MAX)?
            }
        };
        Ok(self.tls.insert(tls))
    }

    fn end(&mut self) {
        if let Some(mut tls) = self.tls.take() {
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
    }

    /// The receiver has closed the connection after the failure of one volume: the next volume uses a new one.
    fn reset(&mut self, failure: &Failure) {
        self.tls = None;
        self.last = Some(failure.clone());
    }

    /// Queries the state of the receiver's copy of a volume.
    fn query_copy(&mut self, into: &VolumeName) -> Result<Present, Failure> {
        let about = FromSender::About {
            version: wire::VERSION,
            volume: into.clone(),
        };
        self.send_message(&about)?;
        match self.receive_message()? {
            FromReceiver::Present(present) => Ok(present),
            FromReceiver::Failed(failure) => Err(self.receiver_failure(failure)),
            FromReceiver::Done { .. } => {
                Err(Failure::usage("the receiver sent an unexpected message"))
            }
        }
    }

    /// Has the receiver learn which volumes there are.
    fn list(&mut self, list: List) -> Result<(), Failure> {
        self.send_message(&FromSender::List(list))?;
        match self.receive_message()? {
            FromReceiver::Done { .. } => Ok(()),
            FromReceiver::Failed(failure) => Err(self.receiver_failure(failure)),
            FromReceiver::Present(_) => {
                Err(Failure::usage("the receiver sent an unexpected message"))
            }
        }
    }

    fn send_message(&mut self, what: &FromSender) -> Result<(), Failure> {
        let said = wire::send_message(self.tls()?, what);
        said.map_err(|failure| self.broken(failure))
    }

    fn receive_message(&mut self) -> Result<FromReceiver, Failure> {
        match wire::receive_message(self.tls()?) {
            Ok(Some(heard)) => {
                self.broken = 0;
                Ok(heard)
            }
            Ok(None) => {
                self.broken += 1;
                let message = format!("{} ended the connection", self.document.to);
                Err(Failure::new(FailureKind::Unreachable, message))
            }
            Err(failure) => Err(self.broken(failure)),
        }
    }

    /// A receiver that does not accept this pool reports so after the handshake.
    fn broken(&mut self, failure: Failure) -> Failure {
        self.broken += 1;
        let is_known = failure.message == wire::NOT_ACCEPTED;
        let message = format!("talk to {}: {}", self.document.to, failure.message);
        let own = key::fingerprint_of(self.context).ok().flatten();
        let own = own.map_or_else(|| "FINGERPRINT".to_owned(), |own| own.to_string());
        let accept = format!(
            "`bulkhead replicate accept {own} --below {}`",
            self.document.into
        );
        Failure { message, ..failure }.advise(match is_known {
            true => format!("there, {accept} accepts it"),
            false => format!(
                "the log of the server there has the reason; if it does not accept this pool, {accept} does"
            ),
        })
    }

    fn receiver_failure(&self, failure: Failure) -> Failure {
        let message = format!("{} says: {}", self.document.to, failure.message);
        Failure { message, ..failure }
    }
}

/// One volume on its way.
struct One<'a> {
    context: &'a Context<'a>,
    /// The dataset that has the rule.
    dataset: &'a VolumeName,
    document: &'a ReplicateDocument,
    volume: &'a VolumeName,
    into: VolumeName,
    snapshot: SnapshotName,
    /// The volume was itself received, so its received snapshots must not be destroyed here.
    is_copy: bool,
}

impl One<'_> {
    fn replicate(
        &self,
        session: &mut Session<'_>,
        progress: &mut dyn FnMut(&str),
        bytes: &mut u64,
    ) -> Result<(), Failure> {
        let mut may_resume = true;
        for _ in 0..=RESUMES_MAX {
            let mut present = session.query_copy(&self.into)?;
            if !may_resume {
                present.token = None;
            }
            let own = bases::snapshots_of(self.context, self.volume)?;
            let target = own.iter().find(|info| info.name == self.snapshot.as_str());
            if let Some(info) = target.filter(|info| present.guids.contains(&info.guid)) {
                bases::keep_bookmark(self.context, &self.snapshot, info.guid, self.document);
                if !self.is_copy {
                    bases::prune(self.context, self.volume, self.document, &own, &present);
                }
                return Ok(());
            }
            let (spec, before) = self.next(&present, &own)?;
            match self.send(session, &spec, before, progress) {
                Ok(sent) => *bytes += sent,
                // The receiver might refuse the rest of an interrupted stream. Then the stream is sent from its
                // beginning.
                Err(failure)
                    if spec.resume.is_some() && failure.kind != FailureKind::Unreachable =>
                {
                    tracing::debug!(%failure, "an interrupted stream is not resumed");
                    may_resume = false;
                    session.reset(&failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        let message = format!("{} was interrupted too often", self.volume);
        Err(Failure::new(FailureKind::Failed, message))
    }

    /// Returns the next stream to send: the rest of an interrupted one, or the changes.
    fn next(&self, present: &Present, own: &[DatasetInfo]) -> Result<(SendSpec, u64), Failure> {
        if let Some(resumed) = self.resumed(present, own) {
            return Ok(resumed);
        }
        let common = own
            .iter()
            .rev()
            .find(|info| present.guids.contains(&info.guid));
        let mark = self.bookmark(present)?;
        let base = match (common, mark) {
            // The newest common state is the base of the next stream.
            (Some(info), Some(mark)) if mark.creation_txg > info.creation_txg => {
                Base::parse(self.volume, &mark.name).ok()
            }
            (Some(info), _) => Base::parse(self.volume, &info.name).ok(),
            (None, mark) => mark.and_then(|mark| Base::parse(self.volume, &mark.name).ok()),
        };
        if base.is_none() && !present.guids.is_empty() {
            let message = format!(
                "{} and {} at {} have no snapshot in common",
                self.volume, self.into, self.document.to
            );
            return Err(Failure::new(FailureKind::Exists, message)
                .advise("replicate into another name, or destroy the volume there"));
        }
        let form = match self.document.raw {
            true => SendForm::RAW,
            false => SendForm::default(),
        };
        let spec = SendSpec {
            base,
            form,
            ..SendSpec::full(self.snapshot.clone())
        };
        Ok((spec, 0))
    }

    /// Returns the rest of an interrupted stream of this side. The receiver discards an interrupted stream that cannot
    /// be resumed, because its snapshot or base is gone, or that was sent by hand, when a new stream arrives.
    fn resumed(&self, present: &Present, own: &[DatasetInfo]) -> Option<(SendSpec, u64)> {
        let sending = self.context.pool.sending().ok()?;
        let token = sending.parse_token(present.token.as_ref()?).ok()?;
        let of_ours =
            |info: &DatasetInfo| info.guid == token.to_guid && bases::is_of_replication(info);
        own.iter().find(|info| of_ours(info))?;
        match sending.resumed_send(&token) {
            Ok(spec) => Some((spec, token.bytes)),
            Err(error) => {
                tracing::debug!(volume = %self.volume, %error, "an interrupted stream cannot be resumed");
                None
            }
        }
    }

    /// The newest bookmark of a snapshot that is there.
    fn bookmark(&self, present: &Present) -> Result<Option<Bookmark>, Failure> {
        let marks = crate::bookmarks(self.context.pool, self.volume)?;
        let common = marks
            .into_iter()
            .filter(|mark| present.guids.contains(&mark.guid));
        Ok(common.max_by_key(|mark| mark.creation_txg))
    }

    fn send(
        &self,
        session: &mut Session<'_>,
        spec: &SendSpec,
        before: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<u64, Failure> {
        let sending = needs(self.context.pool.sending())?;
        let total = sending
            .send_estimate(spec)
            .map_err(crate::transfer::failure)?;
        let offer = FromSender::Stream(Offer {
            volume: self.into.clone(),
            tag: spec.snapshot.tag().to_owned(),
            properties: self.properties()?,
            keep: self.document.keep,
            resumes: spec.resume.is_some(),
            from: Some(self.dataset.clone()),
            every_s: self.document.every_s,
        });
        session.send_message(&offer)?;
        let sent = {
            let metered = Metered {
                to: session.tls()?,
                meter: Meter::new(progress, Some(total), before),
                context: self.context,
            };
            let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, metered);
            let sent = sending.send(spec, &mut buffered);
            let flushed = buffered.flush();
            // Dropping the writer would flush its buffer into the failed stream.
            let _ = buffered.into_parts();
            sent.map_err(|error| (error.kind == TransferErrorKind::Sink, error.into()))
                .and_then(|bytes| {
                    flushed
                        .map(|()| bytes)
                        .map_err(|error| (true, error.into()))
                })
        };
        let sent: Result<u64, (bool, anyhow::Error)> = sent;
        match sent {
            Ok(_) => {}
            // The receiver might have sent the reason before it closed the connection.
            Err((true, error)) => {
                return match wire::receive_message(session.tls()?) {
                    Ok(Some(FromReceiver::Failed(failure))) => {
                        Err(session.receiver_failure(failure))
                    }
                    _ => {
                        session.broken += 1;
                        let message =
                            format!("send {} to {}: {error:#}", spec.snapshot, self.document.to);
                        Err(Failure::new(FailureKind::Unreachable, message))
                    }
                };
            }
            Err((false, error)) => {
                let message = format!("send {}: {error:#}", spec.snapshot);
                return Err(Failure::new(FailureKind::Failed, message));
            }
        }
        match session.receive_message()? {
            FromReceiver::Done { bytes } => Ok(bytes),
            FromReceiver::Failed(failure) => Err(session.receiver_failure(failure)),
            FromReceiver::Present(_) => {
                Err(Failure::usage("the receiver sent an unexpected message"))
            }
        }
    }

    /// Returns the volume's export and identity documents, and the access rules of its targets.
    /// Secrets are never sent. A target that requires them is closed at the receiver until an
    /// administrator opens it.
    fn properties(&self) -> Result<Vec<(String, String)>, Failure> {
        let all = self.context.all()?;
        let own = all.own(self.volume.as_str()).into_iter().flatten();
        let meant =
            own.filter(|(name, _)| [EXPORT_PROPERTY, IDENTITY_PROPERTY].contains(&name.as_str()));
        let mut found: Vec<_> = meant
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let info = self.context.pool.dataset(self.volume.into());
        let info = info.map_err(crate::dataset_failure)?;
        found.extend(reserved(&info));
        found.extend(self.share(&info)?);
        let mut facts = all.volumes();
        let export = facts.find(|facts| facts.name == *self.volume);
        let export = export.and_then(|facts| facts.export.as_ref()?.as_ref().ok());
        for map in export.into_iter().flat_map(|document| &document.iscsi) {
            let document = target_document(&self.context.root(), &all, &map.target);
            let Ok(Some(document)) = document else {
                continue;
            };
            let without_secrets = TargetDocument {
                access: match document.users.chap.is_empty() {
                    true => document.access,
                    false => AccessRule::default(),
                },
                ..TargetDocument::default()
            };
            let property = target_property(&map.target);
            if let Ok(value) = without_secrets.encode(&property) {
                found.push((property, value));
            }
        }
        Ok(found)
    }

    /// Returns the share property of the file system, which is not part of the stream.
    fn share(&self, info: &DatasetInfo) -> Result<Option<(String, String)>, Failure> {
        if info.volume.is_some() {
            return Ok(None);
        }
        let share = filesystem::shares(self.context)?.of(info);
        let share = share.unwrap_or_else(|| filesystem::OFF.to_owned());
        Ok(Some((SHARE_PROPERTY.to_owned(), share)))
    }
}

/// Returns whether the receiver has sent a message, which within a stream can only be a failure.
fn is_readable(socket: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(socket, PollFlags::IN)];
    let at_once = Timespec::default();
    poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Counts the bytes sent, and stops when the pool is released.
struct Metered<'a> {
    to: &'a mut Tls,
    meter: Meter<'a>,
    context: &'a Context<'a>,
}

impl Write for Metered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.context.hooks.is_ending() {
            return Err(io::Error::other("the pool is being let go of"));
        }
        if is_readable(&self.to.sock) {
            return Err(io::Error::other("the receiver does not want it"));
        }
        let count = self.to.write(bytes)?;
        self.meter.count(count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that was ahead temporarily, and a manual tag.
    #[test]
    fn next_tag_follows_existing_tags_except_far_future_ones() {
        let free = |taken: &[u64]| first_free(1_795_000_000, &taken.iter().copied().collect());
        assert_eq!(free(&[]), 1_795_000_000);
        assert_eq!(free(&[1_794_000_000]), 1_795_000_000);
        assert_eq!(free(&[1_795_000_000]), 1_795_000_001);
        assert_eq!(free(&[1_795_086_400]), 1_795_086_401);
        assert_eq!(free(&[u64::MAX, 4_000_000_000]), 1_795_000_000);
    }

    #[test]
    fn failures_are_reported_per_volume_and_common_ones_once() {
        let name = |text: &str| text.parse::<VolumeName>().expect("a name");
        let mut run = Run {
            count: 2,
            ..Run::default()
        };
        assert!(run.failure().is_none());
        run.failed(&name("tank/a"), Failure::usage("no"));
        let one = run.failure().expect("failed").message;
        assert_eq!(one, "1 of 2 were not replicated: tank/a: no");
        run.failed(&name("tank/b"), Failure::usage("no"));
        assert_eq!(run.failure().expect("failed").message, "no");
        assert!(shortened(&"é".repeat(5000)).len() < 4000);
    }
}
