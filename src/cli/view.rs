//! `longhand view`: prints the view, as a model should see it.

use super::message_text::{part_lines, role};
use super::output::{HEADING, Output, context_usage, count, hex, over_window_text, word};
use super::provider_format::ProviderFormat;
use super::tokens::tokens;
use super::{Globals, ids};
use crate::pb;
use crate::pb::get_view_response::Frame;
use std::io;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --json, a view is several documents, one a line: `header`, then `messages` as often as it takes, \
    then `end`. With --format it is one."
)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Revision of the view; default: the newest
    #[arg(long, value_name = "REVISION")]
    as_of: Option<i64>,
    /// Model window, in tokens; default: the session's
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    window: Option<i64>,
    /// Maximum length of a reply, in tokens
    #[arg(long, value_name = "TOKENS", requires = "window", value_parser = tokens)]
    max_output: Option<i64>,
    /// Overhead of the request beside the view, such as descriptions of tools, in tokens
    #[arg(long, value_name = "TOKENS", requires = "window", default_value_t = 0, value_parser = tokens)]
    overhead: i64,
    /// Wait for the pending compaction if the view exceeds the window
    #[arg(long, conflicts_with = "shorten")]
    wait: bool,
    /// Shorten the view for this call if it exceeds the window
    #[arg(long)]
    shorten: bool,
    /// Print the messages as a request to this provider has them, as JSON
    #[arg(long, value_name = "FORMAT")]
    format: Option<ProviderFormat>,
    /// Put a line of text in the place of what the format cannot carry
    #[arg(long, requires = "format")]
    degrade: bool,
}

impl Arguments {
    fn request(self) -> pb::GetViewRequest {
        let action = match (self.wait, self.shorten) {
            (true, _) => pb::OverflowAction::Wait,
            (false, true) => pb::OverflowAction::Shorten,
            (false, false) => pb::OverflowAction::Return,
        };
        pb::GetViewRequest {
            session_id: self.session,
            as_of_revision: self.as_of,
            window: self.window.map(|context_tokens| pb::ModelWindow {
                max_context_tokens: context_tokens,
                max_output_tokens: self.max_output,
                overhead_tokens: self.overhead,
                ..pb::ModelWindow::default()
            }),
            overflow_action: action.into(),
            degrade: self.degrade,
            format: self.format.map_or(pb::MessageFormat::Unspecified, Into::into).into(),
            ..pb::GetViewRequest::default()
        }
    }
}

