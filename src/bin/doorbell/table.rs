//! Columns side by side, for people.

use std::fmt;

/// A table with a line of headings. Its cells must be [plain](crate::output::plain).
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new<const COLUMNS: usize>(headings: [&str; COLUMNS]) -> Self {
        Table(vec![headings.map(str::to_owned).to_vec()])
    }

    pub(crate) fn row<const COLUMNS: usize>(&mut self, cells: [String; COLUMNS]) {
        self.0.push(cells.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}

/// Lines without the last line's end.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.0[0].len()).map(|column| self.width(column)).collect();
        for (number, row) in self.0.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(["A", "LAST"]);
        table.row(["ééé".to_owned(), "x".to_owned()]);
        assert_eq!(table.to_string(), "A    LAST\nééé  x");
    }
}
