//! The middle of a few rounds.

/// The median: of an even number of values, the mean of the two in the middle. NaN if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => f64::NAN,
        (count, middle) if count % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        (_, middle) => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_care_about_order_or_outliers() {
        assert_eq!(median([900.0, 1.0, 3.0]), 3.0);
        assert_eq!(median([4.0, 2.0]), 3.0);
        assert!(median([]).is_nan());
    }
}
