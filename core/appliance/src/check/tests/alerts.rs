//! Receivers of alerts.

use super::*;

const ALERTS: &str = r#"
[alerts.receivers.duty]
quiet_utc = "20:00-05:30"
mail = { server = "mail.example.org", from = "bulkhead@example.org", to = ["duty@example.org"], user = "bulkhead", password_file = "/etc/bulkhead/secrets/mail" }
[alerts.receivers.chat]
least = "error"
webhook = { url = "https://chat.example.org/hook", token_file = "/etc/bulkhead/secrets/chat" }
[alerts.receivers.local]
program = { path = "/usr/local/sbin/page" }
"#;

#[test]
fn receivers_of_alerts_are_checked() {
    let text = format!("{PAIR}{ALERTS}");
    assert!(findings_of(&text, |_| {}).is_empty());
    for (from, to) in [
        (
            "program = {",
            "ntfy = { url = \"https://a/b\" }\nprogram = {",
        ),
        (
            "program = { path = \"/usr/local/sbin/page\" }",
            "least = \"info\"",
        ),
        ("/usr/local/sbin/page", "page"),
        ("sbin/page\" }", "sbin/page\", timeout_s = 61 }"),
        ("receivers.duty]", "receivers.\"a b\"]"),
        ("least = \"error\"", "reminder_h = 9000"),
        ("duty@example.org", "duty"),
        ("\"bulkhead@example.org\"", "\"a@b.example\\r\\nX: y\""),
        ("[\"duty@example.org\"]", "[]"),
        ("user = \"bulkhead\", ", ""),
        ("user = \"bulkhead\"", "tls = \"none\", user = \"bulkhead\""),
        ("https://chat", "http://chat"),
        ("/etc/bulkhead/secrets/chat", "secrets/chat"),
        ("mail.example.org", "mail example"),
    ] {
        assert_only(
            &findings_of(&replaced(&text, from, to), |_| {}),
            Code::AlertReceiver,
        );
    }
    for (from, to, named) in [
        ("quiet_utc", "quiet", "quiet"),
        ("20:00-05:30", "20-05", "HH:MM"),
        ("\"error\"", "\"critical\"", "critical"),
        ("https://chat", "chat", "https://"),
    ] {
        let finding = parse(&replaced(&text, from, to)).expect_err(named);
        assert!(finding.what.contains(named), "{finding:#?}");
        assert!(finding.place.line.is_some(), "{finding:#?}");
    }
}

/// The example of the guide.
#[test]
fn example_of_the_guide_has_no_mistake() {
    let page = include_str!("../../../../../docs/guide/notifications.md");
    let (_, rest) = page.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let findings = findings_of(&format!("{PAIR}{example}"), |_| {});
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn secrets_and_servers_of_receivers_are_checked_on_each_head() {
    let text = format!("{PAIR}{ALERTS}");
    let mail = || PathBuf::from("/etc/bulkhead/secrets/mail");
    let findings = findings_of(&text, |facts| {
        right(facts).secrets.insert(mail(), None);
    });
    assert_only(&findings, Code::SecretMissing);
    let findings = findings_of(&text, |facts| {
        let open = Some(SecretFacts { mode: 0o640 });
        right(facts).secrets.insert(mail(), open);
    });
    assert_only(&findings, Code::SecretOpen);
    let findings = findings_of(&text, |facts| {
        let servers = &mut right(facts).receivers;
        servers.insert("mail.example.org 587".to_owned(), false);
        servers.insert("chat.example.org 443".to_owned(), true);
    });
    assert_only(&findings, Code::AlertServerUnreachable);
    assert!(
        findings[0].what.contains("port 587 of mail.example.org"),
        "{findings:#?}"
    );
}
