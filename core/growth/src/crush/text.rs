//! The text of a CRUSH map, as `crushtool --compile` reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Bucket, CrushMap, Rule, SHADOW, Step, is_named};
use crate::{GrowthError, WEIGHT_ONE};

/// The settings that the text can express.
const TUNABLES: [&str; 8] = [
    "choose_local_tries",
    "choose_local_fallback_tries",
    "choose_total_tries",
    "chooseleaf_descend_once",
    "chooseleaf_vary_r",
    "chooseleaf_stable",
    "straw_calc_version",
    "allowed_bucket_algs",
];

impl CrushMap {
    /// Renders the map.
    ///
    /// # Errors
    ///
    /// A name or a step cannot be written: it is not of the form that Ceph accepts.
    pub fn to_text(&self) -> Result<String, GrowthError> {
        let mut text = String::new();
        for name in TUNABLES {
            if let Some(value) = self.tunables.get(name).and_then(|value| value.as_i64()) {
                let _ = writeln!(text, "tunable {name} {value}");
            }
        }
        for device in self.devices.iter().filter(|device| is_named(device)) {
            let _ = write!(text, "device {} {}", device.id, checked(&device.name)?);
            if let Some(class) = &device.class {
                let _ = write!(text, " class {}", checked(class)?);
            }
            text.push('\n');
        }
        for kind in &self.types {
            let _ = writeln!(text, "type {} {}", kind.type_id, checked(&kind.name)?);
        }
        self.write_buckets(&mut text)?;
        for rule in &self.rules {
            write_rule(&mut text, rule)?;
        }
        Ok(text)
    }

    /// Items are defined before the buckets that hold them.
    fn write_buckets(&self, text: &mut String) -> Result<(), GrowthError> {
        let mut names: BTreeMap<i64, &str> = BTreeMap::new();
        names.extend(self.devices.iter().map(|one| (one.id, one.name.as_str())));
        names.extend(self.buckets.iter().map(|one| (one.id, one.name.as_str())));
        let mut shadows: BTreeMap<&str, Vec<(i64, &str)>> = BTreeMap::new();
        for bucket in &self.buckets {
            if let Some((name, class)) = bucket.shadow_of() {
                shadows.entry(name).or_default().push((bucket.id, class));
            }
        }
        let mut pending: Vec<&Bucket> = self.real_buckets().collect();
        let mut written = BTreeSet::new();
        while !pending.is_empty() {
            let before = pending.len();
            let mut later = Vec::new();
            for bucket in pending {
                let is_ready = |id: i64| id >= 0 || written.contains(&id);
                if bucket.items.iter().all(|item| is_ready(item.id)) {
                    write_bucket(text, bucket, &names, &shadows)?;
                    written.insert(bucket.id);
                } else {
                    later.push(bucket);
                }
            }
            if later.len() == before {
                let message = format!("bucket {} contains itself", later[0].name);
                return Err(GrowthError::output(message));
            }
            pending = later;
        }
        Ok(())
    }
}

fn write_bucket(
    text: &mut String,
    bucket: &Bucket,
    names: &BTreeMap<i64, &str>,
    shadows: &BTreeMap<&str, Vec<(i64, &str)>>,
) -> Result<(), GrowthError> {
    let (kind, name) = (checked(&bucket.type_name)?, checked(&bucket.name)?);
    let _ = writeln!(text, "{kind} {name} {{\n\tid {}", bucket.id);
    for (id, class) in shadows.get(name).into_iter().flatten() {
        let _ = writeln!(text, "\tid {id} class {}", checked(class)?);
    }
    if bucket.hash != "rjenkins1" {
        return Err(GrowthError::unsupported(format!(
            "bucket {name} has the hash function {:?}, which is unknown",
            bucket.hash
        )));
    }
    let _ = writeln!(text, "\talg {}\n\thash 0", checked(&bucket.alg)?);
    for item in &bucket.items {
        let name = names.get(&item.id).copied().unwrap_or_default();
        let weight = exact(item.weight());
        let _ = writeln!(text, "\titem {} weight {weight}", checked(name)?);
    }
    text.push_str("}\n");
    Ok(())
}

/// A number that the tool, which rounds down, reads as this weight. It reads 24 binary digits, so a quarter of the last
/// digit is added and not a half.
fn exact(weight: u64) -> String {
    match weight {
        0 => "0".to_owned(),
        weight => format!("{:.9}", (weight as f64 + 0.25) / WEIGHT_ONE as f64),
    }
}

fn write_rule(text: &mut String, rule: &Rule) -> Result<(), GrowthError> {
    let name = checked(&rule.rule_name)?;
    let kind = match rule.kind {
        1 => "replicated",
        3 => "erasure",
        other => {
            return Err(GrowthError::unsupported(format!(
                "rule {name} of the CRUSH map has the type {other}, which is neither replicated nor erasure"
            )));
        }
    };
    let _ = writeln!(text, "rule {name} {{\n\tid {}\n\ttype {kind}", rule.rule_id);
    // Releases from 17 on have no such limits.
    let limits = [("min_size", rule.min_size), ("max_size", rule.max_size)];
    for (name, limit) in limits {
        if let Some(limit) = limit {
            let _ = writeln!(text, "\t{name} {limit}");
        }
    }
    for step in &rule.steps {
        let _ = writeln!(text, "\tstep {}", step_text(step, name)?);
    }
    text.push_str("}\n");
    Ok(())
}

fn step_text(step: &Step, rule: &str) -> Result<String, GrowthError> {
    let unknown = || {
        let message = format!(
            "rule {rule} of the CRUSH map has the step {:?}, which is unknown",
            step.op
        );
        GrowthError::unsupported(message)
    };
    let number = step.num.ok_or_else(unknown);
    match step.op.as_str() {
        "noop" | "emit" => Ok(step.op.clone()),
        "take" => {
            let name = step.item_name.as_deref().ok_or_else(unknown)?;
            let name = match step.item {
                Some(_) => name,
                None => return Err(unknown()),
            };
            match name.split_once(SHADOW) {
                Some((name, class)) => {
                    Ok(format!("take {} class {}", checked(name)?, checked(class)?))
                }
                None => Ok(format!("take {}", checked(name)?)),
            }
        }
        "choose_firstn" | "choose_indep" | "chooseleaf_firstn" | "chooseleaf_indep" => {
            let words = step.op.replace('_', " ");
            let kind = step.kind.as_deref().ok_or_else(unknown)?;
            Ok(format!("{words} {} type {}", number?, checked(kind)?))
        }
        "set_choose_tries"
        | "set_chooseleaf_tries"
        | "set_choose_local_tries"
        | "set_choose_local_fallback_tries"
        | "set_chooseleaf_vary_r"
        | "set_chooseleaf_stable" => Ok(format!("{} {}", step.op, number?)),
        _ => Err(unknown()),
    }
}

/// A name of the letters that Ceph allows, so that it cannot change the meaning of the text.
fn checked(name: &str) -> Result<&str, GrowthError> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && name.chars().all(is_valid) {
        true => Ok(name),
        false => Err(GrowthError::unsupported(format!(
            "the CRUSH map has the name {name:?}, which its text cannot hold"
        ))),
    }
}
