//! `legs.toml`, one on each head: the members of the records of legs, and the lender of each disk
//! (`docs/formats/legs-config.md`).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use legs_config::{Kind, LegsFile, Member, Role};
use units::{HeadName, NetworkName};

use crate::file::{Appliance, Leg, LegGroup, Legs, Pool};

/// The path of the file on a head.
pub const LEGS_PATH: &str = "/etc/bulkhead/legs.toml";
/// The certificate that identifies a head to the other heads.
pub const LEGS_CERTIFICATE_PATH: &str = "/etc/bulkhead/legs/cert.pem";
/// Its key.
pub const LEGS_KEY_PATH: &str = "/etc/bulkhead/legs/key.pem";
/// The name of the witness among the members, unless a head has this name.
const WITNESS: &str = "witness";

/// Returns the text of the file for `head`; none where no pool has disks of heads.
pub fn legs_toml(appliance: &Appliance, head: &HeadName) -> Option<String> {
    let legs = appliance.legs.as_ref().filter(|_| appliance.has_legs())?;
    let pools = appliance.pools.iter();
    let pools = pools.filter_map(|(name, one)| Some((name.clone(), pool(appliance, one)?)));
    let file = LegsFile {
        me: head.to_string(),
        certificate: LEGS_CERTIFICATE_PATH.into(),
        key: LEGS_KEY_PATH.into(),
        members: members(appliance, legs),
        pools: pools.collect(),
    };
    Some(format!("{}\n\n{}", super::GENERATED, file.render()))
}

fn pool(appliance: &Appliance, pool: &Pool) -> Option<legs_config::Pool> {
    let leg = |leg: &Leg| {
        let disk = appliance.own_disk(leg)?;
        Some(legs_config::Leg {
            disk: disk.number.into(),
            head: leg.head.to_string(),
            path: disk.path.clone(),
        })
    };
    let group = |(field, _, group): (&str, usize, &LegGroup)| legs_config::Group {
        needed: group.needed(),
        role: match field {
            "log" => Role::Log,
            _ => Role::Data,
        },
        legs: group.legs.iter().filter_map(leg).collect(),
    };
    let guid = pool.number.filter(|_| pool.has_legs())?;
    Some(legs_config::Pool {
        guid: guid.into(),
        groups: pool.all_groups().map(group).collect(),
    })
}

fn members(appliance: &Appliance, legs: &Legs) -> BTreeMap<String, Member> {
    let beside = additional_networks(appliance, legs);
    let heads = appliance.heads.iter().filter_map(|(name, head)| {
        let on = |networks: &[NetworkName], port: u16| -> Vec<SocketAddr> {
            let links = networks.iter().filter_map(|one| head.links.get(one));
            let addresses = links.filter_map(|link| link.addresses.first());
            addresses.map(|one| SocketAddr::new(*one, port)).collect()
        };
        let member = Member {
            number: head.number.into(),
            kind: Kind::Head,
            members: on(
                &[legs.networks.as_slice(), &beside].concat(),
                legs.member_port,
            ),
            lends: on(&legs.networks, legs.lender_port),
            fingerprint: head
                .fingerprint
                .as_ref()?
                .to_ascii_lowercase()
                .parse()
                .ok()?,
        };
        Some((name.to_string(), member))
    });
    let witness = appliance.witness.iter().filter_map(|witness| {
        let on = |address: &IpAddr| SocketAddr::new(*address, witness.port);
        let member = Member {
            number: witness.number.into(),
            kind: Kind::Witness,
            members: witness.addresses.iter().map(on).collect(),
            lends: Vec::new(),
            fingerprint: witness.fingerprint.to_ascii_lowercase().parse().ok()?,
        };
        let is_taken = appliance.heads.keys().any(|head| head.as_str() == WITNESS);
        let name = match is_taken {
            true => format!("{WITNESS}-{}", witness.number),
            false => WITNESS.to_owned(),
        };
        Some((name, member))
    });
    heads.chain(witness).collect()
}

