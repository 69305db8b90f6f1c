//! A CRUSH map as `crushtool --dump` prints it, with the edits of a plan, and as the text that `crushtool --compile`
//! reads. Weights stay exact: the tool's own text rounds them to three decimals.

mod edit;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::{GrowthError, OSD_ID_MAX, OsdId};

/// The name of the bucket type of hosts.
pub const HOST: &str = "host";

/// Between the name of a bucket and a device class, in the name of the bucket's shadow.
const SHADOW: char = '~';

/// Most buckets of a map.
const BUCKETS_MAX: usize = 200_000;

/// Most levels between a root and a disk.
const LEVELS_MAX: usize = 32;

#[derive(Clone, Debug, Deserialize)]
struct Device {
    id: i64,
    name: String,
    #[serde(default)]
    class: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct BucketType {
    type_id: u32,
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Item {
    id: i64,
    /// The tool prints 32 bits as a signed number.
    weight: i64,
}

impl Item {
    fn weight(&self) -> u64 {
        unsigned(self.weight)
    }
}

fn unsigned(weight: i64) -> u64 {
    // Truncation is the purpose: the low 32 bits are the number.
    u64::from(weight as u32)
}

#[derive(Clone, Debug, Deserialize)]
struct Bucket {
    id: i64,
    name: String,
    type_name: String,
    alg: String,
    hash: String,
    items: Vec<Item>,
}

impl Bucket {
    /// The name of the bucket that this is the shadow of, and the class.
    fn shadow_of(&self) -> Option<(&str, &str)> {
        self.name.split_once(SHADOW)
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Step {
    op: String,
    #[serde(default)]
    item: Option<i64>,
    #[serde(default)]
    item_name: Option<String>,
    #[serde(default)]
    num: Option<i64>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Rule {
    rule_id: i64,
    rule_name: String,
    #[serde(rename = "type")]
    kind: i64,
    #[serde(default)]
    min_size: Option<i64>,
    #[serde(default)]
    max_size: Option<i64>,
    steps: Vec<Step>,
}

/// A CRUSH map.
#[derive(Clone, Debug, Deserialize)]
pub struct CrushMap {
    devices: Vec<Device>,
    types: Vec<BucketType>,
    buckets: Vec<Bucket>,
    rules: Vec<Rule>,
    tunables: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    choose_args: BTreeMap<String, serde_json::Value>,
}

/// A disk of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrushDisk {
    /// Its identifier.
    pub osd: OsdId,
    /// Its host, or the bucket that holds it.
    pub host: String,
    /// Its weight.
    pub weight: u64,
    /// Its device class.
    pub class: Option<String>,
}

/// Where the steps of a rule begin: a bucket and, with device classes, a class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Take {
    /// The bucket.
    pub bucket: String,
    /// The class, if the rule is for one.
    pub class: Option<String>,
}

impl std::fmt::Display for Take {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.class {
            Some(class) => write!(f, "{} with class {class}", self.bucket),
            None => f.write_str(&self.bucket),
        }
    }
}

impl CrushMap {
    /// Parses the output of `crushtool --dump`.
    ///
    /// # Errors
    ///
    /// It is no such document, or the map has weight-sets: Ceph's balancer chooses their values for new disks.
    pub fn parse(json: &[u8]) -> Result<Self, GrowthError> {
        let map: Self = serde_json::from_slice(json).map_err(|error| {
            GrowthError::output(format!("the dump of the CRUSH map is not valid: {error}"))
        })?;
        if !map.choose_args.is_empty() {
            let message = "the CRUSH map has weight-sets, of the balancer's mode crush-compat: their values for new \
                           disks are unknown before the disks exist";
            let advice = "use the balancer's mode upmap: `ceph balancer mode upmap`, then `ceph osd crush weight-set rm-compat`";
            return Err(GrowthError::unsupported(message).advise(advice));
        }
        if map.buckets.len() > BUCKETS_MAX {
            return Err(GrowthError::output(format!(
                "the CRUSH map has {} buckets; at most {BUCKETS_MAX} are supported",
                map.buckets.len()
            )));
        }
        map.check_devices()?;
        map.check_tree()?;
        Ok(map)
    }

