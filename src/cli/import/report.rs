//! Progress line and final report of an import.

use super::source::Source;
use crate::cli::compactions::is_active;
use crate::cli::output::{Output, context_usage, count};
use crate::cli::progress;
use crate::interop;
use crate::model::time::Timestamp;
use crate::pb;
use serde::Serialize;

/// Number of views in the mean duration of the first views, and of the last ones.
const SAMPLE: usize = 20;

/// Result of an import.
#[derive(Debug, Default, Serialize)]
pub(super) struct ImportReport {
    sessions: Vec<SessionReport>,
    messages: usize,
    parts: usize,
    records: usize,
    /// Compactions of the agent.
    agent_compactions: usize,
    /// Edits of the agent.
    agent_edits: usize,
    tokens: Tokens,
    calls: usize,
    unanswered_calls: usize,
    problems: usize,
    /// Messages and records that this import wrote.
    pub(super) written: i64,
    /// Messages and records that existed already.
    pub(super) existed: i64,
    /// Messages and records among both, and edits, that lack content, because it was erased.
    pub(super) erased: i64,
    /// Sessions that were left out, because they were erased.
    pub(super) erased_sessions: i64,
    compactions: Compactions,
    pub(super) views: ViewStatistics,
    seconds: f64,
    messages_per_second: f64,
}

#[derive(Debug, Serialize)]
struct SessionReport {
    session_id: String,
    client_id: String,
}

/// Sums of the usage that the replies reported.
#[derive(Debug, Default, Serialize)]
struct Tokens {
    input: i64,
    output: i64,
    reasoning: i64,
    cache_read: i64,
    cache_write: i64,
    cost_usd: Option<f64>,
}

/// Compactions of the sessions, by kind and result.
#[derive(Debug, Default, Serialize)]
struct Compactions {
    summaries: usize,
    supplied: usize,
    omissions: usize,
    prunes: usize,
    pending: usize,
    without_effect: usize,
    /// Tokens by which compactions shrank the view.
    freed_tokens: i64,
}

/// Statistics of the requested views.
#[derive(Debug, Default, Serialize)]
pub(super) struct ViewStatistics {
    asked: usize,
    within_window: usize,
    /// Views that did not fit for a reason that no compaction could remove: what may not be removed, or a policy without
    /// automatic compactions.
    pub(super) excepted: usize,
    /// Views that differ from the held view before its end, so that a provider's cache is lost from there on.
    pub(super) changed_prefixes: usize,
    unpaired: usize,
    milliseconds_first: f64,
    milliseconds_last: f64,
    #[serde(skip)]
    micros: Vec<i64>,
}

impl ViewStatistics {
    /// Counts a view, with its fit, the number of its pairing faults, and its duration in microseconds.
    pub(super) fn add(&mut self, fits: bool, unpaired: usize, micros: i64) {
        self.asked += 1;
        self.within_window += usize::from(fits);
        self.unpaired += unpaired;
        self.micros.push(micros);
    }

    fn close(&mut self) {
        let end = self.micros.len();
        self.milliseconds_first = mean_milliseconds(&self.micros[..end.min(SAMPLE)]);
        self.milliseconds_last = mean_milliseconds(&self.micros[end.saturating_sub(SAMPLE)..]);
    }
}

fn mean_milliseconds(micros: &[i64]) -> f64 {
    if micros.is_empty() { 0.0 } else { micros.iter().sum::<i64>() as f64 / micros.len() as f64 / 1_000.0 }
}

impl ImportReport {
    /// A report with the totals of the files, before anything is written.
    pub(super) fn with_totals(sources: &[Source], problems: usize) -> Self {
        let mut report = Self { problems, ..Self::default() };
        for source in sources {
            let totals = interop::expectations(&source.transcript);
            report.messages += totals.messages;
            report.parts += totals.parts;
            report.records += totals.records;
            report.agent_compactions += totals.compactions;
            report.agent_edits += totals.edits;
            report.calls += totals.calls;
            report.unanswered_calls += totals.unanswered_calls;
            report.tokens.add(&totals.usage);
        }
        report
    }

    /// Number of entries in the files.
    pub(super) fn entries(&self) -> usize {
        self.messages + self.records + self.agent_compactions + self.agent_edits
    }

