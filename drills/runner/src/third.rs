//! The appliance file with a third head, derived from that of two heads, as an administrator writes it after buying a
//! host of the same kind.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use appliance::{
    Appliance, Bmc, Head, Leg, LegGroupKind, Link, Outlet, OwnDisk, Pool, Quorum, QuorumRule,
};
use units::{ByteCount, HeadName};

use crate::error::DrillError;

/// The name of the third head.
const NAME: &str = "third";
/// The kind of outlets that labs imitate.
const PDU_AGENT: &str = "fence_apc_snmp";

/// Its name.
pub fn name() -> HeadName {
    NAME.parse().expect("a name of a head")
}

/// Why no third head can be added to such an appliance.
pub fn impossible(appliance: &Appliance) -> Option<&'static str> {
    let is_mirror = |pool: &Pool| {
        let mut groups = pool.all_groups();
        let is_mirror = groups.all(|(_, _, group)| group.kind == LegGroupKind::Mirror);
        pool.has_legs() && is_mirror
    };
    let is_other_pdu = |pdu: &appliance::Pdu| pdu.agent != PDU_AGENT;
    match appliance {
        _ if appliance.heads.len() != 2 => Some("a third head comes to two"),
        _ if !appliance.pools.values().all(is_mirror) => {
            Some("not every pool is made of mirrors of heads' disks")
        }
        _ if !appliance.hypervisors.is_empty() || appliance.pdus.values().any(is_other_pdu) => {
            Some("the lab does not imitate all fence devices of the file")
        }
        _ => None,
    }
}

/// The same two heads with caches that fit the memory of this host: `check` verifies that.
pub fn fitted(two: &Appliance, arc_max: ByteCount) -> Appliance {
    let mut two = two.clone();
    for pool in two.pools.values_mut() {
        pool.arc = pool.arc.map(|arc| arc.min(arc_max));
    }
    two
}

/// The configuration of all hosts while two heads are set up: their witness, and a third host without a key.
///
/// # Errors
///
/// There is no room for it.
pub fn machines(two: &Appliance) -> Result<String, DrillError> {
    let mut all = with_third(two, None)?;
    all.quorum.clone_from(&two.quorum);
    all.witness.clone_from(&two.witness);
    text_of(&all)
}

/// The file of three heads, with the fingerprint of the third.
///
/// # Errors
///
/// There is no room for it.
pub fn joined(two: &Appliance, fingerprint: &str) -> Result<String, DrillError> {
    text_of(&with_third(two, Some(fingerprint.to_owned()))?)
}

/// The text of a file that is equivalent to `appliance`.
///
/// # Errors
///
/// It cannot be written so.
pub fn text_of(appliance: &Appliance) -> Result<String, DrillError> {
    let text = toml::to_string(appliance);
    text.map_err(|error| DrillError::File(format!("write the file of three heads: {error}")))
}

fn with_third(two: &Appliance, fingerprint: Option<String>) -> Result<Appliance, DrillError> {
    let (name, mut three) = (name(), two.clone());
    let model = two.heads.values().next_back();
    let model = model.ok_or_else(|| DrillError::File("the file names no head".to_owned()))?;
    let mut used = lab::used_addresses(two);
    let mut third = Head {
        number: free_number(two),
        fingerprint,
        disks: [].into(),
        ..model.clone()
    };
    for link in third.links.values_mut() {
        let Link { addresses, .. } = link;
        for address in addresses {
            *address = free(two, *address, &mut used)?;
        }
    }
    if let Some(fencing) = &mut third.fencing {
        if let Some(Bmc {
            address,
            password_file,
            ..
        }) = &mut fencing.bmc
        {
            *address = free(two, *address, &mut used)?;
            password_file.set_file_name(format!("bmc-{NAME}"));
        }
        for outlet in &mut fencing.outlets {
            outlet.outlet = free_outlet(two, outlet);
        }
    }
    let mut number = largest_disk(two);
    for pool in three.pools.values_mut() {
        for group in &mut pool.groups {
            number += 1;
            let disk = format!("bay{number}");
            let path = PathBuf::from(format!("/dev/disk/by-id/scsi-{NAME}-{number}"));
            third.disks.insert(disk.clone(), OwnDisk { number, path });
            let head = name.clone();
            group.legs.push(Leg { head, disk });
        }
        if let Some(heads) = &mut pool.heads {
            heads.push(name.clone());
        }
    }
    three.heads.insert(name, third);
    three.witness = None;
    three.quorum = Some(Quorum {
        rule: QuorumRule::Majority,
        witness: None,
    });
    // Of three heads no two power each other off.
    let fencing = three
        .heads
        .values_mut()
        .filter_map(|head| head.fencing.as_mut());
    fencing.for_each(|fencing| fencing.delay_s = 0);
    Ok(three)
}

