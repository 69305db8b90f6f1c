//! The sensors of a BMC, from the output of ipmitool(1).

use crate::printable;

/// Arguments for the sensors with a value, as lines of comma-separated values.
pub const VALUES: [&str; 4] = ["-c", "sdr", "list", "full"];
/// Arguments for the sensors that report states as text.
pub const STATES: [&str; 3] = ["sdr", "elist", "compact"];
/// Most sensors of a BMC.
const SENSORS_MAX: usize = 256;

/// Beginnings of states that need attention, with the names of the IPMI specification (table 42-3) as ipmitool prints
/// them.
const BAD_STATES: [&str; 11] = [
    "Failure detected",
    "Predictive failure",
    "Power Supply AC lost",
    "AC lost",
    "AC out-of-range",
    "Config Error",
    "Redundancy Lost",
    "Redundancy Degraded",
    "Non-Redundant",
    "General Chassis intrusion",
    "Drive Fault",
];
/// This one begins in the same way, and is an improvement.
const GOOD_STATE: &str = "Non-Redundant: Sufficient from Insufficient";

/// A sensor with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its name in the BMC.
    pub name: String,
    /// `watts`, `degrees_celsius`, `rpm`, `volts`, `amps` or `percent`.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
    /// `ok`, `warning` or `critical`, by the thresholds of the BMC.
    pub state: &'static str,
}

/// Parses the output with [`VALUES`]: name, value, unit and state. Sensors without a value are left out.
pub fn values(text: &str) -> Vec<Reading> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split(',');
        let (name, value, unit) = (words.next()?, words.next()?, words.next()?);
        let unit = match unit {
            "Watts" => "watts",
            "degrees C" => "degrees_celsius",
            "RPM" => "rpm",
            "Volts" => "volts",
            "Amps" => "amps",
            "percent" => "percent",
            _ => return None,
        };
        // Non-critical, critical, and non-recoverable; ipmitool 1.8 prefixes them with the direction.
        let state = match words.next().unwrap_or_default() {
            "nc" | "lnc" | "unc" => "warning",
            "cr" | "lcr" | "ucr" | "nr" | "lnr" | "unr" => "critical",
            _ => "ok",
        };
        let value: f64 = value.parse().ok()?;
        value.is_finite().then(|| Reading {
            name: printable(name),
            unit,
            value,
            state,
        })
    });
    lines.take(SENSORS_MAX).collect()
}

/// Parses the output with [`STATES`]: name and state of the sensors that need attention.
pub fn bad_states(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let (name, state) = (columns.next()?, columns.nth(3)?);
        let mut bad = state
            .split(',')
            .map(str::trim)
            .filter(|word| *word != GOOD_STATE)
            .filter(|word| BAD_STATES.iter().any(|bad| word.starts_with(bad)));
        let found = bad.next()?;
        Some((printable(name), found.to_owned()))
    });
    lines.take(SENSORS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_state_of_their_thresholds() {
        let text = "Inlet Temp,23,degrees C,ok,7.1,System Board\nFan 1,420,RPM,lcr\nFan 2,1800,RPM,nc\n\
                    Pwr Consumption,126,Watts,ok\nBroken,,degrees C,ns\nOdd,NaN,Volts,ok\n\n,,,\n";
        let found = values(text);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.unit, one.value, one.state))
            .collect();
        assert_eq!(
            found,
            [
                ("Inlet Temp", "degrees_celsius", 23.0, "ok"),
                ("Fan 1", "rpm", 420.0, "critical"),
                ("Fan 2", "rpm", 1800.0, "warning"),
                ("Pwr Consumption", "watts", 126.0, "ok"),
            ]
        );
    }

    #[test]
    fn bad_states_are_found_and_good_ones_not() {
        let text = "PS1 Status       | C8h | ok  | 10.1 | Presence detected\n\
                    PS2 Status       | C9h | ok  | 10.2 | Presence detected, Failure detected\n\
                    PS Redundancy    | 77h | ok  |  7.1 | Redundancy Lost\n\
                    PS3 Status       | CAh | ok  | 10.3 | Presence detected, AC lost or out-of-range\n\
                    Fans             | 75h | ok  |  7.1 | Non-Redundant: Sufficient from Insufficient\n\
                    Intrusion        | 73h | ok  |  7.1 | General Chassis intrusion\n\
                    Fan              | 74h | ns  |  7.1 | No Reading\nodd line\n";
        let found = bad_states(text);
        let found: Vec<_> = found
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("PS2 Status", "Failure detected"),
                ("PS Redundancy", "Redundancy Lost"),
                ("PS3 Status", "AC lost or out-of-range"),
                ("Intrusion", "General Chassis intrusion"),
            ]
        );
    }
}
