//! The engine on Ceph as an engine of this program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ceph::{CephEngine, EngineOptions};
use control::{Failure, FailureKind};
use engine::pool::{Candidate, DiscoverError};
use engine::transfer::{ResumeToken, TransferError, TransferErrorKind};
use engine::{Engine, HostId};
use pool_access::common::Common;
use pool_access::engines::{self, Engines, Options, Registered, Search, WithoutLegs};

use crate::cli::CephOptions;

/// Of an engine that only searches: it claims nothing.
const NO_HOST: HostId = HostId(std::num::NonZeroU32::MAX);

struct Ceph(OnceLock<Settings>);

struct Settings {
    user: String,
    keyring: Option<PathBuf>,
    lock_dir: PathBuf,
}

static CEPH: Ceph = Ceph(OnceLock::new());
static ALL: &[&dyn Registered] = &[&CEPH];

/// Registers the engine of this process.
pub fn register() {
    engines::register(Engines {
        all: ALL,
        legs: &WithoutLegs,
    });
}

/// Sets the user of the cluster, and the directory of the locks of this host.
///
/// # Errors
///
/// The named keyring cannot be read.
pub fn configure(options: &CephOptions, common: &Common) -> Result<(), Failure> {
    if let Some(path) = &options.keyring {
        std::fs::File::open(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => FailureKind::NotFound,
                std::io::ErrorKind::PermissionDenied => FailureKind::Denied,
                _ => FailureKind::Failed,
            };
            Failure::new(
                kind,
                format!("read the keyring {}: {error}", path.display()),
            )
        })?;
    }
    let settings = Settings {
        user: options.user.clone(),
        keyring: options.keyring.clone(),
        lock_dir: common.settings.run_dir.clone(),
    };
    let _ = CEPH.0.set(settings);
    Ok(())
}

impl Ceph {
    fn engine(&self, host_id: HostId) -> CephEngine {
        let settings = self.0.get().expect("set before the first command");
        let mut options = EngineOptions::new(host_id, settings.lock_dir.clone());
        options.user.clone_from(&settings.user);
        options.keyring.clone_from(&settings.keyring);
        CephEngine::start(options)
    }
}

impl Registered for Ceph {
    fn name(&self) -> &'static str {
        ceph::NAME
    }

    fn library(&self) -> &'static str {
        "librbd"
    }

    fn start(&self, options: Options<'_>) -> Result<Box<dyn Engine>, Failure> {
        let refused = [
            ("--arc-size", options.cache_bytes_max.is_some()),
            ("--dirty-max", options.dirty_bytes_max.is_some()),
            ("--txg-timeout", options.commit_interval_s.is_some()),
            ("--multihost-silence", options.multihost_silence.is_some()),
            ("--leg-faults", options.faults.is_some()),
        ];
        if let Some((option, _)) = refused.iter().find(|(_, is_set)| *is_set) {
            let message = format!("{option}: a shelf has no such setting");
            return Err(Failure::usage(message).advise("leave it out"));
        }
        Ok(Box::new(self.engine(options.host_id)))
    }

    /// The places are configuration files of clusters. If one of several clusters does not respond, the shelves of the
    /// remaining clusters are found.
    fn discover(&self, search: Search<'_>) -> Result<Vec<Candidate>, DiscoverError> {
        let places = match search {
            Search::Places(places) | Search::Everywhere { places, .. } | Search::Alone(places) => {
                places
            }
        };
        let engine = self.engine(NO_HOST);
        let (mut found, mut failed) = (Vec::new(), None);
        for place in files(places) {
            match engine.discover(std::slice::from_ref(&place)) {
                Ok(candidates) => found.extend(candidates),
                Err(error) => {
                    tracing::debug!(place = %place.display(), "{error}: {}", error.cause);
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    fn parse_token(&self, _: &str) -> Result<ResumeToken, TransferError> {
        let kind = TransferErrorKind::Token("a shelf sends and receives no streams");
        Err(TransferError::new("resume", "", kind))
    }

    fn advice_to_search(&self) -> &'static str {
        "`bulkhead pool list` shows the shelves of the cluster; name another cluster with --cluster"
    }

    fn advice_to_take_over(&self) -> &'static str {
        "export it there; or add --take-over: the cluster then refuses every further request of that host"
    }
}

/// The files at `places`, each once.
fn files(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let is_same = |one: &Path, other: &Path| {
        one == other
            || one
                .canonicalize()
                .ok()
                .is_some_and(|one| other.canonicalize().ok() == Some(one))
    };
    for place in places.iter().filter(|place| !place.is_dir()) {
        if !files.iter().any(|file| is_same(file, place)) {
            files.push(place.clone());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_that_is_named_twice_is_one_cluster_and_directories_are_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (
            directory.path().join("a.conf"),
            directory.path().join("b.conf"),
        );
        std::fs::write(&file, "").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let missing = directory.path().join("missing.conf");
        let places = [
            directory.path().to_owned(),
            file.clone(),
            link,
            missing.clone(),
            missing.clone(),
        ];
        assert_eq!(files(&places), [file, missing]);
    }
}
