//! Tests the rights to change accounts and to destroy data, the end of sessions, and the limits for unauthenticated
//! clients.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use control::Request;
use control::answer::{PoolStatus, Status, TargetView};
use control::exports::AccessRule;
use control::operations::Preview;
use control::operations::pool::PoolRequest;
use control::operations::pool::close::Close;
use control::operations::pool::destroy::Destroy;
use serde_json::{Value, json};

use crate::Role;
use crate::routes::ROUTES;
use crate::testing::{As, Head, PASSWORD};

const OTHER: &str = "four other short words";

fn change_password(head: &Head, who: &As, user: &str, change: Value) -> u16 {
    head.send_request(who, "PATCH", &format!("/users/{user}"), change)
        .0
}

/// A read-only token sets its owner's password and logs in as an admin with it.
#[test]
fn a_token_changes_no_password() {
    let head = Head::new();
    let made = head
        .api
        .accounts
        .add_token("admin", "looks", Some(Role::ReadOnly), None);
    let token = As::Token(made.expect("made").token.expect("shown"));
    let change = json!({"password": OTHER, "current_password": PASSWORD});
    assert_eq!(change_password(&head, &token, "admin", change), 403);
    head.log_in("admin", OTHER)
        .err()
        .expect("the old one stays");
    assert!(head.log_in("admin", PASSWORD).is_ok(), "the old one stays");
}

#[test]
fn no_token_manages_users_or_tokens() {
    let head = Head::new();
    let admin = head.token(Role::Admin);
    let user = json!({"name": "new", "role": "admin", "password": OTHER});
    for (method, path, body) in [
        ("POST", "/users", user),
        ("PATCH", "/users/operator", json!({"role": "admin"})),
        ("DELETE", "/users/operator", Value::Null),
        ("POST", "/tokens", json!({"name": "more"})),
        ("DELETE", "/tokens/any", Value::Null),
    ] {
        let (status, answer) = head.send_request(&admin, method, path, body);
        assert_eq!(status, 403, "{method} {path}: {answer}");
    }
    assert_eq!(
        head.send_request(&admin, "GET", "/users", Value::Null).0,
        200
    );
    let managing = |path: &str| ["/users", "/tokens"].iter().any(|of| path.starts_with(of));
    for route in ROUTES.iter().filter(|route| managing(route.path)) {
        assert_eq!(route.wants_person, route.method != "GET", "{}", route.path);
    }
}

/// A token outlives the session of a page that was left open.
#[test]
fn token_creation_needs_password_and_its_change_revokes_it() {
    let head = Head::new();
    let operator = head.log_in("operator", PASSWORD).expect("in");
    let send_request = |current: Value| {
        let body = json!({"name": "proof", "current_password": current});
        head.send_request(&operator, "POST", "/tokens", body)
    };
    assert_eq!(send_request(Value::Null).0, 400);
    assert_eq!(send_request(json!("another one")).0, 403);
    let (status, made) = send_request(json!(PASSWORD));
    assert_eq!(status, 201, "{made}");
    let token = As::Token(made["token"].as_str().expect("a token").to_owned());
    assert_eq!(
        head.send_request(&token, "GET", "/overview", Value::Null).0,
        200
    );
    let change = json!({"password": OTHER, "current_password": PASSWORD});
    assert_eq!(change_password(&head, &operator, "operator", change), 200);
    assert_eq!(
        head.send_request(&token, "GET", "/overview", Value::Null).0,
        401
    );
}

#[test]
fn own_password_change_requires_current_password() {
    let head = Head::new();
    let operator = head.log_in("operator", PASSWORD).expect("in");
    let without = json!({"password": OTHER});
    assert_eq!(
        change_password(&head, &operator, "operator", without.clone()),
        400
    );
    let wrong = json!({"password": OTHER, "current_password": "not this one"});
    assert_eq!(change_password(&head, &operator, "operator", wrong), 403);
    assert_eq!(
        change_password(&head, &operator, "admin", without.clone()),
        403
    );
    let right = json!({"password": OTHER, "current_password": PASSWORD});
    assert_eq!(change_password(&head, &operator, "operator", right), 200);
    head.log_in("operator", OTHER).expect("the new one");
    // An admin does not know the passwords of other users.
    let admin = head.log_in("admin", PASSWORD).expect("in");
    assert_eq!(
        change_password(&head, &admin, "operator", json!({"password": PASSWORD})),
        200
    );
    assert_eq!(change_password(&head, &admin, "admin", without), 400);
}

