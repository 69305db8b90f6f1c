//! The listening addresses and their changes at run time: [`Addresses`] decides, [`Serving::listen_at`] applies. A
//! change is valid until the server exits; the next start uses its options, or the appliance file on a pair. There
//! `portal add` and `remove` are refused, and `appliance apply` sends `portal set` to each running server before it
//! writes a file or configures Pacemaker, so that an address in use fails before any change.
//!
//! A change is atomic: TLS files are read, the new sockets are bound and listen, and then the running set is replaced
//! under the lock of all changes of exports. Port 0 is replaced by the real port at once, so that an address has one
//! name.
//!
//! * *Not stored in the pool*: addresses belong to the host, and the pool's next owner has different ones.
//! * *No file of the server's own*: it would be a second source of the same setting.
//! * *Not by Pacemaker's `reload-agent`*: it needs the addresses as resource parameters. If no earlier start has
//!   recorded these as reloadable, Pacemaker restarts the resource, and a failed reload is a failed resource, which is
//!   stopped.
//!
//! Therefore `bind`, `listen` and `CAP_NET_BIND_SERVICE` stay allowed ([`pool_access::confine`]).
//!
//! [`Serving::listen_at`]: super::serving::Serving::listen_at

use std::fmt;
use std::net::SocketAddr;

use ::protocol_list::{Description, Place, Places};
use control::answer::Done;
use control::operations::portal::PortalRequest;
use control::operations::portal::add::Add;
use control::operations::portal::remove::Remove;
use control::operations::portal::set::Set;
use control::{Answer, Failure, FailureKind};
use operations::in_use;
use serving::{EarlySockets, ListenAddress, ListenError, is_here};

use super::core::Core;
use super::serving::listen_failure;

/// Addresses of all protocols. Each has a thread, and each is a line of every discovery response.
const ADDRESSES_MAX: usize = 64;

/// The listening addresses, in the order of the protocols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(Vec<Address>);

/// An address. Its text is the server option that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The protocol of the address.
    pub protocol: &'static Description,
    /// The address or path.
    pub place: Place,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{} {}", self.protocol.name, self.place)
    }
}

