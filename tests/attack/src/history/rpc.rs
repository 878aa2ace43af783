//! The calls of the protocol that clients make, in one form: request, answer, and the part of the answer that a
//! repetition must return again.

use futures::StreamExt as _;
use longhand::pb;
use pb::admin_service_client::AdminServiceClient;
use pb::approval_service_client::ApprovalServiceClient;
use pb::archive_service_client::ArchiveServiceClient;
use pb::compaction_service_client::CompactionServiceClient;
use pb::erase_service_client::EraseServiceClient;
use pb::event::Body;
use pb::event_service_client::EventServiceClient;
use pb::message_service_client::MessageServiceClient;
use pb::prompt_service_client::PromptServiceClient;
use pb::rewind_session_request::Target;
use pb::run_service_client::RunServiceClient;
use pb::search_service_client::SearchServiceClient;
use pb::session_service_client::SessionServiceClient;
use pb::summary_task_service_client::SummaryTaskServiceClient;
use pb::view_service_client::ViewServiceClient;
use prost::Message as _;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Maximum size of an answer that a client accepts, in bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request with one answer.
pub(super) trait Rpc: prost::Message + Clone + PartialEq + Send + Sync + 'static {
    /// The answer.
    type Answer: Clone + std::fmt::Debug + Send + 'static;

    /// The method's name, as the protocol spells it.
    const NAME: &'static str;

    /// The bytes of an answer, to find what was erased in them.
    fn bytes(answer: &Self::Answer) -> Vec<u8>;

    /// Sends the request once.
    fn send(channel: Channel, request: Request<Self>) -> impl Future<Output = Result<Self::Answer, Status>> + Send;
}

macro_rules! rpcs {
    ($($request:ident, $answer:ident, $client:ident, $method:ident, $name:literal;)*) => {$(
        impl Rpc for pb::$request {
            type Answer = pb::$answer;
            const NAME: &'static str = $name;

            fn bytes(answer: &Self::Answer) -> Vec<u8> {
                answer.encode_to_vec()
            }

            async fn send(channel: Channel, request: Request<Self>) -> Result<Self::Answer, Status> {
                let mut client = $client::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
                client.$method(request).await.map(tonic::Response::into_inner)
            }
        }
    )*};
}

