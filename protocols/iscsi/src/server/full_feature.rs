//! The full-feature phase of a connection: its loop, its timers, and the PDUs other than SCSI data.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serving::{Directive, Link, Outbound, Turn};

use super::connection::BUFFER_BYTES;
use super::execute::Execution;
use super::framing::{Framing, FramingError, Front, Place, Segment};
use super::management::{Abort, Barrier, RunningTask, Scope};
use super::sender::Numbering;
use super::sessions::{Arrival, Entry, Message, StoredPdu};
use super::shared::{Shared, ends_of};
use super::tasks::{ParkedRead, WriteTask};
use crate::protocol::discovery::{MalformedSendTargets, send_targets};
use crate::protocol::header::{Header, TAG_NONE, initiator_opcode as op};
use crate::protocol::login::SessionKind;
use crate::protocol::negotiation::{Negotiation, Scene, is_legal};
use crate::protocol::request::{Logout, LogoutReason, NopOut, Request, TextRequest};
use crate::protocol::response::{self, AsyncEvent, LogoutResponse, RejectReason};
use crate::protocol::serial::Serial;
use crate::protocol::text::{Accumulator, ResponsePairs, parse};

/// A longer Data-Out segment is received directly into the task's buffers.
const DIRECT_BYTES_MIN: usize = 16 * 1024;
/// A write of this size counts as bulk data.
const BULK_BYTES_MIN: usize = 64 * 1024;
/// Bytes received beyond known destinations during bulk data.
const BULK_READ_AHEAD_BYTES: usize = 4096;
/// Bytes that are queued between two attempts to send them.
const SEND_EARLY_BYTES: usize = 512 * 1024;
/// Time-out of the last responses before an orderly close.
const FAREWELL: Duration = Duration::from_secs(5);
/// Interval of the log lines about hanging operations of a closed connection: a new session must
/// not start before they complete.
const HANG_LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Why the full-feature phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Only the connection was logged out.
    ConnectionLogout,
    /// The session was logged out.
    SessionLogout,
    /// The server is drained.
    Drained,
    /// The connection failed or was dropped.
    Broken,
}

/// The requirement for consuming more input.
#[derive(PartialEq, Eq)]
enum Need {
    Input,
    Room,
}

/// An incomplete text exchange.
struct TextExchange {
    task_tag: u32,
    transfer_tag: u32,
    request: Accumulator,
    /// Unsent rest of the response.
    answer: VecDeque<u8>,
}

/// A task on another thread.
pub(crate) struct Running {
    pub(crate) unit: Option<u16>,
    pub(crate) immediate: bool,
    pub(crate) task: Arc<RunningTask>,
}

/// A connection in full-feature phase.
pub(crate) struct FullFeature {
    pub(crate) server: Arc<Shared>,
    pub(crate) entry: Entry,
    pub(crate) execution: Execution,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) framing: Framing,
    /// Commands that are waiting for data.
    pub(crate) writes: HashMap<u32, WriteTask>,
    /// Tags of parked writes, oldest first.
    pub(crate) parked: VecDeque<u32>,
    /// Reads that are waiting for memory, oldest first. Bounded by the session's window and by the
    /// limit of immediate tasks.
    pub(crate) parked_reads: VecDeque<ParkedRead>,
    /// Commands on other threads.
    pub(crate) running: HashMap<u32, Running>,
    /// Commands that are held for their order, and data that has arrived for them.
    pub(crate) held: HashMap<u32, Vec<StoredPdu>>,
    pub(crate) next_transfer_tag: u32,
    /// This thread has no other work.
    pub(crate) quiet: bool,
    /// Above this number of queued bytes they are sent before more requests are handled.
    send_mark: usize,
    negotiation: Negotiation,
    segment: Option<Segment>,
    text: Option<TextExchange>,
    last_input: Instant,
    /// When the last text request of a discovery session arrived.
    last_text: Instant,
    /// When to check for tasks with missing data.
    data_check: Instant,
    ping: Option<(u32, Instant)>,
    drain_until: Option<Instant>,
    end: Option<End>,
}

