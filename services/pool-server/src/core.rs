//! Performs the requests of the control socket in a server: the same operations as the command line's, on the open
//! pool.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use api::audit::Lines;
use control::answer::{Done, FrozenView, OpenFilesView, ServerStatus};
use control::legs::LegsView;
use control::operations::Scheduling;
use control::operations::pool::close::Close;
use control::operations::pool::destroy::Destroy;
use control::operations::pool::events::Events;
use control::operations::server::ping::serving;
use control::replication::ReplicationGlance;
use control::request::{PoolRequest, ServerRequest, TransferRequest, VolumeRequest};
use control::{Answer, Attached, Failure, FailureKind, Handler, Peer, Request, Witness};
use engine::Paused;
use engine::pool::Restart;
use file_system::FileSystem;
use leg_door::{LegRequest, MemberRequest};
use operations::events::NewEvent;
use operations::in_use::{self, Used};
use operations::replicate;
use operations::{self, ContentsSwapped, Context, ServerHooks};
use pool_access::audit;
use pool_access::engines;
use pool_access::{End, is_end};
use units::{PoolName, VolumeName};

use super::connections::Kept;
use super::restart_note::RestartNote;
use super::secrets;
use super::serving::Serving;
use super::shared_pool::SharedPool;
use super::waiting::RequestSlots;
use super::watch::Watch;
use super::{Ending, Event};

/// Longest time to close the pool after its sessions are drained.
const END_WAIT: Duration = Duration::from_secs(300);
/// Longest time to store the confirmation for the next start.
const CONFIRMATION_WAIT: Duration = Duration::from_secs(30);
/// Each commit writes the data that clients wrote during the previous one, so each is shorter than the last.
const SETTLING_COMMITS: u32 = 3;
/// Polling interval while an active change finishes.
const CHANGE_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Longest time that a change is delayed by a pool with blocked writes. After a leg is lost, writes usually resume
/// sooner.
const WRITES_WAIT: Duration = Duration::from_secs(15);
/// Polling interval while writes are blocked.
const WRITES_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// "Not yet", stored instead of milliseconds.
const NOT_YET: u64 = u64::MAX;

/// The server, as its control socket sees it.
pub struct Core {
    /// Name of the pool.
    pub name: PoolName,
    /// The pool.
    pub pool: Arc<SharedPool>,
    /// The exports and their protocols.
    pub serving: Serving,
    /// The pool's state.
    pub watch: Arc<Watch>,
    /// The replication state at the last check of its rules.
    pub replication: Mutex<Vec<ReplicationGlance>>,
    /// The options of the next start; none in tests.
    pub restart: Option<RestartNote>,
    /// The connected clients, as stored for the next owner of the pool.
    pub connections: Kept,
    started: Instant,
    listening_after_ms: AtomicU64,
    replayed_after_ms: AtomicU64,
    ending: AtomicBool,
    events: Mutex<Sender<Event>>,
    /// Held during a change, since changes read before they write.
    changing: Mutex<()>,
    audit: Lines,
    /// Slots of requests that may block on the pool.
    places: RequestSlots,
    /// Slots of streams that use a client's descriptor.
    streams: RequestSlots,
}

impl Core {
    /// A server that started at `started`; it notifies its main thread through `events`.
    pub fn new(
        name: PoolName,
        pool: Arc<SharedPool>,
        serving: Serving,
        watch: Arc<Watch>,
        started: Instant,
        events: Sender<Event>,
        audit: Lines,
    ) -> Self {
        Self {
            name,
            pool,
            serving,
            watch,
            replication: Mutex::default(),
            restart: None,
            connections: Kept::begin(),
            started,
            listening_after_ms: AtomicU64::new(NOT_YET),
            replayed_after_ms: AtomicU64::new(NOT_YET),
            ending: AtomicBool::new(false),
            events: Mutex::new(events),
            changing: Mutex::new(()),
            audit,
            places: RequestSlots::of_requests(),
            streams: RequestSlots::of_streams(),
        }
    }

    fn note_time(&self, after_ms: &AtomicU64) -> u64 {
        let now_ms = self.started.elapsed().as_millis() as u64;
        after_ms.store(now_ms, Ordering::Relaxed);
        now_ms
    }

    /// Records that clients can connect from now on. Returns milliseconds since the start.
    pub fn is_listening(&self) -> u64 {
        self.note_time(&self.listening_after_ms)
    }

    /// Records that all intent logs of earlier owners are replayed. Returns milliseconds since the start.
    pub fn has_replayed(&self) -> u64 {
        self.note_time(&self.replayed_after_ms)
    }

