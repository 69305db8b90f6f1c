//! One connection from its first byte to its last.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use block_device::{Extent, Zero};
use serving::{
    Connection, Directive, Link, ListenAddress, Outbound, Payload, Reply, Reservation, Stream,
    TlsTransport, Transport, Turn,
};

use super::access::Client;
use super::execute::{Served, Thread, Zeroing, copy_into, remaining};
use super::exports::View;
use super::{Farewell, Shared};
use crate::protocol::wire::{Errno, PAYLOAD_BYTES_MAX};
use crate::protocol::{
    BadRequest, Command, Handshake, Negotiated, Request, Step, TlsPolicy, Transmission,
    block_status_payload,
};

/// Input gathered by one system call: many small requests.
const BUFFER_BYTES: usize = 256 << 10;
/// Payloads up to this size are gathered in the buffer and copied from there.
const GATHER_BYTES_MAX: u64 = 64 << 10;
/// Bytes received beyond a large payload: the next few headers.
const APPETITE_BYTES_WITH_LARGE_PAYLOADS: usize = 4 << 10;
/// Replies and bytes that are gathered before the input is consumed. Each reply may hold a range of
/// the device locked.
const GATHERED_REPLIES_MAX: usize = 64;
const GATHERED_BYTES_MAX: usize = 1 << 20;
/// Bytes of a valid block status request's payload.
const STATUS_PAYLOAD_BYTES: u64 = 12;
/// Time-out of a payload, with an allowance for its size.
const PAYLOAD_TIMEOUT: Duration = Duration::from_secs(30);
const PAYLOAD_BYTES_PER_SECOND_MIN: u64 = 1 << 20;
/// The time-out of a handshake is this multiple of the time-out of a message.
const HANDSHAKE_TIMEOUTS_MAX: u32 = 10;
/// Time-out of pending requests when a client disconnects or the server is drained.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time-out of changes of earlier connections, before a new one is served.
const EARLIER_CHANGES_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a blocked connection checks its own client.
const PEER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the log lines about a hanging change of a closed connection.
const HANG_LOG_INTERVAL: Duration = Duration::from_secs(600);
/// Time for a client to read the last replies after the end of the stream was sent.
const LINGER: Duration = Duration::from_secs(1);
/// Interval of checks by a thread that is blocked on memory.
const BUDGET_PAUSE: Duration = Duration::from_secs(5);

/// Why a session ended, other than by the client's request.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed the connection")]
    Closed,
    #[error("the session was dropped")]
    Dropped,
    #[error("the client does not read replies")]
    Stalled,
    #[error("the client was too slow with its message")]
    TooSlow,
    #[error("the client sent more than TLS allows for")]
    PlainAfterTls,
    #[error("changes of earlier connections are still pending; the client may retry")]
    EarlierChanges,
    #[error("payload of {0} bytes")]
    PayloadTooLarge(u64),
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    #[error("the connection broke")]
    Io(#[from] std::io::Error),
}

/// Serves `connection` until it is closed.
pub(crate) fn serve(shared: &Arc<Shared>, connection: Arc<Connection>, listener: &ListenAddress) {
    let peer = connection.peer;
    let Some((link, client, transmission)) = Negotiation::new(shared, &connection).run() else {
        return;
    };
    let encrypted = client.encrypted;
    let session = Session::new(shared, &connection, link, client, &transmission, listener);
    let Some(mut session) = session else {
        return;
    };
    let served = Arc::clone(&session.served.export);
    let export = served.logged_name();
    tracing::info!(%peer, %export, encrypted, style = ?transmission.style, "session started");
    let ended = session.await_earlier_changes().and_then(|()| session.run());
    connection.changes_in_flight.end();
    match ended {
        Ok(()) => tracing::info!(%peer, %export, "session ended"),
        Err(reason) => {
            session.outbound().abandon();
            tracing::info!(%peer, %export, %reason, "session ended");
        }
    }
    // A client that reconnects must be blocked until then.
    let requested_changes = connection.changes_in_flight.requested_changes();
    while !connection
        .changes_in_flight
        .wait_for(requested_changes, Instant::now() + HANG_LOG_INTERVAL)
    {
        tracing::error!(
            %peer, %export,
            "a change of a closed connection does not complete; the disk seems to hang"
        );
    }
    shared.remove_connection(connection.id);
}

/// The handshake of one connection.
struct Negotiation<'a> {
    shared: &'a Shared,
    connection: &'a Arc<Connection>,
    link: Link,
    client: Client,
    tls: Option<Arc<TlsTransport>>,
}

