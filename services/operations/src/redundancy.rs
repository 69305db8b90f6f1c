//! The redundancy of a group after a device is detached or taken offline. Pure: a function of the observed state.

use control::{Failure, FailureKind};
use engine::pool::{DeviceState, DeviceStatus, PoolStatus};

use super::growth::plan::{holds_data, is_complete, losses_left, survives};
use super::status::word;

/// A group with data, before and after the change.
pub struct Left<'a> {
    pool: &'a str,
    device: &'a DeviceStatus,
    before: &'a DeviceStatus,
    after: DeviceStatus,
}

/// The group of `device` after its detach. `None` if the device has no data.
pub fn after_detach<'a>(status: &'a PoolStatus, device: &str) -> Option<Left<'a>> {
    left(status, device, without)
}

/// The group of `device` after it is taken offline. `None` if the device has no data.
pub fn after_offline<'a>(status: &'a PoolStatus, device: &str) -> Option<Left<'a>> {
    left(status, device, with_offline)
}

fn left<'a>(
    status: &'a PoolStatus,
    device: &str,
    change: fn(&DeviceStatus, u64) -> DeviceStatus,
) -> Option<Left<'a>> {
    let device = status.find(device)?;
    let mut groups = status.devices.iter().filter(|group| holds_data(group));
    let before = groups.find(|group| has(group, device.guid))?;
    Some(Left {
        pool: &status.name,
        device,
        before,
        after: change(before, device.guid),
    })
}

fn has(group: &DeviceStatus, guid: u64) -> bool {
    group.guid == guid || group.children.iter().any(|child| has(child, guid))
}

/// The group without the device of that number. Of a spare or a replacement with one device left, that device remains.
fn without(group: &DeviceStatus, guid: u64) -> DeviceStatus {
    let children = group.children.iter().filter(|child| child.guid != guid);
    let mut children: Vec<DeviceStatus> = children.map(|child| without(child, guid)).collect();
    let is_temporary = matches!(group.kind.as_str(), "spare" | "replacing");
    match children.len() {
        1 if is_temporary => children.remove(0),
        _ => DeviceStatus {
            children,
            ..group.clone()
        },
    }
}

fn with_offline(group: &DeviceStatus, guid: u64) -> DeviceStatus {
    let mut group = group.clone();
    if group.guid == guid {
        group.state = DeviceState::Offline;
    }
    for child in &mut group.children {
        *child = with_offline(child, guid);
    }
    group
}

fn leaves(group: &DeviceStatus) -> Vec<&DeviceStatus> {
    match group.children.is_empty() {
        true => vec![group],
        false => group.children.iter().flat_map(leaves).collect(),
    }
}

