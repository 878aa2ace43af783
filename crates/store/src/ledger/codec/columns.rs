//! Disk formats of the columns that are no event, mark, layout or part, and of what those have in common.

use crate::error::{Error, Result};
use crate::model::approval::ApprovalEndReason;
use crate::model::compaction::{
    CompactionKind, CompactionState, Contradiction, ContradictionKind, Failure, FailureReason, Level, Outcome,
    RevisionRange, Trigger,
};
use crate::model::event::ErasedTarget;
use crate::model::ids::MessageId;
use crate::model::layout::OmitReason;
use crate::model::message::{FinishReason, MessageKind, Role};
use crate::model::part::ResultStatus;
use crate::model::prompt::Delivery;
use crate::model::run::RunEndReason;
use crate::model::session::{OverWindowReason, SessionState};
use crate::model::usage::{ModelWindow, Usage, UsageTotals, WindowSource};
use uuid::Uuid;

/// Gives every closed enum a fixed number on disk, and refuses unknown ones.
macro_rules! numbers {
    ($type:ty, $table:literal, $( $variant:path = $number:literal ),+ $(,)?) => {
        impl Number for $type {
            fn number(self) -> i32 {
                match self { $( $variant => $number ),+ }
            }

            fn from_number(number: i32) -> Result<Self> {
                match number {
                    $( $number => Ok($variant), )+
                    other => Err(Error::corrupt($table, format_args!("unknown {} {other}", stringify!($type)))),
                }
            }
        }
    };
}

/// A closed enum with fixed numbers on disk.
pub(crate) trait Number: Sized {
    /// The number on disk.
    fn number(self) -> i32;
    /// The value with this number; an error for an unknown number.
    fn from_number(number: i32) -> Result<Self>;
}

numbers!(Role, "message", Role::User = 1, Role::Assistant = 2, Role::Tool = 3, Role::System = 4);
numbers!(
    MessageKind,
    "message",
    MessageKind::Normal = 1,
    MessageKind::Record = 2,
    MessageKind::Edit = 3,
    MessageKind::Summary = 4,
    MessageKind::Marker = 5,
    MessageKind::Branch = 6,
    MessageKind::Continuation = 7,
    MessageKind::Replay = 8
);
numbers!(
    FinishReason,
    "message",
    FinishReason::Stop = 1,
    FinishReason::ToolCalls = 2,
    FinishReason::Length = 3,
    FinishReason::ContentFilter = 4,
    FinishReason::Error = 5,
    FinishReason::Aborted = 6
);
numbers!(WindowSource, "window", WindowSource::Client = 0, WindowSource::Models = 1, WindowSource::ProviderError = 2);
numbers!(ResultStatus, "part", ResultStatus::Completed = 1, ResultStatus::Error = 2, ResultStatus::Interrupted = 3);
numbers!(
    ErasedTarget,
    "erasure",
    ErasedTarget::Part = 1,
    ErasedTarget::Message = 2,
    ErasedTarget::Session = 3,
    ErasedTarget::Messages = 4
);
numbers!(SessionState, "session", SessionState::Active = 1, SessionState::Archived = 2, SessionState::Erased = 3);
numbers!(
    OverWindowReason,
    "session",
    OverWindowReason::Pending = 1,
    OverWindowReason::Confirmation = 2,
    OverWindowReason::Retry = 3,
    OverWindowReason::AutomaticOff = 4,
    OverWindowReason::UndoHold = 5,
    OverWindowReason::FixedContent = 6,
    OverWindowReason::LastResortFailed = 7,
    OverWindowReason::OtherWindow = 8,
);
numbers!(
    RunEndReason,
    "run",
    RunEndReason::Completed = 1,
    RunEndReason::Failed = 2,
    RunEndReason::Cancelled = 3,
    RunEndReason::Lost = 4
);
numbers!(Delivery, "prompt", Delivery::Queue = 1, Delivery::Steer = 2, Delivery::Interrupt = 3);
numbers!(
    ApprovalEndReason,
    "approval",
    ApprovalEndReason::Answered = 1,
    ApprovalEndReason::Expired = 2,
    ApprovalEndReason::Withdrawn = 3
);
numbers!(CompactionKind, "job", CompactionKind::Prune = 1, CompactionKind::Summary = 2, CompactionKind::Omission = 3);
numbers!(
    ContradictionKind,
    "job",
    ContradictionKind::Check = 1,
    ContradictionKind::Commit = 2,
    ContradictionKind::File = 3
);
numbers!(Level, "job", Level::Micro = 1, Level::Auto = 2, Level::Deep = 3);
numbers!(
    Trigger,
    "job",
    Trigger::Threshold = 1,
    Trigger::Maintenance = 2,
    Trigger::Manual = 3,
    Trigger::Supplied = 4,
    Trigger::Overflow = 5,
    Trigger::LastResort = 6
);
numbers!(
    CompactionState,
    "job",
    CompactionState::Ready = 1,
    CompactionState::Running = 2,
    CompactionState::Done = 3,
    CompactionState::Failed = 4,
    CompactionState::Cancelled = 5,
    CompactionState::Superseded = 6,
    CompactionState::Dead = 7
);
numbers!(
    OmitReason,
    "layout",
    OmitReason::Rewound = 1,
    OmitReason::Edited = 2,
    OmitReason::Compacted = 3,
    OmitReason::Replayed = 4
);

