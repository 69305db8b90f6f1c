//! Publishes which members respond to this head. The server of a pool on the other head reads it through the heads'
//! daemons: its own connections do not show whether this head could take the pool over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use control::legs::reports::{MemberConnection, MemberReport, MemberResponse, REPORT_AGE_MAX_MS};
use leg_record::MemberId;
use legs_config::{Kind, LegsFile};
use members::{LinkState, Links};

/// Interval of checks for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of reports without a change: a report is valid for [`REPORT_AGE_MAX_MS`].
const REPORT_INTERVAL: Duration = Duration::from_millis(REPORT_AGE_MAX_MS / 4);

/// Starts to publish, on a thread of its own, until the connections are closed: a blocked disk must not delay the
/// heartbeats. `folder`: the records, in the state directory.
pub(crate) fn start(links: &Arc<Links>, file: Arc<LegsFile>, folder: &Path) -> std::io::Result<()> {
    let (links, folder) = (Arc::downgrade(links), folder.to_owned());
    let thread = std::thread::Builder::new().name("leg-connections".into());
    let publish = move || {
        let mut last = None::<(MemberReport, Instant)>;
        while let Some(links) = links.upgrade() {
            let report = report(&file, &links.states());
            drop(links);
            let is_known = last.as_ref().is_some_and(|(known, at)| {
                known.members == report.members && at.elapsed() < REPORT_INTERVAL
            });
            if !is_known {
                match report.publish(&state_of(&folder)) {
                    Ok(()) => last = Some((report, Instant::now())),
                    Err(error) => {
                        tracing::warn!(%error, "the connections to the members cannot be published");
                    }
                }
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
    };
    thread.spawn(publish).map(drop)
}

/// The state directory with the directory of the records.
fn state_of(folder: &Path) -> PathBuf {
    folder.parent().map(Path::to_owned).unwrap_or_default()
}

/// A member that no connection was made to yet is unreachable: a member that is missing in the report is one that the
/// configuration does not name.
fn report(file: &LegsFile, states: &BTreeMap<MemberId, LinkState>) -> MemberReport {
    let membership = file.membership();
    let heads = membership
        .heads()
        .iter()
        .copied()
        .filter(|head| *head != file.me());
    let members = heads.chain(membership.witness()).map(|member| {
        let (state, why) = match states.get(&member) {
            Some(LinkState::Connected(_)) => (MemberResponse::Responds, None),
            Some(LinkState::Lost(why)) => (MemberResponse::Unreachable, Some(why.clone())),
            Some(LinkState::Stranger(why)) => (MemberResponse::Refused, Some(why.clone())),
            None => (
                MemberResponse::Unreachable,
                Some("no connection yet".to_owned()),
            ),
        };
        let kind = file.member(member).map(|one| one.kind);
        let connection = MemberConnection {
            state,
            is_witness: kind == Some(Kind::Witness),
            why,
        };
        (file.name(member), connection)
    });
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    MemberReport {
        at_ms: now.as_millis() as u64,
        members: members.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> LegsFile {
        let member = |name: &str, number: u64, kind: &str, lends: &str| {
            format!(
                "[members.{name}]\nnumber = {number}\nkind = \"{kind}\"\nmembers = [\"10.9.1.{number}:7071\"]\n{lends}fingerprint = \"{}\"\n",
                format!("0{number}").repeat(32)
            )
        };
        let text = format!(
            "me = \"a\"\ncertificate = \"/c\"\nkey = \"/k\"\n{}{}{}",
            member("a", 1, "head", "lends = [\"10.9.1.1:7072\"]\n"),
            member("b", 2, "head", "lends = [\"10.9.1.2:7072\"]\n"),
            member("w", 3, "witness", ""),
        );
        legs_config::parse(&text).expect("well formed")
    }

    #[test]
    fn report_distinguishes_a_refused_certificate_from_a_lost_connection() {
        let of = |states: &[(u64, LinkState)]| {
            let states = states
                .iter()
                .map(|(number, state)| (MemberId(*number), state.clone()));
            let report = report(&file(), &states.collect());
            let found = report.members.into_iter();
            found
                .map(|(name, one)| (name, one.state, one.is_witness))
                .collect::<Vec<_>>()
        };
        let (b, w) = ("b".to_owned(), "w".to_owned());
        let refused = LinkState::Stranger("unknown certificate".to_owned());
        let lost = LinkState::Lost("connection refused".to_owned());
        let connected = LinkState::Connected("10.9.1.3:7071".parse().expect("an address"));
        use MemberResponse::{Refused, Responds, Unreachable};
        assert_eq!(
            of(&[(2, lost), (3, refused)]),
            [(b.clone(), Unreachable, false), (w.clone(), Refused, true)]
        );
        assert_eq!(
            of(&[(3, connected)]),
            [(b, Unreachable, false), (w, Responds, true)]
        );
    }
}