/// Guesses on an open page are as slow as on the login page.
#[test]
fn guesses_of_current_password_are_throttled() {
    let head = Head::new();
    let operator = head.log_in("operator", PASSWORD).expect("in");
    let wrong = json!({"password": OTHER, "current_password": "not this one"});
    let last = (0..20)
        .map(|_| change_password(&head, &operator, "operator", wrong.clone()))
        .find(|status| *status != 403);
    assert_eq!(last, Some(429));
}

/// The same request by the general path and by its own, if it has one.
fn routes_that_change_rights(
    request: &Value,
    own: Option<(&str, &str, Value)>,
) -> Vec<(String, String, Value)> {
    let any = json!({"request": request});
    let mut routes_that_change_rights =
        vec![("POST".to_owned(), "/pools/tank/requests".to_owned(), any)];
    routes_that_change_rights
        .extend(own.map(|(method, path, body)| (method.to_owned(), path.to_owned(), body)));
    routes_that_change_rights
}

/// An operator shrinks a volume, and adds disks that contain data to a pool.
#[test]
fn operator_cannot_destroy_data_by_an_argument() {
    let head = Head::new();
    let operator = head.token(Role::Operator);
    let admin = head.token(Role::Admin);
    let attach = json!({"existing": "/a", "new": "/b", "overwrite": true});
    let replace = json!({"old": "/a", "new": "/b", "overwrite": true});
    let guided = json!({"device": "/a", "with": "/b", "overwrite": true, "perform": true});
    let shrink = json!({"size": 512, "allow_shrink": true});
    let resize = json!({"name": "tank/v", "size": 512, "allow_shrink": true});
    let back = json!({"to": "tank/v@1", "destroy_newer": true});
    let all = [
        (
            "/b",
            json!({"pool": {"attach": attach}}),
            Some(("POST", "/pools/tank/attach", attach)),
        ),
        (
            "/b",
            json!({"pool": {"replace": replace}}),
            Some(("POST", "/pools/tank/replace", replace)),
        ),
        ("/b", json!({"pool": {"replace_disk": guided}}), None),
        (
            "tank/v",
            json!({"volume": {"resize": resize}}),
            Some(("PATCH", "/pools/tank/volumes/v", shrink)),
        ),
        ("tank/v@1", json!({"volume": {"rollback": back}}), None),
    ];
    for (name, request, own) in all {
        for (method, path, body) in routes_that_change_rights(&request, own) {
            let confirmed = match body.get("request") {
                Some(request) => (path.clone(), json!({"request": request, "confirm": name})),
                None => (format!("{path}?confirm={name}"), body.clone()),
            };
            let refused = head.send_request(&operator, &method, &confirmed.0, confirmed.1.clone());
            assert_eq!(refused.0, 403, "{path} {body}: {}", refused.1);
            let unconfirmed = head.send_request(&admin, &method, &path, body.clone());
            assert_eq!(unconfirmed.0, 428, "{path} {body}: {}", unconfirmed.1);
            assert!(head.machine.asked.lock().expect("free").is_empty());
            let done = head.send_request(&admin, &method, &confirmed.0, confirmed.1);
            assert_eq!(done.0, 200, "{path} {body}: {}", done.1);
            head.machine.asked.lock().expect("free").clear();
        }
    }
}

#[test]
fn pool_creation_over_used_disks_requires_their_names() {
    let head = Head::new();
    let admin = head.token(Role::Admin);
    let pool = json!({"name": "new", "overwrite": true,
        "groups": [{"kind": "mirror", "role": "data", "devices": ["/a", "/b"]}]});
    assert_eq!(
        head.send_request(&admin, "POST", "/pools", pool.clone()).0,
        428
    );
    assert!(head.machine.created.lock().expect("free").is_empty());
    let done = head.send_request(&admin, "POST", "/pools?confirm=/a%20/b", pool);
    assert_eq!(done.0, 200, "{}", done.1);
}

