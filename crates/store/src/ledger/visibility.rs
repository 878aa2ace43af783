//! Which sessions a reader sees: those of its tenant, and of these only the ones that it is bound to.
//!
//! What that needs to know of a session is kept in memory, so that a stream of events asks the database once for each
//! session and not for each event. The tenant of a session, and the session that it was forked from or works for, never
//! change; its project changes with its metadata, and the commit of such a change drops what is kept of it.

use super::codec;
use super::ring::EventRow;
use crate::engine::{self, Connection, Reader};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::access::Binding;
use crate::model::event::EventKind;
use crate::model::ids::SessionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const MEMBERSHIP: &str = "select public_id, tenant, metadata_json, parent_id, fork_id from session where id = ?1";
const HAS_TENANTS: &str = "select exists (select 1 from session where tenant > '')";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[MEMBERSHIP, HAS_TENANTS];

/// The sessions that a reader sees.
#[derive(Debug, Clone, Default)]
pub struct Visibility {
    /// Their tenant; empty for the default tenant.
    pub tenant: Arc<str>,
    /// What they are bound to.
    pub binding: Arc<Binding>,
}

impl Visibility {
    /// True if every session of the tenant is visible.
    pub fn is_unbound(&self) -> bool {
        self.binding.is_empty()
    }
}

/// What the visibility of a session depends on.
struct Membership {
    id: SessionId,
    tenant: Arc<str>,
    project: Project,
    /// The session that it was forked from or works for.
    above: Option<i64>,
}

enum Project {
    /// Its metadata name it, or no project.
    Own(Option<Box<str>>),
    /// A fork without metadata of its own is of the project of the session that it was forked from.
    OfSource(i64),
}

#[derive(Default)]
struct MembershipCache {
    sessions: HashMap<i64, Arc<Membership>>,
    /// Number of times that something was dropped: rows read before the last time may be stale.
    generation: u64,
}

/// What is known of sessions, bounded in number.
#[derive(Default)]
pub(crate) struct Memberships {
    /// True once a session is of another tenant than the default one.
    has_tenants: AtomicBool,
    kept: RwLock<MembershipCache>,
}

/// The project that metadata name. No binding has a longer one.
fn project(metadata_json: Option<&str>) -> Option<Box<str>> {
    let metadata: serde_json::Value = serde_json::from_str(metadata_json?).ok()?;
    metadata["project"].as_str().filter(|project| project.len() <= limits::ACCESS_NAME_BYTES_MAX).map(Box::from)
}

/// Metadata that name the same project, if any, and have nothing else.
pub(crate) fn project_alone(metadata_json: &str) -> String {
    match project(Some(metadata_json)) {
        Some(project) => serde_json::json!({ "project": project }).to_string(),
        None => "{}".to_owned(),
    }
}

/// What metadata say about where a session belongs, for the columns of its row.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) project: Option<String>,
    pub(crate) directory: Option<String>,
}

impl Location {
    /// Reads metadata. No engine's text holds U+0000, and no filter asks for it.
    pub(crate) fn from_metadata(metadata_json: Option<&str>) -> Self {
        let metadata = metadata_json.and_then(|json| serde_json::from_str::<serde_json::Value>(json).ok());
        let directory = metadata.as_ref().and_then(|metadata| metadata["cwd"].as_str()).map(str::to_owned);
        let is_text = |text: &String| !text.contains('\0');
        let project = project(metadata_json).map(String::from);
        Self { project: project.filter(is_text), directory: directory.filter(is_text) }
    }
}

/// True if metadata name this project.
pub fn names_project(metadata_json: Option<&str>, wanted: &str) -> bool {
    project(metadata_json).as_deref() == Some(wanted)
}

fn read_membership(reader: &mut Reader<'_>, key: i64) -> Result<Membership> {
    let row = reader.one(engine::query(MEMBERSHIP).bind(key))?.ok_or_else(|| Error::not_found(Kind::Session, key))?;
    let metadata: Option<String> = row.get("metadata_json")?;
    let (parent, source): (Option<i64>, Option<i64>) = (row.get("parent_id")?, row.get("fork_id")?);
    let project = match source {
        Some(source) if metadata.is_none() => Project::OfSource(source),
        _ => Project::Own(project(metadata.as_deref())),
    };
    let id = SessionId(codec::uuid(row.get("public_id")?)?);
    let tenant: String = row.get("tenant")?;
    Ok(Membership { id, tenant: tenant.into(), project, above: source.or(parent) })
}

