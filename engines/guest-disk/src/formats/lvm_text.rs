//! The text that describes a volume group of LVM: sections in braces, values after `=`, lists in brackets, comments
//! after `#`.

/// The facts that are read.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// The number of physical volumes.
    pub devices: u32,
    /// The names of the visible logical volumes.
    pub volumes: Vec<String>,
}

/// Nested sections; LVM writes four.
const DEPTH_MAX: usize = 8;
/// Logical volumes that are listed.
const VOLUMES_MAX: usize = 256;
/// LVM's own bound of a name.
const NAME_BYTES_MAX: usize = 127;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Text(&'a str),
    Sign(u8),
}

/// Parses the text; `None` if it does not describe a group, or a name in it has letters that LVM does not permit: names
/// become part of commands.
pub fn parse(text: &[u8]) -> Option<Group> {
    let mut group = None;
    let mut sections: Vec<&str> = Vec::new();
    let mut last = None;
    let (mut devices, mut volumes) = (0, Vec::new());
    let mut rest = text;
    while let Some(token) = next(&mut rest) {
        match (token, last) {
            (Token::Sign(b'{'), Some(Token::Name(name))) => {
                if sections.len() >= DEPTH_MAX {
                    return None;
                }
                sections.push(name);
                match sections.as_slice() {
                    [name] => group = Some(checked(name)?),
                    [_, "physical_volumes", _] => devices += 1,
                    _ => {}
                }
            }
            (Token::Sign(b'}'), _) => {
                sections.pop()?;
                // The rest describes the writer of the text.
                if sections.is_empty() {
                    break;
                }
            }
            (Token::Text("VISIBLE"), _) => {
                if let [_, "logical_volumes", volume] = sections.as_slice() {
                    if volumes.len() < VOLUMES_MAX {
                        volumes.push(checked(volume)?);
                    }
                }
            }
            _ => {}
        }
        last = Some(token);
    }
    Some(Group {
        name: group?,
        devices,
        volumes,
    })
}

/// A name that LVM permits.
fn checked(name: &str) -> Option<String> {
    let is_letter = |one: u8| one.is_ascii_alphanumeric() || b"_.+-".contains(&one);
    let is_valid = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('-')
        && !matches!(name, "." | "..")
        && name.bytes().all(is_letter);
    is_valid.then(|| name.to_owned())
}

/// Consumes the next token.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Token<'a>> {
    loop {
        let (first, after) = rest.split_first()?;
        match first {
            b'#' => {
                let end = after.iter().position(|one| *one == b'\n');
                *rest = &after[end.unwrap_or(after.len())..];
            }
            b'"' => {
                let end = end_of_text(after)?;
                *rest = &after[end + 1..];
                return Some(Token::Text(std::str::from_utf8(&after[..end]).ok()?));
            }
            b'{' | b'}' | b'=' | b'[' | b']' | b',' => {
                *rest = after;
                return Some(Token::Sign(*first));
            }
            0 => return None,
            one if one.is_ascii_graphic() => {
                let is_end = |one: &u8| !one.is_ascii_graphic() || b"{}=[],#\"".contains(one);
                let end = rest.iter().position(is_end).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                *rest = after;
                return Some(Token::Name(std::str::from_utf8(name).ok()?));
            }
            _ => *rest = after,
        }
    }
}

/// The offset of the closing quote.
fn end_of_text(bytes: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    bytes.iter().position(|one| {
        let is_end = *one == b'"' && !is_escaped;
        is_escaped = *one == b'\\' && !is_escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"vg0 {
id = "abc"
seqno = 3
status = ["RESIZEABLE", "READ", "WRITE"]
physical_volumes {
pv0 {
id = "x"	# a comment with { and "
device = "/dev/sda{"
}
pv1 {
}
}
logical_volumes {
root {
status = ["READ", "WRITE", "VISIBLE"]
segment1 {
type = "striped"
stripes = [
"pv0", 0
]
}
}
pool_tdata {
status = ["READ", "WRITE"]
}
swap-1 {
status = ["VISIBLE"]
tags = ["\"VISIBLE"]
}
}
}
# Generated
contents = "Text Format Volume Group"
creation_host { "VISIBLE" }
"#;

    #[test]
    fn group_devices_and_visible_volumes_are_read() {
        let expected = Group {
            name: "vg0".to_owned(),
            devices: 2,
            volumes: vec!["root".to_owned(), "swap-1".to_owned()],
        };
        assert_eq!(parse(TEXT.as_bytes()), Some(expected));
    }

    #[test]
    fn names_that_a_shell_would_interpret_are_rejected() {
        for name in ["$(reboot)", "a;b", "-rf", "..", "a'b", "a/b", "a`b`"] {
            let text = TEXT.replace("vg0", name);
            assert_eq!(parse(text.as_bytes()), None, "{name}");
            let text = TEXT.replace("root", name);
            assert_eq!(parse(text.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn truncated_and_deep_texts_are_tolerated() {
        for length in 0..TEXT.len() {
            parse(&TEXT.as_bytes()[..length]);
        }
        assert_eq!(parse("a{".repeat(DEPTH_MAX + 1).as_bytes()), None);
        assert_eq!(parse(b"}"), None);
        assert_eq!(parse(b""), None);
    }
}
