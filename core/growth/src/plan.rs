//! The plan: all printed figures, as one document.

mod commands;
mod picture;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::crush::CrushMap;
use crate::movement::{Movement, compare, ideal_share};
use crate::osdmap::{OsdMap, Ratios};
use crate::placement::Placement;
use crate::rates::{Hours, Rates, hours_of};
use crate::request::Growth;
use crate::reweight::{over_full, reweight_text};
use crate::stages::Stage;
use crate::stored::{DiskUse, Stored};
use crate::{OsdId, bytes_of_weight};

pub use commands::Commands;

/// Version of the document.
pub const FORMAT: u32 = 1;

/// All that a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The OSD map.
    pub map: &'a OsdMap,
    /// The CRUSH map before.
    pub before: &'a CrushMap,
    /// The CRUSH map after the last stage.
    pub after: &'a CrushMap,
    /// The request.
    pub growth: &'a Growth,
    /// Stored bytes.
    pub stored: &'a Stored,
    /// Rates.
    pub rates: &'a Rates,
    /// The stages.
    pub stages: &'a [Stage],
    /// The placement before, and after each stage.
    pub placements: &'a [Placement],
    /// Times the mean fill above which a disk is over-full.
    pub over: f64,
}

/// Figures of a movement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Copies and shards of all placement groups.
    pub copies: u64,
    /// Those that move.
    pub copies_moved: u64,
    /// Their share. Ceph calls these copies misplaced.
    pub copies_moved_share: f64,
    /// Bytes of all copies.
    pub bytes: u64,
    /// Bytes that move.
    pub bytes_moved: u64,
    /// Their share.
    pub bytes_moved_share: f64,
    /// Placement groups.
    pub groups: u64,
    /// Those of which a copy moves.
    pub groups_touched: u64,
    /// Their share: of the objects, those of which a copy moves.
    pub groups_touched_share: f64,
    /// Bytes of all copies of these: an upper estimate.
    pub bytes_touched: u64,
    /// Copies that find no disk.
    pub copies_unplaced: u64,
    /// Hours.
    pub hours: Hours,
}

/// A disk in a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStage {
    /// Bytes that are written to it.
    pub bytes_in: u64,
    /// Bytes that are deleted from it.
    pub bytes_out: u64,
    /// Bytes that are read from it for copies elsewhere.
    pub bytes_read: u64,
    /// Used bytes while it has received all and deleted nothing: the most that is possible.
    pub used_peak: u64,
    /// Used bytes after.
    pub used_after: u64,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Its number.
    pub osd: OsdId,
    /// Its host.
    pub host: String,
    /// Its device class.
    pub class: Option<String>,
    /// Bytes that it holds at most.
    pub size: u64,
    /// Whether the growth adds it.
    pub is_new: bool,
    /// Whether the growth removes it.
    pub is_removed: bool,
    /// Used bytes before.
    pub used_before: u64,
    /// Copies and shards after the last stage.
    pub groups_after: u32,
    /// In each stage.
    pub stages: Vec<DiskStage>,
}

impl Disk {
    /// The fraction that `used` is of the disk.
    pub fn fill(&self, used: u64) -> f64 {
        match self.size {
            0 => 0.0,
            size => used as f64 / size as f64,
        }
    }

    /// Used bytes after a number of stages.
    pub fn used_after(&self, stages: usize) -> u64 {
        let done = stages.checked_sub(1);
        let stage = done.and_then(|last| self.stages.get(last));
        stage.map_or(self.used_before, |stage| stage.used_after)
    }

    /// The most used bytes in any stage.
    pub fn used_peak(&self) -> u64 {
        let peaks = self.stages.iter().map(|stage| stage.used_peak);
        peaks.max().unwrap_or(self.used_before)
    }

    /// Bytes that are written to it in all stages.
    pub fn bytes_in(&self) -> u64 {
        self.stages.iter().map(|stage| stage.bytes_in).sum()
    }

