//! Properties of datasets: native ones, and user properties, in which this project stores a pool's
//! exports.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};

use engine::capabilities::{Datasets, Properties};
use engine::dataset::{
    DatasetError, DatasetErrorKind, DatasetRef, Property, PropertyEdits, PropertySource,
    UNKNOWN_PROPERTY_OR_VALUE, UserProperties, Value,
};
use rustix::io::Errno;
use zpool_sys as sys;

use super::{NAME_BYTES, c_user_text};
use crate::error::{SystemError, static_text};
use crate::nvlist::text;
use crate::nvlist::{NvList, NvValue};
use crate::pool::{Pool, c_text};

/// The suffix under which ZFS stores the values of a received stream.
const RECEIVED: &str = "$recvd";
/// The suffix that marks a received value as overridden.
const INHERIT: &str = "$inherit";
/// ZFS's source for values that were received with a stream.
const SOURCE_RECEIVED: &str = "$recvd";

/// The `copies` property among those to be set.
pub(super) fn copies(properties: &[(String, Value)]) -> u64 {
    let value = properties.iter().rev().find(|(name, _)| name == "copies");
    match value {
        Some((_, Value::Number(copies))) => *copies,
        Some((_, Value::Text(copies))) => copies.parse().unwrap_or(1),
        None => 1,
    }
}

/// Converts properties to the form that the shim expects. A name or value with a NUL is a user
/// error.
pub(crate) fn to_list(
    doing: &'static str,
    dataset: &str,
    properties: &[(String, Value)],
) -> Result<NvList, DatasetError> {
    let mut list = NvList::new();
    for (name, value) in properties {
        let value_is_text = match value {
            Value::Number(_) => true,
            Value::Text(text) => c_user_text(text).is_some(),
        };
        if c_user_text(name).is_none() || !value_is_text {
            let kind = DatasetErrorKind::Property {
                property: name.replace('\0', "?"),
                why: "names and values cannot contain the NUL character",
            };
            return Err(DatasetError::new(doing, dataset, kind));
        }
        match value {
            Value::Number(number) => list.set_u64(name, *number),
            Value::Text(text) => list.set_text(name, text),
        };
    }
    Ok(list)
}

/// The edits of one dataset in the form that the shim expects.
fn edit_list(
    doing: &'static str,
    dataset: &str,
    edits: PropertyEdits,
) -> Result<NvList, DatasetError> {
    let edits: BTreeMap<String, Option<String>> = edits.into_iter().collect();
    let (set, removed): (Vec<_>, Vec<_>) = edits.into_iter().partition(|(_, v)| v.is_some());
    let text =
        |(name, value): (String, Option<String>)| (name, Value::Text(value.unwrap_or_default()));
    let set: Vec<_> = set.into_iter().map(text).collect();
    let mut gone = NvList::new();
    for (name, _) in &removed {
        gone.set_present(name);
    }
    let mut both = NvList::new();
    both.set_list("set", to_list(doing, dataset, &set)?.view());
    both.set_list("removed", gone.view());
    Ok(both)
}

pub(super) fn refused(
    doing: &'static str,
    dataset: &str,
    cause: SystemError,
    bad: &[c_char; NAME_BYTES],
) -> DatasetError {
    // SAFETY: the shim leaves NUL-terminated text in it.
    let property = unsafe { text(bad.as_ptr()) };
    if property.is_empty() {
        return DatasetError::common(doing, dataset, cause);
    }
    let why = property_rule(cause);
    let kind = DatasetErrorKind::Property { property, why };
    DatasetError::because(doing, dataset, kind, cause)
}

/// The result of [`Pool::user_properties`]: names as stored, including suffixes.
type Stored = Vec<(String, String, String)>;

/// # Safety
/// `arg` is a `&mut Stored`, the remaining arguments NUL-terminated text.
unsafe extern "C" fn collect_property(
    arg: *mut c_void,
    dataset: *const c_char,
    property: *const c_char,
    value: *const c_char,
) {
    // SAFETY: promised by the caller.
    let (stored, entry) = unsafe {
        (
            &mut *arg.cast::<Stored>(),
            (text(dataset), text(property), text(value)),
        )
    };
    stored.push(entry);
}

