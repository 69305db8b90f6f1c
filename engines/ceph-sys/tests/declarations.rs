//! Compares the raw declarations with the headers of Ceph: each is translated to C, and the C compiler verifies that it
//! agrees.

use std::fmt::Write as _;
use std::process::{Command, Output};

/// Fewer declarations than this mean that the source was not parsed.
const DECLARATIONS_MIN: usize = 60;

/// The C form of a Rust type.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    let optional = rust
        .strip_prefix("Option<")
        .and_then(|rest| rest.strip_suffix('>'));
    if let Some(callback) = optional {
        return format!("rust_{callback}");
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(target));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(target));
    }
    let named = match rust {
        "u64" => "uint64_t",
        "u32" => "uint32_t",
        "u8" => "uint8_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "isize" => "ssize_t",
        "bool" => "bool",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_char" => "char",
        "c_void" => "void",
        structure => structure,
    };
    named.to_owned()
}

/// The types of `name: type` pairs.
fn typed(list: &str) -> Vec<(String, String)> {
    let parts = list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, kind) = part.split_once(':').expect("name: type");
        (name.trim().replace("pub ", ""), c_type(kind))
    };
    parts.map(pair).collect()
}

fn result_of(rest: &str) -> String {
    let end = rest.split(';').next().expect("an end").trim();
    end.strip_prefix("->").map_or("void".to_owned(), c_type)
}

/// `A, B` of `(A, B) -> C; …`, and C.
fn signature(item: &str) -> (&str, &str, String) {
    let (name, rest) = item.split_once('(').expect("arguments");
    let (arguments, rest) = rest.split_once(')').expect("the end of the arguments");
    (name, arguments, result_of(rest))
}

fn callbacks(source: &str, c: &mut String) -> usize {
    let items = source.split("pub type ").skip(1);
    let translate = |item: &str| {
        let (name, rest) = item.split_once('=').expect("a type");
        let (_, arguments, result) = signature(rest);
        let arguments: Vec<String> = arguments.split(',').map(c_type).collect();
        format!(
            "typedef {result} (*rust_{})({});\n",
            name.trim(),
            arguments.join(", ")
        )
    };
    let texts: Vec<String> = items.map(translate).collect();
    c.push_str(&texts.concat());
    texts.len()
}

fn prototypes(source: &str, c: &mut String) -> usize {
    let items = source.split("pub fn ").skip(1);
    let translate = |item: &str| {
        let (name, arguments, result) = signature(item);
        let arguments: Vec<String> = typed(arguments).into_iter().map(|(_, kind)| kind).collect();
        let arguments = match arguments.is_empty() {
            true => "void".to_owned(),
            false => arguments.join(", "),
        };
        format!("extern {result} {name}({arguments});\n")
    };
    let texts: Vec<String> = items.map(translate).collect();
    c.push_str(&texts.concat());
    texts.len()
}

fn structures(source: &str, c: &mut String) -> usize {
    let mut count = 0;
    for item in source.split("pub struct ").skip(1) {
        let (name, rest) = item.split_once('{').expect("members");
        let (name, members) = (name.trim(), typed(rest.split('}').next().expect("an end")));
        writeln!(c, "struct rust_{name} {{").expect("text");
        for (member, kind) in &members {
            writeln!(c, "{kind} {member};").expect("text");
        }
        writeln!(c, "}};").expect("text");
        let mut same = |equal: String| writeln!(c, "_Static_assert({equal}, \"{name}\");");
        same(format!("sizeof (struct rust_{name}) == sizeof ({name})")).expect("text");
        for (member, _) in &members {
            let ours = format!("offsetof(struct rust_{name}, {member})");
            same(format!("{ours} == offsetof({name}, {member})")).expect("text");
        }
        count += 1;
    }
    count
}

fn constants(source: &str, c: &mut String) -> usize {
    let mut count = 0;
    for item in source.split("pub const ").skip(1) {
        let (name, rest) = item.split_once(':').expect("a type");
        let value = rest.split_once('=').expect("a value").1;
        let value = value.split(';').next().expect("an end").trim();
        writeln!(c, "_Static_assert({name} == ({value}), \"{name}\");").expect("text");
        count += 1;
    }
    count
}

/// The C file that compiles only if all declarations agree, and their number.
fn check_file() -> (String, usize) {
    let source = include_str!("../src/raw.rs").lines().map(str::trim);
    let source = source.filter(|line| !line.starts_with("//") && !line.starts_with("#["));
    let source = source.collect::<Vec<_>>().join(" ");
    let mut c = String::new();
    for header in ["stddef.h", "stdbool.h", "rados/librados.h", "rbd/librbd.h"] {
        writeln!(c, "#include <{header}>").expect("text");
    }
    let count = callbacks(&source, &mut c) + prototypes(&source, &mut c);
    let count = count + structures(&source, &mut c) + constants(&source, &mut c);
    (c, count)
}

fn compile(code: &str) -> Output {
    let dir = tempfile::tempdir().expect("temporary dir");
    let file = dir.path().join("declarations.c");
    std::fs::write(&file, code).expect("written");
    let mut command = Command::new("cc");
    command.args([
        "-std=gnu11",
        "-fsyntax-only",
        "-Wno-deprecated-declarations",
    ]);
    command.arg(&file).output().expect("a C compiler")
}

#[test]
fn declarations_agree_with_the_headers() {
    let (code, count) = check_file();
    assert!(
        count > DECLARATIONS_MIN,
        "only {count} declarations were found"
    );
    let output = compile(&code);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn wrong_declaration_is_detected() {
    let (code, _) = check_file();
    for wrong in [
        "extern int64_t rbd_close(void *);",
        "extern int rbd_get_size(void *, uint32_t *);",
        "_Static_assert(offsetof(rbd_snap_info_t, size) == 0, \"\");",
    ] {
        assert!(
            !compile(&format!("{code}{wrong}\n")).status.success(),
            "{wrong}"
        );
    }
}
