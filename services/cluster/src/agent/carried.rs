//! The addresses that the agent sets and removes together with a pool: set as soon as its server listens, removed
//! before the server closes the pool. Each is also a resource of Pacemaker, which monitors it and finds it in the
//! desired state; clients are not delayed by Pacemaker's steps in between.
//!
//! The set addresses are recorded, so that a stop needs no other file. A stop also removes the addresses of the
//! appliance file, which may be newer: another head, which sets them with the pool, relies on that.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use units::PoolName;

use super::address::Address;
use crate::host::Host;

/// The addresses in the current appliance file; empty if it cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// The addresses of the pool.
    pub own: Vec<Address>,
    /// The addresses of other pools.
    pub of_others: BTreeSet<IpAddr>,
}

/// The addresses of one pool on this head.
#[derive(Debug)]
pub struct Carried {
    note_path: PathBuf,
}

impl Carried {
    /// The addresses of `pool`, recorded in `run_dir`.
    pub fn new(run_dir: &Path, pool: &PoolName) -> Self {
        Self {
            note_path: run_dir.join(format!("{pool}.addresses.json")),
        }
    }

    /// Sets `addresses` concurrently. A failure is logged and left to the agent of the address, which reports it to
    /// Pacemaker.
    ///
    /// # Errors
    ///
    /// They could not be recorded, so none was set.
    pub fn bring(&self, addresses: &[Address], machine: &dyn Host) -> Result<(), String> {
        if addresses.is_empty() {
            return Ok(());
        }
        // Recorded first, so that a later stop finds each address.
        self.write(addresses)
            .map_err(|error| format!("note addresses in {}: {error}", self.note_path.display()))?;
        for (address, done) in each(addresses, |one| one.start(machine)) {
            let address = address.address;
            match done {
                Ok(()) => tracing::debug!(%address, "address set"),
                Err(trouble) => {
                    let why = trouble.into_reason();
                    tracing::warn!(%address, why, "an address is not set with its pool");
                }
            }
        }
        Ok(())
    }

    /// Removes the recorded addresses and those of `described`, concurrently: an address may be newer than the start.
    /// An address that belongs to another pool now stays.
    ///
    /// # Errors
    ///
    /// An address may still be here.
    pub fn withdraw(
        &self,
        machine: &dyn Host,
        described: impl FnOnce() -> Described,
    ) -> Result<(), String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!(
                "remove the addresses in {}: {why}",
                self.note_path.display()
            )
        };
        let noted: Option<Vec<Address>> = match std::fs::read(&self.note_path) {
            Ok(text) => Some(serde_json::from_slice(&text).map_err(|error| failed(&error))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&error)),
        };
        let is_noted = noted.is_some();
        let described = described();
        let mut all = noted.unwrap_or_default();
        all.retain(|one| !described.of_others.contains(&one.address));
        for one in described.own {
            // The recorded form has precedence.
            if !all.iter().any(|known| known.address == one.address) {
                all.push(one);
            }
        }
        for (address, done) in each(&all, |one| one.stop(machine)) {
            done.map_err(|trouble| format!("{}: {}", address.address, trouble.into_reason()))?;
            tracing::debug!(address = %address.address, "address removed");
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

/// Runs `work` for all addresses concurrently.
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

    /// Logs the commands, and stores the addresses; `ip` fails if its arguments contain `broken`.
    #[derive(Default)]
    struct Head {
        broken: &'static str,
        log: Mutex<Vec<String>>,
        addresses: Mutex<Vec<String>>,
    }

    impl Host for Head {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let words: Vec<&str> = invocation.arguments.iter().map(String::as_str).collect();
            let line = format!("{} {}", invocation.program, words.join(" "));
            let fails = !self.broken.is_empty() && line.contains(self.broken);
            self.log.lock().expect("no panic").push(line);
            let mut addresses = self.addresses.lock().expect("no panic");
            let mut output = Output {
                code: i32::from(fails),
                ..Output::default()
            };
            match words.as_slice() {
                _ if fails => {}
                ["addr", "add", address, ..] => addresses.push((*address).to_owned()),
                ["addr", "del", address, ..] => addresses.retain(|one| one != address),
                ["-o", "addr", "show", "to", range] => {
                    let held = addresses
                        .iter()
                        .filter(|one| one.split('/').next() == Some(range));
                    let lines = held.map(|one| format!("2: ens1f0    inet {one} scope global\n"));
                    output.stdout = lines.collect::<String>().into_bytes();
                }
                _ => {}
            }
            Ok(output)
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

    fn described() -> Described {
        Described {
            own: addresses(),
            ..Described::default()
        }
    }

    fn held(addresses: &[Address]) -> Vec<String> {
        let held = addresses.iter();
        held.map(|one| format!("{}/{}", one.address, one.prefix))
            .collect()
    }

    fn carried(folder: &tempfile::TempDir) -> Carried {
        Carried::new(folder.path(), &"tank".parse().expect("a name"))
    }

    #[test]
    fn added_addresses_are_withdrawn_once_by_later_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head::default();
        carried(&folder).bring(&addresses(), &head).expect("noted");
        assert_eq!(head.count("addr add"), 2);
        for _ in 0..2 {
            let withdrawn = carried(&folder).withdraw(&head, Described::default);
            withdrawn.expect("withdrawn");
            assert_eq!(head.count("addr del"), 2);
        }
    }

    #[test]
    fn remaining_address_fails_withdrawal_and_is_retried() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head {
            broken: "del fd77::100",
            ..Head::default()
        };
        carried(&folder).bring(&addresses(), &head).expect("noted");
        for count in [2, 3] {
            let withdrawn = carried(&folder).withdraw(&head, Described::default);
            let why = withdrawn.expect_err("one stays");
            assert!(why.contains("fd77::100"), "{why}");
            assert_eq!(head.count("addr del"), count);
        }
    }

    #[test]
    fn missing_state_file_withdraws_configured_addresses() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head::default();
        *head.addresses.lock().expect("no panic") = held(&addresses());
        let withdrawn = carried(&folder).withdraw(&head, described);
        withdrawn.expect("withdrawn");
        assert_eq!(head.count("addr del"), 2);
    }

    /// The record is from the start of the server. The next owner sets the addresses of the file.
    #[test]
    fn address_added_after_start_is_withdrawn() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head::default();
        let [first, second]: [Address; 2] = addresses().try_into().expect("two");
        let both = [first.clone(), second.clone()];
        carried(&folder).bring(&both[..1], &head).expect("noted");
        let of_other = Address {
            address: "10.77.1.101".parse().expect("an address"),
            ..first.clone()
        };
        carried(&folder)
            .bring(&[first, of_other.clone()], &head)
            .expect("noted");
        *head.addresses.lock().expect("no panic") =
            held(&[&both[..], std::slice::from_ref(&of_other)].concat());
        let described = || Described {
            own: vec![second],
            of_others: [of_other.address].into(),
        };
        carried(&folder)
            .withdraw(&head, described)
            .expect("withdrawn");
        assert_eq!(*head.addresses.lock().expect("no panic"), held(&[of_other]));
    }

    #[test]
    fn failed_address_does_not_fail_the_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let head = Head {
            broken: "add 10.77.1.100",
            ..Head::default()
        };
        carried(&folder).bring(&addresses(), &head).expect("noted");
        assert_eq!(head.count("addr add"), 2);
    }
}
