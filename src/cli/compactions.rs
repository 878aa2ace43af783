//! `longhand compact`, `confirm`, `cancel`, `compactions`, `retry`, `undo` and `redo`: compactions by hand.

use super::detail::Detail;
use super::event_text::{failure, kind, level_name, outcome, rewrite, trigger};
use super::failure::note_secrets;
use super::output::{BAD, GOOD, Output, PENDING, PLAIN, count, dollars, time, word};
use super::progress::Progress;
use super::table::{Column, Table};
use super::times::Times;
use super::{Globals, ids, plan_text, requests};
use crate::pb;
use crate::pb::subscribe_events_response::Frame;
use longhand_client::{Client, Error, Follow};
use std::process::ExitCode;

/// Compactions requested per page.
const PAGE_SIZE: i32 = 200;
/// Interval of progress frames on an idle stream, in seconds. Each frame is an occasion to query the compaction.
const PROGRESS_SECONDS: i64 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct StartArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Prune old tool outputs instead of summarizing a range
    #[arg(long, conflicts_with_all = ["instructions", "level"])]
    prune: bool,
    /// Level of the policy: micro, auto, or deep; default: auto, or else deep, or micro
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,
    /// Additional instructions for the summarizer
    #[arg(long, value_name = "TEXT", default_value = "")]
    instructions: String,
    /// First message to summarize, by id, client id or revision; earlier messages stay before the summary; default: the beginning
    /// of the view
    #[arg(long, value_name = "MESSAGE", conflicts_with = "prune", default_value = "")]
    from: String,
    /// First message after those to summarize, by id, client id or revision; default: by the policy
    #[arg(long, value_name = "MESSAGE", conflicts_with = "prune", default_value = "")]
    to: String,
    /// Return as soon as the compaction is requested; default: wait for its end, and show its progress
    #[arg(long)]
    detach: bool,
    /// Only print the plan: truncations, covered range, omissions, tail, and requests to a model
    #[arg(long, conflicts_with = "detach")]
    dry_run: bool,
}

/// A level of the policy.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Level {
    Micro,
    Auto,
    Deep,
}

impl Level {
    fn proto(self) -> pb::CompactionLevel {
        match self {
            Self::Micro => pb::CompactionLevel::Micro,
            Self::Auto => pb::CompactionLevel::Auto,
            Self::Deep => pb::CompactionLevel::Deep,
        }
    }
}