impl FullFeature {
    pub(crate) fn new(
        execution: Execution,
        entry: Entry,
        framing: Framing,
        negotiation: Negotiation,
    ) -> Self {
        Self {
            server: Arc::clone(&execution.server),
            entry,
            outbound: Arc::clone(&execution.sender.outbound),
            execution,
            framing,
            writes: HashMap::new(),
            parked: VecDeque::new(),
            parked_reads: VecDeque::new(),
            running: HashMap::new(),
            held: HashMap::new(),
            next_transfer_tag: 1,
            quiet: false,
            send_mark: SEND_EARLY_BYTES,
            negotiation,
            segment: None,
            text: None,
            last_input: Instant::now(),
            last_text: Instant::now(),
            data_check: Instant::now(),
            ping: None,
            drain_until: None,
            end: None,
        }
    }

    /// Serves until the connection is closed, and leaves the session.
    pub(crate) fn serve(mut self, link: &mut Link) -> End {
        self.handle_directive();
        let end = loop {
            let need = self.consume(link);
            self.retry_parked();
            if let Some(end) = self.end {
                break end;
            }
            let deadline = self.next_deadline();
            let turn = match need {
                Need::Room => link.make_room(Some(deadline)),
                Need::Input => self.receive(link, Some(deadline)),
            };
            self.send_mark = self.outbound.queued_bytes() + SEND_EARLY_BYTES;
            match turn {
                Ok(Turn::Input(0)) => {}
                Ok(Turn::Input(_)) => {
                    self.last_input = Instant::now();
                    self.ping = None;
                    if self.last_input >= deadline {
                        // Due timers are handled even if the initiator is busy.
                        self.handle_timers();
                    }
                }
                Ok(Turn::Woken) => self.handle_messages(),
                Ok(Turn::Deadline) => self.handle_timers(),
                Ok(Turn::Closed) => self.end = Some(End::Broken),
                Ok(Turn::Stalled) => {
                    self.log_protocol_error("the initiator does not read responses")
                }
                Err(error) => {
                    tracing::debug!(peer = %self.execution.connection.peer, %error, "receive");
                    self.end = Some(End::Broken);
                }
            }
        };
        self.leave(link, end);
        end
    }

    fn leave(mut self, link: &mut Link, end: End) {
        // Tasks that are waiting for data or memory are dropped, with their loans and reservations.
        self.writes.clear();
        for read in self.parked_reads.drain(..) {
            self.execution.finish_without_effect(&read.task);
        }
        if end == End::Broken {
            self.outbound.abandon();
        } else {
            link.settle(Instant::now() + FAREWELL);
            link.outbound().abandon();
        }
        self.execution.connection.changes_in_flight.end();
        while !link.settle(Instant::now() + HANG_LOG_INTERVAL) {
            tracing::error!(
                initiator = %self.entry.session.initiator,
                "operations of a closed connection do not end; the disk seems to hang"
            );
        }
        let orderly = end == End::ConnectionLogout;
        self.server.sessions.leave(&self.entry, orderly);
    }

    /// Closes the connection because of an error of its peer.
    pub(crate) fn log_protocol_error(&mut self, what: &str) {
        if self.server.log_limit.allow() {
            tracing::warn!(
                peer = %self.execution.connection.peer,
                initiator = %self.entry.session.initiator,
                what,
                "connection dropped"
            );
        }
        self.end = Some(End::Broken);
    }

    fn receive(&mut self, link: &mut Link, deadline: Option<Instant>) -> std::io::Result<Turn> {
        // The rest of long data remains in the socket until its destination is known.
        let bulk = self
            .writes
            .values()
            .any(|write| write.transfer.announced() as usize >= BULK_BYTES_MIN);
        link.set_read_limit(match (bulk, &self.segment) {
            (false, _) => BUFFER_BYTES,
            (true, Some(_)) => BULK_READ_AHEAD_BYTES,
            // A PDU that is gathered in the input buffer is received whole.
            (true, None) => self.framing.missing(link.bytes()) + BULK_READ_AHEAD_BYTES,
        });
        let direct = self
            .segment
            .as_ref()
            .and_then(|segment| match segment.place {
                Place::Task { tag, offset, keep } if keep > 0 => Some((tag, offset, keep)),
                _ => None,
            });
        let Some((tag, offset, keep)) = direct else {
            return link.turn(deadline);
        };
        let Some(write) = self.writes.get_mut(&tag) else {
            return link.turn(deadline);
        };
        let places = write.places(offset, keep);
        let capacity: usize = places.iter().map(|place| place.len()).sum();
        let turn = link.turn_into(places, deadline)?;
        if let (Turn::Input(count), Some(segment)) = (turn, &mut self.segment) {
            let count = count.min(capacity);
            write.progress = Instant::now();
            if segment.needs_digest_input() {
                for place in write.places(offset, count) {
                    segment.record_stored(&place);
                }
            } else {
                segment.skip(count);
            }
        }
        Ok(turn)
    }

