//! The sensors of the BMCs of the appliance file, read with ipmitool(1) in the background and rarely: a BMC is slow, and
//! must never block a request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::SENSOR;
use api::view::{HardwareFault, Sensor};
use appliance::{Appliance, Bmc, Privilege};
use cluster::host::{Host, Local};
use cluster::process::Invocation;
use hardware::sensors::{self, Reading};

use super::refreshed::Refreshed;

/// Maximum age of a value.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Time-out of a BMC.
const BMC_WAIT: Duration = Duration::from_secs(20);

/// The last values of the BMCs.
#[derive(Default)]
pub struct Sensors(Arc<Refreshed<Values>>);

#[derive(Clone, Default)]
struct Values {
    sensors: Vec<Sensor>,
    faults: Vec<HardwareFault>,
}

impl Sensors {
    /// The last values. Starts an update if they are old.
    pub fn get(&self, file: &Path) -> Vec<Sensor> {
        self.values(file).sensors.clone()
    }

    /// The last faults. Starts an update if they are old.
    pub fn faults(&self, file: &Path) -> Vec<HardwareFault> {
        self.values(file).faults.clone()
    }

    fn values(&self, file: &Path) -> Arc<Values> {
        let file = file.to_owned();
        self.0
            .get("sensors", AGE_MAX, move |old| update(&file, old))
    }
}

fn update(file: &Path, old: &Values) -> Values {
    let Ok(appliance) = cluster::appliance_file::load(file) else {
        return old.clone();
    };
    let (sensors, mut faults) = ask_all(&appliance, &Local::default());
    // A BMC that does not respond once has the faults that are known; the fence device reports its loss.
    let responds = |head: &str| sensors.iter().any(|sensor| sensor.head == head);
    let known = old.faults.iter().filter(|fault| !responds(&fault.head));
    faults.extend(known.cloned());
    Values { sensors, faults }
}

fn ask_all(appliance: &Appliance, machine: &dyn Host) -> (Vec<Sensor>, Vec<HardwareFault>) {
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    for (name, head) in &appliance.heads {
        let Some(bmc) = head
            .fencing
            .as_ref()
            .and_then(|fencing| fencing.bmc.as_ref())
        else {
            continue;
        };
        let ask = |what: &[&str]| match machine.run(&invocation(bmc, what)) {
            Ok(output) => output.text(),
            Err(error) => {
                tracing::debug!(head = %name, %error, "ask the BMC");
                String::new()
            }
        };
        let readings = sensors::values(&ask(&sensors::VALUES));
        let states = match readings.is_empty() {
            // A BMC that does not respond is not asked twice.
            true => Vec::new(),
            false => sensors::bad_states(&ask(&sensors::STATES)),
        };
        faults.extend(faults_of(name.as_str(), &readings, states));
        values.extend(readings.into_iter().map(|reading| Sensor {
            head: name.to_string(),
            name: reading.name,
            unit: reading.unit.to_owned(),
            value: reading.value,
            state: reading.state.to_owned(),
        }));
    }
    (values, faults)
}

fn invocation(bmc: &Bmc, what: &[&str]) -> Invocation {
    let (address, port) = (bmc.address.to_string(), bmc.port.to_string());
    let (password, cipher) = (bmc.password_file.to_string_lossy(), bmc.cipher.to_string());
    let level = match bmc.privilege {
        Privilege::Operator => "OPERATOR",
        Privilege::Administrator => "ADMINISTRATOR",
    };
    let mut arguments = vec![
        "-I", "lanplus", "-H", &address, "-p", &port, "-U", &bmc.user, "-f", &password, "-C",
        &cipher, "-L", level,
    ];
    arguments.extend(what);
    Invocation::new("ipmitool", &arguments).within(BMC_WAIT)
}

fn faults_of(
    head: &str,
    readings: &[Reading],
    states: Vec<(String, String)>,
) -> Vec<HardwareFault> {
    let fault = |name: &str, is_failing, what: String| HardwareFault {
        head: head.to_owned(),
        kind: SENSOR.to_owned(),
        name: name.to_owned(),
        description: None,
        is_failing,
        faults: vec![what],
    };
    let of_values = readings.iter().filter(|one| one.state != "ok");
    let of_values = of_values.map(|one| {
        let unit = match one.unit {
            "degrees_celsius" => "°C",
            "rpm" => "rpm",
            "percent" => "%",
            "volts" => "V",
            "amps" => "A",
            _ => "W",
        };
        let what = format!("{} {unit} is {} for its BMC", one.value, one.state);
        fault(&one.name, one.state == "critical", what)
    });
    let of_states = states
        .into_iter()
        .map(|(name, state)| fault(&name, true, state.to_lowercase()));
    of_values.chain(of_states).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_beyond_a_threshold_and_bad_state_are_faults() {
        let readings = sensors::values("Fan 1,420,RPM,lcr\nInlet Temp,23,degrees C,ok\n");
        let states = vec![("PS2 Status".to_owned(), "Failure detected".to_owned())];
        let found = faults_of("left", &readings, states);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.is_failing, one.faults[0].as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("Fan 1", true, "420 rpm is critical for its BMC"),
                ("PS2 Status", true, "failure detected"),
            ]
        );
    }
}
