//! Pools of groups of any shape over two or three heads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::{Head, Pair, disk_name};
use crate::common::{ServerProcess, eventually};

/// A group: the heads of its legs as letters, after `log` for a group of the intent log, and how many legs are needed.
pub type Shape = (&'static str, usize);

impl Head {
    /// Returns the legs in `pool status`.
    pub fn legs(&self) -> Vec<Value> {
        let status = self.machine.ok("pool status tank --json").json();
        status["legs"]["legs"].as_array().expect("legs").clone()
    }

    /// Returns the state of the leg on disk `name` of head `head` in `pool status`.
    pub fn state_of(&self, head: &Head, name: &str) -> String {
        let name = head.leg(name);
        let legs = self.legs();
        let leg = legs.iter().find(|leg| leg["name"] == name.as_str());
        let state = leg.and_then(|leg| leg["state"].as_str());
        state.expect("a leg of that name").to_owned()
    }

    /// Blocks until every leg is current in `pool status`.
    pub fn await_whole(&self) {
        eventually("all legs are current", || {
            let legs = self.legs();
            legs.iter().all(|leg| leg["state"] == "current")
        });
    }

    /// The file with the faults of the disks that the server of this head opens.
    fn faults(&self) -> PathBuf {
        self.machine.path("faults")
    }

    /// From now on these disks of the pool fail on this head, by their numbers, and no others.
    pub fn fail_disks(&self, disks: &[u64]) {
        let faults: Vec<_> = disks.iter().map(|disk| (*disk, "gone")).collect();
        self.set_faults(&faults);
    }

    /// Sets the faults of these disks of the pool on this head, and clears those of all other disks.
    pub fn set_faults(&self, faults: &[(u64, &str)]) {
        let place = |disk: u64| self.machine.path(&format!("run/legs/tank/{disk}"));
        let line = |(disk, fault): &(u64, &str)| format!("{} {fault}\n", place(*disk).display());
        let lines: String = faults.iter().map(line).collect();
        // Atomically: the server must never read half of it.
        std::fs::write(self.machine.path("faults.new"), lines).expect("written");
        std::fs::rename(self.machine.path("faults.new"), self.faults()).expect("renamed");
    }

    /// Serves the pool with disks that can fail.
    pub fn serve_with_faults(&self, options: &str) -> ServerProcess {
        self.fail_disks(&[]);
        self.serve(&format!(
            "--leg-faults {} {options}",
            self.faults().display()
        ))
    }

    /// Returns the failures that the pool survives: any disks, the heads, and disks after the loss of a head.
    pub fn survives(&self) -> (u64, String, u64) {
        let status = self.machine.ok("pool status tank --json").json();
        let found = &status["legs"]["survives"];
        let heads = found["heads"].as_array().expect("heads").iter();
        let heads: Vec<&str> = heads.filter_map(Value::as_str).collect();
        let count = |name: &str| found[name].as_u64().expect("a count");
        (count("disks"), heads.join(""), count("disks_without_head"))
    }
}

/// Numbers the disks of groups from `first` on, creates them, and returns the groups as in `legs.toml`.
fn groups(
    heads: &[&Head],
    shapes: &[Shape],
    first: u64,
    taken: &mut BTreeMap<char, usize>,
) -> String {
    let mut numbers = first..;
    let mut leg = |letter: char| {
        let head = heads.iter().find(|head| head.name.starts_with(letter));
        let head = head.expect("a head");
        let count = taken.entry(letter).or_default();
        let disk = disk_name(head.name, *count);
        *count += 1;
        let path = head.machine.path(&disk);
        if !path.exists() {
            head.machine.add_disk(&disk, 128 << 20);
        }
        let number = numbers.next().expect("a number");
        format!(
            "{{ disk = {number}, head = \"{}\", path = {path:?} }}",
            head.name
        )
    };
    let mut group = |(letters, needed): &Shape| {
        let (role, letters) = match letters.strip_prefix("log ") {
            Some(letters) => ("role = \"log\"\n", letters),
            None => ("", *letters),
        };
        let legs: Vec<String> = letters.chars().map(&mut leg).collect();
        let legs = legs.join(", ");
        format!("[[pools.tank.groups]]\nneeded = {needed}\n{role}legs = [{legs}]\n")
    };
    shapes.iter().map(&mut group).collect()
}

impl Pair {
    /// Adds a group of that shape, with disks from number `first` on, to the configurations of both heads. The
    /// leg-servers have read that. Returns the names of its legs.
    pub fn name_group(&mut self, shape: Shape, first: u64) -> Vec<String> {
        let text = std::fs::read_to_string(self.a.config()).expect("written");
        let mut taken = BTreeMap::new();
        for (letter, head) in [('a', "\"a\", path"), ('b', "\"b\", path")] {
            taken.insert(letter, text.matches(head).count());
        }
        let group = groups(&[&self.a, &self.b], &[shape], first, &mut taken);
        self.a.reconfigure(|text| format!("{text}{group}"));
        self.b.reconfigure(|text| format!("{text}{group}"));
        let legs = group.split("head = \"").skip(1).map(|leg| {
            let (head, path) = leg.split_once("\", path = \"").expect("a leg");
            let (path, _) = path.split_once('"').expect("its end");
            format!("{head}:{path}")
        });
        legs.collect()
    }

    /// As [`Pair::new`], with groups of these shapes, whose disks have the numbers from 1 on. With legs of `c` there
    /// are three heads, and otherwise a witness. The disks of `a` can fail.
    pub fn of_shapes(shapes: &[Shape]) -> (Self, Option<Head>, ServerProcess) {
        let has_third = shapes.iter().any(|(letters, _)| letters.contains('c'));
        let mut pair = Self::configured(1, !has_third, false, true);
        let third = has_third.then(|| Head::new("c", pair.third_address.clone(), 1));
        let mut third = third;
        let heads: Vec<&Head> = [&pair.a, &pair.b].into_iter().chain(&third).collect();
        let entry = third.as_ref().map(|third| third.entry(4));
        let entry = entry.unwrap_or_default();
        let groups = groups(&heads, shapes, 1, &mut BTreeMap::new());
        let keys = |head: &Head| head.machine.path("keys").display().to_string();
        let texts = heads.iter().map(|head| {
            let of = if head.name == "c" { &pair.a } else { head };
            (of, std::fs::read_to_string(of.config()).expect("written"))
        });
        let texts: Vec<_> = texts.collect();
        for (head, (of, text)) in heads.iter().zip(texts) {
            let (members, _) = text.split_once("[pools.tank]").expect("a pool");
            let (me, members) = members.split_once("[members").expect("members");
            let me = me.replace(&keys(of), &keys(head));
            let me = me.replace(
                &format!("me = {:?}", of.name),
                &format!("me = {:?}", head.name),
            );
            let text = format!("{me}[members{members}{entry}[pools.tank]\nguid = 77\n{groups}");
            std::fs::write(head.config(), text).expect("written");
        }
        pair.start();
        if let Some(third) = &mut third {
            third.start_leg_server();
        }
        let config = pair.a.config();
        let words = format!("pool create tank --legs {config}");
        pair.a.machine.ok(&words);
        let server = pair.a.serve_with_faults("");
        pair.exports();
        (pair, third, server)
    }
}
