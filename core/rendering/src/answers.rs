//! Renders responses as text for people, or as one JSON document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::answer::{
    BookmarkView, ChangesView, ChapView, DeviceView, DiscoveryView, Done, Event, FilesystemView,
    FrozenView, HoldView, PoolLoad, PoolStatus, PoolSummary, Property, ProtocolView, RecoveryView,
    RolledBack, ServerStatus, Status, TargetView, VolumeView,
};
use control::calendar::utc;
use control::operations::TableOptions;
use control::rescue::{Partition, RescueView};
use control::{Answer, Failure};
use serde::Serialize;
use serde_json::json;

use control::key::how_to_load;
use control::words::{bytes, device_state, scan_line};

use crate::table::{Table, dash, harmless};
use crate::{
    daily, growth, keys, legs, lists, load, open_files, program, properties, transfer, wrap,
};

/// Renders a response.
pub fn answer(answer: &Answer, json: bool) -> String {
    match json {
        true => document(&bare(answer)),
        false => text(answer, &TableOptions::default()),
    }
}

/// Renders a response as text.
fn text(answer: &Answer, table: &TableOptions) -> String {
    match answer {
        Answer::Done(done) => done_text(done),
        Answer::Status(found) => status(found),
        Answer::Pool(pool) => pool_status(pool),
        Answer::Load(load) => load::table(None, load),
        Answer::Pools(pools) => pool_list(pools),
        Answer::Volumes(volumes) => lists::volumes(volumes, table),
        Answer::Replacement(view) => daily::replacement(view),
        Answer::Plan(view) => growth::plan(view),
        Answer::Space(spaces) => lists::spaces(spaces, table),
        Answer::Volume(volume) => volume_detail(volume),
        Answer::Filesystems(all) => lists::file_systems(all, table),
        Answer::Filesystem(view) => filesystem_detail(view),
        Answer::Checked(view) => daily::checked(view),
        Answer::OpenFiles(view) => open_files::text(view),
        Answer::Owners(view) => lists::owners(view, table),
        Answer::RolledBack(done) => rolled_back(done),
        Answer::Rescue(view) => rescue(view),
        Answer::Rescues(views) if views.is_empty() => "no volume is being rescued\n".to_owned(),
        Answer::Rescues(views) => rescue_list(views),
        Answer::Keys(list) => keys::list(list),
        Answer::Snapshots(snapshots) => lists::snapshots(snapshots, table),
        Answer::Changes(view) => changes(view),
        Answer::Holds(holds) => hold_list(holds),
        Answer::Bookmarks(marks) => bookmark_list(marks),
        Answer::Schedules(schedules) => daily::schedule_list(schedules),
        Answer::Targets(targets) => lists::targets(targets, table),
        Answer::Target(target) => target_detail(target),
        Answer::Discovery(view) => discovery(view),
        Answer::Chap(view) => chap(view),
        Answer::Nbd(exports) => lists::nbd(exports, table),
        Answer::Portals(portals) => daily::portal_list(portals),
        Answer::Events(events) if events.is_empty() => {
            "nothing happened yet while a server had the pool\n".to_owned()
        }
        Answer::Events(events) => events.iter().map(|one| event_line(one, false)).collect(),
        Answer::History(entries) => daily::history(entries),
        Answer::Transfer(view) => transfer::done(view),
        Answer::Interrupted(view) => transfer::interrupted(view),
        Answer::Replication(view) => transfer::replication(view),
        Answer::Properties(properties) => property_list(properties),
    }
}

/// The pools that a request is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pools {
    /// The named pool, or the only one.
    One,
    /// All pools; there may be only one.
    All,
}

/// Renders the responses of several pools to one request: lists become one list, sorted as requested.
///
/// JSON of all pools is an array, whatever their number is.
pub fn answers(answers: &[Answer], pools: Pools, json: bool, table: &TableOptions) -> String {
    let mut answers = joined(answers);
    answers.iter_mut().for_each(|one| lists::sort(one, table));
    if let ([only], Pools::One, true) = (answers.as_slice(), pools, json) {
        return answer(only, json);
    }
    if json {
        let mut all = Vec::new();
        for one in answers.iter().map(bare) {
            match one {
                serde_json::Value::Array(list) => all.extend(list),
                other => all.push(other),
            }
        }
        return document(&all);
    }
    let texts: Vec<String> = answers.iter().map(|one| text(one, table)).collect();
    texts.join("\n")
}

