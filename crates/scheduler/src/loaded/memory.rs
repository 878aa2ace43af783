//! The memory of sessions: one entry for each, with its settings, its fold and the passages of its view, in one budget.
//!
//! An entry is made before anything is read for it, and the writer tells it of each commit before the commit is
//! answered. So what it has is as new as any acknowledged write, and what changes the settings or erases content drops
//! the entry: whoever still reads for the dropped one keeps nothing. All of it follows from rows, and may be evicted at
//! any time.

use super::counts;
use super::session::{LoadedSession, PART_BYTES, content_bytes};
use super::settings::SessionSettings;
use super::unfolded::{Missing, Unfolded};
use crate::limits;
use crate::model::Revision;
use crate::model::session::ContextSize;
use crate::model::view::ViewMessage;
use crate::policy::Policy;
use crate::policy::bpe::Vocabulary;
use crate::policy::recall::RecallQuery;
use crate::policy::tokens;
use crate::store::{self, CommitObserver, Error, NewMessages, PendingWork, Result, SessionChange, SessionCommit};
use crate::store::{SessionKey, Source, Store};
use quick_cache::unsync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The largest share of the budget that one session may take is the budget divided by this.
const SESSION_SHARE_DIVISOR: usize = 2;

/// Expected number of sessions in the budget; the actual number varies.
const SESSIONS_EXPECTED: usize = 1_000;

/// Bytes of an entry around what it has.
const ENTRY_BYTES: usize = 512;

/// The sessions in memory. Clones share them.
#[derive(Clone)]
pub struct LoadedSessions {
    store: Store,
    memory: Arc<Memory>,
}

/// A session in memory, or the place for it there.
pub enum SessionLookup<T> {
    /// What was asked for.
    Loaded(T),
    /// It must be read from the store, and may be kept then.
    Missing(Vacancy),
}

impl<T> SessionLookup<T> {
    /// What was asked for, if it is in memory.
    pub fn loaded(self) -> Option<T> {
        match self {
            Self::Loaded(loaded) => Some(loaded),
            Self::Missing(_) => None,
        }
    }
}

/// The place of a session in memory. Whatever is read after it was made may be kept there.
pub struct Vacancy {
    memory: Arc<Memory>,
    slot: Arc<Slot>,
}

/// The entry of a session.
struct Slot {
    key: SessionKey,
    /// Read once: a change of them drops the entry.
    settings: OnceLock<Arc<SessionSettings>>,
    /// Its newest state; none before it is read, and after an update that panicked. Callers of appends take turns here
    /// for as long as the fold of a few messages takes, so none of them is suspended: woken one after the other, they
    /// would use one processor.
    session: Mutex<Option<Arc<LoadedSession>>>,
    /// What the fold lacks. The writer waits for this, and for the lock of the entries.
    unfolded: Mutex<Unfolded>,
    /// The turn to read the store for it. The others then find what was read.
    reading: tokio::sync::Mutex<()>,
    passages: Mutex<Option<KnownPassages>>,
}

/// The passages that a policy with retrieval brings back into the newest views of a session.
struct KnownPassages {
    query: (Revision, RecallQuery, i64),
    message: Option<ViewMessage>,
}

impl KnownPassages {
    /// The query of a session: the newest change of its view, which comes after its policy, the words, and the room.
    fn query(session: &LoadedSession, wanted: &RecallQuery, room: i64) -> (Revision, RecallQuery, i64) {
        (session.source.changed_revision, wanted.clone(), room)
    }

    fn bytes(&self) -> usize {
        let words = self.query.1.words.iter().map(|word| PART_BYTES + word.len());
        let parts = self.message.iter().flat_map(|message| &message.parts);
        words.sum::<usize>() + parts.map(|part| PART_BYTES + store::body_bytes(&part.body)).sum::<usize>()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each is consistent at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// Its bytes with this newest state.
    fn bytes(&self, session: Option<&Arc<LoadedSession>>) -> usize {
        let settings = self.settings.get().map_or(0, |settings| settings.bytes);
        let passages = locked(&self.passages).as_ref().map_or(0, KnownPassages::bytes);
        ENTRY_BYTES + settings + passages + session.map_or(0, |session| session.bytes())
    }
}

/// The outcome of a look at a session in memory.
enum StateLookup<T> {
    /// A fact about it, and its pending work as of its last update.
    Fact(T, PendingWork),
    /// It must be read.
    Nothing,
    /// Its newest messages are in the store.
    InStore,
    /// What it is made of has another view now.
    Changed,
}

/// What an entry is found by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum EntryKey {
    Session(SessionKey),
    /// The hash of a tenant and a name that its clients use. Another name may have the same hash, and a session may lose
    /// its name: the session's own settings say whether it is called so.
    Name(u64),
}

