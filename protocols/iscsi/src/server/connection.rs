//! A connection from accept to close: login first, then full-feature phase.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serving::{Connection, Directive, Link, OutboundLimits, Transport, Turn};
use units::IscsiName;

use super::desired::DesiredPortal;
use super::execute::Execution;
use super::framing::{Framing, Front};
use super::full_feature::FullFeature;
use super::sender::Sender;
use super::sessions::{Entry, Port};
use super::shared::{Shared, ends_of};
use crate::protocol::chap::Chap;
use crate::protocol::header::initiator_opcode;
use crate::protocol::login::{Admission, Agreed, Directory, Login, LoginStep, SessionKind};
use crate::protocol::negotiation::Negotiation;
use crate::protocol::parameters::SessionParameters;
use crate::protocol::request::{LoginRequest, Request};
use crate::protocol::response::LoginStatus;

/// The receive buffer has room for a command with the largest first burst, or for many small ones.
pub(crate) const BUFFER_BYTES: usize = 128 * 1024;
/// Maximum data segment of a login request (RFC 7143, section 13.12).
const LOGIN_SEGMENT_BYTES_MAX: usize = 8192;
/// Random bytes of one login: an identifier and the longest challenge, with reserve.
const RANDOM_BYTES: usize = 64;
/// Time-out of the response that refuses a login.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves one connection until it is closed.
pub(crate) fn serve(server: &Arc<Shared>, portal: DesiredPortal, connection: Arc<Connection>) {
    let Some((remote, local)) = ends_of(&connection) else {
        return;
    };
    let limits = OutboundLimits {
        stall_timeout: server.limits.stall_time,
        ..OutboundLimits::default()
    };
    let stream: Arc<dyn Transport> = connection.stream.clone();
    let mut link = Link::new(stream, Arc::clone(&connection.waker), limits, BUFFER_BYTES);
    let sender = Arc::new(Sender::new(Arc::clone(link.outbound())));
    let gate = Gate {
        server,
        portal,
        remote,
        local,
        required_chap: RefCell::default(),
    };
    let Some((agreed, entry)) = log_in(&gate, &connection, &mut link, &sender) else {
        link.settle(Instant::now() + FAREWELL);
        return;
    };
    let session = Arc::clone(&entry.session);
    let (peer, initiator, tsih) = (connection.peer, &session.initiator, session.tsih);
    if server.session_log_limit.allow() {
        let (cid, target) = (entry.member.cid, session.target_text());
        tracing::info!(%peer, %initiator, tsih, cid, target, "logged in");
    }
    let framing = Framing {
        header_digest: agreed.connection.header_digest,
        data_digest: agreed.connection.data_digest,
        segment_bytes_max: server.limits.capabilities.segment_bytes_max as usize,
    };
    let negotiation = Negotiation::new(
        server.limits.capabilities,
        agreed.connection,
        session.parameters,
    );
    let execution = Execution {
        server: Arc::clone(server),
        session: Arc::clone(&session),
        sender,
        connection: Arc::clone(&connection),
    };
    let end = FullFeature::new(execution, entry, framing, negotiation).serve(&mut link);
    if server.session_log_limit.allow() {
        tracing::info!(%peer, %initiator, tsih, ?end, "connection ended");
    }
}

/// The directory for the login of one connection.
struct Gate<'a> {
    server: &'a Arc<Shared>,
    portal: DesiredPortal,
    remote: IpAddr,
    local: IpAddr,
    /// The credentials that the initiator had to use.
    required_chap: RefCell<Option<Chap>>,
}

