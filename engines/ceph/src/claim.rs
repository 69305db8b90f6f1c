//! The claim of a shelf: the previous owner's client is refused by the cluster, then the owner is replaced.

use std::sync::Arc;

use ceph_sys::{CephError, Cluster, Namespace, ObjectChange};
use engine::pool::{Candidate, ImportOptions, PoolError, SafeToOwn};
use engine::{Claimed, Pool};
use units::PoolName;

use crate::SHELF_OBJECT;
use crate::claimant::Claimant;
use crate::discovery::{Found, load};
use crate::errors::of_pool;
use crate::pool::CephPool;
use crate::records::{Identity, Number, OWNER, Owner, Records, SHELF, State, json};
use crate::start::{CephEngine, Location};

const IMPORT: &str = "import";

/// How long the cluster refuses a previous owner, in seconds: a week. A process that was stopped for longer could write
/// again, so the entry outlasts every pause of a host. It costs some bytes of the cluster's map.
const BLOCKLIST_SECONDS: u32 = 7 * 24 * 3600;

/// Has the cluster refuse the client of `owner`, unless it released the shelf. Returns the epoch of the map from which
/// on it does.
fn refuse(cluster: &Cluster, owner: &Owner) -> Result<u64, CephError> {
    if owner.state == State::Active {
        cluster.blocklist(&owner.client, BLOCKLIST_SECONDS)?;
    }
    cluster.wait_for_latest_map()?;
    epoch(cluster)
}

fn epoch(cluster: &Cluster) -> Result<u64, CephError> {
    let output = cluster.mon_command(r#"{"prefix":"osd stat","format":"json"}"#)?;
    let stat: serde_json::Value =
        serde_json::from_slice(&output).map_err(|_| CephError::INVALID)?;
    stat["epoch"].as_u64().ok_or(CephError::INVALID)
}

impl CephEngine {
    /// The proof by the blocklist.
    pub(crate) fn blocklisted(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError> {
        let found: &Found = candidate.detail.get();
        let refused = self
            .0
            .connect(&found.location.conf)
            .and_then(|cluster| refuse(&cluster, &found.owner));
        let epoch =
            refused.map_err(|error| of_pool("refuse the last owner of", &candidate.name, error))?;
        Ok(SafeToOwn::blocklisted(candidate, epoch))
    }

    pub(crate) fn claimed(
        &self,
        candidate: &Candidate,
        proof: SafeToOwn,
        options: &ImportOptions,
    ) -> Result<ClaimedShelf, PoolError> {
        assert_eq!(
            proof.pool_guid(),
            candidate.guid,
            "proof about another pool"
        );
        let found: &Found = candidate.detail.get();
        let name = options
            .rename
            .as_ref()
            .map_or(candidate.name.as_str(), PoolName::as_str);
        let claimant = Claimant::new(self, Number(candidate.guid), name, IMPORT)?;
        let fail = |error| of_pool(IMPORT, &candidate.name, error);
        let cluster = self.0.connect(&found.location.conf).map_err(fail)?;
        let at = &found.location;
        let namespace = Namespace::open(&cluster, &at.pool, &at.namespace).map_err(fail)?;
        let mut shelf = ClaimedShelf {
            claimant: Some(claimant),
            location: at.clone(),
            namespace,
            before: found.owner.clone(),
            own: None,
            note: candidate.note.clone(),
            is_read_only: options.read_only,
        };
        if !options.read_only {
            // Whatever the proof: it costs some milliseconds, and no late request of that client can arrive then.
            refuse(&cluster, &found.owner).map_err(fail)?;
            let identity = Identity {
                format: crate::records::FORMAT,
                guid: Number(candidate.guid),
                name: name.to_owned(),
            };
            let own = self.owner(&cluster.address().map_err(fail)?, found.owner.claims + 1);
            shelf.replace_owner(&own, &identity).map_err(fail)?;
            shelf.own = Some(own);
        }
        drop(proof);
        Ok(shelf)
    }
}

/// A shelf that this process owns and that is not open yet.
pub(crate) struct ClaimedShelf {
    /// `None` once it is open.
    claimant: Option<Claimant>,
    location: Location,
    namespace: Arc<Namespace>,
    before: Owner,
    /// `None` if it is opened for reading only.
    own: Option<Owner>,
    note: Option<String>,
    is_read_only: bool,
}

impl ClaimedShelf {
    /// Replaces the owner that was found. `ECANCELED` if another process was faster.
    fn replace_owner(&self, own: &Owner, identity: &Identity) -> Result<(), CephError> {
        let before = self.before.bytes();
        let entries = [
            (OWNER.to_owned(), own.bytes()),
            (SHELF.to_owned(), json(identity)),
        ];
        let change = ObjectChange {
            guard: Some((OWNER, &before)),
            set: &entries,
            ..ObjectChange::default()
        };
        self.namespace.change(SHELF_OBJECT, &change)
    }

    /// The entries, if this process is still the owner.
    fn records(&self) -> Result<Records, CephError> {
        let records = load(&self.namespace)?;
        match self.own.as_ref().is_none_or(|own| *own == records.owner) {
            true => Ok(records),
            false => Err(CephError::CANCELED),
        }
    }
}

impl Claimed for ClaimedShelf {
    fn is_certain(&self) -> bool {
        true
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn open(mut self: Box<Self>) -> Result<Box<dyn Pool>, PoolError> {
        let claimant = self.claimant.take().expect("opened once");
        let name = claimant.name.clone();
        let records = self
            .records()
            .map_err(|error| of_pool(IMPORT, name.as_str(), error))?;
        let (location, namespace) = (self.location.clone(), Arc::clone(&self.namespace));
        let pool = CephPool::open(claimant, location, namespace, records, self.is_read_only)?;
        Ok(Box::new(pool))
    }
}

impl Drop for ClaimedShelf {
    /// A shelf that was exported and is claimed but not opened is exported again.
    fn drop(&mut self) {
        let is_unopened = self.claimant.is_some() && self.before.state == State::Exported;
        let Some(own) = self.own.as_ref().filter(|_| is_unopened) else {
            return;
        };
        let released = Owner {
            state: State::Exported,
            claims: own.claims + 1,
            ..own.clone()
        };
        let (guard, entries) = (own.bytes(), [(OWNER.to_owned(), released.bytes())]);
        let change = ObjectChange {
            guard: Some((OWNER, &guard)),
            set: &entries,
            ..ObjectChange::default()
        };
        if let Err(error) = self.namespace.change(SHELF_OBJECT, &change) {
            tracing::warn!("release of a claimed shelf: {error}");
        }
    }
}
