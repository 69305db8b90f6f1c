//! Whether Pacemaker may start a pool at any time, so that no other process may open it.

use std::path::Path;
use std::time::Duration;

use appliance::render::pool_id;
use appliance::xml::Element;
use units::PoolName;

use crate::host::Host;
use crate::process::Invocation;

/// `CRM_EX_NOSUCH`: the requested item is not in the configuration.
const EXIT_NO_SUCH_THING: i32 = 105;

/// Maximum length of the reason of a boot that waits, in characters.
const REASON_CHARS_MAX: usize = 400;

/// Where agents store their notes.
const RUN_DIR: &str = "/run/bulkhead";

/// Time-out of a query of the pool's head.
const LOCATE_WAIT: Duration = Duration::from_secs(5);

/// Pacemaker's handling of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolManagement {
    /// No Pacemaker responds on this host; one on another head may have the pool.
    Unknown,
    /// It has no such pool.
    Absent,
    /// It holds the pool stopped until an administrator starts it.
    Stopped,
    /// It starts and stops the pool.
    Managed,
}

impl PoolManagement {
    /// Whether the cluster certainly has the pool.
    pub const fn is_in_cluster(self) -> bool {
        matches!(self, Self::Stopped | Self::Managed)
    }
}

/// Queries the Pacemaker of `machine`.
pub fn pool_management(machine: &dyn Host, pool: &PoolName) -> PoolManagement {
    let query = format!("//primitive[@id='{}']", pool_id(pool));
    let invocation = Invocation::new("cibadmin", &["--query", "--xpath", &query]);
    let Ok(output) = machine.run(&invocation) else {
        return PoolManagement::Unknown;
    };
    match output.code {
        0 => Element::parse(&output.text())
            .map_or(PoolManagement::Managed, |resource| standing(&resource)),
        EXIT_NO_SUCH_THING => PoolManagement::Absent,
        _ => PoolManagement::Unknown,
    }
}

/// Returns why Pacemaker is not started on a head that boots alone, if the witness must confirm that the other head is not
/// alive.
pub fn boot_wait_reason() -> Option<String> {
    let text = std::fs::read_to_string(appliance::render::AWAIT_HEADS_REASON_PATH).ok()?;
    let reason: String = text.trim().chars().take(REASON_CHARS_MAX).collect();
    (!reason.is_empty()).then_some(reason)
}

/// Returns why `fence_bulkhead` last refused on this head to power `head` off, as it notes.
pub fn power_off_refusal(head: &str) -> Option<String> {
    let note = Path::new(RUN_DIR).join(format!("fence-{head}.refused"));
    refusal_in(&std::fs::read_to_string(note).ok()?)
}

/// The note has the time since the boot in its first line.
fn refusal_in(note: &str) -> Option<String> {
    let (_, reason) = note.split_once('\n')?;
    let reason: String = reason.trim().chars().take(REASON_CHARS_MAX).collect();
    (!reason.is_empty()).then_some(reason)
}

/// Whether the Pacemaker of `machine` runs the pool on `head`. A server that was started by hand is not included.
pub fn is_run_on(machine: &dyn Host, pool: &PoolName, head: &str) -> bool {
    let heads = heads_of(machine, pool).unwrap_or_default();
    heads.iter().any(|found| found == head)
}

/// The head on which the Pacemaker of `machine` runs the pool; `Some(None)` if it runs on none, and `None` if Pacemaker
/// does not respond.
pub fn server_of(machine: &dyn Host, pool: &PoolName) -> Option<Option<String>> {
    Some(heads_of(machine, pool)?.into_iter().next())
}

/// Whether the Pacemaker of `machine` has quorum; true if it does not respond. Without quorum it does not see the
/// heads that may serve the pool.
pub fn has_quorum(machine: &dyn Host) -> bool {
    let invocation = Invocation::new("crm_mon", &["--output-as", "xml"]).within(LOCATE_WAIT);
    let output = machine.run(&invocation).ok();
    let output = output.filter(|output| output.code == 0);
    let monitor = output.and_then(|output| Element::parse(&output.text()).ok());
    monitor.is_none_or(|monitor| {
        let summary = monitor.child("summary");
        let decides = summary.and_then(|summary| summary.child("current_dc"));
        decides.and_then(|dc| dc.attribute("with_quorum")) != Some("false")
    })
}

fn heads_of(machine: &dyn Host, pool: &PoolName) -> Option<Vec<String>> {
    let invocation = Invocation::new("crm_resource", &["--resource", &pool_id(pool), "--locate"]);
    let output = machine.run(&invocation.within(LOCATE_WAIT)).ok()?;
    // "resource pool-tank is running on: left"
    let text = output.text();
    let places = text
        .lines()
        .filter_map(|line| line.split_once("running on:"));
    let heads = places.flat_map(|(_, head)| head.split_whitespace());
    (output.code == 0).then(|| heads.map(str::to_owned).collect())
}

