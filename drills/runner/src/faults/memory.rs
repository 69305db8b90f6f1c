//! Memory exhaustion: of a whole head, by a process that allocates all memory; on a host that cannot bound a head's
//! memory, of the pool's server alone.

use cluster::process::{Invocation, run};
use lab::Node;
use units::HeadName;

use super::heads::server_pid;
use crate::environment::Environment;
use crate::error::DrillError;
use crate::exhausted::Exhausted;
use crate::fault::Fault;

/// Injects the fault.
pub fn exhaust(environment: &mut Environment, head: &HeadName) -> Result<Fault, DrillError> {
    let Some(group) = environment.lab.memory_group(head) else {
        return exhaust_server(environment);
    };
    let fault = Fault::begin(format!("a process allocates all memory of {head}"));
    let enter = environment.lab.enter(&Node::Head(head.clone()))?;
    environment.exhausted = Some(Exhausted::begin(enter, group)?);
    Ok(fault)
}

/// Lets the server have no more memory than it has.
fn exhaust_server(environment: &Environment) -> Result<Fault, DrillError> {
    let pid = server_pid(environment)?;
    let read = std::fs::read_to_string(format!("/proc/{pid}/statm"));
    let statm = read.map_err(DrillError::io("read how much memory the server has"))?;
    let pages: u64 = statm
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    let bytes = pages * rustix::param::page_size() as u64;
    let fault = Fault::begin(format!(
        "the pool's server, process {pid}, gets no more than its {bytes} bytes (RLIMIT_AS: this host has \
         no memory cgroups, by which the whole head could be bounded)"
    ));
    let (pid, limit) = (format!("--pid={pid}"), format!("--as={bytes}:{bytes}"));
    let output = run(&Invocation::new("prlimit", &[&pid, &limit])).map_err(lab::LabError::from)?;
    match output.code {
        0 => Ok(fault),
        _ => Err(DrillError::Client(format!(
            "prlimit: {}",
            output.complaint()
        ))),
    }
}
