//! Completions for shells: the output of clap without hidden options, and with the names of pools, volumes and targets,
//! which the shell queries from the local servers.

use clap::CommandFactory;
use clap_complete::Shell;
use pool_access::device_names;

use super::Cli;

/// The completions for `shell`.
pub fn write(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bulkhead", &mut text);
    let text = String::from_utf8(text).expect("the generator writes text");
    let text = without(&text, &hidden(&Cli::command()));
    match shell {
        Shell::Bash => text + &BASH_NAMES.replace("VERBS", &device_names::VERBS.join("|")),
        Shell::Zsh => zsh_names(&text),
        Shell::Fish => text + &FISH_NAMES.replace("VERBS", &device_names::VERBS.join(" ")),
        _ => text,
    }
}

/// Returns long options, and verbs, that are hidden from the help.
fn hidden(command: &clap::Command) -> Vec<String> {
    fn collect(command: &clap::Command, found: &mut Vec<String>) {
        let options = command.get_arguments().filter(|one| one.is_hide_set());
        found.extend(options.filter_map(|one| Some(format!("--{}", one.get_long()?))));
        command
            .get_subcommands()
            .for_each(|inner| collect(inner, found));
    }
    let mut found = Vec::new();
    collect(command, &mut found);
    found.sort();
    found.dedup();
    found
}

/// Removes `options` from the script: a line each in most shells, a list entry and a case in bash.
fn without(text: &str, options: &[String]) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let names = |line: &str, name: &str| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            !before.ends_with(is_letter) && !after.starts_with(is_letter)
        })
    };
    let mut kept = String::new();
    let mut case_of_hidden = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if case_of_hidden {
            case_of_hidden = trimmed != ";;";
            continue;
        }
        if options.iter().any(|one| *trimmed == format!("{one})")) {
            case_of_hidden = true;
            continue;
        }
        let words = options.iter().filter(|one| names(line, one));
        let words: Vec<&String> = words.collect();
        // Fish names an option without its hyphens.
        let is_fish = |one: &String| names(line, &format!("-l {}", one.trim_start_matches('-')));
        if trimmed.starts_with("opts=") {
            let is_hidden =
                |word: &&str| !words.iter().any(|one| *one == word.trim_end_matches('"'));
            let left: Vec<&str> = line.split(' ').filter(is_hidden).collect();
            kept.push_str(left.join(" ").trim_end());
            if !left.join(" ").ends_with('"') {
                kept.push('"');
            }
            kept.push('\n');
        } else if words.is_empty() && !options.iter().any(is_fish) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Adds the queried names to clap's candidates wherever no option is typed.
const BASH_NAMES: &str = r#"
_bulkhead_with_names() {
    _bulkhead "$@"
    local word=${COMP_WORDS[COMP_CWORD]}
    if [[ $word != -* && ${#COMP_WORDS[@]} -gt 3 ]]; then
        local IFS=$'\n'
        local own=(bulkhead names "$word")
        if [[ $COMP_CWORD -gt 3 && ${COMP_WORDS[2]} =~ ^(get|set|inherit)$ ]]; then
            own=(bulkhead names --properties "${COMP_WORDS[1]}" "${COMP_WORDS[3]}" "$word")
            # The value after NAME= is free.
            [[ $word == = || ${COMP_WORDS[COMP_CWORD-1]} == = ]] && return
        elif [[ $COMP_CWORD -gt 3 && ${COMP_WORDS[1]} == pool && ${COMP_WORDS[2]} =~ ^(VERBS)$ ]]; then
            own=(bulkhead names --devices "${COMP_WORDS[2]}" "${COMP_WORDS[3]}" "$word")
        fi
        COMPREPLY+=($("${own[@]}" 2>/dev/null))
    fi
}
complete -F _bulkhead_with_names -o nosort -o bashdefault -o default bulkhead
"#;

const FISH_NAMES: &str = r#"
complete -c bulkhead -n 'test (count (commandline -opc)) -gt 2' -a '(bulkhead names (commandline -ct) 2>/dev/null)'
complete -c bulkhead -n 'test (count (commandline -opc)) -gt 3; and contains (commandline -opc)[3] get set inherit' -a '(bulkhead names --properties (commandline -opc)[2] (commandline -opc)[4] (commandline -ct) 2>/dev/null)'
complete -c bulkhead -n 'test (count (commandline -opc)) -gt 3; and test (commandline -opc)[2] = pool; and contains (commandline -opc)[3] VERBS' -a '(bulkhead names --devices (commandline -opc)[3] (commandline -opc)[4] (commandline -ct) 2>/dev/null)'
"#;

/// Positional arguments with names query the servers.
fn zsh_names(text: &str) -> String {
    const ASK: &str = r#"_bulkhead_names() {
    local -a names
    names=(${(f)"$(bulkhead names "${words[CURRENT]}" 2>/dev/null)"})
    compadd -- $names
}

"#;
    const PLACES: [&str; 9] = [
        "pool",
        "volume",
        "filesystem",
        "target",
        "snapshot",
        "snapshots",
        "of",
        "what",
        "dataset",
    ];
    let is_place = |line: &str| {
        let name = line.trim_start().trim_start_matches(['\'', ':', '*']);
        let is_argument =
            line.trim_start().starts_with("':") || line.trim_start().starts_with("'*:");
        is_argument
            && PLACES
                .iter()
                .any(|place| name.starts_with(&format!("{place} -- ")))
    };
    let mut lines = text.lines();
    // The first line is the `#compdef` directive.
    let mut out = format!("{}\n\n{ASK}", lines.next().unwrap_or_default());
    for line in lines {
        match is_place(line) {
            true => out.push_str(&line.replace(":_default'", ":_bulkhead_names'")),
            false => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_only_options_are_not_completed() {
        let hidden = hidden(&Cli::command());
        assert!(
            hidden.contains(&"--command-faults".to_owned()),
            "{hidden:?}"
        );
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::Elvish,
            Shell::PowerShell,
        ] {
            let text = write(shell);
            for option in &hidden {
                let name = option.trim_start_matches('-');
                for form in [
                    format!("{option} "),
                    format!("{option}="),
                    format!("-l {name} "),
                    format!("'{option}'"),
                    format!("{option})"),
                ] {
                    assert!(!text.contains(&form), "{shell}: {form}");
                }
            }
            // All visible options are still present.
            let plain = match shell {
                Shell::Fish => "-l yes-destroy-data",
                _ => "--yes-destroy-data",
            };
            assert!(text.contains(plain), "{shell}");
        }
    }

    #[test]
    fn completion_queries_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(write(shell).contains("bulkhead names"), "{shell}");
        }
        for shell in [Shell::Bash, Shell::Fish] {
            assert!(write(shell).contains("names --properties"), "{shell}");
            let text = write(shell);
            assert!(
                text.contains("names --devices") && text.contains("replace-disk"),
                "{shell}"
            );
            assert!(!text.contains("VERBS"), "{shell}");
        }
        assert!(write(Shell::Zsh).contains(":_bulkhead_names'"));
    }

    #[test]
    fn bash_accepts_the_completion_script() {
        let script = write(Shell::Bash);
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("completion");
        std::fs::write(&path, script).expect("written");
        let checked = std::process::Command::new("bash")
            .arg("-n")
            .arg(&path)
            .status();
        assert!(checked.expect("bash runs").success());
    }
}
