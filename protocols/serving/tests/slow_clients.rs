//! Slow clients must not hold the engine's buffers, nor lose a reply.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use block_device::ReadLoan;
use serving::{Flushed, Link, Outbound, OutboundLimits, Payload, Reply, Stream, Turn, Waker};

/// A loan that counts its live instances.
struct Counted {
    bytes: Vec<u8>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn lend(bytes: Vec<u8>, alive: &Arc<AtomicUsize>) -> Payload {
        alive.fetch_add(1, Ordering::SeqCst);
        Payload::Loan(Box::new(Self {
            bytes,
            alive: Arc::clone(alive),
        }))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadLoan for Counted {
    fn byte_count(&self) -> usize {
        self.bytes.len()
    }
    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        self.bytes.chunks(1000).for_each(|part| parts.push(part));
    }
}

fn link_to_client(stall_timeout: Duration) -> (Link, UnixStream) {
    let (ours, client) = UnixStream::pair().unwrap();
    let stream = Arc::new(Stream::unix(OwnedFd::from(ours)).unwrap());
    let waker = Arc::new(Waker::new().unwrap());
    let limits = OutboundLimits {
        queued_bytes_max: 1 << 20,
        pending_max: 4,
        stall_timeout,
    };
    (Link::new(stream, waker, limits, 64 << 10), client)
}

#[test]
fn client_that_never_reads_holds_no_loan_and_is_dropped() {
    let (mut link, mut client) = link_to_client(Duration::from_millis(50));
    let alive = Arc::new(AtomicUsize::new(0));
    for _ in 0..64 {
        let payload = Counted::lend(vec![7; 64 << 10], &alive);
        link.outbound().push(Reply::with_payload(b"head", payload));
    }
    assert_eq!(alive.load(Ordering::SeqCst), 64);
    assert_eq!(link.outbound().flush_now(), Flushed::Blocked);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // Requests are not read while too much is queued.
    client.write_all(b"request").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    assert_eq!(link.turn(Some(deadline)).unwrap(), Turn::Stalled);
    assert!(link.bytes().is_empty());
}

/// A loan that queues a second loan while it is being sent.
struct Followed {
    first: Counted,
    outbound: Arc<Outbound>,
    is_followed: AtomicBool,
}

impl ReadLoan for Followed {
    fn byte_count(&self) -> usize {
        self.first.byte_count()
    }
    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        self.first.append_parts(parts);
        if !self.is_followed.swap(true, Ordering::SeqCst) {
            let payload = Counted::lend(vec![8; 1000], &self.first.alive);
            self.outbound.push(Reply::with_payload(b"head", payload));
            assert_eq!(self.outbound.flush_now(), Flushed::OtherThread);
        }
    }
}

#[test]
fn queued_loan_is_copied_and_returned_if_the_socket_fills() {
    let (link, _client) = link_to_client(Duration::from_secs(30));
    let alive = Arc::new(AtomicUsize::new(1));
    let followed = Followed {
        first: Counted {
            bytes: vec![7; 4 << 20],
            alive: Arc::clone(&alive),
        },
        outbound: Arc::clone(link.outbound()),
        is_followed: AtomicBool::new(false),
    };
    let payload = Payload::Loan(Box::new(followed));
    link.outbound().push(Reply::with_payload(b"head", payload));
    link.flush();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert!(link.outbound().queued_bytes() > 1000);
}

#[test]
fn replies_of_many_threads_reach_a_slow_client_intact() {
    const THREADS: u8 = 4;
    const REPLIES: usize = 200;
    const BYTES: usize = 5000;
    let (mut link, mut client) = link_to_client(Duration::from_secs(30));
    let alive = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let outbound = Arc::clone(link.outbound());
            let pending = outbound.pending();
            let alive = Arc::clone(&alive);
            std::thread::spawn(move || {
                for _ in 0..REPLIES {
                    let payload = Counted::lend(vec![thread; BYTES - 1], &alive);
                    outbound.reply_from_worker(Reply::with_payload(&[thread], payload));
                }
                drop(pending);
            })
        })
        .collect();
    let reader = std::thread::spawn(move || {
        let mut counts = [0; THREADS as usize];
        let mut answer = [0; BYTES];
        for _ in 0..usize::from(THREADS) * REPLIES {
            client.read_exact(&mut answer).unwrap();
            assert!(
                answer.iter().all(|byte| *byte == answer[0]),
                "answers are mixed"
            );
            counts[usize::from(answer[0])] += 1;
        }
        counts
    });
    assert!(link.settle(Instant::now() + Duration::from_secs(60)));
    assert_eq!(reader.join().unwrap(), [REPLIES; THREADS as usize]);
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn pending_limit_pauses_input_until_an_operation_completes() {
    let (mut link, mut client) = link_to_client(Duration::from_secs(30));
    let pending: Vec<_> = (0..4).map(|_| link.outbound().pending()).collect();
    client.write_all(b"request").unwrap();
    let soon = Instant::now() + Duration::from_millis(30);
    assert_eq!(link.turn(Some(soon)).unwrap(), Turn::Deadline);
    drop(pending);
    let deadline = Instant::now() + Duration::from_secs(30);
    assert_eq!(link.turn(Some(deadline)).unwrap(), Turn::Woken);
    assert_eq!(link.turn(Some(deadline)).unwrap(), Turn::Input(7));
    assert_eq!(link.bytes(), b"request");
}

#[test]
fn input_fills_the_target_first_and_the_buffer_with_the_rest() {
    let (mut link, mut client) = link_to_client(Duration::from_secs(30));
    client.write_all(b"0123456789").unwrap();
    let mut target = [0; 4];
    let turn = link
        .turn_into(vec![std::io::IoSliceMut::new(&mut target)], None)
        .unwrap();
    assert_eq!(turn, Turn::Input(10));
    assert_eq!((&target[..], link.bytes()), (&b"0123"[..], &b"456789"[..]));
    link.consume(6);
    drop(client);
    assert_eq!(link.turn(None).unwrap(), Turn::Closed);
}

#[test]
fn broken_connection_discards_replies() {
    let (mut link, client) = link_to_client(Duration::from_secs(30));
    drop(client);
    let alive = Arc::new(AtomicUsize::new(0));
    let payload = Counted::lend(vec![1; 100], &alive);
    link.outbound().push(Reply::with_payload(b"head", payload));
    assert_eq!(link.outbound().flush_now(), Flushed::Broken);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert!(link.settle(Instant::now()));
    let turn = link.turn(None).unwrap();
    assert!(matches!(turn, Turn::Woken | Turn::Closed));
}

/// A worker is sending when the connection's thread abandons the connection: the count of queued
/// bytes must remain correct.
#[test]
fn connection_abandoned_during_a_send_stays_consistent() {
    for _ in 0..200 {
        let (link, mut client) = link_to_client(Duration::from_secs(30));
        let outbound = Arc::clone(link.outbound());
        let alive = Arc::new(AtomicUsize::new(0));
        let worker = std::thread::spawn({
            let alive = Arc::clone(&alive);
            move || {
                for _ in 0..20 {
                    let payload = Counted::lend(vec![1; 4096], &alive);
                    outbound.reply_from_worker(Reply::with_payload(b"head", payload));
                }
            }
        });
        client.read_exact(&mut [0; 4096]).unwrap();
        link.outbound().abandon();
        worker.join().unwrap();
        assert_eq!(link.outbound().queued_bytes(), 0);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}
