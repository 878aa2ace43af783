//! `longhand watch`: follows new events, with the delta frames of open messages and of summaries.

use super::Globals;
use super::event_text::sentence;
use super::output::time_of_day;
use crate::pb;
use crate::pb::subscribe_events_response::Frame;
use crate::telemetry::escape;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only this session, by id or client id
    session: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut client = globals.client().await?;
    let mut output = globals.output();
    let request = pb::SubscribeEventsRequest {
        session_ids: arguments.session.into_iter().collect(),
        include_live: true,
        ..pb::SubscribeEventsRequest::default()
    };
    let mut frames = client.events.subscribe_events(request).await?.into_inner();
    let mut page = Page::default();
    while let Some(response) = frames.message().await? {
        if output.json() {
            output.message(&response)?;
        } else {
            output.text(&page.text(&response))?;
        }
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// State of the printed output on which later frames depend.
#[derive(Debug, Default)]
struct Page {
    /// Source of the delta frames on the last line, and the byte offset up to which they are printed.
    speaking: Option<(String, i64)>,
}

impl Page {
    /// A frame as text.
    fn text(&mut self, response: &pb::SubscribeEventsResponse) -> String {
        match &response.frame {
            Some(Frame::Events(batch)) => {
                let lines = batch.events.iter().map(line).collect::<String>();
                let gap = if self.speaking.take().is_some() { "\n" } else { "" };
                format!("{gap}{lines}")
            }
            Some(Frame::Live(words)) => {
                let who = format!("{} {}", words.session_id, words.message_id);
                self.words(&escape::line(&who), words.offset_bytes, &words.delta)
            }
            Some(Frame::Summary(words)) => {
                let who = format!("{} {} by {}", words.session_id, words.compaction_id, words.summarizer);
                self.words(&escape::line(&who), words.offset_bytes, &words.delta)
            }
            Some(Frame::Ready(_) | Frame::Progress(_) | Frame::SnapshotItem(_) | Frame::SnapshotEnd(_)) | None => {
                String::new()
            }
        }
    }

    /// Text of a delta frame: directly after the text of the same source, or under a heading of its own.
    fn words(&mut self, who: &str, offset: i64, delta: &str) -> String {
        let sent_end = match &self.speaking {
            Some((speaker, sent_end)) if speaker == who => *sent_end,
            Some(_) | None => -1,
        };
        let goes_on = sent_end >= 0 && (offset > 0 || sent_end == 0);
        let lead = match &self.speaking {
            Some(_) if goes_on && offset > sent_end => "[…]".to_owned(),
            Some(_) if goes_on => String::new(),
            Some(_) => format!("\n… {who}: "),
            None => format!("… {who}: "),
        };
        let end = offset.saturating_add(i64::try_from(delta.len()).unwrap_or(i64::MAX));
        self.speaking = Some((who.to_owned(), end));
        // Further lines are indented, so that none of them passes for an event.
        format!("{lead}{}", delta.replace('\n', "\n  "))
    }
}

fn line(event: &pb::Event) -> String {
    let time = time_of_day(event.event_time.as_ref());
    format!("{time}  {} #{:<5} {}\n", event.session_id, event.revision, escape::line(&sentence(event)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(offset_bytes: i64, delta: &str) -> Frame {
        Frame::Summary(pb::SummaryDelta {
            session_id: "ses_1".into(),
            compaction_id: "cmp_1".into(),
            summarizer: "strong".into(),
            offset_bytes,
            delta: delta.into(),
        })
    }

    fn draft(offset_bytes: i64, delta: &str) -> Frame {
        Frame::Live(pb::LiveDelta {
            session_id: "ses_1".into(),
            message_id: "msg_1".into(),
            offset_bytes,
            delta: delta.into(),
            ..pb::LiveDelta::default()
        })
    }

    #[test]
    fn drafts_follow_each_other_and_gaps_show() {
        let by = "ses_1 cmp_1 by strong";
        let event = pb::Event { session_id: "ses_1".into(), revision: 3, ..pb::Event::default() };
        let event_line = line(&event);
        let batch = Frame::Events(pb::EventBatch { events: vec![event], ..pb::EventBatch::default() });
        let cases = [
            (summary(0, ""), format!("… {by}: ")),
            (summary(0, "## Go"), "## Go".to_owned()),
            (summary(5, "al"), "al".to_owned()),
            (summary(9, "x\n12:00 forged"), "[…]x\n  12:00 forged".to_owned()),
            (summary(0, ""), format!("\n… {by}: ")),
            (draft(4, "hm"), "\n… ses_1 msg_1: hm".to_owned()),
            (batch, format!("\n{event_line}")),
            (draft(6, "!"), "… ses_1 msg_1: !".to_owned()),
        ];
        let mut page = Page::default();
        for (frame, expected) in cases {
            let response = pb::SubscribeEventsResponse { frame: Some(frame) };
            assert_eq!(page.text(&response), expected, "{response:?}");
        }
    }
}
