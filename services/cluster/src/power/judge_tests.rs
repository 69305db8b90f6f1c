//! Sequences of replies, with the action after each. Two heads, `left` and `right`; both have the supplies `a` and `b`,
//! or one each.

use super::*;

const PAIR: &str = include_str!("../../../../examples/pair.toml");
/// Both heads have both supplies.
const SHARED: &str =
    "[ups.feeds.a]\nups = \"a@10.77.9.51\"\n[ups.feeds.b]\nups = \"b@10.77.9.52\"\n";
/// Each head has one.
const OWN: &str = "[ups.feeds.a]\nups = \"a@10.77.9.51\"\nheads = [\"left\"]\n\
                   [ups.feeds.b]\nups = \"b@10.77.9.52\"\nheads = [\"right\"]\n";

fn head(name: &str) -> HeadName {
    name.parse().expect("a name")
}

/// A cluster that does at once what is requested.
struct World {
    appliance: Appliance,
    judges: BTreeMap<HeadName, Judge>,
    cluster: ClusterView,
    left: BTreeSet<HeadName>,
    off: BTreeSet<HeadName>,
    now: Duration,
    log: Vec<String>,
}

impl World {
    fn new(feeds: &str) -> Self {
        let text = format!("{PAIR}\n[ups]\nshutdown_below = 40\nshutdown_runtime_s = 120\n{feeds}");
        let appliance = appliance::parse(&text).expect("well formed").appliance;
        let heads: BTreeSet<HeadName> = appliance.heads.keys().cloned().collect();
        Self {
            judges: heads
                .iter()
                .map(|head| (head.clone(), Judge::default()))
                .collect(),
            cluster: ClusterView {
                busy: [head("left")].into(),
                members: heads,
                ..ClusterView::default()
            },
            appliance,
            left: BTreeSet::new(),
            off: BTreeSet::new(),
            now: Duration::ZERO,
            log: Vec::new(),
        }
    }

    /// Five seconds pass, and each supply replies to `by` with its text: `OL`, `OB 80`, `OB LB`, `-` for silence, or `ERR` for an error of `upsd`.
    fn round_by(&mut self, by: &[&str], replies: [&str; 2]) {
        self.now += Duration::from_secs(5);
        let ups = self.appliance.ups.clone().expect("listed");
        for name in by.iter().map(|name| head(name)) {
            if self.off.contains(&name) {
                continue;
            }
            let judge = self.judges.get_mut(&name).expect("a head");
            for (feed, reply) in ["a", "b"].into_iter().zip(replies) {
                let charge = reply.split(' ').find(|word| word.parse::<u8>().is_ok());
                let silence = |is_refused| Silence {
                    why: "no reply".to_owned(),
                    is_refused,
                };
                let reading = match reply {
                    "-" => Err(silence(false)),
                    "ERR" => Err(silence(true)),
                    status => Ok(Reading::of(status, charge, None)),
                };
                judge.note(feed, reading, Limits::of(&ups), self.now);
            }
            let is_member = self.cluster.members.contains(&name);
            let cluster = is_member.then(|| self.cluster.clone());
            let has_left = self.left.contains(&name);
            let action = judge.decide(&self.appliance, &name, cluster.as_ref(), has_left, self.now);
            self.perform(&name, action);
        }
    }

    fn round(&mut self, replies: [&str; 2]) {
        self.round_by(&["left", "right"], replies);
    }

    /// The same, so much later that a low battery counts.
    fn later(&mut self, replies: [&str; 2]) {
        self.now += LOW_WAIT;
        self.round(replies);
    }

    fn perform(&mut self, by: &HeadName, action: Action) {
        if action != Action::None {
            self.log.push(format!("{by}: {action}"));
        }
        match action {
            Action::None => {}
            Action::Mark(heads) => {
                for head in heads {
                    self.cluster.marks.insert(head, by.clone());
                }
            }
            Action::Release(heads) => self.cluster.marks.retain(|head, _| !heads.contains(head)),
            Action::Leave => {
                self.cluster.members.remove(by);
                self.cluster.marks.remove(by);
                self.left.insert(by.clone());
            }
            Action::Return => {
                self.left.remove(by);
                self.cluster.members.insert(by.clone());
            }
            Action::PowerOff => {
                self.off.insert(by.clone());
            }
        }
    }

