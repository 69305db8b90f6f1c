//! Properties of volumes: a reservation, read-only numbers, and the users' text, all in the entries of the shelf.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::capabilities::Properties;
use engine::dataset::{
    DatasetError, DatasetErrorKind, DatasetRef, Property, PropertyEdits, PropertySource,
    UNKNOWN_PROPERTY_OR_VALUE, UserProperties, Value, VolumeSpec,
};

use crate::errors::{Missing, NO_ROOM, refused, with_cause};
use crate::pool::CephPool;
use crate::records::{Edits, Number, Records, Volume, json, property_key, volume_key};
use crate::shelf::{Shelf, failed};

const READ: &str = "read the properties of";
const SET: &str = "set properties of";

/// The native property that can be set.
const RESERVATION: &str = "refreservation";
/// The other native properties.
const READ_ONLY: [&str; 9] = [
    "available",
    "creation",
    "guid",
    "origin",
    "referenced",
    "used",
    "volblocksize",
    "volsize",
    "written",
];

/// Longest name of a user's property, and longest value, in bytes.
const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 8191;

fn wrong(property: &str, why: &'static str) -> DatasetErrorKind {
    DatasetErrorKind::Property {
        property: property.to_owned(),
        why,
    }
}

/// Properties that were checked.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) users: BTreeMap<String, String>,
    pub(crate) reserved: Option<u64>,
}

/// A user's property that is set or, without a value, removed.
fn check_users(name: &str, value: Option<&str>) -> Result<(), DatasetErrorKind> {
    if name.contains('\0') || value.is_some_and(|value| value.contains('\0')) {
        let why = "names and values cannot contain the NUL character";
        return Err(wrong(&name.replace('\0', "?"), why));
    }
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.:+".contains(&byte);
    if !name.contains(':') || !name.bytes().all(is_plain) {
        return Err(wrong(name, UNKNOWN_PROPERTY_OR_VALUE));
    }
    let is_long =
        name.len() > NAME_BYTES_MAX || value.is_some_and(|value| value.len() > VALUE_BYTES_MAX);
    match is_long {
        true => Err(wrong(name, "the name or value is too long")),
        false => Ok(()),
    }
}

/// Checks properties to be set; `available` is the space for a reservation, none if it is checked elsewhere.
pub(crate) fn checked(
    properties: &[(String, Value)],
    available: Option<u64>,
) -> Result<Checked, DatasetErrorKind> {
    let mut checked = Checked::default();
    for (name, value) in properties {
        match (name.as_str(), value) {
            (RESERVATION, Value::Number(bytes)) if available.is_some_and(|room| *bytes > room) => {
                return Err(wrong(name, NO_ROOM));
            }
            (RESERVATION, Value::Number(bytes)) => checked.reserved = Some(*bytes),
            (name, _) if READ_ONLY.contains(&name) => {
                return Err(wrong(name, "it cannot be changed"));
            }
            (_, Value::Number(_)) => return Err(wrong(name, UNKNOWN_PROPERTY_OR_VALUE)),
            (_, Value::Text(text)) => {
                check_users(name, Some(text))?;
                checked.users.insert(name.clone(), text.clone());
            }
        }
    }
    Ok(checked)
}

/// The number under which a dataset's or snapshot's properties are stored.
fn number_of(records: &Records, local: &str) -> Result<Number, DatasetErrorKind> {
    if local.is_empty() {
        return Ok(records.identity.guid);
    }
    let (head, tag) = local
        .split_once('@')
        .map_or((local, None), |(head, tag)| (head, Some(tag)));
    let volume = records
        .volumes
        .get(head)
        .ok_or(DatasetErrorKind::NotFound)?;
    match tag {
        None => Ok(volume.guid),
        Some(tag) => {
            let snapshot = records.snapshot(volume.guid, tag);
            snapshot
                .map(|one| one.guid)
                .ok_or(DatasetErrorKind::NotFound)
        }
    }
}

