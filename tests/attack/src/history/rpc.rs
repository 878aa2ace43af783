//! The calls of the protocol that clients make, in one form: request, answer, and the part of the answer that a
//! repetition must return again.

use longhand::pb;
use pb::admin_service_client::AdminServiceClient;
use pb::compaction_service_client::CompactionServiceClient;
use pb::context_service_client::ContextServiceClient;
use pb::erase_service_client::EraseServiceClient;
use pb::event_service_client::EventServiceClient;
use pb::message_service_client::MessageServiceClient;
use pb::session_service_client::SessionServiceClient;
use pb::summary_task_service_client::SummaryTaskServiceClient;
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

    /// Sends the request once.
    fn send(channel: Channel, request: Request<Self>) -> impl Future<Output = Result<Self::Answer, Status>> + Send;
}

macro_rules! rpcs {
    ($($request:ident, $answer:ident, $client:ident, $method:ident, $name:literal;)*) => {$(
        impl Rpc for pb::$request {
            type Answer = pb::$answer;
            const NAME: &'static str = $name;

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
    EraseContentRequest, EraseContentResponse, EraseServiceClient, erase_content, "EraseContent";
    ListEventsRequest, ListEventsResponse, EventServiceClient, list_events, "ListEvents";
    GetServerInfoRequest, GetServerInfoResponse, AdminServiceClient, get_server_info, "GetServerInfo";
    ListPresetsRequest, ListPresetsResponse, AdminServiceClient, list_presets, "ListPresets";
    ListHeadsRequest, ListHeadsResponse, AdminServiceClient, list_heads, "ListHeads";
}

/// A view: all of it, or its new messages.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The first frame.
    pub(super) header: pb::ContextHeader,
    /// The messages, in order.
    pub(super) messages: Vec<pb::ContextMessage>,
    /// The last frame.
    pub(super) end: pb::ContextEnd,
}

impl Rpc for pb::GetContextRequest {
    type Answer = View;
    const NAME: &'static str = "GetContext";

    async fn send(channel: Channel, request: Request<Self>) -> Result<View, Status> {
        let mut client = ContextServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let mut frames = client.get_context(request).await?.into_inner();
        let mut view = View::default();
        let (mut begun, mut ended) = (false, false);
        while let Some(response) = frames.message().await? {
            use pb::get_context_response::Frame;
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
}

fn at(revision: i64, seq: i64, ids: Vec<String>) -> Promised {
    Promised { ids, existed_count: 0, revision: Some(revision), seq: Some(seq) }
}

fn compaction(compaction: Option<&pb::Compaction>, joined: bool) -> Promised {
    let ids = compaction.map(|compaction| compaction.compaction_id.clone()).into_iter().collect();
    Promised { ids, existed_count: joined.into(), ..Promised::default() }
}

macro_rules! mutations {
    ($($request:ident, |$answer:ident| $promised:expr, |$altered:ident| $change:expr;)*) => {$(
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
        }
    )*};
}

mutations! {
    AppendMessagesRequest,
        |answer| Promised { existed_count: answer.existed_count,
            ..at(answer.revision, answer.seq, answer.message_ids.clone()) },
        |other| other.messages.iter_mut().for_each(|message| message.model.push('x'));
    AppendPartsRequest, |answer| at(answer.revision, answer.seq, answer.part_ids.clone()),
        |other| other.parts.iter_mut().for_each(|part| part.metadata_json = Some("{\"other\": 1}".to_owned()));
    FinishMessageRequest, |answer| at(answer.revision, answer.seq, Vec::new()),
        |other| other.finish.get_or_insert_default().detail.push('x');
    RewindSessionRequest,
        |answer| at(answer.revision, answer.seq, answer.summary_message_id.clone().into_iter().collect()),
        |other| other.expected_revision = Some(other.expected_revision.unwrap_or(0) + 1);
    EditMessageRequest, |answer| at(answer.revision, answer.seq, answer.replacement_message_id.clone().into_iter().collect()),
        |other| other.expected_revision = Some(other.expected_revision.unwrap_or(0) + 1);
    PinMessageRequest, |answer| at(answer.revision, answer.seq, Vec::new()), |other| other.unpin = !other.unpin;
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
}
