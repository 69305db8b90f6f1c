//! Shelves that could be opened, and new ones.

use std::path::Path;
use std::sync::Arc;

use ceph_sys::{CephError, Namespace, ObjectChange};
use engine::Opaque;
use engine::pool::{
    Candidate, CandidateDevices, CandidateState, DiscoverError, PoolError, PoolErrorKind, PoolSpec,
};

use crate::SHELF_OBJECT;
use crate::claimant::Claimant;
use crate::connection::{cause, of_read, of_shelf};
use crate::errors::{of_pool, shape};
use crate::pool::CephPool;
use crate::records::{
    BYTES_MAX, ENTRIES_MAX, FORMAT, Identity, Number, OWNER, Owner, Records, SHELF, State, json,
};
use crate::start::{CephEngine, Location};

const CREATE: &str = "create";

/// The part of a candidate that only this engine reads.
pub(crate) struct Found {
    pub(crate) location: Location,
    pub(crate) owner: Owner,
}

/// Reads all entries of a shelf. A missing object is `ENOENT`; a damaged entry is `EINVAL`, and is logged.
pub(crate) fn load(namespace: &Namespace) -> Result<Records, CephError> {
    let entries = namespace.entries(SHELF_OBJECT, ENTRIES_MAX, BYTES_MAX)?;
    Records::load(&entries).map_err(|error| {
        tracing::error!("{error}: restore the object from a copy");
        CephError::INVALID
    })
}

impl CephEngine {
    /// The shelves of the cluster with the configuration file `place`.
    pub(crate) fn found_in(&self, place: &Path) -> Result<Vec<Candidate>, DiscoverError> {
        let fail = |cause: std::io::Error| DiscoverError {
            path: place.to_owned(),
            cause,
        };
        let of_cluster = |error: CephError| fail(of_read(error));
        std::fs::metadata(place).map_err(fail)?;
        let cluster = self.0.connect_to_read(place);
        let cluster = cluster.map_err(|error| fail(cause(&self.0.options.user, error)))?;
        let mut found = Vec::new();
        for pool in cluster.pools().map_err(of_cluster)? {
            let root = Namespace::open(&cluster, &pool, "").map_err(of_cluster)?;
            let names = match root.namespaces() {
                // A pool of another application has no list of namespaces, and the pool of another user is not readable.
                Err(error) if error != CephError::TIMED_OUT => Vec::new(),
                names => names.map_err(of_cluster)?,
            };
            for name in names {
                let namespace = Namespace::open(&cluster, &pool, &name).map_err(of_cluster)?;
                let records = match load(&namespace) {
                    Ok(records) => records,
                    // A namespace of another application, a damaged shelf, or the namespace of another user.
                    Err(CephError::NOT_FOUND | CephError::INVALID | CephError::NOT_PERMITTED) => {
                        continue;
                    }
                    Err(error) => return Err(of_cluster(error)),
                };
                let location = Location {
                    conf: place.to_owned(),
                    pool: pool.clone(),
                    namespace: name,
                };
                found.extend(candidate(location, records));
            }
        }
        Ok(found)
    }

    /// Creates a shelf and opens it.
    pub(crate) fn create_shelf(&self, spec: &PoolSpec) -> Result<CephPool, PoolError> {
        let name = spec.name.as_str();
        let fail = |error| of_pool(CREATE, name, error);
        let is_taken = self.0.open_shelves().values().any(|open| open == name);
        if is_taken {
            return Err(PoolError::new(CREATE, name, PoolErrorKind::Exists));
        }
        let location = location_of(spec)?;
        let cluster = self.0.connect(&location.conf);
        let user = &self.0.options.user;
        let cluster = cluster.map_err(|error| of_shelf(CREATE, name, user, error))?;
        let root = Namespace::open(&cluster, &location.pool, "");
        let root = root.map_err(|error| no_pool(name, &location.pool, error))?;
        match root.create_namespace(&location.namespace) {
            Ok(()) | Err(CephError::EXISTS) => {}
            Err(error) => return Err(fail(error)),
        }
        let namespace =
            Namespace::open(&cluster, &location.pool, &location.namespace).map_err(fail)?;
        check_empty(&namespace, name, &location)?;
        let guid = Number::random().map_err(|error| shape(CREATE, name, error.to_string()))?;
        let identity = Identity {
            format: FORMAT,
            guid,
            name: name.to_owned(),
        };
        let owner = self.owner(&cluster.address().map_err(fail)?, 1);
        let claimant = Claimant::new(self, guid, name, CREATE)?;
        let entries = [
            (SHELF.to_owned(), json(&identity)),
            (OWNER.to_owned(), owner.bytes()),
        ];
        let change = ObjectChange {
            creates: true,
            set: &entries,
            ..ObjectChange::default()
        };
        namespace.change(SHELF_OBJECT, &change).map_err(fail)?;
        let records = load(&namespace).map_err(fail)?;
        CephPool::open(claimant, location, namespace, records, false)
    }

