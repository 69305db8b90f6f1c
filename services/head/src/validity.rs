//! Determines how long the certificate in a file is valid.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use control::calendar::from_compact_utc;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Seconds until the first certificate of a PEM file expires; negative if it is not valid now.
pub fn left_s(path: &Path) -> Option<i64> {
    let certificate = CertificateDer::from_pem_file(path).ok()?;
    let (from, until) = certificates::validity(&certificate)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    left(&from, &until, now)
}

fn left(from: &str, until: &str, now: u64) -> Option<i64> {
    // Before 1970 all of them are valid.
    let from = seconds(from).unwrap_or(0);
    let left = i64::try_from(seconds(until)?).ok()? - i64::try_from(now).ok()?;
    Some(if from > now { left.min(-1) } else { left })
}

fn seconds(moment: &str) -> Option<u64> {
    let (date, time) = moment.split_at_checked(8)?;
    from_compact_utc(&format!("{date}T{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_is_valid_between_its_dates() {
        let (from, until) = ("20261121000000Z", "20261122000000Z");
        let noon = seconds("20261121120000Z").expect("a moment");
        assert_eq!(left(from, until, noon), Some(12 * 3600));
        assert_eq!(left(from, until, noon + 86_400), Some(-12 * 3600));
        assert_eq!(left(from, until, noon - 86_400), Some(-1));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("certificate");
        let made = certificates::make(&["a.example".to_owned()], certificates::Purpose::Server);
        std::fs::write(&path, made.expect("made").certificate_pem()).expect("written");
        assert!(left_s(&path).is_some_and(|left| left > 365 * 86_400));
        std::fs::write(&path, "nothing").expect("written");
        assert_eq!(left_s(&path), None);
    }
}
