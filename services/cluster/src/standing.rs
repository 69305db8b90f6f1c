//! Whether Pacemaker may start a pool at any time, so that no other process may open it.

use appliance::render::pool_id;
use appliance::xml::Element;
use units::PoolName;

use crate::machine::Machine;
use crate::process::Invocation;

/// `CRM_EX_NOSUCH`: the requested item is not in the configuration.
const EXIT_NO_SUCH_THING: i32 = 105;

/// Maximum length of the reason of a boot that waits, in characters.
const REASON_CHARS_MAX: usize = 400;

/// Pacemaker's handling of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolStanding {
    /// No Pacemaker responds on this host; one on another head may have the pool.
    Unknown,
    /// It has no such pool.
    Absent,
    /// It holds the pool stopped until an administrator starts it.
    Stopped,
    /// It starts and stops the pool.
    Managed,
}

/// Queries the Pacemaker of `machine`.
pub fn pool_standing(machine: &dyn Machine, pool: &PoolName) -> PoolStanding {
    let query = format!("//primitive[@id='{}']", pool_id(pool));
    let invocation = Invocation::new("cibadmin", &["--query", "--xpath", &query]);
    let Ok(output) = machine.run(&invocation) else {
        return PoolStanding::Unknown;
    };
    match output.code {
        0 => Element::parse(&output.text())
            .map_or(PoolStanding::Managed, |resource| standing(&resource)),
        EXIT_NO_SUCH_THING => PoolStanding::Absent,
        _ => PoolStanding::Unknown,
    }
}

/// Returns why Pacemaker is not started on a head that boots alone, if the witness must confirm that the other head is not
/// alive.
pub fn boot_wait_reason() -> Option<String> {
    let text = std::fs::read_to_string(appliance::render::AWAIT_HEADS_REASON_PATH).ok()?;
    let reason: String = text.trim().chars().take(REASON_CHARS_MAX).collect();
    (!reason.is_empty()).then_some(reason)
}

/// Whether the Pacemaker of `machine` runs the pool on `head`. A server that was started by hand is not included.
pub fn is_run_on(machine: &dyn Machine, pool: &PoolName, head: &str) -> bool {
    let invocation = Invocation::new("crm_resource", &["--resource", &pool_id(pool), "--locate"]);
    // "resource pool-tank is running on: left"
    let Ok(output) = machine.run(&invocation) else {
        return false;
    };
    let text = output.text();
    let places = text
        .lines()
        .filter_map(|line| line.split_once("running on:"));
    let mut heads = places.flat_map(|(_, head)| head.split_whitespace());
    heads.any(|found| found == head)
}

fn standing(resource: &Element) -> PoolStanding {
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
        true => PoolStanding::Stopped,
        false => PoolStanding::Managed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Output, RunError};

    /// A host with this exit code and output of `cibadmin`.
    struct Tool(i32, &'static str);

    impl Machine for Tool {
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
    fn a_pool_runs_where_pacemaker_says_so() {
        struct Located(&'static str);
        impl Machine for Located {
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
        }
    }

    #[test]
    fn only_a_pool_that_is_told_to_stay_stopped_is_left_to_others() {
        const STOPPED: &str = r#"<primitive id="pool-tank" class="ocf" provider="bulkhead" type="pool">
            <meta_attributes id="m"><nvpair id="n" name="target-role" value="Stopped"/></meta_attributes></primitive>"#;
        const STARTED: &str = r#"<primitive id="pool-tank" class="ocf" provider="bulkhead" type="pool">
            <meta_attributes id="m"><nvpair id="n" name="target-role" value="Started"/></meta_attributes></primitive>"#;
        const PLAIN: &str =
            r#"<primitive id="pool-tank" class="ocf" provider="bulkhead" type="pool"/>"#;
        let pool = "tank".parse().expect("a good name");
        for (code, said, expected) in [
            (0, STOPPED, PoolStanding::Stopped),
            (0, STARTED, PoolStanding::Managed),
            (0, PLAIN, PoolStanding::Managed),
            (0, "no xml", PoolStanding::Managed),
            (105, "", PoolStanding::Absent),
            (102, "", PoolStanding::Unknown),
        ] {
            let found = pool_standing(&Tool(code, said), &pool);
            assert_eq!(found, expected, "{code} {said}");
        }
    }
}
