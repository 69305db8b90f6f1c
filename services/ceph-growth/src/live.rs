//! Reads a live cluster with `ceph`. Only commands that change nothing.

use std::collections::BTreeMap;
use std::path::Path;

use control::{Failure, FailureKind};
use growth::OsdId;
use growth::stored::{DiskUse, disks_from_osd_df};

use crate::arguments::ClusterArgs;
use crate::tools::{call, failure};

/// Seconds until a cluster without monitors counts as unreachable.
const CONNECT_S: u32 = 15;

fn ceph(cluster: &ClusterArgs, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let mut words = vec![
        "--connect-timeout".to_owned(),
        CONNECT_S.to_string(),
        "--name".to_owned(),
        cluster.user.clone(),
    ];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name}={value}")));
    };
    option("cluster", cluster.cluster.clone());
    let path = |path: &Path| path.to_string_lossy().into_owned();
    option("conf", cluster.conf.as_deref().map(path));
    option("keyring", cluster.keyring.as_deref().map(path));
    words.extend(arguments.iter().map(|&word| word.to_owned()));
    let output = call("ceph", "ceph-common", &words)?;
    match output.code {
        0 => Ok(output.stdout),
        code => {
            let step = arguments.join(" ");
            let complaint: String = output.complaint().chars().take(400).collect();
            let complaint = rendering::harmless(&complaint);
            let message = format!("`ceph {step}` exited with {code}: {complaint}");
            Err(Failure::new(FailureKind::Unreachable, message)
                .advise("check --conf, --keyring and --user with `ceph … status`"))
        }
    }
}

/// Writes the map of the cluster into a file.
pub fn write_map(cluster: &ClusterArgs, path: &Path) -> Result<(), Failure> {
    let path = path.to_string_lossy();
    ceph(cluster, &["osd", "getmap", "-o", &path]).map(drop)
}

/// Returns the dump of the placement groups.
pub fn pg_dump(cluster: &ClusterArgs) -> Result<Vec<u8>, Failure> {
    ceph(cluster, &["pg", "dump", "--format", "json"])
}

/// Returns the use of each disk.
pub fn disks(cluster: &ClusterArgs) -> Result<BTreeMap<OsdId, DiskUse>, Failure> {
    let json = ceph(cluster, &["osd", "df", "--format", "json"])?;
    disks_from_osd_df(&json).map_err(|error| failure(&error))
}
