//! Sessions: their command window, their connections, and the table of all sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use serving::{Connection, Counters, Directive};
use units::IscsiName;

use super::management::Abort;
use crate::protocol::header::Header;
use crate::protocol::login::{Agreed, SessionKind};
use crate::protocol::parameters::SessionParameters;
use crate::protocol::response::LoginStatus;
use crate::protocol::serial::Serial;
use crate::protocol::window::{CommandWindow, Verdict};

/// Maximum unread messages to a connection's thread.
const MESSAGES_MAX: usize = 1024;

/// A stored PDU.
#[derive(Debug)]
pub(crate) struct StoredPdu {
    pub(crate) header: Header,
    pub(crate) ahs: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

impl StoredPdu {
    fn byte_count(&self) -> usize {
        size_of::<Self>() + self.ahs.len() + self.data.len()
    }
}

/// A message to a connection's thread.
pub(crate) enum Message {
    /// A held command of this connection is now the next in order.
    Deliver(Box<StoredPdu>),
    /// Tasks must be aborted.
    Abort(Abort),
    /// The initiator must be informed that its session is about to end.
    AnnounceEnd,
}

/// A connection from the view of its session and of the session's other connections.
pub(crate) struct Member {
    pub(crate) cid: u16,
    pub(crate) connection: Arc<Connection>,
    inbox: Mutex<Vec<Message>>,
    /// It was logged out by another connection, or a new one replaces it.
    ends_alone: AtomicBool,
}

impl Member {
    pub(crate) fn new(cid: u16, connection: Arc<Connection>) -> Self {
        Self {
            cid,
            connection,
            inbox: Mutex::default(),
            ends_alone: AtomicBool::new(false),
        }
    }

    /// Sends a message and wakes the connection's thread.
    pub(crate) fn send_message(&self, message: Message) {
        let mut inbox = self.inbox.lock().expect("no holder panics");
        inbox.push(message);
        let overrun = inbox.len() > MESSAGES_MAX;
        drop(inbox);
        if overrun {
            // Its thread is stuck. Dropping the connection aborts all of its tasks.
            self.connection.direct(Directive::Drop);
        }
        self.connection.waker.wake();
    }

    /// Closes this connection; its session continues with the remaining ones.
    pub(crate) fn close_connection_only(&self) {
        self.ends_alone.store(true, Ordering::Release);
        self.connection.direct(Directive::Drop);
    }

