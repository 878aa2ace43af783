//! The hash chain: the data that each event commits to.
//!
//! An event's digest commits to every row that came with its revision; its hash commits to the digest, to the event's
//! own columns and to the hash before it. A body is committed to through its salt, so that erasing both body and salt
//! leaves the chain valid and reveals nothing.

use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};

/// The start of every session's chain.
pub(crate) const GENESIS: [u8; 32] = [0; 32];

/// Collects the rows of one revision. Every field is preceded by its length, so that no two sets of rows have the same
/// encoding. They are short, as bodies are not among them: to gather them and hash them once is less work than many updates.
#[derive(Default)]
pub(crate) struct Digest(Vec<u8>);

impl Digest {
    /// Adds one row: its table and its columns; an absent value differs from an empty one.
    pub(crate) fn row(&mut self, table: &str, columns: &[Option<&[u8]>]) {
        self.field(Some(table.as_bytes()));
        self.0.extend_from_slice(&(columns.len() as u64).to_le_bytes());
        for column in columns {
            self.field(*column);
        }
    }

    fn field(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.0.extend_from_slice(&(bytes.len() as u64 + 1).to_le_bytes());
                self.0.extend_from_slice(bytes);
            }
            None => self.0.extend_from_slice(&0_u64.to_le_bytes()),
        }
    }

    /// The digest of the rows so far.
    pub(crate) fn finish(&self) -> [u8; 32] {
        *blake3::hash(&self.0).as_bytes()
    }
}

/// The columns of an event, apart from its hash.
pub(crate) struct Link<'a> {
    pub(crate) seq: Seq,
    pub(crate) revision: Revision,
    pub(crate) kind: i32,
    pub(crate) ends_mutation: bool,
    pub(crate) time: Timestamp,
    pub(crate) actor: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) digest: &'a [u8],
}

/// The hash that an event adds to the chain.
pub(crate) fn link(before: &[u8], event: &Link<'_>) -> [u8; 32] {
    let mut digest = Digest::default();
    digest.row(
        "event",
        &[
            Some(before),
            Some(&event.seq.to_le_bytes()),
            Some(&event.revision.to_le_bytes()),
            Some(&event.kind.to_le_bytes()),
            Some(&[u8::from(event.ends_mutation)]),
            Some(&event.time.0.to_le_bytes()),
            Some(event.actor.as_bytes()),
            Some(event.request_id.as_bytes()),
            Some(event.body),
            Some(event.digest),
        ],
    );
    digest.finish()
}

/// The immutable columns of a message, and its seal if it came sealed.
pub(crate) struct MessageColumns<'a> {
    pub(crate) public_id: &'a [u8],
    pub(crate) client_id: Option<&'a str>,
    pub(crate) role: i32,
    pub(crate) kind: i32,
    pub(crate) class: i32,
    pub(crate) create_time: i64,
    pub(crate) head: &'a [u8],
    pub(crate) seal: Option<&'a [u8]>,
}

/// Adds a message's row.
pub(crate) fn message(digest: &mut Digest, columns: &MessageColumns<'_>) {
    digest.row(
        "message",
        &[
            Some(columns.public_id),
            columns.client_id.map(str::as_bytes),
            Some(&columns.role.to_le_bytes()),
            Some(&columns.kind.to_le_bytes()),
            Some(&columns.class.to_le_bytes()),
            Some(&columns.create_time.to_le_bytes()),
            Some(columns.head),
            columns.seal,
        ],
    );
}

/// The immutable columns of a part; its body is represented by its commitment.
pub(crate) struct PartColumns<'a> {
    pub(crate) public_id: &'a [u8],
    pub(crate) client_id: Option<&'a str>,
    pub(crate) position: i64,
    pub(crate) kind: i32,
    pub(crate) commitment: &'a [u8],
    pub(crate) call_message: Option<&'a [u8]>,
}

/// Adds a part's row.
pub(crate) fn part(digest: &mut Digest, columns: &PartColumns<'_>) {
    digest.row(
        "part",
        &[
            Some(columns.public_id),
            columns.client_id.map(str::as_bytes),
            Some(&columns.position.to_le_bytes()),
            Some(&columns.kind.to_le_bytes()),
            Some(columns.commitment),
            columns.call_message,
        ],
    );
}