/// The message class of a kind of message, see the migration.
pub(crate) fn message_class(kind: MessageKind) -> i32 {
    match kind {
        MessageKind::Normal | MessageKind::Branch => 0,
        MessageKind::Summary | MessageKind::Marker | MessageKind::Continuation | MessageKind::Replay => 1,
        MessageKind::Record => 2,
        MessageKind::Edit => 3,
    }
}

/// Decodes an id's 16 bytes.
pub(crate) fn uuid(bytes: &[u8]) -> Result<Uuid> {
    Uuid::from_slice(bytes).map_err(|error| Error::corrupt("public_id", error))
}

pub(super) fn id_bytes(id: Uuid) -> Vec<u8> {
    id.as_bytes().to_vec()
}

/// Length of the check at the end of an encoded column, its CRC-32, by which a reader detects bytes that a disk has changed. It is
/// no protection against attackers; that is the purpose of the chain.
pub(super) const CHECK_BYTES: usize = 4;

pub(super) fn check_of(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// Adds the check to the bytes of a column.
pub(crate) fn with_check(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(check_of(&bytes));
    bytes
}

/// The bytes of a column without their check; an error if the check does not match.
pub(crate) fn without_check<'a>(table: &'static str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    match bytes.split_last_chunk::<CHECK_BYTES>() {
        Some((bytes, check)) if check_of(bytes) == *check => Ok(bytes),
        _ => Err(Error::corrupt(table, "the bytes are not those that were written")),
    }
}

/// A protobuf message as the bytes of a column.
pub(crate) fn encode(row: &impl prost::Message) -> Vec<u8> {
    with_check(row.encode_to_vec())
}

/// Decodes the bytes of a column.
pub(crate) fn decode<M: prost::Message + Default>(table: &'static str, bytes: &[u8]) -> Result<M> {
    decode_plain(table, without_check(table, bytes)?)
}

pub(super) fn decode_plain<M: prost::Message + Default>(table: &'static str, bytes: &[u8]) -> Result<M> {
    M::decode(bytes).map_err(|error| Error::corrupt(table, error))
}

/// The value of a field that is always written; an error if it is missing.
pub(super) fn required<T>(table: &'static str, field: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::corrupt(table, format_args!("{field} is missing")))
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskUsage {
    #[prost(int64, tag = "1")]
    input: i64,
    #[prost(int64, tag = "2")]
    output: i64,
    #[prost(int64, tag = "3")]
    reasoning: i64,
    #[prost(int64, tag = "4")]
    cache_read: i64,
    #[prost(int64, tag = "5")]
    cache_write: i64,
    #[prost(int64, optional, tag = "6")]
    total: Option<i64>,
    #[prost(double, optional, tag = "7")]
    cost_usd: Option<f64>,
    #[prost(bool, tag = "8")]
    cost_is_computed: bool,
}

impl From<Usage> for DiskUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, reasoning, cache_read, cache_write, total, cost_usd, cost_is_computed } = usage;
        Self { input, output, reasoning, cache_read, cache_write, total, cost_usd, cost_is_computed }
    }
}

impl From<DiskUsage> for Usage {
    fn from(usage: DiskUsage) -> Self {
        let DiskUsage { input, output, reasoning, cache_read, cache_write, total, cost_usd, cost_is_computed } = usage;
        Self { input, output, reasoning, cache_read, cache_write, total, cost_usd, cost_is_computed }
    }
}

/// The sum of a session's usage.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskUsageTotals {
    #[prost(int64, tag = "1")]
    input: i64,
    #[prost(int64, tag = "2")]
    output: i64,
    #[prost(int64, tag = "3")]
    reasoning: i64,
    #[prost(int64, tag = "4")]
    cache_read: i64,
    #[prost(int64, tag = "5")]
    cache_write: i64,
    #[prost(int64, tag = "6")]
    cost_micros: i64,
}