#[derive(Clone)]
enum Entry {
    Session { slot: Arc<Slot>, bytes: usize },
    Name(SessionKey),
}

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<EntryKey, Entry> for ByteWeighter {
    fn weight(&self, _key: &EntryKey, entry: &Entry) -> u64 {
        match entry {
            Entry::Session { bytes, .. } => *bytes as u64,
            Entry::Name(_) => (size_of::<(EntryKey, Entry)>() * 2) as u64,
        }
    }
}

/// Hands evicted entries to whoever evicts them: to free a large one takes longer than anybody should wait for the lock.
#[derive(Clone)]
struct Evictions;

impl Lifecycle<EntryKey, Entry> for Evictions {
    type RequestState = Vec<Entry>;

    fn on_evict(&self, evicted: &mut Vec<Entry>, _: EntryKey, entry: Entry) {
        evicted.push(entry);
    }
}

type Entries = Cache<EntryKey, Entry, ByteWeighter, DefaultHashBuilder, Evictions>;

/// The entries in their budget.
struct Memory {
    bytes_max: usize,
    entries: Mutex<Entries>,
    hasher: RandomState,
    /// Bytes of messages that no fold has yet.
    unfolded: Arc<AtomicUsize>,
}

impl CommitObserver for Memory {
    fn committed(&self, commits: &[SessionCommit]) {
        for commit in commits {
            if commit.change == Some(SessionChange::Everything) {
                // What it has is freed behind the lock.
                let _dropped = self.entries().remove(&EntryKey::Session(commit.session));
            } else if let Some(slot) = self.peek(commit.session) {
                locked(&slot.unfolded).add(commit);
            }
        }
    }

    fn forget(&self) {
        self.entries().clear();
    }
}

impl Memory {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        locked(&self.entries)
    }

    fn peek(&self, key: SessionKey) -> Option<Arc<Slot>> {
        slot_of(self.entries().peek(&EntryKey::Session(key)))
    }

    /// The entry of a session, which is made if it is not there.
    fn slot(&self, key: SessionKey) -> Arc<Slot> {
        let entries = self.entries();
        if let Some(slot) = slot_of(entries.get(&EntryKey::Session(key))) {
            return slot;
        }
        let slot = Arc::new(Slot {
            key,
            settings: OnceLock::new(),
            session: Mutex::new(None),
            unfolded: Mutex::new(Unfolded::new(&self.unfolded)),
            reading: tokio::sync::Mutex::default(),
            passages: Mutex::default(),
        });
        insert(entries, EntryKey::Session(key), Entry::Session { slot: Arc::clone(&slot), bytes: ENTRY_BYTES });
        slot
    }

    /// Counts the bytes of an entry anew. One that was dropped meanwhile stays away: it has missed commits.
    fn weigh(&self, slot: &Arc<Slot>, bytes: usize) {
        let (key, entries) = (EntryKey::Session(slot.key), self.entries());
        if slot_of(entries.peek(&key)).is_some_and(|other| Arc::ptr_eq(&other, slot)) {
            insert(entries, key, Entry::Session { slot: Arc::clone(slot), bytes });
        }
    }

    /// Sets the newest state of a session, unless it exceeds the share of one session. A large one is read each time:
    /// its reader first takes memory from the budget of large views.
    fn set(&self, slot: &Arc<Slot>, state: &mut Option<Arc<LoadedSession>>, session: Arc<LoadedSession>) {
        let is_large = session.content_bytes() > limits::LARGE_VIEW_BYTES;
        let bytes = slot.bytes(Some(&session));
        let is_kept = !is_large && bytes <= self.bytes_max / SESSION_SHARE_DIVISOR;
        if !is_kept {
            *state = None;
            return self.unload(slot);
        }
        locked(&slot.unfolded).folded(session.source.at);
        *state = Some(session);
        self.weigh(slot, bytes);
    }

    /// Notes that a session has no fold any more.
    fn unload(&self, slot: &Arc<Slot>) {
        locked(&slot.unfolded).unloaded();
        self.weigh(slot, slot.bytes(None));
    }

    fn name(&self, tenant: &str, name: &str) -> EntryKey {
        EntryKey::Name(self.hasher.hash_one((tenant, name)))
    }
}

