//! `longhand evaluate`: measures how much a compaction keeps of the facts that the rest of a transcript uses.

mod facts;
mod measures;
mod report;

use super::Globals;
use super::failure::note;
use super::progress::Progress;
use super::simulate::{chosen, entries, main_model};
use super::tokens::some_tokens;
use crate::clock::Clock;
use crate::config::Config;
use crate::interop::{self, Entry, Options, Transcript};
use crate::model::compaction::Level;
use crate::model::ids::{MessageId, PartId, SessionId};
use crate::model::message::{Message, NewMessage, Role};
use crate::model::part::{Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::summary::SummaryInput;
use crate::policy::{CountPer, Counting, LengthUnit, MediaUnits, Rounding, TextUnits, UsageCount};
use crate::presets::Preset;
use crate::simulation::{TranscriptEntry, first_summary};
use crate::summarizer::{Extractive, Levels, NoObserver, Summarizer, levels};
use anyhow::Context;
use facts::words_of;
use measures::History;
use report::{Row, SplitPoint};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session files of pi, or transcripts of Claude Code
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Preset, with or without its version, or a file with a policy (.toml or .json); may be repeated; default: all
    /// presets with summaries
    #[arg(long = "preset", value_name = "PRESET")]
    presets: Vec<String>,
    /// Model window for the threshold of a preset, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 200_000, value_parser = some_tokens)]
    window: i64,
    /// Maximum length of a reply, in tokens; default: unknown
    #[arg(long, value_name = "TOKENS", value_parser = some_tokens)]
    max_output: Option<i64>,
    /// Size of the summaries, in tokens of four characters; may be repeated; default: the size of the transcript's own
    /// summary, or else the preset's
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(1..))]
    tokens: Vec<i64>,
    /// First message after the boundary, counted from 0; default: the transcript's own boundary, or else the preset's
    #[arg(long, value_name = "MESSAGE")]
    at: Option<usize>,
    /// Number of equal pieces of the history, each summarized with the summary of the earlier ones
    #[arg(long, value_name = "PIECES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pieces: u32,
    /// Folder for the summaries, one file each
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Configuration with further summarizers to measure; their requests may have a cost
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also print the summaries
    #[arg(long)]
    text: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut presets = chosen(&arguments.presets)?;
    presets.retain(|preset| preset.policy().summarize(Level::Auto).is_some());
    let mut summarizers: Vec<Arc<dyn Summarizer>> = vec![Arc::new(Extractive)];
    if let Some(file) = &arguments.config {
        let config = Config::load(Some(file.as_path())).with_context(|| file.display().to_string())?;
        config.validate().with_context(|| file.display().to_string())?;
        let Levels { auto, .. } = levels(&config, &Clock::default())?;
        if auto.name() != Extractive.name() {
            summarizers.push(auto);
        }
    }
    let mut progress = Progress::new();
    let mut rows = Vec::new();
    for path in &arguments.files {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let transcript =
            interop::parse(bytes.as_slice(), &Options::default()).with_context(|| path.display().to_string())?;
        let mut evaluation = Evaluation {
            arguments: &arguments,
            presets: &presets,
            summarizers: &summarizers,
            progress: &mut progress,
            file: file_name(path),
        };
        rows.extend(evaluation.rows_of_transcript(transcript).await?);
    }
    progress.clear();
    if let Some(folder) = &arguments.out {
        report::write(folder, &rows)?;
    }
    let mut output = globals.output();
    report::print(&mut output, &rows, arguments.text)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One file, with everything that is compared on it.
struct Evaluation<'a> {
    arguments: &'a Arguments,
    presets: &'a [Preset],
    summarizers: &'a [Arc<dyn Summarizer>],
    progress: &'a mut Progress,
    file: String,
}

/// Inputs of the measurements at one boundary.
struct Subject<'a> {
    split: SplitPoint,
    history: History,
    /// Text that is behind ids in the view and can be expanded.
    expandable: String,
    preset: &'a Preset,
    /// Text beside the summary: attachments and retained messages.
    beside: String,
}

