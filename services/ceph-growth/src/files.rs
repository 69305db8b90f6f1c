//! Files of the user: read within a bound, and replaced as a whole.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use control::Failure;

/// Largest file that is read.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads a file within a bound.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let failed = Failure::of(format!("read {}", path.display()));
    let found = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::not_found(format!("there is no file {}", path.display()))
        }
        _ => failed(error.to_string()),
    })?;
    if !found.is_file() || found.len() > bytes_max {
        let message = format!("{} is no file of at most {bytes_max} bytes", path.display());
        return Err(Failure::usage(message));
    }
    std::fs::read(path).map_err(|error| failed(error.to_string()))
}

/// Writes a file at once: a reader sees the old one or the new one.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = Failure::of(format!("write {}", path.display()));
    // A device or a pipe, such as /dev/stdout, cannot be replaced.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, text).map_err(failed);
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(directory).and_then(|file| {
        std::fs::write(file.path(), text)?;
        let file = file.persist(path).map_err(|error| error.error)?;
        // Readable like any file, which a temporary one is not.
        file.set_permissions(Permissions::from_mode(0o644))
    });
    written.map_err(failed)
}