/// Resolves the suffixes: a local value precedes a received one, which may be overridden.
fn resolve(stored: Stored) -> UserProperties {
    let mut found = UserProperties::new();
    let mut received = Vec::new();
    for (dataset, property, value) in stored {
        let mine = found.entry(dataset.clone()).or_default();
        if let Some(name) = property.strip_suffix(RECEIVED) {
            received.push((dataset, name.to_owned(), value));
        } else if property.contains('$') {
            // "$inherit" is looked up below under its full name; other suffixes are internal to
            // ZFS.
            if property.ends_with(INHERIT) {
                mine.insert(property, value);
            }
        } else {
            mine.insert(property, value);
        }
    }
    for (dataset, name, value) in received {
        let mine = found.entry(dataset).or_default();
        if !mine.contains_key(&name) && !mine.contains_key(&format!("{name}{INHERIT}")) {
            mine.insert(name, value);
        }
    }
    for properties in found.values_mut() {
        properties.retain(|name, _| !name.contains('$'));
    }
    found.retain(|_, properties| !properties.is_empty());
    found
}

impl Pool {
    pub(super) fn set_list(
        &self,
        doing: &'static str,
        dataset: DatasetRef<'_>,
        list: &NvList,
    ) -> Result<(), DatasetError> {
        let name = c_text(dataset.as_str());
        let mut bad = [0 as c_char; NAME_BYTES];
        // SAFETY: the pool is open; name and list are valid for the call; `bad` has the stated room.
        let code = unsafe {
            sys::bh_dataset_set(
                name.as_ptr(),
                list.as_raw(),
                bad.as_mut_ptr(),
                bad.len() as u64,
            )
        };
        SystemError::check(code).map_err(|cause| refused(doing, dataset.as_str(), cause, &bad))
    }
}

impl Properties for Pool {
    fn user_properties(&self, prefix: &str) -> Result<UserProperties, DatasetError> {
        const DOING: &str = "read the properties of";
        let pool = self.name().as_str();
        let prefix = c_text(prefix);
        let mut stored = Stored::new();
        // SAFETY: the pool is open; `stored` outlives the call, which is when the visitor runs.
        let code = unsafe {
            sys::bh_user_properties(
                self.c_name().as_ptr(),
                prefix.as_ptr(),
                collect_property,
                (&raw mut stored).cast(),
            )
        };
        SystemError::check(code).map_err(|cause| DatasetError::common(DOING, pool, cause))?;
        Ok(resolve(stored))
    }

    fn own_user_properties(
        &self,
        dataset: DatasetRef<'_>,
        prefix: &str,
    ) -> Result<BTreeMap<String, String>, DatasetError> {
        const DOING: &str = "read the properties of";
        let dataset = self.own(DOING, dataset)?;
        let (name, prefix) = (c_text(dataset.as_str()), c_text(prefix));
        let mut stored = Stored::new();
        // SAFETY: as in `user_properties`.
        let code = unsafe {
            sys::bh_own_user_properties(
                name.as_ptr(),
                prefix.as_ptr(),
                collect_property,
                (&raw mut stored).cast(),
            )
        };
        SystemError::check(code)
            .map_err(|cause| DatasetError::common(DOING, dataset.as_str(), cause))?;
        Ok(resolve(stored).remove(dataset.as_str()).unwrap_or_default())
    }