    /// Whether the server is shutting down.
    pub fn is_shutting_down(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Held while a request changes the pool. Refused when the server is shutting down: the shutdown blocks on active
    /// changes, and no change may begin in a pool that is half closed.
    ///
    /// Also refused if the active change is blocked on a suspended pool.
    pub fn changing(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        let changing = loop {
            match self.changing.try_lock() {
                Ok(changing) => break changing,
                Err(TryLockError::WouldBlock) => self.refuse_suspended()?,
                Err(TryLockError::Poisoned(_)) => unreachable!("no holder panics"),
            }
            std::thread::sleep(CHANGE_POLL_INTERVAL);
        };
        match self.is_shutting_down() {
            false => Ok(changing),
            true => Err(ends(&self.name)),
        }
    }

    /// Fails at once if a change would block until an administrator resumes the pool.
    fn refuse_suspended(&self) -> Result<(), Failure> {
        match self.watch.refusal() {
            Some(refusal) if refusal.is_lasting => Err(refusal.failure),
            _ => Ok(()),
        }
    }

    /// Refuses a change while writes are blocked, because the change would block with them. A passing block gets up to
    /// [`WRITES_WAIT`].
    fn await_writes(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + WRITES_WAIT;
        while let Some(refusal) = self.watch.refusal() {
            if refusal.is_lasting || Instant::now() >= deadline {
                return Err(refusal.failure);
            }
            std::thread::sleep(WRITES_POLL_INTERVAL);
        }
        Ok(())
    }

    fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().expect("no holder panics")
    }

    /// Blocks until the active change is done. Returns `false` if the pool is suspended, where the change may never
    /// finish.
    pub fn await_change(&self) -> bool {
        while matches!(self.changing.try_lock(), Err(TryLockError::WouldBlock)) {
            if self.watch.is_suspended() {
                return false;
            }
            std::thread::sleep(CHANGE_POLL_INTERVAL);
        }
        true
    }

    /// Marks the server as shutting down, so that no long operation begins.
    pub fn set_ending(&self) {
        self.ending.store(true, Ordering::Release);
        self.serving.volumes.thaw_all();
    }

    fn server_status(&self) -> ServerStatus {
        let noted = |after_ms: &AtomicU64| {
            let after_ms = after_ms.load(Ordering::Relaxed);
            (after_ms != NOT_YET).then_some(after_ms)
        };
        ServerStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            library: engines::libraries(),
            uptime_s: self.started.elapsed().as_secs(),
            listening_after_ms: noted(&self.listening_after_ms),
            replayed_after_ms: noted(&self.replayed_after_ms),
            first_read_after_ms: self.serving.volumes.first_read_ms(),
            open_volume_count: self.serving.volumes.open_count(),
            draining: self.is_ending(),
            device_returns: self.watch.device_returns(),
            log_lines_dropped: output::log().dropped(),
            ..ServerStatus::default()
        }
        .listening(self.serving.listeners())
    }

    fn pool_status(&self) -> Result<(control::answer::PoolStatus, Option<Duration>), Failure> {
        let (mut status, age) = self.watch.status().ok_or_else(|| {
            Failure::new(FailureKind::Unavailable, "the pool is not ready yet")
                .advise("check the server's log")
        })?;
        if !status.suspended {
            let glances = self.replication.lock().expect("no holder panics").clone();
            replicate::health::add_to(&mut status, glances);
        }
        Ok((status, age))
    }

    /// Returns a summary of the server. Works while the pool blocks; the exports are then the served ones.
    fn glance(&self) -> Result<Answer, Failure> {
        let (pool, age) = self.pool_status()?;
        let mut server = self.server_status();
        server.pool_status_age_ms = age.map(|age| age.as_millis() as u64);
        let mut status = self.serving.glance(&self.name);
        status.pool = pool;
        status.server = Some(server);
        Ok(Answer::Status(Box::new(status)))
    }

    fn datasets_changed(&self, pool: &dyn engine::Pool) {
        self.serving.count_volumes(pool);
        self.watch.space_changed();
    }

    /// Refuses to end the pool while clients are connected, unless the request allows it.
    fn refuse_end_in_use(&self, request: &Request) -> Result<(), Failure> {
        let Request::Pool(
            PoolRequest::Close(Close { in_use: false })
            | PoolRequest::Destroy(Destroy { in_use: false, .. }),
        ) = request
        else {
            return Ok(());
        };
        in_use::unused(self.name.as_str(), || self.serving.users())
    }

    /// Has the main thread close the pool, and returns the result.
    fn end(&self, end: End) -> Result<Answer, Failure> {
        let (reply, outcome) = channel();
        self.tell(Event::End(Ending { end, reply }))?;
        outcome.recv_timeout(END_WAIT).map_err(|_| is_gone())?
    }

    /// Sends an event to the main thread.
    fn tell(&self, event: Event) -> Result<(), Failure> {
        let sender = self.events.lock().expect("no holder panics").clone();
        sender.send(event).map_err(|_| is_gone())
    }

    /// Commits until an export would have little left to write.
    fn settle(&self) -> Result<Answer, Failure> {
        if self.watch.is_suspended() {
            let message = format!("pool {} is blocked on its devices", self.name);
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        let pool = self.pool.require()?;
        // Store the latest connections, so that the next owner has them too.
        self.connections.keep(self, Duration::ZERO);
        for commit in 0..SETTLING_COMMITS {
            if commit + 1 == SETTLING_COMMITS {
                // Clients have the time of one commit to receive this before their addresses are removed.
                self.serving.announce_end();
            }
            pool.sync().map_err(operations::pool_failure)?;
        }
        Ok(Done::changed("pending data is written"))
    }

    fn server(&self, request: &ServerRequest) -> Result<Answer, Failure> {
        match request {
            ServerRequest::Ping if self.is_ending() => Err(ends(&self.name)),
            ServerRequest::Ping => Ok(Done::already(match self.watch.writes_wait() {
                None => serving(&self.name),
                Some(wait) => format!("pool {} is open here, but {wait}", self.name),
            })),
            ServerRequest::Reload => {
                let _place = self.places.take(&self.name)?;
                self.serving.read_again()?;
                secrets::seal(self);
                Ok(Done::changed("the exports were read again"))
            }
            ServerRequest::Settle => self.settle(),
        }
    }
}

