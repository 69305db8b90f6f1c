//! The reference of the file, generated from its types, so that it cannot become outdated: a JSON
//! schema for editors and a page for people.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::check::{Code, Severity};
use crate::file::Appliance;
use crate::timeouts::{Profile, Timeouts};

/// The JSON schema (draft 2020-12) of the file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Appliance);
    schema.insert("title".to_owned(), "appliance.toml".into());
    schema.to_value()
}

/// The schema as `docs/formats/appliance.schema.json` has it.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// The page `docs/formats/appliance.md`.
pub fn markdown() -> String {
    let schema = schema();
    let mut page = String::from(
        "# appliance.toml\n\n\
         One file describes an appliance: its heads, networks, fence devices, pools and addresses. It is TOML, the\n\
         same on every head, and lies in `/etc/bulkhead/appliance.toml`. What Corosync and Pacemaker read is\n\
         generated from it. Examples are in [examples](../../examples/), the schema for editors is\n\
         [appliance.schema.json](appliance.schema.json).\n\n\
         This page is generated from the types in `core/appliance`; a test compares the two.\n\n\
         A field without a default must be written. Unknown fields are errors.\n",
    );
    add_type(&mut page, "The file", &schema);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        if definition.get("properties").is_some() {
            add_type(&mut page, name, definition);
        } else if let Some(variants) = definition.get("oneOf").and_then(Value::as_array) {
            add_choices(&mut page, name, definition, variants);
        } else {
            // A text with a form of its own. The next heading brings the empty line.
            heading(&mut page, name, definition);
            page.pop();
        }
    }
    add_profiles(&mut page);
    add_budget(&mut page);
    add_codes(&mut page);
    page
}

fn heading(page: &mut String, name: &str, definition: &Value) {
    let _ = write!(page, "\n## {name}\n\n");
    if let Some(text) = definition.get("description").and_then(Value::as_str) {
        let _ = write!(page, "{text}\n\n");
    }
}

fn add_type(page: &mut String, name: &str, definition: &Value) {
    heading(page, name, definition);
    page.push_str("| field | kind | default | meaning |\n|---|---|---|---|\n");
    let none = Map::new();
    let properties = definition["properties"].as_object().unwrap_or(&none);
    let is_required = |field: &str| {
        let required = definition["required"].as_array();
        required.is_some_and(|all| all.iter().any(|one| one == field))
    };
    for (field, property) in properties {
        let default = match property.get("default") {
            _ if is_required(field) => String::new(),
            Some(Value::Null) | None => "none".to_owned(),
            Some(Value::Object(inside)) if inside.is_empty() => "none".to_owned(),
            Some(Value::Object(_)) => "the defaults inside".to_owned(),
            Some(value) => format!("`{value}`"),
        };
        let meaning = property["description"].as_str().unwrap_or_default();
        let meaning = meaning.replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `{field}` | {} | {default} | {meaning} |",
            kind(property)
        );
    }
}

fn add_choices(page: &mut String, name: &str, definition: &Value, variants: &[Value]) {
    heading(page, name, definition);
    page.push_str("| value | meaning |\n|---|---|\n");
    for variant in variants {
        let value = variant["const"].as_str().unwrap_or_default();
        let meaning = variant["description"].as_str().unwrap_or_default();
        let _ = writeln!(page, "| `{value}` | {} |", meaning.replace('\n', " "));
    }
}

/// Returns the kind of a value, with a link where it has a section of its own.
fn kind(property: &Value) -> String {
    if let Some(name) = property["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
    {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = property["anyOf"].as_array() {
        let named = choices.iter().find(|choice| choice["type"] != "null");
        return named.map(kind).unwrap_or_default();
    }
    let plain = match &property["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null"),
        Value::Null => None,
        kind => Some(kind),
    };
    match plain.and_then(Value::as_str).unwrap_or_default() {
        "array" => format!("list of {}", kind(&property["items"])),
        "object" => format!("table of {}", kind(&property["additionalProperties"])),
        "string" if property["format"] == "ip" => "address".to_owned(),
        "string" => "text".to_owned(),
        "integer" => "number".to_owned(),
        "boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

/// A time-out's name and its getter.
type TimeoutColumn = (&'static str, fn(&Timeouts) -> u32);

fn add_profiles(page: &mut String) {
    const ROWS: &[TimeoutColumn] = &[
        ("token_ms", |t| t.token_ms),
        ("consensus_ms", |t| t.consensus_ms),
        ("link_probe_interval_ms", |t| t.link_probe_interval_ms),
        ("link_probe_timeout_ms", |t| t.link_probe_timeout_ms),
        ("link_probes_up", |t| t.link_probes_up),
        ("fence_s", |t| t.fence_s),
        ("fence_monitor_s", |t| t.fence_monitor_s),
        ("pool_start_s", |t| t.pool_start_s),
        ("pool_stop_s", |t| t.pool_stop_s),
        ("pool_monitor_s", |t| t.pool_monitor_s),
        ("pool_monitor_timeout_s", |t| t.pool_monitor_timeout_s),
        ("disk_answer_s", |t| t.disk_answer_s),
        ("takeover_budget_s", |t| t.takeover_budget_s),
        ("boot_wait_s", |t| t.boot_wait_s),
    ];
    page.push_str(
        "\n## Values of the profiles\n\n\
         A short token finds a dead head sooner and powers off a living one that stands still for as long. Machines\n\
         of the kind this was developed on stood still for up to 157 ms.\n\n\
         | time-out | fast | default | conservative |\n|---|---|---|---|\n",
    );
    let profiles = [Profile::Fast, Profile::Default, Profile::Conservative];
    for (name, read) in ROWS {
        let values = profiles.map(|profile| read(&profile.timeouts()).to_string());
        let _ = writeln!(page, "| `{name}` | {} |", values.join(" | "));
    }
}

fn add_budget(page: &mut String) {
    page.push_str(
        "\n## Time-outs that cannot be set\n\n\
         They are in `core/takeover/src/budget.rs`, with the inequalities between them, which the compiler checks.\n\n\
         | name | time | what |\n|---|---|---|\n",
    );
    for (name, time, what) in takeover::budget::TABLE {
        let _ = writeln!(
            page,
            "| `{}` | {} ms | {what} |",
            name.to_ascii_lowercase(),
            time.as_millis()
        );
    }
}

fn add_codes(page: &mut String) {
    page.push_str(
        "\n## Findings of the check\n\n\
         Names of findings are stable. An error must be mended before anything is applied.\n\n\
         | finding | weight | why |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        let weight = match code.severity() {
            Severity::Hint => "hint",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let _ = writeln!(page, "| `{code}` | {weight} | {} |", code.why());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_described() {
        let schema = schema();
        let definitions = schema["$defs"].as_object().expect("definitions");
        for (name, definition) in definitions.iter().chain([(&"root".to_owned(), &schema)]) {
            for (field, property) in definition["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{name}.{field}");
            }
        }
    }
}
