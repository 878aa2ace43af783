//! Which sessions a list has: conditions on their rows, and the indexes by which few of them are found.

use super::ancestry;
use super::codec::Number as _;
use super::head::SessionKey;
use super::labels;
use super::visibility::{Memberships, Visibility};
use crate::engine::{self, List, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::session::SessionState;
use crate::model::time::Timestamp;
use serde_json::Value;
use std::ops::Range;

/// Conditions on sessions, of which all must hold.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// The sessions of a tenant that are visible, of a project or a tree if those are asked for.
    pub visibility: Visibility,
    /// The session that it works for.
    pub parent: Option<SessionKey>,
    /// Its state.
    pub state: Option<SessionState>,
    /// The actor that made it.
    pub actor: Option<String>,
    /// Labels, all of which it has.
    pub labels: Vec<String>,
    /// The directory in its metadata, or one above it.
    pub directory: Option<String>,
    /// Conditions on its metadata.
    pub metadata: Vec<MetadataTerm>,
    /// The beginning of its title; empty for any.
    pub title_prefix: String,
    /// The beginning of its client's id; empty for any.
    pub client_id_prefix: String,
    /// When it was made.
    pub create_time: TimeRange,
    /// When it changed last.
    pub update_time: TimeRange,
    /// When its messages were written: elsewhere, or else here.
    pub origin_time: TimeRange,
}

/// A condition on a session's metadata: that they have a member, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataTerm {
    /// The name of the member.
    pub key: String,
    /// The text of the value; none for any value.
    pub value: Option<String>,
}

impl MetadataTerm {
    /// True if metadata meet the condition. Numbers, booleans and null are compared by their JSON text; a list and an
    /// object have no text.
    fn admits(&self, metadata: &Value) -> bool {
        match (metadata.get(&self.key), &self.value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(Value::String(found)), Some(value)) => found == value,
            (Some(found @ (Value::Null | Value::Bool(_) | Value::Number(_))), Some(value)) => {
                let text = found.to_string();
                text == *value
            }
            (Some(Value::Array(_) | Value::Object(_)), Some(_)) => false,
        }
    }
}

/// A range of time, from its first instant to before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeRange {
    /// The first instant; none for no bound.
    pub start: Option<Timestamp>,
    /// The end, which is not part of it; none for no bound.
    pub end: Option<Timestamp>,
}

impl TimeRange {
    /// True if it has any time from a first one to a last one.
    fn meets(&self, first: i64, last: i64) -> bool {
        self.start.is_none_or(|start| start.0 <= last) && self.end.is_none_or(|end| first < end.0)
    }

    fn admits(&self, time: i64) -> bool {
        self.start.is_none_or(|start| start.0 <= time) && self.end.is_none_or(|end| time < end.0)
    }
}

/// True if a directory is another one, or below it.
fn is_beneath(directory: &str, above: &str) -> bool {
    let rest = directory.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The texts that begin with a prefix, as a range; none if there is no text behind all of them.
pub(super) fn texts_from(prefix: &str) -> Option<Range<String>> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        // Between two characters there may be numbers of none.
        if let Some(next) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
            end.push(next);
            return Some(prefix.to_owned()..end.into_iter().collect());
        }
    }
    None
}

/// What decides about a session, besides what is visible.
struct Facts {
    parent: Option<i64>,
    source: Option<i64>,
    state: SessionState,
    actor: String,
    title: String,
    client_id: String,
    metadata_json: Option<String>,
    create_time: i64,
    update_time: i64,
    /// The first and the last time at which its messages were written.
    written: (i64, i64),
}

const FACTS: &str = "select parent_id, fork_id, state, actor, title, client_id, metadata_json, create_time, update_time, \
     coalesce(origin_start_time, create_time), coalesce(origin_end_time, update_time) from session where id = ?1";
