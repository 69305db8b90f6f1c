//! Login as the target (RFC 7143 sections 6.3 and 11.12): a pure state machine. The caller passes
//! login requests and sends the returned responses; a [`Directory`] defines the permissions.

use units::IscsiName;

use super::chap::{Chap, ChapError, ChapExchange, ChapKeys};
use super::header::Header;
use super::negotiation::{Negotiation, NegotiationError, Scene};
use super::parameters::{Capabilities, ConnectionParameters, SessionParameters};
use super::request::{LoginRequest, Stage};
use super::response::{LoginProgress, LoginStatus, login as login_response};
use super::serial::Serial;
use super::text::{Accumulator, REJECT, ResponsePairs, parse};

/// Maximum login requests of one login.
const REQUESTS_MAX: u32 = 64;

/// The admission of an initiator to a target.
#[derive(Clone, Debug)]
pub enum Admission {
    /// The target does not exist here.
    NotFound,
    /// The initiator may not use it.
    Refused,
    /// Logins are not accepted now.
    Unavailable,
    /// It may log in, after authentication if `chap` is set.
    Granted {
        /// Portal group of the connection's portal.
        portal_group: u16,
        /// The credentials to authenticate with.
        chap: Option<Chap>,
    },
}

/// Provides targets, rules and sessions.
pub trait Directory {
    /// Returns whether `initiator` may use `target` over this connection.
    fn admit(&self, initiator: &IscsiName, target: &IscsiName) -> Admission;
    /// The credentials for discovery sessions; `None` allows discovery without authentication.
    fn discovery_chap(&self) -> Option<Chap>;
    /// Returns the parameters of the session that a further connection joins.
    fn session(
        &self,
        tsih: u16,
        isid: [u8; 6],
        initiator: &IscsiName,
        target: &IscsiName,
    ) -> Option<SessionParameters>;
}

/// The type of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// SendTargets only.
    Discovery,
    /// Commands to a target.
    Normal {
        /// The target.
        target: IscsiName,
        /// The portal group of this connection.
        portal_group: u16,
    },
}

/// A completed negotiation. The caller finds or creates the session and then sends
/// [`accept`](Self::accept) or [`refuse`](Self::refuse).
#[derive(Debug)]
pub struct Agreed {
    /// The initiator.
    pub initiator: IscsiName,
    /// The session type.
    pub kind: SessionKind,
    /// The connection's parameters.
    pub connection: ConnectionParameters,
    /// The session's.
    pub session: SessionParameters,
    /// The last request.
    pub request: LoginRequest,
    stage: Stage,
    text: Vec<u8>,
}

impl Agreed {
    /// Returns the response that enters the full-feature phase.
    pub fn accept(&self, tsih: u16) -> (Header, &[u8]) {
        let progress = LoginProgress {
            current: self.stage,
            next: Some(Stage::FullFeature),
            more: false,
            tsih,
        };
        let status = LoginStatus::Success;
        let header = login_response(&self.request, progress, status, self.text.len());
        (header, &self.text)
    }

    /// Returns the response that terminates the connection.
    pub fn refuse(&self, status: LoginStatus) -> Header {
        refusal(&self.request, self.stage, status)
    }
}

/// The action after a request.
#[derive(Debug)]
pub enum LoginStep {
    /// Send this and wait for the next request.
    Reply {
        /// The response's header.
        header: Header,
        /// Its data segment.
        text: Vec<u8>,
    },
    /// The negotiation is complete.
    Agreed(Box<Agreed>),
    /// Send this, then close.
    Refuse {
        /// The response's header.
        header: Header,
        /// The reason, for the log.
        why: Refusal,
    },
}

