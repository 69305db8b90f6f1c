//! The order of versions, as `bulkhead --version` prints them.

use std::cmp::Ordering;

/// Compares two versions: numbers separated by dots, then what follows a `-`, with which a version is an earlier one.
/// The part after `~` or `+`, such as the release of Debian, does not count.
pub fn compare(one: &str, other: &str) -> Ordering {
    let ((one, one_pre), (other, other_pre)) = (parts(one), parts(other));
    one.cmp(&other).then_with(|| match (one_pre, other_pre) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => one.cmp(other),
    })
}

fn parts(version: &str) -> (Vec<u64>, Option<&str>) {
    let version = upstream(version);
    let (numbers, pre) = match version.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (version, None),
    };
    let mut numbers: Vec<u64> = numbers
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    (numbers, pre)
}

/// The version of the binary in the version of a package: without the release of Debian.
pub fn upstream(version: &str) -> &str {
    let end = version.find(['~', '+']).unwrap_or(version.len());
    &version[..end]
}

/// Whether a text has the form of a version, so that it can be an argument of a command.
pub fn is_plausible(version: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ".-~+".contains(letter);
    let begins = version.starts_with(|letter: char| letter.is_ascii_digit());
    begins && version.len() <= 100 && version.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number_and_earlier_ones_precede() {
        let ascending = ["0.1.0-rc1", "0.1.0-rc2", "0.1", "0.2.0", "0.10.0", "1.0.0"];
        for (at, one) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&other_at), "{one} {other}");
            }
        }
        assert_eq!(compare("0.1.0~deb12", "0.1.0~deb13"), Ordering::Equal);
        assert_eq!(upstream("0.1.0~deb12"), "0.1.0");
    }

    #[test]
    fn text_that_a_shell_or_apt_would_misread_is_no_version() {
        assert!(is_plausible("0.2.0~deb12"));
        for bad in ["", "v1", "1.0 ; rm", "-1", "1/2", "1$(id)", "1\n2"] {
            assert!(!is_plausible(bad), "{bad:?}");
        }
    }
}
