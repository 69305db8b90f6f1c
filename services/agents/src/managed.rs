//! Refuses commands for pools that a cluster manages: a command that opens one is an owner outside Pacemaker's
//! control, and another head may start the pool at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ::appliance::facts::passwords_required;
use ::appliance::{Appliance, Key};
use cluster::host::Local;
use cluster::pool_management::{
    PoolManagement, boot_wait_reason, has_quorum, is_run_on, pool_management, server_of,
};
use control::operations::pool::PoolRequest;
use control::{Failure, FailureKind, Request};
use units::PoolName;

use cluster::{appliance_file, unable_heads};

/// The appliance file of this host, for commands that do not name one.
fn path() -> PathBuf {
    let named = std::env::var_os("BULKHEAD_APPLIANCE");
    named.map_or_else(|| ::appliance::plan::APPLIANCE_PATH.into(), PathBuf::from)
}

/// The disks in the appliance file for `pool` that this host reaches directly; `None` if it describes no
/// such pool.
pub fn disks(pool: &PoolName) -> Option<Vec<PathBuf>> {
    let appliance = appliance_file::load(&path()).ok()?;
    let described = appliance.pools.get(pool)?;
    let own = units::host_name().parse().ok();
    let disks = own.map(|own| appliance.disks_on(&own, described));
    Some(disks.unwrap_or_else(|| described.disks.clone()))
}

/// The pools in the appliance file of this host, if it has one that can be read.
pub fn pools() -> BTreeSet<PoolName> {
    let appliance = file().ok().flatten();
    appliance.map_or_else(BTreeSet::new, |file| file.pools.into_keys().collect())
}

/// The same of an appliance with a cluster, which starts their servers.
pub fn clustered_pools() -> BTreeSet<PoolName> {
    let appliance = file().ok().flatten().filter(|file| file.heads.len() > 1);
    appliance.map_or_else(BTreeSet::new, |file| file.pools.into_keys().collect())
}

/// The head that serves a pool of the appliance, by the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// This head.
    Head(String),
    /// No head serves it.
    NoHead,
    /// Pacemaker does not respond on this host.
    Unknown(Failure),
}

/// Heads of the appliance on which the cluster would not start `pool`, each with the reason; empty if Pacemaker does not
/// respond on this host.
pub fn unable_heads(pool: &PoolName) -> BTreeMap<String, String> {
    match file() {
        Ok(Some(file)) if file.heads.len() > 1 && file.pools.contains_key(pool) => {
            unable_heads::query(&Local::default(), &file, pool)
        }
        _ => BTreeMap::new(),
    }
}

/// Queries Pacemaker for the head that serves `pool`.
pub fn location(pool: &PoolName) -> Location {
    match server_of(&Local::default(), pool) {
        Some(Some(head)) => Location::Head(head),
        Some(None) if !has_quorum(&Local::default()) => Location::Unknown(no_quorum(pool)),
        Some(None) => Location::NoHead,
        None => Location::Unknown(unknown_location(pool, boot_wait_reason())),
    }
}

/// The heads with quorum may serve the pool, and this head does not see them.
fn no_quorum(pool: &PoolName) -> Failure {
    let message = format!(
        "the head that serves pool {pool} is unknown: this head does not serve it, and has no quorum"
    );
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "run `bulkhead status {pool}` on a head with quorum; `bulkhead head alerts` shows how this head gets it again"
    ))
}

/// `boot_wait`: why Pacemaker is not started yet on this head, if it has just booted.
fn unknown_location(pool: &PoolName, boot_wait: Option<String>) -> Failure {
    let is_booting = boot_wait.is_some();
    let message = format!(
        "the head that serves pool {pool} is unknown: {}",
        no_pacemaker(boot_wait)
    );
    let advice = match is_booting {
        // A start by hand would block as the start at boot does.
        true => format!(
            "power the other heads on, or repair the networks to them; `bulkhead status {pool}` on a head that is up shows the pool"
        ),
        false => format!(
            "run `bulkhead status {pool}` as root, or on the head that serves it; `bulkhead appliance start --ssh` starts all \
             heads after a shutdown of the appliance, and `systemctl start pacemaker` this one"
        ),
    };
    Failure::new(FailureKind::NeedsConfirmation, message).advise(advice)
}

