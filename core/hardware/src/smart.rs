//! The health of a disk, from the JSON document of `smartctl --json --all`. ATA, SCSI and NVMe disks report different
//! counters; an absent one is unknown, never zero.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::printable;

/// The arguments of smartctl(8), before the device. A disk that sleeps is not woken.
pub const ARGUMENTS: [&str; 3] = ["--json=c", "--nocheck=standby", "--all"];
/// Bit of the exit code: the command line was wrong.
const EXIT_USAGE: u64 = 1;
/// Wear from which a disk should be replaced, in percent of its specified writes.
const WEAR_PERCENT_MAX: u64 = 90;
/// Most attributes that are read.
const ATTRIBUTES_MAX: usize = 256;

/// Parts of the names of ATA attributes with the remaining life as the normalised value. Vendors use the same number for
/// other attributes: 177 is `Wear_Range_Delta` too.
const LIFE_ATTRIBUTES: [&str; 6] = [
    "Wear_Leveling",
    "Wearout",
    "Life_Left",
    "Lifetime_Remain",
    "Remaining_Life",
    "Rated_Life",
];
const REALLOCATED: u64 = 5;
const PENDING: u64 = 197;
const OFFLINE_UNCORRECTABLE: u64 = 198;

/// Bits of the critical warning (NVM Express base specification, SMART / health information log).
const NVME_WARNINGS: [(u64, &str); 5] = [
    (1, "its spare blocks are nearly used up"),
    (2, "its temperature is outside its limits"),
    (4, "its reliability is degraded by media errors"),
    (8, "it has become read-only"),
    (16, "its protection against power loss has failed"),
];
/// The warning that is no failure of the disk.
const NVME_TEMPERATURE: u64 = 2;

/// The health of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskHealth {
    /// `good`, `warning`, `failing`, `standby` (it sleeps, and was not woken) or `unknown`.
    pub state: String,
    /// The faults, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Option<i64>,
    /// The used part of the specified writes, in percent; more than 100 is possible.
    pub wear_percent: Option<u64>,
    /// Hours that it was on.
    pub power_on_hours: Option<u64>,
    /// Sectors that were replaced by spare ones.
    pub reallocated_sectors: Option<u64>,
    /// Sectors that could not be read, and are replaced when they are written.
    pub pending_sectors: Option<u64>,
    /// Errors that the disk could not correct, over its life.
    pub uncorrectable_errors: Option<u64>,
}

impl DiskHealth {
    /// Whether the disk predicts its failure, or has failed.
    pub fn is_failing(&self) -> bool {
        self.state == "failing"
    }

    fn unknown() -> Self {
        Self {
            state: "unknown".to_owned(),
            ..Self::default()
        }
    }
}

#[derive(Default)]
struct Faults {
    failing: Vec<String>,
    warning: Vec<String>,
}

/// Parses the document. One that is no document of smartctl, or of a disk without health data, is `unknown`.
pub fn parse(text: &[u8]) -> DiskHealth {
    let Ok(document) = serde_json::from_slice::<Value>(text) else {
        return DiskHealth::unknown();
    };
    let number = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64);
    if number("/smartctl/exit_status").is_none_or(|status| status & EXIT_USAGE != 0) {
        return DiskHealth::unknown();
    }
    let text = |pointers: &[&str]| {
        let found = pointers
            .iter()
            .find_map(|pointer| document.pointer(pointer));
        let shown = found
            .and_then(Value::as_str)
            .map(printable)
            .unwrap_or_default();
        Some(shown).filter(|shown| !shown.is_empty())
    };
    let mut health = DiskHealth {
        model: text(&[
            "/model_name",
            "/scsi_model_name",
            "/scsi_product",
            "/product",
        ]),
        serial: text(&["/serial_number"]),
        firmware: text(&["/firmware_version", "/scsi_revision", "/revision"]),
        temperature_celsius: document
            .pointer("/temperature/current")
            .and_then(Value::as_i64),
        power_on_hours: number("/power_on_time/hours"),
        wear_percent: number("/endurance_used/current_percent")
            .or_else(|| number("/nvme_smart_health_information_log/percentage_used"))
            .or_else(|| number("/scsi_percentage_used_endurance_indicator")),
        ..DiskHealth::default()
    };
    if is_asleep(&document) {
        health.state = "standby".to_owned();
        return health;
    }
    let passed = document
        .pointer("/smart_status/passed")
        .and_then(Value::as_bool);
    let mut faults = Faults::default();
    if passed == Some(false) {
        faults
            .failing
            .push("its self-assessment predicts a failure".to_owned());
    }
    of_attributes(&document, &mut health, &mut faults);
    of_nvme(&document, &mut health, &mut faults);
    of_scsi(&document, &mut health);
    of_counters(&health, number("/temperature/drive_trip"), &mut faults);
    let is_known = passed.is_some() || health.temperature_celsius.is_some();
    health.state = match () {
        () if !faults.failing.is_empty() => "failing",
        () if !faults.warning.is_empty() => "warning",
        () if is_known => "good",
        () => "unknown",
    }
    .to_owned();
    health.faults = [faults.failing, faults.warning].concat();
    health
}

