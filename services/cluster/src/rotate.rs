//! Replaces the secret of the running cluster. Corosync switches without losing a message: each node reloads its file,
//! and they change over together.
//!
//! Values that are sealed with the former secret stay readable: it is stored among the opening keys on every head
//! before the new one is written anywhere. A killed run is repeated; all secrets that the heads then have are stored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use appliance::plan::{AUTHKEY_BYTES, AUTHKEY_PATH, PEER_KEY_BYTES, PEER_KEY_PATH, is_authkey};
use units::HeadName;

use crate::apply::{ApplyError, create_secret, write_secret};
use crate::host::{Host, HostError, Hosts, must, read_file, write_file};
use crate::observe::running_cluster;
use crate::process::Invocation;

/// The directory of keys that open previously sealed values.
pub const FORMER_KEYS: &str = "/var/lib/bulkhead/seal-keys";
/// Permissions of a key there.
const FORMER_KEY_MODE: u32 = 0o600;

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Store the former secret on a head.
    Keep(HeadName),
    /// Write the new one on a head.
    Write(HeadName),
    /// Write a new key of the heads on a head.
    WritePeerKey(HeadName),
    /// Have every running Corosync load it.
    Reload(HeadName),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keep(head) => write!(f, "{head}: store the current secret in {FORMER_KEYS}"),
            Self::Write(head) => {
                write!(
                    f,
                    "{head}: write a new secret to {AUTHKEY_PATH} (not shown)"
                )
            }
            Self::WritePeerKey(head) => {
                write!(
                    f,
                    "{head}: write a new key of the heads to {PEER_KEY_PATH} (not shown)"
                )
            }
            Self::Reload(head) => write!(f, "{head}: have every Corosync load the new secret"),
        }
    }
}

/// Replaces the secret on all of `machines`, which are all heads of the appliance.
///
/// # Errors
///
/// The first step that fails. The cluster continues with its previous secret; repeat the run when the cause is
/// repaired.
pub fn rotate_key(machines: &Hosts, progress: &mut dyn FnMut(&Step)) -> Result<(), ApplyError> {
    let failed = |step: &Step| {
        let change = step.to_string();
        move |source: HostError| ApplyError::Change { change, source }
    };
    let mut former = BTreeSet::new();
    let mut running = None;
    let mut has_peer_key = false;
    for (head, machine) in machines {
        let step = Step::Keep(head.clone());
        let path = Path::new(AUTHKEY_PATH);
        let found = read_file(machine.as_ref(), path).map_err(failed(&step))?;
        let found = found.map(|(secret, _)| secret);
        former.extend(found.filter(|secret| is_authkey(secret.len())));
        let peer_key = read_file(machine.as_ref(), Path::new(PEER_KEY_PATH));
        has_peer_key |= peer_key.map_err(failed(&step))?.is_some();
        let is_running = running_cluster(machine.as_ref()).map_err(failed(&step))?;
        running = running.or_else(|| is_running.map(|_| head));
    }
    for (head, machine) in machines {
        let step = Step::Keep(head.clone());
        progress(&step);
        keep(machine.as_ref(), &former).map_err(failed(&step))?;
    }
    let secret = create_secret(AUTHKEY_BYTES)?;
    for (head, machine) in machines {
        let step = Step::Write(head.clone());
        progress(&step);
        write_secret(machine.as_ref(), AUTHKEY_PATH, &secret).map_err(failed(&step))?;
    }
    // Heads without the key may be older than it. `apply` creates it there.
    if has_peer_key {
        let key = create_secret(PEER_KEY_BYTES)?;
        for (head, machine) in machines {
            let step = Step::WritePeerKey(head.clone());
            progress(&step);
            write_secret(machine.as_ref(), PEER_KEY_PATH, &key).map_err(failed(&step))?;
        }
    }
    // A Corosync that does not run reads the new one at its next start.
    if let Some(head) = running {
        let step = Step::Reload(head.clone());
        progress(&step);
        let reload = Invocation::new("corosync-cfgtool", &["-R"]);
        must(machines[head].as_ref(), &reload).map_err(failed(&step))?;
    }
    Ok(())
}

fn keep(machine: &dyn Host, former: &BTreeSet<Vec<u8>>) -> Result<(), HostError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    for (number, secret) in former.iter().enumerate() {
        let path: PathBuf = [FORMER_KEYS, &format!("authkey-{seconds}-{number}")]
            .iter()
            .collect();
        write_file(machine, &path, secret, FORMER_KEY_MODE)?;
    }
    Ok(())
}