/// The change of the appliance file that a replaced disk requires: without it, another head searches for the pool at
/// disks that it does not use any more. `devices`: the paths of the disks in the pool. `None` if the file matches.
pub fn outdated_disks(pool: &PoolName, devices: &[PathBuf]) -> Option<String> {
    let path = path();
    let text = appliance_file::read(&path).ok()?;
    let change = change_of_disks(&text, pool, devices)?;
    Some(format!("{}, {change}", path.display()))
}

fn change_of_disks(text: &str, pool: &PoolName, devices: &[PathBuf]) -> Option<String> {
    let parsed = ::appliance::parse(text).ok()?;
    let disks = &parsed.appliance.pools.get(pool)?.disks;
    let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let used: Vec<PathBuf> = devices.iter().map(real).collect();
    let named: Vec<PathBuf> = disks.iter().map(real).collect();
    let unused = disks.iter().zip(&named).enumerate();
    let mut unused = unused.filter(|(_, (_, real))| !used.contains(real));
    let new = devices.iter().zip(&used);
    let new = new.filter(|(_, real)| !named.contains(real));
    let mut changes = new.map(|(new, _)| {
        let key = Key::of("pools").field(pool).field("disks");
        let new = new.display();
        match unused.next() {
            Some((index, (old, _))) => {
                let line = parsed.source.line(&key.item(index)).unwrap_or(1);
                format!("line {line}: write {new} instead of {}", old.display())
            }
            None => {
                let line = parsed.source.line(&key).unwrap_or(1);
                format!("line {line}: add {new}")
            }
        }
    });
    let first = changes.next()?;
    let changes: Vec<String> = std::iter::once(first).chain(changes).collect();
    Some(changes.join("; "))
}

/// Passwords and keys of fence devices. No pool server needs them; keys of volumes may be in the same directory.
pub fn fence_secrets() -> BTreeSet<PathBuf> {
    let appliance = appliance_file::load(&path());
    appliance.map_or_else(|_| BTreeSet::new(), |file| passwords_required(&file))
}

/// Refuses to open a pool that the cluster may start in the meantime.
pub fn refuse(is_maintenance: bool, pool: &PoolName) -> Result<(), Failure> {
    let standing = || pool_management(&Local::default(), pool);
    match file() {
        Ok(Some(file)) if file.pools.contains_key(pool) => {
            judge(pool, standing(), is_maintenance, || location(pool))
        }
        // The file was changed or removed, and is not applied yet: the cluster has the pool until then.
        Ok(_) => refuse_if_in_cluster(is_maintenance, pool, standing()),
        Err(why) => judge_unreadable(pool, standing(), is_maintenance, &why),
    }
}

/// Refuses a pool's server that is started without the cluster, if the cluster may start one on another head, or would
/// take this one, which listens elsewhere, for its own.
pub fn refuse_server(is_maintenance: bool, pool: &PoolName) -> Result<(), Failure> {
    match file() {
        // One head alone may have no cluster.
        Ok(Some(file)) if file.heads.len() < 2 => {
            let standing = pool_management(&Local::default(), pool);
            refuse_if_in_cluster(is_maintenance, pool, standing)
        }
        _ => refuse(is_maintenance, pool),
    }
}

fn refuse_if_in_cluster(
    is_maintenance: bool,
    pool: &PoolName,
    standing: PoolManagement,
) -> Result<(), Failure> {
    match standing.is_in_cluster() {
        true => judge(pool, standing, is_maintenance, || location(pool)),
        false => Ok(()),
    }
}

