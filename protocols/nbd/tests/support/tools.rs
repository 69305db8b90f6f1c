//! Third-party tools that test a server, and certificates for them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a tool is installed; reports it if not.
pub fn installed(tool: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).exists()));
    if !found {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "skipped: {tool} is not installed");
    }
    found
}

/// Runs a client for a minute at most. Returns its output, or panics with all of it.
pub fn run(tool: &str, arguments: &[&str]) -> String {
    let output = try_run(tool, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {text}{errors}"
    );
    text
}

/// Runs a client for a minute at most.
pub fn try_run(tool: &str, arguments: &[&str]) -> std::process::Output {
    // nbdsh needs the Python that its package was made for.
    let path = format!(
        "/usr/bin:/bin:{}",
        std::env::var("PATH").unwrap_or_default()
    );
    Command::new("timeout")
        .env("PATH", path)
        .args(["60", tool])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Creates with openssl, below `folder`: `pki` with a root, a certificate for the server
/// (localhost) and one for a client, and `stranger`, with a client of another root. Returns false
/// without openssl.
pub fn certificates(folder: &Path) -> bool {
    if !installed("openssl") {
        return false;
    }
    let script = r#"
set -e; cd "$1"; mkdir -p pki stranger
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
root() { key "$1/ca-key.pem"; openssl req -x509 -new -key "$1/ca-key.pem" -subj "/CN=$1 root" -days 2 -out "$1/ca-cert.pem" \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign; }
leaf() { key "$1/$2-key.pem"; openssl req -new -key "$1/$2-key.pem" -subj "/CN=$3" -out csr; 
  printf 'subjectAltName=DNS:%s\nbasicConstraints=CA:FALSE\n' "$3" > ext
  openssl x509 -req -in csr -CA "$1/ca-cert.pem" -CAkey "$1/ca-key.pem" -CAcreateserial -days 2 -extfile ext -out "$1/$2-cert.pem"; }
root pki; leaf pki server localhost; leaf pki client vm1.example
root stranger; leaf stranger client vm1.example; cp pki/ca-cert.pem stranger/ca-cert.pem
"#;
    let output = try_run("sh", &["-c", script, "sh", text(folder)]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
