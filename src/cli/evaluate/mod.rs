//! `longhand evaluate`: what a compaction keeps of a transcript, measured by what the rest of it goes on to use.

mod facts;
mod report;

use super::Globals;
use super::failure::note;
use super::simulate::engine::{Happening, first_summary, input_of};
use super::simulate::{chosen, happenings, main_model};
use crate::clock::Clock;
use crate::config::Config;
use crate::interop::{self, Entry, Options, Transcript};
use crate::model::compaction::Level;
use crate::model::ids::{MessageId, PartId, SessionId};
use crate::model::message::{Message, NewMessage};
use crate::model::part::{Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::presets::Preset;
use crate::policy::{CountPer, Counting, LengthUnit, MediaUnits, Rounding, TextWeight, UsageCount};
use crate::summarizer::{Extractive, Levels, Summarizer, SummaryInput, levels};
use anyhow::Context;
use facts::{used_again, words_of};
use report::{Cut, Row};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// pi session files, or Claude Code transcripts
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A preset, with or without its version; several are compared; default: all that summarize
    #[arg(long = "preset", value_name = "PRESET")]
    presets: Vec<String>,
    /// The model window that decides where a preset compacts, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 200_000, value_parser = clap::value_parser!(i64).range(1..))]
    window: i64,
    /// The most the model writes in one reply, in tokens; default: unknown
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(1..))]
    output: Option<i64>,
    /// The size of the summaries, in tokens of four characters; default: that of the transcript's own summary, or else
    /// the preset's
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(1..))]
    tokens: Option<i64>,
    /// A configuration whose summarizers are measured too; they are asked, which may cost something
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the summaries too
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
    let mut rows = Vec::new();
    for path in &arguments.files {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let transcript =
            interop::parse(bytes.as_slice(), &Options::default()).with_context(|| path.display().to_string())?;
        let evaluation =
            Evaluation { arguments: &arguments, presets: &presets, summarizers: &summarizers, file: file_name(path) };
        rows.extend(evaluation.of(transcript).await?);
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
    file: String,
}

/// What is measured at a cut.
struct Subject<'a> {
    cut: Cut,
    facts: facts::Facts,
    /// What ids in the view bring back.
    expandable: String,
    preset: &'a Preset,
    input: SummaryInput,
    /// What stays beside the summary's words: attachments and retained messages.
    beside: String,
}

