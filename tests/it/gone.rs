//! The oracle of erasures: every body is logged at its making, as it was sent and as the database has it, packed or not.
//! After random lives of sessions, nothing of what was erased is in any byte of any file of the store, nor in those of a
//! backup that was made before, once the erasures are applied to it.

use crate::backups::finish;
use crate::cli::Daemon;
use crate::support::{TestApp, connect, private_folder, text};
use futures::future::join_all;
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::compactions::NewSummary;
use longhand::app::erase::{EraseRequest, EraseTarget, part_target};
use longhand::app::sessions::ForkPoint;
use longhand::app::{Error, Reason};
use longhand::daemon::offline;
use longhand::model::draft::DraftKind;
use longhand::model::event::{ErasedTarget, Event, EventBody};
use longhand::model::ids::{MessageId, SessionId};
use longhand::model::message::{NewFinish, NewMessage, Role};
use longhand::model::part::{ERASED_TEXT, Media, MediaSource, NewPart, PartBody};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use uuid::Uuid;

/// Bytes of a piece that is looked for. What is logged is random, so that no piece is in anything else.
const PIECE: usize = 24;
/// Erasures that are asked for at once.
const AT_ONCE: usize = 8;

/// What was written under the id of a message: each value as the database had it, and the texts of its parts as they were
/// sent, under the part's number; under none what the message has beside them.
#[derive(Default)]
struct Made {
    values: HashSet<Vec<u8>>,
    texts: Vec<(Option<u16>, String)>,
}

/// The log.
#[derive(Default)]
struct Log {
    made: BTreeMap<Uuid, Made>,
    /// The session that each message is of, by the key of its row.
    sessions: HashMap<Uuid, i64>,
    /// What is erased already. The rows of it have nothing that is to be looked for.
    erased: Gone,
}

/// What is gone by erasures.
#[derive(Default)]
struct Gone {
    /// The erased sessions, by the keys of their rows.
    sessions: HashSet<i64>,
    /// Messages, each with the numbers of its erased parts; none if all of it was erased.
    messages: HashMap<Uuid, Option<HashSet<u16>>>,
    /// Pieces of what was sent, which nothing may have any more.
    sent: HashSet<Vec<u8>>,
    /// These, and pieces of all that the database had of the messages; a part that stays is in some of it.
    pieces: HashSet<Vec<u8>>,
}

/// A value with content.
struct Value {
    session: i64,
    message: Uuid,
    /// The number of its part, if it is of one.
    part: Option<u16>,
    bytes: Vec<u8>,
}

/// The values with content, each with the session and the message that it belongs to, and with its part.
const VALUES: [&str; 6] = [
    "select session_id, public_id, null, parts from message where parts is not null",
    "select session_id, public_id, null, head from message where octet_length(head) > 200",
    "select m.session_id, m.public_id, p.number, p.body from part p join message m on m.id = p.message_id \
     where p.body is not null",
    "select m.session_id, m.public_id, null, d.body from draft d join message m on m.id = d.message_id",
    "select m.session_id, m.public_id, null, b.data from blob_use u join blob b on b.hash = u.hash and b.tenant = u.tenant \
     join message m on u.kind = 1 and m.id = u.row_id",
    "select session_id, public_id, null, parts from prompt",
];

fn values(directory: &Path) -> Vec<Value> {
    let database = connect(directory);
    let mut found = Vec::new();
    for sql in VALUES {
        let mut statement = database.prepare(sql).expect(sql);
        let row = |row: &rusqlite::Row<'_>| {
            let (id, value): (Vec<u8>, rusqlite::types::Value) = (row.get(1)?, row.get(3)?);
            let bytes = match value {
                rusqlite::types::Value::Text(text) => text.into_bytes(),
                rusqlite::types::Value::Blob(bytes) => bytes,
                other => panic!("{other:?} in {sql}"),
            };
            let message = Uuid::from_slice(&id).expect("an id");
            Ok(Value { session: row.get(0)?, message, part: row.get(2)?, bytes })
        };
        found.extend(statement.query_map([], row).expect(sql).map(|row| row.expect(sql)));
    }
    found
}