const OF_PARENT: &str = "select id from session where parent_id = ?1 order by id limit +?2";
const FORKS: &str = "select id from session where fork_id = ?1 order by id limit +?2";
const OF_ACTOR: &str = "select id from session where tenant = ?1 and actor = ?2 order by id limit +?3";
const OF_LABEL: &str =
    "select session_id from session_label where tenant = ?1 and label = ?2 order by session_id limit +?3";
const OF_TITLES: &str = "select id from session where tenant = ?1 and title >= ?2 and title < ?3 limit +?4";
const OF_CLIENT_IDS: &str = "select id from session where tenant = ?1 and client_id >= ?2 and client_id < ?3 limit +?4";
const OF_PROJECT: &str = "select id from session where tenant = ?1 and project = ?2 order by id limit +?3";
const IN_DIRECTORY: &str = "select id from session where tenant = ?1 and directory = ?2 limit +?3";
const BELOW_DIRECTORY: &str =
    "select id from session where tenant = ?1 and directory >= ?2 and directory < ?3 limit +?4";
const CHANGED_IN: &str =
    "select id from session where tenant = ?1 and update_period >= ?2 and update_period <= ?3 limit +?4";
// An index has the sessions that take no writes.
const INACTIVE: &str = "select id from session where tenant = ?1 and state = ?3 and state > 1 order by id limit +?2";
const INHERITING: &str = "select id from session where fork_id in (select value from rarray(?1)) \
     and metadata_json is null and id > ?2 order by id limit +?3";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    FACTS,
    OF_PARENT,
    FORKS,
    OF_ACTOR,
    OF_LABEL,
    OF_TITLES,
    OF_CLIENT_IDS,
    OF_PROJECT,
    IN_DIRECTORY,
    BELOW_DIRECTORY,
    CHANGED_IN,
    INACTIVE,
    INHERITING,
];

impl Facts {
    fn read(reader: &mut Reader<'_>, key: i64) -> Result<Self> {
        let row = reader.one(engine::query(FACTS).bind(key))?.ok_or_else(|| Error::not_found(Kind::Session, key))?;
        Ok(Self {
            parent: row.get(0)?,
            source: row.get(1)?,
            state: SessionState::from_number(row.get(2)?)?,
            actor: row.get(3)?,
            title: row.get(4)?,
            client_id: row.get::<Option<String>>(5)?.unwrap_or_default(),
            metadata_json: row.get(6)?,
            create_time: row.get(7)?,
            update_time: row.get(8)?,
            written: (row.get(9)?, row.get(10)?),
        })
    }

    /// The metadata: those of the session, or for a fork without any those of the session that it was forked from.
    fn metadata(&self, reader: &mut Reader<'_>) -> Result<Value> {
        let (mut json, mut source) = (self.metadata_json.clone(), self.source);
        // A session is newer than those that it was forked from, so this ends.
        while json.is_none()
            && let Some(key) = source
        {
            let above = Self::read(reader, key)?;
            (json, source) = (above.metadata_json, above.source);
        }
        Ok(json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or(Value::Null))
    }
}

impl SessionFilter {
    /// True if the conditions depend on metadata, which forks may have from another session.
    pub fn reads_metadata(&self) -> bool {
        self.visibility.binding.project.is_some() || self.directory.is_some() || !self.metadata.is_empty()
    }

    /// True if sessions leave the list as they change, whatever changes.
    pub fn ends(&self) -> bool {
        self.update_time.end.is_some()
    }

