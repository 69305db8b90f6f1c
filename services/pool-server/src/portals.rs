//! Where the server listens, and how that is changed while it runs: [`Addresses`] decides, [`Serving::listen_at`] does
//! it. What was asked for holds until the server ends; the next start goes by its options again, or on a pair by the
//! appliance file. There `portal add` and `remove` refuse, and `appliance apply` says `portal set` to each running server
//! before it writes a file or configures Pacemaker: an address in use refuses before anything differs.
//!
//! All of a change is done, or nothing: TLS files are read, the new sockets are bound and listen, then what runs is
//! exchanged, under the lock that every change of exports takes. Port 0 is exchanged for the real port at once, so that an address has
//! one name.
//!
//! * *Nothing is kept in the pool*: addresses belong to the machine, and the pool's next owner has others.
//! * *No file of the server's own*: two places would say where it listens.
//! * *Not by Pacemaker's `reload-agent`*: it needs the addresses as parameters of the resource. Where no earlier start has recorded
//!   these as reloadable, Pacemaker restarts the resource, and a reload that fails is a failed resource, which is stopped.
//!
//! So `bind`, `listen` and `CAP_NET_BIND_SERVICE` stay allowed ([`pool_access::confine`]).
//!
//! [`Serving::listen_at`]: super::serving::Serving::listen_at

use std::net::SocketAddr;

use control::answer::Done;
use control::operations::portal::PortalRequest;
use control::operations::portal::add::Add;
use control::operations::portal::remove::Remove;
use control::operations::portal::set::Set;
use control::portal::IscsiPortal;
use control::{Answer, Failure, FailureKind};
use iscsi::DesiredPortal;
use operations::in_use;
use serving::{EarlySockets, ListenAddress, ListenError, is_here};

use super::core::Core;
use super::serving::listen_failure;

/// Addresses of both protocols. Each has a thread, and each portal is a line of every discovery.
const ADDRESSES_MAX: usize = 64;

/// Where a server listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Portals of iSCSI.
    pub iscsi: Vec<DesiredPortal>,
    /// Listeners of NBD.
    pub nbd: Vec<ListenAddress>,
}

impl Addresses {
    /// The same with real ports in the place of 0, which are taken now.
    pub fn with_real_ports(mut self, early: &EarlySockets) -> Result<Self, ListenError> {
        for address in self.tcp_mut().filter(|one| one.port() == 0) {
            *address = early.reserve(*address)?;
        }
        Ok(self)
    }

    /// The same, each as the option of a server that names it.
    fn named(&self) -> Vec<(SocketAddr, String)> {
        let portals = self.iscsi.iter();
        let portals = portals.map(|one| {
            (
                one.address,
                format!("--iscsi {},{}", one.address, one.group),
            )
        });
        let listeners = self.nbd.iter().filter_map(|listener| match listener {
            ListenAddress::Tcp(address) => Some((*address, format!("--nbd {address}"))),
            ListenAddress::Unix(_) => None,
        });
        portals.chain(listeners).collect()
    }

    /// The addresses of TCP.
    pub fn tcp(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let portals = self.iscsi.iter().map(|portal| portal.address);
        let listeners = self.nbd.iter().filter_map(|listener| match listener {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        });
        portals.chain(listeners)
    }

    fn tcp_mut(&mut self) -> impl Iterator<Item = &mut SocketAddr> {
        let portals = self.iscsi.iter_mut().map(|portal| &mut portal.address);
        let listeners = self.nbd.iter_mut().filter_map(|one| match one {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        });
        portals.chain(listeners)
    }

    /// What is here and not in `other`, as options of a server.
    fn beyond(&self, other: &Self) -> Vec<String> {
        let portals = self.iscsi.iter().filter(|one| !other.iscsi.contains(one));
        let listeners = self.nbd.iter().filter(|one| !other.nbd.contains(one));
        portals
            .map(|one| format!("--iscsi {},{}", one.address, one.group))
            .chain(listeners.map(|one| format!("--nbd {one}")))
            .collect()
    }

    fn parse(iscsi: &[IscsiPortal], nbd: &[String]) -> Result<Self, Failure> {
        if iscsi.iter().any(|portal| portal.group == 0) {
            return Err(Failure::usage("portal groups are numbered from 1 on"));
        }
        let portals = iscsi.iter().map(|portal| DesiredPortal {
            address: portal.address,
            group: portal.group,
        });
        let listeners = nbd.iter().map(|text| text.parse());
        let listeners: Result<Vec<ListenAddress>, _> = listeners.collect();
        Ok(Self {
            iscsi: portals.collect(),
            nbd: listeners.map_err(|error: serving::ParseListenAddressError| {
                Failure::usage(error.to_string())
            })?,
        })
    }

