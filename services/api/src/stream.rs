//! Changes as server-sent events. A watcher that lags behind gets the overview again instead of the missed events.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use control::{Failure, FailureKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::Api;
use crate::caller::{By, Caller, Link};
use crate::sampler::Frame;
use crate::sessions::RequestOrigin;

/// Concurrent streams.
const STREAMS_MAX: usize = 128;
/// Events that are queued for a watcher's connection.
const QUEUED_MAX: usize = 32;
/// Interval between two checks of the watcher's rights.
const RIGHTS_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of keep-alive messages.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Delay before a browser reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// A slot of [`STREAMS_MAX`].
struct StreamSlot(Arc<Api>);

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.limits.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

fn place(api: &Arc<Api>) -> Result<StreamSlot, Failure> {
    let streams: &AtomicUsize = &api.limits.streams;
    let place = StreamSlot(Arc::clone(api));
    match streams.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX {
        true => Ok(place),
        false => Err(
            Failure::new(FailureKind::Unavailable, "too many streams are open")
                .advise("close unused pages"),
        ),
    }
}

/// Begins a stream.
pub(crate) fn serve(api: Arc<Api>, link: Arc<Link>, caller: Caller) -> Result<Response, Failure> {
    let place = place(&api)?;
    let (sender, receiver) = mpsc::channel(QUEUED_MAX);
    tokio::spawn(async move {
        let _place = place;
        feed(&api, &caller, &sender).await;
        drop(link);
    });
    let alive = KeepAlive::new().interval(ALIVE_INTERVAL);
    let stream = Sse::new(ReceiverStream::new(receiver)).keep_alive(alive);
    Ok(stream.into_response())
}

type Sender = mpsc::Sender<Result<Event, Infallible>>;

/// Sends until the watcher disconnects or loses its rights.
async fn feed(api: &Arc<Api>, caller: &Caller, sender: &Sender) {
    let (mut frames, mut operations) = (api.sampler.watch(), api.operations.watch());
    let first = {
        let api = Arc::clone(api);
        tokio::task::spawn_blocking(move || {
            api.sampler.fresh();
            api.sampler.first_frame()
        })
    };
    let Ok(first) = first.await else { return };
    let mut open = send_frame(sender, &first, true).await;
    let mut rights = tokio::time::interval(RIGHTS_INTERVAL);
    while open {
        open = tokio::select! {
            frame = frames.recv() => match frame {
                Ok(frame) => send_frame(sender, &frame, false).await,
                Err(RecvError::Lagged(_)) => send_frame(sender, &api.sampler.first_frame(), false).await,
                Err(RecvError::Closed) => false,
            },
            operation = operations.recv() => match operation {
                Ok(operation) => {
                    let data = serde_json::to_string(&operation).expect("operations are JSON");
                    send(sender, Event::default().event("operation").data(data)).await
                }
                // The overview lists them.
                Err(RecvError::Lagged(_)) => true,
                Err(RecvError::Closed) => false,
            },
            _ = rights.tick() => may_subscribe(api, caller),
            () = sender.closed() => false,
        };
    }
}

async fn send_frame(sender: &Sender, frame: &Frame, is_first: bool) -> bool {
    let event = Event::default().event(frame.name).data(&frame.data);
    let event = if is_first { event.retry(RETRY) } else { event };
    send(sender, event).await
}

async fn send(sender: &Sender, event: Event) -> bool {
    sender.send(Ok(event)).await.is_ok()
}

/// Whether the watcher's authentication is still valid.
fn may_subscribe(api: &Api, caller: &Caller) -> bool {
    match &caller.by {
        By::Session(cookie) => api.session_of(cookie, RequestOrigin::Page).is_some(),
        By::Token(id) => api.accounts.is_token_valid(id),
        By::Head => true,
    }
}