    /// This process as the owner of a shelf.
    pub(crate) fn owner(&self, client: &str, claims: u64) -> Owner {
        Owner {
            state: State::Active,
            host_id: self.0.options.host_id.0.get(),
            host_name: self.0.options.host_name.clone(),
            client: client.to_owned(),
            claims,
        }
    }
}

fn no_pool(name: &str, pool: &str, error: CephError) -> PoolError {
    match error {
        CephError::NOT_FOUND => {
            let why = format!(
                "the cluster has no pool {pool}: create it with `ceph osd pool create {pool}` and `rbd pool init {pool}`"
            );
            shape(CREATE, name, why)
        }
        error => of_pool(CREATE, name, error),
    }
}

/// Refuses a namespace with a shelf, or with images of another application. A destroyed shelf is removed.
fn check_empty(
    namespace: &Arc<Namespace>,
    name: &str,
    location: &Location,
) -> Result<(), PoolError> {
    let fail = |error| of_pool(CREATE, name, error);
    let at = format!("namespace {} of pool {}", location.namespace, location.pool);
    match load(namespace) {
        Err(CephError::NOT_FOUND) => {}
        Ok(records) if records.owner.state == State::Destroyed => {
            for image in namespace.images().map_err(fail)? {
                namespace.remove_image(&image).map_err(fail)?;
            }
            namespace.remove_object(SHELF_OBJECT).map_err(fail)?;
        }
        Ok(records) => {
            let why = format!(
                "{at} holds the shelf {}: choose another namespace",
                records.identity.name
            );
            return Err(shape(CREATE, name, why));
        }
        Err(error) => return Err(fail(error)),
    }
    match namespace.images().map_err(fail)?.first() {
        None => Ok(()),
        Some(image) => {
            let why = format!("{at} holds the image {image}: choose an empty namespace");
            Err(shape(CREATE, name, why))
        }
    }
}

fn location_of(spec: &PoolSpec) -> Result<Location, PoolError> {
    let name = spec.name.as_str();
    if spec.devices().next().is_some() {
        let why = "a shelf has no devices: name its cluster, pool and namespace";
        return Err(shape(CREATE, name, why));
    }
    for (property, _) in &spec.properties {
        if !["cluster", "pool", "namespace"].contains(&property.as_str()) {
            let kind = PoolErrorKind::Property {
                property: property.clone(),
                why: "a shelf has the properties cluster, pool and namespace".to_owned(),
            };
            return Err(PoolError::new(CREATE, name, kind));
        }
    }
    let value = |wanted: &str| {
        let mut all = spec.properties.iter();
        let found = all.find(|(property, _)| property == wanted);
        let found = found
            .map(|(_, value)| value.clone())
            .filter(|value| !value.is_empty());
        found.ok_or_else(|| {
            shape(
                CREATE,
                name,
                format!("the property {wanted} is missing: set it"),
            )
        })
    };
    Ok(Location {
        conf: value("cluster")?.into(),
        pool: value("pool")?,
        namespace: value("namespace")?,
    })
}

fn candidate(location: Location, records: Records) -> Option<Candidate> {
    let state = match records.owner.state {
        State::Active => CandidateState::Active,
        State::Exported => CandidateState::Exported,
        State::Destroyed => return None,
    };
    Some(Candidate {
        name: records.identity.name.clone(),
        guid: records.identity.guid.0,
        state,
        host_id: Some(records.owner.host_id),
        host_name: Some(records.owner.host_name.clone()),
        is_watched: false,
        note: records.note,
        devices: CandidateDevices::default(),
        detail: Opaque::new(Found {
            location,
            owner: records.owner,
        }),
    })
}
