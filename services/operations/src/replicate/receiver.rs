//! The side that receives: one connection after the other, each from a pool that was accepted, and
//! each only below the dataset that it was accepted for.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use control::exports::PROPERTY_PREFIX;
use control::operations::transfer::receive::Receive;
use control::replication::{Fingerprint, Peer};
use control::{Failure, FailureKind};
use engine::dataset::{DatasetErrorKind, Snapshots};
use rustls::{ServerConnection, StreamOwned};
use units::{SnapshotName, VolumeName};

use super::documents;
use super::identity::fingerprint;
use super::key;
use super::originals;
use super::promote::refuse_promoted;
use super::sender::TAG_PREFIX;
use super::wire::{self, FromReceiver, FromSender, Offer, Present, Until};
use super::{connection_slots, now_unix_s, retention};
use crate::Context;
use crate::needs;

type Tls = StreamOwned<ServerConnection, TcpStream>;

/// Most questions and streams of one connection: every volume has a few.
const MESSAGES_MAX: usize = 100_000;

/// Time-out for an older stream into the same volume to stop, after its connection is closed.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// Bytes that are read and discarded of a refused stream, so that its sender can read the reason.
const UNWANTED_BYTES_MAX: usize = 64 << 20;
/// Longest silence while it is.
const UNWANTED_SILENCE_MAX: Duration = Duration::from_secs(5);

/// Volumes that are being received, with their connections.
static RECEIVING: Mutex<BTreeMap<VolumeName, TcpStream>> = Mutex::new(BTreeMap::new());
/// One of them ended.
static ENDED: Condvar = Condvar::new();

/// A volume that is being received, until this is dropped.
struct Claim<'a>(&'a VolumeName);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut receiving = RECEIVING.lock().expect("no holder panics");
        receiving.remove(self.0);
        ENDED.notify_all();
    }
}

/// Terminates an older stream into `volume`: its sender was killed or disconnected, and has
/// reconnected.
fn settle(volume: &VolumeName) -> Result<MutexGuard<'static, Receivings>, Failure> {
    let receiving = RECEIVING.lock().expect("no holder panics");
    if let Some(older) = receiving.get(volume) {
        let _ = older.shutdown(Shutdown::Both);
    }
    let is_received = |receiving: &mut Receivings| receiving.contains_key(volume);
    let waited = ENDED.wait_timeout_while(receiving, SETTLE_MAX, is_received);
    let (receiving, outcome) = waited.expect("no holder panics");
    if outcome.timed_out() {
        let message = format!("an older stream into {volume} does not end");
        return Err(Failure::new(FailureKind::Busy, message).advise("try again shortly"));
    }
    Ok(receiving)
}

type Receivings = BTreeMap<VolumeName, TcpStream>;

/// Whether a stream into `volume` is coming.
pub fn is_receiving(volume: &VolumeName) -> bool {
    let receiving = RECEIVING.lock().expect("no holder panics");
    receiving.contains_key(volume)
}

/// Interrupts a stream into `volume` without waiting for its end. Returns whether there was one.
pub fn interrupt(volume: &VolumeName) -> bool {
    let receiving = RECEIVING.lock().expect("no holder panics");
    let stream = receiving.get(volume);
    if let Some(stream) = stream {
        let _ = stream.shutdown(Shutdown::Both);
    }
    stream.is_some()
}

/// Serves the connection in slot `number` until it is closed.
pub fn serve(context: &Context<'_>, stream: TcpStream, number: u64) -> Result<(), Failure> {
    let io = |error: std::io::Error| {
        Failure::new(
            FailureKind::Unreachable,
            format!("set up the connection: {error}"),
        )
    };
    let mut tls = agree(context, stream)?;
    wire::bound(&tls.sock).map_err(io)?;
    let shown = tls.conn.peer_certificates().and_then(|shown| shown.first());
    let Some(peer) = shown.map(fingerprint) else {
        return Err(Failure::new(
            FailureKind::Denied,
            "no certificate was shown",
        ));
    };
    // A later revocation closes this connection through its slot. After an earlier one, its rule is
    // no longer found.
    match connection_slots::connections().identify(number, &peer) {
        Ok(Some(older)) => drop(older.shutdown(Shutdown::Both)),
        Ok(None) => {}
        Err(connection_slots::Lost) => {
            let message = "too many concurrent connections";
            return Err(Failure::new(FailureKind::Busy, message));
        }
    }
    converse(context, &mut tls, &peer)
}

