//! Titles of imported sessions.

use longhand_model::harness;
use regex::Regex;
use std::sync::LazyLock;

/// Maximum length of a title made from a first request, in characters.
pub(super) const TITLE_CHARACTERS: usize = 80;

/// A title made from a request; none if it requests nothing: a notice, or a command of the agent's own without a
/// subject.
pub(super) fn title_of_request(text: &str) -> Option<String> {
    let spoken = harness::spoken(text);
    if harness::command(&spoken).is_some_and(|(_, rest)| !rest.contains(char::is_whitespace)) {
        return None;
    }
    Some(title_of(&spoken)).filter(|title| !title.is_empty())
}

/// Tags that a program put into a title, recognised by the hyphens or underscores in their names.
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"</?[A-Za-z][A-Za-z0-9]*[-_][A-Za-z0-9_-]*(?: [^<>]*)?/?>").expect("a fixed pattern"));

/// A title made from a text: its first line that has words, without markup and control characters, shortened to
/// [`TITLE_CHARACTERS`].
pub(super) fn title_of(text: &str) -> String {
    let text = TAG.replace_all(text, " ");
    let bare = |line: &str| {
        let line: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        words.trim_start_matches(['#', '>', '*']).trim().to_owned()
    };
    let line = text.lines().map(bare).find(|line| line.chars().any(char::is_alphanumeric)).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARACTERS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}