impl Left<'_> {
    /// Refuses the change of a group that has a failed device already, and would have no redundancy left. `flag` confirms
    /// it.
    pub fn refuse_none(&self, flag: &str) -> Result<(), Failure> {
        let is_last = losses_left(self.before) > 0 && losses_left(&self.after) == 0;
        let leaves = leaves(self.before).into_iter();
        let mut hurt = leaves.filter(|leaf| leaf.guid != self.device.guid && !is_complete(leaf));
        let (true, Some(hurt)) = (is_last, hurt.next()) else {
            return Ok(());
        };
        let message = format!(
            "{} is {}, and without {} {}",
            hurt.name,
            match hurt.state {
                DeviceState::Online => "without all data",
                state => word(state),
            },
            self.device.name,
            survives(&self.after)
        );
        Err(
            Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
                "nothing was changed. `bulkhead pool replace-disk {} {}` repairs the group first; if you intend the change, add {flag}",
                self.pool, hurt.name
            )),
        )
    }

    /// The redundancy that is left, in a sentence.
    pub fn sentence(&self) -> String {
        let complete = leaves(&self.after);
        let mut complete = complete.into_iter().filter(|leaf| is_complete(leaf));
        let group = &self.before.name;
        match (self.before.kind.as_str(), complete.next(), complete.next()) {
            ("mirror", Some(only), None) => format!(
                "{0} is the only device with the data of {group} now: if it fails, pool {1} is lost; `bulkhead pool attach \
                 {1} {0} DEVICE` adds another copy",
                only.name, self.pool
            ),
            _ => survives(&self.after),
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::pool::Role;

    use super::*;
    use crate::replace;

    fn device(name: &str, kind: &str, state: DeviceState) -> DeviceStatus {
        DeviceStatus {
            guid: name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)),
            ..replace::tests::device(name, kind, state)
        }
    }

    fn leaf(name: &str, state: DeviceState) -> DeviceStatus {
        device(name, "file", state)
    }

    fn group(name: &str, kind: &str, children: Vec<DeviceStatus>) -> DeviceStatus {
        DeviceStatus {
            children,
            ..device(name, kind, DeviceState::Online)
        }
    }

    fn pool(group: DeviceStatus) -> PoolStatus {
        PoolStatus {
            devices: vec![group],
            ..replace::tests::mirror(Vec::new())
        }
    }

    const UP: DeviceState = DeviceState::Online;
    const DOWN: DeviceState = DeviceState::Faulted;

    /// A mirror with a side that a spare replaces.
    fn with_spare() -> PoolStatus {
        let spared = group("spare-1", "spare", vec![leaf("/b", DOWN), leaf("/s", UP)]);
        pool(group("mirror-0", "mirror", vec![leaf("/a", UP), spared]))
    }

    #[test]
    fn last_redundancy_of_a_degraded_group_needs_confirmation() {
        let three = |third| {
            let sides = vec![leaf("/a", UP), leaf("/b", UP), leaf("/c", third)];
            pool(group("mirror-0", "mirror", sides))
        };
        let raidz = |third| {
            let sides = vec![leaf("/a", UP), leaf("/b", UP), leaf("/c", third)];
            pool(group("raidz2-0", "raidz", sides))
        };
        let two = pool(group(
            "mirror-0",
            "mirror",
            vec![leaf("/a", UP), leaf("/b", UP)],
        ));
        for (what, status, device, hurt) in [
            ("a whole mirror", &two, "/a", None),
            ("three sides", &three(UP), "/a", None),
            (
                "three sides, one lost",
                &three(DOWN),
                "/a",
                Some("/c is FAULTED"),
            ),
            ("the lost side", &three(DOWN), "/c", None),
            (
                "a spare is in use",
                &with_spare(),
                "/a",
                Some("/b is FAULTED"),
            ),
            (
                "the spare itself",
                &with_spare(),
                "/s",
                Some("/b is FAULTED"),
            ),
            ("the replaced side", &with_spare(), "/b", None),
            (
                "raidz2, one lost",
                &raidz(DOWN),
                "/a",
                Some("/c is FAULTED"),
            ),
        ] {
            let left = after_offline(status, device).expect("a device with data");
            let refused = left.refuse_none("--flag").err();
            let message = refused.as_ref().map(|failure| failure.message.as_str());
            let is_right = match hurt {
                None => message.is_none(),
                Some(hurt) => message.is_some_and(|message| {
                    message.starts_with(hurt) && message.ends_with("survives no loss of a device")
                }),
            };
            assert!(is_right, "{what}: {message:?}");
        }
    }

    #[test]
    fn redundancy_that_is_left_is_in_the_words_of_a_plan() {
        let sides = || vec![leaf("/a", UP), leaf("/b", UP), leaf("/c", UP)];
        let mirror = pool(group("mirror-0", "mirror", sides()));
        let left = after_detach(&mirror, "/a").expect("a device with data");
        assert_eq!(left.sentence(), "mirror-0 survives the loss of one device");
        let raidz = pool(group("raidz1-0", "raidz", sides()));
        let left = after_offline(&raidz, "/a").expect("a device with data");
        assert_eq!(left.sentence(), "raidz1-0 survives no loss of a device");
        let spared = with_spare();
        let kept = after_detach(&spared, "/b").expect("a device with data");
        assert_eq!(kept.sentence(), "mirror-0 survives the loss of one device");
        let alone = after_detach(&spared, "/a").expect("a device with data");
        assert!(
            alone
                .sentence()
                .starts_with("/s is the only device with the data of mirror-0"),
            "{}",
            alone.sentence()
        );
        let mut log = group("mirror-1", "mirror", sides());
        log.role = Role::Log;
        assert!(after_detach(&pool(log), "/a").is_none());
    }
}
