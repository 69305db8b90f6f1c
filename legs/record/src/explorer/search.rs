//! Explores every state that can be reached within the bounds, the nearest first, and prints the shortest path to one
//! that must not be.

use super::steps::Step;
use super::world::{Mixing, Setup, World, digest};
use crate::Notice;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt::Write as _;

thread_local! {
    static COVERED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

thread_local! {
    static REPORTED: RefCell<Vec<Notice>> = const { RefCell::new(Vec::new()) };
}

/// Stores a notice to the operator.
pub(super) fn note(notice: &Notice) {
    REPORTED.with_borrow_mut(|reported| {
        reported.clear();
        reported.push(notice.clone());
    });
}

/// The last notice to the operator.
pub(super) fn last_notice() -> Option<Notice> {
    REPORTED.take().pop()
}

/// Notes that an event was covered in this exploration: a model without events has no violations.
pub(super) fn cover(what: &'static str) {
    COVERED.with_borrow_mut(|covered| covered.insert(what));
}

/// The result of an exploration.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) depth: usize,
    /// Whether every state within the bounds was seen.
    pub(super) is_exhausted: bool,
    pub(super) violation: Option<Violation>,
    pub(super) covered: BTreeSet<&'static str>,
}

/// A forbidden state, and the steps to it.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) name: &'static str,
    pub(super) trace: Vec<Step>,
}

impl Violation {
    /// The steps, as [`replay`] accepts them, each with the message that it is about.
    pub(super) fn text(&self, setup: &Setup) -> String {
        let mut world = setup.world();
        let mut text = format!("{}, after {} steps:\n", self.name, self.trace.len());
        for step in &self.trace {
            let message = match step {
                Step::Deliver(key) | Step::Duplicate(key) | Step::Lose(key) => {
                    let sent = world.net.iter().find(|sent| sent.key == *key);
                    sent.map(|sent| format!("{:?}", sent.envelope))
                }
                _ => None,
            };
            let _ = writeln!(text, "  {step:?} {}", message.unwrap_or_default());
            world.take(setup, *step);
        }
        text
    }
}

/// Replays the steps of a trace.
pub(super) fn replay(setup: &Setup, trace: &[Step]) -> World {
    let mut world = setup.world();
    for step in trace {
        world.take(setup, *step);
    }
    world
}

/// Breadth first, up to `states_max` states.
pub(super) fn explore(setup: &Setup, states_max: usize) -> Found {
    COVERED.take();
    let first = setup.world();
    let mut seen: HashSet<u64, Mixing> = HashSet::with_hasher(Mixing);
    // For each state, its predecessor and the step from it.
    let mut ways: Vec<(u32, Step)> = vec![(0, Step::PowerLoss)];
    let mut queue = VecDeque::from([(first, 0_u32, 0_usize)]);
    let (mut depth, mut is_exhausted) = (0, true);
    seen.insert(digest(&queue[0].0));
    while let Some((world, number, at)) = queue.pop_front() {
        depth = depth.max(at);
        for step in world.steps(setup) {
            let mut next = world.clone();
            next.take(setup, step);
            if !seen.insert(digest(&next)) {
                continue;
            }
            ways.push((number, step));
            let index = ways.len() - 1;
            if let Some(name) = next.violation {
                let trace = trace_to(&ways, index);
                return Found {
                    states: ways.len(),
                    depth,
                    is_exhausted: false,
                    violation: Some(Violation { name, trace }),
                    covered: COVERED.take(),
                };
            }
            if ways.len() >= states_max {
                is_exhausted = false;
                continue;
            }
            queue.push_back((next, index as u32, at + 1));
        }
        if !is_exhausted {
            break;
        }
    }
    Found {
        states: ways.len(),
        depth,
        is_exhausted,
        violation: None,
        covered: COVERED.take(),
    }
}

fn trace_to(ways: &[(u32, Step)], mut index: usize) -> Vec<Step> {
    let mut trace = Vec::new();
    while index != 0 {
        trace.push(ways[index].1);
        index = ways[index].0 as usize;
    }
    trace.reverse();
    trace
}

/// Removes the steps of a trace that are not needed for its violation.
pub(super) fn shorten(setup: &Setup, violation: Violation) -> Violation {
    let Violation { name, mut trace } = violation;
    let mut size = trace.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < trace.len() {
            let end = (at + size).min(trace.len());
            let shorter = [&trace[..at], &trace[end..]].concat();
            match possible(setup, &shorter) {
                Some((found, length)) if found == name => {
                    trace = shorter;
                    trace.truncate(length);
                }
                _ => at += size,
            }
        }
        size /= 2;
    }
    Violation { name, trace }
}

/// The violation at the end of a trace and the number of steps to it, if every step is possible.
fn possible(setup: &Setup, trace: &[Step]) -> Option<(&'static str, usize)> {
    let mut world = setup.world();
    for (at, step) in trace.iter().enumerate() {
        if !world.steps(setup).contains(step) {
            return None;
        }
        world.take(setup, *step);
        if let Some(name) = world.violation {
            return Some((name, at + 1));
        }
    }
    None
}

/// Walks at random: deeper than an exhaustive search, and less thoroughly. The seed replays it.
pub(super) fn walk(setup: &Setup, seed: u64, steps_max: usize) -> Found {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = setup.world();
    let mut trace = Vec::new();
    for _ in 0..steps_max {
        let steps = world.steps(setup);
        let Some(step) = pick(&mut random, &world, &steps, seed) else {
            break;
        };
        world.take(setup, step);
        trace.push(step);
        if world.violation.is_some() {
            break;
        }
    }
    Found {
        states: trace.len(),
        depth: trace.len(),
        is_exhausted: false,
        violation: world.violation.map(|name| Violation { name, trace }),
        covered: COVERED.take(),
    }
}

/// Each walk has its own likelihoods: in some a kind of message is always late, in some one head is slow.
fn pick(random: &mut fastrand::Rng, world: &World, steps: &[Step], seed: u64) -> Option<Step> {
    const WEIGHTS: [u32; 4] = [1, 8, 64, 512];
    let weight = |step: &Step| {
        let kind = match step {
            Step::Deliver(key) => {
                let sent = world.net.iter().find(|sent| sent.key == *key);
                sent.map_or(0, |sent| digest(&sent.envelope.kind()))
            }
            Step::Duplicate(_) => 1,
            Step::Lose(_) => 2,
            _ => digest(step),
        };
        let at = digest(&(seed, kind)) % WEIGHTS.len() as u64;
        WEIGHTS[at as usize]
    };
    let weights: Vec<u32> = steps.iter().map(weight).collect();
    let total = weights.iter().sum::<u32>();
    let mut rest = (total > 0).then(|| random.u32(..total))?;
    for (step, weight) in steps.iter().zip(weights) {
        match rest.checked_sub(weight) {
            Some(left) => rest = left,
            None => return Some(*step),
        }
    }
    None
}