/// smartctl says so in a message.
fn is_asleep(document: &Value) -> bool {
    let messages = document
        .pointer("/smartctl/messages")
        .and_then(Value::as_array);
    let said = |message: &Value| {
        let text = message.pointer("/string").and_then(Value::as_str);
        text.is_some_and(|text| {
            ["STANDBY", "SLEEP", "IDLE_"]
                .iter()
                .any(|mode| text.contains(&format!("Device is in {mode}")))
        })
    };
    messages.is_some_and(|messages| messages.iter().any(said))
}

fn of_attributes(document: &Value, health: &mut DiskHealth, faults: &mut Faults) {
    let table = document
        .pointer("/ata_smart_attributes/table")
        .and_then(Value::as_array);
    for attribute in table.into_iter().flatten().take(ATTRIBUTES_MAX) {
        let number = |pointer: &str| attribute.pointer(pointer).and_then(Value::as_u64);
        let Some(id) = number("/id") else { continue };
        let raw = number("/raw/value");
        let name = attribute.pointer("/name").and_then(Value::as_str);
        let name = printable(name.unwrap_or("an attribute"));
        match id {
            REALLOCATED => health.reallocated_sectors = raw,
            PENDING => health.pending_sectors = raw,
            OFFLINE_UNCORRECTABLE => health.uncorrectable_errors = raw,
            _ if LIFE_ATTRIBUTES.iter().any(|part| name.contains(part))
                && health.wear_percent.is_none() =>
            {
                let value = number("/value").filter(|value| *value <= 100);
                health.wear_percent = value.map(|left| 100 - left);
            }
            _ => {}
        }
        // `now`, `past`, or empty.
        let failed = attribute.pointer("/when_failed").and_then(Value::as_str);
        let predicts = attribute
            .pointer("/flags/prefailure")
            .and_then(Value::as_bool);
        if failed == Some("now") && predicts == Some(true) {
            faults
                .failing
                .push(format!("{name} is below its threshold"));
        }
    }
}

fn of_nvme(document: &Value, health: &mut DiskHealth, faults: &mut Faults) {
    let Some(log) = document.pointer("/nvme_smart_health_information_log") else {
        return;
    };
    let number = |name: &str| log.get(name).and_then(Value::as_u64);
    health.uncorrectable_errors = number("media_errors");
    let warned = number("critical_warning").unwrap_or(0);
    for (bit, sentence) in NVME_WARNINGS {
        let list = match bit {
            NVME_TEMPERATURE => &mut faults.warning,
            _ => &mut faults.failing,
        };
        if warned & bit != 0 {
            list.push(sentence.to_owned());
        }
    }
    let spare = number("available_spare").zip(number("available_spare_threshold"));
    if let Some((spare, threshold)) = spare.filter(|(spare, threshold)| spare < threshold) {
        faults.failing.push(format!(
            "{spare} % of its spare blocks are left, and {threshold} % are required"
        ));
    }
}

fn of_scsi(document: &Value, health: &mut DiskHealth) {
    let number = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64);
    if let Some(defects) = number("/scsi_grown_defect_list") {
        health.reallocated_sectors = Some(defects);
    }
    let counters = ["read", "write", "verify"].map(|direction| {
        number(&format!(
            "/scsi_error_counter_log/{direction}/total_uncorrected_errors"
        ))
    });
    let known = counters.into_iter().flatten();
    health.uncorrectable_errors = known
        .reduce(u64::saturating_add)
        .or(health.uncorrectable_errors);
}

