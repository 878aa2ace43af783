//! `longhand diff`: prints the differences between a session's views at two revisions.

use super::output::{Output, count, shorten, word};
use super::view::{heading, range};
use super::{Globals, ids};
use crate::pb;
use crate::pb::part::Body;
use longhand_client::View;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

/// Maximum width of an excerpt, in characters.
const WIDTH: usize = 100;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Revision of the first view
    from: i64,
    /// Revision of the second view; default: the newest
    to: Option<i64>,
}

/// Differences between two views.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Diff {
    from: Side,
    to: Side,
    /// Messages that only the first view shows.
    dropped: Vec<DroppedMessage>,
    /// Parts that both views show, with different content.
    changed: Vec<ChangedPart>,
    /// Messages that only the second view shows.
    came: Vec<DiffMessage>,
}

/// One of the two views.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Side {
    revision: i64,
    messages: usize,
    estimated_tokens: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct DiffMessage {
    revision: i64,
    message_id: String,
    /// Role and, if the message is no original, its kind.
    heading: String,
    /// Beginning of its text.
    words: String,
}

/// A message that is no longer shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct DroppedMessage {
    #[serde(flatten)]
    message: DiffMessage,
    /// `covered`, `omitted`, or `gone` if the second view does not account for it.
    how: &'static str,
    /// Reason of the omission; otherwise empty.
    reason: String,
    /// Compaction that covered or omitted it, by whose id it can be expanded; otherwise empty.
    compaction_id: String,
    /// Summary message that covers it; otherwise empty.
    summary_message_id: String,
}