    /// Handles the PDUs in the input buffer.
    fn consume(&mut self, link: &mut Link) -> Need {
        while self.end.is_none() {
            if self.execution.connection.left_during_absence() {
                self.end = Some(End::Broken);
                break;
            }
            if self.outbound.queued_bytes() > self.send_mark || self.outbound.is_congested() {
                return Need::Room;
            }
            if self.segment.is_some() {
                let used = self.feed_segment(link.bytes());
                link.consume(used);
                if self.segment.is_some() {
                    return Need::Input;
                }
                continue;
            }
            let front = match self.framing.front(link.bytes()) {
                Ok(Some(front)) => front,
                Ok(None) => {
                    link.require(self.framing_head_max());
                    return Need::Input;
                }
                Err(error) => {
                    self.framing_failed(&error);
                    break;
                }
            };
            let input = link.bytes();
            if input.len() >= front.total() {
                self.quiet = input.len() == front.total() && self.writes.is_empty();
                let ahs = front.ahs(input);
                let data = front.data(input);
                if front.has_correct_data_digest(input, &self.framing) {
                    self.handle(&front.header, ahs, data);
                } else {
                    self.wrong_data_digest(&front.header, data.len());
                }
                link.consume(front.total());
                continue;
            }
            if !self.begin_segment(&front, link) {
                return Need::Input;
            }
        }
        Need::Input
    }

    fn framing_head_max(&self) -> usize {
        crate::protocol::header::HEADER_BYTES + crate::protocol::header::AHS_BYTES_MAX + 4
    }

    fn framing_failed(&mut self, error: &FramingError) {
        // Section 7.7: after a wrong header digest the stream cannot be trusted.
        self.log_protocol_error(&error.to_string());
    }

    /// Handles an incomplete PDU at the front. Prepares to receive a long one to another
    /// destination. Returns `false` if it belongs in the input buffer.
    fn begin_segment(&mut self, front: &Front, link: &mut Link) -> bool {
        let direct = front.header.opcode() == op::DATA_OUT
            && front.data_bytes >= DIRECT_BYTES_MIN
            && !self.held.contains_key(&front.header.task_tag());
        if !direct && link.require(front.total()) {
            return false;
        }
        let place = if direct {
            let data = match Request::decode(&front.header, front.ahs(link.bytes())) {
                Ok(Request::DataOut(data)) => data,
                _ => return false,
            };
            self.place_data(&data, front.data_bytes)
        } else {
            Place::Gather {
                ahs: front.ahs(link.bytes()).to_vec(),
                data: Vec::with_capacity(front.data_bytes),
            }
        };
        link.consume(front.head_bytes);
        self.segment = Some(Segment::new(front, place, &self.framing));
        true
    }

    /// Moves input to the current segment. Returns the number of consumed bytes.
    fn feed_segment(&mut self, input: &[u8]) -> usize {
        let Some(segment) = &mut self.segment else {
            return 0;
        };
        let count = segment.data_in(input);
        let (data, rest) = input.split_at(count);
        match &mut segment.place {
            Place::Task { tag, offset, keep } => {
                if let Some(write) = self.writes.get_mut(tag) {
                    write.store(*offset, &data[..count.min(*keep)]);
                    write.progress = Instant::now();
                }
            }
            Place::Gather { data: gathered, .. } => gathered.extend_from_slice(data),
        }
        segment.record_stored(data);
        let mut used = count;
        if segment.left() == 0 {
            used += segment.take_trailer(rest);
        }
        if segment.is_complete() {
            self.finish_segment();
        }
        used
    }

    fn finish_segment(&mut self) {
        let Some(segment) = self.segment.take() else {
            return;
        };
        let right = segment.has_correct_digest();
        self.quiet = false;
        match segment.place {
            Place::Task { tag, .. } => {
                if !right {
                    self.data_digest_failed(&segment.header, tag);
                }
                self.data_arrived(tag);
            }
            Place::Gather { ahs, data } if right => self.handle(&segment.header, &ahs, &data),
            Place::Gather { data, .. } => self.wrong_data_digest(&segment.header, data.len()),
        }
    }

