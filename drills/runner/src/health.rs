//! Whether a pool is healthy: every device online, and no resilver pending. A fault during recovery would also hit the
//! effects of the previous fault.

use serde::Deserialize;

/// The fields that are read from `bulkhead pool status --json`.
#[derive(Debug, Deserialize)]
struct Status {
    suspended: bool,
    devices: Vec<Device>,
    scan: Option<Scan>,
    #[serde(default)]
    legs: Option<Legs>,
}

#[derive(Debug, Deserialize)]
struct Legs {
    legs: Vec<Leg>,
}

#[derive(Debug, Deserialize)]
struct Leg {
    head: String,
    state: String,
}

#[derive(Debug, Deserialize)]
struct Device {
    name: String,
    state: String,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    members: Vec<Device>,
}

#[derive(Debug, Deserialize)]
struct Scan {
    function: String,
    state: String,
}

/// The reason why devices are not well, or `None`.
pub fn complaint(status: &str) -> Option<String> {
    let status: Status = match serde_json::from_str(status) {
        Ok(status) => status,
        Err(error) => return Some(format!("the status is not understood: {error}")),
    };
    let mut queue: Vec<&Device> = status.devices.iter().collect();
    while let Some(device) = queue.pop() {
        // Whole groups are as well as their members; spares that wait are well, too.
        if device.members.is_empty() && !matches!(device.state.as_str(), "ONLINE" | "AVAIL") {
            return Some(format!("{} is {}", device.name, device.state));
        }
        // A device with missing data provides no redundancy for its group.
        if let (true, Some(note)) = (device.state == "ONLINE", &device.note) {
            return Some(format!("{}: {note}", device.name));
        }
        queue.extend(&device.members);
    }
    let scan = status.scan?;
    let copies = scan.function == "resilver" && scan.state == "running";
    copies.then(|| "a resilver runs".to_owned())
}

/// The reason why the legs of a pool or the members with its record are not well, by `bulkhead status`; `None` if all
/// are well.
pub fn complaint_of_legs(status: &str) -> Option<String> {
    const STALE_MARKERS: [&str; 4] = [
        "is missing all writes",
        "does not answer",
        "is not this pool's",
        "put on record",
    ];
    let has_sign = |line: &&str| STALE_MARKERS.iter().any(|sign| line.contains(sign));
    let found = status.lines().find(has_sign)?;
    Some(found.trim().to_owned())
}

/// Whether the record lists every leg of `head` as stale.
pub fn are_stale(status: &str, head: &str) -> bool {
    let status = serde_json::from_str::<Status>(status).ok();
    let legs = status.and_then(|status| status.legs);
    let legs = legs.map_or_else(Vec::new, |legs| legs.legs);
    let mut own = legs.iter().filter(|leg| leg.head == head).peekable();
    own.peek().is_some() && own.all(|leg| matches!(leg.state.as_str(), "stale" | "copying"))
}

/// Whether all I/O is blocked by devices.
pub fn is_suspended(status: &str) -> bool {
    serde_json::from_str::<Status>(status).is_ok_and(|status| status.suspended)
}

/// The fields that are read from `bulkhead pool events --json`.
#[derive(Debug, Deserialize)]
struct Event {
    at_ms: u64,
    kind: String,
}

/// Whether an event since a timestamp (milliseconds since 1970) reports a device that an operator must bring back.
pub fn stays_out(events: &str, since_ms: u64) -> bool {
    let events: Vec<Event> = serde_json::from_str(events).unwrap_or_default();
    // The second is of a leg.
    let is_out = |event: &Event| ["stays_out", "leg_faulted"].contains(&event.kind.as_str());
    let said = |event: &Event| is_out(event) && event.at_ms >= since_ms;
    events.iter().any(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, scan: &str) -> String {
        format!(
            r#"{{"name":"tank","suspended":false,"devices":[{{"name":"mirror-0","state":"ONLINE","members":[
                {{"name":"/a","state":"ONLINE","members":[]}},{{"name":"/b","state":"{state}"}}]}}],
                "scan":{scan}}}"#
        )
    }

    #[test]
    fn pool_is_healthy_when_all_devices_are_and_no_resilver_runs() {
        let ended = r#"{"function":"resilver","state":"finished"}"#;
        let scrub = r#"{"function":"scrub","state":"running"}"#;
        for scan in ["null", ended, scrub] {
            assert_eq!(complaint(&status("ONLINE", scan)), None);
        }
        let copying = r#"{"function":"resilver","state":"running"}"#;
        let said = |state, scan| complaint(&status(state, scan)).expect("a complaint");
        assert_eq!(said("FAULTED", ended), "/b is FAULTED");
        assert_eq!(said("ONLINE", copying), "a resilver runs");
        let lacks = status("ONLINE\",\"note\":\"lacks data", "null");
        assert_eq!(complaint(&lacks).as_deref(), Some("/b: lacks data"));
        assert!(complaint("no server").is_some());
    }

    #[test]
    fn stale_leg_and_silent_member_are_reported() {
        let told = |line: &str| complaint_of_legs(&format!("pool tank\n  {line}\nall is served\n"));
        assert_eq!(told("legs left:bay1, right:bay1"), None);
        for line in [
            "leg b:/y is missing all writes since transaction group 30",
            "member w does not answer: refused",
        ] {
            assert_eq!(told(line).as_deref(), Some(line));
        }
    }

    #[test]
    fn head_is_stale_when_all_its_legs_are() {
        let are_stale = |states: [&str; 2]| {
            let [one, other] = states;
            let text = format!(
                r#"{{"suspended":false,"devices":[],"scan":null,"legs":{{"legs":[
                    {{"head":"left","state":"current"}},{{"head":"right","state":"{one}"}},
                    {{"head":"right","state":"{other}"}}]}}}}"#
            );
            super::are_stale(&text, "right")
        };
        assert!(are_stale(["stale", "stale"]));
        assert!(!are_stale(["stale", "current"]));
        assert!(!are_stale(["failing", "failing"]));
        assert!(!super::are_stale(&status("ONLINE", "null"), "right"));
    }

    #[test]
    fn suspended_pool_is_detected() {
        let text = status("UNAVAIL", "null");
        assert!(!is_suspended(&text));
        assert!(is_suspended(&text.replace("false", "true")));
    }

    #[test]
    fn device_left_out_is_found_in_events_of_round() {
        let events = r#"[{"number":1,"at_ms":70,"kind":"stays_out","device":"/a","message":"x"},
            {"number":2,"at_ms":90,"kind":"returned","device":"/a","message":"x"}]"#;
        assert!(stays_out(events, 70));
        assert!(stays_out(&events.replace("stays_out", "leg_faulted"), 70));
        assert!(!stays_out(events, 71));
    }
}