/// A part that the second view shows differently.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ChangedPart {
    revision: i64,
    /// Id of the part, by which the original can be expanded.
    part_id: String,
    /// Shortening in the second view; `whole` for none.
    how: String,
    characters_before: usize,
    characters_after: usize,
    /// Beginning of the text in the second view.
    words: String,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let request = |as_of_revision| pb::GetViewRequest {
        session_id: session_id.clone(),
        as_of_revision,
        ..pb::GetViewRequest::default()
    };
    let before = client.view(request(Some(arguments.from))).await?;
    let after = client.view(request(arguments.to)).await?;
    let diff = compare(&before, &after);
    if output.json() {
        output.value(&diff)?;
    } else {
        print(&mut output, &diff)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Key of a message in a view: its id and kind, or role, kind and text if it has no id.
fn key(message: &pb::ViewMessage) -> String {
    if message.message_id.is_empty() {
        format!("{} {} {}", message.role, message.kind, message_words(message))
    } else {
        format!("{} {}", message.message_id, message.kind)
    }
}

fn body_words(body: &Body) -> &str {
    match body {
        Body::Text(text) => &text.text,
        Body::Reasoning(reasoning) => &reasoning.text,
        Body::ToolCall(call) => &call.input_json,
        Body::ToolResult(result) => &result.output,
        Body::Marker(marker) => &marker.text,
        Body::Media(_) | Body::Step(_) | Body::Opaque(_) | Body::Record(_) => "",
    }
}

fn part_words(part: &pb::ViewPart) -> &str {
    part.part.as_ref().and_then(|part| part.body.as_ref()).map_or("", body_words)
}

fn message_words(message: &pb::ViewMessage) -> String {
    let all = message.parts.iter().map(part_words).filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ");
    shorten(&all, WIDTH)
}

fn diff_message(message: &pb::ViewMessage) -> DiffMessage {
    DiffMessage {
        revision: message.revision,
        message_id: message.message_id.clone(),
        heading: heading(message),
        words: message_words(message),
    }
}

fn side(view: &View) -> Side {
    Side {
        revision: view.header.revision,
        messages: view.messages.len(),
        estimated_tokens: view.header.estimated_tokens,
    }
}

fn holds(range: &pb::RevisionRange, revision: i64) -> bool {
    (range.first_revision..=range.last_revision).contains(&revision)
}

/// Account of a message that the second view does not show.
fn dropped_message(message: &pb::ViewMessage, end: &pb::ViewEnd) -> DroppedMessage {
    let gone = DroppedMessage {
        message: diff_message(message),
        how: "gone",
        reason: String::new(),
        compaction_id: String::new(),
        summary_message_id: String::new(),
    };
    // A message made for a view has no position in the history.
    if message.revision == 0 {
        return gone;
    }
    let is_covered =
        |covered: &&pb::CoveredHistory| covered.covered_ranges.iter().any(|range| holds(range, message.revision));
    if let Some(covered) = end.covered.as_ref().filter(is_covered) {
        let compaction_id = covered.compaction_id.clone();
        return DroppedMessage {
            how: "covered",
            compaction_id,
            summary_message_id: covered.summary_message_id.clone(),
            ..gone
        };
    }
    let stands_for = |compaction: &&pb::ProviderCompaction| {
        compaction.covered_ranges.iter().any(|range| holds(range, message.revision))
    };
    if let Some(compaction) = end.provider_compaction.as_ref().filter(stands_for) {
        return DroppedMessage { how: "covered", summary_message_id: compaction.message_id.clone(), ..gone };
    }
    let is_omitted =
        |omitted: &&pb::OmittedHistory| omitted.range.as_ref().is_some_and(|range| holds(range, message.revision));
    match end.omitted.iter().find(is_omitted) {
        Some(omitted) => DroppedMessage {
            how: "omitted",
            reason: word(omitted.reason().as_str_name(), "OMIT_REASON_"),
            compaction_id: omitted.compaction_id.clone().unwrap_or_default(),
            ..gone
        },
        None => gone,
    }
}

/// The parts of a message that differ from before.
fn changed_parts(before: &pb::ViewMessage, after: &pb::ViewMessage) -> Vec<ChangedPart> {
    let part_id = |part: &pb::ViewPart| part.part.as_ref().map(|part| part.part_id.clone()).unwrap_or_default();
    let parts_before: HashMap<String, &pb::ViewPart> = before.parts.iter().map(|part| (part_id(part), part)).collect();
    let change = |part: &pb::ViewPart| {
        let id = part_id(part);
        let old = parts_before.get(&id).filter(|_| !id.is_empty())?;
        (old.part != part.part).then(|| ChangedPart {
            revision: after.revision,
            part_id: id,
            how: match part.shortening() {
                pb::Shortening::Unspecified => "whole".to_owned(),
                shortening => word(shortening.as_str_name(), "SHORTENING_"),
            },
            characters_before: part_words(old).chars().count(),
            characters_after: part_words(part).chars().count(),
            words: shorten(part_words(part), WIDTH),
        })
    };
    after.parts.iter().filter_map(change).collect()
}

fn compare(before: &View, after: &View) -> Diff {
    let old: HashMap<String, &pb::ViewMessage> =
        before.messages.iter().map(|message| (key(message), message)).collect();
    let new: HashSet<String> = after.messages.iter().map(key).collect();
    let left = before.messages.iter().filter(|message| !new.contains(&key(message)));
    let mut diff = Diff { from: side(before), to: side(after), ..Diff::default() };
    diff.dropped = left.map(|message| dropped_message(message, &after.end)).collect();
    for message in &after.messages {
        match old.get(&key(message)) {
            Some(known) => diff.changed.extend(changed_parts(known, message)),
            None => diff.came.push(diff_message(message)),
        }
    }
    diff
}

fn print(output: &mut Output, diff: &Diff) -> anyhow::Result<()> {
    for line in lines(diff) {
        output.line(&line)?;
    }
    Ok(())
}

fn lines(diff: &Diff) -> Vec<String> {
    let number = |number: usize, thing: &str| count(i64::try_from(number).unwrap_or(i64::MAX), thing);
    let mut lines = vec![format!(
        "view at revision {} → {}: {} → {}, {} → {} by the policy's estimate",
        diff.from.revision,
        diff.to.revision,
        diff.from.messages,
        number(diff.to.messages, "message"),
        diff.from.estimated_tokens,
        count(diff.to.estimated_tokens, "token"),
    )];
    // Adjacent messages with the same account are printed together.
    for run in diff.dropped.chunk_by(same_way) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let revisions =
            pb::RevisionRange { first_revision: first.message.revision, last_revision: last.message.revision };
        lines.push(format!(
            "- {}, revisions {}{}",
            number(run.len(), "message"),
            range(&revisions),
            drop_reason(first)
        ));
    }
    for part in &diff.changed {
        lines.push(format!(
            "~ #{} {}: {}, {} → {}: {}",
            part.revision,
            part.part_id,
            part.how,
            part.characters_before,
            number(part.characters_after, "character"),
            part.words
        ));
    }
    lines.extend(diff.came.iter().map(|message| format!("+ {}: {}", message.heading, message.words)));
    lines
}

