//! `longhand search`: finds parts of messages by their words.

use super::Globals;
use super::failure::Usage;
use super::ids::{self, Ids};
use super::output::{DIMMED, GOOD, HEADING, Output, PENDING, PLAIN, one_line, word};
use super::times::{self, Times};
use crate::clock::Clock;
use crate::grpc::wire;
use crate::pb;
use anstyle::Style;
use std::process::ExitCode;
use std::time::Duration;

/// Hits that are asked for at a time.
const PAGE_SIZE: i32 = 100;
/// Hits that are printed if the user names no number.
const HITS_DEFAULT: u32 = 20;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Words to find, or a question; "a phrase" in quotation marks, or the beginning of a word with `*`
    #[arg(required = true)]
    words: Vec<String>,
    /// Only this session, with what it inherits
    #[arg(long, value_name = "SESSION", conflicts_with = "tree")]
    session: Option<String>,
    /// Only this session and those below it
    #[arg(long, value_name = "SESSION")]
    tree: Option<String>,
    /// Only sessions of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only messages of this role: user, assistant, tool or system; may be repeated
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Only calls and results of this tool; may be repeated
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// Only this type of part: text, reasoning, tool_call, tool_result, media, marker or record; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    part_type: Vec<String>,
    /// Only what came since this time: an age such as 2h or 3d, a date, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what came before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Include summaries and other messages that Longhand wrote
    #[arg(long)]
    derived: bool,
    /// Leave out records
    #[arg(long)]
    no_records: bool,
    /// Only parts that have all of the words
    #[arg(long)]
    all: bool,
    /// The newest first, instead of the best
    #[arg(long)]
    newest: bool,
    /// Say what each hit has of the words, and how much that counts
    #[arg(long)]
    why: bool,
    /// Print at most this many hits
    #[arg(long, value_name = "COUNT", default_value_t = HITS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// The number of a name in an enum of the protocol.
