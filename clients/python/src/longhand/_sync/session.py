# Made by `generate` from the module of the same name in `_aio`.
"""A session, as one program uses it."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message as Protobuf

from longhand import v1
from longhand._sync import _io
from longhand._sync.reply import DraftReply, Reply
from longhand._sync.requests import duration, pages
from longhand._sync.run import Run
from longhand._batches import batches
from longhand.parts import Content, as_json, optional_json, parts_of, user

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from longhand._sync.client import Client
    from longhand._sync.requests import EventOptions, FrameOptions, SearchOptions

__all__ = ["START", "Format", "FormattedView", "Session", "View"]

Request = TypeVar("Request", bound=Protobuf)
Response = TypeVar("Response")

#: The time for which the daemon waits if a view does not fit, in seconds.
_WAIT_SECONDS = 30.0
#: The beginning of a conversation, where the last message that stays is asked for: nothing stays.
START = ""


@dataclass(frozen=True)
class View:
    """What a model should see now."""

    #: Its facts: revision, tokens, whether it fits.
    header: v1.ViewHeader
    #: Its messages, in order.
    messages: Sequence[v1.ViewMessage]
    #: What it does not show, and why.
    end: v1.ViewEnd
    #: The number of messages that the daemon did not send again.
    known_count: int = 0

    @property
    def token(self) -> str:
        """What a reply to this view carries, which makes its usage count."""
        return self.header.view_token


#: A format of a provider's messages, by its name in docs/providers.md.
Format: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "ai_sdk"]
_FORMATS: dict[str, v1.MessageFormat.ValueType] = {
    "openai_chat": v1.MESSAGE_FORMAT_OPENAI_CHAT,
    "openai_responses": v1.MESSAGE_FORMAT_OPENAI_RESPONSES,
    "anthropic": v1.MESSAGE_FORMAT_ANTHROPIC,
    "gemini": v1.MESSAGE_FORMAT_GEMINI,
    "ai_sdk": v1.MESSAGE_FORMAT_AI_SDK,
}


@dataclass(frozen=True)
class FormattedView:
    """What a model should see now, as the messages of a provider's request."""

    #: Its facts: revision, tokens, whether it fits.
    header: v1.ViewHeader
    #: Its messages, as JSON has them; not to be changed.
    messages: Sequence[Any]
    #: For each of them the ids of the stored messages that it shows.
    message_ids: Sequence[Sequence[str]]
    #: What a request has apart from its messages: Anthropic's `system`, Gemini's `systemInstruction`; else None.
    system: Any
    #: What it does not show, and why, also what the format has no use for.
    end: v1.ViewEnd
    #: The number of messages that the daemon did not send again.
    known_count: int = 0

    @property
    def token(self) -> str:
        """What a reply to this view carries, which makes its usage count."""
        return self.header.view_token


