//! The daemon's description of itself, over gRPC.

use super::backup;
use super::caller::GrpcDoor;
use super::convert::compaction::{contradiction_kind, kind, state, trigger};
use super::convert::count;
use super::convert::secret::secret_rule;
use super::convert::session::{durability, level, over_window_reason, read_window, thresholds};
use crate::app::admin::{
    Breaker, COMMIT_BOUNDS_MICROS, ChainHead, CheckItem, CheckedChains, Checkpoints, ClockState, CompactionCounter,
    Figures, Finding, PendingErasures, PresetInfo, Provider, ReadFailure, Server, SummarizerSpending, WriteState,
};
use crate::app::quotas::QuotaUse;
use crate::app::scrub::{ScrubItem, ScrubState};
use crate::app::{Error, Reason};
use crate::grpc::wire;
use crate::model::compaction::ContradictionKind;
use crate::model::session::OverWindowReason;
use crate::pb;
use crate::pb::admin_service_server::AdminService;
use crate::pb::check_integrity_response::Item;
use crate::traffic::TrafficState;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::mpsc::Receiver;
use tonic::{Request, Response, Status};

/// The service of the daemon itself.
pub(super) struct Admin {
    door: GrpcDoor,
}

impl Admin {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

fn preset(preset: PresetInfo) -> pb::Preset {
    let notes = preset.notes.into_iter().map(|(field, source)| pb::PresetNote { field, source }).collect();
    pb::Preset {
        name: preset.name,
        description: preset.description,
        policy_json: preset.policy_json,
        notes,
        default_preset: preset.is_default,
        thresholds: thresholds(preset.thresholds),
    }
}

fn compaction_count(counter: &CompactionCounter) -> pb::CompactionCount {
    pb::CompactionCount {
        kind: kind(counter.kind).into(),
        level: level(counter.level).into(),
        state: state(counter.state).into(),
        count: counter.count,
        freed_tokens: counter.freed_tokens,
        trigger: counter.trigger.map_or(pb::CompactionTrigger::Unspecified, trigger).into(),
    }
}

fn over_window_count((reason, count): &(OverWindowReason, i64)) -> pb::OverWindowCount {
    pb::OverWindowCount { reason: over_window_reason(*reason).into(), session_count: *count }
}

fn contradiction_count((kind, count): &(ContradictionKind, i64)) -> pb::ContradictionCount {
    pb::ContradictionCount { kind: contradiction_kind(*kind).into(), count: *count }
}

fn quota_use(QuotaUse { tenant, quota, used, limit }: QuotaUse) -> pb::QuotaUse {
    pb::QuotaUse { tenant, quota: quota.to_owned(), used, limit }
}

fn spending(spent: SummarizerSpending) -> pb::SummarizerSpending {
    pb::SummarizerSpending {
        summarizer: spent.summarizer,
        model: spent.model,
        request_count: spent.requests,
        failure_count: spent.failures,
        usage: Some(wire::usage(spent.usage)),
        cost_micro_usd: spent.cost_micros,
        unpriced_count: spent.unpriced,
        duration_ms: spent.duration_ms,
    }
}

fn write_state(state: WriteState) -> pb::WriteState {
    match state {
        WriteState::Accepted => pb::WriteState::Accepted,
        WriteState::StorageFull => pb::WriteState::StorageFull,
        WriteState::StorageReadOnly => pb::WriteState::StorageReadOnly,
        WriteState::DiskFailed => pb::WriteState::DiskFailed,
        WriteState::FilesReplaced => pb::WriteState::FilesReplaced,
        // A daemon that lost its shard answers no call, this one neither.
        WriteState::LeaseLost => pb::WriteState::Unspecified,
    }
}

fn checkpoint(checkpoints: Checkpoints) -> pb::CheckpointState {
    pb::CheckpointState {
        pending_bytes: checkpoints.pending_bytes,
        failure_count: checkpoints.failures,
        failure: checkpoints.failure,
    }
}

fn erasure(pending: PendingErasures) -> pb::ErasureState {
    pb::ErasureState { pending_count: pending.count, pending_files: pending.files }
}

fn writer(figures: &Figures) -> pb::WriterState {
    let commits = &figures.commits;
    let bucket = |(bound, count)| pb::CommitBucket { max_duration_us: bound, commit_count: count };
    pb::WriterState {
        queued_mutation_count: figures.queued_mutations,
        commit_count: commits.count,
        commit_duration_us: commits.total_micros,
        commit_buckets: COMMIT_BOUNDS_MICROS.into_iter().zip(commits.within).map(bucket).collect(),
        log_bytes: figures.log_bytes,
    }
}

fn provider(provider: Provider) -> pb::ProviderState {
    let gate = provider.gate.state;
    let breaker = match gate.breaker {
        Breaker::Closed => pb::BreakerState::Closed,
        Breaker::Paused => pb::BreakerState::Paused,
        Breaker::Open => pb::BreakerState::Open,
        Breaker::HalfOpen => pb::BreakerState::HalfOpen,
    };
    pb::ProviderState {
        summarizer: provider.gate.summarizer,
        model: provider.gate.model,
        breaker_state: breaker.into(),
        resume_time: provider.resume_time.map(wire::timestamp),
        failure_count: gate.failures,
        running_count: gate.running,
        waiting_count: gate.waiting,
        slot_count: gate.slots,
    }
}

fn traffic(traffic: TrafficState) -> pb::TrafficState {
    let bytes = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    pb::TrafficState {
        connection_count: traffic.connections,
        refused_connection_count: traffic.refused_connections,
        failed_accept_count: traffic.failed_accepts,
        stalled_answer_count: traffic.stalled_answers,
        dropped_connection_count: traffic.dropped_connections,
        unwritten_line_count: i64::try_from(crate::telemetry::unwritten_lines()).unwrap_or(i64::MAX),
        answer_bytes: bytes(traffic.answer_bytes),
        request_bytes: bytes(traffic.request_bytes),
        view_bytes: bytes(traffic.view_bytes),
    }
}

fn clock(clock: &ClockState) -> pb::ClockState {
    let ClockState { present, event_time, certain, system, is_confirmed } = clock;
    pb::ClockState {
        system_time: Some(wire::timestamp(*system)),
        present_time: Some(wire::timestamp(*present)),
        event_time: Some(wire::timestamp(*event_time)),
        confirmed: *is_confirmed,
        certain_time: Some(wire::timestamp(*certain)),
    }
}

fn scheduler_failure(failure: ReadFailure) -> pb::SchedulerFailure {
    let ReadFailure { message, since, attempts } = failure;
    pb::SchedulerFailure { message, since_time: Some(wire::timestamp(since)), attempt_count: attempts }
}

fn head(head: ChainHead) -> pb::Head {
    pb::Head { session_id: head.session.to_string(), revision: head.revision, hash: head.hash.unwrap_or_default() }
}

fn item(item: CheckItem) -> pb::CheckIntegrityResponse {
    let item = match item {
        CheckItem::Finding(found) => Item::Finding(finding(&found)),
        CheckItem::End(checked) => Item::End(end(checked)),
    };
    pb::CheckIntegrityResponse { item: Some(item) }
}

fn finding(finding: &Finding) -> pb::IntegrityFinding {
    pb::IntegrityFinding {
        session_id: finding.session.map(|session| session.to_string()).unwrap_or_default(),
        revision: finding.revision,
        message: finding.message.clone(),
    }
}

fn end(checked: CheckedChains) -> pb::IntegrityEnd {
    let CheckedChains { sessions, events, findings } = checked;
    pb::IntegrityEnd { session_count: sessions, event_count: events, finding_count: findings }
}

fn scrub(state: &ScrubState) -> pb::ScrubState {
    pb::ScrubState {
        running: state.running,
        start_time: state.start_time.map(wire::timestamp),
        end_time: state.end_time.map(wire::timestamp),
        session_count: state.checked.sessions,
        event_count: state.checked.events,
        finding_count: state.finding_count(),
        findings: state.findings.iter().map(finding).collect(),
    }
}

fn scrub_item(item: ScrubItem) -> pb::StartScrubResponse {
    use pb::start_scrub_response::Item;
    let item = match item {
        ScrubItem::Finding(found) => Item::Finding(finding(&found)),
        ScrubItem::Progress(state) => Item::Progress(pb::ScrubProgress {
            session_count: state.checked.sessions,
            event_count: state.checked.events,
            finding_count: state.checked.findings,
            content_bytes: state.bytes,
        }),
        ScrubItem::End(checked) => Item::End(end(checked)),
    };
    pb::StartScrubResponse { item: Some(item) }
}

type CheckStream = BoxStream<'static, Result<pb::CheckIntegrityResponse, Status>>;

/// The check's findings as they come. A check that stops without an end is reported as an error, since a silent end
/// would mean that all is well.
fn check(items: Receiver<crate::app::Result<CheckItem>>) -> CheckStream {
    stream::unfold(Some(items), async |state| {
        let mut items = state?;
        match items.recv().await {
            Some(Ok(found @ CheckItem::Finding(_))) => Some((Ok(item(found)), Some(items))),
            Some(Ok(end @ CheckItem::End(_))) => Some((Ok(item(end)), None)),
            Some(Err(error)) => Some((Err(error.into()), None)),
            None => {
                let error = Error::new(Reason::ShuttingDown, "the daemon stopped before the check was complete");
                Some((Err(error.into()), None))
            }
        }
    })
    .boxed()
}

#[tonic::async_trait]
impl AdminService for Admin {
    type CheckIntegrityStream = CheckStream;
    type StartScrubStream = BoxStream<'static, Result<pb::StartScrubResponse, Status>>;
    type CreateBackupStream = backup::BackupStream;

