//! Claims about commits that appear neither in the history nor in any other text that the writer was given.

use super::statements::{CLAIMS_MAX, Evidence, Statement, pattern, words_of};
use longhand_core::model::compaction::{Contradiction, ContradictionKind};
use regex::Regex;
use std::sync::LazyLock;

/// Maximum distance between an id and the word "commit", in bytes.
const NEAR_BYTES: usize = 48;

/// Length of the searched prefix of an id: the shortest that git prints.
const SHORT: usize = 7;

static ID: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9a-f]{7,40}"));
static COMMIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\bcommit(?:s|ted)?\b|提交"));

pub(super) fn contradicted(evidence: &Evidence<'_>, statements: &[Statement]) -> Vec<Contradiction> {
    // The writer may know commits from before the session or from elsewhere.
    if evidence.knows_more || evidence.messages.is_empty() {
        return Vec::new();
    }
    let mut named: Vec<(&str, &Statement)> = Vec::new();
    for statement in statements.iter().filter(|statement| COMMIT.is_match(&statement.words)) {
        for id in ids(&statement.words) {
            if named.len() < CLAIMS_MAX && !named.iter().any(|(known, _)| known[..SHORT] == id[..SHORT]) {
                named.push((id, statement));
            }
        }
    }
    let texts = || {
        let parts = evidence.all().rev().flat_map(|source| &source.message.parts);
        evidence.texts.iter().copied().chain(parts.map(|part| words_of(&part.body)))
    };
    for text in texts() {
        if named.is_empty() {
            return Vec::new();
        }
        named.retain(|(id, _)| !text.contains(&id[..SHORT]));
    }
    // Some tools print ids in capitals.
    for text in texts() {
        if named.is_empty() {
            return Vec::new();
        }
        named.retain(|(id, _)| !text.contains(&id[..SHORT].to_ascii_uppercase()));
    }
    let contradiction = |(id, statement): (&str, &Statement)| {
        statement.contradicted(ContradictionKind::Commit, &format!("No message of the history names `{id}`"), None)
    };
    named.into_iter().map(contradiction).collect()
}

/// The ids of commits in a sentence: separate words of digits and letters, near the word "commit".
fn ids(words: &str) -> impl Iterator<Item = &str> {
    let is_joined = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() && letter.is_ascii() || "-_#:/\\@%+=".contains(letter))
    };
    ID.find_iter(words).filter_map(move |found| {
        let (id, range) = (found.as_str(), found.range());
        let before = words[..range.start].chars().next_back();
        let is_standalone = !is_joined(before) && before != Some('.') && !is_joined(words[range.end..].chars().next());
        let is_mixed = id.bytes().any(|byte| byte.is_ascii_digit()) && id.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_near = COMMIT.find_iter(words).any(|word| {
            word.start().saturating_sub(range.end).max(range.start.saturating_sub(word.end())) <= NEAR_BYTES
        });
        (is_standalone && is_mixed && is_near).then_some(id)
    })
}
