//! Prompts over gRPC.

use super::caller::GrpcDoor;
use super::convert::run::{prompt, read_new_prompt};
use super::convert::secret::secret_findings;
use super::convert::session::durability;
use crate::app;
use crate::app::prompts::PromptChoice;
use crate::app::secrets::ScreenedAnswer;
use crate::pb;
use crate::pb::prompt_service_server::PromptService;
use tonic::{Request, Response, Status};

/// The service of prompts.
pub(super) struct Prompts {
    door: GrpcDoor,
}

impl Prompts {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

/// Which prompt a run takes.
fn prompt_choice(prompt_id: Option<&str>, steering_only: bool) -> app::Result<PromptChoice<'_>> {
    match (prompt_id, steering_only) {
        (Some(_), true) => Err(app::Error::field("steering_only", "does not go with prompt_id")),
        (Some(id), false) => Ok(PromptChoice::Named(id)),
        (None, true) => Ok(PromptChoice::FirstSteering),
        (None, false) => Ok(PromptChoice::First),
    }
}

#[tonic::async_trait]
impl PromptService for Prompts {
    async fn submit_prompt(
        &self,
        request: Request<pb::SubmitPromptRequest>,
    ) -> Result<Response<pb::SubmitPromptResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let mut request = request.into_inner();
        let new = read_new_prompt(std::mem::take(&mut request.parts), &request)?;
        let ScreenedAnswer { answer: (prompt_id, receipt), secrets } =
            caller.prompts().submit(&request.session_id, new).await?;
        Ok(Response::new(pb::SubmitPromptResponse {
            secret_findings: secret_findings(secrets),
            prompt_id: prompt_id.to_string(),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn take_prompt(
        &self,
        request: Request<pb::TakePromptRequest>,
    ) -> Result<Response<pb::TakePromptResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::TakePromptRequest { session_id, epoch, prompt_id, steering_only, .. } = request.into_inner();
        let wanted = prompt_choice(prompt_id.as_deref(), steering_only)?;
        let (taken, receipt) = caller.prompts().take(&session_id, epoch, wanted).await?;
        Ok(Response::new(pb::TakePromptResponse {
            prompt: Some(prompt(taken)),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn move_prompt(
        &self,
        request: Request<pb::MovePromptRequest>,
    ) -> Result<Response<pb::MovePromptResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::MovePromptRequest { session_id, prompt_id, before_prompt_id, .. } = request.into_inner();
        let receipt = caller.prompts().reorder(&session_id, &prompt_id, before_prompt_id.as_deref()).await?;
        Ok(Response::new(pb::MovePromptResponse {
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn withdraw_prompt(
        &self,
        request: Request<pb::WithdrawPromptRequest>,
    ) -> Result<Response<pb::WithdrawPromptResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::WithdrawPromptRequest { session_id, prompt_id, .. } = request.into_inner();
        let receipt = caller.prompts().withdraw(&session_id, &prompt_id).await?;
        Ok(Response::new(pb::WithdrawPromptResponse {
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn list_prompts(
        &self,
        request: Request<pb::ListPromptsRequest>,
    ) -> Result<Response<pb::ListPromptsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ListPromptsRequest { session_id, include_ended, page_size, page_token } = request.into_inner();
        let (prompts, next_page_token) =
            caller.prompts().list(&session_id, include_ended, page_size.into(), &page_token).await?;
        let prompts = prompts.into_iter().map(prompt).collect();
        Ok(Response::new(pb::ListPromptsResponse { prompts, next_page_token }))
    }
}
