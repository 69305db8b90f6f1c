//! Facts about this head that need an engine, for `appliance check`: features of its OpenZFS, the features of
//! the pools on its disks, and stalls of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use appliance::Feed;
use appliance::facts::ProbeResult;
use appliance::placement::{DiskGroup, DiskPlacement, InterfaceLinks};
use appliance::render::{LEGS_CERTIFICATE_PATH, LEGS_KEY_PATH};
use certificates::{Fingerprint, Identity, UnpinnedCertificate, is_rejected_by_peer};
use cluster::tuning;
use control::operations::key::KeyRequest;
use control::operations::key::status::Status;
use control::{Answer, Failure, Request};
use engine::HostId;
use engine::pool::legs::Leg;
use engine::pool::{Candidate, CandidateState};
use hardware::{slots, ways};
use pool_access::common::Common;
use pool_access::engines::{self, Options, Search};
use pool_access::sockets;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serving::TlsFiles;
use units::PoolName;

use crate::disks::PCI_SLOTS;
use crate::{power, validity};

/// Longest list of disks that is read, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Prefix of a line with files for TLS.
const TLS_REQUEST: &str = "tls ";
/// Prefix of a line with a member of the record of legs: its address, its port and its fingerprint.
const MEMBER_REQUEST: &str = "member ";
/// Prefix of a line with a power supply: JSON of its name and its entry in the appliance file.
const FEED_REQUEST: &str = "feed ";
/// Time-out of each step of a handshake with a member.
const MEMBER_WAIT: Duration = Duration::from_secs(2);
/// A member that refuses our certificate closes the connection within this time, after its part of the handshake.
const REJECTION_WAIT: Duration = Duration::from_millis(500);
/// Duration of the stall test. A hypervisor that overcommits processors stalls them many times
/// a second. Rarer stalls are not found, because a longer test would delay the check too much.
const STALL_TEST: Duration = Duration::from_secs(1);
/// Time-out of the servers of pools.
const SERVER_WAIT: Duration = Duration::from_secs(3);
/// Length of a sleep in the test.
const NAP: Duration = Duration::from_millis(1);
/// Block devices, with partitions.
const BLOCKS: &str = "/sys/class/block";
/// Network interfaces.
const INTERFACES: &str = "/sys/class/net";
/// No pool is opened, so this number is in no label.
const NO_HOST: HostId = HostId(std::num::NonZeroU32::MAX);

/// Prints lines of words separated by tabs. Reads paths of disks from the standard input, one a line, and of
/// files for TLS, separated by tabs, after `tls `, members of the record of legs after `member `, and the requests of
/// [`cluster::tuning`]. Unreadable files produce no line.
pub fn print_facts(common: &Common, stalls: bool) -> Result<String, Failure> {
    let mut disks = String::new();
    // Invalid UTF-8, or no input: then there are no disks to check.
    let _ = std::io::stdin()
        .take(REQUEST_BYTES_MAX)
        .read_to_string(&mut disks);
    let mut lines = String::new();
    if stalls {
        let _ = writeln!(lines, "stall_ms\t{}", longest_stall().as_millis());
        let mut settings = tuning::read(Path::new("/"), &disks);
        tuning::add_tools(&mut settings, &disks);
        // JSON has neither tabs nor line breaks.
        if let Ok(settings) = serde_json::to_string(&settings) {
            let _ = writeln!(lines, "tuning\t{settings}");
        }
        print_feeds(&mut lines, &disks);
        print_links(&mut lines, Path::new(INTERFACES), &disks);
    }
    for files in disks
        .lines()
        .filter_map(|line| line.strip_prefix(TLS_REQUEST))
    {
        print_tls(&mut lines, files);
    }
    let members = disks.lines();
    let members = members.filter_map(|line| line.strip_prefix(MEMBER_REQUEST));
    print_members(&mut lines, &members.collect::<Vec<_>>());
    for disk in disks.lines().filter(|line| line.starts_with('/')) {
        let mut placement = placement(Path::new(BLOCKS), Path::new(disk));
        for engine in engines::all() {
            print_disk(&mut lines, *engine, disk, &mut placement);
        }
        // JSON has neither tabs nor line breaks.
        if let Ok(json) = serde_json::to_string(&(disk, placement)) {
            let _ = writeln!(lines, "placement\t{json}");
        }
    }
    if let Some(line) = leg_fingerprint(Path::new(LEGS_CERTIFICATE_PATH)) {
        lines.push_str(&line);
    }
    for (pool, file) in key_files(common) {
        let _ = writeln!(lines, "key_file\t{pool}\t{file}");
    }
    let options = Options {
        cache_bytes_max: Some(units::ByteCount::mib(64)),
        is_brief: true,
        ..Options::new(NO_HOST)
    };
    match engines::start(options) {
        Ok(_) => {
            let tools = engines::all().iter().filter_map(|engine| engine.tools());
            for feature in tools.flat_map(|tools| tools.features()) {
                let _ = writeln!(lines, "zfs_feature\t{feature}");
            }
        }
        // The other facts are printed all the same.
        Err(refused) => {
            let _ = writeln!(lines, "engine_refused\t{}", refused.message);
        }
    }
    Ok(lines)
}