    /// Bytes that are deleted from it in all stages.
    pub fn bytes_out(&self) -> u64 {
        self.stages.iter().map(|stage| stage.bytes_out).sum()
    }
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StagePlan {
    /// Disks that get their weight.
    pub raised: Vec<OsdId>,
    /// Disks that lose it.
    pub removed: Vec<OsdId>,
    /// Figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// The disk with the highest peak.
    pub fullest: OsdId,
    /// Its fraction then.
    pub fullest_peak: f64,
}

/// A disk that would be over-full, with the remedy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverFull {
    /// Its number.
    pub osd: OsdId,
    /// Its fraction after the last stage.
    pub fill: f64,
    /// The proposed reweight, if proposals were requested.
    pub reweight: Option<String>,
    /// Its fraction with all proposals.
    pub fill_reweighted: Option<f64>,
}

/// The proposals for over-full disks as one more step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reweighting {
    /// Figures of that step.
    #[serde(flatten)]
    pub figures: Figures,
    /// The highest fraction of a disk after it.
    pub fullest_after: f64,
    /// The command for each disk.
    pub commands: Vec<String>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Version of this document.
    pub format: u32,
    /// The cluster.
    pub fsid: String,
    /// The version of its map.
    pub epoch: u64,
    /// Limits of fullness.
    pub ratios: Ratios,
    /// Disks with a weight before.
    pub disks_before: usize,
    /// Disks with a weight after.
    pub disks_after: usize,
    /// The share of the copies that must move at least.
    pub ideal_share: f64,
    /// The mean fraction of the disks before.
    pub mean_fill_before: f64,
    /// The same after.
    pub mean_fill_after: f64,
    /// The whole growth in one step.
    pub at_once: Figures,
    /// The sum of all stages.
    pub staged: Figures,
    /// The stages.
    pub stages: Vec<StagePlan>,
    /// The disks, by number.
    pub disks: Vec<Disk>,
    /// Disks that would be over-full.
    pub over_full: Vec<OverFull>,
    /// The proposals for them.
    pub reweighting: Option<Reweighting>,
    /// The commands.
    pub commands: Commands,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Computes a plan.
pub fn assemble(inputs: &Inputs<'_>) -> Plan {
    let builder = Builder::new(inputs);
    builder.build()
}

struct Builder<'a> {
    inputs: &'a Inputs<'a>,
    hosts: BTreeMap<OsdId, String>,
    receivers: BTreeSet<OsdId>,
    /// Used bytes of a disk for each byte of objects.
    factor: f64,
}

impl<'a> Builder<'a> {
    fn new(inputs: &'a Inputs<'a>) -> Self {
        let disks = inputs.after.disks();
        let added: BTreeSet<OsdId> = inputs.growth.added.iter().map(|disk| disk.osd).collect();
        let weighted = disks.values().filter(|disk| disk.weight > 0);
        Self {
            inputs,
            receivers: match added.is_empty() {
                true => weighted.map(|disk| disk.osd).collect(),
                false => added,
            },
            hosts: disks
                .into_values()
                .map(|disk| (disk.osd, disk.host))
                .collect(),
            factor: 1.0,
        }
    }

    fn compare(&self, before: &Placement, after: &Placement) -> Movement {
        compare(self.inputs.map, &self.inputs.stored.groups, before, after)
    }

    fn build(mut self) -> Plan {
        let inputs = self.inputs;
        let Some((first, rest)) = inputs.placements.split_first() else {
            return Plan::empty(inputs);
        };
        let at_once = self.compare(first, rest.last().unwrap_or(first));
        self.factor = factor(inputs.stored, &at_once);
        let mut disks = self.disks(&at_once);
        let mut plan = Plan::empty(inputs);
        let mut before = first;
        for (stage, after) in inputs.stages.iter().zip(rest) {
            let movement = self.compare(before, after);
            self.add_stage(&mut disks, &movement);
            let peak = |disk: &Disk| disk.fill(disk.stages.last().map_or(0, |last| last.used_peak));
            let fullest = disks
                .values()
                .max_by(|one, other| peak(one).total_cmp(&peak(other)));
            let figures = self.figures(&movement);
            plan.staged.add(&figures);
            plan.stages.push(StagePlan {
                raised: stage.raised.clone(),
                removed: stage.removed.clone(),
                figures,
                fullest: fullest.map_or(0, |disk| disk.osd),
                fullest_peak: fullest.map_or(0.0, peak),
            });
            before = after;
        }
        plan.at_once = self.figures(&at_once);
        plan.ideal_share = self.ideal_share();
        let weighted = |map: &CrushMap| {
            let disks = map.disks().into_values().filter(|disk| disk.weight > 0);
            disks.map(|disk| disk.osd).collect::<BTreeSet<_>>()
        };
        let (old, new) = (weighted(inputs.before), weighted(inputs.after));
        plan.disks_before = old.len();
        plan.disks_after = new.len();
        let stages = inputs.stages.len();
        plan.mean_fill_before = mean_fill(&disks, &old, 0);
        plan.mean_fill_after = mean_fill(&disks, &new, stages);
        let fills = fills(&disks, &new, stages);
        let over = over_full(&fills, plan.mean_fill_after, inputs.over);
        plan.over_full = over
            .into_iter()
            .map(|osd| OverFull {
                osd,
                fill: fills[&osd],
                reweight: None,
                fill_reweighted: None,
            })
            .collect();
        plan.disks = disks.into_values().collect();
        plan.commands = commands::of(inputs);
        plan.notes = self.notes(&plan);
        plan
    }