impl Shelf {
    /// Sets properties: all of them, or none.
    pub(crate) fn set(
        self: &Arc<Self>,
        dataset: DatasetRef<'_>,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        let local = self.local_to_change(SET, dataset)?;
        let fail = |kind| with_cause(SET, dataset.as_str(), kind);
        let changing = self.changing();
        let records = self.records();
        let number = number_of(&records, local).map_err(fail)?;
        let volume = records.volumes.get(local);
        let room = volume.map(|volume| {
            self.space
                .available(Some(volume.guid))
                .saturating_add(used_of(self, volume))
        });
        let checked = checked(properties, room).map_err(fail)?;
        let mut edits = Edits::default();
        for (name, value) in &checked.users {
            edits.set(property_key(number, name), value.clone().into_bytes());
        }
        let changed = match (checked.reserved, volume) {
            (None, _) => None,
            (Some(reserved), Some(volume)) => Some(Volume {
                reserved,
                ..volume.clone()
            }),
            (Some(_), None) => return Err(fail(wrong(RESERVATION, "only volumes have it"))),
        };
        if let Some(changed) = &changed {
            edits.set(volume_key(local), json(changed));
        }
        let in_cluster = failed(SET, dataset.as_str());
        changing.commit(edits).map_err(&in_cluster)?;
        drop(changing);
        match changed {
            Some(changed) => self.measure(&changed).map_err(&in_cluster),
            None => Ok(()),
        }
    }

