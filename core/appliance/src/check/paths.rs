//! Paths to disks and to files with secrets: absolute, so that every process on every head reads
//! the same file.

use std::path::{Path, PathBuf};

use super::{Checker, Code, head_key, pool_key};
use crate::key::Key;

pub(super) fn check(checker: &mut Checker<'_>) {
    let mut written: Vec<(Key, PathBuf)> = Vec::new();
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        for (index, disk) in pool.disks.iter().enumerate() {
            written.push((pool_key(name).field("disks").item(index), disk.clone()));
        }
        let key = pool_key(name).field("kerberos").field("keytab_file");
        let kerberos = pool.kerberos.as_ref();
        written.extend(kerberos.map(|kerberos| (key, kerberos.keytab_file.clone())));
    }
    for (name, head) in &appliance.heads {
        for (disk, described) in &head.disks {
            written.push((
                head_key(name).field("disks").field(disk),
                described.path.clone(),
            ));
        }
        let bmc = head
            .fencing
            .as_ref()
            .and_then(|fencing| fencing.bmc.as_ref());
        let key = head_key(name).field("fencing").field("bmc");
        written.extend(bmc.map(|bmc| (key.field("password_file"), bmc.password_file.clone())));
    }
    for (name, pdu) in &appliance.pdus {
        let key = Key::of("pdus").field(name);
        let file = pdu.password_file.clone();
        written.extend(file.map(|file| (key.field("password_file"), file)));
    }
    for (name, host) in &appliance.hypervisors {
        let key = Key::of("hypervisors").field(name);
        let password = host.password_file.clone();
        written.extend(password.map(|file| (key.field("password_file"), file)));
        let secret = host.key_file.clone();
        written.extend(secret.map(|file| (key.field("key_file"), file)));
    }
    for (key, path) in written {
        refuse_relative(checker, &key, &path);
    }
}

fn refuse_relative(checker: &mut Checker<'_>, key: &Key, path: &Path) {
    if !path.is_absolute() {
        checker.find(
            Code::PathRelative,
            key,
            format!("{} does not begin with /", path.display()),
            "write the whole path; a disk's name is in /dev/disk/by-id",
        );
    }
}