fn number(kind: &str, prefix: &str, name: &str, find: impl Fn(&str) -> Option<i32>) -> Result<i32, Usage> {
    let full = format!("{prefix}{}", name.to_uppercase().replace('-', "_"));
    find(&full).filter(|number| *number != 0).ok_or_else(|| Usage(format!("{name:?} is no {kind}")))
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let now = Clock::default().now();
    let instant = |text: Option<String>| text.map(|text| times::instant(&text, now)).transpose();
    let roles = arguments.role.iter();
    let roles = roles.map(|name| number("role", "ROLE_", name, |full| pb::Role::from_str_name(full).map(i32::from)));
    let types = arguments.part_type.iter();
    let types = types.map(|name| {
        number("type of part", "PART_TYPE_", name, |full| pb::PartType::from_str_name(full).map(i32::from))
    });
    let mut request = pb::SearchHistoryRequest {
        query: quote_words(&arguments.words),
        project: arguments.project,
        roles: roles.collect::<Result<_, _>>()?,
        tools: arguments.tool,
        part_types: types.collect::<Result<_, _>>()?,
        start_time: instant(arguments.since)?.map(wire::timestamp),
        end_time: instant(arguments.until)?.map(wire::timestamp),
        include_derived: arguments.derived,
        exclude_records: arguments.no_records,
        require_every_term: arguments.all,
        newest_first: arguments.newest,
        ..pb::SearchHistoryRequest::default()
    };
    // A daemon that keeps no index never has one.
    let client = globals.client().await?.with_retry(Duration::ZERO);
    let mut output = globals.output();
    request.session_id = ids::optional_session(&client, arguments.session).await?;
    request.tree_session_id = ids::optional_session(&client, arguments.tree).await?;
    let mut left = arguments.limit;
    let mut all = Vec::new();
    let (indexed, head, is_cut) = loop {
        request.page_size = PAGE_SIZE.min(i32::try_from(left).unwrap_or(PAGE_SIZE));
        let page = client.call(request.clone()).await?;
        let progress = (page.indexed_seq, page.head_seq, page.cut_off);
        for hit in page.hits.into_iter().take(left as usize) {
            left -= 1;
            if output.json() {
                output.message(&hit)?;
            } else {
                all.push(hit);
            }
        }
        if page.next_page_token.is_empty() || left == 0 {
            break progress;
        }
        request.page_token = page.next_page_token;
    };
    if !output.json() {
        let short = output.columns().is_some();
        let ids = if short { Ids::short(all.iter().map(|hit| hit.session_id.as_str())) } else { Ids::Whole };
        let times = Globals::times(&output);
        all.iter().try_for_each(|hit| print(&mut output, hit, ids, times, arguments.why))?;
        if all.is_empty() {
            eprintln!("{}", no_hits_text(indexed, head));
        }
        if is_cut {
            eprintln!("some words are so common that they only change the order of what the others find");
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What is said if nothing is found.
fn no_hits_text(indexed: i64, head: i64) -> String {
    match head - indexed {
        1.. => format!("nothing found in what is indexed: {indexed} of {head} events; search again in a while"),
        _ => format!("nothing found; all {head} events are indexed"),
    }
}

/// The words as the shell gave them: an argument with blanks is a phrase, as it was in quotation marks.
fn quote_words(words: &[String]) -> String {
    let quoted = |word: &String| {
        let is_phrase = words.len() > 1 && word.contains(char::is_whitespace) && !word.contains('"');
        if is_phrase { format!("\"{word}\"") } else { word.clone() }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn print(output: &mut Output, hit: &pb::SearchHit, ids: Ids, times: Times, why: bool) -> std::io::Result<()> {
    let tool = if hit.tool.is_empty() { String::new() } else { format!(" {}", one_line(&hit.tool)) };
    let came = times.text(hit.create_time.as_ref());
    let time = match &hit.origin_time {
        Some(written) => format!("{} (came {came})", times.text(Some(written))),
        None => came,
    };
    let head = format!("{}  {time}", ids.text(&hit.session_id));
    let kind = word(hit.part_type().as_str_name(), "PART_TYPE_");
    let role = format!("  {} ({kind}{tool})", word(hit.role().as_str_name(), "ROLE_"));
    let (style, state) = state(hit, ids);
    output.styled_line(&[(HEADING, head), (PLAIN, role), (PLAIN, "  ".to_owned()), (style, state)])?;
    let pieces = hit.snippet.as_ref().map(marked_pieces).unwrap_or_default();
    // Colours alone mark what matches: another mark would read as a part of the text.
    let style = |matches| if matches { PENDING.bold() } else { PLAIN };
    let mut line = vec![(PLAIN, "    ".to_owned())];
    line.extend(pieces.into_iter().map(|(matches, text)| (style(matches), text)));
    line.push((DIMMED, format!("  {}", hit.message_id)));
    output.styled_line(&line)?;
    match hit.rank.as_ref().filter(|_| why) {
        Some(rank) => output.styled_line(&[(DIMMED, format!("    {}", reasons(rank)))]),
        None => Ok(()),
    }
}

/// Why a hit stands where it does.
fn reasons(rank: &pb::SearchRank) -> String {
    let terms = rank.terms.iter().map(|term| format!("{} {:.1}", one_line(&term.term), term.score as f64 / 1e6));
    let has_all = if rank.has_every_term { "all words: " } else { "" };
    format!("{has_all}{}", terms.collect::<Vec<_>>().join(", "))
}

/// Whether the view shows a hit, or why not.
fn state(hit: &pb::SearchHit, ids: Ids) -> (Style, String) {
    if hit.in_view {
        return match &hit.shortened_by_compaction_id {
            Some(by) => (PENDING, format!("in view, shortened by {}", ids.text(by))),
            None => (GOOD, "in view".to_owned()),
        };
    }
    let Some(status) = &hit.status else { return (DIMMED, "not in view".to_owned()) };
    let state = word(status.state().as_str_name(), "MESSAGE_STATE_");
    let by = [&status.by_compaction_id, &status.by_message_id].into_iter().flatten().next();
    match (by, status.by_revision) {
        (Some(by), _) => (DIMMED, format!("{state} by {}", ids.text(by))),
        (None, 1..) => (DIMMED, format!("{state} at revision {}", status.by_revision)),
        (None, _) => (DIMMED, state),
    }
}

/// A snippet on one line, in pieces that match or not.
fn marked_pieces(snippet: &pb::Snippet) -> Vec<(bool, String)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let place = |bytes: i64| usize::try_from(bytes - snippet.offset_bytes).unwrap_or(0).min(snippet.text.len());
    let flat = |text: &str| text.replace(char::is_whitespace, " ");
    for found in &snippet.matches {
        let (start, end) = (place(found.offset_bytes), place(found.offset_bytes + found.length_bytes));
        let (Some(before), Some(text)) = (snippet.text.get(at..start), snippet.text.get(start..end)) else { break };
        pieces.push((false, flat(before)));
        pieces.push((true, flat(text)));
        at = end;
    }
    pieces.push((false, flat(snippet.text.get(at..).unwrap_or_default())));
    pieces.retain(|(_, text)| !text.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_by_their_bytes_in_the_part() {
        let snippet = pb::Snippet {
            text: "é key\nin vault".to_owned(),
            offset_bytes: 100,
            matches: vec![
                pb::SnippetMatch { offset_bytes: 103, length_bytes: 3 },
                pb::SnippetMatch { offset_bytes: 110, length_bytes: 5 },
            ],
        };
        let expected = [(false, "é "), (true, "key"), (false, " in "), (true, "vault")];
        assert_eq!(marked_pieces(&snippet), expected.map(|(matches, text)| (matches, text.to_owned())));
    }

    #[test]
    fn the_reasons_are_what_a_part_has_and_nothing_says_how_far_the_index_is() {
        let term = |term: &str, score| pb::SearchRankTerm { term: term.to_owned(), score };
        let rank = pb::SearchRank {
            has_every_term: true,
            terms: vec![term("vault", 2_040_000), term("key", 500_000)],
            ..pb::SearchRank::default()
        };
        assert_eq!(reasons(&rank), "all words: vault 2.0, key 0.5");
        assert_eq!(reasons(&pb::SearchRank { has_every_term: false, ..rank }), "vault 2.0, key 0.5");
        assert_eq!(no_hits_text(7, 7), "nothing found; all 7 events are indexed");
        assert!(no_hits_text(5, 7).contains("5 of 7 events"), "{}", no_hits_text(5, 7));
    }

    #[test]
    fn an_argument_with_blanks_is_a_phrase() {
        let words = |words: &[&str]| quote_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["deploy key"]), "deploy key", "all of it may be quoted");
        assert_eq!(words(&["deploy", "vault seven"]), "deploy \"vault seven\"");
        assert_eq!(words(&["a \"b c\"", "d*"]), "a \"b c\" d*");
    }

    #[test]
    fn the_state_names_what_is_the_reason() {
        let hit = |state: pb::MessageState, by: Option<&str>, revision| pb::SearchHit {
            status: Some(pb::MessageStatus {
                state: state.into(),
                by_compaction_id: by.map(str::to_owned),
                by_revision: revision,
                ..pb::MessageStatus::default()
            }),
            ..pb::SearchHit::default()
        };
        let text = |hit: &pb::SearchHit| state(hit, Ids::Whole).1;
        assert_eq!(text(&hit(pb::MessageState::Covered, Some("cmp_1"), 7)), "covered by cmp_1");
        assert_eq!(text(&hit(pb::MessageState::Rewound, None, 7)), "rewound at revision 7");
        let shown = pb::SearchHit { in_view: true, ..hit(pb::MessageState::Active, None, 0) };
        assert_eq!(text(&shown), "in view");
    }
}
