//! What providers say when they refuse a request, and what helps.
//!
//! They say it by status, by a code, or only by a sentence, and gateways pass on what others said in words of their own.
//! Codes and statuses come first where they decide (`codes`); else the error is freed of its wrappers (`text`) and read
//! by sense, sentence by sentence (`sense`). No provider's sentences are listed: they change with every version. A
//! request names its model, not the server behind it, so nothing here depends on the provider.

use crate::model::message::FinishReason;
use crate::model::usage::Usage;

mod codes;
mod kinds;
mod sense;
#[cfg(test)]
mod tests;
mod text;
mod window;

pub use kinds::{Kind, Recovery};
use sense::Meaning;
use text::ErrorText;

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

/// The kind of an error; none if it is not known.
///
/// A code or a status that means a size is believed before any other signal, and a sentence says which size it is. What
/// a sentence says for sure is believed before other codes and statuses: a request that is longer than the window is so
/// at every rate. Words that may mean a rate too are one beside its status or code.
pub fn kind(error: &ProviderError<'_>) -> Option<Kind> {
    let said = text::read_error(error.message);
    let mut codes: Vec<&str> = vec![error.code];
    codes.extend(said.codes.iter().map(String::as_str));
    let statuses = error.status.into_iter().chain(said.statuses.iter().copied());
    let by_status: Vec<Kind> = statuses.filter_map(codes::kind_of_status).collect();
    let by_status = by_status.iter().find(|kind| kind.is_size()).or(by_status.first()).copied();
    decide(by_status, &codes, &said)
}

/// The model's window that a refusal of a request as too long names, in tokens; none if it names none.
pub fn window_tokens(error: &ProviderError<'_>) -> Option<i64> {
    const PAYMENT: u16 = 402;
    if kind(error) != Some(Kind::TooLong) {
        return None;
    }
    let said = text::read_error(error.message);
    if error.status == Some(PAYMENT) || said.statuses.contains(&PAYMENT) {
        return None;
    }
    let named = said.errors.iter().rev().find_map(|sentences| window::tokens(sentences));
    named.and_then(|tokens| i64::try_from(tokens).ok())
}

/// The kind of an error whose status and code are not known, or only as part of the text.
pub fn kind_of_text(message: &str) -> Option<Kind> {
    kind(&ProviderError { message, ..ProviderError::default() })
}

/// True if a text begins with an error in a provider's words. One that begins with a heading is something else.
pub fn begins_with_error(text: &str) -> bool {
    if text.starts_with('#') {
        return false;
    }
    let begin: String = text.split_whitespace().take(BEGINNING_WORDS).collect::<Vec<_>>().join(" ");
    let said = text::read_error(&begin);
    !said.statuses.is_empty() || meaning(&said).is_some()
}

/// Words in which an error has begun, if a text is one: a summary comes to the errors of others later.
const BEGINNING_WORDS: usize = 8;

/// The kind that a code or type of an error means; none for an unknown one.
pub fn kind_of_code(code: &str) -> Option<Kind> {
    codes::kind(code).or_else(|| sense::of_sentence(&text::sentence(code)).map(|meaning| meaning.kind))
}

fn decide(by_status: Option<Kind>, codes: &[&str], said: &ErrorText) -> Option<Kind> {
    let meaning = meaning(said);
    let of_text = meaning.map(|meaning| meaning.kind);
    let sure = meaning.filter(|meaning| meaning.is_sure).map(|meaning| meaning.kind);
    let by_code = |is: fn(Kind) -> bool| codes.iter().filter_map(|code| kind_of_code(code)).find(|kind| is(*kind));
    // An output that no window holds has the code of an overflow too.
    if sure == Some(Kind::Invalid) || codes.iter().any(|code| codes::NO_VIEW.contains(code)) {
        return Some(Kind::Invalid);
    }
    if let Some(size) = by_code(Kind::is_size).or(by_status.filter(|kind| kind.is_size())) {
        return of_text.filter(|kind| kind.is_size()).or(Some(size));
    }
    // A quota of requests in a time has the words of an account that is used up, and the code of a rate.
    let is_rate = by_code(|kind| kind == Kind::Rate).is_some() && by_code(|kind| kind == Kind::Quota).is_none();
    if let Some(sure) = sure.filter(|sure| *sure != Kind::Quota || !is_rate) {
        return Some(sure);
    }
    if by_status == Some(Kind::Rate) {
        return by_code(|kind| kind == Kind::Quota).or(by_status);
    }
    let is_limit = |kind| matches!(kind, Kind::Rate | Kind::Quota);
    let by_limit = by_code(is_limit).or(by_status);
    by_limit.or(of_text.filter(|kind| kind.is_size())).or_else(|| by_code(|_| true)).or(of_text)
}

/// What a message says: what its last error that says more than that something went wrong says.
fn meaning(said: &ErrorText) -> Option<Meaning> {
    let meanings: Vec<Meaning> = said.errors.iter().filter_map(|error| sense::of_error(error)).collect();
    let decides = |meaning: &&Meaning| meaning.kind.is_size() || meaning.is_sure && meaning.kind != Kind::Invalid;
    meanings.iter().rev().find(decides).or(meanings.last()).copied()
}

/// True if a reply indicates that its request did not fit although the provider reported no error: the input was larger
/// than the window, or left no room for an answer.
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
