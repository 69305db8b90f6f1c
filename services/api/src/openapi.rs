//! Generates the OpenAPI 3.1 document from the table of routes and the types. Requests to pools need no separate
//! description: the body of a path is a part of the schema of [`Request`].

use control::Request;
use control::operations::{Source, schema_of as of};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::role::Role;
use crate::route::{Input, Route, Work};
use crate::view::{Refusal, Streamed};

/// The path of schemas in the document.
const SCHEMAS: &str = "/components/schemas";

/// The document of these routes.
pub fn document(routes: &[Route]) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        })
        .into_generator();
    // These names must be defined before any path uses them.
    let refusal = of::<Refusal>(&mut generator).to_value();
    let _ = of::<Request>(&mut generator);
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let operation = operation(route, &mut generator);
        let path = paths.entry(format!("/api/v1{}", route.path));
        let path = path.or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bulkhead",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The API of a head of a Bulkhead appliance.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": {"failure": {
                "description": "The failure, and the recommended action.",
                "content": {"application/json": {"schema": refusal}},
            }},
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": crate::caller::COOKIE},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"session": []}, {"token": []}],
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let (role, members) = match &route.work {
        Work::Ask(role, _, members) => (Some(*role), *members),
        Work::Do(role, _) => (*role, &[][..]),
        Work::Stream => (Some(Role::ReadOnly), &[][..]),
    };
    let needs = match role {
        Some(role) if route.wants_person => {
            format!("Needs the role {role} in a session: a token does not suffice.")
        }
        Some(role) => format!("Needs the role {role}."),
        None => "Needs no login.".to_owned(),
    };
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "description": needs,
        "tags": [route.path.split('/').nth(1).unwrap_or("head")],
        "parameters": parameters(route, members),
        "responses": {
            route.status.to_string(): success(route, generator),
            "default": {"$ref": "#/components/responses/failure"},
        },
    });
    if role.is_none() {
        operation["security"] = json!([]);
    }
    let body = match &route.input {
        Input::Nothing => None,
        Input::Type(schema) | Input::Strictly(schema, _) => Some(schema(generator).to_value()),
        Input::Members => match &route.work {
            Work::Ask(_, verb, members) => members_schema(verb, members, generator),
            _ => None,
        },
    };
    if let Some(schema) = body {
        let required = route.path != "/drills" && !route.path.ends_with("/export");
        let mut content = json!({"schema": schema});
        if let Some(example) = route.example {
            content["example"] = serde_json::from_str(example).expect("definitions have JSON");
        }
        operation["requestBody"] =
            json!({"required": required, "content": {"application/json": content}});
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let words = route
        .path
        .split(['/', '{', '}', '.'])
        .filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    format!("{}_{}", route.method.to_ascii_lowercase(), words.join("_"))
}

fn success(route: &Route, generator: &mut SchemaGenerator) -> Value {
    if matches!(route.work, Work::Stream) {
        return json!({
            "description": "Events: of each, its name and its data.",
            "content": {"text/event-stream": {"schema": of::<Streamed>(generator).to_value()}},
        });
    }
    if route.status == 204 {
        return json!({"description": "Done."});
    }
    let schema = (route.output)(generator).to_value();
    json!({"description": "Done.", "content": {"application/json": {"schema": schema}}})
}

