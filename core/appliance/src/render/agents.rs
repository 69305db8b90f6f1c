//! The thin programs through which Pacemaker runs the agents.

use std::ffi::OsStr;
use std::path::Path;

/// Where Pacemaker looks for `ocf:bulkhead:pool`.
pub const AGENT_PATH: &str = "/usr/lib/ocf/resource.d/bulkhead/pool";
/// Where it looks for `ocf:bulkhead:address`.
pub const ADDRESS_AGENT_PATH: &str = "/usr/lib/ocf/resource.d/bulkhead/address";

/// What the program is called that serves.
const SERVER_PROGRAM: &str = "bulkhead";
/// The program beside it that has the agents only, and starts sooner.
const AGENT_PROGRAM: &str = "bulkhead-agent";

/// The agent's text: it hands over to `bulkhead-agent` beside `program`, and where there is none to `program`
/// itself, the `bulkhead` binary. A missing binary is told as "not installed" (5), so that Pacemaker tries
/// another head and not again.
pub fn agent_script(program: &Path) -> String {
    script(program, "pool", "a pool and its server", "")
}

/// The same for the agent of an address. It looks first: the agent of the pool has mostly done
/// already what is asked, and the program takes longer to start than the look.
pub fn address_agent_script(program: &Path) -> String {
    script(program, "address", "an address of a pool", DONE_ALREADY)
}

/// Ends the agent of an address where an address to be stopped is not there, or one to be started is.
const DONE_ALREADY: &str = r#"case "$1" in start | stop)
    held=$(ip -o addr show ${OCF_RESKEY_interface:+dev "$OCF_RESKEY_interface"} \
        to "$OCF_RESKEY_address" 2>/dev/null) &&
        case "$1:${held:+held}" in start:held | stop:) exit 0 ;; esac ;;
esac
"#;

fn script(program: &Path, agent: &str, what: &str, before: &str) -> String {
    let small = match program.file_name() == Some(OsStr::new(SERVER_PROGRAM)) {
        true => small(&program.with_file_name(AGENT_PROGRAM), agent),
        // It would look for its server under the usual name.
        false => String::new(),
    };
    let program = shell_quoted(&program.to_string_lossy());
    format!(
        "#!/bin/sh\n{}\n# ocf:bulkhead:{agent}, {what}.\n\
         [ -x {program} ] || exit 5\n{before}{small}exec {program} agent {agent} \"$1\"\n",
        super::GENERATED,
    )
}

fn small(program: &Path, agent: &str) -> String {
    let program = shell_quoted(&program.to_string_lossy());
    format!("[ -x {program} ] && exec {program} {agent} \"$1\"\n")
}

/// `text` as one word of a POSIX shell.
pub(super) fn shell_quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+:@%".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_program_is_taken_only_where_it_would_find_the_server() {
        let script = agent_script(Path::new("/opt/x/bulkhead"));
        let lines: Vec<&str> = script.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "[ -x /opt/x/bulkhead ] || exit 5",
                "[ -x /opt/x/bulkhead-agent ] && exec /opt/x/bulkhead-agent pool \"$1\"",
                "exec /opt/x/bulkhead agent pool \"$1\"",
            ]
        );
        let script = address_agent_script(Path::new("/opt/x/bulkhead-new"));
        assert!(!script.contains("bulkhead-agent"), "{script}");
    }

    #[test]
    fn words_that_a_shell_would_split_are_quoted() {
        assert_eq!(shell_quoted("/usr/bin/bulkhead"), "/usr/bin/bulkhead");
        assert_eq!(shell_quoted("/a b/c'd"), r"'/a b/c'\''d'");
        assert_eq!(shell_quoted("$(x)"), "'$(x)'");
    }
}
