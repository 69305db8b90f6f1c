//! The commands of a growth, to be typed by the administrator. A plan runs none of them.

use serde::Serialize;

use super::Inputs;
use crate::stages::Stage;
use crate::{OsdId, weight_text};

/// The commands, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Commands {
    /// Before the disks are created.
    pub prepare: Vec<String>,
    /// For each stage.
    pub stages: Vec<Vec<String>>,
    /// After the last stage.
    pub finish: Vec<String>,
}

/// Returns the commands of a plan.
pub fn of(inputs: &Inputs<'_>) -> Commands {
    let growth = inputs.growth;
    let mut prepare = Vec::new();
    if growth.added.iter().any(|disk| !disk.exists) {
        // A disk that is created gets no data before its stage.
        prepare.push("ceph config set osd osd_crush_initial_weight 0".to_owned());
    }
    for (host, parent) in &growth.hosts {
        prepare.push(format!("ceph osd crush add-bucket {host} host"));
        let location = inputs.before.location_of(parent);
        prepare.push(format!("ceph osd crush move {host} {location}"));
    }
    let stages = inputs.stages.iter().map(|stage| of_stage(inputs, stage));
    let mut finish = Vec::new();
    if !prepare.is_empty() {
        finish.push("ceph config rm osd osd_crush_initial_weight".to_owned());
    }
    for osd in &growth.removed {
        finish.push(format!("ceph osd out {osd}"));
        finish.push(format!("ceph osd safe-to-destroy {osd}"));
        finish.push(format!("ceph osd purge {osd} --yes-i-really-mean-it"));
    }
    Commands {
        stages: stages.collect(),
        prepare,
        finish,
    }
}

fn of_stage(inputs: &Inputs<'_>, stage: &Stage) -> Vec<String> {
    // With the flag, all weights of the stage are set before the first byte moves.
    let mut commands = vec!["ceph osd set norebalance".to_owned()];
    let reweight = |osd: &OsdId, bytes: u64| {
        format!("ceph osd crush reweight osd.{osd} {}", weight_text(bytes))
    };
    for osd in &stage.raised {
        let disk = inputs.growth.added.iter().find(|disk| disk.osd == *osd);
        commands.extend(disk.map(|disk| reweight(osd, disk.size)));
    }
    commands.extend(stage.removed.iter().map(|osd| reweight(osd, 0)));
    commands.push("ceph osd unset norebalance".to_owned());
    commands
}