impl Log {
    /// Adds the values that the database has now.
    fn note(&mut self, directory: &Path) {
        for value in values(directory).into_iter().filter(|value| !self.erased.has(value)) {
            self.sessions.insert(value.message, value.session);
            self.made.entry(value.message).or_default().values.insert(value.bytes);
        }
    }

    /// What is gone by these erasures, which are of sessions with these keys.
    fn gone(&self, events: &[(i64, Event)]) -> Gone {
        let mut gone = Gone::default();
        for (session, event) in events {
            let EventBody::Erased { target, from, messages, .. } = &event.body else { continue };
            if *target == ErasedTarget::Session && from.is_none() {
                gone.sessions.insert(*session);
                let of_session = self.made.iter().filter(|(id, _)| self.sessions.get(id) == Some(session));
                of_session.for_each(|(_, made)| gone.add(made, None));
            }
            for message in messages {
                let numbers: HashSet<u16> = message.parts.iter().map(|part| part.number()).collect();
                let numbers = (!numbers.is_empty()).then_some(numbers);
                if let Some(made) = self.made.get(&message.message.0) {
                    gone.add(made, numbers.as_ref());
                }
                let before = gone.messages.entry(message.message.0).or_insert_with(|| Some(HashSet::new()));
                *before = before.take().zip(numbers).map(|(before, numbers)| &before | &numbers);
            }
        }
        gone
    }
}

impl Gone {
    fn add(&mut self, made: &Made, numbers: Option<&HashSet<u16>>) {
        let pieces = |bytes: &[u8]| bytes.chunks_exact(PIECE).map(<[u8]>::to_vec).collect::<Vec<_>>();
        made.values.iter().flat_map(|value| with_content(value)).for_each(|bytes| self.pieces.extend(pieces(bytes)));
        for (number, text) in &made.texts {
            if numbers.is_none_or(|numbers| number.is_some_and(|number| numbers.contains(&number))) {
                self.sent.extend(pieces(text.as_bytes()));
                self.pieces.extend(pieces(text.as_bytes()));
            }
        }
    }

    /// True for a value of what is gone: it must have nothing of it.
    fn has(&self, value: &Value) -> bool {
        let of_message = match self.messages.get(&value.message) {
            Some(Some(numbers)) => value.part.is_some_and(|number| numbers.contains(&number)),
            Some(None) => true,
            None => false,
        };
        of_message || self.sessions.contains(&value.session)
    }
}

/// What a value has between the parts that lost their content. Each of these has a salt, and a text in place of it.
fn with_content(value: &[u8]) -> Vec<&[u8]> {
    const SALT_AND_FIELDS: usize = 30;
    let mark = ["longhand.erased\u{12}\u{19}", ERASED_TEXT].concat();
    let (mut rest, mut between) = (value, Vec::new());
    while let Some(at) = rest.windows(mark.len()).position(|bytes| bytes == mark.as_bytes()) {
        between.push(&rest[..at.saturating_sub(SALT_AND_FIELDS)]);
        rest = &rest[at + mark.len()..];
    }
    between.push(rest);
    between
}

/// True if a file has a piece of what is gone.
fn has_any(file: &Path, gone: &HashSet<Vec<u8>>) -> bool {
    std::fs::read(file).expect("a file").windows(PIECE).any(|piece| gone.contains(piece))
}

