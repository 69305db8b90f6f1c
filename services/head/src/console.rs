//! The files of the console, embedded at build time (`build.rs`).

/// Their paths in the console, sorted, and their contents.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

/// Served if the console was not built.
const NOT_BUILT: &str = "<!doctype html>
<html lang=\"en\"><title>Bulkhead</title>
<h1>Bulkhead</h1>
<p>This binary was built without its console. <code>make build</code> builds both.</p>
<p>The API is here: <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>.</p>
";

/// A file with its content type.
pub fn file(path: &str) -> Option<(&'static [u8], &'static str)> {
    if FILES.is_empty() {
        let page = (NOT_BUILT.as_bytes(), "text/html; charset=utf-8");
        return (path == "index.html").then_some(page);
    }
    let (_, contents) = FILES.iter().find(|(name, _)| *name == path)?;
    Some((contents, type_of(path)))
}

fn type_of(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_exists_and_references_only_existing_files() {
        let (page, kind) = file("index.html").expect("a page, built or not");
        assert!(kind.starts_with("text/html"));
        let page = String::from_utf8_lossy(page);
        for part in page.split("\"assets/").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(file(&format!("assets/{name}")).is_some(), "{name}");
        }
        assert!(file("no-such-file").is_none());
    }
}
