//! Markers: letters that nothing else has, in everything that clients write, so that what was erased is known wherever
//! it is found: in an answer, in a stream, in a file.

use super::record::lock;
use memchr::memmem;
use rand::Rng;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Mutex;

/// The letters of a marker, which those of its sign are not among.
const LETTERS: &[u8; 16] = b"bcdfghklmnprstvw";
/// The sign in each marker. An index of words stores the beginning that a word shares with the one before it only once,
/// so letters that nothing shares come first.
const SIGN: &str = "zqj";
const LETTERS_BEFORE: usize = 6;
/// The letters behind the sign, by which a marker is known.
const LETTERS_BEHIND: usize = 15;

/// Bytes on each side of a marker, for people.
const AROUND: usize = 60;

/// The letters of a marker behind its sign.
pub(super) type Marker = [u8; LETTERS_BEHIND];

/// A new marker: one word of lower-case letters.
pub(super) fn fresh(rng: &mut impl Rng) -> String {
    let mut letters = |many: usize| -> String {
        (0..many).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect()
    };
    format!("{}{SIGN}{}", letters(LETTERS_BEFORE), letters(LETTERS_BEHIND))
}

/// The markers in some bytes.
pub(super) fn scan(bytes: &[u8]) -> BTreeSet<Marker> {
    let found = memmem::find_iter(bytes, SIGN).filter_map(|at| {
        let letters: &Marker = bytes.get(at + SIGN.len()..)?.first_chunk()?;
        letters.iter().all(|letter| LETTERS.contains(letter)).then_some(*letters)
    });
    found.collect()
}

/// The markers in some bytes as the words that a search finds.
pub(super) fn words(bytes: &[u8]) -> Vec<String> {
    let found = memmem::find_iter(bytes, SIGN).filter_map(|at| {
        let word = bytes.get(at.checked_sub(LETTERS_BEFORE)?..at + SIGN.len() + LETTERS_BEHIND)?;
        word.iter().all(u8::is_ascii_lowercase).then(|| String::from_utf8_lossy(word).into_owned())
    });
    found.collect()
}

/// A marker for people.
pub(super) fn text(marker: &Marker) -> String {
    format!("{SIGN}{}", String::from_utf8_lossy(marker))
}

/// The bytes around a marker, for people.
pub(super) fn around(bytes: &[u8], marker: &Marker) -> String {
    let sign = [SIGN.as_bytes(), marker].concat();
    let at = memmem::find(bytes, &sign).unwrap_or_default();
    let piece = &bytes[at.saturating_sub(AROUND)..bytes.len().min(at + sign.len() + AROUND)];
    piece.escape_ascii().to_string()
}

/// The files of a folder and those below it that have one of some markers, with one of these.
pub(super) fn in_files(directory: &Path, wanted: &HashSet<Marker>) -> std::io::Result<Vec<(String, Marker)>> {
    let mut found = Vec::new();
    let name = |path: &Path| path.strip_prefix(directory).unwrap_or(path).display().to_string();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let folder = name(&entry.path());
            let below = in_files(&entry.path(), wanted)?;
            found.extend(below.into_iter().map(|(file, marker)| (format!("{folder}/{file}"), marker)));
        }
        if !kind.is_file() {
            continue;
        }
        let bytes = match std::fs::read(entry.path()) {
            Ok(bytes) => bytes,
            // A log that is removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let there = scan(&bytes).into_iter().find(|marker| wanted.contains(marker));
        found.extend(there.map(|marker| (name(&entry.path()), marker)));
    }
    Ok(found)
}

/// Who wrote which markers, and which of them are erased.
#[derive(Debug, Default)]
pub(super) struct Markers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    of_session: HashMap<String, HashSet<Marker>>,
    of_message: HashMap<String, BTreeSet<Marker>>,
    /// With the time of the acknowledgement, by the record's clock.
    erased: HashMap<Marker, u64>,
    erased_sessions: HashMap<String, u64>,
    /// The session and the method by which a marker came, for people.
    origins: HashMap<Marker, (String, &'static str)>,
}

impl Markers {
    /// Notes the markers of a request to a session, before it is sent.
    pub(super) fn wrote(&self, session: &str, rpc: &'static str, bytes: &[u8]) {
        let mut known = lock(&self.0);
        let found = scan(bytes);
        for marker in &found {
            known.origins.entry(*marker).or_insert_with(|| (session.to_owned(), rpc));
        }
        if let Some(erased) = known.erased_sessions.get(session).copied() {
            known.erased.extend(found.iter().map(|marker| (*marker, erased)));
        }
        known.of_session.entry(session.to_owned()).or_default().extend(found);
    }

    /// Notes the markers of a message.
    pub(super) fn wrote_message(&self, id: &str, found: impl IntoIterator<Item = Marker>) {
        lock(&self.0).of_message.entry(id.to_owned()).or_default().extend(found);
    }

    /// A marker with the session and the method by which it came, for people.
    pub(super) fn named(&self, marker: &Marker) -> String {
        format!("{} of {:?}", text(marker), lock(&self.0).origins.get(marker))
    }

    /// The markers of a message.
    pub(super) fn of_message(&self, id: &str) -> BTreeSet<Marker> {
        lock(&self.0).of_message.get(id).cloned().unwrap_or_default()
    }

    /// The markers of all that was written to a session.
    pub(super) fn of_session(&self, id: &str) -> BTreeSet<Marker> {
        lock(&self.0).of_session.get(id).into_iter().flatten().copied().collect()
    }

    /// Notes that the erasure of some markers was acknowledged.
    pub(super) fn erased(&self, markers: impl IntoIterator<Item = Marker>, time: u64) {
        let mut known = lock(&self.0);
        for marker in markers {
            known.erased.entry(marker).or_insert(time);
        }
    }

    /// Notes that the erasure of a session was acknowledged.
    pub(super) fn session_erased(&self, id: &str, time: u64) {
        let mut known = lock(&self.0);
        known.erased_sessions.entry(id.to_owned()).or_insert(time);
        let of_session: Vec<Marker> = known.of_session.get(id).into_iter().flatten().copied().collect();
        for marker in of_session {
            known.erased.entry(marker).or_insert(time);
        }
    }

    /// The markers in some bytes whose erasure was acknowledged before a time.
    pub(super) fn risen(&self, bytes: &[u8], time: u64) -> Vec<Marker> {
        let found = scan(bytes);
        let known = lock(&self.0);
        found.into_iter().filter(|marker| known.erased.get(marker).is_some_and(|erased| *erased < time)).collect()
    }

    /// All erased markers.
    pub(super) fn all_erased(&self) -> HashSet<Marker> {
        lock(&self.0).erased.keys().copied().collect()
    }
}
