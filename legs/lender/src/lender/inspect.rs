//! Inspects lent disks without a session: their holders and their contents.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use labels::{Device, Label, LabelState};
use leg_record::{Ballot, DiskId, Holder, Roots};

use super::Lender;
use crate::disk::OpenError;

/// Maximum bytes of a pool's name on a disk that are reported.
const NAME_CHARS_MAX: usize = 48;

/// The result of an inspection without a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The holder of the disk.
    pub holder: Holder,
    /// The greatest term that claimed it.
    pub enforced: Ballot,
    /// A description of its contents, without control characters; empty if unknown.
    pub contents: String,
}

impl Lender {
    /// Inspects a disk. Read-only, except: an unused disk that was replaced or resized is reopened, so that the
    /// reported size is that of the disk at its path.
    pub fn inspect(&self, id: DiskId) -> Inspection {
        self.renew(id);
        let nothing = |holder| Inspection {
            holder,
            enforced: Ballot::default(),
            contents: String::new(),
        };
        if self.withheld().contains_key(&id) {
            return nothing(Holder::Unknown);
        }
        let (path, is_open, session, gate) = {
            let disks = self.disks();
            let Some(lent) = disks.get(&id) else {
                return nothing(Holder::NotLent);
            };
            let name = lent.session.as_ref().map(|(name, _)| name.clone());
            let session = name.map(|name| (name, lent.holder));
            let gate = Arc::clone(&lent.gate);
            (lent.path.clone(), lent.disk.is_some(), session, gate)
        };
        let holder = match session.filter(|(name, _)| self.is_connected(name)) {
            Some((_, by)) => Holder::Session(by),
            None if is_open => Holder::Unused,
            None => match (self.opens)(&path) {
                Ok(_) => Holder::Unused,
                Err(OpenError::InUse(_)) => Holder::Process,
                Err(_) => Holder::Unopened,
            },
        };
        Inspection {
            holder,
            enforced: gate.lender_state().enforced,
            contents: contents(&path),
        }
    }

    /// Whether anybody is connected to the export of that name. A session without a connection may be that of a head that has stopped.
    fn is_connected(&self, name: &str) -> bool {
        let sessions = self.server.sessions();
        sessions.iter().any(|one| one.export == name)
    }

    /// Reopens a disk that differs from the one at its path. For its former session that is equal to a restart of the
    /// lender.
    fn renew(&self, id: DiskId) {
        let (disk, session, gate) = {
            let disks = self.disks();
            let Some(lent) = disks.get(&id) else { return };
            let Some(disk) = lent.disk.clone() else {
                return;
            };
            let session = lent.session.as_ref().map(|(name, _)| name.clone());
            (disk, session, Arc::clone(&lent.gate))
        };
        let is_used = session.is_some_and(|name| self.is_connected(&name));
        if is_used || !(disk.is_replaced() || disk.is_resized()) {
            return;
        }
        let Some(_reopening) = gate.reopens() else {
            return;
        };
        let path = disk.path().display();
        tracing::warn!(leg = id.0, %path, "another disk, or one of another size, is at its path: it is reopened");
        drop(disk);
        let until = Instant::now() + self.settings.drain_wait;
        if let Err(error) = self.cut(id).and_then(|()| self.reopen(id, until)) {
            tracing::warn!(leg = id.0, %error, "it is opened when it is claimed");
        }
    }
}

/// A description of the contents of a disk, without control characters; empty if unknown.
pub fn contents(path: &Path) -> String {
    words_of(path).replace(char::is_control, "?")
}

fn words_of(path: &Path) -> String {
    let label = Label::read_unless_wiped(path).ok().flatten();
    let other = || {
        let found = labels::other_contents(path).ok().flatten();
        found.unwrap_or_default().to_owned()
    };
    let Some(label) = label else {
        return other();
    };
    // It comes from the disk.
    let name: String = label.pool_name.chars().take(NAME_CHARS_MAX).collect();
    match label.state {
        LabelState::Active => format!("pool {name}, which was not exported"),
        LabelState::Exported => format!("the exported pool {name}"),
        LabelState::Spare => "a spare of a pool".to_owned(),
        LabelState::Cache => "a cache of a pool".to_owned(),
        LabelState::Destroyed => other(),
    }
}

/// The newest roots on the disk.
pub(super) fn newest_roots(path: &Path) -> Roots {
    let device = Device::open(path).ok().flatten();
    let found = device.and_then(|device| device.newest_uberblocks());
    found.map_or(Roots::default(), |(newest, before)| Roots {
        newest: newest.txg,
        before,
    })
}
