//! `longhand status`: prints the state of the daemon, or of a session's compactions.

use super::event_text::{kind, level_name, trigger};
use super::failure::Usage;
use super::message_text::usage_text;
use super::output::{Output, context_usage, count, dollars, over_window_text, time, word};
use super::view::compacted_by;
use super::{Globals, compactions, ids, said};
use crate::clock::Clock;
use crate::config;
use crate::model::time::Timestamp;
use crate::{metrics, pb};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or digits of its id, whose guards are printed instead
    session: Option<String>,
    /// Print the figures in Prometheus' text format
    #[arg(long, conflicts_with = "session")]
    metrics: bool,
    /// Fail if the daemon refuses writes, its scheduler cannot read the store, or the scrub has findings
    #[arg(long, conflicts_with = "session")]
    check: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.metrics && globals.json {
        return Err(Usage("--metrics has a format of its own, and is not printed as JSON".to_owned()).into());
    }
    let client = globals.client().await?;
    let mut output = globals.output();
    let mut is_healthy = true;
    match arguments.session {
        Some(session) => {
            let session_id = ids::session(&client, &session).await?;
            let request = pb::GetSessionRequest { session_id };
            let found = client.call(request).await?;
            if output.json() {
                output.message(&found)?;
            } else {
                let said = said::lines(&found);
                let compacted = found.provider_compaction;
                let session = found.session.unwrap_or_default();
                let newest = compactions::newest(&client, &session.session_id).await?;
                let mut lines = lines_of(&session, newest.as_ref(), Clock::default().now());
                lines.extend(session.thresholds.into_iter().filter_map(|it| Some(("window", it.unmet_message?))));
                lines.extend(found.over_window.map(|reason| ("over window", over_window_text(&reason))));
                lines.extend(said.into_iter().map(|line| ("people said", line)));
                lines.extend(compacted.map(|compaction| ("provider", compacted_by(&compaction))));
                print(&mut output, &lines)?;
            }
        }
        None => {
            let info = client.call(pb::GetServerInfoRequest {}).await?;
            is_healthy = info.write_state() == pb::WriteState::Accepted
                && info.scheduler_failure.is_none()
                && findings(&info) == 0;
            if arguments.metrics {
                output.text(&metrics::text(&info))?;
            } else if output.json() {
                output.message(&info)?;
            } else {
                print(&mut output, &lines(&info))?;
            }
        }
    }
    output.flush()?;
    Ok(if is_healthy || !arguments.check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(output: &mut Output, lines: &[(&str, String)]) -> std::io::Result<()> {
    let margin = " ".repeat(16);
    lines.iter().try_for_each(|(what, value)| output.wrapped_line(&format!("{what:<16}{value}"), &margin))
}

fn lines(info: &pb::GetServerInfoResponse) -> Vec<(&'static str, String)> {
    let durability = match info.durability() {
        pb::Durability::Unspecified => "unknown".to_owned(),
        pb::Durability::Full => "a crash of the machine".to_owned(),
        pb::Durability::ProcessCrash => "a crash of the daemon only".to_owned(),
    };
    let writes = match info.write_state() {
        pb::WriteState::Unspecified => "unknown to this version",
        pb::WriteState::Accepted => "accepted",
        pb::WriteState::StorageFull => "REFUSED: the disk is full",
        pb::WriteState::StorageReadOnly => "REFUSED: the file system is read-only",
        pb::WriteState::DiskFailed => "REFUSED until a restart of the daemon: disk failure, reads only",
        pb::WriteState::FilesReplaced => {
            "REFUSED until a restart of the daemon: files removed, replaced or truncated, reads only"
        }
    };
    let (due, ready, running) = (info.due_session_count, info.ready_compaction_count, info.running_compaction_count);
    let (breaker, overhead) = (info.breaker_session_count, info.overhead_session_count);
    let (undo, cooling) = (info.undo_session_count, info.cooldown_session_count);
    let writer = info.writer.clone().unwrap_or_default();
    let mut lines = vec![
        ("version", format!("{} ({})", info.version, info.database_version)),
        ("running since", time(info.start_time.as_ref())),
        ("clock", clock_text(info.clock.as_ref())),
        ("writes", writes.to_owned()),
        ("writes survive", durability),
        ("store", info.store_id.clone()),
        ("size on disk", format!("{} KiB", info.database_bytes / 1024)),
        ("log", checkpoint_text(info.checkpoint.as_ref())),
        ("log file", format!("{} KiB", writer.log_bytes / 1024)),
        ("oldest read", format!("{} ms", info.oldest_read_ms)),
        ("writer", writer_text(&writer)),
        ("scrub", scrub_text(info.scrub.as_ref())),
        ("erasures", erasures_text(info.erasure.as_ref())),
        ("sessions", info.session_count.to_string()),
        ("in memory", format!("{} sessions, {} KiB", info.loaded_session_count, info.loaded_session_bytes / 1024)),
        ("events", info.head_seq.to_string()),
        ("subscribers", format!("{}, at most {} events behind", info.subscriber_count, info.subscriber_lag_count)),
        ("clients", clients(info.traffic.unwrap_or_default())),
        ("compactions", format!("{due} sessions due, {ready} waiting, {running} running")),
        ("guards", format!("{breaker} breakers open, {overhead} filled by overhead")),
        ("", format!("{cooling} in cooldown, {undo} held after an undo")),
    ];
    lines.extend(info.scheduler_failure.as_ref().map(|failure| ("scheduler", scheduler_text(failure))));
    lines.extend(info.scrub.iter().flat_map(|scrub| &scrub.findings).map(finding_line));
    if findings(info) > 0 {
        lines
            .push(("", "`longhand doctor` examines the store of a stopped daemon, and repairs what it can".to_owned()));
    }
    lines.extend(info.failing_session_ids.iter().map(|id| ("failing", id.clone())));
    lines.extend(info.stopped_session_ids.iter().map(|id| ("stopped", id.clone())));
    lines.extend(info.compactions.iter().map(|counter| ("ended", ended_compactions(counter))));
    let freed: i64 = info.compactions.iter().map(|counter| counter.freed_tokens).sum();
    lines.push(("tokens freed", freed.to_string()));
    lines.extend(info.contradictions.iter().map(|counter| {
        let kind = word(counter.kind().as_str_name(), "CONTRADICTION_KIND_");
        ("contradicted", format!("{} about a {kind}", count(counter.count, "claim")))
    }));
    lines.extend(info.quota_uses.iter().map(|pb::QuotaUse { tenant, quota, used, limit }| {
        let tenant = if tenant.is_empty() { config::DEFAULT_TENANT } else { tenant };
        ("quota", format!("{tenant}: {used} of {limit} {quota}"))
    }));
    lines.extend(info.providers.iter().map(|provider| ("provider", provider_text(provider))));
    lines.extend(info.spendings.iter().map(|spending| ("spent", spending_text(spending))));
    lines
}

fn clock_text(clock: Option<&pb::ClockState>) -> String {
    let Some(clock) = clock else { return "unknown".to_owned() };
    let mut text = match clock.confirmed {
        true => "confirmed".to_owned(),
        false => format!("NOT CONFIRMED: nothing is erased by a time after {}", time(clock.certain_time.as_ref())),
    };
    let seconds = |time: &Option<prost_types::Timestamp>| time.as_ref().map_or(0, |time| time.seconds);
    let ahead = seconds(&clock.event_time) - seconds(&clock.present_time);
    if ahead > 1 {
        text += &format!("; events are {} ahead of it", count(ahead, "second"));
    }
    let differs = seconds(&clock.system_time) - seconds(&clock.present_time);
    if differs.abs() > 1 {
        text += &format!("; the system's clock says {}", time(clock.system_time.as_ref()));
    }
    text
}

/// Connections and memory of clients, and refusals, as text.
fn clients(traffic: pb::TrafficState) -> String {
    let kib = (traffic.answer_bytes + traffic.request_bytes + traffic.view_bytes) / 1024;
    let mut text = format!("{} connections, {kib} KiB held", traffic.connection_count);
    for (count, what) in [
        (traffic.refused_connection_count, "connections refused"),
        (traffic.failed_accept_count, "not accepted for lack of descriptors"),
        (traffic.stalled_answer_count, "unread answers cancelled"),
        (traffic.dropped_connection_count, "connections ended"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

/// Failure that stops the scheduler, as text.
fn scheduler_text(failure: &pb::SchedulerFailure) -> String {
    let (since, tries) = (time(failure.since_time.as_ref()), count(failure.attempt_count, "failed attempt"));
    format!("STOPPED since {since}, {tries}: {}", failure.message)
}

/// State of the checkpoints of the write-ahead log, as text.
fn checkpoint_text(checkpoint: Option<&pb::CheckpointState>) -> String {
    let Some(checkpoint) = checkpoint else { return "unknown".to_owned() };
    let pending = format!("{} KiB not in the database yet", checkpoint.pending_bytes / 1024);
    match checkpoint.failure_count {
        0 => pending,
        failures => format!("{pending}; CHECKPOINTS FAIL, {failures} in a row: {}", checkpoint.failure),
    }
}

/// The writer's queue and commits, as text.
fn writer_text(writer: &pb::WriterState) -> String {
    let mean = writer.commit_duration_us / writer.commit_count.max(1);
    format!("{} mutations queued; {} commits, mean {mean} us", writer.queued_mutation_count, writer.commit_count)
}

/// Erasures that files may still have something of, as text.
fn erasures_text(erasures: Option<&pb::ErasureState>) -> String {
    let Some(erasures) = erasures else { return "unknown".to_owned() };
    match erasures.pending_files.as_slice() {
        [] => "nothing of what was erased is left in files".to_owned(),
        files => {
            let count = count(erasures.pending_count, "erasure");
            format!("bytes MAY STILL BE IN FILES ({}); {count} of the database", files.join(", "))
        }
    }
}

/// Number of findings of the scrub.
fn findings(info: &pb::GetServerInfoResponse) -> i64 {
    info.scrub.as_ref().map_or(0, |scrub| scrub.finding_count)
}

fn finding_line(finding: &pb::IntegrityFinding) -> (&'static str, String) {
    ("finding", format!("{} #{}: {}", finding.session_id, finding.revision, finding.message))
}

fn scrub_text(scrub: Option<&pb::ScrubState>) -> String {
    let Some(scrub) = scrub else { return "unknown".to_owned() };
    let extent = format!("{}, {}", count(scrub.session_count, "session"), count(scrub.event_count, "event"));
    let state = match (scrub.running, &scrub.end_time) {
        (true, _) => format!("runs since {}, {extent} so far", time(scrub.start_time.as_ref())),
        (false, Some(end)) => format!("ended {}, {extent}", time(Some(end))),
        (false, None) => "not yet".to_owned(),
    };
    match scrub.finding_count {
        0 => state,
        findings => format!("{} IN THE STORE; {state}", count(findings, "FINDING")),
    }
}

/// Compactions that ended in the same way, as text.
fn ended_compactions(counter: &pb::CompactionCount) -> String {
    let state = word(counter.state().as_str_name(), "COMPACTION_STATE_");
    let (kind, level_name, count) = (kind(counter.kind()), level_name(counter.level()), counter.count);
    let asked = match counter.trigger() {
        pb::CompactionTrigger::Unspecified => String::new(),
        by => format!(", {}", trigger(by)),
    };
    let freed =
        if counter.freed_tokens > 0 { format!(", {} tokens freed", counter.freed_tokens) } else { String::new() };
    format!("{count} {kind} ({level_name}{asked}) {state}{freed}")
}

fn provider_text(provider: &pb::ProviderState) -> String {
    let until = time(provider.resume_time.as_ref());
    let breaker = match provider.breaker_state() {
        pb::BreakerState::Unspecified => "breaker state unknown to this version".to_owned(),
        pb::BreakerState::Closed => "breaker closed".to_owned(),
        pb::BreakerState::Paused => format!("paused at its request until {until}"),
        pb::BreakerState::Open => format!("breaker OPEN until {until}"),
        pb::BreakerState::HalfOpen => "breaker half open, one trial request".to_owned(),
    };
    let failures = match provider.failure_count {
        0 => String::new(),
        failures => format!(", {} in a row", count(failures, "failure")),
    };
    let pb::ProviderState { summarizer, model, running_count, waiting_count, slot_count, .. } = provider;
    format!(
        "{summarizer} ({model}): {breaker}{failures}; {running_count} of {slot_count} slots in use, {waiting_count} waiting"
    )
}

/// The limits of a session's window, with where they come from.
fn limits_text(window: Option<&pb::ModelWindow>) -> String {
    let window = window.cloned().unwrap_or_default();
    let of_model = if window.model.is_empty() { String::new() } else { format!(" of {}", window.model) };
    let source = match window.source() {
        pb::WindowSource::Unspecified => return format!("those{of_model} are unknown, so that nothing is compacted"),
        pb::WindowSource::Client => "by the client",
        pb::WindowSource::Models => "by the table of models",
        pb::WindowSource::ProviderError => "by the provider's refusal",
    };
    let output = window.max_output_tokens.map_or_else(String::new, |tokens| format!(", {tokens} of output"));
    format!("{} tokens{output}{of_model}, {source}", window.max_context_tokens)
}

/// Requests to one model and their cost, as text.
fn spending_text(spending: &pb::SummarizerSpending) -> String {
    let model = if spending.model.is_empty() { "other models" } else { &spending.model };
    let mut text = format!("{} ({model}): {}", spending.summarizer, count(spending.request_count, "request"));
    if spending.failure_count > 0 {
        text += &format!(", {} failed", spending.failure_count);
    }
    text += &format!(", {}", spending.usage.as_ref().map(usage_text).unwrap_or_default());
    text += &format!(", {}", dollars(spending.cost_micro_usd));
    if spending.unpriced_count > 0 {
        text += &format!(" and {} of unknown cost", count(spending.unpriced_count, "request"));
    }
    text
}

fn lines_of(session: &pb::Session, newest: Option<&pb::Compaction>, now: Timestamp) -> Vec<(&'static str, String)> {
    let guards = session.guard_state.unwrap_or_default();
    let waits = format!("automatic compactions wait for {}", count(guards.hold_turn_count, "user message"));
    let in_a_row = format!("{} without progress in a row", count(guards.failure_count, "compaction"));
    let breaker_open = guards.hold_reason() == pb::HoldReason::Breaker;
    let breaker = if breaker_open { format!("OPEN: {waits}") } else { format!("closed, {in_a_row}") };
    let is_held = guards.hold_turn_count > 0 && !breaker_open;
    let cooldown = match &guards.cooldown_end_time {
        None => "none".to_owned(),
        Some(end) if end.seconds < now.0.div_euclid(1_000_000) => format!("over since {}", time(Some(end))),
        Some(end) => format!("until {}", time(Some(end))),
    };
    let overhead = guards
        .overhead_tokens
        .map_or_else(|| "below the limit".to_owned(), |tokens| format!("{tokens} tokens of overhead FILL the window"));
    let window = session.window.as_ref().map_or(0, |window| window.max_context_tokens);
    vec![
        ("session", session.session_id.clone()),
        ("title", session.title.clone()),
        ("revision", session.revision.to_string()),
        (
            "context",
            session.context_tokens.map_or_else(|| "unknown".to_owned(), |tokens| context_usage(tokens, window)),
        ),
        ("limits", limits_text(session.window.as_ref())),
        ("breaker", breaker),
        ("undo", if is_held { format!("hold: {waits}") } else { "no hold".to_owned() }),
        ("cooldown", cooldown),
        ("overhead", overhead),
        ("newest", newest.map_or_else(|| "no compaction".to_owned(), compactions::line)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[(&str, String)]) -> String {
        lines.iter().map(|(what, value)| format!("{what}: {value}\n")).collect()
    }

    fn instant(seconds: i64) -> prost_types::Timestamp {
        prost_types::Timestamp { seconds, nanos: 0 }
    }

    #[test]
    fn a_store_that_takes_no_writes_is_a_warning() {
        let status_text = |state: pb::WriteState| {
            let write_state = state.into();
            text(&lines(&pb::GetServerInfoResponse { write_state, ..pb::GetServerInfoResponse::default() }))
        };
        assert!(!status_text(pb::WriteState::Accepted).contains("REFUSED"));
        for (state, why) in [
            (pb::WriteState::StorageFull, "REFUSED: the disk is full"),
            (pb::WriteState::StorageReadOnly, "REFUSED: the file system is read-only"),
            (pb::WriteState::DiskFailed, "REFUSED until a restart of the daemon: disk failure"),
            (pb::WriteState::FilesReplaced, "REFUSED until a restart of the daemon: files removed"),
        ] {
            assert!(status_text(state).contains(why), "{state:?}");
        }
    }

    #[test]
    fn a_clock_that_is_not_confirmed_is_a_warning() {
        let of = |confirmed, event_time, system_time| {
            let times = [event_time, system_time].map(|seconds| Some(instant(seconds)));
            let [event_time, system_time] = times;
            let (present_time, certain_time) = (Some(instant(100)), Some(instant(9)));
            clock_text(Some(&pb::ClockState { confirmed, event_time, system_time, present_time, certain_time }))
        };
        assert_eq!(of(true, 101, 100), "confirmed");
        assert_eq!(
            of(false, 160, 3_600),
            "NOT CONFIRMED: nothing is erased by a time after 1970-01-01 00:00:09Z; events are 60 seconds ahead of it; \
             the system's clock says 1970-01-01 01:00:00Z"
        );
    }

    #[test]
    fn a_log_that_cannot_be_folded_is_a_warning() {
        let status_text = |failure_count, failure: &str| {
            let checkpoint = pb::CheckpointState { pending_bytes: 4_096, failure_count, failure: failure.to_owned() };
            let checkpoint = Some(checkpoint);
            text(&lines(&pb::GetServerInfoResponse { checkpoint, ..pb::GetServerInfoResponse::default() }))
        };
        assert!(status_text(0, "").contains("log: 4 KiB not in the database yet\n"));
        assert!(status_text(2, "the disk is full").contains("CHECKPOINTS FAIL, 2 in a row: the disk is full"));
    }

    #[test]
    fn a_scheduler_that_cannot_read_the_store_is_a_warning() {
        let failure = pb::SchedulerFailure {
            message: "no such table".to_owned(),
            since_time: Some(instant(9)),
            attempt_count: 1,
        };
        let info = pb::GetServerInfoResponse {
            scheduler_failure: Some(failure),
            failing_session_ids: vec!["ses_1".to_owned()],
            ..pb::GetServerInfoResponse::default()
        };
        let printed = text(&lines(&info));
        assert!(
            printed.contains("scheduler: STOPPED since 1970-01-01 00:00:09Z, 1 failed attempt: no such table\n"),
            "{printed}"
        );
        assert!(printed.contains("failing: ses_1\n"), "{printed}");
        let printed = text(&lines(&pb::GetServerInfoResponse::default()));
        assert!(!printed.contains("STOPPED") && !printed.contains("failing"), "{printed}");
    }

    #[test]
    fn finished_compactions_and_freed_tokens_are_shown() {
        let (kind, level) = (pb::CompactionKind::Summary.into(), pb::CompactionLevel::Auto.into());
        let state = pb::CompactionState::Done.into();
        let counter = |trigger: pb::CompactionTrigger, freed_tokens| {
            let trigger = trigger.into();
            pb::CompactionCount { kind, level, state, count: 2, freed_tokens, trigger }
        };
        let compactions =
            vec![counter(pb::CompactionTrigger::Threshold, 900), counter(pb::CompactionTrigger::Unspecified, 20)];
        let printed = text(&lines(&pb::GetServerInfoResponse { compactions, ..pb::GetServerInfoResponse::default() }));
        for line in [
            "ended: 2 summary (auto, threshold) done, 900 tokens freed\n",
            "ended: 2 summary (auto) done, 20 tokens freed\n",
            "tokens freed: 920\n",
        ] {
            assert!(printed.contains(line), "{line}{printed}");
        }
    }

    #[test]
    fn providers_and_their_cost_are_shown() {
        let provider = |state: pb::BreakerState, failure_count, resume_time| pb::ProviderState {
            summarizer: "strong".into(),
            model: "m".into(),
            breaker_state: state.into(),
            resume_time,
            failure_count,
            running_count: 1,
            waiting_count: 2,
            slot_count: 8,
        };
        for (state, failures, until, expected) in [
            (pb::BreakerState::Closed, 0, None, "strong (m): breaker closed; 1 of 8 slots in use, 2 waiting"),
            (pb::BreakerState::Closed, 1, None, "strong (m): breaker closed, 1 failure in a row; 1 of 8"),
            (pb::BreakerState::Open, 5, Some(instant(0)), "breaker OPEN until 1970-01-01 00:00:00Z, 5 failures in a"),
            (pb::BreakerState::Paused, 1, Some(instant(9)), "paused at its request until 1970-01-01 00:00:09Z"),
            (pb::BreakerState::HalfOpen, 5, None, "half open, one trial request, 5 failures"),
        ] {
            let printed = provider_text(&provider(state, failures, until));
            assert!(printed.contains(expected), "{printed}");
        }
        let usage = pb::Usage { input_tokens: 70, output_tokens: 9, ..pb::Usage::default() };
        let spending = pb::SummarizerSpending {
            summarizer: "strong".into(),
            request_count: 3,
            failure_count: 1,
            usage: Some(usage),
            cost_micro_usd: 1_000_280,
            unpriced_count: 1,
            ..pb::SummarizerSpending::default()
        };
        let expected = "strong (other models): 3 requests, 1 failed, 70 in, 9 out, $1.00 and 1 request of \
             unknown cost";
        assert_eq!(spending_text(&spending), expected);
    }

    #[test]
    fn a_session_lists_the_guards_of_its_compactions() {
        let printed = |guards: pb::GuardState| {
            let session = pb::Session { guard_state: Some(guards), ..pb::Session::default() };
            text(&lines_of(&session, None, Timestamp(5_000_000)))
        };
        let none = printed(pb::GuardState { failure_count: 1, ..pb::GuardState::default() });
        for line in [
            "breaker: closed, 1 compaction without progress in a row\n",
            "undo: no hold\n",
            "cooldown: none\n",
            "newest: no compaction\n",
        ] {
            assert!(none.contains(line), "{none}");
        }
        let open = printed(pb::GuardState {
            hold_turn_count: 3,
            hold_reason: pb::HoldReason::Breaker.into(),
            cooldown_end_time: Some(instant(9)),
            overhead_tokens: Some(40),
            ..pb::GuardState::default()
        });
        for line in [
            "breaker: OPEN: automatic compactions wait for 3 user messages\n",
            "undo: no hold\n",
            "cooldown: until 1970-01-01 00:00:09Z\n",
            "overhead: 40 tokens of overhead FILL the window\n",
        ] {
            assert!(open.contains(line), "{open}");
        }
        let undone = printed(pb::GuardState {
            hold_turn_count: 1,
            cooldown_end_time: Some(instant(1)),
            ..pb::GuardState::default()
        });
        assert!(undone.contains("undo: hold: automatic compactions wait for 1 user message\n"), "{undone}");
        assert!(undone.contains("cooldown: over since 1970-01-01 00:00:01Z\n"), "{undone}");
    }
}
