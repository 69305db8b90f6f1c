//! Queries a head for the dependencies of a takeover: the status of the other heads' fence devices, and the witness.

use std::collections::BTreeMap;
use std::time::Duration;

use appliance::Appliance;
use appliance::facts::{HeadFacts, ProbeResult};
use appliance::render::{FENCE_AGENT, Primitive, Score, cib};
use units::HeadName;

use crate::host::Host;
use crate::observe::{reaches_witness, witness};
use crate::process::{Invocation, Output, RunError};

/// Fence agents are not in every user's path.
const AGENT: &str = "PATH=$PATH:/usr/sbin; exec timeout \"$2\" \"$1\"";
/// The exit code of an agent if the power is off, which is also a valid response.
const EXIT_IS_OFF: i32 = 2;
/// Longest reported error output, in characters.
const COMPLAINT_CHARS_MAX: usize = 200;
/// Time for a device beyond the limit of a fence, which is passed to the agent.
const MARGIN_S: u32 = 5;

/// Queries `name` and stores the results in its facts.
pub(crate) fn query_safeguards(
    machine: &dyn Host,
    appliance: &Appliance,
    name: &HeadName,
    facts: &mut HeadFacts,
) {
    let fence_s = appliance.timeouts().fence_s;
    let cib = cib(appliance);
    let is_own = |device: &Primitive| {
        let mut places = cib.locations.iter();
        places
            .any(|one| one.resource == device.id && one.head == *name && one.score == Score::Never)
    };
    let devices = cib
        .primitives
        .iter()
        .filter(|one| one.class == "stonith" && one.kind != FENCE_AGENT && !is_own(one));
    std::thread::scope(|scope| {
        let asked: Vec<_> = devices
            .map(|device| {
                (
                    device,
                    scope.spawn(move || status(machine, device, fence_s)),
                )
            })
            .collect();
        let answers = asked
            .into_iter()
            .map(|(device, asking)| match asking.join() {
                Ok(answer) => (device.id.clone(), answer),
                Err(panic) => std::panic::resume_unwind(panic),
            });
        facts.fence_devices = answers.collect::<BTreeMap<_, _>>();
    });
    facts.voting_witness = voting_witness(machine, appliance);
}

/// The input of an agent: a line for each parameter, without those of Pacemaker.
fn agent_input(device: &Primitive) -> String {
    let mut lines = String::from("action=status\n");
    for (name, value) in &device.parameters {
        match name.as_str() {
            // "left:1" names the outlet of left.
            "pcmk_host_map" => {
                let plug = value.split_once(':').map_or("", |(_, plug)| plug);
                lines.push_str(&format!("plug={plug}\n"));
            }
            name if name.starts_with("pcmk_") => {}
            name => lines.push_str(&format!("{name}={value}\n")),
        }
    }
    lines
}

fn status(machine: &dyn Host, device: &Primitive, fence_s: u32) -> ProbeResult {
    let limit = fence_s.to_string();
    let invocation = Invocation::new("sh", &["-c", AGENT, "status", &device.kind, &limit])
        .reading(agent_input(device))
        .within(Duration::from_secs((fence_s + MARGIN_S).into()));
    judge(machine.run(&invocation), &[0, EXIT_IS_OFF])
}

/// By its device if that runs, else by a connection.
fn voting_witness(machine: &dyn Host, appliance: &Appliance) -> Option<ProbeResult> {
    let witness_of = appliance.quorum.as_ref()?.witness.as_ref()?;
    match witness(machine) {
        Ok((_, true)) => return Some(ProbeResult::Given),
        // A device that was not started with our settings may use another witness.
        Ok((Some(_), false)) => {
            let why = "its corosync-qdevice has no connection".to_owned();
            return Some(ProbeResult::Missing(why));
        }
        Ok((None, false)) | Err(_) => {}
    }
    let (address, port) = (witness_of.address, witness_of.port);
    Some(match reaches_witness(machine, (address, port)) {
        true => ProbeResult::Given,
        false => ProbeResult::Missing(format!("no process listens at {address}, port {port}")),
    })
}

fn judge(output: Result<Output, RunError>, good: &[i32]) -> ProbeResult {
    match output {
        Ok(output) if good.contains(&output.code) => ProbeResult::Given,
        Ok(output) => {
            let complaint: String = output
                .complaint()
                .chars()
                .take(COMPLAINT_CHARS_MAX)
                .collect();
            ProbeResult::Missing(match complaint.is_empty() {
                true => format!("its agent ended with {}", output.code),
                false => complaint,
            })
        }
        Err(error) => ProbeResult::Missing(control::failure::chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Devices respond, except the one with this line in its query.
    struct Head {
        broken: &'static str,
        asked: Mutex<Vec<String>>,
    }

    impl Host for Head {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let text = String::from_utf8_lossy(&invocation.input).into_owned();
            let words = invocation.arguments.join(" ");
            let fails = format!("{words}\n{text}").contains(self.broken);
            self.asked.lock().expect("no panic").push(text);
            Ok(Output {
                code: if fails {
                    1
                } else {
                    EXIT_IS_OFF * i32::from(words.contains("fence_"))
                },
                stderr: if fails {
                    b"Unable to connect/login".to_vec()
                } else {
                    Vec::new()
                },
                ..Output::default()
            })
        }
    }

    fn asked(text: &str, broken: &'static str) -> (HeadFacts, Vec<String>) {
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let head = Head {
            broken,
            asked: Mutex::default(),
        };
        let mut facts = HeadFacts::default();
        query_safeguards(
            &head,
            &appliance,
            &"left".parse().expect("a name"),
            &mut facts,
        );
        let asked = head.asked.into_inner().expect("no panic");
        (facts, asked)
    }

    #[test]
    fn broken_fence_device_is_reported_with_reason() {
        let text = include_str!("../../../examples/pair.toml");
        let (facts, asked) = asked(text, "plug=2\n");
        let missing = ProbeResult::Missing("Unable to connect/login".to_owned());
        let expected = [
            ("fence-right-bmc", ProbeResult::Given),
            ("fence-right-outlet-a-2", missing.clone()),
            ("fence-right-outlet-b-2", missing),
        ];
        let expected = expected.map(|(id, answer)| (id.to_owned(), answer));
        assert_eq!(facts.fence_devices, BTreeMap::from(expected));
        let bmc = asked
            .iter()
            .find(|one| one.contains("lanplus=1"))
            .expect("asked");
        assert!(
            bmc.starts_with("action=status\n") && bmc.contains("ip=10.77.9.22\n"),
            "{bmc}"
        );
        assert!(!bmc.contains("pcmk_"), "{bmc}");
        assert_eq!(facts.voting_witness, None);
        let parsed = appliance::parse(text).expect("well formed");
        let mut all = appliance::Facts::default();
        all.heads.insert("left".parse().expect("a name"), facts);
        let findings = appliance::check(&parsed, &all);
        let found = findings
            .iter()
            .filter(|one| one.code.name() == "fence-silent");
        assert_eq!(found.count(), 2);
    }

    #[test]
    fn unresponsive_witness_is_reported_with_address() {
        let text = include_str!("../../../examples/witness.toml");
        let (well, _) = asked(text, "nothing is broken");
        assert_eq!(well.voting_witness, Some(ProbeResult::Given));
        let (facts, _) = asked(text, "knock 10.77.9.31");
        let why = "no process listens at 10.77.9.31, port 5403".to_owned();
        assert_eq!(facts.voting_witness, Some(ProbeResult::Missing(why)));
    }
}
