//! A head for tests: all is real except the host, which serves one pool and accepts every request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::{Request as HttpRequest, Response, StatusCode, header};
use control::answer::{Answer, Done, PoolSummary, Status};
use control::key::KeyView;
use control::operations::pool::create::PoolCreate;
use control::{Failure, Request};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use network_drops::meaning::meaning;
use network_drops::{Layer, Loss, Source};
use serde_json::{Value, json};
use takeover::timeline::TimedStep;
use units::{HeadName, PoolName};

use crate::backend::{
    ApplianceInput, ApplianceVerb, Backend, ClusterState, DrillInput, HostLosses,
    InterfaceCounters, Listener, Notifier, PeerLosses, Progress,
};
use crate::caller::{CSRF_HEADER, Link};
use crate::view::{
    ApplianceFile, DiskView, DrillView, DropView, DropsView, HardwareFault, Overview, PowerSupply,
    PowerView, ReceiverTest, ReceiverView, Said, Sensor, SentMessage,
};
use crate::{Api, MissingKey, Peers, Role};

pub(crate) const PASSWORD: &str = "three short words";

/// Records its requests.
#[derive(Default)]
pub(crate) struct TestBackend {
    pub(crate) asked: Mutex<Vec<Request>>,
    pub(crate) created: Mutex<Vec<PoolCreate>>,
    /// The states of its servers.
    pub(crate) statuses: Mutex<Vec<Status>>,
    /// Pools with a killed server.
    pub(crate) left: Mutex<Vec<PoolName>>,
    /// Requests for its volumes block while this is locked.
    pub(crate) hangs: Mutex<()>,
    /// Number of blocked requests.
    pub(crate) waiting: AtomicUsize,
    /// Number of keys that it searched.
    pub(crate) keys_looked: AtomicUsize,
    pub(crate) notifier: TestNotifier,
}

/// Records the samples and the tests.
#[derive(Default)]
pub(crate) struct TestNotifier {
    pub(crate) receivers: Mutex<Vec<ReceiverView>>,
    pub(crate) observed: AtomicUsize,
    pub(crate) tested: Mutex<Vec<Option<String>>>,
}

impl Notifier for TestNotifier {
    fn observed(&self, _: &Overview) {
        self.observed.fetch_add(1, Ordering::AcqRel);
    }
    fn receivers(&self) -> Vec<ReceiverView> {
        self.receivers.lock().expect("no holder panics").clone()
    }
    fn history(&self) -> Vec<SentMessage> {
        vec![SentMessage::default()]
    }
    fn test(&self, receiver: Option<&str>) -> Result<Vec<ReceiverTest>, Failure> {
        let mut tested = self.tested.lock().expect("no holder panics");
        tested.push(receiver.map(str::to_owned));
        Ok(vec![ReceiverTest::default()])
    }
    fn report(&self) -> Value {
        json!({})
    }
}

fn done() -> Result<Answer, Failure> {
    Ok(Done::changed("done"))
}

impl Backend for TestBackend {
    fn head(&self) -> String {
        "here".to_owned()
    }
    fn served(&self) -> Vec<PoolName> {
        let statuses = self.statuses.lock().expect("no holder panics");
        let names = statuses.iter().map(|status| status.pool.name.parse());
        names.collect::<Result<_, _>>().expect("names")
    }
    fn left(&self) -> Vec<PoolName> {
        self.left.lock().expect("no holder panics").clone()
    }
    fn send_request(
        &self,
        pool: &PoolName,
        request: Request,
        _: Progress<'_>,
    ) -> Result<Answer, Failure> {
        if let Ok(status) = self.ask_server(pool, request.clone()) {
            return Ok(status);
        }
        if let Request::Volume(_) = request {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            drop(self.hangs.lock().expect("no holder panics"));
        }
        self.asked.lock().expect("no holder panics").push(request);
        done()
    }
    fn ask_server(&self, pool: &PoolName, request: Request) -> Result<Answer, Failure> {
        let statuses = self.statuses.lock().expect("no holder panics");
        let mut statuses = statuses.iter();
        match statuses.find(|status| status.pool.name == pool.as_str()) {
            Some(status) if request == Request::Status => {
                Ok(Answer::Status(Box::new(status.clone())))
            }
            _ => Err(Failure::not_found("there is no server")),
        }
    }
    fn discover(&self) -> Result<Vec<PoolSummary>, Failure> {
        Ok(Vec::new())
    }
    fn create(&self, create: PoolCreate) -> Result<Answer, Failure> {
        self.created.lock().expect("no holder panics").push(create);
        done()
    }
    fn serve(&self, _: &PoolName) -> Result<Answer, Failure> {
        done()
    }
    fn hand_over(&self, _: &PoolName, _: &HeadName, _: bool) -> Result<Answer, Failure> {
        done()
    }
    fn missing_keys(&self, keys: &[KeyView], _: Instant) -> Option<Vec<MissingKey>> {
        self.keys_looked.fetch_add(keys.len(), Ordering::AcqRel);
        Some(Vec::new())
    }
    fn cluster_state(&self) -> ClusterState {
        ClusterState::default()
    }
    fn takeover_steps(&self, _: &str) -> Vec<TimedStep> {
        Vec::new()
    }
    fn appliance(&self, _: bool) -> Result<ApplianceFile, Failure> {
        Ok(ApplianceFile::default())
    }
    fn appliance_do(
        &self,
        _: ApplianceVerb,
        _: &ApplianceInput,
        _: Progress<'_>,
    ) -> Result<Said<Value>, Failure> {
        Ok(Said {
            document: json!({}),
            toml: String::new(),
            exit_code: 0,
        })
    }
    fn appliance_schema(&self) -> Value {
        json!({})
    }
    fn drills(&self) -> Vec<DrillView> {
        Vec::new()
    }
    fn drill(&self, _: &DrillInput, _: &AtomicBool, _: Progress<'_>) -> Result<Value, Failure> {
        Ok(json!({}))
    }
    fn disks(&self) -> Result<Vec<DiskView>, Failure> {
        Ok(Vec::new())
    }
    fn locate(&self, _: &str, _: bool) -> Result<Answer, Failure> {
        done()
    }
    fn hardware_faults(&self) -> Vec<HardwareFault> {
        Vec::new()
    }
    fn sensors(&self) -> Vec<Sensor> {
        Vec::new()
    }
    fn drops(&self) -> DropsView {
        let source = Source::new(Layer::Interface, "ens1f0", "rx_missed_errors");
        DropsView {
            seconds: Some(5),
            losses: vec![DropView {
                cause: meaning(&source).map(|meaning| meaning.cause),
                remedy: None,
                loss: Loss {
                    source,
                    count: 7,
                    total: Some(70),
                },
            }],
            ..DropsView::default()
        }
    }
    fn power(&self) -> PowerView {
        PowerView {
            feeds: vec![PowerSupply {
                name: "a".into(),
                state: "battery".into(),
                charge_percent: Some(64),
                runtime_s: Some(1330),
                ..PowerSupply::default()
            }],
            ..PowerView::default()
        }
    }
    fn interfaces(&self) -> Vec<InterfaceCounters> {
        Vec::new()
    }
    fn client_losses(&self, _: &[Listener]) -> Vec<PeerLosses> {
        Vec::new()
    }
    fn host_losses(&self) -> Vec<HostLosses> {
        Vec::new()
    }
    fn notifier(&self) -> Option<&dyn Notifier> {
        Some(&self.notifier)
    }
    fn console(&self, _: &str) -> Option<(&'static [u8], &'static str)> {
        None
    }
}

