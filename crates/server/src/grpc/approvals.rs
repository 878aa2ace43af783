//! Approvals over gRPC.

use super::caller::GrpcDoor;
use super::convert::run::{approval, read_answer, read_question};
use super::convert::secret::secret_findings;
use super::convert::session::durability;
use crate::app::secrets::ScreenedAnswer;
use crate::pb;
use crate::pb::approval_service_server::ApprovalService;
use tonic::{Request, Response, Status};

/// The service of approvals.
pub(super) struct Approvals {
    door: GrpcDoor,
}

impl Approvals {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl ApprovalService for Approvals {
    async fn request_approval(
        &self,
        request: Request<pb::RequestApprovalRequest>,
    ) -> Result<Response<pb::RequestApprovalResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::RequestApprovalRequest { session_id, question, .. } = request.into_inner();
        let ScreenedAnswer { answer: (found, receipt), secrets } =
            caller.approvals().request(&session_id, read_question(question)?).await?;
        Ok(Response::new(pb::RequestApprovalResponse {
            secret_findings: secret_findings(secrets),
            approval: Some(approval(found)),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn answer_approval(
        &self,
        request: Request<pb::AnswerApprovalRequest>,
    ) -> Result<Response<pb::AnswerApprovalResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::AnswerApprovalRequest { session_id, approval_id, choice, text, .. } = request.into_inner();
        let ScreenedAnswer { answer: (found, receipt), secrets } =
            caller.approvals().answer(&session_id, &approval_id, read_answer(choice, text)).await?;
        Ok(Response::new(pb::AnswerApprovalResponse {
            secret_findings: secret_findings(secrets),
            approval: Some(approval(found)),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn withdraw_approval(
        &self,
        request: Request<pb::WithdrawApprovalRequest>,
    ) -> Result<Response<pb::WithdrawApprovalResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::WithdrawApprovalRequest { session_id, approval_id, .. } = request.into_inner();
        let receipt = caller.approvals().withdraw(&session_id, &approval_id).await?;
        Ok(Response::new(pb::WithdrawApprovalResponse {
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn get_approval(
        &self,
        request: Request<pb::GetApprovalRequest>,
    ) -> Result<Response<pb::GetApprovalResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::GetApprovalRequest { session_id, approval_id } = request.into_inner();
        let found = caller.approvals().get(&session_id, &approval_id).await?;
        Ok(Response::new(pb::GetApprovalResponse { approval: Some(approval(found)) }))
    }

    async fn list_approvals(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ListApprovalsRequest { session_id, include_ended, page_size, page_token } = request.into_inner();
        let (found, next_page_token) =
            caller.approvals().list(&session_id, include_ended, page_size.into(), &page_token).await?;
        let approvals = found.into_iter().map(approval).collect();
        Ok(Response::new(pb::ListApprovalsResponse { approvals, next_page_token }))
    }
}
