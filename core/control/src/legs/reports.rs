//! The members of a record as each head reaches them. The server of a pool sees its own connections only, and a
//! takeover depends on those of the other head: a witness that does not accept its certificate has no vote for it.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LegsView, Survives};

/// The file in the state directory in which the leg-server of a head publishes its connections.
pub const CONNECTIONS: &str = "legs/connections.json";
/// A report that is older is out of date: the leg-server does not run, or hangs.
pub const REPORT_AGE_MAX_MS: u64 = 20_000;
/// Why a head that responds has no report.
pub const NO_REPORT: &str = "its bulkhead-leg-server does not run, or is of an earlier release";
/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Whether a member responds to a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberResponse {
    /// It is connected.
    Responds,
    /// It is not connected.
    #[default]
    Unreachable,
    /// One side does not accept the certificate of the other.
    Refused,
}

/// The connection of a head to a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberConnection {
    /// Whether it responds.
    pub state: MemberResponse,
    /// Whether it stores the record only, without a disk.
    #[serde(default)]
    pub is_witness: bool,
    /// Why it does not respond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The connections of the leg-server of a head to the other members, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberReport {
    /// The time of the report, in milliseconds since 1970.
    pub at_ms: u64,
    /// The members that `legs.toml` of the head names.
    pub members: BTreeMap<String, MemberConnection>,
}

impl MemberReport {
    /// Reads the report of this host's leg-server. `None` if there is none that is up to date.
    pub fn read(state_dir: &Path, now_ms: u64) -> Option<Self> {
        let path = state_dir.join(CONNECTIONS);
        let is_short = std::fs::metadata(&path).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
        let bytes = is_short.then(|| std::fs::read(&path).ok()).flatten()?;
        let report: Self = serde_json::from_slice(&bytes).ok()?;
        let age_ms = now_ms.abs_diff(report.at_ms);
        (age_ms <= REPORT_AGE_MAX_MS).then_some(report)
    }

    /// Publishes the report for other processes of this host.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn publish(&self, state_dir: &Path) -> std::io::Result<()> {
        let path = state_dir.join(CONNECTIONS);
        let new = path.with_extension("new");
        // Not durable: it only has to be valid while the process runs.
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(&new, &path)
    }
}

/// The result of the query of a head for its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadReport {
    /// Its report.
    Members(MemberReport),
    /// It did not send a report, with the reason.
    Unknown {
        /// The reason, in words.
        why: String,
        /// Whether it has no report for longer than a head needs to start.
        is_lasting: bool,
    },
}

/// Why a head could not open a pool after the loss of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The member that does not respond.
    pub(crate) member: String,
    /// The reason, in words.
    pub(crate) why: String,
    /// The action that removes it.
    pub(crate) action: String,
    /// Whether a certificate is refused, which does not change by itself.
    pub(crate) is_refusal: bool,
}

/// Whether a head could open a pool after the loss of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// It could. A member without a decisive vote may refuse its certificate.
    Able(Option<Obstacle>),
    /// Too few members respond to it.
    Unable(Obstacle),
    /// It is unknown, with the reason.
    Unknown { why: String, is_lasting: bool },
}

/// Whether `head` could open the pool of these legs, by its own report. `lost`: the server, if it is lost; its leg-server
/// responds during a move.
pub(crate) fn ability(
    view: &LegsView,
    lost: Option<&str>,
    head: &str,
    report: &HeadReport,
) -> Ability {
    let report = match report {
        HeadReport::Members(report) => report,
        HeadReport::Unknown { why, is_lasting } => {
            return Ability::Unknown {
                why: why.clone(),
                is_lasting: *is_lasting,
            };
        }
    };
    let responds = |name: &str| {
        let connection = report.members.get(name);
        connection.is_some_and(|one| one.state == MemberResponse::Responds)
    };
    let names = view.members.iter().map(|one| one.name.as_str());
    let others: Vec<&str> = names.filter(|name| *name != head).collect();
    // Two heads alone: it must have the record of the other one. Of three members two decide.
    let needed: Vec<&str> = match others.len() {
        0 => return Ability::Able(None),
        1 => others,
        _ => others
            .into_iter()
            .filter(|name| Some(*name) != lost)
            .collect(),
    };
    let (responding, missing): (Vec<&str>, Vec<&str>) =
        needed.into_iter().partition(|name| responds(name));
    let missing = missing.into_iter();
    let mut obstacles: Vec<Obstacle> = missing
        .map(|name| obstacle(view, head, name, report.members.get(name)))
        .collect();
    // A refusal is the part that an administrator must repair.
    obstacles.sort_by_key(|one| !one.is_refusal);
    let first = obstacles.into_iter().next();
    match (responding.is_empty(), first) {
        (true, Some(first)) => Ability::Unable(first),
        (_, first) => Ability::Able(first.filter(|one| one.is_refusal)),
    }
}