    /// The text that is set on a dataset, by the beginning of its name.
    fn users(&self, records: &Records, of: Number, prefix: &str) -> BTreeMap<String, String> {
        let own = records.properties.get(&of).into_iter().flatten();
        let own = own.filter(|(name, _)| name.starts_with(prefix));
        own.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn all_properties(&self, local: &str) -> Result<BTreeMap<String, Property>, Missing> {
        let records = self.records();
        let own = number_of(&records, local).map_err(Missing::Kind)?;
        let mut found = BTreeMap::new();
        let mut add = |of: Number, source: &PropertySource| {
            for (name, value) in self.users(&records, of, "") {
                let (value, source) = (Value::Text(value), source.clone());
                found.entry(name).or_insert(Property { value, source });
            }
        };
        add(own, &PropertySource::Local);
        let root = self.name().to_string();
        if let Some((head, _)) = local.split_once('@') {
            let above = number_of(&records, head).map_err(Missing::Kind)?;
            add(above, &PropertySource::Inherited(format!("{root}/{head}")));
        }
        add(records.identity.guid, &PropertySource::Inherited(root));
        let info = self.info(&records, local)?;
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
        if let Some(shape) = info.volume {
            facts.push(("volsize", Value::from(shape.size)));
            facts.push(("volblocksize", Value::from(shape.block_size)));
        }
        // A number with its default value is reported as not set.
        let block = Value::from(VolumeSpec::BLOCK_SIZE_DEFAULT);
        let native = |name: &str, value: Value| Property {
            source: match name == "volblocksize" && value == block {
                true => PropertySource::Default,
                false => PropertySource::Native,
            },
            value,
        };
        found.extend(
            facts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), native(name, value))),
        );
        if info.volume.is_some() && !info.snapshot {
            let source = match info.refreservation.get() {
                0 => PropertySource::Default,
                _ => PropertySource::Local,
            };
            let value = Value::from(info.refreservation);
            found.insert(RESERVATION.to_owned(), Property { value, source });
        }
        Ok(found)
    }

    fn edit(self: &Arc<Self>, edits: &[(DatasetRef<'_>, PropertyEdits)]) -> Result<(), Missing> {
        for (name, value) in edits.iter().flat_map(|(_, edits)| edits) {
            check_users(name, value.as_deref()).map_err(Missing::Kind)?;
        }
        let changing = self.changing();
        let records = self.records();
        // The last edit of a property is effective, and each key occurs once in a write operation.
        let mut last = BTreeMap::new();
        for (dataset, own) in edits {
            let rest = &dataset.as_str()[dataset.pool().len()..];
            let of = number_of(&records, rest.strip_prefix('/').unwrap_or(rest));
            let of = of.map_err(Missing::Kind)?;
            last.extend(
                own.iter()
                    .map(|(name, value)| (property_key(of, name), value)),
            );
        }
        let mut stored = Edits::default();
        for (key, value) in last {
            match value {
                Some(value) => stored.set(key, value.clone().into_bytes()),
                None => stored.remove(key),
            };
        }
        changing.commit(stored)?;
        Ok(())
    }
}

/// The space that a volume has already, for which it needs no reservation; zero if that is unknown.
fn used_of(shelf: &Shelf, volume: &Volume) -> u64 {
    shelf.used_bytes(volume).unwrap_or(0)
}

impl Properties for CephPool {
    fn user_properties(&self, prefix: &str) -> Result<UserProperties, DatasetError> {
        let records = self.shelf.records();
        let root = self.shelf.name().to_string();
        let volumes = records
            .volumes
            .iter()
            .map(|(name, volume)| (format!("{root}/{name}"), volume.guid));
        let all = volumes.chain([(root.clone(), records.identity.guid)]);
        let own = all.map(|(name, of)| (name, self.shelf.users(&records, of, prefix)));
        Ok(own.filter(|(_, own)| !own.is_empty()).collect())
    }

    fn own_user_properties(
        &self,
        dataset: DatasetRef<'_>,
        prefix: &str,
    ) -> Result<BTreeMap<String, String>, DatasetError> {
        let local = self.shelf.local(READ, dataset)?;
        let records = self.shelf.records();
        // Snapshots have none of their own here.
        let number = match local.contains('@') {
            true => Err(DatasetErrorKind::NotFound),
            false => number_of(&records, local),
        };
        let number = number.map_err(|kind| DatasetError::new(READ, dataset.as_str(), kind))?;
        Ok(self.shelf.users(&records, number, prefix))
    }

    fn dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
    ) -> Result<BTreeMap<String, Property>, DatasetError> {
        let local = self.shelf.local(READ, dataset)?;
        let found = self.shelf.all_properties(local);
        found.map_err(refused(READ, dataset.as_str()))
    }

    fn set_dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        self.shelf.set(dataset, properties)
    }

    fn edit_user_properties(
        &self,
        edits: Vec<(DatasetRef<'_>, PropertyEdits)>,
    ) -> Result<(), DatasetError> {
        let root = self.shelf.name().to_string();
        let about = match edits[..] {
            [(only, _)] => only.as_str(),
            _ => root.as_str(),
        };
        for (dataset, _) in &edits {
            self.shelf.local_to_change(SET, *dataset)?;
        }
        self.shelf.edit(&edits).map_err(refused(SET, about))
    }

    fn inherit_property(
        &self,
        dataset: DatasetRef<'_>,
        property: &str,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "remove a property of";
        let local = self.shelf.local_to_change(DOING, dataset)?;
        let fail = |kind| DatasetError::new(DOING, dataset.as_str(), kind);
        check_users(property, None).map_err(fail)?;
        let changing = self.shelf.changing();
        let number = number_of(&self.shelf.records(), local).map_err(fail)?;
        let mut edits = Edits::default();
        edits.remove(property_key(number, property));
        changing
            .commit(edits)
            .map_err(failed(DOING, dataset.as_str()))
    }

    fn property_values(&self, property: &str) -> Option<String> {
        match property {
            RESERVATION => Some("<number>".to_owned()),
            name if READ_ONLY.contains(&name) => Some("<read-only>".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_that_rbd_does_not_have_is_refused_by_its_name() {
        for (name, value) in [
            ("compression", Value::from("lz4")),
            ("copies", Value::Number(2)),
            ("volsize", Value::Number(4096)),
            ("refreservation", Value::from("many")),
            ("User:Text", Value::from("x")),
            ("user:nul", Value::from("a\0b")),
            ("user:number", Value::Number(1)),
        ] {
            let refused = checked(&[(name.to_owned(), value)], None);
            assert!(
                matches!(refused, Err(DatasetErrorKind::Property { property, .. }) if property == name)
            );
        }
        let fine = [
            ("user:text", Value::from("x")),
            (RESERVATION, Value::Number(7)),
        ];
        let fine = fine.map(|(name, value)| (name.to_owned(), value));
        assert!(checked(&fine, Some(7)).is_ok());
        assert!(checked(&fine, Some(6)).is_err(), "more than there is");
    }
}
