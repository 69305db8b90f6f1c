//! The effect of a request, derived from its arguments and not its name. It determines the role that may send the
//! request, and the confirmation that it needs. No `match` here has a wildcard, and no pattern omits arguments, so that
//! every new verb or argument must be classified.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::exports::PROPERTY_PREFIX;
use crate::key::{KeyLocation, KeySettings};
use crate::owners::OwnerProperty;

/// Names and values of properties.
pub type Properties = BTreeMap<String, String>;

/// The effect of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing changes.
    Look,
    /// Daily work: it loses no data.
    Change,
    /// Daily work that discards the writes to the volume of this snapshot since it was taken.
    Revert(String),
    /// Changes access rights, pool membership of devices, or how long data is retained.
    Govern,
    /// Destroys the data of these names.
    Destroy(Vec<String>),
}

/// Properties of ZFS that are daily work: they decide how much space a dataset may use, how its data is laid out, and
/// its performance. All other properties decide whether acknowledged data survives, which users may read or change it,
/// or how it is encrypted.
const DAILY_PROPERTIES: &[&str] = &[
    "atime",
    "casesensitivity",
    "compression",
    "dnodesize",
    "logbias",
    "normalization",
    "prefetch",
    "primarycache",
    "quota",
    "recordsize",
    "refquota",
    "refreservation",
    "relatime",
    "reservation",
    "secondarycache",
    "special_small_blocks",
    "utf8only",
    "volblocksize",
    "volsize",
];

/// Properties that a dataset inherits from its parent, and that are not daily work.
pub const GOVERNED_BY_PARENT: &[&str] = &[
    "aclinherit",
    "aclmode",
    "acltype",
    "checksum",
    "copies",
    "readonly",
    "redundant_metadata",
    "sharenfs",
    "snapdir",
    "sync",
];

/// Returns whether an operator may set the property: this includes the users' own properties, except ours.
fn is_daily(name: &str) -> bool {
    let is_a_users_own = name.contains(':') && !name.starts_with(PROPERTY_PREFIX);
    is_a_users_own || DAILY_PROPERTIES.contains(&name) || OwnerProperty::parse(name).is_some()
}

pub(crate) fn change_unless(governs: bool) -> Effect {
    match governs {
        true => Effect::Govern,
        false => Effect::Change,
    }
}

pub(crate) fn governs<'a>(mut properties: impl Iterator<Item = &'a String>) -> bool {
    properties.any(|name| !is_daily(name))
}

/// The head runs a command with the words of the request, or opens the file.
pub(crate) fn is_of_the_head(location: &KeyLocation) -> bool {
    match location {
        KeyLocation::Command(_) | KeyLocation::File(_) => true,
        KeyLocation::Prompt => false,
    }
}

/// Returns the effect of creating a dataset with these properties, and a key of its own if one is
/// given.
pub(crate) fn make(properties: &Properties, key: Option<&KeySettings>) -> Effect {
    let is_read_there = key.is_some_and(|desired| {
        let KeySettings {
            encryption: _,
            format: _,
            iterations: _,
            location,
            key: _,
        } = desired;
        is_of_the_head(location)
    });
    change_unless(is_read_there || governs(properties.keys()))
}

