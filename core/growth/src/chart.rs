//! One picture of every disk's fill over time, as SVG: old disks grey, new disks red, the mean of the old blue, the mean
//! of the new green.

use std::fmt::Write as _;

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A disk that was there before.
    Old,
    /// A disk that is added.
    New,
    /// The mean of the old disks.
    MeanOld,
    /// The mean of the added disks.
    MeanNew,
    /// A prediction of a mean.
    Predicted,
}

impl Kind {
    const fn style(self) -> &'static str {
        match self {
            Self::Old => "stroke=\"#000\" stroke-opacity=\"0.25\" stroke-width=\"0.6\"",
            Self::New => "stroke=\"#d22\" stroke-opacity=\"0.7\" stroke-width=\"0.6\"",
            Self::MeanOld => "stroke=\"#14c\" stroke-width=\"2.5\"",
            Self::MeanNew => "stroke=\"#182\" stroke-width=\"2.5\"",
            Self::Predicted => "stroke=\"#555\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"",
        }
    }

    const fn legend(self) -> &'static str {
        match self {
            Self::Old => "a disk",
            Self::New => "a new disk",
            Self::MeanOld => "mean of the old disks",
            Self::MeanNew => "mean of the new disks",
            Self::Predicted => "predicted",
        }
    }
}

/// A line: points of time and fraction.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its kind.
    pub kind: Kind,
    /// Time, and fraction of the disk.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// The unit of the time, such as `hours` or `stages`.
    pub unit: String,
    /// The lines; later ones are drawn above earlier ones.
    pub lines: Vec<Line>,
    /// Fractions with a name, drawn across.
    pub levels: Vec<(String, f64)>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 80.0;
/// Steps of the axes.
const TICKS: u32 = 10;

impl Chart {
    /// Renders it.
    pub fn to_svg(&self) -> String {
        let times = self.lines.iter().flat_map(|line| line.points.iter());
        let last = times.map(|point| point.0).fold(0.0, f64::max);
        let last = if last > 0.0 { last } else { 1.0 };
        let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * (time / last).clamp(0.0, 1.0);
        let y = |fill: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - fill.clamp(0.0, 1.0));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"25\" font-size=\"16\">{}</text>\n",
            escaped(&self.title)
        );
        for tick in 0..=TICKS {
            let fraction = f64::from(tick) / f64::from(TICKS);
            let (across, up) = (x(last * fraction), y(fraction));
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {up:.1}H{}\" stroke=\"#eee\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>\
                 <text x=\"{across:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                up + 4.0,
                fraction * 100.0,
                HEIGHT - BOTTOM + 18.0,
                tick_text(last * fraction, last)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - BOTTOM + 36.0,
            escaped(&self.unit)
        );
        for (name, fraction) in &self.levels {
            let up = y(*fraction);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {up:.1}H{}\" stroke=\"#c80\" stroke-dasharray=\"2 3\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#a60\">{}</text>",
                WIDTH - RIGHT,
                WIDTH - RIGHT - 4.0,
                up - 3.0,
                escaped(name)
            );
        }
        for line in &self.lines {
            let points = line.points.iter();
            let points: Vec<String> = points
                .map(|&(time, fill)| format!("{:.1},{:.1}", x(time), y(fill)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" {} points=\"{}\"/>",
                line.kind.style(),
                points.join(" ")
            );
        }
        self.write_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn write_legend(&self, svg: &mut String) {
        let kinds = [
            Kind::Old,
            Kind::New,
            Kind::MeanOld,
            Kind::MeanNew,
            Kind::Predicted,
        ];
        let used = kinds
            .into_iter()
            .filter(|kind| self.lines.iter().any(|line| line.kind == *kind));
        let up = HEIGHT - 22.0;
        for (index, kind) in used.enumerate() {
            let across = LEFT + 175.0 * index as f64;
            let _ = writeln!(
                svg,
                "<path d=\"M{across} {up}h28\" {}/><text x=\"{}\" y=\"{}\">{}</text>",
                kind.style(),
                across + 34.0,
                up + 4.0,
                kind.legend()
            );
        }
    }
}

fn tick_text(time: f64, last: f64) -> String {
    match last >= f64::from(TICKS) {
        true => format!("{time:.0}"),
        false => format!("{time:.1}"),
    }
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
    fn a_chart_has_a_line_for_each_disk_and_no_raw_markup() {
        let line = |kind| Line {
            kind,
            points: vec![(0.0, 0.5), (10.0, 2.0)],
        };
        let chart = Chart {
            title: "a < b & c".to_owned(),
            unit: "hours".to_owned(),
            lines: vec![line(Kind::Old), line(Kind::New), line(Kind::MeanOld)],
            levels: vec![("nearfull".to_owned(), 0.85)],
        };
        let svg = chart.to_svg();
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.contains("a &lt; b &amp; c"), "{svg}");
        // More than a whole disk is drawn at the top.
        assert!(svg.contains("points=\"60.0,265.0 940.0,50.0\""), "{svg}");
    }

    #[test]
    fn a_chart_without_time_is_drawn() {
        let chart = Chart {
            title: String::new(),
            unit: "stages".to_owned(),
            lines: vec![Line {
                kind: Kind::Old,
                points: vec![(0.0, 0.1)],
            }],
            levels: Vec::new(),
        };
        assert!(!chart.to_svg().contains("NaN"));
    }
}
