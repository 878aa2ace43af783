//! `longhand watch`: follows new events as a conversation: who speaks, the words as they are written, and what happens
//! besides.

use super::detail::Detail;
use super::event_text::{sentence, style};
use super::message_text::{part_lines, role};
use super::output::{DIMMED, HEADING, Output, PLAIN, clock_time, one_line, shorten, width, word, wrapped};
use super::{Globals, failure, ids, who};
use crate::pb;
use crate::pb::event::Body;
use crate::pb::part::Body as PartBody;
use crate::pb::subscribe_events_response::Frame;
use anstyle::Style;
use longhand_client::{Client, Follow};
use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

/// Maximum number of lines that are printed of a text that was not streamed.
const LINES_MAX: usize = 12;
/// Width to which calls and results of tools are shortened without a terminal, in columns.
const WIDTH_DEFAULT: usize = 200;
/// Minimum width that calls and results of tools have.
const WIDTH_MIN: usize = 20;
/// Maximum number of calls whose tool is remembered for their results, and of open messages.
const REMEMBERED_MAX: usize = 10_000;
/// Indentation of further lines of a text, so that none of them passes for another line of this command.
const MARGIN: &str = "\n    ";
/// Columns of that indentation.
const MARGIN_COLUMNS: usize = 4;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only this session, by id, client id, or the last or first digits of its id
    session: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session = ids::optional_session(&client, arguments.session).await?;
    let mut following = EventPrinter::begin(client, session, &output).await?;
    if output.columns().is_some() {
        failure::note("follows new events; Ctrl-C ends it");
    }
    while let Some(response) = following.next().await? {
        following.print(&mut output, &response).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The new events of one session or of all, as they are printed.
pub(super) struct EventPrinter {
    client: Client,
    frames: Follow<pb::SubscribeEventsRequest>,
    page: Page,
}

impl EventPrinter {
    /// Follows from now on.
    pub(super) async fn begin(client: Client, session: Option<String>, output: &Output) -> anyhow::Result<Self> {
        let labels = match (&session, output.columns()) {
            (Some(_), _) => Labels::None,
            (None, Some(_)) => Labels::Short,
            (None, None) => Labels::Whole,
        };
        let request = pb::SubscribeEventsRequest {
            session_ids: session.into_iter().collect(),
            include_deltas: true,
            include_presence: true,
            include_content: !output.json(),
            ..pb::SubscribeEventsRequest::default()
        };
        let mut frames = client.follow(request);
        frames.begin().await?;
        Ok(Self { client, frames, page: Page { labels, columns: output.columns(), ..Page::default() } })
    }

    /// What comes next; none at the end of the stream.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<pb::SubscribeEventsResponse>> {
        Ok(self.frames.next().await?)
    }

    /// Prints what came.
    pub(super) async fn print(
        &mut self,
        output: &mut Output,
        response: &pb::SubscribeEventsResponse,
    ) -> anyhow::Result<()> {
        if output.json() {
            output.message(response)?;
        } else {
            if let Some(Frame::DraftDelta(words)) = &response.frame {
                find_speaker(&self.client, &mut self.page, words).await;
            }
            print(output, self.page.pieces(response))?;
        }
        Ok(output.flush()?)
    }
}

/// Finds out who writes a message that was begun before this command.
async fn find_speaker(client: &Client, page: &mut Page, words: &pb::DraftDelta) {
    if page.open.contains_key(&words.message_id) {
        return;
    }
    let (session_id, message_id) = (words.session_id.clone(), words.message_id.clone());
    let request = pb::GetMessageRequest { session_id, message_id };
    // Without an answer, the words have an unknown speaker.
    let answer = client.call(request).await;
    let message = answer.ok().and_then(|answer| answer.message);
    page.begin(&words.message_id, message.map_or("somebody".to_owned(), |message| speaker(&message)));
}

