//! The export documents of an open pool, as the operations read and change them. The trait lets
//! tests run the decisions without a pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::exports::{
    DesiredState, DocumentError, EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, Problem,
    TargetDocument, VolumeDocument, VolumeFacts, target_property,
};
use control::failure::chain;
use control::{Failure, FailureKind};
use units::{IscsiName, VolumeName};

use super::secrets;
use crate::seals::Ring;

/// Our own properties of one dataset, by name, as they are set there.
pub type Own = BTreeMap<String, String>;

/// The Bulkhead properties of all datasets that have any, with the parsed documents of volumes.
#[derive(Clone, Debug, Default)]
pub struct All {
    datasets: BTreeMap<String, Arc<Known>>,
}

/// The cached properties of one dataset.
#[derive(Debug)]
struct Known {
    own: Own,
    /// Of a volume that has documents.
    facts: Option<VolumeFacts>,
}

impl All {
    /// The properties of one dataset; `None` if it has none of ours.
    pub fn own(&self, dataset: &str) -> Option<&Own> {
        self.datasets.get(dataset).map(|known| &known.own)
    }

    /// The datasets that have this property themselves, with its value.
    pub fn having<'a>(&'a self, property: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let value = move |(dataset, known): (&'a String, &'a Arc<Known>)| {
            Some((dataset.as_str(), known.own.get(property)?.as_str()))
        };
        self.datasets.iter().filter_map(value)
    }

    /// The volumes that have documents.
    pub fn volumes(&self) -> impl Iterator<Item = &VolumeFacts> {
        let known = self.datasets.values();
        known.filter_map(|known| known.facts.as_ref())
    }

    /// The datasets that have the property, in order.
    pub fn with_property(&self, property: &str) -> impl Iterator<Item = &str> {
        let datasets = self.datasets.iter();
        let having = datasets.filter(move |(_, known)| known.own.contains_key(property));
        having.map(|(name, _)| name.as_str())
    }

    /// Replaces the cached properties of one dataset.
    pub fn set(&mut self, dataset: &str, own: Own) {
        if own.is_empty() {
            self.datasets.remove(dataset);
            return;
        }
        let facts = facts(dataset, &own);
        let known = Arc::new(Known { own, facts });
        self.datasets.insert(dataset.to_owned(), known);
    }
}

impl FromIterator<(String, Own)> for All {
    fn from_iter<T: IntoIterator<Item = (String, Own)>>(found: T) -> Self {
        let mut all = Self::default();
        for (dataset, own) in found {
            all.set(&dataset, own);
        }
        all
    }
}

fn facts(dataset: &str, own: &Own) -> Option<VolumeFacts> {
    let value = |property: &str| own.get(property).map(String::as_str);
    let (export, identity) = (value(EXPORT_PROPERTY), value(IDENTITY_PROPERTY));
    if export.is_none() && identity.is_none() {
        return None;
    }
    Some(VolumeFacts::read(dataset.parse().ok()?, export, identity))
}

/// New values of user properties; `None` removes one.
pub type Edits = Vec<(String, Option<String>)>;

/// Access to the stored export documents.
pub trait Documents {
    /// Name of the root dataset.
    fn root(&self) -> String;
    /// All documents of the pool, as they are now.
    fn all(&self) -> Result<Arc<All>, Failure>;
    /// Whether there is a volume of that name, with documents or without.
    fn is_volume(&self, name: &VolumeName) -> Result<bool, Failure>;
    /// The keys that open the secrets in them.
    fn ring(&self) -> Result<Ring, Failure>;
    /// The same, with sealing keys.
    fn ring_to_seal(&self) -> Result<Ring, Failure>;
    /// Changes user properties of some datasets, all at once or none; durable on return.
    fn edit_all(&self, edits: Vec<(String, Edits)>) -> Result<(), Failure>;

    /// As [`Self::edit_all`], of one dataset.
    fn edit(&self, dataset: &str, edits: Edits) -> Result<(), Failure> {
        self.edit_all(vec![(dataset.to_owned(), edits)])
    }
}

/// A document that cannot be read or written, as a failure.
pub fn document_failure(error: &DocumentError) -> Failure {
    let kind = match error {
        DocumentError::TooLarge { .. } => FailureKind::Usage,
        DocumentError::Malformed { .. } | DocumentError::UnknownVersion { .. } => {
            FailureKind::Failed
        }
    };
    Failure::new(kind, chain(error))
}

/// Returns the desired exports of the pool with the root dataset `root`, and the problems that
/// prevent some of them.
pub fn desired_state(root: &str, all: &All) -> (DesiredState, Vec<Problem>) {
    let own = all.own(root).into_iter().flatten();
    let pairs = own.map(|(name, value)| (name.as_str(), value.as_str()));
    DesiredState::add_up(pairs, all.volumes())
}

