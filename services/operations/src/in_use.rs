//! The common check of all verbs that remove an object in use: while clients are connected, they refuse, name the
//! clients and name the flag that overrides the refusal.

use std::time::{Duration, Instant};

use control::operations::nbd::unexport::Unexport;
use control::operations::target::destroy::Destroy;
use control::operations::target::unmap::Unmap;
use control::request::{NbdRequest, Request, TargetRequest};
use control::{Failure, FailureKind};
use units::{IscsiName, VolumeName};

use super::Context;
use super::documents::{Documents, export_document, volume};

/// A client that disconnects is still counted for a short time.
const DISCONNECT_WAIT: Duration = Duration::from_secs(1);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Clients that are named.
const NAMES_MAX: usize = 4;

/// Objects that clients can be connected to.
pub enum Used<'a> {
    /// An export: the name of the protocol, then the name of the export.
    Export(&'static str, &'a str),
    /// A volume, by any of its exports.
    Volume(&'a VolumeName),
}

/// Refuses `request` if it would remove an object in use without the flag that permits it.
pub fn refuse(context: &Context<'_>, request: &Request) -> Result<(), Failure> {
    let users_of = |uses: &[Used<'_>]| -> Vec<String> {
        let users = uses.iter().map(|used| context.hooks.users_of(used));
        users.flatten().collect()
    };
    match request {
        Request::Target(TargetRequest::Destroy(Destroy {
            name,
            in_use: false,
            preview,
            ..
        })) if !preview.is_wanted() => unused_target(name, users_of),
        Request::Target(TargetRequest::Unmap(Unmap {
            name,
            volume,
            in_use,
        })) if !in_use => match is_shown(context, volume, name)? {
            true => unused_target(name, users_of),
            false => Ok(()),
        },
        Request::Nbd(NbdRequest::Unexport(Unexport {
            volume: of,
            name,
            in_use,
        })) if !in_use => {
            let facts = volume(context, &*context.all()?, of)?;
            let document = export_document(&facts)?;
            let meant = document.nbd.iter().filter(|export| {
                let is_it = |name: &String| export.name == *name;
                name.as_ref().is_none_or(is_it)
            });
            let meant: Vec<Used<'_>> = meant
                .map(|export| Used::Export(protocol_list::nbd::PROTOCOL.name, &export.name))
                .collect();
            unused(of.as_str(), || users_of(&meant))
        }
        _ => Ok(()),
    }
}

fn unused_target(
    name: &IscsiName,
    users_of: impl Fn(&[Used<'_>]) -> Vec<String>,
) -> Result<(), Failure> {
    let name = name.to_string();
    unused(&name, || {
        users_of(&[Used::Export(protocol_list::iscsi::PROTOCOL.name, &name)])
    })
}

fn is_shown(context: &Context<'_>, of: &VolumeName, target: &IscsiName) -> Result<bool, Failure> {
    let facts = volume(context, &*context.all()?, of)?;
    let document = export_document(&facts)?;
    Ok(document.iscsi.iter().any(|map| map.target == *target))
}

/// Refuses to remove `what` while `look` finds users of it. `look` returns their descriptions.
pub fn unused(what: &str, look: impl Fn() -> Vec<String>) -> Result<(), Failure> {
    let deadline = Instant::now() + DISCONNECT_WAIT;
    loop {
        let users = look();
        if users.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(in_use(what, &users));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// `what` is used by those.
fn in_use(what: &str, users: &[String]) -> Failure {
    let named = users.iter().take(NAMES_MAX).map(String::as_str);
    let named = named.collect::<Vec<_>>().join(", ");
    let others = match users.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let message = format!("{what} is in use by {named}{others}");
    Failure::new(FailureKind::Busy, message)
        .advise("have them log out first, or add --in-use to end their connections")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_use_refusal_names_clients_and_flag() {
        let users: Vec<String> = (0..6).map(|number| format!("client {number}")).collect();
        let failure = in_use("tank/v", &users);
        assert_eq!(failure.kind, FailureKind::Busy);
        assert_eq!(
            failure.message,
            "tank/v is in use by client 0, client 1, client 2, client 3 and 2 more"
        );
        assert!(
            failure
                .advice
                .is_some_and(|advice| advice.contains("--in-use"))
        );
    }
}
