//! Faults that the hardware reports: the disks of each head, which only that head can query, and the sensors of BMCs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use control::{Advice, Severity};

use crate::Api;
use crate::peer::{self, Peers};
use crate::view::{Alert, HardwareFault, HeadView};

/// The kind of a fault of a disk.
pub const DISK: &str = "disk";
/// The kind of a fault that a sensor of a BMC reports.
pub const SENSOR: &str = "sensor";
/// Interval between two queries of a head.
const QUERY_INTERVAL: Duration = Duration::from_secs(60);
/// Most faults of a head; more would hide everything else.
const FAULTS_MAX: usize = 64;

/// The last known faults of the other heads.
#[derive(Default)]
pub struct HardwareFaults {
    heads: BTreeMap<String, (Instant, Vec<HardwareFault>)>,
}

impl HardwareFaults {
    /// Adds the faults of the other heads that are online to `own`.
    pub fn of_all(
        &mut self,
        own: Vec<HardwareFault>,
        heads: &[HeadView],
        peers: Option<&Peers>,
    ) -> Vec<HardwareFault> {
        let is_online = |head: &&HeadView| !head.here && head.state != "offline";
        let online: Vec<&HeadView> = heads.iter().filter(is_online).collect();
        self.heads
            .retain(|name, _| online.iter().any(|head| head.name == *name));
        for head in online {
            let known = self.heads.get(&head.name);
            if known.is_some_and(|(at, _)| at.elapsed() < QUERY_INTERVAL) {
                continue;
            }
            let queried = peers.and_then(|peers| peers.hardware_faults(&head.name));
            let faults = match (queried, known) {
                (Some(faults), _) => of_disks(faults, &head.name),
                // What is not known is not over.
                (None, Some((_, old))) => old.clone(),
                (None, None) => Vec::new(),
            };
            self.heads
                .insert(head.name.clone(), (Instant::now(), faults));
        }
        let others = self.heads.values().flat_map(|(_, faults)| faults.clone());
        own.into_iter().take(FAULTS_MAX).chain(others).collect()
    }
}

/// Of another head only its disks count: this head queries all BMCs itself.
fn of_disks(faults: Vec<HardwareFault>, head: &str) -> Vec<HardwareFault> {
    let disks = faults.into_iter().filter(|fault| fault.kind == DISK);
    let own = disks.map(|fault| HardwareFault {
        head: head.to_owned(),
        ..fault
    });
    own.take(FAULTS_MAX).collect()
}

/// Returns the faults of this head's disks to another head.
pub(crate) async fn own(State(api): State<Arc<Api>>) -> Response {
    let backend = Arc::clone(&api.backend);
    peer::respond(move || backend.hardware_faults()).await
}

/// The alert of a fault.
pub fn alert(fault: &HardwareFault) -> Alert {
    let description = fault.description.as_ref();
    let description = description.map_or_else(String::new, |text| format!(" ({text})"));
    let faults = fault.faults.join("; ");
    let (head, name) = (&fault.head, &fault.name);
    let (sentence, advice) = if fault.kind == DISK {
        let what = match fault.is_failing {
            true => "replace the disk before it fails",
            false => "watch the disk, and have another one ready",
        };
        let advice = Advice::new(Severity::Warning, what, "").by("bulkhead head disks");
        (
            format!("disk {name}{description} of {head}: {faults}"),
            advice,
        )
    } else {
        let what = format!(
            "check the fans, the power supplies and the cover of {head}, and the air around it"
        );
        (
            format!("{name} of {head}: {faults}"),
            Advice::new(Severity::Warning, what, ""),
        )
    };
    Alert {
        severity: "warning".to_owned(),
        about: format!("{name} of {head}"),
        sentence,
        since_ms: None,
        advice: Some(advice),
        details: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(head: &str, kind: &str, name: &str) -> HardwareFault {
        HardwareFault {
            head: head.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            faults: vec!["its self-assessment predicts a failure".to_owned()],
            is_failing: true,
            ..HardwareFault::default()
        }
    }

    #[test]
    fn disks_of_another_head_have_its_name_and_sensors_are_left_out() {
        let told = vec![
            fault("mine", DISK, "/dev/a"),
            fault("right", SENSOR, "Fan 1"),
        ];
        let kept = of_disks(told, "right");
        assert_eq!(kept, [fault("right", DISK, "/dev/a")]);
    }

    #[test]
    fn offline_head_has_no_faults() {
        let mut known = HardwareFaults::default();
        let old = (Instant::now(), vec![fault("right", DISK, "/dev/a")]);
        known.heads.insert("right".to_owned(), old);
        let head = |state: &str| {
            [HeadView {
                name: "right".to_owned(),
                state: state.to_owned(),
                ..HeadView::default()
            }]
        };
        assert_eq!(known.of_all(Vec::new(), &head("online"), None).len(), 1);
        assert_eq!(known.of_all(Vec::new(), &head("offline"), None).len(), 0);
    }

    #[test]
    fn alert_names_the_disk_and_the_action() {
        let disk = HardwareFault {
            description: Some("ACME 4000, serial S1, slot 7".to_owned()),
            ..fault("left", DISK, "/dev/disk/by-id/a")
        };
        let told = alert(&disk);
        assert_eq!(
            told.sentence,
            "disk /dev/disk/by-id/a (ACME 4000, serial S1, slot 7) of left: its self-assessment predicts a failure"
        );
        let advice = told.advice.expect("an advice");
        assert_eq!(advice.command.as_deref(), Some("bulkhead head disks"));
    }
}