/// Renders a sample that follows the sample `before`: of counters, the text shows the difference.
pub fn next_sample(before: &[Answer], now: &[Answer], pools: Pools, json: bool) -> String {
    let loads = now.iter().map(|answer| match answer {
        Answer::Load(load) if !json => Some(load),
        _ => None,
    });
    let Some(loads) = loads.collect::<Option<Vec<_>>>() else {
        return answers(now, pools, json, &TableOptions::default());
    };
    let before = |load: &PoolLoad| {
        before.iter().find_map(|answer| match answer {
            Answer::Load(old) if old.whole.name == load.whole.name => Some(&**old),
            _ => None,
        })
    };
    let tables = loads
        .into_iter()
        .map(|load| load::table(before(load), load));
    // A blank line separates two samples, too.
    tables.map(|table| table + "\n").collect()
}

/// Merges lists of one kind into one list, so that they are one table.
fn joined(answers: &[Answer]) -> Vec<Answer> {
    let mut all: Vec<Answer> = Vec::new();
    for one in answers {
        match (all.last_mut(), one) {
            (Some(Answer::Volumes(all)), Answer::Volumes(more)) => all.extend_from_slice(more),
            (Some(Answer::Filesystems(all)), Answer::Filesystems(more)) => {
                all.extend_from_slice(more);
            }
            (Some(Answer::Space(all)), Answer::Space(more)) => all.extend_from_slice(more),
            (Some(Answer::Snapshots(all)), Answer::Snapshots(more)) => all.extend_from_slice(more),
            (Some(Answer::Holds(all)), Answer::Holds(more)) => all.extend_from_slice(more),
            (Some(Answer::Bookmarks(all)), Answer::Bookmarks(more)) => all.extend_from_slice(more),
            (Some(Answer::Schedules(all)), Answer::Schedules(more)) => all.extend_from_slice(more),
            (Some(Answer::Targets(all)), Answer::Targets(more)) => all.extend_from_slice(more),
            (Some(Answer::Nbd(all)), Answer::Nbd(more)) => all.extend_from_slice(more),
            (Some(Answer::Portals(all)), Answer::Portals(more)) => all.extend_from_slice(more),
            (Some(Answer::Keys(all)), Answer::Keys(more)) => all.extend_from_slice(more),
            (Some(Answer::Rescues(all)), Answer::Rescues(more)) => all.extend_from_slice(more),
            (_, one) => all.push(one.clone()),
        }
    }
    all
}

/// Renders one JSON document, for scripts and for people.
pub fn document(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("serializable");
    format!("{value:#}\n")
}

/// Returns a response without its name: a command prints only one kind, so that the name is
/// redundant.
fn bare(answer: &Answer) -> serde_json::Value {
    match serde_json::to_value(answer).expect("answers are JSON") {
        serde_json::Value::Object(fields) if fields.len() == 1 => {
            fields.into_iter().next().expect("one field").1
        }
        other => other,
    }
}

/// A failure as it is shown to the user of this process: without all rights, how to get them.
pub fn for_user(failure: &Failure) -> Failure {
    let is_root = rustix::process::geteuid().is_root();
    failure.clone().for_user(is_root)
}

/// Renders a failure.
pub fn failure(failure: &Failure, json: bool) -> String {
    program::with_own_commands(&failure_text(failure, json)).into_owned()
}

fn failure_text(failure: &Failure, json: bool) -> String {
    if json {
        let exit_code = failure.kind.exit_code();
        return document(&json!({ "failure": failure, "exit_code": exit_code }));
    }
    let mut text = format!("{}: {}\n", program::name(), failure.message);
    if let Some(advice) = &failure.advice {
        let _ = writeln!(text, "  {advice}");
    }
    text
}

/// Several destroyed names, or those of a preview, follow the sentence, one per line.
fn done_text(done: &Done) -> String {
    let mut text = format!("{}\n", done.message);
    if done.destroyed.len() > 1 {
        for name in &done.destroyed {
            let _ = writeln!(text, "  {name}");
        }
    }
    text
}