    fn check_devices(&self) -> Result<(), GrowthError> {
        let mut seen = BTreeSet::new();
        for device in &self.devices {
            let is_valid = u32::try_from(device.id).is_ok_and(|id| id <= OSD_ID_MAX);
            if !is_valid || !seen.insert(device.id) {
                return Err(GrowthError::output(format!(
                    "the CRUSH map has a device with the number {}, twice or out of range",
                    device.id
                )));
            }
        }
        Ok(())
    }

    /// Each item exists and is an item of one bucket, so that no walk over the tree is endless.
    fn check_tree(&self) -> Result<(), GrowthError> {
        let shadows = self.buckets.iter().filter(|one| one.shadow_of().is_some());
        let shadows: BTreeSet<i64> = shadows.map(|bucket| bucket.id).collect();
        let known: BTreeSet<i64> = self.buckets.iter().map(|bucket| bucket.id).collect();
        let devices: BTreeSet<i64> = self.devices.iter().map(|device| device.id).collect();
        let mut parents: BTreeMap<i64, i64> = BTreeMap::new();
        for bucket in &self.buckets {
            let is_shadow = shadows.contains(&bucket.id);
            for item in &bucket.items {
                if !known.contains(&item.id) && !devices.contains(&item.id) {
                    let message = format!(
                        "bucket {} has an item {} that does not exist",
                        bucket.name, item.id
                    );
                    return Err(GrowthError::output(message));
                }
                // A disk is in a bucket, and in the shadows of that bucket.
                if is_shadow && item.id >= 0 {
                    continue;
                }
                if parents.insert(item.id, bucket.id).is_some() {
                    let message = format!("item {} of the CRUSH map is in two buckets", item.id);
                    return Err(GrowthError::unsupported(message));
                }
            }
        }
        for &start in &known {
            let mut at = start;
            for level in 0.. {
                match parents.get(&at) {
                    Some(&parent) if level < LEVELS_MAX => at = parent,
                    Some(_) => {
                        let message = format!("bucket {start} of the CRUSH map contains itself");
                        return Err(GrowthError::output(message));
                    }
                    None => break,
                }
            }
        }
        Ok(())
    }

    fn real_buckets(&self) -> impl Iterator<Item = &Bucket> {
        let buckets = self.buckets.iter();
        buckets.filter(|bucket| bucket.shadow_of().is_none())
    }

    fn bucket_named(&self, name: &str) -> Option<&Bucket> {
        self.real_buckets().find(|bucket| bucket.name == name)
    }

    fn parent_of(&self, id: i64) -> Option<&Bucket> {
        self.real_buckets()
            .find(|bucket| bucket.items.iter().any(|item| item.id == id))
    }

    /// Every disk of the hierarchy, by number.
    pub fn disks(&self) -> BTreeMap<OsdId, CrushDisk> {
        let classes: BTreeMap<i64, &Option<String>> = self
            .devices
            .iter()
            .map(|device| (device.id, &device.class))
            .collect();
        let mut disks = BTreeMap::new();
        for bucket in self.real_buckets() {
            for item in &bucket.items {
                let Ok(osd) = OsdId::try_from(item.id) else {
                    continue;
                };
                let disk = CrushDisk {
                    osd,
                    host: bucket.name.clone(),
                    weight: item.weight(),
                    class: classes.get(&item.id).and_then(|&class| class.clone()),
                };
                disks.insert(osd, disk);
            }
        }
        disks
    }

    /// The numbers that devices have.
    pub fn osd_ids(&self) -> BTreeSet<OsdId> {
        let named = self.devices.iter().filter(|device| is_named(device));
        named
            .filter_map(|device| OsdId::try_from(device.id).ok())
            .collect()
    }

    /// The device classes in use.
    pub fn classes(&self) -> BTreeSet<String> {
        let devices = self.devices.iter();
        devices.filter_map(|device| device.class.clone()).collect()
    }

    /// Whether there is a bucket of this name that can hold disks or hosts.
    pub fn has_bucket(&self, name: &str) -> bool {
        self.bucket_named(name).is_some()
    }

    /// The names of hosts.
    pub fn hosts(&self) -> Vec<String> {
        self.real_buckets()
            .filter(|bucket| bucket.type_name == HOST)
            .map(|bucket| bucket.name.clone())
            .collect()
    }