/// Checks whether a pool with these legs can be moved to `head`. Returns a remark if that is unknown.
///
/// # Errors
///
/// Too few members respond to `head`: the reason, and the action that removes it.
pub fn may_move(
    view: &LegsView,
    head: &str,
    report: &HeadReport,
) -> Result<Option<String>, (String, String)> {
    match ability(view, None, head, report) {
        Ability::Able(_) => Ok(None),
        Ability::Unable(obstacle) => Err((obstacle.why, obstacle.action)),
        Ability::Unknown { why, .. } => Ok(Some(format!(
            "it is unknown which members of the record respond to {head}: {why}"
        ))),
    }
}

/// Why `member` does not count for `head`, and the remedy.
fn obstacle(
    view: &LegsView,
    head: &str,
    member: &str,
    found: Option<&MemberConnection>,
) -> Obstacle {
    let listed = view.members.iter().find(|one| one.name == member);
    let is_witness = listed.is_some_and(|one| one.is_witness);
    let called = match is_witness {
        true => format!("the witness {member}"),
        false => member.to_owned(),
    };
    let reason = |text: Option<&String>| text.map_or_else(String::new, |text| format!(" ({text})"));
    match found {
        None => Obstacle {
            member: member.to_owned(),
            why: format!("legs.toml of {head} does not name {called}"),
            action: format!(
                "write the same legs.toml on each head, but for `me` and the key, and restart bulkhead-leg-server on {head}"
            ),
            is_refusal: true,
        },
        Some(one) if one.state == MemberResponse::Refused => Obstacle {
            member: member.to_owned(),
            why: format!(
                "{called} and {head} do not accept the certificates of each other{}",
                reason(one.why.as_ref())
            ),
            action: match is_witness {
                true => format!(
                    "run `bulkhead leg-server fingerprint` on {head}, write the fingerprint into the `--head` option of {head} in \
                     /etc/bulkhead/witness.conf on {member}, and restart it there by `systemctl restart bulkhead-witness`; then compare `bulkhead-witness \
                     identity` there with legs.toml of {head}"
                ),
                false => format!(
                    "run `bulkhead leg-server fingerprint` on {head}, write the fingerprint into legs.toml of {member}, and restart bulkhead-leg-server \
                     there (of an appliance: into its file, then `bulkhead appliance apply`)"
                ),
            },
            is_refusal: true,
        },
        Some(one) => Obstacle {
            member: member.to_owned(),
            why: format!(
                "{called} does not respond to {head}{}",
                reason(one.why.as_ref())
            ),
            action: match is_witness {
                true => format!(
                    "start bulkhead-witness on {member}, and repair the network between it and {head}"
                ),
                false => format!(
                    "start bulkhead-leg-server on {member}, and repair the network between it and {head}"
                ),
            },
            is_refusal: false,
        },
    }
}

