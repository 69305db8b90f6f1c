//! The wait of a booting head for the other heads.

use crate::file::{Appliance, QuorumRule};

/// The script that runs before Pacemaker.
pub const AWAIT_HEADS_PATH: &str = "/etc/bulkhead/await-heads";
/// The drop-in of Pacemaker's unit that runs it.
pub const PACEMAKER_UNIT_PATH: &str = "/etc/systemd/system/pacemaker.service.d/bulkhead.conf";

/// The script without the heads and the limit. It uses the age of Corosync, so that a restart of Pacemaker alone, long
/// after the boot, does not wait. It reads `/proc/uptime`, because the clock can be set during boot.
const LOOP: &str = r#"
[ "$limit_s" -gt 0 ] || exit 0
ticks=$(getconf CLK_TCK)
now_s() { cut -d. -f1 /proc/uptime; }
corosync_age_s() {
    pid=$(cat /run/corosync.pid) && stat=$(cat "/proc/$pid/stat") || { echo 0; return; }
    set -- ${stat##*) }
    echo $(($(now_s) - ${20} / ticks))
}
begin_s=$(now_s)
while :; do
    joined=$(timeout 2 corosync-cmapctl runtime.members. 2>/dev/null | grep -c '= joined$')
    [ "$joined" -lt "$heads" ] || exit 0
    if [ $(($(now_s) - begin_s)) -ge "$limit_s" ] || [ "$(corosync_age_s 2>/dev/null)" -ge "$limit_s" ]; then
        echo "$joined of $heads heads are members after $limit_s s: Pacemaker starts, and may power the other heads off" >&2
        exit 0
    fi
    sleep 0.2
done
"#;

/// Returns a script that blocks until Corosync sees all heads, for a bounded time. Pacemaker powers off every head that
/// it has never seen. With a majority or a witness a head that boots first could do so while the other heads still
/// boot.
pub fn await_heads_script(appliance: &Appliance) -> String {
    let quorum = appliance.quorum.as_ref();
    let limit_s = match quorum.map(|quorum| quorum.rule) {
        Some(QuorumRule::Witness | QuorumRule::Majority) => appliance.timeouts().boot_wait_s,
        // Without the other head there is no quorum, so that Pacemaker powers nothing off. A single head has no other
        // head to wait for.
        Some(QuorumRule::TwoNode) | None => 0,
    };
    format!(
        "#!/bin/sh\n{}\n# Run before Pacemaker starts: wait for the other heads, which may still boot.\n\
         heads={}\nlimit_s={limit_s}\n{LOOP}",
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
    use super::*;

    fn script(text: &str) -> String {
        await_heads_script(&crate::parse(text).expect("well formed").appliance)
    }

    #[test]
    fn heads_wait_for_each_other_where_one_of_them_could_act_alone() {
        let witness = script(include_str!("../../../../examples/witness.toml"));
        assert!(witness.contains("heads=2\nlimit_s=60\n"), "{witness}");
        let three = script(include_str!("../../../../examples/legs-three-heads.toml"));
        assert!(three.contains("heads=3\nlimit_s=60\n"), "{three}");
        let pair = script(include_str!("../../../../examples/pair.toml"));
        assert!(pair.contains("limit_s=0\n"), "{pair}");
        let single = script(include_str!("../../../../examples/single.toml"));
        assert!(single.contains("heads=1\nlimit_s=0\n"), "{single}");
    }
}