/// TLS with a pool that is accepted.
fn agree(context: &Context<'_>, stream: TcpStream) -> Result<Tls, Failure> {
    let identity = {
        let _alone = context.hooks.alone();
        key::identity(context)?
    };
    let accepted = documents::peers(context)?.peers.into_iter();
    let tls_error = |error: rustls::Error| {
        Failure::new(
            FailureKind::Denied,
            format!("encrypt the connection: {error}"),
        )
    };
    let config = identity
        .server(accepted.map(|peer| peer.fingerprint).collect())
        .map_err(tls_error)?;
    let session = ServerConnection::new(Arc::clone(&config)).map_err(tls_error)?;
    let mut tls = StreamOwned::new(session, stream);
    let mut until = Until::new(&tls.sock, wire::CONNECT_MAX);
    while tls.conn.is_handshaking() {
        let agreed = tls.conn.complete_io(&mut until);
        agreed.map_err(|error| {
            let message = format!("agree on TLS: {error}");
            Failure::new(FailureKind::Unreachable, message)
        })?;
    }
    Ok(tls)
}

/// Returns the current rules for the pool with this certificate.
fn rules_of(context: &Context<'_>, peer: &Fingerprint) -> Result<Vec<Peer>, Failure> {
    let accepted = documents::peers(context)?.peers.into_iter();
    Ok(accepted.filter(|rule| rule.fingerprint == *peer).collect())
}

fn converse(context: &Context<'_>, tls: &mut Tls, peer: &Fingerprint) -> Result<(), Failure> {
    for _ in 0..MESSAGES_MAX {
        let Some(message) = wire::receive_message::<FromSender>(tls)? else {
            return Ok(());
        };
        let may = rules_of(context, peer)?;
        let outcome = match message {
            FromSender::About { version, volume } => {
                allowed(&may, &volume).and_then(|()| about(context, version, &volume))
            }
            FromSender::Stream(offer) => allowed(&may, &offer.volume)
                .and_then(|()| receive(context, &offer, peer, &may, tls)),
            FromSender::List(list) => originals::listed(context, peer, &may, &list),
        };
        match outcome {
            Ok(answer) => wire::send_message(tls, &answer)?,
            Err(failure) => {
                tracing::warn!(%failure, "replication into the pool");
                wire::send_message(tls, &FromReceiver::Failed(failure.clone()))?;
                tls.conn.send_close_notify();
                let _ = std::io::Write::flush(tls);
                throw_away(tls);
                return Err(failure);
            }
        }
    }
    Ok(())
}

/// Closes all connections of a pool that is no longer accepted.
pub fn end_all_of(peer: &Fingerprint) {
    for stream in connection_slots::connections().of(peer) {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reads and discards the rest of a refused stream. Closing at once would reset the connection
/// before the sender has read the response.
fn throw_away(tls: &mut Tls) {
    let _ = tls.sock.shutdown(Shutdown::Write);
    let _ = tls.sock.set_read_timeout(Some(UNWANTED_SILENCE_MAX));
    let mut left = UNWANTED_BYTES_MAX;
    let mut piece = vec![0; 64 << 10];
    while left > 0 {
        match tls.sock.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => left = left.saturating_sub(count),
        }
    }
}

pub(super) fn allowed(may: &[Peer], volume: &VolumeName) -> Result<(), Failure> {
    if may.iter().any(|peer| volume.is_at_or_below(&peer.below)) {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Denied,
        format!("replication into {volume} is not accepted"),
    )
    .advise("`bulkhead replicate accept` sets the dataset that it is below"))
}

/// Returns whether file systems are accepted into `volume`, and not only volumes.
fn may_send_files(may: &[Peer], volume: &VolumeName) -> bool {
    let mut rules = may.iter().filter(|peer| volume.is_at_or_below(&peer.below));
    rules.any(|peer| peer.files)
}

/// Returns the state of the copy `volume`.
fn about(
    context: &Context<'_>,
    version: u32,
    volume: &VolumeName,
) -> Result<FromReceiver, Failure> {
    if version != wire::VERSION {
        let message = format!(
            "the sender speaks version {version}, this pool {}",
            wire::VERSION
        );
        return Err(Failure::usage(message).advise("use the same version of bulkhead"));
    }
    refuse_promoted(context, volume)?;
    drop(settle(volume)?);
    let receiving = needs(context.pool.receiving())?;
    let left = receiving.interrupted(volume);
    let left = left.map_err(crate::transfer::failure)?;
    let own = format!("{volume}@");
    let snapshots: Vec<(u64, String)> =
        match context.pool.datasets(volume.into(), Snapshots::Include) {
            Ok(all) => {
                let named = all.into_iter().filter_map(|info| {
                    let tag = info.name.strip_prefix(&own)?.to_owned();
                    Some((info.guid, tag))
                });
                named.collect()
            }
            Err(error) if error.kind == DatasetErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(crate::dataset_failure(error)),
        };
    let number = |tag: &String| tag.strip_prefix(TAG_PREFIX)?.parse().ok();
    Ok(FromReceiver::Present(Present {
        guids: snapshots.iter().map(|(guid, _)| *guid).collect(),
        tags: snapshots
            .iter()
            .filter_map(|(_, tag)| number(tag))
            .collect(),
        token: left.and_then(|left| left.token),
        takes_lists: true,
        formats: receiving
            .formats()
            .iter()
            .map(ToString::to_string)
            .collect(),
    }))
}

