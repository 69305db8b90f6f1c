//! Deliveries to real servers on the loopback, well-behaved and hostile ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::Instant;

use appliance::alerts::{HttpServer, Mail, MailTls, Program};
use rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::book::{Book, Message};
use crate::message::render;

/// Longest wait for a server of a test.
const WAIT: Duration = Duration::from_secs(20);
const PASSWORD: &str = "correct horse";

fn message() -> Rendered {
    render(&Message::test(), "attic", "left", 1_728_043_200_000)
}

fn deliver_to(receiver: &Receiver) -> Result<(), String> {
    deliver_this(receiver, &message())
}

fn deliver_this(receiver: &Receiver, message: &Rendered) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(send(receiver, message))
}

/// A directory with a certificate of the loopback, its key, and a password.
struct Files {
    folder: tempfile::TempDir,
    server: Arc<rustls::ServerConfig>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = certificates::make(&names, certificates::Purpose::Server).expect("made");
        std::fs::write(folder.path().join("ca.pem"), made.certificate_pem()).expect("written");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(made.key.to_vec()).expect("a key");
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(made.certificate.to_vec())], key)
            .expect("they fit");
        let files = Self {
            folder,
            server: Arc::new(server),
        };
        files.secret("password", PASSWORD, 0o600);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn secret(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, format!("{text}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        path
    }
}

/// Both directions of a connection of a server.
trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

/// Serves one connection; returns its port, and the result of the server.
fn serve<T: Send + 'static>(
    tls: Option<Arc<rustls::ServerConfig>>,
    act: impl FnOnce(Box<dyn Both>) -> T + Send + 'static,
) -> (u16, Channel<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (sender, got) = channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(WAIT)).expect("set");
        let _ = sender.send(act(secured(stream, tls)));
    });
    (port, got)
}

fn secured(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>) -> Box<dyn Both> {
    match tls {
        None => Box::new(stream),
        Some(config) => {
            let connection = rustls::ServerConnection::new(config).expect("valid");
            Box::new(rustls::StreamOwned::new(connection, stream))
        }
    }
}

/// Reads a request with its body, and replies.
fn reply_to_request(mut stream: Box<dyn Both>, reply: &str) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("a body");
    let _ = stream.write_all(reply.as_bytes());
    let _ = stream.flush();
    head + &String::from_utf8_lossy(&body)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn http(url: &str) -> HttpServer {
    HttpServer {
        url: url.to_owned().try_into().expect("an address"),
        token_file: None,
        authority_file: None,
    }
}

fn webhook(server: HttpServer) -> Receiver {
    Receiver {
        webhook: Some(server),
        ..Receiver::default()
    }
}