    /// Pacemaker has moved or stopped all pools of marked heads.
    fn settle(&mut self) {
        let ClusterView {
            members,
            busy,
            marks,
        } = &mut self.cluster;
        let other = members.iter().find(|head| !marks.contains_key(*head));
        if busy.iter().any(|head| marks.contains_key(head)) {
            *busy = other.cloned().into_iter().collect();
        }
    }

    #[track_caller]
    fn assert_log(&mut self, wanted: &[&str]) {
        assert_eq!(std::mem::take(&mut self.log), wanted);
    }
}

const MARK_BOTH: &str = "left: standby of left, right, for lack of power";
const LEAVE: [&str; 2] = [
    "left: stop Pacemaker and Corosync, for lack of power",
    "right: stop Pacemaker and Corosync, for lack of power",
];

#[test]
fn both_supplies_low_shut_down_in_order_by_one_head() {
    let mut world = World::new(SHARED);
    world.round(["OL", "OL"]);
    world.round(["OB 80", "OL"]);
    world.round(["OB 80", "OB 80"]);
    // One low reply may be a test of the UPS.
    world.round(["OB 40", "OB LB"]);
    world.assert_log(&[]);
    for _ in 0..5 {
        world.round(["OB 39", "OB LB"]);
        world.assert_log(&[]);
    }
    world.round(["OB 39", "OB LB"]);
    world.assert_log(&[MARK_BOTH]);
    // The pools stop.
    world.round(["OB 38", "OB LB"]);
    world.assert_log(&[]);
    world.settle();
    world.round(["OB 38", "OB LB"]);
    world.assert_log(&LEAVE);
    world.round(["OB 38", "OB LB"]);
    world.assert_log(&["left: power off", "right: power off"]);
}

#[test]
fn one_low_supply_of_two_changes_nothing() {
    let mut world = World::new(SHARED);
    for replies in [
        ["OB LB", "OL"],
        ["FSD OB LB", "OL"],
        ["OB LB", "OB 90"],
        ["OB LB", "-"],
        ["-", "-"],
    ] {
        for _ in 0..9 {
            world.round(replies);
            world.assert_log(&[]);
        }
        // The latch of a low supply is released by its next reply.
        world.round(["OL", "OL"]);
    }
}

#[test]
fn pools_leave_a_head_that_depends_on_the_low_supply_only() {
    let mut world = World::new(OWN);
    world.round(["OB 30", "OL"]);
    world.later(["OB 30", "OL"]);
    world.assert_log(&["left: standby of left, for lack of power"]);
    world.round(["OB 30", "OL"]);
    world.assert_log(&[]);
    world.settle();
    assert_eq!(world.cluster.busy, [head("right")].into());
    world.round(["OB 30", "OL"]);
    world.assert_log(&LEAVE[..1]);
    world.round(["OB 30", "OL"]);
    world.assert_log(&["left: power off"]);
    // Later the other supply is low, too.
    world.round(["OB 30", "OB 30"]);
    world.later(["OB 30", "OB 30"]);
    world.assert_log(&["right: standby of right, for lack of power"]);
    world.cluster.busy.clear();
    world.round(["OB 30", "OB 30"]);
    world.round(["OB 30", "OB 30"]);
    world.assert_log(&[LEAVE[1], "right: power off"]);
}

#[test]
fn power_that_returns_reverts_each_step() {
    // While the pools stop.
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    world.later(["OB LB", "OB LB"]);
    world.assert_log(&[MARK_BOTH]);
    for _ in 0..3 {
        world.round(["OL LB", "OL LB"]);
        world.settle();
        world.assert_log(&[]);
    }
    world.round(["OL LB", "OL LB"]);
    world.assert_log(&["left: end of the standby of left, right: the power is back"]);
    world.round(["OL", "OL"]);
    world.assert_log(&[]);
    // After the cluster has stopped.
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    world.later(["OB LB", "OB LB"]);
    world.settle();
    world.round(["OB LB", "OB LB"]);
    world.log.clear();
    for _ in 0..3 {
        world.round(["OL", "-"]);
        world.assert_log(&[]);
    }
    world.round(["OL", "-"]);
    world.assert_log(&[
        "left: start Corosync and Pacemaker: the power is back",
        "right: start Corosync and Pacemaker: the power is back",
    ]);
    world.round(["OL", "OL"]);
    world.assert_log(&[]);
    assert_eq!(world.cluster.members.len(), 2);
}