    fn and(mut self, more: Self) -> Self {
        let new = |one: &DesiredPortal| one.address.port() == 0 || !self.iscsi.contains(one);
        let iscsi: Vec<_> = more.iscsi.into_iter().filter(new).collect();
        let new = |one: &ListenAddress| !self.nbd.contains(one);
        let nbd: Vec<_> = more.nbd.into_iter().filter(new).collect();
        self.iscsi.extend(iscsi);
        self.nbd.extend(nbd);
        self
    }

    /// What of this is not here, as options of a server.
    fn lacks(&self, iscsi: &[SocketAddr], nbd: &Self) -> Vec<String> {
        let is_here = |address: &SocketAddr| self.iscsi.iter().any(|one| one.address == *address);
        let portals = iscsi.iter().filter(|address| !is_here(address));
        let listeners = nbd.nbd.iter().filter(|one| !self.nbd.contains(one));
        portals
            .map(|address| format!("--iscsi {address}"))
            .chain(listeners.map(|one| format!("--nbd {one}")))
            .collect()
    }

    /// The protocols that are offered here and nowhere in `now`, each with an option that offers it.
    fn lost(&self, now: &Self) -> Vec<(&'static str, String)> {
        let portal = self.iscsi.first().filter(|_| now.iscsi.is_empty());
        let listener = self.nbd.first().filter(|_| now.nbd.is_empty());
        let portal = portal.map(|one| ("iSCSI", format!("--iscsi {},{}", one.address, one.group)));
        let listener = listener.map(|one| ("NBD", format!("--nbd {one}")));
        portal.into_iter().chain(listener).collect()
    }

    fn without(mut self, iscsi: &[SocketAddr], less: &Self) -> Self {
        self.iscsi.retain(|one| !iscsi.contains(&one.address));
        self.nbd.retain(|one| !less.nbd.contains(one));
        self
    }

    /// Refuses what no server could do.
    fn checked(self) -> Result<Self, Failure> {
        let all = self.named();
        for (index, (address, new)) in all.iter().enumerate() {
            let mut before = all[..index].iter();
            if let Some((_, old)) = before.find(|(other, _)| overlap(other, address)) {
                let message =
                    format!("the server listens at {old} already, which is in the way of {new}");
                return Err(Failure::new(FailureKind::Exists, message).advise(
                    "remove the other first (`bulkhead portal remove`), or choose another address",
                ));
            }
        }
        let count = self.iscsi.len() + self.nbd.len();
        if count > ADDRESSES_MAX {
            let message =
                format!("a server listens at {ADDRESSES_MAX} addresses at most, not at {count}");
            return Err(Failure::usage(message)
                .advise("take fewer, or one that stands for all, such as 0.0.0.0:3260"));
        }
        Ok(self)
    }

    /// Refuses addresses that are not in `before` and that this machine lacks: nobody could connect to them.
    fn refuse_foreign(&self, before: &Self) -> Result<(), Failure> {
        let new = self
            .tcp()
            .filter(|one| !before.tcp().any(|old| old == *one));
        match new.map(|one| one.ip()).find(|ip| !is_here(*ip)) {
            None => Ok(()),
            Some(ip) => Err(Failure::usage(format!("this machine does not have the address {ip}"))
                .advise(
                    "`ip address` lists those that it has; if it comes later, such as with a takeover, add --may-come",
                )),
        }
    }

    /// Takes connections at the addresses of TCP that are new since `before`, so that nothing can fail later for want
    /// of one, and puts real ports in the place of 0; which they are. None is taken if one cannot be had.
    pub fn open_new(
        &mut self,
        before: &Self,
        early: &EarlySockets,
    ) -> Result<Vec<SocketAddr>, ListenError> {
        let is_new =
            |address: &SocketAddr| address.port() == 0 || !before.tcp().any(|old| old == *address);
        let new: Vec<&mut SocketAddr> = self.tcp_mut().filter(|one| is_new(one)).collect();
        let opened = early.open(new.iter().map(|one| **one))?;
        for (place, real) in new.into_iter().zip(&opened) {
            *place = *real;
        }
        Ok(opened)
    }
}

