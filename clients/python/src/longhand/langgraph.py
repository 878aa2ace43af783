"""LangGraph on Longhand: a saver of checkpoints, and a middleware that serves views.

`create_agent(model, tools, middleware=[LonghandMiddleware(client)], checkpointer=LonghandSaver(client))`

The saver keeps checkpoints as records, which no view shows: what a graph is at, exactly as LangGraph wrote it. The
middleware is what makes a conversation one that others share and that fits its window: it appends the messages of the
graph's state to a session, and gives the model the view instead of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.config import get_config

from longhand import parts, v1
from longhand._batches import batches
from longhand._sync.client import Client
from longhand._sync.known import KnownIds
from longhand._sync.session import Session, View
from longhand.errors import Error

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

__all__ = ["LonghandMiddleware", "LonghandSaver", "messages_of_view"]

_ATTEMPTS = 16
#: Messages of one erasure.
_ERASED_AT_ONCE = 512


class LonghandSaver(BaseCheckpointSaver[str]):
    """A saver over one connection; one session for each thread.

    A checkpoint and the channels that changed are one append. What is deleted is erased for good; a copied thread has
    rows of its own, so that it stays when its source is deleted. `namespace` keeps savers apart that share a daemon.
    The asynchronous methods use a thread for each call.
    """

    def __init__(self, client: Client, *, namespace: str = "", serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._client = client
        self._namespace = namespace
        self._prefix = f"langgraph-{_hash(namespace)}-"

    # -- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint of a thread, the newest one unless the config names another."""
        where = config["configurable"]
        thread_id, namespace = str(where["thread_id"]), where.get("checkpoint_ns", "")
        prefix, checkpoint_id = f"c/{_hash(namespace)}/", get_checkpoint_id(config)
        if checkpoint_id:
            found = self._found(thread_id, [prefix + checkpoint_id]).get(prefix + checkpoint_id)
        else:
            found = next(self._listed(thread_id, prefix, reverse=True, page_size=1), None)
        return None if found is None else self._tuple(thread_id, found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, of each namespace the newest first."""
        where = config["configurable"] if config else {}
        thread_ids = [str(where["thread_id"])] if config else self._thread_ids()
        wanted = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        prefix = "c/" if where.get("checkpoint_ns") is None else f"c/{_hash(where['checkpoint_ns'])}/"
        for thread_id in thread_ids:
            for found in self._listed(thread_id, prefix, reverse=True, page_size=50):
                checkpoint_id = found.client_id.split("/")[2]
                if (wanted and checkpoint_id != wanted) or (until and checkpoint_id >= until):
                    continue
                metadata = self._loads(found.parts[2]) if filter else {}
                if filter and not all(metadata.get(name) == value for name, value in filter.items()):
                    continue
                if limit is not None and limit <= 0:
                    return
                if limit is not None:
                    limit -= 1
                yield self._tuple(thread_id, found)

    def _tuple(self, thread_id: str, found: v1.Message) -> CheckpointTuple:
        """The checkpoint of a record, with its channels and its pending writes."""
        about = json.loads(found.parts[0].record.data)
        checkpoint, metadata = self._loads(found.parts[1]), self._loads(found.parts[2])
        namespace, checkpoint_id = about["ns"], about["id"]
        names = {_blob(namespace, channel, version): channel for channel, version in about["versions"].items()}
        values = {
            names[name]: self._loads(message.parts[1])
            for name, message in self._found(thread_id, names).items()
            if message.parts[0].record.kind != "langgraph.empty"
        }
        pending = []
        for message in self._listed(thread_id, f"w/{_hash(namespace)}/{checkpoint_id}/"):
            write = json.loads(message.parts[0].record.data)
            key = (write["path"], write["task"], write["index"])
            pending.append((key, (write["task"], write["channel"], self._loads(message.parts[1]))))
        pending.sort(key=lambda write: write[0])
        config = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        parent = about["parent"]
        return CheckpointTuple(
            config={"configurable": config},
            checkpoint=cast(Checkpoint, {**checkpoint, "channel_values": values}),
            metadata=metadata,
            parent_config={"configurable": {**config, "checkpoint_id": parent}} if parent else None,
            pending_writes=[write for _, write in pending],
        )

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Appends a checkpoint with the channels that changed."""
        where = config["configurable"]
        thread_id, namespace = str(where["thread_id"]), where.get("checkpoint_ns", "")
        values = checkpoint["channel_values"]
        stripped = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        records = []
        for channel, version in new_versions.items():
            name = _blob(namespace, channel, version)
            if channel in values:
                records.append(self._record("langgraph.channel", "", name, values[channel]))
            else:
                records.append(self._record("langgraph.empty", "", name))
        about = {
            "ns": namespace,
            "id": checkpoint["id"],
            "parent": where.get("checkpoint_id"),
            "versions": checkpoint["channel_versions"],
        }
        name = f"c/{_hash(namespace)}/{_checked(checkpoint['id'])}"
        own = get_checkpoint_metadata(config, metadata)
        records.append(self._record("langgraph.checkpoint", json.dumps(about), name, stripped, own))
        self._append(thread_id, records)
        where = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        return {"configurable": where}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Appends the writes of a task; those that are there stay, except on channels that are written anew."""
        where = config["configurable"]
        thread_id, namespace = str(where["thread_id"]), where.get("checkpoint_ns", "")
        parent = f"w/{_hash(namespace)}/{_checked(where['checkpoint_id'])}"
        records: dict[str, v1.NewMessage] = {}
        for place, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, place)
            name = f"{parent}/{_hash(task_id, str(index))}"
            about = json.dumps({"task": task_id, "channel": channel, "index": index, "path": task_path})
            record = self._record("langgraph.write", about, name, value)
            record.replace_existing = index < 0
            records[name] = record
        for _ in range(_ATTEMPTS):
            known = {message.client_id for message in self._listed(thread_id, f"{parent}/")}
            fresh = [record for name, record in records.items() if record.replace_existing or name not in known]
            try:
                self._append(thread_id, fresh)
                return
            except Error as error:
                # Another client wrote the same ones between the two.
                if error.reason != "CLIENT_ID_REUSED":
                    raise
        raise AssertionError("what exists is in the list of what exists")

    # -- deleting, copying

    def delete_thread(self, thread_id: str) -> None:
        """Erases a thread for good."""
        try:
            self._session(thread_id).erase("deleted through LangGraph")
        except Error as error:
            if error.reason not in ("SESSION_NOT_FOUND", "NOTHING_TO_ERASE"):
                raise

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erases the checkpoints of runs, of every thread, and their writes."""
        for thread_id in self._thread_ids():
            checkpoints = list(self._listed(thread_id, "c/"))
            gone = [found for found in checkpoints if self._loads(found.parts[2]).get("run_id") in run_ids]
            self._erase(thread_id, gone, checkpoints)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erases all checkpoints of threads (`delete`), or all but the newest of each namespace (`keep_latest`).

        A graph whose channels keep differences needs the ancestors of its newest checkpoint: do not prune its threads.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"{strategy!r} is no strategy: keep_latest, delete")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            checkpoints = list(self._listed(thread_id, "c/"))
            # They come in the order of their namespaces and ids.
            newest = {found.client_id.split("/")[1]: found.client_id for found in checkpoints}
            gone = [found for found in checkpoints if found.client_id not in newest.values()]
            self._erase(thread_id, gone, checkpoints)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies the checkpoints and writes of a thread to another one."""
        records: list[v1.NewMessage] = []
        try:
            for message in self._session(source_thread_id).history(page_size=1000):
                if message.status.state == v1.MESSAGE_STATE_RECORD and not message.parts[0].erased:
                    copy = v1.NewMessage(role=message.role, kind=v1.MESSAGE_KIND_RECORD, parts=message.parts)
                    copy.client_id, copy.replace_existing = message.client_id, True
                    records.append(copy)
        except Error as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise
        self._append(target_thread_id, records)

    def _erase(self, thread_id: str, gone: Sequence[v1.Message], checkpoints: Sequence[v1.Message]) -> None:
        """Erases checkpoints with their writes, and the values of channels that no other checkpoint has."""
        names = {found.client_id for found in gone}
        needed = {blob for found in checkpoints if found.client_id not in names for blob in _blobs(found)}
        values = {blob for found in gone for blob in _blobs(found)} - needed
        writes = [
            message.client_id
            for found in gone
            for message in self._listed(thread_id, f"w/{found.client_id.removeprefix('c/')}/")
        ]
        # The checkpoints come last, so that an erasure that ends early can be made again.
        doomed = [*self._found(thread_id, values), *writes, *names]
        for start in range(0, len(doomed), _ERASED_AT_ONCE):
            self._erase_records(self._session(thread_id), doomed[start : start + _ERASED_AT_ONCE])

    def _erase_records(self, session: Session, names: Sequence[str]) -> None:
        try:
            session.erase("deleted through LangGraph", message_ids=names)
        except Error as error:
            if error.reason != "LIMIT_EXCEEDED" or len(names) == 1:
                raise
            # They have more content than one erasure takes.
            self._erase_records(session, names[: len(names) // 2])
            self._erase_records(session, names[len(names) // 2 :])

    # -- the same for asyncio

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await asyncio.to_thread(next, found, None)) is not None:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Versions that sort as text, and differ between clients that count at the same time."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random.random():016}"

    # -- sessions and records

    def _session(self, thread_id: str) -> Session:
        return self._client.session(self._prefix + _hash(thread_id, length=32))

    def _thread_ids(self) -> Sequence[str]:
        chosen = v1.SessionFilter(client_id_prefix=self._prefix)
        infos = [info for info in self._client.list_sessions(filter=chosen, page_size=1000)]
        active = [info for info in infos if info.state == v1.SESSION_STATE_ACTIVE]
        return [json.loads(info.metadata_json)["langgraph_thread"] for info in active]

    def _listed(
        self, thread_id: str, prefix: str, *, reverse: bool = False, page_size: int = 1000
    ) -> Iterator[v1.Message]:
        """The records whose client ids begin with a prefix, in the order of these."""
        history = self._session(thread_id).history(client_id_prefix=prefix, reverse=reverse, page_size=page_size)
        try:
            for message in history:
                if message.status.state == v1.MESSAGE_STATE_RECORD and not message.parts[0].erased:
                    yield message
        except Error as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise

    def _found(self, thread_id: str, names: Iterable[str]) -> dict[str, v1.Message]:
        """Those of some records that are there, by their client ids."""
        wanted = list(names)
        while wanted:
            try:
                found = self._session(thread_id).get_messages(wanted)
                return {message.client_id: message for message in found if not message.parts[0].erased}
            except Error as error:
                if error.reason == "SESSION_NOT_FOUND":
                    break
                if error.reason != "MESSAGE_NOT_FOUND":
                    raise
                wanted.remove(error.metadata["message_id"])
        return {}

    def _append(self, thread_id: str, records: Sequence[v1.NewMessage]) -> None:
        """Appends records, in one change as long as they fit in one."""
        session = self._session(thread_id)
        for batch in batches(records, v1.NewMessage.ByteSize):
            for _ in range(_ATTEMPTS):
                try:
                    session.append(*batch)
                    break
                except Error as error:
                    if error.reason not in ("SESSION_NOT_FOUND", "SESSION_ERASED"):
                        raise
                    failure = error
                self._client.open_session(
                    session.id, title=thread_id, metadata={"agent": "langgraph", "langgraph_thread": thread_id}
                )
            else:
                raise failure

    def _record(self, kind: str, about: str, client_id: str, *values: object) -> v1.NewMessage:
        record = parts.record(kind, about, client_id=client_id, replace=True)
        for value in values:
            form, data = self.serde.dumps_typed(value)
            record.parts.append(v1.Part(opaque=v1.OpaquePart(provider="langgraph", kind=form, data=data)))
        return record

    def _loads(self, part: v1.Part) -> Any:
        return self.serde.loads_typed((part.opaque.kind, part.opaque.data))


def _hash(*names: str, length: int = 16) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:length]


def _blob(namespace: str, channel: str, version: object) -> str:
    return f"b/{_hash(namespace, channel, str(version), length=40)}"


def _blobs(checkpoint: v1.Message) -> set[str]:
    """The records of the channels of a checkpoint."""
    about = json.loads(checkpoint.parts[0].record.data)
    return {_blob(about["ns"], *version) for version in about["versions"].items()}


def _checked(checkpoint_id: str) -> str:
    if not checkpoint_id or "/" in checkpoint_id or len(checkpoint_id.encode()) > 64:
        raise ValueError(f"{checkpoint_id!r} is no id of a checkpoint: 1 to 64 bytes without a slash")
    return checkpoint_id


class LonghandMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives the model the view of a session in place of the messages of the graph's state.

    Before each request to the model, the messages of the state that the session has not are appended, by their ids; the
    reply is appended with its usage and the view that it answers. What others wrote to the session is in the view, too.
    The session is that of `session_id`, else of the thread. Messages that the state removes are not removed here.
    """

    def __init__(
        self,
        client: Client,
        session_id: str | None = None,
        *,
        window: int | str | v1.ModelWindow | None = None,
        preset: str = "",
        overflow: v1.OverflowAction.ValueType = v1.OVERFLOW_ACTION_WAIT,
    ) -> None:
        super().__init__()
        self._client = client
        self._session_id = session_id
        self._window = window
        self._preset = preset
        self._overflow = overflow
        self._sessions: dict[str, Session] = {}
        self._known: dict[str, KnownIds] = {}

    def session(self) -> Session:
        """The session of the running graph."""
        name = self._session_id or str(get_config()["configurable"]["thread_id"])
        if name not in self._sessions:
            self._sessions[name] = self._client.open_session(
                name, window=self._window, preset=self._preset, metadata={"agent": "langgraph"}
            )
        return self._sessions[name]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Appends what is new, asks the model with the view, and appends its reply."""
        session = self.session()
        view = self._before(session, request.messages)
        response = handler(request.override(messages=messages_of_view(view.messages)))
        self._after(session, view, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The same for asyncio."""
        session = await asyncio.to_thread(self.session)
        view = await asyncio.to_thread(self._before, session, request.messages)
        response = await handler(request.override(messages=messages_of_view(view.messages)))
        await asyncio.to_thread(self._after, session, view, response)
        return response

    def _before(self, session: Session, messages: Iterable[AnyMessage]) -> View:
        # Another process may have run the graph, or this one before it was started anew.
        known = self._known.setdefault(session.id, KnownIds(session)).read()
        fresh = [message for message in messages if message.id is None or _client_id(message.id) not in known]
        if fresh:
            session.append(*(_new_message(message) for message in fresh))
        return session.view(overflow=self._overflow)

    def _after(self, session: Session, view: View, response: ModelResponse[Any]) -> None:
        replies = [message for message in response.result if isinstance(message, AIMessage)]
        for reply in replies:
            if reply.id is None:
                # The state gives it the same id, by which it is known there.
                reply.id = f"lc_{random.getrandbits(128):032x}"
        if replies:
            session.append(*(_new_message(reply, view.token) for reply in replies))