fn parameters(route: &Route, members: &[(&'static str, Source)]) -> Vec<Value> {
    let parameter = |name: &str, place: &str, schema: Value, about: &str| {
        json!({
            "name": name,
            "in": place,
            "required": place == "path",
            "schema": schema,
            "description": about,
        })
    };
    let mut all: Vec<Value> = Vec::new();
    for name in route
        .path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
    {
        let about = match name {
            "volume" | "filesystem" => "Its name without the pool; a slash is written %2F.",
            "snapshot" => "Its name without the pool, such as vm0%40monday.",
            _ => "Its name.",
        };
        all.push(parameter(
            name,
            "path",
            json!({"type": "string", "minLength": 1}),
            about,
        ));
    }
    for (member, source) in members {
        if let Source::Query(missing) = source {
            let schema = match *missing {
                "false" => json!({"type": "boolean", "default": false}),
                _ => json!({"type": "string"}),
            };
            all.push(parameter(
                member,
                "query",
                schema,
                "A member of the request.",
            ));
        }
    }
    if route.path == "/pools/{pool}/growth" {
        let schema = json!({"type": "integer", "minimum": 0, "default": 90});
        all.push(parameter("days", "query", schema, "The maximum number."));
    }
    if route.path == "/audit" {
        let schema = json!({"type": "integer", "minimum": 0});
        all.push(parameter(
            "limit",
            "query",
            schema.clone(),
            "The maximum number.",
        ));
        let about = "Only entries from this time on, in milliseconds since 1970.";
        all.push(parameter("since_ms", "query", schema, about));
        for (name, about) in [
            (
                "user",
                "Only entries of this user; `*` and `?` make it a pattern.",
            ),
            (
                "object",
                "Only entries about this object and those below it, or about those of a pattern.",
            ),
        ] {
            all.push(parameter(name, "query", json!({"type": "string"}), about));
        }
    }
    let destroys = route.about.ends_with("confirms") || route.about.ends_with("confirm");
    if destroys {
        let about = "The full name of the destroyed object.";
        all.push(parameter(
            "confirm",
            "query",
            json!({"type": "string"}),
            about,
        ));
    }
    all
}

/// The schema of a verb's members, without those from the path, and with optional ones marked.
fn members_schema(
    verb: &str,
    members: &[(&'static str, Source)],
    generator: &mut SchemaGenerator,
) -> Option<Value> {
    let definitions = generator.definitions();
    let mut schema = definitions.get("Request")?;
    // A noun may be within a noun.
    for word in verb.split('.') {
        schema = resolved(definitions, variant(schema, word)?);
    }
    let mut schema = schema.clone();
    for (member, source) in members {
        let is_from_body = matches!(source, Source::Default(_));
        if let Some(properties) = schema["properties"].as_object_mut() {
            if !is_from_body {
                properties.remove(*member);
            }
        }
        if let Some(required) = schema["required"].as_array_mut() {
            required.retain(|name| name != member);
        }
    }
    Some(schema)
}

/// The schema inside the variant `name` of an externally tagged enum.
fn variant<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let variants = of.get("oneOf")?.as_array()?;
    variants
        .iter()
        .find_map(|variant| variant.get("properties")?.get(name))
}

/// Resolves a reference; other schemas are returned unchanged.
fn resolved<'a>(definitions: &'a Map<String, Value>, schema: &'a Value) -> &'a Value {
    let name = schema.get("$ref").and_then(Value::as_str);
    let name = name.and_then(|reference| reference.rsplit('/').next());
    name.and_then(|name| definitions.get(name))
        .unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_route_is_described_and_every_reference_resolves() {
        let document = document(&ROUTES);
        for route in ROUTES.iter() {
            let path = &document["paths"][format!("/api/v1{}", route.path)];
            let operation = &path[route.method.to_ascii_lowercase()];
            assert!(
                operation["summary"].is_string(),
                "{} {}",
                route.method,
                route.path
            );
            let has_body = !matches!(route.input, Input::Nothing);
            let is_empty = route.path.ends_with("/identity");
            assert_eq!(
                operation["requestBody"].is_object(),
                has_body && !is_empty,
                "{}",
                route.path
            );
        }
        let text = document.to_string();
        for reference in text.split("\"#/components/").skip(1) {
            let place = reference.split('"').next().expect("an end");
            let pointer = format!("/components/{place}");
            assert!(document.pointer(&pointer).is_some(), "{pointer}");
        }
    }

    #[test]
    fn body_contains_fields_missing_in_path() {
        let document = document(&ROUTES);
        let operation = &document["paths"]["/api/v1/pools/{pool}/targets/{target}/map"]["post"];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(schema["required"], json!(["volume"]));
        assert!(schema["properties"]["lun"].is_object());
        assert!(schema["properties"]["name"].is_null());
    }

    /// If two types have one name, the second gets a numeric suffix.
    #[test]
    fn no_two_schemas_have_the_same_name() {
        let document = document(&ROUTES);
        let schemas = document["components"]["schemas"].as_object();
        let names = schemas.expect("schemas").keys();
        let numbered: Vec<_> = names
            .filter(|name| name.ends_with(char::is_numeric))
            .collect();
        assert_eq!(numbered, [""; 0]);
    }

    #[test]
    fn no_two_operations_have_the_same_name() {
        let mut names: Vec<String> = ROUTES.iter().map(operation_id).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
