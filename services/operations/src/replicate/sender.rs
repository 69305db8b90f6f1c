//! The side that sends: takes a snapshot of everything that is replicated together, asks what has
//! arrived, and sends what has not.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use control::exports::{
    AccessRule, EXPORT_PROPERTY, IDENTITY_PROPERTY, TargetDocument, target_property,
};
use control::replication::{
    RESERVED_PROPERTY, ReplicateDocument, ReplicateState, ReservedDocument,
};
use control::{Failure, FailureKind};
use engine::dataset::{DatasetInfo, Snapshots};
use engine::transfer::{Base, SendForm, SendSpec, TransferErrorKind};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use units::{SnapshotName, VolumeName};

use super::documents;
use super::key;
use super::under_way::Turn;
use super::wire::{self, FromReceiver, FromSender, Offer, Present};
use super::{SHARE_PROPERTY, now_unix_s};
use crate::documents::{Documents, target_document};
use crate::stream::Meter;
use crate::{Context, filesystem};

/// What begins the names of snapshots that replication makes; seconds since 1970 follow.
pub const TAG_PREFIX: &str = "repl-";
/// What is given to TLS at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Interrupted streams that one run may have to complete before it gets to its own snapshot.
const RESUMES_MAX: usize = 4;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Replicates `dataset` now, and keeps how that went; bytes sent.
pub fn run(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: &ReplicateDocument,
    progress: &mut dyn FnMut(&str),
) -> Result<u64, Failure> {
    let turn = Turn::take(dataset)?;
    let began = now_unix_s();
    let outcome = run_once(context, dataset, document, began, &turn, progress);
    let before = documents::state_of(context, dataset);
    let state = match &outcome {
        Ok(bytes) => ReplicateState {
            version: 1,
            attempted_unix_s: began,
            succeeded_unix_s: began,
            bytes: *bytes,
            bytes_total: before.bytes_total.saturating_add(*bytes),
            failure: None,
        },
        Err(failure) => ReplicateState {
            version: 1,
            attempted_unix_s: began,
            failure: Some(failure.message.clone()),
            ..before
        },
    };
    let _alone = context.hooks.alone();
    // One that was removed meanwhile has no state any more.
    if documents::document_of(context, dataset)?.is_some() {
        documents::keep_state(context, dataset, &state)?;
    }
    outcome
}

fn run_once(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: &ReplicateDocument,
    began: u64,
    turn: &Turn,
    progress: &mut dyn FnMut(&str),
) -> Result<u64, Failure> {
    let volumes = volumes_of(context, dataset)?;
    let tag = free_tag(context, dataset, began)?;
    let mut ways = Vec::new();
    for volume in &volumes {
        let below = &volume.as_str()[dataset.as_str().len()..];
        let into: VolumeName = format!("{}{below}", document.into)
            .parse()
            .map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
        ways.push(One {
            context,
            document,
            volume,
            into,
            snapshot: name(volume, &tag)?,
        });
    }
    let mut tls = connect(context, document)?;
    // No snapshot is taken while nobody would take it over.
    for one in &ways {
        one.ask(&mut tls)?;
    }
    take_snapshots(context, &volumes, &tag)?;
    let mut bytes = 0;
    let mut told = |text: &str| {
        turn.tell(text);
        progress(text);
    };
    for (number, one) in (1..).zip(&ways) {
        turn.begin(one.volume, number, ways.len());
        bytes += one.replicate(&mut tls, &mut told)?;
    }
    tls.conn.send_close_notify();
    let _ = tls.flush();
    Ok(bytes)
}

/// The name of this run's snapshots: its second, or the one after the newest that there is. The receiver may keep
/// names that are free again here, and a run that follows another within a second must not take that one's
/// snapshots for its own: what was written since would be missing.
fn free_tag(context: &Context<'_>, dataset: &VolumeName, began: u64) -> Result<String, Failure> {
    let all = context.pool.datasets(dataset.into(), Snapshots::Include);
    let all = all.map_err(crate::dataset_failure)?;
    let taken = all.iter().filter_map(|info| {
        let tag = info.name.split_once('@')?.1;
        tag.strip_prefix(TAG_PREFIX)?.parse::<u64>().ok()
    });
    let after = taken.max().map_or(0, |newest| newest.saturating_add(1));
    Ok(format!("{TAG_PREFIX}{}", began.max(after)))
}

fn name(volume: &VolumeName, tag: &str) -> Result<SnapshotName, Failure> {
    let full = format!("{volume}@{tag}").parse();
    full.map_err(|error: units::NameError| Failure::usage(error.to_string()))
}

