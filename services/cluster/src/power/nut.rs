//! A client of `upsd`, the server of Network UPS Tools (RFC 9271): requests and replies are lines of text over TCP.
//! Every reply is bounded in size and time, and checked: a UPS, its driver or its network may report anything.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use appliance::{Feed, UpsAddress};

/// Time limit for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// Time limit for all requests of one poll.
const POLL_WAIT: Duration = Duration::from_secs(4);
/// The longest line of a reply, in bytes.
const LINE_BYTES_MAX: usize = 1_024;
/// The longest password file, in bytes.
const PASSWORD_BYTES_MAX: u64 = 1_024;
/// The longest text of a peer that is shown, in characters.
const TEXT_CHARS_MAX: usize = 80;
/// More seconds are no running time of a battery.
const RUNTIME_MAX_S: f64 = 1e7;

/// The state that a UPS reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its status, as reported, such as `OL CHRG`.
    pub status: String,
    /// Mains supply its load (`OL`).
    pub is_online: bool,
    /// Its battery supplies the load (`OB`).
    pub is_on_battery: bool,
    /// Its battery is low (`LB`).
    pub is_low: bool,
    /// It is about to switch its load off (`FSD`).
    pub is_forced: bool,
    /// It measures its battery (`CAL`), and discharges it for that.
    pub is_calibrating: bool,
    /// The charge of its battery.
    pub charge_percent: Option<u8>,
    /// How long its battery can supply the load.
    pub runtime_s: Option<u32>,
    /// Values that were ignored, each in a sentence.
    pub problems: Vec<String>,
}

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

fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// Short plain text for a message.
fn plain(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(TEXT_CHARS_MAX).collect()
}

/// The meaning of an error of `upsd`, in words.
fn refusal(reply: &[String]) -> String {
    let code = match reply {
        [first, code, ..] if first == "ERR" => code.as_str(),
        _ => return format!("upsd replied {:?}", plain(&reply.join(" "))),
    };
    let words = match code {
        "ACCESS-DENIED" | "INVALID-PASSWORD" | "INVALID-USERNAME" => {
            "upsd refuses the user or the password, or the address of this head"
        }
        "UNKNOWN-UPS" => "upsd has no UPS of this name",
        "DATA-STALE" => "the UPS does not respond to its driver",
        "DRIVER-NOT-CONNECTED" => "the driver of the UPS does not run",
        "VAR-NOT-SUPPORTED" => "the UPS does not report its status",
        other => return format!("upsd replied with the error {}", plain(other)),
    };
    format!("{words} ({code})")
}

struct Connection {
    stream: TcpStream,
    deadline: Instant,
    /// Bytes that were received after the last line.
    rest: Vec<u8>,
    /// Whether the last request was replied to.
    has_replied: bool,
}

impl Connection {
    const fn new(stream: TcpStream, deadline: Instant) -> Self {
        Self {
            stream,
            deadline,
            rest: Vec::new(),
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
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                self.has_replied = true;
                return Ok(words(&String::from_utf8_lossy(&line)));
            }
            if self.rest.len() > LINE_BYTES_MAX {
                return Err("upsd sent a line that is too long".to_owned());
            }
            let limit = Some(self.left()?);
            self.stream
                .set_read_timeout(limit)
                .map_err(|error| failed(&error))?;
            let mut some = [0; LINE_BYTES_MAX];
            match self.stream.read(&mut some) {
                Ok(0) => return Err("upsd closed the connection".to_owned()),
                Ok(count) => self.rest.extend_from_slice(&some[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// The value of a variable; `None` if the UPS does not have it.
    fn variable(&mut self, ups: &str, name: &str) -> Result<Option<String>, String> {
        let reply = self.ask(&format!("GET VAR {ups} {name}"))?;
        match reply
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["VAR", of, which, value] if *of == ups && *which == name => {
                Ok(Some((*value).to_owned()))
            }
            ["ERR", "VAR-NOT-SUPPORTED", ..] => Ok(None),
            _ => Err(refusal(&reply)),
        }
    }

    fn read(&mut self, ups: &str) -> Result<Reading, String> {
        let status = self.variable(ups, "ups.status")?;
        let status = status.ok_or("the UPS does not report its status")?;
        let charge = self.variable(ups, "battery.charge")?;
        let runtime = self.variable(ups, "battery.runtime")?;
        Ok(Reading::of(&status, charge.as_deref(), runtime.as_deref()))
    }
}

impl Reading {
    /// Interprets the values of a UPS. A value that cannot be true is ignored, and reported.
    pub fn of(status: &str, charge: Option<&str>, runtime: Option<&str>) -> Self {
        let has = |flag| status.split_whitespace().any(|one| one == flag);
        let mut problems = Vec::new();
        let mut number = |what: &str, unit: &str, value: Option<&str>, max: f64| {
            let value = value?;
            let parsed = value.trim().parse::<f64>().ok();
            let valid = parsed.filter(|number| (0.0..=max).contains(number));
            if valid.is_none() {
                problems.push(format!(
                    "it reports a {what} of {}{unit}, which is ignored",
                    plain(value)
                ));
            }
            valid
        };
        // In range, as just checked.
        let charge_percent = number("charge", " percent", charge, 100.0).map(|number| number as u8);
        let runtime_s =
            number("running time", " s", runtime, RUNTIME_MAX_S).map(|number| number as u32);
        let [is_online, is_on_battery] = [has("OL"), has("OB")];
        if is_online && is_on_battery {
            problems.push("it reports mains and battery at once; battery counts".to_owned());
        }
        Self {
            status: plain(status),
            is_online: is_online && !is_on_battery,
            is_on_battery,
            is_low: has("LB"),
            is_forced: has("FSD"),
            is_calibrating: has("CAL"),
            charge_percent,
            runtime_s,
            problems,
        }
    }
}

/// The words of a line. One with spaces is in quotation marks; `\` escapes a character there (RFC 9271, section 4.1).
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = line.trim_end_matches(['\n', '\r']).chars().peekable();
    while let Some(first) = letters.next() {
        if first == ' ' {
            continue;
        }
        let is_quoted = first == '"';
        let mut word = String::new();
        if !is_quoted {
            word.push(first);
        }
        while let Some(letter) = letters.next() {
            match letter {
                '"' if is_quoted => break,
                ' ' if !is_quoted => break,
                '\\' if is_quoted => word.extend(letters.next()),
                other => word.push(other),
            }
        }
        words.push(word);
    }
    words
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

    #[test]
    fn impossible_values_are_ignored_and_reported() {
        for (charge, runtime, problems) in [
            ("300", "-5", 2),
            ("NaN", "inf", 2),
            ("full", "", 2),
            ("-0.1", "1e99", 2),
            ("100", "0", 0),
        ] {
            let reading = Reading::of("OL", Some(charge), Some(runtime));
            assert_eq!(reading.problems.len(), problems, "{charge} {runtime}");
            assert_eq!(reading.charge_percent.is_none(), problems > 0);
        }
        let both = Reading::of("OL OB\x1b[2J LB", None, None);
        assert!(both.status.starts_with("OL OB[2J"), "{}", both.status);
        assert!(!Reading::of("", None, None).is_online);
    }

    #[test]
    fn lines_are_split_into_words() {
        let split = |line| words(line).join("|");
        assert_eq!(split("VAR a b \"c d\"\r\n"), "VAR|a|b|c d");
        assert_eq!(split("A \"x\\\"y\\\\\" \"\" B"), "A|x\"y\\||B");
        assert_eq!(split("  \"open"), "open");
        assert_eq!(split("\"\\"), "");
    }
}