rpcs! {
    CreateSessionRequest, CreateSessionResponse, SessionServiceClient, create_session, "CreateSession";
    GetSessionRequest, GetSessionResponse, SessionServiceClient, get_session, "GetSession";
    UpdateSessionRequest, UpdateSessionResponse, SessionServiceClient, update_session, "UpdateSession";
    ArchiveSessionRequest, ArchiveSessionResponse, SessionServiceClient, archive_session, "ArchiveSession";
    ForkSessionRequest, ForkSessionResponse, SessionServiceClient, fork_session, "ForkSession";
    AddLabelRequest, AddLabelResponse, SessionServiceClient, add_label, "AddLabel";
    RemoveLabelRequest, RemoveLabelResponse, SessionServiceClient, remove_label, "RemoveLabel";
    AppendMessagesRequest, AppendMessagesResponse, MessageServiceClient, append_messages, "AppendMessages";
    AppendPartsRequest, AppendPartsResponse, MessageServiceClient, append_parts, "AppendParts";
    AppendDraftRequest, AppendDraftResponse, MessageServiceClient, append_draft, "AppendDraft";
    FinishMessageRequest, FinishMessageResponse, MessageServiceClient, finish_message, "FinishMessage";
    GetMessageRequest, GetMessageResponse, MessageServiceClient, get_message, "GetMessage";
    ExpandMessageRequest, ExpandMessageResponse, MessageServiceClient, expand_message, "ExpandMessage";
    ListMessagesRequest, ListMessagesResponse, MessageServiceClient, list_messages, "ListMessages";
    BatchGetMessagesRequest, BatchGetMessagesResponse, MessageServiceClient, batch_get_messages, "BatchGetMessages";
    RewindSessionRequest, RewindSessionResponse, MessageServiceClient, rewind_session, "RewindSession";
    EditMessageRequest, EditMessageResponse, MessageServiceClient, edit_message, "EditMessage";
    PinMessageRequest, PinMessageResponse, MessageServiceClient, pin_message, "PinMessage";
    MarkWordsRequest, MarkWordsResponse, MessageServiceClient, mark_words, "MarkWords";
    StartCompactionRequest, StartCompactionResponse, CompactionServiceClient, start_compaction, "StartCompaction";
    ReportOverflowRequest, ReportOverflowResponse, CompactionServiceClient, report_overflow, "ReportOverflow";
    SupplySummaryRequest, SupplySummaryResponse, CompactionServiceClient, supply_summary, "SupplySummary";
    ListCompactionsRequest, ListCompactionsResponse, CompactionServiceClient, list_compactions, "ListCompactions";
    ConfirmCompactionRequest, ConfirmCompactionResponse, CompactionServiceClient, confirm_compaction, "ConfirmCompaction";
    RetryCompactionRequest, RetryCompactionResponse, CompactionServiceClient, retry_compaction, "RetryCompaction";
    CancelCompactionRequest, CancelCompactionResponse, CompactionServiceClient, cancel_compaction, "CancelCompaction";
    UndoChangeRequest, UndoChangeResponse, CompactionServiceClient, undo_change, "UndoChange";
    RedoChangeRequest, RedoChangeResponse, CompactionServiceClient, redo_change, "RedoChange";
    LeaseSummaryTaskRequest, LeaseSummaryTaskResponse, SummaryTaskServiceClient, lease_summary_task, "LeaseSummaryTask";
    ExtendSummaryTaskRequest, ExtendSummaryTaskResponse, SummaryTaskServiceClient, extend_summary_task, "ExtendSummaryTask";
    EditSummaryTaskRequest, EditSummaryTaskResponse, SummaryTaskServiceClient, edit_summary_task, "EditSummaryTask";
    CompleteSummaryTaskRequest, CompleteSummaryTaskResponse, SummaryTaskServiceClient, complete_summary_task,
        "CompleteSummaryTask";
    FailSummaryTaskRequest, FailSummaryTaskResponse, SummaryTaskServiceClient, fail_summary_task, "FailSummaryTask";
    DelegateSummaryTaskRequest, DelegateSummaryTaskResponse, SummaryTaskServiceClient, delegate_summary_task,
        "DelegateSummaryTask";
    ImportSessionRequest, ImportSessionResponse, ArchiveServiceClient, import_session, "ImportSession";
    EraseContentRequest, EraseContentResponse, EraseServiceClient, erase_content, "EraseContent";
    ListEventsRequest, ListEventsResponse, EventServiceClient, list_events, "ListEvents";
    SearchHistoryRequest, SearchHistoryResponse, SearchServiceClient, search_history, "SearchHistory";
    GetServerInfoRequest, GetServerInfoResponse, AdminServiceClient, get_server_info, "GetServerInfo";
    SimulatePresetsRequest, SimulatePresetsResponse, CompactionServiceClient, simulate_presets, "SimulatePresets";
    ListPresetsRequest, ListPresetsResponse, AdminServiceClient, list_presets, "ListPresets";
    ListHeadsRequest, ListHeadsResponse, AdminServiceClient, list_heads, "ListHeads";
    AcquireRunRequest, AcquireRunResponse, RunServiceClient, acquire_run, "AcquireRun";
    RenewRunRequest, RenewRunResponse, RunServiceClient, renew_run, "RenewRun";
    ReleaseRunRequest, ReleaseRunResponse, RunServiceClient, release_run, "ReleaseRun";
    CancelRunRequest, CancelRunResponse, RunServiceClient, cancel_run, "CancelRun";
    GetRunRequest, GetRunResponse, RunServiceClient, get_run, "GetRun";
    ListRunsRequest, ListRunsResponse, RunServiceClient, list_runs, "ListRuns";
    SubmitPromptRequest, SubmitPromptResponse, PromptServiceClient, submit_prompt, "SubmitPrompt";
    TakePromptRequest, TakePromptResponse, PromptServiceClient, take_prompt, "TakePrompt";
    MovePromptRequest, MovePromptResponse, PromptServiceClient, move_prompt, "MovePrompt";
    WithdrawPromptRequest, WithdrawPromptResponse, PromptServiceClient, withdraw_prompt, "WithdrawPrompt";
    ListPromptsRequest, ListPromptsResponse, PromptServiceClient, list_prompts, "ListPrompts";
    RequestApprovalRequest, RequestApprovalResponse, ApprovalServiceClient, request_approval, "RequestApproval";
    AnswerApprovalRequest, AnswerApprovalResponse, ApprovalServiceClient, answer_approval, "AnswerApproval";
    WithdrawApprovalRequest, WithdrawApprovalResponse, ApprovalServiceClient, withdraw_approval, "WithdrawApproval";
    GetApprovalRequest, GetApprovalResponse, ApprovalServiceClient, get_approval, "GetApproval";
    ListApprovalsRequest, ListApprovalsResponse, ApprovalServiceClient, list_approvals, "ListApprovals";
}

