//! A client of `upsd`, the server of Network UPS Tools (RFC 9271): requests and replies are lines of text over TCP.
//! Every reply is bounded in size and time; `hardware` parses it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use appliance::{Feed, UpsAddress};
use hardware::nut::{self, LINE_BYTES_MAX, LineTooLong, Lines, quoted, refusal};

pub use hardware::nut::Reading;

/// Time limit for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// Time limit for all requests of one poll.
const POLL_WAIT: Duration = Duration::from_secs(4);
/// Bytes that are received at once.
const RECEIVE_BYTES: usize = LINE_BYTES_MAX;
/// The longest password file, in bytes.
const PASSWORD_BYTES_MAX: u64 = 1_024;

/// A session with the `upsd` of one UPS. It is opened again after a failure.
#[derive(Debug)]
pub struct Session {
    ups: UpsAddress,
    login: Option<(String, PathBuf)>,
    stream: Option<TcpStream>,
    is_refused: bool,
}

impl Session {
    /// A session that is not connected yet.
    pub fn new(feed: &Feed) -> Self {
        Self {
            ups: feed.ups.clone(),
            login: feed.user.clone().zip(feed.password_file.clone()),
            stream: None,
            is_refused: false,
        }
    }

    /// Whether `upsd` has responded to the last failed poll: then its host has power.
    pub const fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns whether it is of this UPS and login.
    pub fn is_of(&self, feed: &Feed) -> bool {
        let login = feed.user.clone().zip(feed.password_file.clone());
        self.ups == feed.ups && self.login == login
    }

    /// Reads the state of the UPS.
    ///
    /// # Errors
    ///
    /// The reason why it is unknown, in words.
    pub fn poll(&mut self) -> Result<Reading, String> {
        let deadline = Instant::now() + POLL_WAIT;
        self.is_refused = false;
        let mut connection = match self.stream.take() {
            Some(stream) => Connection::new(stream, deadline),
            None => self.connect(deadline)?,
        };
        let reading = connection.read(&self.ups.name);
        self.is_refused = reading.is_err() && connection.has_replied;
        let reading = reading?;
        // After an error the next poll connects again, because a late reply would be taken for the next one.
        self.stream = Some(connection.stream);
        Ok(reading)
    }

    fn connect(&mut self, deadline: Instant) -> Result<Connection, String> {
        let stream = TcpStream::connect_timeout(&self.ups.upsd, CONNECT_WAIT);
        let stream =
            stream.map_err(|error| format!("no connection to {}: {error}", self.ups.upsd))?;
        let mut connection = Connection::new(stream, deadline);
        if let Some((user, file)) = &self.login {
            // Its host accepts connections.
            self.is_refused = true;
            let password = password(file)?;
            for request in [
                format!("USERNAME {}", quoted(user)),
                format!("PASSWORD {}", quoted(&password)),
                // Only now upsd checks the password. It also counts this head among those that the UPS supplies.
                format!("LOGIN {}", self.ups.name),
            ] {
                let reply = connection.ask(&request);
                self.is_refused = reply.is_ok();
                let reply = reply?;
                if reply.first().map(String::as_str) != Some("OK") {
                    return Err(refusal(&reply));
                }
            }
        }
        Ok(connection)
    }
}

fn password(file: &std::path::Path) -> Result<String, String> {
    let shown = file.display();
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| format!("read the password in {shown}: {error}"))?;
    let text = text.trim_end_matches(['\n', '\r']);
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err(format!("{shown} holds no password in one line")),
        false => Ok(text.to_owned()),
    }
}

struct Connection {
    stream: TcpStream,
    deadline: Instant,
    lines: Lines,
    /// Whether the last request was replied to.
    has_replied: bool,
}

impl Connection {
    fn new(stream: TcpStream, deadline: Instant) -> Self {
        Self {
            stream,
            deadline,
            lines: Lines::default(),
            has_replied: false,
        }
    }