fn rolled_back(done: &RolledBack) -> String {
    let mut text = format!(
        "{} has the contents of {} again, after {} ms\n",
        done.to.volume(),
        done.to,
        done.took_ms
    );
    if let Some(pause_ms) = done.pause_ms {
        let _ = writeln!(text, "its clients waited for {pause_ms} ms");
    }
    if done.sessions_told > 0 {
        let count = done.sessions_told;
        let _ = writeln!(text, "{count} session(s) are notified of the new contents");
    }
    if done.connections_closed > 0 {
        let (count, size) = (done.connections_closed, bytes(done.size));
        let _ = writeln!(
            text,
            "{count} connection(s) were closed: the size is {size} now"
        );
    }
    if !done.destroyed.is_empty() {
        let names: Vec<&str> = done.destroyed.iter().map(|name| name.as_str()).collect();
        let (count, names) = (names.len(), names.join(", "));
        let _ = writeln!(text, "destroyed {count} newer snapshot(s): {names}");
    }
    if !done.destroyed_bookmarks.is_empty() {
        let (count, names) = (
            done.destroyed_bookmarks.len(),
            done.destroyed_bookmarks.join(", "),
        );
        let _ = writeln!(text, "destroyed {count} newer bookmark(s): {names}");
    }
    text
}