/// Why a login was refused, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The requests are inconsistent, or the stages are wrong.
    #[error("the login requests contradict each other")]
    Sequence,
    /// The text is malformed or too long.
    #[error("malformed login text")]
    Text,
    /// An operational key was misused.
    #[error("misused key")]
    Key(#[source] NegotiationError),
    /// InitiatorName or TargetName is missing.
    #[error("InitiatorName or TargetName is missing")]
    MissingName,
    /// A name is not an iSCSI name.
    #[error("malformed iSCSI name")]
    MalformedName,
    /// SessionType is neither Normal nor Discovery.
    #[error("unknown session type")]
    SessionType,
    /// VersionMin is not zero.
    #[error("unsupported version")]
    Version,
    /// The target does not exist.
    #[error("no such target")]
    NotFound,
    /// No rule admits the initiator.
    #[error("the initiator may not use the target")]
    NotAllowed,
    /// Logins are not accepted now.
    #[error("logins are not accepted now")]
    Unavailable,
    /// The session to join does not exist.
    #[error("no such session to join")]
    NoSession,
    /// The initiator did not offer the required authentication.
    #[error("the initiator does not offer CHAP")]
    NoCommonMethod,
    /// CHAP failed.
    #[error("CHAP failed")]
    Chap(#[source] ChapError),
}

impl Refusal {
    const fn status(self) -> LoginStatus {
        match self {
            Self::Sequence | Self::Text | Self::Key(_) | Self::MalformedName => {
                LoginStatus::InitiatorError
            }
            Self::MissingName => LoginStatus::MissingParameter,
            Self::SessionType => LoginStatus::SessionTypeNotSupported,
            Self::Version => LoginStatus::UnsupportedVersion,
            Self::NotFound => LoginStatus::NotFound,
            Self::NotAllowed => LoginStatus::AuthorizationFailure,
            Self::Unavailable => LoginStatus::ServiceUnavailable,
            Self::NoSession => LoginStatus::SessionDoesNotExist,
            Self::NoCommonMethod | Self::Chap(_) => LoginStatus::AuthenticationFailure,
        }
    }
}

fn refusal(request: &LoginRequest, stage: Stage, status: LoginStatus) -> Header {
    let progress = LoginProgress {
        current: stage,
        next: None,
        more: false,
        tsih: request.tsih,
    };
    login_response(request, progress, status, 0)
}

/// Initiator and session type, known after the first request.
#[derive(Debug)]
struct Identity {
    initiator: IscsiName,
    kind: SessionKind,
    chap: Option<Chap>,
}

/// The state of the authentication.
#[derive(Debug)]
enum Authentication {
    /// AuthMethod is not negotiated yet.
    Open,
    /// AuthMethod=None.
    None,
    /// AuthMethod=CHAP.
    Chap(Box<ChapExchange>),
}

/// One login.
#[derive(Debug)]
pub struct Login {
    capabilities: Capabilities,
    stage: Option<Stage>,
    first: Option<LoginRequest>,
    request_count: u32,
    text: Accumulator,
    /// The initiator name that was claimed, even if it is refused.
    claimed: Option<IscsiName>,
    identity: Option<Identity>,
    scene: Scene,
    authentication: Authentication,
    negotiation: Negotiation,
}

impl Login {
    /// Creates a login.
    pub fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            stage: None,
            first: None,
            request_count: 0,
            text: Accumulator::default(),
            claimed: None,
            identity: None,
            scene: Scene::Leading,
            authentication: Authentication::Open,
            negotiation: Negotiation::new(
                capabilities,
                ConnectionParameters::default(),
                SessionParameters::default(),
            ),
        }
    }

    /// The initiator's name after the first request.
    pub fn initiator(&self) -> Option<&IscsiName> {
        self.claimed.as_ref()
    }

    /// The number of the session's first command.
    pub fn first_cmd_sn(&self) -> Serial {
        self.first.map(|request| request.cmd_sn).unwrap_or_default()
    }

    /// Handles one request with its data segment.
    pub fn receive(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        directory: &dyn Directory,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> LoginStep {
        match self.step(request, data, directory, random) {
            Ok(step) => step,
            Err(why) => LoginStep::Refuse {
                header: refusal(request, self.stage.unwrap_or(Stage::Security), why.status()),
                why,
            },
        }
    }

    fn step(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        directory: &dyn Directory,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<LoginStep, Refusal> {
        let stage = self.check_sequence(request)?;
        self.text.push(data).map_err(|_| Refusal::Text)?;
        if request.more {
            return Ok(self.answer(request, stage, None, ResponsePairs::default()));
        }
        let text = self.text.take();
        let pairs = parse(&text).map_err(|_| Refusal::Text)?;
        let mut answers = ResponsePairs::default();
        if self.identity.is_none() {
            self.identify(request, &pairs, directory, &mut answers)?;
        }
        let chap_keys = self.negotiate(&pairs, &mut answers)?;
        self.authenticate(stage, &chap_keys, &mut answers, random)?;

        let next = self.next_stage(request, stage)?;
        match next {
            Some(Stage::FullFeature) => Ok(self.agree(request, stage, answers)),
            next => {
                if let Some(next) = next {
                    self.stage = Some(next);
                }
                Ok(self.answer(request, stage, next, answers))
            }
        }
    }

    /// Checks that the request is consistent with the earlier ones. Returns its stage.
    fn check_sequence(&mut self, request: &LoginRequest) -> Result<Stage, Refusal> {
        self.request_count += 1;
        let stage = request.current.ok_or(Refusal::Sequence)?;
        if stage == Stage::FullFeature || self.request_count > REQUESTS_MAX {
            return Err(Refusal::Sequence);
        }
        if request.version_min > 0 {
            return Err(Refusal::Version);
        }
        let first = *self.first.get_or_insert(*request);
        let same = first.isid == request.isid
            && first.tsih == request.tsih
            && first.cid == request.cid
            && first.task_tag == request.task_tag
            && first.cmd_sn == request.cmd_sn;
        if !same || *self.stage.get_or_insert(stage) != stage || (request.more && request.transit) {
            return Err(Refusal::Sequence);
        }
        let forward = match request.next {
            _ if !request.transit => true,
            Some(next) => next > stage,
            None => false,
        };
        if forward {
            Ok(stage)
        } else {
            Err(Refusal::Sequence)
        }
    }

    /// Reads names and session type from the first request and queries the directory.
    fn identify(
        &mut self,
        request: &LoginRequest,
        pairs: &[(&str, &str)],
        directory: &dyn Directory,
        answers: &mut ResponsePairs,
    ) -> Result<(), Refusal> {
        let find = |wanted: &str| {
            let pair = pairs.iter().find(|(key, _)| *key == wanted);
            pair.map(|(_, value)| *value)
        };
        let name = |text: &str| {
            text.parse::<IscsiName>()
                .map_err(|_| Refusal::MalformedName)
        };
        let initiator = name(find("InitiatorName").ok_or(Refusal::MissingName)?)?;
        self.claimed = Some(initiator.clone());
        let (kind, chap) = match find("SessionType").unwrap_or("Normal") {
            "Discovery" => {
                if request.tsih != 0 {
                    return Err(Refusal::NoSession);
                }
                self.scene = Scene::Discovery;
                (SessionKind::Discovery, directory.discovery_chap())
            }
            "Normal" => {
                let target = find("TargetName").ok_or(Refusal::MissingName)?;
                // A malformed name means that the target does not exist.
                let target = target.parse().map_err(|_| Refusal::NotFound)?;
                self.admit(request, &initiator, target, directory, answers)?
            }
            _ => return Err(Refusal::SessionType),
        };
        self.identity = Some(Identity {
            initiator,
            kind,
            chap,
        });
        Ok(())
    }

    fn admit(
        &mut self,
        request: &LoginRequest,
        initiator: &IscsiName,
        target: IscsiName,
        directory: &dyn Directory,
        answers: &mut ResponsePairs,
    ) -> Result<(SessionKind, Option<Chap>), Refusal> {
        let (portal_group, chap) = match directory.admit(initiator, &target) {
            Admission::NotFound => return Err(Refusal::NotFound),
            Admission::Refused => return Err(Refusal::NotAllowed),
            Admission::Unavailable => return Err(Refusal::Unavailable),
            Admission::Granted { portal_group, chap } => (portal_group, chap),
        };
        if request.tsih != 0 {
            let session = directory
                .session(request.tsih, request.isid, initiator, &target)
                .ok_or(Refusal::NoSession)?;
            self.scene = Scene::Joining;
            let connection = ConnectionParameters::default();
            self.negotiation = Negotiation::new(self.capabilities, connection, session);
        }
        answers.add("TargetPortalGroupTag", portal_group);
        let kind = SessionKind::Normal {
            target,
            portal_group,
        };
        Ok((kind, chap))
    }

    /// Negotiates all keys except those of CHAP, which it returns.
    fn negotiate<'a>(
        &mut self,
        pairs: &[(&'a str, &'a str)],
        answers: &mut ResponsePairs,
    ) -> Result<ChapKeys<'a>, Refusal> {
        let mut chap_keys = ChapKeys::default();
        for (key, value) in pairs {
            if chap_keys.take(key, value).map_err(Refusal::Chap)? {
                continue;
            }
            match *key {
                "InitiatorName" | "TargetName" | "SessionType" => {}
                "AuthMethod" => self.choose_method(value, answers)?,
                key => self
                    .negotiation
                    .offer(self.scene, key, value, answers)
                    .map_err(Refusal::Key)?,
            }
        }
        Ok(chap_keys)
    }

    fn choose_method(&mut self, offered: &str, answers: &mut ResponsePairs) -> Result<(), Refusal> {
        if !matches!(self.authentication, Authentication::Open) {
            return Err(Refusal::Key(NegotiationError::Repeated));
        }
        let offers = |method| offered.split(',').any(|offer| offer == method);
        let who = self.identity.as_ref();
        let chap = who.and_then(|who| Some((who.chap.clone()?, who.initiator.clone())));
        match chap {
            Some((chap, initiator)) if offers("CHAP") => {
                answers.add("AuthMethod", "CHAP");
                self.authentication =
                    Authentication::Chap(Box::new(ChapExchange::new(chap, initiator)));
            }
            None if offers("None") => {
                answers.add("AuthMethod", "None");
                self.authentication = Authentication::None;
            }
            _ => {
                answers.add("AuthMethod", REJECT);
                return Err(Refusal::NoCommonMethod);
            }
        }
        Ok(())
    }

    fn authenticate(
        &mut self,
        stage: Stage,
        keys: &ChapKeys<'_>,
        answers: &mut ResponsePairs,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        if let Authentication::Chap(exchange) = &mut self.authentication {
            if !keys.is_empty() {
                return exchange
                    .receive(keys, answers, random)
                    .map_err(Refusal::Chap);
            }
        }
        if !keys.is_empty() && stage != Stage::Security {
            return Err(Refusal::Chap(ChapError::Malformed));
        }
        Ok(())
    }

    /// Whether the initiator has completed the required authentication.
    fn is_authenticated(&self) -> bool {
        match &self.authentication {
            Authentication::Chap(exchange) => exchange.is_done(),
            Authentication::None | Authentication::Open => {
                self.identity.as_ref().is_some_and(|who| who.chap.is_none())
            }
        }
    }

    fn next_stage(&self, request: &LoginRequest, stage: Stage) -> Result<Option<Stage>, Refusal> {
        let authenticated = self.is_authenticated();
        if stage > Stage::Security && !authenticated {
            return Err(Refusal::NoCommonMethod);
        }
        if !request.transit {
            return Ok(None);
        }
        if !authenticated {
            // During CHAP the target is not ready; without CHAP it never will be.
            return match &self.authentication {
                Authentication::Chap(_) => Ok(None),
                _ => Err(Refusal::NoCommonMethod),
            };
        }
        Ok(request.next)
    }

    fn answer(
        &self,
        request: &LoginRequest,
        stage: Stage,
        next: Option<Stage>,
        answers: ResponsePairs,
    ) -> LoginStep {
        let text = answers.into_bytes();
        let progress = LoginProgress {
            current: stage,
            next,
            more: false,
            tsih: request.tsih,
        };
        let header = login_response(request, progress, LoginStatus::Success, text.len());
        LoginStep::Reply { header, text }
    }

    fn agree(
        &mut self,
        request: &LoginRequest,
        stage: Stage,
        mut answers: ResponsePairs,
    ) -> LoginStep {
        self.negotiation.declare(&mut answers);
        self.negotiation.settle();
        let Some(identity) = self.identity.take() else {
            unreachable!("a login cannot end before its first whole text");
        };
        LoginStep::Agreed(Box::new(Agreed {
            initiator: identity.initiator,
            kind: identity.kind,
            connection: self.negotiation.connection,
            session: self.negotiation.session,
            request: *request,
            stage,
            text: answers.into_bytes(),
        }))
    }
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