/// A view: all of it, or its new messages.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The first frame.
    pub(super) header: pb::ViewHeader,
    /// The messages, in order.
    pub(super) messages: Vec<pb::ViewMessage>,
    /// The last frame.
    pub(super) end: pb::ViewEnd,
}

impl Rpc for pb::GetViewRequest {
    type Answer = View;
    const NAME: &'static str = "GetView";

    fn bytes(answer: &View) -> Vec<u8> {
        let messages = pb::ViewMessages { messages: answer.messages.clone(), ..pb::ViewMessages::default() };
        [messages.encode_to_vec(), answer.header.encode_to_vec(), answer.end.encode_to_vec()].concat()
    }

    async fn send(channel: Channel, request: Request<Self>) -> Result<View, Status> {
        let mut client = ViewServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let mut frames = client.get_view(request).await?.into_inner();
        let mut view = View::default();
        let (mut begun, mut ended) = (false, false);
        while let Some(response) = frames.message().await? {
            use pb::get_view_response::Frame;
            match response.frame {
                Some(Frame::Header(header)) if !begun => (view.header, begun) = (header, true),
                Some(Frame::Messages(messages)) if begun && !ended => view.messages.extend(messages.messages),
                Some(Frame::End(end)) if begun && !ended => (view.end, ended) = (end, true),
                other => return Err(Status::unknown(format!("the frames of a view are out of order: {other:?}"))),
            }
        }
        if ended { Ok(view) } else { Err(Status::unknown("a view has no end")) }
    }
}

impl Rpc for pb::CheckIntegrityRequest {
    type Answer = (Vec<pb::IntegrityFinding>, pb::IntegrityEnd);
    const NAME: &'static str = "CheckIntegrity";

    fn bytes(answer: &Self::Answer) -> Vec<u8> {
        answer.0.iter().flat_map(prost::Message::encode_to_vec).collect()
    }

    async fn send(channel: Channel, request: Request<Self>) -> Result<Self::Answer, Status> {
        let mut items = AdminServiceClient::new(channel).check_integrity(request).await?.into_inner();
        let (mut findings, mut end) = (Vec::new(), None);
        while let Some(response) = items.message().await? {
            use pb::check_integrity_response::Item;
            match response.item {
                Some(Item::Finding(finding)) => findings.push(finding),
                Some(Item::End(item)) => end = Some(item),
                None => {}
            }
        }
        end.map(|end| (findings, end)).ok_or_else(|| Status::unknown("a check has no end"))
    }
}

/// Frames of one message, as one request; all of them can be sent again.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Frames {
    /// The frames.
    #[prost(message, repeated, tag = "1")]
    pub(super) frames: Vec<pb::WriteMessageRequest>,
    /// The pause before each frame, in milliseconds.
    #[prost(uint64, tag = "2")]
    pub(super) pause_ms: u64,
}

impl Rpc for Frames {
    type Answer = pb::WriteMessageResponse;
    const NAME: &'static str = "WriteMessage";

    fn bytes(answer: &Self::Answer) -> Vec<u8> {
        answer.encode_to_vec()
    }

