//! Metrics of the daemon, in OpenMetrics' text format: at `/metrics`, and as `longhand status --metrics` for the textfile
//! collector of a node exporter or any other program that runs the command periodically.
//!
//! The families below are all there are, and their names are stable: dashboards rely on them. Every family is printed
//! with its type, even without a sample. Counters are kept in the store and survive a restart of the daemon; the
//! figures of providers start anew. All come from one answer of the daemon about its state.

use crate::pb;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Name, type and help text of a metric. The text has counters with `_total` behind their names.
#[derive(Debug, Clone, Copy)]
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Never falls.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts of observations up to each bound, with their sum.
    Histogram,
}

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Gauge, help }
}

/// Labels: `version`, `database_version`.
const BUILD: Family = gauge("longhand_build_info", "Always 1; the labels have the versions.");
const STARTED: Family = gauge("longhand_start_timestamp_seconds", "Start time of the daemon, since 1970.");
const CLOCK_CONFIRMED: Family = gauge(
    "longhand_clock_confirmed",
    "1 if the clock is confirmed, 0 if less is erased because of its leap or a start.",
);
const CLOCK_AHEAD: Family =
    gauge("longhand_clock_events_ahead_seconds", "Seconds by which times of events are ahead of the present.");
const WRITABLE: Family = gauge("longhand_writable", "1 if writes are accepted, 0 if they are refused.");
/// Label: `state` (`accepted`, `disk_failed`, `files_replaced`, `storage_full`, `storage_read_only`).
const WRITES: Family = gauge("longhand_write_state", "1 for the current state of writes, 0 for the others.");
const PENDING: Family = gauge(
    "longhand_checkpoint_pending_bytes",
    "Bytes of the log that were not in the database at the last checkpoint attempt.",
);
const FOLDING: Family = gauge("longhand_checkpoint_failures", "Failed checkpoints in a row.");
const ERASURES: Family =
    gauge("longhand_pending_erasures", "Erasures whose bytes may still be in the database's files.");
const EVENTS: Family = counter("longhand_events", "Committed changes in the store.");
const DATABASE: Family = gauge("longhand_database_bytes", "Size of the database and its log on disk.");
const LOG: Family = gauge("longhand_wal_bytes", "Size of the write-ahead log on disk.");
const QUEUED: Family = gauge("longhand_queued_mutations", "Mutations waiting for their commit.");
const COMMITS: Family = Family {
    name: "longhand_commit_duration_seconds",
    kind: Kind::Histogram,
    help: "Commits by duration, from the first statement until they are durable, since the start of the daemon.",
};
const OLDEST_READ: Family =
    gauge("longhand_oldest_read_seconds", "Age of the oldest read of the store in progress, 0 without one.");
const LOADED: Family = gauge("longhand_loaded_sessions", "Sessions in memory.");
const LOADED_BYTES: Family = gauge("longhand_loaded_session_bytes", "Approximate size of the sessions in memory.");
const SCRUBBING: Family = gauge("longhand_scrub_running", "1 while a scrub verifies the store.");
const SCRUB_FINDINGS: Family =
    gauge("longhand_scrub_findings", "Findings of the last complete scrub or of the current one, whichever has more.");
const SCRUB_EVENTS: Family =
    gauge("longhand_scrub_events", "Events that the current scrub has checked, or the last one.");
const SCRUBBED: Family =
    gauge("longhand_scrub_end_timestamp_seconds", "End of the last complete scrub, since 1970; none before the first.");
const LAG: Family = gauge(
    "longhand_subscriber_lag_events",
    "Largest number of committed changes that an open event stream has not read.",
);
const SUBSCRIBERS: Family = gauge("longhand_subscribers", "Open event streams.");
const CONNECTIONS: Family = gauge("longhand_connections", "Open connections.");
const REFUSED: Family =
    counter("longhand_refused_connections", "Connections refused at the limit of connections with calls.");
const FAILED_ACCEPTS: Family =
    counter("longhand_failed_accepts", "Connections not accepted for lack of descriptors or memory.");
const STALLED: Family =
    counter("longhand_stalled_answers", "Answers cancelled because their clients did not read them.");
const DROPPED: Family = counter(
    "longhand_dropped_connections",
    "Connections ended because their clients read nothing, asked for nothing in time, or were strangers in the way.",
);
const UNWRITTEN: Family =
    counter("longhand_unwritten_log_lines", "Lines about clients that were counted and not written to the log.");
