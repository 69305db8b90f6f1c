//! The addresses that come and go with a pool: up as soon as its server listens, away before the
//! server lets go. Pacemaker has each of them as a resource of its own, watches it, and finds it
//! done when it comes to it; clients need not wait for its steps in between.
//!
//! Which they are is noted while they are up, so that a stop needs no other file. Without a note they are
//! those of the appliance file: another head, which sets them with the pool, relies on the stop.

use std::path::{Path, PathBuf};

use units::PoolName;

use super::address::Address;
use crate::machine::Machine;

/// The addresses of one pool on this head.
#[derive(Debug)]
pub struct Carried {
    note_path: PathBuf,
}

impl Carried {
    /// Those of `pool`, noted in `run_dir`.
    pub fn new(run_dir: &Path, pool: &PoolName) -> Self {
        Self {
            note_path: run_dir.join(format!("{pool}.addresses.json")),
        }
    }

    /// Sets `addresses`, all at once. One that cannot be set is told, and left to the agent of its own, whose
    /// failure Pacemaker sees.
    ///
    /// # Errors
    ///
    /// They could not be noted, so none was set.
    pub fn bring(&self, addresses: &[Address], machine: &dyn Machine) -> Result<(), String> {
        if addresses.is_empty() {
            return Ok(());
        }
        // Noted first: whatever is up will be found again.
        self.write(addresses)
            .map_err(|error| format!("note addresses in {}: {error}", self.note_path.display()))?;
        for (address, done) in each(addresses, |one| one.start(machine)) {
            if let Err(trouble) = done {
                let (address, why) = (address.address, trouble.into_reason());
                tracing::warn!(%address, why, "an address is not set with its pool");
            }
        }
        Ok(())
    }

    /// Takes the noted addresses away, all at once; where nothing is noted, those of `described`.
    ///
    /// # Errors
    ///
    /// One may still be here.
    pub fn withdraw(
        &self,
        machine: &dyn Machine,
        described: impl FnOnce() -> Vec<Address>,
    ) -> Result<(), String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!("take away addresses by {}: {why}", self.note_path.display())
        };
        let noted: Option<Vec<Address>> = match std::fs::read(&self.note_path) {
            Ok(text) => Some(serde_json::from_slice(&text).map_err(|error| failed(&error))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&error)),
        };
        let is_noted = noted.is_some();
        for (address, done) in each(&noted.unwrap_or_else(described), |one| one.stop(machine)) {
            done.map_err(|trouble| format!("{}: {}", address.address, trouble.into_reason()))?;
        }
        match is_noted {
            true => std::fs::remove_file(&self.note_path).map_err(|error| failed(&error)),
            false => Ok(()),
        }
    }

    fn write(&self, addresses: &[Address]) -> std::io::Result<()> {
        let folder = self.note_path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)?;
        let new = self.note_path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(addresses)?)?;
        std::fs::rename(new, &self.note_path)
    }
}

/// Does `work` with all addresses at the same time.
fn each<T: Send>(addresses: &[Address], work: impl Fn(&Address) -> T + Sync) -> Vec<(&Address, T)> {
    let work = &work;
    std::thread::scope(|scope| {
        let begun: Vec<_> = addresses
            .iter()
            .map(|address| (address, scope.spawn(move || work(address))))
            .collect();
        let ended = begun.into_iter();
        ended
            .map(|(address, thread)| (address, thread.join().expect("no panic")))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::process::{Invocation, Output, RunError};

    /// Remembers what was run; `ip` fails where the words contain `broken`.
    #[derive(Default)]
    struct Head {
        broken: &'static str,
        log: Mutex<Vec<String>>,
    }

    impl Machine for Head {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let words = format!("{} {}", invocation.program, invocation.arguments.join(" "));
            let fails = !self.broken.is_empty() && words.contains(self.broken);
            self.log.lock().expect("no panic").push(words);
            Ok(Output {
                code: i32::from(fails),
                ..Output::default()
            })
        }
    }

    impl Head {
        fn count(&self, part: &str) -> usize {
            let log = self.log.lock().expect("no panic");
            log.iter().filter(|line| line.contains(part)).count()
        }
    }

    fn addresses() -> Vec<Address> {
        let one = |address: &str, prefix| Address {
            address: address.parse().expect("an address"),
            prefix,
            interface: Some("ens1f0".to_owned()),
        };
        vec![one("10.77.1.100", 24), one("fd77::100", 64)]
    }

    fn carried(folder: &tempfile::TempDir) -> Carried {
        Carried::new(folder.path(), &"tank".parse().expect("a name"))
    }

    #[test]
    fn what_was_brought_is_withdrawn_by_a_later_run_and_only_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head::default();
        carried(&folder).bring(&addresses(), &head).expect("noted");
        assert_eq!(head.count("addr add"), 2);
        for _ in 0..2 {
            let withdrawn = carried(&folder).withdraw(&head, Vec::new);
            withdrawn.expect("withdrawn");
            assert_eq!(head.count("addr del"), 2);
        }
    }

    #[test]
    fn an_address_that_stays_fails_the_withdrawal_and_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head {
            broken: "del fd77::100",
            ..Head::default()
        };
        carried(&folder).bring(&addresses(), &head).expect("noted");
        for count in [2, 4] {
            let withdrawn = carried(&folder).withdraw(&head, Vec::new);
            let why = withdrawn.expect_err("one stays");
            assert!(why.contains("fd77::100"), "{why}");
            assert_eq!(head.count("addr del"), count);
        }
    }

    #[test]
    fn without_a_note_the_described_addresses_are_withdrawn() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head::default();
        let withdrawn = carried(&folder).withdraw(&head, addresses);
        withdrawn.expect("withdrawn");
        assert_eq!(head.count("addr del"), 2);
    }

    #[test]
    fn an_address_that_cannot_be_set_is_no_failure_of_the_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head {
            broken: "add 10.77.1.100",
            ..Head::default()
        };
        carried(&folder).bring(&addresses(), &head).expect("noted");
        assert_eq!(head.count("addr add"), 2);
    }
}
