//! Properties of datasets.

use std::collections::BTreeMap;

use engine::capabilities::Properties;
use engine::dataset::{
    DatasetError, DatasetErrorKind, DatasetKind, DatasetRef, Property, PropertyEdits,
    PropertySource, UserProperties, Value, VolumeSpec,
};

use crate::native::{self, NO_ROOM, Takes, check, check_inherit, check_users, refused, with_cause};
use crate::state::{MemoryPool, State};
use crate::tree::{Dataset, Found, parent_of};

/// Numbers that are about space.
const LIMITS: [&str; 4] = ["quota", "refquota", "reservation", "refreservation"];

const READ: &str = "read the properties of";
const SET: &str = "set properties of";

/// The `copies` among properties to be set.
pub(crate) fn copies(properties: &[(String, Value)]) -> u64 {
    let value = properties.iter().rev().find(|(name, _)| name == "copies");
    value
        .and_then(|(_, value)| value.to_string().parse().ok())
        .unwrap_or(1)
}

/// Properties that are text: the users', and some of the engine's.
fn users(properties: &BTreeMap<String, Value>, prefix: &str) -> BTreeMap<String, String> {
    let is_text = |name: &str| name.contains(':') || native::is_text(name);
    let users = properties
        .iter()
        .filter(|(name, _)| is_text(name) && name.starts_with(prefix));
    users
        .map(|(name, value)| (name.clone(), value.to_string()))
        .collect()
}

impl State {
    /// The value in effect of a native property, and where it is set.
    fn effective(&self, name: &str, native: &native::Native) -> Option<(Value, PropertySource)> {
        let default = match native.takes {
            Takes::Nothing => return None,
            Takes::Number => Value::Number(0),
            Takes::Size => Value::Number(native::RECORD_BYTES_DEFAULT),
            Takes::Text(default) => Value::from(default),
            Takes::Word(words) => Value::from(words[0]),
        };
        let mut at = name;
        while let Some(dataset) = self.tree.datasets.get(at) {
            if let Some(value) = dataset.properties.get(native.name) {
                let source = match at == name {
                    true => PropertySource::Local,
                    false => PropertySource::Inherited(at.to_owned()),
                };
                return Some((value.clone(), source));
            }
            if !native.is_inherited {
                break;
            }
            at = parent_of(at);
        }
        // The library does not report a text property that is not set.
        let is_text = matches!(native.takes, Takes::Text(_));
        (!is_text).then_some((default, PropertySource::Default))
    }

    /// The `copies` in effect.
    pub(crate) fn copies(&self, name: &str) -> u64 {
        let native = native::native("copies").expect("it is there");
        let value = self.effective(name, native).map(|(value, _)| value);
        value
            .and_then(|value| value.to_string().parse().ok())
            .unwrap_or(1)
    }