    fn figures(&self, movement: &Movement) -> Figures {
        Figures {
            copies: movement.copies,
            copies_moved: movement.copies_moved,
            copies_moved_share: movement.share_of_copies(),
            bytes: movement.bytes,
            bytes_moved: movement.bytes_moved,
            bytes_moved_share: movement.share_of_bytes(),
            groups: movement.groups,
            groups_touched: movement.groups_touched,
            groups_touched_share: movement.share_of_groups(),
            bytes_touched: movement.bytes_touched,
            copies_unplaced: movement.copies_unplaced,
            hours: hours_of(movement, &self.hosts, &self.receivers, self.inputs.rates),
        }
    }

    /// Every disk of the final map, before the first stage.
    fn disks(&self, at_once: &Movement) -> BTreeMap<OsdId, Disk> {
        let inputs = self.inputs;
        let before = inputs.before.disks();
        let added = inputs.growth.added.iter();
        let added: BTreeMap<OsdId, u64> = added.map(|disk| (disk.osd, disk.size)).collect();
        let removed: BTreeSet<OsdId> = inputs.growth.removed.iter().copied().collect();
        let mut disks = BTreeMap::new();
        for disk in inputs.after.disks().into_values() {
            let osd = disk.osd;
            let known = inputs.stored.disks.get(&osd).filter(|known| known.size > 0);
            let weight = before
                .get(&osd)
                .map_or(disk.weight, |old| old.weight.max(disk.weight));
            let movement = at_once.disks.get(&osd).copied().unwrap_or_default();
            disks.insert(
                osd,
                Disk {
                    osd,
                    size: match (known, added.get(&osd)) {
                        (Some(known), _) => known.size,
                        (None, Some(&size)) => size,
                        (None, None) => bytes_of_weight(weight),
                    },
                    host: disk.host,
                    class: disk.class,
                    is_new: added.contains_key(&osd),
                    is_removed: removed.contains(&osd),
                    used_before: known.map_or(movement.before, |known| known.used),
                    groups_after: movement.groups,
                    stages: Vec::new(),
                },
            );
        }
        disks
    }

    fn add_stage(&self, disks: &mut BTreeMap<OsdId, Disk>, movement: &Movement) {
        let on_disk = |bytes: u64| (bytes as f64 * self.factor) as u64;
        for (osd, disk) in disks.iter_mut() {
            let moved = movement.disks.get(osd).copied().unwrap_or_default();
            let used = disk.used_after(disk.stages.len());
            let used_peak = used.saturating_add(on_disk(moved.incoming));
            disk.stages.push(DiskStage {
                bytes_in: moved.incoming,
                bytes_out: moved.outgoing,
                bytes_read: moved.read,
                used_peak,
                used_after: used_peak.saturating_sub(on_disk(moved.outgoing)),
            });
        }
    }

