//! The last current leg is damaged: blocks of it cannot be read, or are wrong, while the other head is off. Clients
//! must get an error for exactly these blocks, and the blocks must be right again when the other leg is back.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::process::Invocation;
use lab::{Node, Power};
use serde::Deserialize;
use units::HeadName;

use super::heads::server_pid;
use super::legs;
use crate::client;
use crate::damaged::{Damage, How};
use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;
use crate::kinds::{self, Exported};
use drill_verdict::Timestamp;

/// The volume with the damaged blocks.
const VOLUME: &str = "drill-damaged";
/// How large it is.
const VOLUME_SIZE: &str = "32M";
/// Bytes of a block: those of a volume that is created without a block size.
const BLOCK: usize = 16 << 10;
/// Blocks with contents.
const BLOCKS: usize = 64;
/// Damaged blocks: more errors than the ZFS library tolerates before it faults a device.
const DAMAGED: usize = 16;
/// Blocks begin at multiples of so many bytes on a disk.
const ALIGNMENT: usize = 512;
/// The bytes by which a block is found.
const PREFIX: usize = 32;
/// How much of a disk is searched at a time.
const SEARCHED: usize = 1 << 20;
/// How long a scrub of such a pool may take.
const SCRUBBED_WITHIN: Duration = Duration::from_secs(60);
/// How long the client may take to read all blocks.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// Where a block is: the device, as the pool's server calls it, its file, and the offset.
struct Found {
    device: PathBuf,
    file: PathBuf,
    offset: u64,
}

/// Writes the blocks of a round, before the pool is moved: no server has them in memory afterwards.
///
/// # Errors
///
/// They cannot be written.
pub fn prepare(
    environment: &mut Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<(), DrillError> {
    let pool = environment.pool.clone();
    let exported = Exported {
        pool: &pool,
        name: VOLUME,
        number: 0,
    };
    let mut commands = kinds::OF_BLOCKS.make(&exported, VOLUME_SIZE);
    // It is there from the second round on.
    commands[0].push("--exist-ok".to_owned());
    for words in commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        environment.bulkhead(head, &words)?;
    }
    let mut contents = vec![0; BLOCKS * BLOCK];
    rng.fill(&mut contents);
    let mut damaged = rng.choose_multiple(0..BLOCKS, DAMAGED);
    damaged.sort_unstable();
    let hows = [How::ReadErrors, How::WrongChecksums, How::Scrub];
    blocks(environment, "write", &contents)?;
    environment.damage = Some(Damage {
        how: hows[rng.usize(..hows.len())],
        contents,
        damaged,
        server: None,
    });
    Ok(())
}

/// Powers off the other head, damages blocks of the remaining leg, and reads all of them.
///
/// # Errors
///
/// A command in the lab fails.
pub fn strike(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
) -> Result<Fault, DrillError> {
    let mut damage = environment.damage.take().expect("it was prepared");
    let words = match damage.how {
        How::ReadErrors => "cannot be read",
        How::WrongChecksums => "are wrong",
        How::Scrub => "are wrong, and a scrub runs",
    };
    damage.server = Some(server_pid(environment)?);
    let mut fault = Fault {
        lender: Some(lender.clone()),
        ..Fault::of_head(
            format!("{lender} loses its power, and {DAMAGED} blocks of {head} {words}"),
            lender,
        )
    };
    environment.lab.power(lender, Power::Off)?;
    legs::wait_until_stale(environment, head, lender, &mut fault)?;
    harm(environment, head, &damage)?;
    if damage.how == How::Scrub {
        scrub(environment, head, &mut fault)?;
    }
    // A client that gets an error repeats its request.
    for _ in 0..2 {
        judge(environment, &damage, true, &mut fault)?;
    }
    same_server(environment, &damage, &mut fault);
    environment.damage = Some(damage);
    fault.acted_at = Timestamp::now();
    Ok(fault)
}

/// Powers on the other head. When its legs are current again, all blocks must be right.
///
/// # Errors
///
/// A command in the lab fails.
pub fn undo(
    environment: &mut Environment,
    lender: &HeadName,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    let damage = environment.damage.take().expect("it was prepared");
    same_server(environment, &damage, fault);
    environment.switch_on(lender)?;
    legs::wait_until_healthy(environment, fault)?;
    judge(environment, &damage, false, fault)?;
    same_server(environment, &damage, fault);
    environment.set_device_faults(&[], "")
}

