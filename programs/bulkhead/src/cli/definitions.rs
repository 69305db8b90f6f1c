//! `bulkhead definitions`: the verbs, their examples, and the effects of command lines, for tests and proofs.

use clap::{CommandFactory, Parser};
use control::request::Request;
use control::{Effect, Failure};
use serde_json::{Value, json};
use units::PoolName;

use super::{Cli, Command, Plan, PoolSelector};

/// Returns the verbs, the examples in the definitions, and the effect of each of `lines`, an array of words as JSON.
/// # Errors
///
/// One of them is no command line.
pub fn render_definitions(lines: &[String]) -> Result<Value, Failure> {
    let mut verbs = Vec::new();
    add_verbs(&Cli::command(), "", &mut verbs);
    let effects: Result<Vec<_>, _> = lines.iter().map(|line| effect(line)).collect();
    Ok(json!({"verbs": verbs, "examples": examples(), "effects": effects?}))
}

/// Every example, with the file that defines it.
fn examples() -> Vec<Value> {
    let mut found = Vec::new();
    for (verb, examples) in Request::examples() {
        for example in examples.all {
            let mut described = json!(example);
            described["defined_in"] = json!(definition(verb));
            found.push(described);
        }
    }
    found
}

/// The file that defines a verb.
fn definition(verb: &str) -> String {
    let path = verb.replace('.', "/");
    format!("core/control/src/operations/{path}.rs")
}

fn add_verbs(command: &clap::Command, nouns: &str, verbs: &mut Vec<String>) {
    let shown = command.get_subcommands();
    for inner in shown.filter(|inner| !inner.is_hide_set()) {
        let name = format!("{nouns}{}", inner.get_name());
        match inner.has_subcommands() {
            true => add_verbs(inner, &format!("{name} "), verbs),
            false => verbs.push(name),
        }
    }
}

/// Returns the effect on a pool; none if it is no operation, or one of its inputs is missing, such as a file with a
/// secret.
fn effect(example: &str) -> Result<Option<Effect>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{example}: {error}"));
    let words: Vec<String> = serde_json::from_str(example).map_err(|error| wrong(&error))?;
    let cli = Cli::try_parse_from(std::iter::once("bulkhead".to_owned()).chain(words));
    let Command::Ask(noun) = cli.map_err(|error| wrong(&error))?.command else {
        return Ok(None);
    };
    let plan = noun.plan();
    if let Ok(Plan::Discover | Plan::ListPools | Plan::Follow(_)) = plan {
        return Ok(Some(Effect::Look));
    }
    let request = plan.ok().and_then(request_of);
    Ok(request.map(|(pool, request)| request.operation().effect(&pool)))
}

/// The request of a plan, if it is one; `tank` is the only pool.
fn request_of(plan: Plan) -> Option<(PoolName, Request)> {
    let (pool, request) = match plan {
        Plan::Ask { pool, request, .. } | Plan::Watch { pool, request, .. } => (pool, request),
        Plan::WithLongTimeOut(pool, request) => (PoolSelector::Pool(pool), Request::Pool(request)),
        Plan::Stream { pool, request } => (PoolSelector::Pool(pool), Request::Transfer(request)),
        _ => return None,
    };
    match pool {
        PoolSelector::Pool(pool) => Some((pool, request)),
        PoolSelector::Single => Some(("tank".parse().expect("a name"), request)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example belongs to its verb, so that the proofs find it, and a verb with a command has one.
    #[test]
    fn every_verb_of_an_operation_has_an_example_in_its_definition() {
        let shown: Vec<String> = examples()
            .iter()
            .map(|example| {
                example["line"]
                    .as_str()
                    .expect("a line")
                    .replace("\\\n", " ")
            })
            .collect();
        let mut verbs = Vec::new();
        for noun in [
            "nbd",
            "pool",
            "portal",
            "replicate",
            "snapshot",
            "target",
            "volume",
        ] {
            let command = Cli::command();
            let noun = command.find_subcommand(noun).expect("a noun");
            add_verbs(noun, &format!("{} ", noun.get_name()), &mut verbs);
        }
        verbs.retain(|verb| !NO_OPERATIONS.contains(&verb.as_str()));
        for verb in verbs {
            let start = format!("bulkhead {verb}");
            let has_one = shown
                .iter()
                .any(|line| line == &start || line.starts_with(&format!("{start} ")));
            assert!(
                has_one,
                "`bulkhead {verb}` has no example: add one to EXAMPLES in its file below core/control/src/operations"
            );
        }
    }

    /// Commands with a definition of their own, and other names of verbs.
    const NO_OPERATIONS: [&str; 17] = [
        "pool confirm",
        "pool create",
        "pool forget",
        "pool growth",
        "pool import",
        "pool inspect-legs",
        "pool list",
        "pool move",
        "pool record-legs",
        "pool reidentify",
        "snapshot bookmark",
        "snapshot receive",
        "snapshot rollback",
        "snapshot send",
        "target export",
        "volume clone",
        "volume rescue",
    ];

    /// Changes of the pool as a whole: the pool is their object.
    const OF_THE_POOL: [&str; 8] = [
        "key.load_all",
        "pool.clear",
        "pool.close",
        "pool.destroy",
        "pool.set_witness",
        "pool.scrub",
        "replicate.identity",
        "replicate.rotate_key",
    ];

    /// The request of an example, unless an input is missing, such as a file with a secret.
    fn example_request(line: &str) -> Option<(PoolName, Request)> {
        let line = line.replace("\\\n", " ");
        let words = line.split_whitespace().map(|word| word.trim_matches('\''));
        let Command::Ask(noun) = Cli::try_parse_from(words).ok()?.command else {
            return None;
        };
        request_of(noun.plan().ok()?)
    }

    #[test]
    fn audit_entry_of_every_example_names_its_object() {
        let caller = control::server::Peer { uid: 0, pid: 1 };
        let mut count = 0;
        for example in examples() {
            let line = example["line"].as_str().expect("a line");
            let request = example_request(line);
            let entry = request
                .and_then(|(pool, request)| pool_access::audit::entry(caller, &pool, &request));
            let Some(entry) = entry else { continue };
            count += 1;
            let is_named = entry.details.is_some() || OF_THE_POOL.contains(&entry.what.as_str());
            assert!(is_named, "`{line}`: name its object in `details`");
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn verbs_and_effects_of_examples_are_listed() {
        let examples = [
            r#"["volume", "list", "tank"]"#,
            r#"["snapshot", "create", "tank/v@a"]"#,
            r#"["volume", "destroy", "tank/v", "--yes-destroy-data"]"#,
            r#"["lab", "status"]"#,
        ];
        let told = render_definitions(&examples.map(str::to_owned)).expect("told");
        assert_eq!(
            told["effects"],
            json!(["look", "change", {"destroy": ["tank/v"]}, null])
        );
        let verbs = told["verbs"].as_array().expect("verbs");
        for (verb, is_one) in [
            ("target chap set", true),
            ("target", false),
            ("names", false),
        ] {
            assert_eq!(verbs.contains(&json!(verb)), is_one, "{verb}");
        }
        render_definitions(&[r#"["volume", "burn"]"#.to_owned()]).expect_err("no verb");
    }
}
