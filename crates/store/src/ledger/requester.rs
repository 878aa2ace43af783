//! Authors of mutations, and the hashes by which a repetition of a request is known.

use crate::model::run::Epoch;

/// The author of a mutation, and the key that makes it idempotent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requester {
    /// The author's name for itself, or empty.
    pub actor: String,
    /// Makes the mutation idempotent.
    pub request: Option<RequestKey>,
    /// The run on whose behalf it is: refused if the run is not the session's active one.
    pub epoch: Option<Epoch>,
    /// A hash of the request's hash, keyed with the store's secret: it recognises the request as well.
    pub salted_hash: Option<[u8; 32]>,
    /// True if only the salted hash is kept. A rule removed a secret from the request, and a guess at the secret could
    /// be tested against the plain hash.
    pub keeps_salted_hash: bool,
}

/// The key that makes a mutation idempotent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// The caller's id for the request, unique in its session.
    pub id: String,
    /// A hash of all other fields of the request.
    pub payload_hash: [u8; 32],
}

/// The first byte of a kept hash that is keyed with the store's secret.
const SALTED: u8 = 1;

/// A hash of a request, keyed with the store's secret, as it is kept.
pub(crate) fn kept_salted(hash: &[u8; 32]) -> Vec<u8> {
    [&[SALTED], hash.as_slice()].concat()
}

impl Requester {
    /// The hash of its request as it is kept with the answer. `repeats` is true if the request repeats content of an
    /// earlier one: an erasure of that content does not find this request, so its hash is keyed at once.
    pub(crate) fn kept_hash(&self, repeats: bool) -> Option<Vec<u8>> {
        let request = self.request.as_ref()?;
        let salted = self.salted_hash.filter(|_| self.keeps_salted_hash || repeats);
        Some(salted.map_or_else(|| request.payload_hash.to_vec(), |salted| kept_salted(&salted)))
    }

    /// The author of a request whose hash was kept.
    pub(crate) fn of_kept(actor: String, id: String, kept: &[u8]) -> Self {
        let (hash, is_salted) = unkept(kept);
        let payload_hash = hash.try_into().unwrap_or_default();
        let salted_hash = is_salted.then_some(payload_hash);
        let request = Some(RequestKey { id, payload_hash });
        Self { actor, request, epoch: None, salted_hash, keeps_salted_hash: is_salted }
    }

    /// True if a kept hash is that of its request.
    pub(crate) fn repeats(&self, kept: &[u8]) -> bool {
        let (hash, is_salted) = unkept(kept);
        match (is_salted, &self.request) {
            (false, Some(request)) if hash == request.payload_hash => true,
            _ => self.salted_hash.is_some_and(|salted| hash == salted),
        }
    }
}

/// A kept hash, and whether it is keyed.
fn unkept(kept: &[u8]) -> (&[u8], bool) {
    match kept {
        [SALTED, hash @ ..] if hash.len() == 32 => (hash, true),
        plain => (plain, false),
    }
}