#[test]
fn flapping_mains_do_not_end_the_standby() {
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    world.later(["OB LB", "OB LB"]);
    world.log.clear();
    for _ in 0..5 {
        world.round(["OL", "OB LB"]);
        world.round(["OB 99", "OB LB"]);
    }
    world.assert_log(&[]);
}

/// The host of `upsd` is without power before the heads are.
#[test]
fn silence_after_low_continues_the_shutdown_and_silence_alone_begins_none() {
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    world.later(["-", "-"]);
    world.assert_log(&[MARK_BOTH]);
    world.settle();
    world.round(["-", "-"]);
    world.round(["-", "-"]);
    assert_eq!(world.off.len(), 2);
    let mut world = World::new(SHARED);
    world.round(["OB 90", "OB 90"]);
    for _ in 0..100 {
        world.round(["-", "-"]);
    }
    world.assert_log(&[]);
}

#[test]
fn pending_fence_does_not_delay_the_shutdown() {
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    // right is lost now, and not confirmed to be off: it is no member.
    world.cluster.members.remove(&head("right"));
    world.now += LOW_WAIT;
    world.round_by(&["left"], ["OB LB", "OB LB"]);
    world.assert_log(&["left: standby of left, for lack of power"]);
    world.cluster.busy.clear();
    world.round_by(&["left"], ["OB LB", "OB LB"]);
    world.round_by(&["left"], ["OB LB", "OB LB"]);
    world.assert_log(&[LEAVE[0], "left: power off"]);
}

#[test]
fn head_without_replies_is_stopped_by_the_other_one() {
    let mut world = World::new(SHARED);
    for _ in 0..2 {
        world.round_by(&["left"], ["-", "-"]);
        world.round_by(&["right"], ["OB LB", "OB LB"]);
        world.now += LOW_WAIT;
    }
    world.now -= LOW_WAIT;
    world.assert_log(&[]);
    // The first head does not act, so the second one does after a while.
    world.round_by(&["right"], ["OB LB", "OB LB"]);
    world.round_by(&["right"], ["OB LB", "OB LB"]);
    world.assert_log(&["right: standby of left, right, for lack of power"]);
    world.settle();
    world.round_by(&["left"], ["-", "-"]);
    world.assert_log(&LEAVE[..1]);
    // Without own replies it stays on, in case the mains are back.
    world.round_by(&["left"], ["-", "-"]);
    world.assert_log(&[]);
}

#[test]
fn head_that_sees_mains_does_not_leave_for_another_one() {
    let mut world = World::new(SHARED);
    let right = head("right");
    world.cluster.marks = [(head("left"), right.clone()), (right.clone(), right)].into();
    world.cluster.busy.clear();
    for _ in 0..9 {
        world.round_by(&["left"], ["OL", "-"]);
    }
    world.assert_log(&[]);
    // The head that marked it is gone.
    world.cluster.members.remove(&head("right"));
    world.cluster.marks.remove(&head("right"));
    world.round_by(&["left"], ["OL", "-"]);
    world.assert_log(&["left: end of the standby of left: the power is back"]);
}

#[test]
fn host_without_a_cluster_switches_off_after_a_while() {
    let mut world = World::new(SHARED);
    world.cluster.members.clear();
    // It was alone for a long time before.
    world.now += ALONE_WAIT;
    world.round_by(&["left"], ["OL", "OL"]);
    for _ in 0..12 {
        world.round_by(&["left"], ["OB LB", "OB LB"]);
        world.assert_log(&[]);
    }
    world.round_by(&["left"], ["OB LB", "OB LB"]);
    world.assert_log(&["left: power off"]);
}

#[test]
fn test_of_a_ups_and_a_glitch_of_its_cable_switch_nothing_off() {
    let mut world = World::new(SHARED);
    for after in ["OL", "ERR"] {
        for _ in 0..5 {
            world.round(["OB LB", "OB LB"]);
        }
        for _ in 0..20 {
            world.round([after, after]);
        }
        world.assert_log(&[]);
        world.round(["OL", "OL"]);
    }
}

