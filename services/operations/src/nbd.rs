//! Requests about NBD exports: changes of export documents.

use control::answer::{Done, NbdView};
use control::exports::{DesiredExport, NbdExport};
use control::operations::nbd::NbdRequest;
use control::operations::nbd::export::Export;
use control::operations::nbd::list::List;
use control::operations::nbd::unexport::Unexport;
use control::{Answer, Failure, FailureKind};
use units::VolumeName;

use super::documents::{Documents, desired_state, export_document, export_edits, volume};

/// Performs one request.
pub fn perform(documents: &dyn Documents, request: NbdRequest) -> Result<Answer, Failure> {
    match request {
        NbdRequest::Export(Export {
            volume,
            name,
            read_only,
            access,
        }) => {
            let export = NbdExport {
                name: name.unwrap_or_else(|| volume.to_string()),
                read_only,
                access,
            };
            export_as(documents, &volume, export)
        }
        NbdRequest::Unexport(Unexport { volume, name, .. }) => {
            unexport(documents, &volume, name.as_deref())
        }
        NbdRequest::List(List { only }) => {
            let (desired, _) = desired_state(&documents.root(), &*documents.all()?);
            let views = desired.nbd.values().map(view);
            let is_selected = |view: &NbdView| {
                let volume = std::iter::once(view.volume.as_str());
                let only = only.as_ref();
                only.is_none_or(|only| only.has_export(&view.export.name, volume))
            };
            Ok(Answer::Nbd(views.filter(is_selected).collect()))
        }
    }
}

/// An export as it is shown.
pub fn view(desired: &DesiredExport) -> NbdView {
    NbdView {
        volume: desired.volume.clone(),
        export: desired.export.clone(),
        sessions: Vec::new(),
    }
}

fn export_as(
    documents: &dyn Documents,
    name: &VolumeName,
    export: NbdExport,
) -> Result<Answer, Failure> {
    let all = documents.all()?;
    let facts = volume(documents, &all, name)?;
    let (desired, _) = desired_state(&documents.root(), &all);
    if let Some(other) = desired.nbd.get(&export.name).filter(|o| o.volume != *name) {
        let message = format!(
            "the NBD export name {:?} is already {}'s",
            export.name, other.volume
        );
        return Err(Failure::new(FailureKind::Exists, message).advise("choose another --name"));
    }
    let mut document = export_document(&facts)?;
    let known = document.nbd.iter_mut().find(|e| e.name == export.name);
    let message = format!(
        "{name} is the NBD export {:?} for: {}",
        export.name,
        export.access.summary()
    );
    match known {
        Some(known) if *known == export => return Ok(Done::already(message)),
        Some(known) => *known = export,
        None => document.nbd.push(export),
    }
    documents.edit(name.as_str(), export_edits(&facts, &document)?)?;
    Ok(Done::changed(message))
}

fn unexport(
    documents: &dyn Documents,
    volume_name: &VolumeName,
    name: Option<&str>,
) -> Result<Answer, Failure> {
    let facts = volume(documents, &*documents.all()?, volume_name)?;
    let mut document = export_document(&facts)?;
    let before = document.nbd.len();
    document
        .nbd
        .retain(|export| name.is_some_and(|name| export.name != name));
    let ended = before - document.nbd.len();
    if ended == 0 {
        return Ok(Done::already(format!("{volume_name} is not exported so")));
    }
    documents.edit(volume_name.as_str(), export_edits(&facts, &document)?)?;
    Ok(Done::changed(format!(
        "{volume_name}: {ended} NBD export(s) ended"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::documents::fake::FakeDocuments;
    use super::*;
    use control::exports::AccessRule;

    fn export(
        documents: &FakeDocuments,
        volume: &str,
        name: Option<&str>,
    ) -> Result<Answer, Failure> {
        let request = NbdRequest::Export(Export {
            volume: volume.parse().expect("name"),
            name: name.map(str::to_owned),
            read_only: false,
            access: AccessRule::default(),
        });
        perform(documents, request)
    }

    #[test]
    fn nbd_exports_have_unique_names_and_are_idempotent() {
        let documents = FakeDocuments::with_volumes(&["tank/a", "tank/b"]);
        let done = |changed| move |answer: &Answer| matches!(answer, Answer::Done(d) if d.changed == changed);
        assert!(export(&documents, "tank/a", Some("x")).is_ok_and(|a| done(true)(&a)));
        assert!(export(&documents, "tank/a", Some("x")).is_ok_and(|a| done(false)(&a)));
        let failure = export(&documents, "tank/b", Some("x")).expect_err("taken");
        assert_eq!(failure.kind, FailureKind::Exists);
        assert!(export(&documents, "tank/b", None).is_ok_and(|a| done(true)(&a)));
        let Ok(Answer::Nbd(list)) = perform(&documents, NbdRequest::List(List::default())) else {
            panic!("a list");
        };
        let names: Vec<_> = list.iter().map(|view| view.export.name.as_str()).collect();
        assert_eq!(names, ["tank/b", "x"]);
    }

    #[test]
    fn unexport_removes_one_or_all_exports() {
        let documents = FakeDocuments::with_volumes(&["tank/a"]);
        export(&documents, "tank/a", Some("x")).expect("exported");
        export(&documents, "tank/a", Some("y")).expect("exported");
        let volume: VolumeName = "tank/a".parse().expect("name");
        unexport(&documents, &volume, Some("x")).expect("ended");
        let left = || {
            desired_state("tank", &documents.all().expect("read"))
                .0
                .nbd
                .len()
        };
        assert_eq!(left(), 1);
        unexport(&documents, &volume, None).expect("ended");
        assert_eq!(left(), 0);
    }
}
