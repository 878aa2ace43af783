//! Abbreviated ids of sessions, printed in tables and accepted where a session is named, and messages named by their
//! revision.

use super::failure::Usage;
use super::output::shorten;
use crate::pb;
use longhand_client::{Client, Reason};
use std::collections::HashSet;

/// Prefix of the ids of sessions.
const PREFIX: &str = "ses_";
/// Digits of an id.
const DIGITS: usize = 32;
/// Digits of an abbreviation in a table. An id begins with the time of its creation and ends with random digits: its
/// last eight are different from those of most other sessions.
const DIGITS_SHOWN: usize = 8;
/// Minimum digits of an accepted abbreviation.
const DIGITS_MIN: usize = 4;
/// Sessions requested per page.
const PAGE_SIZE: i32 = 1000;
/// Maximum number of pages that are searched for an abbreviation: a hundred thousand sessions.
const PAGES_MAX: usize = 100;
/// Maximum number of candidates that are listed for an ambiguous abbreviation.
const CANDIDATES_MAX: usize = 10;
/// Maximum width of a candidate's title, in columns.
const TITLE_WIDTH: usize = 40;

/// Ids as a table prints them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids {
    /// This many of the last digits.
    Last(usize),
    /// All of each id.
    Whole,
}

impl Ids {
    /// Abbreviations that are different for each of these ids.
    pub(super) fn short<'a>(ids: impl Iterator<Item = &'a str> + Clone) -> Self {
        let distinct = ids.clone().collect::<HashSet<_>>().len();
        let unique = |digits: usize| ids.clone().map(|id| last(id, digits)).collect::<HashSet<_>>().len() == distinct;
        Self::Last((DIGITS_SHOWN..DIGITS).find(|&digits| unique(digits)).unwrap_or(DIGITS))
    }

    /// An id as the table prints it.
    pub(super) fn text(self, id: &str) -> &str {
        match self {
            Self::Last(digits) => last(id, digits),
            Self::Whole => id,
        }
    }
}

/// The last digits of a session's id; a text of another form is not abbreviated.
pub(super) fn last(id: &str, digits: usize) -> &str {
    match id.strip_prefix(PREFIX) {
        Some(hex) if hex.len() == DIGITS && hex.is_ascii() => &hex[DIGITS - digits.min(DIGITS)..],
        Some(_) | None => id,
    }
}

/// The usual abbreviation of a session's id, for lines about sessions that are not known in advance.
pub(super) fn short(id: &str) -> &str {
    last(id, DIGITS_SHOWN)
}

/// Digits of a text that may abbreviate an id: hexadecimal, with or without the prefix.
fn abbreviation(text: &str) -> Option<&str> {
    let digits = text.strip_prefix(PREFIX).unwrap_or(text);
    let is_digit = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    let can_be = (DIGITS_MIN..DIGITS).contains(&digits.len()) && digits.bytes().all(is_digit);
    can_be.then_some(digits)
}

/// True if the digits are the beginning or the end of the id, or the beginning of its usual abbreviation.
fn abbreviates(digits: &str, id: &str) -> bool {
    id.strip_prefix(PREFIX).is_some_and(|hex| {
        hex.starts_with(digits) || hex.ends_with(digits) || last(id, DIGITS_SHOWN).starts_with(digits)
    })
}

/// The id of the session that is named by its id, its client id or an abbreviation of its id.
///
/// An abbreviation is at least four of the first or the last digits, or of the first ones that a table shows, and must
/// fit one session only. It is searched
/// only if no session has the text as id or client id.
pub(super) async fn session(client: &Client, named: &str) -> anyhow::Result<String> {
    // The daemon reports a complete id that does not exist.
    if named.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == DIGITS) {
        return Ok(named.to_owned());
    }
    let missing = match client.call(pb::GetSessionRequest { session_id: named.to_owned() }).await {
        Ok(found) => return Ok(found.session.unwrap_or_default().session_id),
        Err(error) if error.reason() == Some(Reason::SessionNotFound) => error,
        Err(error) => return Err(error.into()),
    };
    let Some(digits) = abbreviation(named) else {
        let is_short = named.len() < DIGITS_MIN && named.bytes().all(|letter| letter.is_ascii_hexdigit());
        let too_few = || Usage(format!("{named:?} is too little of an id: it takes at least {DIGITS_MIN} digits"));
        return Err(if is_short { too_few().into() } else { missing.into() });
    };
    let mut candidates = candidates(client, digits).await?;
    match candidates.len() {
        0 => Err(missing.into()),
        1 => Ok(candidates.remove(0).session_id),
        _ => Err(Usage(ambiguous(named, &candidates)).into()),
    }
}