/// Whether each power supply reports its state.
fn print_feeds(lines: &mut String, requests: &str) {
    let requests = requests
        .lines()
        .filter_map(|line| line.strip_prefix(FEED_REQUEST));
    let feeds: BTreeMap<String, Feed> = requests
        .filter_map(|json| serde_json::from_str(json).ok())
        .collect();
    for (name, missing) in power::replies(&feeds) {
        let reply = missing.map_or(ProbeResult::Given, ProbeResult::Missing);
        if let Ok(json) = serde_json::to_string(&(name, reply)) {
            let _ = writeln!(lines, "feed\t{json}");
        }
    }
}

/// The physical links of each interface.
fn print_links(lines: &mut String, interfaces: &Path, requests: &str) {
    let requested = requests.lines();
    let requested: BTreeSet<&str> = requested
        .filter_map(|line| line.strip_prefix(tuning::RING_REQUEST))
        .filter(|name| !name.contains('/'))
        .collect();
    for name in requested {
        let found = ways::to_network(interfaces, name).map(|links| InterfaceLinks {
            all: links.all,
            working: links.working,
        });
        if let Some(Ok(json)) = found.map(|links| serde_json::to_string(&(name, links))) {
            let _ = writeln!(lines, "links\t{json}");
        }
    }
}

/// The enclosure and the paths of a disk.
fn placement(blocks: &Path, disk: &Path) -> DiskPlacement {
    let device = std::fs::canonicalize(disk).ok();
    let name = device.as_deref().and_then(Path::file_name);
    let below = name.and_then(|name| ways::to_disk(blocks, name.to_str()?));
    let slot = below
        .as_ref()
        .and_then(|below| slots::of(&blocks.join(&below.disk), Path::new(PCI_SLOTS)));
    // A PCI slot is no part that fails with several disks.
    let slot = slot.filter(|slot| slot.enclosure != slots::PCI);
    DiskPlacement {
        shelf: slot.as_ref().map(|slot| slot.enclosure.clone()),
        slot: slot.map(|slot| slot.name),
        paths: below.map(|below| below.paths),
        group: None,
    }
}

/// The role of the disk with this number among the groups that its label lists.
fn group_of(candidate: &Candidate, disk: &Path) -> Option<DiskGroup> {
    let groups = candidate.devices.legs.groups.iter();
    let mut found = groups.filter_map(|group| {
        let is_this = |leg: &Leg| leg.is_present && leg.path == disk;
        let member = group
            .members
            .iter()
            .position(|legs| legs.iter().any(is_this))?;
        Some(DiskGroup {
            pool: candidate.name.clone(),
            id: group.members.iter().flatten().map(|leg| leg.guid).min()?,
            member,
            members: group.members.len(),
            needed: group.needed,
        })
    });
    found.next()
}

/// Prints the facts of `engine` about a disk, and adds its role in a pool to `placement`.
fn print_disk(
    lines: &mut String,
    engine: &dyn engines::Registered,
    disk: &str,
    placement: &mut DiskPlacement,
) {
    let Some(tools) = engine.tools() else { return };
    if let Some(known) = tools.supports_reservations(Path::new(disk)) {
        let answer = if known { "yes" } else { "no" };
        let _ = writeln!(lines, "reservations\t{disk}\t{answer}");
    }
    let found = engine.discover(Search::Places(&[PathBuf::from(disk)]));
    for candidate in found.unwrap_or_default() {
        let group = match candidate.state {
            CandidateState::Destroyed => None,
            CandidateState::Active | CandidateState::Exported => {
                group_of(&candidate, Path::new(disk))
            }
        };
        placement.group = group.or(placement.group.take());
        for feature in tools.needed_features(&candidate) {
            let _ = writeln!(lines, "feature_in_use\t{}\t{feature}", candidate.name);
        }
    }
}

