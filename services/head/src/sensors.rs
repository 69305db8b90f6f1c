//! Power and temperatures from the BMCs of the appliance file, read with ipmitool(1) in the background and
//! rarely: a BMC is slow, and must never block a request.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::view::Sensor;
use appliance::{Appliance, Privilege};
use cluster::host::{Host, Local};
use cluster::process::Invocation;

/// Maximum age of a value.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Time-out of a BMC.
const BMC_WAIT: Duration = Duration::from_secs(20);
/// Most sensors of each head.
const SENSORS_MAX: usize = 64;

/// The last values of the BMCs.
#[derive(Default)]
pub struct Sensors {
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    sensors: Vec<Sensor>,
    asked: Option<Instant>,
}

impl Sensors {
    /// The last values. Starts an update if they are old.
    pub fn get(self: &std::sync::Arc<Self>, file: &Path) -> Vec<Sensor> {
        let mut last = self.last.lock().expect("no holder panics");
        if last.asked.is_none_or(|asked| asked.elapsed() > AGE_MAX) {
            last.asked = Some(Instant::now());
            let (own, file) = (std::sync::Arc::clone(self), file.to_owned());
            let ask = move || {
                let Ok(appliance) = cluster::appliance_file::load(&file) else {
                    return;
                };
                let sensors = ask_all(&appliance, &Local::default());
                own.last.lock().expect("no holder panics").sensors = sensors;
            };
            // Without a thread, the old values stay.
            let _ = std::thread::Builder::new()
                .name("sensors".into())
                .spawn(ask);
        }
        last.sensors.clone()
    }
}

fn ask_all(appliance: &Appliance, machine: &dyn Host) -> Vec<Sensor> {
    let mut sensors = Vec::new();
    for (name, head) in &appliance.heads {
        let Some(bmc) = head
            .fencing
            .as_ref()
            .and_then(|fencing| fencing.bmc.as_ref())
        else {
            continue;
        };
        let (address, port) = (bmc.address.to_string(), bmc.port.to_string());
        let (password, cipher) = (bmc.password_file.to_string_lossy(), bmc.cipher.to_string());
        let level = match bmc.privilege {
            Privilege::Operator => "OPERATOR",
            Privilege::Administrator => "ADMINISTRATOR",
        };
        let arguments = [
            "-I", "lanplus", "-H", &address, "-p", &port, "-U", &bmc.user, "-f", &password, "-C",
            &cipher, "-L", level, "-c", "sdr", "list", "full",
        ];
        let invocation = Invocation::new("ipmitool", &arguments).within(BMC_WAIT);
        match machine.run(&invocation) {
            Ok(output) => sensors.extend(parse(name.as_str(), &output.text())),
            Err(error) => tracing::debug!(head = %name, %error, "ask the BMC"),
        }
    }
    sensors
}

/// Parses `ipmitool -c sdr`: name, value, unit, state, separated by commas.
fn parse(head: &str, text: &str) -> Vec<Sensor> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split(',');
        let (name, value, unit) = (words.next()?, words.next()?, words.next()?);
        let unit = match unit {
            "Watts" => "watts",
            "degrees C" => "degrees_celsius",
            _ => return None,
        };
        Some(Sensor {
            head: head.to_owned(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            value: value.parse().ok()?,
        })
    });
    lines.take(SENSORS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_and_degrees_are_parsed_and_others_skipped() {
        let text = "Inlet Temp,23,degrees C,ok,7.1,System Board\nFan 1,4200,RPM,ok\n\
                    Pwr Consumption,126,Watts,ok\nBroken,,degrees C,ns\n\n";
        let found = parse("left", text);
        let units: Vec<_> = found.iter().map(|s| (s.unit.as_str(), s.value)).collect();
        assert_eq!(units, [("degrees_celsius", 23.0), ("watts", 126.0)]);
    }
}
