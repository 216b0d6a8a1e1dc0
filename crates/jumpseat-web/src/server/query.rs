//! The parameters of a request: `name=value` pairs as PCP's servers take them (`docs/pcp/webapi.md` 2).
//!
//! The first pair of a name counts; names and values are decoded (`%XX`, and `+` for a blank). A pair is split at its first `=`.

use std::borrow::Cow;

use axum::extract::{FromRequestParts, RawQuery};
use http::StatusCode;
use http::request::Parts;

use super::answer::Refusal;

/// Most pairs of a request: nobody has use for more.
const MAX_PAIRS: usize = 1024;

/// Parameters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

/// Why parameters cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadQuery {
    /// `%` without two hexadecimal digits.
    #[error("bad escape in the parameters: % needs two hexadecimal digits behind it")]
    Escape,
    /// The bytes are no text.
    #[error("the parameters are not UTF-8")]
    Utf8,
    /// Too many of them.
    #[error("more than {MAX_PAIRS} parameters")]
    TooMany,
}

impl Query {
    /// Reads what is behind the `?` of a URL, or a body of that form.
    ///
    /// # Errors
    /// [`BadQuery`].
    pub(super) fn parse(text: &str) -> Result<Query, BadQuery> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if pairs.len() == MAX_PAIRS {
                return Err(BadQuery::TooMany);
            }
            pairs.push((decoded(name)?.into_owned(), decoded(value)?.into_owned()));
        }
        Ok(Query { pairs })
    }

    /// The value of a parameter, empty if it has none; `None` if the parameter is not there.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may be there several times.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of the first of these parameters that is there.
    pub(super) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Whether there is none at all.
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// The parameters of the URL, for handlers.
impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query, Refusal> {
        let RawQuery(text) =
            RawQuery::from_request_parts(parts, state).await.unwrap_or_else(|never| match never {});
        Query::parse(text.as_deref().unwrap_or_default())
            .map_err(|bad| Refusal::new(StatusCode::BAD_REQUEST, bad.to_string()))
    }
}

/// A name or a value without escapes.
fn decoded(text: &str) -> Result<Cow<'_, str>, BadQuery> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2).ok_or(BadQuery::Escape)?;
                rest = behind;
                let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(BadQuery::Escape);
                u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).unwrap_or_default()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadQuery::Utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_the_spec_says() {
        let query = Query::parse("a=1&b=x%20y+z&a=2&c&d=p=q&&%65=%e2%82%ac").expect("good");
        let get = |name| query.get(name);
        assert_eq!(get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(get("b"), Some("x y z"));
        assert_eq!(get("c"), Some(""));
        assert_eq!(get("d"), Some("p=q"));
        assert_eq!(get("e"), Some("€"));
        assert_eq!(get("f"), None);
        assert_eq!(query.first(&["f", "b", "a"]), Some("x y z"));
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(Query::parse("a=%zz"), Err(BadQuery::Escape));
        assert_eq!(Query::parse("a=%4"), Err(BadQuery::Escape));
        assert_eq!(Query::parse("a=%ff"), Err(BadQuery::Utf8));
        let many: String = (0..=MAX_PAIRS).map(|n| format!("n{n}&")).collect();
        assert_eq!(Query::parse(&many), Err(BadQuery::TooMany));
    }
}