/// True if a session is visible, by what `find` knows of sessions; its errors end the search.
fn is_visible<E>(
    visibility: &Visibility,
    key: i64,
    mut find: impl FnMut(i64) -> std::result::Result<Arc<Membership>, E>,
) -> std::result::Result<bool, E> {
    let session = find(key)?;
    if session.tenant != visibility.tenant {
        return Ok(false);
    }
    if let Some(wanted) = &visibility.binding.project {
        let mut of = Arc::clone(&session);
        let project = loop {
            match &of.project {
                Project::Own(project) => break project.as_deref() == Some(wanted),
                Project::OfSource(source) => of = find(*source)?,
            }
        };
        if !project {
            return Ok(false);
        }
    }
    let Some(root) = visibility.binding.root else { return Ok(true) };
    let mut at = session;
    // A session is newer than those above it, so this ends.
    while at.id != root {
        match at.above {
            Some(above) => at = find(above)?,
            None => return Ok(false),
        }
    }
    Ok(true)
}

impl Memberships {
    /// Notes if the store has sessions of tenants; called before anything is read.
    pub(crate) fn load(&self, conn: &Connection) -> Result<()> {
        let has_tenants: bool = engine::scalar(HAS_TENANTS).one(conn)?;
        self.has_tenants.store(has_tenants, Ordering::Release);
        Ok(())
    }

    /// Notes that a session of this tenant will be there.
    pub(crate) fn expect(&self, tenant: &str) {
        if !tenant.is_empty() {
            self.has_tenants.store(true, Ordering::Release);
        }
    }

    /// True if every session of the store is visible, which costs nothing to know.
    pub(crate) fn admit_all(&self, visibility: &Visibility) -> bool {
        visibility.tenant.is_empty() && visibility.is_unbound() && !self.has_tenants.load(Ordering::Acquire)
    }

    /// True if a session is visible; none if what that depends on is not in memory.
    pub(crate) fn cached_visibility(&self, visibility: &Visibility, key: i64) -> Option<bool> {
        if self.admit_all(visibility) {
            return Some(true);
        }
        let cache = self.cache();
        is_visible(visibility, key, |key| cache.sessions.get(&key).cloned().ok_or(())).ok()
    }

    /// True if a session is visible.
    pub(crate) fn admits(&self, reader: &mut Reader<'_>, visibility: &Visibility, key: i64) -> Result<bool> {
        match self.cached_visibility(visibility, key) {
            Some(known) => Ok(known),
            None => is_visible(visibility, key, |key| self.membership(reader, key)),
        }
    }

    fn membership(&self, reader: &mut Reader<'_>, key: i64) -> Result<Arc<Membership>> {
        let generation = {
            let cache = self.cache();
            if let Some(known) = cache.sessions.get(&key) {
                return Ok(Arc::clone(known));
            }
            cache.generation
        };
        let membership = Arc::new(read_membership(reader, key)?);
        let mut cache = self.cache_mut();
        if cache.generation == generation {
            if cache.sessions.len() >= limits::MEMBERSHIPS_MAX {
                cache.sessions.clear();
            }
            cache.sessions.insert(key, Arc::clone(&membership));
        }
        Ok(membership)
    }

    /// Drops what is kept of sessions whose metadata may have changed, before anybody reads the events of the change.
    pub(crate) fn committed(&self, rows: &[EventRow]) {
        let mut changed = rows.iter().filter(|row| row.kind == EventKind::SessionUpdated).peekable();
        if changed.peek().is_none() {
            return;
        }
        let mut cache = self.cache_mut();
        cache.generation += 1;
        for row in changed {
            cache.sessions.remove(&row.session);
        }
    }

    fn cache(&self) -> RwLockReadGuard<'_, MembershipCache> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_mut(&self) -> RwLockWriteGuard<'_, MembershipCache> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}