class Session:
    """A session. Keeps its newest view, so that the daemon sends only what changed since."""

    def __init__(
        self, client: Client, session_id: str, info: v1.Session | None = None, metadata: _io.Metadata = ()
    ) -> None:
        self.client = client
        #: Its id or client id.
        self.id = session_id
        #: What the daemon said of it when it was made; None if nothing was asked. `get` asks.
        self.info = info
        #: Headers of its calls: the number of the run that makes them.
        self.metadata = metadata
        self._view: View | None = None
        self._formatted: dict[tuple[str, bool], FormattedView] = {}

    def with_options(self, *, timeout: float | None = None, retry_seconds: float | None = None) -> Session:
        """The same session with another deadline: `session.with_options(timeout=3).append("Hello")`."""
        made = copy.copy(self)
        made.client = self.client.with_options(timeout=timeout, retry_seconds=retry_seconds)
        return made

    def __repr__(self) -> str:
        return f"<longhand session {self.id}>"

    def get(self) -> v1.Session:
        """Its current state."""
        request = v1.GetSessionRequest(session_id=self.id)
        return (self._call(self.client.stubs.sessions.GetSession, request)).session

    # -- history

    def append(
        self,
        *messages: v1.NewMessage | str,
        request_id: str = "",
        expected_revision: int | None = None,
        expected_last_message_id: str | None = None,
        rewind_to: str | None = None,
        title: str | None = None,
        metadata: object = None,
        window: int | str | v1.ModelWindow | None = None,
    ) -> v1.AppendMessagesResponse:
        """Appends messages, all or none; a string is a user's message.

        With `rewind_to` what comes after that message, or everything with `START`, is left out in the same change;
        `title` and `metadata` replace the session's.

        More than one request takes, 500 messages or 8 MiB, are several changes, one after the other: what is expected
        and left out belongs to the first, title and metadata to the last. Nobody else's change can come between them if
        `expected_revision` is given.
        """
        made = [user(message) if isinstance(message, str) else message for message in messages]
        some = batches(made, v1.NewMessage.ByteSize) or [[]]
        answers: list[v1.AppendMessagesResponse] = []
        for number, batch in enumerate(some):
            first, last = number == 0, number == len(some) - 1
            request = v1.AppendMessagesRequest(
                session_id=self.id,
                messages=batch,
                request_id=request_id if first or not request_id else f"{request_id}:{number}",
                expected_revision=expected_revision,
                expected_last_message_id=expected_last_message_id if first else None,
                title=title if last else None,
                metadata_json=optional_json(metadata) if last else None,
                window=model_window(window),
            )
            _rewind_before(request, rewind_to if first else None)
            answers.append(self._call(self.client.stubs.messages.AppendMessages, request))
            if expected_revision is not None:
                expected_revision = answers[-1].revision
        return _joined(answers)

    def append_provider(
        self,
        format: Format,
        content: object,
        *,
        view: View | FormattedView | None = None,
        provider: str | None = None,
        request_id: str = "",
        expected_revision: int | None = None,
        rewind_to: str | None = None,
    ) -> v1.AppendMessagesResponse:
        """Appends what goes to a provider or comes from it, as it is: JSON, or what becomes JSON.

        The body of a request, its messages, one message, the body of a reply, or the chunks of a streamed one. `view`
        is that which the reply answers.
        """
        request = v1.AppendMessagesRequest(
            session_id=self.id, request_id=request_id, expected_revision=expected_revision
        )
        request.provider_content.format = _FORMATS[format]
        request.provider_content.json = as_json(content)
        if view is not None:
            request.provider_content.view_token = view.token
        if provider is not None:
            request.provider_content.provider = provider
        _rewind_before(request, rewind_to)
        return self._call(self.client.stubs.messages.AppendMessages, request)

    def reply(
        self,
        view: View | None = None,
        *,
        role: v1.Role.ValueType = v1.ROLE_ASSISTANT,
        client_id: str | None = None,
        model: str = "",
        provider: str = "",
        metadata: object = None,
        open_seconds: float | None = None,
    ) -> Reply:
        """A message that is written while it comes, as one stream. Use it as a context:

        `with session.reply(view) as reply: reply.text("words")`

        A lost stream goes on at its offset. The end of the context seals the message; an exception seals it as aborted.
        """
        return Reply(self, self._open(role, client_id, model, provider, metadata, open_seconds), view)

    def draft_reply(
        self,
        view: View | None = None,
        *,
        role: v1.Role.ValueType = v1.ROLE_ASSISTANT,
        client_id: str | None = None,
        model: str = "",
        provider: str = "",
        metadata: object = None,
        open_seconds: float | None = None,
    ) -> DraftReply:
        """Like `reply`, by a request for each piece, for connections that carry no stream: every piece is stored when
        its call returns."""
        return DraftReply(self, self._open(role, client_id, model, provider, metadata, open_seconds), view)

    def history(
        self,
        *,
        reverse: bool = False,
        as_of_revision: int | None = None,
        include_derived: bool = False,
        exclude_records: bool = False,
        client_id_prefix: str = "",
        page_size: int = 0,
    ) -> Iterator[v1.Message]:
        """Every message as it was written, page by page.

        With `client_id_prefix` only those whose client id begins with it, in the order of their client ids.
        """
        request = v1.ListMessagesRequest(
            session_id=self.id,
            reverse=reverse,
            as_of_revision=as_of_revision,
            include_derived=include_derived,
            exclude_records=exclude_records,
            client_id_prefix=client_id_prefix,
            page_size=page_size,
        )
        for page in pages(self._call, self.client.stubs.messages.ListMessages, request):
            for message in page.messages:
                yield message

    def get_message(self, message_id: str) -> v1.Message:
        """A message by its id or client id, as it was written."""
        request = v1.GetMessageRequest(session_id=self.id, message_id=message_id)
        return (self._call(self.client.stubs.messages.GetMessage, request)).message

    def get_messages(self, message_ids: Sequence[str]) -> list[v1.Message]:
        """Messages by their ids, in this order."""
        waiting, found = list(message_ids), list[v1.Message]()
        while waiting:
            request = v1.BatchGetMessagesRequest(session_id=self.id, message_ids=waiting[:100])
            answer = self._call(self.client.stubs.messages.BatchGetMessages, request)
            found.extend(answer.messages)
            waiting = [*answer.remaining_message_ids, *waiting[100:]]
        return found

    def expand(self, id: str) -> Iterator[v1.Message]:
        """The originals behind an id in a view."""
        request = v1.ExpandMessageRequest(session_id=self.id, id=id)
        for page in pages(self._call, self.client.stubs.messages.ExpandMessage, request):
            for message in page.messages:
                yield message

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Iterator[v1.SearchHit]:
        """Parts of its messages by their words, as `Client.search` finds them, with its options."""
        for hit in self.client.search(query, session_id=self.id, **options):
            yield hit

    def rewind(
        self,
        message_id: str,
        *,
        expected_revision: int | None = None,
        summarize: str | None = None,
        request_id: str = "",
    ) -> v1.RewindSessionResponse:
        """Leaves out what comes after a message, or everything with `START`.

        With `summarize`, which may be empty or name topics, a summary of it stays.
        """
        request = v1.RewindSessionRequest(
            session_id=self.id, expected_revision=expected_revision, request_id=request_id
        )
        if message_id == START:
            request.to_start = True
        else:
            request.message_id = message_id
        if summarize is not None:
            request.branch_summary.instructions = summarize
            request.branch_summary.SetInParent()
        return self._call(self.client.stubs.messages.RewindSession, request)

    def edit(
        self,
        message_id: str,
        content: Content | None,
        *,
        metadata: object = None,
        expected_revision: int | None = None,
        request_id: str = "",
    ) -> v1.EditMessageResponse:
        """Puts another message in the place of one; None leaves it out. `metadata` is the other message's."""
        request = v1.EditMessageRequest(
            session_id=self.id,
            message_id=message_id,
            parts=[] if content is None else parts_of(content),
            remove=content is None,
            metadata_json=optional_json(metadata),
            expected_revision=expected_revision,
            request_id=request_id,
        )
        return self._call(self.client.stubs.messages.EditMessage, request)

    def pin(self, message_id: str, *, unpin: bool = False) -> None:
        """Pins a message, so that every view shows it verbatim, or removes the pin."""
        request = v1.PinMessageRequest(session_id=self.id, message_id=message_id, unpin=unpin)
        self._call(self.client.stubs.messages.PinMessage, request)

    # -- views

    def view(
        self,
        *,
        as_of_revision: int | None = None,
        window: int | str | v1.ModelWindow | None = None,
        overflow: v1.OverflowAction.ValueType = v1.OVERFLOW_ACTION_UNSPECIFIED,
        wait_seconds: float | None = None,
    ) -> View:
        """What a model should see now, or saw at a revision.

        The daemon sends only what is not in the newest view that this object has.
        """
        known = self._view if as_of_revision is None else None
        request = v1.GetViewRequest(
            session_id=self.id,
            as_of_revision=as_of_revision,
            window=model_window(window),
            overflow_action=overflow,
            wait_timeout=duration(wait_seconds),
            known_view_hash=None if known is None else known.header.view_hash,
            known_revision=None if known is None else known.header.revision,
        )
        view = View(*self._frames_of_view(request, [] if known is None else known.messages))
        # A view that was shortened for a call is no revision's, and nothing is known by it.
        if as_of_revision is None and not view.header.shortened:
            self._view = view
        return view

    def formatted_view(
        self,
        format: Format,
        *,
        as_of_revision: int | None = None,
        window: int | str | v1.ModelWindow | None = None,
        overflow: v1.OverflowAction.ValueType = v1.OVERFLOW_ACTION_UNSPECIFIED,
        wait_seconds: float | None = None,
        degrade: bool = False,
    ) -> FormattedView:
        """What a model should see now, or saw at a revision, as the messages of a provider's request.

        Raises `Error` with CONTENT_NOT_IN_FORMAT for what the format cannot carry; with `degrade`, a line of text
        stands for it, and `end.left_out_parts` names it.
        """
        known = self._formatted.get((format, degrade)) if as_of_revision is None else None
        request = v1.GetViewRequest(
            session_id=self.id,
            format=_FORMATS[format],
            degrade=degrade,
            as_of_revision=as_of_revision,
            window=model_window(window),
            overflow_action=overflow,
            wait_timeout=duration(wait_seconds),
            known_view_hash=None if known is None else known.header.view_hash,
            known_revision=None if known is None else known.header.revision,
        )
        held = [] if known is None else list(zip(known.messages, known.message_ids, strict=True))
        header, found, end, known_count = self._frames_of_view(request, held)
        pairs = [
            (json.loads(one.json), list(one.message_ids)) if isinstance(one, v1.FormattedMessage) else one
            for one in found
        ]
        system = json.loads(header.system_json) if header.HasField("system_json") else None
        messages, ids = [message for message, _ in pairs], [some for _, some in pairs]
        view = FormattedView(header, messages, ids, system, end, known_count)
        if as_of_revision is None and not header.shortened:
            self._formatted[format, degrade] = view
        return view

    def _frames_of_view(
        self, request: v1.GetViewRequest, known: Sequence[Any]
    ) -> tuple[v1.ViewHeader, list[Any], v1.ViewEnd, int]:
        attempts = self.client.attempts(waits(request))
        while True:
            try:
                return self._read_view(request, known, attempts.left())
            except grpc.RpcError as error:
                wait = attempts.next(self.client.failure(error))
            except _io.CLOSED:
                self.client.closed_by_caller()
                raise
            _io.sleep(wait)

    def _read_view(
        self, request: v1.GetViewRequest, known: Sequence[Any], timeout: float | None
    ) -> tuple[v1.ViewHeader, list[Any], v1.ViewEnd, int]:
        header, end = v1.ViewHeader(), v1.ViewEnd()
        messages: list[Any] = []
        headers = self.client.headers(self.metadata)
        call: Any = self.client.stubs.views.GetView(request, metadata=headers, timeout=timeout)
        for frame in call:
            kind = frame.WhichOneof("frame")
            if kind == "header":
                header = frame.header
                messages.extend(known[: header.known_message_count])
            elif kind == "messages":
                messages.extend(frame.messages.messages)
                messages.extend(frame.messages.formatted_messages)
            elif kind == "end":
                end = frame.end
        return header, messages, end, header.known_message_count

    # -- the session itself

    def update(
        self,
        *,
        title: str | None = None,
        metadata: object = None,
        window: int | str | v1.ModelWindow | None = None,
        preset: str | None = None,
        policy_override: object = None,
        expected_revision: int | None = None,
    ) -> v1.Session:
        """Changes what is given."""
        request = v1.UpdateSessionRequest(
            session_id=self.id,
            title=title,
            metadata_json=optional_json(metadata),
            window=model_window(window),
            preset=preset,
            policy_override_json=optional_json(policy_override),
            expected_revision=expected_revision,
        )
        return (self._call(self.client.stubs.sessions.UpdateSession, request)).session

    def archive(self, *, restore: bool = False) -> v1.Session:
        """Archives the session, or restores it."""
        request = v1.ArchiveSessionRequest(session_id=self.id, restore=restore)
        return (self._call(self.client.stubs.sessions.ArchiveSession, request)).session

    def add_label(self, label: str) -> v1.Session:
        """Adds a label."""
        request = v1.AddLabelRequest(session_id=self.id, label=label)
        return (self._call(self.client.stubs.sessions.AddLabel, request)).session

    def remove_label(self, label: str) -> v1.Session:
        """Removes a label."""
        request = v1.RemoveLabelRequest(session_id=self.id, label=label)
        return (self._call(self.client.stubs.sessions.RemoveLabel, request)).session

    def fork(
        self,
        client_id: str | None = None,
        *,
        message_id: str | None = None,
        as_of_revision: int | None = None,
        title: str = "",
    ) -> Session:
        """A session that shares this one's history up to a message, a revision, or now."""
        request = v1.ForkSessionRequest(
            session_id=self.id,
            client_id=client_id or f"python-{uuid.uuid4().hex}",
            title=title,
        )
        if message_id is not None:
            request.message_id = message_id
        elif as_of_revision is not None:
            request.as_of_revision = as_of_revision
        answer = self._call(self.client.stubs.sessions.ForkSession, request)
        return Session(self.client, answer.session.session_id, answer.session, self.metadata)

    def erase(
        self,
        reason: str,
        *,
        message_id: str | None = None,
        message_ids: Sequence[str] | None = None,
        part_id: str | None = None,
        expected_revision: int | None = None,
        dry_run: bool = False,
    ) -> v1.EraseContentResponse:
        """Erases content for good: a message, up to 512 messages, a part, or without these the whole session.

        The reason is kept, and must not have what is erased. Forks lose the same content. `expected_revision` refuses
        it if the history changed after that revision.
        """
        request = v1.EraseContentRequest(
            session_id=self.id, reason=reason, dry_run=dry_run, expected_revision=expected_revision
        )
        if message_id is not None:
            request.message_id = message_id
        elif message_ids is not None:
            request.message_set.CopyFrom(v1.MessageSet(message_ids=message_ids))
        elif part_id is not None:
            request.part_id = part_id
        else:
            request.whole_session = True
        self._view = None
        self._formatted = {}
        return self._call(self.client.stubs.erasures.EraseContent, request)

    def events(self, **options: Unpack[EventOptions]) -> Iterator[v1.Event]:
        """Follows its events; `options` are those of `Client.events`."""
        for event in self.client.events(self.id, **options):
            yield event

    def frames(self, **options: Unpack[FrameOptions]) -> Iterator[v1.SubscribeEventsResponse]:
        """Follows its events with all that a stream has; `options` are those of `Client.frames`."""
        for frame in self.client.frames(self.id, **options):
            yield frame

    # -- compactions

    def compact(self, *, instructions: str = "") -> v1.StartCompactionResponse:
        """Asks for a compaction; it is made in the background."""
        request = v1.StartCompactionRequest(session_id=self.id, instructions=instructions)
        return self._call(self.client.stubs.compactions.StartCompaction, request)

    def undo(self, *, redo: bool = False) -> None:
        """Undoes the newest compaction, rewind or edit, or makes it active again."""
        if redo:
            again = v1.RedoChangeRequest(session_id=self.id)
            self._call(self.client.stubs.compactions.RedoChange, again)
        else:
            request = v1.UndoChangeRequest(session_id=self.id)
            self._call(self.client.stubs.compactions.UndoChange, request)

    # -- working together

    def run(self, *, take_prompt: bool = False, lease_seconds: float = 30.0) -> Run:
        """The right to answer, as a context: `with session.run(take_prompt=True) as run: ...`

        The run is renewed while the context lasts, released at its end, and released as failed by an exception. What is
        written through `run.session` is refused with `RunLost` once the run is not the active one.
        """
        return Run(self, take_prompt=take_prompt, lease_seconds=lease_seconds)

    def get_run(self) -> v1.GetRunResponse:
        """What happens in the session: its newest run, and what that waits for."""
        return self._call(self.client.stubs.runs.GetRun, v1.GetRunRequest(session_id=self.id))

    def cancel_run(self, *, epoch: int | None = None, force: bool = False, tree: bool = False) -> list[v1.Run]:
        """Asks the active run to stop."""
        request = v1.CancelRunRequest(session_id=self.id, epoch=epoch, force=force, tree=tree)
        return list((self._call(self.client.stubs.runs.CancelRun, request)).runs)

    def submit(
        self,
        content: Content,
        *,
        delivery: v1.Delivery.ValueType = v1.DELIVERY_QUEUE,
        metadata: object = None,
        rewind_to: str | None = None,
        expected_revision: int | None = None,
        request_id: str = "",
    ) -> str:
        """Puts a prompt in the queue: what a user says, or results of tools that an agent left to its front end.

        The answer is its id. With `rewind_to` what comes after that message, or everything with `START`, is left out in
        the same change, and the active run ends.
        """
        request = v1.SubmitPromptRequest(
            session_id=self.id,
            parts=parts_of(content),
            delivery=delivery,
            metadata_json=optional_json(metadata),
            expected_revision=expected_revision,
            request_id=request_id,
        )
        _rewind_before(request, rewind_to)
        return (self._call(self.client.stubs.prompts.SubmitPrompt, request)).prompt_id

    def list_prompts(self, *, include_ended: bool = False) -> Iterator[v1.Prompt]:
        """The prompts that wait, in their order, or all, newest first."""
        request = v1.ListPromptsRequest(session_id=self.id, include_ended=include_ended)
        for page in pages(self._call, self.client.stubs.prompts.ListPrompts, request):
            for prompt in page.prompts:
                yield prompt

    def move_prompt(self, prompt_id: str, *, before: str | None = None) -> None:
        """Gives a prompt the place before another one, or the last one."""
        request = v1.MovePromptRequest(session_id=self.id, prompt_id=prompt_id, before_prompt_id=before)
        self._call(self.client.stubs.prompts.MovePrompt, request)

    def withdraw_prompt(self, prompt_id: str) -> None:
        """Takes a prompt out of the queue."""
        request = v1.WithdrawPromptRequest(session_id=self.id, prompt_id=prompt_id)
        self._call(self.client.stubs.prompts.WithdrawPrompt, request)

    def ask(
        self,
        text: str,
        choices: Sequence[str | v1.Choice] = (),
        *,
        tool: str = "",
        call_id: str = "",
        arguments: object = None,
        accepts_text: bool = False,
        default_choice: str | None = None,
        answer_seconds: float | None = None,
        request_id: str = "",
    ) -> v1.Approval:
        """Asks a question that any client answers, once. `wait_for_answer` waits for it.

        An agent that was restarted asks again with the same `request_id`, and finds its question with the answer.
        """
        question = v1.Question(
            text=text,
            choices=[v1.Choice(id=choice) if isinstance(choice, str) else choice for choice in choices],
            tool=tool,
            call_id=call_id,
            input_json=optional_json(arguments),
            accepts_text=accepts_text,
            default_choice=default_choice,
            answer_timeout=duration(answer_seconds),
        )
        request = v1.RequestApprovalRequest(session_id=self.id, question=question, request_id=request_id)
        return (self._call(self.client.stubs.approvals.RequestApproval, request)).approval

    def get_approval(self, approval_id: str) -> v1.Approval:
        """A question, with its answer."""
        request = v1.GetApprovalRequest(session_id=self.id, approval_id=approval_id)
        return (self._call(self.client.stubs.approvals.GetApproval, request)).approval

    def wait_for_answer(self, approval_id: str) -> v1.ApprovalEnd:
        """Waits until a question has ended, however that happens."""
        frames = self.client.frames(self.id, kinds=[v1.EVENT_KIND_APPROVAL_ENDED])
        try:
            # The first frame says that the stream has begun: from here on no end is missed.
            for frame in frames:
                ended = [event.approval_ended.approval_id for event in frame.events.events]
                if frame.HasField("ready") or approval_id in ended:
                    approval = self.get_approval(approval_id)
                    if approval.HasField("end"):
                        return approval.end
        finally:
            frames.close()  # type: ignore[attr-defined]
        raise AssertionError("a stream of events has no end")

    def list_approvals(self, *, include_ended: bool = False) -> Iterator[v1.Approval]:
        """The questions that wait, newest first, or all."""
        request = v1.ListApprovalsRequest(session_id=self.id, include_ended=include_ended)
        for page in pages(self._call, self.client.stubs.approvals.ListApprovals, request):
            for approval in page.approvals:
                yield approval

    def answer(self, approval_id: str, choice: str | None = None, *, text: str = "") -> v1.Approval:
        """Answers a question; a second answer is refused with APPROVAL_ENDED."""
        request = v1.AnswerApprovalRequest(session_id=self.id, approval_id=approval_id, choice=choice, text=text)
        return (self._call(self.client.stubs.approvals.AnswerApproval, request)).approval

    def withdraw_approval(self, approval_id: str) -> None:
        """Withdraws a question."""
        request = v1.WithdrawApprovalRequest(session_id=self.id, approval_id=approval_id)
        self._call(self.client.stubs.approvals.WithdrawApproval, request)

    def report_typing(self, typing: bool = True) -> None:
        """Says that the caller types, for 10 seconds, or that it stopped."""
        request = v1.ReportTypingRequest(session_id=self.id, typing=typing)
        self._call(self.client.stubs.events.ReportTyping, request)

    def _call(self, method: _io.UnaryUnaryMultiCallable[Request, Response], request: Request) -> Response:
        return self.client.call(method, request, metadata=self.metadata)

    def _open(
        self,
        role: v1.Role.ValueType,
        client_id: str | None,
        model: str,
        provider: str,
        metadata: object,
        open_seconds: float | None,
    ) -> v1.NewMessage:
        return v1.NewMessage(
            client_id=client_id or f"python-{uuid.uuid4().hex}",
            role=role,
            open=True,
            model=model,
            provider=provider,
            metadata_json=optional_json(metadata),
            open_timeout=duration(open_seconds),
        )