    /// Adds a written session and its compactions.
    pub(super) fn session(&mut self, session: &pb::Session, compactions: &[pb::Compaction]) {
        self.sessions.push(SessionReport {
            session_id: session.session_id.clone(),
            client_id: session.client_id.clone().unwrap_or_default(),
        });
        compactions.iter().for_each(|compaction| self.compactions.add(compaction));
    }

    /// Computes durations and rates.
    pub(super) fn close(&mut self, began: Timestamp, ended: Timestamp) {
        self.views.close();
        self.seconds = (ended.0 - began.0) as f64 / 1_000_000.0;
        self.messages_per_second = if self.seconds > 0.0 { self.written as f64 / self.seconds } else { 0.0 };
    }

    /// What can be done next.
    pub(super) fn next_step(&self) -> String {
        match self.sessions.first() {
            Some(session) => format!("next: `longhand view {}`, `longhand search WORDS`", session.session_id),
            None => "next: `longhand sessions`".to_owned(),
        }
    }

    /// Prints the report.
    pub(super) fn print(&self, output: &mut Output) -> anyhow::Result<()> {
        if output.json() {
            output.value(self)?;
        } else {
            self.lines().iter().try_for_each(|line| output.wrapped_line(line, "  "))?;
        }
        Ok(output.flush()?)
    }

    fn lines(&self) -> Vec<String> {
        let counted = |number: usize, thing: &str| count(number as i64, thing);
        let (tokens, compactions, views) = (&self.tokens, &self.compactions, &self.views);
        let mut lines: Vec<String> =
            self.sessions.iter().map(|session| format!("{} ({})", session.session_id, session.client_id)).collect();
        lines.push(format!(
            "{}, {}, {}, {} and {} of the agent's own, {} unanswered; {} reported",
            counted(self.messages, "message"),
            counted(self.parts, "part"),
            counted(self.records, "record"),
            counted(self.agent_compactions, "compaction"),
            counted(self.agent_edits, "edit"),
            counted(self.unanswered_calls, "call"),
            counted(self.problems, "problem"),
        ));
        lines.push(format!(
            "usage as recorded: {} in, {} out, {} reasoning, {} read from cache, {} written to cache{}",
            tokens.input,
            tokens.output,
            tokens.reasoning,
            tokens.cache_read,
            tokens.cache_write,
            tokens.cost_usd.map(|cost| format!(", ${cost:.2}")).unwrap_or_default()
        ));
        lines.push(format!(
            "by Longhand: {} by summary, {} by omission, {}; {} supplied, {} pending, {} without effect; {} tokens freed",
            counted(compactions.summaries, "compaction"),
            compactions.omissions,
            counted(compactions.prunes, "prune"),
            compactions.supplied,
            compactions.pending,
            compactions.without_effect,
            compactions.freed_tokens
        ));
        if views.asked > 0 {
            lines.push(format!(
                "views: {} requested, {} within the window, {} over it with a stated reason, {}, {} unpaired; \
                 {:.1} ms at the beginning, {:.1} ms at the end",
                views.asked,
                views.within_window,
                views.excepted,
                counted(views.changed_prefixes, "changed beginning"),
                counted(views.unpaired, "call"),
                views.milliseconds_first,
                views.milliseconds_last
            ));
        }
        if self.erased > 0 || self.erased_sessions > 0 {
            lines.push(format!(
                "erased before, and not brought back: {}, content of {}",
                count(self.erased_sessions, "session"),
                counted(self.erased.unsigned_abs() as usize, "entry"),
            ));
        }
        lines.push(format!(
            "{} written, {} already stored, in {:.1} s: {:.0} per second",
            self.written, self.existed, self.seconds, self.messages_per_second
        ));
        lines
    }
}

/// Sums of several imports.
#[derive(Debug, Default)]
pub(super) struct ImportSum {
    messages: usize,
    sessions: usize,
    written: i64,
    existed: i64,
    cost_usd: f64,
}

impl ImportSum {
    /// Adds an import.
    pub(super) fn add(&mut self, report: &ImportReport) {
        self.messages += report.messages;
        self.sessions += report.sessions.len();
        self.written += report.written;
        self.existed += report.existed;
        self.cost_usd += report.tokens.cost_usd.unwrap_or_default();
    }

