//! `bulkhead bench crypto`: the encryption speed of this host, by the engine and by OpenSSL, in one
//! run on one processor. Tests with standard vectors precede the measurement.

mod openssl;
mod test_vectors;

use std::time::{Duration, Instant};

use control::{Failure, FailureKind};
use engine::HostId;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use pool_access::engines::bench::{Measured, Report};
use zpool::crypto::{Cipher, CipherError, Code, IV_BYTES, Mode};
use zpool::{Engine, EngineOptions};

/// A mode of AES in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    mode: &'static str,
    key_bits: u16,
    decrypt: bool,
}

const NOTES: [&str; 3] = [
    "engine: the implementation that encrypts volumes in this process; openzfs: the code of OpenZFS",
    "the engine offers GCM and CCM; ECB is its bare block cipher, a block at a call; it has no CTR \
     and no CBC",
    "GCM of openssl -decrypt checks no tag",
];

/// Checks, then measures each cipher for `time`, with `block_bytes` at a time.
pub fn run(time: Duration, block_bytes: usize) -> Result<Report, Failure> {
    let processor = pin()?;
    let openssl = openssl::version()?;
    let host = HostId::of_this_host("bench");
    let engine = Engine::start(EngineOptions::new(host))
        .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    let known_answers = test_vectors::check(engine)? + openssl::check()?;
    let mut rows = Vec::new();
    for row in all_rows() {
        rows.push(measure(engine, row, block_bytes, time)?);
    }
    Ok(Report {
        block_bytes,
        seconds: time.as_secs_f64(),
        processor,
        openssl,
        known_answers,
        rows,
        notes: NOTES.to_vec(),
    })
}

/// Every mode, key length and direction that is shown.
fn all_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for mode in ["ecb", "ctr", "cbc", "gcm", "ccm"] {
        for key_bits in [128, 256] {
            // Counter mode is the same either way.
            let directions: &[bool] = if mode == "ctr" {
                &[false]
            } else {
                &[false, true]
            };
            rows.extend(directions.iter().map(|decrypt| Row {
                mode,
                key_bits,
                decrypt: *decrypt,
            }));
        }
    }
    rows
}

/// Pins this process, and its children, to one processor: the last permitted one, because the first
/// handles most interrupts.
fn pin() -> Result<usize, Failure> {
    let failed = Failure::of("stay on one processor");
    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own).map_err(&failed)?;
    let last = (0..CpuSet::count())
        .rev()
        .find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let last = last.unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(last).map_err(&failed)?;
    sched_setaffinity(own, &one).map_err(&failed)?;
    Ok(last)
}

fn measure(engine: &Engine, row: Row, bytes: usize, time: Duration) -> Result<Measured, Failure> {
    let mode = match row.mode {
        "gcm" => Some(Mode::Gcm),
        "ccm" => Some(Mode::Ccm),
        "ecb" => Some(Mode::Ecb),
        _ => None,
    };
    let mut speeds = [None; 2];
    if let Some(mode) = mode {
        for (speed, code) in speeds.iter_mut().zip([Code::InUse, Code::OpenZfs]) {
            let measured = engine_speed(engine, mode, code, row, bytes, time);
            *speed = Some(measured.map_err(|error| refused(row, error))?);
        }
    }
    let openssl = match row.mode {
        // OpenSSL offers it, but measures it in an incomparable way.
        "ccm" => None,
        _ => Some(openssl::speed(&name(row), row.decrypt, bytes, time)?),
    };
    Ok(Measured {
        cipher: name(row),
        direction: if row.decrypt { "decrypt" } else { "encrypt" },
        engine_mb_per_s: speeds[0],
        openzfs_mb_per_s: speeds[1],
        openssl_mb_per_s: openssl,
    })
}

fn name(row: Row) -> String {
    format!("aes-{}-{}", row.key_bits, row.mode)
}

fn refused(row: Row, error: CipherError) -> Failure {
    Failure::new(FailureKind::Failed, format!("{}: {error}", name(row)))
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Megabytes for each second of processor time.
fn engine_speed(
    engine: &Engine,
    mode: Mode,
    code: Code,
    row: Row,
    bytes: usize,
    time: Duration,
) -> Result<f64, CipherError> {
    let mut cipher = Cipher::new(engine, mode, code, &vec![1; usize::from(row.key_bits) / 8])?;
    let input = vec![2; bytes];
    let mut out = vec![0; bytes];
    let iv = [3; IV_BYTES];
    let tag = cipher.encrypt(&iv, &[], &input, &mut out)?;
    let secret = out.clone();
    let (began, first) = (Instant::now(), processor_time());
    let mut runs = 0_u32;
    while began.elapsed() < time {
        match row.decrypt {
            true => cipher.decrypt(&iv, &[], &secret, &mut out, &tag)?,
            false => cipher.encrypt(&iv, &[], &input, &mut out).map(drop)?,
        }
        runs += 1;
    }
    let took = processor_time() - first;
    Ok(f64::from(runs) * bytes as f64 / took.as_secs_f64() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_mode_has_a_row_per_direction() {
        let rows = all_rows();
        assert_eq!(rows.len(), 18);
        assert!(
            rows.iter()
                .any(|row| name(*row) == "aes-256-gcm" && row.decrypt)
        );
        assert!(!rows.iter().any(|row| row.mode == "ctr" && row.decrypt));
    }
}
