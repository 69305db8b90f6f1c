//! `bulkhead definitions`: the verbs there are, and what the definitions say of command lines, for the proofs.

use clap::{CommandFactory, Parser};
use control::request::Request;
use control::{Effect, Failure};
use serde_json::{Value, json};

use super::{Cli, Command, Plan, PoolSelector};

/// The verbs of the grammar, and the effect of each example, an array of words as JSON.
///
/// # Errors
///
/// An example is no command line.
pub fn tell(examples: &[String]) -> Result<Value, Failure> {
    let mut verbs = Vec::new();
    add_verbs(&Cli::command(), "", &mut verbs);
    let effects: Result<Vec<_>, _> = examples.iter().map(|example| effect(example)).collect();
    Ok(json!({"verbs": verbs, "effects": effects?}))
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

/// What is done to a pool; none if it is no operation, or what it needs is not there, such as a file with a secret.
fn effect(example: &str) -> Result<Option<Effect>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{example}: {error}"));
    let words: Vec<String> = serde_json::from_str(example).map_err(|error| wrong(&error))?;
    let cli = Cli::try_parse_from(std::iter::once("bulkhead".to_owned()).chain(words));
    let Command::Ask(noun) = cli.map_err(|error| wrong(&error))?.command else {
        return Ok(None);
    };
    let plan = noun.plan();
    let (pool, request) = match plan {
        Ok(Plan::Ask { pool, request } | Plan::Watch { pool, request, .. }) => (pool, request),
        Ok(Plan::Patiently(pool, request)) => (PoolSelector::Pool(pool), Request::Pool(request)),
        Ok(Plan::Stream { pool, request }) => {
            (PoolSelector::Pool(pool), Request::Transfer(request))
        }
        Ok(Plan::Discover | Plan::Follow(_)) => return Ok(Some(Effect::Look)),
        _ => return Ok(None),
    };
    let pool = match pool {
        PoolSelector::Pool(pool) => pool,
        PoolSelector::TheOnlyOne => "tank".parse().expect("a name"),
    };
    Ok(Some(request.operation().effect(&pool)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_the_effects_of_examples_are_told() {
        let examples = [
            r#"["volume", "list", "tank"]"#,
            r#"["snapshot", "create", "tank/v@a"]"#,
            r#"["volume", "destroy", "tank/v", "--yes-destroy-data"]"#,
            r#"["lab", "status"]"#,
        ];
        let told = tell(&examples.map(str::to_owned)).expect("told");
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
        tell(&[r#"["volume", "burn"]"#.to_owned()]).expect_err("no verb");
    }
}