    /// The sums, and what can be done next.
    pub(super) fn line(&self, files: usize, failed: usize) -> String {
        let cost = if self.cost_usd > 0.0 { format!(", ${:.2} as recorded", self.cost_usd) } else { String::new() };
        format!(
            "{} of {}: {}, {}{cost}; {} written, {} already stored. Next: `longhand sessions`, `longhand search WORDS`",
            files - failed,
            count(files as i64, "file"),
            count(self.sessions as i64, "session"),
            count(self.messages as i64, "message"),
            self.written,
            self.existed
        )
    }
}

impl Tokens {
    fn add(&mut self, usage: &crate::model::usage::Usage) {
        self.input += usage.input;
        self.output += usage.output;
        self.reasoning += usage.reasoning;
        self.cache_read += usage.cache_read;
        self.cache_write += usage.cache_write;
        if let Some(cost) = usage.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost);
        }
    }
}

impl Compactions {
    fn add(&mut self, compaction: &pb::Compaction) {
        if let Some(outcome) = &compaction.outcome {
            self.freed_tokens += outcome.estimated_tokens_before - outcome.estimated_tokens_after;
        }
        if is_active(compaction) {
            self.pending += 1;
        } else if compaction.state() != pb::CompactionState::Done {
            self.without_effect += 1;
        } else if compaction.trigger() == pb::CompactionTrigger::Supplied {
            self.supplied += 1;
        } else {
            *match compaction.kind() {
                pb::CompactionKind::Prune => &mut self.prunes,
                pb::CompactionKind::Omission => &mut self.omissions,
                pb::CompactionKind::Summary | pb::CompactionKind::Unspecified => &mut self.summaries,
            } += 1;
        }
    }
}

/// Progress line of an import on a terminal.
#[derive(Debug)]
pub(super) struct ImportProgress {
    line: progress::Progress,
    total: usize,
    done: usize,
}

impl ImportProgress {
    /// A progress line for this number of entries.
    pub(super) fn new(total: usize) -> Self {
        Self { line: progress::Progress::new(), total, done: 0 }
    }

    /// Adds finished entries, and shows them with the current context usage.
    pub(super) fn add(&mut self, entries: usize, context: Option<&pb::ContextUsage>) {
        self.done += entries;
        let Self { line, total, done } = self;
        line.show(|| {
            let tokens = context.and_then(|context| Some((context.context_tokens?, context.window_tokens)));
            let tokens = tokens.map(|(tokens, window)| format!(", context {}", context_usage(tokens, window)));
            format!("{done} of {total} entries{}", tokens.unwrap_or_default())
        });
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_are_classified() {
        let compaction = |state: pb::CompactionState, kind: pb::CompactionKind, trigger: pb::CompactionTrigger| {
            pb::Compaction { state: state.into(), kind: kind.into(), trigger: trigger.into(), ..Default::default() }
        };
        use pb::{CompactionKind as Kind, CompactionState as State, CompactionTrigger as Trigger};
        let mut report = ImportReport::default();
        report.session(
            &pb::Session::default(),
            &[
                compaction(State::Done, Kind::Summary, Trigger::Threshold),
                compaction(State::Done, Kind::Summary, Trigger::Supplied),
                compaction(State::Done, Kind::Prune, Trigger::Maintenance),
                compaction(State::Done, Kind::Omission, Trigger::LastResort),
                compaction(State::Running, Kind::Summary, Trigger::Threshold),
                compaction(State::Superseded, Kind::Summary, Trigger::Manual),
            ],
        );
        let found = &report.compactions;
        assert_eq!(
            [found.summaries, found.supplied, found.omissions, found.prunes, found.pending, found.without_effect],
            [1, 1, 1, 1, 1, 1],
            "{found:?}"
        );
    }

    #[test]
    fn times_are_means_of_the_first_and_the_last() {
        let mut views = ViewStatistics::default();
        (0..SAMPLE).for_each(|_| views.add(true, 0, 1_000));
        (0..SAMPLE).for_each(|_| views.add(false, 1, 3_000));
        views.close();
        assert_eq!((views.asked, views.within_window, views.unpaired), (2 * SAMPLE, SAMPLE, SAMPLE));
        assert_eq!((views.milliseconds_first, views.milliseconds_last), (1.0, 3.0));
    }

    #[test]
    fn the_report_is_one_json_object() {
        let mut report = ImportReport { written: 10, ..ImportReport::default() };
        report.close(Timestamp(0), Timestamp(2_000_000));
        let value = serde_json::to_value(&report).expect("JSON");
        assert_eq!(value["messages_per_second"], 5.0);
        assert_eq!(value["views"]["asked"], 0);
    }
}
