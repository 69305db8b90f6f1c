//! Changes of the appliance file: before a drill, and as the fault of one.

use super::heads::server_pid;
use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;

/// Returns the file's text with that profile in it, for a drill with another profile.
pub fn with_profile(text: &str, profile: &str) -> String {
    const SECTION: &str = "[timeouts]";
    let wanted = format!("profile = \"{profile}\"");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.iter().position(|line| line.trim() == SECTION) {
        Some(start) => {
            let is_other = |line: &String| line.trim_start().starts_with('[');
            let end = lines[start + 1..].iter().position(is_other);
            let end = end.map_or(lines.len(), |offset| start + 1 + offset);
            let is_profile = |line: &String| line.trim_start().starts_with("profile");
            match lines[start..end].iter().position(is_profile) {
                Some(offset) => lines[start + offset] = wanted,
                None => lines.insert(start + 1, wanted),
            }
        }
        None => lines.extend([String::new(), SECTION.to_owned(), wanted]),
    }
    lines.join("\n") + "\n"
}

/// Applies the file with other time-outs to the running pair, as an administrator does. Nothing may be left to do
/// afterwards, and the pool's server must not notice.
pub(crate) fn change(environment: &Environment) -> Result<Fault, DrillError> {
    let text = environment.lab.file_text()?;
    let profile = match environment.lab.appliance().timeouts.profile {
        appliance::Profile::Fast => "conservative",
        _ => "fast",
    };
    let mut fault = Fault::begin(format!(
        "the appliance file wants the profile {profile}, and is applied"
    ));
    apply(environment, &with_profile(&text, profile), &mut fault)?;
    Ok(fault)
}

/// Applies the file as it was.
pub(crate) fn change_back(environment: &Environment, fault: &mut Fault) -> Result<(), DrillError> {
    let text = environment.lab.file_text()?;
    apply(environment, &text, fault)
}

fn apply(environment: &Environment, text: &str, fault: &mut Fault) -> Result<(), DrillError> {
    let server = server_pid(environment)?;
    let left = environment.lab.apply_file(text)?;
    if !left.is_empty() {
        fault
            .complaints
            .push(format!("a second plan is not empty: {left}"));
    }
    if server_pid(environment)? != server {
        fault
            .complaints
            .push("the pool's server is another process now".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::EXAMPLE;

    #[test]
    fn the_profile_of_every_example_can_be_replaced() {
        for text in [
            EXAMPLE,
            include_str!("../../../../examples/eight-pools.toml"),
            include_str!("../../../../examples/ipv6.toml"),
            "format = 1\n[timeouts]\ntoken_ms = 7\n[heads]\n",
        ] {
            for profile in ["fast", "conservative"] {
                let changed = with_profile(text, profile);
                assert_eq!(changed.matches("profile = ").count(), 1, "{changed}");
                assert!(changed.contains("[timeouts]\n"), "{changed}");
                assert!(
                    changed.contains(&format!("profile = \"{profile}\"")),
                    "{changed}"
                );
            }
        }
    }
}