impl Evaluation<'_> {
    /// Every row about a transcript, with the boundary at the chosen message, else at its own first compaction, else
    /// where each preset compacts.
    async fn rows_of_transcript(&mut self, transcript: Transcript) -> anyhow::Result<Vec<Row>> {
        let entries = transcript.branches.first().map(|branch| branch.entries.as_slice()).unwrap_or_default();
        if let Some(at) = self.arguments.at {
            let messages: Vec<&NewMessage> = messages_of(entries).collect();
            let (before, after) = messages.split_at(at.min(messages.len()));
            let (before, after) = (store_messages(before.iter().copied()), store_messages(after.iter().copied()));
            return self.evaluate_boundary("chosen", &before, &after, None).await;
        }
        let real = entries.iter().enumerate().find_map(|(at, entry)| match entry {
            Entry::Compaction(compaction) => Some((at, compaction)),
            Entry::Message { .. } | Entry::Record { .. } | Entry::Edit(_) => None,
        });
        let Some((end, compaction)) = real else { return self.where_presets_compact(transcript).await };
        // The summary did not have to keep the messages that the agent kept verbatim.
        let is_first_kept = |entry: &Entry| Some(entry.client_id()) == compaction.first_kept_client_id.as_deref();
        let at = entries[..end].iter().position(is_first_kept).unwrap_or(end);
        let own = compaction.summary_text.clone();
        let (before, after) =
            (store_messages(messages_of(&entries[..at])), store_messages(messages_of(&entries[at..])));
        self.evaluate_boundary("real", &before, &after, Some(own)).await
    }

    /// Rows of one boundary: the agent's own summary, if any, and each preset at each size.
    async fn evaluate_boundary(
        &mut self,
        kind: &'static str,
        before: &[Message],
        after: &[Message],
        own: Option<String>,
    ) -> anyhow::Result<Vec<Row>> {
        let split = SplitPoint { file: self.file.clone(), kind, before: before.len(), after: after.len() };
        let history = History::new(before, after);
        let expandable = words_of(before);
        let mut rows = Vec::new();
        let mut sizes = self.arguments.tokens.clone();
        if let Some(own) = own {
            if sizes.is_empty() {
                sizes.push(i64::try_from(own.chars().count() / 4).unwrap_or(i64::MAX).max(1));
            }
            rows.push(Row::measure(&split, (None, None), ("transcript".to_owned(), own), &history, None));
        }
        for preset in self.presets {
            let policy = preset.policy();
            let Some(rule) = policy.summarize(Level::Auto) else { continue };
            let sizes = if sizes.is_empty() { vec![rule.summary.max_tokens] } else { sizes.clone() };
            let subject = Subject {
                split: split.clone(),
                history: history.clone(),
                expandable: expandable.clone(),
                preset,
                beside: String::new(),
            };
            for budget_tokens in sizes {
                let input = SummaryInput {
                    words: crate::model::mark::Words::new(),
                    messages: before.iter().map(measures::source).collect(),
                    split_turn: Vec::new(),
                    previous: None,
                    previous_digest: None,
                    previous_is_supplied: false,
                    rules: rule.summary.clone(),
                    counting: by_characters(),
                    instructions: String::new(),
                    budget_tokens,
                };
                self.measure(&subject, &input, &mut rows).await?;
            }
        }
        Ok(rows)
    }

    /// Rows of each preset, with the boundary where it would compact.
    async fn where_presets_compact(&mut self, transcript: Transcript) -> anyhow::Result<Vec<Row>> {
        let entries = entries(transcript);
        let window = ModelWindow {
            model: main_model(&entries),
            context: self.arguments.window,
            output: self.arguments.max_output,
            ..ModelWindow::default()
        };
        let messages = entries.iter().filter_map(|entry| match entry {
            TranscriptEntry::Message(message) => Some(message.as_ref()),
            TranscriptEntry::Compaction => None,
        });
        let all = store_messages(messages);
        let mut rows = Vec::new();
        for preset in self.presets {
            let policy = preset.policy();
            self.progress.show(|| format!("{}: looks for the boundary of {}", self.file, preset.name));
            let Some(first) = first_summary(&policy, &window, &entries, &longhand_extractive::extract) else {
                self.progress.clear();
                note(&format!("{}: {} makes no summary in a window of {}", self.file, preset.name, window.context));
                continue;
            };
            let after = all.get(first.before.len()..).unwrap_or_default();
            let split = SplitPoint {
                file: self.file.clone(),
                kind: "simulated",
                before: first.before.len(),
                after: after.len(),
            };
            let retained = first.before.iter().filter(|message| first.plan.retained.contains(&message.revision));
            let retained: Vec<Message> = retained.cloned().collect();
            let attached = first.plan.attachments.iter().filter_map(|body| match body {
                PartBody::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let beside = attached.map(str::to_owned).chain((!retained.is_empty()).then(|| words_of(&retained)));
            let beside = beside.collect::<Vec<_>>().join("\n");
            let history = History::new(&first.before, after);
            let subject = Subject { split, history, expandable: words_of(&first.expandable), preset, beside };
            let sizes = self.arguments.tokens.iter().copied().map(Some);
            let sizes: Vec<Option<i64>> = if self.arguments.tokens.is_empty() { vec![None] } else { sizes.collect() };
            for size in sizes {
                let mut input = SummaryInput::from_plan(&first.plan, &policy.counting, "");
                if let Some(tokens) = size {
                    (input.counting, input.budget_tokens) = (by_characters(), tokens);
                }
                self.measure(&subject, &input, &mut rows).await?;
            }
        }
        Ok(rows)
    }

    /// Adds a row for each summarizer, and one for the end of the raw history at the same size.
    async fn measure(
        &mut self,
        subject: &Subject<'_>,
        whole: &SummaryInput,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        let asked = (Some(subject.preset.name.as_str()), Some(whole.budget_tokens));
        for summarizer in self.summarizers {
            let mut previous = whole.previous.clone();
            let mut previous_digest = None;
            let mut writer = String::new();
            let (preset, name) = (&subject.preset.name, summarizer.name());
            for (number, messages) in (1..).zip(pieces(&whole.messages, self.arguments.pieces)) {
                let (previous_text, digest) = (previous.take(), previous_digest.take());
                let input = SummaryInput {
                    messages: messages.to_vec(),
                    previous: previous_text,
                    previous_digest: digest,
                    ..whole.clone()
                };
                let what = format!("{}: {name} writes a summary, preset {preset}, piece {number}", self.file);
                self.progress.show(|| what.clone());
                let summary = self.progress.waiting(&what, summarizer.summarize(&input, &NoObserver)).await;
                let summary = summary.with_context(|| format!("{} for {}", summarizer.name(), subject.preset.name))?;
                let covered = longhand_extractive::Covered::new(&input);
                let summary = longhand_extractive::completed(summary, &covered, &[]);
                previous_digest = Some(covered.digest().to_json());
                (previous, writer) = (Some(summary.text), summary.summarizer);
            }
            let summary = previous.unwrap_or_default();
            let text = [summary.as_str(), &subject.beside].join("\n").trim_end().to_owned();
            rows.push(Row::measure(&subject.split, asked, (writer, text), &subject.history, Some(&subject.expandable)));
        }
        let tail = subject.history.tail(whole.budget_tokens);
        let written = ("tail".to_owned(), tail);
        rows.push(Row::measure(&subject.split, asked, written, &subject.history, Some(&subject.expandable)));
        Ok(())
    }
}

/// The messages in `count` pieces of about equal length, none of which begins with results of calls in the piece before
/// it.
fn pieces(messages: &[SourceMessage], count: u32) -> Vec<&[SourceMessage]> {
    let count = usize::try_from(count).unwrap_or(1);
    let mut rest = messages;
    let mut pieces = Vec::new();
    for left in (1..=count).rev() {
        let mut end = rest.len() / left;
        while rest.get(end).is_some_and(|source| source.message.role == Role::Tool) {
            end += 1;
        }
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// The messages among a transcript's entries.
fn messages_of(entries: &[Entry]) -> impl Iterator<Item = &NewMessage> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Message { message, .. } => Some(message),
        Entry::Record { .. } | Entry::Compaction(_) | Entry::Edit(_) => None,
    })
}