def _client_id(id: str) -> str:
    return f"lc:{_hash(id, length=40)}"


def _new_message(message: BaseMessage, view_token: str | None = None) -> v1.NewMessage:
    """A message with the texts, calls and results that views and other agents read, and the original beside them."""
    content = _text(message)
    made: list[v1.Part] = [parts.text(content)] if content and not isinstance(message, ToolMessage) else []
    usage, reason, role = None, None, v1.ROLE_USER
    if isinstance(message, ToolMessage):
        role = v1.ROLE_TOOL
        failed = message.status == "error"
        status = v1.TOOL_RESULT_STATUS_ERROR if failed else v1.TOOL_RESULT_STATUS_COMPLETED
        made.append(parts.tool_result(message.tool_call_id, content, status=status))
    elif isinstance(message, AIMessage):
        role = v1.ROLE_ASSISTANT
        made += [parts.tool_call(call["id"] or "call", call["name"], call["args"]) for call in message.tool_calls]
        reason = v1.FINISH_REASON_TOOL_CALLS if message.tool_calls else v1.FINISH_REASON_STOP
        if message.usage_metadata is not None:
            counted = message.usage_metadata
            cached = counted.get("input_token_details", {}).get("cache_read", 0)
            usage = parts.usage(counted["input_tokens"] - cached, counted["output_tokens"], cache_read_tokens=cached)
    elif isinstance(message, SystemMessage):
        role = v1.ROLE_SYSTEM
    finish = None if reason is None else v1.Finish(reason=reason, usage=usage, view_token=view_token)
    # Ids and content are in the message itself.
    data = message.model_dump(mode="json", exclude_none=True)
    if isinstance(message.content, str):
        del data["content"]
    return v1.NewMessage(
        client_id=None if message.id is None else _client_id(message.id),
        role=role,
        parts=made or [parts.text("")],
        metadata_json=json.dumps({"langchain": {"type": message.type, "data": data}}, ensure_ascii=False),
        finish=finish,
    )


