# Made by `generate` from the module of the same name in `_aio`.
"""The connection to a daemon."""

from __future__ import annotations

import copy
import math
import os
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc
from google.protobuf.message import Message as Protobuf

from longhand import address as addresses
from longhand import v1
from longhand._sync import _io
from longhand._sync.requests import duration, pages
from longhand._sync.session import Session, model_window
from longhand._sync.summary import SummaryTask
from longhand.errors import ClientClosed, Error, Unreachable, VersionMismatch, WrongEventLoop, of_call, overdue
from longhand.parts import optional_json
from longhand.version import VERSION, same_protocol

if TYPE_CHECKING:
    from longhand.v1 import (
        AccessServiceStub,
        AdminServiceStub,
        ApprovalServiceStub,
        ArchiveServiceStub,
        CompactionServiceStub,
        EraseServiceStub,
        EventServiceStub,
        MessageServiceStub,
        PromptServiceStub,
        RunServiceStub,
        SearchServiceStub,
        SessionServiceStub,
        SummaryTaskServiceStub,
        ViewServiceStub,
    )

__all__ = ["Client", "connect"]

Request = TypeVar("Request", bound=Protobuf)
Response = TypeVar("Response")

#: The authority is none of those that gRPC makes of a socket's path. Lost connections come back at once: the daemon is
#: near, and its restart takes moments.
_OPTIONS = [
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
    # A peer that is gone without a word, or stopped, is noticed also by a stream on which nothing is expected.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
]
#: The shortest and the longest time before another attempt, in seconds.
_RETRY_SECONDS = (0.05, 2.0)
#: The time for the start of a daemon, in seconds.
_START_SECONDS = 30.0
#: The time for a call of a client that tries none again, and what calls get more that have much to do, in seconds.
_TIMEOUT_SECONDS, _SLOW_SECONDS = 30.0, 300.0


def connect(
    address: str | None = None,
    *,
    actor: str = "python",
    data_dir: str | os.PathLike[str] | None = None,
    token: str | None = None,
    tenant: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    start: bool = True,
    retry_seconds: float = 30.0,
    timeout: float | None = None,
    check_version: bool = True,
) -> Client:
    """Connects to the daemon, and starts one if none answers.

    The address is found as the command line finds it (`longhand.address.target`). A daemon is started only for the
    socket of a data directory, with the program in this package or on the path; it goes on when this process ends.
    `actor` is recorded with every change; `tenant` is that of `LONGHAND_TENANT` if none is given. A call is tried again
    for `retry_seconds` while the daemon does not answer, and ends with `Error` after `timeout` seconds in all, which
    are `retry_seconds` if none are given; `with_options` gives other ones to a call. Raises `Unreachable`, and
    `VersionMismatch` for a daemon of another version of the protocol.
    """
    target = addresses.target(address, data_dir=data_dir, token=token, ca_file=ca_file)
    tenant = tenant or os.environ.get("LONGHAND_TENANT")
    client = Client(target, actor=actor, tenant=tenant, retry_seconds=retry_seconds, timeout=timeout)
    try:
        info = _hello(client, start=start)
        if check_version and not same_protocol(info.version):
            raise VersionMismatch(
                f"the daemon at {target.address} is version {info.version}, and this client {VERSION}: "
                "use those of one version",
                reason="VERSION_MISMATCH",
            )
    except BaseException:
        client.close()
        raise
    return client


def _hello(client: Client, *, start: bool) -> v1.GetServerInfoResponse:
    """The first call. It finds out if there is a daemon, and starts one."""
    target, daemon = client.target, None
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return client.server_info(retry_seconds=0)
        except Error as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE or error.reason:
                raise
            failure = error
        if daemon is None:
            program = addresses.binary() if start and target.data_dir is not None else None
            if program is None or target.data_dir is None:
                why = f" ({failure.message}); `longhand serve` starts one"
                raise Unreachable(f"no daemon answers at {target.address}{why}", code=failure.code) from None
            daemon = addresses.spawn(target.data_dir, program)
        # One that finds another in its place ends, and that one answers soon.
        ended = daemon.poll()
        if time.monotonic() > deadline or (ended not in (None, 0) and time.monotonic() > deadline - _START_SECONDS + 5):
            raise Unreachable(
                f"{daemon.args!r} did not start: see {target.data_dir}/longhand.log", code=failure.code
            ) from None
        _io.sleep(0.05)


