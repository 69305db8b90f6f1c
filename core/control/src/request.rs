//! Requests to an open pool, by noun. The command line creates these from its arguments; a pool
//! server receives them over its control socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::effect::Properties;
pub use crate::operations::filesystem::FilesystemRequest;
pub use crate::operations::key::KeyRequest;
pub use crate::operations::nbd::NbdRequest;
pub use crate::operations::pool::PoolRequest;
use crate::operations::pool::close::Close;
pub use crate::operations::portal::PortalRequest;
pub use crate::operations::replicate::ReplicateRequest;
pub use crate::operations::server::ServerRequest;
pub use crate::operations::snapshot::SnapshotRequest;
pub use crate::operations::snapshot::schedule::ScheduleRequest;
use crate::operations::status::Status;
pub use crate::operations::target::TargetRequest;
pub use crate::operations::target::discovery::DiscoveryRequest;
pub use crate::operations::transfer::TransferRequest;
pub use crate::operations::volume::VolumeRequest;
pub use crate::operations::volume::rescue::RescueRequest;
use crate::operations::{Examples, Operation, Route, Scheduling, WireOnly, named};

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The overall status.
    Status,
    /// About the pool itself.
    Pool(PoolRequest),
    /// About volumes.
    Volume(
        #[serde(with = "lists_as_names")]
        #[schemars(with = "VolumeRequest")]
        VolumeRequest,
    ),
    /// About file systems.
    Filesystem(
        #[serde(with = "lists_as_names")]
        #[schemars(with = "FilesystemRequest")]
        FilesystemRequest,
    ),
    /// About keys of encrypted volumes.
    Key(KeyRequest),
    /// About snapshots.
    Snapshot(SnapshotRequest),
    /// About iSCSI targets.
    Target(
        #[serde(with = "lists_as_names")]
        #[schemars(with = "TargetRequest")]
        TargetRequest,
    ),
    /// About NBD exports.
    Nbd(
        #[serde(with = "lists_as_names")]
        #[schemars(with = "NbdRequest")]
        NbdRequest,
    ),
    /// About streams of snapshots.
    Transfer(TransferRequest),
    /// About replication.
    Replicate(ReplicateRequest),
    /// About the portals of the server.
    Portal(PortalRequest),
    /// About the server process.
    Server(ServerRequest),
}

impl Request {
    /// Returns its effect on `pool`.
    pub fn effect(&self, pool: &units::PoolName) -> crate::Effect {
        self.operation().effect(pool)
    }

    /// Returns the variant that a user may send: only the cluster closes sessions without
    /// confirmation.
    #[must_use]
    pub fn from_user(self) -> Self {
        match self {
            Self::Pool(PoolRequest::Export) => Self::Pool(Close { in_use: false }.into()),
            other => other,
        }
    }

    /// Returns the variant for a role below admin: the pool's owner refuses it where it would change a property that
    /// only an admin may set.
    #[must_use]
    pub fn without_rights_change(mut self) -> Self {
        match &mut self {
            Self::Volume(VolumeRequest::Rename(rename)) => rename.keep_rights = true,
            Self::Volume(VolumeRequest::Promote(promote)) => promote.keep_rights = true,
            Self::Filesystem(FilesystemRequest::Rename(rename)) => rename.keep_rights = true,
            Self::Filesystem(FilesystemRequest::Promote(promote)) => promote.keep_rights = true,
            Self::Snapshot(SnapshotRequest::Clone(clone)) => clone.keep_rights = true,
            _ => {}
        }
        self
    }

    /// Returns its properties.
    pub fn operation(&self) -> &dyn Operation {
        match self {
            Self::Status => &Status,
            Self::Pool(request) => request.operation(),
            Self::Volume(request) => request.operation(),
            Self::Filesystem(request) => request.operation(),
            Self::Key(request) => request.operation(),
            Self::Snapshot(request) => request.operation(),
            Self::Target(request) => request.operation(),
            Self::Nbd(request) => request.operation(),
            Self::Portal(request) => request.operation(),
            Self::Server(request) => request.operation(),
            Self::Transfer(request) => request.operation(),
            Self::Replicate(request) => request.operation(),
        }
    }