#[test]
fn webhook_gets_the_message_as_json_with_its_token_over_tls() {
    let files = Files::new();
    let (port, got) = serve(Some(Arc::clone(&files.server)), |stream| {
        reply_to_request(stream, OK)
    });
    let server = HttpServer {
        token_file: Some(files.secret("token", "t0ken", 0o600)),
        authority_file: Some(files.path("ca.pem")),
        ..http(&format!("https://localhost:{port}/hook?a=b"))
    };
    deliver_to(&webhook(server)).expect("delivered");
    let request = got.recv_timeout(WAIT).expect("a request");
    for part in [
        "POST /hook?a=b HTTP/1.1\r\n",
        "authorization: Bearer t0ken\r\n",
        "content-type: application/json\r\n",
        "\"reason\":\"test\"",
        "\"appliance\":\"attic\"",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
}

#[test]
fn certificate_of_another_authority_is_refused() {
    let (files, other) = (Files::new(), Files::new());
    let (port, got) = serve(Some(Arc::clone(&files.server)), |mut stream| {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    });
    let server = HttpServer {
        token_file: Some(files.secret("token", "t0ken", 0o600)),
        authority_file: Some(other.path("ca.pem")),
        ..http(&format!("https://localhost:{port}/"))
    };
    let why = deliver_to(&webhook(server)).expect_err("another authority");
    assert!(why.contains("certificate"), "{why}");
    assert!(got.recv_timeout(WAIT).expect("closed").is_empty());
}

#[test]
fn replies_other_than_success_are_failures_without_the_reply() {
    for (reply, wanted) in [
        (
            "HTTP/1.1 503 No\r\ncontent-length: 6\r\n\r\nt0ken!",
            "replied HTTP 503",
        ),
        (
            "HTTP/1.1 302 Go\r\nlocation: http://127.0.0.1/t0ken\r\ncontent-length: 0\r\n\r\n",
            "redirects (HTTP 302)",
        ),
        ("no HTTP at all\r\n\r\n", "request to 127.0.0.1"),
        ("", "request to 127.0.0.1"),
    ] {
        let (port, got) = serve(None, move |stream| reply_to_request(stream, reply));
        let files = Files::new();
        let server = HttpServer {
            token_file: Some(files.secret("token", "t0ken", 0o600)),
            ..http(&format!("http://127.0.0.1:{port}/"))
        };
        let why = deliver_to(&webhook(server)).expect_err(wanted);
        assert!(why.contains(wanted), "{why}");
        assert!(!why.contains("t0ken"), "{why}");
        got.recv_timeout(WAIT).expect("a request");
    }
}

/// A status line, a header, and a body that never end.
#[test]
fn endless_replies_are_cut() {
    for start in ["", "HTTP/1.1 200 OK\r\nx: ", "HTTP/1.1 200 OK\r\n\r\n"] {
        let (port, got) = serve(None, move |mut stream| {
            let mut byte = [0; 64];
            let _ = stream.read(&mut byte);
            let _ = stream.write_all(start.as_bytes());
            let chunk = [b'x'; 4096];
            let mut sent = 0_usize;
            while stream.write_all(&chunk).is_ok() {
                sent += chunk.len();
            }
            sent
        });
        let result = deliver_to(&webhook(http(&format!("http://127.0.0.1:{port}/"))));
        assert_eq!(
            result.is_ok(),
            start.ends_with("\n\r\n"),
            "{start:?}: {result:?}"
        );
        let sent = got.recv_timeout(WAIT).expect("the connection was closed");
        assert!(sent < 64 << 20, "{sent}");
    }
}

#[test]
fn closed_port_and_unknown_name_are_failures() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let why = deliver_to(&webhook(http(&format!("http://127.0.0.1:{port}/"))));
    let why = why.expect_err("closed");
    assert!(
        why.contains(&format!("connect to 127.0.0.1, port {port}")),
        "{why}"
    );
}

/// A server that accepts and sends nothing, and one that sends a byte now and then.
#[test]
fn silent_and_slow_servers_are_given_up() {
    let limit = Duration::from_secs(1);
    for bytes in [&b""[..], b"220 slow"] {
        for receiver in [
            |port: u16| webhook(http(&format!("http://127.0.0.1:{port}/"))),
            |port| mail_to(plain_mail(port)),
        ] {
            let (port, got) = serve(None, move |mut stream| {
                for byte in bytes {
                    let _ = stream.write_all(&[*byte]);
                    std::thread::sleep(Duration::from_millis(50));
                }
                stream.read_to_end(&mut Vec::new()).is_ok()
            });
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let started = Instant::now();
            let receiver = receiver(port);
            let message = message();
            let why = runtime.block_on(send_within(&receiver, &message, limit));
            let why = why.expect_err("no reply");
            // hyper refuses the start of another protocol at once.
            let is_expected = why == "no success within 1 s" || why.contains("request to");
            assert!(is_expected, "{why}");
            assert!(started.elapsed() < limit + Duration::from_secs(5));
            drop(runtime);
            got.recv_timeout(WAIT).expect("the connection was closed");
        }
    }
}

fn plain_mail(port: u16) -> Mail {
    Mail {
        server: "127.0.0.1".to_owned(),
        port: Some(port),
        tls: MailTls::None,
        from: "bulkhead@example.org".to_owned(),
        to: vec![
            "duty@example.org".to_owned(),
            "second@example.org".to_owned(),
        ],
        ..Mail::default()
    }
}