/// Whether the kernel lets nobody listen at both.
pub fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let same_family = one.is_ipv4() == other.is_ipv4();
    let same_port = one.port() == other.port() && one.port() != 0;
    same_port && same_family && (any || one.ip() == other.ip())
}

/// An address that could not be had by a server that runs.
pub fn refused(error: &ListenError) -> Failure {
    let failure = listen_failure(error);
    match (failure.kind, &error.address) {
        (FailureKind::Denied, ListenAddress::Tcp(_)) => failure.advise(
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose another, or run the server as root",
        ),
        (FailureKind::Denied, ListenAddress::Unix(_)) => failure.advise(
            "a server gives up the right to write elsewhere when it starts: choose a path in its run directory, or \
             start it with this --nbd",
        ),
        (FailureKind::Failed, ListenAddress::Unix(_)) => {
            failure.advise("make its folder first, or choose a path in the server's run directory")
        }
        _ => failure,
    }
}

impl Core {
    /// Tells or changes where the server listens. Called while nothing else is changed.
    pub fn portal(&self, request: &PortalRequest) -> Result<Answer, Failure> {
        let before = self.serving.listens_at();
        let mut absent = Vec::new();
        let (wanted, in_use) = match request {
            PortalRequest::List => return Ok(Answer::Portals(self.serving.portals(&self.name))),
            PortalRequest::Add(Add {
                iscsi,
                nbd,
                may_come,
            }) => {
                self.refuse_by_hand()?;
                let wanted = before
                    .clone()
                    .and(Addresses::parse(iscsi, nbd)?)
                    .checked()?;
                if !may_come {
                    wanted.refuse_foreign(&before)?;
                }
                (wanted, false)
            }
            PortalRequest::Remove(Remove { iscsi, nbd, in_use }) => {
                self.refuse_by_hand()?;
                let less = Addresses::parse(&[], nbd)?;
                absent = before.lacks(iscsi, &less);
                (before.clone().without(iscsi, &less), *in_use)
            }
            PortalRequest::Set(Set { iscsi, nbd, in_use }) => {
                (Addresses::parse(iscsi, nbd)?.checked()?, *in_use)
            }
        };
        let gone = before.beyond(&wanted);
        if gone.is_empty() && wanted.beyond(&before).is_empty() {
            let all = before.beyond(&Addresses::default()).join(" ");
            let not = match absent.is_empty() {
                true => String::new(),
                false => format!("is not served at {}; it ", absent.join(" ")),
            };
            return Ok(Done::already(format!(
                "pool {} {not}is served so: {all}",
                self.name
            )));
        }
        if !in_use {
            let what = gone.join(" ");
            in_use::unused(what.trim_start_matches("--"), || {
                self.serving.users_beyond(&wanted)
            })?;
        }
        let now = self.serving.listen_at(wanted)?;
        let mut said = self.told(&now.beyond(&before), &gone);
        if !absent.is_empty() {
            said.push_str(&format!("; it was not served at {}", absent.join(" ")));
        }
        for (protocol, option) in before.lost(&now) {
            said.push_str(&format!(
                "; nobody can reach the pool by {protocol} any more: `bulkhead portal add {} {option}` offers it again",
                self.name
            ));
        }
        Ok(Done::changed(said))
    }

    /// On a head of an appliance the next start, here or elsewhere, goes by the appliance file.
    fn refuse_by_hand(&self) -> Result<(), Failure> {
        if !self.serving.is_of_a_cluster() {
            return Ok(());
        }
        let message = format!(
            "the addresses of pool {} stand in the appliance file",
            self.name
        );
        Err(Failure::new(FailureKind::Exists, message).advise(format!(
            "change `addresses` of [pools.{}] there; `bulkhead appliance apply` tells the running server",
            self.name
        )))
    }

