//! The socket for `status`, `readmit` and `forget` on the witness's own host. A request is one line of JSON, so is the
//! response, and the connection is closed.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use members::{Member, PoolState, Readmission, Server, Silence};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Concurrent requests; further ones are queued.
const CONCURRENT_REQUESTS_MAX: usize = 4;
/// Longest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 256;
/// Longest response, in bytes: a line for each stored pool.
const REPLY_BYTES_MAX: u64 = 1 << 20;
/// Time-out of a request with its response.
const WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Status,
    Readmit { pool: u64, is_replaced: bool },
    Forget { pool: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Status(Status),
    Readmitted,
    Forgotten(bool),
    Refused(String),
}

/// State of the witness.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its number.
    number: u64,
    /// The pools.
    pools: Vec<Pool>,
    /// The heads that are connected.
    heads: Vec<Connected>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Pool {
    number: u64,
    /// Epoch of the newest record.
    epoch: Option<u64>,
    /// In that epoch.
    sequence: Option<u64>,
    /// Why it does not respond.
    silent: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Connected {
    number: u64,
    connections: usize,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "witness {}", self.number)?;
        for head in &self.heads {
            writeln!(f, "head {}: {} connections", head.number, head.connections)?;
        }
        for pool in &self.pools {
            let number = pool.number;
            match (&pool.silent, pool.epoch, pool.sequence) {
                (Some(why), _, _) => writeln!(f, "pool {number}: not answered for: {why}")?,
                (None, Some(epoch), Some(sequence)) => {
                    writeln!(f, "pool {number}: record {sequence} of epoch {epoch}")?;
                }
                (None, _, _) => writeln!(f, "pool {number}: no record yet")?,
            }
        }
        Ok(())
    }
}

fn reason(pool: u64, why: Silence) -> String {
    match why {
        Silence::Unknown => "the heads have not sent its record yet".to_owned(),
        Silence::Missing => format!(
            "its file is missing, and may have held promises: run `bulkhead-witness readmit {pool} --forget`"
        ),
        Silence::Damaged => format!(
            "its file is damaged, and may have held promises: see that this disk is sound, then run `bulkhead-witness readmit {pool} \
             --forget`"
        ),
        Silence::Lost => {
            "its record is sent by the head that serves it, once both heads reach each other and this witness".to_owned()
        }
        Silence::Members => why.meaning().to_owned(),
        Silence::NotStored => {
            "a change could not be written; see the log, mend the disk or make room on it, then restart the witness"
                .to_owned()
        }
    }
}

fn look(member: &Member, server: &Server) -> Status {
    let pools = member.states().into_iter().map(|(number, state)| {
        let (version, silent) = match state {
            PoolState::HasRecord(version) => (version, None),
            PoolState::Lost => (None, Some(reason(number, Silence::Lost))),
            PoolState::Silent(why) => (None, Some(reason(number, why))),
        };
        Pool {
            number,
            epoch: version.map(|version| version.epoch),
            sequence: version.map(|version| version.sequence),
            silent,
        }
    });
    let heads = server.connected().into_iter();
    let heads = heads.map(|(head, connections)| Connected {
        number: head.0,
        connections,
    });
    Status {
        number: member.me().0,
        pools: pools.collect(),
        heads: heads.collect(),
    }
}

/// Opens the socket, replacing one that a killed witness left.
pub fn open(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("create the directory {}", folder.display()))?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("replace {}", path.display()));
        }
        _ => {}
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    listener.with_context(|| format!("listen on {}", path.display()))
}

/// Handles requests forever.
pub async fn serve(listener: UnixListener, member: Arc<Member>, server: Arc<Server>) {
    let places = Arc::new(Semaphore::new(CONCURRENT_REQUESTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let (member, server) = (Arc::clone(&member), Arc::clone(&server));
        tokio::spawn(async move {
            let _place = place;
            let _ = timeout(WAIT, attend(stream, member, server)).await;
        });
    }
}

async fn attend(
    stream: tokio::net::UnixStream,
    member: Arc<Member>,
    server: Arc<Server>,
) -> std::io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut line = String::new();
    let mut from = tokio::io::BufReader::new(from.take(REQUEST_BYTES_MAX));
    from.read_line(&mut line).await?;
    let answered = tokio::task::spawn_blocking(move || response(&line, &member, &server)).await;
    let response = answered.map_err(std::io::Error::other)?;
    let mut text = serde_json::to_string(&response)?;
    text.push('\n');
    to.write_all(text.as_bytes()).await
}

fn response(line: &str, member: &Member, server: &Server) -> Response {
    match serde_json::from_str(line) {
        Ok(Request::Status) => Response::Status(look(member, server)),
        Ok(Request::Readmit { pool, is_replaced }) => match readmitted(member, pool, is_replaced) {
            Ok(()) => Response::Readmitted,
            Err(error) => Response::Refused(format!("{error:#}")),
        },
        Ok(Request::Forget { pool }) => match member.forget(pool) {
            Ok(is_removed) => Response::Forgotten(is_removed),
            Err(error) => Response::Refused(format!("remove the record of pool {pool}: {error}")),
        },
        Err(error) => Response::Refused(format!("not understood: {error}")),
    }
}

fn readmitted(member: &Member, pool: u64, is_replaced: bool) -> anyhow::Result<()> {
    let life = getrandom::u64().map_err(|error| anyhow!("make a random number: {error}"))?;
    let word = Readmission {
        life: life.max(1),
        is_replaced,
    };
    let readmitted = member.readmit(pool, word);
    let is_done = readmitted.is_ok();
    tracing::debug!(
        pool,
        life = word.life,
        is_replaced,
        is_done,
        "a request to readmit"
    );
    Ok(readmitted?)
}

fn send_request(path: &Path, request: Request) -> anyhow::Result<Response> {
    let stream = UnixStream::connect(path).with_context(|| {
        format!(
            "no witness listens at {}: `systemctl start bulkhead-witness` starts it",
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let text = serde_json::to_string(&request)?;
    (&stream).write_all(format!("{text}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(REPLY_BYTES_MAX))
        .read_line(&mut line)
        .context("hear the witness")?;
    serde_json::from_str(&line).context("understand the witness: is it of the same version?")
}

/// Reads the state of the witness at `path`.
pub fn status(path: &Path) -> anyhow::Result<Status> {
    match send_request(path, Request::Status)? {
        Response::Status(status) => Ok(status),
        Response::Refused(why) => bail!(why),
        Response::Readmitted | Response::Forgotten(_) => bail!("an unexpected response"),
    }
}

/// Readmits the witness at `path` to a pool.
pub fn readmit(path: &Path, pool: u64, is_replaced: bool) -> anyhow::Result<()> {
    match send_request(path, Request::Readmit { pool, is_replaced })? {
        Response::Readmitted => Ok(()),
        Response::Refused(why) => bail!(why),
        Response::Status(_) | Response::Forgotten(_) => bail!("an unexpected response"),
    }
}

/// Removes the record of a pool from the witness at `path`; returns whether there was one.
pub fn forget(path: &Path, pool: u64) -> anyhow::Result<bool> {
    match send_request(path, Request::Forget { pool })? {
        Response::Forgotten(is_removed) => Ok(is_removed),
        Response::Refused(why) => bail!(why),
        Response::Status(_) | Response::Readmitted => bail!("an unexpected response"),
    }
}