fn mail_to(mail: Mail) -> Receiver {
    Receiver {
        mail: Some(mail),
        ..Receiver::default()
    }
}

/// An SMTP server for one connection; returns its port and the transcript. `replaced` is a reply to commands that begin
/// so, instead of the usual one.
fn smtp(
    tls: MailTls,
    files: &Files,
    replaced: Option<(&'static str, String)>,
) -> (u16, Channel<String>) {
    let config = Arc::clone(&files.server);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (sender, got) = channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(WAIT)).expect("set");
        let raw = stream.try_clone().expect("the same");
        let first = (tls == MailTls::Tls).then(|| Arc::clone(&config));
        let mut transcript = String::new();
        let mut connection = secured(stream, first);
        let greeting = match &replaced {
            Some(("", reply)) => reply.as_str(),
            _ => "220 mail.example.org ESMTP\r\n",
        };
        let mut is_open = connection.write_all(greeting.as_bytes()).is_ok();
        let mut is_data = false;
        while is_open {
            let Some(line) = line_of(&mut connection) else {
                break;
            };
            transcript.push_str(&format!("{line}\n"));
            if is_data && line != "." {
                continue;
            }
            let was_data = std::mem::take(&mut is_data);
            let ehlo = match tls {
                MailTls::Starttls => "250-mail\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n",
                _ => "250-mail\r\n250 AUTH PLAIN LOGIN\r\n",
            };
            let usual = match line.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" => ehlo,
                "AUTH" => "235 accepted\r\n",
                "STARTTLS" => "220 go ahead\r\n",
                "DATA" => "354 go on\r\n",
                "QUIT" => "221 bye\r\n",
                _ => "250 ok\r\n",
            };
            let other = replaced
                .as_ref()
                .filter(|(start, _)| line.starts_with(start));
            let reply = match other {
                Some((start, reply)) if !start.is_empty() && !was_data => reply.as_str(),
                _ => usual,
            };
            is_data = reply.starts_with("354");
            is_open = connection.write_all(reply.as_bytes()).is_ok();
            if line == "STARTTLS" && reply == usual {
                transcript.push_str("(encrypted)\n");
                connection = secured(
                    raw.try_clone().expect("the same"),
                    Some(Arc::clone(&config)),
                );
            }
        }
        let _ = sender.send(transcript);
    });
    (port, got)
}

fn line_of(stream: &mut Box<dyn Both>) -> Option<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&line).trim_end().to_owned())
}

fn mail_with_login(port: u16, tls: MailTls, files: &Files) -> Receiver {
    mail_to(Mail {
        server: "localhost".to_owned(),
        tls,
        user: Some("bulkhead".to_owned()),
        password_file: Some(files.path("password")),
        authority_file: Some(files.path("ca.pem")),
        ..plain_mail(port)
    })
}

#[test]
fn mail_is_delivered_with_login_after_starttls_over_tls_and_in_the_clear() {
    for tls in [MailTls::Starttls, MailTls::Tls, MailTls::None] {
        let files = Files::new();
        let (port, got) = smtp(tls, &files, None);
        deliver_to(&mail_with_login(port, tls, &files)).expect("delivered");
        let transcript = got.recv_timeout(WAIT).expect("a transcript");
        for part in [
            "AUTH PLAIN",
            "MAIL FROM:<bulkhead@example.org>",
            "RCPT TO:<duty@example.org>",
            "RCPT TO:<second@example.org>",
            "Subject: [attic] test of a receiver of alerts",
            "Auto-Submitted: auto-generated",
            "This is a test. No action is needed.",
            "QUIT",
        ] {
            assert!(transcript.contains(part), "{tls:?} {part}: {transcript}");
        }
        let encrypted = transcript.find("(encrypted)");
        let login = transcript.find("AUTH").expect("a login");
        assert_eq!(
            encrypted.is_some_and(|at| at < login),
            tls == MailTls::Starttls
        );
    }
}

