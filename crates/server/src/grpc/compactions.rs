//! Compactions over gRPC.

use super::caller::GrpcDoor;
use super::convert::compaction::{
    changed, compaction, plan, read_kind, read_overflow, read_summary, request_for, simulations, summary_request,
};
use super::convert::secret::secret_findings;
use super::convert::session::{durability, read_level};
use crate::app::compactions::NewCompaction;
use crate::app::secrets::ScreenedAnswer;
use crate::pb;
use crate::pb::compaction_service_server::CompactionService;
use tonic::{Request, Response, Status};

/// The service of compactions.
pub(super) struct Compactions {
    door: GrpcDoor,
}

impl Compactions {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl CompactionService for Compactions {
    async fn start_compaction(
        &self,
        request: Request<pb::StartCompactionRequest>,
    ) -> Result<Response<pb::StartCompactionResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::StartCompactionRequest {
            session_id,
            kind,
            instructions,
            level,
            validate_only,
            covered_start_message_id: head_start_message_id,
            tail_start_message_id,
            ..
        } = request.into_inner();
        let (kind, level) = (read_kind(kind)?, read_level(level)?);
        let (head_start, tail_start) = (head_start_message_id, tail_start_message_id);
        let wanted = NewCompaction { kind, level, instructions, head_start, tail_start };
        if validate_only {
            let planned = caller.compactions().plan(&session_id, &wanted).await?;
            let plan = Some(plan(planned));
            return Ok(Response::new(pb::StartCompactionResponse { plan, ..pb::StartCompactionResponse::default() }));
        }
        let ScreenedAnswer { answer: (started, joined), secrets } =
            caller.compactions().start(&session_id, wanted).await?;
        Ok(Response::new(pb::StartCompactionResponse {
            secret_findings: secret_findings(secrets),
            compaction: Some(compaction(started)),
            joined,
            plan: None,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn report_overflow(
        &self,
        request: Request<pb::ReportOverflowRequest>,
    ) -> Result<Response<pb::ReportOverflowResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let (started, joined) = caller.compactions().report_overflow(&session, read_overflow(request)).await?;
        Ok(Response::new(pb::ReportOverflowResponse {
            compaction: Some(compaction(started)),
            joined,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn supply_summary(
        &self,
        request: Request<pb::SupplySummaryRequest>,
    ) -> Result<Response<pb::SupplySummaryResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let ScreenedAnswer { answer: (supplied, receipt), secrets } =
            caller.compactions().supply_summary(&session, read_summary(request)).await?;
        Ok(Response::new(pb::SupplySummaryResponse {
            secret_findings: secret_findings(secrets),
            compaction: Some(compaction(supplied)),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn get_compaction(
        &self,
        request: Request<pb::GetCompactionRequest>,
    ) -> Result<Response<pb::GetCompactionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::GetCompactionRequest { compaction_id, text_request_number } = request.into_inner();
        let compaction_found = caller.compactions().get_with(&compaction_id, text_request_number.into()).await?;
        let summary_requests = compaction_found.requests.iter().cloned().map(summary_request).collect();
        Ok(Response::new(pb::GetCompactionResponse {
            compaction: Some(compaction(compaction_found)),
            summary_requests,
        }))
    }

    async fn list_compactions(
        &self,
        request: Request<pb::ListCompactionsRequest>,
    ) -> Result<Response<pb::ListCompactionsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ListCompactionsRequest { session_id, page_size, page_token } = request.into_inner();
        let (found, next_page_token) = caller.compactions().list(&session_id, page_size.into(), &page_token).await?;
        let compactions = found.into_iter().map(compaction).collect();
        Ok(Response::new(pb::ListCompactionsResponse { compactions, next_page_token }))
    }

    async fn simulate_presets(
        &self,
        request: Request<pb::SimulatePresetsRequest>,
    ) -> Result<Response<pb::SimulatePresetsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::SimulatePresetsRequest { session_id, presets } = request.into_inner();
        Ok(Response::new(simulations(caller.compactions().simulate_presets(&session_id, presets).await?)))
    }

    async fn list_summary_requests(
        &self,
        request: Request<pb::ListSummaryRequestsRequest>,
    ) -> Result<Response<pb::ListSummaryRequestsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ListSummaryRequestsRequest { session_id, page_size, page_token, include_text } = request.into_inner();
        let (found, next_page_token) = caller
            .compactions()
            .list_summary_requests(&session_id, page_size.into(), &page_token, include_text)
            .await?;
        let summary_requests = found.into_iter().map(request_for).collect();
        Ok(Response::new(pb::ListSummaryRequestsResponse { summary_requests, next_page_token }))
    }

    async fn confirm_compaction(
        &self,
        request: Request<pb::ConfirmCompactionRequest>,
    ) -> Result<Response<pb::ConfirmCompactionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let confirmed = caller.compactions().confirm(&request.get_ref().compaction_id).await?;
        Ok(Response::new(pb::ConfirmCompactionResponse {
            compaction: Some(compaction(confirmed)),
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn retry_compaction(
        &self,
        request: Request<pb::RetryCompactionRequest>,
    ) -> Result<Response<pb::RetryCompactionResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let (tried, joined) = caller.compactions().retry(&request.get_ref().compaction_id).await?;
        Ok(Response::new(pb::RetryCompactionResponse {
            compaction: Some(compaction(tried)),
            joined,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn cancel_compaction(
        &self,
        request: Request<pb::CancelCompactionRequest>,
    ) -> Result<Response<pb::CancelCompactionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let cancelled = caller.compactions().cancel(&request.get_ref().compaction_id).await?;
        Ok(Response::new(pb::CancelCompactionResponse {
            compaction: Some(compaction(cancelled)),
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn undo_change(
        &self,
        request: Request<pb::UndoChangeRequest>,
    ) -> Result<Response<pb::UndoChangeResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::UndoChangeRequest { session_id, expected_revision, .. } = request.into_inner();
        let (undone, receipt) = caller.compactions().undo(&session_id, expected_revision).await?;
        let change = Some(changed(undone));
        Ok(Response::new(pb::UndoChangeResponse {
            change,
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn redo_change(
        &self,
        request: Request<pb::RedoChangeRequest>,
    ) -> Result<Response<pb::RedoChangeResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::RedoChangeRequest { session_id, expected_revision, .. } = request.into_inner();
        let (redone, receipt) = caller.compactions().redo(&session_id, expected_revision).await?;
        let change = Some(changed(redone));
        Ok(Response::new(pb::RedoChangeResponse {
            change,
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }
}
