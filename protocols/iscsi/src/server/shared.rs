//! State that all connections of a server share.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use block_device::SharedDevice;
use serving::{Budget, Connection, Counters, FlushGroup, Peer, Refusals, Workers};
use units::IscsiName;

use super::desired::{DesiredPortal, DesiredTarget};
use super::limits::Limits;
use super::log_limit::LogLimit;
use super::management::{Abort, Barrier, Scope};
use super::sessions::{Member, Message, Session, Sessions};
use crate::protocol::chap::Chap;
use crate::protocol::discovery::VisibleTarget;
use crate::protocol::login::SessionKind;

/// The current configuration.
#[derive(Default)]
pub(crate) struct Configuration {
    pub(crate) targets: HashMap<IscsiName, DesiredTarget>,
    /// Portals with their actual ports.
    pub(crate) portals: Vec<DesiredPortal>,
    /// The credentials for discovery sessions.
    pub(crate) discovery: Option<Chap>,
}

impl Configuration {
    /// Returns the SendTargets entries for an initiator that connected from `remote` to the local
    /// address `local`.
    pub(crate) fn visible(
        &self,
        initiator: &IscsiName,
        remote: IpAddr,
        local: IpAddr,
    ) -> Vec<VisibleTarget> {
        let mut visible: Vec<_> = self
            .targets
            .values()
            .filter(|target| target.access.allows(initiator, remote, local))
            .map(|target| VisibleTarget {
                name: target.name.clone(),
                portals: self.portals_of(target, local),
            })
            .collect();
        visible.sort_by(|one, other| one.name.cmp(&other.name));
        visible
    }

    /// A portal on the wildcard address is listed with the address that the initiator used.
    fn portals_of(&self, target: &DesiredTarget, local: IpAddr) -> Vec<(SocketAddr, u16)> {
        let mut portals = Vec::new();
        for portal in &self.portals {
            if !target.is_in_group(portal.group) {
                continue;
            }
            let mut address = portal.address;
            if address.ip().is_unspecified() {
                if address.is_ipv4() != local.to_canonical().is_ipv4() {
                    continue;
                }
                address.set_ip(local.to_canonical());
            }
            portals.push((address, portal.group));
        }
        portals
    }
}

/// Flush groups of the devices in use.
#[derive(Default)]
pub(crate) struct FlushGroups(Mutex<HashMap<usize, Arc<FlushGroup>>>);

impl FlushGroups {
    /// Returns the group of `device`.
    pub(crate) fn of(&self, device: &SharedDevice) -> Arc<FlushGroup> {
        // A group holds its device, so that the address remains unique.
        let address = Arc::as_ptr(device).cast::<()>() as usize;
        let mut groups = self.0.lock().expect("no holder panics");
        let group = groups
            .entry(address)
            .or_insert_with(|| Arc::new(FlushGroup::new(Arc::clone(device))));
        Arc::clone(group)
    }

    /// Releases all devices; flushes in progress are not affected.
    pub(crate) fn release_devices(&self) {
        self.0.lock().expect("no holder panics").clear();
    }
}

/// State that all connections of a server share.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) configuration: RwLock<Arc<Configuration>>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) flush_groups: FlushGroups,
    pub(crate) counters: Counters,
    /// Limits log lines about misbehaving clients.
    pub(crate) log_limit: LogLimit,
    /// Limits log lines about logins and logouts.
    pub(crate) session_log_limit: LogLimit,
    /// Limits log lines about repeated refusals of an initiator.
    pub(crate) refusals: Refusals<IscsiName>,
    /// The deadline of a drain, sent to initiators.
    pub(crate) drain_until: Mutex<Option<Instant>>,
}

