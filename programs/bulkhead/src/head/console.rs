//! The files of the console.

/// Shown where the console was not built.
const NOT_BUILT: &str = "<!doctype html>
<html lang=\"en\"><title>Bulkhead</title>
<h1>Bulkhead</h1>
<p>This program was built without its console. <code>make build</code> builds both.</p>
<p>The API is here: <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>.</p>
";

/// A file with its type.
pub fn file(path: &str) -> Option<(&'static [u8], &'static str)> {
    (path == "index.html").then_some((NOT_BUILT.as_bytes(), "text/html; charset=utf-8"))
}