/// Fingerprint of the certificate with which this head lends its disks. An invalid file produces no line.
fn leg_fingerprint(path: &Path) -> Option<String> {
    if !path.exists() {
        return Some("leg_fingerprint\n".to_owned());
    }
    let certificate = CertificateDer::from_pem_file(path).ok()?;
    Some(format!(
        "leg_fingerprint\t{}\n",
        Fingerprint::of(&certificate)
    ))
}

/// The results of handshakes with members of the record of legs. They run concurrently: a lost host responds to none.
fn print_members(lines: &mut String, members: &[&str]) {
    let (certificate, key) = (Path::new(LEGS_CERTIFICATE_PATH), Path::new(LEGS_KEY_PATH));
    let own = Identity::read(certificate, key).ok();
    let is_known = own.is_some();
    let Some(own) = own.or_else(unknown_identity) else {
        return;
    };
    let probe = |member: &str| -> Option<String> {
        let mut words = member.split(' ');
        let (address, port) = (words.next()?, words.next()?);
        let way = SocketAddr::new(address.parse().ok()?, port.parse().ok()?);
        // A file without a valid fingerprint has a finding of its own.
        let fingerprint = words.next()?.parse().ok()?;
        let found = handshake(&own, way, fingerprint)?;
        // Without a key of this head every member refuses it.
        let is_told = is_known || !matches!(found, Handshake::Rejected);
        is_told.then(|| format!("member\t{address} {port}\t{}\n", found.words()))
    };
    std::thread::scope(|scope| {
        let probe = &probe;
        let probes: Vec<_> = members
            .iter()
            .map(|member| scope.spawn(move || probe(member)))
            .collect();
        for probe in probes {
            lines.extend(probe.join().ok().flatten());
        }
    });
}

/// An identity that no member has pinned: it suffices to read the certificate of a member.
fn unknown_identity() -> Option<Identity> {
    let name = "unknown".to_owned();
    let made = certificates::make(&[name], certificates::Purpose::Any).ok()?;
    Some(Identity::new(made.certificate, made.key))
}

/// The result of a handshake.
#[derive(Debug, PartialEq, Eq)]
enum Handshake {
    Accepted,
    Closed(String),
    Fingerprint(Fingerprint),
    Rejected,
}

impl Handshake {
    fn words(&self) -> String {
        match self {
            Self::Accepted => "accepted".to_owned(),
            Self::Closed(why) => format!("closed\t{}", why.replace(['\t', '\n'], " ")),
            Self::Fingerprint(real) => format!("fingerprint\t{real}"),
            Self::Rejected => "rejected".to_owned(),
        }
    }
}

/// `None` if the result is unclear.
fn handshake(own: &Identity, way: SocketAddr, peer: Fingerprint) -> Option<Handshake> {
    let connected = TcpStream::connect_timeout(&way, MEMBER_WAIT);
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(error) => return Some(Handshake::Closed(error.to_string())),
    };
    stream.set_read_timeout(Some(MEMBER_WAIT)).ok()?;
    stream.set_write_timeout(Some(MEMBER_WAIT)).ok()?;
    let name = ServerName::IpAddress(way.ip().into());
    let mut tls = rustls::ClientConnection::new(own.client(peer).ok()?, name).ok()?;
    while tls.is_handshaking() {
        if let Err(error) = tls.complete_io(&mut stream) {
            return judge_handshake(&error);
        }
    }
    // The peer checks our certificate last, and sends no data before it has received a request.
    stream.set_read_timeout(Some(REJECTION_WAIT)).ok()?;
    let mut byte = [0];
    match rustls::Stream::new(&mut tls, &mut stream).read(&mut byte) {
        Err(error) if is_rejected_by_peer(&error) => Some(Handshake::Rejected),
        _ => Some(Handshake::Accepted),
    }
}

fn judge_handshake(error: &std::io::Error) -> Option<Handshake> {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    if let Some(UnpinnedCertificate(real)) = UnpinnedCertificate::of(error) {
        return Some(Handshake::Fingerprint(real));
    }
    if is_rejected_by_peer(error) {
        return Some(Handshake::Rejected);
    }
    let is_late = matches!(error.kind(), TimedOut | WouldBlock);
    is_late.then(|| Handshake::Closed("it accepts a connection, and does not respond".to_owned()))
}