impl<'a> Negotiation<'a> {
    fn new(shared: &'a Shared, connection: &'a Arc<Connection>) -> Self {
        let stream: Arc<Stream> = Arc::clone(&connection.stream);
        Self {
            shared,
            connection,
            link: Self::link(shared, connection, stream),
            client: Client {
                peer: connection.peer,
                encrypted: false,
                certificate: None,
            },
            tls: None,
        }
    }

    fn link(shared: &Shared, connection: &Connection, transport: Arc<dyn Transport>) -> Link {
        let waker = Arc::clone(&connection.waker);
        Link::new(transport, waker, shared.limits.outbound, BUFFER_BYTES)
    }

    /// Runs the handshake. Returns the link and the negotiated parameters; `None` if the connection
    /// must be closed.
    fn run(mut self) -> Option<(Link, Client, Transmission)> {
        match self.negotiate() {
            Ok(Some(transmission)) => Some((self.link, self.client, transmission)),
            Ok(None) => None,
            Err(reason) => {
                let peer = self.connection.peer;
                tracing::debug!(%peer, %reason, "handshake failed");
                None
            }
        }
    }

    fn negotiate(&mut self) -> Result<Option<Transmission>, Box<dyn std::error::Error>> {
        let config = self.shared.tls();
        let policy = config
            .as_ref()
            .map_or(TlsPolicy::Off, |(policy, _)| *policy);
        let (mut handshake, greeting) = Handshake::start(policy);
        self.link.outbound().push(Reply::head(&greeting));
        let timeout = self.shared.limits.handshake_timeout;
        let last_deadline = Instant::now() + timeout * HANDSHAKE_TIMEOUTS_MAX;
        let mut deadline = Instant::now() + timeout;
        loop {
            if let Some(tls) = &self.tls {
                if self.client.certificate.is_none() {
                    self.client.certificate = tls.client_certificate();
                }
            }
            let view = View {
                catalog: self.shared.catalog(),
                client: &self.client,
                tls: policy,
                stopping: &self.shared.stopping,
            };
            let mut output = Vec::new();
            let (taken, step) = handshake.advance(self.link.bytes(), &view, &mut output)?;
            self.link.consume(taken);
            if !output.is_empty() {
                let answer = Reply::with_payload(&[], Payload::Bytes(output));
                self.link.outbound().push(answer);
            }
            match step {
                Step::Again => {
                    deadline = last_deadline.min(Instant::now() + timeout);
                    if self.link.outbound().is_congested() {
                        let turn = self.link.make_room(Some(deadline))?;
                        self.check(turn)?;
                    }
                }
                Step::NeedInput => self.wait(deadline)?,
                Step::StartTls => {
                    let (_, config) = config.as_ref().ok_or(End::PlainAfterTls)?;
                    self.start_tls(Arc::clone(config), deadline)?;
                }
                Step::Serve(transmission) => return Ok(Some(transmission)),
                Step::Close => {
                    self.link.settle(deadline);
                    return Ok(None);
                }
            }
        }
    }

    fn wait(&mut self, deadline: Instant) -> Result<(), End> {
        let turn = self.link.turn(Some(deadline))?;
        self.check(turn)
    }

    fn check(&self, turn: Turn) -> Result<(), End> {
        match turn {
            Turn::Input(_) => Ok(()),
            Turn::Woken if self.connection.directive() == Directive::Serve => Ok(()),
            Turn::Woken => Err(End::Dropped),
            Turn::Closed => Err(End::Closed),
            Turn::Deadline => Err(End::TooSlow),
            Turn::Stalled => Err(End::Stalled),
        }
    }

    fn start_tls(
        &mut self,
        config: Arc<rustls::ServerConfig>,
        deadline: Instant,
    ) -> Result<(), Box<dyn std::error::Error>> {
        // Plain bytes after the option may come from another sender.
        if !self.link.bytes().is_empty() || !self.link.settle(deadline) {
            return Err(End::PlainAfterTls.into());
        }
        let stream = Arc::clone(&self.connection.stream);
        let tls = Arc::new(TlsTransport::new(stream, config)?);
        self.link = Self::link(self.shared, self.connection, Arc::clone(&tls) as _);
        self.tls = Some(tls);
        self.client.encrypted = true;
        Ok(())
    }
}

/// The state of the connection after a request.
enum Next {
    Request,
    NeedInput,
    Disconnect,
}

/// The transmission phase of one connection.
struct Session {
    served: Arc<Served>,
    link: Link,
    gathered_answers: usize,
    gathered_bytes: usize,
}

