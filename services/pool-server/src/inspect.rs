//! `bulkhead pool inspect-legs`: opens the legs of a head as a separate pool next to the served one. Nothing is written
//! to them: their lender exports them read-only, and the pool is opened for reading.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use control::words::bytes;
use control::{Failure, FailureKind, calendar};
use engine::dataset::{DatasetInfo, Snapshots};
use engine::volume::OpenOptions;
use engine::{Pool, Volume};
use nbd::{Access, DesiredExport, NbdServer, ServerLimits};
use operations::dataset_failure;
use output::signals;
use pool_access::common::Common;
use pool_access::inspect::{self, Inspected};
use pool_access::open::export;
use rendering::Printer;
use serde_json::json;
use serving::ListenAddress;
use units::{PoolName, VolumeName};

use super::lazy::LOGICAL_BLOCK;
use super::serving::listen_failure;

/// Concurrent calls that may block on the other head's disks.
const WORKERS_MAX: usize = 16;

/// `pool inspect-legs`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InspectArgs {
    /// The pool
    pool: PoolName,
    /// The heads to open the legs of: one, of a pool of mirrors
    #[arg(required = true)]
    heads: Vec<String>,
    /// The configuration that names the legs of the pool
    #[arg(long, value_name = "FILE", default_value = "/etc/bulkhead/legs.toml")]
    legs: PathBuf,
    /// The pool's name during the inspection [default: POOL-HEAD]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<PoolName>,
}

const EXAMPLES: &str = "Example:
  bulkhead pool inspect-legs tank right

For legs with another history, beside the pool that is served. Nothing is written. The volumes are there as read-only NBD
exports on a local socket, as of the last transaction group, until Ctrl-C. Run it on any head, as root: the leg-servers of the
heads that are named have to run.";

/// The exported volumes.
struct Shown {
    _server: NbdServer,
    volumes: Vec<Arc<dyn Volume>>,
    exports: Vec<Exported>,
}

/// A volume, or why it cannot be read.
struct Exported {
    name: String,
    size: u64,
    uri: Result<String, String>,
}

/// Serves the legs until a signal.
pub fn run(args: &InspectArgs, common: &Common, out: Printer) -> Result<(), Failure> {
    let signals = signals::catch().map_err(Failure::of("wait for signals"))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => {
            let name = format!("{}-{}", args.pool, args.heads.join("-"));
            name.parse().map_err(|_| {
                Failure::usage(format!("{name} is no name for a pool")).advise("give one by --as")
            })?
        }
    };
    let inspected = inspect::open(common, &args.pool, &args.legs, &args.heads, &name)?;
    let socket = common.settings.run_dir.join(format!("{name}.inspect.sock"));
    let shown = show(&*inspected.pool, &socket);
    let told = shown.and_then(|shown| {
        tell(&name, &inspected, &shown, out)?;
        // A lost sender of signals is handled like a signal.
        let _ = signals.recv();
        shown.volumes.iter().for_each(|volume| volume.close());
        Ok(())
    });
    let _ = std::fs::remove_file(&socket);
    export(inspected.pool)?;
    told
}

fn show(pool: &dyn Pool, socket: &Path) -> Result<Shown, Failure> {
    let all = pool.datasets(pool.name().into(), Snapshots::Skip);
    let all = all.map_err(dataset_failure)?;
    let (mut volumes, mut exports, mut desired) = (Vec::new(), Vec::new(), Vec::new());
    for (info, size) in all.iter().filter_map(with_size) {
        let opened = open(pool, info);
        let uri = opened.map(|volume| {
            let device = Arc::clone(&volume).device();
            desired.push(DesiredExport {
                name: info.name.clone(),
                description: "to be inspected".to_owned(),
                device,
                read_only: true,
                access: Access::Local,
                hidden: false,
            });
            volumes.push(volume);
            format!("nbd+unix:///{}?socket={}", info.name, socket.display())
        });
        exports.push(Exported {
            name: info.name.clone(),
            size,
            uri,
        });
    }
    let server = NbdServer::new(ServerLimits {
        workers_max: WORKERS_MAX,
        ..ServerLimits::default()
    });
    let desired = nbd::DesiredState {
        listeners: vec![ListenAddress::Unix(socket.to_owned())],
        tls: None,
        exports: desired,
    };
    server.apply(desired).map_err(|error| match &error {
        nbd::ApplyError::Listen(listen) => listen_failure(listen),
        _ => Failure::from_chain(FailureKind::Failed, &error),
    })?;
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(socket, owner_only).map_err(Failure::of("make a socket"))?;
    Ok(Shown {
        _server: server,
        volumes,
        exports,
    })
}

/// A volume, and its size.
fn with_size(info: &DatasetInfo) -> Option<(&DatasetInfo, u64)> {
    Some((info, info.volume.as_ref()?.size.get()))
}

fn open(pool: &dyn Pool, info: &DatasetInfo) -> Result<Arc<dyn Volume>, String> {
    let name: VolumeName = match info.name.parse() {
        Ok(name) => name,
        Err(_) => return Err("its name is not valid for this version".into()),
    };
    let options = OpenOptions {
        read_only: true,
        logical_block: LOGICAL_BLOCK,
    };
    let opened = pool.open_volume(&name, options);
    opened.map_err(|error| dataset_failure(error).message)
}

fn tell(
    name: &PoolName,
    inspected: &Inspected,
    shown: &Shown,
    out: Printer,
) -> Result<(), Failure> {
    let exports = shown.exports.iter().map(|one| {
        json!({
            "name": one.name, "size": one.size, "uri": one.uri.as_ref().ok(), "problem": one.uri.as_ref().err(),
        })
    });
    let document = json!({
        "pool": name,
        "newest_group": inspected.newest_group,
        "newest_time_s": inspected.newest_time_s,
        "exports": exports.collect::<Vec<_>>(),
    });
    out.either(&document, || {
        let mut text = format!(
            "pool {name}, as of transaction group {} of {}, for inspection:\n",
            inspected.newest_group,
            calendar::utc(inspected.newest_time_s)
        );
        for one in &shown.exports {
            let how = match &one.uri {
                Ok(uri) => uri.clone(),
                Err(why) => format!("cannot be read: {why}"),
            };
            text += &format!("  {} ({}): {how}\n", one.name, bytes(one.size));
        }
        text + "\nCtrl-C ends it.\n"
    })
}