/// Without a destructive argument it is daily work.
#[test]
fn operator_may_run_nondestructive_operations() {
    let head = Head::new();
    let operator = head.token(Role::Operator);
    for (path, body) in [
        (
            "/pools/tank/attach",
            json!({"existing": "/a", "new": "/dev/b"}),
        ),
        ("/pools/tank/replace", json!({"old": "/a", "new": "/dev/b"})),
        ("/pools/tank/scrub", json!({"action": "start"})),
    ] {
        let (status, answer) = head.send_request(&operator, "POST", path, body);
        assert_eq!(status, 200, "{path}: {answer}");
    }
    let grow = json!({"size": 512});
    assert_eq!(
        head.send_request(&operator, "PATCH", "/pools/tank/volumes/v", grow)
            .0,
        200
    );
    let looked = head.send_request(
        &head.token(Role::ReadOnly),
        "GET",
        "/pools/tank/replacement",
        Value::Null,
    );
    assert_eq!(looked.0, 200, "{}", looked.1);
}

/// The owner of the pool refuses changes of rights: only it sees the current state.
#[test]
fn non_admin_cannot_change_rights_by_any_route() {
    let head = Head::new();
    let clone = json!({"from": "tank/v@1", "to": "tank/c", "properties": {}, "keep_rights": false});
    let rename = json!({"from": "tank/v", "to": "tank/w"});
    for role in [Role::Operator, Role::Admin] {
        let who = head.token(role);
        for (method, path, body) in [
            ("POST", "/pools/tank/snapshots/v%401/clone", clone.clone()),
            ("PATCH", "/pools/tank/volumes/v", json!({"name": "tank/w"})),
            (
                "PATCH",
                "/pools/tank/filesystems/v",
                json!({"name": "tank/w"}),
            ),
            (
                "POST",
                "/pools/tank/requests",
                json!({"request": {"volume": {"rename": rename}}}),
            ),
            (
                "POST",
                "/pools/tank/requests",
                json!({"request": {"snapshot": {"clone": clone}}}),
            ),
        ] {
            let (status, answer) = head.send_request(&who, method, path, body);
            assert_eq!(status, 200, "{path}: {answer}");
            let asked = std::mem::take(&mut *head.machine.asked.lock().expect("free"));
            let asked = format!("{asked:?}");
            let keeps = format!("keep_rights: {}", role != Role::Admin);
            assert!(asked.contains(&keeps), "{path}: {asked}");
        }
    }
}

/// A change by `bulkhead user passwd`, or by the other head.
#[test]
fn password_change_ends_sessions() {
    let head = Head::new();
    let operator = head.log_in("operator", PASSWORD).expect("in");
    assert_eq!(
        head.send_request(&operator, "GET", "/overview", Value::Null)
            .0,
        200
    );
    let changed = head.api.accounts.change_user("operator", None, Some(OTHER));
    changed.expect("changed");
    assert_eq!(
        head.send_request(&operator, "GET", "/overview", Value::Null)
            .0,
        401
    );
    assert_eq!(
        head.send_request(&operator, "GET", "/session", Value::Null)
            .0,
        401
    );
    let again = head.log_in("operator", OTHER).expect("in");
    head.api.accounts.remove_user("operator").expect("removed");
    let added = head.api.accounts.add_user("operator", Role::Admin, OTHER);
    added.expect("another of that name");
    assert_eq!(
        head.send_request(&again, "GET", "/overview", Value::Null).0,
        401
    );
}

