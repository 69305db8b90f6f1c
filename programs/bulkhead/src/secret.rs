//! Reads a secret from a file, the standard input, or a prompt without echo; never from an
//! argument, which every user of the machine could see.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;

use control::key::KEY_BYTES_MAX;
use control::secret::SECRET_BYTES_MAX;
use control::{Failure, FailureKind, Secret};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// A key from the standard input: whatever bytes come, at most as many as a key has.
pub fn key_from_stdin() -> Result<Zeroizing<Vec<u8>>, Failure> {
    // Never moved while it grows, which would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES_MAX + 2));
    let mut bounded = std::io::stdin().lock().take(KEY_BYTES_MAX as u64 + 1);
    bounded.read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() {
        0 => Err(Failure::usage("no key came on the standard input")),
        length if length > KEY_BYTES_MAX => Err(Failure::usage(format!(
            "what came on the standard input is longer than any key, {KEY_BYTES_MAX} bytes"
        ))),
        _ => Ok(bytes),
    }
}

/// A key that is typed: one line.
pub fn key_from_prompt(question: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let line = prompt(question, KEY_BYTES_MAX)?.ok_or_else(|| {
        Failure::usage("no key was given").advise("use --key-stdin, or run it on a terminal")
    })?;
    let text = line.trim_end_matches(['\n', '\r']);
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// Where a secret is read from.
#[derive(Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// First line of a file.
    File(PathBuf),
    /// First line of the standard input.
    Stdin,
    /// Typed by a person.
    Prompt,
}

/// Reads and checks the secret.
pub fn read(source: &SecretSource) -> Result<Secret, Failure> {
    let text = read_line(source)?;
    Secret::new(text.to_string()).map_err(|error| Failure::usage(error.to_string()))
}

/// Reads a line that nobody else should see.
pub fn read_line(source: &SecretSource) -> Result<Zeroizing<String>, Failure> {
    let line = match source {
        SecretSource::File(path) => {
            let failed = |error: std::io::Error| {
                let message = format!("read the secret from {}: {error}", path.display());
                Failure::new(FailureKind::NotFound, message)
            };
            let file = std::fs::File::open(path).map_err(failed)?;
            first_line(file, SECRET_BYTES_MAX).map_err(failed)?
        }
        SecretSource::Stdin => {
            first_line(std::io::stdin().lock(), SECRET_BYTES_MAX).map_err(unreadable)?
        }
        SecretSource::Prompt => prompt("secret: ", SECRET_BYTES_MAX)?.ok_or_else(|| {
            Failure::usage("no secret was given")
                .advise("use --secret-file FILE, or --secret-stdin, or run it on a terminal")
        })?,
    };
    Ok(Zeroizing::new(
        line.trim_end_matches(['\n', '\r']).to_owned(),
    ))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::new(FailureKind::Failed, format!("read the secret: {error}"))
}

/// The first line, with a bound on what is read.
fn first_line(from: impl Read, bytes_max: usize) -> std::io::Result<Zeroizing<String>> {
    let mut line = Zeroizing::new(String::with_capacity(bytes_max + 3));
    let bounded = from.take(bytes_max as u64 + 3);
    BufReader::new(bounded).read_line(&mut line)?;
    Ok(line)
}

/// A line typed by a person, without echo; none where there is no terminal.
fn prompt(question: &str, bytes_max: usize) -> Result<Option<Zeroizing<String>>, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(None);
    }
    let failed = |error: nix::Error| unreadable(error.into());
    let before = tcgetattr(&input).map_err(failed)?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    let mut screen = std::io::stderr();
    let _ = write!(screen, "{question}");
    tcsetattr(&input, SetArg::TCSAFLUSH, &silent).map_err(failed)?;
    let line = first_line(input.lock(), bytes_max);
    tcsetattr(&input, SetArg::TCSAFLUSH, &before).map_err(failed)?;
    let _ = writeln!(screen);
    line.map(Some).map_err(unreadable)
}