    /// The ideal of each pool, weighted by its bytes, or by its copies if no bytes are known.
    fn ideal_share(&self) -> f64 {
        let inputs = self.inputs;
        let (mut sum, mut all) = (0.0, 0.0);
        let has_bytes = inputs
            .stored
            .groups
            .values()
            .flatten()
            .any(|&bytes| bytes > 0);
        for pool in inputs.map.pools.values() {
            let reach = |map: &CrushMap| {
                let mut reach: BTreeMap<OsdId, u64> = BTreeMap::new();
                for take in map.takes(pool.rule).unwrap_or_default() {
                    reach.extend(map.reach(&take));
                }
                for (osd, weight) in &mut reach {
                    let state = inputs.map.osds.get(osd);
                    let reweight = state.map_or(1 << 16, |state| u64::from(state.reweight));
                    *weight = weight.saturating_mul(reweight) >> 16;
                }
                reach
            };
            let bytes: u64 = match has_bytes {
                true => inputs
                    .stored
                    .groups
                    .get(&pool.id)
                    .into_iter()
                    .flatten()
                    .sum(),
                false => u64::from(pool.pgs),
            };
            let share = pool.shard_bytes(bytes) as f64 * pool.width as f64;
            sum += share * ideal_share(&reach(inputs.before), &reach(inputs.after));
            all += share;
        }
        match all > 0.0 {
            true => sum / all,
            false => 0.0,
        }
    }

    fn notes(&self, plan: &Plan) -> Vec<String> {
        let (inputs, mut notes) = (self.inputs, Vec::new());
        let ratios = inputs.map.ratios;
        let percent = |fraction: f64| format!("{:.0} %", fraction * 100.0);
        let blocked: Vec<String> = plan
            .disks
            .iter()
            .filter(|disk| disk.fill(disk.used_peak()) >= ratios.backfillfull)
            .map(|disk| format!("osd.{}", disk.osd))
            .collect();
        if !blocked.is_empty() {
            notes.push(format!(
                "above {1} Ceph stops moving data to a disk; {0} could exceed it while they receive: {2}",
                blocked.len(),
                percent(ratios.backfillfull),
                some(&blocked)
            ));
        }
        let down = inputs.map.osds.iter().filter(|(_, state)| !state.is_up);
        let down: Vec<String> = down.map(|(osd, _)| format!("osd.{osd}")).collect();
        if !down.is_empty() {
            notes.push(format!(
                "{} are down; the plan assumes that they return with their data: {}",
                down.len(),
                some(&down)
            ));
        }
        if inputs.map.pgs_in_motion > 0 {
            notes.push(format!(
                "{} placement groups are being moved now; make the plan again when they are active+clean",
                inputs.map.pgs_in_motion
            ));
        }
        if plan.at_once.copies_unplaced > 0 {
            notes.push(format!(
                "{} copies find no disk after the growth: the rule of their pool needs more failure domains",
                plan.at_once.copies_unplaced
            ));
        }
        if plan.at_once.bytes == 0 {
            notes.push(
                "no bytes are known: give --pool-bytes POOL=SIZE or --pg-dump FILE".to_owned(),
            );
        }
        notes
    }
}

/// The first of many names.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len() > SHOWN {
        true => format!("{shown}, …"),
        false => shown,
    }
}

/// Used bytes of disks for each byte of objects: compression lowers it, small objects raise it.
fn factor(stored: &Stored, movement: &Movement) -> f64 {
    let used: f64 = stored
        .disks
        .values()
        .map(|disk: &DiskUse| disk.data as f64)
        .sum();
    let bytes: f64 = movement.disks.values().map(|disk| disk.before as f64).sum();
    match used > 0.0 && bytes > 0.0 {
        true => used / bytes,
        false => 1.0,
    }
}

/// Fractions of the disks of a set after a number of stages.
fn fills(
    disks: &BTreeMap<OsdId, Disk>,
    set: &BTreeSet<OsdId>,
    stages: usize,
) -> BTreeMap<OsdId, f64> {
    let of_set = disks.values().filter(|disk| set.contains(&disk.osd));
    of_set
        .map(|disk| (disk.osd, disk.fill(disk.used_after(stages))))
        .collect()
}

fn mean_fill(disks: &BTreeMap<OsdId, Disk>, set: &BTreeSet<OsdId>, stages: usize) -> f64 {
    let of_set = disks.values().filter(|disk| set.contains(&disk.osd));
    let (used, size) = of_set.fold((0.0, 0.0), |(used, size), disk| {
        let more = disk.used_after(stages) as f64;
        (used + more, size + disk.size as f64)
    });
    match size > 0.0 {
        true => used / size,
        false => 0.0,
    }
}

