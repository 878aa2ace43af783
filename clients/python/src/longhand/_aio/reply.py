"""Messages that are written while they come."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import grpc

from longhand import v1
from longhand._aio import _io
from longhand.errors import Error
from longhand.parts import as_json, checked

if TYPE_CHECKING:
    from longhand._aio.session import Session, View

__all__ = ["DraftReply", "Reply"]

Self = TypeVar("Self", bound="Writing")


class Writing:
    """A message that is open until its end. Drafts grow text by text; other parts come whole."""

    def __init__(self, session: Session, new: v1.NewMessage, view: View | None) -> None:
        self._session = session
        self._new = new
        self._view_token = None if view is None else view.token
        self._lengths: dict[str, int] = {}
        self._calls = False
        self._finish: v1.Finish | None = None
        self._usage: v1.Usage | None = None
        #: The answer to the whole message, with the context usage; None before its end.
        self.answer: v1.WriteMessageResponse | v1.FinishMessageResponse | None = None

    @property
    def client_id(self) -> str:
        """The message's client id, by which it can be read while it is written."""
        return self._new.client_id

    async def __aenter__(self: Self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._finish is not None:
            return
        if error is None:
            await self.finish()
            return
        try:
            await self.finish(reason=v1.FINISH_REASON_ABORTED, detail=f"{type(error).__name__}: {error}"[:1000])
        except Error:
            # The caller's own exception says more; the message is sealed when its time is over.
            pass

    async def text(self, delta: str, *, draft: str = "text") -> None:
        """Adds text to a draft, which is named by its client id."""
        await self._write(v1.DraftText(client_id=draft, kind=v1.DRAFT_KIND_TEXT, delta=checked(delta)))

    async def reasoning(self, delta: str, *, draft: str = "reasoning") -> None:
        """Adds text to the reasoning."""
        await self._write(v1.DraftText(client_id=draft, kind=v1.DRAFT_KIND_REASONING, delta=checked(delta)))

    async def tool_input(self, call_id: str, tool: str, delta: str, *, draft: str | None = None) -> None:
        """Adds text to the input of a call."""
        self._calls = True
        text = v1.DraftText(
            client_id=draft or f"call:{call_id}",
            kind=v1.DRAFT_KIND_TOOL_INPUT,
            delta=checked(delta),
            call_id=call_id,
            tool=tool,
        )
        await self._write(text)

    async def tool_output(
        self, call_id: str, delta: str, *, call_message_id: str | None = None, draft: str | None = None
    ) -> None:
        """Adds text to the output of a tool."""
        text = v1.DraftText(
            client_id=draft or f"result:{call_id}",
            kind=v1.DRAFT_KIND_TOOL_OUTPUT,
            delta=checked(delta),
            call_id=call_id,
            call_message_id=call_message_id,
        )
        await self._write(text)

    async def part(self, part: v1.Part) -> None:
        """Adds a whole part. It gets a client id if it has none, so that it can be sent again."""
        if not part.client_id:
            part.client_id = f"part:{uuid.uuid4().hex}"
        self._calls = self._calls or part.HasField("tool_call")
        await self._write_part(part)

    async def end_draft(
        self,
        draft: str,
        *,
        status: v1.ToolResultStatus.ValueType = v1.TOOL_RESULT_STATUS_UNSPECIFIED,
        metadata: object = None,
    ) -> None:
        """Closes a draft before the end of the message."""
        metadata_json = None if metadata is None else as_json(metadata)
        await self._end_draft(v1.DraftEnd(client_id=draft, status=status, metadata_json=metadata_json))

    def set_usage(self, usage: v1.Usage) -> None:
        """The reply's usage, for an end by the context's."""
        self._usage = usage

    async def finish(
        self,
        *,
        usage: v1.Usage | None = None,
        reason: v1.FinishReason.ValueType | None = None,
        detail: str = "",
    ) -> None:
        """Seals the message. The reason is that it waits for tools if it calls some, else that it has ended."""
        if reason is None and self._new.role == v1.ROLE_ASSISTANT:
            reason = v1.FINISH_REASON_TOOL_CALLS if self._calls else v1.FINISH_REASON_STOP
        self._finish = v1.Finish(
            reason=reason or v1.FINISH_REASON_UNSPECIFIED,
            usage=usage or self._usage,
            detail=detail,
            view_token=self._view_token,
        )
        await self._end(self._finish)

    async def _write(self, text: v1.DraftText) -> None:
        text.offset_bytes = self._lengths.get(text.client_id, 0)
        self._lengths[text.client_id] = text.offset_bytes + len(text.delta.encode())
        await self._write_text(text)

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _write_text(self, text: v1.DraftText) -> None:
        raise NotImplementedError

    async def _write_part(self, part: v1.Part) -> None:
        raise NotImplementedError

    async def _end_draft(self, end: v1.DraftEnd) -> None:
        raise NotImplementedError

    async def _end(self, finish: v1.Finish) -> None:
        raise NotImplementedError


class Reply(Writing):
    """A message that is written as one stream; a lost stream goes on with what the daemon has not got."""

    def __init__(self, session: Session, new: v1.NewMessage, view: View | None) -> None:
        super().__init__(session, new, view)
        #: Everything that was sent, for the case that the stream is lost: until the end, nothing is acknowledged.
        self._frames: list[v1.WriteMessageRequest] = []
        self._writer: _io.Writer[v1.WriteMessageRequest, v1.WriteMessageResponse] | None = None
        #: The number of times that the stream was lost.
        self.resume_count = 0

    async def heartbeat(self) -> None:
        """Keeps the message open while nothing else is written."""
        await self._send(v1.WriteMessageRequest(heartbeat=v1.Heartbeat()), again=False)

    async def _begin(self) -> None:
        session_id, request_id = self._session.id, uuid.uuid4().hex
        target = v1.WriteTarget(session_id=session_id, new_message=self._new, request_id=request_id)
        self._frames = [v1.WriteMessageRequest(target=target)]
        self._writer = self._open()
        await self._try(self._frames[0])

    async def _write_text(self, text: v1.DraftText) -> None:
        await self._send(v1.WriteMessageRequest(draft_text=text))

    async def _write_part(self, part: v1.Part) -> None:
        await self._send(v1.WriteMessageRequest(part=part))

    async def _end_draft(self, end: v1.DraftEnd) -> None:
        await self._send(v1.WriteMessageRequest(draft_end=end))

    async def _end(self, finish: v1.Finish) -> None:
        await self._send(v1.WriteMessageRequest(message_end=v1.MessageEnd(finish=finish)))
        attempts = self._session.client.attempts()
        while self._writer is not None:
            try:
                self.answer = await self._writer.finish(self._session.client.timeout)
                return
            except grpc.RpcError as error:
                wait = attempts.next(self._session.client.failure(error))
            await _io.sleep(wait)
            await self._resume()

    async def _send(self, frame: v1.WriteMessageRequest, *, again: bool = True) -> None:
        if again:
            self._frames.append(frame)
        await self._try(frame)

    async def _try(self, frame: v1.WriteMessageRequest) -> None:
        attempts = self._session.client.attempts()
        try:
            if self._writer is not None:
                await self._writer.write(frame, self._session.client.timeout)
            return
        except grpc.RpcError as error:
            wait = attempts.next(self._session.client.failure(error))
        await _io.sleep(wait)
        await self._resume()

    def _open(self) -> _io.Writer[v1.WriteMessageRequest, v1.WriteMessageResponse]:
        session = self._session
        session.client.check()
        return _io.Writer(session.client.stubs.messages.WriteMessage, session.client.headers(session.metadata))

    async def _resume(self) -> None:
        """Opens another stream, and sends what the daemon has not got."""
        attempts = self._session.client.attempts()
        while True:
            self.resume_count += 1
            if self._writer is not None:
                self._writer.cancel()
            frames = await self._missing()
            self._writer = self._open()
            try:
                for frame in frames:
                    await self._writer.write(frame, self._session.client.timeout)
                return
            except grpc.RpcError as error:
                wait = attempts.next(self._session.client.failure(error))
            await _io.sleep(wait)

    async def _missing(self) -> list[v1.WriteMessageRequest]:
        """The frames of which the daemon has nothing, or not all."""
        session = self._session
        request = v1.GetMessageRequest(session_id=session.id, message_id=self.client_id)
        try:
            answer = await session.client.call(session.client.stubs.messages.GetMessage, request)
        except Error as error:
            if error.reason == "MESSAGE_NOT_FOUND":
                return self._frames
            raise
        target, *written = self._frames
        if answer.message.HasField("sealed_revision"):
            # With its `request_id` the end gets its answer again; a message that another one sealed is refused.
            return [target, *(frame for frame in written if frame.HasField("message_end"))]
        closed = {part.client_id for part in answer.message.parts if part.client_id}
        lengths = {draft.client_id: len(draft.text.encode()) for draft in answer.drafts}
        return [target, *(left for frame in written if (left := _remainder(frame, closed, lengths)) is not None)]


def _remainder(
    frame: v1.WriteMessageRequest, closed: set[str], lengths: dict[str, int]
) -> v1.WriteMessageRequest | None:
    """What is left of a frame that a daemon with these parts and drafts may have got; None for nothing."""
    kind = frame.WhichOneof("frame")
    if kind == "part":
        return None if frame.part.client_id in closed else frame
    if kind == "draft_end":
        return None if frame.draft_end.client_id in closed else frame
    if kind != "draft_text":
        return frame
    text = frame.draft_text
    if text.client_id in closed:
        return None
    known = lengths.get(text.client_id, 0) - text.offset_bytes
    delta = text.delta.encode()
    if text.client_id in lengths and known >= len(delta):
        return None
    if known <= 0:
        return frame
    left = v1.WriteMessageRequest()
    left.CopyFrom(frame)
    left.draft_text.offset_bytes += known
    left.draft_text.delta = delta[known:].decode()
    return left


class DraftReply(Writing):
    """A message that is written by a request for each piece: stored when the call returns."""

    def __init__(self, session: Session, new: v1.NewMessage, view: View | None) -> None:
        super().__init__(session, new, view)
        self._part_ids: dict[str, str] = {}

    async def _begin(self) -> None:
        await self._session.append(self._new)

    async def _write_text(self, text: v1.DraftText) -> None:
        request = v1.AppendDraftRequest(
            session_id=self._session.id,
            message_id=self.client_id,
            client_id=text.client_id,
            kind=text.kind,
            offset_bytes=text.offset_bytes,
            delta=text.delta,
            call_id=text.call_id,
            tool=text.tool,
            call_message_id=text.call_message_id if text.HasField("call_message_id") else None,
        )
        client = self._session.client
        answer = await client.call(client.stubs.messages.AppendDraft, request, metadata=self._session.metadata)
        self._part_ids[text.client_id] = answer.part_id

    async def heartbeat(self) -> None:
        """Keeps the message open while nothing else is written."""
        await self._append_parts([])

    async def _write_part(self, part: v1.Part) -> None:
        await self._append_parts([part])

    async def _end_draft(self, end: v1.DraftEnd) -> None:
        part = v1.Part(part_id=self._part_ids[end.client_id])
        if end.HasField("metadata_json"):
            part.metadata_json = end.metadata_json
        if end.status:
            part.tool_result.status = end.status
        await self._append_parts([part])

    async def _append_parts(self, parts: list[v1.Part]) -> None:
        request = v1.AppendPartsRequest(session_id=self._session.id, message_id=self.client_id, parts=parts)
        client = self._session.client
        await client.call(client.stubs.messages.AppendParts, request, metadata=self._session.metadata)

    async def _end(self, finish: v1.Finish) -> None:
        request = v1.FinishMessageRequest(session_id=self._session.id, message_id=self.client_id, finish=finish)
        client = self._session.client
        self.answer = await client.call(client.stubs.messages.FinishMessage, request, metadata=self._session.metadata)