/// The volume or file system, and those below the dataset. A file system that nobody shares only holds what is below it.
fn volumes_of(context: &Context<'_>, dataset: &VolumeName) -> Result<Vec<VolumeName>, Failure> {
    let all = context.pool.datasets(dataset.into(), Snapshots::Skip);
    let all = all.map_err(crate::dataset_failure)?;
    let shares = filesystem::shares(context)?;
    let volumes = all
        .iter()
        .filter(|info| info.volume.is_some() || shares.of(info).is_some());
    let volumes: Vec<VolumeName> = volumes.filter_map(|info| info.name.parse().ok()).collect();
    match volumes.is_empty() {
        true => Err(Failure::not_found(format!(
            "there is neither a volume nor a shared file system at or below {dataset}"
        ))),
        false => Ok(volumes),
    }
}

/// All at one moment, with what only their logs hold.
fn take_snapshots(context: &Context<'_>, volumes: &[VolumeName], tag: &str) -> Result<(), Failure> {
    let names: Result<Vec<_>, _> = volumes.iter().map(|volume| name(volume, tag)).collect();
    let names = names?;
    let _alone = context.hooks.alone();
    crate::replay_before_snapshot(context, &names)?;
    let taken = context.pool.snapshot(&names);
    taken.map_err(crate::dataset_failure)
}

/// The space that is set aside for the volume: no stream says so.
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
            tls.conn.complete_io(&mut tls.sock).map_err(unreachable)?;
        }
        return Ok(tls);
    }
    Err(unreachable(last))
}

/// One volume on its way.
struct One<'a> {
    context: &'a Context<'a>,
    document: &'a ReplicateDocument,
    volume: &'a VolumeName,
    into: VolumeName,
    snapshot: SnapshotName,
}