    /// Checks the initial properties of a new volume or file system at `name`.
    pub(crate) fn checked_new(
        &self,
        name: &str,
        properties: &[(String, Value)],
        referenced: u64,
        is_volume: bool,
    ) -> Result<BTreeMap<String, Value>, DatasetErrorKind> {
        let mut checked = BTreeMap::new();
        for (name, value) in properties {
            checked.insert(name.clone(), check(name, value, is_volume)?);
        }
        let limit = |name: &str| match checked.get(name) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        };
        if LIMITS.iter().all(|name| limit(name) == 0) {
            return Ok(checked);
        }
        let parent = parent_of(name);
        if !self.tree.datasets.contains_key(parent) {
            return Err(DatasetErrorKind::ParentMissing);
        }
        let (aside, own) = (limit("reservation"), limit("refreservation"));
        let wrong = match aside.max(own) {
            most if most > self.available(parent) && own >= aside => Some("refreservation"),
            most if most > self.available(parent) => Some("reservation"),
            most if limit("quota") != 0 && limit("quota") < most => Some("quota"),
            _ if limit("refquota") != 0 && limit("refquota") < own.max(referenced) => {
                Some("refquota")
            }
            _ => None,
        };
        match wrong {
            Some(wrong) => Err(refused(wrong, NO_ROOM)),
            None => Ok(checked),
        }
    }

    /// Whether a limit can hold, or space be set aside.
    fn check_limit(&self, name: &str, property: &str, value: u64) -> Result<(), DatasetErrorKind> {
        let dataset = self.tree.get(name)?;
        let charge = self.tree.charge(name);
        let room = self.available(name);
        let before = dataset.number(property);
        let fits = match property {
            "quota" => value == 0 || value >= charge.used(),
            "refquota" => {
                value == 0 || value >= charge.referenced.max(dataset.number("refreservation"))
            }
            "refreservation" => {
                let unused = value.saturating_sub(charge.written);
                unused <= room.saturating_sub(charge.by_reservation) + charge.by_reservation
            }
            _ => value.saturating_sub(charge.used().max(before)) <= room,
        };
        match fits {
            true => Ok(()),
            false => Err(refused(property, NO_ROOM)),
        }
    }

    /// Sets properties, none if one has no meaning.
    pub(crate) fn set(
        &mut self,
        name: &str,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetErrorKind> {
        let is_volume = match self.tree.find(name)? {
            Found::Head(dataset) => dataset.volume.is_some(),
            Found::Snapshot(..) => return self.set_of_snapshot(name, properties),
        };
        let mut checked = Vec::new();
        for (property, value) in properties {
            checked.push((property, check(property, value, is_volume)?));
        }
        // Limits and reservations are last, because they are stored separately.
        checked.sort_by_key(|(property, _)| LIMITS.contains(&property.as_str()));
        for (property, value) in checked {
            if let Value::Number(number) = value {
                self.check_limit(name, property, number)?;
            }
            let dataset = self.tree.get_mut(name)?;
            dataset.properties.insert(property.clone(), value);
        }
        self.tree.next_txg();
        Ok(())
    }

    fn set_of_snapshot(
        &mut self,
        name: &str,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetErrorKind> {
        for (property, value) in properties {
            check_users(property, Some(&value.to_string()))?;
        }
        let own = self.properties_mut(name)?;
        own.extend(properties.iter().cloned());
        Ok(())
    }

    /// Returns the local properties of a dataset or snapshot.
    fn properties_mut(
        &mut self,
        name: &str,
    ) -> Result<&mut BTreeMap<String, Value>, DatasetErrorKind> {
        let (head, tag) = name.split_once('@').unwrap_or((name, ""));
        let dataset = self.tree.get_mut(head)?;
        if tag.is_empty() {
            return Ok(&mut dataset.properties);
        }
        let snapshot = dataset.snapshots.iter_mut().find(|one| one.tag == tag);
        let snapshot = snapshot.ok_or(DatasetErrorKind::NotFound)?;
        Ok(&mut snapshot.properties)
    }

    fn edit(&mut self, edits: &[(DatasetRef<'_>, PropertyEdits)]) -> Result<(), DatasetErrorKind> {
        for (_, edits) in edits {
            for (name, value) in edits {
                check_users(name, value.as_deref())?;
            }
        }
        for (dataset, _) in edits {
            self.tree.find(dataset.as_str())?;
        }
        for (dataset, edits) in edits {
            let own = self.properties_mut(dataset.as_str())?;
            for (name, value) in edits {
                match value {
                    Some(value) => own.insert(name.clone(), Value::Text(value.clone())),
                    None => own.remove(name),
                };
            }
        }
        self.tree.next_txg();
        Ok(())
    }

    /// Collects the user properties of a dataset and its ancestors.
    fn inherited_users(&self, head: &str, found: &mut BTreeMap<String, Property>, is_below: bool) {
        let mut at = head;
        while let Some(dataset) = self.tree.datasets.get(at) {
            let all = users(&dataset.properties, "").into_iter();
            for (name, value) in all.filter(|(name, _)| name.contains(':')) {
                let source = match at == head && !is_below {
                    true => PropertySource::Local,
                    false => PropertySource::Inherited(at.to_owned()),
                };
                let value = Value::Text(value);
                found.entry(name).or_insert(Property { value, source });
            }
            at = parent_of(at);
        }
    }

    /// Returns read-only numbers.
    fn facts(
        &self,
        name: &str,
        dataset: &Dataset,
    ) -> Result<Vec<(&'static str, Value)>, DatasetErrorKind> {
        let info = self.info(name)?;
        let mut facts = vec![
            ("guid", Value::Number(info.guid)),
            ("creation", Value::Number(info.creation_time_s)),
            ("used", Value::from(info.used)),
            ("referenced", Value::from(info.referenced)),
            ("written", Value::from(info.space.written)),
        ];
        if !info.snapshot {
            facts.push(("available", Value::from(info.available)));
        }
        facts.extend(info.origin.map(|origin| ("origin", Value::Text(origin))));
        if let Some(shape) = info.volume.filter(|shape| shape.size.get() > 0) {
            facts.push(("volsize", Value::from(shape.size)));
            facts.push(("volblocksize", Value::from(shape.block_size)));
        }
        let suite = dataset.encryption.as_ref().map_or("off", |key| &key.suite);
        facts.push(("encryption", Value::from(suite)));
        if info.kind == DatasetKind::Filesystem {
            let utf8_only = dataset.properties.get("utf8only").cloned();
            facts.push(("casesensitivity", Value::from("sensitive")));
            facts.push(("normalization", Value::from("none")));
            facts.push(("utf8only", utf8_only.unwrap_or_else(|| Value::from("off"))));
        }
        Ok(facts)
    }

    fn all_properties(&self, name: &str) -> Result<BTreeMap<String, Property>, DatasetErrorKind> {
        let head = name.split('@').next().unwrap_or_default();
        let mut found = BTreeMap::new();
        let dataset = match self.tree.find(name)? {
            Found::Head(dataset) => dataset,
            Found::Snapshot(dataset, snapshot) => {
                for (name, value) in &snapshot.properties {
                    let (value, source) = (value.clone(), PropertySource::Local);
                    found.insert(name.clone(), Property { value, source });
                }
                dataset
            }
        };
        let is_snapshot = name != head;
        self.inherited_users(head, &mut found, is_snapshot);
        let is_volume = dataset.volume.is_some();
        for native in native::ALL
            .iter()
            .filter(|one| one.is_of_volumes || !is_volume)
        {
            if is_snapshot && !native.is_inherited {
                continue;
            }
            if let Some((value, source)) = self.effective(head, native) {
                found.insert(native.name.to_owned(), Property { value, source });
            }
        }
        for (fact, value) in self.facts(name, dataset)? {
            // A fact with its default value is reported as not set.
            let is_default = match fact {
                "volblocksize" => value == VolumeSpec::BLOCK_SIZE_DEFAULT.into(),
                "casesensitivity" | "normalization" => true,
                "utf8only" => value == Value::from("off"),
                _ => false,
            };
            let source = match is_default {
                true => PropertySource::Default,
                false => PropertySource::Native,
            };
            found.insert(fact.to_owned(), Property { value, source });
        }
        Ok(found)
    }
}

impl Properties for MemoryPool {
    fn user_properties(&self, prefix: &str) -> Result<UserProperties, DatasetError> {
        let state = self.begin("user_properties", READ, (&self.name).into())?;
        let all = state.tree.datasets.iter();
        let own = all.map(|(name, dataset)| (name.clone(), users(&dataset.properties, prefix)));
        Ok(own.filter(|(_, own)| !own.is_empty()).collect())
    }

    fn own_user_properties(
        &self,
        dataset: DatasetRef<'_>,
        prefix: &str,
    ) -> Result<BTreeMap<String, String>, DatasetError> {
        let state = self.begin("own_user_properties", READ, dataset)?;
        // Snapshots have no native properties of their own.
        let own = state.tree.get(dataset.as_str());
        let own = own.map_err(|kind| DatasetError::new(READ, dataset.as_str(), kind))?;
        Ok(users(&own.properties, prefix))
    }

    fn dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
    ) -> Result<BTreeMap<String, Property>, DatasetError> {
        let state = self.begin("dataset_properties", READ, dataset)?;
        let found = state.all_properties(dataset.as_str());
        found.map_err(|kind| DatasetError::new(READ, dataset.as_str(), kind))
    }

    fn set_dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        let mut state = self.begin_change("set_dataset_properties", SET, dataset)?;
        let set = state.set(dataset.as_str(), properties);
        set.map_err(|kind| with_cause(SET, dataset.as_str(), kind))
    }

    fn edit_user_properties(
        &self,
        edits: Vec<(DatasetRef<'_>, PropertyEdits)>,
    ) -> Result<(), DatasetError> {
        let whose = match edits[..] {
            [(only, _)] => only.as_str(),
            _ => self.name.as_str(),
        };
        let mut state = self.begin_change("edit_user_properties", SET, (&self.name).into())?;
        if let Some((other, _)) = edits
            .iter()
            .find(|(one, _)| one.pool() != self.name.as_str())
        {
            return Err(DatasetError::new(
                SET,
                other.as_str(),
                DatasetErrorKind::OtherPool,
            ));
        }
        let edited = state.edit(&edits);
        edited.map_err(|kind| DatasetError::new(SET, whose, kind))
    }

    fn inherit_property(
        &self,
        dataset: DatasetRef<'_>,
        property: &str,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "remove a property of";
        let mut state = self.begin_change("inherit_property", DOING, dataset)?;
        let fail = |kind| DatasetError::new(DOING, dataset.as_str(), kind);
        check_inherit(property).map_err(fail)?;
        let own = state.properties_mut(dataset.as_str()).map_err(fail)?;
        own.remove(property);
        Ok(())
    }

    fn property_values(&self, property: &str) -> Option<String> {
        native::values(property)
    }
}