/// The rows of what is gone that still have pieces of it, and the files of a folder that do. Only other rows may have pieces
/// of what the database had, and none of what was sent: other parts of the same message, and texts of policies.
fn holders(directory: &Path, gone: &Gone) -> Vec<String> {
    let values = values(directory);
    let has_piece = |value: &&Value| value.bytes.windows(PIECE).any(|piece| gone.pieces.contains(piece));
    let rows = values.iter().filter(|value| gone.has(value)).filter(has_piece);
    let mut holders: Vec<String> = rows.map(|value| format!("a row of {}", value.message)).collect();
    let mut current = HashSet::new();
    for value in values.iter().filter(|value| !gone.has(value)) {
        let stay = |piece: &&[u8]| gone.pieces.contains(*piece) && !gone.sent.contains(*piece);
        current.extend(value.bytes.windows(PIECE).filter(stay).map(<[u8]>::to_vec));
    }
    let pieces = gone.pieces.difference(&current).cloned().collect();
    let files = std::fs::read_dir(directory).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.is_file() && has_any(path, &pieces));
    holders.extend(files.map(|path| path.display().to_string()));
    holders
}

/// A life of sessions.
struct Life {
    test: TestApp,
    log: Log,
    random: blake3::OutputReader,
    named: usize,
    /// Sessions, each with the client ids of its own messages that are there.
    sessions: Vec<(String, Vec<String>)>,
    /// Open messages, by their session's place and their client id.
    open: Vec<(usize, String)>,
}

impl Life {
    async fn begin(seed: u64) -> Self {
        let random = blake3::Hasher::new_derive_key("a life").update(&seed.to_le_bytes()).finalize_xof();
        let test = TestApp::start().await;
        let mut life = Self { test, log: Log::default(), random, named: 0, sessions: Vec::new(), open: Vec::new() };
        for _ in 0..3 {
            life.session().await;
        }
        life
    }