/// Adds an entry, and frees those that it evicts behind the lock.
fn insert(mut entries: MutexGuard<'_, Entries>, key: EntryKey, entry: Entry) {
    let mut evicted = Vec::new();
    entries.insert_with_lifecycle(key, entry, &mut evicted);
    drop(entries);
}

fn slot_of(entry: Option<&Entry>) -> Option<Arc<Slot>> {
    match entry {
        Some(Entry::Session { slot, .. }) => Some(Arc::clone(slot)),
        _ => None,
    }
}

impl Vacancy {
    /// Keeps a session that was read after this was made, unless a newer state is there. Passages of hidden messages are
    /// not part of it: each view adds its own.
    pub fn keep(self, session: &Arc<LoadedSession>) {
        let Self { memory, slot } = self;
        let mut state = locked(&slot.session);
        if state.as_ref().is_none_or(|known| known.source.at <= session.source.at) {
            memory.set(&slot, &mut state, Arc::clone(session));
        }
    }
}

impl LoadedSessions {
    /// The sessions of a store. About `bytes_max` bytes of them are kept; none with 0.
    pub fn new(store: Store, bytes_max: usize) -> Self {
        let hashing = DefaultHashBuilder::default();
        let entries = Cache::with(SESSIONS_EXPECTED, bytes_max as u64, ByteWeighter, hashing, Evictions);
        let entries = Mutex::new(entries);
        let memory = Arc::new(Memory { bytes_max, entries, hasher: RandomState::new(), unfolded: Arc::default() });
        let observer: std::sync::Weak<Memory> = Arc::downgrade(&memory);
        store.views().observe(observer);
        Self { store, memory }
    }

    /// The settings of a session, by a name that a tenant's clients use; none if they must be read.
    pub fn settings(&self, tenant: &str, name: &str) -> Option<Arc<SessionSettings>> {
        let entries = self.memory.entries();
        let key = match entries.get(&self.memory.name(tenant, name)) {
            Some(Entry::Name(key)) => EntryKey::Session(*key),
            _ => return None,
        };
        let slot = slot_of(entries.get(&key));
        drop(entries);
        slot?.settings.get().filter(|settings| settings.is_called(tenant, name)).cloned()
    }

    /// Reads the settings of a session, which a tenant's clients call by this name.
    pub async fn read_settings(
        &self,
        key: SessionKey,
        (tenant, name): (&str, &str),
        vocabularies: &[Arc<Vocabulary>],
    ) -> Result<Arc<SessionSettings>> {
        let slot = self.memory.slot(key);
        let settings = match slot.settings.get() {
            Some(settings) => Arc::clone(settings),
            None => {
                let settings = Arc::new(SessionSettings::read(&self.store, key, vocabularies).await?);
                let session = locked(&slot.session);
                let settings = Arc::clone(slot.settings.get_or_init(|| settings));
                self.memory.weigh(&slot, slot.bytes(session.as_ref()));
                settings
            }
        };
        insert(self.memory.entries(), self.memory.name(tenant, name), Entry::Name(key));
        Ok(settings)
    }

