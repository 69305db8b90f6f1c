//! Parses text into types. Syntax errors are reported as findings, too.

use crate::check::{Code, Finding, Place};
use crate::file::Appliance;
use crate::key::{LineStarts, SourceMap};

/// The longest file that is read, in bytes: far more than the largest appliance needs.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// An appliance with the lines of its keys.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The parsed file.
    pub appliance: Appliance,
    /// The line of each key.
    pub source: SourceMap,
}

/// Reads an appliance file.
///
/// # Errors
///
/// The first mistake of form: no TOML, an unknown field, a value of the wrong kind.
pub fn parse(text: &str) -> Result<Parsed, Box<Finding>> {
    if text.len() > FILE_BYTES_MAX {
        let what = format!(
            "the file has {} bytes, at most {FILE_BYTES_MAX} are read",
            text.len()
        );
        return Err(Box::new(syntax(what, None)));
    }
    match toml::from_str::<Appliance>(text) {
        Ok(appliance) => Ok(Parsed {
            appliance,
            source: SourceMap::new(text),
        }),
        Err(error) => {
            let line = error
                .span()
                .map(|span| LineStarts::of(text).line_at(span.start));
            Err(Box::new(syntax(error.message().replace('\n', " "), line)))
        }
    }
}

fn syntax(what: String, line: Option<u32>) -> Finding {
    Finding {
        code: Code::Syntax,
        severity: Code::Syntax.severity(),
        place: Place {
            key: String::new(),
            line,
        },
        what,
        why: Code::Syntax.why(),
        mend: "correct this line; the fields are described in the reference of appliance.toml"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_error_reports_its_line() {
        for (text, line, part) in [
            ("format = 1\nname = attic\n", 2, ""),
            (
                "format = 1\nname = \"attic\"\ncolour = \"red\"\n",
                3,
                "colour",
            ),
            (
                "format = 1\nname = \"a\"\n[heads]\n[networks.a]\nsubnets = [\"10.0.0.1/24\"]\n",
                5,
                "10.0.0.0/24",
            ),
            (
                "format = 1\nname = \"a\"\n[networks]\n[heads.Left]\nnumber = 1\n",
                4,
                "lower-case",
            ),
        ] {
            let finding = parse(text).unwrap_err();
            assert_eq!(finding.place.line, Some(line), "{text}: {finding:?}");
            assert!(finding.what.contains(part), "{finding:?}");
        }
    }
}