    fn left(&self) -> Result<Duration, String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err("upsd does not respond in time".to_owned()),
            false => Ok(left),
        }
    }

    /// Sends a request, and returns the words of the line that replies to it.
    fn ask(&mut self, request: &str) -> Result<Vec<String>, String> {
        let failed = |error: &std::io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                "upsd does not respond in time".to_owned()
            }
            _ => format!("the connection to upsd broke: {error}"),
        };
        self.has_replied = false;
        let limit = Some(self.left()?);
        self.stream
            .set_write_timeout(limit)
            .map_err(|error| failed(&error))?;
        let sent = self.stream.write_all(format!("{request}\n").as_bytes());
        sent.map_err(|error| failed(&error))?;
        loop {
            let line = self.lines.next_line();
            let line =
                line.map_err(|LineTooLong| "upsd sent a line that is too long".to_owned())?;
            if let Some(words) = line {
                self.has_replied = true;
                return Ok(words);
            }
            let limit = Some(self.left()?);
            self.stream
                .set_read_timeout(limit)
                .map_err(|error| failed(&error))?;
            let mut some = [0; RECEIVE_BYTES];
            match self.stream.read(&mut some) {
                Ok(0) => return Err("upsd closed the connection".to_owned()),
                Ok(count) => self.lines.push(&some[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// The value of a variable; `None` if the UPS does not have it.
    fn variable(&mut self, ups: &str, name: &str) -> Result<Option<String>, String> {
        let reply = self.ask(&format!("GET VAR {ups} {name}"))?;
        nut::value(&reply, ups, name)
    }

    fn read(&mut self, ups: &str) -> Result<Reading, String> {
        let status = self.variable(ups, "ups.status")?;
        let status = status.ok_or("the UPS does not report its status")?;
        let charge = self.variable(ups, "battery.charge")?;
        let runtime = self.variable(ups, "battery.runtime")?;
        Ok(Reading::of(&status, charge.as_deref(), runtime.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Replies to each request with what `reply` returns, and closes the connection where that is `None`.
    fn upsd(reply: fn(&str) -> Option<Vec<u8>>) -> (SocketAddr, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let reader = BufReader::new(stream.try_clone().expect("the same"));
                for line in reader.lines() {
                    let Ok(line) = line else { break };
                    let bytes = reply(&line);
                    let _ = sender.send(line);
                    let Some(bytes) = bytes else { break };
                    if stream.write_all(&bytes).is_err() {
                        break;
                    }
                }
            }
        });
        (address, requests)
    }

    fn feed(upsd: SocketAddr) -> Feed {
        let ups = UpsAddress {
            name: "rack-a".to_owned(),
            upsd,
        };
        Feed {
            ups,
            heads: None,
            user: None,
            password_file: None,
        }
    }

    fn good(request: &str) -> Option<Vec<u8>> {
        Some(match request {
            "GET VAR rack-a ups.status" => b"VAR rack-a ups.status \"OB DISCHRG\"\n".to_vec(),
            "GET VAR rack-a battery.charge" => b"VAR rack-a battery.charge \"42.7\"\n".to_vec(),
            "GET VAR rack-a battery.runtime" => b"ERR VAR-NOT-SUPPORTED\n".to_vec(),
            _ => b"OK\n".to_vec(),
        })
    }

    #[test]
    fn state_is_read_after_a_login_in_one_session() {
        let (address, requests) = upsd(good);
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("password");
        std::fs::write(&file, "a \"b\" \\c\n").expect("written");
        let feed = Feed {
            user: Some("bulkhead".to_owned()),
            password_file: Some(file),
            ..feed(address)
        };
        let mut session = Session::new(&feed);
        for _ in 0..2 {
            let reading = session.poll().expect("a reply");
            assert_eq!(
                (reading.charge_percent, reading.runtime_s),
                (Some(42), None)
            );
            assert!(reading.is_on_battery && !reading.is_online && !reading.is_low);
            assert_eq!(reading.problems, [""; 0]);
        }
        let requests: Vec<String> = requests.try_iter().collect();
        let logins = [
            "USERNAME \"bulkhead\"",
            "PASSWORD \"a \\\"b\\\" \\\\c\"",
            "LOGIN rack-a",
        ];
        assert_eq!(requests[..3], logins);
        assert_eq!(
            requests.len(),
            3 + 2 * 3,
            "the session is used again: {requests:?}"
        );
    }

    type Reply = fn(&str) -> Option<Vec<u8>>;

    /// No reply makes a client wait, panic or believe; each is a sentence.
    #[test]
    fn hostile_replies_are_reasons() {
        let cases: [(Reply, &str); 9] = [
            (|_| None, "closed the connection"),
            (
                |_| Some(b"ERR UNKNOWN-UPS\n".to_vec()),
                "has no UPS of this name",
            ),
            (
                |_| Some(b"ERR DATA-STALE\n".to_vec()),
                "does not respond to its driver",
            ),
            (
                |_| Some(b"ERR ACCESS-DENIED\n".to_vec()),
                "refuses the user or the password",
            ),
            (|_| Some(b"ERR \x1b[2J\n".to_vec()), "the error [2J"),
            (|_| Some(vec![b'x'; 1 << 20]), "too long"),
            (|_| Some(b"\n".to_vec()), "upsd replied \"\""),
            (
                |_| Some(b"VAR rack-b ups.status \"OL\"\n".to_vec()),
                "upsd replied",
            ),
            (|_| Some(b"\xff\xfe\0\x01 \"\\\n".to_vec()), "upsd replied"),
        ];
        for (reply, wanted) in cases {
            let (address, _requests) = upsd(reply);
            let why = Session::new(&feed(address)).poll().expect_err("no state");
            assert!(why.contains(wanted), "{why}");
            assert!(!why.contains(char::is_control), "{why:?}");
        }
    }

    #[test]
    fn silent_or_absent_server_costs_bounded_time() {
        let (address, _requests) = upsd(|_| Some(Vec::new()));
        let started = Instant::now();
        let why = Session::new(&feed(address)).poll().expect_err("no reply");
        assert!(why.contains("in time"), "{why}");
        assert!(started.elapsed() < POLL_WAIT + CONNECT_WAIT);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let why = Session::new(&feed(address)).poll().expect_err("closed");
        assert!(why.contains("no connection"), "{why}");
    }

    #[test]
    fn session_connects_again_after_a_failure() {
        let (address, requests) = upsd(|request| match request.contains("charge") {
            true => None,
            false => good(request),
        });
        let mut session = Session::new(&feed(address));
        for _ in 0..2 {
            session.poll().expect_err("it breaks");
        }
        let first = requests
            .try_iter()
            .filter(|request| request.ends_with("ups.status"));
        assert_eq!(first.count(), 2);
    }
}