#[test]
fn mail_with_other_letters_keeps_them() {
    let files = Files::new();
    let (port, got) = smtp(MailTls::None, &files, None);
    let mut message = message();
    message.subject = "[attic] größer\r\nBcc: other@example.org".to_owned();
    message.text = ".\r\nQUIT\r\nwärmer\n".to_owned();
    deliver_this(&mail_to(plain_mail(port)), &message).expect("delivered");
    let transcript = got.recv_timeout(WAIT).expect("a transcript");
    assert!(transcript.contains("=?utf-8?"), "{transcript}");
    assert!(!transcript.contains("\nBcc:"), "{transcript}");
    assert_eq!(transcript.matches("MAIL FROM").count(), 1);
    assert_eq!(transcript.matches("\nQUIT").count(), 1, "{transcript}");
}

#[test]
fn password_is_not_sent_without_starttls() {
    let files = Files::new();
    let (port, got) = smtp(MailTls::None, &files, None);
    let why = deliver_to(&mail_with_login(port, MailTls::Starttls, &files));
    let why = why.expect_err("it is not offered");
    assert!(why.contains("offers no STARTTLS"), "{why}");
    let transcript = got.recv_timeout(WAIT).expect("a transcript");
    assert!(
        !transcript.contains("AUTH ") && !transcript.contains("MAIL"),
        "{transcript}"
    );
}

#[test]
fn refusals_of_smtp_name_the_step_and_the_code_only() {
    let long = format!("250-{}\r\n", "x".repeat(900)).repeat(1000);
    for (start, reply, wanted) in [
        ("", "554 no service\r\n", "greeting: the server replied 554"),
        (
            "AUTH",
            "535 correct horse Y29ycmVjdA==\r\n",
            "login: the server replied 535",
        ),
        ("MAIL", "451 later\r\n", "message: the server replied 451"),
        ("RCPT", "550 unknown\r\n", "message: the server replied 550"),
        (
            "DATA",
            "552 too much\r\n",
            "message: the server replied 552",
        ),
        ("EHLO", "hello there\r\n", "greeting: "),
        ("MAIL", long.as_str(), "message: "),
    ] {
        let files = Files::new();
        let (port, got) = smtp(MailTls::None, &files, Some((start, reply.to_owned())));
        let why = deliver_to(&mail_with_login(port, MailTls::None, &files));
        let why = why.expect_err(wanted);
        assert!(why.contains(wanted), "{why}");
        assert!(!why.contains("horse") && !why.contains("Y29y"), "{why}");
        got.recv_timeout(WAIT).expect("a transcript");
    }
}