/// A compaction that waits for confirmation.
#[derive(Debug, clap::Args)]
pub(super) struct ConfirmArguments {
    /// Compaction id, from the event that proposes it
    compaction: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct CancelArguments {
    /// Compaction id; it waits for a worker or for confirmation, or runs
    compaction: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct RetryArguments {
    /// Compaction id
    compaction: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// List the requests to models instead, including those for summaries of branches
    #[arg(long)]
    requests: bool,
    /// Only the newest, at most this many
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReversalArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
}

pub(super) async fn start(globals: &Globals, arguments: StartArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let request = pb::StartCompactionRequest {
        session_id: session_id.clone(),
        kind: if arguments.prune { pb::CompactionKind::Prune } else { pb::CompactionKind::Summary }.into(),
        instructions: arguments.instructions,
        request_id: String::new(),
        level: arguments.level.map_or(pb::CompactionLevel::Unspecified, Level::proto).into(),
        validate_only: arguments.dry_run,
        tail_start_message_id: ids::message(&client, &session_id, &arguments.to).await?,
        covered_start_message_id: ids::message(&client, &session_id, &arguments.from).await?,
    };
    // The subscription starts before the request, so that the end of the compaction cannot be missed.
    let is_awaited = !arguments.detach && !arguments.dry_run;
    let frames = if is_awaited { Some(subscribe(&client, &session_id).await?) } else { None };
    let started = client.call(request).await?;
    note_secrets(&started.secret_findings);
    if let Some(plan) = &started.plan {
        plan_text::print(&mut output, plan)?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut compaction = started.compaction.unwrap_or_default();
    if let Some(frames) = frames {
        compaction = wait(&client, frames, compaction).await?;
    }
    let failed = has_failed(&compaction);
    print(&mut output, &compaction)?;
    output.flush()?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(super) async fn list(globals: &Globals, arguments: ListArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let limit = arguments.limit.map_or(usize::MAX, |limit| limit as usize);
    if arguments.requests {
        requests::print(&client, &mut output, session_id, limit).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let compactions = list_newest(&client, &session_id, limit).await?;
    if output.json() {
        compactions.iter().try_for_each(|compaction| output.message(compaction))?;
    } else {
        table(&compactions, Globals::times(&output)).print(&mut output)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn confirm(globals: &Globals, arguments: ConfirmArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let request = pb::ConfirmCompactionRequest { compaction_id: arguments.compaction };
    let confirmed = client.call(request).await?;
    print(&mut output, &confirmed.compaction.unwrap_or_default())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn cancel(globals: &Globals, arguments: CancelArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let request = pb::CancelCompactionRequest { compaction_id: arguments.compaction };
    let cancelled = client.call(request).await?;
    print(&mut output, &cancelled.compaction.unwrap_or_default())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn retry(globals: &Globals, arguments: RetryArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let request = pb::RetryCompactionRequest { compaction_id: arguments.compaction, request_id: String::new() };
    let tried = client.call(request).await?;
    print(&mut output, &tried.compaction.unwrap_or_default())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn undo(globals: &Globals, arguments: ReversalArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let request = pb::UndoChangeRequest { session_id, ..pb::UndoChangeRequest::default() };
    let undone = client.call(request).await?;
    if output.json() {
        output.message(&undone)?;
    } else {
        let what = undone.change.as_ref().map(change).unwrap_or_default();
        output.line(&format!("undid {what}, at revision {}", undone.revision))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn redo(globals: &Globals, arguments: ReversalArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let request = pb::RedoChangeRequest { session_id, ..pb::RedoChangeRequest::default() };
    let redone = client.call(request).await?;
    if output.json() {
        output.message(&redone)?;
    } else {
        let what = redone.change.as_ref().map(change).unwrap_or_default();
        output.line(&format!("redid {what}, at revision {}", redone.revision))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Description of the change that was undone or redone.
fn change(change: &pb::Change) -> String {
    match &change.change {
        Some(pb::change::Change::Compaction(compaction)) => {
            format!("the {} {}", kind(compaction.kind()), compaction.compaction_id)
        }
        Some(pb::change::Change::Rewrite(changed)) => format!("the {}", rewrite(Some(changed), Detail::Full)),
        None => "a change unknown to this version".to_owned(),
    }
}

/// The newest compaction of a session, if there is one.
pub(super) async fn newest(client: &Client, session: &str) -> Result<Option<pb::Compaction>, Error> {
    let request =
        pb::ListCompactionsRequest { session_id: session.to_owned(), page_size: 1, page_token: String::new() };
    Ok(client.call(request).await?.compactions.into_iter().next())
}

/// All compactions of a session, newest first.
pub(super) async fn list_all(client: &Client, session: &str) -> Result<Vec<pb::Compaction>, Error> {
    list_newest(client, session, usize::MAX).await
}

/// The newest compactions of a session, newest first.
async fn list_newest(client: &Client, session: &str, limit: usize) -> Result<Vec<pb::Compaction>, Error> {
    let request =
        pb::ListCompactionsRequest { session_id: session.to_owned(), page_size: PAGE_SIZE, page_token: String::new() };
    let mut compactions = Vec::new();
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        compactions.extend(page.compactions);
        compactions.truncate(limit);
        if compactions.len() == limit {
            break;
        }
    }
    Ok(compactions)
}

type Frames = Follow<pb::SubscribeEventsRequest>;

async fn subscribe(client: &Client, session: &str) -> Result<Frames, Error> {
    let request = pb::SubscribeEventsRequest {
        session_ids: vec![session.to_owned()],
        kinds: [pb::EventKind::Compacted, pb::EventKind::CompactionFailed, pb::EventKind::CompactionCancelled]
            .map(i32::from)
            .to_vec(),
        progress_interval: Some(prost_types::Duration { seconds: PROGRESS_SECONDS, nanos: 0 }),
        include_deltas: true,
        ..pb::SubscribeEventsRequest::default()
    };
    let mut frames = client.follow(request);
    // The first frame confirms the subscription.
    frames.next().await?;
    Ok(frames)
}

/// Waits until a compaction has ended, and shows its progress on standard error. A compaction that ends before it
/// started has no event, so the state is queried after progress frames too.
async fn wait(client: &Client, mut frames: Frames, started: pb::Compaction) -> anyhow::Result<pb::Compaction> {
    let mut progress = Progress::new();
    let mut compaction = started;
    let (mut shown, mut written_bytes) = (pb::CompactionState::Unspecified, None);
    while is_active(&compaction) {
        if shown != compaction.state() {
            shown = compaction.state();
            progress.state(&stage(&compaction, written_bytes, progress.seconds()));
        }
        let seconds = progress.seconds();
        progress.show(|| stage(&compaction, written_bytes, seconds));
        let Some(response) = frames.next().await? else { anyhow::bail!("the stream ended before the compaction did") };
        match response.frame {
            Some(Frame::SummaryDelta(words)) => {
                let is_own = words.compaction_id == compaction.compaction_id;
                written_bytes = is_own.then(|| words.offset_bytes + words.delta.len() as i64).or(written_bytes);
                continue;
            }
            Some(Frame::DraftDelta(_)) => continue,
            Some(_) | None => {}
        }
        let request = pb::GetCompactionRequest { compaction_id: compaction.compaction_id, text_request_number: 0 };
        compaction = client.call(request).await?.compaction.unwrap_or_default();
    }
    Ok(compaction)
}

/// The work and the duration of a compaction that has not ended.
fn stage(compaction: &pb::Compaction, written_bytes: Option<i64>, seconds: i64) -> String {
    let doing = if compaction.state() == pb::CompactionState::Ready { "waits for a worker" } else { "runs" };
    let written = written_bytes.map_or(String::new(), |bytes| format!(", {} written", count(bytes, "byte")));
    let time = if seconds > 0 { format!(", {seconds} s") } else { String::new() };
    format!("{} {} {doing}{written}{time}", kind(compaction.kind()), compaction.compaction_id)
}

/// True if the compaction is ready or running, so that it may still change the view.
pub(super) fn is_active(compaction: &pb::Compaction) -> bool {
    matches!(compaction.state(), pb::CompactionState::Ready | pb::CompactionState::Running)
}

fn has_failed(compaction: &pb::Compaction) -> bool {
    !is_active(compaction) && compaction.state() != pb::CompactionState::Done
}

fn print(output: &mut Output, compaction: &pb::Compaction) -> anyhow::Result<()> {
    if output.json() {
        return output.message(compaction);
    }
    Ok(output.line(&line(compaction))?)
}

/// A compaction in one line: its state and its result.
pub(super) fn line(compaction: &pb::Compaction) -> String {
    let verb = if compaction.state() == pb::CompactionState::Failed { "" } else { "is " };
    let line = format!("{} {} {verb}{}", kind(compaction.kind()), compaction.compaction_id, state(compaction));
    let result = result(compaction);
    if result.is_empty() { line } else { format!("{line}: {result}") }
}

fn state(compaction: &pb::Compaction) -> String {
    let state = word(compaction.state().as_str_name(), "COMPACTION_STATE_");
    match (compaction.undone_revision, &compaction.next_attempt_time) {
        (Some(revision), _) => format!("{state}, undone at {revision}"),
        (None, Some(next)) => format!("{state}, next attempt {}", time(Some(next))),
        (None, None) => state,
    }
}

/// Style of a state in the table, by its first word.
fn state_style(state: &str) -> anstyle::Style {
    match state.split([' ', ',']).next() {
        Some("done") => GOOD,
        Some("failed" | "dead") => BAD,
        Some("ready" | "running") => PENDING,
        Some(_) | None => PLAIN,
    }
}

fn result(compaction: &pb::Compaction) -> String {
    match (&compaction.outcome, &compaction.failure) {
        (Some(numbers), _) => outcome(numbers),
        (None, Some(why)) => failure(Some(why)),
        (None, None) => String::new(),
    }
}

/// Revisions of the first and the last covered message.
fn range(compaction: &pb::Compaction) -> String {
    let covered = compaction.outcome.as_ref().map(|outcome| outcome.covered_ranges.as_slice()).unwrap_or_default();
    match (covered.first(), covered.last()) {
        (Some(first), Some(last)) => format!("{}-{}", first.first_revision, last.last_revision),
        _ => "-".to_owned(),
    }
}

/// A token count of the outcome; `-` without an outcome.
fn tokens(compaction: &pb::Compaction, of: impl Fn(&pb::CompactionOutcome) -> i64) -> String {
    compaction.outcome.as_ref().map_or_else(|| "-".to_owned(), |outcome| of(outcome).to_string())
}

fn table(compactions: &[pb::Compaction], times: Times) -> Table {
    let mut table = Table::new(&[
        Column::word("COMPACTION"),
        Column::word("KIND").optional(1),
        Column::word("TRIGGER").optional(4),
        Column::word("LEVEL").optional(6),
        Column::word("STATE").styled(state_style),
        Column::word("REQUESTED").optional(2),
        Column::number("BASE").optional(10),
        Column::word("RANGE").optional(9),
        Column::number("BEFORE").optional(3),
        Column::number("AFTER").optional(3),
        Column::word("SUMMARIZER").optional(5),
        Column::number("COST").optional(7),
        Column::number("DURATION").optional(8),
        Column::text("RESULT"),
    ]);
    for compaction in compactions {
        table.row(vec![
            compaction.compaction_id.clone(),
            kind(compaction.kind()),
            trigger(compaction.trigger()),
            level_name(compaction.level()),
            state(compaction),
            times.text(compaction.create_time.as_ref()),
            compaction.base_revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string()),
            range(compaction),
            tokens(compaction, |outcome| outcome.estimated_tokens_before),
            tokens(compaction, |outcome| outcome.estimated_tokens_after),
            summarizer(compaction),
            cost(compaction),
            duration(compaction),
            result(compaction),
        ]);
    }
    table
}

/// Author of the summary, or the models that were asked for one without success.
fn summarizer(compaction: &pb::Compaction) -> String {
    let written = compaction.outcome.as_ref().map(|outcome| outcome.summarizer.as_str()).filter(|by| !by.is_empty());
    let asked = compaction.spending.as_ref().map(|spending| spending.models.join(", "));
    written.map(str::to_owned).or(asked).unwrap_or_else(|| "-".to_owned())
}

/// Cost of the requests to models; `?` marks that the cost of some requests is unknown.
fn cost(compaction: &pb::Compaction) -> String {
    let Some(spending) = &compaction.spending else { return "-".to_owned() };
    let priced = spending.cost_micro_usd.map(dollars);
    let unknown = if spending.unpriced_count > 0 { "?" } else { "" };
    format!("{}{unknown}", priced.unwrap_or_default())
}

/// Time from the first claim to the commit; without an outcome, the time that the requests to models took.
fn duration(compaction: &pb::Compaction) -> String {
    let took = compaction.outcome.as_ref().map(|outcome| outcome.duration_ms);
    let took = took.or(compaction.spending.as_ref().map(|spending| spending.duration_ms));
    took.map_or_else(|| "-".to_owned(), |ms| format!("{}.{:03} s", ms / 1_000, ms % 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compaction(state: pb::CompactionState) -> pb::Compaction {
        pb::Compaction { compaction_id: "cmp_1".into(), state: state.into(), ..pb::Compaction::default() }
    }

    #[test]
    fn a_compaction_that_waits_for_its_next_attempt_says_until_when() {
        let waiting = pb::Compaction {
            next_attempt_time: Some(prost_types::Timestamp { seconds: 60, nanos: 0 }),
            ..compaction(pb::CompactionState::Ready)
        };
        assert!(state(&waiting).starts_with("ready, next attempt 1970-01-01 00:01:00"), "{}", state(&waiting));
    }

    #[test]
    fn only_ends_without_effect_are_failures() {
        for (state, active, failed) in [
            (pb::CompactionState::Ready, true, false),
            (pb::CompactionState::Running, true, false),
            (pb::CompactionState::Done, false, false),
            (pb::CompactionState::Failed, false, true),
            (pb::CompactionState::Cancelled, false, true),
            (pb::CompactionState::Superseded, false, true),
            (pb::CompactionState::Dead, false, true),
        ] {
            let compaction = compaction(state);
            assert_eq!((is_active(&compaction), has_failed(&compaction)), (active, failed), "{state:?}");
        }
    }

    #[test]
    fn a_row_has_the_result_and_the_undo() {
        let mut done = compaction(pb::CompactionState::Done);
        let covered = [(3, 7), (11, 20)];
        let covered =
            covered.map(|(first_revision, last_revision)| pb::RevisionRange { first_revision, last_revision });
        done.level = pb::CompactionLevel::Deep.into();
        done.outcome = Some(pb::CompactionOutcome {
            covered_ranges: covered.to_vec(),
            estimated_tokens_before: 9,
            estimated_tokens_after: 4,
            ..Default::default()
        });
        done.undone_revision = Some(12);
        let outcome = done.outcome.as_mut().expect("set above");
        (outcome.summarizer, outcome.duration_ms) = ("strong/m".into(), 2_050);
        done.spending = Some(pb::SummarySpending {
            cost_micro_usd: Some(1_200_034),
            unpriced_count: 1,
            ..pb::SummarySpending::default()
        });
        let mut failed = compaction(pb::CompactionState::Failed);
        failed.failure = Some(pb::CompactionFailure {
            reason: "NO_GAIN".into(),
            message: "nothing won".into(),
            ..pb::CompactionFailure::default()
        });
        let lines = table(&[done, failed], Times::Absolute).lines(None);
        assert!(lines[1].contains("done, undone at 12") && lines[1].contains("9 → 4 tokens"), "{lines:?}");
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        let shown = ["strong/m", "$1.20?", "2.050", "s"];
        assert!(words.windows(4).any(|window| window == shown), "{lines:?}");
        assert!(words.contains(&"deep") && words.windows(3).any(|three| three == ["3-20", "9", "4"]), "{lines:?}");
        assert!(lines[2].ends_with("nothing won (NO_GAIN)"), "{lines:?}");
    }
}