#[test]
fn supply_that_was_lost_on_battery_counts_beside_a_low_one_for_a_while() {
    let mut world = World::new(SHARED);
    world.round(["OB 90", "OB 45"]);
    world.round(["OB LB", "-"]);
    world.later(["OB LB", "-"]);
    world.assert_log(&[MARK_BOTH]);
    // Its battery would be empty long ago.
    let mut world = World::new(SHARED);
    world.round(["OL", "OB LB"]);
    world.round(["OL", "-"]);
    world.now += SILENCE_MAX;
    for _ in 0..9 {
        world.later(["OB LB", "-"]);
    }
    world.assert_log(&[]);
}

#[test]
fn another_ups_of_the_same_name_has_no_past() {
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    let mut ups = world.appliance.ups.clone().expect("listed");
    for judge in world.judges.values_mut() {
        judge.retain(&ups);
    }
    for feed in ups.feeds.values_mut() {
        feed.ups.name.push('2');
    }
    for judge in world.judges.values_mut() {
        judge.retain(&ups);
    }
    for _ in 0..3 {
        world.later(["-", "-"]);
    }
    world.assert_log(&[]);
}

#[test]
fn lost_reply_after_the_mains_returned_makes_no_head_leave() {
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    world.later(["OB LB", "OB LB"]);
    world.assert_log(&[MARK_BOTH]);
    world.settle();
    world.round(["OL", "OL"]);
    for _ in 0..20 {
        world.round(["-", "-"]);
    }
    world.assert_log(&[]);
    // A head that has left and still runs after a long time has power.
    let mut world = World::new(SHARED);
    world.round(["OB LB", "OB LB"]);
    world.later(["OB LB", "OB LB"]);
    world.settle();
    world.round(["OB LB", "OB LB"]);
    world.log.clear();
    world.round(["ERR", "ERR"]);
    world.now += BLIND_RETURN_WAIT;
    world.round(["ERR", "ERR"]);
    assert_eq!(world.log.len(), 2, "{:?}", world.log);
    assert!(world.log[0].contains("start Corosync"), "{:?}", world.log);
}

#[test]
fn calibration_is_no_failure_and_a_forced_shutdown_is_at_once() {
    let mut world = World::new(SHARED);
    for _ in 0..9 {
        world.round(["OB CAL 20 LB", "OB CAL 20 LB"]);
    }
    world.assert_log(&[]);
    world.round(["FSD OL", "FSD OB"]);
    world.assert_log(&[MARK_BOTH]);
}

#[test]
fn each_unusual_state_is_a_sentence() {
    let mut world = World::new(SHARED);
    let ups = world.appliance.ups.clone().expect("listed");
    let judge = world.judges.get_mut(&head("left")).expect("a head");
    let mut sentences = |a: Result<Reading, Silence>, charge| {
        let (limits, b) = (Limits::of(&ups), Reading::of("OL", Some(charge), None));
        judge.note("a", a, limits, Duration::ZERO);
        judge.note("b", Ok(b), limits, Duration::ZERO);
        judge.problems(&world.appliance)
    };
    let of = |status, charge| Ok(Reading::of(status, Some(charge), Some("600")));
    assert_eq!(sentences(of("OL", "100"), "100"), [""; 0]);
    let told = sentences(of("OB", "70"), "300");
    assert_eq!(
        told,
        [
            "the power supply a runs on its battery, 70 percent left, for 10 min 0 s",
            "the power supply b: it reports a charge of 300 percent, which is ignored"
        ]
    );
    let told = sentences(of("OFF", "70"), "9");
    assert_eq!(
        told,
        ["the power supply a reports \"OFF\": neither mains nor battery"]
    );
    let told = sentences(
        Err(Silence {
            why: "upsd refuses the password".to_owned(),
            is_refused: true,
        }),
        "9",
    );
    assert_eq!(
        told,
        ["the state of the power supply a is not known: upsd refuses the password"]
    );
    let told = sentences(Ok(Reading::of("FSD", None, None)), "9");
    assert_eq!(told, ["the battery of the power supply a is low"]);
}
