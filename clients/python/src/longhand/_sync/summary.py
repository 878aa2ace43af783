# Made by `generate` from the module of the same name in `_aio`.
"""Summaries that a client writes with its own model."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from longhand import v1
from longhand._sync import _io
from longhand._sync.requests import duration
from longhand.errors import Error
from longhand.parts import optional_json

if TYPE_CHECKING:
    from longhand._sync.client import Client

__all__ = ["SummaryTask"]


class SummaryTask:
    """A leased task: `system` and `prompt` are a request for a model, and `complete` takes its answer.

    As a context it extends the lease in the background, and gives the task back if it was not completed.
    """

    def __init__(
        self, client: Client, task: v1.SummaryTask, lease_token: str, lease_seconds: float, window: int
    ) -> None:
        self._client = client
        self._lease_token = lease_token
        self._lease_seconds = lease_seconds
        self._window = window
        self._done = _io.Flag()
        self._background: _io.Background | None = None
        #: The task.
        self.info = task

    @property
    def system(self) -> str:
        """The system prompt for a model."""
        return self.info.system

    @property
    def prompt(self) -> str:
        """The request for a model, with the history in it as data."""
        return self.info.prompt

    def __enter__(self) -> SummaryTask:
        self._background = _io.Background(self._extend)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        finished = self._done.is_set()
        self._done.set()
        if self._background is not None:
            self._background.stop([])
        if not finished:
            try:
                self.fail()
            except Error:
                # The lease has ended: the task is with somebody else already.
                pass

    def complete(
        self,
        text: str,
        *,
        model: str = "",
        reason: v1.FinishReason.ValueType = v1.FINISH_REASON_STOP,
        usage: v1.Usage | None = None,
        supplied: bool = False,
    ) -> v1.Compaction:
        """Completes the task with its summary; raises `Error` with SUMMARY_REFUSED for one that is none."""
        request = v1.CompleteSummaryTaskRequest(
            text=text, model=model, reason=reason, usage=usage, supplied=supplied, **self._lease()
        )
        answer = self._client.call(self._client.stubs.summary_tasks.CompleteSummaryTask, request)
        self._done.set()
        return answer.compaction

    def check(self, text: str) -> tuple[str, str]:
        """The request, system prompt and prompt, by which a model checks its summary; empty if the policy has none."""
        request = v1.CheckSummaryTaskRequest(text=text, window_tokens=self._window, **self._lease())
        answer = self._client.call(self._client.stubs.summary_tasks.CheckSummaryTask, request)
        return answer.system, answer.prompt

    def edit(
        self,
        *,
        tail_start_message_id: str | None = None,
        retained_message_ids: list[str] | None = None,
        instructions: str | None = None,
        details: object = None,
    ) -> None:
        """Changes the plan; `prompt` is then another one."""
        request = v1.EditSummaryTaskRequest(
            tail_start_message_id=tail_start_message_id,
            instructions=instructions,
            details_json=optional_json(details),
            window_tokens=self._window,
            **self._lease(),
        )
        if retained_message_ids is not None:
            request.retained.CopyFrom(v1.RetainedMessages(message_ids=retained_message_ids))
        self.info = (self._client.call(self._client.stubs.summary_tasks.EditSummaryTask, request)).task

    def fail(self, *, permanent: bool = False) -> None:
        """Gives the task back; with `permanent` the configured summarizers write it at once."""
        failure = v1.SUMMARY_TASK_FAILURE_PERMANENT if permanent else v1.SUMMARY_TASK_FAILURE_TRANSIENT
        request = v1.FailSummaryTaskRequest(failure=failure, **self._lease())
        self._client.call(self._client.stubs.summary_tasks.FailSummaryTask, request)
        self._done.set()

    def delegate(self) -> None:
        """Gives the task to the configured summarizers, with the changes that were made to it."""
        request = v1.DelegateSummaryTaskRequest(**self._lease())
        self._client.call(self._client.stubs.summary_tasks.DelegateSummaryTask, request)
        self._done.set()

    def _lease(self) -> dict[str, Any]:
        return {"compaction_id": self.info.compaction_id, "lease_token": self._lease_token}

    def _extend(self) -> None:
        request = v1.ExtendSummaryTaskRequest(lease_timeout=duration(self._lease_seconds), **self._lease())
        while not self._done.wait(self._lease_seconds / 3):
            try:
                self._client.call(self._client.stubs.summary_tasks.ExtendSummaryTask, request)
            except Error:
                return