    /// Section 7.7: the PDU is rejected; only data of a task has further consequences.
    fn wrong_data_digest(&mut self, header: &Header, count: usize) {
        if let Ok(Request::DataOut(data)) = Request::decode(header, &[]) {
            if let Place::Task { tag, .. } = self.place_data(&data, count) {
                self.data_digest_failed(header, tag);
                self.data_arrived(tag);
            }
            return;
        }
        self.reject(header, RejectReason::DataDigestError);
    }

    /// Whether a long data segment is being received.
    pub(crate) fn has_segment(&self) -> bool {
        self.segment.is_some()
    }

    /// Sends a Reject with the header of the rejected PDU.
    pub(crate) fn reject(&mut self, header: &Header, reason: RejectReason) {
        if self.server.log_limit.allow() {
            tracing::debug!(peer = %self.execution.connection.peer, ?reason, ?header, "rejected");
        }
        self.execution.sender.send(
            response::reject(reason),
            header.0.to_vec(),
            Numbering::Status,
        );
    }

    /// Handles one whole PDU.
    fn handle(&mut self, header: &Header, ahs: &[u8], data: &[u8]) {
        let request = match Request::decode(header, ahs) {
            Ok(request) => request,
            Err(reason) => return self.reject(header, reason),
        };
        let number = match &request {
            Request::DataOut(out) => {
                return self.data_out(out, header, data);
            }
            // A reply to a ping consumes no command number.
            Request::NopOut(nop) if nop.task_tag == TAG_NONE => return,
            Request::NopOut(nop) => nop.cmd_sn,
            Request::Scsi(command) => command.cmd_sn,
            Request::TaskManagement(function) => function.cmd_sn,
            Request::Text(text) => text.cmd_sn,
            Request::Logout(logout) => logout.cmd_sn,
            Request::Snack => return self.reject(header, RejectReason::SnackRejected),
            Request::Login(_) => {
                self.reject(header, RejectReason::ProtocolError);
                return self.log_protocol_error("login request after login");
            }
        };
        match self.arrive(number, header, ahs, data) {
            Arrival::Now => self.deliver(header, request, data),
            Arrival::Held => {
                self.held.insert(header.task_tag(), Vec::new());
            }
            Arrival::Ignored => {
                tracing::debug!(?header, "command number outside the window ignored");
            }
        }
    }

    fn arrive(&self, number: Serial, header: &Header, ahs: &[u8], data: &[u8]) -> Arrival {
        let store = || StoredPdu {
            header: *header,
            ahs: ahs.to_vec(),
            data: data.to_vec(),
        };
        self.entry.session.arrive(
            &self.entry.member,
            number,
            header.is_immediate(),
            self.server.limits.held_bytes_max,
            store,
        )
    }

    /// Handles a PDU that is next in order. All except SCSI commands are complete immediately and
    /// free their slot in the window before the response.
    fn deliver(&mut self, header: &Header, request: Request, data: &[u8]) {
        let immediate = header.is_immediate();
        if let Request::Scsi(command) = request {
            return self.scsi(header, &command, data);
        }
        if !immediate {
            self.entry.session.release();
        }
        match request {
            Request::NopOut(nop) => self.nop_out(&nop, data),
            Request::TaskManagement(function) => self.task_management(&function),
            Request::Text(text) => self.text_request(header, &text, data),
            Request::Logout(logout) => self.logout(&logout),
            _ => {}
        }
    }

    /// Handles a held command that is now next in order.
    fn deliver_held(&mut self, pdu: &StoredPdu) {
        let following = self.held.remove(&pdu.header.task_tag()).unwrap_or_default();
        match Request::decode(&pdu.header, &pdu.ahs) {
            Ok(request) => self.deliver(&pdu.header, request, &pdu.data),
            Err(reason) => self.reject(&pdu.header, reason),
        }
        for data in following {
            self.handle(&data.header, &data.ahs, &data.data);
        }
    }

    fn nop_out(&mut self, nop: &NopOut, data: &[u8]) {
        // The data of the reply is limited by the initiator's MaxRecvDataSegmentLength.
        let count = data.len().min(self.execution.sender.segment_bytes_max());
        let header = response::nop_in(nop.lun, nop.task_tag, TAG_NONE, count);
        let data = data[..count].to_vec();
        self.execution.sender.send(header, data, Numbering::Status);
    }

