//! Faults of two heads with legs and a witness in which one head boots and does not see the other one.

use std::time::Duration;

use cluster::process::Invocation;
use lab::{Node, Power};
use units::HeadName;

use super::legs::{addresses_in, route, switch_on};
use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;
use drill_verdict::Timestamp;

/// After `boot_wait_s`, the time in which a head reports why it waits, or serves the pool.
const DECIDED_WITHIN: Duration = Duration::from_secs(60);
/// Time in which a head that waits must not change its decision.
const KEPT: Duration = Duration::from_secs(10);
/// The beginning of the message of a head that waits.
const WAITS: &str = "this head waits for the other one";

/// The time in which a head that boots alone decides.
pub(super) fn limit(environment: &Environment) -> Duration {
    let boot_wait_s = environment.lab.appliance().timeouts().boot_wait_s;
    DECIDED_WITHIN + Duration::from_secs(boot_wait_s.into())
}

/// Whether `bulkhead status` on `head` shows that it waits, and this reason.
pub(super) fn waits(environment: &Environment, head: &HeadName, reason: &str) -> bool {
    let status = Invocation::new("sh", &["-c", "bulkhead status 2>&1; true"]);
    let status = environment.lab.exec(&Node::Head(head.clone()), &status);
    status.is_ok_and(|status| {
        let text = status.text();
        text.contains(WAITS) && text.contains(reason)
    })
}

/// All heads lose their power, and `one` returns. It must serve the pool: its legs are current, and the other head is off.
pub(super) fn return_alone(
    environment: &mut Environment,
    one: &HeadName,
) -> Result<Fault, DrillError> {
    let words = format!("all heads lose their power, and {one} returns alone");
    let mut fault = Fault::begin(words);
    for head in environment.lab.heads() {
        environment.lab.power(&head, Power::Off)?;
    }
    environment.lab.power(one, Power::On)?;
    fault.acted_at = Timestamp::now();
    let back = fault.acted_at;
    let limit = limit(environment);
    let is_served = |environment: &Environment| environment.client.seen.all_responded_since(back);
    if !environment.wait_until(limit, is_served)? {
        let words = format!("{one} does not serve the pool alone");
        fault.complaints.push(words);
    }
    switch_on(environment, &mut fault)?;
    Ok(fault)
}

/// The lender reboots, and the heads do not see each other any more; both reach the witness and each other's BMCs. The lender must wait, and
/// must not power the serving head off.
pub(super) fn boot_apart(
    environment: &mut Environment,
    head: &HeadName,
    lender: &HeadName,
) -> Result<Fault, DrillError> {
    let mut fault = Fault {
        victim: Some(lender.clone()),
        lender: Some(lender.clone()),
        ..Fault::begin(format!("{lender} reboots, and does not see {head}"))
    };
    environment.lab.power(lender, Power::Off)?;
    let addresses = addresses_in(environment.lab.appliance(), lender, |_| true);
    route(environment, head, &addresses, false)?;
    // The serving head powers it off, too: an operator switches it on afterwards.
    environment.client.listen(KEPT)?;
    environment.switch_on(lender)?;
    let reason = format!("{head} is alive");
    let limit = limit(environment);
    let is_told = |environment: &Environment| waits(environment, lender, &reason);
    if !environment.wait_until(limit, is_told)? {
        let words = format!("`bulkhead status` of {lender} does not show that {head} is alive");
        fault.complaints.push(words);
    }
    environment.client.listen(KEPT)?;
    let state = environment.lab.state()?;
    if !state.heads.get(head).is_some_and(|one| one.powered) {
        fault
            .complaints
            .push(format!("{lender} powered {head} off"));
    }
    route(environment, head, &addresses, true)?;
    fault.acted_at = Timestamp::now();
    Ok(fault)
}