    /// The time of a session's last change, if it meets all conditions.
    pub(crate) fn admits(&self, reader: &mut Reader<'_>, memberships: &Memberships, key: i64) -> Result<Option<i64>> {
        if !memberships.admits(reader, &self.visibility, key)? {
            return Ok(None);
        }
        let facts = Facts::read(reader, key)?;
        let by_row = self.parent.is_none_or(|parent| facts.parent == Some(parent.0))
            && self.state.is_none_or(|state| facts.state == state)
            && self.actor.as_ref().is_none_or(|actor| facts.actor == *actor)
            && facts.title.starts_with(&self.title_prefix)
            && facts.client_id.starts_with(&self.client_id_prefix)
            && self.create_time.admits(facts.create_time)
            && self.update_time.admits(facts.update_time)
            && self.origin_time.meets(facts.written.0, facts.written.1);
        if !by_row {
            return Ok(None);
        }
        if !self.labels.is_empty() {
            let labels = labels::of_session(reader, key)?;
            if !self.labels.iter().all(|label| labels.contains(label)) {
                return Ok(None);
            }
        }
        if self.directory.is_some() || !self.metadata.is_empty() {
            let metadata = facts.metadata(reader)?;
            let is_there = |above: &String| metadata["cwd"].as_str().is_some_and(|found| is_beneath(found, above));
            if !self.directory.as_ref().is_none_or(is_there) || !self.metadata.iter().all(|term| term.admits(&metadata))
            {
                return Ok(None);
            }
        }
        Ok(Some(facts.update_time))
    }

    /// The keys of all sessions that can meet the conditions, if an index knows that they are few. Those of the condition
    /// with the fewest.
    pub(crate) fn candidates(&self, reader: &mut Reader<'_>) -> Result<Option<Vec<i64>>> {
        let tenant = || self.visibility.tenant.to_string();
        let more = i64::try_from(limits::LIST_CANDIDATES_MAX + 1).unwrap_or(i64::MAX);
        let mut queries = Vec::new();
        if let Some(parent) = self.parent {
            queries.push(engine::query(OF_PARENT).bind(parent.0).bind(more));
        }
        if let Some(actor) = &self.actor {
            queries.push(engine::query(OF_ACTOR).bind(tenant()).bind(actor).bind(more));
        }
        for label in &self.labels {
            queries.push(engine::query(OF_LABEL).bind(tenant()).bind(label).bind(more));
        }
        if let Some(state) = self.state.filter(|state| *state != SessionState::Active) {
            queries.push(engine::query(INACTIVE).bind(tenant()).bind(more).bind(state.number()));
        }
        for (prefix, statement) in [(&self.title_prefix, OF_TITLES), (&self.client_id_prefix, OF_CLIENT_IDS)] {
            if let Some(Range { start, end }) = texts_from(prefix) {
                queries.push(engine::query(statement).bind(tenant()).bind(start).bind(end).bind(more));
            }
        }
        let TimeRange { start, end } = self.update_time;
        if start.is_some() || end.is_some() {
            let period = |time: Option<Timestamp>, otherwise| {
                time.map_or(otherwise, |time| time.0.div_euclid(limits::UPDATE_PERIOD_MICROS))
            };
            let (first, last) = (period(start, i64::MIN), period(end, i64::MAX));
            queries.push(engine::query(CHANGED_IN).bind(tenant()).bind(first).bind(last).bind(more));
        }
        let mut fewest: Option<Vec<i64>> = None;
        for query in queries {
            let rows = reader.all(query)?;
            if rows.len() <= limits::LIST_CANDIDATES_MAX && fewest.as_ref().is_none_or(|few| rows.len() < few.len()) {
                fewest = Some(rows.iter().map(first).collect::<Result<_>>()?);
            }
        }
        if fewest.is_none() {
            fewest = self.located(reader)?;
        }
        match self.visibility.binding.root {
            Some(root) if fewest.is_none() => {
                let root = ancestry::by_id(reader, root)?.key;
                tree(reader, root)
            }
            Some(_) | None => Ok(fewest),
        }
    }
}

