//! A guest's pool: a pool inside a volume, which belongs to the guest's own operating system.
//!
//! Its name can be that of a pool of this host, and its labels name devices of the guest. So the pool is selected by
//! devices, no other device is opened, and this host stores nothing about it. Opened read-only, it is unchanged
//! afterwards: its labels name the guest as the owner, and the guest's devices.

use control::operations::filesystem::FilesystemRequest;
use control::operations::filesystem::list::List;
use control::{Failure, FailureKind, Request};
use engine::Pool;
use engine::pool::legs::{Confirmation, Doubt, Evidence, Verdict};
use engine::pool::{Candidate, CandidateState, ImportOptions, SafeToOwn};
use operations::{Context, DocumentCache, NoServer};
use rendering::Printer;

use super::MountArgs;
use crate::common::Common;
use crate::engines::Search;
use crate::open::{self, Access, PreviousOwner};
use crate::{engines, managed, places, sockets};

/// Refuses a name that a pool of this host has, and unconfirmed changes of labels.
pub fn check(args: &MountArgs, common: &Common) -> Result<(), Failure> {
    let name = args.pool();
    let is_taken = managed::pools().contains(&name)
        || places::known_pools(common).contains(&name)
        || sockets::is_served(common, &name)?;
    if is_taken {
        let message = format!("{name} is the name of a pool of this host");
        return Err(Failure::new(FailureKind::Exists, message).advise(format!(
            "open the pool on these devices under another name, such as guest-{name}"
        )));
    }
    if args.access() == Access::Change && !args.allows_label_changes() {
        let message =
            "a guest's pool that is opened for writing has this host as its owner afterwards";
        return Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(
            "add --read-only; or --allow-label-changes, if the guest will find that pool nevertheless",
        ));
    }
    Ok(())
}

/// Opens the pool on the devices.
pub fn import(args: &MountArgs, common: &Common, out: Printer) -> Result<Box<dyn Pool>, Failure> {
    let candidate = candidate(args)?;
    let (name, read_only) = (args.pool(), args.access() == Access::ReadOnly);
    let is_renamed = candidate.name != name.as_str();
    if is_renamed && !read_only {
        let message = format!(
            "the pool on these devices is {}: opened for writing as {name}, it would keep that name",
            candidate.name
        );
        return Err(Failure::usage(message).advise(format!(
            "use its own name, if no pool of this host has it: {}; or add --read-only",
            candidate.name
        )));
    }
    let proof = prove(&candidate, &args.previous_owner())?;
    let options = ImportOptions {
        read_only,
        rename: is_renamed.then(|| name.clone()),
        word: read_only.then(|| confirmation(&candidate, out)),
        ..ImportOptions::default()
    };
    if read_only && candidate.state != CandidateState::Exported {
        out.progress(
            "the guest did not export the pool: the durable writes of its last seconds are in its intent log, and are not shown",
        );
    }
    let engine = engines::start(open::small_engine(common, &name))?;
    let opened = engine.import(&candidate, proof, &options);
    opened.map_err(operations::pool_failure)
}

/// The only pool on the devices.
fn candidate(args: &MountArgs) -> Result<Candidate, Failure> {
    let found = engines::discover(Search::Alone(args.devices()));
    let mut found = found.map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    found.retain(|one| matches!(one.state, CandidateState::Active | CandidateState::Exported));
    match found.len() {
        1 if found[0].devices.conflicts.is_empty() => Ok(found.remove(0)),
        1 => Err(operations::copies::refusal(
            &found[0].name,
            &found[0].devices.conflicts,
        )),
        0 => Err(
            Failure::not_found("none of these devices has a label of a pool").advise(
                "name a loop device of the partition: `bulkhead volume rescue` prints the commands",
            ),
        ),
        _ => {
            let names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
            let message = format!("these devices have several pools: {}", names.join(", "));
            Err(Failure::usage(message).advise("name the devices of one pool"))
        }
    }
}

/// The proof that no other system has the pool open. A host id proves nothing here: that of a guest can be equal to
/// that of this host.
fn prove(candidate: &Candidate, owner: &PreviousOwner) -> Result<SafeToOwn, Failure> {
    if let Some(proof) = SafeToOwn::exported(candidate) {
        return Ok(proof);
    }
    if *owner == PreviousOwner::IsStopped {
        return Ok(SafeToOwn::operator_confirms(candidate));
    }
    let host = candidate.host_name.as_deref().unwrap_or("an unnamed guest");
    let message = format!(
        "pool {} was not exported by {host}, which can still use it",
        candidate.name
    );
    Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "if the guest is switched off, or these are devices of a snapshot, add --previous-owner-is-stopped",
    ))
}

/// Permits a read-only view without missing devices, which can be newer: nothing is lost by it.
fn confirmation(candidate: &Candidate, out: Printer) -> Confirmation {
    let legs = &candidate.devices.legs;
    let mut confirmation = Confirmation {
        pool_guid: candidate.guid,
        newest_txg: legs.newest_txg,
        missing: Default::default(),
        may_lose_newest: false,
        may_lose_logs: false,
        forgets_record: true,
    };
    let evidence = Evidence {
        word: Some(&confirmation),
        has_waited: true,
        ..Evidence::default()
    };
    if let Verdict::Refuse(doubt) = legs.judge(&evidence) {
        out.progress(&missing(&doubt));
        confirmation.missing = doubt.word().missing;
    }
    confirmation
}

fn missing(doubt: &Doubt) -> String {
    format!(
        "opened without {}: if these devices are newer, an older state is shown. Name them with --device, too",
        doubt.missing_paths()
    )
}

/// Prints the file systems of the pool.
pub fn list(pool: &dyn Pool, common: &Common, out: Printer) -> Result<(), Failure> {
    let context = Context {
        pool,
        hooks: &NoServer,
        documents: &DocumentCache::with_seals(places::seals(common)),
    };
    let request = Request::Filesystem(FilesystemRequest::List(List::default()));
    let answer = operations::perform(&context, request, &mut |_| ())?;
    out.answer(&answer)
}