fn is_gone() -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        "the server is shutting down already",
    )
}

fn ends(pool: &PoolName) -> Failure {
    let message = format!("pool {pool} is being closed");
    Failure::new(FailureKind::Unavailable, message)
}

/// Whether a request may run concurrently with a change.
fn runs_beside_changes(request: &Request) -> bool {
    request.is_read_only() || must_not_wait(request)
}

/// Whether a request must neither be delayed by changes nor delay them, although it is a change itself. Such a request
/// has no read-modify-write, or it locks by itself where needed.
fn must_not_wait(request: &Request) -> bool {
    matches!(
        request.operation().scheduling(),
        Scheduling::Concurrent | Scheduling::Resuming
    )
}

/// Whether a request may resume a suspended pool.
fn resumes(request: &Request) -> bool {
    request.operation().scheduling() == Scheduling::Resuming
}

/// Whether a request writes to the pool, except to resume it.
fn would_wait_when_suspended(request: &Request) -> bool {
    let is_apart = !request.operation().writes_to_the_pool();
    !(request.is_read_only() || resumes(request) || is_apart)
}

impl Handler for Core {
    fn witness(&self, peer: Peer, request: &Request) -> Option<Witness<'_>> {
        let entry = audit::entry(peer, &self.name, request)?;
        Some(Box::new(|failure| {
            audit::write(&self.audit, entry, failure)
        }))
    }

    fn handle(&self, request: Request, progress: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
        match self.handle_by_device(request, progress) {
            answer @ (Ok(Answer::Done(_)) | Err(_)) => match self.watch.leg_names() {
                None => answer,
                Some(legs) => with_leg_names(&legs, answer),
            },
            answer => answer,
        }
    }

    fn handle_with(
        &self,
        request: Request,
        attached: Attached<'_>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        match request {
            Request::Transfer(request) => self.transfer(request, attached, progress),
            other => self.handle(other, progress),
        }
    }
}

/// Replaces the engine's names of legs in the sentences of a response.
fn with_leg_names(legs: &LegsView, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
    match answer {
        Ok(Answer::Done(mut done)) => {
            done.message = legs.with_names(&done.message);
            Ok(Answer::Done(done))
        }
        Ok(answer) => Ok(answer),
        Err(failure) => Err(failure.map_text(|text| legs.with_names(text))),
    }
}