/// Further networks that connect two heads without clients. When all cables to the disks of a head are cut, that head
/// must agree to a record without its legs. A third member can agree instead; then the legs of an unreachable head are
/// not tried in vain, which would count as returns.
fn additional_networks(appliance: &Appliance, legs: &Legs) -> Vec<NetworkName> {
    if appliance.witness.is_some() || appliance.heads.len() > 2 {
        return Vec::new();
    }
    let is_beside =
        |name: &&NetworkName| !appliance.has_clients(name) && !legs.networks.contains(name);
    appliance
        .networks
        .keys()
        .filter(is_beside)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use leg_record::{DiskId, MemberId, Membership};

    use super::*;
    use crate::parse::parse;

    const TWO_HEADS: &str = include_str!("../../../../examples/legs-two-heads-witness.toml");
    const THREE_HEADS: &str = include_str!("../../../../examples/legs-three-heads.toml");

    fn rendered(text: &str, head: &str) -> LegsFile {
        let appliance = parse(text).expect("well formed").appliance;
        let head = head.parse().expect("a name");
        let text = legs_toml(&appliance, &head).expect("a file");
        legs_config::parse(&text).expect("its reader accepts it")
    }

    #[test]
    fn two_heads_and_a_witness_are_described_to_each_head() {
        let file = rendered(TWO_HEADS, "right");
        let (heads, witness) = ([MemberId(1), MemberId(2)], MemberId(3));
        let membership = Membership::TwoHeadsAndWitness { heads, witness };
        assert_eq!((file.me(), file.membership()), (MemberId(2), membership));
        let own = file.own();
        let texts = |all: &[SocketAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&own.members), ["10.77.3.12:7071", "10.77.4.12:7071"]);
        assert_eq!(texts(&own.lends), ["10.77.3.12:7072", "10.77.4.12:7072"]);
        let config = file
            .config(&"tank".parse().expect("a name"))
            .expect("a pool");
        assert_eq!(config.groups.len(), 2);
        assert!(config.groups.iter().all(|group| group.needed == 1));
        assert!(config.is_readable(&[11, 12].map(DiskId).into()));
        assert!(!config.is_readable(&[11].map(DiskId).into()));
        assert_eq!(config.lender(DiskId(21)), Some(MemberId(2)));
    }

    #[test]
    fn two_heads_use_all_networks_without_clients() {
        let text = include_str!("../../../../examples/legs-two-heads.toml");
        let members = &rendered(text, "right").own().members.clone();
        let texts: Vec<String> = members.iter().map(ToString::to_string).collect();
        let expected = ["10.77.3.12:7071", "10.77.4.12:7071", "10.77.9.12:7071"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn raidz1_over_three_heads_needs_two_legs() {
        let file = rendered(THREE_HEADS, "left");
        assert!(matches!(file.membership(), Membership::ThreeHeads(_)));
        let config = file
            .config(&"vault".parse().expect("a name"))
            .expect("a pool");
        let needed: Vec<usize> = config.groups.iter().map(|group| group.needed).collect();
        assert_eq!(needed, [2, 2]);
    }

    #[test]
    fn a_log_and_double_parity_are_groups_of_their_own() {
        let group = "{ kind = \"mirror\", legs = [\"left:bay2\", \"right:bay2\"] },";
        let log = "groups = [";
        let text = TWO_HEADS.replacen(group, "", 1).replacen(
            log,
            "log = [{ kind = \"mirror\", legs = [\"left:bay2\", \"right:bay2\"] }]\ngroups = [",
            1,
        );
        let file = rendered(&text, "left");
        let tank = &file.pools[&"tank".parse().expect("a name")];
        let roles: Vec<Role> = tank.groups.iter().map(|group| group.role).collect();
        assert_eq!(roles, [Role::Data, Role::Log]);
        let before = rendered(TWO_HEADS, "left");
        assert_ne!(file.digest(tank.guid), before.digest(tank.guid));
        let six = THREE_HEADS.replacen(
            "{ kind = \"raidz1\", legs = [\"left:bay3\", \"middle:bay1\", \"right:bay3\"] },",
            "{ kind = \"raidz2\", legs = [\"left:bay3\", \"left:bay4\", \"middle:bay1\", \"middle:bay2\", \"right:bay3\", \"right:bay4\"] },",
            1,
        );
        let other =
            "{ kind = \"raidz1\", legs = [\"left:bay4\", \"middle:bay2\", \"right:bay4\"] },";
        let file = rendered(&six.replacen(other, "", 1), "left");
        let vault = &file.pools[&"vault".parse().expect("a name")];
        assert_eq!(vault.groups[0].needed, 4);
    }

    #[test]
    fn shared_disk_appliance_has_no_legs_file() {
        let text = include_str!("../../../../examples/pair.toml");
        let appliance = parse(text).expect("well formed").appliance;
        let left = appliance.heads.keys().next().expect("a head");
        assert_eq!(legs_toml(&appliance, left), None);
    }
}
