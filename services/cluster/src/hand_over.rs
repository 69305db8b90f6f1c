//! Moves a pool to another head: adds a constraint for Pacemaker, waits until the pool is served there, and removes the
//! constraint, so that none of it stays in the configuration.
//!
//! The constraint has a lifetime: if this process is killed during the wait, the pool does not stay bound to a head.

use std::time::{Duration, Instant};

use appliance::Appliance;
use appliance::render::resource_ids;
use appliance::xml::Element;
use units::{HeadName, PoolName};

use crate::host::{Host, HostError, must};
use crate::process::Invocation;
use crate::situation::{Situation, SituationError};

/// Time allowed for the agents of addresses, in addition to the pool's own.
const ADDRESSES_TIME_LIMIT: Duration = Duration::from_secs(40);
/// Remaining lifetime of the constraint after the wait.
const ORDER_RESERVE: Duration = Duration::from_secs(30);
/// Polling interval of the cluster. Each query costs processor time that the move itself needs.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Delay before the first query. Few moves complete earlier, and a query competes for the processor with reconnecting
/// clients.
const FIRST_CHECK_AFTER: Duration = Duration::from_millis(1_200);

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandedOver {
    /// The pool is served there already.
    Already,
    /// It was moved.
    Moved {
        /// The previous server.
        from: HeadName,
    },
}

