//! Texts that come in pieces: what is settled can be stored and shown, the rest waits.

use super::redact::{Hit, Placeholder, ReadingState, Salt, Syntax};
use super::rules::{Action, Rules};

/// A part of a text that a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedSecret {
    /// The first byte of the placeholder.
    pub at: usize,
    /// Bytes of the placeholder.
    pub length: usize,
    /// Bytes that were received.
    pub received: usize,
    /// The beginning of their salted digest.
    pub digest: [u8; DIGEST_BYTES],
}

/// Bytes of the digest of what was replaced.
pub const DIGEST_BYTES: usize = 16;

fn short_digest(salt: &Salt, bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut short = [0; DIGEST_BYTES];
    short.copy_from_slice(&salt.digest(bytes)[..DIGEST_BYTES]);
    short
}

/// What a text in pieces has beside the text that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftText {
    /// How the text goes on with what waits.
    pub place: ReadingState,
    /// What waits, as it was received.
    pub waiting: String,
    /// What placeholders stand for, in order.
    pub replaced: Vec<ReplacedSecret>,
}

/// What a piece made of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SettledText {
    /// The text to add to the one that is shown.
    pub text: String,
    /// What was found in it.
    pub hits: Vec<Hit>,
}

impl DraftText {
    /// A text before its first piece.
    pub fn new(syntax: Syntax) -> Self {
        Self { place: ReadingState::begin(syntax), waiting: String::new(), replaced: Vec::new() }
    }

    /// A text that was received before there were rules: what comes is read as its continuation.
    pub fn resumed(syntax: Syntax, shown: &str) -> Self {
        let mut text = Self::new(syntax);
        text.place.pass(shown);
        text
    }

    /// A text whose end is there.
    pub fn closed(replaced: &[ReplacedSecret]) -> Self {
        Self { replaced: replaced.to_vec(), ..Self::new(Syntax::Text) }
    }

    /// True if this is the whole text that was received.
    pub fn is_all(&self, salt: &Salt, shown: &str, text: &str) -> bool {
        text.len() == self.received(shown.len()) && self.overlap(salt, shown, 0, text) == Some(text.len())
    }

    /// Adds a piece, or the end without one. `shown` is the number of bytes that are shown so far. Nothing is changed if
    /// a rule refuses what was found.
    ///
    /// # Errors
    ///
    /// The rule that refuses.
    pub fn add(
        &mut self,
        rules: Option<&Rules>,
        salt: &Salt,
        shown: usize,
        piece: &str,
        is_end: bool,
    ) -> Result<SettledText, usize> {
        let mut place = self.place.clone();
        let waiting = [self.waiting.as_str(), piece].concat();
        let Some(rules) = rules else {
            place.pass(&waiting);
            (self.place, self.waiting) = (place, String::new());
            return Ok(SettledText { text: waiting, hits: Vec::new() });
        };
        let (mut settled, found) = rules.scan(&mut place, &waiting, is_end);
        if is_end {
            settled = waiting.len();
        } else if let Some(refused) = found.iter().find(|found| {
            // What was acknowledged before the piece cannot be refused with it, and is redacted as at the end.
            rules.action(found.rule) == Action::Refuse && found.range.end > self.waiting.len()
        }) {
            return Err(refused.rule);
        }
        let (text, ranges) = rules.replace(salt, &waiting[..settled], &found);
        self.replaced.extend(ranges.into_iter().map(|Placeholder { shown: placeholder, received }| ReplacedSecret {
            at: shown + placeholder.start,
            length: placeholder.len(),
            received: received.len(),
            digest: short_digest(salt, waiting[received].as_bytes()),
        }));
        (self.place, self.waiting) = (place, waiting[settled..].to_owned());
        Ok(SettledText { text, hits: found.iter().map(|found| rules.hit(found.rule)).collect() })
    }

    /// Bytes that were received, for a number of bytes that are shown.
    pub fn received(&self, shown: usize) -> usize {
        let placeholders: usize = self.replaced.iter().map(|replaced| replaced.length).sum();
        let received: usize = self.replaced.iter().map(|replaced| replaced.received).sum();
        shown.saturating_sub(placeholders) + received + self.waiting.len()
    }

    /// The number of bytes of a piece that were received before at this offset; none if other bytes were. Where a piece
    /// begins or ends within what a placeholder stands for, that part is not compared.
    pub fn overlap(&self, salt: &Salt, shown: &str, offset: usize, piece: &str) -> Option<usize> {
        let total = self.received(shown.len());
        let overlap = piece.len().min(total.checked_sub(offset)?);
        let piece = &piece.as_bytes()[..overlap];
        // The begin of a run of received bytes, and how far the shown text is read.
        let (mut begin, mut copied) = (0, 0);
        let within = |begin: usize, length: usize| {
            let from = begin.max(offset);
            let to = (begin + length).min(offset + overlap);
            (from < to).then(|| (from - offset..to - offset, from - begin..to - begin))
        };
        let is_plain = |begin: usize, run: &str| {
            within(begin, run.len()).is_none_or(|(sent, there)| piece[sent] == run.as_bytes()[there])
        };
        for replaced in &self.replaced {
            let run = shown.get(copied..replaced.at)?;
            if !is_plain(begin, run) {
                return None;
            }
            begin += run.len();
            if let Some((sent, there)) = within(begin, replaced.received)
                && there.len() == replaced.received
                && short_digest(salt, &piece[sent]) != replaced.digest
            {
                return None;
            }
            begin += replaced.received;
            copied = replaced.at + replaced.length;
        }
        let run = shown.get(copied..)?;
        let is_same = is_plain(begin, run) && is_plain(begin + run.len(), &self.waiting);
        is_same.then_some(overlap)
    }
}
