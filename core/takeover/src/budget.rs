//! The time budget of a takeover: the constants that determine how long clients are paused when a disk, a cable, a
//! process or a head fails, and which of them must be shorter than which.
//!
//! The time-outs that an administrator can set (`[timeouts]`, with their profiles) are in
//! `core/appliance/src/timeouts.rs`; a test there compares each profile with this table. The assertions at the end stop
//! the build where an inequality does not hold. [`TABLE`] is a part of `docs/formats/appliance.md`, which a test of
//! `appliance` compares with it.

use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Defines the constants, and the table of them.
macro_rules! budget {
    ($($(#[doc = $doc:literal])+ $name:ident = $milliseconds:expr, $what:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: Duration = ms($milliseconds);)+

        /// Each constant: its name, its value, and the operation that it bounds.
        pub const TABLE: &[(&str, Duration, &str)] = &[$((stringify!($name), $name, $what),)+];
    };
}

budget! {
    /// Pause before Pacemaker plans the response to an event. A controller that comes to plan while its own updates of
    /// the CIB are active sleeps for a whole second. The loss of a head causes about ten updates, done after 35 ms, or
    /// 45 to 75 on a busy host. Every takeover contains this pause.
    TRANSITION_DELAY = 80, "Pacemaker collects events before it plans";
    /// The same where a witness votes: corosync-qdevice queries it for 0.3 s after the loss of a head, and the updates
    /// are delayed for that long.
    TRANSITION_DELAY_WITNESS = 400, "the same with a witness";

    /// Interval at which the watch of a pool's server checks that it responds.
    WATCH_INTERVAL = 100, "the watch of a server checks that it responds";
    /// The response time-out of a monitor of Pacemaker is a tenth of the monitor's time-out, but not less than this.
    /// Healthy hosts stall for a shorter time.
    MONITOR_RESPONSE_MIN = 300, "a server's response to a monitor, at least";
    /// See [`MONITOR_RESPONSE_MIN`]: not more than this.
    MONITOR_RESPONSE_MAX = 3_000, "a server's response to a monitor, at most";
    /// The response time-out of a stop is a hundredth of the stop's time-out, but not less than this. It is short:
    /// clients are paused already, and a server that is killed loses nothing that it acknowledged.
    STOP_RESPONSE_MIN = 200, "a server's response to a stop, at least; then it is killed";
    /// See [`STOP_RESPONSE_MIN`]: not more than this.
    STOP_RESPONSE_MAX = 1_000, "a server's response to a stop, at most";

    /// Without a byte from a leg's lender for this long while I/O is pending, the lender's liveness is checked.
    LEG_SILENCE = 250, "pending I/O of a leg of another head, then its lender is checked";
    /// Time for the lender to respond to that check. A process that gets a processor needs a few milliseconds.
    LEG_LIFE_WAIT = 600, "the lender's response to that check; then its leg has failed";
    /// Time-out of one I/O of a leg of another head, whether its lender responds or not.
    LEG_DEADLINE = 2_000, "one I/O of a leg of another head";
    /// The same for the device driver above it: the leg reports its failure first.
    DEVICE_DEADLINE = 2_500, "the same, in the device driver above it";
    /// Grace of a leg in use after its connection was lost, until it counts as failed; writes are paused for that long.
    /// A lender that was restarted has lost the leg in any case, so this is for short interruptions of the network.
    RESUME_WAIT = 600, "a lost connection to a leg in use is resumed";

    /// A member that was silent for this long is suspected, where two heads have no witness.
    MISSED = 1_000, "two heads without a witness: a silent head is suspected";
    /// A member without a connection for this long is not waited for.
    UNREACHABLE_WAIT = 1_000, "a start awaits members without a connection";
    /// The same for a head without a process of the pool, as the cluster has verified.
    STOPPED_WAIT = 200, "the same, if the cluster has verified that the owner was stopped";
    /// The same for a head that was fenced.
    FENCED_WAIT = 100, "the same, if the owner was fenced";
    /// The same for the member of this head: without it no decision is possible.
    OWN_WAIT = 5_000, "the same for the member of this head";
    /// A request without a response is sent again after this time, on the same connection, too.
    REQUEST_AGAIN = 1_000, "a request to a member without a response is sent again";
    /// Interval of the heartbeats on a connection between members without other messages.
    ALIVE_INTERVAL = 500, "heartbeats between members";
    /// A connection between members is given up if TCP has not acknowledged for this long: a cable is cut, and another
    /// path may exist. A member that is blocked on its disk acknowledges nevertheless.
    ACKNOWLEDGE_WAIT = 1_000, "TCP's acknowledgement between members";
    /// A connection between members is given up without a whole message for this long.
    SILENCE_MAX = 8_000, "a whole message between members";
    /// A member that did not run for this long may have been treated as off: it discards its state.
    FREEZE = 4_000, "a member that did not run discards its state";
    /// Where two heads have no witness, an administrator's confirmation that the other head is off is accepted after
    /// this silence.
    CONFIRMED_SILENCE = 5_000, "silence of a head before a person's confirmation counts";

    /// A head that boots alone starts its pools after the witness did not hear the other head for this long.
    SILENT_AT_WITNESS = 15_000, "silence of a head at the witness before the other head starts alone";

    /// Interval of the heartbeats of a head to the witness, in addition to [`ALIVE_INTERVAL`].
    WITNESS_HEARTBEAT = 100, "heartbeats of a head to the witness";
    /// A head that was silent at the witness for this long is powered off without further conditions. The other head
    /// requests that after the token has expired, so a lost head has been silent for long enough.
    SILENT_BEFORE_FENCE = 300, "silence of a lost head at the witness before the other head powers it off";
    /// The witness consents to a fence only if it received heartbeats of the requesting head for this long, without a
    /// gap of [`SILENT_BEFORE_FENCE`]. After an outage of both heads, a healthy head reconnects in a shorter time, so the
    /// outage is not mistaken for the loss of a head.
    STEADY_BEFORE_FENCE = 3_000, "heartbeats without a gap of the head that powers the other one off";
    /// A head that is lost and alive at the witness is powered off after this time, if its records still allow the other
    /// head to open its pools: it had the time to exclude the legs of that head. Twice as long for the head with the
    /// greater number, so that two heads do not power each other off.
    FENCE_YIELD = 5_000, "a lost head that is alive at the witness may exclude the legs of the other one";
    /// A power-off that would stop a pool which the requesting head cannot open is refused after this time.
    FENCE_REFUSAL = 30_000, "a power-off that would stop a pool for good is refused";

    /// The worst pause of a fault that redundancy hides (a leg, a disk of a mirror, a link), as promised.
    PROMISED_HIDDEN = 3_000, "promised: the worst pause of a fault that redundancy hides";
    /// Lease of clients of file systems: a client that is silent for longer loses its opens and locks. The grace period
    /// after a takeover has the same length.
    STATE_LEASE = 20_000, "lease of open files and locks, and grace period after a takeover";
}

const fn assert_shorter(shorter: Duration, longer: Duration) {
    assert!(shorter.as_millis() < longer.as_millis());
}

/// The inequalities, each with its reason.
const _: () = {
    // Liveness of a lender is known before its I/O has timed out, so a dead one costs less than a slow one.
    assert_shorter(LEG_SILENCE.saturating_add(LEG_LIFE_WAIT), LEG_DEADLINE);
    // The leg's own report names the reason; the device driver's would be a bare time-out.
    assert_shorter(LEG_DEADLINE, DEVICE_DEADLINE);
    // A hung leg, and a lost connection, pause clients for less than promised.
    assert_shorter(DEVICE_DEADLINE, PROMISED_HIDDEN);
    assert_shorter(RESUME_WAIT, LEG_DEADLINE);
    // The stronger the proof that the owner does not run, the shorter the wait of a start for its
    // legs.
    assert_shorter(FENCED_WAIT, STOPPED_WAIT);
    assert_shorter(STOPPED_WAIT, UNREACHABLE_WAIT);
    // A live head sends a heartbeat before it is suspected.
    assert_shorter(ALIVE_INTERVAL, MISSED);
    assert_shorter(ALIVE_INTERVAL, SILENCE_MAX);
    // TCP notices a cut cable before the messages do: another path is tried while the member still counts.
    assert_shorter(ACKNOWLEDGE_WAIT, SILENCE_MAX);
    // A head that was frozen while an administrator confirmed that it is off discards its state when it runs again.
    assert_shorter(FREEZE, CONFIRMED_SILENCE);
    // A witness that was frozen for a shorter time than it notices, or a head that reconnects to it, does not count as silence.
    assert_shorter(FREEZE.saturating_add(SILENCE_MAX), SILENT_AT_WITNESS);
    // A heartbeat that is late by one interval, on a host that stalls, is not silence.
    assert_shorter(
        WITNESS_HEARTBEAT.saturating_add(WITNESS_HEARTBEAT),
        SILENT_BEFORE_FENCE,
    );
    // A head that became silent, and then requests a fence itself, requests it after the other head's power-off.
    assert_shorter(SILENT_BEFORE_FENCE, STEADY_BEFORE_FENCE);
    // An owner excludes the legs of a lost head before that head may power it off.
    assert_shorter(PROMISED_HIDDEN, FENCE_YIELD);
    // The head with the greater number has its turn before its request is refused.
    assert_shorter(FENCE_YIELD.saturating_add(FENCE_YIELD), FENCE_REFUSAL);
    // A server that is only slow is not killed by the watch between two checks.
    assert_shorter(WATCH_INTERVAL, MONITOR_RESPONSE_MIN);
    assert_shorter(MONITOR_RESPONSE_MIN, MONITOR_RESPONSE_MAX);
    assert_shorter(STOP_RESPONSE_MIN, STOP_RESPONSE_MAX);
    // Corosync has queried the witness before Pacemaker plans.
    assert_shorter(TRANSITION_DELAY, TRANSITION_DELAY_WITNESS);
};