impl Session {
    fn new(
        shared: &Arc<Shared>,
        connection: &Arc<Connection>,
        link: Link,
        client: Client,
        transmission: &Transmission,
        listener: &ListenAddress,
    ) -> Option<Self> {
        // The export may have been removed since the lookup.
        let export = shared.enter(connection, client, &transmission.export, listener)?;
        if !connection.admit_peer() {
            shared.remove_connection(connection.id);
            return None;
        }
        let negotiated = Negotiated {
            style: transmission.style,
            has_status: transmission.has_status,
            read_only: export.is_read_only(),
        };
        let served = Served {
            shared: Arc::clone(shared),
            connection: Arc::clone(connection),
            export,
            outbound: Arc::clone(link.outbound()),
            negotiated,
        };
        Some(Self {
            served: Arc::new(served),
            link,
            gathered_answers: 0,
            gathered_bytes: 0,
        })
    }

    fn outbound(&self) -> &Outbound {
        &self.served.outbound
    }

    /// Blocks on changes of earlier connections. A client that reconnects retries its
    /// unacknowledged requests. A late request of its earlier connection could take effect and undo
    /// a request of this one. The earlier connections of a client cannot be identified, so that all
    /// connections to the device count.
    fn await_earlier_changes(&self) -> Result<(), End> {
        let deadline = Instant::now() + EARLIER_CHANGES_TIMEOUT;
        for other in self.served.other_connections() {
            other.ends_if_left();
            let requested_changes = other.changes_in_flight.requested_changes();
            let next_look = || deadline.min(Instant::now() + PEER_CHECK_INTERVAL);
            while !other
                .changes_in_flight
                .wait_for(requested_changes, next_look())
            {
                if self.served.connection.ends_if_left() {
                    return Err(End::Dropped);
                }
                if Instant::now() >= deadline {
                    return Err(End::EarlierChanges);
                }
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), End> {
        loop {
            loop {
                if self.served.connection.left_during_absence() {
                    return Err(End::Closed);
                }
                match self.served.connection.directive() {
                    Directive::Serve => {}
                    Directive::Drain => return self.close_orderly(),
                    Directive::Drop => return Err(End::Dropped),
                }
                match self.take_request()? {
                    Next::Request => self.send_if_many()?,
                    Next::NeedInput => break,
                    Next::Disconnect => {
                        self.served.connection.goodbye();
                        self.link.settle(Instant::now() + SETTLE_TIMEOUT);
                        self.link.finish();
                        return Ok(());
                    }
                }
            }
            self.gathered_answers = 0;
            self.gathered_bytes = 0;
            match self.link.turn(None)? {
                Turn::Input(_) | Turn::Deadline => {}
                Turn::Woken => self.served.connection.note_absence(),
                Turn::Closed => return Err(End::Closed),
                Turn::Stalled => return Err(End::Stalled),
            }
        }
    }

    /// Sends gathered replies if they are many, and blocks if the client does not read enough.
    fn send_if_many(&mut self) -> Result<(), End> {
        if self.gathered_answers < GATHERED_REPLIES_MAX && self.gathered_bytes < GATHERED_BYTES_MAX
        {
            return Ok(());
        }
        self.gathered_answers = 0;
        self.gathered_bytes = 0;
        match self.link.make_room(None)? {
            // Directives are checked before the next request, which also sends the rest.
            Turn::Input(_) | Turn::Deadline => Ok(()),
            Turn::Woken => {
                self.served.connection.note_absence();
                Ok(())
            }
            Turn::Closed => Err(End::Closed),
            Turn::Stalled => Err(End::Stalled),
        }
    }

    /// Handles the request at the front of the input, if it is complete.
    fn take_request(&mut self) -> Result<Next, End> {
        let style = self.served.negotiated.style;
        let header_bytes = style.request_bytes();
        let Some(request) = Request::decode(style, self.link.bytes())? else {
            self.link.require(header_bytes);
            return Ok(Next::NeedInput);
        };
        let payload_bytes = request.payload_bytes(style);
        if payload_bytes > u64::from(PAYLOAD_BYTES_MAX) {
            return Err(End::PayloadTooLarge(payload_bytes));
        }
        if payload_bytes <= GATHER_BYTES_MAX {
            self.link.set_read_limit(BUFFER_BYTES);
            let total = header_bytes + payload_bytes as usize;
            if self.link.bytes().len() < total {
                self.link.require(total);
                return Ok(Next::NeedInput);
            }
        }
        self.gathered_answers += 1;
        let size = self.served.export.device.geometry().size;
        let command = request.check(self.served.negotiated, size);
        if let Ok(Command::Write { extent, durable }) = command {
            self.write(request, header_bytes, extent, durable)?;
            return Ok(Next::Request);
        }
        if let Ok(Command::BlockStatus { one, .. }) = command {
            if payload_bytes == STATUS_PAYLOAD_BYTES {
                self.filtered_status(request, header_bytes, size, one);
                return Ok(Next::Request);
            }
        }
        self.link.consume(header_bytes);
        if payload_bytes > 0 {
            self.discard(payload_bytes)?;
        }
        match command {
            Ok(Command::Disconnect) => return Ok(Next::Disconnect),
            Ok(Command::BlockStatus { .. }) if payload_bytes > 0 => {
                let message = "payload is not a length and one known context";
                self.refuse(&request, Errno::Invalid, message);
            }
            Ok(command) => self.execute(request, command)?,
            Err((errno, message)) => self.refuse(&request, errno, message),
        }
        Ok(Next::Request)
    }

    fn refuse(&self, request: &Request, errno: Errno, message: &str) {
        self.served
            .refuse(request, errno, message, Thread::Connection);
    }

    fn execute(&mut self, request: Request, command: Command) -> Result<(), End> {
        if request.length == 0 && !matches!(command, Command::Flush) {
            self.served.reply_empty(&request, command);
            return Ok(());
        }
        match command {
            Command::Read {
                extent,
                unfragmented,
            } => {
                let reservation = self.reserve(extent.length)?;
                self.gathered_bytes += extent.length as usize;
                self.served.read(request, extent, unfragmented, reservation);
            }
            Command::Flush => self
                .served
                .flush(&request, self.is_alone(), Thread::Connection),
            Command::Trim { extent, durable } => {
                let alone = durable && self.is_alone();
                self.served
                    .zero(request, extent, Zeroing::Unmap, durable, alone);
            }
            Command::WriteZeroes {
                only_if_fast: true,
                keep_allocated: true,
                ..
            } => {
                let message = "zeroes that stay allocated are as slow as writing them";
                self.refuse(&request, Errno::NotSupported, message);
            }
            Command::WriteZeroes {
                extent,
                durable,
                keep_allocated,
                ..
            } => {
                let zero = if keep_allocated {
                    Zero::KeepAllocated
                } else {
                    Zero::MayFree
                };
                let alone = durable && self.is_alone();
                self.served
                    .zero(request, extent, Zeroing::Zero(zero), durable, alone);
            }
            Command::Cache { extent } => self.served.cache(request, extent),
            Command::BlockStatus { extent, one } => self.served.status(request, extent, one),
            // Both are handled with their payload.
            Command::Write { .. } | Command::Disconnect => {}
        }
        Ok(())
    }

    /// Whether this thread has no work other than the current request.
    fn is_alone(&self) -> bool {
        self.link.bytes().is_empty() && self.outbound().is_idle()
    }

    fn write(
        &mut self,
        request: Request,
        header_bytes: usize,
        extent: Extent,
        durable: bool,
    ) -> Result<(), End> {
        let length = extent.length as usize;
        if extent.length > GATHER_BYTES_MAX {
            self.link.consume(header_bytes);
            return self.write_large(request, extent, durable);
        }
        let total = header_bytes + length;
        if length == 0 {
            self.link.consume(total);
            self.served
                .reply_empty(&request, Command::Write { extent, durable });
            return Ok(());
        }
        let alone = durable && self.link.bytes().len() == total && self.outbound().is_idle();
        let data = &self.link.bytes()[header_bytes..total];
        self.served.write(request, data, durable, alone);
        self.link.consume(total);
        Ok(())
    }

    /// Receives a large payload directly into the device's buffers.
    fn write_large(&mut self, request: Request, extent: Extent, durable: bool) -> Result<(), End> {
        let reservation = self.reserve(extent.length)?;
        let mut loan = match self.served.export.device.lend(extent) {
            Ok(loan) => loan,
            Err(error) => {
                self.discard(extent.length)?;
                self.served.fail(&request, &error, Thread::Connection);
                return Ok(());
            }
        };
        self.link.set_read_limit(APPETITE_BYTES_WITH_LARGE_PAYLOADS);
        let deadline = payload_deadline(extent.length);
        let mut filled = 0;
        while filled < extent.length as usize {
            if !self.link.bytes().is_empty() {
                let count = copy_into(&mut *loan, filled, self.link.bytes());
                self.link.consume(count);
                filled += count;
                continue;
            }
            let target = remaining(&mut *loan, filled);
            let target_bytes: usize = target.iter().map(|part| part.len()).sum();
            let turn = self.link.turn_into(target, Some(deadline))?;
            filled += self.payload_turn(turn)?.min(target_bytes);
        }
        let alone = durable && self.is_alone();
        self.served
            .commit(request, loan, durable, alone, reservation);
        Ok(())
    }

    /// Receives and discards a payload.
    fn discard(&mut self, payload_bytes: u64) -> Result<(), End> {
        let deadline = payload_deadline(payload_bytes);
        let mut left = payload_bytes as usize;
        loop {
            let count = left.min(self.link.bytes().len());
            self.link.consume(count);
            left -= count;
            if left == 0 {
                return Ok(());
            }
            let turn = self.link.turn(Some(deadline))?;
            self.payload_turn(turn)?;
        }
    }

    /// Returns the bytes received in a turn during a payload.
    fn payload_turn(&self, turn: Turn) -> Result<usize, End> {
        match turn {
            Turn::Input(count) => Ok(count),
            Turn::Woken if self.served.connection.directive() == Directive::Drop => {
                Err(End::Dropped)
            }
            Turn::Woken => Ok(0),
            Turn::Closed => Err(End::Closed),
            Turn::Deadline => Err(End::TooSlow),
            Turn::Stalled => Err(End::Stalled),
        }
    }

    fn filtered_status(&mut self, request: Request, header_bytes: usize, size: u64, one: bool) {
        let total = header_bytes + STATUS_PAYLOAD_BYTES as usize;
        let parsed = block_status_payload(&self.link.bytes()[header_bytes..total]);
        self.link.consume(total);
        let extent = parsed.map(|length| Extent::new(request.offset, length));
        match extent {
            Err((errno, message)) => self.refuse(&request, errno, message),
            Ok(extent) if extent.length == 0 => {
                self.refuse(&request, Errno::Invalid, "block status of nothing");
            }
            Ok(extent) if !extent.fits(size) => {
                self.refuse(&request, Errno::Invalid, "beyond the end of the export");
            }
            Ok(extent) => self.served.status(request, extent, one),
        }
    }

    /// Blocks until `bytes` of payload are reserved. Replies are sent during that time.
    fn reserve(&mut self, bytes: u64) -> Result<Reservation, End> {
        let budget = &self.served.shared.budget;
        if let Some(reservation) = budget.try_reserve(bytes) {
            return Ok(reservation);
        }
        loop {
            if let Some(reservation) = budget.reserve_or_wake(bytes, self.link.waker()) {
                return Ok(reservation);
            }
            self.served.connection.note_absence();
            match self.link.pause(Instant::now() + BUDGET_PAUSE)? {
                Turn::Closed => return Err(End::Closed),
                Turn::Stalled => return Err(End::Stalled),
                Turn::Input(_) | Turn::Woken | Turn::Deadline => {}
            }
            if self.served.connection.directive() == Directive::Drop {
                return Err(End::Dropped);
            }
        }
    }

    /// Completes pending requests and closes. Received requests are refused if the exports are
    /// removed; otherwise the client retries them on its next connection.
    fn close_orderly(&mut self) -> Result<(), End> {
        self.link.settle(Instant::now() + SETTLE_TIMEOUT);
        if self.served.shared.farewell() == Farewell::Shutdown {
            let style = self.served.negotiated.style;
            while let Some(request) = Request::decode(style, self.link.bytes())? {
                self.link.consume(style.request_bytes());
                let payload_bytes = request.payload_bytes(style) as usize;
                let is_whole = self.link.bytes().len() >= payload_bytes;
                self.link.consume(payload_bytes);
                self.refuse(&request, Errno::Shutdown, "the server is shutting down");
                if !is_whole {
                    break;
                }
            }
        }
        let deadline = Instant::now() + LINGER;
        self.link.settle(deadline);
        self.link.finish();
        // Closing with unread input would discard replies in transit.
        loop {
            self.link.consume(usize::MAX);
            match self.link.turn(Some(deadline))? {
                Turn::Input(_) => {}
                Turn::Woken if self.served.connection.directive() != Directive::Drop => {}
                _ => return Ok(()),
            }
        }
    }
}

fn payload_deadline(bytes: u64) -> Instant {
    Instant::now() + PAYLOAD_TIMEOUT + Duration::from_secs(bytes / PAYLOAD_BYTES_PER_SECOND_MIN)
}

impl Shared {
    fn farewell(&self) -> Farewell {
        if self.handing_over.load(Ordering::Acquire) {
            Farewell::HandOver
        } else {
            Farewell::Shutdown
        }
    }
}
