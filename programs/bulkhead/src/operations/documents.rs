//! The export documents of an open pool, as the operations read and change them. A trait, so
//! that what they decide is tested without a pool.

use control::exports::{
    DocumentError, EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, Problem, TargetDocument,
    VolumeDocument, VolumeFacts, Wish, target_property,
};
use control::failure::chain;
use control::{Failure, FailureKind};
use units::{IscsiName, VolumeName};

/// New values of user properties; `None` removes one.
pub type Edits = Vec<(String, Option<String>)>;

/// Where export documents are kept.
pub trait Documents {
    /// Name of the root dataset.
    fn root(&self) -> String;
    /// All volumes with their documents, without opening them.
    fn volumes(&self) -> Result<Vec<VolumeFacts>, Failure>;
    /// The locally set user properties of `dataset` whose names start with `prefix`.
    fn properties(&self, dataset: &str, prefix: &str) -> Result<Vec<(String, String)>, Failure>;
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

/// What the pool wants to be exported, and what of it cannot be.
pub fn wish(documents: &dyn Documents) -> Result<(Wish, Vec<Problem>, Vec<VolumeFacts>), Failure> {
    let prefix = control::exports::TARGET_PROPERTY_PREFIX;
    let targets = documents.properties(&documents.root(), prefix)?;
    let volumes = documents.volumes()?;
    let pairs = targets.iter().map(|(name, value)| (&**name, &**value));
    let (wish, problems) = Wish::add_up(pairs, &volumes);
    Ok((wish, problems, volumes))
}

/// The facts of one volume.
pub fn volume(documents: &dyn Documents, name: &VolumeName) -> Result<VolumeFacts, Failure> {
    let volumes = documents.volumes()?;
    volumes
        .into_iter()
        .find(|facts| facts.name == *name)
        .ok_or_else(|| no_volume(name))
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

/// The document of a target.
pub fn target_document(
    documents: &dyn Documents,
    name: &IscsiName,
) -> Result<Option<TargetDocument>, Failure> {
    let property = target_property(name);
    let found = documents.properties(&documents.root(), &property)?;
    let Some((_, value)) = found.into_iter().find(|(found, _)| *found == property) else {
        return Ok(None);
    };
    TargetDocument::decode(&property, &value)
        .map(Some)
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
    use std::collections::BTreeMap;

    use super::*;

    /// Datasets with their properties.
    #[derive(Default)]
    pub struct FakeDocuments {
        /// Properties by dataset and name.
        pub datasets: RefCell<BTreeMap<String, BTreeMap<String, String>>>,
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

        fn volumes(&self) -> Result<Vec<VolumeFacts>, Failure> {
            let datasets = self.datasets.borrow();
            let volumes = datasets.iter().filter(|(name, _)| name.contains('/'));
            Ok(volumes
                .map(|(name, properties)| VolumeFacts {
                    name: name.parse().expect("a volume name"),
                    size: 1 << 30,
                    block_size: 16 << 10,
                    sparse: true,
                    export: properties.get(EXPORT_PROPERTY).cloned(),
                    identity: properties.get(IDENTITY_PROPERTY).cloned(),
                })
                .collect())
        }

        fn properties(
            &self,
            dataset: &str,
            prefix: &str,
        ) -> Result<Vec<(String, String)>, Failure> {
            let datasets = self.datasets.borrow();
            let found = datasets[dataset].iter();
            Ok(found
                .filter(|(name, _)| name.starts_with(prefix))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect())
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