/// The appliance file, if this host has one; a failure if it exists and is invalid.
///
/// # Errors
///
/// It exists and is invalid.
pub fn file() -> Result<Option<Appliance>, Failure> {
    match appliance_file::load(&path()) {
        Ok(appliance) => Ok(Some(appliance)),
        // A user without read permission is not the administrator of a cluster.
        Err(failure) if matches!(failure.kind, FailureKind::NotFound | FailureKind::Denied) => {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Refuses a request that stops a pool outside the cluster's control: the cluster starts it again, or finds no pool and
/// reports failures on every head. The agent of the cluster exports by a request of its own.
pub fn refuse_destroy_or_export(
    is_maintenance: bool,
    pool: &PoolName,
    request: &Request,
) -> Result<(), Failure> {
    let Some(destroys) = destroys(request) else {
        return Ok(());
    };
    let standing = || pool_management(&Local::default(), pool);
    let appliance = match file() {
        Ok(appliance) => appliance,
        Err(why) if destroys => return judge_unreadable(pool, standing(), false, &why),
        // The cluster, if it runs the pool, opens it again.
        Err(_) => return Ok(()),
    };
    let described = appliance.as_ref().and_then(|file| file.pools.get(pool));
    let standing = standing();
    if described.is_none() && !standing.is_in_cluster() {
        return Ok(());
    }
    match destroys {
        true => judge_destroy(pool, standing),
        false => {
            // A pool that was started outside the cluster is in its way.
            let is_run = is_run_on(&Local::default(), pool, &units::host_name());
            judge_export(pool, standing, is_run, is_maintenance)
        }
    }
}

/// Whether a request destroys the pool, or exports it; none if it does neither. A request without its confirmation is
/// refused for this reason first: the confirmation would not help.
fn destroys(request: &Request) -> Option<bool> {
    match request {
        Request::Pool(PoolRequest::Close(_)) => Some(false),
        Request::Pool(PoolRequest::Destroy(destroy)) => (!destroy.preview.dry_run).then_some(true),
        _ => None,
    }
}

/// The appliance file exists, and does not show whether the pool belongs to the appliance: only the cluster may have
/// it.
fn judge_unreadable(
    pool: &PoolName,
    standing: PoolManagement,
    is_maintenance: bool,
    why: &Failure,
) -> Result<(), Failure> {
    match standing {
        PoolManagement::Absent => Ok(()),
        PoolManagement::Managed | PoolManagement::Stopped => {
            judge(pool, standing, is_maintenance, || location(pool))
        }
        PoolManagement::Unknown if is_maintenance => Ok(()),
        PoolManagement::Unknown => {
            let message = format!(
                "pool {pool} may belong to the appliance, and no Pacemaker responds here: {}",
                why.message
            );
            Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(
                "correct the appliance file; to open the pool all the same, add --maintenance, if no head serves it, and none will before the \
                 command is over",
            ))
        }
    }
}

fn stop_command(pool: &PoolName) -> String {
    let resource = ::appliance::render::pool_id(pool);
    format!(
        "`crm_resource --resource {resource} --meta --set-parameter target-role --parameter-value Stopped`"
    )
}

fn judge_destroy(pool: &PoolName, standing: PoolManagement) -> Result<(), Failure> {
    let why = match standing {
        PoolManagement::Absent => return Ok(()),
        PoolManagement::Managed => "the cluster runs it, and would start it again",
        PoolManagement::Stopped => {
            "the cluster still has it as a resource, which would fail on every head"
        }
        PoolManagement::Unknown => "it belongs to the appliance, and no Pacemaker responds here",
    };
    let message = format!("pool {pool} is not destroyed: {why}");
    Err(
        Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
            "nothing was changed. `bulkhead appliance retire {pool} --ssh` removes it from the cluster, from its disks, from all heads and from \
             the appliance file"
        )),
    )
}

fn judge_export(
    pool: &PoolName,
    standing: PoolManagement,
    is_run: bool,
    is_maintenance: bool,
) -> Result<(), Failure> {
    let (why, advice) = match standing {
        PoolManagement::Absent | PoolManagement::Stopped => return Ok(()),
        PoolManagement::Managed if !is_run => return Ok(()),
        PoolManagement::Unknown if is_maintenance => return Ok(()),
        PoolManagement::Managed => (
            "the cluster runs it, and would start it again",
            format!(
                "stop it with {}; to have another head serve it, use `bulkhead pool move {pool} HEAD`",
                stop_command(pool)
            ),
        ),
        PoolManagement::Unknown => (
            "it belongs to the appliance, and no Pacemaker responds here",
            "start Pacemaker on this head; if no head is to serve the pool, add --maintenance"
                .to_owned(),
        ),
    };
    let message = format!("pool {pool} is not exported by a command: {why}");
    Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(advice))
}

