//! The console of a lab's heads: its accounts and certificates, and access to it from the host, which has no route into
//! the lab's networks.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::process::Invocation;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use units::HeadName;

use crate::error::LabError;
use crate::handle::{Lab, Node};
use crate::inside::CLIENT;

/// The directory with the users of a head.
const ACCOUNTS: &str = "/etc/bulkhead/head/accounts.json";
/// The user that a lab creates on its heads.
pub const CONSOLE_USER: &str = "admin";
/// Where `bulkhead head` listens.
const PORT: u16 = 7443;
/// Connections that are passed on at a time, of one head.
const CONNECTIONS_MAX: usize = 256;
/// How long a head may take to take a connection at one of its addresses.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(2);
/// The exit code of `bulkhead` if the user exists: heads replicate their users.
const CODE_EXISTS: i32 = 4;
/// Pause after connections could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Lab {
    /// The file with the password of [`CONSOLE_USER`]; none where heads have no console.
    pub fn console_password_file(&self) -> Option<PathBuf> {
        let path = self.place().console_password();
        path.exists().then_some(path)
    }

    /// Prepares the console of every head for access from other hosts: a certificate, and a user.
    pub(crate) fn open_consoles(&self, password: &str) -> Result<(), LabError> {
        for head in self.heads() {
            let mut words = vec!["head".to_owned(), "certificate".to_owned()];
            let addresses = self.appliance().addresses_of(&head);
            let addresses = addresses.iter().map(ToString::to_string);
            let names = [
                head.to_string(),
                "localhost".to_owned(),
                "127.0.0.1".to_owned(),
            ];
            for name in names.into_iter().chain(addresses) {
                words.extend(["--name".to_owned(), name]);
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let who = Node::Head(head);
            self.must(&who, "bulkhead", &words)?;
        }
        self.add_console_user(password)
    }

    /// The user is created on one head and copied to the remaining heads: creating it twice gives two users, and the
    /// sessions of one are closed when the heads compare their users.
    fn add_console_user(&self, password: &str) -> Result<(), LabError> {
        let heads = self.heads();
        let Some((first, others)) = heads.split_first() else {
            return Ok(());
        };
        let words = ["user", "add", CONSOLE_USER, "--role", "admin"];
        let invocation = Invocation::new("bulkhead", &words).reading(format!("{password}\n"));
        let output = self.exec(&Node::Head(first.clone()), &invocation)?;
        if output.code != 0 && output.code != CODE_EXISTS {
            return Err(LabError::Program {
                program: format!("bulkhead {}", words.join(" ")),
                code: output.code,
                complaint: output.complaint(),
            });
        }
        let made = self.file_of(first, ACCOUNTS);
        for head in others {
            let copy = self.file_of(head, ACCOUNTS);
            if !copy.exists() {
                std::fs::copy(&made, &copy)
                    .map_err(LabError::io(format!("write {}", copy.display())))?;
            }
        }
        Ok(())
    }

    /// Passes connections on to the console of `head`, as the lab's client reaches it, in threads that
    /// live as long as this process.
    ///
    /// # Errors
    ///
    /// There is no such head, or the client cannot be entered.
    pub fn forward(&self, head: &HeadName, listener: TcpListener) -> Result<(), LabError> {
        let addresses = self.appliance().addresses_of(head);
        if addresses.is_empty() {
            return Err(LabError::NoNode(head.to_string()));
        }
        let client = self.state()?.others.get(CLIENT).copied();
        let client = client.ok_or_else(|| LabError::NoNode(CLIENT.to_owned()))?;
        // Numbers of machines are those of the lab's own /proc.
        let path = format!("/proc/{}/root/proc/{client}/ns/net", self.first_pid());
        let network = File::open(&path).map_err(LabError::io(format!("open {path}")))?;
        let way = Arc::new(Route {
            network,
            addresses,
            open: AtomicUsize::new(0),
        });
        std::thread::spawn(move || way.listen(&listener));
        Ok(())
    }
}

/// The way to a head.
struct Route {
    network: File,
    /// The best one first.
    addresses: Vec<IpAddr>,
    open: AtomicUsize,
}

impl Route {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for taken in listener.incoming() {
            let Ok(taken) = taken else {
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if self.open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                self.open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let way = Arc::clone(self);
            std::thread::spawn(move || {
                if let Err(error) = way.connect().and_then(|there| relay(&taken, &there)) {
                    tracing::debug!(%error, "a connection to a console ended");
                }
                way.open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    }

    /// Connects from the client's network, to which this thread belongs from now on.
    fn connect(&self) -> io::Result<TcpStream> {
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            let address = SocketAddr::new(*address, PORT);
            match TcpStream::connect_timeout(&address, CONNECT_TIME_LIMIT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Copies both ways until both have ended.
fn relay(here: &TcpStream, there: &TcpStream) -> io::Result<()> {
    std::thread::scope(|scope| {
        let back = scope.spawn(|| copy(there, here));
        let forth = copy(here, there);
        let back = back.join().unwrap_or(Ok(()));
        forth.and(back)
    })
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    // The other side has to hear of the end; one that is gone has.
    let _ = to.shutdown(Shutdown::Write);
    if copied.is_err() {
        let _ = from.shutdown(Shutdown::Both);
    }
    copied.map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn console_relays_data_until_both_sides_close() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let head = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let to = head.local_addr().expect("an address");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (taken, _) = listener.accept().expect("a connection");
                relay(&taken, &TcpStream::connect(to).expect("connected")).expect("relayed");
            });
            scope.spawn(|| {
                let (mut stream, _) = head.accept().expect("a connection");
                let mut question = String::new();
                stream.read_to_string(&mut question).expect("read");
                stream
                    .write_all(format!("{question} yes").as_bytes())
                    .expect("written");
            });
            let mut stream = TcpStream::connect(address).expect("connected");
            stream.write_all(b"well?").expect("written");
            stream.shutdown(Shutdown::Write).expect("ended");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("read");
            assert_eq!(answer, "well? yes");
        });
    }
}
