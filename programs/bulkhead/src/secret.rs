//! Reads a secret from a file, the standard input, or a prompt without echo; never from an
//! argument, which every user of the machine could see.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;

use control::secret::SECRET_BYTES_MAX;
use control::{Failure, FailureKind, Secret};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

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
            first_line(std::fs::File::open(path).map_err(failed)?).map_err(failed)?
        }
        SecretSource::Stdin => first_line(std::io::stdin().lock()).map_err(unreadable)?,
        SecretSource::Prompt => prompt()?,
    };
    Ok(Zeroizing::new(
        line.trim_end_matches(['\n', '\r']).to_owned(),
    ))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::new(FailureKind::Failed, format!("read the secret: {error}"))
}

/// The first line, with a bound on what is read.
fn first_line(from: impl Read) -> std::io::Result<Zeroizing<String>> {
    let mut line = Zeroizing::new(String::new());
    let bounded = from.take(SECRET_BYTES_MAX as u64 + 3);
    BufReader::new(bounded).read_line(&mut line)?;
    Ok(line)
}

fn prompt() -> Result<Zeroizing<String>, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage("no secret was given")
            .advise("use --secret-file FILE, or --secret-stdin, or run it on a terminal"));
    }
    let failed = |error: nix::Error| unreadable(error.into());
    let before = tcgetattr(&input).map_err(failed)?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    let mut screen = std::io::stderr();
    let _ = write!(screen, "secret: ");
    tcsetattr(&input, SetArg::TCSAFLUSH, &silent).map_err(failed)?;
    let line = first_line(input.lock());
    tcsetattr(&input, SetArg::TCSAFLUSH, &before).map_err(failed)?;
    let _ = writeln!(screen);
    line.map_err(unreadable)
}