    async fn send(channel: Channel, request: Request<Self>) -> Result<Self::Answer, Status> {
        let (metadata, extensions, Self { frames, pause_ms }) = request.into_parts();
        let frames = futures::stream::iter(frames).then(move |frame| async move {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            frame
        });
        let request = Request::from_parts(metadata, extensions, frames);
        MessageServiceClient::new(channel).write_message(request).await.map(tonic::Response::into_inner)
    }
}

/// The part of a mutation's answer that P4 promises to every repetition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Promised {
    /// Ids of the rows made or found, in order.
    pub(super) ids: Vec<String>,
    /// Number of them that existed before.
    pub(super) existed_count: i32,
    /// The session's revision, if the answer has it.
    pub(super) revision: Option<i64>,
    /// The store's sequence number, if the answer has it.
    pub(super) seq: Option<i64>,
}

/// A request that changes a session and can be repeated with its `request_id`.
pub(super) trait Mutation: Rpc {
    /// The id that makes the request idempotent.
    fn request_id(&self) -> &str;

    /// The part of the answer that must not change.
    fn promised(answer: &Self::Answer) -> Promised;

    /// A copy with the same id and another payload.
    fn altered(&self) -> Self;

    /// The changes that the answer reports: each is in the log, as an event of this request.
    fn changes(&self, _answer: &Self::Answer) -> Vec<Body> {
        Vec::new()
    }

    /// The end that the conversation is to have, if the request leaves something out of it.
    fn new_end(&self) -> Option<End> {
        None
    }
}

/// The end that a conversation is to have.
pub(super) type End = pb::rewind::Target;

fn at(revision: i64, seq: i64, ids: Vec<String>) -> Promised {
    Promised { ids, existed_count: 0, revision: Some(revision), seq: Some(seq) }
}

fn compaction(compaction: Option<&pb::Compaction>, joined: bool) -> Promised {
    let ids = compaction.map(|compaction| compaction.compaction_id.clone()).into_iter().collect();
    Promised { ids, existed_count: joined.into(), ..Promised::default() }
}

macro_rules! mutations {
    ($($request:ident, |$answer:ident| $promised:expr, |$altered:ident| $change:expr
        $(, |$asked:ident, $got:ident| $changes:expr)? $(, rewind |$whole:ident| $end:expr)?;)*) => {$(
        impl Mutation for pb::$request {
            fn request_id(&self) -> &str {
                &self.request_id
            }

            fn promised($answer: &Self::Answer) -> Promised {
                $promised
            }

            fn altered(&self) -> Self {
                let mut $altered = self.clone();
                $change;
                $altered
            }

            $(fn changes(&self, $got: &Self::Answer) -> Vec<Body> {
                let $asked = self;
                $changes
            })?

            $(fn new_end(&self) -> Option<End> {
                let $whole = self;
                $end
            })?
        }
    )*};
}