/// The id of a message that is named by its id, its client id, or its revision: `#98`, the form in which output names
/// messages, or `98` if no message has that client id.
pub(super) async fn message(client: &Client, session_id: &str, named: &str) -> anyhow::Result<String> {
    let digits = named.strip_prefix('#').unwrap_or(named);
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    let Some(revision) = digits.parse::<i64>().ok().filter(|_| is_number) else { return Ok(named.to_owned()) };
    let request = pb::GetMessageRequest { session_id: session_id.to_owned(), message_id: named.to_owned() };
    match client.call(request).await {
        Ok(_) => return Ok(named.to_owned()),
        Err(error) if error.reason() == Some(Reason::MessageNotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let request = pb::ListMessagesRequest {
        session_id: session_id.to_owned(),
        page_size: 1,
        reverse: true,
        as_of_revision: Some(revision),
        include_derived: true,
        ..pb::ListMessagesRequest::default()
    };
    let newest = client.call(request).await?.messages.into_iter().next();
    match newest.filter(|message| message.revision == revision) {
        Some(message) => Ok(message.message_id),
        None => Err(Usage(format!("no message was appended at revision {revision}")).into()),
    }
}

/// The same as [`message`], for a message that need not be named.
pub(super) async fn optional_message(
    client: &Client,
    session_id: &str,
    named: Option<String>,
) -> anyhow::Result<Option<String>> {
    match named {
        Some(named) => Ok(Some(message(client, session_id, &named).await?)),
        None => Ok(None),
    }
}

/// The same as [`session`], for a session that need not be named.
pub(super) async fn optional_session(client: &Client, named: Option<String>) -> anyhow::Result<Option<String>> {
    match named {
        Some(named) => Ok(Some(session(client, &named).await?)),
        None => Ok(None),
    }
}

/// Sessions whose id begins or ends with the digits, archived ones included.
async fn candidates(client: &Client, digits: &str) -> anyhow::Result<Vec<pb::Session>> {
    let mut request =
        pb::ListSessionsRequest { page_size: PAGE_SIZE, include_archived: true, ..pb::ListSessionsRequest::default() };
    let mut sessions = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = client.call(request).await?;
        sessions.extend(page.sessions.into_iter().filter(|session| abbreviates(digits, &session.session_id)));
        if page.next_page_token.is_empty() {
            return Ok(sessions);
        }
        request = pb::ListSessionsRequest {
            page_size: PAGE_SIZE,
            page_token: page.next_page_token,
            include_archived: true,
            ..pb::ListSessionsRequest::default()
        };
    }
    anyhow::bail!("there are too many sessions to search for an abbreviation; the whole id is needed")
}

fn ambiguous(named: &str, candidates: &[pb::Session]) -> String {
    let shown = candidates.iter().take(CANDIDATES_MAX).map(|session| match session.title.as_str() {
        "" => session.session_id.clone(),
        title => format!("{} ({:?})", session.session_id, shorten(title, TITLE_WIDTH)),
    });
    let more = match candidates.len().saturating_sub(CANDIDATES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = shown.collect::<Vec<_>>().join(", ");
    format!("{named:?} is ambiguous: {} sessions have such an id: {shown}{more}", candidates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ses_01a2082fd07271efb11b4ec06b26c09c";
    const TWO: &str = "ses_01a2082fd07271efb11b4ec16b26c09c";

    #[test]
    fn abbreviations_in_a_table_are_unique() {
        assert_eq!(Ids::short([ONE].into_iter()).text(ONE), "6b26c09c");
        let both = Ids::short([ONE, TWO, ONE].into_iter());
        assert_eq!((both.text(ONE), both.text(TWO)), ("06b26c09c", "16b26c09c"));
        assert_eq!(Ids::Whole.text(ONE), ONE);
        assert_eq!(short("mine"), "mine");
    }

    #[test]
    fn an_abbreviation_is_the_beginning_or_the_end_of_an_id() {
        for (text, fits) in [
            ("c09c", true),
            ("6b26c09c", true),
            ("ses_6b26c09c", true),
            ("01a2082f", true),
            ("ses_01a2", true),
            ("09c", false),
            ("C09C", false),
            ("2082", false),
            ("mine", false),
            (ONE, false),
        ] {
            assert_eq!(abbreviation(text).is_some_and(|digits| abbreviates(digits, ONE)), fits, "{text}");
        }
    }

    #[test]
    fn the_candidates_of_an_ambiguous_abbreviation_are_listed() {
        let session = |id: &str, title: &str| pb::Session {
            session_id: id.into(),
            title: title.into(),
            ..pb::Session::default()
        };
        let message = ambiguous("c09c", &[session(ONE, "tides"), session(TWO, "")]);
        assert_eq!(message, format!("\"c09c\" is ambiguous: 2 sessions have such an id: {ONE} (\"tides\"), {TWO}"));
        let many = vec![session(ONE, ""); 12];
        assert!(ambiguous("c09c", &many).ends_with(" and 2 more"));
    }
}
