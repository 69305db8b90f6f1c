//! The wait of a booting head for the other heads.

use crate::file::{Appliance, QuorumRule};

/// The script that runs before Pacemaker.
pub const AWAIT_HEADS_PATH: &str = "/etc/bulkhead/await-heads";
/// The drop-in of Pacemaker's unit that runs it.
pub const PACEMAKER_UNIT_PATH: &str = "/etc/systemd/system/pacemaker.service.d/bulkhead.conf";

/// Why the script still blocks, in one line. `/run` is empty after a boot.
pub const AWAIT_HEADS_REASON_PATH: &str = "/run/bulkhead/await-heads";

/// The begin of the script, after the heads and the limit. It uses the age of Corosync, so that a restart of Pacemaker
/// alone, long after the boot, does not wait. It reads `/proc/uptime`, because the clock can be set during boot.
const BEGIN: &str = r#"
[ "$limit_s" -gt 0 ] || exit 0
ticks=$(getconf CLK_TCK)
now_s() { cut -d. -f1 /proc/uptime; }
corosync_age_s() {
    pid=$(cat /run/corosync.pid) && stat=$(cat "/proc/$pid/stat") || { echo 0; return; }
    set -- ${stat##*) }
    echo $(($(now_s) - ${20} / ticks))
}
begin_s=$(now_s)
note() { mkdir -p "${reason%/*}" && echo "$1" >"$reason"; }
is_late() { [ $(($(now_s) - begin_s)) -ge "$limit_s" ] || [ "$(corosync_age_s 2>/dev/null)" -ge "$limit_s" ]; }
"#;

/// The action after the limit: Pacemaker is started.
const START: &str = r#"
after_limit() {
    echo "$joined of $heads heads are members after $limit_s s: Pacemaker starts, and may power the other heads off" >&2
    rm -f "$reason"
    exit 0
}
next="then it starts without them"
"#;

/// The action after the limit: request the confirmation of the witness. `two_node` implies `wait_for_all`, so Corosync
/// keeps a head that boots alone without quorum. If anything here fails, that rule holds. An administrator can cancel it
/// by the same command.
const REQUEST_CONFIRMATION: &str = r#"
after_limit() {
    # It has seen the other head since it started, or an administrator has cancelled the wait.
    if timeout 2 corosync-quorumtool -s 2>/dev/null | grep -q '^Quorate: *Yes'; then rm -f "$reason"; exit 0; fi
    if reply=$(timeout 10 bulkhead leg-server may-start-alone 2>&1); then
        echo "$reply" >&2
        timeout 2 corosync-cmapctl -s quorum.cancel_wait_for_all u8 1 >&2
    elif reply=$(echo "$reply" | sed 's/^bulkhead: //;q'); [ "$reply" != "$(cat "$reason" 2>/dev/null)" ]; then
        echo "$reply" >&2
        note "$reply"
    fi
    sleep 1
}
next="then the witness is asked whether this head may serve pools without them"
"#;

/// The first note is written when a head is missing. Afterwards the action writes its own.
const LOOP: &str = r#"
rm -f "$reason"
while :; do
    joined=$(timeout 2 corosync-cmapctl runtime.members. 2>/dev/null | grep -c '= joined$')
    [ "$joined" -lt "$heads" ] || { rm -f "$reason"; exit 0; }
    if is_late; then after_limit
    elif [ "$joined" != "$noted" ]; then
        noted=$joined
        note "Pacemaker is not started yet: the other heads have $limit_s s to boot ($joined of $heads heads are members), and $next"
    fi
    sleep 0.2
done
"#;

/// Returns a script that blocks until Corosync sees all heads, for a bounded time. Pacemaker powers off every head that
/// it has never seen. With a majority or a witness a head that boots first could do so while the other heads still
/// boot. Two heads with legs and a witness that does not vote block until it confirms that the other head is not alive.
pub fn await_heads_script(appliance: &Appliance) -> String {
    let quorum = appliance.quorum.as_ref();
    let wait_s = appliance.timeouts().boot_wait_s;
    let (limit_s, after_limit) = match quorum.map(|quorum| quorum.rule) {
        Some(QuorumRule::Witness | QuorumRule::Majority) => (wait_s, START),
        Some(QuorumRule::TwoNode) if appliance.witness.is_some() => (wait_s, REQUEST_CONFIRMATION),
        // Without the other head there is no quorum, so that Pacemaker powers nothing off. A single head has no other
        // head to wait for.
        Some(QuorumRule::TwoNode) | None => (0, START),
    };
    format!(
        "#!/bin/sh\n{}\n# Run before Pacemaker starts: wait for the other heads, which may still boot.\n\
         heads={}\nlimit_s={limit_s}\nreason={AWAIT_HEADS_REASON_PATH}\n{BEGIN}{after_limit}{LOOP}",
        super::GENERATED,
        appliance.heads.len(),
    )
}

/// Returns the drop-in. It does not depend on the file, because systemd reads it only at the next boot. The script has
/// its own bound; a failure of the script does not prevent the start.
pub fn pacemaker_unit() -> String {
    format!(
        "{}\n\n[Service]\nExecStartPre=-{AWAIT_HEADS_PATH}\nTimeoutStartSec=infinity\n",
        super::GENERATED
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// `status` shows the reason. Without it a head that boots alone shows none for a minute.
    #[test]
    fn the_reason_of_the_wait_is_noted_from_its_begin_until_the_other_head_is_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let (reason, tool) = (
            directory.path().join("run/reason"),
            directory.path().join("corosync-cmapctl"),
        );
        let members = |count: usize| {
            let lines = (1..=count)
                .map(|number| format!("echo 'runtime.members.{number}.status (str) = joined'\n"));
            let text = format!("#!/bin/sh\n{}", lines.collect::<String>());
            let new = directory.path().join("new");
            std::fs::write(&new, text).expect("written");
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755))
                .expect("executable");
            std::fs::rename(&new, &tool).expect("renamed");
        };
        members(1);
        let text = script(include_str!(
            "../../../../examples/legs-two-heads-witness.toml"
        ));
        let text = text.replace(AWAIT_HEADS_REASON_PATH, reason.to_str().expect("UTF-8"));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut run = Command::new("sh")
            .args(["-c", &text])
            .env("PATH", format!("{}:{path}", directory.path().display()))
            .stdin(Stdio::null())
            .spawn()
            .expect("started");
        let eventually = |what: &str, mut is_done: Box<dyn FnMut() -> bool + '_>| {
            let deadline = Instant::now() + Duration::from_secs(30);
            while !is_done() {
                assert!(Instant::now() < deadline, "{what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let read = || std::fs::read_to_string(&reason).unwrap_or_default();
        eventually("the reason is noted", Box::new(|| read().contains('\n')));
        let noted = read();
        for part in ["60 s to boot", "1 of 2 heads", "the witness is asked"] {
            assert!(noted.contains(part), "{noted}");
        }
        members(2);
        eventually(
            "it is done",
            Box::new(|| run.try_wait().expect("waited for").is_some()),
        );
        assert!(!reason.exists());
    }

    fn script(text: &str) -> String {
        await_heads_script(&crate::parse(text).expect("well formed").appliance)
    }

    #[test]
    fn boot_waits_for_the_peer_if_one_head_has_quorum() {
        let witness = script(include_str!("../../../../examples/witness.toml"));
        assert!(witness.contains("heads=2\nlimit_s=60\n"), "{witness}");
        let three = script(include_str!("../../../../examples/legs-three-heads.toml"));
        assert!(three.contains("heads=3\nlimit_s=60\n"), "{three}");
        let pair = script(include_str!("../../../../examples/pair.toml"));
        assert!(pair.contains("limit_s=0\n"), "{pair}");
        assert!(!pair.contains("may-start-alone"), "{pair}");
        let legs = include_str!("../../../../examples/legs-two-heads-witness.toml");
        let vote = "rule = \"witness\"\n[quorum.witness]\naddress = \"10.77.9.31\"";
        let voting = script(&legs.replace("rule = \"two-node\"", vote));
        assert!(voting.contains("heads=2\nlimit_s=60\n"), "{voting}");
        assert!(!voting.contains("may-start-alone"), "{voting}");
        let legs = script(legs);
        assert!(legs.contains("heads=2\nlimit_s=60\n"), "{legs}");
        assert!(legs.contains("bulkhead leg-server may-start-alone"));
        let alone = script(include_str!("../../../../examples/legs-two-heads.toml"));
        assert!(alone.contains("limit_s=0\n"), "{alone}");
        let single = script(include_str!("../../../../examples/single.toml"));
        assert!(single.contains("heads=1\nlimit_s=0\n"), "{single}");
    }
}