    /// The resources of all operations, each with the verb's name.
    pub fn routes() -> Vec<(&'static str, &'static Route)> {
        let status = named("status", Status::ROUTES);
        let nouns = [
            PoolRequest::routes(),
            VolumeRequest::routes(),
            FilesystemRequest::routes(),
            KeyRequest::routes(),
            SnapshotRequest::routes(),
            TargetRequest::routes(),
            NbdRequest::routes(),
            TransferRequest::routes(),
            ReplicateRequest::routes(),
            PortalRequest::routes(),
            ServerRequest::routes(),
        ];
        status.chain(nouns.into_iter().flatten()).collect()
    }

    /// The examples of all operations, each with the verb's name.
    pub fn examples() -> Vec<(&'static str, Examples)> {
        let nouns = [
            PoolRequest::examples(),
            VolumeRequest::examples(),
            FilesystemRequest::examples(),
            KeyRequest::examples(),
            SnapshotRequest::examples(),
            TargetRequest::examples(),
            NbdRequest::examples(),
            TransferRequest::examples(),
            ReplicateRequest::examples(),
            PortalRequest::examples(),
            ServerRequest::examples(),
        ];
        let examples = nouns.into_iter().flatten();
        std::iter::once(("status", Status::EXAMPLES))
            .chain(examples)
            .collect()
    }

    /// Returns the names of all operations: nouns and verb, joined by dots.
    pub fn verbs() -> Vec<&'static str> {
        let nouns = [
            PoolRequest::verbs(),
            VolumeRequest::verbs(),
            FilesystemRequest::verbs(),
            KeyRequest::verbs(),
            SnapshotRequest::verbs(),
            TargetRequest::verbs(),
            NbdRequest::verbs(),
            TransferRequest::verbs(),
            ReplicateRequest::verbs(),
            PortalRequest::verbs(),
            ServerRequest::verbs(),
        ];
        let verbs = nouns.into_iter().flatten();
        std::iter::once("status").chain(verbs).collect()
    }

    /// Returns whether a pool that is open for reading only can handle it.
    pub fn is_read_only(&self) -> bool {
        self.operation().scheduling() == Scheduling::ReadOnly
    }
}

/// Lists without members are names on the wire, such as `"list"`, as of releases that had no members for them: older
/// clients and servers continue to work.
mod lists_as_names {
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::{Value, json};

    const LISTS: [&str; 2] = ["list", "space"];

    pub fn deserialize<'de, D: Deserializer<'de>, T: DeserializeOwned>(
        from: D,
    ) -> Result<T, D::Error> {
        let mut value = Value::deserialize(from)?;
        if let Value::String(name) = &value {
            if LISTS.contains(&name.as_str()) {
                value = json!({ name: {} });
            }
        }
        serde_json::from_value(value).map_err(D::Error::custom)
    }

    pub fn serialize<S: Serializer, T: Serialize>(noun: &T, to: S) -> Result<S::Ok, S::Error> {
        let value = serde_json::to_value(noun).map_err(S::Error::custom)?;
        let is_empty = |name: &&str| value.get(name) == Some(&json!({}));
        match LISTS.iter().find(|name| is_empty(name)) {
            Some(name) => to.serialize_str(name),
            None => value.serialize(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_without_members_are_names_on_the_wire() {
        for noun in ["volume", "filesystem", "target", "nbd"] {
            let name = json!({ noun: "list" });
            for sent in [name.clone(), json!({ noun: {"list": {}} })] {
                let request: Request = serde_json::from_value(sent).expect(noun);
                assert_eq!(serde_json::to_value(&request).expect(noun), name);
            }
            let part = json!({ noun: {"list": {"only": "tank/vms"}} });
            let request: Request = serde_json::from_value(part.clone()).expect(noun);
            assert_eq!(serde_json::to_value(&request).expect(noun), part);
            let wrong = json!({ noun: {"list": {"only": "tank@a"}} });
            serde_json::from_value::<Request>(wrong).expect_err("a snapshot");
            serde_json::from_value::<Request>(json!({ noun: "burn" })).expect_err("no verb");
        }
    }
}