/// Whether certificate, key and authorities can be used, and for how long.
fn print_tls(lines: &mut String, files: &str) {
    let mut files = files.split('\t').map(PathBuf::from);
    let (Some(certificate), Some(key)) = (files.next(), files.next()) else {
        return;
    };
    let desired = TlsFiles {
        certificate,
        key,
        authority: files.next(),
    };
    let shown = desired.certificate.display();
    if let Err(error) = desired.check() {
        let why = control::failure::chain(&error).replace(['\t', '\n'], " ");
        let _ = writeln!(lines, "tls\t{shown}\trefused\t{why}");
    } else if let Some(seconds) = validity::left_s(&desired.certificate) {
        let _ = writeln!(lines, "tls\t{shown}\tvalid_for_s\t{seconds}");
    }
}

/// The key files of the pools that are served here. A server that does not respond
/// in time is left out.
fn key_files(common: &Common) -> BTreeSet<(PoolName, String)> {
    let (sender, answers) = std::sync::mpsc::channel();
    let pools = sockets::served(common);
    for pool in pools.clone() {
        let (common, sender) = (common.clone(), sender.clone());
        std::thread::spawn(move || {
            let request = Request::Key(KeyRequest::Status(Status { name: None }));
            let _ = sender.send((pool_access::ask_server(&common, &pool, request), pool));
        });
    }
    let deadline = Instant::now() + SERVER_WAIT;
    let mut found = BTreeSet::new();
    for _ in pools {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((answer, pool)) = answers.recv_timeout(left) else {
            break;
        };
        let Ok(Answer::Keys(keys)) = answer else {
            continue;
        };
        let places = keys.iter().flat_map(|key| &key.locations);
        let files = places.filter_map(|place| place.strip_prefix("file://"));
        let files = files.filter(|file| !file.contains(['\t', '\n']));
        found.extend(files.map(|file| (pool.clone(), file.to_owned())));
    }
    found
}

/// The longest time for which this process was runnable and did not run.
fn longest_stall() -> Duration {
    let end = Instant::now() + STALL_TEST;
    let mut longest = Duration::ZERO;
    loop {
        let before = Instant::now();
        if before >= end {
            return longest;
        }
        std::thread::sleep(NAP);
        longest = longest.max(before.elapsed().saturating_sub(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that pins the certificates of `known`, until it is dropped.
    fn serve(server: &Identity, known: &Identity) -> SocketAddr {
        let config = server.server(vec![known.fingerprint()]).expect("valid");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let way = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for stream in listener.incoming().take(1) {
                let mut stream = stream.expect("a connection");
                let tls = rustls::ServerConnection::new(std::sync::Arc::clone(&config));
                let mut tls = tls.expect("valid");
                // The client may have refused.
                while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
                let _ = tls.complete_io(&mut stream);
                std::thread::sleep(REJECTION_WAIT);
            }
        });
        way
    }

    #[test]
    fn handshake_tells_wrong_fingerprints_of_either_side_from_a_dead_server() {
        let [server, own, other] = [0; 3].map(|_| unknown_identity().expect("an identity"));
        let (real, wrong) = (server.fingerprint(), other.fingerprint());
        let found = |known: &Identity, pinned| handshake(&own, serve(&server, known), pinned);
        assert_eq!(found(&own, real), Some(Handshake::Accepted));
        assert_eq!(found(&own, wrong), Some(Handshake::Fingerprint(real)));
        assert_eq!(found(&other, real), Some(Handshake::Rejected));
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let way = closed.local_addr().expect("bound");
        drop(closed);
        let dead = handshake(&own, way, real);
        assert!(matches!(dead, Some(Handshake::Closed(_))), "{dead:?}");
    }

    #[test]
    fn lender_fingerprint_or_its_absence_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cert.pem");
        assert_eq!(leg_fingerprint(&path).as_deref(), Some("leg_fingerprint\n"));
        let made =
            certificates::make(&["left".to_owned()], certificates::Purpose::Any).expect("made");
        std::fs::write(&path, made.certificate_pem()).expect("writable");
        let der = CertificateDer::from(made.certificate);
        let line = format!("leg_fingerprint\t{}\n", Fingerprint::of(&der));
        assert_eq!(leg_fingerprint(&path), Some(line));
        std::fs::write(&path, "half").expect("writable");
        assert_eq!(leg_fingerprint(&path), None);
    }
}
