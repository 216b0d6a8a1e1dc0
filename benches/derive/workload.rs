//! Definitions no two of which have the same pair of operands.
//!
//! One in six each: a quotient of differences, a sum of rates, one of values with a factor, a share in percent, a difference with a
//! factor, and a value in relation to the average of another's.

/// The `n`th pair of different metrics, each in both roles.
fn pair(n: usize) -> (usize, usize) {
    // (0, 1), (0, 2), (1, 2), (0, 3), ...: the first `b * (b - 1) / 2` pairs have metrics below `b` only.
    let mut b = 1;
    while b * (b + 1) / 2 <= n {
        b += 1;
    }
    let a = n - b * (b - 1) / 2;
    if n.is_multiple_of(2) { (a, b) } else { (b, a) }
}

/// How many metrics `definitions` of them need.
pub(crate) fn operands(definitions: usize) -> usize {
    (0..definitions).map(|n| pair(n).0.max(pair(n).1)).max().map_or(0, |most| most + 1)
}

/// The `n`th expression, of metrics that begin with `prefix`.
pub(crate) fn expression(prefix: &str, n: usize) -> String {
    let (a, b) = pair(n);
    let (a, b) = (format!("{prefix}{a}"), format!("{prefix}{b}"));
    match n % 6 {
        0 => format!("delta({a}) / delta({b})"),
        1 => format!("rate({a}) + rate({b})"),
        2 => format!("instant({a}) + 3 * instant({b})"),
        3 => format!("100 * rate({a}) / (rate({a}) + rate({b}))"),
        4 => format!("delta({a}) - 2 * delta({b})"),
        _ => format!("100 * instant({a}) / avg({b})"),
    }
}

/// Whether the values are by the second, so that they depend on when they were fetched.
pub(crate) fn is_rate(n: usize) -> bool {
    n % 6 == 1
}