    async fn get_server_info(
        &self,
        request: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let Server { store_id, durability: kept, start_time, info } = caller.daemon().describe().await?;
        let described = pb::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store_id: store_id.to_string(),
            durability: durability(kept).into(),
            start_time: Some(wire::timestamp(start_time)),
            ..pb::GetServerInfoResponse::default()
        };
        let Some(info) = info else { return Ok(Response::new(described)) };
        Ok(Response::new(pb::GetServerInfoResponse {
            head_seq: info.head_seq,
            database_version: info.database_version,
            session_count: info.session_count,
            ready_compaction_count: info.ready_count,
            running_compaction_count: info.running_count,
            subscriber_count: i64::from(count(info.stream_count)),
            database_bytes: info.database_bytes,
            write_state: write_state(info.writes).into(),
            checkpoint: Some(checkpoint(info.checkpoints)),
            compactions: info.statistics.counters.iter().map(compaction_count).collect(),
            due_session_count: info.statistics.due_count,
            breaker_session_count: info.statistics.breaker_count,
            undo_session_count: info.statistics.undo_count,
            cooldown_session_count: info.statistics.cooldown_count,
            overhead_session_count: info.statistics.overhead_count,
            over_window_counts: info.statistics.over_window.iter().map(over_window_count).collect(),
            contradictions: info.statistics.contradictions.iter().map(contradiction_count).collect(),
            stopped_session_ids: info.statistics.stopped.iter().map(ToString::to_string).collect(),
            spendings: info.spent.into_iter().map(spending).collect(),
            secret_rules: info.secret_rules.into_iter().map(secret_rule).collect(),
            quota_uses: info.quota_uses.into_iter().map(quota_use).collect(),
            providers: info.providers.into_iter().map(provider).collect(),
            traffic: Some(traffic(info.traffic)),
            scheduler_failure: info.scheduler_failure.map(scheduler_failure),
            writer: Some(writer(&info.figures)),
            oldest_read_ms: info.figures.oldest_read_ms,
            loaded_session_count: i64::from(count(info.loaded_count)),
            loaded_session_bytes: i64::try_from(info.loaded_bytes).unwrap_or(i64::MAX),
            subscriber_lag_count: info.stream_lag,
            scrub: Some(scrub(&info.scrub)),
            failing_session_ids: info.failing.iter().map(ToString::to_string).collect(),
            clock: Some(clock(&info.clock)),
            erasure: Some(erasure(info.erasures)),
            ..described
        }))
    }