impl Figures {
    /// Adds a stage. The shares are of the sum.
    fn add(&mut self, stage: &Self) {
        self.copies = stage.copies;
        self.bytes = stage.bytes;
        self.groups = stage.groups;
        self.copies_unplaced = stage.copies_unplaced;
        self.copies_moved += stage.copies_moved;
        self.bytes_moved += stage.bytes_moved;
        self.groups_touched += stage.groups_touched;
        self.bytes_touched += stage.bytes_touched;
        self.copies_moved_share += stage.copies_moved_share;
        self.bytes_moved_share += stage.bytes_moved_share;
        self.groups_touched_share += stage.groups_touched_share;
        if let Some(hours) = stage.hours.expected {
            *self.hours.expected.get_or_insert(0.0) += hours;
        }
    }
}

impl Plan {
    fn empty(inputs: &Inputs<'_>) -> Self {
        Self {
            format: FORMAT,
            fsid: inputs.map.fsid.clone(),
            epoch: inputs.map.epoch,
            ratios: inputs.map.ratios,
            disks_before: 0,
            disks_after: 0,
            ideal_share: 0.0,
            mean_fill_before: 0.0,
            mean_fill_after: 0.0,
            at_once: Figures::default(),
            staged: Figures::default(),
            stages: Vec::new(),
            disks: Vec::new(),
            over_full: Vec::new(),
            reweighting: None,
            commands: Commands::default(),
            notes: Vec::new(),
        }
    }

    /// Fractions of the disks that have a weight after the last stage, if `movement` follows it.
    fn fills_after(&self, movement: Option<(&Movement, f64)>) -> BTreeMap<OsdId, f64> {
        let disks = self.disks.iter().filter(|disk| !disk.is_removed);
        disks
            .map(|disk| {
                let used = disk.used_after(disk.stages.len()) as f64;
                let moved = movement.and_then(|(movement, factor)| {
                    let moved = movement.disks.get(&disk.osd)?;
                    Some((moved.incoming as f64 - moved.outgoing as f64) * factor)
                });
                let used = (used + moved.unwrap_or(0.0)).max(0.0);
                (disk.osd, disk.fill(used as u64))
            })
            .collect()
    }

    /// The fractions after the last stage, for proposals.
    pub fn fills(&self) -> BTreeMap<OsdId, f64> {
        self.fills_after(None)
    }

    /// Fractions after the last stage and a reweighting that leads to `after`.
    pub fn fills_reweighted(&self, inputs: &Inputs<'_>, after: &Placement) -> BTreeMap<OsdId, f64> {
        let builder = Builder::new(inputs);
        let Some((first, last)) = inputs.placements.first().zip(inputs.placements.last()) else {
            return BTreeMap::new();
        };
        let movement = builder.compare(last, after);
        let factor = factor(inputs.stored, &builder.compare(first, last));
        self.fills_after(Some((&movement, factor)))
    }

    /// Adds the proposals, which lead to the placement `after`.
    pub fn set_reweights(
        &mut self,
        inputs: &Inputs<'_>,
        reweights: &BTreeMap<OsdId, u32>,
        after: &Placement,
    ) {
        let fills = self.fills_reweighted(inputs, after);
        let Some(last) = inputs.placements.last() else {
            return;
        };
        let builder = Builder::new(inputs);
        let figures = builder.figures(&builder.compare(last, after));
        let mut commands = Vec::new();
        for (&osd, &reweight) in reweights {
            let old = inputs.map.osds.get(&osd).map(|state| state.reweight);
            if old != Some(reweight) {
                commands.push(format!(
                    "ceph osd reweight {osd} {}",
                    reweight_text(reweight)
                ));
            }
        }
        for disk in &mut self.over_full {
            let reweight = reweights.get(&disk.osd);
            disk.reweight = reweight.map(|&reweight| reweight_text(reweight));
            disk.fill_reweighted = fills.get(&disk.osd).copied();
        }
        self.reweighting = Some(Reweighting {
            figures,
            fullest_after: fills.values().copied().fold(0.0, f64::max),
            commands,
        });
    }
}

#[cfg(test)]
mod tests;