impl One<'_> {
    fn replicate(&self, tls: &mut Tls, progress: &mut dyn FnMut(&str)) -> Result<u64, Failure> {
        let mut bytes = 0;
        for _ in 0..=RESUMES_MAX {
            let present = self.ask(tls)?;
            let own = self.snapshots()?;
            let target = own.iter().find(|info| info.name == self.snapshot.as_str());
            if target.is_some_and(|info| present.guids.contains(&info.guid)) {
                self.prune(&own, &present);
                return Ok(bytes);
            }
            let (spec, before) = self.next(&present, &own)?;
            bytes += self.send(tls, &spec, before, progress)?;
        }
        let message = format!("{} was interrupted too often", self.volume);
        Err(Failure::new(FailureKind::Failed, message))
    }

    fn ask(&self, tls: &mut Tls) -> Result<Present, Failure> {
        let about = FromSender::About {
            version: wire::VERSION,
            volume: self.into.clone(),
        };
        wire::say(tls, &about).map_err(|failure| self.broken(failure))?;
        match self.hear(tls)? {
            FromReceiver::Present(present) => Ok(present),
            FromReceiver::Failed(failure) => Err(self.theirs(failure)),
            FromReceiver::Done { .. } => Err(Failure::usage("the receiver makes no sense")),
        }
    }

    fn hear(&self, tls: &mut Tls) -> Result<FromReceiver, Failure> {
        let heard = wire::hear(tls).map_err(|failure| self.broken(failure))?;
        heard.ok_or_else(|| {
            let message = format!("{} ended the connection", self.document.to);
            Failure::new(FailureKind::Unreachable, message)
        })
    }

    /// A receiver that does not know this pool says so after the handshake.
    fn broken(&self, failure: Failure) -> Failure {
        let message = format!("talk to {}: {}", self.document.to, failure.message);
        Failure { message, ..failure }.advise(
            "there, `bulkhead replicate accept` has to have this pool's fingerprint, which \
             `bulkhead replicate list` shows here",
        )
    }

    fn theirs(&self, failure: Failure) -> Failure {
        let message = format!("{} says: {}", self.document.to, failure.message);
        Failure { message, ..failure }
    }

    fn snapshots(&self) -> Result<Vec<DatasetInfo>, Failure> {
        let all = self
            .context
            .pool
            .datasets(self.volume.into(), Snapshots::Include);
        let mut all = all.map_err(crate::dataset_failure)?;
        let own = format!("{}@", self.volume);
        all.retain(|info| info.snapshot && info.name.starts_with(&own));
        all.sort_by_key(|info| info.creation_txg);
        Ok(all)
    }

    /// What to send next: the rest of what was interrupted, or what has changed.
    fn next(&self, present: &Present, own: &[DatasetInfo]) -> Result<(SendSpec, u64), Failure> {
        if let Some(token) = &present.token {
            let token = self.context.pool.parse_token(token);
            let token = token.map_err(crate::transfer::failure)?;
            // One whose snapshot is gone is forgotten by the receiver when another stream comes.
            let of_ours = own.iter().any(|info| info.guid == token.to_guid);
            if of_ours {
                let spec = self.context.pool.resumed_send(&token);
                return Ok((spec.map_err(crate::transfer::failure)?, token.bytes));
            }
        }
        let common = own
            .iter()
            .rev()
            .find(|info| present.guids.contains(&info.guid));
        let base = match common {
            Some(info) => Base::parse(self.volume, &info.name).ok(),
            None => self.bookmark(present)?,
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

    /// The newest bookmark of a snapshot that is there and not here any more.
    fn bookmark(&self, present: &Present) -> Result<Option<Base>, Failure> {
        let marks = self.context.pool.bookmarks(self.volume);
        let marks = marks.map_err(crate::transfer::failure)?;
        let common = marks
            .into_iter()
            .filter(|mark| present.guids.contains(&mark.guid));
        let newest = common.max_by_key(|mark| mark.creation_txg);
        Ok(newest.and_then(|mark| Base::parse(self.volume, &mark.name).ok()))
    }

    fn send(
        &self,
        tls: &mut Tls,
        spec: &SendSpec,
        before: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<u64, Failure> {
        let pool = self.context.pool;
        let total = pool.send_estimate(spec).map_err(crate::transfer::failure)?;
        let offer = FromSender::Stream(Offer {
            volume: self.into.clone(),
            tag: spec.snapshot.tag().to_owned(),
            properties: self.properties()?,
            keep: self.document.keep,
            resumes: spec.resume.is_some(),
        });
        wire::say(tls, &offer).map_err(|failure| self.broken(failure))?;
        let sent = {
            let metered = Metered {
                to: &mut *tls,
                meter: Meter::new(progress, Some(total), before),
                context: self.context,
            };
            let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, metered);
            let sent = pool.send(spec, &mut buffered);
            let flushed = buffered.flush();
            // What is left in a buffer whose stream has failed shall not be tried again.
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
            // The receiver may have said why it does not listen any more.
            Err((true, error)) => {
                return match wire::hear(tls) {
                    Ok(Some(FromReceiver::Failed(failure))) => Err(self.theirs(failure)),
                    _ => {
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
        match self.hear(tls)? {
            FromReceiver::Done { bytes } => Ok(bytes),
            FromReceiver::Failed(failure) => Err(self.theirs(failure)),
            FromReceiver::Present(_) => Err(Failure::usage("the receiver makes no sense")),
        }
    }

    /// What the volume says of its exports and of who it is, and who may use its targets. Secrets
    /// stay here: where they would be asked for, nobody may use the target there until somebody
    /// says so.
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

    /// How the file system is shared: no stream says so.
    fn share(&self, info: &DatasetInfo) -> Result<Option<(String, String)>, Failure> {
        if info.volume.is_some() {
            return Ok(None);
        }
        let share = filesystem::shares(self.context)?.of(info);
        Ok(share.map(|share| (SHARE_PROPERTY.to_owned(), share)))
    }

    /// Destroys the oldest snapshots of replication. The newest that both have stays, whatever was
    /// asked for: the next run begins at it.
    fn prune(&self, own: &[DatasetInfo], present: &Present) {
        let made = |info: &&DatasetInfo| {
            let tag = info.name.split('@').nth(1);
            tag.is_some_and(|tag| tag.starts_with(TAG_PREFIX))
        };
        let made: Vec<&DatasetInfo> = own.iter().filter(made).collect();
        let excess = made
            .len()
            .saturating_sub(self.document.keep.max(1) as usize);
        let newest = made
            .iter()
            .rev()
            .find(|info| present.guids.contains(&info.guid));
        let newest: BTreeSet<u64> = newest.iter().map(|info| info.guid).collect();
        for old in made
            .iter()
            .take(excess)
            .filter(|info| !newest.contains(&info.guid))
        {
            destroy(self.context, &old.name);
        }
    }
}

/// Destroys a snapshot that is not needed; one with clones or holds stays.
pub fn destroy(context: &Context<'_>, name: &str) {
    let Ok(name) = name.parse::<SnapshotName>() else {
        return;
    };
    let _alone = context.hooks.alone();
    if let Err(error) = context.pool.destroy_snapshots(&[name]) {
        tracing::warn!(%error, "an old snapshot of replication stays");
    }
}

/// Whether the receiver says something, which in the middle of a stream can only be a failure.
fn is_readable(socket: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(socket, PollFlags::IN)];
    let at_once = Timespec::default();
    poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Counts what goes out, and stops when the pool is let go of.
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
