//! Renders keys for people.

use control::key::{KeyView, ways_to_load};

use crate::table::{Table, dash};
use crate::wrap;

/// Number of missing keys with advice after the table. The commands for further ones are the same.
const ADVISED_MAX: usize = 5;

/// One line per dataset.
pub fn list(keys: &[KeyView]) -> String {
    if keys.is_empty() {
        return "nothing is encrypted here\n".to_owned();
    }
    let mut table = Table::new(&["NAME", "ENCRYPTION", "KEY", "FORMAT", "KEPT"]);
    for key in keys {
        let state = match (key.encryption.as_str(), key.loaded) {
            ("off", _) => "-",
            (_, true) => "loaded",
            (_, false) => "MISSING",
        };
        let kept = match &key.shared_with {
            Some(root) => format!("with {root}"),
            None => key.locations.join(", "),
        };
        table.row([
            key.dataset.clone(),
            key.encryption.clone(),
            state.to_owned(),
            key.format.clone().unwrap_or_else(dash),
            kept,
        ]);
    }
    let mut text = table.render();
    let is_missing =
        |key: &&KeyView| key.encryption != "off" && !key.loaded && key.shared_with.is_none();
    let missing: Vec<&KeyView> = keys.iter().filter(is_missing).collect();
    for key in missing.iter().take(ADVISED_MAX) {
        let ways = ways_to_load(&key.dataset, key.format.as_deref(), &key.locations);
        let advice = format!("{}: {ways}", key.dataset);
        text.push('\n');
        text.push_str(&wrap::line("missing:", &advice));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_key_is_highlighted() {
        let key = KeyView {
            dataset: "tank/vm0".to_owned(),
            encryption: "aes-256-gcm".to_owned(),
            format: Some("raw".to_owned()),
            locations: vec!["file:///etc/keys/vm0".to_owned()],
            ..KeyView::default()
        };
        let text = list(&[key]);
        assert!(
            text.contains("MISSING") && text.contains("file:///etc/keys/vm0"),
            "{text}"
        );
        let advice: Vec<&str> = text.split_whitespace().collect();
        let advice = advice.join(" ");
        assert!(
            advice.contains("missing: tank/vm0: write the 32 bytes of the key to /etc/keys/vm0, and run `bulkhead volume key load tank/vm0`"),
            "{text}"
        );
    }

    /// One key that is loaded, one that a parent has, and one of a dataset that is not encrypted.
    #[test]
    fn present_and_shared_keys_have_no_advice() {
        let of = |encryption: &str, loaded: bool, shared_with: Option<&str>| KeyView {
            dataset: "tank/vm0".to_owned(),
            encryption: encryption.to_owned(),
            loaded,
            shared_with: shared_with.map(str::to_owned),
            ..KeyView::default()
        };
        let keys = [
            of("aes-256-gcm", true, None),
            of("aes-256-gcm", false, Some("tank")),
            of("off", false, None),
        ];
        let text = list(&keys);
        assert!(!text.contains("missing:"), "{text}");
    }
}
