//! What providers say when they refuse a request, and what helps.
//!
//! They say it by status, by a code, or only by a sentence. `TABLE` has what each of them says, by kind. A request names
//! its model, not the server behind it, and gateways pass on what others said, so every row counts for every provider. A
//! pattern may match anywhere in the message; case and the number of blanks are ignored. In a pattern `#` represents a
//! number and `*` anything; a leading `^` anchors it to the start.

use crate::model::message::FinishReason;
use crate::model::usage::Usage;

mod table;
#[cfg(test)]
mod tests;

pub use table::{Kind, Recovery};
use table::{Rows, Said, TABLE};

/// The error of a provider that refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProviderError<'a> {
    /// The HTTP status; none if the error came in the middle of a reply, or is only known as text.
    pub status: Option<u16>,
    /// The provider's code or type of the error, or empty.
    pub code: &'a str,
    /// The message, or the whole body if it could not be parsed.
    pub message: &'a str,
}

/// The kinds in the order in which a message is examined. A message about a rate may mention sizes, and one about media
/// may mention tokens or bytes.
const BY_TEXT: [Kind; 6] = [Kind::Rate, Kind::Quota, Kind::Media, Kind::TooLong, Kind::TooLarge, Kind::Busy];

/// The kind of an error; none if it is not known.
///
/// A code or a status that means a size is believed before any other signal, and a sentence says which size it is. Tokens
/// in the message of another status may be tokens per minute.
pub fn kind(error: &ProviderError<'_>) -> Option<Kind> {
    let by_code = kind_of_code(error.code);
    let by_status = error.status.and_then(kind_of_status);
    let by_text = kind_of_text(error.message);
    let is_size = |kind: &Kind| kind.recovery().is_some();
    if let Some(size) = by_code.filter(is_size).or(by_status.filter(is_size)) {
        return by_text.filter(is_size).or(Some(size));
    }
    if by_status == Some(Kind::Rate) {
        return by_code.filter(|kind| *kind == Kind::Quota).or(by_status);
    }
    by_text.filter(is_size).or(by_code).or(by_text).or(by_status)
}

/// The kind of an error whose status and code are not known, or only as part of the text.
pub fn kind_of_text(message: &str) -> Option<Kind> {
    let message = plain(message);
    let says = |(_, kind, said): &Rows| match said {
        Said::Texts(patterns) => patterns.iter().any(|pattern| matches(pattern, &message)),
        // A body that could not be parsed contains its code.
        Said::Codes(codes) => kind.recovery().is_some() && codes.iter().any(|code| message.contains(code)),
        Said::Statuses(_) => false,
    };
    BY_TEXT.into_iter().find(|kind| TABLE.iter().any(|rows| rows.1 == *kind && says(rows)))
}

/// True if a text begins with a sentence of the table.
pub fn begins_with_error(text: &str) -> bool {
    let text = plain(text);
    let begins = |pattern: &&str| matches_at(pattern.trim_start_matches('^'), &text);
    TABLE.iter().any(|(_, _, said)| matches!(said, Said::Texts(patterns) if patterns.iter().any(begins)))
}

/// The kind that a code or type of an error means; none for an unknown one.
pub fn kind_of_code(code: &str) -> Option<Kind> {
    let code = code.to_ascii_lowercase();
    TABLE.iter().find(|rows| matches!(rows.2, Said::Codes(codes) if codes.contains(&&*code))).map(|rows| rows.1)
}

fn kind_of_status(status: u16) -> Option<Kind> {
    TABLE.iter().find(|rows| matches!(rows.2, Said::Statuses(known) if known.contains(&status))).map(|rows| rows.1)
}

/// True if a reply indicates that its request did not fit although the provider reported no error: the input was larger
/// than the window, or left no room for an answer. These are pi's two rules.
pub fn is_silent(reason: FinishReason, usage: &Usage, window_tokens: i64) -> bool {
    let read = usage.input.saturating_add(usage.cache_read);
    if window_tokens <= 0 {
        return false;
    }
    match reason {
        FinishReason::Stop => read > window_tokens,
        FinishReason::Length => usage.output == 0 && read.saturating_mul(100) >= window_tokens.saturating_mul(99),
        FinishReason::ToolCalls | FinishReason::ContentFilter | FinishReason::Error | FinishReason::Aborted => false,
    }
}

/// Characters of a message that are searched. A matching sentence comes early, and a body may have any size.
const EXAMINED_CHARS: usize = 8_192;

/// The beginning of the message in lower case, with a single blank after each word.
fn plain(message: &str) -> String {
    let end = message.char_indices().nth(EXAMINED_CHARS).map_or(message.len(), |(at, _)| at);
    let words: Vec<&str> = message[..end].split_whitespace().collect();
    // The blank at the end ends a number or word that is the whole message.
    words.join(" ").to_lowercase().replace('\u{2019}', "'") + " "
}

/// True if a normalized message contains a pattern.
fn matches(pattern: &str, message: &str) -> bool {
    match pattern.strip_prefix('^') {
        Some(rest) => matches_at(rest, message),
        None => message.char_indices().any(|(at, _)| matches_at(pattern, &message[at..])),
    }
}

/// True if a message begins with a pattern.
fn matches_at(pattern: &str, message: &str) -> bool {
    let Some(special) = pattern.find(['#', '*']) else { return message.starts_with(pattern) };
    let Some(rest) = message.strip_prefix(&pattern[..special]) else { return false };
    let after = &pattern[special + 1..];
    if pattern[special..].starts_with('*') {
        return matches(after, rest);
    }
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && !",._".contains(letter)).unwrap_or(rest.len());
    // A number may be at the end of its sentence.
    let number = rest[..end].trim_end_matches([',', '.', '_']);
    number.starts_with(|letter: char| letter.is_ascii_digit()) && matches_at(after, &rest[number.len()..])
}