/// Adds the seal of a message that was open.
pub(crate) fn seal(digest: &mut Digest, message_id: &[u8], seal: &[u8]) {
    digest.row("seal", &[Some(message_id), Some(seal)]);
}

pub(crate) fn mark(digest: &mut Digest, kind: i32, body: &[u8]) {
    digest.row("mark", &[Some(&kind.to_le_bytes()), Some(body)]);
}

pub(crate) fn layout(digest: &mut Digest, body: &[u8]) {
    digest.row("layout", &[Some(body)]);
}

/// Adds a part that a prune mark shortens.
///
/// Older marks have no `truncation`, and keep their original hash.
pub(crate) fn pruned(digest: &mut Digest, part_id: &[u8], compaction_id: &[u8], truncation: Option<&[u8]>) {
    let columns = [Some(part_id), Some(compaction_id), truncation];
    digest.row("pruned", if truncation.is_some() { &columns } else { &columns[..2] });
}

/// Adds a policy by the hash of its text, and the name of its preset.
pub(crate) fn policy(digest: &mut Digest, hash: &[u8], preset: &str) {
    digest.row("policy", &[Some(hash), Some(preset.as_bytes())]);
}

/// Adds a model window.
pub(crate) fn window(digest: &mut Digest, body: &[u8]) {
    digest.row("window", &[Some(body)]);
}

/// The immutable columns of a session.
pub(crate) struct SessionColumns<'a> {
    pub(crate) public_id: &'a [u8],
    pub(crate) tenant: &'a str,
    pub(crate) client_id: Option<&'a str>,
    pub(crate) parent_id: Option<&'a [u8]>,
    pub(crate) fork_id: Option<&'a [u8]>,
    pub(crate) fork_revision: Option<i64>,
    pub(crate) create_time: i64,
}

/// Adds a session's row.
pub(crate) fn session(digest: &mut Digest, columns: &SessionColumns<'_>) {
    let fork_revision = columns.fork_revision.map(i64::to_le_bytes);
    digest.row(
        "session",
        &[
            Some(columns.public_id),
            Some(columns.tenant.as_bytes()),
            columns.client_id.map(str::as_bytes),
            columns.parent_id,
            columns.fork_id,
            fork_revision.as_ref().map(<[u8; 8]>::as_slice),
            Some(&columns.create_time.to_le_bytes()),
        ],
    );
}

pub(crate) fn run(digest: &mut Digest, public_id: &[u8], epoch: i64, actor: &str, start_time: Timestamp) {
    digest.row(
        "run",
        &[Some(public_id), Some(&epoch.to_le_bytes()), Some(actor.as_bytes()), Some(&start_time.0.to_le_bytes())],
    );
}

/// The immutable columns of a prompt, apart from its parts.
pub(crate) struct PromptColumns<'a> {
    pub(crate) public_id: &'a [u8],
    pub(crate) delivery: i32,
    pub(crate) actor: &'a str,
    pub(crate) metadata_json: Option<&'a str>,
    pub(crate) create_time: Timestamp,
}

/// Adds a prompt; its parts follow.
pub(crate) fn prompt(digest: &mut Digest, columns: &PromptColumns<'_>) {
    digest.row(
        "prompt",
        &[
            Some(columns.public_id),
            Some(&columns.delivery.to_le_bytes()),
            Some(columns.actor.as_bytes()),
            columns.metadata_json.map(str::as_bytes),
            Some(&columns.create_time.0.to_le_bytes()),
        ],
    );
}

/// Adds a question, represented by its commitment.
pub(crate) fn approval(digest: &mut Digest, id: &[u8], actor: &str, create_time: Timestamp, commitment: &[u8]) {
    let columns = [Some(id), Some(actor.as_bytes()), Some(&create_time.0.to_le_bytes()[..]), Some(commitment)];
    digest.row("approval", &columns);
}

/// Adds the answer to a question, represented by its commitment.
pub(crate) fn answer(digest: &mut Digest, id: &[u8], commitment: &[u8]) {
    digest.row("answer", &[Some(id), Some(commitment)]);
}

/// Adds a segment of history that a fork inherits.
pub(crate) fn segment(digest: &mut Digest, owner: &[u8], first: Revision, last: Revision, has_messages: bool) {
    digest.row(
        "segment",
        &[Some(owner), Some(&first.to_le_bytes()), Some(&last.to_le_bytes()), Some(&[u8::from(has_messages)])],
    );
}