    fn logout(&mut self, logout: &Logout) {
        let (answer, end) = match logout.reason {
            LogoutReason::Session => (LogoutResponse::Closed, Some(End::SessionLogout)),
            LogoutReason::Connection if logout.cid == self.entry.member.cid => {
                (LogoutResponse::Closed, Some(End::ConnectionLogout))
            }
            LogoutReason::Connection => (self.log_out_other(logout.cid), None),
            LogoutReason::Recovery => (LogoutResponse::RecoveryNotSupported, None),
            LogoutReason::Unknown(_) => (LogoutResponse::RecoveryNotSupported, None),
        };
        let header = response::logout(logout.task_tag, answer);
        if end.is_none() {
            let sender = &self.execution.sender;
            return sender.send(header, Vec::new(), Numbering::Status);
        }
        // The last response: tasks that cannot be stopped complete before it is sent.
        let execution = self.execution.clone();
        let barrier = Barrier::new(move || {
            execution.sender.send(header, Vec::new(), Numbering::Status);
        });
        self.abort(&Abort {
            scope: Scope::All,
            barrier,
        });
        self.end = self.end.or(end);
    }

    /// Closes another connection of the session.
    fn log_out_other(&self, cid: u16) -> LogoutResponse {
        let members = self.entry.session.connections();
        let Some(member) = members.iter().find(|member| member.cid == cid) else {
            return LogoutResponse::CidNotFound;
        };
        member.close_connection_only();
        self.execution.connection.note_absence();
        let changes_in_flight = &member.connection.changes_in_flight;
        let deadline = Instant::now() + self.server.limits.reinstatement_time;
        match changes_in_flight.wait_for(changes_in_flight.requested_changes(), deadline) {
            true => LogoutResponse::Closed,
            false => LogoutResponse::CleanupFailed,
        }
    }

    fn text_request(&mut self, header: &Header, request: &TextRequest, data: &[u8]) {
        self.last_text = Instant::now();
        if request.transfer_tag == TAG_NONE {
            // A new exchange resets an old one (section 11.10.4).
            self.text = Some(TextExchange {
                task_tag: request.task_tag,
                transfer_tag: TAG_NONE,
                request: Accumulator::default(),
                answer: VecDeque::new(),
            });
            self.negotiation.start_exchange();
        }
        let known = self.text.as_ref().is_some_and(|exchange| {
            exchange.task_tag == request.task_tag && exchange.transfer_tag == request.transfer_tag
        });
        let Some(mut exchange) = self.text.take().filter(|_| known) else {
            return self.reject(header, RejectReason::ProtocolError);
        };
        if exchange.request.push(data).is_err() {
            return self.reject(header, RejectReason::ProtocolError);
        }
        if !request.more && exchange.answer.is_empty() {
            let text = exchange.request.take();
            match self.answer_text(&text) {
                Some(answer) => exchange.answer = answer.into(),
                None => return self.reject(header, RejectReason::ProtocolError),
            }
        }
        self.send_text(request, exchange);
    }

    /// Sends as much of the response as fits one PDU.
    fn send_text(&mut self, request: &TextRequest, mut exchange: TextExchange) {
        let sender = &self.execution.sender;
        let count = exchange.answer.len().min(sender.segment_bytes_max());
        let part: Vec<u8> = exchange.answer.drain(..count).collect();
        let more = !exchange.answer.is_empty();
        let over = request.is_final && !request.more && !more;
        if !over {
            exchange.transfer_tag = self.next_transfer_tag;
            self.next_transfer_tag = next_tag(self.next_transfer_tag);
        }
        let transfer_tag = if over {
            TAG_NONE
        } else {
            exchange.transfer_tag
        };
        let header = response::text(
            request.lun,
            request.task_tag,
            transfer_tag,
            over,
            more,
            part.len(),
        );
        sender.send(header, part, Numbering::Status);
        if !over {
            self.text = Some(exchange);
        }
    }

    fn answer_text(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let pairs = parse(text).ok()?;
        let mut answers = ResponsePairs::default();
        for (key, value) in pairs {
            if key == "SendTargets" {
                self.send_targets(value, &mut answers).ok()?;
                continue;
            }
            // A login responds NotUnderstood to every unknown key. Here such a text is not a
            // negotiation, and initiators expect it to be rejected.
            if !is_legal(key) {
                return None;
            }
            self.negotiation
                .offer(Scene::FullFeature, key, value, &mut answers)
                .ok()?;
        }
        let segment = self.negotiation.connection.initiator_segment_bytes_max;
        self.execution.sender.set_segment_bytes_max(segment);
        Some(answers.into_bytes())
    }