/// Labels: `kind` (`answers`, `requests`, `views`).
const HELD: Family =
    gauge("longhand_client_memory_bytes", "Memory of unread answers and unfinished requests and views of clients.");
const SESSIONS: Family = gauge("longhand_sessions", "Sessions in the store.");
const DUE: Family = gauge("longhand_sessions_due", "Sessions due for an evaluation by the scheduler, up to 10000.");
/// Labels: `guard` (`breaker`, `cooldown`, `overhead`, `undo`).
const GUARDED: Family =
    gauge("longhand_sessions_guarded", "Sessions with automatic compactions held by a guard, up to 10000 each.");
/// Labels: `reason` (`pending`, `confirmation`, `retry`, `automatic_off`, `undo_hold`, `fixed_content`,
/// `last_resort_failed`).
const OVER_WINDOW: Family =
    gauge("longhand_sessions_over_window", "Sessions with a view that exceeds its window, up to 10000 in all.");
const READY: Family =
    gauge("longhand_compactions_ready", "Compactions waiting for a worker or for their next attempt.");
const RUNNING: Family = gauge("longhand_compactions_running", "Running compactions.");
const SCHEDULER: Family =
    gauge("longhand_scheduler_stopped", "1 if the scheduler cannot read the store, so that there are no compactions.");
const FAILING: Family =
    gauge("longhand_sessions_failing", "Sessions waiting for a retry after failed work of the scheduler, up to 100.");
/// Labels: `kind`, `level` (`none` for maintenance), `trigger` (`unknown` if it ended before triggers were counted),
/// `outcome`.
const COMPACTIONS: Family = counter("longhand_compactions", "Ended compactions.");
/// Same labels as `longhand_compactions_total`.
const FREED: Family =
    counter("longhand_compaction_freed_tokens", "Estimated tokens that compactions removed from views.");
/// Labels: `kind` (`check`, `commit`, `file`).
const CONTRADICTIONS: Family =
    counter("longhand_summary_contradictions", "Claims in summaries that the history contradicts.");
/// Labels of this family and the next: `tenant` (empty for the default tenant), `quota` (its name in the configuration).
const QUOTA_USED: Family = gauge("longhand_quota_used", "What tenants use of the quotas that they have.");
const QUOTA_LIMIT: Family = gauge("longhand_quota_limit", "The quotas of tenants.");
/// Labels: `rule`, `action` (`warn`, `redact`, `refuse`).
const SECRETS: Family =
    counter("longhand_secrets", "Secrets that rules found in requests, since the start of the daemon.");
/// Labels of this family and the following: `summarizer`, `model` (empty for those beyond the first 200).
const REQUESTS: Family = counter("longhand_summary_requests", "Requests to models for summaries.");
const FAILURES: Family =
    counter("longhand_summary_request_failures", "Requests to models without a summary as result.");
const UNPRICED: Family = counter("longhand_summary_unpriced_requests", "Requests to models with unknown cost.");
const TOOK: Family = counter(
    "longhand_summary_request_duration_seconds",
    "Total duration of requests to models; concurrent requests are added up.",
);
const COST: Family = counter("longhand_summary_cost_dollars", "Known cost of requests to models, in US dollars.");
/// One more label: `type` (`cache_read`, `cache_write`, `input`, `output`, `reasoning`).
const TOKENS: Family = counter("longhand_summary_tokens", "Tokens of requests to models, as reported by providers.");
/// Labels of this family and the following: `summarizer`, `model`; here also `state` (`closed`, `half_open`, `open`,
/// `paused`).
const BREAKER: Family =
    gauge("longhand_provider_breaker_state", "1 for the current state of a provider's breaker, 0 for the others.");
const CLOSED_UNTIL: Family = gauge(
    "longhand_provider_resume_timestamp_seconds",
    "End of a provider's pause or open breaker, since 1970; no sample otherwise.",
);
const IN_A_ROW: Family = gauge("longhand_provider_failures", "Transient failures of a provider in a row.");
const ON_THEIR_WAY: Family = gauge("longhand_provider_requests_running", "Running requests to a provider.");
const WAITING: Family = gauge("longhand_provider_requests_waiting", "Requests waiting for a slot of a provider.");
const SLOTS: Family = gauge("longhand_provider_slots", "Maximum number of concurrent requests to a provider.");