/// One that no member had.
fn free_number(appliance: &Appliance) -> u32 {
    let heads = appliance.heads.values().map(|head| head.number);
    let witness = appliance.witness.iter().map(|witness| witness.number);
    heads.chain(witness).max().unwrap_or(0) + 1
}

fn largest_disk(appliance: &Appliance) -> u32 {
    let disks = appliance
        .heads
        .values()
        .flat_map(|head| head.disks.values());
    disks.map(|disk| disk.number).max().unwrap_or(0)
}

fn free(
    appliance: &Appliance,
    beside: IpAddr,
    used: &mut BTreeSet<IpAddr>,
) -> Result<IpAddr, DrillError> {
    lab::free_address_near(appliance, beside, used)
        .ok_or_else(|| DrillError::File(format!("no address is free in the subnet of {beside}")))
}

fn free_outlet(appliance: &Appliance, beside: &Outlet) -> String {
    let heads = appliance.heads.values();
    let fencing = heads.filter_map(|head| head.fencing.as_ref());
    let outlets = fencing.flat_map(|fencing| &fencing.outlets);
    let same = outlets.filter(|outlet| outlet.pdu == beside.pdu);
    let numbers = same.filter_map(|outlet| outlet.outlet.parse::<u32>().ok());
    (numbers.max().unwrap_or(0) + 1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITNESS: &str = include_str!("../../../examples/legs-two-heads-witness.toml");
    const TWO: &str = include_str!("../../../examples/legs-two-heads.toml");

    fn parsed(text: &str) -> appliance::Parsed {
        appliance::parse(text).expect("well formed")
    }

    /// Otherwise the lab would differ from the given file.
    #[test]
    fn rewritten_file_is_equivalent() {
        for text in [WITNESS, TWO] {
            let before = parsed(text).appliance;
            assert_eq!(parsed(&text_of(&before).expect("text")).appliance, before);
        }
    }

    #[test]
    fn three_heads_form_a_valid_appliance() {
        for text in [WITNESS, TWO] {
            let two = parsed(text).appliance;
            assert_eq!(impossible(&two), None);
            let three = parsed(&joined(&two, &"4a".repeat(32)).expect("text"));
            let findings = appliance::check(&three, &appliance::Facts::default());
            let is_serious = |one: &&appliance::Finding| one.severity != appliance::Severity::Hint;
            let serious: Vec<_> = findings.iter().filter(is_serious).collect();
            assert!(serious.is_empty(), "{serious:?}");
            let pool = three.appliance.pools.values().next().expect("a pool");
            assert_eq!(pool.groups[0].legs.len(), 3);
            assert_eq!(
                impossible(&three.appliance),
                Some("a third head comes to two")
            );
        }
    }

    #[test]
    fn witness_of_two_heads_exists_and_third_host_has_no_key() {
        let two = parsed(WITNESS).appliance;
        let all = parsed(&machines(&two).expect("text")).appliance;
        assert_eq!((&all.witness, &all.quorum), (&two.witness, &two.quorum));
        let third = &all.heads[&name()];
        assert_eq!((third.number, &third.fingerprint), (4, &None));
        let fencing = third.fencing.as_ref().expect("it can be powered off");
        assert_eq!(fencing.outlets[0].outlet, "3");
        let shared = parsed(include_str!("../../../examples/pair.toml")).appliance;
        assert!(impossible(&shared).is_some());
    }
}
