//! The scripts through which Pacemaker runs the agents.

use std::ffi::OsStr;
use std::path::Path;

/// Pacemaker's path of `ocf:bulkhead:pool`.
pub const AGENT_PATH: &str = "/usr/lib/ocf/resource.d/bulkhead/pool";
/// Pacemaker's path of `ocf:bulkhead:address`.
pub const ADDRESS_AGENT_PATH: &str = "/usr/lib/ocf/resource.d/bulkhead/address";

/// Pacemaker's path of `fence_bulkhead`. It searches only this directory for fence agents.
pub const FENCE_AGENT_PATH: &str = "/usr/sbin/fence_bulkhead";
/// Pacemaker's type of a device of that agent.
pub const FENCE_AGENT: &str = "fence_bulkhead";

/// The name of the server's binary.
const SERVER_PROGRAM: &str = "bulkhead";
/// The binary next to it that contains only the agents, and starts faster.
const AGENT_PROGRAM: &str = "bulkhead-agent";

/// Returns the agent's script. It runs `bulkhead-agent` next to `program`, or else `program` itself, the `bulkhead`
/// binary. A missing binary is reported as "not installed" (5), so that Pacemaker tries another head and does not retry
/// here. A running server is monitored and stopped by its own executable, even if the file is deleted: Pacemaker powers
/// a head off if a stop fails.
pub fn agent_script(program: &Path) -> String {
    script(
        program,
        "pool",
        "a pool and its server",
        ["", WITHOUT_PROGRAM, ""],
    )
}

/// The same for the agent of an address. It checks first: the agent of the pool has mostly done the
/// work already, and the check is faster than the start of the binary.
pub fn address_agent_script(program: &Path) -> String {
    let parts = [ADDRESS, ADDRESS_WITHOUT_PROGRAM, DONE_ALREADY];
    script(program, "address", "an address of a pool", parts)
}

/// Returns the script of the fence agent. A head without the binary cannot open a pool, so it powers no other head off.
pub fn fence_agent_script(program: &Path) -> String {
    let small = match program.file_name() == Some(OsStr::new(SERVER_PROGRAM)) {
        true => small(&program.with_file_name(AGENT_PROGRAM), "fence", " \"$@\""),
        false => String::new(),
    };
    let program = shell_quoted(&program.to_string_lossy());
    format!(
        "#!/bin/sh\n{}\n# {FENCE_AGENT}, the consent of the witness before a power-off.\n{small}exec {program} agent fence \"$@\"\n",
        super::GENERATED,
    )
}

/// The script for a pool without the binary. Without a note no agent has started a server since the boot.
const WITHOUT_PROGRAM: &str = r#"    note="${BULKHEAD_RUN_DIR:-/run/bulkhead}/$OCF_RESKEY_pool.agent.json"
    pid=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$note" 2>/dev/null)
    exe="/proc/${pid:-none}/exe"
    case "$1" in monitor | status | stop)
        case $(readlink "$exe" 2>/dev/null) in */bulkhead | */bulkhead\ *)
            [ -O "$exe" ] && exec "$exe" agent pool "$1" ;;
        esac ;;
    esac
    [ "$1" = stop ] || exit 5
    [ -n "$OCF_RESKEY_pool" ] && [ ! -e "$note" ] && exit 0
    echo "ocf-exit-reason:the binary is missing, and a server may have had the pool" >&2
    exit 1
"#;

/// The address, where Pacemaker has dropped the parameters: the resource's name contains it.
const ADDRESS: &str = r#"address=$OCF_RESKEY_address
if [ -z "$address" ]; then
    address=${OCF_RESOURCE_INSTANCE#address-}
    case "$address" in *-*) address=$(echo "$address" | tr - :) ;; esac
fi
"#;

/// The script for an address without the binary.
const ADDRESS_WITHOUT_PROGRAM: &str = r#"    case "$1" in monitor | status | stop) ;; *) exit 5 ;; esac
    held=$(ip -o addr show to "$address") || exit 1
    [ "$1" = stop ] || { [ -n "$held" ] || exit 7; exit 0; }
    [ -z "$held" ] || echo "$held" | while read -r _ interface _ own _; do
        ip addr del "$own" dev "$interface" || exit 1
    done
    exit
"#;

/// Exits early where an address to be stopped is on no interface, or one to be started is already on its own.
const DONE_ALREADY: &str = r#"case "$1" in
start) held=$(ip -o addr show ${OCF_RESKEY_interface:+dev "$OCF_RESKEY_interface"} to "$address" 2>/dev/null) &&
    [ -n "$held" ] && exit 0 ;;
stop) held=$(ip -o addr show to "$address" 2>/dev/null) && [ -z "$held" ] && exit 0 ;;
esac
"#;

fn script(program: &Path, agent: &str, what: &str, parts: [&str; 3]) -> String {
    let [first, without, before] = parts;
    let small = match program.file_name() == Some(OsStr::new(SERVER_PROGRAM)) {
        true => small(&program.with_file_name(AGENT_PROGRAM), agent, " \"$1\""),
        // It would look for its server under the usual name.
        false => String::new(),
    };
    let program = shell_quoted(&program.to_string_lossy());
    format!(
        "#!/bin/sh\n{}\n# ocf:bulkhead:{agent}, {what}.\n\
         {first}if [ ! -x {program} ]; then\n{without}fi\n{before}{small}exec {program} agent {agent} \"$1\"\n",
        super::GENERATED,
    )
}

fn small(program: &Path, agent: &str, arguments: &str) -> String {
    let program = shell_quoted(&program.to_string_lossy());
    format!("[ -x {program} ] && exec {program} {agent}{arguments}\n")
}

