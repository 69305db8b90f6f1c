//! Columns of text, as wide as their widest cell.

/// Returns the text for an absent value.
pub fn dash() -> String {
    "-".to_owned()
}

/// Sanitizes a text from outside, such as the name of a file: one line without effect on a terminal.
pub fn harmless(text: &str) -> String {
    // Characters that change the direction of the text, or end a line.
    let deceives = |c| matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| match c.is_control() || deceives(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Least number of characters that remain of a cell.
const CUT_MIN: usize = 12;

/// Rows under a heading.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// Creates a table with these column headings; one that starts with `>` is aligned to the
    /// right.
    pub fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|h| h.starts_with('>')).collect();
        let headings = headings
            .iter()
            .map(|h| h.trim_start_matches('>').to_owned());
        Self {
            rows: vec![headings.collect()],
            right,
        }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Adds a row of as many cells as there are headings.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Cuts the cells of a column so that the table is no wider than `width`, as far as that leaves
    /// [`CUT_MIN`] characters of them.
    pub fn cut(&mut self, column: usize, width: usize) {
        let widths: Vec<usize> = (0..self.right.len()).map(|at| self.width(at)).collect();
        let all = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let left = widths[column].saturating_sub(all.saturating_sub(width));
        let left = left.max(CUT_MIN);
        for row in &mut self.rows {
            let Some(cell) = row.get_mut(column) else {
                continue;
            };
            if cell.chars().count() > left {
                *cell = cell.chars().take(left - 1).chain(['…']).collect();
            }
        }
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// Returns the text, a line per row, without trailing blanks.
    pub fn render(&self) -> String {
        let columns = self.right.len();
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let blank = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                let (before, after) = match self.right[column] {
                    true => (blank.as_str(), ""),
                    false => ("", blank.as_str()),
                };
                line.push_str(before);
                line.push_str(cell);
                line.push_str(after);
                line.push_str("  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell() {
        let mut table = Table::new(&["NAME", ">SIZE", "NOTE"]);
        table.row(["a".into(), "10G".into(), "x".into()]);
        table.row(["longer".into(), "1.5M".into(), String::new()]);
        assert_eq!(
            table.render(),
            "NAME    SIZE  NOTE\na        10G  x\nlonger  1.5M\n"
        );
    }
}