impl Core {
    /// Handles a request. Sentences in the response have the engine's names of legs.
    fn handle_by_device(
        &self,
        request: Request,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        if let Some(end) = is_end(&request) {
            self.refuse_end_in_use(&request)?;
            if end == End::Destroy {
                self.refuse_suspended()?;
            }
            return self.end(end);
        }
        match &request {
            Request::Status => return self.glance(),
            Request::Server(request) => return self.server(request),
            Request::Pool(PoolRequest::Events(Events { after })) => {
                return Ok(self.watch.journal().list(*after));
            }
            Request::Pool(request) => {
                if let Some(answer) = operations::of_pool_state(request) {
                    let (mut state, _) = self.pool_status()?;
                    state.load.suspended = state.suspended;
                    let legs = state.legs.iter().flat_map(|legs| &legs.legs);
                    let names = legs.map(|leg| (leg.device.clone(), leg.name.clone()));
                    state.load.leg_names = names.collect();
                    return Ok(answer(state));
                }
            }
            _ => {}
        }
        if would_wait_when_suspended(&request) {
            self.refuse_suspended()?;
        }
        let _place = match resumes(&request) {
            true => None,
            false => Some(self.places.take(&self.name)?),
        };
        if let Request::Volume(VolumeRequest::Rescue(request)) = request {
            return self.rescue(request);
        }
        let _changing = match runs_beside_changes(&request) {
            true => None,
            false => {
                self.await_writes()?;
                Some(self.changing()?)
            }
        };
        if let Request::Portal(request) = &request {
            return self.portal(request);
        }
        self.refuse_if_held(&request)?;
        let pool = self.pool.require()?;
        let context = Context {
            pool: &*pool,
            hooks: self,
            documents: &self.serving.documents,
        };
        let mut answer = operations::perform(&context, request, progress)?;
        match &mut answer {
            Answer::Done(done) if done.changed => self.datasets_changed(&*pool),
            Answer::Transfer(_) => self.datasets_changed(&*pool),
            // File systems only (size 0): the rollback of a volume is reported where its contents are exchanged.
            Answer::RolledBack(done) if done.size == 0 => {
                let message = format!("{} was taken back to {}", done.to.volume(), done.to);
                let news = NewEvent::of_pool("rolled_back", message, false);
                self.watch.journal().add(news);
            }
            other => self.serving.add_sessions(other),
        }
        Ok(answer)
    }

    /// A request about a stream, with the descriptor that came along.
    fn transfer(
        &self,
        request: TransferRequest,
        attached: Attached<'_>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        if !matches!(request, TransferRequest::Send(_)) {
            self.refuse_suspended()?;
        }
        let _place = self.streams.take(&self.name)?;
        let pool = self.pool.require()?;
        let context = Context {
            pool: &*pool,
            hooks: self,
            documents: &self.serving.documents,
        };
        let data = operations::transfer::Data {
            descriptor: attached.descriptor,
            is_abandoned: attached.is_abandoned,
        };
        operations::transfer::perform(&context, request, Some(data), progress)
    }
}

impl replicate::Access for Core {
    fn with(&self, work: &mut dyn FnMut(&Context<'_>)) {
        if let Some(pool) = self.pool.get() {
            work(&Context {
                pool: &*pool,
                hooks: self,
                documents: &self.serving.documents,
            });
        }
    }
}

impl ServerHooks for Core {
    fn exports_changed(&self) -> Result<(), Failure> {
        self.serving.reconcile()
    }

    fn open(&self, name: &VolumeName) -> Result<bool, Failure> {
        self.serving.volumes.open(name)
    }

    fn resize(&self, name: &VolumeName, size: u64) -> Result<bool, Failure> {
        match self.serving.volumes.open_volume(name) {
            None => Ok(false),
            Some(volume) => {
                let resized = volume.resize(size);
                resized.map_err(operations::dataset_failure)?;
                Ok(true)
            }
        }
    }

    fn resized(&self, name: &VolumeName) {
        self.serving.volumes.resized(name);
    }

    fn keys_changed(&self) -> Result<bool, Failure> {
        self.serve_unlocked().map(|()| true)
    }

    fn is_open(&self, name: &VolumeName) -> bool {
        self.serving.volumes.open_volume(name).is_some()
    }

    fn has_legs(&self) -> bool {
        self.watch.reports_legs()
    }

    fn leg(&self, leg: &str, word: LegRequest) -> Option<Result<Answer, Failure>> {
        self.watch.leg(leg, word)
    }