    fn told(&self, new: &[String], gone: &[String]) -> String {
        let mut said = Vec::new();
        if !new.is_empty() {
            said.push(format!("is served at {}", new.join(" ")));
        }
        if !gone.is_empty() {
            said.push(format!("is served no more at {}", gone.join(" ")));
        }
        let until = match self.serving.is_of_a_cluster() {
            true => String::new(),
            false => ", until this server ends: its options decide about the next start".to_owned(),
        };
        format!("pool {} {}{until}", self.name, said.join(", and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(iscsi: &[(&str, u16)], nbd: &[&str]) -> Addresses {
        let portals: Vec<IscsiPortal> = iscsi
            .iter()
            .map(|(address, group)| IscsiPortal {
                address: address.parse().expect("an address"),
                group: *group,
            })
            .collect();
        let nbd: Vec<String> = nbd.iter().map(ToString::to_string).collect();
        Addresses::parse(&portals, &nbd).expect("addresses")
    }

    #[test]
    fn what_comes_and_what_goes_is_told_as_options() {
        let before = addresses(&[("10.0.0.1:3260", 1)], &["10.0.0.1:10809"]);
        let after = before.clone().and(addresses(
            &[("10.0.0.1:3260", 1), ("10.1.0.1:3260", 2)],
            &["unix:/run/x"],
        ));
        assert_eq!(
            after.beyond(&before),
            ["--iscsi 10.1.0.1:3260,2", "--nbd unix:/run/x"]
        );
        assert!(before.beyond(&after).is_empty());
        let less = addresses(&[], &["10.0.0.1:10809"]);
        let rest = after.without(&["10.0.0.1:3260".parse().expect("an address")], &less);
        assert_eq!(rest, addresses(&[("10.1.0.1:3260", 2)], &["unix:/run/x"]));
    }

    #[test]
    fn addresses_that_are_in_each_others_way_are_refused() {
        for (portals, listener) in [
            ([("10.0.0.1:3260", 1), ("10.0.0.1:3260", 2)], "unix:/x"),
            ([("0.0.0.0:3260", 1), ("10.0.0.1:3260", 1)], "unix:/x"),
            (
                [("10.0.0.1:3260", 1), ("10.0.0.2:3260", 1)],
                "10.0.0.2:3260",
            ),
        ] {
            let all = addresses(&portals, &[listener]);
            let failure = all.checked().expect_err("in the way");
            assert_eq!(failure.kind, FailureKind::Exists);
        }
        let apart = [
            ("127.0.0.1:0", 1),
            ("127.0.0.1:0", 2),
            ("[::]:3260", 1),
            ("0.0.0.0:3260", 1),
        ];
        assert!(addresses(&apart, &["10.0.0.1:10809"]).checked().is_ok());
        let many: Vec<String> = (0..=ADDRESSES_MAX)
            .map(|n| format!("10.0.0.1:{}", n + 1))
            .collect();
        let failure = Addresses::parse(&[], &many).and_then(Addresses::checked);
        assert_eq!(failure.expect_err("too many").kind, FailureKind::Usage);
    }

    #[test]
    fn what_is_in_the_way_is_told_with_its_group_and_its_protocol() {
        let told = |all: Addresses| all.checked().expect_err("in the way").message;
        let groups = told(addresses(
            &[("10.0.0.1:3260", 1), ("10.0.0.1:3260", 2)],
            &[],
        ));
        assert!(
            groups.contains("at --iscsi 10.0.0.1:3260,1 already"),
            "{groups}"
        );
        assert!(groups.ends_with("of --iscsi 10.0.0.1:3260,2"), "{groups}");
        let protocols = told(addresses(&[("10.0.0.1:3260", 7)], &["10.0.0.1:3260"]));
        assert!(protocols.contains("10.0.0.1:3260,7 already"), "{protocols}");
        assert!(protocols.ends_with("of --nbd 10.0.0.1:3260"), "{protocols}");
    }

    #[test]
    fn what_is_removed_and_was_not_there_and_what_is_offered_no_more_is_known() {
        let before = addresses(&[("10.0.0.1:3260", 2)], &["unix:/x"]);
        let absent: SocketAddr = "10.0.0.2:3260".parse().expect("an address");
        let less = addresses(&[], &["unix:/x", "unix:/y"]);
        assert_eq!(
            before.lacks(&[before.iscsi[0].address, absent], &less),
            ["--iscsi 10.0.0.2:3260", "--nbd unix:/y"]
        );
        let now = before.clone().without(&[], &less);
        assert_eq!(before.lost(&now), [("NBD", "--nbd unix:/x".to_owned())]);
        assert!(now.lost(&now).is_empty());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let zero = IscsiPortal {
            address: "10.0.0.1:3260".parse().expect("an address"),
            group: 0,
        };
        assert!(Addresses::parse(&[zero], &[]).is_err());
        for bad in ["unix:run/x", "host:1", "10.0.0.1"] {
            assert!(Addresses::parse(&[], &[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
