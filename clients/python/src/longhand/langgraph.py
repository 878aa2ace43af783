"""LangGraph on Longhand: a saver of checkpoints, and a middleware that serves views.

`create_agent(model, tools, middleware=[LonghandMiddleware(client)], checkpointer=LonghandSaver(client))`

The saver keeps checkpoints as records, which no view shows: what a graph is at, exactly as LangGraph wrote it. The
middleware is what makes a conversation one that others share and that fits its window: it appends the messages of the
graph's state to a session, and gives the model the view instead of them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
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
from langgraph.runtime import Runtime

from longhand import parts, v1
from longhand._batches import batches
from longhand._merge import Shown, merged
from longhand._originals import Original, decode, encode, pieced_messages, restored
from longhand._sync.client import Client
from longhand._sync.conversation import Conversation, Item
from longhand._sync.session import Session, View
from longhand.errors import Error

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

__all__ = ["LonghandMiddleware", "LonghandSaver", "messages_of_view"]

_ATTEMPTS = 16
#: Checkpoints whose values are read together, and those up to which each one's writes are read alone.
_LISTED_AT_ONCE, _READ_ALONE = 50, 2
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
        return None if found is None else next(self._tuples(thread_id, [found]))

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
            chosen: list[v1.Message] = []
            for found in self._listed(thread_id, prefix, reverse=True, page_size=_LISTED_AT_ONCE):
                checkpoint_id = found.client_id.split("/")[2]
                if (wanted and checkpoint_id != wanted) or (until and checkpoint_id >= until):
                    continue
                metadata = self._loads(found.parts[2]) if filter else {}
                if filter and not all(metadata.get(name) == value for name, value in filter.items()):
                    continue
                if limit is not None and limit <= 0:
                    break
                if limit is not None:
                    limit -= 1
                chosen.append(found)
                if len(chosen) == _LISTED_AT_ONCE:
                    yield from self._tuples(thread_id, chosen)
                    chosen = []
            yield from self._tuples(thread_id, chosen)

    def _tuples(self, thread_id: str, found: Sequence[v1.Message]) -> Iterator[CheckpointTuple]:
        """The checkpoints of records: what all of them need is read together."""
        values = self._found(thread_id, {name for message in found for name in _blobs(message)})
        prefixes = [f"w/{message.client_id.removeprefix('c/')}/" for message in found]
        wanted = set(prefixes)
        if len(prefixes) > _READ_ALONE:
            # One list of a namespace is less than one for each checkpoint of it.
            prefixes = sorted({f"w/{message.client_id.split('/')[1]}/" for message in found})
        writes: dict[str, list[v1.Message]] = {}
        for prefix in prefixes:
            for message in self._listed(thread_id, prefix):
                own = f"{message.client_id.rsplit('/', 1)[0]}/"
                if own in wanted:
                    writes.setdefault(own, []).append(message)
        for message in found:
            yield self._tuple(thread_id, message, values, writes.get(f"w/{message.client_id.removeprefix('c/')}/", ()))

    def _tuple(
        self, thread_id: str, found: v1.Message, known: Mapping[str, v1.Message], writes: Iterable[v1.Message]
    ) -> CheckpointTuple:
        """The checkpoint of a record, with its channels and its pending writes."""
        about = json.loads(found.parts[0].record.data)
        checkpoint, metadata = self._loads(found.parts[1]), self._loads(found.parts[2])
        namespace, checkpoint_id = about["ns"], about["id"]
        values = {}
        for channel, version in about["versions"].items():
            message = known.get(_blob(namespace, channel, version))
            if message is not None and message.parts[0].record.kind != "langgraph.empty":
                values[channel] = self._loads(message.parts[1])
        pending = []
        for message in writes:
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
    """Gives the model what the session's policy makes of the messages of the graph's state.

    Before each request to the model, and at the end of a run, the session gets what the state has and it has not: new
    messages, with the view that a reply answers; other contents under the same id; and, for a thread with a
    checkpointer, that messages are gone, because they were removed or the graph went on from an earlier checkpoint. A
    reply is stored as the state has it, after all hooks of other middleware.

    The request stays as it is but for what the view shortens, covers by a summary, or adds from others. The session is
    that of `session_id`, else of the thread.
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
        self._conversations: dict[str, Conversation] = {}
        #: The views that replies answer, by the ids of the replies, until these are stored.
        self._tokens: OrderedDict[str, str] = OrderedDict()
        self._originals: OrderedDict[str, v1.Message] = OrderedDict()
        self._lock = threading.RLock()

    def session(self) -> Session:
        """The session of the running graph."""
        name = self._session_id or str(get_config()["configurable"]["thread_id"])
        with self._lock:
            if name not in self._sessions:
                self._sessions[name] = self._client.open_session(
                    name, window=self._window, preset=self._preset, metadata={"agent": "langgraph"}
                )
            return self._sessions[name]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Stores what is new, and asks the model with the view."""
        view, messages = self._before(request)
        response = handler(request.override(messages=messages))
        self._after(view, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The same for asyncio."""
        view, messages = await asyncio.to_thread(self._before, request)
        response = await handler(request.override(messages=messages))
        self._after(view, response)
        return response

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Stores the last replies of a run."""
        session, (owner, removes) = self.session(), self._owner()
        with self._lock:
            self._conversation(session).sync(self._items(state["messages"]), owner, removes=removes)
        return None

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The same for asyncio."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def _before(self, request: ModelRequest[Any]) -> tuple[View, list[AnyMessage]]:
        session, (owner, removes) = self.session(), self._owner()
        with self._lock:
            conversation = self._conversation(session)
            state: list[AnyMessage] = list((request.state or {}).get("messages") or request.messages)
            items = self._items(state)
            entries = conversation.sync(items, owner, removes=removes)
            view = session.view(overflow=self._overflow)
            if conversation.replace(items, entries, view):
                view = session.view(overflow=self._overflow)
            # Middleware around this one may have changed the request alone: then it stays changed.
            known = {item.identity: (entry, item.digest) for item, entry in zip(items, entries, strict=True)}
            asked = self._items(request.messages)
            own = [known[item.identity][0] if item.identity in known else None for item in asked]
            wanted = {entry.message_id for entry in own if entry is not None}
            dropped = {entry.message_id for entry in entries} - wanted
            shown = merged(own, conversation.by_message_id, view, dropped)
            changed = {
                number
                for number, item in enumerate(asked)
                if item.identity in known and known[item.identity][1] != item.digest
            }
            return view, self._messages(session, request.messages, shown, changed)

    def _messages(
        self, session: Session, own: Sequence[AnyMessage], shown: Sequence[Shown], changed: set[int]
    ) -> list[AnyMessage]:
        made: list[AnyMessage] = []
        others = [message for place in shown if place.own not in changed for message in place.messages]
        originals = self._stored(session, pieced_messages(_NAME, others))
        for place in shown:
            if place.own is not None and (not place.messages or place.own in changed):
                made.append(own[place.own])
            else:
                made.extend(messages_of_view(place.messages, originals))
        return made

    def _stored(self, session: Session, ids: Sequence[str]) -> Mapping[str, v1.Message]:
        """The stored messages of large originals; some are kept, as they never change."""
        for message in session.get_messages([id for id in ids if id not in self._originals]):
            self._originals[message.message_id] = message
        found = {id: self._originals[id] for id in ids}
        while len(self._originals) > _ORIGINALS:
            self._originals.popitem(last=False)
        return found

    def _after(self, view: View, response: ModelResponse[Any]) -> None:
        with self._lock:
            for reply in response.result:
                if isinstance(reply, AIMessage):
                    if reply.id is None:
                        # The state gives it the same id, by which it is known there.
                        reply.id = f"lc_{random.getrandbits(128):032x}"
                    self._tokens[reply.id] = view.token
            while len(self._tokens) > _TOKENS:
                self._tokens.popitem(last=False)

    def _owner(self) -> tuple[str, bool]:
        """Whose state it is, and whether that is all there is of it: without a checkpointer a state may be a part."""
        try:
            config = get_config()
        except RuntimeError:
            # No graph runs: the middleware is called by itself.
            return "", False
        where, agent = config["configurable"], config.get("metadata", {}).get("lc_agent_name", "")
        if not where.get("__pregel_checkpointer") or "thread_id" not in where:
            return "", False
        # The graphs inside of which this one runs, without the numbers of their tasks, and without the running node.
        graphs = [step.split(":")[0] for step in str(where.get("checkpoint_ns") or "").split("|")[:-1]]
        # One that runs inside of another has a new state each time.
        return json.dumps([self._client.actor, agent, str(where["thread_id"]), *graphs]), not graphs

    def _conversation(self, session: Session) -> Conversation:
        return self._conversations.setdefault(session.id, Conversation(session, "lc"))

    def _items(self, messages: Iterable[BaseMessage]) -> list[Item]:
        items: list[Item] = []
        without_id: dict[str, int] = {}
        for message in messages:
            digest = _digest(message)
            name = message.id
            if name is None:
                without_id[digest] = without_id.get(digest, 0) + 1
                name = f"{digest} {without_id[digest]}"
            token = self._tokens.get(name)

            def make(message: BaseMessage = message, token: str | None = token) -> v1.NewMessage:
                return _new_message(message, token)

            items.append(Item(_hash(name, length=20), digest, make, isinstance(message, HumanMessage)))
        return items


#: Under which name the metadata of a message has LangChain's.
_NAME = "langchain"
#: How many large originals, and tokens of views, are kept.
_ORIGINALS, _TOKENS = 32, 1000


def _digest(message: BaseMessage) -> str:
    """The same for the same words, calls and results, also if a history was kept as plain dictionaries."""
    said: list[Any] = [message.type, encode(message.content)]
    if isinstance(message, AIMessage):
        said.append([[call["id"], call["name"], encode(call["args"])] for call in message.tool_calls])
    elif isinstance(message, ToolMessage):
        said.append(message.tool_call_id)
    return _hash(json.dumps(said, sort_keys=True))


def _new_message(message: BaseMessage, view_token: str | None = None) -> v1.NewMessage:
    """A message with the texts, calls and results that views and other agents read, and the original beside them."""
    data = {name: encode(value) for name, value in message.model_dump().items() if value is not None}
    original = Original(data)
    usage, reason, role = None, None, v1.ROLE_USER
    if isinstance(message, ToolMessage):
        role = v1.ROLE_TOOL
        _add_result(original, message, data["content"])
    else:
        _add_content(original, data["content"])
    if isinstance(message, AIMessage):
        role = v1.ROLE_ASSISTANT
        for number, call in enumerate(message.tool_calls):
            arguments = json.dumps(data["tool_calls"][number]["args"], ensure_ascii=False, separators=(",", ":"))
            part = parts.tool_call(call["id"] or "call", call["name"] or "tool", arguments)
            original.add(part, "tool_calls", number, "args")
        reason = v1.FINISH_REASON_TOOL_CALLS if message.tool_calls else v1.FINISH_REASON_STOP
        usage = _usage(message)
    elif isinstance(message, SystemMessage):
        role = v1.ROLE_SYSTEM
    finish = None if reason is None else v1.Finish(reason=reason, usage=usage, view_token=view_token)
    metadata = original.metadata(_NAME, type=message.type)
    return v1.NewMessage(role=role, parts=original.parts or [parts.text("")], metadata_json=metadata, finish=finish)


def _usage(message: AIMessage) -> v1.Usage | None:
    counted = message.usage_metadata
    if counted is None:
        return None
    details = counted.get("input_token_details", {})
    read, written = details.get("cache_read", 0) or 0, details.get("cache_creation", 0) or 0
    input_tokens = max(counted["input_tokens"] - read - written, 0)
    return parts.usage(input_tokens, counted["output_tokens"], cache_read_tokens=read, cache_write_tokens=written)


def _add_content(original: Original, content: Any) -> None:
    if isinstance(content, str):
        if content:
            original.add(parts.text(content), "content")
        return
    for number, block in enumerate(content):
        where = ("content", number)
        if isinstance(block, str):
            if block:
                original.add(parts.text(block), *where)
            continue
        if (kind := block.get("type")) in ("reasoning", "thinking"):
            if isinstance(said := block.get(kind), str) and said:
                original.add(parts.reasoning(said), *where, kind)
        elif isinstance(said := block.get("text"), str) and said:
            original.add(parts.text(said), *where, "text")
        elif (media := _media(block)) is not None:
            original.add(v1.Part(media=media[0]), *where, *media[1])


def _add_result(original: Original, message: ToolMessage, content: Any) -> None:
    failed = message.status == "error"
    status = v1.TOOL_RESULT_STATUS_ERROR if failed else v1.TOOL_RESULT_STATUS_COMPLETED
    part = parts.tool_result(message.tool_call_id or "call", _text(message), status=status)
    original.add(part)
    if isinstance(content, str):
        original.place(part, ["content"])
        return
    end = 0
    for number, block in enumerate(content):
        if isinstance(block, str):
            end = original.place_span(part, ["content", number], end)
        elif isinstance(block.get("text"), str):
            end = original.place_span(part, ["content", number, "text"], end)
        elif (media := _media(block)) is not None:
            part.tool_result.attachments.append(media[0])
            original.place(part, ["content", number, *media[1]], len(part.tool_result.attachments) - 1)


def _media(block: Mapping[str, Any]) -> tuple[v1.MediaPart, Sequence[str]] | None:
    """What a block has of an image, a sound or a file, and where it has the bytes; None for any other block."""
    source = block.get("source")
    if isinstance(source, Mapping) and isinstance(source.get("data"), str):
        return _bytes(source["data"], source.get("media_type"), ["source", "data"])
    for name in ("base64", "data"):
        if isinstance(block.get(name), str):
            return _bytes(block[name], block.get("mime_type"), [name])
    image = block.get("image_url")
    path = ["image_url", "url"] if isinstance(image, Mapping) else ["image_url"] if image else ["url"]
    url = image.get("url") if isinstance(image, Mapping) else image or block.get("url")
    if not isinstance(url, str) or not url:
        return None
    if url.startswith("data:") and ";base64," in url:
        kind, data = url.removeprefix("data:").split(";base64,", 1)
        return _bytes(data, kind, path)
    kind = str(block.get("mime_type") or ("image/*" if image else "application/octet-stream"))
    return v1.MediaPart(mime_type=kind, uri=url), path


def _bytes(data: str, kind: object, path: Sequence[str]) -> tuple[v1.MediaPart, Sequence[str]] | None:
    try:
        made = base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return v1.MediaPart(mime_type=str(kind or "application/octet-stream"), data=made), path


def messages_of_view(
    messages: Sequence[v1.ViewMessage], originals: Mapping[str, v1.Message] | None = None
) -> list[AnyMessage]:
    """The messages of a view as LangChain has them: those that it wrote as they were, others by their parts.

    `originals` are stored messages by their ids, for those whose originals are too large for a view.
    """
    return [made for message in messages for made in _of_view(message, originals)]


def _of_view(message: v1.ViewMessage, originals: Mapping[str, v1.Message] | None) -> list[AnyMessage]:
    shown = [view_part.part for view_part in message.parts]
    results = [part.tool_result for part in shown if part.HasField("tool_result")]
    original = restored(_NAME, message, originals)
    kind = json.loads(message.metadata_json)["type"] if original is not None else ""
    # A result whose call is not in the view any more is a text there.
    if original is not None and (kind == "tool") == (len(results) == 1):
        if kind == "tool" and original.shortened:
            _shorten_result(original.data, results[0])
        data = decode(original.without_missing())
        if data.get("content") is None:
            data["content"] = ""
        return cast("list[AnyMessage]", messages_from_dict([{"type": kind, "data": data}]))
    content = "".join(part.text.text or part.marker.text for part in shown)
    calls = [part.tool_call for part in shown if part.HasField("tool_call")]
    made: list[AnyMessage] = [
        ToolMessage(result.output, tool_call_id=result.call_id, status=_status(result.status)) for result in results
    ]
    if message.role == v1.ROLE_ASSISTANT and (content or calls):
        named = [{"id": call.call_id, "name": call.tool, "args": _arguments(call.input_json)} for call in calls]
        made.insert(0, AIMessage(content, tool_calls=named))
    elif content:
        made.append(SystemMessage(content) if message.role == v1.ROLE_SYSTEM else HumanMessage(content))
    return made


def _shorten_result(data: dict[str, Any], result: v1.ToolResultPart) -> None:
    """Leaves of a content of several blocks what the view shows of it."""
    content = data.get("content")
    if not isinstance(content, list):
        data["content"] = result.output
        return
    is_text = [isinstance(block, str) or "text" in block for block in content]
    first = is_text.index(True) if any(is_text) else 0
    for number, block in enumerate(content):
        if is_text[number]:
            said = result.output if number == first else ""
            content[number] = said if isinstance(block, str) else {**block, "text": said}
    if not any(is_text):
        content.insert(0, {"type": "text", "text": result.output})


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    pieces = [piece if isinstance(piece, str) else piece.get("text", "") for piece in message.content]
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _status(status: v1.ToolResultStatus.ValueType) -> Any:
    return "success" if status == v1.TOOL_RESULT_STATUS_COMPLETED else "error"


def _arguments(input_json: str) -> dict[str, Any]:
    try:
        value = json.loads(input_json)
    except ValueError:
        return {"input": input_json}
    return value if isinstance(value, dict) else {"input": value}