    fn dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
    ) -> Result<BTreeMap<String, Property>, DatasetError> {
        const DOING: &str = "read the properties of";
        let dataset = self.own(DOING, dataset)?;
        let name = c_text(dataset.as_str());
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pool is open; the name is copied.
        let code = unsafe { sys::bh_dataset_properties(name.as_ptr(), &mut raw) };
        SystemError::check(code)
            .map_err(|cause| DatasetError::common(DOING, dataset.as_str(), cause))?;
        // SAFETY: the shim hands over a list that is ours to free.
        let list = unsafe { NvList::from_raw(raw) }.expect("set when the call succeeds");
        let mut found = BTreeMap::new();
        for (name, entry) in list.view().entries() {
            let NvValue::List(entry) = entry else {
                continue;
            };
            let value = if let Some(text) = entry.text("value") {
                Value::Text(text)
            } else if let Some(number) = entry.u64("value") {
                named_value(&name, number)
            } else {
                continue;
            };
            let source = match entry.text("source").as_deref() {
                None => PropertySource::Native,
                Some("") => PropertySource::Default,
                Some(SOURCE_RECEIVED) => PropertySource::Received,
                Some(here) if here == dataset.as_str() => PropertySource::Local,
                Some(above) => PropertySource::Inherited(above.to_owned()),
            };
            found.insert(name, Property { value, source });
        }
        Ok(found)
    }

    fn set_dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "set properties of";
        let dataset = self.own(DOING, dataset)?;
        let list = to_list(DOING, dataset.as_str(), properties)?;
        self.set_list(DOING, dataset, &list)
    }

    fn edit_user_properties(
        &self,
        edits: Vec<(DatasetRef<'_>, PropertyEdits)>,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "set properties of";
        let mut datasets = NvList::new();
        let mut names = Vec::new();
        for (dataset, edits) in edits {
            let dataset = self.own(DOING, dataset)?;
            let one = edit_list(DOING, dataset.as_str(), edits)?;
            datasets.set_list(dataset.as_str(), one.view());
            names.push(dataset);
        }
        let mut bad = [0 as c_char; NAME_BYTES];
        // SAFETY: the pool is open; name and list are valid for the call; `bad` has the stated room.
        let code = unsafe {
            sys::bh_properties_edit(
                self.c_name().as_ptr(),
                datasets.as_raw(),
                bad.as_mut_ptr(),
                bad.len() as u64,
            )
        };
        SystemError::check(code).map_err(|cause| {
            let whose = match names[..] {
                [only] => only.as_str(),
                _ => self.name().as_str(),
            };
            refused(DOING, whose, cause, &bad)
        })
    }

    fn inherit_property(
        &self,
        dataset: DatasetRef<'_>,
        property: &str,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "remove a property of";
        let dataset = self.own(DOING, dataset)?;
        let (name, c_property) = (c_text(dataset.as_str()), c_text(property));
        // SAFETY: the pool is open; the names are copied.
        let code = unsafe { sys::bh_dataset_inherit(name.as_ptr(), c_property.as_ptr()) };
        match SystemError::check(code) {
            Err(cause) if !cause.is(rustix::io::Errno::NOENT) => {
                let kind = DatasetErrorKind::Property {
                    property: property.to_owned(),
                    why: property_rule(cause),
                };
                Err(DatasetError::because(DOING, dataset.as_str(), kind, cause))
            }
            Err(cause) => {
                // Either the property or the dataset is missing.
                self.dataset(dataset).map(|_| ()).inspect_err(|_| {
                    tracing::debug!(%cause, "inherit a property of a missing dataset");
                })
            }
            Ok(()) => Ok(()),
        }
    }

    fn property_values(&self, property: &str) -> Option<String> {
        let name = c_text(property);
        // SAFETY: the name is only read; the result is a constant of the library or NULL.
        let values = unsafe { static_text(sys::bh_property_values(name.as_ptr())) };
        values.map(str::to_owned)
    }
}

/// `lz4` for 15, if the property has named values.
fn named_value(property: &str, number: u64) -> Value {
    let name = c_text(property);
    // SAFETY: the name is only read; the result is a constant of the library or NULL.
    let named: Option<&CStr> = unsafe {
        let raw = sys::bh_property_text(name.as_ptr(), number);
        static_text(raw).map(|_| CStr::from_ptr(raw))
    };
    match named {
        Some(named) => Value::Text(named.to_string_lossy().into_owned()),
        None => Value::Number(number),
    }
}

/// Why a property was refused, in words.
pub(super) fn property_rule(cause: SystemError) -> &'static str {
    match Errno::from_raw_os_error(cause.0) {
        Errno::NOTSUP => "the pool does not have the feature: enable it, or choose another value",
        Errno::PERM => "it cannot be changed",
        Errno::MEDIUMTYPE => "it is a property of file systems, and this is a volume",
        Errno::NAMETOOLONG => "the name or value is too long",
        Errno::RANGE | Errno::DOM => "the value is out of range",
        Errno::NOSPC | Errno::DQUOT => "there is not enough space for it",
        _ => UNKNOWN_PROPERTY_OR_VALUE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let stored = entries
            .iter()
            .map(|(p, v)| ("tank/a".to_owned(), (*p).to_owned(), (*v).to_owned()))
            .collect();
        resolve(stored).remove("tank/a").unwrap_or_default()
    }

    #[test]
    fn local_property_overrides_received_property() {
        for order in [
            [("x:a$recvd", "stream"), ("x:a", "local")],
            [("x:a", "local"), ("x:a$recvd", "stream")],
        ] {
            assert_eq!(stored(&order)["x:a"], "local");
        }
        assert_eq!(stored(&[("x:a$recvd", "stream")])["x:a"], "stream");
        assert!(stored(&[("x:a$recvd", "stream"), ("x:a$inherit", "")]).is_empty());
        assert!(stored(&[("x:a$iuv", "1")]).is_empty());
    }

    #[test]
    fn property_with_a_nul_is_refused_by_name() {
        let error = to_list("set", "tank/a", &[("x:a".into(), "b\0c".into())]).unwrap_err();
        assert!(
            matches!(error.kind, DatasetErrorKind::Property { property, .. } if property == "x:a")
        );
    }
}
