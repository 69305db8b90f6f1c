//! The roles: which role each effect of a request needs, and which effects need the name of the destroyed object.

use control::{Effect, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A user's role. Each role includes the rights of those before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Reads all resources.
    ReadOnly,
    /// Daily work: volumes, snapshots, targets, repairs, moves.
    Operator,
    /// All requests, including those that destroy data or change rights.
    Admin,
}

impl Role {
    /// All roles, the least powerful first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Operator, Self::Admin];

    /// Its name in files and requests.
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

/// Verbs that are nouns with verbs of their own.
const INNER_NOUNS: &[&str] = &["schedule", "rescue", "discovery"];

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

/// The role that a request of this effect needs.
pub const fn role_of(effect: &Effect) -> Role {
    match effect {
        Effect::Look => Role::ReadOnly,
        Effect::Change | Effect::Revert(_) => Role::Operator,
        Effect::Govern | Effect::Destroy(_) => Role::Admin,
    }
}

/// The required confirmation: the names of the lost objects, joined by blanks.
pub fn confirmation(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Look | Effect::Change | Effect::Govern => None,
        Effect::Revert(name) => Some(name.clone()),
        Effect::Destroy(names) => Some(names.join(" ")),
    }
}

/// The verb of a parsed request.
pub fn verb(request: &Request) -> String {
    verb_of(&serde_json::to_value(request).expect("requests are JSON"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn request_effect_determines_required_role() {
        let destroy = Effect::Destroy(vec!["tank/a@1".into(), "tank/a@2".into()]);
        let revert = Effect::Revert("tank/a@1".into());
        for (effect, role, wanted) in [
            (Effect::Look, Role::ReadOnly, None),
            (Effect::Change, Role::Operator, None),
            (revert, Role::Operator, Some("tank/a@1")),
            (Effect::Govern, Role::Admin, None),
            (destroy, Role::Admin, Some("tank/a@1 tank/a@2")),
        ] {
            assert_eq!(role_of(&effect), role, "{effect:?}");
            assert_eq!(confirmation(&effect).as_deref(), wanted, "{effect:?}");
        }
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::ReadOnly);
    }

    #[test]
    fn verb_of_request_is_determined() {
        let destroy = json!({"volume": {"destroy": {"name": "tank/a", "recursive": false}}});
        assert_eq!(verb_of(&destroy), "volume.destroy");
        let list = json!({"snapshot": {"schedule": "list"}});
        assert_eq!(verb_of(&list), "snapshot.schedule.list");
        assert_eq!(verb_of(&json!("status")), "status");
        assert_eq!(verb_of(&json!({"pool": "status"})), "pool.status");
    }
}