fn print(output: &mut Output, pieces: Vec<Piece>) -> std::io::Result<()> {
    pieces.iter().try_for_each(|piece| match piece {
        Piece::Own(style, text) => output.piece(*style, text),
        Piece::Foreign(style, text) => output.styled_text(*style, &text.replace('\n', MARGIN)),
        Piece::End => output.text("\n"),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// Text that stays on its line.
    Own(Style, String),
    /// Text of a speaker, which may have several lines.
    Foreign(Style, String),
    /// End of the line.
    End,
}

/// Names of sessions before each line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Labels {
    /// No names: there is one session.
    #[default]
    None,
    /// Abbreviated ids.
    Short,
    /// Whole ids.
    Whole,
}

/// A message that is being written.
#[derive(Debug, Default)]
struct OpenMessage {
    speaker: String,
    /// Parts whose text was printed as it was written.
    streamed: HashSet<String>,
}

/// Source of the words on the last line.
#[derive(Debug, Default)]
struct LineSource {
    /// The draft, or the compaction of a summary.
    source: String,
    /// Byte offset up to which the words are printed.
    end: i64,
    /// Column behind them.
    column: usize,
}

/// State of the printed output on which later frames depend.
#[derive(Debug, Default)]
struct Page {
    labels: Labels,
    columns: Option<usize>,
    open: HashMap<String, OpenMessage>,
    /// Tools of calls, by call id.
    tools: HashMap<String, String>,
    speaking: Option<LineSource>,
}

/// Role and actor of a message; the model if the actor is unknown.
fn speaker(message: &pb::Message) -> String {
    let by = if message.actor.is_empty() { &message.model } else { &message.actor };
    if by.is_empty() { role(message.role) } else { format!("{} ({by})", role(message.role)) }
}

impl Page {
    fn pieces(&mut self, response: &pb::SubscribeEventsResponse) -> Vec<Piece> {
        match &response.frame {
            Some(Frame::Events(batch)) => batch.events.iter().flat_map(|event| self.event(event)).collect(),
            Some(Frame::DraftDelta(words)) => self.draft(words),
            Some(Frame::SummaryDelta(words)) => {
                let speaker = format!("summary by {}", words.summarizer);
                let source = &words.compaction_id;
                self.append_words(&words.session_id, &speaker, PLAIN, (source, words.offset_bytes, &words.delta))
            }
            Some(Frame::PresenceChanged(changed)) => self.presence(changed),
            Some(Frame::Ready(_) | Frame::Progress(_) | Frame::SnapshotItem(_) | Frame::SnapshotEnd(_)) | None => {
                Vec::new()
            }
        }
    }

    /// Who is at work, on a line of its own.
    fn presence(&mut self, changed: &pb::PresenceChanged) -> Vec<Piece> {
        let mut line: Vec<Piece> = self.end_line().into_iter().collect();
        line.extend(self.lead(&changed.session_id, None));
        line.push(Piece::Own(DIMMED, format!("here: {}", who::names(&changed.presences))));
        line.push(Piece::End);
        line
    }

    fn begin(&mut self, message_id: &str, speaker: String) {
        if self.open.len() >= REMEMBERED_MAX {
            self.open.clear();
        }
        self.open.insert(message_id.to_owned(), OpenMessage { speaker, ..OpenMessage::default() });
    }

    fn draft(&mut self, words: &pb::DraftDelta) -> Vec<Piece> {
        let open = self.open.entry(words.message_id.clone()).or_default();
        open.streamed.insert(words.part_id.clone());
        let (speaker, style) = match words.kind() {
            pb::DraftKind::Unspecified | pb::DraftKind::Text => (open.speaker.clone(), PLAIN),
            pb::DraftKind::Reasoning => (format!("{} thinks", open.speaker), DIMMED),
            pb::DraftKind::ToolInput => (format!("{} calls {}", open.speaker, words.tool), DIMMED),
            pb::DraftKind::ToolOutput => (format!("output of {}", words.call_id), DIMMED),
        };
        let source = format!("{} {}", words.message_id, words.part_id);
        self.append_words(&words.session_id, &speaker, style, (&source, words.offset_bytes, &words.delta))
    }

    /// Words as they come: directly after the words of the same source, or on a line of their own.
    fn append_words(
        &mut self,
        session: &str,
        speaker: &str,
        style: Style,
        (source, offset, delta): (&str, i64, &str),
    ) -> Vec<Piece> {
        let printed = match &self.speaking {
            Some(speaking) if speaking.source == source && offset > 0 => Some((speaking.end, speaking.column)),
            Some(_) | None => None,
        };
        if delta.is_empty() {
            // A summary begins, or begins again, and may never have words.
            let is_own = self.speaking.as_ref().is_some_and(|speaking| speaking.source == source);
            return if is_own { self.end_line().into_iter().collect() } else { Vec::new() };
        }
        let mut pieces = Vec::new();
        if printed.is_none() {
            pieces.extend(self.end_line());
            pieces.extend(self.lead(session, None));
            pieces.push(Piece::Own(HEADING, format!("{speaker}: ")));
        }
        let (end, mut column) = printed.unwrap_or_else(|| (0, lead_columns(&pieces)));
        if offset > end {
            pieces.push(Piece::Own(DIMMED, "[…]".to_owned()));
            column += width("[…]");
        }
        let (folded, column) = fold_text(delta, column, self.columns);
        pieces.push(Piece::Foreign(style, folded));
        let end = offset.saturating_add(i64::try_from(delta.len()).unwrap_or(i64::MAX));
        self.speaking = Some(LineSource { source: source.to_owned(), end, column });
        pieces
    }

    fn end_line(&mut self) -> Option<Piece> {
        self.speaking.take().map(|_| Piece::End)
    }

    /// Beginning of a line: the time, if it is known, and the session.
    fn lead(&self, session: &str, time: Option<&prost_types::Timestamp>) -> Vec<Piece> {
        let label = match self.labels {
            Labels::None => None,
            Labels::Short => Some(ids::short(session)),
            Labels::Whole => Some(session),
        };
        let time = time.map_or_else(|| " ".repeat(8), |time| clock_time(Some(time)));
        let lead = std::iter::once(time.as_str()).chain(label).map(|text| format!("{text}  ")).collect();
        vec![Piece::Own(DIMMED, lead)]
    }

    fn line(&mut self, event: &pb::Event, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut line: Vec<Piece> = self.end_line().into_iter().collect();
        line.extend(self.lead(&event.session_id, event.event_time.as_ref()));
        line.extend(pieces);
        line.push(Piece::End);
        line
    }

    /// The description of an event, wrapped beside the beginning of its line.
    fn description(&mut self, event: &pb::Event) -> Vec<Piece> {
        let lead_width = self.lead_width(event);
        let lead = " ".repeat(lead_width);
        let lines =
            wrapped(&sentence(event, Detail::Brief), self.columns.map(|columns| columns.saturating_sub(lead_width)));
        let next = |line| [Piece::End, Piece::Own(DIMMED, lead.clone()), Piece::Own(style(event), line)];
        let mut lines = lines.into_iter();
        let first = Piece::Own(style(event), lines.next().unwrap_or_default());
        self.line(event, std::iter::once(first).chain(lines.flat_map(next)).collect())
    }

    fn event(&mut self, event: &pb::Event) -> Vec<Piece> {
        match (&event.body, &event.message) {
            (Some(Body::MessageAppended(appended)), Some(message))
                if matches!(appended.kind(), pb::MessageKind::Normal | pb::MessageKind::Unspecified) =>
            {
                if !appended.sealed {
                    self.begin(&appended.message_id, speaker(message));
                }
                let parts: Vec<&pb::Part> =
                    message.parts.iter().filter(|part| part.revision <= event.revision).collect();
                self.parts(event, &speaker(message), &parts)
            }
            (Some(Body::PartsClosed(closed)), Some(message)) => {
                let streamed = self.open.get(&closed.message_id).map(|open| &open.streamed);
                let is_new = |id: &String| streamed.is_none_or(|streamed| !streamed.contains(id));
                let new: HashSet<&String> = closed.part_ids.iter().filter(|id| is_new(id)).collect();
                let parts: Vec<&pb::Part> = message.parts.iter().filter(|part| new.contains(&part.part_id)).collect();
                self.parts(event, &speaker(message), &parts)
            }
            (Some(Body::MessageFinished(finished)), _) => {
                self.open.remove(&finished.message_id);
                match finished.reason() {
                    pb::FinishReason::Stop | pb::FinishReason::ToolCalls => self.end_line().into_iter().collect(),
                    _ => self.description(event),
                }
            }
            (Some(_) | None, _) => self.description(event),
        }
    }

    fn parts(&mut self, event: &pb::Event, speaker: &str, parts: &[&pb::Part]) -> Vec<Piece> {
        let bodies = parts.iter().filter_map(|part| Some((*part, part.body.as_ref()?)));
        bodies.flat_map(|(part, body)| self.part(event, speaker, part, body)).collect()
    }

    fn part(&mut self, event: &pb::Event, speaker: &str, part: &pb::Part, body: &PartBody) -> Vec<Piece> {
        let (lead, columns) = (self.lead_width(event), self.columns);
        let named = |name: &str, style: Style, text: String| {
            let name = format!("{name}: ");
            let (text, _) = fold_text(&text, lead + width(&name), columns);
            vec![Piece::Own(HEADING, name), Piece::Foreign(style, text)]
        };
        let pieces = match body {
            PartBody::Text(text) => named(speaker, PLAIN, beginning(&text.text)),
            PartBody::Reasoning(reasoning) => named(&format!("{speaker} thinks"), DIMMED, beginning(&reasoning.text)),
            PartBody::ToolCall(call) => {
                if self.tools.len() >= REMEMBERED_MAX {
                    self.tools.clear();
                }
                self.tools.insert(call.call_id.clone(), call.tool.clone());
                let name = format!("{speaker} calls {}", call.tool);
                let input = shorten(&call.input_json, self.text_width(event, &name));
                named(&name, PLAIN, input)
            }
            PartBody::ToolResult(result) => {
                let tool = self.tools.remove(&result.call_id);
                let status = word(result.status().as_str_name(), "TOOL_RESULT_STATUS_");
                let name = format!("{} {status}", tool.as_deref().unwrap_or("tool"));
                let output = shorten(&result.output, self.text_width(event, &name));
                named(&name, DIMMED, output)
            }
            PartBody::Media(_)
            | PartBody::Marker(_)
            | PartBody::Step(_)
            | PartBody::Opaque(_)
            | PartBody::Record(_) => {
                let text = one_line(&part_lines(part, false).join(" "));
                let text = shorten(&text, self.text_width(event, speaker));
                named(speaker, DIMMED, text)
            }
        };
        self.line(event, pieces)
    }

    /// Columns for a text after the beginning of its line and a name.
    fn text_width(&self, event: &pb::Event, name: &str) -> usize {
        let columns = self.columns.unwrap_or(WIDTH_DEFAULT);
        columns.saturating_sub(self.lead_width(event) + width(name) + 2).max(WIDTH_MIN)
    }

    /// Columns of the beginning of a line.
    fn lead_width(&self, event: &pb::Event) -> usize {
        lead_columns(&self.lead(&event.session_id, None))
    }
}

/// Columns of the pieces on one line.
fn lead_columns(pieces: &[Piece]) -> usize {
    let columns = |piece: &Piece| match piece {
        Piece::Own(_, text) | Piece::Foreign(_, text) => width(text),
        Piece::End => 0,
    };
    pieces.iter().map(columns).sum()
}

/// A text that begins in this column, with a line break before each word that would leave the terminal, and the column
/// behind it.
fn fold_text(text: &str, mut column: usize, columns: Option<usize>) -> (String, usize) {
    let Some(columns) = columns else { return (text.to_owned(), column) };
    let mut folded = String::with_capacity(text.len());
    for word in text.split_inclusive([' ', '\n']) {
        let word_columns = width(word.trim_end_matches('\n'));
        if column + word_columns > columns && column > MARGIN_COLUMNS {
            folded.push('\n');
            column = MARGIN_COLUMNS;
        }
        folded.push_str(word);
        column = if word.ends_with('\n') { MARGIN_COLUMNS } else { column + word_columns };
    }
    (folded, column)
}

/// The first lines of a text.
fn beginning(text: &str) -> String {
    let text = text.trim_end();
    let lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    match text.lines().count() - lines.len() {
        0 => lines.join("\n"),
        more => format!("{}\n[… {more} more lines]", lines.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "ses_01a2082fd07271efb11b4ec06b26c09c";

    /// The output of frames as plain text.
    fn print(page: &mut Page, frames: Vec<Frame>) -> String {
        let mut text = String::new();
        for frame in frames {
            for piece in page.pieces(&pb::SubscribeEventsResponse { frame: Some(frame) }) {
                match piece {
                    Piece::Own(_, own) => text += &own,
                    Piece::Foreign(_, foreign) => text += &foreign.replace('\n', MARGIN),
                    Piece::End => text.push('\n'),
                }
            }
        }
        text
    }

    fn summary(offset_bytes: i64, delta: &str) -> Frame {
        Frame::SummaryDelta(pb::SummaryDelta {
            session_id: SESSION.into(),
            compaction_id: "cmp_1".into(),
            summarizer: "strong".into(),
            offset_bytes,
            delta: delta.into(),
        })
    }

    fn draft(message: &str, offset_bytes: i64, delta: &str) -> Frame {
        Frame::DraftDelta(pb::DraftDelta {
            session_id: SESSION.into(),
            message_id: message.into(),
            part_id: format!("prt_{message}"),
            offset_bytes,
            delta: delta.into(),
            ..pb::DraftDelta::default()
        })
    }

    #[test]
    fn words_stay_whole_on_a_terminal() {
        let mut page = Page { columns: Some(30), ..Page::default() };
        let printed =
            print(&mut page, vec![summary(0, "the tide "), summary(9, "turns at "), summary(18, "noon\nin Brest")]);
        assert_eq!(printed, "          summary by strong: \n    the tide turns at noon\n    in Brest");
        for (text, column, expected) in [
            ("one two", 23, ("one two", 30)),
            ("one two", 24, ("one \ntwo", 7)),
            ("a\nb", 29, ("a\nb", 5)),
            ("muchlongerthanaterminalofthirty end", 4, ("muchlongerthanaterminalofthirty \nend", 7)),
            ("潮汐表", 26, ("\n潮汐表", 10)),
        ] {
            let (folded, column) = fold_text(text, column, Some(30));
            assert_eq!((folded.as_str(), column), expected, "{text:?}");
        }
        assert_eq!(fold_text("one two", 29, None).0, "one two");
    }

    fn text(part_id: &str, text: &str) -> pb::Part {
        let body = Some(PartBody::Text(pb::TextPart { text: text.into() }));
        pb::Part { part_id: part_id.into(), body, ..pb::Part::default() }
    }

    fn event(body: Body, message: Option<pb::Message>) -> Frame {
        let event_time = Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 });
        let session_id = SESSION.to_owned();
        let event =
            pb::Event { session_id, revision: 9, event_time, body: Some(body), message, ..pb::Event::default() };
        Frame::Events(pb::EventBatch { events: vec![event], ..pb::EventBatch::default() })
    }

    fn message(role: pb::Role, actor: &str, parts: Vec<pb::Part>) -> Option<pb::Message> {
        Some(pb::Message { role: role.into(), actor: actor.into(), parts, ..pb::Message::default() })
    }

    fn appended(message_id: &str, sealed: bool) -> Body {
        Body::MessageAppended(pb::MessageAppended { message_id: message_id.into(), sealed, ..Default::default() })
    }

    #[test]
    fn streamed_words_are_joined_under_their_speaker() {
        let mut page = Page::default();
        let begun = |id: &str, actor: &str| event(appended(id, false), message(pb::Role::Assistant, actor, Vec::new()));
        let closed = pb::PartsClosed { message_id: "a".into(), part_ids: vec!["prt_a".into()] };
        let finished = pb::MessageFinished {
            message_id: "a".into(),
            reason: pb::FinishReason::Stop.into(),
            ..pb::MessageFinished::default()
        };
        let whole = message(pb::Role::Assistant, "editor", vec![text("prt_a", "The tide turns\nat six.")]);
        let frames = vec![
            begun("a", "editor"),
            begun("b", "terminal"),
            draft("a", 0, "The ti"),
            draft("a", 6, "de turns\nat six."),
            draft("b", 0, "I agree"),
            draft("b", 20, "at last."),
            event(Body::PartsClosed(closed), whole),
            event(Body::MessageFinished(finished), None),
            draft("b", 28, " Indeed."),
        ];
        let expected = "          assistant (editor): The tide turns\n    at six.\n          \
                        assistant (terminal): I agree[…]at last.\n          \
                        assistant (terminal): […] Indeed.";
        assert_eq!(print(&mut page, frames), expected);
    }

    #[test]
    fn a_summary_that_begins_again_gets_a_new_line() {
        let mut page = Page { labels: Labels::Short, ..Page::default() };
        let frames = vec![summary(0, ""), summary(0, "## Go"), summary(5, "al"), summary(0, ""), summary(0, "## G")];
        let lead = "          6b26c09c  summary by strong: ";
        assert_eq!(print(&mut page, frames), format!("{lead}## Goal\n{lead}## G"));
    }

    #[test]
    fn whole_messages_name_the_speaker_and_the_tool() {
        let mut page = Page::default();
        let call = pb::ToolCallPart {
            call_id: "c1".into(),
            tool: "read".into(),
            input_json: "{\"path\":\n\"a\"}".into(),
            ..pb::ToolCallPart::default()
        };
        let result = pb::ToolResultPart {
            call_id: "c1".into(),
            status: pb::ToolResultStatus::Completed.into(),
            output: "one\ntwo".into(),
            ..pb::ToolResultPart::default()
        };
        let part = |body: PartBody| pb::Part { body: Some(body), ..pb::Part::default() };
        let lines = "line\n".repeat(14);
        let parts = vec![text("p", "I look."), part(PartBody::ToolCall(call))];
        let frames = vec![
            event(appended("a", true), message(pb::Role::User, "ada", vec![text("p", "look\n00:00:00 forged")])),
            event(appended("b", true), message(pb::Role::Assistant, "", parts)),
            event(appended("c", true), message(pb::Role::Tool, "", vec![part(PartBody::ToolResult(result))])),
            event(appended("d", true), message(pb::Role::User, "", vec![text("p", &lines)])),
            event(Body::SessionArchived(pb::SessionArchived {}), None),
        ];
        let printed = print(&mut page, frames);
        let expected = "22:13:20  user (ada): look\n    00:00:00 forged\n\
                        22:13:20  assistant: I look.\n\
                        22:13:20  assistant calls read: {\"path\": \"a\"}\n\
                        22:13:20  read completed: one two\n\
                        22:13:20  user: line\n";
        assert!(printed.starts_with(expected), "{printed}");
        assert!(printed.ends_with("    [… 2 more lines]\n22:13:20  session archived\n"), "{printed}");
    }

    #[test]
    fn a_long_description_is_wrapped_on_a_terminal() {
        let failed = || {
            let message = "the model answered nothing at all".to_owned();
            let failure = pb::CompactionFailure { message, ..pb::CompactionFailure::default() };
            let failure = pb::CompactionFailed { failure: Some(failure), ..pb::CompactionFailed::default() };
            event(Body::CompactionFailed(failure), None)
        };
        let whole = print(&mut Page::default(), vec![failed()]);
        assert_eq!(whole.lines().count(), 1, "{whole}");
        let wrapped = print(&mut Page { columns: Some(40), ..Page::default() }, vec![failed()]);
        assert!(wrapped.lines().count() > 1 && wrapped.lines().all(|line| width(line) <= 40), "{wrapped}");
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with(&" ".repeat(10))), "{wrapped}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&wrapped), words(&whole));
    }
}