    /// Returns all messages.
    pub(crate) fn take_messages(&self) -> Vec<Message> {
        std::mem::take(&mut *self.inbox.lock().expect("no holder panics"))
    }
}

/// The SCSI side of a normal session.
pub(crate) struct Port {
    pub(crate) target: Arc<scsi::Target>,
    pub(crate) nexus: scsi::Nexus,
    pub(crate) id: scsi::NexusId,
}

/// A session.
pub(crate) struct Session {
    pub(crate) tsih: u16,
    pub(crate) initiator: IscsiName,
    pub(crate) isid: [u8; 6],
    pub(crate) kind: SessionKind,
    pub(crate) parameters: SessionParameters,
    /// `None` for a discovery session.
    pub(crate) port: Option<Port>,
    pub(crate) counters: Counters,
    order: Mutex<Order>,
    members: Mutex<Vec<Arc<Member>>>,
    left: Condvar,
    closing: AtomicBool,
}

struct Order {
    window: CommandWindow,
    held: BTreeMap<u32, Held>,
    held_bytes: usize,
}

enum Held {
    Command(Arc<Member>, Box<StoredPdu>),
    /// Aborted before it arrived.
    Nothing,
}

/// The action for a numbered PDU.
pub(crate) enum Arrival {
    /// It must be executed now.
    Now,
    /// It is held; a [`Message::Deliver`] returns it.
    Held,
    /// It must be ignored.
    Ignored,
}

impl Session {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().expect("no holder panics")
    }

    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().expect("no holder panics")
    }

    /// The target, for the log.
    pub(crate) fn target_text(&self) -> &str {
        match &self.kind {
            SessionKind::Discovery => "(discovery)",
            SessionKind::Normal { target, .. } => target.as_str(),
        }
    }

    /// ExpCmdSN and MaxCmdSN.
    pub(crate) fn window(&self) -> (Serial, Serial) {
        let order = self.order();
        (order.window.expected(), order.window.max())
    }

    /// Frees the slot of a completed ordinary command.
    pub(crate) fn release(&self) {
        self.order().window.release();
    }

    /// Handles a numbered PDU that arrived over `member`; `store` copies it if it must be held.
    pub(crate) fn arrive(
        &self,
        member: &Arc<Member>,
        number: Serial,
        immediate: bool,
        held_bytes_max: usize,
        store: impl FnOnce() -> StoredPdu,
    ) -> Arrival {
        let mut order = self.order();
        match order.window.receive(number, immediate) {
            Verdict::Deliver => {
                if !immediate && !order.held.is_empty() {
                    order.deliver_held();
                }
                Arrival::Now
            }
            Verdict::Ignore => Arrival::Ignored,
            Verdict::Hold if order.held.contains_key(&number.0) => Arrival::Ignored,
            Verdict::Hold => {
                let pdu = Box::new(store());
                if order.held_bytes + pdu.byte_count() > held_bytes_max {
                    return Arrival::Ignored;
                }
                order.held_bytes += pdu.byte_count();
                let held = Held::Command(Arc::clone(member), pdu);
                order.held.insert(number.0, held);
                Arrival::Held
            }
        }
    }

    /// Handles a task management reference to a command that has not arrived: it counts as received
    /// and aborted if it is inside the window (RFC 7143, section 11.5.1). Returns whether it is.
    pub(crate) fn abort_before_arrival(&self, number: Serial, before: Serial) -> bool {
        let mut order = self.order();
        let inside = !number.is_before(order.window.expected())
            && number.is_before(before)
            && !order.window.max().is_before(number);
        if !inside {
            return false;
        }
        if let Some(Held::Command(_, pdu)) = order.held.insert(number.0, Held::Nothing) {
            order.held_bytes -= pdu.byte_count();
        }
        order.deliver_held();
        true
    }

    /// Returns the connections of the session.
    pub(crate) fn connections(&self) -> Vec<Arc<Member>> {
        self.members().clone()
    }

    /// Drops all connections immediately.
    pub(crate) fn drop_connections(&self) {
        self.closing.store(true, Ordering::Release);
        for member in self.connections() {
            member.connection.direct(Directive::Drop);
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Removes a closed connection without pending operations.
    fn leave(&self, member: &Arc<Member>) -> bool {
        let mut members = self.members();
        members.retain(|other| !Arc::ptr_eq(other, member));
        self.left.notify_all();
        members.is_empty()
    }

    /// Blocks until `gone` is true for the members, or until `deadline`.
    fn wait_for_members(&self, deadline: Instant, gone: impl Fn(&[Arc<Member>]) -> bool) -> bool {
        let mut members = self.members();
        while !gone(&members) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            members = self
                .left
                .wait_timeout(members, left)
                .expect("no holder panics")
                .0;
        }
        true
    }
}

impl Order {
    /// Passes held commands that are next in order to their connections.
    fn deliver_held(&mut self) {
        while let Some(held) = self.held.remove(&self.window.expected().0) {
            self.window.advance();
            match held {
                Held::Command(member, pdu) => {
                    self.held_bytes -= pdu.byte_count();
                    member.send_message(Message::Deliver(pdu));
                }
                Held::Nothing => self.window.release(),
            }
        }
    }
}

/// All sessions of a server.
pub(crate) struct Sessions {
    table: Mutex<Table>,
    sessions_max: usize,
    per_initiator_max: usize,
}