impl Survives {
    /// Excludes heads of which it is unknown whether they could serve the pool. `server`: the head that serves it now.
    pub(crate) fn doubt(&mut self, server: &str, unknown: BTreeMap<String, String>) {
        if unknown.is_empty() {
            return;
        }
        let is_certain = |head: &String| {
            head != server && !self.cannot_serve.contains_key(head) && !unknown.contains_key(head)
        };
        let all = self
            .heads
            .iter()
            .chain(&self.not_heads)
            .chain(&self.uncertain_heads);
        let has_certain = all.clone().any(is_certain);
        if !has_certain {
            if let Some(at) = self.heads.iter().position(|head| head == server) {
                let server = self.heads.remove(at);
                self.uncertain_heads.push(server);
            }
        }
        self.unknown = unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legs::LegMemberView;

    fn view(members: &[&str]) -> LegsView {
        let member = |name: &&str| LegMemberView {
            name: (*name).to_owned(),
            is_witness: *name == "third",
            answers: true,
            ..LegMemberView::default()
        };
        LegsView {
            members: members.iter().map(member).collect(),
            ..LegsView::default()
        }
    }

    fn report(members: &[(&str, MemberResponse)]) -> HeadReport {
        let members = members.iter().map(|(name, state)| {
            let connection = MemberConnection {
                state: *state,
                ..MemberConnection::default()
            };
            ((*name).to_owned(), connection)
        });
        HeadReport::Members(MemberReport {
            at_ms: 1,
            members: members.collect(),
        })
    }

    #[test]
    fn witness_that_refuses_the_other_head_makes_it_unable() {
        use MemberResponse::{Refused, Responds, Unreachable};
        let three = view(&["left", "right", "third"]);
        let of = |members: &[(&str, MemberResponse)]| {
            ability(&three, Some("left"), "right", &report(members))
        };
        assert_eq!(
            of(&[("left", Responds), ("third", Responds)]),
            Ability::Able(None)
        );
        let Ability::Unable(refused) = of(&[("left", Responds), ("third", Refused)]) else {
            panic!("the witness has no vote for it");
        };
        assert!(refused.is_refusal);
        for part in [
            "`bulkhead leg-server fingerprint` on right",
            "on third",
            "systemctl restart bulkhead-witness",
        ] {
            assert!(refused.action.contains(part), "{part}: {}", refused.action);
        }
        let Ability::Unable(lost) = of(&[("left", Responds), ("third", Unreachable)]) else {
            panic!("the witness has no vote for it");
        };
        assert!(
            !lost.is_refusal && lost.why.contains("does not respond to right"),
            "{lost:?}"
        );
        let Ability::Unable(unnamed) = of(&[("left", Responds)]) else {
            panic!("the witness is not in its file");
        };
        assert!(
            unnamed.why.contains("does not name the witness third"),
            "{unnamed:?}"
        );
    }

    #[test]
    fn third_head_is_a_quorum_and_two_heads_need_the_record_of_each_other() {
        use MemberResponse::{Refused, Responds, Unreachable};
        let heads = view(&["left", "right", "middle"]);
        let of = |members: &[(&str, MemberResponse)]| {
            ability(&heads, Some("left"), "right", &report(members))
        };
        assert_eq!(
            of(&[("left", Unreachable), ("middle", Responds)]),
            Ability::Able(None)
        );
        assert!(matches!(
            of(&[("left", Responds), ("middle", Refused)]),
            Ability::Unable(_)
        ));
        let two = view(&["left", "right"]);
        let of = |state| ability(&two, Some("left"), "right", &report(&[("left", state)]));
        assert_eq!(of(Responds), Ability::Able(None));
        assert!(
            matches!(of(Refused), Ability::Unable(one) if one.action.contains("legs.toml of left"))
        );
    }

    /// The leg-server of the head that the pool leaves responds: the witness is not needed.
    #[test]
    fn pool_moves_to_a_head_that_two_members_respond_to() {
        use MemberResponse::{Refused, Responds, Unreachable};
        let three = view(&["left", "right", "third"]);
        let of = |members: &[(&str, MemberResponse)]| may_move(&three, "right", &report(members));
        assert_eq!(of(&[("left", Responds), ("third", Refused)]), Ok(None));
        let (why, action) = of(&[("left", Refused), ("third", Unreachable)]).expect_err("alone");
        assert!(why.contains("left and right do not accept"), "{why}");
        assert!(action.contains("legs.toml of left"), "{action}");
        let unknown = HeadReport::Unknown {
            why: "no report".to_owned(),
            is_lasting: false,
        };
        let remark = may_move(&three, "right", &unknown).expect("not refused");
        assert!(remark.expect("a remark").contains("no report"));
    }

    #[test]
    fn head_without_a_report_is_unknown() {
        let three = view(&["left", "right", "third"]);
        let unknown = HeadReport::Unknown {
            why: "no report".to_owned(),
            is_lasting: true,
        };
        let found = ability(&three, Some("left"), "right", &unknown);
        assert!(
            matches!(
                found,
                Ability::Unknown {
                    is_lasting: true,
                    ..
                }
            ),
            "{found:?}"
        );
    }

    #[test]
    fn report_is_read_while_it_is_up_to_date() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("legs")).expect("made");
        assert_eq!(MemberReport::read(folder.path(), 1), None);
        let HeadReport::Members(report) = report(&[("third", MemberResponse::Refused)]) else {
            panic!("a report");
        };
        report.publish(folder.path()).expect("written");
        assert_eq!(
            MemberReport::read(folder.path(), 1 + REPORT_AGE_MAX_MS),
            Some(report)
        );
        assert_eq!(
            MemberReport::read(folder.path(), 2 + REPORT_AGE_MAX_MS),
            None
        );
        std::fs::write(folder.path().join(CONNECTIONS), "{").expect("written");
        assert_eq!(MemberReport::read(folder.path(), 1), None);
    }
}