fn rescue(view: &RescueView) -> String {
    let of = view
        .snapshot
        .as_ref()
        .map_or(view.volume.to_string(), ToString::to_string);
    let mode = match (&view.clone, view.read_only) {
        (Some(_), _) => "changes are discarded at the end",
        (None, true) => "for reading only",
        (None, false) => "for reading and writing; other clients are refused during the rescue",
    };
    let mut text = format!("{of}: {}, {mode}\n{}\n\n", bytes(view.size), view.uri);
    if view.partitions.is_empty() {
        text.push_str("no partition and no file system is recognised\n");
    } else {
        let headings = ["PARTITION", "OFFSET", "SIZE", "CONTENTS", "LABEL", "NAME"];
        let mut table = Table::new(&headings);
        for one in &view.partitions {
            table.row([
                partition_number(one),
                one.start.to_string(),
                bytes(one.size),
                one.contents.clone().unwrap_or_else(dash),
                one.label.clone(),
                one.name.clone(),
            ]);
        }
        text.push_str(&table.render());
        text.push('\n');
        text.extend(view.partitions.iter().filter_map(partition_facts));
    }
    for command in &view.commands {
        let _ = writeln!(text, "\n# {}", command.purpose);
        for line in &command.lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn partition_number(one: &Partition) -> String {
    match one.number {
        0 => "whole disk".to_owned(),
        number => number.to_string(),
    }
}

/// A line with the facts about its contents that the table has no column for; none if there are none.
fn partition_facts(one: &Partition) -> Option<String> {
    let uuid = (!one.uuid.is_empty()).then(|| format!("UUID {}", one.uuid));
    let volumes = (!one.volumes.is_empty()).then(|| format!("volumes {}", one.volumes.join(" ")));
    let facts = uuid.into_iter().chain(one.notes.clone()).chain(volumes);
    let facts: Vec<String> = facts.map(|fact| harmless(&fact)).collect();
    let number = partition_number(one);
    (!facts.is_empty()).then(|| format!("{number}: {}\n", facts.join(", ")))
}

fn rescue_list(views: &[RescueView]) -> String {
    let mut table = Table::new(&["VOLUME", "SNAPSHOT", "MODE", "SOCKET"]);
    for view in views {
        let snapshot = view.snapshot.as_ref().map_or("-", |name| name.tag());
        let mode = if view.read_only {
            "read-only"
        } else {
            "writable"
        };
        table.row([
            view.volume.to_string(),
            snapshot.to_owned(),
            mode.to_owned(),
            view.socket.display().to_string(),
        ]);
    }
    table.render()
}

fn status(status: &Status) -> String {
    let mut text = pool_status(&status.pool);
    text.push('\n');
    match &status.server {
        Some(server) => server_lines(server, status, &mut text),
        None if status.served_by.is_some() => {
            let head = status.served_by.as_deref().unwrap_or_default();
            let _ = writeln!(text, "server:   on {head}");
        }
        // No client could query it: the advice is more specific.
        None if is_unknown(&status.pool) => text.push_str("server:   none here\n"),
        None => {
            let command = status.pool.server_command();
            let none = format!("none, the pool is not served: `{command}` starts one");
            text.push_str(&wrap::line("server:", &none));
        }
    }
    if !is_unknown(&status.pool) {
        let _ = writeln!(text, "volumes:  {}", status.volume_count);
    }
    for volume in &status.activity {
        if let Some(frozen) = &volume.frozen {
            let _ = writeln!(text, "frozen:   {} {}", volume.name, frozen_times(frozen));
        }
    }
    if let Some(view) = &status.discovery {
        let _ = writeln!(text, "discovery: {}", required_authentication(view));
    }
    if !status.targets.is_empty() {
        let _ = write!(
            text,
            "\n{}",
            lists::targets(&status.targets, &TableOptions::default())
        );
    }
    if !status.nbd.is_empty() {
        let _ = write!(
            text,
            "\n{}",
            lists::nbd(&status.nbd, &TableOptions::default())
        );
    }
    if !status.other_protocols.is_empty() {
        let _ = write!(text, "\n{}", other_exports(&status.other_protocols));
    }
    for problem in &status.problems {
        let _ = write!(text, "\n{}", wrap::line("problem:", problem));
    }
    text
}

/// Returns the times at which a freeze began and expires.
fn frozen_times(frozen: &FrozenView) -> String {
    let utc = |ms: u64| control::calendar::utc(ms / 1000);
    format!(
        "since {}, writes wait until {} at most",
        utc(frozen.since_ms),
        utc(frozen.until_ms)
    )
}

/// Returns whether only the pool's name is known.
fn is_unknown(pool: &PoolStatus) -> bool {
    pool.devices.is_empty()
}

/// Returns the authentication that discovery requires.
fn required_authentication(view: &DiscoveryView) -> String {
    let users = match view.chap_users.as_slice() {
        [] => return "requires no secret".to_owned(),
        users => users.join(" or "),
    };
    let mutual = view.mutual_user.as_ref();
    let mutual = mutual.map(|user| format!(", and proves itself as {user}"));
    format!(
        "requires the secret of {users}{}",
        mutual.unwrap_or_default()
    )
}

fn server_lines(server: &ServerStatus, status: &Status, text: &mut String) {
    let state = if server.draining { ", draining" } else { "" };
    let head = status.served_by.as_deref();
    let place = head.map_or_else(String::new, |head| format!(" on {head}"));
    let _ = writeln!(
        text,
        "server:   process {}{place}, up {} s{state}",
        server.pid, server.uptime_s
    );
    if !server.library.is_empty() {
        let _ = writeln!(text, "library:  {}", server.library);
    }
    if let Some(age) = server.pool_status_age_ms {
        let _ = writeln!(text, "          the pool's state above is {age} ms old");
    }
    for (name, addresses) in server.all_listeners() {
        let mut open = status.other_protocols.iter();
        let is_open = open.any(|view| view.name == name && !view.listeners.is_empty());
        let note =
            match name == protocol_list::nfs::PROTOCOL.name && !addresses.is_empty() && !is_open {
                true => " (opens with the first share)",
                false => "",
            };
        let _ = writeln!(
            text,
            "{:<9} {}{note}",
            format!("{name}:"),
            listed(addresses)
        );
    }
}

fn listed(addresses: &[String]) -> String {
    match addresses {
        [] => "no address".to_owned(),
        addresses => addresses.join(" "),
    }
}

fn pool_status(pool: &PoolStatus) -> String {
    let mut text = format!("pool:     {}\nhealth:   {}\n", pool.name, pool.health);
    if is_unknown(pool) {
        daily::maintenance_lines(pool, &mut text);
        return text;
    }
    daily::pool_space(pool, &mut text);
    if let Some(dedup) = &pool.dedup {
        let (ratio, saved) = (daily::times(dedup.percent), bytes(dedup.saved));
        let _ = writeln!(text, "dedup:    {ratio}, {saved} saved");
    }
    if let Some(scan) = &pool.scan {
        let _ = writeln!(text, "scan:     {}", scan_line(scan));
    }
    growth::work_lines(&pool.work, &mut text);
    let mut named = pool.clone();
    named.name_legs();
    daily::maintenance_lines(&named, &mut text);
    if let Some(view) = &pool.legs {
        text.push_str(&legs::legs(view));
    }
    let mut table = Table::new(&["DEVICE", "STATE", ">READ", ">WRITE", ">CKSUM", "NOTE"]);
    let mut role = "data";
    for device in &named.devices {
        if device.role != role {
            role = &device.role;
            let heading = role.to_owned();
            table.row([heading]);
        }
        device_rows(device, usize::from(role != "data"), &mut table);
    }
    let _ = write!(text, "\n{}", table.render());
    text
}

fn device_rows(device: &DeviceView, depth: usize, table: &mut Table) {
    table.row([
        format!("{}{}", "  ".repeat(depth), device.name),
        device_state(device),
        device.read_errors.to_string(),
        device.write_errors.to_string(),
        device.checksum_errors.to_string(),
        device.note.clone().unwrap_or_default(),
    ]);
    for member in &device.members {
        device_rows(member, depth + 1, table);
    }
}

fn pool_list(pools: &[PoolSummary]) -> String {
    if pools.is_empty() {
        return "no pools: create one by `bulkhead pool create`; --search sets the directories to search\n".into();
    }
    let mut table = Table::new(&[
        "NAME", "STATE", "HEALTH", ">USABLE", ">AVAIL", ">FULL", "DEVICES",
    ]);
    for pool in pools {
        let mut devices = pool.devices.join(" ");
        if !pool.missing.is_empty() {
            let _ = write!(devices, " (missing: {})", pool.missing.join(" "));
        }
        if !pool.left_out.is_empty() {
            let copies: Vec<&str> = pool
                .left_out
                .iter()
                .map(|one| one.device.as_str())
                .collect();
            let _ = write!(devices, " (copies, left out: {})", copies.join(" "));
        }
        if !pool.unclear.is_empty() {
            let _ = write!(
                devices,
                " (unclear which is the pool's: {})",
                pool.unclear.join(" ")
            );
        }
        let space = pool.space.as_ref();
        table.row([
            pool.name.to_string(),
            match &pool.served_elsewhere {
                Some(head) => format!("{} by {head}", pool.state),
                None => pool.state.clone(),
            },
            pool.health.clone().unwrap_or_else(dash),
            space.map_or_else(dash, |space| bytes(space.usable)),
            space.map_or_else(dash, |space| bytes(space.available)),
            space.map_or_else(dash, |space| format!("{} %", space.full_percent)),
            devices,
        ]);
    }
    table.render()
}

fn volume_detail(volume: &VolumeView) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("name:", volume.name.to_string());
    if volume.locked {
        line(
            "locked:",
            format!(
                "its key is not loaded: {}",
                how_to_load("volume", volume.name.as_str())
            ),
        );
    }
    if let Some(frozen) = &volume.frozen {
        line("frozen:", frozen_times(frozen));
    }
    line("size:", bytes(volume.size));
    line("block size:", bytes(u64::from(volume.block_size)));
    line("used:", bytes(volume.used));
    line("referenced:", bytes(volume.referenced));
    let kind = if volume.sparse { "sparse" } else { "reserved" };
    line("space:", kind.to_owned());
    daily::space_lines(&volume.space, &mut line);
    if let Some(origin) = &volume.origin {
        line("origin:", origin.clone());
    }
    if let Some(identity) = &volume.identity {
        line("naa:", identity.naa.clone());
        line("eui:", identity.eui.clone());
        line("serial:", identity.serial.clone());
    }
    for export in &volume.exports {
        line("export:", export.clone());
    }
    if !volume.properties.is_empty() {
        let _ = write!(text, "\n{}", property_list(&volume.properties));
    }
    text
}

fn filesystem_detail(view: &FilesystemView) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("name:", view.name.to_string());
    if view.locked {
        line(
            "locked:",
            format!(
                "its key is not loaded: {}",
                how_to_load("filesystem", view.name.as_str())
            ),
        );
    }
    line("share:", daily::share(&view.share));
    if let Some(problem) = &view.share.problem {
        line("not shared:", problem.clone());
    }
    line("used:", bytes(view.used));
    line("available:", bytes(view.available));
    line("referenced:", bytes(view.referenced));
    daily::space_lines(&view.space, &mut line);
    if let Some(origin) = &view.origin {
        line("origin:", origin.clone());
    }
    for client in &view.clients {
        line("client:", client.clone());
    }
    if !view.properties.is_empty() {
        let _ = write!(text, "\n{}", property_list(&view.properties));
    }
    text
}

