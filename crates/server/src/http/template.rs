//! Path templates of HTTP rules: `/v1/sessions/{session_id}/messages/{message_id}:finish`.

use crate::app::{self, Error};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// A template: segments, each a text or a variable, and the verb of a custom method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    segments: Vec<Segment>,
    verb: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// A variable of one segment, by its field's path.
    Variable(String),
}

/// A template that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the path template {template:?} is not `/` with literals, variables of one segment, and a verb")]
pub(super) struct MalformedTemplate {
    template: String,
}

/// The path of a request, decoded segment by segment.
#[derive(Debug)]
pub(super) struct RequestPath<'a> {
    segments: Vec<Cow<'a, str>>,
    /// The last segment without its verb, and the verb.
    verb: Option<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> RequestPath<'a> {
    /// Decodes a path. An escaped colon is part of its segment and begins no verb.
    ///
    /// # Errors
    ///
    /// `REQUEST_MALFORMED` for escapes that are no UTF-8.
    pub(super) fn parse(path: &'a str) -> app::Result<Self> {
        let decode = |segment: &'a str| {
            if !segment.contains('%') {
                return Ok(Cow::Borrowed(segment));
            }
            let malformed = |_| Error::new(app::Reason::RequestMalformed, "the path is not UTF-8");
            percent_decode_str(segment).decode_utf8().map_err(malformed)
        };
        let raw: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        let verb = match raw.last().and_then(|last| last.rsplit_once(':')) {
            Some((segment, verb)) => Some((decode(segment)?, decode(verb)?)),
            None => None,
        };
        Ok(Self { segments: raw.into_iter().map(decode).collect::<app::Result<_>>()?, verb })
    }
}

impl Template {
    /// Parses a template.
    pub(super) fn parse(text: &str) -> Result<Self, MalformedTemplate> {
        let malformed = || MalformedTemplate { template: text.to_owned() };
        let path = text.strip_prefix('/').ok_or_else(malformed)?;
        let (path, verb) = match path.rsplit_once(':') {
            Some((path, verb)) if is_literal(verb) => (path, Some(verb.to_owned())),
            Some(_) => return Err(malformed()),
            None => (path, None),
        };
        let segment = |segment: &str| match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(field) if field.split('.').all(is_literal) => Ok(Segment::Variable(field.to_owned())),
            None if is_literal(segment) => Ok(Segment::Literal(segment.to_owned())),
            _ => Err(malformed()),
        };
        Ok(Self { segments: path.split('/').map(segment).collect::<Result<_, _>>()?, verb })
    }

    /// The values of the variables, by their fields; none if the path is another one.
    pub(super) fn variables(&self, path: &RequestPath<'_>) -> Option<Vec<(&str, String)>> {
        if self.segments.len() != path.segments.len() {
            return None;
        }
        let last = match (&self.verb, &path.verb) {
            (None, _) => path.segments.last()?,
            (Some(verb), Some((last, there))) if verb == there => last,
            (Some(_), _) => return None,
        };
        let before = &path.segments[..path.segments.len() - 1];
        let mut variables = Vec::new();
        for (segment, value) in self.segments.iter().zip(before.iter().chain([last])) {
            match segment {
                Segment::Literal(text) if text == value => {}
                Segment::Variable(field) if !value.is_empty() => {
                    variables.push((field.as_str(), value.clone().into_owned()))
                }
                Segment::Literal(_) | Segment::Variable(_) => return None,
            }
        }
        Some(variables)
    }

    /// True if the template has a verb: it precedes a template whose last variable takes verbs as part of its value.
    pub(super) fn has_verb(&self) -> bool {
        self.verb.is_some()
    }

    /// The fields of the variables.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Variable(field) => Some(field.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// True if one path can match both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let pairs = self.segments.iter().zip(&other.segments);
        let alike = |(left, right): (&Segment, &Segment)| match (left, right) {
            (Segment::Literal(left), Segment::Literal(right)) => left == right,
            (Segment::Variable(_), _) | (_, Segment::Variable(_)) => true,
        };
        self.verb == other.verb && self.segments.len() == other.segments.len() && pairs.into_iter().all(alike)
    }
}

impl std::fmt::Display for Template {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(out, "/{text}")?,
                Segment::Variable(field) => write!(out, "/{{{field}}}")?,
            }
        }
        self.verb.as_ref().map_or(Ok(()), |verb| write!(out, ":{verb}"))
    }
}

/// True for the texts that a template has as they are.
fn is_literal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_takes_its_paths_and_no_others() {
        let cases = [
            ("/v1/sessions", "/v1/sessions", Some(vec![])),
            ("/v1/sessions", "/v1/sessions/", None),
            ("/v1/sessions", "/v1/session", None),
            ("/v1/sessions/{id}", "/v1/sessions/a", Some(vec![("id", "a")])),
            ("/v1/sessions/{id}", "/v1/sessions/", None),
            ("/v1/sessions/{id}", "/v1/sessions/a/b", None),
            ("/v1/sessions/{id}", "/v1/sessions/a%2Fb%20%C3%A4", Some(vec![("id", "a/b ä")])),
            ("/v1/sessions/{id}", "/v1/sessions/a:b", Some(vec![("id", "a:b")])),
            ("/v1/sessions/{id}:fork", "/v1/sessions/a:fork", Some(vec![("id", "a")])),
            ("/v1/sessions/{id}:fork", "/v1/sessions/a:b:fork", Some(vec![("id", "a:b")])),
            ("/v1/sessions/{id}:fork", "/v1/sessions/a%3Afork", None),
            ("/v1/sessions/{id}:fork", "/v1/sessions/:fork", None),
            ("/v1/sessions/{id}:fork", "/v1/sessions/a:rewind", None),
            ("/v1/{a.b}/x/{c}:go", "/v1/1/x/2:go", Some(vec![("a.b", "1"), ("c", "2")])),
        ];
        for (template, path, expected) in cases {
            let read = Template::parse(template).expect("a template");
            assert_eq!(read.to_string(), template);
            let path_read = RequestPath::parse(path).expect("a path");
            let found = read.variables(&path_read);
            let found = found.as_ref().map(|all| all.iter().map(|(field, value)| (*field, value.as_str())).collect());
            assert_eq!(found, expected, "{template} {path}");
        }
    }

    #[test]
    fn templates_that_are_not_supported_are_refused() {
        for text in ["", "v1", "/v1/{a=*}", "/v1/{a=**}", "/v1/*", "/v1//a", "/v1/{}", "/v1/a:", "/v1/a:b/c", "/v1/{a"]
        {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        assert!(RequestPath::parse("/v1/%ff").is_err());
    }

    #[test]
    fn templates_overlap_if_one_path_matches_both() {
        let overlap = |left, right| {
            let [left, right] = [left, right].map(|text| Template::parse(text).expect("a template"));
            left.overlaps(&right)
        };
        assert!(overlap("/v1/{a}", "/v1/b"));
        assert!(overlap("/v1/{a}:go", "/v1/{b}:go"));
        assert!(!overlap("/v1/{a}:go", "/v1/{a}"));
        assert!(!overlap("/v1/a", "/v1/b"));
        assert!(!overlap("/v1/a", "/v1/a/b"));
    }
}
