//! The metric that a name was perhaps meant to be.

use pcp_client::{ClientError, Context};
use pcp_model::PmError;

/// What is wrong with a name: for one that nobody knows, with the nearest that there is.
pub(crate) fn explain(context: &mut Context, name: &str, error: &ClientError) -> String {
    let unknown = matches!(error, ClientError::Pcp(PmError::NAME | PmError::NONLEAF));
    match unknown.then(|| nearest(context, name)).flatten() {
        Some(other) => format!("{name}: {error}; the nearest is {other}"),
        None => format!("{name}: {error}"),
    }
}

/// Goes down the name space, at each part to the child that is spelled most alike.
fn nearest(context: &mut Context, name: &str) -> Option<String> {
    let mut path = String::new();
    for part in name.split('.') {
        let children = context.children(&path).ok()?;
        let names = children.iter().map(|child| child.name.as_str());
        let (found, away) = closest(part, names)?;
        // What has little in common is no help.
        if away > 1 + part.chars().count() / 3 {
            return None;
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(found);
    }
    (path != name).then_some(path)
}

/// The name that is the fewest changes away, and how many.
fn closest<'a>(part: &str, names: impl Iterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    names.map(|name| (name, strsim::damerau_levenshtein(part, name))).min_by_key(|&(_, away)| away)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_has_the_fewest_changes() {
        let names = ["load", "cpu", "lastpid"];
        assert_eq!(closest("laod", names.into_iter()), Some(("load", 1)));
        assert_eq!(closest("cpu", names.into_iter()), Some(("cpu", 0)));
        assert_eq!(closest("x", std::iter::empty()), None);
    }
}