    /// The buckets that hold hosts: the roots of a small cluster, the racks of a large one.
    pub fn parents_of_hosts(&self) -> BTreeSet<String> {
        let hosts = self
            .real_buckets()
            .filter(|bucket| bucket.type_name == HOST);
        hosts
            .filter_map(|host| self.parent_of(host.id))
            .map(|parent| parent.name.clone())
            .collect()
    }

    /// The location of a bucket as `ceph osd crush move` expects it: `root=default rack=r1`.
    pub fn location_of(&self, bucket: &str) -> String {
        let mut found = self.bucket_named(bucket);
        let mut parts = Vec::new();
        while let Some(bucket) = found {
            parts.push(format!("{}={}", bucket.type_name, bucket.name));
            found = self.parent_of(bucket.id);
        }
        parts.reverse();
        parts.join(" ")
    }

    /// The start of each `take` step of a rule.
    ///
    /// # Errors
    ///
    /// There is no such rule, or it starts at an unknown bucket.
    pub fn takes(&self, rule: i64) -> Result<Vec<Take>, GrowthError> {
        let found = self.rules.iter().find(|one| one.rule_id == rule);
        let found = found.ok_or_else(|| {
            GrowthError::output(format!(
                "the CRUSH map has no rule {rule}, which a pool uses"
            ))
        })?;
        let steps = found.steps.iter().filter(|step| step.op == "take");
        let takes = steps.map(|step| {
            let name = step.item_name.as_deref().unwrap_or_default();
            let (bucket, class) = match name.split_once(SHADOW) {
                Some((bucket, class)) => (bucket, Some(class.to_owned())),
                None => (name, None),
            };
            let bucket = bucket.to_owned();
            match self.has_bucket(&bucket) {
                true => Ok(Take { bucket, class }),
                false => Err(GrowthError::output(format!(
                    "rule {} of the CRUSH map starts at {bucket:?}, which is no bucket",
                    found.rule_name
                ))),
            }
        });
        takes.collect()
    }

    /// The bucket type over which a rule spreads copies, if it is a simple one.
    pub fn failure_domain(&self, rule: i64) -> Option<String> {
        let rule = self.rules.iter().find(|one| one.rule_id == rule)?;
        let mut choices = rule
            .steps
            .iter()
            .filter(|step| step.op.starts_with("choose"));
        match (choices.next(), choices.next()) {
            (Some(step), None) => step.kind.clone(),
            _ => None,
        }
    }

    /// The disks that steps can choose which begin there, with their weights.
    pub fn reach(&self, take: &Take) -> BTreeMap<OsdId, u64> {
        let disks = self.disks();
        let by_id: BTreeMap<i64, &Bucket> = self
            .real_buckets()
            .map(|bucket| (bucket.id, bucket))
            .collect();
        let mut pending: Vec<&Bucket> = self.bucket_named(&take.bucket).into_iter().collect();
        let mut reached = BTreeMap::new();
        while let Some(bucket) = pending.pop() {
            for item in &bucket.items {
                match OsdId::try_from(item.id) {
                    Ok(osd) => {
                        let class = disks.get(&osd).and_then(|disk| disk.class.as_deref());
                        if take.class.is_none() || take.class.as_deref() == class {
                            reached.insert(osd, item.weight());
                        }
                    }
                    Err(_) => pending.extend(by_id.get(&item.id)),
                }
            }
        }
        reached
    }

    /// For each disk the bucket of type `kind` above it; the disk itself for `osd`.
    pub fn domains(&self, kind: &str) -> BTreeMap<OsdId, i64> {
        let mut parents: BTreeMap<i64, &Bucket> = BTreeMap::new();
        for bucket in self.real_buckets() {
            parents.extend(bucket.items.iter().map(|item| (item.id, bucket)));
        }
        let is_device = self
            .types
            .iter()
            .any(|one| one.type_id == 0 && one.name == kind);
        let mut domains = BTreeMap::new();
        for &osd in self.disks().keys() {
            let mut at = i64::from(osd);
            if is_device {
                domains.insert(osd, at);
                continue;
            }
            while let Some(parent) = parents.get(&at) {
                if parent.type_name == kind {
                    domains.insert(osd, parent.id);
                    break;
                }
                at = parent.id;
            }
        }
        domains
    }
}

/// The tool prints `device7` for a number that no device has.
fn is_named(device: &Device) -> bool {
    device.name != format!("device{}", device.id)
}

#[cfg(test)]
mod tests;
