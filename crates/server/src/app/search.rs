//! Full-text search over the history of the sessions that a caller sees.

use super::error::{Error, Result};
use super::nouns::History;
use super::validate::bound;
use crate::limits;
use crate::model::access::Binding;
use crate::model::message::{MessageState, Role};
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};
pub use crate::store::Hit;
use crate::store::{HitQuery, SessionKey, Visibility};
pub use crate::words::Statistics;
use crate::words::{self, Query, Rank, Snippet, snippet};
pub use longhand_search::EntryKind;
use longhand_search::{Census, IndexSearch, RankedEntry, phrases, text_of};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchRequest {
    /// The words.
    pub query: String,
    /// Only this session's history, with what it inherits.
    pub session: Option<String>,
    /// Only this session's history and that of the sessions below it.
    pub tree: Option<String>,
    /// Only sessions of this project.
    pub project: Option<String>,
    /// Only these roles; empty for all.
    pub roles: Vec<Role>,
    /// Only calls and results of these tools; empty for all.
    pub tools: Vec<String>,
    /// Only these kinds of parts; empty for all.
    pub kinds: Vec<EntryKind>,
    /// Only parts that were written at this time or later, elsewhere or here.
    pub since: Option<Timestamp>,
    /// Only parts that were written before this time.
    pub until: Option<Timestamp>,
    /// Includes derived messages.
    pub derived: bool,
    /// Includes records.
    pub records: bool,
    /// Only parts that have every term.
    pub all: bool,
    /// The newest parts first.
    pub newest: bool,
    /// What to rank by; none for what the tenant's index has.
    pub statistics: Option<Statistics>,
    /// Only counts.
    pub exclude_hits: bool,
    /// The number of hits; 0 for the default.
    pub page_size: i64,
    /// The token of the page; empty for the first.
    pub page_token: String,
    /// An event that has to be in the index.
    pub min_seq: Seq,
    /// The longest wait for it.
    pub wait: Duration,
}

/// A hit with the passage that shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownHit {
    /// The hit.
    pub hit: Hit,
    /// The kind of its part.
    pub kind: EntryKind,
    /// True if today's view shows the part, whole or shortened.
    pub in_view: bool,
    /// The passage.
    pub text: String,
    /// Its bytes in the part's text.
    pub bytes: Range<usize>,
    /// What matches, in bytes of the part's text.
    pub matches: Vec<Range<usize>>,
    /// Its place among the hits.
    pub rank: Rank,
    /// What it has of the query, and what that says for it.
    pub terms: Vec<(String, u64)>,
}

/// A page of hits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchPage {
    /// The hits, best first.
    pub hits: Vec<ShownHit>,
    /// The token of the next page; empty on the last.
    pub next_page_token: String,
    /// The newest event that was in the index.
    pub indexed_seq: Seq,
    /// The newest revision of the named session that was in the index.
    pub indexed_revision: Option<Revision>,
    /// True if not all that the query has was looked for.
    pub is_cut: bool,
    /// The newest event of the log.
    pub head_seq: Seq,
    /// What the tenant's index has of the query.
    pub statistics: Statistics,
}

/// The position of a page: the newest entry of the first page, and the entries before the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    upto: i64,
    offset: i64,
}

/// Bits of an offset in a page token: more than the ranked entries need.
const OFFSET_BITS: u32 = 20;

impl Position {
    fn unpacked(packed: i64) -> Self {
        Self { upto: packed >> OFFSET_BITS, offset: packed & ((1 << OFFSET_BITS) - 1) }
    }

    fn packed(self) -> i64 {
        self.upto << OFFSET_BITS | self.offset
    }
}

impl SearchRequest {
    /// Checks everything that needs no store.
    fn check(&self) -> Result<Query> {
        bound("bytes of query", self.query.len(), limits::SEARCH_QUERY_BYTES_MAX)?;
        let query = Query::parse(&self.query).map_err(|error| Error::field("query", error))?;
        bound("words of query", query.word_count(), limits::SEARCH_WORDS_MAX)?;
        for (what, count) in
            [("roles", self.roles.len()), ("tools", self.tools.len()), ("part_types", self.kinds.len())]
        {
            bound(what, count, limits::SEARCH_FILTER_VALUES_MAX)?;
        }
        for tool in &self.tools {
            bound("bytes of tools", tool.len(), limits::NAME_BYTES_MAX)?;
        }
        if let Some(project) = &self.project {
            bound("bytes of project", project.len(), limits::ACCESS_NAME_BYTES_MAX)?;
        }
        if self.session.is_some() && self.tree.is_some() {
            return Err(Error::field("tree_session_id", "does not go with session_id"));
        }
        if self.page_size < 0 {
            return Err(Error::field("page_size", "is negative"));
        }
        if self.statistics.as_ref().is_some_and(|statistics| statistics.having.len() != query.clues.len()) {
            return Err(Error::field("statistics", "is of another query"));
        }
        if self.min_seq < 0 {
            return Err(Error::field("min_seq", "is negative"));
        }
        Ok(query)
    }