def messages_of_view(messages: Sequence[v1.ContextMessage]) -> list[AnyMessage]:
    """The messages of a view as LangChain has them: those that it wrote as they were, others by their parts."""
    return [made for message in messages for made in _messages(message)]


def _messages(message: v1.ContextMessage) -> list[AnyMessage]:
    shown = [context.part for context in message.parts]
    results = [part.tool_result for part in shown if part.HasField("tool_result")]
    content = "".join(part.text.text or part.marker.text for part in shown)
    calls = [part.tool_call for part in shown if part.HasField("tool_call")]
    shortened = any(context.shortening for context in message.parts)
    original = json.loads(message.metadata_json or "{}").get("langchain") if not shortened else None
    if original is not None and len(results) + len(calls) > 1 and original["type"] == "tool":
        original = None
    if original is not None:
        data = dict(original["data"])
        data.setdefault("content", results[0].output if original["type"] == "tool" and results else content)
        fits = len(data.get("tool_calls", ())) == len(calls)
        if fits and (original["type"] == "tool") == bool(results):
            return cast("list[AnyMessage]", messages_from_dict([{"type": original["type"], "data": data}]))
    made: list[AnyMessage] = [
        ToolMessage(result.output, tool_call_id=result.call_id, status=_status(result.status)) for result in results
    ]
    if message.role == v1.ROLE_ASSISTANT and (content or calls):
        named = [{"id": call.call_id, "name": call.tool, "args": _arguments(call.input_json)} for call in calls]
        made.insert(0, AIMessage(content, tool_calls=named))
    elif content:
        made.append(SystemMessage(content) if message.role == v1.ROLE_SYSTEM else HumanMessage(content))
    return made


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    pieces = [piece if isinstance(piece, str) else piece.get("text", "") for piece in message.content]
    return "".join(pieces)


def _status(status: v1.ToolResultStatus.ValueType) -> Any:
    return "success" if status == v1.TOOL_RESULT_STATUS_COMPLETED else "error"


def _arguments(input_json: str) -> dict[str, Any]:
    try:
        value = json.loads(input_json)
    except ValueError:
        return {"input": input_json}
    return value if isinstance(value, dict) else {"input": value}