/// Labels with their values, in the order in which they are printed.
type Labels = Vec<(&'static str, String)>;

/// The families with their samples, for the encoder.
#[derive(Debug, Default)]
struct Exposition {
    families: Vec<(Family, Samples)>,
}

#[derive(Debug)]
enum Samples {
    /// By labels, in units of a scale. Samples with equal labels are added up, since no reader accepts duplicates.
    Values(BTreeMap<Labels, i64>, Scale),
    /// Sum in microseconds, count, and the count of each bucket by its bound.
    Histogram(i64, i64, Vec<(f64, u64)>),
}

impl Exposition {
    fn family(&mut self, family: Family, scale: Scale, samples: impl IntoIterator<Item = (Labels, i64)>) {
        let mut sums: BTreeMap<Labels, i64> = BTreeMap::new();
        for (labels, value) in samples {
            let sum = sums.entry(labels).or_default();
            *sum = sum.saturating_add(value);
        }
        self.families.push((family, Samples::Values(sums, scale)));
    }

    /// Adds the histogram of the commits' durations.
    fn commits(&mut self, writer: &pb::WriterState) {
        let mut below = 0;
        let mut buckets = Vec::new();
        // The daemon counts all up to a bound, the encoder those of each bucket.
        let bounds = writer.commit_buckets.iter().map(|bucket| (bucket.max_duration_us, bucket.commit_count));
        let bounds = bounds.map(|(bound, count)| (Scale::Millionths.value(bound), count));
        for (bound, count) in bounds.chain([(f64::INFINITY, writer.commit_count)]) {
            buckets.push((bound, u64::try_from(count - below).unwrap_or(0)));
            below = count;
        }
        let samples = Samples::Histogram(writer.commit_duration_us, writer.commit_count, buckets);
        self.families.push((COMMITS, samples));
    }

    /// Adds a family with one sample and no labels.
    fn figure(&mut self, family: Family, value: i64) {
        self.family(family, Scale::Whole, [(Vec::new(), value)]);
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (family, samples) in &self.families {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            match samples {
                Samples::Values(values, scale) => {
                    for (labels, value) in values {
                        sample(metric.encode_family(labels)?, family.kind, *scale, *value)?;
                    }
                }
                Samples::Histogram(sum, count, buckets) => {
                    let count = u64::try_from(*count).unwrap_or(0);
                    metric.encode_histogram::<Labels>(Scale::Millionths.value(*sum), count, buckets, None)?;
                }
            }
        }
        Ok(())
    }
}

fn sample(mut metric: MetricEncoder<'_>, kind: Kind, scale: Scale, value: i64) -> fmt::Result {
    match (kind, scale) {
        (Kind::Counter, Scale::Whole) => {
            metric.encode_counter::<Labels, _, u64>(&u64::try_from(value).unwrap_or(0), None)
        }
        (Kind::Counter, _) => metric.encode_counter::<Labels, _, f64>(&scale.value(value), None),
        (_, Scale::Whole) => metric.encode_gauge(&value),
        (..) => metric.encode_gauge(&scale.value(value)),
    }
}

/// Unit of a value, as a fraction of the printed unit.
#[derive(Debug, Clone, Copy)]
enum Scale {
    Whole,
    Thousandths,
    Millionths,
}

impl Scale {
    fn value(self, value: i64) -> f64 {
        let parts = match self {
            Self::Whole => 1.0,
            Self::Thousandths => 1e3,
            Self::Millionths => 1e6,
        };
        value as f64 / parts
    }
}

/// The value of an enum as a label: `COMPACTION_STATE_DONE` is `done`.
fn label(name: &str, prefix: &str, unspecified: &str) -> String {
    match name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase() {
        word if word == "unspecified" => unspecified.to_owned(),
        word => word,
    }
}

fn ended_labels(counter: &pb::CompactionCount) -> Labels {
    vec![
        ("kind", label(counter.kind().as_str_name(), "COMPACTION_KIND_", "unknown")),
        ("level", label(counter.level().as_str_name(), "COMPACTION_LEVEL_", "none")),
        ("trigger", label(counter.trigger().as_str_name(), "COMPACTION_TRIGGER_", "unknown")),
        ("outcome", label(counter.state().as_str_name(), "COMPACTION_STATE_", "unknown")),
    ]
}

fn summarizer_labels(summarizer: &str, model: &str) -> Labels {
    vec![("summarizer", summarizer.to_owned()), ("model", model.to_owned())]
}

/// Microseconds since 1970.
fn micros(time: &prost_types::Timestamp) -> i64 {
    time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000)
}