impl Directory for Gate<'_> {
    fn admit(&self, initiator: &IscsiName, target: &IscsiName) -> Admission {
        if !self.server.sessions.is_open() {
            return Admission::Unavailable;
        }
        let configuration = self.server.configuration();
        match configuration.targets.get(target) {
            Some(desired) if desired.is_in_group(self.portal.group) => {
                if desired.access.allows(initiator, self.remote, self.local) {
                    let chap = desired.access.chap.clone();
                    self.required_chap.replace(chap.clone());
                    Admission::Granted {
                        portal_group: self.portal.group,
                        chap,
                    }
                } else {
                    Admission::Refused
                }
            }
            _ => Admission::NotFound,
        }
    }

    fn discovery_chap(&self) -> Option<Chap> {
        let chap = self.server.configuration().discovery.clone();
        self.required_chap.replace(chap.clone());
        chap
    }

    fn session(
        &self,
        tsih: u16,
        isid: [u8; 6],
        initiator: &IscsiName,
        target: &IscsiName,
    ) -> Option<SessionParameters> {
        let session = self.server.sessions.find(tsih, isid, initiator)?;
        match &session.kind {
            SessionKind::Normal { target: own, .. } if own == target => Some(session.parameters),
            _ => None,
        }
    }
}

impl Gate<'_> {
    /// Whether the login would still be admitted in the same way. A change of the rules drops
    /// existing sessions, and this one may have been created too late for that.
    fn still_admits(&self, agreed: &Agreed) -> bool {
        let proven = self.required_chap.take();
        let SessionKind::Normal { target, .. } = &agreed.kind else {
            return self.discovery_chap() == proven;
        };
        match self.admit(&agreed.initiator, target) {
            Admission::Granted { chap, .. } => chap == proven,
            Admission::NotFound | Admission::Refused | Admission::Unavailable => false,
        }
    }

    /// Opens the SCSI side of a new session.
    fn open_port(&self, agreed: &Agreed) -> Option<Port> {
        let SessionKind::Normal {
            target,
            portal_group,
        } = &agreed.kind
        else {
            return None;
        };
        let configuration = self.server.configuration();
        let target = Arc::clone(&configuration.targets.get(target)?.target);
        let id = scsi::NexusId {
            initiator: agreed.initiator.clone(),
            isid: agreed.request.isid,
            portal_group: *portal_group,
        };
        let nexus = target.login(id.clone());
        Some(Port { target, nexus, id })
    }
}

/// Handles the login. Returns `None` if the connection is closed without one.
fn log_in(
    gate: &Gate<'_>,
    connection: &Arc<Connection>,
    link: &mut Link,
    sender: &Arc<Sender>,
) -> Option<(Agreed, Entry)> {
    let limits = &gate.server.limits;
    let deadline = Instant::now() + limits.login_time;
    let mut random = [0; RANDOM_BYTES];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(%error, "no random bytes for a login");
        return None;
    }
    let mut login = Login::new(limits.capabilities);
    let mut random = random.iter();
    loop {
        let (request, data) = next_request(gate, connection, link, deadline)?;
        let step = login.receive(&request, &data, gate, &mut |bytes| {
            bytes
                .iter_mut()
                .zip(&mut random)
                .for_each(|(to, from)| *to = *from);
        });
        match step {
            LoginStep::Reply { header, text } => {
                sender.send_login(header, &text, (request.cmd_sn, request.cmd_sn));
            }
            LoginStep::Refuse { header, why } => {
                log_protocol_error(gate, connection, login.initiator(), &why);
                sender.send_login(header, &[], (request.cmd_sn, request.cmd_sn));
                return None;
            }
            LoginStep::Agreed(agreed) => {
                return enter(gate, connection, sender, *agreed);
            }
        }
    }
}

/// Joins or creates the session and sends the last login response.
fn enter(
    gate: &Gate<'_>,
    connection: &Arc<Connection>,
    sender: &Arc<Sender>,
    agreed: Agreed,
) -> Option<(Agreed, Entry)> {
    let limits = &gate.server.limits;
    let is_known = agreed.kind != SessionKind::Discovery;
    if is_known && !connection.admit_peer() {
        let number = agreed.request.cmd_sn;
        let refusal = agreed.refuse(LoginStatus::OutOfResources);
        sender.send_login(refusal, &[], (number, number));
        return None;
    }
    let entered = gate.server.sessions.enter(
        &agreed,
        connection,
        limits.tasks_per_session,
        Instant::now() + limits.reinstatement_time,
        || gate.open_port(&agreed),
    );
    let entered = entered.and_then(|entry| {
        // Checked when the session is in the table: a concurrent change of the rules finds it
        // there, or is detected here.
        if gate.still_admits(&agreed) {
            return Ok(entry);
        }
        gate.server.sessions.leave(&entry, true);
        Err(LoginStatus::AuthorizationFailure)
    });
    match entered {
        Ok(entry) => {
            let (header, text) = agreed.accept(entry.session.tsih);
            sender.send_login(header, text, entry.session.window());
            sender.establish(&entry.session, &agreed.connection);
            Some((agreed, entry))
        }
        Err(status) => {
            log_refused_login(gate, connection, &agreed, status);
            let number = agreed.request.cmd_sn;
            sender.send_login(agreed.refuse(status), &[], (number, number));
            None
        }
    }
}