/// The bytes of `session.usage`.
pub(crate) fn encode_usage_totals(totals: &UsageTotals) -> Vec<u8> {
    let UsageTotals { input, output, reasoning, cache_read, cache_write, cost_micros } = *totals;
    encode(&DiskUsageTotals { input, output, reasoning, cache_read, cache_write, cost_micros })
}

/// Decodes the bytes of `session.usage`.
pub(crate) fn decode_usage_totals(bytes: &[u8]) -> Result<UsageTotals> {
    let DiskUsageTotals { input, output, reasoning, cache_read, cache_write, cost_micros } = decode("session", bytes)?;
    Ok(UsageTotals { input, output, reasoning, cache_read, cache_write, cost_micros })
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskWindow {
    #[prost(string, tag = "1")]
    model: String,
    #[prost(int64, tag = "2")]
    context: i64,
    #[prost(int64, optional, tag = "3")]
    input: Option<i64>,
    #[prost(int64, optional, tag = "4")]
    output: Option<i64>,
    #[prost(int64, tag = "5")]
    overhead: i64,
    #[prost(int32, tag = "6")]
    source: i32,
}

impl From<&ModelWindow> for DiskWindow {
    fn from(window: &ModelWindow) -> Self {
        let ModelWindow { model, context, input, output, overhead, source } = window.clone();
        Self { model, context, input, output, overhead, source: source.number() }
    }
}

impl TryFrom<DiskWindow> for ModelWindow {
    type Error = Error;

    fn try_from(window: DiskWindow) -> Result<Self> {
        let DiskWindow { model, context, input, output, overhead, source } = window;
        let source = WindowSource::from_number(source)?;
        Ok(Self { model, context, input, output, overhead, source })
    }
}

pub(crate) fn encode_window(window: &ModelWindow) -> Vec<u8> {
    encode(&DiskWindow::from(window))
}

pub(crate) fn decode_window(bytes: &[u8]) -> Result<ModelWindow> {
    decode::<DiskWindow>("session", bytes)?.try_into()
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskRange {
    #[prost(int64, tag = "1")]
    pub(super) first: i64,
    #[prost(int64, tag = "2")]
    pub(super) last: i64,
}

pub(super) fn ranges_to_disk(ranges: &[RevisionRange]) -> Vec<DiskRange> {
    ranges.iter().map(|range| DiskRange { first: range.first, last: range.last }).collect()
}

pub(super) fn ranges_from_disk(ranges: Vec<DiskRange>) -> Vec<RevisionRange> {
    ranges.into_iter().map(|range| RevisionRange { first: range.first, last: range.last }).collect()
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskFailure {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int64, optional, tag = "3")]
    overhead_tokens: Option<i64>,
}

impl From<&Failure> for DiskFailure {
    fn from(failure: &Failure) -> Self {
        let Failure { reason, message, overhead_tokens } = failure.clone();
        let reason = reason.as_str().to_owned();
        Self { reason, message, overhead_tokens }
    }
}

impl TryFrom<DiskFailure> for Failure {
    type Error = Error;

    fn try_from(failure: DiskFailure) -> Result<Self> {
        let DiskFailure { reason, message, overhead_tokens } = failure;
        let unknown = || Error::corrupt("job", format_args!("there is no failure {reason:?}"));
        Ok(Self { reason: FailureReason::from_name(&reason).ok_or_else(unknown)?, message, overhead_tokens })
    }
}

pub(crate) fn encode_failure(failure: &Failure) -> Vec<u8> {
    encode(&DiskFailure::from(failure))
}

pub(crate) fn decode_failure(bytes: &[u8]) -> Result<Failure> {
    decode::<DiskFailure>("job", bytes)?.try_into()
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskOutcome {
    #[prost(message, repeated, tag = "1")]
    covered: Vec<DiskRange>,
    #[prost(int64, tag = "2")]
    covered_count: i64,
    #[prost(bytes = "vec", optional, tag = "3")]
    tail_start: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    summary_message: Option<Vec<u8>>,
    #[prost(int64, tag = "5")]
    pruned_count: i64,
    #[prost(int64, tag = "6")]
    tokens_before: i64,
    #[prost(int64, tag = "7")]
    tokens_after: i64,
    #[prost(int64, tag = "8")]
    first_changed_index: i64,
    #[prost(string, tag = "9")]
    summarizer: String,
    #[prost(message, optional, tag = "10")]
    usage: Option<DiskUsage>,
    #[prost(int64, tag = "11")]
    duration_ms: i64,
    #[prost(int64, tag = "12")]
    omitted_count: i64,
    /// Absent in older rows, which did not record it.
    #[prost(bool, tag = "13")]
    supplied: bool,
    #[prost(message, optional, tag = "14")]
    stopped: Option<DiskFailure>,
    #[prost(int64, tag = "15")]
    invalidated_tokens: i64,
    #[prost(int64, optional, tag = "16")]
    usage_before: Option<i64>,
    #[prost(int64, tag = "17")]
    overhead_tokens: i64,
    #[prost(message, repeated, tag = "18")]
    contradictions: Vec<DiskContradiction>,
    #[prost(int64, optional, tag = "19")]
    quoted_until: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DiskContradiction {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    claim: String,
    #[prost(string, tag = "3")]
    history: String,
    #[prost(bytes = "vec", optional, tag = "4")]
    message: Option<Vec<u8>>,
}

impl From<&Contradiction> for DiskContradiction {
    fn from(found: &Contradiction) -> Self {
        let Contradiction { kind, claim, history, message } = found;
        let message = message.map(|id| id_bytes(id.0));
        Self { kind: kind.number(), claim: claim.clone(), history: history.clone(), message }
    }
}

impl TryFrom<DiskContradiction> for Contradiction {
    type Error = Error;

    fn try_from(found: DiskContradiction) -> Result<Self> {
        let message = found.message.map(|id| uuid(&id).map(MessageId)).transpose()?;
        let kind = ContradictionKind::from_number(found.kind)?;
        Ok(Self { kind, claim: found.claim, history: found.history, message })
    }
}

impl From<&Outcome> for DiskOutcome {
    fn from(outcome: &Outcome) -> Self {
        Self {
            covered: ranges_to_disk(&outcome.covered),
            covered_count: outcome.covered_count,
            tail_start: outcome.tail_start.map(|id| id_bytes(id.0)),
            summary_message: outcome.summary_message.map(|id| id_bytes(id.0)),
            pruned_count: outcome.pruned_count,
            tokens_before: outcome.tokens_before,
            tokens_after: outcome.tokens_after,
            first_changed_index: outcome.first_changed_index,
            summarizer: outcome.summarizer.clone(),
            usage: outcome.usage.map(Into::into),
            duration_ms: outcome.duration_ms,
            omitted_count: outcome.omitted_count,
            supplied: outcome.supplied,
            stopped: outcome.stopped.as_ref().map(Into::into),
            invalidated_tokens: outcome.invalidated_tokens,
            usage_before: outcome.usage_before,
            overhead_tokens: outcome.overhead_tokens,
            contradictions: outcome.contradictions.iter().map(Into::into).collect(),
            quoted_until: outcome.quoted_until,
        }
    }
}

impl TryFrom<DiskOutcome> for Outcome {
    type Error = Error;

    fn try_from(outcome: DiskOutcome) -> Result<Self> {
        let message = |id: Option<Vec<u8>>| id.map(|id| uuid(&id).map(MessageId)).transpose();
        Ok(Self {
            covered: ranges_from_disk(outcome.covered),
            covered_count: outcome.covered_count,
            tail_start: message(outcome.tail_start)?,
            summary_message: message(outcome.summary_message)?,
            pruned_count: outcome.pruned_count,
            tokens_before: outcome.tokens_before,
            tokens_after: outcome.tokens_after,
            first_changed_index: outcome.first_changed_index,
            summarizer: outcome.summarizer,
            usage: outcome.usage.map(Into::into),
            duration_ms: outcome.duration_ms,
            omitted_count: outcome.omitted_count,
            supplied: outcome.supplied,
            stopped: outcome.stopped.map(TryInto::try_into).transpose()?,
            invalidated_tokens: outcome.invalidated_tokens,
            usage_before: outcome.usage_before,
            overhead_tokens: outcome.overhead_tokens,
            contradictions: outcome.contradictions.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            quoted_until: outcome.quoted_until,
        })
    }
}

pub(crate) fn encode_usage(usage: Usage) -> Vec<u8> {
    encode(&DiskUsage::from(usage))
}

pub(crate) fn decode_usage(bytes: &[u8]) -> Result<Usage> {
    decode::<DiskUsage>("summary_request", bytes).map(Into::into)
}

pub(crate) fn encode_outcome(outcome: &Outcome) -> Vec<u8> {
    encode(&DiskOutcome::from(outcome))
}

pub(crate) fn decode_outcome(bytes: &[u8]) -> Result<Outcome> {
    decode::<DiskOutcome>("job", bytes)?.try_into()
}

/// The answer to a mutation, kept so that a repeated request gets the same answer for ever.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskReceipt {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
    #[prost(int64, tag = "2")]
    pub(crate) seq: i64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) ids: Vec<Vec<u8>>,
    #[prost(int64, tag = "4")]
    pub(crate) existed_count: i64,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(crate) erased: Vec<Vec<u8>>,
}