/// A pool of the appliance without a server here. The cluster is not queried, and no disk is read.
pub fn not_here(pool: &PoolName) -> Failure {
    let message = format!("pool {pool} is not served here: the cluster decides which head has it");
    Failure::new(FailureKind::NeedsConfirmation, message)
        .advise("`crm_mon -1` shows which head has it")
}

/// Pacemaker does not respond, and the reason if it is not started because this head boots alone.
fn no_pacemaker(boot_wait: Option<String>) -> String {
    let message = "it belongs to the appliance, and no Pacemaker responds here";
    match boot_wait {
        None => message.to_owned(),
        Some(reason) => format!("{message}: {reason}"),
    }
}

/// `location`: of a pool that the cluster manages.
fn judge(
    pool: &PoolName,
    standing: PoolManagement,
    is_maintenance: bool,
    location: impl FnOnce() -> Location,
) -> Result<(), Failure> {
    use PoolManagement as S;
    let refused = |why: String, advice: String| {
        let message = format!("pool {pool} is not opened by a command: {why}");
        Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(advice))
    };
    let stop = stop_command(pool);
    match standing {
        S::Absent => Ok(()),
        S::Stopped | S::Unknown if is_maintenance => Ok(()),
        S::Managed => match location() {
            // A pool that is served must not be stopped to run a command that its head performs.
            Location::Head(head) => refused(
                format!("head {head} serves it"),
                format!("run the command on {head}"),
            ),
            Location::NoHead | Location::Unknown(_) => refused(
                "the cluster decides which head has it".to_owned(),
                format!(
                    "`bulkhead head alerts` shows why no head serves it; to open it without a server, stop it first, with {stop}, and \
                     add --maintenance"
                ),
            ),
        },
        S::Stopped => refused(
            "the cluster may start it on request".to_owned(),
            "if it stays stopped until the command is over, add --maintenance".to_owned(),
        ),
        S::Unknown => refused(
            no_pacemaker(boot_wait_reason()),
            format!(
                "run the command on the head that serves it; if no head does, and none will before the command is \
                 over ({stop} on any head that is up), add --maintenance"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::operations::pool::destroy::Destroy;

    /// The cluster has the pool: no confirmation or flag permits the destruction.
    #[test]
    fn destroy_without_its_confirmation_is_judged_before_it_is_previewed() {
        let destroy = |dry_run, ask| {
            let preview = control::operations::Preview { dry_run, ask };
            let destroy = Destroy {
                in_use: false,
                preview,
            };
            destroys(&Request::Pool(destroy.into()))
        };
        assert_eq!(destroy(false, true), Some(true));
        assert_eq!(destroy(false, false), Some(true));
        assert_eq!(destroy(true, false), None);
        assert_eq!(destroys(&Request::Status), None);
    }

    /// Its Pacemaker is being started already.
    #[test]
    fn a_head_that_boots_alone_is_not_to_be_started_by_hand() {
        let pool = "tank".parse().expect("a name");
        let told = |reason: Option<&str>| {
            let failure = unknown_location(&pool, reason.map(str::to_owned));
            (failure.message, failure.advice.unwrap_or_default())
        };
        let (message, advice) = told(Some("the other heads have 60 s to boot"));
        assert!(
            message.ends_with(": the other heads have 60 s to boot"),
            "{message}"
        );
        assert!(advice.contains("power the other heads on"), "{advice}");
        assert!(!advice.contains("systemctl start"), "{advice}");
        let (_, advice) = told(None);
        assert!(advice.contains("`systemctl start pacemaker`"), "{advice}");
    }

    #[test]
    fn cluster_managed_pool_is_not_destroyed_or_exported() {
        use PoolManagement::{Absent, Managed, Stopped, Unknown};
        let pool = "tank".parse().expect("a name");
        let advice = |judged: Result<(), Failure>| judged.err().and_then(|failure| failure.advice);
        assert_eq!(advice(judge_destroy(&pool, Absent)), None);
        for standing in [Managed, Stopped, Unknown] {
            let advice = advice(judge_destroy(&pool, standing)).expect("refused");
            let command = "bulkhead appliance retire tank --ssh";
            assert!(advice.contains(command), "{standing:?}: {advice}");
        }
        for (standing, is_run, is_maintenance, said) in [
            (Absent, false, false, None),
            (Stopped, false, false, None),
            (Unknown, false, true, None),
            (Unknown, false, false, Some("--maintenance")),
            (Managed, true, true, Some("target-role")),
            (Managed, true, false, Some("pool move tank")),
            (Managed, false, false, None),
        ] {
            let advice = advice(judge_export(&pool, standing, is_run, is_maintenance));
            assert_eq!(advice.is_some(), said.is_some(), "{standing:?}");
            if let (Some(advice), Some(said)) = (advice, said) {
                assert!(advice.contains(said), "{standing:?}: {advice}");
            }
        }
    }

    #[test]
    fn the_line_of_a_replaced_disk_is_named() {
        let text = include_str!("../../../examples/pair.toml");
        let pool = "tank".parse().expect("a name");
        let parsed = ::appliance::parse(text).expect("well formed").appliance;
        let mut disks = parsed.pools[&pool].disks.clone();
        let change = |disks: &[PathBuf]| change_of_disks(text, &pool, disks);
        assert_eq!(change(&disks), None);
        let old = std::mem::replace(&mut disks[1], "/dev/disk/by-id/scsi-new".into());
        let is_old = |line: &str| line.contains(&*old.to_string_lossy());
        let line = text.lines().position(is_old).expect("there") + 1;
        let expected = format!(
            "line {line}: write /dev/disk/by-id/scsi-new instead of {}",
            old.display()
        );
        assert_eq!(change(&disks), Some(expected));
        disks[1] = old;
        disks.push("/dev/disk/by-id/scsi-more".into());
        let added = change(&disks).expect("a disk is missing in the file");
        assert!(
            added.ends_with(": add /dev/disk/by-id/scsi-more"),
            "{added}"
        );
        assert_eq!(change_of_disks("name = 1", &pool, &disks), None);
    }

    /// A typing error in the file opens no pool outside the cluster.
    #[test]
    fn open_requires_readable_appliance_file_or_pacemaker() {
        use PoolManagement::{Absent, Managed, Stopped, Unknown};
        let pool = "tank".parse().expect("a name");
        let why = Failure::usage("/etc/bulkhead/appliance.toml, line 3: no such field");
        for (standing, is_maintenance, refusal) in [
            (Absent, false, None),
            (Managed, true, Some("the cluster decides")),
            (Stopped, false, Some("may start it on request")),
            (Stopped, true, None),
            (Unknown, false, Some("line 3: no such field")),
            (Unknown, true, None),
        ] {
            let judged = judge_unreadable(&pool, standing, is_maintenance, &why);
            let message = judged.err().map(|failure| failure.message);
            assert_eq!(message.is_some(), refusal.is_some(), "{standing:?}");
            if let (Some(message), Some(refusal)) = (message, refusal) {
                assert!(message.contains(refusal), "{standing:?}: {message}");
            }
        }
    }

    #[test]
    fn cluster_pool_opens_only_if_stopped_and_confirmed() {
        use PoolManagement::{Absent, Managed, Stopped, Unknown};
        let pool = "tank".parse().expect("a name");
        for (standing, is_maintenance, said) in [
            (Absent, false, None),
            (Absent, true, None),
            (Stopped, false, Some("--maintenance")),
            (Stopped, true, None),
            (Unknown, false, Some("--maintenance")),
            (Unknown, true, None),
            (Managed, false, Some("head alerts")),
            (Managed, true, Some("--set-parameter target-role")),
        ] {
            let judged = judge(&pool, standing, is_maintenance, || Location::NoHead);
            let advice = judged.err().and_then(|failure| failure.advice);
            assert_eq!(advice.is_some(), said.is_some(), "{standing:?}");
            if let (Some(advice), Some(said)) = (advice, said) {
                assert!(advice.contains(said), "{standing:?}: {advice}");
            }
        }
        let on_left = judge(&pool, Managed, false, || Location::Head("left".to_owned()));
        let advice = on_left.expect_err("refused").advice.expect("advice");
        assert_eq!(advice, "run the command on left");
    }
}