/// Counting in tokens of four characters, so that sizes are comparable under all presets.
fn by_characters() -> Counting {
    Counting {
        unit: LengthUnit::CodePoints,
        units_per_token: 4,
        rounding: Rounding::Floor,
        text: TextUnits::Length,
        per: CountPer::Message,
        media: MediaUnits::same(0),
        usage: UsageCount::Total,
    }
}

/// Messages as a summarizer sees them, numbered in their order.
fn store_messages<'a>(messages: impl Iterator<Item = &'a NewMessage>) -> Vec<Message> {
    (1..).zip(messages).map(|(revision, message)| store(revision, message)).collect()
}

fn store(revision: i64, new: &NewMessage) -> Message {
    let id = |number: u128| Uuid::from_u128((u128::from(revision.unsigned_abs()) << 64) | number);
    let parts = (1..).zip(&new.parts).map(|(number, part)| Part {
        id: PartId(id(number)),
        client_id: None,
        revision,
        body: part.body.clone(),
        metadata_json: None,
    });
    Message {
        id: MessageId(id(0)),
        session_id: SessionId(Uuid::nil()),
        client_id: new.client_id.clone(),
        revision,
        role: new.role,
        kind: new.kind,
        parts: parts.collect(),
        sealed_revision: Some(revision),
        finish: new.finish.clone().unwrap_or_default().with_view(None),
        model: new.model.clone(),
        provider: new.provider.clone(),
        create_time: Timestamp(0),
        origin_time: new.origin_time,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    }
}
