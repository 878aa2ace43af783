//! The one that fills the index: its connections to the index and to the store.

use super::source::{self, Sessions};
use crate::clock::Clock;
use crate::engine::readers::Readers;
use crate::engine::{Connection, Reader, connect, files};
use crate::error::{Error, Result};
use crate::ledger::events;
use crate::limits;
use crate::model::Seq;
use crate::shared::StoreParts;
use crate::telemetry::failpoint;
use longhand_search::{Batch, ErasedRows, IndexWriter as _, Postings, Progress};
use std::sync::Arc;
use std::thread;

/// The one that fills the index. It reads the log on a connection of its own and blocks its thread.
pub struct Indexer {
    shared: Arc<StoreParts>,
    clock: Clock,
    log: LogPages,
    /// The page that was read while the one before it was added.
    read_ahead: Option<Page>,
    /// Memory for the words of a page.
    spare: Batch,
    index: Postings,
    progress: Progress,
    /// The last event of which something may have been forgotten already.
    tried: Seq,
}

/// The next page of the log, as the index takes it.
pub struct Page {
    batch: Batch,
    erased: Vec<ErasedRows>,
    /// The number of the event before its first.
    after: Seq,
    last: Seq,
    hash: Vec<u8>,
}

/// The pages of the log.
struct LogPages {
    store: Connection,
    sessions: Sessions,
}

impl LogPages {
    /// The page after an event; none at the end.
    fn page(&mut self, shared: &StoreParts, after: Seq, mut batch: Batch) -> Result<Option<Page>> {
        let page = source::next_page(&mut Reader::new(&self.store), &mut self.sessions, after);
        if matches!(page, Err(Error::Unreachable(_))) {
            // The next attempt is made on another connection.
            self.store = shared.readers.connect()?;
        }
        let Some(source::Page { parts, erased, last, hash }) = page? else { return Ok(None) };
        Postings::cut(&mut batch, &parts);
        Ok(Some(Page { batch, erased, after, last, hash }))
    }
}

impl Indexer {
    /// Opens the index, or makes a new one where there is none that fits the store.
    pub(super) fn open(shared: Arc<StoreParts>, clock: Clock) -> Result<Self> {
        files::make_search(&shared.directory)?;
        let store = shared.readers.connect()?;
        let (index, progress) = match open_index(&shared, &store) {
            Ok(Some(opened)) => opened,
            Ok(None) | Err(Error::Corrupt { .. }) => {
                tracing::info!("the search index does not fit the store: it is made anew");
                files::remove_search(&shared.directory)?;
                files::make_search(&shared.directory)?;
                open_index(&shared, &store)?.ok_or(Error::Bug("a new search index does not fit the store"))?
            }
            Err(error) => return Err(error),
        };
        let directory = shared.directory.clone();
        let open = Box::new(move || connect::connect_search_reader(&directory));
        shared.search.set(Some(Readers::new(limits::SEARCH_READERS, clock.clone(), open)?));
        shared.search.progress.send_replace(progress.seq);
        // The last indexer may have ended within the next page. A new index had nothing to forget.
        let tried = if progress.seq == 0 { 0 } else { progress.seq + limits::SEARCH_BATCH_EVENTS };
        let log = LogPages { store, sessions: Sessions::new() };
        Ok(Self { shared, clock, log, read_ahead: None, spare: Batch::default(), index, progress, tried })
    }

    /// The newest event that is in the index.
    pub fn seq(&self) -> Seq {
        self.progress.seq
    }

    /// The next page of the log; none at its end.
    pub fn next_page(&mut self) -> Result<Option<Page>> {
        let after = self.progress.seq;
        match self.read_ahead.take().filter(|page| page.after == after) {
            Some(page) => Ok(Some(page)),
            None => self.log.page(&self.shared, after, std::mem::take(&mut self.spare)),
        }
    }

    /// Adds the parts of a page. What was erased in the page is forgotten first, so that the progress never passes it.
    /// An index that is behind reads the next page and cuts its words meanwhile, on another processor, and joins less.
    ///
    /// # Errors
    ///
    /// `Busy` if a search still needs pages of the log that have such words; it can be repeated.
    pub fn add(&mut self, mut page: Page, is_behind: bool) -> Result<()> {
        let (last, has_erased) = (page.last, !page.erased.is_empty());
        let Self { shared, log, read_ahead, spare, index, progress, tried, .. } = self;
        let added = thread::scope(|scope| {
            // Without a thread, and if it cannot be read, the page is read in its turn.
            let read = || log.page(shared, last, std::mem::take(spare)).ok().flatten();
            let thread = || thread::Builder::new().name("search log".to_owned());
            let reading = (is_behind && !has_erased).then(|| thread().spawn_scoped(scope, read));
            let added = add(shared, index, (progress, tried), &mut page).and_then(|()| index.join(is_behind));
            *read_ahead = reading.and_then(|reading| reading.ok()?.join().ok()?);
            added
        });
        // Nobody keeps the words of what was erased.
        *spare = if has_erased { Batch::default() } else { page.batch };
        added
    }

    /// Joins what an index that was behind put off.
    ///
    /// # Errors
    ///
    /// `Error::Corrupt` if it is damaged.
    pub fn join(&mut self) -> Result<()> {
        self.index.join(false)
    }

    /// Throws the index away, and makes a new one.
    pub fn rebuild(self) -> Result<Self> {
        let (shared, clock) = (Arc::clone(&self.shared), self.clock.clone());
        // Closes the index.
        drop(self);
        files::remove_search(&shared.directory)?;
        Self::open(shared, clock)
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        // Nothing fills what could be searched.
        self.shared.search.close();
    }
}