pub(crate) fn set(properties: &Properties) -> Effect {
    change_unless(governs(properties.keys()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::request::Request;

    fn effect_of(request: Value) -> Effect {
        let parsed: Request = serde_json::from_value(request.clone())
            .unwrap_or_else(|error| panic!("{request}: {error}"));
        parsed.effect(&"tank".parse().expect("a name"))
    }

    fn destroy(names: &[&str]) -> Effect {
        Effect::Destroy(names.iter().map(ToString::to_string).collect())
    }

    /// The same verb with another argument has another effect.
    #[test]
    fn arguments_determine_the_effect_of_a_request() {
        let resize = |allow: bool| json!({"volume": {"resize": {"name": "tank/a", "size": 512, "allow_shrink": allow}}});
        assert_eq!(effect_of(resize(false)), Effect::Change);
        assert_eq!(effect_of(resize(true)), destroy(&["tank/a"]));
        let attach = |overwrite: bool| json!({"pool": {"attach": {"existing": "/a", "new": "/dev/b", "overwrite": overwrite}}});
        assert_eq!(effect_of(attach(false)), Effect::Change);
        assert_eq!(effect_of(attach(true)), destroy(&["/dev/b"]));
        let replace =
            |new: Value| json!({"pool": {"replace": {"old": "/a", "new": new, "overwrite": true}}});
        assert_eq!(effect_of(replace(json!("/b"))), destroy(&["/b"]));
        assert_eq!(effect_of(replace(Value::Null)), destroy(&["/a"]));
        let add = |overwrite: bool| {
            json!({"pool": {"add": {"overwrite": overwrite, "groups":
            [{"kind": "mirror", "role": "data", "devices": ["/c", "/d"]}]}}})
        };
        assert_eq!(effect_of(add(false)), Effect::Govern);
        assert_eq!(effect_of(add(true)), destroy(&["/c", "/d"]));
        let guided = |perform: bool, with: Value| {
            json!({"pool": {"replace_disk":
            {"device": null, "with": with, "overwrite": true, "perform": perform}}})
        };
        assert_eq!(effect_of(guided(false, Value::Null)), Effect::Look);
        assert_eq!(effect_of(guided(true, json!("/b"))), destroy(&["/b"]));
        assert_eq!(effect_of(guided(true, Value::Null)), destroy(&["tank"]));
        assert_eq!(effect_of(guided(false, json!("/dev/b"))), Effect::Look);
        for path in ["/etc/shadow", "/dev/../etc/shadow", "dev/b", "/devices"] {
            assert_eq!(effect_of(guided(false, json!(path))), Effect::Govern);
            let attach = json!({"pool": {"attach": {"existing": "/dev/a", "new": path, "overwrite": false}}});
            assert_eq!(effect_of(attach), Effect::Govern);
            let replace =
                json!({"pool": {"replace": {"old": "/dev/a", "new": path, "overwrite": false}}});
            assert_eq!(effect_of(replace), Effect::Govern);
        }
        let rollback = |newer: bool| json!({"volume": {"rollback": {"to": "tank/a@b", "destroy_newer": newer}}});
        assert_eq!(
            effect_of(rollback(false)),
            Effect::Revert("tank/a@b".into())
        );
        assert_eq!(effect_of(rollback(true)), destroy(&["tank/a@b"]));
        let receive = |force: bool| {
            json!({"transfer": {"receive": {"volume": "tank/a", "tag": null, "force": force,
            "resumable": false, "parents": false}}})
        };
        assert_eq!(effect_of(receive(false)), Effect::Govern);
        assert_eq!(effect_of(receive(true)), destroy(&["tank/a"]));
        let property = |name: &str| json!({"volume": {"set": {"name": "tank/a", "properties": {name: "off"}}}});
        assert_eq!(effect_of(property("compression")), Effect::Change);
        assert_eq!(effect_of(property("org.example:owner")), Effect::Change);
        assert_eq!(effect_of(property("userquota@1000")), Effect::Change);
        for governed in ["checksum", "readonly", "bulkhead:replicate", "a_new_one"] {
            assert_eq!(effect_of(property(governed)), Effect::Govern, "{governed}");
        }
        assert_eq!(effect_of(property("sharenfs")), Effect::Govern);
        let create = |properties: Value| {
            json!({"filesystem": {"create": {"name": "tank/a", "owner": 0, "group": 0, "mode": "0755",
            "properties": properties, "parents": false, "exist_ok": false}}})
        };
        assert_eq!(effect_of(create(json!({"quota": "1G"}))), Effect::Change);
        let shared = json!({"sharenfs": "rw=192.0.2.0/24"});
        assert_eq!(effect_of(create(shared)), Effect::Govern);
        let load =
            |location: Value| json!({"key": {"load": {"name": "tank/a", "location": location}}});
        assert_eq!(effect_of(load(Value::Null)), Effect::Change);
        for location in ["command:vault x", "file:///dev/watchdog"] {
            assert_eq!(effect_of(load(json!(location))), Effect::Govern);
        }
    }

    /// Properties that a dataset inherits from its parent are governed, unless the request itself refuses to change
    /// them.
    #[test]
    fn moving_a_dataset_needs_more_rights_if_access_changes() {
        for (noun, verb, arguments) in [
            (
                "volume",
                "rename",
                json!({"from": "tank/a", "to": "tank/b/a"}),
            ),
            (
                "filesystem",
                "rename",
                json!({"from": "tank/a", "to": "tank/b/a"}),
            ),
            ("volume", "promote", json!({"name": "tank/a"})),
            ("filesystem", "promote", json!({"name": "tank/a"})),
            (
                "snapshot",
                "clone",
                json!({"from": "tank/a@1", "to": "tank/b", "properties": {}}),
            ),
        ] {
            let request: Request =
                serde_json::from_value(json!({noun: {verb: arguments}})).expect("a request");
            let pool = "tank".parse().expect("a name");
            assert_eq!(request.effect(&pool), Effect::Govern, "{noun} {verb}");
            assert!(request.operation().details().is_some(), "{noun} {verb}");
            let kept = request.without_rights_change();
            assert_eq!(kept.effect(&pool), Effect::Change, "{noun} {verb}");
        }
        let cloned = |name: &str| {
            effect_of(
                json!({"snapshot": {"clone": {"from": "tank/a@1", "to": "tank/b",
            "properties": {name: "x"}, "keep_rights": true}}}),
            )
        };
        assert_eq!(cloned("quota"), Effect::Change);
        assert_eq!(cloned("bulkhead:replicate"), Effect::Govern);
    }

    #[test]
    fn destructive_requests_name_the_destroyed_dataset() {
        for (request, names) in [
            (json!({"pool": {"destroy": {}}}), &["tank"][..]),
            (json!({"pool": {"remove": {"device": "/a"}}}), &["/a"]),
            (
                json!({"volume": {"destroy": {"name": "tank/a", "recursive": false, "exported": false}}}),
                &["tank/a"],
            ),
            (
                json!({"filesystem": {"destroy": {"name": "tank/a", "recursive": true, "shared": false}}}),
                &["tank/a"],
            ),
            (
                json!({"snapshot": {"destroy": {"names": ["tank/a@1", "tank/a@2"]}}}),
                &["tank/a@1", "tank/a@2"],
            ),
            (
                json!({"target": {"destroy": {"name": "iqn.2026-01.org.example:a"}}}),
                &["iqn.2026-01.org.example:a"],
            ),
        ] {
            assert_eq!(effect_of(request), destroy(names));
        }
    }

    #[test]
    fn replication_and_retention_changes_need_admin_rights() {
        for request in [
            json!({"replicate": {"promote": {"dataset": "tank/a"}}}),
            json!({"volume": {"rescue": {"begin": {"volume": "tank/a"}}}}),
            json!({"snapshot": {"schedule": {"set": {"of": "tank", "rules": []}}}}),
            json!({"snapshot": {"schedule": {"remove": {"of": "tank"}}}}),
            json!({"pool": "export"}),
            json!({"pool": {"close": {"in_use": true}}}),
            json!({"portal": {"add": {"iscsi": [{"address": "10.0.0.1:3260"}]}}}),
            json!({"portal": {"remove": {"nbd": ["unix:/run/x"]}}}),
        ] {
            assert_eq!(effect_of(request), Effect::Govern);
        }
        for request in [
            json!("status"),
            json!({"pool": "status"}),
            json!({"volume": "list"}),
            json!({"portal": "list"}),
        ] {
            assert_eq!(effect_of(request), Effect::Look);
        }
    }
}