    fn pick(&mut self, below: usize) -> usize {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes);
        u32::from_le_bytes(bytes) as usize % below
    }

    /// Text that nothing makes shorter by much, and that is nowhere else.
    fn noise(&mut self, bytes: usize) -> String {
        let mut noise = vec![0; bytes];
        self.random.fill(&mut noise);
        noise.iter().map(|byte| char::from(b'#' + byte % 57)).collect()
    }

    fn name(&mut self, kind: char) -> String {
        self.named += 1;
        format!("{kind}{}", self.named)
    }

    fn size(&mut self) -> usize {
        match self.pick(12) {
            0 => 40_000 + self.pick(40_000),
            1 => 3_000 + self.pick(9_000),
            _ => 48 + self.pick(1_500),
        }
    }

    async fn session(&mut self) {
        let id = self.test.manual_session().await;
        self.sessions.push((id, Vec::new()));
    }

    async fn id(&self, at: usize, client_id: &str) -> Uuid {
        let (message, ..) = self.test.app.messages().get(&self.sessions[at].0, client_id).await.expect("a message");
        message.id.0
    }

    /// A message with up to three parts, one of them may be an image, or with metadata.
    async fn append(&mut self, at: usize) {
        let client_id = self.name('u');
        let mut texts = Vec::new();
        let mut parts = Vec::new();
        for number in 1..=u16::try_from(1 + self.pick(3)).expect("few") {
            let size = self.size();
            let words = self.noise(size);
            texts.push((Some(number), words.clone()));
            parts.push(match self.pick(6) {
                0 => NewPart::new(PartBody::Media(Media {
                    mime_type: "image/png".to_owned(),
                    name: String::new(),
                    source: MediaSource::Bytes(words.into_bytes()),
                })),
                _ => text(&words),
            });
        }
        let mut message = NewMessage { client_id: Some(client_id.clone()), ..NewMessage::sealed(Role::User, parts) };
        if self.pick(4) == 0 {
            let size = 300 + self.pick(2_000);
            let note = self.noise(size).replace('\\', "/").replace('"', "'");
            texts.push((None, note.clone()));
            message.metadata_json = Some(format!("{{\"note\":\"{note}\"}}"));
        }
        let session = self.sessions[at].0.clone();
        self.test.app.messages().append(&session, vec![message], None, None).await.expect("appended");
        let id = self.id(at, &client_id).await;
        self.log.made.entry(id).or_default().texts.extend(texts);
        self.sessions[at].1.push(client_id);
    }

    /// An open message whose text comes in pieces. It stays open, is closed, or sealed.
    async fn stream(&mut self, at: usize) {
        let (client_id, session) = (self.name('a'), self.sessions[at].0.clone());
        let open = NewMessage {
            client_id: Some(client_id.clone()),
            finish: None,
            ..NewMessage::sealed(Role::Assistant, Vec::new())
        };
        self.test.app.messages().append(&session, vec![open], None, None).await.expect("opened");
        let size = 100 + self.pick(3_000);
        let words = self.noise(size);
        let id = self.id(at, &client_id).await;
        self.log.made.entry(id).or_default().texts.push((Some(1), words.clone()));
        let (mut part, mut offset) = (None, 0);
        for piece in words.as_bytes().chunks(size / 6 + 1) {
            let delta = String::from_utf8(piece.to_vec()).expect("letters");
            let new = NewDraftText { part, client_id: None, kind: DraftKind::Text, offset, delta };
            part = Some(self.test.app.messages().append_draft(&session, &client_id, new).await.expect("drafted").part);
            offset += i64::try_from(piece.len()).expect("a length");
            self.log.note(self.test.directory());
        }
        match self.pick(3) {
            0 => self.open.push((at, client_id.clone())),
            1 => {
                let closed = vec![OpenPart::draft(part.expect("a draft"), None)];
                self.test.app.messages().append_parts(&session, &client_id, closed).await.expect("closed");
                self.open.push((at, client_id.clone()));
            }
            _ => drop(
                self.test
                    .app
                    .messages()
                    .finish(&session, &client_id, NewFinish::default(), None)
                    .await
                    .expect("sealed"),
            ),
        }
        self.sessions[at].1.push(client_id);
    }

    /// A replacement goes with its original.
    async fn edit(&mut self, at: usize) {
        let Some(client_id) = self.any(at) else { return };
        let size = self.size();
        let words = self.noise(size);
        let session = self.sessions[at].0.clone();
        match self.test.app.messages().edit(&session, &client_id, &[text(&words)], None).await {
            Ok(_) => {
                let id = self.id(at, &client_id).await;
                self.log.made.entry(id).or_default().texts.push((None, words));
            }
            // It is open, or in no view any more.
            Err(error) => assert_ne!(error.reason, Reason::Internal, "{error}"),
        }
    }

    /// A summary of what comes before a message. Its text is random too, and logged by the database alone.
    async fn summarize(&mut self, at: usize) {
        let Some(tail_start) = self.any(at) else { return };
        let size = 100 + self.pick(900);
        let summary = NewSummary { text: self.noise(size), tail_start, ..NewSummary::default() };
        let session = self.sessions[at].0.clone();
        if let Err(error) = self.test.app.compactions().supply_summary(&session, summary).await {
            assert_ne!(error.reason, Reason::Internal, "{error}");
        }
    }

    async fn fork(&mut self, at: usize) {
        let session = self.sessions[at].0.clone();
        let forked = self.test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await;
        let fork = forked.expect("forked").0.session.id.to_string();
        // Messages are named where they are.
        self.sessions.push((fork, Vec::new()));
    }

    fn any(&mut self, at: usize) -> Option<String> {
        let count = self.sessions[at].1.len();
        (count > 0).then(|| self.pick(count)).map(|which| self.sessions[at].1[which].clone())
    }

    async fn step(&mut self) {
        let at = self.pick(self.sessions.len());
        match self.pick(20) {
            0..10 => self.append(at).await,
            10..13 => self.stream(at).await,
            13..16 => self.edit(at).await,
            16..18 => self.summarize(at).await,
            18 if self.sessions.len() < 12 => self.fork(at).await,
            _ => self.session_or_seal().await,
        }
        self.log.note(self.test.directory());
    }

    async fn session_or_seal(&mut self) {
        match self.open.pop() {
            Some((at, client_id)) => {
                let session = self.sessions[at].0.clone();
                let sealed = self.test.app.messages().finish(&session, &client_id, NewFinish::default(), None).await;
                // The erasure of a part has sealed it.
                let is_known = |error: &Error| error.reason == Reason::MessageSealed;
                assert!(sealed.as_ref().err().is_none_or(is_known), "{:?}", sealed.err());
            }
            None => self.session().await,
        }
    }

    /// Erases parts, messages and now and then a session, some at once.
    async fn erase(&mut self) -> usize {
        let mut targets = Vec::new();
        for _ in 0..AT_ONCE {
            let at = self.pick(self.sessions.len());
            let Some(client_id) = self.any(at) else { continue };
            let whole = self.pick(40) == 0 && self.sessions.len() > 2;
            let target = if whole {
                EraseTarget::Session
            } else if self.pick(4) == 0 {
                let (message, ..) =
                    self.test.app.messages().get(&self.sessions[at].0, &client_id).await.expect("there");
                let Some(part) = message.parts.first() else { continue };
                part_target(&part.id.to_string()).expect("a part")
            } else {
                self.sessions[at].1.retain(|id| *id != client_id);
                self.open.retain(|(of, id)| (*of, id) != (at, &client_id));
                EraseTarget::Messages(vec![client_id])
            };
            targets.push((self.sessions[at].0.clone(), target));
            if whole {
                self.sessions.remove(at);
                self.open.retain(|(of, _)| *of != at);
                self.open.iter_mut().filter(|(of, _)| *of > at).for_each(|(of, _)| *of -= 1);
                break;
            }
        }
        let erasing = targets.iter().map(|(session, target)| {
            let reason = "somebody asked for it".to_owned();
            let request = EraseRequest { target: target.clone(), reason, dry_run: false, expected_revision: None };
            self.test.app.content().erase(session, request)
        });
        let answers = join_all(erasing).await;
        let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
        let is_known = |error: &Error| matches!(error.reason, Reason::NothingToErase | Reason::SessionErased);
        assert_eq!(refused.filter(|error| !is_known(error)).map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
        self.log.erased = self.log.gone(&self.erasures().await);
        answers.len()
    }

    /// All erasures so far, each with the key of its session's row.
    async fn erasures(&self) -> Vec<(i64, Event)> {
        let database = connect(self.test.directory());
        let mut keys = database.prepare("select id from session where public_id = ?1").expect("a statement");
        let events = self.test.events().await;
        let erased = events.into_iter().filter(|event| matches!(event.body, EventBody::Erased { .. }));
        erased
            .map(|event| {
                (keys.query_row([event.session_id.0.as_bytes().to_vec()], |row| row.get(0)).expect("a key"), event)
            })
            .collect()
    }

    async fn kill(mut self) -> Self {
        self.test = self.test.kill().await;
        self
    }

    /// Lives until this many erasures were asked for, and dies now and then.
    async fn live(mut self, erasures: usize) -> Self {
        let mut asked = 0;
        while asked < erasures {
            for _ in 0..10 {
                self.step().await;
            }
            asked += self.erase().await;
            self.log.note(self.test.directory());
            if self.pick(12) == 0 {
                self = self.kill().await;
            }
        }
        self
    }

    /// Waits until no file has anything of an erasure by the daemon's own account.
    async fn clean(&self) {
        let is_clean = async || self.test.app.daemon().info().await.expect("the state").erasures.files.is_empty();
        self.test.until("the files to be clean", is_clean).await;
    }
}

