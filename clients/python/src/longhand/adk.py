"""Google ADK on Longhand: a `SessionService`, and a plugin that serves views.

`service = LonghandSessionService(client, window=128_000)`
`app = App(name="tidewater", root_agent=agent, plugins=[LonghandViews(service)])`
`Runner(app=app, session_service=service)`

An event is a typed message, so that views, compactions and other agents see its texts, calls and results, with what
else the event has beside them, so that ADK gets back what it gave. State is in the metadata of the session, and what
belongs to an app or a user in sessions of their own. A session of ADK has every event; what makes it fit the window is
the plugin, which changes the contents of a request by what the view shortens, covers or adds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.flows.llm_flows.contents import _get_contents
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State
from google.genai import types

from longhand import aio, parts, v1
from longhand._aio.conversation import Conversation
from longhand._merge import Shown, merged
from longhand._originals import Original, Restored, pieced_messages, restored, stored_original
from longhand.errors import Error

__all__ = ["LonghandSessionService", "LonghandViews"]

#: The largest state that is in the metadata itself, in bytes; a session's metadata has 64 KiB.
_STATE_BYTES = 48 * 1024
_ATTEMPTS = 64
_STATE = "adk:state"
#: Under which name the metadata of a message has ADK's.
_NAME = "adk"
#: How many large originals, and invocations, are kept.
_ORIGINALS, _INVOCATIONS = 32, 1000
#: Where a reply has the view that it answers, on its way from the plugin to the service.
_VIEW_TOKEN = "longhand_view_token"


class LonghandSessionService(BaseSessionService):
    """A service over one connection. `window` and `preset` are those of new sessions.

    `namespace` keeps services apart that share a daemon. A deleted session is erased for good. Appends of several
    processes interleave, so a stale copy of a session is no error.
    """

    def __init__(
        self,
        client: aio.Client,
        *,
        namespace: str = "",
        window: int | str | v1.ModelWindow | None = None,
        preset: str = "",
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._window = window
        self._preset = preset

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Creates a session; raises `AlreadyExistsError` for an id that is there."""
        session_id = (session_id or "").strip() or str(uuid.uuid4())
        own, scoped = _split(state or {})
        metadata = {
            "agent": "google-adk",
            "adk": self._namespace,
            "adk_app": app_name,
            "adk_user": user_id,
            "adk_session": session_id,
            "state": {},
            # An erased session's request makes no other one, so this one differs.
            "made": uuid.uuid4().hex,
        }
        client_id = self._name("session", app_name, user_id, session_id)
        try:
            made = await self._client.create_session(
                client_id, title=session_id, preset=self._preset, window=self._window, metadata=metadata
            )
        except Error as error:
            if error.reason != "CLIENT_ID_REUSED":
                raise
            raise AlreadyExistsError(f"Session with id {session_id} already exists.") from None
        if own:
            await self._merge(made, own, [])
        await self._merge_scopes(app_name, user_id, scoped)
        found = await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if found is None:
            raise SessionNotFoundError(f"Session {session_id} was deleted as soon as it was made.")
        return found

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or with the latest ones that the config asks for; None if there is none."""
        session = self.longhand(app_name, user_id, session_id.strip())
        info = await self._info(session)
        if info is None:
            return None
        limit = None if config is None else config.num_recent_events
        after = None if config is None else config.after_timestamp
        events: list[Event] = []
        changed = None
        history = session.history(reverse=True, page_size=min(limit, 1000) if limit else 10 if limit == 0 else 1000)
        async for message in history:
            event = _event(message)
            if event is None:
                continue
            # As ADK has it: the time of the last event, whatever else Longhand has done since.
            changed = changed or event.timestamp
            if limit == 0 or (after is not None and event.timestamp < after):
                break
            events.append(event)
            if len(events) == limit:
                break
        await history.aclose()  # type: ignore[attr-defined]
        scopes = await asyncio.gather(self._scope(app_name, None), self._scope(app_name, user_id))
        made = await self._made(info, events[::-1], *scopes)
        made.last_update_time = changed or made.last_update_time
        return made

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, or of its user, without events, the one that changed last at the end."""
        chosen = v1.SessionFilter(
            client_id_prefix=self._prefix("session"), metadata_terms=[f"adk={self._namespace}", f"adk_app={app_name}"]
        )
        if user_id is not None:
            chosen.metadata_terms.append(f"adk_user={user_id}")
        found = self._client.list_sessions(filter=chosen, order=v1.SESSION_ORDER_LAST_CHANGED_LAST, page_size=1000)
        infos = [info async for info in found if info.state == v1.SESSION_STATE_ACTIVE]
        app = await self._scope(app_name, None)
        users: dict[str, dict[str, Any]] = {}
        for info in infos:
            user = json.loads(info.metadata_json)["adk_user"]
            if user not in users:
                users[user] = await self._scope(app_name, user)
        sessions = [
            await self._made(info, [], app, users[json.loads(info.metadata_json)["adk_user"]]) for info in infos
        ]
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erases a session for good; the state of its app and its user stays."""
        session = self.longhand(app_name, user_id, session_id.strip())
        try:
            await session.erase("deleted through Google ADK")
        except Error as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user in an app, over all sessions."""
        return await self._scope(app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Appends an event and its changes of state; one that comes again is stored once."""
        if event.partial:
            return event
        under = self.longhand(session.app_name, session.user_id, session.id)
        # Nothing of the caller's changes before the event is stored.
        stored = self._trim_temp_delta_state(event.model_copy(deep=True))
        message = _message(stored)
        delta = stored.actions.state_delta if stored.actions else {}
        own, scoped = _split(delta)
        missing = SessionNotFoundError(f"Session {session.id} not found.")
        try:
            # A state that has changed since is not set back by an event that comes again.
            if delta and await self._has(under, stored):
                return event
            if scoped:
                if await self._info(under) is None:
                    raise missing
                await self._merge_scopes(session.app_name, session.user_id, scoped)
            existed = await self._append(under, message, own)
        except Error as error:
            if error.reason in ("SESSION_NOT_FOUND", "SESSION_ERASED"):
                raise missing from None
            raise
        if not existed:
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            self._commit_event_to_session(session, event)
            session.last_update_time = event.timestamp
        return event

    async def _has(self, session: aio.Session, event: Event) -> bool:
        try:
            return _event(await session.get_message(event.id)) == event
        except Error as error:
            if error.reason != "MESSAGE_NOT_FOUND":
                raise
            return False

    async def _append(self, session: aio.Session, message: v1.NewMessage, delta: dict[str, Any]) -> bool:
        """Appends an event with the change of the session's own state; True if it was there already."""
        try:
            if delta:
                await self._merge(session, delta, [message])
                return False
            return (await session.append(message)).existed_count > 0
        except Error as error:
            if error.reason != "CLIENT_ID_REUSED":
                raise
        # Another event has its id.
        message.ClearField("client_id")
        return await self._append(session, message, delta)

    async def _merge(self, session: aio.Session, delta: dict[str, Any], messages: Sequence[v1.NewMessage]) -> None:
        """Changes a state, in one commit with messages, on top of what others changed."""
        for _ in range(_ATTEMPTS):
            info = await session.get()
            metadata = json.loads(info.metadata_json)
            state = {**(await self._state(info)), **delta}
            text = json.dumps(state, ensure_ascii=False)
            small = len(text.encode()) <= _STATE_BYTES
            metadata["state"] = state if small else None
            # The change of a state is one of history, too, so that another change of it is refused.
            change = [*messages, parts.record("adk.change", "")]
            if not small:
                change.append(parts.record("adk.state", text, client_id=_STATE, replace=True))
            try:
                await session.append(*change, metadata=metadata, expected_revision=info.history_revision)
                return
            except Error as error:
                if error.reason != "REVISION_MISMATCH":
                    raise
        raise Error("other writers change the state all the time", reason="REVISION_MISMATCH")

    async def _merge_scopes(self, app_name: str, user_id: str, scoped: dict[str, dict[str, Any]]) -> None:
        for scope, delta in scoped.items():
            if delta:
                user = None if scope == State.APP_PREFIX else user_id
                session = await self._client.open_session(
                    self._scope_name(app_name, user), metadata={"agent": "google-adk", "state": {}}
                )
                await self._merge(session, delta, [])

    async def _scope(self, app_name: str, user_id: str | None) -> dict[str, Any]:
        info = await self._info(self._client.session(self._scope_name(app_name, user_id)))
        return {} if info is None else await self._state(info)

    async def _state(self, info: v1.Session) -> dict[str, Any]:
        state = json.loads(info.metadata_json)["state"]
        if state is None:
            message = await self._client.session(info.session_id).get_message(_STATE)
            state = json.loads(message.parts[0].record.data)
        found: dict[str, Any] = state
        return found

    async def _made(self, info: v1.Session, events: list[Event], app: dict[str, Any], user: dict[str, Any]) -> Session:
        metadata = json.loads(info.metadata_json)
        state = dict(await self._state(info))
        state.update({State.APP_PREFIX + key: value for key, value in app.items()})
        state.update({State.USER_PREFIX + key: value for key, value in user.items()})
        return Session(
            id=metadata["adk_session"],
            app_name=metadata["adk_app"],
            user_id=metadata["adk_user"],
            state=state,
            events=events,
            last_update_time=info.update_time.ToNanoseconds() / 1e9,
        )

    async def _info(self, session: aio.Session) -> v1.Session | None:
        try:
            info = await session.get()
        except Error as error:
            if error.reason == "SESSION_NOT_FOUND":
                return None
            raise
        return info if info.state == v1.SESSION_STATE_ACTIVE else None

    def longhand(self, app_name: str, user_id: str, session_id: str) -> aio.Session:
        """The session under one of ADK's, for everything that ADK has no word for."""
        return self._client.session(self._name("session", app_name, user_id, session_id))

    def _scope_name(self, app_name: str, user_id: str | None) -> str:
        return self._name("app", app_name) if user_id is None else self._name("user", app_name, user_id)

    def _name(self, kind: str, *names: str) -> str:
        return self._prefix(kind) + _hash(*names)[:40]

    def _prefix(self, kind: str) -> str:
        return f"adk-{_hash(self._namespace)[:16]}-{kind}-"


def _hash(*names: str) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _split(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The session's own part of a state, and those of its app and its user, without their prefixes."""
    own: dict[str, Any] = {}
    scoped: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        for prefix in (State.APP_PREFIX, State.USER_PREFIX):
            if key.startswith(prefix):
                scoped.setdefault(prefix, {})[key.removeprefix(prefix)] = value
                break
        else:
            if not key.startswith(State.TEMP_PREFIX):
                own[key] = value
    return own, scoped


def _message(event: Event) -> v1.NewMessage:
    """An event as a message: typed, if it has anything to show, and what else it has beside it."""
    text = event.model_dump_json(exclude_none=True)
    original = Original(json.loads(text))
    for number, part in enumerate(event.content.parts or [] if event.content else []):
        _add_part(original, number, part)
    if not original.parts:
        return parts.record("adk.event", text, client_id=event.id)
    results = all(part.HasField("tool_result") for part in original.parts)
    role = v1.ROLE_TOOL if results else v1.ROLE_USER if event.author == "user" else v1.ROLE_ASSISTANT
    metadata = original.metadata(_NAME)
    if role != v1.ROLE_ASSISTANT:
        return parts.message(role, [*original.parts], client_id=event.id, metadata=metadata)
    usage = None
    if counted := event.usage_metadata:
        cached = counted.cached_content_token_count or 0
        usage = parts.usage(
            max((counted.prompt_token_count or 0) - cached, 0),
            counted.candidates_token_count or 0,
            reasoning_tokens=counted.thoughts_token_count or 0,
            cache_read_tokens=cached,
            total_tokens=counted.total_token_count,
        )
    token = (event.custom_metadata or {}).get(_VIEW_TOKEN)
    return parts.assistant([*original.parts], usage=usage, view_token=token, client_id=event.id, metadata=metadata)


def _add_part(original: Original, number: int, part: types.Part) -> None:
    """What a part of an event shows; nothing for what only ADK and its model read."""
    where = ("content", "parts", number)
    if part.text:
        original.add(parts.reasoning(part.text) if part.thought else parts.text(part.text), *where, "text")
    elif (call := part.function_call) and call.id and call.name:
        made = original.add(parts.tool_call(call.id, call.name, _json(call.args or {})))
        if call.args:
            original.place(made, [*where, "function_call", "args"])
    elif (response := part.function_response) and response.id:
        made = original.add(parts.tool_result(response.id, _json(response.response or {})))
        if response.response:
            original.place(made, [*where, "function_response", "response"])
    elif (data := part.inline_data) and data.data and data.mime_type:
        media = v1.MediaPart(mime_type=data.mime_type, data=data.data)
        original.add(v1.Part(media=media), *where, "inline_data", "data")
    elif (file := part.file_data) and file.file_uri:
        media = v1.MediaPart(mime_type=file.mime_type or "application/octet-stream", uri=file.file_uri)
        original.add(v1.Part(media=media), *where, "file_data", "file_uri")


def _json(value: dict[str, Any]) -> str:
    """JSON of what a tool got or gave, which may be anything that pydantic can write."""
    text = types.FunctionResponse(response=value).model_dump_json(exclude_none=False)
    return parts.as_json(json.loads(text)["response"])


def _event(message: v1.Message) -> Event | None:
    """The event that a message was made from, or, if another agent wrote it, one that says the same."""
    if message.kind == v1.MESSAGE_KIND_RECORD:
        record = message.parts[0].record
        return Event.model_validate_json(record.data) if record.kind == "adk.event" else None
    if any(part.erased for part in message.parts):
        return None
    original = stored_original(_NAME, message)
    if original is not None:
        return Event.model_validate(original.data)
    content = _content(message.role, message.parts, {})
    if content is None:
        return None
    author = "user" if message.role == v1.ROLE_USER else message.actor or "agent"
    return Event(id=message.message_id, author=author, timestamp=_seconds(message), content=content)


def _event_of_view(
    message: v1.ViewMessage, originals: Mapping[str, v1.Message], names: Mapping[str, str]
) -> Event | None:
    """A message of a view as an event: what it was made from, shortened as it is there, or what says the same."""
    original = restored(_NAME, message, originals)
    if original is not None and _has_results(original) == any(c.part.HasField("tool_result") for c in message.parts):
        data = original.without_missing()
        for part in (data.get("content") or {}).get("parts") or []:
            response = part.get("function_response")
            if response is not None and isinstance(response.get("response"), str):
                response["response"] = {"output": response["response"]}
        return Event.model_validate(data)
    content = _content(message.role, [view_part.part for view_part in message.parts], names)
    if content is None:
        return None
    author = "user" if message.role in (v1.ROLE_USER, v1.ROLE_SYSTEM) else message.actor or "agent"
    if message.role == v1.ROLE_TOOL:
        author = "user"
    return Event(
        id=message.message_id or str(uuid.uuid4()), author=author, timestamp=_seconds(message), content=content
    )


def _has_results(original: Restored) -> bool:
    said = (original.data.get("content") or {}).get("parts") or []
    return any(part.get("function_response") for part in said)


def _seconds(message: v1.Message | v1.ViewMessage) -> float:
    return message.create_time.ToNanoseconds() / 1e9


def _content(role: v1.Role.ValueType, of: Iterable[v1.Part], names: Mapping[str, str]) -> types.Content | None:
    """What parts say, as Gemini has it; None for nothing. `names` are those of tools, by the ids of their calls."""
    made: list[types.Part] = []
    for part in of:
        kind = part.WhichOneof("body")
        if kind == "text" or kind == "marker":
            if text := part.text.text or part.marker.text:
                made.append(types.Part(text=text))
        elif kind == "tool_call":
            call = part.tool_call
            try:
                arguments = json.loads(call.input_json)
            except ValueError:
                arguments = {"input": call.input_json}
            named = arguments if isinstance(arguments, dict) else {"input": arguments}
            made.append(types.Part(function_call=types.FunctionCall(id=call.call_id, name=call.tool, args=named)))
        elif kind == "tool_result":
            result = part.tool_result
            name = names.get(result.call_id, "tool")
            response = types.FunctionResponse(id=result.call_id, name=name, response={"output": result.output})
            made.append(types.Part(function_response=response))
        elif kind == "media":
            media = part.media
            if media.WhichOneof("source") == "data":
                made.append(types.Part(inline_data=types.Blob(mime_type=media.mime_type, data=media.data)))
            else:
                made.append(types.Part(file_data=types.FileData(mime_type=media.mime_type, file_uri=media.uri)))
    return types.Content(role="model" if role == v1.ROLE_ASSISTANT else "user", parts=made) if made else None


class LonghandViews(BasePlugin):
    """Changes the contents of a request by what the view of the session shortens, covers or adds.

    The events are in the session before the request, by the service. As long as the view has all of them, a request is
    what ADK makes of it; otherwise ADK makes its contents of the events that the view has, with its own rules for
    agents, branches and results, and what instructions, tools and other plugins add to a request stays in it. The reply
    gets the view's token, which makes its usage count.
    """

    def __init__(
        self,
        service: LonghandSessionService,
        *,
        overflow: v1.OverflowAction.ValueType = v1.OVERFLOW_ACTION_WAIT,
    ) -> None:
        super().__init__(name="longhand_views")
        self._service = service
        self._overflow = overflow
        #: The view that each invocation's agent was given last.
        self._given: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._known: dict[str, tuple[aio.Session, Conversation]] = {}
        self._originals: OrderedDict[str, v1.Message] = OrderedDict()

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Puts the view in the request."""
        session = callback_context.session
        under = self._service.longhand(session.app_name, session.user_id, session.id)
        under, known = self._known.setdefault(under.id, (under, Conversation(under, _NAME)))
        view = await under.view(overflow=self._overflow)
        self._given[callback_context.invocation_id, callback_context.agent_name] = view.token
        while len(self._given) > _INVOCATIONS:
            self._given.popitem(last=False)
        await known.read()
        own = [known.by_client_id.get(event.id) or known.by_message_id.get(event.id) for event in session.events]
        shown = merged(own, known.by_message_id, view)
        if [place.own for place in shown] == list(range(len(own))) and not any(place.messages for place in shown):
            return
        events = await self._events(under, session.events, shown)
        invocation = callback_context._invocation_context
        if invocation.agent.include_contents != "default" or getattr(llm_request, "previous_interaction_id", None):
            # It gets no history.
            return
        # Providers differ in whether they get the ids that ADK gave to calls.
        for keeps_ids in (False, True):
            before, after = (_contents(invocation, some, keeps_ids) for some in (session.events, events))
            contents = replaced(llm_request.contents, before, after)
            if contents is not None:
                llm_request.contents = contents
                return
        _LOG.warning("the contents of a request are not those of its session: the view of %s is not used", under.id)

    async def _events(self, under: aio.Session, own: Sequence[Event], shown: Sequence[Shown]) -> list[Event]:
        messages = [message for place in shown for message in place.messages]
        names = {
            call.id: call.name or "tool"
            for event in own
            for part in (event.content.parts if event.content else None) or []
            if (call := part.function_call) and call.id
        }
        calls = [c.part.tool_call for message in messages for c in message.parts if c.part.HasField("tool_call")]
        names.update((call.call_id, call.tool) for call in calls)
        ids = pieced_messages(_NAME, messages)
        for stored in await under.get_messages([id for id in ids if id not in self._originals]):
            self._originals[stored.message_id] = stored
        made: list[Event] = []
        # The content that the last one got here, to which what follows of the same role belongs.
        open_content: types.Content | None = None
        for place in shown:
            if place.own is not None and not place.messages:
                made.append(own[place.own])
                open_content = None
                continue
            for message in place.messages:
                event = _event_of_view(message, self._originals, names)
                if event is None:
                    continue
                content = None if event.invocation_id else event.content
                if content is not None and open_content is not None and content.role == open_content.role:
                    # A summary and what introduces it are one content to a model.
                    open_content.parts = [*(open_content.parts or []), *(content.parts or [])]
                    continue
                made.append(event)
                open_content = content
        while len(self._originals) > _ORIGINALS:
            self._originals.popitem(last=False)
        return made

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Notes on the reply which view it answers."""
        key = (callback_context.invocation_id, callback_context.agent_name)
        if llm_response.partial or key not in self._given:
            return
        llm_response.custom_metadata = {**(llm_response.custom_metadata or {}), _VIEW_TOKEN: self._given.pop(key)}


_LOG = logging.getLogger(__name__)


def _contents(invocation: Any, events: Sequence[Event], keeps_ids: bool) -> list[types.Content]:
    """What ADK makes of events."""
    agent, config = invocation.agent, invocation.run_config
    scope = getattr(invocation, "isolation_scope", None)
    mode = getattr(agent, "mode", None)
    # What is no agent's own is for every agent.
    visible = [e if e.invocation_id else e.model_copy(update={"isolation_scope": scope}) for e in events]
    return _get_contents(
        invocation.branch,
        visible,
        agent.name,
        preserve_function_call_ids=keeps_ids,
        isolation_scope=scope,
        node_path=getattr(invocation, "node_path", None),
        is_single_turn=getattr(mode, "value", mode) == "single_turn",
        user_content=invocation.user_content,
        include_thoughts_from_other_agents=bool(config and config.include_thoughts_from_other_agents),
    )


def replaced(
    contents: Sequence[types.Content], before: Sequence[types.Content], after: Sequence[types.Content]
) -> list[types.Content] | None:
    """The contents of a request with others in the place of its history; None if they have another history.

    What is between them stays, counted from the end, where a view changes nothing.
    """
    own: dict[int, types.Content] = {}
    added: dict[int, list[types.Content]] = {}
    for content in contents:
        left = len(before) - len(own)
        if left and _same(content, before[-left]):
            own[left] = content
        else:
            added.setdefault(left, []).append(content)
    if len(own) != len(before):
        return None
    made: list[types.Content] = []
    for left in sorted({*added, *range(1, len(after) + 1)}, reverse=True):
        made.extend(added.get(left, []))
        if 0 < left <= len(after):
            stays = left <= len(before) and before[-left] == after[-left]
            made.append(own[left] if stays else after[-left])
    return made


def _same(one: types.Content, other: types.Content) -> bool:
    """Whether a content is this one; planners take the marks of thoughts away."""
    if one == other:
        return True
    parts = [[part.model_copy(update={"thought": None}) for part in content.parts or []] for content in (one, other)]
    return one.role == other.role and parts[0] == parts[1]
