//! Messages over gRPC.

use super::caller::GrpcDoor;
use super::convert::count;
use super::convert::draft::{draft, read_draft_words, read_write_frame, read_write_start};
use super::convert::message::{
    messages, read_finish, read_list, read_new_messages, read_open_parts, read_provider_content, read_replacement,
    read_rewind, read_rewind_target,
};
use super::convert::secret::secret_findings;
use super::convert::session::{context_usage, durability, read_window, read_words_stance};
use crate::app::append::{self, AppendRequest, EditRequest};
use crate::app::secrets::ScreenedAnswer;
use crate::app::writing::WriteFrame;
use crate::model::ids::{MessageId, PartId};
use crate::pb;
use crate::pb::message_service_server::MessageService;
use futures::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};

/// The service of messages.
pub(super) struct Messages {
    door: GrpcDoor,
}

impl Messages {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl MessageService for Messages {
    async fn append_messages(
        &self,
        request: Request<pb::AppendMessagesRequest>,
    ) -> Result<Response<pb::AppendMessagesResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let request = request.into_inner();
        let append = AppendRequest {
            messages: read_new_messages(request.messages)?,
            provider_content: request.provider_content.map(read_provider_content).transpose()?,
            window: request.window.map(read_window),
            expected_revision: request.expected_revision,
            expected_last: request.expected_last_message_id,
            rewind: request.rewind.as_ref().map(read_rewind).transpose()?,
            title: request.title,
            metadata_json: request.metadata_json,
            keep_erased: request.keep_erased,
        };
        let ScreenedAnswer { answer: appended, secrets } =
            caller.messages().append_with(&request.session_id, append).await?;
        Ok(Response::new(pb::AppendMessagesResponse {
            secret_findings: secret_findings(secrets),
            message_ids: appended.ids.into_iter().map(|id| MessageId(id).to_string()).collect(),
            existed_count: count(appended.existed_count),
            revision: appended.revision,
            seq: appended.seq,
            context_usage: Some(context_usage(&appended.context)),
            durability: durability(caller.durability()).into(),
            erased_message_ids: appended.erased.into_iter().map(|id| MessageId(id).to_string()).collect(),
        }))
    }

    async fn append_parts(
        &self,
        request: Request<pb::AppendPartsRequest>,
    ) -> Result<Response<pb::AppendPartsResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::AppendPartsRequest { session_id, message_id, parts, .. } = request.into_inner();
        let ScreenedAnswer { answer: appended, secrets } =
            caller.messages().append_parts(&session_id, &message_id, read_open_parts(parts)?).await?;
        Ok(Response::new(pb::AppendPartsResponse {
            secret_findings: secret_findings(secrets),
            part_ids: appended.ids.into_iter().map(|id| PartId(id).to_string()).collect(),
            revision: appended.revision,
            seq: appended.seq,
            context_usage: Some(context_usage(&appended.context)),
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn append_draft(
        &self,
        request: Request<pb::AppendDraftRequest>,
    ) -> Result<Response<pb::AppendDraftResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let message = std::mem::take(&mut request.message_id);
        let ScreenedAnswer { answer: receipt, secrets } =
            caller.messages().append_draft(&session, &message, read_draft_words(request)?).await?;
        let part_id = receipt.part.to_string();
        let secret_findings = secret_findings(secrets);
        Ok(Response::new(pb::AppendDraftResponse { part_id, length_bytes: receipt.length, secret_findings }))
    }

    async fn finish_message(
        &self,
        request: Request<pb::FinishMessageRequest>,
    ) -> Result<Response<pb::FinishMessageResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::FinishMessageRequest { session_id, message_id, finish, window, .. } = request.into_inner();
        let finish = read_finish("finish", finish)?;
        let window = window.map(read_window);
        let ScreenedAnswer { answer: sealed, secrets } =
            caller.messages().finish(&session_id, &message_id, finish, window).await?;
        Ok(Response::new(pb::FinishMessageResponse {
            secret_findings: secret_findings(secrets),
            revision: sealed.revision,
            seq: sealed.seq,
            context_usage: Some(context_usage(&sealed.context)),
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn write_message(
        &self,
        request: Request<Streaming<pb::WriteMessageRequest>>,
    ) -> Result<Response<pb::WriteMessageResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let mut frames = request.into_inner();
        let start = read_write_start(frames.message().await?)?;
        let frames = frames.map(|frame| Ok::<_, Status>(read_write_frame(frame?).unwrap_or_else(WriteFrame::Refused)));
        let ScreenedAnswer { answer: written, secrets } = caller.messages().write(start, frames).await?;
        let drafts = written.drafts.into_iter().map(|(client_id, receipt)| pb::WrittenDraft {
            part_id: receipt.part.to_string(),
            client_id,
            length_bytes: receipt.length,
        });
        Ok(Response::new(pb::WriteMessageResponse {
            secret_findings: secret_findings(secrets),
            message_id: written.message.to_string(),
            sealed: written.sealed,
            revision: written.newest.revision,
            seq: written.newest.seq,
            context_usage: Some(context_usage(&written.newest.context)),
            durability: durability(caller.durability()).into(),
            drafts: drafts.collect(),
        }))
    }

    async fn get_message(
        &self,
        request: Request<pb::GetMessageRequest>,
    ) -> Result<Response<pb::GetMessageResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::GetMessageRequest { session_id, message_id } = request.into_inner();
        let (found, drafts, status) = caller.messages().get(&session_id, &message_id).await?;
        let drafts = drafts.into_iter().map(draft).collect();
        let message = messages(vec![found], vec![status]).pop();
        Ok(Response::new(pb::GetMessageResponse { message, drafts }))
    }

    async fn expand_message(
        &self,
        request: Request<pb::ExpandMessageRequest>,
    ) -> Result<Response<pb::ExpandMessageResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ExpandMessageRequest { session_id, id, page_size, page_token } = request.into_inner();
        let page = caller.messages().expand(&session_id, &id, page_size.into(), &page_token).await?;
        Ok(Response::new(pb::ExpandMessageResponse {
            messages: messages(page.messages, page.statuses),
            next_page_token: page.next_page_token,
        }))
    }

    async fn list_messages(
        &self,
        request: Request<pb::ListMessagesRequest>,
    ) -> Result<Response<pb::ListMessagesResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let page = caller.messages().list(&session, read_list(request)).await?;
        Ok(Response::new(pb::ListMessagesResponse {
            messages: messages(page.messages, page.statuses),
            next_page_token: page.next_page_token,
            revision: page.revision,
        }))
    }

    async fn batch_get_messages(
        &self,
        request: Request<pb::BatchGetMessagesRequest>,
    ) -> Result<Response<pb::BatchGetMessagesResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::BatchGetMessagesRequest { session_id, message_ids } = request.into_inner();
        let batch = caller.messages().batch_get(&session_id, message_ids).await?;
        Ok(Response::new(pb::BatchGetMessagesResponse {
            messages: messages(batch.messages, batch.statuses),
            remaining_message_ids: batch.remaining_ids,
        }))
    }