fn same_way(one: &DroppedMessage, other: &DroppedMessage) -> bool {
    (one.how, &one.reason, &one.compaction_id) == (other.how, &other.reason, &other.compaction_id)
}

/// Reason for which a message is no longer shown, with the summary that covers it.
fn drop_reason(dropped: &DroppedMessage) -> String {
    let by = |id: &str| if id.is_empty() { String::new() } else { format!(" by {id}") };
    match dropped.how {
        "covered" => format!(": covered{}; replaced by {}", by(&dropped.compaction_id), dropped.summary_message_id),
        "omitted" => format!(": omitted ({}{})", dropped.reason, by(&dropped.compaction_id)),
        _ => ": no longer in the view".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(revision: i64, kind: pb::ViewMessageKind, words: &str) -> pb::ViewMessage {
        let body = Body::Text(pb::TextPart { text: words.to_owned() });
        let part = pb::Part { part_id: format!("prt_{revision}"), body: Some(body), ..pb::Part::default() };
        pb::ViewMessage {
            message_id: format!("msg_{revision}"),
            revision,
            role: pb::Role::User.into(),
            kind: kind.into(),
            parts: vec![pb::ViewPart { part: Some(part), ..pb::ViewPart::default() }],
            ..pb::ViewMessage::default()
        }
    }

    fn view(revision: i64, tokens: i64, messages: Vec<pb::ViewMessage>) -> View {
        let header = pb::ViewHeader { revision, estimated_tokens: tokens, ..pb::ViewHeader::default() };
        View { header, messages, ..View::default() }
    }

    #[test]
    fn removed_replaced_and_added_messages_are_listed() {
        let shown = pb::ViewMessageKind::Shown;
        let with_text = |revision: i64| message(revision, shown, &format!("words {revision}"));
        let before = view(9, 90, [1, 2, 3, 5, 6].map(with_text).into());
        let mut pruned = message(6, shown, "[cleared]");
        pruned.parts[0].shortening = pb::Shortening::Pruned.into();
        let summary = message(11, pb::ViewMessageKind::Summary, "we talked");
        let mut after = view(12, 40, vec![summary, pruned, with_text(12)]);
        after.end = pb::ViewEnd {
            covered: Some(pb::CoveredHistory {
                compaction_id: "cmp_1".into(),
                summary_message_id: "msg_11".into(),
                covered_ranges: vec![pb::RevisionRange { first_revision: 1, last_revision: 2 }],
                provenance: None,
            }),
            omitted: vec![pb::OmittedHistory {
                range: Some(pb::RevisionRange { first_revision: 3, last_revision: 3 }),
                reason: pb::OmitReason::Compacted.into(),
                compaction_id: Some("cmp_2".into()),
                ..pb::OmittedHistory::default()
            }],
            ..pb::ViewEnd::default()
        };
        assert_eq!(
            lines(&compare(&before, &after)),
            [
                "view at revision 9 → 12: 5 → 3 messages, 90 → 40 tokens by the policy's estimate",
                "- 2 messages, revisions 1–2: covered by cmp_1; replaced by msg_11",
                "- 1 message, revisions 3–3: omitted (compacted by cmp_2)",
                "- 1 message, revisions 5–5: no longer in the view",
                "~ #6 prt_6: pruned, 7 → 9 characters: [cleared]",
                "+ #11 user (summary) · msg_11: we talked",
                "+ #12 user · msg_12: words 12",
            ]
        );
    }

    #[test]
    fn the_same_view_has_no_differences() {
        let one = view(9, 90, vec![message(1, pb::ViewMessageKind::Shown, "words")]);
        let diff = compare(&one, &one);
        assert!(diff.dropped.is_empty() && diff.changed.is_empty() && diff.came.is_empty());
        assert_eq!(lines(&diff).len(), 1);
    }
}
