//! SendTargets (RFC 7143 appendix C): lists targets and their portals.

use std::net::SocketAddr;

use units::IscsiName;

use super::text::{REJECT, ResponsePairs};

/// A target that is visible to an initiator.
#[derive(Clone, Debug)]
pub struct VisibleTarget {
    /// Its name.
    pub name: IscsiName,
    /// Its portals, with their groups.
    pub portals: Vec<(SocketAddr, u16)>,
}

/// A malformed value of SendTargets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SendTargets is neither All, nor empty, nor an iSCSI name")]
pub struct MalformedSendTargets;

/// Handles `SendTargets=value`. In a normal session (`own` is its target) only the own target is
/// listed. `All` belongs to discovery sessions (appendix C), but initiators send it in normal ones,
/// too. It returns the same as the empty value, which is permitted there.
pub fn send_targets(
    value: &str,
    own: Option<&IscsiName>,
    visible: &[VisibleTarget],
    answers: &mut ResponsePairs,
) -> Result<(), MalformedSendTargets> {
    let wanted = match (value, own) {
        ("All", None) => None,
        ("All" | "", Some(own)) => Some(own.clone()),
        ("", None) => {
            answers.add("SendTargets", REJECT);
            return Ok(());
        }
        (name, own) => {
            let name: IscsiName = name.parse().map_err(|_| MalformedSendTargets)?;
            if own.is_some_and(|own| *own != name) {
                answers.add("SendTargets", REJECT);
                return Ok(());
            }
            Some(name)
        }
    };
    for target in visible {
        if wanted.as_ref().is_some_and(|name| *name != target.name) {
            continue;
        }
        answers.add("TargetName", &target.name);
        for (address, group) in &target.portals {
            answers.add("TargetAddress", format_args!("{address},{group}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible() -> Vec<VisibleTarget> {
        let target = |name: &str| VisibleTarget {
            name: name.parse().unwrap(),
            portals: vec![
                ("127.0.0.1:3260".parse().unwrap(), 1),
                ("[::1]:3260".parse().unwrap(), 2),
            ],
        };
        vec![target("iqn.2026-01.a:one"), target("iqn.2026-01.a:two")]
    }

    fn ask(value: &str, own: Option<&str>) -> String {
        let own = own.map(|own| own.parse().unwrap());
        let mut answers = ResponsePairs::default();
        send_targets(value, own.as_ref(), &visible(), &mut answers).unwrap();
        String::from_utf8(answers.into_bytes())
            .unwrap()
            .replace('\0', ";")
    }

    #[test]
    fn all_targets_come_with_all_portals() {
        assert_eq!(
            ask("All", None),
            "TargetName=iqn.2026-01.a:one;TargetAddress=127.0.0.1:3260,1;\
             TargetAddress=[::1]:3260,2;TargetName=iqn.2026-01.a:two;\
             TargetAddress=127.0.0.1:3260,1;TargetAddress=[::1]:3260,2;"
        );
    }

    #[test]
    fn a_normal_session_sees_only_its_own_target() {
        let own = ask("All", Some("iqn.2026-01.a:one"));
        assert_eq!(own, ask("", Some("iqn.2026-01.a:one")));
        assert!(!own.contains(":two"));
        assert_eq!(
            ask("iqn.2026-01.a:two", Some("iqn.2026-01.a:one")),
            "SendTargets=Reject;"
        );
        assert!(ask("", Some("iqn.2026-01.a:two")).starts_with("TargetName=iqn.2026-01.a:two;"));
    }

    #[test]
    fn invalid_send_targets_value_is_malformed() {
        for value in ["Alle", "A", "all", "*"] {
            let malformed = send_targets(value, None, &visible(), &mut ResponsePairs::default());
            assert_eq!(malformed, Err(MalformedSendTargets), "{value}");
        }
    }

    #[test]
    fn unknown_target_returns_no_records() {
        assert_eq!(ask("iqn.2026-01.a:three", None), "");
    }
}
