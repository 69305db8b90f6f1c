//! Secrets that must be in an appliance file because a fence agent accepts them no other way, such as an SNMP
//! community. They are not printed, and the file is then readable by root only.

use crate::file::Appliance;

/// Parameters of fence agents that are secrets.
pub const SECRET_PARAMETERS: &[&str] = &[
    "community",
    "password",
    "passwd",
    "token_value",
    "snmp_priv_passwd",
];
/// Replaces a secret.
pub const HIDDEN: &str = "(not shown)";

/// Whether the parameter of this name is a secret.
pub fn is_secret(parameter: &str) -> bool {
    SECRET_PARAMETERS.contains(&parameter)
}

/// Whether the file has any.
pub fn has_secrets(appliance: &Appliance) -> bool {
    let pdus = appliance.pdus.values().map(|pdu| &pdu.parameters);
    let hypervisors = appliance.hypervisors.values().map(|one| &one.parameters);
    let mut names = pdus
        .chain(hypervisors)
        .flat_map(|parameters| parameters.keys());
    names.any(|name| is_secret(name))
}

/// The appliance without its secrets.
pub fn hide(appliance: &mut Appliance) {
    let pdus = appliance.pdus.values_mut().map(|pdu| &mut pdu.parameters);
    let hypervisors = appliance.hypervisors.values_mut();
    let hypervisors = hypervisors.map(|one| &mut one.parameters);
    for (name, value) in pdus.chain(hypervisors).flatten() {
        if is_secret(name) {
            HIDDEN.clone_into(value);
        }
    }
}

/// Returns the file's text without its secrets, line by line.
pub fn hide_text(text: &str) -> String {
    text.split_inclusive('\n').map(hide_line).collect()
}

/// Returns one line of the file without its secrets. Text that cannot be parsed is removed up to the end of the line.
pub fn hide_line(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some((before, value)) = next_secret(rest) {
        shown.push_str(before);
        shown.push_str(" \"");
        shown.push_str(HIDDEN);
        shown.push('"');
        let value = value.trim_start();
        let quote = value
            .chars()
            .next()
            .filter(|first| ['"', '\''].contains(first));
        let inside = quote.and_then(|quote| value[1..].split_once(quote));
        rest = match inside {
            // Neither an escape nor the start of a multi-line string.
            Some((inside, after)) if !inside.is_empty() && !inside.ends_with('\\') => after,
            _ => value.find('\n').map_or("", |end| &value[end..]),
        };
    }
    shown + rest
}

/// Returns the text up to the first secret's `=`, and the rest.
fn next_secret(line: &str) -> Option<(&str, &str)> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    line.match_indices('=').find_map(|(at, _)| {
        let key = line[..at].trim_end().trim_end_matches(['"', '\'']);
        let begin = key
            .rfind(|letter| !is_name(letter))
            .map_or(0, |found| found + 1);
        is_secret(key.get(begin..)?).then(|| line.split_at(at + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_in_every_notation() {
        for (line, shown) in [
            ("user = \"fence\"\n", "user = \"fence\"\n"),
            ("community = \"hush\"\n", "community = \"(not shown)\"\n"),
            (
                "+parameters.community=\"hush\" # x",
                "+parameters.community= \"(not shown)\" # x",
            ),
            (
                "parameters = { \"community\" = 'hush', snmp_version = \"1\", passwd = \"hush\" }\n",
                "parameters = { \"community\" = \"(not shown)\", snmp_version = \"1\", passwd = \"(not shown)\" }\n",
            ),
            (
                "community = \"hu\\\"sh\"\nx = 1\n",
                "community = \"(not shown)\"\nx = 1\n",
            ),
            (
                "community = \"\"\"hush\"\"\"\n",
                "community = \"(not shown)\"\n",
            ),
            (
                "password_file = \"/etc/x\"\n",
                "password_file = \"/etc/x\"\n",
            ),
            ("snmp-community = \"x\"", "snmp-community = \"x\""),
        ] {
            assert_eq!(hide_text(line), shown, "{line}");
        }
    }
}