    async fn list_presets(
        &self,
        request: Request<pb::ListPresetsRequest>,
    ) -> Result<Response<pb::ListPresetsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let presets =
            caller.daemon().presets(request.into_inner().window.map(read_window))?.into_iter().map(preset).collect();
        Ok(Response::new(pb::ListPresetsResponse { presets }))
    }

    async fn check_integrity(
        &self,
        request: Request<pb::CheckIntegrityRequest>,
    ) -> Result<Response<Self::CheckIntegrityStream>, Status> {
        let caller = self.door.caller(&request)?;
        let items = caller.daemon().check_integrity(request.get_ref().session_id.as_deref()).await?;
        Ok(Response::new(check(items)))
    }

    async fn start_scrub(
        &self,
        request: Request<pb::StartScrubRequest>,
    ) -> Result<Response<Self::StartScrubStream>, Status> {
        let caller = self.door.caller(&request)?;
        let items = caller.daemon().follow_scrub()?;
        let pieces = stream::unfold(items, async |mut items| {
            let piece = items.recv().await?;
            Some((piece.map(scrub_item).map_err(Status::from), items))
        });
        Ok(Response::new(pieces.boxed()))
    }

    async fn list_heads(
        &self,
        request: Request<pb::ListHeadsRequest>,
    ) -> Result<Response<pb::ListHeadsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ListHeadsRequest { session_id, page_size, page_token, at } = request.into_inner();
        let at: Vec<(String, i64)> = at.into_iter().map(|head| (head.session_id, head.revision)).collect();
        let (heads, next_page_token) =
            caller.daemon().list_heads(session_id.as_deref(), page_size.into(), &page_token, &at).await?;
        Ok(Response::new(pb::ListHeadsResponse { heads: heads.into_iter().map(head).collect(), next_page_token }))
    }

    async fn create_backup(
        &self,
        request: Request<pb::CreateBackupRequest>,
    ) -> Result<Response<Self::CreateBackupStream>, Status> {
        let caller = self.door.caller(&request)?;
        backup::create(&caller, &request)
    }

    /// A store in files has one daemon.
    async fn get_cluster(
        &self,
        request: Request<pb::GetClusterRequest>,
    ) -> Result<Response<pb::GetClusterResponse>, Status> {
        self.door.caller(&request)?.require_operator()?;
        Ok(Response::new(pb::GetClusterResponse::default()))
    }

    async fn move_shard(
        &self,
        request: Request<pb::MoveShardRequest>,
    ) -> Result<Response<pb::MoveShardResponse>, Status> {
        self.door.caller(&request)?.require_operator()?;
        let shard = &request.get_ref().shard;
        Err(Error::new(Reason::ShardNotFound, "a store in files has no shards").with("shard", shard).into())
    }
}