    fn send_targets(
        &self,
        value: &str,
        answers: &mut ResponsePairs,
    ) -> Result<(), MalformedSendTargets> {
        let session = &self.entry.session;
        let own = match &session.kind {
            SessionKind::Discovery => None,
            SessionKind::Normal { target, .. } => Some(target),
        };
        let Some((remote, local)) = ends_of(&self.execution.connection) else {
            return Ok(());
        };
        let visible = self
            .server
            .configuration()
            .visible(&session.initiator, remote, local);
        send_targets(value, own, &visible, answers)
    }

    fn handle_messages(&mut self) {
        self.handle_directive();
        self.execution.connection.note_absence();
        if self.execution.connection.left_during_absence() {
            // Held commands would be executed without a connection for their response.
            self.end = Some(End::Broken);
            return;
        }
        for message in self.entry.member.take_messages() {
            match message {
                Message::Deliver(pdu) => self.deliver_held(&pdu),
                Message::Abort(abort) => self.abort(&abort),
                Message::AnnounceEnd => self.announce_end(),
            }
        }
    }

    fn handle_directive(&mut self) {
        match self.execution.connection.directive() {
            Directive::Serve => {}
            Directive::Drop => self.end = Some(End::Broken),
            Directive::Drain if self.drain_until.is_none() => {
                let until = *self.server.drain_until.lock().expect("no holder panics");
                let until = until.unwrap_or_else(Instant::now);
                self.drain_until = Some(until);
                let left = until.saturating_duration_since(Instant::now()).as_secs();
                let seconds = u16::try_from(left).unwrap_or(u16::MAX);
                let header = response::asynchronous(AsyncEvent::RequestLogout { seconds });
                self.execution
                    .sender
                    .send(header, Vec::new(), Numbering::Status);
            }
            Directive::Drain => {}
        }
    }

    fn announce_end(&self) {
        let header = response::asynchronous(AsyncEvent::SessionDropped);
        self.execution
            .sender
            .send(header, Vec::new(), Numbering::Status);
    }

    fn next_deadline(&self) -> Instant {
        let limits = &self.server.limits;
        let ping = match self.ping {
            Some((_, sent)) => sent + limits.ping_answer_time,
            None => self.last_input + limits.ping_after,
        };
        let deadline = self.drain_until.map_or(ping, |until| until.min(ping));
        let deadline = self
            .idle_until()
            .map_or(deadline, |until| until.min(deadline));
        if self.writes.is_empty() {
            deadline
        } else {
            deadline.min(self.data_check)
        }
    }

    /// When an idle discovery session is closed.
    fn idle_until(&self) -> Option<Instant> {
        let is_discovery = self.entry.session.kind == SessionKind::Discovery;
        is_discovery.then(|| self.last_text + self.server.limits.discovery_idle_time)
    }

    fn handle_timers(&mut self) {
        let now = Instant::now();
        let limits = self.server.limits;
        if self.idle_until().is_some_and(|until| until <= now) {
            self.announce_end();
            self.end = Some(End::Drained);
            return;
        }
        if self.drain_until.is_some_and(|until| until <= now) {
            self.announce_end();
            self.end = Some(End::Drained);
            return;
        }
        if now >= self.data_check {
            // Checked twice per time-out, so that no single task needs a timer.
            self.data_check = now + limits.data_out_time / 2;
            let waits_too_long = |write: &WriteTask| {
                !write.is_parked() && now.duration_since(write.progress) >= limits.data_out_time
            };
            if self.writes.values().any(waits_too_long) {
                return self.log_protocol_error("requested data did not arrive");
            }
        }
        match self.ping {
            Some((_, sent)) if now >= sent + limits.ping_answer_time => {
                self.log_protocol_error("the initiator does not respond to pings");
            }
            None if now >= self.last_input + limits.ping_after => {
                let tag = self.next_transfer_tag;
                self.next_transfer_tag = next_tag(tag);
                let header = response::nop_in([0; 8], TAG_NONE, tag, 0);
                self.execution
                    .sender
                    .send(header, Vec::new(), Numbering::Peek);
                self.ping = Some((tag, now));
            }
            _ => {}
        }
    }
}

/// Returns the transfer tag after `tag`: any value except [`TAG_NONE`].
pub(crate) fn next_tag(tag: u32) -> u32 {
    match tag.wrapping_add(1) {
        TAG_NONE => 0,
        next => next,
    }
}