    async fn rewind_session(
        &self,
        request: Request<pb::RewindSessionRequest>,
    ) -> Result<Response<pb::RewindSessionResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::RewindSessionRequest { session_id, target, expected_revision, branch_summary, .. } =
            request.into_inner();
        let to = read_rewind_target(target.as_ref())?;
        let (receipt, secrets) = match branch_summary {
            None => (caller.messages().rewind(&session_id, to, expected_revision).await?, Vec::new()),
            Some(pb::BranchSummary { instructions: instruction }) => {
                let messages = caller.messages();
                let rewound = messages.rewind_with_summary(&session_id, to, &instruction, expected_revision).await?;
                (rewound.answer, rewound.secrets)
            }
        };
        let summary_message_id = append::message_id(&receipt).map(|id| id.to_string());
        Ok(Response::new(pb::RewindSessionResponse {
            secret_findings: secret_findings(secrets),
            revision: receipt.revision,
            seq: receipt.seq,
            summary_message_id,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn edit_message(
        &self,
        request: Request<pb::EditMessageRequest>,
    ) -> Result<Response<pb::EditMessageResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let request = request.into_inner();
        let keep_erased = request.keep_erased;
        let pb::EditMessageRequest { session_id, message_id, parts, expected_revision, remove, metadata_json, .. } =
            request;
        let parts = read_replacement(parts, remove)?;
        let edit = EditRequest { message: &message_id, parts, metadata_json, expected_revision, keep_erased };
        let ScreenedAnswer { answer: receipt, secrets } = caller.messages().edit_with(&session_id, edit).await?;
        Ok(Response::new(pb::EditMessageResponse {
            secret_findings: secret_findings(secrets),
            replacement_message_id: append::message_id(&receipt).map(|edit| edit.to_string()),
            erased: !receipt.erased.is_empty(),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn pin_message(
        &self,
        request: Request<pb::PinMessageRequest>,
    ) -> Result<Response<pb::PinMessageResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::PinMessageRequest { session_id, message_id, unpin, .. } = request.into_inner();
        let receipt = match unpin {
            true => caller.messages().unpin(&session_id, &message_id).await?,
            false => caller.messages().pin(&session_id, &message_id).await?,
        };
        Ok(Response::new(pb::PinMessageResponse {
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn mark_words(
        &self,
        request: Request<pb::MarkWordsRequest>,
    ) -> Result<Response<pb::MarkWordsResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::MarkWordsRequest { session_id, message_id, stance, .. } = request.into_inner();
        let receipt =
            caller.messages().mark_words(&session_id, &message_id, read_words_stance("stance", stance)?).await?;
        Ok(Response::new(pb::MarkWordsResponse {
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }
}