    /// A session at its newest revision, with its pending work, from memory and the messages that are newer.
    pub async fn session(&self, key: SessionKey) -> Result<SessionLookup<(Arc<LoadedSession>, PendingWork)>> {
        let slot = self.memory.slot(key);
        let whole = Arc::clone;
        match self.in_memory(&slot, None, whole) {
            StateLookup::Fact(session, pending) => return Ok(SessionLookup::Loaded((session, pending))),
            StateLookup::Nothing => return Ok(self.missing(slot)),
            StateLookup::InStore | StateLookup::Changed => {}
        }
        let turn = slot.reading.lock().await;
        let (pending, newest) = self.store.views().newest(key).await?;
        let known = match self.updated(&slot, newest, whole).await? {
            Some(session) => Some(session),
            None => match self.renewed(&slot).await? {
                Some((source, policy)) => {
                    // The background may fold it, and calls wait for the turn.
                    drop(turn);
                    let session = Arc::new(LoadedSession::new(&self.store, source, policy).await?);
                    Vacancy { memory: Arc::clone(&self.memory), slot: Arc::clone(&slot) }.keep(&session);
                    Some(session)
                }
                None => None,
            },
        };
        Ok(match known {
            Some(session) => {
                let pending = if session.source.at == newest { pending } else { session.source.pending };
                SessionLookup::Loaded((session, pending))
            }
            None => self.missing(Arc::clone(&slot)),
        })
    }

    /// A fact about a session at a revision or later, in the same way. The session itself is not handed out: the next
    /// update would have to copy it.
    pub async fn fact<T>(
        &self,
        key: SessionKey,
        at_least: Revision,
        fact: impl Fn(&LoadedSession) -> T,
    ) -> Result<SessionLookup<T>> {
        let slot = self.memory.slot(key);
        let of = |session: &Arc<LoadedSession>| fact(session);
        match self.in_memory(&slot, Some(at_least), of) {
            StateLookup::Fact(fact, _) => return Ok(SessionLookup::Loaded(fact)),
            StateLookup::Nothing | StateLookup::Changed => return Ok(self.missing(slot)),
            StateLookup::InStore => {}
        }
        let _turn = slot.reading.lock().await;
        let fact = self.updated(&slot, at_least, of).await?;
        Ok(fact.map_or_else(|| self.missing(Arc::clone(&slot)), SessionLookup::Loaded))
    }

    fn missing<T>(&self, slot: Arc<Slot>) -> SessionLookup<T> {
        SessionLookup::Missing(Vacancy { memory: Arc::clone(&self.memory), slot })
    }