fn standing(resource: &Element) -> PoolManagement {
    let metas = resource.children.iter();
    let metas = metas.filter(|child| child.name == "meta_attributes");
    let mut pairs = metas.flat_map(|meta| &meta.children);
    let is_stopped = |pair: &Element| {
        pair.attribute("name") == Some("target-role")
            && pair
                .attribute("value")
                .is_some_and(|role| role.eq_ignore_ascii_case("stopped"))
    };
    match pairs.any(is_stopped) {
        true => PoolManagement::Stopped,
        false => PoolManagement::Managed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Output, RunError};

    /// A host with this exit code and output of `cibadmin`.
    struct Tool(i32, &'static str);

    impl Host for Tool {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            assert_eq!(invocation.program, "cibadmin");
            Ok(Output {
                code: self.0,
                stdout: self.1.as_bytes().to_vec(),
                stderr: Vec::new(),
            })
        }
    }

    #[test]
    fn pool_location_follows_pacemaker() {
        struct Located(&'static str);
        impl Host for Located {
            fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
                assert_eq!(invocation.program, "crm_resource");
                Ok(Output {
                    stdout: self.0.as_bytes().to_vec(),
                    ..Output::default()
                })
            }
        }
        let pool = "tank".parse().expect("a good name");
        for (said, expected) in [
            ("resource pool-tank is running on: left\n", true),
            ("resource pool-tank is running on: left \n", true),
            ("resource pool-tank is running on: lefty\n", false),
            ("resource pool-tank is NOT running\n", false),
            ("", false),
        ] {
            assert_eq!(is_run_on(&Located(said), &pool, "left"), expected, "{said}");
            let other = said.contains("lefty").then(|| "lefty".to_owned());
            let head = expected.then(|| "left".to_owned()).or(other);
            assert_eq!(server_of(&Located(said), &pool), Some(head), "{said}");
        }
    }

    #[test]
    fn pacemaker_without_quorum_is_distinguished_from_one_that_does_not_respond() {
        struct Monitor(i32, &'static str);
        impl Host for Monitor {
            fn run(&self, _: &Invocation) -> Result<Output, RunError> {
                let text = format!(
                    r#"<pacemaker-result><summary><current_dc present="true" with_quorum="{}"/></summary></pacemaker-result>"#,
                    self.1
                );
                Ok(Output {
                    code: self.0,
                    stdout: text.into_bytes(),
                    ..Output::default()
                })
            }
        }
        assert!(has_quorum(&Monitor(0, "true")));
        assert!(!has_quorum(&Monitor(0, "false")));
        assert!(has_quorum(&Monitor(102, "false")));
    }

    #[test]
    fn silent_pacemaker_has_no_location() {
        struct Silent;
        impl Host for Silent {
            fn run(&self, _: &Invocation) -> Result<Output, RunError> {
                Ok(Output {
                    code: 102,
                    ..Output::default()
                })
            }
        }
        let pool = "tank".parse().expect("a good name");
        assert_eq!(server_of(&Silent, &pool), None);
    }

    #[test]
    fn only_pool_with_target_role_stopped_may_be_opened() {
        const STOPPED: &str = r#"<primitive id="pool-tank" class="ocf" provider="bulkhead" type="pool">
            <meta_attributes id="m"><nvpair id="n" name="target-role" value="Stopped"/></meta_attributes></primitive>"#;
        const STARTED: &str = r#"<primitive id="pool-tank" class="ocf" provider="bulkhead" type="pool">
            <meta_attributes id="m"><nvpair id="n" name="target-role" value="Started"/></meta_attributes></primitive>"#;
        const PLAIN: &str =
            r#"<primitive id="pool-tank" class="ocf" provider="bulkhead" type="pool"/>"#;
        let pool = "tank".parse().expect("a good name");
        for (code, said, expected) in [
            (0, STOPPED, PoolManagement::Stopped),
            (0, STARTED, PoolManagement::Managed),
            (0, PLAIN, PoolManagement::Managed),
            (0, "no xml", PoolManagement::Managed),
            (105, "", PoolManagement::Absent),
            (102, "", PoolManagement::Unknown),
        ] {
            let found = pool_management(&Tool(code, said), &pool);
            assert_eq!(found, expected, "{code} {said}");
        }
    }

    #[test]
    fn the_reason_of_a_refused_power_off_follows_its_time() {
        let reason = refusal_in("81234\nthe witness does not respond\n");
        assert_eq!(reason.as_deref(), Some("the witness does not respond"));
        for none in ["", "81234", "81234\n", "81234\n \n"] {
            assert_eq!(refusal_in(none), None, "{none:?}");
        }
    }
}