/// An endless line is cut by the number of its bytes.
#[test]
fn endless_line_of_smtp_is_cut() {
    let (port, got) = serve(None, |mut stream| {
        let _ = stream.write_all(b"220 ");
        let chunk = [b'x'; 4096];
        let mut sent = 0_usize;
        while stream.write_all(&chunk).is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let why = deliver_to(&mail_to(plain_mail(port))).expect_err("endless");
    assert!(why.contains("sends too much"), "{why}");
    assert!(got.recv_timeout(WAIT).expect("closed") < 64 << 20);
}

#[test]
fn secret_that_others_can_read_or_that_is_missing_is_not_used() {
    let files = Files::new();
    for (path, wanted) in [
        (files.secret("open", "x", 0o640), "chmod 0600"),
        (files.secret("empty", "", 0o600), "empty"),
        (files.secret("lines", "a\nb", 0o600), "more than one line"),
        (files.secret("long", &"x".repeat(5000), 0o600), "too long"),
        (files.path("missing"), "No such file"),
        (files.folder.path().to_owned(), "it is no file"),
    ] {
        let why = read_secret(&path).expect_err(wanted);
        assert!(why.contains(wanted), "{why}");
    }
    assert_eq!(
        read_secret(&files.path("password")).expect("good").as_str(),
        PASSWORD
    );
}

fn program(files: &Files, script: &str) -> Receiver {
    let path = files.path("program");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("set");
    Receiver {
        program: Some(Program { path, timeout_s: 1 }),
        ..Receiver::default()
    }
}

#[test]
fn program_reads_the_message_from_its_input() {
    let files = Files::new();
    let got = files.path("got");
    deliver_to(&program(&files, &format!("cat >{}", got.display()))).expect("delivered");
    let json: Value = serde_json::from_slice(&std::fs::read(got).expect("written")).expect("JSON");
    assert_eq!(json["reason"], "test");
}

#[test]
fn program_that_fails_hangs_or_leaves_a_child_is_bounded() {
    let files = Files::new();
    let why = deliver_to(&program(&files, "echo the modem is off >&2; exit 3"));
    let why = why.expect_err("it fails");
    assert!(
        why.contains("exit status: 3") && why.contains("the modem is off"),
        "{why}"
    );
    let started = Instant::now();
    let why = deliver_to(&program(&files, "sleep 60 & sleep 60")).expect_err("it hangs");
    assert!(why.contains("did not end within 1 s"), "{why}");
    // It does not read its input, and its child holds its outputs.
    deliver_to(&program(&files, "sleep 60 & exit 0")).expect("no wait");
    assert!(started.elapsed() < WAIT);
    let missing = Program {
        path: files.path("missing"),
        timeout_s: 1,
    };
    let missing = Receiver {
        program: Some(missing),
        ..Receiver::default()
    };
    let why = deliver_to(&missing).expect_err("missing");
    assert!(why.contains("start "), "{why}");
}

#[test]
fn alertmanager_and_ntfy_get_their_own_forms() {
    let alert = |sentence: &str| api::view::Alert {
        severity: "error".to_owned(),
        about: "head right".to_owned(),
        sentence: sentence.to_owned(),
        since_ms: Some(1_728_043_200_000),
        ..api::view::Alert::default()
    };
    let receivers = [("duty".to_owned(), Receiver::default())].into();
    let mut book = Book::default();
    let start_ms = 1_728_043_200_000;
    book.observe(&[alert("right is offline")], None, &receivers, start_ms);
    let message = book
        .due("duty", &receivers["duty"], start_ms + 30_000)
        .expect("due");
    let sent = api::view::SentMessage::default();
    book.delivered("duty", &message, sent, start_ms + 30_000);
    book.observe(&[alert("größer")], None, &receivers, start_ms + 60_000);
    let message = book
        .due("duty", &receivers["duty"], start_ms + 90_000)
        .expect("due");
    let message = render(&message, "attic", "left", start_ms + 90_000);

    let (port, got) = serve(None, |stream| reply_to_request(stream, OK));
    let alertmanager = Receiver {
        alertmanager: Some(http(&format!("http://127.0.0.1:{port}/am/"))),
        ..Receiver::default()
    };
    deliver_this(&alertmanager, &message).expect("delivered");
    let request = got.recv_timeout(WAIT).expect("a request");
    assert!(
        request.starts_with("POST /am/api/v2/alerts HTTP/1.1\r\n"),
        "{request}"
    );
    let (_, body) = request.split_once("\r\n\r\n").expect("a body");
    let alerts: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(alerts[0]["labels"]["summary"], "größer");
    assert_eq!(alerts[0]["labels"]["severity"], "error");
    assert_eq!(alerts[0]["startsAt"], "2024-10-04T12:00:00Z");
    assert_eq!(alerts[0]["endsAt"], "2024-10-04T12:16:30Z");

    let (port, got) = serve(None, |stream| reply_to_request(stream, OK));
    let ntfy = Receiver {
        ntfy: Some(http(&format!("http://127.0.0.1:{port}/topic"))),
        ..Receiver::default()
    };
    deliver_this(&ntfy, &message).expect("delivered");
    let request = got.recv_timeout(WAIT).expect("a request");
    for part in [
        "POST /topic ",
        "priority: urgent",
        "title: [attic] error: gr??er",
        "error: head right: größer",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
}