/// The authentication of a request.
#[derive(Clone)]
pub(crate) enum As {
    Anonymous,
    Token(String),
    /// A cookie with its CSRF value.
    Session(String, String),
    /// Another head, already proven.
    Head,
}

/// A head with users `admin`, `operator` and `read-only`.
pub(crate) struct Head {
    pub(crate) api: Arc<Api>,
    pub(crate) machine: Arc<TestBackend>,
    _folder: tempfile::TempDir,
    router: Router,
    runtime: tokio::runtime::Runtime,
}

impl Head {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Arc::new(TestBackend::default());
        let commands = folder.path().join("audit.log");
        let peers = runtime.block_on(async { Peers::new(None) });
        let api = Api::new(
            machine.clone(),
            folder.path().join("head"),
            &commands,
            peers,
        );
        for role in Role::ALL {
            let added = api.accounts.add_user(role.name(), role, PASSWORD);
            added.expect("added");
        }
        Self {
            router: crate::dispatch::router(&api),
            api,
            machine,
            _folder: folder,
            runtime,
        }
    }

    /// A token of the user named like `role`.
    pub(crate) fn token(&self, role: Role) -> As {
        let made = self.api.accounts.add_token(role.name(), "t", None, None);
        As::Token(made.expect("made").token.expect("shown"))
    }

    /// A session of `user`, if the password is correct.
    pub(crate) fn log_in(&self, user: &str, password: &str) -> Result<As, StatusCode> {
        let login = json!({"user": user, "password": password}).to_string();
        let response = self.send(&As::Anonymous, "POST", "/login", login);
        let cookie = response.headers().get(header::SET_COOKIE);
        let cookie = cookie.and_then(|cookie| cookie.to_str().ok());
        let cookie = cookie.and_then(|cookie| cookie.split([';', '=']).nth(1));
        let Some(cookie) = cookie.map(str::to_owned) else {
            return Err(response.status());
        };
        let csrf = self.body(response)["csrf"]
            .as_str()
            .expect("a text")
            .to_owned();
        Ok(As::Session(cookie, csrf))
    }

    pub(crate) fn send(&self, who: &As, method: &str, path: &str, body: String) -> Response<Body> {
        let request = HttpRequest::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json");
        let request = match who {
            As::Anonymous | As::Head => request,
            As::Token(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            As::Session(cookie, csrf) => request
                .header(
                    header::COOKIE,
                    format!("{}={cookie}", crate::caller::COOKIE),
                )
                .header(CSRF_HEADER, csrf),
        };
        let link = Link {
            peer: "127.0.0.1:1000".parse().expect("an address"),
            local: "127.0.0.1:7443".parse().expect("an address"),
            is_encrypted: false,
            binding: None,
            is_head: AtomicBool::new(matches!(who, As::Head)),
            seat: None,
        };
        let router = self.router.clone().layer(axum::Extension(Arc::new(link)));
        let request = request.body(Body::from(body)).expect("a request");
        let served = self
            .runtime
            .block_on(async { TowerToHyperService::new(router).call(request).await });
        served.expect("a router never fails")
    }

    /// Whether a streamed response terminates.
    pub(crate) fn ends(&self, response: Response<Body>) -> bool {
        const WAIT: std::time::Duration = std::time::Duration::from_secs(20);
        assert_eq!(response.status(), StatusCode::OK);
        let collected = response.into_body().collect();
        self.runtime
            .block_on(async { tokio::time::timeout(WAIT, collected).await.is_ok() })
    }

    fn body(&self, response: Response<Body>) -> Value {
        let collected = self.runtime.block_on(response.into_body().collect());
        let bytes = collected.expect("a body").to_bytes();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Sends a request; returns the status and the document of the response.
    pub(crate) fn send_request(
        &self,
        who: &As,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let response = self.send(who, method, path, body);
        (response.status().as_u16(), self.body(response))
    }
}