/// Complains where the server is another process than before the damage.
fn same_server(environment: &Environment, damage: &Damage, fault: &mut Fault) {
    let serves = server_pid(environment).ok();
    if serves != damage.server {
        let words = "the server of the pool ended".to_owned();
        if !fault.complaints.contains(&words) {
            fault.complaints.push(words);
        }
    }
}

/// Damages the blocks where they are on the disks of `head`.
fn harm(environment: &Environment, head: &HeadName, damage: &Damage) -> Result<(), DrillError> {
    let found = find(environment, head, damage)?;
    if damage.how == How::ReadErrors {
        let mut places: BTreeMap<&Path, String> = BTreeMap::new();
        for block in &found {
            let words = places.entry(&block.device).or_default();
            words.push_str(&format!(" read-at={}+{BLOCK}", block.offset));
        }
        return environment.set_faults_of_devices(&places);
    }
    for block in &found {
        let spoil = || {
            let file = File::options().write(true).open(&block.file)?;
            file.write_all_at(&[0xa5; ALIGNMENT], block.offset)?;
            file.sync_data()
        };
        spoil().map_err(DrillError::io("damage a block"))?;
    }
    Ok(())
}

/// The newest location of each damaged block: an older one has other contents.
fn find(
    environment: &Environment,
    head: &HeadName,
    damage: &Damage,
) -> Result<Vec<Found>, DrillError> {
    let wanted: HashMap<&[u8], usize> = damage
        .damaged
        .iter()
        .map(|&number| (&block_of(&damage.contents, number)[..PREFIX], number))
        .collect();
    let mut found: BTreeMap<usize, Found> = BTreeMap::new();
    let disks = environment.disks(head).into_iter();
    for ((_, file), device) in disks.zip(environment.device_names(head)) {
        let places = search(&file, &wanted).map_err(DrillError::io("search a disk"))?;
        for (number, offset) in places {
            let place = Found {
                device: device.clone(),
                file: file.clone(),
                offset,
            };
            found.insert(number, place);
        }
    }
    match found.len() == damage.damaged.len() {
        true => Ok(found.into_values().collect()),
        false => Err(DrillError::Client(format!(
            "only {} of {DAMAGED} blocks are on the disks of {head}",
            found.len()
        ))),
    }
}

fn block_of(contents: &[u8], number: usize) -> &[u8] {
    &contents[number * BLOCK..][..BLOCK]
}

/// The offset of a block that begins with `wanted` in a file.
fn search(path: &Path, wanted: &HashMap<&[u8], usize>) -> std::io::Result<Vec<(usize, u64)>> {
    let mut file = File::open(path)?;
    let mut places = Vec::new();
    let mut part = Vec::with_capacity(SEARCHED);
    for offset in (0_u64..).step_by(SEARCHED) {
        part.clear();
        if file.by_ref().take(SEARCHED as u64).read_to_end(&mut part)? == 0 {
            break;
        }
        for (index, begin) in part.chunks_exact(ALIGNMENT).enumerate() {
            if let Some(&number) = wanted.get(&begin[..PREFIX]) {
                places.push((number, offset + (index * ALIGNMENT) as u64));
            }
        }
    }
    Ok(places)
}

/// The fields that are read from `bulkhead pool status --json`.
#[derive(Deserialize)]
struct Status {
    scan: Option<Scan>,
}

#[derive(Deserialize)]
struct Scan {
    function: String,
    state: String,
}

fn has_scrubbed(status: &str) -> bool {
    let scan = serde_json::from_str::<Status>(status).ok();
    let scan = scan.and_then(|status| status.scan);
    scan.is_some_and(|scan| scan.function == "scrub" && scan.state == "finished")
}

fn scrub(
    environment: &mut Environment,
    head: &HeadName,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    let pool = environment.pool.clone();
    if let Err(error) = environment.bulkhead(head, &["pool", "scrub", pool.as_str()]) {
        let words = format!("no scrub can be started: {}", units::chain(&error));
        fault.complaints.push(words);
        return Ok(());
    }
    let is_over = |environment: &Environment| {
        let status = environment.bulkhead(head, &["pool", "status", pool.as_str(), "--json"]);
        status.is_ok_and(|status| has_scrubbed(&status))
    };
    if !environment.wait_until(SCRUBBED_WITHIN, is_over)? {
        let words = format!(
            "the scrub does not end within {} s",
            SCRUBBED_WITHIN.as_secs()
        );
        fault.complaints.push(words);
    }
    Ok(())
}