/// The facts of one volume.
pub fn volume(
    documents: &dyn Documents,
    all: &All,
    name: &VolumeName,
) -> Result<VolumeFacts, Failure> {
    if !documents.is_volume(name)? {
        return Err(no_volume(name));
    }
    // A volume created by other ZFS software has no document yet.
    let known = all.datasets.get(name.as_str());
    let facts = known.and_then(|known| known.facts.clone());
    Ok(facts.unwrap_or_else(|| VolumeFacts::read(name.clone(), None, None)))
}

/// Returns the failure for a missing volume.
pub fn no_volume(name: &VolumeName) -> Failure {
    Failure::not_found(format!("there is no volume {name}")).advise(format!(
        "`bulkhead volume list {}` shows those there are",
        name.pool()
    ))
}

/// How a volume is exported now.
pub fn export_document(facts: &VolumeFacts) -> Result<VolumeDocument, Failure> {
    match &facts.export {
        None => Ok(VolumeDocument::default()),
        Some(Ok(document)) => Ok(document.clone()),
        Some(Err(sentence)) => Err(Failure::new(FailureKind::Failed, sentence.clone())),
    }
}

/// Returns the edits that store `document` for the volume, with a new identity if it has none.
pub fn export_edits(facts: &VolumeFacts, document: &VolumeDocument) -> Result<Edits, Failure> {
    let value = match document.is_empty() {
        true => None,
        false => Some(encoded(document.encode(EXPORT_PROPERTY))?),
    };
    let mut edits = vec![(EXPORT_PROPERTY.to_owned(), value)];
    if facts.identity.is_none() {
        edits.push(new_identity()?);
    }
    Ok(edits)
}

/// An identity for a volume that has none.
pub fn new_identity() -> Result<(String, Option<String>), Failure> {
    let mut entropy = [0; 16];
    getrandom::fill(&mut entropy).map_err(Failure::of("make an identity for the volume"))?;
    let identity = encoded(Identity::from_entropy(entropy).encode(IDENTITY_PROPERTY))?;
    Ok((IDENTITY_PROPERTY.to_owned(), Some(identity)))
}

pub(super) fn encoded(result: Result<String, DocumentError>) -> Result<String, Failure> {
    result.map_err(|error| document_failure(&error))
}

/// Returns the document of a target of the pool with the root dataset `root`.
pub fn target_document(
    root: &str,
    all: &All,
    name: &IscsiName,
) -> Result<Option<TargetDocument>, Failure> {
    let property = target_property(name);
    let value = all.own(root).and_then(|own| own.get(&property));
    let document = value.map(|value| TargetDocument::decode(&property, value));
    document
        .transpose()
        .map_err(|error| document_failure(&error))
}

/// Stores the document of a target, with its secrets sealed.
pub fn set_target_document(
    documents: &dyn Documents,
    name: &IscsiName,
    document: &TargetDocument,
) -> Result<(), Failure> {
    let property = target_property(name);
    let mut document = document.clone();
    if document.users.all().next().is_some() {
        secrets::seal(&documents.ring_to_seal()?, &property, &mut document.users)?;
    }
    let value = encoded(document.encode(&property))?;
    documents.edit(&documents.root(), vec![(property, Some(value))])
}

#[cfg(test)]
pub mod fake {
    //! Documents in memory.

    use std::cell::RefCell;

    use super::*;

    /// Datasets with their properties.
    #[derive(Default)]
    pub struct FakeDocuments {
        /// Properties by dataset and name.
        pub datasets: RefCell<BTreeMap<String, Own>>,
    }

    impl FakeDocuments {
        /// A pool `tank` with these volumes.
        pub fn with_volumes(names: &[&str]) -> Self {
            let fake = Self::default();
            for name in names.iter().chain(&["tank"]) {
                let mut datasets = fake.datasets.borrow_mut();
                datasets.insert((*name).to_owned(), BTreeMap::new());
            }
            fake
        }
    }

    impl Documents for FakeDocuments {
        fn root(&self) -> String {
            "tank".to_owned()
        }

        fn all(&self) -> Result<Arc<All>, Failure> {
            Ok(Arc::new(
                self.datasets.borrow().clone().into_iter().collect(),
            ))
        }

        fn ring(&self) -> Result<Ring, Failure> {
            Ok(crate::seals::fake::ring())
        }

        fn ring_to_seal(&self) -> Result<Ring, Failure> {
            self.ring()
        }

        fn is_volume(&self, name: &VolumeName) -> Result<bool, Failure> {
            Ok(self.datasets.borrow().contains_key(name.as_str()))
        }

        fn edit_all(&self, edits: Vec<(String, Edits)>) -> Result<(), Failure> {
            let mut datasets = self.datasets.borrow_mut();
            for (dataset, edits) in edits {
                let properties = datasets.get_mut(&dataset).expect("an existing dataset");
                for (name, value) in edits {
                    match value {
                        Some(value) => properties.insert(name, value),
                        None => properties.remove(&name),
                    };
                }
            }
            Ok(())
        }
    }
}