/// Erasures of one batch; more by `LONGHAND_ERASURES`, in batches of 200.
fn erasures() -> usize {
    let number = std::env::var("LONGHAND_ERASURES").ok();
    number.map_or(64, |number| number.parse().expect("LONGHAND_ERASURES is a number"))
}

#[tokio::test]
async fn nothing_of_what_was_erased_is_in_any_byte_of_any_file() {
    let mut life = Life::begin(1).await;
    for batch in 0..erasures().div_ceil(200) {
        for _ in 0..20 {
            life.step().await;
        }
        let folder = private_folder();
        let backup = folder.path().join("backup.db");
        finish(&life.test, &backup).await.expect("a backup");
        life = life.live(erasures().min(200)).await;
        life.clean().await;
        let gone = life.log.gone(&life.erasures().await);
        assert!(gone.pieces.len() > 1_000, "{} pieces are looked for", gone.pieces.len());
        assert!(has_any(&backup, &gone.pieces), "the search finds what is there");
        assert_eq!(holders(life.test.directory(), &gone), Vec::<String>::new(), "batch {batch}");
        assert_eq!(life.test.findings().await, []);
        applied(&life.test, &backup, &gone).await;
    }
}

/// The sessions and the messages that exported erasures name, each message with its parts.
fn named(exported: &str) -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    for line in exported.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let erased = &event["erased"];
        if erased["target"] == "ERASED_TARGET_SESSION" && erased["sourceSessionId"].is_null() {
            named.insert((event["sessionId"].as_str().expect("an id").to_owned(), String::new()));
        }
        for message in erased["messages"].as_array().into_iter().flatten() {
            named.insert((message["messageId"].as_str().expect("an id").to_owned(), message["partIds"].to_string()));
        }
    }
    named
}