pub(super) async fn run(globals: &Globals, mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    arguments.session = ids::session(&client, &arguments.session).await?;
    if let Some(format) = arguments.format.filter(|_| !output.json()) {
        let view = client.view(arguments.request()).await?;
        output.json_line(&format.request_json(&view))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut frames = client.stream(arguments.request()).await?;
    while let Some(response) = frames.next().await? {
        if output.json() {
            output.message(&response)?;
            continue;
        }
        match response.frame {
            Some(Frame::Header(header)) => {
                output.wrapped_line(&headline(&header), "  ")?;
                if let Some(reason) = &header.over_window {
                    output.wrapped_line(&format!("over window: {}", over_window_text(reason)), "  ")?;
                }
                output.line("")?;
            }
            Some(Frame::Messages(page)) => page.messages.iter().try_for_each(|message| print(&mut output, message))?,
            Some(Frame::End(end)) => account(&end).iter().try_for_each(|line| output.line(line))?,
            None => {}
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Headline of a view: its size, its fit in the window, its hash, and the pending compaction.
pub(super) fn headline(header: &pb::ViewHeader) -> String {
    let excess = header.context_tokens - header.window_tokens;
    let fits = match header.fits {
        _ if header.window_tokens == 0 => String::new(),
        true => ", fits".to_owned(),
        false if excess > 0 => format!(", exceeds the window by {excess} tokens"),
        false => ", exceeds the window's limit on input".to_owned(),
    };
    let mut line = format!(
        "view at revision {}: {}, {}{fits}, hash {}",
        header.revision,
        count(header.message_count, "message"),
        context_usage(header.context_tokens, header.window_tokens),
        hex(&header.view_hash),
    );
    if header.shortened {
        line += ", shortened for this call";
    }
    if let Some(compaction) = &header.pending_compaction_id {
        line += &format!(", {compaction} pending");
    }
    line
}

fn print(output: &mut Output, message: &pb::ViewMessage) -> io::Result<()> {
    output.styled_line(&[(HEADING, heading(message))])?;
    for part in &message.parts {
        if let Some(body) = &part.part {
            for line in part_lines(body, false) {
                output.line(&line)?;
            }
        }
        if let Some(line) = shortening(part) {
            output.line(&line)?;
        }
    }
    output.line("")
}

/// Heading of a message in a view: its role and, if it is no original, its kind.
pub(super) fn heading(message: &pb::ViewMessage) -> String {
    let speaker = role(message.role);
    match message.kind() {
        pb::ViewMessageKind::Unspecified | pb::ViewMessageKind::Shown => {
            format!("#{} {speaker} · {}", message.revision, message.message_id)
        }
        pb::ViewMessageKind::MissingResult => format!("{speaker} (added by pairing)"),
        pb::ViewMessageKind::PolicyText => format!("{speaker} (text of the policy)"),
        pb::ViewMessageKind::Retrieved => format!("{speaker} (retrieved)"),
        kind @ (pb::ViewMessageKind::Marker
        | pb::ViewMessageKind::Summary
        | pb::ViewMessageKind::BranchSummary
        | pb::ViewMessageKind::Added) => {
            let kind = word(kind.as_str_name(), "VIEW_MESSAGE_KIND_");
            let written = message.provenance.as_ref().map(written).unwrap_or_default();
            format!("#{} {speaker} ({kind}{written}) · {}", message.revision, message.message_id)
        }
    }
}

/// Author of a summary, as a suffix.
fn written(provenance: &pb::Provenance) -> String {
    let name = provenance.summarizer.as_str();
    match (provenance.author(), name) {
        (pb::SummaryAuthor::Unspecified, _) => String::new(),
        (pb::SummaryAuthor::BuiltIn, _) => " by the built-in summarizer".to_owned(),
        (pb::SummaryAuthor::Model, name) => format!(" by {name}"),
        (pb::SummaryAuthor::Client, "") => " by a client".to_owned(),
        (pb::SummaryAuthor::Client, name) => format!(" by a client, {name}"),
    }
}

fn shortening(part: &pb::ViewPart) -> Option<String> {
    let how = match part.shortening() {
        pb::Shortening::Unspecified => return None,
        pb::Shortening::Pruned => "pruned",
        pb::Shortening::Truncated => "truncated",
        pb::Shortening::Erased => return Some("  [erased]".to_owned()),
    };
    let original = part.part.as_ref().map_or("", |part| part.part_id.as_str());
    Some(format!("  [{how}: {} not shown, original in {original}]", count(part.omitted_length, "character")))
}

/// Ranges of revisions that the view does not show, with the reason for each.
fn account(end: &pb::ViewEnd) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(covered) = &end.covered {
        let ranges: Vec<String> = covered.covered_ranges.iter().map(range).collect();
        lines.push(format!(
            "covered by {} of {}: revisions {}",
            covered.summary_message_id,
            covered.compaction_id,
            ranges.join(", ")
        ));
    }
    lines.extend(end.provider_compaction.as_ref().map(compacted_by));
    for omitted in &end.omitted {
        let reason = word(omitted.reason().as_str_name(), "OMIT_REASON_");
        let ranges = omitted.range.as_ref().map(range).unwrap_or_default();
        let by = omitted.compaction_id.as_ref().map_or(String::new(), |id| format!(" by {id}"));
        lines.push(format!("omitted ({reason}{by}): revisions {ranges}"));
    }
    lines
}

/// A provider's own compaction, and what it stands for.
pub(super) fn compacted_by(compaction: &pb::ProviderCompaction) -> String {
    let ranges: Vec<String> = compaction.covered_ranges.iter().map(range).collect();
    let pb::ProviderCompaction { provider, message_id, .. } = compaction;
    match ranges.is_empty() {
        true => format!("compaction by {provider} in {message_id}"),
        false => format!("covered by a compaction by {provider} in {message_id}: revisions {}", ranges.join(", ")),
    }
}

/// A range of revisions, as text.
pub(super) fn range(range: &pb::RevisionRange) -> String {
    format!("{}–{}", range.first_revision, range.last_revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_states_if_the_view_fits() {
        let mut header = pb::ViewHeader {
            revision: 9,
            view_hash: vec![1],
            message_count: 2,
            context_tokens: 50,
            window_tokens: 100,
            fits: true,
            ..pb::ViewHeader::default()
        };
        assert_eq!(headline(&header), "view at revision 9: 2 messages, 50 of 100 tokens (50 %), fits, hash 01");
        header.fits = false;
        header.pending_compaction_id = Some("cmp_1".into());
        assert!(headline(&header).ends_with("exceeds the window's limit on input, hash 01, cmp_1 pending"));
    }

    #[test]
    fn a_summary_has_its_author() {
        for (author, summarizer, expected) in [
            (pb::SummaryAuthor::BuiltIn, "extractive", "#4 assistant (summary by the built-in summarizer) · msg_1"),
            (pb::SummaryAuthor::Model, "strong/m", "#4 assistant (summary by strong/m) · msg_1"),
            (pb::SummaryAuthor::Client, "pi", "#4 assistant (summary by a client, pi) · msg_1"),
            (pb::SummaryAuthor::Client, "", "#4 assistant (summary by a client) · msg_1"),
        ] {
            let summary = pb::ViewMessage {
                message_id: "msg_1".into(),
                revision: 4,
                role: pb::Role::Assistant.into(),
                kind: pb::ViewMessageKind::Summary.into(),
                provenance: Some(pb::Provenance {
                    compaction_id: "cmp_1".into(),
                    author: author.into(),
                    summarizer: summarizer.into(),
                }),
                ..pb::ViewMessage::default()
            };
            assert_eq!(heading(&summary), expected);
        }
    }

    #[test]
    fn hidden_messages_are_accounted_for() {
        let end = pb::ViewEnd {
            covered: Some(pb::CoveredHistory {
                compaction_id: "cmp_1".into(),
                summary_message_id: "msg_9".into(),
                covered_ranges: vec![pb::RevisionRange { first_revision: 1, last_revision: 7 }],
                provenance: None,
            }),
            omitted: vec![pb::OmittedHistory {
                range: Some(pb::RevisionRange { first_revision: 10, last_revision: 12 }),
                mark_revision: 13,
                reason: pb::OmitReason::Rewound.into(),
                compaction_id: None,
            }],
            ..pb::ViewEnd::default()
        };
        assert_eq!(account(&end), ["covered by msg_9 of cmp_1: revisions 1–7", "omitted (rewound): revisions 10–12"]);
    }

    #[test]
    fn flags_choose_what_happens_when_it_does_not_fit() {
        for (wait, shorten, action) in [
            (true, false, pb::OverflowAction::Wait),
            (false, true, pb::OverflowAction::Shorten),
            (false, false, pb::OverflowAction::Return),
        ] {
            let arguments = Arguments {
                session: "s".into(),
                as_of: Some(3),
                window: Some(9),
                max_output: Some(2),
                overhead: 1,
                wait,
                shorten,
                format: None,
                degrade: false,
            };
            let request = arguments.request();
            assert_eq!((request.overflow_action(), request.as_of_revision), (action, Some(3)));
            let expected = pb::ModelWindow {
                max_context_tokens: 9,
                max_output_tokens: Some(2),
                overhead_tokens: 1,
                ..Default::default()
            };
            assert_eq!(request.window, Some(expected));
        }
    }
}
