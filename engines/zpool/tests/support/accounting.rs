//! The counts of users, groups and projects, as `zdb` prints them.

use std::process::Command;

use super::Parts;

/// The stock `zdb`'s output for all objects of `dataset`.
pub fn objects(parts: &Parts, dataset: &str) -> String {
    let output = Command::new("/usr/sbin/zdb")
        .args(["-e", "-p"])
        .arg(parts.dir())
        .args(["-dddd", dataset])
        .output()
        .expect("zdb (package zfsutils-linux) is installed");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The entries of the counts that `zdb` prints for users, groups and projects, in this order.
pub fn counts(objects: &str) -> Vec<Vec<&str>> {
    let counted = objects.split("ZFS user/group/project used").skip(1);
    let entries = |text| {
        let lines = str::lines(text).skip_while(|line| !line.contains(" = "));
        let mut entries: Vec<&str> = lines
            .take_while(|line| line.contains(" = "))
            .map(str::trim)
            .collect();
        entries.sort_unstable();
        entries
    };
    counted.map(entries).collect()
}
