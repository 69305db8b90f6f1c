//! The protocol of the supervisor's socket: a line of JSON in each direction.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{HeadName, NetworkName};

use crate::power::Power;

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: u64 = 1 << 20;
/// Time limit for the supervisor: it boots nodes during that time.
const RESPONSE_TIME_LIMIT: Duration = Duration::from_secs(120);

/// Requests to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Nothing: tell how things are.
    Tell,
    /// Switch the power of a head.
    Power {
        /// Which.
        head: HeadName,
        /// How.
        to: Power,
        /// Whether the request came from its BMC, which may be slow on purpose.
        by_bmc: bool,
    },
    /// Switch one outlet of a power distribution unit.
    Outlet {
        /// The unit.
        pdu: String,
        /// The outlet.
        outlet: String,
        /// Whether it shall have power.
        on: bool,
    },
    /// Pull cables.
    Cut {
        /// The head.
        head: HeadName,
        /// In which networks; none: in all.
        networks: BTreeSet<NetworkName>,
    },
    /// Plug cables in again.
    Mend {
        /// The head.
        head: HeadName,
        /// In which networks; none: in all.
        networks: BTreeSet<NetworkName>,
    },
    /// Make cables bad, or good again.
    Impair {
        /// The head.
        head: HeadName,
        /// In which networks; none: in all.
        networks: BTreeSet<NetworkName>,
        /// How bad.
        impairment: Impairment,
    },
    /// Stop every process of a head, as when a virtual machine is paused.
    Freeze {
        /// Which.
        head: HeadName,
    },
    /// Resume it.
    Thaw {
        /// Which.
        head: HeadName,
    },
    /// Make a BMC take longer to switch the power.
    SlowBmc {
        /// The head.
        head: HeadName,
        /// How long, in milliseconds.
        delay_ms: u64,
    },
    /// Take a BMC off its network, or put it back.
    DeadBmc {
        /// The head.
        head: HeadName,
        /// Off.
        dead: bool,
    },
}

/// How a lab is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// By head.
    pub heads: BTreeMap<HeadName, HeadState>,
    /// First processes of the machines that are no heads, as the lab numbers them.
    pub others: BTreeMap<String, i32>,
    /// Outlets without power.
    pub outlets_off: BTreeSet<(String, String)>,
}

/// The impairment of a cable, in the direction to the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impairment {
    /// How much later a packet comes, in microseconds.
    pub delay_us: u32,
    /// How many of a hundred packets are lost.
    pub loss_percent: u8,
}

impl Impairment {
    /// Whether the cable is good.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How a head is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadState {
    /// Whether it has power. It has, also when nothing runs on it any more.
    pub powered: bool,
    /// Its first process, as the lab numbers it; none where it has no power.
    pub first_pid: Option<i32>,
    /// Whether its processes are stopped.
    pub frozen: bool,
    /// Networks with unplugged cables.
    pub cut: BTreeSet<NetworkName>,
    /// Networks with impaired cables.
    #[serde(default)]
    pub impaired: BTreeMap<NetworkName, Impairment>,
    /// The delay of its BMC, in milliseconds.
    pub bmc_delay_ms: u64,
    /// Whether its BMC is off its network.
    pub bmc_dead: bool,
    /// How often it was switched on.
    pub boots: u32,
}

/// The supervisor's reply: the state of the lab, or the reason why the request failed.
pub type Response = Result<State, String>;

/// Sends a request and blocks until the reply.
///
/// # Errors
///
/// No supervisor listens there, or the reply is invalid.
pub fn send_order(socket: &Path, order: &Order) -> io::Result<Response> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(RESPONSE_TIME_LIMIT))?;
    stream.set_write_timeout(Some(RESPONSE_TIME_LIMIT))?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    read_line(&stream)
}

/// Reads one line of JSON.
///
/// # Errors
///
/// The peer is gone, silent, or sends invalid data.
pub fn read_line<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