/// The ids of the sessions of a store, and of its messages with content.
fn ids(directory: &Path) -> HashSet<String> {
    let database = connect(directory);
    let mut statement = database.prepare("select public_id from session").expect("a statement");
    let sessions = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("sessions");
    let sessions = sessions.map(|id| SessionId(Uuid::from_slice(&id.expect("a row")).expect("an id")).to_string());
    sessions.chain(values(directory).iter().map(|value| MessageId(value.message).to_string())).collect()
}

/// Makes a store of a backup, and applies to it what was erased since. All of that is erased there, and nothing is left.
async fn applied(test: &TestApp, backup: &Path, gone: &Gone) {
    let (home, other) = (private_folder(), private_folder());
    let (now, store) = (home.path().join("now.db"), other.path().join("store"));
    finish(test, &now).await.expect("a backup");
    offline::restore(&now, &home.path().join("store"), &|_| {}).await.expect("restored");
    offline::restore(backup, &store, &|_| {}).await.expect("restored");
    assert!(holders(&store, gone).iter().any(|holder| holder.starts_with("a row of")), "rows have it before");
    let there = ids(&store);
    let file = home.path().join("erasures");
    let daemon = Daemon::start(home.path());
    let exported = daemon.text(&["erasures", "export"]);
    std::fs::write(&file, &exported).expect("written");
    drop(daemon);
    let daemon = Daemon::start(other.path());
    let mut expected = named(&daemon.text(&["erasures", "export"]));
    expected.extend(named(&exported).into_iter().filter(|(id, _)| there.contains(id)));
    let applied = daemon.json(&["erasures", "apply", file.to_str().expect("UTF-8"), "--yes"]).remove(0);
    assert!(applied["erasedCount"].as_i64() > Some(0), "{applied}");
    let missed = |erased: BTreeSet<_>| expected.symmetric_difference(&erased).cloned().collect::<Vec<_>>();
    assert_eq!(missed(named(&daemon.text(&["erasures", "export"]))), [], "the same is erased");
    let is_clean = || daemon.json(&["status"])[0]["erasure"]["pendingFiles"].as_array().is_none_or(Vec::is_empty);
    assert!((0..1_000).any(|_| is_clean()), "files stay unclean");
    assert!(daemon.run(&["audit", "verify"]).status.success());
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!(holders(&store, gone), Vec::<String>::new(), "in the restored backup");
}
