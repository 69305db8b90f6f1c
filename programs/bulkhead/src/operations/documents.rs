//! The export documents of an open pool, as the operations read and change them. A trait, so
//! that what they decide is tested without a pool.

use std::collections::BTreeMap;

use control::exports::{
    DocumentError, EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, Problem, TargetDocument,
    VolumeDocument, VolumeFacts, Wish, target_property,
};
use control::failure::chain;
use control::{Failure, FailureKind};
use units::{IscsiName, VolumeName};

/// Our own properties, by dataset and name, as they are set there.
pub type All = BTreeMap<String, BTreeMap<String, String>>;

/// New values of user properties; `None` removes one.
pub type Edits = Vec<(String, Option<String>)>;

/// Where export documents are kept.
pub trait Documents {
    /// Name of the root dataset.
    fn root(&self) -> String;
    /// All documents of the pool, read at once.
    fn all(&self) -> Result<All, Failure>;
    /// Whether there is a volume of that name, with documents or without.
    fn is_volume(&self, name: &VolumeName) -> Result<bool, Failure>;
    /// Changes user properties of `dataset` all at once; durable on return.
    fn edit(&self, dataset: &str, edits: Edits) -> Result<(), Failure>;
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

/// The volumes that have documents.
pub fn volumes(all: &All) -> Vec<VolumeFacts> {
    let facts = |(name, own): (&String, &BTreeMap<String, String>)| {
        let value = |property: &str| own.get(property).cloned();
        let (export, identity) = (value(EXPORT_PROPERTY), value(IDENTITY_PROPERTY));
        let is_volume = export.is_some() || identity.is_some();
        is_volume.then_some(VolumeFacts {
            name: name.parse().ok()?,
            export,
            identity,
        })
    };
    all.iter().filter_map(facts).collect()
}

/// What the pool whose root dataset is `root` wants to be exported, and what of it cannot be.
pub fn wish(root: &str, all: &All) -> (Wish, Vec<Problem>) {
    let own = all.get(root).into_iter().flatten();
    let pairs = own.map(|(name, value)| (name.as_str(), value.as_str()));
    Wish::add_up(pairs, &volumes(all))
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
    // Made by another program, it has no document yet.
    let own = all.get(name.as_str());
    let value = |property: &str| own.and_then(|own| own.get(property)).cloned();
    Ok(VolumeFacts {
        name: name.clone(),
        export: value(EXPORT_PROPERTY),
        identity: value(IDENTITY_PROPERTY),
    })
}

/// The failure that says so.
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
        Some(text) => {
            VolumeDocument::decode(EXPORT_PROPERTY, text).map_err(|e| document_failure(&e))
        }
    }
}

/// The edits that make `document` the volume's, with an identity if it has none.
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
    getrandom::fill(&mut entropy).map_err(|error| {
        let message = format!("make an identity for the volume: {error}");
        Failure::new(FailureKind::Failed, message)
    })?;
    let identity = encoded(Identity::from_entropy(entropy).encode(IDENTITY_PROPERTY))?;
    Ok((IDENTITY_PROPERTY.to_owned(), Some(identity)))
}

fn encoded(result: Result<String, DocumentError>) -> Result<String, Failure> {
    result.map_err(|error| document_failure(&error))
}

/// The document of a target of the pool whose root dataset is `root`.
pub fn target_document(
    root: &str,
    all: &All,
    name: &IscsiName,
) -> Result<Option<TargetDocument>, Failure> {
    let property = target_property(name);
    let value = all.get(root).and_then(|own| own.get(&property));
    let document = value.map(|value| TargetDocument::decode(&property, value));
    document
        .transpose()
        .map_err(|error| document_failure(&error))
}

/// Keeps the document of a target, or removes it.
pub fn set_target_document(
    documents: &dyn Documents,
    name: &IscsiName,
    document: Option<&TargetDocument>,
) -> Result<(), Failure> {
    let property = target_property(name);
    let value = match document {
        Some(document) => Some(encoded(document.encode(&property))?),
        None => None,
    };
    documents.edit(&documents.root(), vec![(property, value)])
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
        pub datasets: RefCell<All>,
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

        fn all(&self) -> Result<All, Failure> {
            Ok(self.datasets.borrow().clone())
        }

        fn is_volume(&self, name: &VolumeName) -> Result<bool, Failure> {
            Ok(self.datasets.borrow().contains_key(name.as_str()))
        }

        fn edit(&self, dataset: &str, edits: Edits) -> Result<(), Failure> {
            let mut datasets = self.datasets.borrow_mut();
            let properties = datasets.get_mut(dataset).expect("an existing dataset");
            for (name, value) in edits {
                match value {
                    Some(value) => properties.insert(name, value),
                    None => properties.remove(&name),
                };
            }
            Ok(())
        }
    }
}
