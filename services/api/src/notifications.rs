//! Messages about alerts: the receivers, the history, tests, and the exchange of their state between heads.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use control::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Api;
use crate::backend::Notifier;
use crate::call::{Call, Reply};

/// The receivers to test.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AlertTest {
    /// The name of one; all by default.
    receiver: Option<String>,
}

fn notifier(api: &Api) -> Result<&dyn Notifier, Failure> {
    let known = api.backend.notifier();
    known.ok_or_else(|| Failure::not_found("this head sends no messages about alerts"))
}

pub(crate) fn receivers(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(notifier(api)?.receivers())
}

pub(crate) fn history(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(notifier(api)?.history())
}

pub(crate) fn test(api: &Api, call: &Call) -> Result<Reply, Failure> {
    // All receivers without a body.
    let wanted = match call.body.is_null() {
        true => AlertTest::default(),
        false => call.input()?,
    };
    Reply::of(notifier(api)?.test(wanted.receiver.as_deref())?)
}

/// Sends the state to another head.
pub(crate) async fn report(State(api): State<Arc<Api>>) -> Response {
    match api.backend.notifier() {
        Some(notifier) => axum::Json(notifier.report()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use serde_json::{Value, json};

    use crate::Role;
    use crate::testing::Head;
    use crate::view::ReceiverView;

    #[test]
    fn test_of_a_receiver_needs_an_operator_and_the_rest_any_user() {
        let head = Head::new();
        let (reader, operator) = (head.token(Role::ReadOnly), head.token(Role::Operator));
        for path in ["/alerts/receivers", "/alerts/history"] {
            let (status, body) = head.send_request(&reader, "GET", path, Value::Null);
            assert_eq!(status, 200, "{path}: {body}");
        }
        let one = json!({"receiver": "duty"});
        let refused = head.send_request(&reader, "POST", "/alerts/test", one.clone());
        assert_eq!(refused.0, 403, "{}", refused.1);
        for body in [one, json!({}), Value::Null] {
            let (status, reply) = head.send_request(&operator, "POST", "/alerts/test", body);
            assert_eq!(status, 200, "{reply}");
        }
        let tested = head
            .machine
            .notifier
            .tested
            .lock()
            .expect("no holder panics");
        assert_eq!(*tested, [Some("duty".to_owned()), None, None]);
    }

    /// Each sample reaches the sender; a receiver that fails is an alert and a metric.
    #[test]
    fn receiver_that_fails_is_an_alert_and_counted() {
        let head = Head::new();
        let receiver = |is_failing| ReceiverView {
            name: "duty".to_owned(),
            sent_count: 7,
            failed_count: 3,
            last_failure: Some("login: the server replied 535".to_owned()),
            failing_since_ms: Some(5000),
            is_failing,
            ..ReceiverView::default()
        };
        let reader = head.token(Role::ReadOnly);
        for is_failing in [false, true] {
            let receivers = vec![receiver(is_failing)];
            *head
                .machine
                .notifier
                .receivers
                .lock()
                .expect("no holder panics") = receivers;
            head.api.sampler.changed();
            let (_, seen) = head.send_request(&reader, "GET", "/overview", Value::Null);
            let alerts = seen["alerts"].as_array().expect("alerts").iter();
            let alerts: Vec<_> = alerts
                .filter(|alert| alert["about"] == "receiver duty")
                .collect();
            assert_eq!(alerts.len(), usize::from(is_failing), "{seen}");
            for alert in alerts {
                assert_eq!(alert["severity"], "warning");
                assert_eq!(alert["since_ms"], 5000);
                assert_eq!(alert["advice"]["command"], "bulkhead alert test duty");
                assert_eq!(alert["sentence"], "messages to the receiver duty fail");
                assert_eq!(alert["details"][0], "login: the server replied 535");
            }
        }
        assert!(head.machine.notifier.observed.load(Ordering::Acquire) >= 2);
        let metrics = crate::metrics::text(&head.api);
        for (result, count) in [("delivered", 7), ("failed", 3)] {
            let line = format!(
                "bulkhead_notifications_total{{receiver=\"duty\",result=\"{result}\"}} {count}\n"
            );
            assert!(metrics.contains(&line), "{metrics}");
        }
    }
}