fn discovery(view: &DiscoveryView) -> String {
    let pool = &view.pool;
    let asked = match view.chap_users.as_slice() {
        [] => {
            return format!("{pool}: each initiator can discover the targets that it may use\n");
        }
        users => users.join(" or "),
    };
    let mutual = view.mutual_user.as_ref();
    let mutual = mutual.map(|user| format!("; it proves itself as {user}"));
    let mutual = mutual.unwrap_or_default();
    format!("{pool}: discovery requires authentication as {asked}{mutual}\n")
}

fn chap(view: &ChapView) -> String {
    let target = &view.target;
    let users: Vec<String> = view
        .chap_users
        .iter()
        .map(|user| match view.initiators.get(user) {
            None => format!("user {user}"),
            Some(names) => {
                let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                format!("user {user} (as {} only)", names.join(" or "))
            }
        })
        .collect();
    if users.is_empty() {
        return format!(
            "{target} requires no secret: all clients that its rule allows may use it\n"
        );
    }
    let mutual = match &view.mutual_user {
        Some(user) => format!("it proves itself as {user}"),
        None => "it does not prove itself".to_owned(),
    };
    format!(
        "{target} requires the secret of {}; {mutual}\n",
        users.join(" or ")
    )
}

fn target_detail(target: &TargetView) -> String {
    let table = TableOptions::default();
    let mut text = lists::targets(std::slice::from_ref(target), &table);
    let mut table = Table::new(&["UNIT", "NAA", "SERIAL", "MODE", "WRITE CACHE"]);
    for unit in &target.units {
        let mode = if unit.read_only {
            "read-only"
        } else {
            "read-write"
        };
        let cache = if unit.write_cache { "on" } else { "off" };
        table.row([
            unit.lun.to_string(),
            unit.naa.clone(),
            unit.serial.clone(),
            mode.to_owned(),
            cache.to_owned(),
        ]);
    }
    let _ = write!(text, "\n{}", table.render());
    for session in &target.sessions {
        let _ = writeln!(
            text,
            "session:  {} from {}",
            session.name,
            session.peers.join(" ")
        );
    }
    text
}