/// An initiator retries every few seconds for as long as a device hangs, so the log lines are
/// limited.
fn log_refused_login(
    gate: &Gate<'_>,
    connection: &Connection,
    agreed: &Agreed,
    status: LoginStatus,
) {
    let (peer, initiator) = (&connection.peer, &agreed.initiator);
    if status != LoginStatus::TargetError {
        if gate.server.log_limit.allow() {
            tracing::warn!(%peer, %initiator, ?status, "login refused");
        }
        return;
    }
    if let Some(swallowed) = gate.server.refusals.take(initiator, Instant::now()) {
        tracing::warn!(
            %peer, %initiator, swallowed,
            "login refused: operations of an earlier connection of this initiator do not end; a disk seems to hang, \
             or the pool is suspended: `bulkhead status` shows it"
        );
    }
}

/// Receives the next login request.
fn next_request(
    gate: &Gate<'_>,
    connection: &Connection,
    link: &mut Link,
    deadline: Instant,
) -> Option<(LoginRequest, Vec<u8>)> {
    let framing = Framing {
        header_digest: false,
        data_digest: false,
        segment_bytes_max: LOGIN_SEGMENT_BYTES_MAX,
    };
    loop {
        match framing.front(link.bytes()) {
            Err(error) => {
                log_protocol_error(gate, connection, None, &error);
                return None;
            }
            Ok(Some(front)) if link.bytes().len() >= front.total() => {
                let request = take_request(&front, link);
                if request.is_none() {
                    log_protocol_error(gate, connection, None, &NotLoginRequest);
                }
                return request;
            }
            Ok(Some(front)) => {
                link.require(front.total());
            }
            Ok(None) => {}
        }
        match link.turn(Some(deadline)) {
            Ok(Turn::Input(_)) => {}
            Ok(Turn::Woken) if connection.directive() == Directive::Serve => {}
            Ok(Turn::Deadline | Turn::Stalled) => {
                log_protocol_error(gate, connection, None, &LoginTooSlow);
                return None;
            }
            Ok(Turn::Woken | Turn::Closed) | Err(_) => return None,
        }
        if Instant::now() >= deadline {
            log_protocol_error(gate, connection, None, &LoginTooSlow);
            return None;
        }
    }
}

fn take_request(front: &Front, link: &mut Link) -> Option<(LoginRequest, Vec<u8>)> {
    let input = link.bytes();
    let is_login = front.header.opcode() == initiator_opcode::LOGIN;
    let request = match Request::decode(&front.header, front.ahs(input)) {
        Ok(Request::Login(request)) if is_login => request,
        _ => return None,
    };
    let data = front.data(input).to_vec();
    link.consume(front.total());
    Some((request, data))
}

#[derive(Debug, thiserror::Error)]
#[error("another PDU than a login request before login")]
struct NotLoginRequest;

#[derive(Debug, thiserror::Error)]
#[error("the login timed out")]
struct LoginTooSlow;

fn log_protocol_error(
    gate: &Gate<'_>,
    connection: &Connection,
    initiator: Option<&IscsiName>,
    why: &dyn std::error::Error,
) {
    if !gate.server.log_limit.allow() {
        return;
    }
    let initiator = initiator.map_or("?", IscsiName::as_str);
    let peer = &connection.peer;
    match why.source() {
        Some(cause) => tracing::warn!(%peer, initiator, %why, %cause, "login refused"),
        None => tracing::warn!(%peer, initiator, %why, "login refused"),
    }
}