fn of_counters(health: &DiskHealth, trip_celsius: Option<u64>, faults: &mut Faults) {
    let sectors = |count: u64| match count {
        1 => "1 sector".to_owned(),
        count => format!("{count} sectors"),
    };
    if let Some(count) = health.pending_sectors.filter(|count| *count > 0) {
        let sectors = sectors(count);
        faults.warning.push(format!("{sectors} could not be read"));
    }
    if let Some(count) = health.uncorrectable_errors.filter(|count| *count > 0) {
        let errors = if count == 1 { "error" } else { "errors" };
        faults
            .warning
            .push(format!("{count} {errors} could not be corrected"));
    }
    if let Some(wear) = health.wear_percent.filter(|wear| *wear >= WEAR_PERCENT_MAX) {
        faults
            .warning
            .push(format!("{wear} % of its specified writes are used"));
    }
    let trip = trip_celsius.and_then(|trip| i64::try_from(trip).ok());
    let trip = trip.filter(|trip| *trip > 0);
    if let Some((celsius, trip)) = health.temperature_celsius.zip(trip) {
        if celsius >= trip {
            faults.warning.push(format!(
                "its temperature is {celsius} °C, and its limit is {trip} °C"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::TEXT_CHARS_MAX;

    fn of(document: &Value) -> DiskHealth {
        let mut document = document.clone();
        document["smartctl"]["exit_status"] = json!(0);
        parse(document.to_string().as_bytes())
    }

    fn attribute(id: u64, value: u64, raw: u64, failed: &str) -> Value {
        let name = match id {
            177 => "Wear_Leveling_Count",
            233 => "Wear_Range_Delta",
            _ => "Some_Count",
        };
        json!({"id": id, "name": name, "value": value, "when_failed": failed,
               "flags": {"prefailure": true}, "raw": {"value": raw}})
    }

    #[test]
    fn ata_disk_with_pending_sectors_is_a_warning() {
        let health = of(&json!({
            "model_name": "ACME 4000\u{7}", "serial_number": "S1", "firmware_version": "F1",
            "smart_status": {"passed": true}, "temperature": {"current": 31}, "power_on_time": {"hours": 17},
            "ata_smart_attributes": {"table": [attribute(5, 100, 3, ""), attribute(197, 100, 8, ""),
                                               attribute(233, 0, 0, ""), attribute(177, 40, 900, "")]},
        }));
        assert_eq!(health.state, "warning");
        assert_eq!(health.faults, ["8 sectors could not be read"]);
        assert_eq!(health.model.as_deref(), Some("ACME 4000"));
        assert_eq!(
            (health.wear_percent, health.reallocated_sectors),
            (Some(60), Some(3))
        );
        assert_eq!(
            (health.power_on_hours, health.temperature_celsius),
            (Some(17), Some(31))
        );
    }

    #[test]
    fn predicted_failures_come_first() {
        let health = of(&json!({
            "smart_status": {"passed": false}, "temperature": {"current": 70, "drive_trip": 60},
            "ata_smart_attributes": {"table": [attribute(5, 1, 4000, "now")]},
        }));
        assert!(health.is_failing());
        assert_eq!(
            health.faults,
            [
                "its self-assessment predicts a failure",
                "Some_Count is below its threshold",
                "its temperature is 70 °C, and its limit is 60 °C",
            ]
        );
    }

    #[test]
    fn nvme_disk_is_judged_by_its_log() {
        let log = |warning: u64, spare: u64, used: u64| {
            of(
                &json!({"smart_status": {"passed": true}, "nvme_smart_health_information_log": {
                "critical_warning": warning, "available_spare": spare, "available_spare_threshold": 10,
                "percentage_used": used, "media_errors": 0}}),
            )
        };
        assert_eq!(log(0, 100, 3).state, "good");
        assert_eq!(
            log(0, 100, 103).faults,
            ["103 % of its specified writes are used"]
        );
        assert_eq!(log(2, 100, 3).state, "warning");
        assert_eq!(log(8, 100, 3).faults, ["it has become read-only"]);
        assert_eq!(log(0, 9, 3).state, "failing");
    }

    #[test]
    fn scsi_disk_counts_the_errors_of_all_directions() {
        let health = of(&json!({
            "scsi_model_name": "X", "scsi_grown_defect_list": 2, "smart_status": {"passed": true},
            "scsi_error_counter_log": {"read": {"total_uncorrected_errors": 1}, "write": {"total_uncorrected_errors": 2}},
        }));
        assert_eq!(
            (health.uncorrectable_errors, health.reallocated_sectors),
            (Some(3), Some(2))
        );
        assert_eq!(health.faults, ["3 errors could not be corrected"]);
    }

    #[test]
    fn sleeping_disk_is_not_judged() {
        let text = json!({"smartctl": {"exit_status": 2, "messages": [
            {"string": "Device is in STANDBY mode, exit(2)", "severity": "information"}]}});
        assert_eq!(parse(text.to_string().as_bytes()).state, "standby");
    }

    #[test]
    fn anything_else_is_unknown() {
        let usage = json!({"smartctl": {"exit_status": 1}}).to_string();
        let virtual_disk =
            json!({"smartctl": {"exit_status": 0}, "model_name": "QEMU"}).to_string();
        let odd =
            json!({"smartctl": {"exit_status": 0}, "ata_smart_attributes": {"table": {"id": []}}})
                .to_string();
        let deep = "[".repeat(10_000);
        for text in ["", "{", "[]", "7", &usage, &virtual_disk, &odd, &deep] {
            assert_eq!(parse(text.as_bytes()).state, "unknown", "{text:.40}");
        }
        let long = json!({"smartctl": {"exit_status": 0}, "model_name": "x".repeat(5000)});
        let model = parse(long.to_string().as_bytes()).model.expect("a model");
        assert_eq!(model.len(), TEXT_CHARS_MAX);
    }
}
