//! SSH between heads, which the setup of an appliance uses: an SSH server on each, and a key of this lab that all of
//! them accept, as an administrator installs it.
//!
//! Root has a separate home directory on a head, because that of the host must not be touched.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::must;
use crate::directory::{LabDirectory, PATH_IN_NODE};

/// The server's unit, as Debian calls it.
pub const UNIT: &str = "ssh.service";
/// The server: one that is installed without being started anywhere.
pub const PROGRAM: &str = "dropbear";
/// The command of the unit. Host keys are created at the first connection.
pub const SCRIPT: &str =
    "mkdir -p /etc/dropbear; exec dropbear -F -E -R -s -p 22 -P /run/dropbear.pid";
/// Root's home on a head, below `/`.
const HOME: &str = "var/lib/root";
/// Runs the command of a client, with the binaries of the lab first in the path.
const COMMAND: &str = "var/lib/root/command";

/// Creates the key of the lab.
pub fn create_key(folder: &LabDirectory) -> io::Result<()> {
    let key = folder.ssh_key();
    let words = ["-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f"];
    let path = key.to_string_lossy();
    let words: Vec<&str> = words.into_iter().chain([&*path]).collect();
    must("ssh-keygen", &words, "").map(|_| ())
}

/// Authorizes the head with the files below `own` at the remaining heads, and these on the head.
pub fn prepare(folder: &LabDirectory, own: &Path) -> io::Result<()> {
    let passwd = own.join("etc/passwd");
    let known = fs::read_to_string(&passwd)?;
    fs::write(&passwd, with_home(&known, &format!("/{HOME}")))?;
    let keys = own.join(HOME).join(".ssh");
    fs::create_dir_all(&keys)?;
    for folder in [own.join(HOME), keys.clone()] {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    let public = fs::read_to_string(folder.ssh_key().with_extension("pub"))?;
    let command = format!(
        "#!/bin/sh\nPATH={PATH_IN_NODE}\nexport PATH\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n"
    );
    let files = [
        (
            keys.join("id_ed25519"),
            fs::read_to_string(folder.ssh_key())?,
            0o600,
        ),
        (
            keys.join("authorized_keys"),
            format!("command=\"/{COMMAND}\" {public}"),
            0o600,
        ),
        // The other head's key is stored at the first login.
        (
            keys.join("config"),
            "StrictHostKeyChecking accept-new\n".to_owned(),
            0o600,
        ),
        (own.join(COMMAND), command, 0o700),
    ];
    for (path, text, mode) in files {
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
    }
    let wants = super::systemctl::wants(own, UNIT);
    if let Some(above) = wants.parent() {
        fs::create_dir_all(above)?;
    }
    symlink(Path::new("/lib/systemd/system").join(UNIT), wants)
}

/// The list of users with another home for root (passwd(5), the sixth field).
fn with_home(passwd: &str, home: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if fields.first() == Some(&"root") && fields.len() > 5 {
            fields[5] = home;
        }
        fields.join(":") + "\n"
    };
    passwd.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_home_of_root_is_replaced() {
        let before = "root:x:0:0:root:/root:/bin/bash\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\n";
        let after = "root:x:0:0:root:/home/r:/bin/bash\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\n";
        assert_eq!(with_home(before, "/home/r"), after);
    }
}