/// Why a pool was not moved.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The file has no such pool.
    #[error("the appliance file describes no pool {0}")]
    UnknownPool(PoolName),
    /// The file has no such head.
    #[error("{head} is no head of this appliance; its heads are {heads}")]
    UnknownHead {
        /// The requested head.
        head: HeadName,
        /// The heads of the appliance.
        heads: String,
    },
    /// The file does not let it serve the pool.
    #[error("{head} may not serve {pool}: `heads` of the pool in the appliance file leaves it out")]
    NotAllowed {
        /// The pool.
        pool: PoolName,
        /// The head.
        head: HeadName,
    },
    /// The head cannot take over now.
    #[error("{head} cannot take {pool} over: {why}")]
    NotReady {
        /// The pool.
        pool: PoolName,
        /// The head.
        head: HeadName,
        /// The obstacle, and how to remove it.
        why: String,
    },
    /// No head serves it.
    #[error("no head serves {0} now, so there is nothing to hand over: `crm_mon` shows why")]
    NotServed(PoolName),
    /// It did not start there.
    #[error("{head} does not serve {pool}: {why}")]
    Failed {
        /// The pool.
        pool: PoolName,
        /// The head.
        head: HeadName,
        /// The failure that the cluster reports.
        why: String,
    },
    /// A tool failed.
    #[error(transparent)]
    Tool(#[from] HostError),
    /// The state of the cluster cannot be read.
    #[error(transparent)]
    Situation(#[from] SituationError),
}

/// Returns the head that serves `pool` now if it is not `to`; `None` if `to` serves it.
///
/// # Errors
///
/// The pool cannot be moved there.
pub fn server_before(
    machine: &dyn Host,
    appliance: &Appliance,
    pool: &PoolName,
    to: &HeadName,
) -> Result<Option<HeadName>, HandOverError> {
    let resources = resources(appliance, pool, to)?;
    Situation::look(machine)?.may_move(pool, &resources[0], to)
}

/// Moves `pool` to `to`, by the tools of the cluster on `machine`, and returns when it and its addresses are there.
/// # Errors
///
/// It cannot be moved there, or did not start there in time.
pub fn hand_over(
    machine: &dyn Host,
    appliance: &Appliance,
    pool: &PoolName,
    to: &HeadName,
) -> Result<HandedOver, HandOverError> {
    let resources = resources(appliance, pool, to)?;
    let before = Situation::look(machine)?;
    let Some(from) = before.may_move(pool, &resources[0], to)? else {
        return Ok(HandedOver::Already);
    };
    let limit = appliance.timeouts().pool_move() + ADDRESSES_TIME_LIMIT;
    order(machine, &resources[0], to, limit + ORDER_RESERVE)?;
    let came = wait(machine, &before, pool, &resources, to, limit);
    // Also after a failure: the pool then stays on the head that the cluster chose.
    let cleared = take_back(machine, &resources[0]);
    came?;
    cleared?;
    Ok(HandedOver::Moved { from })
}

/// Pacemaker's names of the pool, followed by those of its addresses.
fn resources(
    appliance: &Appliance,
    pool: &PoolName,
    to: &HeadName,
) -> Result<Vec<String>, HandOverError> {
    let described = appliance.pools.get(pool);
    let described = described.ok_or_else(|| HandOverError::UnknownPool(pool.clone()))?;
    if !appliance.heads.contains_key(to) {
        let heads: Vec<&str> = appliance.heads.keys().map(HeadName::as_str).collect();
        return Err(HandOverError::UnknownHead {
            head: to.clone(),
            heads: heads.join(", "),
        });
    }
    if !appliance.heads_of(described).contains(to) {
        return Err(HandOverError::NotAllowed {
            pool: pool.clone(),
            head: to.clone(),
        });
    }
    Ok(resource_ids(pool, described))
}

fn order(
    machine: &dyn Host,
    resource: &str,
    to: &HeadName,
    lifetime: Duration,
) -> Result<(), HostError> {
    let lifetime = format!("PT{}S", lifetime.as_secs());
    let arguments = [
        "--resource",
        resource,
        "--move",
        "--node",
        to.as_str(),
        "--lifetime",
        &lifetime,
    ];
    must(machine, &Invocation::new("crm_resource", &arguments)).map(drop)
}

fn take_back(machine: &dyn Host, resource: &str) -> Result<(), HostError> {
    let arguments = ["--resource", resource, "--clear"];
    must(machine, &Invocation::new("crm_resource", &arguments)).map(drop)
}

fn wait(
    machine: &dyn Host,
    before: &Situation,
    pool: &PoolName,
    resources: &[String],
    to: &HeadName,
    limit: Duration,
) -> Result<(), HandOverError> {
    let failed = |why: String| HandOverError::Failed {
        pool: pool.clone(),
        head: to.clone(),
        why,
    };
    let deadline = Instant::now() + limit;
    std::thread::sleep(FIRST_CHECK_AFTER);
    loop {
        let now = Situation::look(machine)?;
        if resources.iter().all(|one| now.is_served(one, to)) {
            return Ok(());
        }
        // A failed start is retried there until the cluster stops retrying.
        if let (Some(_), Some(why)) = (
            now.server(&resources[0]),
            now.new_failure(before, resources, to),
        ) {
            return Err(failed(why));
        }
        if let Some(pending) = now.new_failed_power_off(before) {
            return Err(failed(pending.to_string()));
        }
        if Instant::now() >= deadline {
            let waited_s = limit.as_secs();
            return Err(failed(format!(
                "it did not start there within {waited_s} s"
            )));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

impl Situation {
    /// The head that serves `resource`, if `to` may take it over; `None` if `to` serves it.
    fn may_move(
        &self,
        pool: &PoolName,
        resource: &str,
        to: &HeadName,
    ) -> Result<Option<HeadName>, HandOverError> {
        if self.is_served(resource, to) {
            return Ok(None);
        }
        let not_ready = |why: String| HandOverError::NotReady {
            pool: pool.clone(),
            head: to.clone(),
            why,
        };
        if let Some(why) = self.hindrance(resource, to) {
            return Err(not_ready(why));
        }
        let from = self.server(resource);
        let from = from.ok_or_else(|| HandOverError::NotServed(pool.clone()))?;
        let parsed = from.parse();
        parsed.map(Some).map_err(|_| {
            not_ready(format!(
                "{from}, which serves it, is not the name of a head"
            ))
        })
    }

    /// Why `to` cannot take over now.
    pub(crate) fn hindrance(&self, resource: &str, to: &HeadName) -> Option<String> {
        if !self.has_quorum() {
            return Some("the heads that see each other have no quorum".to_owned());
        }
        if let Some(pending) = self.pending_power_off() {
            return Some(pending.to_string());
        }
        self.obstacle_on(resource, to)
    }

    /// Why the cluster would not start the resource on this head, whatever the state of the rest of the cluster is.
    pub(crate) fn obstacle_on(&self, resource: &str, to: &HeadName) -> Option<String> {
        let mut summary = self.section("summary");
        let options = summary.find(|e| e.name == "cluster_options");
        if options.is_some_and(|options| options.is("maintenance-mode")) {
            return Some(
                "the cluster is in maintenance mode: `crm_attribute --name maintenance-mode --delete` reverts that"
                    .to_owned(),
            );
        }
        let Some(node) = self.node(to) else {
            return Some("the cluster does not know it: it was never a member".to_owned());
        };
        if !node.is("online") {
            return Some("it is offline".to_owned());
        }
        if node.is("standby") || node.is("standby_onfail") {
            return Some(format!(
                "it is in standby: `bulkhead appliance maintenance {to} off` reverts that"
            ));
        }
        if node.is("maintenance") {
            return Some("it is in maintenance".to_owned());
        }
        if node.is("pending") || node.is("shutdown") {
            return Some(
                "it is joining or leaving the cluster: try again in a few seconds".to_owned(),
            );
        }
        if let Some(why) = self.hold(resource, to) {
            return Some(why);
        }
        let failures = self.fail_count(resource, to)?;
        let last = self.last_failure(resource, to);
        let last = last.map_or_else(String::new, |last| format!(", last on {last},"));
        Some(format!(
            "it failed there {failures} times{last} and is banned until that failure expires (`failure-timeout` of {resource}): find \
             out why, then run `crm_resource --cleanup --resource {resource} --node {to}`, which allows it at once"
        ))
    }

    /// An administrator's setting that prevents a move of the resource.
    fn hold(&self, resource: &str, to: &HeadName) -> Option<String> {
        if let Some(found) = self.resource(resource) {
            if found.attribute("managed") == Some("false") || found.is("maintenance") {
                return Some(format!(
                    "the cluster does not manage {resource} now: `crm_resource --resource {resource} --meta --delete-parameter is-managed` \
                     (or `maintenance`) ends that"
                ));
            }
            if found.is("blocked") {
                return Some(format!(
                    "the cluster blocks {resource} after a failed stop: see `crm_mon -1`, and run `crm_resource --cleanup --resource {resource}`"
                ));
            }
        }
        let is_it = |ban: &&Element| {
            let is_about = |name: &str, value: &str| ban.attribute(name) == Some(value);
            is_about("resource", resource) && is_about("node", to.as_str())
        };
        let ban = self.section("bans").find(is_it)?;
        let id = ban.id().unwrap_or_default();
        Some(format!(
            "the rule {id} bans {resource} from it: `crm_resource --clear --resource {resource} --node {to}` removes a ban that \
             `crm_resource` made"
        ))
    }

    /// The time of the last failure of `resource` on `to`, as the cluster reports it.
    fn last_failure(&self, resource: &str, to: &HeadName) -> Option<&str> {
        self.history(resource, to)?.attribute("last-failure")
    }

    fn history<'a>(&'a self, resource: &str, head: &HeadName) -> Option<&'a Element> {
        let mut nodes = self.section("node_history");
        let node = nodes.find(|node| node.attribute("name") == Some(head.as_str()))?;
        let mut histories = node.children.iter();
        histories.find(|history| history.id() == Some(resource))
    }

    /// The failure count of `resource` on `to`, if it bans the resource there.
    fn fail_count<'a>(&'a self, resource: &str, to: &HeadName) -> Option<&'a str> {
        let history = self.history(resource, to)?;
        let count = history.attribute("fail-count")?;
        let threshold: u32 = history.attribute("migration-threshold")?.parse().ok()?;
        // An infinite count is not a number.
        let is_too_much = count.parse().map_or(true, |count: u32| count >= threshold);
        (is_too_much && threshold > 0).then_some(count)
    }

    /// A failure on `to` that is not in `before`, as the cluster describes it.
    fn new_failure(&self, before: &Self, resources: &[String], to: &HeadName) -> Option<String> {
        let known: Vec<&Element> = before.section("failures").collect();
        let failure = self.section("failures").find(|failure| {
            let key = failure.attribute("op_key").unwrap_or_default();
            let is_ours = resources.iter().any(|one| {
                let rest = key.strip_prefix(one.as_str());
                rest.is_some_and(|rest| rest.starts_with("_start_"))
            });
            let is_there = failure.attribute("node") == Some(to.as_str());
            is_ours && is_there && !known.contains(failure)
        })?;
        let reason = failure.attribute("exitreason").unwrap_or_default();
        let key = failure.attribute("op_key").unwrap_or_default();
        match reason {
            "" => Some(format!("{key} failed; see its log there")),
            reason => Some(reason.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::process::{Output, RunError};

    fn appliance() -> Appliance {
        let text = include_str!("../../../examples/pair.toml");
        appliance::parse(text).expect("well formed").appliance
    }

    /// A cluster of two heads, as crm_mon reports it.
    struct Cluster {
        /// Attributes of the resources.
        held: &'static str,
        bans: &'static str,
        /// The head that serves the pool.
        at: Mutex<&'static str>,
        right: &'static str,
        left: &'static str,
        /// Attempts to power a head off, before and after a request to move the pool.
        attempts: [&'static str; 2],
        options: &'static str,
        quorum: &'static str,
        failure: &'static str,
        fail_count: &'static str,
        log: Mutex<Vec<String>>,
    }

    const HEALTHY: &str = r#"online="true" standby="false""#;

    impl Cluster {
        fn new(at: &'static str) -> Self {
            Self {
                held: "",
                bans: "",
                at: Mutex::new(at),
                right: HEALTHY,
                left: HEALTHY,
                attempts: ["", ""],
                options: "",
                quorum: "true",
                failure: "",
                fail_count: "0",
                log: Mutex::default(),
            }
        }

        fn mon(&self) -> String {
            let at = *self.at.lock().expect("no panic");
            let moved = !self.log.lock().expect("no panic").is_empty();
            let resource = |id: &str| match at {
                "" => format!(r#"<resource id="{id}" role="Stopped"/>"#),
                at => format!(
                    r#"<resource id="{id}" role="Started" {}><node name="{at}" id="1"/></resource>"#,
                    self.held
                ),
            };
            let resources: String = ["pool-tank", "address-10.77.1.100", "address-10.77.2.100"]
                .map(resource)
                .concat();
            let failure = if moved { self.failure } else { "" };
            format!(
                r#"<pacemaker-result><summary><current_dc with_quorum="{}"/><cluster_options {}/></summary>
                <nodes><node name="left" {}/><node name="right" {}/></nodes>
                <resources>{resources}</resources><failures>{failure}</failures><bans>{}</bans>
                <fence_history>{}</fence_history>
                <node_history><node name="right"><resource_history id="pool-tank" migration-threshold="3"
                fail-count="{}" last-failure="Sat Nov 28 09:00:00 2026"/></node></node_history></pacemaker-result>"#,
                self.quorum,
                self.options,
                self.left,
                self.right,
                self.bans,
                self.attempts[usize::from(moved)],
                self.fail_count
            )
        }

        fn try_move(&self, to: &str) -> Result<HandedOver, String> {
            let pool = "tank".parse().expect("a good name");
            let to = to.parse().expect("a good name");
            hand_over(self, &appliance(), &pool, &to).map_err(|error| error.to_string())
        }
    }

    impl Host for Cluster {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let mut stdout = String::new();
            if invocation.program == "crm_mon" {
                stdout = self.mon();
            } else {
                let words = invocation.arguments.join(" ");
                if words.contains("--move") && self.failure.is_empty() {
                    *self.at.lock().expect("no panic") = "right";
                }
                self.log.lock().expect("no panic").push(words);
            }
            Ok(Output {
                stdout: stdout.into_bytes(),
                ..Output::default()
            })
        }
    }

    #[test]
    fn pool_moves_by_expiring_constraint_that_is_removed() {
        let cluster = Cluster::new("left");
        let from = "left".parse().expect("a good name");
        assert_eq!(cluster.try_move("right"), Ok(HandedOver::Moved { from }));
        let log = cluster.log.lock().expect("no panic");
        assert_eq!(log.len(), 2, "{log:?}");
        assert!(log[0].starts_with("--resource pool-tank --move --node right --lifetime PT"));
        assert_eq!(log[1], "--resource pool-tank --clear");
    }

    #[test]
    fn pool_already_on_target_is_not_moved() {
        let cluster = Cluster::new("right");
        assert_eq!(cluster.try_move("right"), Ok(HandedOver::Already));
        assert!(cluster.log.lock().expect("no panic").is_empty());
    }

    #[test]
    fn a_head_that_cannot_take_over_is_refused_with_the_reason() {
        let cases: [(Cluster, &str); 11] = [
            (
                Cluster {
                    right: r#"online="false""#,
                    ..Cluster::new("left")
                },
                "offline",
            ),
            (
                Cluster {
                    right: r#"online="true" standby="true""#,
                    ..Cluster::new("left")
                },
                "maintenance right off",
            ),
            (
                Cluster {
                    right: r#"online="true" pending="true""#,
                    ..Cluster::new("left")
                },
                "try again",
            ),
            (
                Cluster {
                    options: r#"maintenance-mode="true""#,
                    ..Cluster::new("left")
                },
                "maintenance",
            ),
            (
                Cluster {
                    quorum: "false",
                    ..Cluster::new("left")
                },
                "no quorum",
            ),
            (
                Cluster {
                    fail_count: "INFINITY",
                    ..Cluster::new("left")
                },
                "--cleanup",
            ),
            (
                Cluster {
                    fail_count: "3",
                    ..Cluster::new("left")
                },
                "last on Sat Nov 28 09:00:00 2026",
            ),
            (
                Cluster {
                    held: r#"managed="false""#,
                    ..Cluster::new("left")
                },
                "does not manage",
            ),
            (
                Cluster {
                    held: r#"blocked="true""#,
                    ..Cluster::new("left")
                },
                "--cleanup",
            ),
            (
                Cluster {
                    bans: r#"<ban id="cli-ban" resource="pool-tank" node="right" weight="-1000000"/>"#,
                    ..Cluster::new("left")
                },
                "crm_resource --clear",
            ),
            (Cluster::new(""), "no head serves"),
        ];
        for (cluster, part) in cases {
            let message = cluster.try_move("right").expect_err(part);
            assert!(message.contains(part), "{message}");
            assert!(cluster.log.lock().expect("no panic").is_empty(), "{part}");
        }
        let message = Cluster::new("left")
            .try_move("middle")
            .expect_err("unknown");
        assert!(message.contains("left, right"), "{message}");
    }

    const LOST: &str = r#"online="false" unclean="true""#;
    const FAILED: &str = r#"<fence_event action="off" target="left" status="pending"/>
        <fence_event action="off" target="left" status="failed" completed="2026-11-28 17:35:34Z"/>"#;

    /// Pacemaker starts no pool before it. Until then it lists the pool on the lost head.
    #[test]
    fn a_pending_power_off_refuses_every_move_at_once() {
        let cases = [("right", ""), ("right", FAILED), ("left", FAILED)];
        for (to, attempts) in cases {
            let cluster = Cluster {
                left: LOST,
                attempts: [attempts, attempts],
                ..Cluster::new("left")
            };
            let message = cluster.try_move(to).expect_err("a power-off is pending");
            for part in [
                "the power-off of left is pending",
                "No takeover: fencing is not confirmed",
            ] {
                assert!(message.contains(part), "{message}");
            }
            let confirms = message.contains("`stonith_admin --confirm left`");
            assert_eq!(confirms, !attempts.is_empty(), "{message}");
            assert!(cluster.log.lock().expect("no panic").is_empty(), "{to}");
        }
    }

    /// The previous server did not stop the pool, and no device powers it off.
    #[test]
    fn a_power_off_that_fails_during_a_move_ends_it() {
        let cluster = Cluster {
            failure: r#"<failure op_key="pool-tank_stop_0" node="left" exitreason="hung"/>"#,
            attempts: ["", FAILED],
            ..Cluster::new("left")
        };
        // The head is lost by the move.
        let lost = LostByMove(cluster);
        let pool = "tank".parse().expect("a good name");
        let to = "right".parse().expect("a good name");
        let begun = Instant::now();
        let message = hand_over(&lost, &appliance(), &pool, &to).expect_err("it is not served");
        assert!(begun.elapsed() < Duration::from_secs(30));
        let message = message.to_string();
        assert!(
            message.contains("`stonith_admin --confirm left`"),
            "{message}"
        );
        let log = lost.0.log.lock().expect("no panic");
        assert!(log[1].ends_with("--clear"), "{log:?}");
    }

    struct LostByMove(Cluster);

    impl Host for LostByMove {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let mut output = self.0.run(invocation)?;
            if !self.0.log.lock().expect("no panic").is_empty() {
                let text = output.text();
                let healthy = format!(r#"name="left" {HEALTHY}"#);
                let lost = format!(r#"name="left" {LOST}"#);
                output.stdout = text.replace(&healthy, &lost).into_bytes();
            }
            Ok(output)
        }
    }

    #[test]
    fn failed_start_is_reported_and_constraint_removed() {
        let cluster = Cluster {
            failure: r#"<failure op_key="pool-tank_start_0" node="right" exitreason="no disk"/>"#,
            ..Cluster::new("left")
        };
        let message = cluster.try_move("right").expect_err("it failed");
        assert!(message.contains("no disk"), "{message}");
        let log = cluster.log.lock().expect("no panic");
        assert!(log[1].ends_with("--clear"), "{log:?}");
    }
}
