//! The throughput by connections, as SVG.

use std::fmt::Write as _;

use crate::bound::Measured;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;

/// Draws a line with a point for each row, and the speed of the link, if it is known.
pub fn svg(title: &str, rows: &[Measured], link_gb_per_s: Option<f64>) -> String {
    let fastest = rows.iter().map(|row| row.gb_per_s).fold(0.0, f64::max);
    let top = fastest.max(link_gb_per_s.unwrap_or(0.0)).max(0.001) * 1.1;
    let x = |index: usize| {
        let steps = (rows.len().max(2) - 1) as f64;
        MARGIN + (WIDTH - 2.0 * MARGIN) * index as f64 / steps
    };
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * value / top;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{MARGIN}\" y=\"24\" \
         font-size=\"15\">{}</text>\n<text x=\"{MARGIN}\" y=\"44\">Gb/s by connections</text>\n",
        escaped(title)
    );
    let (left, right, bottom) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN);
    let _ = writeln!(
        text,
        "<path d=\"M{left} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"#555\"/>"
    );
    if let Some(link) = link_gb_per_s {
        let at = y(link);
        let _ = writeln!(
            text,
            "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#d22\" stroke-dasharray=\"6 4\"/>\n<text x=\"{right}\" \
             y=\"{:.1}\" text-anchor=\"end\" fill=\"#d22\">link {link} Gb/s</text>",
            at - 6.0
        );
    }
    let points: Vec<String> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| format!("{:.1},{:.1}", x(index), y(row.gb_per_s)))
        .collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#14c\" stroke-width=\"2.5\"/>",
        points.join(" ")
    );
    for (index, row) in rows.iter().enumerate() {
        let (at, height) = (x(index), y(row.gb_per_s));
        let _ = writeln!(
            text,
            "<circle cx=\"{at:.1}\" cy=\"{height:.1}\" r=\"4\" fill=\"#14c\"/>\n<text x=\"{at:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{:.2}</text>\n<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 10.0,
            row.gb_per_s,
            bottom + 20.0,
            row.connections
        );
    }
    text.push_str("</svg>\n");
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_a_point_inside_of_the_picture() {
        let row = |connections, gb_per_s| Measured {
            connections,
            gb_per_s,
            ..Measured::default()
        };
        let picture = svg(
            "a < b",
            &[row(1, 3.2), row(2, 6.0), row(4, 8.4)],
            Some(10.0),
        );
        assert_eq!(picture.matches("<circle").count(), 3);
        assert!(
            picture.contains("a &lt; b") && picture.contains("link 10 Gb/s"),
            "{picture}"
        );
        assert!(picture.contains(">8.40</text>"), "{picture}");
        for picture in [svg("x", &[], None), svg("x", &[row(1, 0.0)], None)] {
            assert!(
                !picture.contains("NaN") && !picture.contains("inf"),
                "{picture}"
            );
        }
    }
}
