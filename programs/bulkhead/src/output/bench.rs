//! What `bulkhead bench crypto` measured.

use pool_access::engines::bench_crypto::Report;

use crate::table::Table;

/// What is printed of it.
pub fn crypto(report: &Report, json: bool) -> String {
    match json {
        true => serde_json::to_string_pretty(report).expect("numbers are JSON") + "\n",
        false => text(report),
    }
}

fn text(report: &Report) -> String {
    let mut table = Table::new(&["CIPHER", "", ">ENGINE", ">OPENZFS", ">OPENSSL"]);
    let shown = |speed: Option<f64>| speed.map_or("-".to_owned(), |speed| format!("{speed:.0}"));
    for row in &report.rows {
        table.row([
            row.cipher.clone(),
            row.direction.to_owned(),
            shown(row.engine_mb_per_s),
            shown(row.openzfs_mb_per_s),
            shown(row.openssl_mb_per_s),
        ]);
    }
    let mut text = format!(
        "{} known answers came out. MB for each second of processor {}, blocks of {} bytes, {}:\n\n{}\n",
        report.known_answers,
        report.processor,
        report.block_bytes,
        report.openssl,
        table.render()
    );
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}
