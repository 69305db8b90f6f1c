//! The thin program through which Pacemaker runs the pool agent.

use std::path::Path;

/// Where Pacemaker looks for `ocf:bulkhead:pool`.
pub const AGENT_PATH: &str = "/usr/lib/ocf/resource.d/bulkhead/pool";
/// Where it looks for `ocf:bulkhead:address`.
pub const ADDRESS_AGENT_PATH: &str = "/usr/lib/ocf/resource.d/bulkhead/address";

/// The agent's text: it hands over to `program`, the `bulkhead` binary. A missing binary is
/// told as "not installed" (5), so that Pacemaker tries another head and not again.
pub fn agent_script(program: &Path) -> String {
    script(program, "pool", "a pool and its server")
}

/// The same for the agent of an address.
pub fn address_agent_script(program: &Path) -> String {
    script(program, "address", "an address of a pool")
}

fn script(program: &Path, agent: &str, what: &str) -> String {
    let program = shell_quoted(&program.to_string_lossy());
    format!(
        "#!/bin/sh\n{}\n# ocf:bulkhead:{agent}, {what}.\n\
         [ -x {program} ] || exit 5\nexec {program} agent {agent} \"$1\"\n",
        super::GENERATED,
    )
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
    fn words_that_a_shell_would_split_are_quoted() {
        assert_eq!(shell_quoted("/usr/bin/bulkhead"), "/usr/bin/bulkhead");
        assert_eq!(shell_quoted("/a b/c'd"), r"'/a b/c'\''d'");
        assert_eq!(shell_quoted("$(x)"), "'$(x)'");
    }
}