/// Reads all blocks, and complains of each that is not as it must be.
fn judge(
    environment: &Environment,
    damage: &Damage,
    is_damaged: bool,
    fault: &mut Fault,
) -> Result<(), DrillError> {
    let lines = blocks(environment, "read", &damage.contents)?;
    let gone: &[usize] = if is_damaged { &damage.damaged } else { &[] };
    fault.complaints.extend(complaint(&lines, gone));
    Ok(())
}

/// Violations in the results of reads, a line for each block: damaged blocks must return an error, all other blocks the
/// right data.
fn complaint(lines: &str, gone: &[usize]) -> Option<String> {
    let lines: Vec<&str> = lines.lines().collect();
    let is_bad = |number: usize| {
        let line = lines.get(number).copied().unwrap_or("not read");
        let is_good = match gone.contains(&number) {
            true => line.starts_with("error"),
            false => line == "right",
        };
        (!is_good).then(|| format!("block {number}, {}: {line}", kind(gone, number)))
    };
    let bad: Vec<String> = (0..BLOCKS).filter_map(is_bad).collect();
    let first = bad.first()?;
    Some(format!(
        "{} of {BLOCKS} reads are not as they must be, such as {first}",
        bad.len()
    ))
}

fn kind(gone: &[usize], number: usize) -> &'static str {
    if gone.contains(&number) {
        "damaged"
    } else {
        "whole"
    }
}

/// Runs the client of single blocks.
fn blocks(environment: &Environment, verb: &str, contents: &[u8]) -> Result<String, DrillError> {
    let files = client::unpack().map_err(DrillError::io("unpack the client"))?;
    let appliance = environment.lab.appliance();
    let address = &appliance.pools[&environment.pool].addresses[0].address;
    let host = match address {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
    };
    let path = format!("PYTHONPATH={}", files.path().display());
    let exported = Exported {
        pool: &environment.pool,
        name: VOLUME,
        number: 0,
    };
    let uri = (kinds::OF_BLOCKS.client_address)(&exported, &[host]);
    let words = [
        "PYTHONDONTWRITEBYTECODE=1",
        &path,
        client::PYTHON,
        "-m",
        "proof.drill.blocks",
        verb,
        &uri,
    ];
    let invocation = Invocation::new("env", &words)
        .reading(contents)
        .within(READ_WITHIN);
    let output = environment.lab.exec(&Node::Client, &invocation)?;
    match output.code {
        0 => Ok(output.text()),
        _ => Err(DrillError::Client(format!(
            "blocks: {}",
            output.complaint()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damaged_blocks_return_errors() {
        let lines = |gone: &[usize], answer: &str| -> String {
            let line = |number| match gone.contains(&number) {
                true => format!("{answer}\n"),
                false => "right\n".to_owned(),
            };
            (0..BLOCKS).map(line).collect()
        };
        assert_eq!(
            complaint(&lines(&[3, 9], "error errno 5 (EIO)"), &[3, 9]),
            None
        );
        assert_eq!(complaint(&lines(&[], ""), &[]), None);
        for (gone, answer) in [
            (vec![3, 9], "wrong"),
            (vec![3], "error errno 5 (EIO)"),
            (vec![3, 4, 9], "error errno 5 (EIO)"),
            (vec![3, 9], "right"),
            (vec![9], "silent the connection is lost"),
        ] {
            let lines = lines(&gone, answer);
            assert!(complaint(&lines, &[3, 9]).is_some(), "{gone:?} {answer}");
        }
        let cut = lines(&[3, 9], "error errno 5 (EIO)");
        let cut = cut.rsplit_once("right\n").expect("lines").0;
        assert!(
            complaint(cut, &[3, 9]).is_some(),
            "the last one was not read"
        );
    }

    #[test]
    fn block_offset_on_disk_is_found() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let block = [7; BLOCK];
        let offset = (SEARCHED + 5 * ALIGNMENT) as u64;
        file.as_file()
            .write_all_at(&block, offset)
            .expect("written");
        let wanted = HashMap::from([(&block[..PREFIX], 4)]);
        let places = search(file.path(), &wanted).expect("read");
        assert_eq!(places.first(), Some(&(4, offset)));
    }

    #[test]
    fn scrub_ends_when_its_state_reports_it() {
        let status = |function: &str, state: &str| {
            format!(r#"{{"scan":{{"function":"{function}","state":"{state}"}}}}"#)
        };
        assert!(has_scrubbed(&status("scrub", "finished")));
        assert!(!has_scrubbed(&status("scrub", "running")));
        assert!(!has_scrubbed(&status("resilver", "finished")));
        assert!(!has_scrubbed(r#"{"scan":null}"#));
    }
}