class Client:
    """A daemon. What most programs need has a method of its own; `stubs` has every RPC.

    Every change gets a `request_id` unless it has one, and is sent again with it while the daemon does not answer: it
    is carried out once. Closing ends the connection; the daemon goes on.
    """

    def __init__(
        self,
        target: addresses.Target,
        *,
        actor: str = "python",
        tenant: str | None = None,
        retry_seconds: float = 30.0,
        timeout: float | None = None,
    ) -> None:
        self.target = target
        self.actor = actor
        self.retry_seconds = retry_seconds
        self._timeout = timeout
        self._state = _State(_io.current_loop())
        credentials = None
        if target.tls:
            credentials = grpc.ssl_channel_credentials(target.authorities)
        options = [option for option in _OPTIONS if target.address.startswith("unix:") or "authority" not in option[0]]
        self.channel = _io.open_channel(target.address, options, credentials)
        headers: list[tuple[str, str | bytes]] = [("longhand-actor", actor)]
        if target.token:
            headers.append(("authorization", f"Bearer {target.token}"))
        if tenant:
            headers.append(("longhand-tenant", tenant))
        self._headers = tuple(headers)
        #: Every RPC, as gRPC has it.
        self.stubs = Stubs(self.channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._state.closed = True
        self.channel.close()

    def with_options(self, *, timeout: float | None = None, retry_seconds: float | None = None) -> Client:
        """The same client, over the same connection, with another deadline: `client.with_options(timeout=3)`."""
        made = copy.copy(self)
        made.retry_seconds = self.retry_seconds if retry_seconds is None else retry_seconds
        made._timeout = self._timeout if timeout is None else timeout
        return made

    @property
    def timeout(self) -> float:
        """The time for a call with all its attempts, in seconds, beside what the call asks the daemon to wait."""
        return (self.retry_seconds or _TIMEOUT_SECONDS) if self._timeout is None else self._timeout

    def check(self) -> None:
        """Raises `ClientClosed`, or `WrongEventLoop`, for a client that can make no call here."""
        if self._state.closed:
            raise ClientClosed("the client is closed", code=grpc.StatusCode.CANCELLED)
        if self._state.loop is not _io.current_loop():
            raise WrongEventLoop("the client belongs to another event loop", code=grpc.StatusCode.FAILED_PRECONDITION)

    def closed_by_caller(self) -> None:
        """Raises `ClientClosed` where gRPC says in its own way that its channel was closed."""
        if self._state.closed and not _io.is_cancelled():
            raise ClientClosed("the client was closed during the call", code=grpc.StatusCode.CANCELLED) from None

    def failure(self, error: grpc.RpcError, timeout: float | None = None) -> Error:
        """The exception for a failed call."""
        if self._state.closed:
            return ClientClosed("the client was closed during the call", code=grpc.StatusCode.CANCELLED)
        made = of_call(error)
        if made.code is grpc.StatusCode.DEADLINE_EXCEEDED and not made.reason:
            return overdue(self.timeout if timeout is None else timeout)
        return made

    def headers(self, more: _io.Metadata = ()) -> _io.Metadata:
        """What every call carries: actor, access token, tenant."""
        return (*self._headers, *more)

    def call(
        self,
        method: _io.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        *,
        metadata: _io.Metadata = (),
        timeout: float | None = None,
        retry_seconds: float | None = None,
    ) -> Response:
        """One call of a stub, such as `client.call(client.stubs.sessions.GetSession, v1.GetSessionRequest(...))`.

        Gives a change its `request_id`, and sends it again while the daemon does not answer. `timeout` is the time for
        all of it, in seconds. Raises `Error`.
        """
        self.check()
        identify(request)
        seconds = (self.timeout if timeout is None else timeout) + waits(request)
        attempts = Attempts(self.retry_seconds if retry_seconds is None else retry_seconds, seconds)
        while True:
            try:
                return method(request, timeout=attempts.left(), metadata=self.headers(metadata))
            except grpc.RpcError as error:
                wait = attempts.next(self.failure(error, seconds))
            except _io.CLOSED:
                self.closed_by_caller()
                raise
            _io.sleep(wait)

    def attempts(self, more: float = 0.0) -> Attempts:
        """The attempts of a call that begins now, and may take more seconds than others."""
        self.check()
        return Attempts(self.retry_seconds, self.timeout + more)

    def server_info(self, *, retry_seconds: float | None = None) -> v1.GetServerInfoResponse:
        """The daemon's version and state."""
        request = v1.GetServerInfoRequest()
        return self.call(self.stubs.admin.GetServerInfo, request, retry_seconds=retry_seconds)

    def create_session(
        self,
        client_id: str | None = None,
        *,
        title: str = "",
        preset: str = "",
        window: int | str | v1.ModelWindow | None = None,
        metadata: object = None,
        policy_override: object = None,
        parent_session_id: str | None = None,
    ) -> Session:
        """Creates a session, or finds the one that the same request with this client id made.

        `window` is the model's context in tokens, or its name. Without a client id the session gets one by chance, so
        that a request whose answer was lost creates no second session.
        """
        request = v1.CreateSessionRequest(
            client_id=client_id or f"python-{uuid.uuid4().hex}",
            title=title,
            preset=preset,
            window=model_window(window),
            metadata_json=optional_json(metadata),
            policy_override_json=optional_json(policy_override) or "",
            parent_session_id=parent_session_id,
        )
        answer = self.call(self.stubs.sessions.CreateSession, request)
        return Session(self, answer.session.session_id, answer.session)

    def session(self, session_id: str) -> Session:
        """A session by its id or client id. Nothing is asked of the daemon before its first use."""
        return Session(self, session_id)

    def open_session(
        self,
        client_id: str,
        *,
        title: str = "",
        preset: str = "",
        window: int | str | v1.ModelWindow | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """The session with this client id, whoever made it, however it has changed, and also if one before was erased.

        Everything but the client id is for the case that it must be made.
        """
        for attempt in range(8):
            found = self.session(client_id)
            try:
                found.info = found.get()
                if found.info.state != v1.SESSION_STATE_ERASED:
                    return found
            except Error as error:
                if error.reason != "SESSION_NOT_FOUND":
                    raise
            # An erased session's request makes no other one, so this one differs.
            more = {**(metadata or {}), "made": uuid.uuid4().hex}
            try:
                return self.create_session(client_id, title=title, preset=preset, window=window, metadata=more)
            except Error as error:
                # Another client was faster.
                if error.reason != "CLIENT_ID_REUSED" or attempt == 7:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def list_sessions(
        self,
        *,
        filter: v1.SessionFilter | None = None,
        order: v1.SessionOrder.ValueType = v1.SESSION_ORDER_UNSPECIFIED,
        include_archived: bool = False,
        parent_session_id: str | None = None,
        page_size: int = 0,
    ) -> Iterator[v1.Session]:
        """Sessions, newest first unless another order is asked for, page by page."""
        request = v1.ListSessionsRequest(
            filter=filter,
            order=order,
            include_archived=include_archived,
            parent_session_id=parent_session_id,
            page_size=page_size,
        )
        for page in pages(self.call, self.stubs.sessions.ListSessions, request):
            for session in page.sessions:
                yield session

    def search(
        self,
        query: str,
        *,
        session_id: str | None = None,
        tree_session_id: str | None = None,
        project: str | None = None,
        roles: Sequence[v1.Role.ValueType] = (),
        tools: Sequence[str] = (),
        part_types: Sequence[v1.PartType.ValueType] = (),
        exclude_records: bool = False,
        require_every_term: bool = False,
        newest_first: bool = False,
        page_size: int = 0,
        min_seq: int = 0,
        wait_seconds: float = 0.0,
    ) -> Iterator[v1.SearchHit]:
        """Parts of messages by their words, the best first, page by page: also what no view shows any more.

        A part is found that has any of the words, or all of them with `require_every_term`; `rank` says why a hit
        stands where it does. The index follows the log in the background. To find what was just written, name the `seq`
        of the append's answer, and the time to wait for it.
        """
        request = v1.SearchHistoryRequest(
            query=query,
            session_id=session_id,
            tree_session_id=tree_session_id,
            project=project,
            roles=roles,
            tools=tools,
            part_types=part_types,
            exclude_records=exclude_records,
            require_every_term=require_every_term,
            newest_first=newest_first,
            page_size=page_size,
            min_seq=min_seq,
            wait_timeout=duration(wait_seconds or None),
        )
        for page in pages(self.call, self.stubs.search.SearchHistory, request):
            for hit in page.hits:
                yield hit

    def watch_sessions(
        self,
        *,
        filter: v1.SessionFilter | None = None,
        include_archived: bool = False,
        parent_session_id: str | None = None,
        retry_seconds: float = math.inf,
    ) -> Iterator[v1.WatchSessionsResponse]:
        """Follows a list of sessions: the list, and then its changes. A lost stream goes on where it was."""
        request = v1.WatchSessionsRequest(
            filter=filter, include_archived=include_archived, parent_session_id=parent_session_id
        )
        for frame in self.follow(self.stubs.sessions.WatchSessions, request, retry_seconds=retry_seconds):
            yield frame

    def events(
        self,
        *session_ids: str,
        after_cursor: str | None = None,
        from_beginning: bool = False,
        kinds: Sequence[v1.EventKind.ValueType] = (),
        include_content: bool = False,
        root_session_id: str | None = None,
        project: str | None = None,
        retry_seconds: float = math.inf,
    ) -> Iterator[v1.Event]:
        """Follows events, of these sessions or of all, without an end: after a cursor, from the beginning, or from now.

        Every event has its cursor. A stream that is lost, also by a restart of the daemon, goes on after the last one,
        so that no event is missed and none comes twice.
        """
        for frame in self.frames(
            *session_ids,
            after_cursor=after_cursor,
            from_beginning=from_beginning,
            kinds=kinds,
            include_content=include_content,
            root_session_id=root_session_id,
            project=project,
            retry_seconds=retry_seconds,
        ):
            for event in frame.events.events:
                yield event

    def frames(
        self,
        *session_ids: str,
        after_cursor: str | None = None,
        from_beginning: bool = False,
        snapshot: bool = False,
        kinds: Sequence[v1.EventKind.ValueType] = (),
        include_content: bool = False,
        include_deltas: bool = False,
        include_presence: bool = False,
        root_session_id: str | None = None,
        project: str | None = None,
        progress_seconds: float | None = None,
        retry_seconds: float = math.inf,
    ) -> Iterator[v1.SubscribeEventsResponse]:
        """Follows events as `events` does, with everything that a stream has: snapshots, deltas, presence, progress.

        `ready` comes again with every new connection. A snapshot that is lost before its end begins anew.
        """
        request = v1.SubscribeEventsRequest(
            session_ids=session_ids,
            kinds=kinds,
            include_content=include_content,
            include_deltas=include_deltas,
            include_presence=include_presence,
            root_session_id=root_session_id,
            project=project,
            progress_interval=duration(progress_seconds),
        )
        if after_cursor is not None:
            request.after_cursor = after_cursor
        elif from_beginning:
            request.from_beginning = True
        elif snapshot:
            request.snapshot = True
        for frame in self.follow(self.stubs.events.SubscribeEvents, request, retry_seconds=retry_seconds):
            yield frame

    def follow(
        self,
        method: _io.UnaryStreamMultiCallable[Request, Response],
        request: Request,
        *,
        metadata: _io.Metadata = (),
        calls: list[Any] | None = None,
        retry_seconds: float = math.inf,
    ) -> Iterator[Response]:
        """A stream with cursors, which goes on after its last one when it is lost. `calls` is the current call."""
        attempts = Attempts(retry_seconds)
        while True:
            self.check()
            call: Any = method(request, metadata=self.headers(metadata))
            if calls is not None:
                calls[:] = [call]
            try:
                for frame in call:
                    attempts = Attempts(retry_seconds)
                    yield frame
                    if cursor := cursor_of(frame, request):
                        cast(Any, request).after_cursor = cursor
                return
            except grpc.RpcError as error:
                failure = self.failure(error)
                # The stream of a reader that was too slow resumes, too.
                stalled = failure.reason == "READER_STALLED"
                wait = _RETRY_SECONDS[0] if stalled else attempts.next(failure)
            except _io.CLOSED:
                self.closed_by_caller()
                raise
            finally:
                call.cancel()
            _io.sleep(wait)

    def lease_summary_task(
        self,
        *session_ids: str,
        levels: Sequence[v1.CompactionLevel.ValueType] = (),
        wait_seconds: float = 30.0,
        lease_seconds: float = 60.0,
        window: int = 0,
    ) -> SummaryTask | None:
        """Waits for a summary that is to be written, and leases it; None if there was none in time.

        `window` is that of the model that will write it, in tokens. Use the task as a context: its lease is then
        extended until it is completed, and it is given back if the model fails.
        """
        request = v1.LeaseSummaryTaskRequest(
            session_ids=session_ids,
            levels=levels,
            wait_timeout=duration(wait_seconds),
            lease_timeout=duration(lease_seconds),
            window_tokens=window,
        )
        answer = self.call(self.stubs.summary_tasks.LeaseSummaryTask, request)
        if not answer.HasField("task"):
            return None
        return SummaryTask(self, answer.task, answer.lease_token, lease_seconds, window)


class Stubs:
    """The stubs of every service, over one channel."""

    def __init__(self, channel: Any) -> None:
        # The same objects, whose types depend on the channel.
        services: Any = v1
        self.sessions: SessionServiceStub = services.SessionServiceStub(channel)
        self.messages: MessageServiceStub = services.MessageServiceStub(channel)
        self.views: ViewServiceStub = services.ViewServiceStub(channel)
        self.runs: RunServiceStub = services.RunServiceStub(channel)
        self.prompts: PromptServiceStub = services.PromptServiceStub(channel)
        self.approvals: ApprovalServiceStub = services.ApprovalServiceStub(channel)
        self.events: EventServiceStub = services.EventServiceStub(channel)
        self.compactions: CompactionServiceStub = services.CompactionServiceStub(channel)
        self.summary_tasks: SummaryTaskServiceStub = services.SummaryTaskServiceStub(channel)
        self.erasures: EraseServiceStub = services.EraseServiceStub(channel)
        self.search: SearchServiceStub = services.SearchServiceStub(channel)
        self.access: AccessServiceStub = services.AccessServiceStub(channel)
        self.archives: ArchiveServiceStub = services.ArchiveServiceStub(channel)
        self.admin: AdminServiceStub = services.AdminServiceStub(channel)


class Attempts:
    """The times at which a call is tried again, and the time that it has in all."""

    def __init__(self, retry_seconds: float, timeout: float = math.inf) -> None:
        self._deadline = time.monotonic() + retry_seconds
        self._end = time.monotonic() + timeout
        self._delay = _RETRY_SECONDS[0]

    def left(self) -> float | None:
        """The time that is left, in seconds; None for no end."""
        return None if self._end == math.inf else max(self._end - time.monotonic(), 0.001)

    def next(self, failure: Error) -> float:
        """The time before the next attempt, in seconds; raises the failure if there is none."""
        wait = failure.retry_seconds or random.uniform(0.5, 1.0) * self._delay
        if not failure.temporary or time.monotonic() + wait > min(self._deadline, self._end):
            raise failure from None
        self._delay = min(2 * self._delay, _RETRY_SECONDS[1])
        return wait


def identify(request: Protobuf) -> None:
    """Gives a change its `request_id`, so that it can be sent again."""
    if "request_id" not in request.DESCRIPTOR.fields_by_name or cast(Any, request).request_id:
        return
    if isinstance(request, v1.CancelRunRequest) and request.tree:
        return
    cast(Any, request).request_id = uuid.uuid4().hex


def waits(request: Protobuf) -> float:
    """The time that a request has the daemon wait for something, or work on it, in seconds."""
    if isinstance(request, (v1.LeaseSummaryTaskRequest, v1.SearchHistoryRequest)):
        return request.wait_timeout.ToNanoseconds() / 1e9
    # Bytes leave the files before the answer; a model writes a summary.
    slow = isinstance(request, v1.EraseContentRequest)
    slow = slow or (isinstance(request, v1.RewindSessionRequest) and request.HasField("branch_summary"))
    return _SLOW_SECONDS if slow else 0.0


class _State:
    """What a client and its copies have in common."""

    def __init__(self, loop: object) -> None:
        self.loop = loop
        self.closed = False


def cursor_of(frame: Any, request: Any) -> str:
    """The position after a frame; empty where a stream cannot resume."""
    if not isinstance(frame, v1.SubscribeEventsResponse):
        return str(frame.cursor)
    # Within a snapshot there is no position, and it begins at `ready`, before the snapshot.
    ready = "" if request.WhichOneof("start") == "snapshot" else frame.ready.cursor
    return frame.events.cursor or frame.progress.cursor or frame.snapshot_end.cursor or ready