#[test]
fn event_stream_closes_with_its_token_or_session() {
    let head = Head::new();
    let made = head
        .api
        .accounts
        .add_token("operator", "watches", None, None)
        .expect("made");
    let token = As::Token(made.token.expect("shown"));
    let session = head.log_in("operator", PASSWORD).expect("in");
    let streams = [&token, &session].map(|who| head.send(who, "GET", "/stream", String::new()));
    let [of_token, of_session] = streams;
    head.api.accounts.revoke(&made.id, None).expect("revoked");
    assert!(head.ends(of_token), "it outlives its token");
    let changed = head.api.accounts.change_user("operator", None, Some(OTHER));
    changed.expect("changed");
    assert!(head.ends(of_session), "it outlives its password");
}

/// A body is read before the caller is identified, so it must be small.
#[test]
fn unauthenticated_body_is_limited() {
    let head = Head::new();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let long = format!(r#"{{"user": "admin", "password": "{}"}}"#, "x".repeat(5000));
    for (body, wanted) in [
        (nested(1 << 20), 413),
        (long, 413),
        (nested(1000), 400),
        (
            json!({"user": "admin", "password": PASSWORD, "more": [[[]]]}).to_string(),
            400,
        ),
        (
            json!({"user": ["admin"], "password": PASSWORD}).to_string(),
            400,
        ),
    ] {
        let response = head.send(&As::Anonymous, "POST", "/login", body);
        assert_eq!(response.status().as_u16(), wanted);
    }
    for route in ROUTES.iter() {
        let is_open = matches!(route.work, crate::route::Work::Do(None, _));
        let is_little = route.body_bytes_max <= crate::route::UNAUTHENTICATED_BYTES_MAX;
        let takes_nothing = matches!(route.input, crate::route::Input::Nothing);
        assert!(!is_open || is_little || takes_nothing, "{}", route.path);
    }
}

#[test]
fn refused_request_is_audited_with_user_and_operation() {
    let head = Head::new();
    let reader = head.token(Role::ReadOnly);
    let volume = json!({"name": "tank/v", "size": 512});
    assert_eq!(
        head.send_request(&reader, "POST", "/pools/tank/volumes", volume)
            .0,
        403
    );
    let entries = head.api.audit.newest(10).expect("readable");
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.who.as_str(), entry.what.as_str()))
        .collect();
    assert_eq!(told, [("read-only", "volume.create")]);
}

/// A pool is blocked on its devices, and so is every client that queries it.
#[test]
fn hung_pool_blocks_neither_login_nor_clear() {
    const TIME_LIMIT: Duration = Duration::from_secs(30);
    let head = Head::new();
    let operator = head.token(Role::Operator);
    let (sender, receiver) = channel();
    let refused = AtomicUsize::new(0);
    let hanging = head.machine.hangs.lock().expect("free");
    let outcome = std::thread::scope(|scope| {
        let send_request = || {
            let (status, answer) =
                head.send_request(&operator, "GET", "/pools/tank/volumes", Value::Null);
            if status == 503 {
                assert!(answer["failure"]["advice"].is_string(), "{answer}");
                refused.fetch_add(1, Ordering::AcqRel);
            }
        };
        for _ in 0..crate::pool_permits::PERFORMED_MAX + 8 {
            scope.spawn(send_request);
        }
        let began = Instant::now();
        let asked =
            || head.machine.waiting.load(Ordering::Acquire) + refused.load(Ordering::Acquire);
        while asked() < crate::pool_permits::PERFORMED_MAX && began.elapsed() < TIME_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        scope.spawn(|| {
            let logged_in = head.log_in("admin", PASSWORD).is_ok();
            let cleared = head.send_request(&operator, "POST", "/pools/tank/clear", json!({}));
            let other = head.send_request(&operator, "GET", "/pools/other/snapshots", Value::Null);
            sender
                .send((logged_in, cleared.0, other.0))
                .expect("awaited");
        });
        let outcome = receiver.recv_timeout(TIME_LIMIT);
        drop(hanging);
        outcome
    });
    assert_eq!(outcome, Ok((true, 200, 200)));
}

