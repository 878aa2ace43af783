//! Summary tasks over gRPC.

use super::caller::GrpcDoor;
use super::convert::compaction::compaction;
use super::convert::read_duration;
use super::convert::secret::secret_findings;
use super::convert::summary_task::{read_edit, read_failure, read_lease, read_reply, task};
use crate::app::secrets::ScreenedAnswer;
use crate::app::summary_tasks::{LeaseClaim, Release};
use crate::grpc::wire;
use crate::pb;
use crate::pb::summary_task_service_server::SummaryTaskService;
use tonic::{Request, Response, Status};

/// The service of summary tasks.
pub(super) struct SummaryTasks {
    door: GrpcDoor,
}

impl SummaryTasks {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl SummaryTaskService for SummaryTasks {
    async fn lease_summary_task(
        &self,
        request: Request<pb::LeaseSummaryTaskRequest>,
    ) -> Result<Response<pb::LeaseSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let leased = caller.summary_tasks().lease(read_lease(request.into_inner())?).await?;
        Ok(Response::new(leased.map_or_else(pb::LeaseSummaryTaskResponse::default, |leased| {
            pb::LeaseSummaryTaskResponse {
                task: Some(task(&leased.task, leased.prompt)),
                lease_token: leased.token,
                lease_end_time: Some(wire::timestamp(leased.end_time)),
            }
        })))
    }

    async fn extend_summary_task(
        &self,
        request: Request<pb::ExtendSummaryTaskRequest>,
    ) -> Result<Response<pb::ExtendSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ExtendSummaryTaskRequest { compaction_id, lease_token, lease_timeout } = request.into_inner();
        let lease = lease_timeout.map(|lease| read_duration("lease_timeout", lease)).transpose()?;
        let hold = LeaseClaim { compaction: compaction_id, token: lease_token, base_revision: None };
        let end = caller.summary_tasks().extend(&hold, lease).await?;
        Ok(Response::new(pb::ExtendSummaryTaskResponse { lease_end_time: Some(wire::timestamp(end)) }))
    }

    async fn edit_summary_task(
        &self,
        request: Request<pb::EditSummaryTaskRequest>,
    ) -> Result<Response<pb::EditSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let (hold, edit) = read_edit(request.into_inner());
        let ScreenedAnswer { answer: (edited, prompt), secrets } = caller.summary_tasks().edit(&hold, edit).await?;
        Ok(Response::new(pb::EditSummaryTaskResponse {
            secret_findings: secret_findings(secrets),
            task: Some(task(&edited, prompt)),
        }))
    }

    async fn check_summary_task(
        &self,
        request: Request<pb::CheckSummaryTaskRequest>,
    ) -> Result<Response<pb::CheckSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::CheckSummaryTaskRequest { compaction_id, lease_token, base_revision, text, window_tokens } =
            request.into_inner();
        let hold = LeaseClaim { compaction: compaction_id, token: lease_token, base_revision };
        let check = caller.summary_tasks().check(&hold, &text, window_tokens).await?;
        Ok(Response::new(check.map_or_else(pb::CheckSummaryTaskResponse::default, |check| {
            pb::CheckSummaryTaskResponse { system: check.system, prompt: check.user }
        })))
    }

    async fn complete_summary_task(
        &self,
        request: Request<pb::CompleteSummaryTaskRequest>,
    ) -> Result<Response<pb::CompleteSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let (hold, reply) = read_reply(request.into_inner())?;
        let ScreenedAnswer { answer: accepted, secrets } = caller.summary_tasks().complete(&hold, reply).await?;
        Ok(Response::new(pb::CompleteSummaryTaskResponse {
            secret_findings: secret_findings(secrets),
            compaction: Some(compaction(accepted)),
        }))
    }

    async fn fail_summary_task(
        &self,
        request: Request<pb::FailSummaryTaskRequest>,
    ) -> Result<Response<pb::FailSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::FailSummaryTaskRequest { compaction_id, lease_token, failure } = request.into_inner();
        let hold = LeaseClaim { compaction: compaction_id, token: lease_token, base_revision: None };
        caller.summary_tasks().release(&hold, read_failure(failure)?).await?;
        Ok(Response::new(pb::FailSummaryTaskResponse {}))
    }

    async fn delegate_summary_task(
        &self,
        request: Request<pb::DelegateSummaryTaskRequest>,
    ) -> Result<Response<pb::DelegateSummaryTaskResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::DelegateSummaryTaskRequest { compaction_id, lease_token, base_revision } = request.into_inner();
        let hold = LeaseClaim { compaction: compaction_id, token: lease_token, base_revision };
        caller.summary_tasks().release(&hold, Release::Delegated).await?;
        Ok(Response::new(pb::DelegateSummaryTaskResponse {}))
    }
}