    fn log_filter(&self, filter: Option<&str>) -> Result<Answer, Failure> {
        let Some(filter) = filter else {
            let filter = output::log_filter().unwrap_or_default();
            return Ok(Done::already(format!("the log's filter is {filter}")));
        };
        let filter: output::Filter = filter
            .parse()
            .map_err(|error: output::InvalidFilter| Failure::usage(error.to_string()))?;
        let text = filter.to_string();
        match output::set_log_filter(filter) {
            Some(before) if before.to_string() == text => {
                Ok(Done::already(format!("the log's filter is {text}")))
            }
            Some(before) => {
                tracing::warn!(filter = text, %before, "the log has another filter");
                Ok(Done::changed(format!(
                    "the log's filter is {text}, and was {before}"
                )))
            }
            None => Err(Failure::new(
                FailureKind::Unavailable,
                "this process did not set its log up and cannot change the filter",
            )),
        }
    }

    fn held_legs(&self) -> Vec<String> {
        self.watch.held_legs()
    }

    fn change_members(&self, word: MemberRequest<'_>) -> Option<Result<Answer, Failure>> {
        self.watch.change_members(word)
    }

    fn exit_for_restart(&self, anew: Restart) -> Result<(), Failure> {
        let (reply, outcome) = channel();
        self.tell(Event::Restart { anew, reply })?;
        outcome
            .recv_timeout(CONFIRMATION_WAIT)
            .map_err(|_| is_gone())?
    }

    fn users_of(&self, used: &Used<'_>) -> Vec<String> {
        self.serving.users_of(used)
    }

    fn open_files(&self, name: &VolumeName) -> Result<OpenFilesView, Failure> {
        let none = || OpenFilesView {
            name: name.to_string(),
            ..OpenFilesView::default()
        };
        Ok(self.serving.open_files(name).unwrap_or_else(none))
    }

    fn files(&self, name: &VolumeName) -> Option<Arc<dyn FileSystem>> {
        self.serving.files(name)
    }

    fn expire_client(&self, client: u64) -> bool {
        self.serving.expire_client(client)
    }

    fn close(&self, name: &VolumeName) {
        self.serving.close(name);
    }

    fn close_for_reopen(&self, dataset: &str) {
        self.serving.close_for_reopen(dataset);
    }

    fn may_open(&self, name: &VolumeName) {
        self.serving.may_open(name);
    }

    fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        self.serving.renamed(from, to);
    }

    fn swap_contents(
        &self,
        name: &VolumeName,
        swap: &mut dyn FnMut(&dyn Paused) -> Result<(), Failure>,
    ) -> Result<Option<ContentsSwapped>, Failure> {
        let Some(done) = self.serving.swap_contents(name, swap)? else {
            return Ok(None);
        };
        let pause_ms = done.pause.as_millis();
        let message =
            format!("{name} was taken back to a snapshot; its clients waited {pause_ms} ms");
        let news = NewEvent::of_pool("rolled_back", message, false);
        self.watch.journal().add(news);
        Ok(Some(done))
    }

    fn freeze(&self, volumes: &[VolumeName], lasting: Duration) -> Result<Answer, Failure> {
        self.freeze_volumes(volumes, lasting)
    }

    fn thaw(&self, volumes: &[VolumeName]) -> Result<Answer, Failure> {
        self.thaw_volumes(volumes)
    }

    fn frozen(&self, name: &VolumeName) -> Option<FrozenView> {
        self.serving.volumes.frozen(name)
    }

    fn is_ending(&self) -> bool {
        self.is_shutting_down()
    }

    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        Some(self.lock_changes())
    }
}

#[cfg(test)]
mod tests {
    use control::operations::Preview;
    use control::operations::pool::clear::Clear;
    use control::operations::volume::destroy::Destroy;
    use control::operations::volume::list::List;

    use super::*;
    use control::operations::replicate::ReplicateRequest;
    use control::operations::replicate::run::Run;

    #[test]
    fn read_only_requests_are_classified() {
        let clear = Clear {
            device: None,
            missing_devices_are_not_newer: false,
        };
        let clear = Request::Pool(clear.into());
        assert!(!clear.is_read_only() && runs_beside_changes(&clear));
        let run = Request::Replicate(ReplicateRequest::Run(Run {
            dataset: "tank/v".parse().expect("a name"),
        }));
        assert!(!run.is_read_only() && runs_beside_changes(&run));
        let list = Request::Volume(VolumeRequest::List(List::default()));
        assert!(list.is_read_only() && runs_beside_changes(&list));
        let destroy = Request::Volume(VolumeRequest::Destroy(Destroy {
            name: "tank/v".parse().expect("a name"),
            recursive: false,
            exported: false,
            preview: Preview::default(),
        }));
        assert!(!runs_beside_changes(&destroy));
    }
}
