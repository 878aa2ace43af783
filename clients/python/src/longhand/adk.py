"""Google ADK on Longhand: a `SessionService`, and a plugin that serves views.

`service = LonghandSessionService(client, window=128_000)`
`app = App(name="tidewater", root_agent=agent, plugins=[LonghandViews(service)])`
`Runner(app=app, session_service=service)`

An event is a typed message, so that views, compactions and other agents see its texts, calls and results, with the
event itself in the message's metadata, so that ADK gets back what it gave. State is in the metadata of the session, and
what belongs to an app or a user in sessions of their own. A session of ADK has every event; what makes it fit the
window is the plugin, which gives the model the view in place of the events.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State
from google.genai import types

from longhand import aio, parts, v1
from longhand.errors import Error

__all__ = ["LonghandSessionService", "LonghandViews", "contents_of_view"]

#: The largest state that is in the metadata itself, in bytes; a session's metadata has 64 KiB.
_STATE_BYTES = 48 * 1024
#: The largest event that is in a message's metadata, in bytes; a larger one is a record.
_EVENT_BYTES = 250 * 1024
_ATTEMPTS = 64
_STATE = "adk:state"
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
        if limit != 0:
            history = session.history(reverse=True, page_size=min(limit, 1000) if limit else 1000)
            async for message in history:
                event = _event(message)
                if event is None:
                    continue
                if after is not None and event.timestamp < after:
                    break
                events.append(event)
                if len(events) == limit:
                    break
            await history.aclose()  # type: ignore[attr-defined]
        scopes = await asyncio.gather(self._scope(app_name, None), self._scope(app_name, user_id))
        return await self._made(info, events[::-1], *scopes)

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
    """An event as a message: typed, if it has anything to show, and the event beside it."""
    text = event.model_dump_json(exclude_none=True)
    made = [part for part in map(_part, event.content.parts or [] if event.content else []) if part is not None]
    if not made or len(text.encode()) > _EVENT_BYTES:
        return parts.record("adk.event", text, client_id=event.id)
    results = all(part.HasField("tool_result") for part in made)
    role = v1.ROLE_TOOL if results else v1.ROLE_USER if event.author == "user" else v1.ROLE_ASSISTANT
    metadata = f'{{"adk":{text}}}'
    if role != v1.ROLE_ASSISTANT:
        return parts.message(role, made, client_id=event.id, metadata=metadata)
    usage = None
    if counted := event.usage_metadata:
        cached = counted.cached_content_token_count or 0
        usage = parts.usage(
            (counted.prompt_token_count or 0) - cached,
            counted.candidates_token_count or 0,
            reasoning_tokens=counted.thoughts_token_count or 0,
            cache_read_tokens=cached,
            total_tokens=counted.total_token_count,
        )
    token = (event.custom_metadata or {}).get(_VIEW_TOKEN)
    return parts.assistant(made, usage=usage, view_token=token, client_id=event.id, metadata=metadata)


def _part(part: Any) -> v1.Part | None:
    """What a part of an event shows; None for what only ADK reads."""
    if part.text:
        return parts.reasoning(part.text) if part.thought else parts.text(part.text)
    if (call := part.function_call) and call.id and call.name:
        return parts.tool_call(call.id, call.name, call.args or {})
    if (response := part.function_response) and response.id:
        return parts.tool_result(response.id, parts.as_json(response.response or {}))
    if (data := part.inline_data) and data.data and data.mime_type:
        return v1.Part(media=v1.MediaPart(mime_type=data.mime_type, data=data.data))
    return None


def _event(message: v1.Message) -> Event | None:
    """The event that a message was made from, or, if another agent wrote it, one that says the same."""
    if message.kind == v1.MESSAGE_KIND_RECORD:
        record = message.parts[0].record
        return Event.model_validate_json(record.data) if record.kind == "adk.event" else None
    if any(part.erased for part in message.parts):
        return None
    metadata = json.loads(message.metadata_json) if message.metadata_json else {}
    if "adk" in metadata:
        return Event.model_validate(metadata["adk"])
    return _foreign(message)


def _foreign(message: v1.Message) -> Event | None:
    content = _content(message.role, message.parts)
    if content is None:
        return None
    return Event(
        id=message.message_id,
        author="user" if message.role == v1.ROLE_USER else message.actor or "agent",
        timestamp=message.create_time.ToNanoseconds() / 1e9,
        content=content,
    )


def _content(role: v1.Role.ValueType, of: Iterable[v1.Part]) -> types.Content | None:
    """What parts say, as Gemini has it; None for nothing."""
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
            response = types.FunctionResponse(id=result.call_id, name="tool", response={"output": result.output})
            made.append(types.Part(function_response=response))
        elif kind == "media" and part.media.data:
            made.append(types.Part(inline_data=types.Blob(mime_type=part.media.mime_type, data=part.media.data)))
    return types.Content(role="model" if role == v1.ROLE_ASSISTANT else "user", parts=made) if made else None


class LonghandViews(BasePlugin):
    """Gives the model the view of the session in place of its events.

    The events are in the session before the request, by the service. The reply gets the view's token, which makes its
    usage count. What other agents of the same session said is in the view as replies, whatever branch they are on.
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
        self._given: dict[tuple[str, str], str] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Puts the view in the request."""
        session = callback_context.session
        under = self._service.longhand(session.app_name, session.user_id, session.id)
        view = await under.view(overflow=self._overflow)
        llm_request.contents = contents_of_view(view.messages)
        self._given[callback_context.invocation_id, callback_context.agent_name] = view.token

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Notes on the reply which view it answers."""
        key = (callback_context.invocation_id, callback_context.agent_name)
        if llm_response.partial or key not in self._given:
            return
        llm_response.custom_metadata = {**(llm_response.custom_metadata or {}), _VIEW_TOKEN: self._given.pop(key)}


def contents_of_view(messages: Sequence[v1.ContextMessage]) -> list[types.Content]:
    """The messages of a view as Gemini has them: those of events as they were, others by their parts.

    Neighbours with one role are one content, as the provider wants it.
    """
    contents: list[types.Content] = []
    for message in messages:
        metadata = json.loads(message.metadata_json or "{}")
        if "adk" in metadata and not any(context.shortening for context in message.parts):
            made = Event.model_validate(metadata["adk"]).content
        else:
            shown = [context.part for context in message.parts]
            named = metadata.get("adk", {}).get("content", {}).get("parts") or []
            made = _content(message.role, shown)
            _name_responses(made, named)
        if made is None or not made.parts:
            continue
        for part in made.parts:
            # ADK gives an id to a call that has none from its model, and takes it away again before a request.
            for named_part in (part.function_call, part.function_response):
                if named_part is not None and (named_part.id or "").startswith("adk-"):
                    named_part.id = None
        role = "model" if message.role == v1.ROLE_ASSISTANT else "user"
        if contents and contents[-1].role == role:
            contents[-1].parts = [*(contents[-1].parts or []), *made.parts]
        else:
            contents.append(types.Content(role=role, parts=list(made.parts)))
    return contents


def _name_responses(content: types.Content | None, originals: list[dict[str, Any]]) -> None:
    """Gives shortened results the names of their functions, which are with the originals."""
    names = {r["id"]: r.get("name") for part in originals if (r := part.get("function_response")) and r.get("id")}
    for part in (content.parts if content is not None else None) or []:
        if part.function_response is not None and part.function_response.id in names:
            part.function_response.name = names[part.function_response.id]