/// The metrics of a daemon as text.
pub fn text(info: &pb::GetServerInfoResponse) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(exposition(info)));
    let mut text = String::new();
    // A string takes all that is written to it.
    let _ = text::encode(&mut text, &registry);
    text
}

fn exposition(info: &pb::GetServerInfoResponse) -> Exposition {
    let mut exposition = Exposition::default();
    let build = vec![("version", info.version.clone()), ("database_version", info.database_version.clone())];
    exposition.family(BUILD, Scale::Whole, [(build, 1)]);
    exposition.family(STARTED, Scale::Millionths, info.start_time.as_ref().map(|time| (Vec::new(), micros(time))));
    let clock = info.clock.unwrap_or_default();
    exposition.figure(CLOCK_CONFIRMED, i64::from(clock.confirmed));
    let ahead = [clock.event_time, clock.present_time].map(|time| time.as_ref().map_or(0, micros));
    exposition.family(CLOCK_AHEAD, Scale::Millionths, [(Vec::new(), (ahead[0] - ahead[1]).max(0))]);
    exposition.figure(WRITABLE, i64::from(info.write_state() == pb::WriteState::Accepted));
    exposition.family(WRITES, Scale::Whole, writes(info.write_state()));
    let checkpoint = info.checkpoint.clone().unwrap_or_default();
    exposition.figure(PENDING, checkpoint.pending_bytes);
    exposition.figure(FOLDING, checkpoint.failure_count);
    exposition.figure(ERASURES, info.erasure.as_ref().map_or(0, |erasure| erasure.pending_count));
    exposition.figure(EVENTS, info.head_seq);
    exposition.figure(DATABASE, info.database_bytes);
    let writer = info.writer.clone().unwrap_or_default();
    exposition.figure(LOG, writer.log_bytes);
    exposition.figure(QUEUED, writer.queued_mutation_count);
    exposition.commits(&writer);
    exposition.family(OLDEST_READ, Scale::Thousandths, [(Vec::new(), info.oldest_read_ms)]);
    exposition.figure(LOADED, info.loaded_session_count);
    exposition.figure(LOADED_BYTES, info.loaded_session_bytes);
    let scrub = info.scrub.clone().unwrap_or_default();
    exposition.figure(SCRUBBING, i64::from(scrub.running));
    exposition.figure(SCRUB_FINDINGS, scrub.finding_count);
    exposition.figure(SCRUB_EVENTS, scrub.event_count);
    exposition.family(SCRUBBED, Scale::Millionths, scrub.end_time.as_ref().map(|time| (Vec::new(), micros(time))));
    exposition.figure(LAG, info.subscriber_lag_count);
    exposition.figure(SUBSCRIBERS, info.subscriber_count);
    let traffic = info.traffic.unwrap_or_default();
    exposition.figure(CONNECTIONS, traffic.connection_count);
    exposition.figure(REFUSED, traffic.refused_connection_count);
    exposition.figure(FAILED_ACCEPTS, traffic.failed_accept_count);
    exposition.figure(STALLED, traffic.stalled_answer_count);
    exposition.figure(DROPPED, traffic.dropped_connection_count);
    exposition.figure(UNWRITTEN, traffic.unwritten_line_count);
    let reserved =
        [("answers", traffic.answer_bytes), ("requests", traffic.request_bytes), ("views", traffic.view_bytes)];
    exposition.family(HELD, Scale::Whole, reserved.map(|(kind, bytes)| (vec![("kind", kind.to_owned())], bytes)));
    exposition.figure(SESSIONS, info.session_count);
    exposition.figure(DUE, info.due_session_count);
    exposition.figure(SCHEDULER, i64::from(info.scheduler_failure.is_some()));
    exposition.figure(FAILING, i64::try_from(info.failing_session_ids.len()).unwrap_or(i64::MAX));
    let guards = [
        ("breaker", info.breaker_session_count),
        ("cooldown", info.cooldown_session_count),
        ("overhead", info.overhead_session_count),
        ("undo", info.undo_session_count),
    ];
    exposition.family(GUARDED, Scale::Whole, guards.map(|(guard, count)| (vec![("guard", guard.to_owned())], count)));
    let reason = |count: &pb::OverWindowCount| label(count.reason().as_str_name(), "OVER_WINDOW_REASON_", "unknown");
    let over_window =
        info.over_window_counts.iter().map(|count| (vec![("reason", reason(count))], count.session_count));
    exposition.family(OVER_WINDOW, Scale::Whole, over_window);
    exposition.figure(READY, info.ready_compaction_count);
    exposition.figure(RUNNING, info.running_compaction_count);
    exposition.family(
        COMPACTIONS,
        Scale::Whole,
        info.compactions.iter().map(|counter| (ended_labels(counter), counter.count)),
    );
    let done = info.compactions.iter().filter(|counter| counter.state() == pb::CompactionState::Done);
    exposition.family(FREED, Scale::Whole, done.map(|counter| (ended_labels(counter), counter.freed_tokens)));
    let kind = |counter: &pb::ContradictionCount| label(counter.kind().as_str_name(), "CONTRADICTION_KIND_", "unknown");
    let contradicted = info.contradictions.iter().map(|counter| (vec![("kind", kind(counter))], counter.count));
    exposition.family(CONTRADICTIONS, Scale::Whole, contradicted);
    let quota = |of: &pb::QuotaUse| vec![("tenant", of.tenant.clone()), ("quota", of.quota.clone())];
    exposition.family(QUOTA_USED, Scale::Whole, info.quota_uses.iter().map(|of| (quota(of), of.used)));
    exposition.family(QUOTA_LIMIT, Scale::Whole, info.quota_uses.iter().map(|of| (quota(of), of.limit)));
    let action = |of: &pb::SecretRule| label(of.action().as_str_name(), "SECRET_ACTION_", "unknown");
    let rule = |of: &pb::SecretRule| vec![("rule", of.rule.clone()), ("action", action(of))];
    exposition.family(SECRETS, Scale::Whole, info.secret_rules.iter().map(|of| (rule(of), of.found_count)));
    spendings(&mut exposition, &info.spendings);
    providers(&mut exposition, &info.providers);
    exposition
}