fn other_exports(protocols: &[ProtocolView]) -> String {
    let mut table = Table::new(&["PROTOCOL", "EXPORT", "VOLUMES", ">CLIENTS"]);
    for protocol in protocols {
        for export in &protocol.exports {
            let volumes = export.volumes.iter().map(ToString::to_string);
            table.row([
                protocol.name.clone(),
                export.name.clone(),
                volumes.collect::<Vec<_>>().join(" "),
                export.sessions.len().to_string(),
            ]);
        }
    }
    let mut text = table.render();
    for protocol in protocols {
        let name = &protocol.name;
        if !protocol.secured_by.is_empty() {
            let ways = protocol.secured_by.join(" and ");
            let _ = writeln!(text, "{name}: clients can use {ways}");
        }
        if let Some(recovery) = &protocol.recovery {
            let _ = writeln!(text, "{name}: {}", recovering(recovery));
        }
    }
    text
}

fn recovering(recovery: &RecoveryView) -> String {
    let awaited = match recovery.awaited_clients {
        Some(0) => "no client is awaited any more".to_owned(),
        Some(1) => "1 client is awaited".to_owned(),
        Some(count) => format!("{count} clients are awaited"),
        None => "it is not known for whom".to_owned(),
    };
    format!(
        "clients reclaim their opens and locks from the previous server, for {} s more; {awaited}",
        recovery.remaining_ms.div_ceil(1000)
    )
}

/// Number of extents that are shown; more of them would hide the sums.
const EXTENTS_SHOWN_MAX: usize = 20;

fn changes(view: &ChangesView) -> String {
    let to = match &view.to {
        Some(to) => to.to_string(),
        None => "now".to_owned(),
    };
    let mut text = format!(
        "from {} to {to}: {} written and {} freed, in {} extent(s)\n",
        view.from,
        bytes(view.written),
        bytes(view.freed),
        view.extent_count
    );
    if view.extents.is_empty() {
        return text;
    }
    let mut table = Table::new(&[">OFFSET", ">LENGTH", "CHANGE"]);
    for one in view.extents.iter().take(EXTENTS_SHOWN_MAX) {
        let change = if one.freed { "freed" } else { "written" };
        table.row([
            one.offset.to_string(),
            one.length.to_string(),
            change.to_owned(),
        ]);
    }
    let _ = write!(text, "\n{}", table.render());
    let more = view.extent_count.saturating_sub(EXTENTS_SHOWN_MAX as u64);
    if more > 0 {
        let _ = writeln!(text, "{more} more extent(s): --json lists them");
    }
    text
}

