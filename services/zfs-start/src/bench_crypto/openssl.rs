//! OpenSSL's `speed` command, and its results for the test vectors.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use control::{Failure, FailureKind};

use super::test_vectors::{BLOCKS, VECTORS, hex};

const PROGRAM: &str = "openssl";

fn failed(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Failed, format!("{what}: {why}"))
}

/// Returns the version of OpenSSL.
pub fn version() -> Result<String, Failure> {
    let output = Command::new(PROGRAM)
        .arg("version")
        .output()
        .map_err(|error| {
            let failure = Failure::new(FailureKind::NotFound, format!("run {PROGRAM}: {error}"));
            failure
                .advise("install the package openssl: its figures are printed next to the engine's")
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "OpenSSL 3.0.0 1 Jan 2026 (Library: ...)"
    Ok(text
        .split_whitespace()
        .take(2)
        .collect::<Vec<_>>()
        .join(" "))
}

/// Returns megabytes per second of processor time, as measured by `openssl speed`.
pub fn speed(cipher: &str, decrypt: bool, bytes: usize, time: Duration) -> Result<f64, Failure> {
    // It counts whole seconds.
    let seconds = time.as_secs().max(1);
    let mut command = Command::new(PROGRAM);
    command.args(["speed", "-mr", "-evp", cipher]);
    command.args([
        "-bytes",
        &bytes.to_string(),
        "-seconds",
        &seconds.to_string(),
    ]);
    if decrypt {
        command.arg("-decrypt");
    }
    let what = format!("{PROGRAM} speed -evp {cipher}");
    let output = command.output().map_err(|error| failed(&what, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    found(&text).ok_or_else(|| failed(&what, String::from_utf8_lossy(&output.stderr)))
}

/// `+F:NUMBER:NAME:BYTES_PER_SECOND`.
fn found(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("+F:"))?;
    let speed: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
    Some(speed / 1e6)
}

/// Checks the test vectors of the modes that the engine does not offer. Returns their number.
pub fn check() -> Result<usize, Failure> {
    for vector in &VECTORS {
        let name = vector.cipher;
        let mut command = Command::new(PROGRAM);
        // A public test vector can be passed as an argument.
        command.args(["enc", &format!("-{name}"), "-nopad", "-K", vector.key]);
        if !vector.iv.is_empty() {
            command.args(["-iv", vector.iv]);
        }
        let output = piped(command, &hex(BLOCKS)).map_err(|error| failed(name, error))?;
        if output != hex(vector.answer) {
            let message = "a test vector of SP 800-38A failed";
            return Err(failed(&format!("{PROGRAM} {name}"), message));
        }
    }
    Ok(VECTORS.len())
}

/// Returns the output of the process for `input`, which fits a pipe buffer.
fn piped(mut command: Command, input: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input)?;
    }
    Ok(child.wait_with_output()?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_machine_readable_speed_is_parsed() {
        let text = "+DT:AES-256-GCM:1:16384\n+R:13725:AES-256-GCM:0.07\n+H:16384\n\
                    +F:25:AES-256-GCM:3212434285.71\n";
        assert_eq!(found(text).map(f64::round), Some(3212.0));
        assert_eq!(found("nothing"), None);
    }

    #[test]
    fn openssl_passes_the_known_answer_tests() {
        assert_eq!(check().expect("test_vectors"), VECTORS.len());
    }
}
