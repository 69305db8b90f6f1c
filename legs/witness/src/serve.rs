//! The running witness.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use leg_record::MemberId;
use members::{Member, PoolState, Server};
use tokio::net::TcpListener;

use crate::{Head, Paths, ServeArgs, control_socket, identity};

/// Threads that write records; further messages are queued.
const WRITERS_MAX: usize = 8;
/// Pause between two keep-alives to the service manager.
const TICK: Duration = Duration::from_millis(500);

/// Serves until it is killed. Needs no shutdown.
pub fn run(args: &ServeArgs, place: &Paths) -> anyhow::Result<()> {
    output::set_log_nonblocking();
    output::start_log(output::Style::default());
    check(args)?;
    let identity = identity::load_or_make(&place.folder)?;
    let _lock = lock(&place.folder)?;
    let boot = getrandom::u64().map_err(|error| anyhow!("make a random number: {error}"))?;
    let member = Member::open(
        &place.folder,
        MemberId(args.number),
        boot,
        Box::new(|_| false),
    );
    let member = member.with_context(|| format!("read {}", place.folder.display()))?;
    let member = Arc::new(member.as_witness());
    let friends = args.heads.iter().map(|head| head.0).collect();
    let server = Server::new(Arc::clone(&member), &identity, friends, |_, _| {})
        .context("use the key of this witness")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(WRITERS_MAX)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let mut listening = Vec::new();
        for address in &args.listen {
            let listener = TcpListener::bind(address).await;
            let listener = listener.with_context(|| format!("listen on {address}"))?;
            listening.push(listener.local_addr()?.to_string());
            tokio::spawn(Arc::clone(&server).serve(listener));
        }
        let desk = control_socket::open(&place.desk)?;
        tokio::spawn(control_socket::serve(
            desk,
            Arc::clone(&member),
            Arc::clone(&server),
        ));
        let line = format!("listening {}\n", listening.join(" "));
        output::Line::default().write_line(std::io::stdout().as_fd(), line.as_bytes());
        tracing::info!(
            number = args.number,
            fingerprint = %identity.fingerprint(),
            listening = listening.join(" "),
            "the witness serves records"
        );
        attend(&member).await
    })
}

fn check(args: &ServeArgs) -> anyhow::Result<()> {
    let mut numbers = vec![args.number];
    let mut fingerprints = Vec::new();
    for Head(head) in &args.heads {
        let number = head.member.0;
        if numbers.contains(&number) {
            bail!(
                "the number {number} is given twice: each head, and the witness, has one of its own"
            );
        }
        numbers.push(number);
        // A head with that key would be taken for the first of them.
        if fingerprints.contains(&head.fingerprint) {
            bail!(
                "the fingerprint of head {number} is given to another head, too: each head has a key of its own; \
                 `bulkhead leg-server fingerprint` on that head prints the right one"
            );
        }
        fingerprints.push(head.fingerprint);
    }
    Ok(())
}

/// Only one process at a time may use a directory.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    members::lock_file(&path).with_context(|| match path.exists() {
        true => format!(
            "{} cannot be locked: another witness uses this directory",
            path.display()
        ),
        false => format!("open {}", path.display()),
    })
}

/// Reports the state to the service manager.
async fn attend(member: &Member) -> anyhow::Result<()> {
    let mut supervisor = output::Supervisor::from_environment();
    supervisor.ready(&summary(member));
    loop {
        tokio::time::sleep(TICK).await;
        supervisor.tick(&summary(member));
    }
}

fn summary(member: &Member) -> String {
    let states = member.states();
    let silent = states
        .values()
        .filter(|state| matches!(state, PoolState::Silent(_) | PoolState::Lost))
        .count();
    let remembered = states.len() - silent;
    match silent {
        0 => format!("has records of {remembered} pools"),
        _ => format!(
            "has records of {remembered} pools, does not respond for {silent}: see `bulkhead-witness status`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for heads with these numbers and fingerprints.
    fn judged(heads: &[(u64, &str)]) -> Option<String> {
        let head = |(number, digits): &(u64, &str)| {
            let text = format!("{number}={}", digits.repeat(32));
            text.parse().expect("a head")
        };
        let args = ServeArgs {
            number: 3,
            listen: Vec::new(),
            heads: heads.iter().map(head).collect(),
        };
        check(&args).err().map(|error| error.to_string())
    }

    #[test]
    fn each_head_has_its_own_number_and_key() {
        assert_eq!(judged(&[(1, "0a"), (2, "0b")]), None);
        for (heads, part) in [
            ([(1, "0a"), (1, "0b")], "number 1 is given twice"),
            ([(1, "0a"), (3, "0b")], "number 3 is given twice"),
            ([(1, "0a"), (2, "0a")], "fingerprint of head 2 is given to"),
        ] {
            let said = judged(&heads).expect("refused");
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