struct Table {
    sessions: HashMap<u16, Arc<Session>>,
    next_tsih: u16,
    open: bool,
}

/// The session and connection of a login.
pub(crate) struct Entry {
    pub(crate) session: Arc<Session>,
    pub(crate) member: Arc<Member>,
}

impl Sessions {
    pub(crate) fn new(sessions_max: usize, per_initiator_max: usize) -> Self {
        Self {
            table: Mutex::new(Table {
                sessions: HashMap::new(),
                next_tsih: 1,
                open: true,
            }),
            // Zero is not a valid session ID.
            sessions_max: sessions_max.min(usize::from(u16::MAX)),
            per_initiator_max,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder panics")
    }

    /// Returns all sessions in any order.
    pub(crate) fn list(&self) -> Vec<Arc<Session>> {
        self.table().sessions.values().cloned().collect()
    }

    /// Accepts no more logins.
    pub(crate) fn close(&self) {
        self.table().open = false;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.table().open
    }

    /// Returns the session `tsih` if it belongs to that initiator.
    pub(crate) fn find(
        &self,
        tsih: u16,
        isid: [u8; 6],
        initiator: &IscsiName,
    ) -> Option<Arc<Session>> {
        let table = self.table();
        let session = table.sessions.get(&tsih)?;
        let same = session.isid == isid && session.initiator == *initiator;
        (same && !session.is_closing()).then(|| Arc::clone(session))
    }

    /// Joins or creates a session, replacing the one that RFC 7143 section 6.3.5 requires. `log_in`
    /// creates the SCSI side after the replaced session has ended.
    pub(crate) fn enter(
        &self,
        agreed: &Agreed,
        connection: &Arc<Connection>,
        window_depth: u32,
        deadline: Instant,
        log_in: impl FnOnce() -> Option<Port>,
    ) -> Result<Entry, LoginStatus> {
        let request = &agreed.request;
        let member = Arc::new(Member::new(request.cid, Arc::clone(connection)));
        if request.tsih != 0 {
            let session = self
                .find(request.tsih, request.isid, &agreed.initiator)
                .ok_or(LoginStatus::SessionDoesNotExist)?;
            if session.kind != agreed.kind {
                return Err(LoginStatus::CannotIncludeInSession);
            }
            return join(session, member, deadline);
        }
        self.end_replaced(agreed, deadline)?;
        self.await_lost_changes(agreed, deadline)?;
        let port = match &agreed.kind {
            SessionKind::Discovery => None,
            SessionKind::Normal { .. } => Some(log_in().ok_or(LoginStatus::NotFound)?),
        };
        let mut table = self.table();
        if !table.open {
            return Err(LoginStatus::ServiceUnavailable);
        }
        let of_initiator = table
            .sessions
            .values()
            .filter(|session| session.initiator == agreed.initiator)
            .count();
        if table.sessions.len() >= self.sessions_max || of_initiator >= self.per_initiator_max {
            return Err(LoginStatus::OutOfResources);
        }
        let tsih = table.free_tsih();
        let session = Arc::new(Session {
            tsih,
            initiator: agreed.initiator.clone(),
            isid: request.isid,
            kind: agreed.kind.clone(),
            parameters: agreed.session,
            port,
            counters: Counters::default(),
            order: Mutex::new(Order {
                window: CommandWindow::new(request.cmd_sn, window_depth),
                held: BTreeMap::new(),
                held_bytes: 0,
            }),
            members: Mutex::new(vec![Arc::clone(&member)]),
            left: Condvar::new(),
            closing: AtomicBool::new(false),
        });
        table.sessions.insert(tsih, Arc::clone(&session));
        Ok(Entry { session, member })
    }

    /// Drops the session of the same initiator port with the same target port, and blocks until its
    /// commands are complete. So none of them is executed after those of the new session.
    fn end_replaced(&self, agreed: &Agreed, deadline: Instant) -> Result<(), LoginStatus> {
        if agreed.kind == SessionKind::Discovery {
            return Ok(());
        }
        let replaced: Vec<_> = {
            let table = self.table();
            let same = |session: &&Arc<Session>| {
                session.isid == agreed.request.isid
                    && session.initiator == agreed.initiator
                    && session.kind == agreed.kind
            };
            table.sessions.values().filter(same).cloned().collect()
        };
        for session in replaced {
            tracing::info!(
                initiator = %session.initiator, tsih = session.tsih,
                "session replaced by a new login"
            );
            session.drop_connections();
            if !session.wait_for_members(deadline, <[_]>::is_empty) {
                return Err(LoginStatus::TargetError);
            }
            self.table().sessions.remove(&session.tsih);
        }
        Ok(())
    }

    /// The initiator may have lost other sessions with the same target, of other initiator ports,
    /// and may retry their unacknowledged requests on the new one. So requests of the lost sessions
    /// must complete first. Sessions that are not lost are not affected.
    fn await_lost_changes(&self, agreed: &Agreed, deadline: Instant) -> Result<(), LoginStatus> {
        let SessionKind::Normal { target: own, .. } = &agreed.kind else {
            return Ok(());
        };
        let of_target = |session: &Arc<Session>| match &session.kind {
            SessionKind::Normal { target, .. } => target == own,
            SessionKind::Discovery => false,
        };
        let mut others = self.list();
        others.retain(|other| other.initiator == agreed.initiator && of_target(other));
        for member in others.iter().flat_map(|session| session.connections()) {
            let connection = &member.connection;
            let changes_in_flight = &connection.changes_in_flight;
            if connection.ends_if_left()
                && !changes_in_flight.wait_for(changes_in_flight.requested_changes(), deadline)
            {
                return Err(LoginStatus::TargetError);
            }
        }
        Ok(())
    }

    /// Removes a closed connection without pending operations. `orderly` after a logout of this
    /// connection alone; otherwise the session is closed with it, as ErrorRecoveryLevel 0 requires.
    pub(crate) fn leave(&self, entry: &Entry, orderly: bool) {
        let session = &entry.session;
        if !orderly && !entry.member.ends_alone.load(Ordering::Acquire) {
            session.drop_connections();
        }
        if session.leave(&entry.member) {
            session.closing.store(true, Ordering::Release);
            self.table().sessions.remove(&session.tsih);
        }
    }
}

impl Table {
    fn free_tsih(&mut self) -> u16 {
        loop {
            let tsih = self.next_tsih;
            self.next_tsih = self.next_tsih.checked_add(1).unwrap_or(1);
            if tsih != 0 && !self.sessions.contains_key(&tsih) {
                return tsih;
            }
        }
    }
}

/// Adds a connection to a session, replacing one with the same ID.
fn join(
    session: Arc<Session>,
    member: Arc<Member>,
    deadline: Instant,
) -> Result<Entry, LoginStatus> {
    let replaced = {
        let mut members = session.members();
        if session.is_closing() || members.is_empty() {
            return Err(LoginStatus::SessionDoesNotExist);
        }
        let replaced = members.iter().find(|other| other.cid == member.cid);
        let replaced = replaced.cloned();
        let others = members.len() - usize::from(replaced.is_some());
        if others >= usize::from(session.parameters.max_connections) {
            return Err(LoginStatus::TooManyConnections);
        }
        // Before the replaced one leaves, because a session without connections is closed.
        members.push(Arc::clone(&member));
        replaced
    };
    if let Some(replaced) = replaced {
        replaced.close_connection_only();
        let gone = session.wait_for_members(deadline, |members| {
            !members.iter().any(|other| Arc::ptr_eq(other, &replaced))
        });
        if !gone {
            session.leave(&member);
            return Err(LoginStatus::TargetError);
        }
    }
    Ok(Entry { session, member })
}