fn add(
    shared: &StoreParts,
    index: &mut Postings,
    (progress, tried): (&mut Progress, &mut Seq),
    page: &mut Page,
) -> Result<()> {
    let is_repeated = progress.seq < *tried;
    *tried = page.last.max(*tried);
    if !page.erased.is_empty() {
        let is_removed = index.forget(&page.erased)?;
        if is_removed {
            failpoint::reach("search.removed");
        }
        // An attempt that ended early may have removed the entries, and left their words.
        if is_removed || is_repeated {
            index.wipe()?;
        }
    }
    let upto = Progress { store: shared.identity.id, seq: page.last, hash: page.hash.clone() };
    // Farther than this page begins, if an attempt that failed was committed: the next page goes on from there.
    *progress = index.add(progress.seq, &upto, &mut page.batch)?;
    shared.search.progress.send_replace(progress.seq);
    Ok(())
}

/// Opens the index; none if it is not one of this store, or of another version.
fn open_index(shared: &StoreParts, store: &Connection) -> Result<Option<(Postings, Progress)>> {
    let Some(index) = Postings::open(&shared.directory)? else { return Ok(None) };
    let new = || Progress { store: shared.identity.id, seq: 0, hash: Vec::new() };
    let progress = index.progress()?.unwrap_or_else(new);
    let is_of_store = progress.store == shared.identity.id;
    // A store that lost its newest commits may have others under the same numbers.
    let hash = match progress.seq {
        0 => Some(Vec::new()),
        seq => events::hash_at_seq(&mut Reader::new(store), seq)?,
    };
    Ok((is_of_store && hash.as_ref() == Some(&progress.hash)).then_some((index, progress)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message::{NewMessage, Role};
    use crate::model::part::{NewPart, PartBody};
    use crate::model::session::SessionKey;
    use crate::tests::{created, opened};
    use crate::{AppendChanges, AppendInput, CheckedInput, EraseTarget, Requester, Store};
    use longhand_search::{IndexSearch, Phrase};
    use tokio_util::sync::CancellationToken;

    /// Appends messages of one word that all have, and one of their own.
    async fn append(store: &Store, session: SessionKey, numbers: std::ops::Range<usize>) {
        let input = |number: usize| AppendInput {
            message: NewMessage::sealed(
                Role::User,
                vec![NewPart::new(PartBody::Text(format!("everywhere only{number}")))],
            ),
            token_counts: None,
            reports_overflow: false,
            received: None,
            keeps_erased: false,
        };
        let inputs = CheckedInput::trusted((numbers.map(input).collect(), AppendChanges::default()));
        store.history().append(session, Requester::default(), None, inputs).await.expect("appended");
    }

    /// Fills an index. Returns how often it had the next page before that was asked for.
    fn fill(indexer: &mut Indexer, is_behind: bool) -> usize {
        let mut ahead = 0;
        while let Some(page) = indexer.next_page().expect("a page") {
            indexer.add(page, is_behind).expect("added");
            ahead += usize::from(indexer.read_ahead.is_some());
        }
        ahead
    }

    /// The messages that have a word.
    async fn having(store: &Store, word: &str) -> Vec<(SessionKey, i64)> {
        let whole = vec![word.to_owned()];
        let phrase = Phrase { whole, pieces: Vec::new(), stem: None, is_prefix: false, is_quoted: false };
        let wanted = IndexSearch { phrases: vec![phrase], terms: 1, limit: 10_000, ..IndexSearch::default() };
        let entries = store.search().find(&wanted).await.expect("a search").entries;
        let mut found: Vec<_> = entries.iter().map(|found| (found.entry.owner, found.entry.message)).collect();
        found.sort_unstable();
        found
    }

    #[tokio::test]
    async fn an_index_that_is_behind_has_what_one_has_that_follows() {
        let (_directory, store) = opened(Clock::default()).await;
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(created(&store).await);
        }
        let mut indexer = store.search().open(Clock::default()).expect("an index");
        for (round, erased) in sessions[..2].iter().enumerate() {
            for at in round * 24..(round + 1) * 24 {
                append(&store, sessions[round + at % (3 - round)], at * 100..(at + 1) * 100).await;
            }
            // One page has the erasure of what others before it have, and others come behind it.
            assert!(fill(&mut indexer, true) >= 2, "pages are read ahead");
            let reason = CheckedInput::trusted("asked for".to_owned());
            let target = (EraseTarget::Session, reason, None);
            let stopping = CancellationToken::new();
            store.erasures().erase(*erased, Requester::default(), target, &stopping).await.expect("erased");
            append(&store, sessions[2], 10_000 + round * 1_500..10_000 + (round + 1) * 1_500).await;
        }
        fill(&mut indexer, true);
        indexer.join().expect("joined");
        let of_behind = [having(&store, "everywhere").await, having(&store, "only250").await];
        let mut indexer = indexer.rebuild().expect("a new index");
        assert_eq!(fill(&mut indexer, false), 0, "one that follows leaves the other processor to others");
        assert_eq!([having(&store, "everywhere").await, having(&store, "only250").await], of_behind);
        let [everywhere, of_one] = of_behind;
        assert_eq!((everywhere.len(), of_one.len()), (5_000, 1));
        assert!(everywhere.iter().all(|(owner, _)| *owner == sessions[2]), "nothing of what was erased");
    }
}
