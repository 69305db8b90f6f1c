//! Compares the raw declarations with the C headers: each is translated back to C, and the compiler
//! verifies that it agrees with the headers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

#[path = "../flags.rs"]
mod flags;

const SOURCES: [&str; 8] = [
    "crypto.rs",
    "dataset.rs",
    "files.rs",
    "keys.rs",
    "list.rs",
    "shim.rs",
    "transfer.rs",
    "volume.rs",
];
const HEADERS: [&str; 11] = [
    "sys/zfs_context.h",
    "sys/fs/zfs.h",
    "libnvpair.h",
    "stddef.h",
    "shim.h",
    "shim_crypto.h",
    "shim_dataset.h",
    "shim_files.h",
    "shim_keys.h",
    "shim_transfer.h",
    "shim_volume.h",
];

/// The C form of a Rust type.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(target));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(target));
    }
    match rust {
        "u64" => "uint64_t",
        "u32" => "uint32_t",
        "u16" => "uint16_t",
        "u8" => "uint8_t",
        "i64" => "int64_t",
        "i32" => "int32_t",
        "usize" => "size_t",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_char" => "char",
        "c_void" => "void",
        _ if rust.contains("fn(") => "void *",
        callback if callback.ends_with("_t") => return format!("rust_{callback}"),
        other => return format!("struct {other}"),
    }
    .to_owned()
}