impl SessionFilter {
    /// The sessions of the project or of the directory, if they are few: those whose own metadata name it, and forks that
    /// have these metadata.
    fn located(&self, reader: &mut Reader<'_>) -> Result<Option<Vec<i64>>> {
        let tenant = self.visibility.tenant.to_string();
        let more = i64::try_from(limits::LIST_CANDIDATES_MAX + 1).unwrap_or(i64::MAX);
        let queries = match (&self.visibility.binding.project, &self.directory) {
            (Some(project), _) => vec![engine::query(OF_PROJECT).bind(tenant).bind(project).bind(more)],
            (None, Some(directory)) => {
                let directory = directory.trim_end_matches('/');
                // The character behind the slash.
                let (start, end) = (format!("{directory}/"), format!("{directory}0"));
                let below = engine::query(BELOW_DIRECTORY).bind(tenant.clone()).bind(start).bind(end).bind(more);
                vec![engine::query(IN_DIRECTORY).bind(tenant).bind(directory).bind(more), below]
            }
            (None, None) => return Ok(None),
        };
        let mut keys = Vec::new();
        for query in queries {
            keys.extend(reader.all(query)?.iter().map(first).collect::<Result<Vec<_>>>()?);
        }
        let mut sources = keys.clone();
        while !sources.is_empty() && keys.len() <= limits::LIST_CANDIDATES_MAX {
            sources = inheriting(reader, &sources, 0, more)?;
            keys.extend(&sources);
        }
        Ok(Some(keys).filter(|keys| keys.len() <= limits::LIST_CANDIDATES_MAX))
    }
}

fn first(row: &Row) -> Result<i64> {
    row.get(0)
}

/// A session with those that work for it or were forked from it, at any depth, if they are few.
fn tree(reader: &mut Reader<'_>, root: i64) -> Result<Option<Vec<i64>>> {
    let mut keys = vec![root];
    let mut next = 0;
    while let Some(&above) = keys.get(next) {
        next += 1;
        for statement in [OF_PARENT, FORKS] {
            let room = limits::LIST_CANDIDATES_MAX + 1 - keys.len();
            let query = engine::query(statement).bind(above).bind(i64::try_from(room).unwrap_or(i64::MAX));
            let below = reader.all(query)?;
            keys.extend(below.iter().map(first).collect::<Result<Vec<_>>>()?);
            if keys.len() > limits::LIST_CANDIDATES_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(keys))
}

/// Forks of sessions behind a key that have no metadata of their own, oldest first.
pub(crate) fn inheriting(reader: &mut Reader<'_>, sources: &[i64], behind: i64, limit: i64) -> Result<Vec<i64>> {
    let sources = List::of_integers(sources.iter().copied());
    let query = engine::query(INHERITING).bind(sources).bind(behind).bind(limit);
    reader.all(query)?.iter().map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_is_a_range_of_texts(prefix in "[a\u{d7ff}\u{10ffff}é]{0,3}", text in "[ab\u{d7ff}\u{e000}\u{10ffff}é]{0,4}") {
            let expected = text.starts_with(&prefix);
            match texts_from(&prefix) {
                Some(range) => prop_assert_eq!(range.contains(&text), expected),
                None => prop_assert!(prefix.chars().all(|character| character == char::MAX)),
            }
        }
    }

    #[test]
    fn terms_compare_what_has_a_text() {
        let metadata =
            serde_json::json!({ "a": "x", "n": 42, "s": "42", "f": 1.5, "b": true, "z": null, "l": [1], "o": {} });
        let term = |key: &str, value: Option<&str>| MetadataTerm { key: key.into(), value: value.map(Into::into) };
        for (key, value, expected) in [
            ("a", None, true),
            ("z", None, true),
            ("o", None, true),
            ("y", None, false),
            ("a", Some("x"), true),
            ("a", Some("X"), false),
            ("n", Some("42"), true),
            ("s", Some("42"), true),
            ("f", Some("1.5"), true),
            ("b", Some("true"), true),
            ("z", Some("null"), true),
            ("l", Some("[1]"), false),
            ("o", Some("{}"), false),
            ("y", Some(""), false),
        ] {
            assert_eq!(term(key, value).admits(&metadata), expected, "{key} {value:?}");
        }
        assert!(!term("a", None).admits(&Value::Null), "a session without metadata");
    }

    #[test]
    fn directories_end_at_a_slash() {
        for (directory, above, expected) in
            [("/a", "/a", true), ("/a/b", "/a/", true), ("/ab", "/a", false), ("/a", "/", true), ("/", "/a", false)]
        {
            assert_eq!(is_beneath(directory, above), expected, "{directory} {above}");
        }
    }
}