    /// A fact about a session at a revision or later; its newest messages are read if they are not in memory. The caller
    /// has the turn to read.
    async fn updated<T>(
        &self,
        slot: &Arc<Slot>,
        at_least: Revision,
        of: impl Fn(&Arc<LoadedSession>) -> T,
    ) -> Result<Option<T>> {
        match self.in_memory(slot, Some(at_least), &of) {
            StateLookup::Fact(fact, _) => return Ok(Some(fact)),
            StateLookup::Nothing | StateLookup::Changed => return Ok(None),
            StateLookup::InStore => {}
        }
        let Some(known) = locked(&slot.session).clone() else { return Ok(None) };
        let mut newer = match self.store.views().newer_messages(&known.source, limits::LARGE_VIEW_BYTES).await {
            Ok(Some(newer)) => newer,
            Ok(None) | Err(Error::LimitExceeded { what: store::VIEW_BYTES, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        counts::fill(&self.store, &known.policy, &mut newer.messages).await?;
        drop(known);
        let mut state = locked(&slot.session);
        self.extend(slot, &mut state, newer);
        Ok(state.as_ref().map(of))
    }

    /// The source of a session whose view has changed, made of what it was and of rows, and its policy. None if it must be
    /// read whole. The caller has the turn to read.
    async fn renewed(&self, slot: &Arc<Slot>) -> Result<Option<(Source, Arc<Policy>)>> {
        let Some(known) = locked(&slot.session).clone() else { return Ok(None) };
        let renewed = match self.store.views().renewed(&known.source, limits::LARGE_VIEW_BYTES).await {
            Ok(Some(renewed)) => renewed,
            Ok(None) | Err(Error::LimitExceeded { what: store::VIEW_BYTES, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (source, policy) = (renewed.source, Arc::clone(&known.policy));
        if content_bytes(&source.messages) > limits::LARGE_VIEW_BYTES || source.policy != known.source.policy {
            return Ok(None);
        }
        let told = locked(&slot.unfolded).told(&known.source);
        drop(known);
        // Asked first: what ended before was told before.
        let may_lag = renewed.is_fork && self.store.views().is_committing(slot.key);
        // A commit that erased content has dropped the entry when later ones are told.
        let is_current = self.memory.peek(slot.key).is_some_and(|other| Arc::ptr_eq(&other, slot));
        Ok((is_current && told >= source.at && !may_lag).then_some((source, policy)))
    }

    /// A fact about a session as of its newest revision, or at least `at_least`, if that needs nothing of the store.
    fn in_memory<T>(
        &self,
        slot: &Arc<Slot>,
        at_least: Option<Revision>,
        of: impl Fn(&Arc<LoadedSession>) -> T,
    ) -> StateLookup<T> {
        // Asked first: what ended before was told before.
        let is_committing = at_least.is_none() && self.store.views().is_committing(slot.key);
        let mut state = locked(&slot.session);
        let Some(known) = state.as_ref() else { return StateLookup::Nothing };
        // One caller folds the messages of all that were committed together.
        if at_least.is_some_and(|revision| revision <= known.source.at) {
            return StateLookup::Fact(of(known), known.source.pending);
        }
        if is_committing {
            return StateLookup::InStore;
        }
        let missing = locked(&slot.unfolded).since(&known.source, at_least);
        let newer = match missing {
            Missing::Nothing(pending) => return StateLookup::Fact(of(known), pending),
            Missing::Messages(newer) => newer,
            Missing::Rows => return StateLookup::InStore,
            Missing::View => return StateLookup::Changed,
        };
        if !newer.messages.is_empty() && tokens::basis(&known.policy).is_some() {
            return StateLookup::InStore;
        }
        let pending = newer.newest.pending;
        self.extend(slot, &mut state, newer);
        state.as_ref().map_or(StateLookup::Nothing, |session| StateLookup::Fact(of(session), pending))
    }

    /// Adds messages to a session that does not have them yet.
    fn extend(&self, slot: &Arc<Slot>, state: &mut Option<Arc<LoadedSession>>, newer: NewMessages) {
        // Another task may have added them, or it panics while it does.
        let Some(mut session) = state.take_if(|known| known.source.at < newer.newest.at) else { return };
        if session.content_bytes() + content_bytes(&newer.messages) <= limits::LARGE_VIEW_BYTES {
            // It is copied if another task still reads it.
            Arc::make_mut(&mut session).extend(newer);
            self.memory.set(slot, state, session);
        } else {
            self.memory.unload(slot);
        }
    }

    /// The size of a request with the view of a session in memory, as of its last update; none for any other session,
    /// and during an update.
    pub fn context(&self, key: SessionKey) -> Option<ContextSize> {
        let slot = self.memory.peek(key)?;
        let state = slot.session.try_lock().ok()?;
        state.as_ref().map(|session| session.context())
    }

    /// Number of the sessions in memory, and the approximate bytes of all that is kept.
    pub fn size(&self) -> (usize, u64) {
        let entries = self.memory.entries();
        let sessions = entries.iter().filter(|(_, entry)| matches!(entry, Entry::Session { .. })).count();
        (sessions, entries.weight())
    }

    /// True if a session is in memory.
    #[doc(hidden)]
    pub fn is_kept(&self, session: SessionKey) -> bool {
        self.memory.peek(session).is_some_and(|slot| locked(&slot.session).is_some())
    }

    /// The message with the passages for a query in a session, or none without passages, if the query was the last one
    /// that was kept for it.
    pub fn passages(&self, session: &LoadedSession, wanted: &RecallQuery, room: i64) -> Option<Option<ViewMessage>> {
        let slot = self.memory.peek(session.source.session)?;
        let known = locked(&slot.passages);
        let known = known.as_ref()?;
        (known.query == KnownPassages::query(session, wanted, room)).then(|| known.message.clone())
    }

    /// Keeps the message with the passages for a query beside its session, if that is kept.
    pub fn keep_passages(
        &self,
        session: &LoadedSession,
        wanted: &RecallQuery,
        room: i64,
        message: Option<ViewMessage>,
    ) {
        let Some(slot) = self.memory.peek(session.source.session) else { return };
        let state = locked(&slot.session);
        // Another change of the view may be an erasure of what is in them.
        let changed = |kept: &Arc<LoadedSession>| kept.source.changed_revision;
        if state.as_ref().map(changed) != Some(session.source.changed_revision) {
            return;
        }
        *locked(&slot.passages) = Some(KnownPassages { query: KnownPassages::query(session, wanted, room), message });
        self.memory.weigh(&slot, slot.bytes(state.as_ref()));
    }
}
