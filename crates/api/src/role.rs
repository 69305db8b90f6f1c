//! Who may ask for what: the roles, the role that each request needs, and the requests that want
//! the name of what they destroy.

use control::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a user may do. Each role may do all that those before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Looks at everything.
    ReadOnly,
    /// Does the daily work: volumes, snapshots, targets, repairs, moves.
    Operator,
    /// Does everything, also what destroys data or changes who may do what.
    Admin,
}

impl Role {
    /// Every role, the least powerful first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Operator, Self::Admin];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("{text:?} is no role: write admin, operator or read-only"))
    }
}

/// Requests that change nothing.
const LOOKS: &[&str] = &[
    "status",
    "pool.status",
    "pool.events",
    "pool.get",
    "volume.list",
    "volume.show",
    "volume.get",
    "volume.space",
    "key.status",
    "snapshot.list",
    "snapshot.schedule.list",
    "target.list",
    "target.show",
    "nbd.list",
    "replicate.list",
    "volume.rescue.list",
    "server.ping",
];

/// Requests of the daily work. What is listed nowhere is an administrator's.
const DAILY: &[&str] = &[
    "pool.scrub",
    "pool.scrub_schedule",
    "pool.clear",
    "pool.attach",
    "pool.replace",
    "pool.replace_disk",
    "pool.online",
    "pool.offline",
    "volume.create",
    "volume.resize",
    "volume.rename",
    "volume.promote",
    "volume.rollback",
    "volume.set",
    "volume.inherit",
    "key.load",
    "key.load_all",
    "snapshot.create",
    "snapshot.rename",
    "snapshot.clone",
    "snapshot.schedule.set",
    "snapshot.schedule.remove",
    "target.create",
    "target.map",
    "target.unmap",
    "target.allow",
    "target.deny",
    "target.chap_set",
    "target.mutual_set",
    "target.chap_clear",
    "nbd.export",
    "nbd.unexport",
    // It sends again what an administrator has set up to be sent.
    "replicate.run",
    "server.reload",
];

/// Verbs after which data is gone, with the members that name it. What destroys asks for the
/// name; a verb of this kind that is not listed here is still an administrator's.
const DESTROYS: &[(&str, &str)] = &[
    ("pool.destroy", "pool"),
    ("pool.remove", "device"),
    ("volume.destroy", "name"),
    ("volume.rollback", "to"),
    ("volume.discard_log", "name"),
    ("snapshot.destroy", "names"),
    ("target.destroy", "name"),
];

/// Verbs that are nouns with verbs of their own.
const INNER_NOUNS: &[&str] = &["schedule", "rescue"];

/// A request's noun and verb, such as `volume.create`.
pub fn verb_of(request: &Value) -> String {
    let member = |value: &Value| match value {
        Value::String(text) => Some((text.clone(), Value::Null)),
        Value::Object(object) => object
            .iter()
            .next()
            .map(|(name, inner)| (name.clone(), inner.clone())),
        _ => None,
    };
    let Some((noun, inner)) = member(request) else {
        return String::new();
    };
    match member(&inner) {
        // A noun within a noun.
        Some((verb, inner)) if INNER_NOUNS.contains(&verb.as_str()) => match member(&inner) {
            Some((inner_verb, _)) => format!("{noun}.{verb}.{inner_verb}"),
            None => format!("{noun}.{verb}"),
        },
        Some((verb, _)) => format!("{noun}.{verb}"),
        None => noun,
    }
}

/// The role that a verb such as `volume.create` needs.
pub fn role_of(verb: &str) -> Role {
    match verb {
        _ if LOOKS.contains(&verb) => Role::ReadOnly,
        _ if DAILY.contains(&verb) => Role::Operator,
        _ => Role::Admin,
    }
}

/// What has to be repeated as confirmation before `request` to `pool` is performed: the names of
/// what it destroys, joined by blanks.
pub fn confirmation(pool: &str, verb: &str, request: &Value) -> Option<String> {
    let (_, member) = DESTROYS.iter().find(|(destroys, _)| *destroys == verb)?;
    let arguments = request.as_object()?.values().next()?;
    let arguments = arguments.as_object().and_then(|verb| verb.values().next());
    let named = arguments.and_then(|arguments| arguments.get(member));
    Some(match named {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" ")
        }
        _ => pool.to_owned(),
    })
}

/// A request as JSON, which is what rules look at.
pub fn as_json(request: &Request) -> Value {
    serde_json::to_value(request).expect("requests are JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_listed_is_an_administrators() {
        assert_eq!(role_of("status"), Role::ReadOnly);
        assert_eq!(role_of("volume.create"), Role::Operator);
        assert_eq!(role_of("volume.destroy"), Role::Admin);
        assert_eq!(role_of("something.new"), Role::Admin);
        // What takes data out of the appliance, or puts other data in its place.
        for verb in [
            "transfer.send",
            "transfer.receive",
            "replicate.set",
            "volume.rescue.begin",
        ] {
            assert_eq!(role_of(verb), Role::Admin, "{verb}");
        }
        assert_eq!(role_of("replicate.list"), Role::ReadOnly);
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::ReadOnly);
    }

    #[test]
    fn a_request_tells_its_verb_and_what_it_destroys() {
        let destroy = json!({"volume": {"destroy": {"name": "tank/a", "recursive": false}}});
        assert_eq!(verb_of(&destroy), "volume.destroy");
        let list = json!({"snapshot": {"schedule": "list"}});
        assert_eq!(verb_of(&list), "snapshot.schedule.list");
        assert_eq!(verb_of(&json!("status")), "status");
        assert_eq!(verb_of(&json!({"pool": "status"})), "pool.status");
        let wanted = confirmation("tank", "volume.destroy", &destroy);
        assert_eq!(wanted.as_deref(), Some("tank/a"));
        let pool = json!({"pool": "destroy"});
        let wanted = confirmation("tank", &verb_of(&pool), &pool);
        assert_eq!(wanted.as_deref(), Some("tank"));
        let snapshots = json!({"snapshot": {"destroy": {"names": ["tank/a@1", "tank/a@2"]}}});
        let wanted = confirmation("tank", "snapshot.destroy", &snapshots);
        assert_eq!(wanted.as_deref(), Some("tank/a@1 tank/a@2"));
        assert_eq!(
            confirmation("tank", "volume.list", &json!({"volume": "list"})),
            None
        );
    }
}