impl Shared {
    pub(crate) fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.configuration.read().expect("no holder panics"))
    }

    /// Sends an abort of the given scope to every connection of the target behind `from`. A task
    /// that cannot be stopped holds `barrier` until its end. `except` handles its own tasks.
    pub(crate) fn abort_on_all_connections(
        &self,
        from: &Arc<Session>,
        except: Option<&Arc<Member>>,
        nexus: Option<&scsi::NexusId>,
        scope: Scope,
        barrier: &Arc<Barrier>,
    ) {
        let SessionKind::Normal { target: own, .. } = &from.kind else {
            return;
        };
        for session in self.sessions.list() {
            let same_target = matches!(
                &session.kind,
                SessionKind::Normal { target, .. } if target == own
            );
            let Some(port) = session.port.as_ref().filter(|_| same_target) else {
                continue;
            };
            if nexus.is_some_and(|nexus| *nexus != port.id) {
                continue;
            }
            for member in session.connections() {
                if except.is_some_and(|except| Arc::ptr_eq(except, &member)) {
                    continue;
                }
                member.send_message(Message::Abort(Abort {
                    scope,
                    barrier: Arc::clone(barrier),
                }));
            }
        }
    }

    /// Drops every session of the target that `session` is logged in to.
    pub(crate) fn drop_sessions_of_target(&self, session: &Session) {
        let own = target_of(&session.kind);
        for other in self.sessions.list() {
            if target_of(&other.kind) == own {
                other.drop_connections();
            }
        }
    }
}

fn target_of(kind: &SessionKind) -> Option<&IscsiName> {
    match kind {
        SessionKind::Discovery => None,
        SessionKind::Normal { target, .. } => Some(target),
    }
}

/// Returns the remote and the local address of a connection.
pub(crate) fn ends_of(connection: &Connection) -> Option<(IpAddr, IpAddr)> {
    match connection.peer {
        Peer::Tcp { remote, local } => {
            Some((remote.ip().to_canonical(), local.ip().to_canonical()))
        }
        Peer::Unix { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::desired::{Access, Initiators};

    fn desired_state(name: &str, groups: &[u16], access: Access) -> DesiredTarget {
        let name: IscsiName = name.parse().unwrap();
        DesiredTarget {
            name: name.clone(),
            portal_groups: groups.to_vec(),
            access,
            target: scsi::Target::new(scsi::TargetConfig {
                name,
                vendor: String::new(),
                product: String::new(),
                revision: String::new(),
                portal_groups: groups.to_vec(),
            }),
        }
    }

    fn portal(address: &str, group: u16) -> DesiredPortal {
        DesiredPortal {
            address: address.parse().unwrap(),
            group,
        }
    }

    /// A wildcard portal is not an address to connect to, and targets that an initiator may not use
    /// are not listed.
    #[test]
    fn discovery_lists_reachable_portals_of_permitted_targets() {
        let nobody = Access {
            initiators: Initiators::Listed(Vec::new()),
            ..Access::default()
        };
        let desired = [
            desired_state("iqn.2026-01.a:both", &[], Access::everyone()),
            desired_state("iqn.2026-01.a:second", &[2], Access::everyone()),
            desired_state("iqn.2026-01.a:hidden", &[], nobody),
            desired_state("iqn.2026-01.a:local-only", &[], Access::default()),
        ];
        let targets = desired
            .into_iter()
            .map(|desired| (desired.name.clone(), desired));
        let configuration = Configuration {
            targets: targets.collect(),
            portals: vec![
                portal("0.0.0.0:3260", 1),
                portal("[::]:3260", 1),
                portal("192.0.2.7:3261", 2),
            ],
            discovery: None,
        };
        let visible = configuration.visible(
            &"iqn.2026-01.a:me".parse().unwrap(),
            "192.0.2.1".parse().unwrap(),
            "192.0.2.9".parse().unwrap(),
        );
        let seen: Vec<_> = visible
            .iter()
            .map(|target| (target.name.as_str(), target.portals.clone()))
            .collect();
        let (first, second) = (
            ("192.0.2.9:3260".parse().unwrap(), 1),
            ("192.0.2.7:3261".parse().unwrap(), 2),
        );
        assert_eq!(
            seen,
            [
                ("iqn.2026-01.a:both", vec![first, second]),
                ("iqn.2026-01.a:second", vec![second]),
            ]
        );
    }
}