/// One sample for each write state: 1 for the current one, 0 for the others.
fn writes(now: pb::WriteState) -> impl Iterator<Item = (Labels, i64)> {
    const STATES: [pb::WriteState; 5] = [
        pb::WriteState::Accepted,
        pb::WriteState::DiskFailed,
        pb::WriteState::FilesReplaced,
        pb::WriteState::StorageFull,
        pb::WriteState::StorageReadOnly,
    ];
    STATES.into_iter().map(move |state| {
        let name = label(state.as_str_name(), "WRITE_STATE_", "unknown");
        (vec![("state", name)], i64::from(state == now))
    })
}

fn spendings(exposition: &mut Exposition, spendings: &[pb::SummarizerSpending]) {
    let of = |figure: fn(&pb::SummarizerSpending) -> i64| {
        spendings.iter().map(move |spent| (summarizer_labels(&spent.summarizer, &spent.model), figure(spent)))
    };
    exposition.family(REQUESTS, Scale::Whole, of(|spent| spent.request_count));
    exposition.family(FAILURES, Scale::Whole, of(|spent| spent.failure_count));
    exposition.family(UNPRICED, Scale::Whole, of(|spent| spent.unpriced_count));
    exposition.family(TOOK, Scale::Thousandths, of(|spent| spent.duration_ms));
    exposition.family(COST, Scale::Millionths, of(|spent| spent.cost_micro_usd));
    let used = |spent: &pb::SummarizerSpending| {
        let usage = spent.usage.unwrap_or_default();
        let labels = summarizer_labels(&spent.summarizer, &spent.model);
        [
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ]
        .map(|(of, tokens)| ([labels.clone(), vec![("type", of.to_owned())]].concat(), tokens))
    };
    exposition.family(TOKENS, Scale::Whole, spendings.iter().flat_map(used));
}

