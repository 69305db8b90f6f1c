//! Reads the appliance file.

use std::io::Read;
use std::path::Path;

use appliance::{Appliance, FILE_BYTES_MAX};
use control::{Failure, FailureKind};

/// The text of the file; a file that is far too long is not read to its end.
pub fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => FailureKind::NotFound,
                std::io::ErrorKind::PermissionDenied => FailureKind::Denied,
                _ => FailureKind::Failed,
            };
            Failure::new(kind, format!("read {}: {error}", path.display()))
        })?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("{} is no text in UTF-8", path.display());
        Failure::usage(message).advise("an appliance file is TOML; start from one of the examples")
    })
}

/// The appliance that a file describes.
pub fn load(path: &Path) -> Result<Appliance, Failure> {
    let parsed = appliance::parse(&read(path)?);
    let parsed = parsed.map_err(|finding| {
        let (shown, line) = (path.display(), finding.place.line.unwrap_or(1));
        Failure::usage(format!("{shown}, line {line}: {}", finding.what)).advise(finding.mend)
    })?;
    Ok(parsed.appliance)
}