mutations! {
    AppendMessagesRequest,
        |answer| Promised { existed_count: answer.existed_count,
            ..at(answer.revision, answer.seq, answer.message_ids.clone()) },
        |other| other.messages.iter_mut().for_each(|message| message.model.push('x')),
        rewind |asked| asked.rewind.clone().and_then(|rewind| rewind.target);
    AppendPartsRequest, |answer| at(answer.revision, answer.seq, answer.part_ids.clone()),
        |other| other.parts.iter_mut().for_each(|part| part.metadata_json = Some("{\"other\": 1}".to_owned()));
    FinishMessageRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.finish.get_or_insert_default().detail.push('x');
    RewindSessionRequest,
        |answer| at(answer.revision, answer.seq, answer.summary_message_id.clone().into_iter().collect()),
        |other| other.expected_revision = Some(other.expected_revision.unwrap_or(0) + 1),
        rewind |asked| asked.target.clone().map(|target| match target {
            Target::MessageId(id) => End::MessageId(id),
            Target::ToStart(all) => End::ToStart(all),
        });
    EditMessageRequest, |answer| at(answer.revision, answer.seq, answer.replacement_message_id.clone().into_iter().collect()),
        |other| other.expected_revision = Some(other.expected_revision.unwrap_or(0) + 1);
    PinMessageRequest, |answer| at(answer.revision, answer.seq, Vec::new()), |other| other.unpin = !other.unpin;
    MarkWordsRequest, |answer| at(answer.revision, answer.seq, Vec::new()), |other| other.stance = other.stance % 3 + 1;
    UpdateSessionRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.title = Some("another title".to_owned());
    ArchiveSessionRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.restore = !other.restore;
    StartCompactionRequest, |answer| compaction(answer.compaction.as_ref(), answer.joined),
        |other| other.instructions.push('x');
    ReportOverflowRequest, |answer| compaction(answer.compaction.as_ref(), answer.joined),
        |other| other.message.push('!');
    SupplySummaryRequest,
        |answer| Promised { ids: compaction(answer.compaction.as_ref(), false).ids,
            ..at(answer.revision, answer.seq, Vec::new()) },
        |other| other.text.push('x');
    UndoChangeRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.expected_revision = Some(other.expected_revision.unwrap_or(0) + 1);
    RedoChangeRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.expected_revision = Some(other.expected_revision.unwrap_or(0) + 1);
    EraseContentRequest, |answer| Promised { ids: erasure(answer), ..Promised::default() },
        |other| other.reason.push('x'), |asked, answer| {
            // What was erased before has the event of another request.
            if answer.existed { Vec::new() } else { vec![erased(asked)] }
        };
    AcquireRunRequest, |answer| acquired(answer), |other| other.take_prompt = !other.take_prompt, |_asked, answer| {
        let run = answer.run.iter().map(|run| {
            Body::RunStarted(pb::RunStarted { run_id: run.run_id.clone(), epoch: run.epoch })
        });
        run.chain(answer.prompt.as_ref().and_then(taken)).collect()
    };
    ReleaseRunRequest, |answer| at(answer.revision, answer.seq, run_ids(answer.run.as_slice())),
        |other| other.failure = Some(format!("{}x", other.failure())),
        |_asked, answer| answer.run.iter().filter_map(ended).collect();
    CancelRunRequest, |answer| Promised { ids: run_ids(&answer.runs), ..Promised::default() },
        |other| other.force = !other.force;
    SubmitPromptRequest, |answer| at(answer.revision, answer.seq, vec![answer.prompt_id.clone()]),
        |other| other.metadata_json = Some("{\"other\": 1}".to_owned()),
        |asked, answer| {
            let delivery = match asked.delivery() {
                pb::Delivery::Unspecified => pb::Delivery::Queue,
                delivery => delivery,
            };
            vec![Body::PromptSubmitted(pb::PromptSubmitted {
                prompt_id: answer.prompt_id.clone(),
                delivery: delivery.into(),
            })]
        },
        rewind |asked| asked.rewind.clone().and_then(|rewind| rewind.target);
    TakePromptRequest, |answer| at(answer.revision, answer.seq, answer.prompt.iter().flat_map(of_prompt).collect()),
        |other| other.epoch += 1, |_asked, answer| answer.prompt.as_ref().and_then(taken).into_iter().collect();
    MovePromptRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.before_prompt_id = match other.before_prompt_id {
            Some(_) => None,
            None => Some("pmt_00000000000070008000000000000000".to_owned()),
        },
        |asked, _answer| vec![Body::PromptMoved(pb::PromptMoved {
            prompt_id: asked.prompt_id.clone(),
            before_prompt_id: asked.before_prompt_id.clone(),
        })];
    WithdrawPromptRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.prompt_id = "pmt_00000000000070008000000000000000".to_owned(),
        |asked, _answer| vec![Body::PromptWithdrawn(pb::PromptWithdrawn { prompt_id: asked.prompt_id.clone() })];
    RequestApprovalRequest, |answer| at(answer.revision, answer.seq, approval_ids(&answer.approval)),
        |other| other.question.get_or_insert_default().text.push('?'),
        |_asked, answer| answer.approval.iter().map(|approval| {
            let (approval_id, epoch) = (approval.approval_id.clone(), approval.epoch);
            Body::ApprovalRequested(pb::ApprovalRequested { approval_id, epoch })
        }).collect();
    AnswerApprovalRequest, |answer| at(answer.revision, answer.seq, approval_ids(&answer.approval)),
        |other| other.choice = match other.choice() {
            "yes" => Some("no".to_owned()),
            _ => Some("yes".to_owned()),
        },
        |asked, _answer| vec![Body::ApprovalEnded(pb::ApprovalEnded {
            approval_id: asked.approval_id.clone(),
            reason: pb::ApprovalEndReason::Answered.into(),
            choice: asked.choice.clone(),
        })];
    WithdrawApprovalRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.approval_id = "apr_00000000000070008000000000000000".to_owned(),
        |asked, _answer| vec![Body::ApprovalEnded(pb::ApprovalEnded {
            approval_id: asked.approval_id.clone(),
            reason: pb::ApprovalEndReason::Withdrawn.into(),
            choice: None,
        })];
}