fn providers(exposition: &mut Exposition, providers: &[pb::ProviderState]) {
    const STATES: [pb::BreakerState; 4] =
        [pb::BreakerState::Closed, pb::BreakerState::HalfOpen, pb::BreakerState::Open, pb::BreakerState::Paused];
    let of = |figure: fn(&pb::ProviderState) -> i64| {
        providers
            .iter()
            .map(move |provider| (summarizer_labels(&provider.summarizer, &provider.model), figure(provider)))
    };
    let states = |provider: &pb::ProviderState| {
        let (now, labels) = (provider.breaker_state(), summarizer_labels(&provider.summarizer, &provider.model));
        STATES.map(|state| {
            let name = label(state.as_str_name(), "BREAKER_STATE_", "unknown");
            ([labels.clone(), vec![("state", name)]].concat(), i64::from(state == now))
        })
    };
    exposition.family(BREAKER, Scale::Whole, providers.iter().flat_map(states));
    let closed = providers.iter().filter_map(|provider| {
        let until = provider.resume_time.as_ref()?;
        Some((summarizer_labels(&provider.summarizer, &provider.model), micros(until)))
    });
    exposition.family(CLOSED_UNTIL, Scale::Millionths, closed);
    exposition.family(IN_A_ROW, Scale::Whole, of(|provider| provider.failure_count));
    exposition.family(ON_THEIR_WAY, Scale::Whole, of(|provider| provider.running_count));
    exposition.family(WAITING, Scale::Whole, of(|provider| provider.waiting_count));
    exposition.family(SLOTS, Scale::Whole, of(|provider| provider.slot_count));
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;
    use std::collections::{BTreeSet, HashSet};

    /// The samples of a text that follows the format exactly. Any deviation is a panic that names the line.
    fn samples(text: &str) -> BTreeMap<String, f64> {
        let name = "[a-zA-Z_:][a-zA-Z0-9_:]*";
        let help = Regex::new(&format!(r"^# HELP ({name}) (\S.*\S)$")).expect("a pattern");
        let kind = Regex::new(&format!("^# TYPE ({name}) (counter|gauge|histogram)$")).expect("a pattern");
        let label = r#"([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\\n]|\\\\|\\"|\\n)*""#;
        let labels = Regex::new(label).expect("a pattern");
        let sample = Regex::new(&format!(
            r"^(?<name>{name})(?<labels>\{{{label}(?:,{label})*\}})? (?<value>-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)$"
        ))
        .expect("a pattern");
        assert!(text.ends_with('\n') && !text.contains("\n\n"), "lines end, and none is empty");
        let (mut helped, mut typed, mut found) = (HashSet::new(), HashSet::new(), BTreeMap::new());
        let (mut family, mut histograms, mut counters) = (String::new(), HashSet::new(), HashSet::new());
        let text = text.strip_suffix("# EOF\n").expect("the end is marked");
        for line in text.lines() {
            if let Some(parts) = help.captures(line) {
                family = parts[1].to_owned();
                assert!(helped.insert(family.clone()), "one help each: {line}");
            } else if let Some(parts) = kind.captures(line) {
                assert_eq!(parts[1], family, "the type follows the help: {line}");
                if &parts[2] == "histogram" {
                    histograms.insert(family.clone());
                }
                counters.extend((&parts[2] == "counter").then(|| family.clone()));
                assert!(family.starts_with("longhand_") && typed.insert(family.clone()), "{line}");
            } else {
                let parts = sample.captures(line).unwrap_or_else(|| panic!("no sample: {line:?}"));
                let name = &parts["name"];
                let of_histogram = ["_bucket", "_sum", "_count"].map(|suffix| format!("{family}{suffix}"));
                let is_own = if histograms.contains(&family) {
                    of_histogram.iter().any(|own| own == name)
                } else if counters.contains(&family) {
                    *name == format!("{family}_total")
                } else {
                    name == family
                };
                assert!(is_own && typed.contains(&family), "out of its family: {line}");
                let label_text = parts.name("labels").map_or("", |labels| labels.as_str());
                let names: Vec<String> = labels.captures_iter(label_text).map(|label| label[1].to_owned()).collect();
                assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a label twice: {line}");
                let value: f64 = parts["value"].parse().expect("a number");
                assert!(found.insert(format!("{name}{label_text}"), value).is_none(), "a sample twice: {line}");
            }
        }
        assert_eq!(helped, typed);
        found
    }

    fn info() -> pb::GetServerInfoResponse {
        let counter = |kind: pb::CompactionKind, state: pb::CompactionState, count, freed_tokens| pb::CompactionCount {
            kind: kind.into(),
            level: pb::CompactionLevel::Auto.into(),
            state: state.into(),
            count,
            freed_tokens,
            trigger: pb::CompactionTrigger::Threshold.into(),
        };
        let (summary, done) = (pb::CompactionKind::Summary, pb::CompactionState::Done);
        let usage = pb::Usage { input_tokens: 70, output_tokens: 9, ..pb::Usage::default() };
        let spending = pb::SummarizerSpending {
            summarizer: "strong".into(),
            model: "a \"b\" \\ c\nd".into(),
            request_count: 3,
            usage: Some(usage),
            cost_micro_usd: 1_000_280,
            duration_ms: 61_005,
            ..pb::SummarizerSpending::default()
        };
        let provider = pb::ProviderState {
            summarizer: "strong".into(),
            model: "m".into(),
            breaker_state: pb::BreakerState::HalfOpen.into(),
            failure_count: 5,
            slot_count: 8,
            ..pb::ProviderState::default()
        };
        let until = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 250_000_000 };
        let open = pb::ProviderState {
            model: "n".into(),
            breaker_state: pb::BreakerState::Open.into(),
            resume_time: Some(until),
            ..provider.clone()
        };
        // A newer daemon may send a level that this version does not know: its figures count as those without a level.
        let maintenance = pb::CompactionCount { level: 0, ..counter(pb::CompactionKind::Prune, done, 1, 5) };
        let unknown = pb::CompactionCount { level: 77, ..counter(pb::CompactionKind::Prune, done, 2, 6) };
        pb::GetServerInfoResponse {
            version: "0.1.0".into(),
            write_state: pb::WriteState::Accepted.into(),
            checkpoint: Some(pb::CheckpointState { pending_bytes: 7, failure_count: 2, failure: "why".into() }),
            writer: Some(pb::WriterState {
                queued_mutation_count: 5,
                commit_count: 4,
                commit_duration_us: 2_250_300,
                commit_buckets: vec![
                    pb::CommitBucket { max_duration_us: 250, commit_count: 2 },
                    pb::CommitBucket { max_duration_us: 1_000_000, commit_count: 3 },
                ],
                log_bytes: 8_192,
            }),
            erasure: Some(pb::ErasureState { pending_count: 4, pending_files: vec!["longhand.db".into()] }),
            oldest_read_ms: 1_500,
            loaded_session_count: 2,
            loaded_session_bytes: 9_000,
            subscriber_lag_count: 6,
            scrub: Some(pb::ScrubState {
                running: true,
                end_time: Some(until),
                event_count: 11,
                finding_count: 3,
                ..pb::ScrubState::default()
            }),
            head_seq: 12,
            start_time: Some(until),
            compactions: vec![
                counter(summary, done, 2, 900),
                counter(summary, pb::CompactionState::Failed, 4, 0),
                maintenance,
                unknown,
            ],
            cooldown_session_count: 7,
            over_window_counts: vec![pb::OverWindowCount {
                reason: pb::OverWindowReason::FixedContent.into(),
                session_count: 4,
            }],
            scheduler_failure: Some(pb::SchedulerFailure::default()),
            failing_session_ids: vec!["ses_1".to_owned()],
            contradictions: vec![pb::ContradictionCount { kind: pb::ContradictionKind::Commit.into(), count: 3 }],
            quota_uses: vec![pb::QuotaUse { tenant: "acme".to_owned(), quota: "bytes".to_owned(), used: 8, limit: 9 }],
            secret_rules: vec![pb::SecretRule {
                rule: "aws-access-token".to_owned(),
                action: pb::SecretAction::Redact.into(),
                found_count: 5,
            }],
            spendings: vec![spending],
            providers: vec![provider, open],
            ..pb::GetServerInfoResponse::default()
        }
    }

    #[test]
    fn every_figure_is_in_the_format() {
        let found = samples(&text(&info()));
        let model = r#"summarizer="strong",model="a \"b\" \\ c\nd""#;
        let of = |kind: &str, level: &str, outcome: &str| {
            format!(r#"{{kind="{kind}",level="{level}",trigger="threshold",outcome="{outcome}"}}"#)
        };
        for (sample, expected) in [
            (r#"longhand_build_info{version="0.1.0",database_version=""}"#.to_owned(), 1.0),
            ("longhand_start_timestamp_seconds".to_owned(), 1_700_000_000.25),
            ("longhand_writable".to_owned(), 1.0),
            (r#"longhand_write_state{state="accepted"}"#.to_owned(), 1.0),
            (r#"longhand_write_state{state="storage_full"}"#.to_owned(), 0.0),
            ("longhand_checkpoint_pending_bytes".to_owned(), 7.0),
            (r#"longhand_quota_used{tenant="acme",quota="bytes"}"#.to_owned(), 8.0),
            (r#"longhand_quota_limit{tenant="acme",quota="bytes"}"#.to_owned(), 9.0),
            (r#"longhand_secrets_total{rule="aws-access-token",action="redact"}"#.to_owned(), 5.0),
            ("longhand_checkpoint_failures".to_owned(), 2.0),
            ("longhand_pending_erasures".to_owned(), 4.0),
            ("longhand_events_total".to_owned(), 12.0),
            ("longhand_wal_bytes".to_owned(), 8_192.0),
            ("longhand_queued_mutations".to_owned(), 5.0),
            (r#"longhand_commit_duration_seconds_bucket{le="0.00025"}"#.to_owned(), 2.0),
            (r#"longhand_commit_duration_seconds_bucket{le="1.0"}"#.to_owned(), 3.0),
            (r#"longhand_commit_duration_seconds_bucket{le="+Inf"}"#.to_owned(), 4.0),
            ("longhand_commit_duration_seconds_sum".to_owned(), 2.250_3),
            ("longhand_commit_duration_seconds_count".to_owned(), 4.0),
            ("longhand_oldest_read_seconds".to_owned(), 1.5),
            ("longhand_scrub_running".to_owned(), 1.0),
            ("longhand_scrub_findings".to_owned(), 3.0),
            ("longhand_scrub_events".to_owned(), 11.0),
            ("longhand_scrub_end_timestamp_seconds".to_owned(), 1_700_000_000.25),
            ("longhand_loaded_sessions".to_owned(), 2.0),
            ("longhand_loaded_session_bytes".to_owned(), 9_000.0),
            ("longhand_subscriber_lag_events".to_owned(), 6.0),
            ("longhand_scheduler_stopped".to_owned(), 1.0),
            ("longhand_sessions_failing".to_owned(), 1.0),
            (r#"longhand_sessions_guarded{guard="cooldown"}"#.to_owned(), 7.0),
            (r#"longhand_sessions_over_window{reason="fixed_content"}"#.to_owned(), 4.0),
            (format!("longhand_compactions_total{}", of("summary", "auto", "done")), 2.0),
            (format!("longhand_compactions_total{}", of("summary", "auto", "failed")), 4.0),
            (format!("longhand_compactions_total{}", of("prune", "none", "done")), 3.0),
            (format!("longhand_compaction_freed_tokens_total{}", of("summary", "auto", "done")), 900.0),
            (format!("longhand_compaction_freed_tokens_total{}", of("prune", "none", "done")), 11.0),
            (r#"longhand_summary_contradictions_total{kind="commit"}"#.to_owned(), 3.0),
            (format!("longhand_summary_requests_total{{{model}}}"), 3.0),
            (format!("longhand_summary_request_duration_seconds_total{{{model}}}"), 61.005),
            (format!("longhand_summary_cost_dollars_total{{{model}}}"), 1.000_28),
            (format!(r#"longhand_summary_tokens_total{{{model},type="input"}}"#), 70.0),
            (format!(r#"longhand_summary_tokens_total{{{model},type="output"}}"#), 9.0),
            (r#"longhand_provider_breaker_state{summarizer="strong",model="m",state="half_open"}"#.to_owned(), 1.0),
            (r#"longhand_provider_breaker_state{summarizer="strong",model="m",state="open"}"#.to_owned(), 0.0),
            (r#"longhand_provider_breaker_state{summarizer="strong",model="n",state="open"}"#.to_owned(), 1.0),
            (r#"longhand_provider_failures{summarizer="strong",model="m"}"#.to_owned(), 5.0),
            (
                r#"longhand_provider_resume_timestamp_seconds{summarizer="strong",model="n"}"#.to_owned(),
                1_700_000_000.25,
            ),
            (r#"longhand_provider_slots{summarizer="strong",model="m"}"#.to_owned(), 8.0),
        ] {
            assert_eq!(found.get(&sample), Some(&expected), "{sample}: {found:#?}");
        }
        let closed = r#"longhand_provider_resume_timestamp_seconds{summarizer="strong",model="m"}"#;
        assert_eq!(found.get(closed), None, "it gets requests");
        let freed = format!("longhand_compaction_freed_tokens_total{}", of("summary", "auto", "failed"));
        assert_eq!(found.get(&freed), None, "what failed frees nothing");
    }

    #[test]
    fn a_new_daemon_reports_every_family_too() {
        let families = |text: &str| -> BTreeSet<String> {
            text.lines().filter(|line| line.starts_with("# TYPE ")).map(str::to_owned).collect()
        };
        let new = text(&pb::GetServerInfoResponse::default());
        assert_eq!(samples(&new).get("longhand_writable"), Some(&0.0));
        assert_eq!(families(&new), families(&text(&info())));
    }
}
