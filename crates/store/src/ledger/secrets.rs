//! The rules for secrets, and the keys with which their traces are kept.

use super::codec;
use crate::error::{Error, Result};
use crate::model::ids::PartId;
use crate::secrets::{Action, DraftText, Hit, Rules, Salt};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The rules, and the store's keys for what they find.
#[derive(Debug)]
pub struct Secrets {
    salt: Salt,
    rules: OnceLock<Arc<Rules>>,
    /// The key of what waits of drafts; none while there were never any rules.
    draft_key: OnceLock<LessSafeKey>,
    /// For each rule, how often it was applied since the start.
    counts: OnceLock<Vec<AtomicU64>>,
}

impl Secrets {
    pub(crate) fn new(salt: [u8; 32]) -> Self {
        Self { salt: Salt(salt), rules: OnceLock::new(), draft_key: OnceLock::new(), counts: OnceLock::new() }
    }

    /// Applies rules from now on; called before anything is written. Later calls have no effect.
    pub(crate) fn apply(&self, rules: Arc<Rules>) {
        drop(self.counts.set((0..rules.count()).map(|_| AtomicU64::new(0)).collect()));
        drop(self.rules.set(rules));
    }

    /// Sets the key for drafts. Later calls have no effect.
    pub(crate) fn set_draft_key(&self, key: &[u8; 32]) {
        if let Ok(key) = UnboundKey::new(&CHACHA20_POLY1305, key) {
            drop(self.draft_key.set(LessSafeKey::new(key)));
        }
    }

    /// The rules; none if there are none.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.get().map(Arc::as_ref)
    }

    /// The key of placeholders and digests.
    pub fn salt(&self) -> &Salt {
        &self.salt
    }

    pub(crate) fn rule_name(&self, rule: usize) -> String {
        self.rules().map_or("", |rules| rules.name(rule)).to_owned()
    }

    /// Counts secrets that were found.
    pub fn count(&self, hits: &[Hit]) {
        hits.iter().for_each(|hit| self.count_refused(hit.rule));
    }

    /// Counts a request that a rule refused.
    pub fn count_refused(&self, rule: usize) {
        if let Some(count) = self.counts.get().and_then(|counts| counts.get(rule)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The rules with the number of secrets that each found since the start, or of the requests that it refused.
    pub fn counts(&self) -> Vec<(String, Action, u64)> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let counts = self.counts.get().map(Vec::as_slice).unwrap_or_default();
        let of = |(rule, count): (usize, &AtomicU64)| {
            (rules.name(rule).to_owned(), rules.action(rule), count.load(Ordering::Relaxed))
        };
        counts.iter().enumerate().map(of).collect()
    }

    /// Encrypts what a draft has beside its text, for this draft alone.
    pub(crate) fn hide(&self, part: PartId, text: &DraftText) -> Result<Vec<u8>> {
        let key = self.draft_key.get().ok_or(Error::Bug("there are rules for secrets, and no key for drafts"))?;
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = codec::encode_draft_text(text);
        let refused = |_| Error::Bug("a draft cannot be encrypted");
        let sealing = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(sealing, Aad::from(part.0.as_bytes()), &mut sealed).map_err(refused)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// True if what drafts hide can be encrypted and decrypted.
    pub(crate) fn has_draft_key(&self) -> bool {
        self.draft_key.get().is_some()
    }

    /// Decrypts it; none if the key is another one, as in a store that was restored from a backup, or if it was never
    /// encrypted by a store for this draft, as an archive may have it: a draft can be closed and erased in any case.
    pub(crate) fn reveal(&self, part: PartId, hidden: &[u8]) -> Result<Option<DraftText>> {
        let Some((nonce, sealed)) = hidden.split_first_chunk::<NONCE_LEN>() else { return Ok(None) };
        let Some(key) = self.draft_key.get() else { return Ok(None) };
        let mut sealed = sealed.to_vec();
        match key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(part.0.as_bytes()), &mut sealed) {
            Ok(plain) => codec::decode_draft_text(plain).map(Some),
            Err(_) => Ok(None),
        }
    }
}