    /// What a page token is tied to: everything but the page and the wait.
    fn scope(&self) -> String {
        let Self {
            query,
            session,
            tree,
            project,
            roles,
            tools,
            kinds,
            since,
            until,
            derived,
            records,
            all,
            newest,
            ..
        } = self;
        format!(
            "search {query:?} {session:?} {tree:?} {project:?} {roles:?} {tools:?} {kinds:?} {since:?} \
             {until:?} {derived} {records} {all} {newest}"
        )
    }
}

/// What the index does not know of sessions, and is compared after it.
struct ComparedSessions {
    by: Vec<Visibility>,
    /// The session whose view is asked; none for that of each part.
    view: Option<SessionKey>,
}

impl History<'_> {
    /// Finds parts of messages by their words.
    ///
    /// # Errors
    ///
    /// `INVALID_FIELD` for a query without a word; `SEARCH_UNAVAILABLE` while the index is not open; `TOO_MANY_REQUESTS` for
    /// a caller with too many searches that wait for their turn.
    pub async fn search(self, request: &SearchRequest) -> Result<SearchPage> {
        let query = request.check()?;
        let scope = request.scope();
        let start = self.caller.page_start(&request.page_token, &scope)?.map(Position::unpacked);
        let size = match request.page_size {
            0 => limits::SEARCH_PAGE_DEFAULT,
            size => size.min(limits::SEARCH_PAGE_MAX),
        };
        let (mut wanted, compared) = self.index_query(request, &query).await?;
        let search = self.caller.store().search();
        let indexed_seq = match request.min_seq {
            0 if start.is_none() => self.caught_up().await,
            0 => *search.progress().borrow(),
            seq => {
                let wait = request.wait.min(Duration::from_millis(limits::SEARCH_WAIT_MS_MAX));
                // Nothing is indexed any more once the daemon stops.
                self.caller.shared.unless_stopping(search.wait(seq, wait)).await?
            }
        };
        let head_seq = self.caller.store().log().head_seq().max(indexed_seq);
        let mut page = SearchPage { indexed_seq, head_seq, ..SearchPage::default() };
        if let Some(view) = compared.view {
            page.indexed_revision = Some(self.caller.store().log().revision_by(view, indexed_seq).await?);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        (wanted.upto, wanted.offset) = start.map_or((None, 0), |start| (Some(start.upto), start.offset));
        loop {
            let found = {
                let turn = self.caller.shared.searches.wait(&self.caller.access.share);
                let _turn = self.caller.shared.unless_stopping(turn).await??;
                if !self.caller.visibility.is_unbound() && wanted.statistics.is_none() {
                    wanted.statistics = Some(self.seen_statistics(&wanted).await?);
                }
                search.find(&wanted).await?
            };
            page.is_cut |= found.is_cut;
            page.statistics = wanted.statistics.clone().unwrap_or(found.statistics);
            if request.exclude_hits {
                if start.is_none() {
                    let begin = Position { upto: found.upto, offset: 0 };
                    page.next_page_token = self.caller.page_token(begin.packed(), &scope);
                }
                return Ok(page);
            }
            let (passed, places) =
                self.admitted_entries(&wanted, &compared, &found.entries, size - page.hits.len()).await?;
            let of = |(place, view): &(usize, SessionKey)| HitQuery { entry: found.entries[*place].entry, view: *view };
            let entries: Vec<HitQuery> = places.iter().map(of).collect();
            let hits = search.hits(&entries, limits::SEARCH_READ_BYTES).await?;
            let read = hits.len();
            let hits =
                hits.into_iter().zip(&places).filter_map(|(hit, (place, _))| Some((hit?, &found.entries[*place])));
            let may_lack = found.may_lack_terms.then_some(request.all);
            page.hits.extend(hits.filter_map(|(hit, ranked)| show_hit(&query, hit, ranked, may_lack)));
            // What was not read comes on the next page.
            let examined = places.get(read).map_or(passed, |(place, _)| *place);
            wanted.upto = Some(found.upto);
            wanted.offset += i64::try_from(examined).unwrap_or(i64::MAX);
            let was_last = i64::try_from(found.entries.len()).unwrap_or(i64::MAX) < wanted.limit;
            if examined == found.entries.len() && was_last {
                return Ok(page);
            }
            if page.hits.len() >= size || read < entries.len() || read > 0 {
                let next = Position { upto: found.upto, offset: wanted.offset };
                page.next_page_token = self.caller.page_token(next.packed(), &scope);
                return Ok(page);
            }
        }
    }

    /// What a bound caller's hits are ranked by: counted in what it sees, so that the answer says nothing of the rest but
    /// how common a word is that very many parts have.
    async fn seen_statistics(self, wanted: &IndexSearch) -> Result<Statistics> {
        let Census { rounded: mut statistics, sessions } = self.caller.store().search().census(wanted).await?;
        for (having, sessions) in statistics.having.iter_mut().zip(sessions) {
            for (session, count) in sessions {
                if self.caller.store().sessions().admits(&self.caller.visibility, session).await? {
                    *having += count;
                }
            }
        }
        Ok(statistics)
    }

    /// The newest event that is in the index, which first takes what is left if that is little.
    async fn caught_up(self) -> Seq {
        let search = self.caller.store().search();
        let (indexed, head) = (*search.progress().borrow(), self.caller.store().log().head_seq());
        let is_left = 1..=limits::SEARCH_CATCH_UP_EVENTS;
        if !is_left.contains(&(head - indexed)) {
            return indexed;
        }
        search.wait(head, Duration::from_millis(limits::SEARCH_CATCH_UP_MS)).await
    }

    /// The search as the index takes it, and what is compared after it.
    async fn index_query(self, request: &SearchRequest, query: &Query) -> Result<(IndexSearch, ComparedSessions)> {
        let tenant = &self.caller.visibility.tenant;
        let mut compared = ComparedSessions { by: Vec::new(), view: None };
        if !self.caller.visibility.is_unbound() {
            compared.by.push(self.caller.visibility.clone());
        }
        let binding = |binding| Visibility { tenant: Arc::clone(tenant), binding: Arc::new(binding) };
        if let Some(project) = &request.project {
            compared.by.push(binding(Binding { project: Some(project.clone()), root: None }));
        }
        let mut ranges = Vec::new();
        if let Some(session) = &request.session {
            let key = self.caller.session_key(session).await?;
            compared.view = Some(key);
            ranges = self.caller.store().search().ranges(key).await?;
        }
        let mut below = None;
        if let Some(tree) = &request.tree {
            let key = self.caller.session_key(tree).await?;
            let (root, _) = self.caller.store().sessions().get(key).await?;
            below = Some(key);
            compared.by.push(binding(Binding { project: None, root: Some(root.id) }));
        }
        let is_compared = !compared.by.is_empty() || ranges.len() > 1;
        let wanted = IndexSearch {
            tenant: Arc::clone(tenant),
            phrases: phrases(query),
            terms: query.terms,
            all: request.all,
            newest: request.newest,
            statistics: request.statistics.clone(),
            ranges,
            below,
            roles: request.roles.clone(),
            kinds: request.kinds.clone(),
            tools: request.tools.iter().map(|tool| words::tool(tool)).collect(),
            derived: request.derived,
            records: request.records,
            since: request.since,
            until: request.until,
            upto: None,
            offset: 0,
            limit: if request.exclude_hits {
                0
            } else if is_compared {
                limits::SEARCH_COMPARED
            } else {
                limits::SEARCH_PAGE_MAX + 1
            },
        };
        Ok((wanted, compared))
    }

    /// The places of the first entries, up to `most`, that the caller sees and asked for, with the session whose view is
    /// asked about each, and the number of entries that were looked at.
    async fn admitted_entries(
        self,
        wanted: &IndexSearch,
        compared: &ComparedSessions,
        entries: &[RankedEntry],
        most: usize,
    ) -> Result<(usize, Vec<(usize, SessionKey)>)> {
        let mut admitted = Vec::new();
        for (at, RankedEntry { entry, .. }) in entries.iter().enumerate() {
            if admitted.len() == most {
                return Ok((at, admitted));
            }
            if !wanted.admits(entry) {
                continue;
            }
            // A caller that sees a fork sees what it inherits: its own view decides.
            let of = compared.view.unwrap_or(entry.owner);
            let mut is_seen = true;
            for visibility in &compared.by {
                is_seen = is_seen && self.caller.store().sessions().admits(visibility, of).await?;
            }
            if is_seen {
                admitted.push((at, of));
            }
        }
        Ok((entries.len(), admitted))
    }
}

/// A hit with its passage; none if the part has no text any more that is searched, or may lack what it has to have and
/// does: all terms, or any clue.
fn show_hit(query: &Query, hit: Hit, ranked: &RankedEntry, may_lack: Option<bool>) -> Option<ShownHit> {
    let part = hit.message.parts.first()?;
    let kind = EntryKind::from_body(&part.body)?;
    let (text, form) = text_of(&part.body)?;
    let has_all = || query.matches(text, form);
    if may_lack.is_some_and(|all| if all { !has_all() } else { !query.finds(text, form) }) {
        return None;
    }
    let Snippet { bytes, matches } = snippet(query, text, form, limits::SEARCH_SNIPPET_BYTES);
    let text = text[bytes.clone()].to_owned();
    let in_view = hit.status.state == MessageState::Active;
    let clues = query.clues.iter().zip(&ranked.scores).filter(|(_, score)| **score > 0);
    let terms = clues.map(|(clue, score)| (clue.to_string(), *score)).collect();
    Some(ShownHit { kind, in_view, text, bytes, matches, hit, rank: ranked.rank, terms })
}