fn hold_list(holds: &[HoldView]) -> String {
    if holds.is_empty() {
        return "no snapshot is held\n".to_owned();
    }
    let mut table = Table::new(&["SNAPSHOT", "HELD BY", "SINCE"]);
    for hold in holds {
        let since = utc(hold.since_unix_s);
        table.row([hold.snapshot.to_string(), harmless(&hold.tag), since]);
    }
    table.render()
}

fn bookmark_list(marks: &[BookmarkView]) -> String {
    let mut table = Table::new(&["BOOKMARK", "OF", ">GUID"]);
    for mark in marks {
        let of = utc(mark.created_unix_s);
        table.row([mark.name.clone(), of, mark.guid.to_string()]);
    }
    table.render()
}

/// One event, on one line.
pub fn event_line(event: &Event, json: bool) -> String {
    if json {
        let mut text = serde_json::to_string(event).expect("events are JSON");
        text.push('\n');
        return text;
    }
    format!(
        "{} {:<9} {}\n",
        control::calendar::utc(event.at_ms / 1000),
        event.kind,
        event.message
    )
}

fn property_list(properties: &BTreeMap<String, Property>) -> String {
    let mut table = Table::new(&["PROPERTY", "VALUE", "SOURCE"]);
    for (name, property) in properties {
        table.row([
            name.clone(),
            properties::readable(name, &property.value),
            property.source.clone(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::FailureKind;

    #[test]
    fn json_is_the_bare_response() {
        let done = control::answer::Done::changed("made it");
        let json: serde_json::Value = serde_json::from_str(&answer(&done, true)).expect("JSON");
        assert_eq!(json["changed"], true);
        let list: serde_json::Value =
            serde_json::from_str(&answer(&Answer::Volumes(Vec::new()), true)).expect("JSON");
        assert_eq!(list, serde_json::json!([]));
    }

    /// A script must not depend on the number of pools of this host.
    #[test]
    fn json_of_all_pools_is_an_array_even_of_one() {
        let status = Answer::Status(Box::default());
        let list = Answer::Nbd(Vec::new());
        let shape = |answers_of: &[Answer], pools| -> serde_json::Value {
            let text = answers(answers_of, pools, true, &TableOptions::default());
            serde_json::from_str(&text).expect("JSON")
        };
        let one = std::slice::from_ref(&status);
        assert!(shape(one, Pools::One).is_object());
        assert_eq!(shape(one, Pools::All).as_array().map(Vec::len), Some(1));
        let two = [status.clone(), status.clone()];
        assert_eq!(shape(&two, Pools::All).as_array().map(Vec::len), Some(2));
        for pools in [Pools::One, Pools::All] {
            assert_eq!(shape(std::slice::from_ref(&list), pools), json!([]));
        }
    }

    #[test]
    fn protocol_line_shows_security_and_recovery() {
        let view = |recovery| ProtocolView {
            name: "echo".to_owned(),
            listeners: Vec::new(),
            exports: Vec::new(),
            secured_by: vec!["TLS".to_owned(), "tickets".to_owned()],
            recovery,
        };
        let recovery = |awaited_clients| RecoveryView {
            remaining_ms: 14_001,
            awaited_clients,
        };
        let text = other_exports(&[view(Some(recovery(Some(1))))]);
        assert!(
            text.contains("\necho: clients can use TLS and tickets\n"),
            "{text}"
        );
        assert!(
            text.contains("for 15 s more; 1 client is awaited\n"),
            "{text}"
        );
        let text = other_exports(&[view(Some(recovery(None)))]);
        assert!(text.contains("it is not known for whom"), "{text}");
        assert!(!other_exports(&[view(None)]).contains("for 15 s"));
    }

    #[test]
    fn failure_is_printed_with_its_advice() {
        let failed = Failure::new(FailureKind::Busy, "it is busy").advise("wait");
        assert_eq!(failure(&failed, false), "bulkhead: it is busy\n  wait\n");
        let json: serde_json::Value = serde_json::from_str(&failure(&failed, true)).expect("JSON");
        assert_eq!(json["exit_code"], 5);
        assert_eq!(json["failure"]["kind"], "busy");
    }

    #[test]
    fn sizes_are_rounded_for_display() {
        for (count, shown) in [
            (10 << 30, "10G"),
            (1_500_000_000, "1.4G"),
            (16_384, "16K"),
            (7, "7B"),
            (0, "0B"),
        ] {
            assert_eq!(bytes(count), shown);
        }
    }
}
