//! Renders the open files of clients.

use std::collections::HashMap;
use std::fmt::Write as _;

use control::answer::{FileLockView, OpenFileView, OpenFilesView, OpenView};

use crate::table::{Table, harmless};

/// Renders the clients, and then the files with their holders.
pub fn text(view: &OpenFilesView) -> String {
    if view.clients.is_empty() && view.files.is_empty() {
        return format!("no client has anything open or locked in {}\n", view.name);
    }
    let headings = [
        "CLIENT", "ADDRESS", "NAME", "VERSION", ">SILENT", ">OPEN", ">LOCKS", ">WAITS",
    ];
    let mut table = Table::new(&headings);
    for one in &view.clients {
        let silent = match one.expired {
            true => format!("{} s, expired", one.silent_s),
            false => format!("{} s", one.silent_s),
        };
        table.row([
            one.client.clone(),
            one.address.clone(),
            harmless(&one.name),
            one.version.clone(),
            silent,
            one.opens.to_string(),
            one.locks.to_string(),
            one.waiting.to_string(),
        ]);
    }
    let mut text = table.render();
    let names = view.clients.iter();
    let names: HashMap<&str, &str> = names
        .map(|one| (one.client.as_str(), one.address.as_str()))
        .collect();
    let who = |client: &str| match names.get(client) {
        Some(address) => format!("{client} ({address})"),
        None => client.to_owned(),
    };
    for file in &view.files {
        let _ = writeln!(text, "\n{}", title(file));
        for open in &file.opens {
            let _ = writeln!(text, "  open for {} by {}", uses(open), who(&open.client));
        }
        more(&mut text, file.open_count, file.opens.len(), "open");
        for lock in &file.locks {
            let _ = writeln!(text, "  {} by {}", locked(lock), who(&lock.client));
        }
        more(&mut text, file.lock_count, file.locks.len(), "locked");
        for lock in &file.waiting {
            let _ = writeln!(text, "  waits: {} for {}", locked(lock), who(&lock.client));
        }
    }
    let files = view.files.len() as u64;
    if view.file_count > files {
        let _ = writeln!(text, "\nand {} more files", view.file_count - files);
    }
    text
}

fn title(file: &OpenFileView) -> String {
    let object = file.object;
    match (&file.path, file.of_snapshot) {
        (Some(path), _) => harmless(path),
        (None, true) => format!("object {object} of a snapshot"),
        (None, false) => format!("object {object}, which has no name that was found"),
    }
}

fn more(text: &mut String, count: u64, told: usize, what: &str) {
    let more = count.saturating_sub(told as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {what} {more} times more");
    }
}

fn uses(open: &OpenView) -> String {
    let words = |read, write| match (read, write) {
        (true, true) => "reading and writing",
        (true, false) => "reading",
        (false, true) => "writing",
        (false, false) => "nothing",
    };
    let denied = words(open.denies_read, open.denies_write);
    let used = words(open.read, open.write);
    match open.denies_read || open.denies_write {
        true => format!("{used}, denied to other clients for {denied},"),
        false => used.to_owned(),
    }
}

fn locked(lock: &FileLockView) -> String {
    let kind = if lock.exclusive {
        "exclusive"
    } else {
        "shared"
    };
    let range = match (lock.offset, lock.length) {
        (0, None) => "the whole file".to_owned(),
        (offset, None) => format!("from byte {offset} on"),
        (offset, Some(length)) => {
            format!("bytes {offset} to {}", offset.saturating_add(length - 1))
        }
    };
    match &lock.process {
        Some(process) => {
            format!("{kind} lock, {range}, process {},", harmless(process))
        }
        None => format!("{kind} lock, {range},"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::answer::FileClientView;

    #[test]
    fn open_files_are_listed_per_client() {
        let lock = FileLockView {
            client: "1f".to_owned(),
            process: Some("9 of host7".to_owned()),
            offset: 10,
            length: Some(5),
            exclusive: true,
        };
        let open = OpenView {
            client: "1f".to_owned(),
            write: true,
            denies_read: true,
            ..OpenView::default()
        };
        let view = OpenFilesView {
            name: "tank/home".to_owned(),
            clients: vec![FileClientView {
                client: "1f".to_owned(),
                name: "host7\u{202e}".to_owned(),
                version: "3".to_owned(),
                address: "10.0.0.7".to_owned(),
                silent_s: 4,
                locks: 1,
                ..FileClientView::default()
            }],
            file_count: 3,
            files: vec![OpenFileView {
                object: 34,
                path: Some("/a/b\u{1b}[31m\n".to_owned()),
                opens: vec![open],
                open_count: 2,
                locks: vec![lock],
                lock_count: 1,
                ..OpenFileView::default()
            }],
        };
        let told = text(&view);
        for line in [
            "/a/b\\u{1b}[31m\\u{a}",
            "  open for writing, denied to other clients for reading, by 1f (10.0.0.7)",
            "  and open 1 times more",
            "  exclusive lock, bytes 10 to 14, process 9 of host7, by 1f (10.0.0.7)",
            "and 2 more files",
        ] {
            assert!(told.lines().any(|one| one == line), "{line:?} in {told}");
        }
        assert!(told.contains("host7\\u{202e} "), "{told}");
        let none = text(&OpenFilesView::default());
        assert!(none.starts_with("no client"));
    }
}