/// What an erasure did, which every repetition reports again.
fn erasure(answer: &pb::EraseContentResponse) -> Vec<String> {
    let pb::EraseContentResponse { session_id, revision, seq, message_count, part_count, content_bytes, .. } = answer;
    let pb::EraseContentResponse { derived_count, fork_count, blob_count, .. } = answer;
    let numbers = [revision, seq, message_count, part_count, content_bytes, derived_count, fork_count, blob_count];
    std::iter::once(session_id.clone()).chain(numbers.into_iter().map(i64::to_string)).collect()
}

/// The event of an erasure, with no more than what was asked for.
fn erased(asked: &pb::EraseContentRequest) -> Body {
    use pb::erase_content_request::Target;
    let named =
        |message_id: &str, part_ids: Vec<String>| pb::ErasedMessage { message_id: message_id.to_owned(), part_ids };
    let (target, messages) = match &asked.target {
        Some(Target::MessageId(id)) => (pb::ErasedTarget::Message, vec![named(id, Vec::new())]),
        Some(Target::MessageSet(set)) if set.message_ids.len() > 1 => {
            (pb::ErasedTarget::Messages, set.message_ids.iter().map(|id| named(id, Vec::new())).collect())
        }
        Some(Target::MessageSet(set)) => {
            (pb::ErasedTarget::Message, set.message_ids.iter().map(|id| named(id, Vec::new())).collect())
        }
        Some(Target::PartId(id)) => (pb::ErasedTarget::Part, vec![named("", vec![id.clone()])]),
        Some(Target::WholeSession(_)) | None => (pb::ErasedTarget::Session, Vec::new()),
    };
    let (target, reason) = (target.into(), asked.reason.clone());
    Body::Erased(pb::Erased { target, reason, messages, ..pb::Erased::default() })
}

fn run_ids(runs: &[pb::Run]) -> Vec<String> {
    runs.iter().map(|run| run.run_id.clone()).collect()
}

fn approval_ids(approval: &Option<pb::Approval>) -> Vec<String> {
    approval.iter().map(|approval| approval.approval_id.clone()).collect()
}

/// The ids of a prompt that was taken: its own, and that of its message.
fn of_prompt(prompt: &pb::Prompt) -> Vec<String> {
    let message = prompt.end.as_ref().and_then(|end| end.message_id.clone());
    std::iter::once(prompt.prompt_id.clone()).chain(message).collect()
}

fn acquired(answer: &pb::AcquireRunResponse) -> Promised {
    let ids = run_ids(answer.run.as_slice()).into_iter().chain(answer.prompt.iter().flat_map(of_prompt));
    at(answer.revision, answer.seq, ids.collect())
}

/// The event of a prompt that was taken, if it was.
fn taken(prompt: &pb::Prompt) -> Option<Body> {
    let end = prompt.end.clone()?;
    Some(Body::PromptTaken(pb::PromptTaken {
        prompt_id: prompt.prompt_id.clone(),
        epoch: end.epoch?,
        message_id: end.message_id?,
    }))
}

/// The event of a run that ended, if it has, without its calls.
fn ended(run: &pb::Run) -> Option<Body> {
    let end = run.end.clone()?;
    let interrupted_calls = Vec::new();
    let (run_id, epoch) = (run.run_id.clone(), run.epoch);
    Some(Body::RunEnded(pb::RunEnded { run_id, epoch, reason: end.reason, failure: end.failure, interrupted_calls }))
}
