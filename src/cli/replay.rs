//! `longhand replay`: prints the audit log of a session.

use super::detail::Detail;
use super::event_text::sentence;
use super::message_text::{finish, part_lines};
use super::output::{Output, time};
use super::{Globals, ids, times};
use crate::clock::Clock;
use crate::grpc::wire;
use crate::pb;
use crate::pb::event::Body;
use prost_types::Timestamp as Time;
use std::process::ExitCode;

/// Events requested per page; each comes with its message.
const PAGE_SIZE: i32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Last revision; default: the newest
    #[arg(long, value_name = "REVISION")]
    to: Option<i64>,
    /// Only what was written since this time, elsewhere or here: an age such as 2h or 3d, a date, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what was written before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Print records in full
    #[arg(long)]
    records: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let mut request = pb::ListEventsRequest {
        session_id: Some(ids::session(&client, &arguments.session).await?),
        page_size: PAGE_SIZE,
        to_revision: arguments.to,
        include_content: true,
        ..pb::ListEventsRequest::default()
    };
    let now = Clock::default().now();
    let instant = |text: Option<String>| text.map(|text| times::instant(&text, now)).transpose();
    let within = (instant(arguments.since)?.map(wire::timestamp), instant(arguments.until)?.map(wire::timestamp));
    loop {
        let page = client.call(request.clone()).await?;
        for event in page.events.iter().filter(|event| is_within(event, &within)) {
            print(&mut output, event, arguments.records)?;
        }
        output.flush()?;
        if page.next_cursor.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        request.after_cursor = page.next_cursor;
    }
}

fn print(output: &mut Output, event: &pb::Event, whole_records: bool) -> anyhow::Result<()> {
    if output.json() {
        return output.message(event);
    }
    for line in entry(event, whole_records) {
        output.line(&line)?;
    }
    Ok(())
}

/// When the message of an append was written elsewhere; none for one that was not.
fn written(event: &pb::Event) -> Option<&Time> {
    let appended = event.message.as_ref().filter(|_| matches!(event.body, Some(Body::MessageAppended(_))));
    appended.and_then(|message| message.origin_time.as_ref())
}

/// True if what came with an event was written within a span, whose end is not part of it; an event without a message that
/// was written elsewhere counts with its own time.
fn is_within(event: &pb::Event, (since, until): &(Option<Time>, Option<Time>)) -> bool {
    let instant = |time: &Time| (time.seconds, time.nanos);
    let written = written(event).or(event.event_time.as_ref()).map(instant);
    since.as_ref().is_none_or(|since| written >= Some(instant(since)))
        && until.as_ref().is_none_or(|until| written < Some(instant(until)))
}

/// An entry of the audit log: revision, time, actor and description, and the content that came with the event.
fn entry(event: &pb::Event, whole_records: bool) -> Vec<String> {
    let actor = if event.actor.is_empty() { "-" } else { &event.actor };
    let written = written(event).map(|written| format!(", written {}", time(Some(written)))).unwrap_or_default();
    let mut lines = vec![format!(
        "#{} {} {actor}: {}{written}",
        event.revision,
        time(event.event_time.as_ref()),
        sentence(event, Detail::Full)
    )];
    let Some(message) = &event.message else { return lines };
    lines.extend(new_parts(event, message).flat_map(|part| part_lines(part, whole_records)));
    let ended = seals(event).then(|| finish(message)).flatten();
    lines.extend(ended.map(|ended| format!("  = {ended}")));
    lines
}

/// The parts of a message that came with this event; later parts have events of their own.
fn new_parts<'a>(event: &'a pb::Event, message: &'a pb::Message) -> impl Iterator<Item = &'a pb::Part> {
    message.parts.iter().filter(move |part| match &event.body {
        Some(Body::MessageAppended(_)) => part.revision <= event.revision,
        Some(Body::PartsClosed(closed)) => closed.part_ids.contains(&part.part_id),
        // The text of a message that an edit left out has been printed before.
        Some(Body::MessageEdited(edited)) => edited.replacement_message_id.is_some(),
        Some(Body::Compacted(_)) => true,
        Some(_) | None => false,
    })
}

/// True if the event seals its message.
fn seals(event: &pb::Event) -> bool {
    match &event.body {
        Some(Body::MessageAppended(appended)) => appended.sealed,
        Some(Body::MessageFinished(_)) => true,
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_part(id: &str, revision: i64) -> pb::Part {
        let body = pb::part::Body::Text(pb::TextPart { text: id.to_owned() });
        pb::Part { part_id: id.to_owned(), revision, body: Some(body), ..pb::Part::default() }
    }

    fn event(revision: i64, body: Body) -> pb::Event {
        let given_view = pb::GivenView { revision: 4, view_hash: vec![7], ..pb::GivenView::default() };
        let message = pb::Message {
            parts: vec![text_part("first", 5), text_part("second", 6), text_part("third", 7)],
            finish: Some(pb::Finish::default()),
            given_view: Some(given_view),
            ..pb::Message::default()
        };
        pb::Event { revision, actor: "ada".into(), message: Some(message), body: Some(body), ..pb::Event::default() }
    }

    #[test]
    fn what_was_written_within_a_span_counts_by_the_time_of_its_file() {
        let at = |seconds| Some(Time { seconds, nanos: 0 });
        let mut imported = event(5, Body::MessageAppended(pb::MessageAppended::default()));
        (imported.event_time, imported.message.as_mut().expect("a message").origin_time) = (at(100), at(10));
        let within = |since, until| is_within(&imported, &(since, until));
        assert!(within(at(10), at(11)) && within(None, None) && within(None, at(11)) && within(at(10), None));
        assert!(!within(None, at(10)) && !within(at(11), None));
        let finished = pb::Event { event_time: at(100), ..event(6, Body::MessageFinished(Default::default())) };
        assert!(is_within(&finished, &(at(100), None)) && !is_within(&finished, &(None, at(100))));
    }

    #[test]
    fn each_part_is_printed_once_with_its_event() {
        let appended = pb::MessageAppended { sealed: false, ..pb::MessageAppended::default() };
        let closed = |id: &str| pb::PartsClosed { part_ids: vec![id.to_owned()], ..pb::PartsClosed::default() };
        let entries: Vec<Vec<String>> = [
            event(5, Body::MessageAppended(appended)),
            event(6, Body::PartsClosed(closed("second"))),
            event(7, Body::PartsClosed(closed("third"))),
            event(8, Body::MessageFinished(pb::MessageFinished::default())),
        ]
        .iter()
        .map(|event| entry(event, false).split_off(1))
        .collect();
        assert_eq!(entries[..3], [["    first"], ["    second"], ["    third"]]);
        assert_eq!(entries[3], ["  = was given the view at revision 4, hash 07"]);
    }

    #[test]
    fn an_entry_says_when_its_message_was_written_elsewhere() {
        let mut event = event(5, Body::MessageAppended(pb::MessageAppended::default()));
        event.message.as_mut().expect("a message").origin_time =
            Some(prost_types::Timestamp { seconds: 1_741_064_767, nanos: 0 });
        assert!(entry(&event, false)[0].ends_with(", written 2025-03-04 05:06:07Z"), "{:?}", entry(&event, false));
    }

    #[test]
    fn an_entry_has_time_and_actor() {
        let lines = entry(&event(9, Body::SessionArchived(pb::SessionArchived {})), false);
        assert_eq!(lines, ["#9 - ada: session archived"]);
    }
}
