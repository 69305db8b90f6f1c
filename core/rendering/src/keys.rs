//! Renders keys for people.

use control::key::KeyView;

use crate::table::{Table, dash};

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
    table.render()
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
    }
}
