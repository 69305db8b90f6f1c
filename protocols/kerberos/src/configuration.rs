//! Checks that the library finds `krb5.conf`. Without it the library reports no error, but no realm
//! is local, and every principal is mapped to `nobody`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// The variable with alternative files, separated by colons.
const VARIABLE: &str = "KRB5_CONFIG";
const USUAL: &str = "/etc/krb5.conf";

/// The configuration cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct ConfigurationError {
    /// The first file that is searched.
    pub path: PathBuf,
    #[source]
    cause: io::Error,
}

/// Checks that the Kerberos configuration is readable now.
///
/// # Errors
///
/// None of the searched files is readable.
pub fn check_configuration() -> Result<(), ConfigurationError> {
    let named = std::env::var_os(VARIABLE).unwrap_or_default();
    check(if named.is_empty() {
        USUAL.into()
    } else {
        named
    })
}

fn check(files: OsString) -> Result<(), ConfigurationError> {
    let mut first = None;
    for path in std::env::split_paths(&files) {
        // A directory can be opened, too.
        match File::open(&path).and_then(|mut file| file.read(&mut [0])) {
            Ok(_) => return Ok(()),
            Err(cause) => first = first.or(Some(ConfigurationError { path, cause })),
        }
    }
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn one_readable_configuration_file_suffices() {
        let here = std::env::current_exe().expect("a program");
        let join = |paths: &[&Path]| std::env::join_paths(paths).expect("no colons");
        let (none, other) = (Path::new("/nonexistent/one"), Path::new("/nonexistent/two"));
        assert!(check(join(&[none, &here])).is_ok());
        let error = check(join(&[none, other])).expect_err("none of them is there");
        assert_eq!(error.path, none);
        assert_eq!(error.to_string(), "/nonexistent/one cannot be read");
    }
}
