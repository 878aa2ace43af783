"""Runs: the right of one agent to answer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from longhand import v1
from longhand._aio import _io
from longhand._aio.requests import duration
from longhand.errors import Error, RunLost

if TYPE_CHECKING:
    from longhand._aio.session import Session

__all__ = ["Run"]

#: The header with a run's number, by which the daemon refuses what a lost run writes.
_EPOCH = "longhand-run-epoch"


class Run:
    """A run, as a context: acquired at its begin, renewed in the background, released at its end."""

    def __init__(self, session: Session, *, take_prompt: bool, lease_seconds: float) -> None:
        self._outer = session
        self._take_prompt = take_prompt
        self._lease_seconds = lease_seconds
        self._background: list[_io.Background] = []
        self._calls: list[Any] = []
        self._ended = _io.Flag()
        self._stop = _io.Flag()
        self._failure: str | None = None
        #: The run, as it was acquired.
        self.info = v1.Run()
        #: The prompt that it took; None for none. Its message is in the view.
        self.prompt: v1.Prompt | None = None
        #: The session, for what is written on the run's behalf.
        self.session = session

    @property
    def epoch(self) -> int:
        """Its number in the session."""
        return self.info.epoch

    @property
    def stopped(self) -> bool:
        """True once it was asked to stop, or has ended: its agent should end, too."""
        return self._stop.is_set()

    async def wait_stopped(self, timeout: float | None = None) -> bool:
        """Waits until it is to stop, or for the time in seconds; the answer is whether it is."""
        return await self._stop.wait(timeout)

    async def __aenter__(self) -> Run:
        client, session = self._outer.client, self._outer
        lease = duration(self._lease_seconds)
        request = v1.AcquireRunRequest(session_id=session.id, take_prompt=self._take_prompt, lease_timeout=lease)
        answer = await client.call(client.stubs.runs.AcquireRun, request)
        self.info = answer.run
        self.prompt = answer.prompt if answer.HasField("prompt") else None
        kind = type(session)
        self.session = kind(client, session.id, session.info, (*session.metadata, (_EPOCH, str(self.epoch))))
        self._background = [_io.Background(self._renew), _io.Background(self._watch)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        failure = self._failure
        if error is not None:
            failure = f"{type(error).__name__}: {error}"[:1000].encode()[:1000].decode(errors="ignore")
        client = self._outer.client
        request = v1.ReleaseRunRequest(session_id=self._outer.id, epoch=self.epoch, failure=failure)
        try:
            await client.call(client.stubs.runs.ReleaseRun, request)
        except RunLost:
            # It ended otherwise: it was stopped, or its lease ran out.
            self._stop.set()
        except Error:
            # The caller's own exception says more.
            if error is None:
                raise
        finally:
            for work in self._background:
                await work.stop(self._calls)

    def fail(self, failure: str) -> None:
        """Has the end of the context release the run as failed."""
        self._failure = failure

    async def take_prompt(self, prompt_id: str | None = None, *, steering_only: bool = False) -> v1.Prompt:
        """Takes a prompt of the queue; raises `Error` with NO_PROMPT if there is none."""
        client = self._outer.client
        request = v1.TakePromptRequest(
            session_id=self._outer.id, epoch=self.epoch, prompt_id=prompt_id, steering_only=steering_only
        )
        return (await client.call(client.stubs.prompts.TakePrompt, request)).prompt

    async def watch(self) -> AsyncIterator[v1.WatchRunResponse]:
        """Follows what concerns the run: prompts, requests to stop, answers, and its end, after which it is over."""
        client = self._outer.client
        request = v1.WatchRunRequest(session_id=self._outer.id, epoch=self.epoch)
        async for frame in client.follow(client.stubs.runs.WatchRun, request):
            yield frame

    async def _renew(self) -> None:
        """Extends the lease three times in its time, until the run ends."""
        client = self._outer.client
        lease = duration(self._lease_seconds)
        request = v1.RenewRunRequest(session_id=self._outer.id, epoch=self.epoch, lease_timeout=lease)
        while not await self._ended.wait(self._lease_seconds / 3 * random.uniform(0.8, 1.0)):
            try:
                answer = await client.call(
                    client.stubs.runs.RenewRun, request, timeout=self._lease_seconds, retry_seconds=self._lease_seconds
                )
            except Error:
                # Lost, or nobody answers; what is written from now on says so.
                self._stop.set()
                return
            if answer.run.HasField("cancel_revision"):
                self._stop.set()

    async def _watch(self) -> None:
        """Learns at once that the run is to stop."""
        client = self._outer.client
        request = v1.WatchRunRequest(session_id=self._outer.id, epoch=self.epoch)
        try:
            async for frame in client.follow(client.stubs.runs.WatchRun, request, calls=self._calls):
                if frame.HasField("run"):
                    self._stop.set()
                if self._ended.is_set():
                    return
        except Error:
            return