/// Quotes `text` as one argument of a POSIX shell.
pub(super) fn shell_quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+:@%".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn agent_binary_is_used_only_where_it_finds_the_server() {
        let script = agent_script(Path::new("/opt/x/bulkhead"));
        let lines: Vec<&str> = script.lines().collect();
        assert!(
            lines.contains(&"if [ ! -x /opt/x/bulkhead ]; then"),
            "{script}"
        );
        assert_eq!(
            lines[lines.len() - 2..],
            [
                "[ -x /opt/x/bulkhead-agent ] && exec /opt/x/bulkhead-agent pool \"$1\"",
                "exec /opt/x/bulkhead agent pool \"$1\"",
            ]
        );
        let script = address_agent_script(Path::new("/opt/x/bulkhead-new"));
        assert!(!script.contains("bulkhead-agent"), "{script}");
    }

    /// Returns the exit code of the script without its binary, with `ip` and other commands replaced by files of
    /// `folder`.
    fn code(folder: &Path, script: &str, action: &str, variables: &[(&str, &str)]) -> Option<i32> {
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let status = Command::new("sh")
            .args(["-c", script, "agent", action])
            .env_clear()
            .env("PATH", path)
            .env("BULKHEAD_RUN_DIR", folder)
            .envs(variables.iter().copied())
            .stderr(Stdio::null())
            .status();
        status.expect("a shell runs").code()
    }

    fn executable(path: &Path, text: &str) {
        std::fs::write(path, text).expect("writable");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("its own file");
    }

    /// Pacemaker powers a head off if a stop fails: the stop must not fail where nothing can run, and must not succeed
    /// where a server runs.
    #[test]
    fn stop_without_binary_fails_only_if_a_server_may_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = agent_script(Path::new("/nonexistent/bulkhead"));
        let ends = |action| {
            code(
                folder.path(),
                &script,
                action,
                &[("OCF_RESKEY_pool", "tank")],
            )
        };
        assert_eq!(ends("monitor"), Some(5));
        assert_eq!(ends("start"), Some(5));
        assert_eq!(ends("stop"), Some(0));
        let note = folder.path().join("tank.agent.json");
        std::fs::write(&note, r#"{"pid":4194305,"started_ticks":1}"#).expect("writable");
        assert_eq!(ends("stop"), Some(1));
        assert_eq!(ends("monitor"), Some(5));
    }

    /// The file is deleted while the server that was started from it runs: the process still has
    /// its executable.
    #[test]
    fn stop_without_binary_uses_the_running_executable() {
        let folder = tempfile::tempdir().expect("a folder");
        // The running process is the shell; with the arguments `agent pool stop` it runs `agent` as
        // a script.
        let program = folder.path().join("bulkhead");
        std::fs::copy("/bin/sh", &program).expect("a copy");
        let mut server = Command::new(&program)
            .args(["-c", "read _"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("it runs");
        std::fs::remove_file(&program).expect("there");
        let note = format!("{{\"pid\":{},\"started_ticks\":1}}", server.id());
        std::fs::write(folder.path().join("tank.agent.json"), note).expect("writable");
        executable(
            &folder.path().join("agent"),
            "[ \"$1 $2\" = 'pool stop' ] && exit 42\n",
        );
        let script = format!(
            "cd {}\n{}",
            folder.path().display(),
            agent_script(Path::new("/nonexistent/bulkhead"))
        );
        let pool = [("OCF_RESKEY_pool", "tank")];
        assert_eq!(code(folder.path(), &script, "stop", &pool), Some(42));
        assert_eq!(code(folder.path(), &script, "start", &pool), Some(5));
        drop(server.stdin.take());
        server.wait().expect("a child of ours");
    }

    /// Resources that Pacemaker found by a probe are stopped without their parameters once they are deleted.
    #[test]
    fn address_stop_without_binary_finds_it_by_label() {
        let folder = tempfile::tempdir().expect("a folder");
        let ip = "#!/bin/sh\necho \"$*\" >>\"$0.log\"\n[ \"$3\" != show ] || cat \"$0.held\"\n";
        executable(&folder.path().join("ip"), ip);
        let held = folder.path().join("ip.held");
        let script = address_agent_script(Path::new("/nonexistent/bulkhead"));
        let ends = |action, resource| {
            code(
                folder.path(),
                &script,
                action,
                &[("OCF_RESOURCE_INSTANCE", resource)],
            )
        };
        let v4 = "address-10.77.1.100";
        std::fs::write(&held, "").expect("writable");
        assert_eq!(ends("stop", v4), Some(0));
        assert_eq!(ends("monitor", v4), Some(7));
        assert_eq!(ends("start", v4), Some(5));
        std::fs::write(&held, "2: eth1    inet 10.77.1.100/16 scope global eth1\n")
            .expect("writable");
        assert_eq!(ends("monitor", v4), Some(0));
        assert_eq!(ends("stop", v4), Some(0));
        assert_eq!(ends("stop", "address-fd77--100"), Some(0));
        let log = std::fs::read_to_string(folder.path().join("ip.log")).expect("written");
        assert!(log.contains("addr del 10.77.1.100/16 dev eth1\n"), "{log}");
        assert!(log.contains("addr show to fd77::100\n"), "{log}");
    }

    #[test]
    fn shell_words_are_quoted() {
        assert_eq!(shell_quoted("/usr/bin/bulkhead"), "/usr/bin/bulkhead");
        assert_eq!(shell_quoted("/a b/c'd"), r"'/a b/c'\''d'");
        assert_eq!(shell_quoted("$(x)"), "'$(x)'");
    }
}