/// Parts of a list at commas outside brackets.
fn split(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for symbol in list.chars() {
        match symbol {
            '(' | '<' => depth += 1,
            ')' | '>' => depth -= 1,
            _ => {}
        }
        if symbol == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("never empty").push(symbol);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// `name: type` pairs of a list of arguments or members.
fn typed(list: &str) -> Vec<(String, String)> {
    split(&list.replace("pub ", ""))
        .iter()
        .map(|part| {
            let (name, kind) = part.split_once(':').expect("name: type");
            // A function pointer's own return type must not be split.
            let kind = kind.split("->").next().unwrap_or(kind);
            (name.trim().to_owned(), c_type(kind))
        })
        .collect()
}

/// The source on one line, without comments and attributes.
fn plain(source: &str) -> String {
    source
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && !line.starts_with("#["))
        .collect::<Vec<_>>()
        .join(" ")
        .replace("-> i32, ", ", ")
        .replace("-> u32, ", ", ")
}

/// Types of callbacks: pointers to functions of the same type.
fn callbacks(source: &str, c: &mut String) -> usize {
    let mut count = 0;
    for item in source.split("pub type ").skip(1) {
        let (name, rest) = item.split_once('=').expect("a type");
        let rest = rest.split_once('(').expect("arguments").1;
        let (arguments, rest) = rest.split_once(')').expect("arguments end");
        let result = rest.split(';').next().expect("an end").trim();
        let result = result.strip_prefix("->").map_or("void".into(), c_type);
        let arguments: Vec<String> = typed(arguments).into_iter().map(|(_, kind)| kind).collect();
        let arguments = arguments.join(", ");
        let name = name.trim();
        writeln!(c, "typedef {result} (*rust_{name})({arguments});").expect("text");
        count += 1;
    }
    count
}

/// `fn` items: prototypes again. A prototype that differs from the header's is an error in C.
fn prototypes(source: &str, c: &mut String) -> usize {
    let mut count = 0;
    for item in source.split("pub fn ").skip(1) {
        let (name, rest) = item.split_once('(').expect("arguments");
        let (arguments, rest) = rest.split_once(')').expect("arguments end");
        let result = rest.split(';').next().expect("an end").trim();
        let result = result.strip_prefix("->").map_or("void".into(), c_type);
        let arguments: Vec<String> = typed(arguments).into_iter().map(|(_, kind)| kind).collect();
        let arguments = if arguments.is_empty() {
            "void".to_owned()
        } else {
            arguments.join(", ")
        };
        writeln!(c, "extern {result} {name}({arguments});").expect("text");
        count += 1;
    }
    count
}

/// `struct` items: size, and offset of each member.
fn structures(source: &str, c: &mut String) -> usize {
    let mut count = 0;
    for item in source.split("pub struct ").skip(1) {
        let (name, rest) = item.split_once('{').expect("members");
        let members = rest.split('}').next().expect("an end");
        let name = name.trim();
        if members.contains("_opaque") {
            continue;
        }
        let members = typed(members);
        writeln!(c, "struct rust_{name} {{").expect("text");
        for (member, kind) in &members {
            writeln!(c, "\t{kind} {member};").expect("text");
        }
        writeln!(c, "}};").expect("text");
        let same = |what: &str| format!("_Static_assert({what}, \"{name}\");\n");
        c.push_str(&same(&format!(
            "sizeof (struct rust_{name}) == sizeof (struct {name})"
        )));
        for (member, _) in &members {
            c.push_str(&same(&format!(
                "offsetof(struct rust_{name}, {member}) == offsetof(struct {name}, {member})"
            )));
        }
        count += 1;
    }
    count
}

/// `const` items: the header's constant of the same name, or, in a module, the offset of a member.
fn constants(source: &str, member_of: Option<(&str, &str)>, c: &mut String) -> usize {
    let mut count = 0;
    for item in source.split("pub const ").skip(1) {
        let (name, rest) = item.split_once(':').expect("a type");
        let value = rest.split_once('=').expect("a value").1;
        let value = value.split(';').next().expect("an end").trim();
        let named = match member_of {
            Some((structure, prefix)) => format!(
                "offsetof({structure}, {prefix}{}) / sizeof (uint64_t)",
                name.to_lowercase()
            ),
            None => name.to_owned(),
        };
        writeln!(c, "_Static_assert({named} == ({value}), \"{name}\");").expect("text");
        count += 1;
    }
    count
}

/// The C file that compiles only if all declarations agree, and their number.
fn check_file(package: &Path) -> (String, usize) {
    let mut c = String::new();
    for header in HEADERS {
        writeln!(c, "#include <{header}>").expect("text");
    }
    let mut count = 0;
    for name in SOURCES {
        let source = std::fs::read_to_string(package.join("src").join(name)).expect("source");
        let source = plain(&source);
        let mut modules = source.split("pub mod ");
        let items = modules.next().expect("never empty");
        count += callbacks(items, &mut c);
        count += prototypes(items, &mut c) + structures(items, &mut c);
        count += constants(items, None, &mut c);
        for module in modules {
            let member_of = match module.split('{').next().expect("a name").trim() {
                "vdev_stat" => ("vdev_stat_t", "vs_"),
                "scan_stat" => ("pool_scan_stat_t", "pss_"),
                "removal_stat" => ("pool_removal_stat_t", "prs_"),
                "expand_stat" => ("pool_raidz_expand_stat_t", "pres_"),
                other => panic!("no structure for the module {other}"),
            };
            count += constants(module, Some(member_of), &mut c);
        }
    }
    (c, count)
}

fn compile(code: &str) -> std::process::Output {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("temporary dir");
    let file = dir.path().join("declarations.c");
    std::fs::write(&file, code).expect("write");
    let shim = package.join(flags::SHIM);
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-fsyntax-only", "-I"]);
    command.arg(shim.join("compat")).arg("-I").arg(&shim);
    for headers in flags::LIBRARY_HEADERS {
        command.arg("-I").arg(headers);
    }
    for (name, value) in flags::library_defines(cfg!(openzfs_checks)) {
        command.arg(value.map_or(format!("-D{name}"), |value| format!("-D{name}={value}")));
    }
    command.arg(&file).output().expect("a C compiler")
}

#[test]
fn declarations_agree_with_the_headers() {
    let (code, count) = check_file(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(count > 100, "only {count} declarations were found");
    let output = compile(&code);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn wrong_declaration_is_detected() {
    let (code, _) = check_file(Path::new(env!("CARGO_MANIFEST_DIR")));
    for wrong in [
        "extern uint64_t bh_pool_sync(char const *);",
        "extern int32_t bh_pool_clear(char const *, uint32_t);",
        "_Static_assert(offsetof(struct bh_piece, length) == 0, \"\");",
    ] {
        assert!(
            !compile(&format!("{code}{wrong}\n")).status.success(),
            "{wrong}"
        );
    }
}