impl Addresses {
    /// Parses `places` for the protocols `of`.
    pub fn read(places: &Places, of: &[&'static Description]) -> Result<Self, Failure> {
        Self::checked_by(places, of, |protocol, place| protocol.check(place))
    }

    /// Parses addresses without their groups, as names.
    fn read_names(places: &Places, of: &[&'static Description]) -> Result<Self, Failure> {
        Self::checked_by(places, of, |_, place| Ok(place.without_group()))
    }

    fn checked_by(
        places: &Places,
        of: &[&'static Description],
        check: impl Fn(&Description, Place) -> Result<Place, String>,
    ) -> Result<Self, Failure> {
        let is_known = |name: &str| of.iter().any(|protocol| protocol.name == name);
        if let Some(unknown) = places.0.keys().find(|name| !is_known(name)) {
            let known: Vec<&str> = of.iter().map(|protocol| protocol.name).collect();
            let message = format!("this server has no protocol {unknown:?}");
            return Err(Failure::usage(message).advise(format!("it has {}", known.join(", "))));
        }
        let mut all = Vec::new();
        for protocol in of {
            for place in places.0.get(protocol.name).into_iter().flatten() {
                let place = check(protocol, place.clone()).map_err(Failure::usage)?;
                refuse_relative(&place)?;
                all.push(Address { protocol, place });
            }
        }
        Ok(Self(all))
    }

    /// The addresses of the protocol `name`.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Place> {
        let own = self.0.iter().filter(move |one| one.protocol.name == name);
        own.map(|one| &one.place)
    }

    /// The addresses of the protocol `name` as listeners.
    pub fn listeners(&self, name: &str) -> Vec<ListenAddress> {
        self.of(name).map(listener).collect()
    }

    /// Replaces port 0 by real ports, which are reserved here.
    pub fn with_real_ports(mut self, early: &EarlySockets) -> Result<Self, ListenError> {
        for address in self.tcp_mut().filter(|one| one.port() == 0) {
            *address = early.reserve(*address)?;
        }
        Ok(self)
    }

    /// The addresses of TCP.
    pub fn tcp(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.0.iter().filter_map(|one| one.place.tcp())
    }

    fn tcp_mut(&mut self) -> impl Iterator<Item = &mut SocketAddr> {
        self.0.iter_mut().filter_map(Address::tcp_mut)
    }

    /// Retains the addresses in `before` of protocols that the request does not mention, because its client is too old
    /// to know them.
    fn with_unknown_of(
        mut self,
        before: &Self,
        said: &Places,
        of: &[&'static Description],
    ) -> Self {
        let is_unknown =
            |one: &&Address| one.protocol.binds_late && !said.0.contains_key(one.protocol.name);
        let kept: Vec<_> = before.0.iter().filter(is_unknown).cloned().collect();
        self.0.extend(kept);
        self.in_order(of)
    }

    fn in_order(mut self, of: &[&'static Description]) -> Self {
        self.0
            .sort_by_key(|one| of.iter().position(|protocol| *protocol == one.protocol));
        self
    }

    /// The addresses that `other` does not have, as server options.
    fn beyond(&self, other: &Self) -> Vec<String> {
        let more = self.0.iter().filter(|one| !other.0.contains(one));
        more.map(ToString::to_string).collect()
    }

    fn and(mut self, more: Self, of: &[&'static Description]) -> Self {
        let asks_for_a_port = |one: &Address| one.place.tcp().is_some_and(|tcp| tcp.port() == 0);
        let new = |one: &Address| asks_for_a_port(one) || !self.0.contains(one);
        let new: Vec<_> = more.0.into_iter().filter(new).collect();
        self.0.extend(new);
        self.in_order(of)
    }

    /// Whether it has this address, ignoring the group.
    fn has(&self, name: &Address) -> bool {
        self.0.iter().any(|one| one.is_named(name))
    }

    /// The addresses in `names` that are missing here, as server options.
    fn missing_from(&self, names: &Self) -> Vec<String> {
        let absent = names.0.iter().filter(|name| !self.has(name));
        absent.map(ToString::to_string).collect()
    }

    /// The protocols that are offered here but not in `now`, each with an option that offers it.
    fn lost(&self, now: &Self) -> Vec<(&'static str, String)> {
        let offers = |all: &Self, protocol| all.0.iter().any(|one| one.protocol == protocol);
        let mut lost: Vec<(&'static str, String)> = Vec::new();
        for one in self.0.iter().filter(|one| !offers(now, one.protocol)) {
            let title = one.protocol.title;
            if !lost.iter().any(|(known, _)| *known == title) {
                lost.push((title, one.to_string()));
            }
        }
        lost
    }

    fn without(mut self, names: &Self) -> Self {
        let is_meant = |one: &Address| names.0.iter().any(|name| one.is_named(name));
        self.0.retain(|one| !is_meant(one));
        self
    }

    /// Refuses conflicting or too many addresses.
    fn checked(self) -> Result<Self, Failure> {
        let is_in_the_way = |one: &Address, other: &Address| {
            let both = one.place.tcp().zip(other.place.tcp());
            both.is_some_and(|(one, other)| overlap(&one, &other))
        };
        for (index, new) in self.0.iter().enumerate() {
            let mut before = self.0[..index].iter();
            if let Some(old) = before.find(|old| is_in_the_way(old, new)) {
                let message =
                    format!("the server listens at {old} already, which is in the way of {new}");
                return Err(Failure::new(FailureKind::Exists, message).advise(
                    "remove the other first (`bulkhead portal remove`), or choose another address",
                ));
            }
        }
        let count = self.0.len();
        if count > ADDRESSES_MAX {
            let message =
                format!("a server listens at {ADDRESSES_MAX} addresses at most, not at {count}");
            return Err(Failure::usage(message)
                .advise("choose fewer, or one that covers all, such as 0.0.0.0"));
        }
        Ok(self)
    }

    /// Refuses new addresses that this host does not have: no client could connect to them.
    fn refuse_foreign(&self, before: &Self) -> Result<(), Failure> {
        let new = self
            .tcp()
            .filter(|one| !before.tcp().any(|old| old == *one));
        match new.map(|one| one.ip()).find(|ip| !is_here(*ip)) {
            None => Ok(()),
            Some(ip) => Err(Failure::usage(format!("this host does not have the address {ip}"))
                .advise(
                    "`ip address` lists those that it has; if it comes later, such as with a takeover, add --may-come",
                )),
        }
    }

    /// Listens at the TCP addresses that are new since `before`, and replaces port 0 by real ports. All or none are
    /// opened, and no later step can fail for lack of an address. A protocol that binds late binds with its first
    /// export.
    pub fn open_new(
        &mut self,
        before: &Self,
        early: &EarlySockets,
    ) -> Result<Vec<SocketAddr>, ListenError> {
        let is_new =
            |address: &SocketAddr| address.port() == 0 || !before.tcp().any(|old| old == *address);
        let early_ones = self.0.iter_mut().filter(|one| {
            let port = one.place.tcp().map(|address| address.port());
            !one.protocol.binds_late || port == Some(0)
        });
        let new = early_ones.filter_map(Address::tcp_mut);
        let new: Vec<&mut SocketAddr> = new.filter(|one| is_new(one)).collect();
        let opened = early.open(new.iter().map(|one| **one))?;
        for (place, real) in new.into_iter().zip(&opened) {
            *place = *real;
        }
        Ok(opened)
    }
}

impl Address {
    const fn tcp_mut(&mut self) -> Option<&mut SocketAddr> {
        match &mut self.place {
            Place::Tcp(address) | Place::Grouped(address, _) => Some(address),
            Place::Unix(_) => None,
        }
    }

    /// Whether `name` is this address, ignoring the group.
    fn is_named(&self, name: &Self) -> bool {
        self.protocol == name.protocol && self.place.clone().without_group() == name.place
    }
}

/// Returns `place` as a listener, without its group.
fn listener(place: &Place) -> ListenAddress {
    match place {
        Place::Tcp(address) | Place::Grouped(address, _) => ListenAddress::Tcp(*address),
        Place::Unix(path) => ListenAddress::Unix(path.clone()),
    }
}

/// The server has a working directory of its own, so a relative path would be ambiguous.
fn refuse_relative(place: &Place) -> Result<(), Failure> {
    match place {
        Place::Unix(path) if !path.is_absolute() => Err(Failure::usage(format!(
            "{place:?} is no address to listen on: write unix:/PATH"
        ))),
        _ => Ok(()),
    }
}

/// Whether the kernel refuses to listen at both.
pub fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let same_family = one.is_ipv4() == other.is_ipv4();
    let same_port = one.port() == other.port() && one.port() != 0;
    same_port && same_family && (any || one.ip() == other.ip())
}

/// Describes an address that a running server cannot open.
pub fn refused(error: &ListenError) -> Failure {
    let failure = listen_failure(error);
    match (failure.kind, &error.address) {
        (FailureKind::Denied, ListenAddress::Tcp(_)) => failure.advise(
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose another, or run the server as root",
        ),
        (FailureKind::Denied, ListenAddress::Unix(_)) => failure.advise(
            "a server drops the right to write elsewhere when it starts: choose a path in its run directory, or \
             start it with this address",
        ),
        (FailureKind::Failed, ListenAddress::Unix(_)) => {
            failure.advise("create its directory first, or choose a path in the server's run directory")
        }
        _ => failure,
    }
}

impl Core {
    /// Lists or changes the listening addresses. The caller holds the lock of changes.
    pub fn portal(&self, request: &PortalRequest) -> Result<Answer, Failure> {
        let before = self.serving.listens_at();
        let of = self.serving.descriptions();
        let mut absent = Vec::new();
        let (wanted, in_use) = match request {
            PortalRequest::List => return Ok(Answer::Portals(self.serving.portals(&self.name))),
            PortalRequest::Add(Add { places, may_come }) => {
                self.refuse_by_hand()?;
                let more = Addresses::read(places, &of)?;
                let wanted = before.clone().and(more, &of).checked()?;
                if !may_come {
                    wanted.refuse_foreign(&before)?;
                }
                (wanted, false)
            }
            PortalRequest::Remove(Remove { places, in_use }) => {
                self.refuse_by_hand()?;
                let less = Addresses::read_names(places, &of)?;
                absent = before.missing_from(&less);
                (before.clone().without(&less), *in_use)
            }
            PortalRequest::Set(Set { places, in_use }) => {
                let wanted = Addresses::read(places, &of)?;
                let wanted = wanted.with_unknown_of(&before, places, &of);
                (wanted.checked()?, *in_use)
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
        if let Some(restart) = &self.restart {
            restart.write(&now);
        }
        let mut said = self.told(&now.beyond(&before), &gone);
        if !absent.is_empty() {
            said.push_str(&format!("; it was not served at {}", absent.join(" ")));
        }
        for (protocol, option) in before.lost(&now) {
            said.push_str(&format!(
                "; no client can reach the pool by {protocol} any more: `bulkhead portal add {} {option}` offers it again",
                self.name
            ));
        }
        Ok(Done::changed(said))
    }

    /// On a head of an appliance, every start uses the appliance file.
    fn refuse_by_hand(&self) -> Result<(), Failure> {
        if !self.serving.is_of_a_cluster() {
            return Ok(());
        }
        let message = format!(
            "the addresses of pool {} are set in the appliance file",
            self.name
        );
        Err(Failure::new(FailureKind::Exists, message).advise(format!(
            "change `addresses` of [pools.{}] there; `bulkhead appliance apply` updates the running server",
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
            false => ", until this server exits: the next start uses its options".to_owned(),
        };
        format!("pool {} {}{until}", self.name, said.join(", and "))
    }
}

#[cfg(test)]
mod tests {
    use ::protocol_list::ALL;

    use super::*;

    fn addresses(iscsi: &[&str], nbd: &[&str]) -> Addresses {
        Addresses::read(&places(iscsi, nbd), ALL).expect("addresses")
    }

    fn places(iscsi: &[&str], nbd: &[&str]) -> Places {
        let listed = [("iscsi", iscsi), ("nbd", nbd)].map(|(name, texts)| {
            let protocol = ::protocol_list::named(name).expect("a protocol");
            let read = |text: &&str| protocol.parse(text).expect("an address");
            (name.to_owned(), texts.iter().map(read).collect())
        });
        Places(listed.into())
    }

    fn names(iscsi: &[&str], nbd: &[&str]) -> Addresses {
        Addresses::read_names(&places(iscsi, nbd), ALL).expect("names")
    }

    #[test]
    fn portal_changes_are_reported_as_options() {
        let before = addresses(&["10.0.0.1:3260,1"], &["10.0.0.1:10809"]);
        let more = addresses(&["10.0.0.1:3260", "10.1.0.1:3260,2"], &["unix:/run/x"]);
        let after = before.clone().and(more, ALL);
        assert_eq!(
            after.beyond(&before),
            ["--iscsi 10.1.0.1:3260,2", "--nbd unix:/run/x"]
        );
        assert!(before.beyond(&after).is_empty());
        let rest = after.without(&names(&["10.0.0.1:3260"], &["10.0.0.1:10809"]));
        assert_eq!(rest, addresses(&["10.1.0.1:3260,2"], &["unix:/run/x"]));
    }

    #[test]
    fn conflicting_addresses_are_refused() {
        for (portals, listener) in [
            (["10.0.0.1:3260,1", "10.0.0.1:3260,2"], "unix:/x"),
            (["0.0.0.0:3260,1", "10.0.0.1:3260,1"], "unix:/x"),
            (["10.0.0.1:3260,1", "10.0.0.2:3260,1"], "10.0.0.2:3260"),
        ] {
            let all = addresses(&portals, &[listener]);
            let failure = all.checked().expect_err("in the way");
            assert_eq!(failure.kind, FailureKind::Exists);
        }
        let apart = [
            "127.0.0.1:0,1",
            "127.0.0.1:0,2",
            "[::]:3260,1",
            "0.0.0.0:3260,1",
        ];
        assert!(addresses(&apart, &["10.0.0.1:10809"]).checked().is_ok());
        let many: Vec<String> = (0..=ADDRESSES_MAX)
            .map(|n| format!("10.0.0.1:{}", n + 1))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let failure = Addresses::read(&places(&[], &many), ALL).and_then(Addresses::checked);
        assert_eq!(failure.expect_err("too many").kind, FailureKind::Usage);
    }

    #[test]
    fn address_conflict_names_portal_group_and_protocol() {
        let told = |all: Addresses| all.checked().expect_err("in the way").message;
        let groups = told(addresses(&["10.0.0.1:3260,1", "10.0.0.1:3260,2"], &[]));
        assert!(
            groups.contains("at --iscsi 10.0.0.1:3260,1 already"),
            "{groups}"
        );
        assert!(groups.ends_with("of --iscsi 10.0.0.1:3260,2"), "{groups}");
        let protocols = told(addresses(&["10.0.0.1:3260,7"], &["10.0.0.1:3260"]));
        assert!(protocols.contains("10.0.0.1:3260,7 already"), "{protocols}");
        assert!(protocols.ends_with("of --nbd 10.0.0.1:3260"), "{protocols}");
    }

    #[test]
    fn removals_of_absent_and_of_served_portals_are_detected() {
        let before = addresses(&["10.0.0.1:3260,2"], &["unix:/x"]);
        let less = names(&["10.0.0.1:3260", "10.0.0.2:3260"], &["unix:/x", "unix:/y"]);
        assert_eq!(
            before.missing_from(&less),
            ["--iscsi 10.0.0.2:3260", "--nbd unix:/y"]
        );
        let now = before.clone().without(&names(&[], &["unix:/x"]));
        assert_eq!(before.lost(&now), [("NBD", "--nbd unix:/x".to_owned())]);
        assert!(now.lost(&now).is_empty());
    }

    #[test]
    fn portals_unknown_to_an_older_request_are_kept() {
        let read = |text: &str| serde_json::from_str::<Places>(text).expect("places");
        let late = r#"{"iscsi":[],"nbd":[],"nfs":["10.0.0.1:2049"]}"#;
        let before = Addresses::read(&read(late), ALL).expect("addresses");
        let set = |text: &str| {
            let said = read(text);
            let wanted = Addresses::read(&said, ALL).expect("addresses");
            wanted.with_unknown_of(&before, &said, ALL)
        };
        let kept = set(r#"{"iscsi":[],"nbd":["10.0.0.1:10809"]}"#);
        assert_eq!(
            kept.beyond(&Addresses::default()),
            ["--nbd 10.0.0.1:10809", "--nfs 10.0.0.1:2049"]
        );
        let gone = set(r#"{"iscsi":[],"nbd":[],"nfs":[]}"#);
        assert_eq!(gone, Addresses::default());
    }

    #[test]
    fn address_of_an_unknown_protocol_is_refused() {
        for bad in [
            r#"{"iscsi":[{"address":"10.0.0.1:3260","group":0}]}"#,
            r#"{"iscsi":["unix:/run/x"]}"#,
            r#"{"nbd":["unix:run/x"]}"#,
            r#"{"nbd":[{"address":"10.0.0.1:1","group":1}]}"#,
            r#"{"smoke":["10.0.0.1:1"]}"#,
        ] {
            let places = serde_json::from_str(bad).expect("places");
            let failure = Addresses::read(&places, ALL).expect_err(bad);
            assert_eq!(failure.kind, FailureKind::Usage, "{bad}");
        }
    }
}