def _joined(answers: Sequence[v1.AppendMessagesResponse]) -> v1.AppendMessagesResponse:
    """The answer to several changes that were one."""
    joined = answers[-1]
    if len(answers) > 1:
        joined = v1.AppendMessagesResponse()
        joined.CopyFrom(answers[-1])
        joined.existed_count = sum(answer.existed_count for answer in answers)
        for name in ("message_ids", "secret_findings", "erased_message_ids"):
            joined.ClearField(name)
            for answer in answers:
                getattr(joined, name).extend(getattr(answer, name))
    return joined


def waits(request: v1.GetViewRequest) -> float:
    """The time that a view has the daemon wait for compactions, in seconds."""
    asked = request.wait_timeout.ToNanoseconds() / 1e9
    return (asked or _WAIT_SECONDS) if request.overflow_action == v1.OVERFLOW_ACTION_WAIT else 0.0


def _rewind_before(request: v1.AppendMessagesRequest | v1.SubmitPromptRequest, rewind_to: str | None) -> None:
    if rewind_to == START:
        request.rewind.to_start = True
    elif rewind_to is not None:
        request.rewind.message_id = rewind_to


def model_window(window: int | str | v1.ModelWindow | None) -> v1.ModelWindow | None:
    """A window of which only the size is known, or the name of the model, whose limits the daemon knows."""
    if isinstance(window, str):
        return v1.ModelWindow(model=window)
    return v1.ModelWindow(max_context_tokens=window) if isinstance(window, int) else window
