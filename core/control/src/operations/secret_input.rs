//! Reads a secret from a file, the standard input, or a prompt without echo. Never from an
//! argument, which every local user could see.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::key::KEY_BYTES_MAX;
use crate::secret::SECRET_BYTES_MAX;
use crate::{Failure, FailureKind, Secret};

/// A key from the standard input: whatever bytes come, at most as many as a key has.
///
/// # Errors
///
/// Nothing or too much came, or it cannot be read.
pub fn key_from_stdin() -> Result<Zeroizing<Vec<u8>>, Failure> {
    // Never moved while it grows, which would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES_MAX + 2));
    let mut bounded = std::io::stdin().lock().take(KEY_BYTES_MAX as u64 + 1);
    bounded.read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() {
        0 => Err(Failure::usage("no key came on the standard input")),
        length if length > KEY_BYTES_MAX => Err(Failure::usage(format!(
            "the standard input is longer than any key, {KEY_BYTES_MAX} bytes"
        ))),
        _ => Ok(bytes),
    }
}

/// A key that is typed: one line.
///
/// # Errors
///
/// There is no terminal, or it cannot be read.
pub fn key_from_prompt(question: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    key_of(prompt(question, KEY_BYTES_MAX)?)
}

fn key_of(line: Option<Zeroizing<String>>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let line = line.ok_or_else(|| {
        Failure::usage("no key was given").advise("use --key-stdin, or run it on a terminal")
    })?;
    let text = line.trim_end_matches(['\n', '\r']);
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// A new key that is typed.
///
/// # Errors
///
/// There is no terminal, it cannot be read, or the two lines differ.
pub fn new_key_from_prompt(what: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    key_of(twice(what, KEY_BYTES_MAX)?)
}

/// Where a secret is read from.
#[derive(Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// First line of a file.
    File(PathBuf),
    /// First line of the standard input.
    Stdin,
    /// Typed by a user.
    Prompt,
}

/// Reads and checks a new secret.
///
/// # Errors
///
/// It cannot be read, or CHAP does not take it.
pub fn read(source: &SecretSource) -> Result<Secret, Failure> {
    let text = read_line(source, "secret")?;
    Secret::new(text.to_string()).map_err(|error| Failure::usage(error.to_string()))
}

/// Reads one line with a new secret or password, without echo; `what` names it in prompts.
///
/// # Errors
///
/// It cannot be read, or the two entries differ.
pub fn read_line(source: &SecretSource, what: &str) -> Result<Zeroizing<String>, Failure> {
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
        SecretSource::Prompt => twice(what, SECRET_BYTES_MAX)?.ok_or_else(|| {
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

/// Returns the first line, with a bound on the bytes read.
fn first_line(from: impl Read, bytes_max: usize) -> std::io::Result<Zeroizing<String>> {
    let mut line = Zeroizing::new(String::with_capacity(bytes_max + 3));
    let bounded = from.take(bytes_max as u64 + 3);
    BufReader::new(bounded).read_line(&mut line)?;
    Ok(line)
}

/// Prompts for a new line twice: a typing mistake would lock its owner out.
fn twice(what: &str, bytes_max: usize) -> Result<Option<Zeroizing<String>>, Failure> {
    let Some(first) = prompt(&format!("new {what}: "), bytes_max)? else {
        return Ok(None);
    };
    let second = prompt(&format!("the same {what} again: "), bytes_max)?;
    match second.is_some_and(|second| *second == *first) {
        true => Ok(Some(first)),
        false => Err(Failure::usage("the two differ").advise("try again")),
    }
}

/// Typed input, up to the interrupt character.
struct Typed<R> {
    from: R,
    interrupt: u8,
    is_interrupted: bool,
}

impl<R: Read> Read for &mut Typed<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.is_interrupted {
            return Ok(0);
        }
        let length = self.from.read(into)?;
        let end = into[..length]
            .iter()
            .position(|byte| *byte == self.interrupt);
        self.is_interrupted = end.is_some();
        Ok(end.unwrap_or(length))
    }
}

/// Reads a line without echo; none where there is no terminal.
fn prompt(question: &str, bytes_max: usize) -> Result<Option<Zeroizing<String>>, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(None);
    }
    let failed = |error: Errno| unreadable(error.into());
    let before = tcgetattr(&input).map_err(failed)?;
    let mut silent = before.clone();
    // The interrupt character terminates the line, so that the terminal is restored before the signal terminates the
    // process.
    let interrupt = before.special_codes[SpecialCodeIndex::VINTR];
    silent
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ISIG);
    silent.special_codes[SpecialCodeIndex::VEOL] = interrupt;
    // Before the prompt: input that is typed at once is neither echoed nor discarded.
    tcsetattr(&input, OptionalActions::Flush, &silent).map_err(failed)?;
    let mut screen = std::io::stderr();
    let _ = write!(screen, "{question}");
    let mut typed = Typed {
        from: input.lock(),
        interrupt,
        is_interrupted: false,
    };
    let line = first_line(&mut typed, bytes_max);
    tcsetattr(&input, OptionalActions::Flush, &before).map_err(failed)?;
    let _ = writeln!(screen);
    if typed.is_interrupted {
        let _ = kill_process(getpid(), Signal::INT);
        return Err(unreadable(std::io::ErrorKind::Interrupted.into()));
    }
    line.map(Some).map_err(unreadable)
}