impl Evaluation<'_> {
    /// Every row about a transcript: where it was compacted in reality, or else where each preset compacts.
    async fn of(&self, transcript: Transcript) -> anyhow::Result<Vec<Row>> {
        let entries = transcript.branches.first().map(|branch| branch.entries.as_slice()).unwrap_or_default();
        let real = entries.iter().enumerate().find_map(|(at, entry)| match entry {
            Entry::Compaction(compaction) => Some((at, compaction)),
            Entry::Message { .. } | Entry::Record { .. } | Entry::Edit(_) => None,
        });
        let Some((end, compaction)) = real else { return self.where_presets_compact(transcript).await };
        // What the agent kept verbatim is not what its summary had to keep.
        let is_first_kept = |entry: &Entry| Some(entry.client_id()) == compaction.first_kept_client_id.as_deref();
        let at = entries[..end].iter().position(is_first_kept).unwrap_or(end);
        let own = compaction.summary_text.clone();
        self.at_compaction(&entries[..at], &entries[at..], own).await
    }

    /// Compares with what the agent itself kept, at the size of its own summary.
    async fn at_compaction(&self, before: &[Entry], after: &[Entry], own: String) -> anyhow::Result<Vec<Row>> {
        let (before, after) = (stored(messages_of(before)), stored(messages_of(after)));
        let cut = Cut { file: self.file.clone(), kind: "real", before: before.len(), after: after.len() };
        let facts = used_again(&before, &after);
        let own_tokens = i64::try_from(own.chars().count() / 4).unwrap_or(i64::MAX);
        let budget_tokens = self.arguments.tokens.unwrap_or(own_tokens).max(1);
        let expandable = words_of(&before);
        let mut rows = vec![Row::of(&cut, None, ("transcript".to_owned(), own), &facts, None)];
        for preset in self.presets {
            let policy = preset.policy();
            let Some(rule) = policy.summarize(Level::Auto) else { continue };
            let sources = before.iter().map(|message| SourceMessage {
                message: message.clone().into(),
                place: None,
                pruned: Vec::new(),
                counts: None,
            });
            let input = SummaryInput {
                messages: sources.collect(),
                split_turn: Vec::new(),
                previous: None,
                previous_is_supplied: false,
                rules: rule.summary.clone(),
                counting: by_characters(),
                instructions: String::new(),
                budget_tokens,
            };
            let subject = Subject {
                cut: cut.clone(),
                facts: facts.clone(),
                expandable: expandable.clone(),
                preset,
                input,
                beside: String::new(),
            };
            self.measure(subject, &mut rows).await?;
        }
        Ok(rows)
    }

    /// Measures each preset where it would compact.
    async fn where_presets_compact(&self, transcript: Transcript) -> anyhow::Result<Vec<Row>> {
        let happenings = happenings(transcript);
        let window = ModelWindow {
            model: main_model(&happenings),
            context: self.arguments.window,
            input: None,
            overhead: 0,
            output: self.arguments.output,
        };
        let messages = happenings.iter().filter_map(|happening| match happening {
            Happening::Message(message) => Some(message.as_ref()),
            Happening::Compaction => None,
        });
        let all = stored(messages);
        let mut rows = Vec::new();
        for preset in self.presets {
            let policy = preset.policy();
            let Some(first) = first_summary(&policy, &window, &happenings) else {
                note(&format!("{}: {} comes to no summary in a window of {}", self.file, preset.name, window.context));
                continue;
            };
            let after = all.get(first.before.len()..).unwrap_or_default();
            let cut =
                Cut { file: self.file.clone(), kind: "simulated", before: first.before.len(), after: after.len() };
            let mut input = input_of(&policy, &first.plan);
            if let Some(tokens) = self.arguments.tokens {
                (input.counting, input.budget_tokens) = (by_characters(), tokens);
            }
            let retained = first.before.iter().filter(|message| first.plan.retained.contains(&message.revision));
            let retained: Vec<Message> = retained.cloned().collect();
            let attached = first.plan.attachments.iter().filter_map(|body| match body {
                PartBody::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let beside = attached.map(str::to_owned).chain((!retained.is_empty()).then(|| words_of(&retained)));
            let subject = Subject {
                cut,
                facts: used_again(&first.before, after),
                expandable: words_of(&first.expandable),
                preset,
                input,
                beside: beside.collect::<Vec<_>>().join("\n"),
            };
            self.measure(subject, &mut rows).await?;
        }
        Ok(rows)
    }

    /// Has the summary written by each summarizer, and looks for the facts in it.
    async fn measure(&self, subject: Subject<'_>, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        for summarizer in self.summarizers {
            let summary = summarizer.summarize(&subject.input).await;
            let summary = summary.with_context(|| format!("{} for {}", summarizer.name(), subject.preset.name))?;
            let summary = summary.completed(&subject.input);
            let text = [summary.text.as_str(), &subject.beside].join("\n").trim_end().to_owned();
            let preset = Some(subject.preset.name);
            let written = (summary.summarizer, text);
            rows.push(Row::of(&subject.cut, preset, written, &subject.facts, Some(&subject.expandable)));
        }
        Ok(())
    }
}

/// The messages among a transcript's entries.
fn messages_of(entries: &[Entry]) -> impl Iterator<Item = &NewMessage> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Message { message, .. } => Some(message),
        Entry::Record { .. } | Entry::Compaction(_) | Entry::Edit(_) => None,
    })
}

/// Tokens of four characters, so that sizes can be compared whatever a preset counts by.
fn by_characters() -> Counting {
    Counting {
        unit: LengthUnit::CodePoints,
        units_per_token: 4,
        rounding: Rounding::Floor,
        text: TextWeight::Length,
        per: CountPer::Message,
        media: MediaUnits::all(0),
        usage: UsageCount::Total,
    }
}

/// Messages as a summarizer sees them, numbered in their order.
fn stored<'a>(messages: impl Iterator<Item = &'a NewMessage>) -> Vec<Message> {
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