/// Parses the name of the offered snapshot. Names other than those of replication are reserved for
/// this side.
fn own_snapshot(offer: &Offer) -> Result<SnapshotName, Failure> {
    let moment = offer.tag.strip_prefix(TAG_PREFIX);
    let is_own = moment.is_some_and(|moment| moment.parse::<u64>().is_ok());
    let name = format!("{}@{}", offer.volume, offer.tag).parse();
    name.ok().filter(|_| is_own).ok_or_else(|| {
        Failure::usage(format!("{:?} is no snapshot of replication", offer.tag))
            .advise("use the same version of bulkhead on both sides")
    })
}

/// Returns the properties that a sender can set on a volume: Bulkhead documents, which have no effect here. ZFS
/// properties would have one: on retention, durability and space.
fn documents_of(said: &[(String, String)]) -> Result<&[(String, String)], Failure> {
    let mut names = said.iter().map(|(name, _)| name);
    match names.find(|name| !name.starts_with(PROPERTY_PREFIX)) {
        None => Ok(said),
        Some(name) => Err(Failure::new(
            FailureKind::Denied,
            format!("a sender may not set property {name} here"),
        )
        .advise(
            "use the same version of bulkhead on both sides; if it is, check whether the sender is compromised",
        )),
    }
}

fn receive(
    context: &Context<'_>,
    offer: &Offer,
    peer: &Fingerprint,
    may: &[Peer],
    tls: &mut Tls,
) -> Result<FromReceiver, Failure> {
    let snapshot = own_snapshot(offer)?;
    let said = documents_of(&offer.properties)?;
    let own = tls
        .sock
        .try_clone()
        .map_err(Failure::of("use the connection"))?;
    settle(&offer.volume)?.insert(offer.volume.clone(), own);
    let _claim = Claim(&offer.volume);
    {
        // A promotion either sees this claim or is visible here.
        let _alone = context.hooks.alone();
        refuse_promoted(context, &offer.volume)?;
    }
    let left = needs(context.pool.receiving())?.interrupted(&offer.volume);
    let left = left.map_err(crate::transfer::failure)?;
    if left.is_some() && !offer.resumes {
        // The sender has no longer the snapshot or base of the partial stream.
        let forgotten = needs(context.pool.receiving())?.abort_receive(&offer.volume);
        forgotten.map_err(crate::transfer::failure)?;
    }
    let request = Receive {
        volume: offer.volume.clone(),
        tag: Some(offer.tag.clone()),
        force: false,
        resumable: true,
        parents: true,
    };
    let only_volumes = !may_send_files(may, &offer.volume);
    let received = crate::transfer::receive_from(context, &request, only_volumes, tls)?;
    // Stored before anything that the sender could make fail: without it, the sender could claim
    // any day.
    if let Err(failure) = retention::arrived(context, &snapshot) {
        tracing::warn!(%snapshot, %failure, "when it arrived is not noted");
    }
    let _alone = context.hooks.alone();
    let said = originals::with_rule(said, peer, offer, now_unix_s());
    crate::transfer::replace_properties(context, &offer.volume, &said)?;
    drop(_alone);
    let least = retention::of(may, &offer.volume);
    retention::prune(context, &offer.volume, offer.keep, least)?;
    Ok(FromReceiver::Done {
        bytes: received.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_received_only_with_a_rule() {
        let peer = |below: &str, files| Peer {
            fingerprint: "0".repeat(64).try_into().expect("digits"),
            below: below.parse().expect("a name"),
            retention: Default::default(),
            files,
        };
        let may = [peer("tank/a", false), peer("tank/b", true)];
        for (volume, files) in [("tank/a/v", false), ("tank/b/v", true), ("tank/c", false)] {
            let volume = volume.parse().expect("a name");
            assert_eq!(may_send_files(&may, &volume), files, "{volume}");
        }
    }

    /// A compromised sender could otherwise set properties that take effect when its copies are
    /// promoted.
    #[test]
    fn sender_cannot_set_effective_properties() {
        let said = |name: &str| vec![(name.to_owned(), "value".to_owned())];
        let own = said("bulkhead:export");
        assert_eq!(documents_of(&own).expect("documents"), own);
        for name in [
            "sync",
            "volsize",
            "refreservation",
            "keylocation",
            "bulkhead-source:export",
            "",
        ] {
            let mut all = own.clone();
            all.extend(said(name));
            let failure = documents_of(&all).expect_err(name);
            assert_eq!(failure.kind, FailureKind::Denied, "{name}");
        }
    }
}