fn glance(pool: &str) -> Status {
    let target = TargetView {
        name: "iqn.2026-01.org.example:shared".parse().expect("a name"),
        portal_groups: Vec::new(),
        access: AccessRule::default(),
        chap_users: Vec::new(),
        mutual_user: None,
        units: Vec::new(),
        sessions: Vec::new(),
    };
    Status {
        pool: PoolStatus {
            name: pool.to_owned(),
            health: "ONLINE".to_owned(),
            ..PoolStatus::default()
        },
        targets: vec![target],
        ..Status::default()
    }
}

#[test]
fn pool_with_killed_server_stays_listed_with_alert() {
    let head = Head::new();
    *head.machine.statuses.lock().expect("free") = vec![glance("attic")];
    *head.machine.left.lock().expect("free") = vec!["tank".parse().expect("a name")];
    let reader = head.token(Role::ReadOnly);
    let (status, overview) = head.send_request(&reader, "GET", "/overview", Value::Null);
    assert_eq!(status, 200, "{overview}");
    let states: Vec<String> = overview["pools"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|pool| format!("{} {}", pool["name"], pool["state"]))
        .collect();
    assert_eq!(states, ["\"attic\" \"served\"", "\"tank\" \"stopped\""]);
    let alerts = overview["alerts"].to_string();
    assert!(alerts.contains("no head serves tank"), "{alerts}");
}

#[test]
fn duplicate_target_is_reported_for_both_pools() {
    let head = Head::new();
    *head.machine.statuses.lock().expect("free") = vec![glance("attic"), glance("tank")];
    let reader = head.token(Role::ReadOnly);
    let (_, overview) = head.send_request(&reader, "GET", "/overview", Value::Null);
    for (place, other) in [(0, "tank"), (1, "attic")] {
        let told = overview["pools"][place]["problems"].to_string();
        let part = format!("is also in pool {other}");
        assert!(told.contains(&part), "{told}");
    }
}

/// Only the cluster terminates the sessions of a pool without a confirmation.
#[test]
fn export_and_destroy_with_clients_need_confirmation() {
    let head = Head::new();
    let admin = head.token(Role::Admin);
    for (method, path, body, wanted) in [
        ("POST", "/pools/tank/export", json!({}), close(false)),
        // The form of requests in older documents.
        ("POST", "/pools/tank/export", Value::Null, close(false)),
        (
            "POST",
            "/pools/tank/export",
            json!({"in_use": true}),
            close(true),
        ),
        (
            "POST",
            "/pools/tank/requests",
            json!({"request": {"pool": "export"}}),
            close(false),
        ),
        (
            "DELETE",
            "/pools/tank?confirm=tank",
            Value::Null,
            Destroy {
                in_use: false,
                preview: Preview::default(),
            }
            .into(),
        ),
        (
            "DELETE",
            "/pools/tank?confirm=tank&in_use=true",
            Value::Null,
            Destroy {
                in_use: true,
                preview: Preview::default(),
            }
            .into(),
        ),
    ] {
        let (status, answer) = head.send_request(&admin, method, path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        let asked = head.machine.asked.lock().expect("free").pop();
        assert_eq!(asked, Some(Request::Pool(wanted)), "{method} {path}");
    }
}

fn close(in_use: bool) -> PoolRequest {
    Close { in_use }.into()
}

#[test]
fn resources_for_heads_are_refused_to_all_users() {
    let head = Head::new();
    let users = [
        As::Anonymous,
        head.token(Role::Admin),
        head.token(Role::ReadOnly),
    ];
    for (method, path) in [
        ("GET", crate::peer::ACCOUNTS),
        ("GET", crate::peer::TAKEOVER_STEPS),
        ("GET", crate::peer::HARDWARE),
        ("GET", crate::peer::NOTIFICATIONS),
        ("GET", crate::peer::REPORT),
        ("POST", crate::peer_keys::MISSING_KEYS),
        ("POST", crate::peer_keys::LIST),
    ] {
        let path = path.strip_prefix("/api/v1").expect("a resource");
        for user in &users {
            let response = head.send(user, method, path, String::new());
            assert_eq!(response.status(), 403, "{path}");
        }
        let response = head.send(&As::Head, method, path, String::new());
        assert_ne!(response.status(), 403, "{path}");
    }
}
