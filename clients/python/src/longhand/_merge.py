"""A framework's own messages, changed as a view says; for the adapters.

Whatever a framework gives its model stays as it is, and in its order, but for what the view hides, shortens or adds:
what compactions cover, shorten and summarize, and what others wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhand import v1

if TYPE_CHECKING:
    from longhand._aio.session import View as AsyncView
    from longhand._sync.session import View

__all__ = ["Entry", "Shown", "hidden_because", "merged"]

#: What stands in a view for something else. Without any, what a policy adds for the sake of the order is not needed.
_DERIVED = frozenset(
    {
        v1.VIEW_MESSAGE_KIND_MARKER,
        v1.VIEW_MESSAGE_KIND_SUMMARY,
        v1.VIEW_MESSAGE_KIND_RETRIEVED,
        v1.VIEW_MESSAGE_KIND_BRANCH_SUMMARY,
        v1.VIEW_MESSAGE_KIND_ADDED,
    }
)


@dataclass
class Entry:
    """A message of a session, as far as an adapter knows it."""

    message_id: str
    role: v1.Role.ValueType
    revision: int
    #: Who said it, by its framework; empty for messages of others.
    owner: str = ""
    identity: str = ""
    #: The content that the session has now; empty if it is not known.
    digest: str = ""
    #: How often it was removed and appended anew.
    generation: int = 0
    #: What is in its place; empty for itself.
    replacement_id: str = ""
    #: True if its newest edit is by the adapter.
    is_ours: bool = False
    #: True if the adapter removed it.
    is_removed: bool = False
    #: True if no view has it, because somebody left it out.
    is_hidden: bool = False

    @property
    def current_id(self) -> str:
        """The id of what a view shows of it."""
        return self.replacement_id or self.message_id


@dataclass
class Shown:
    """What a model gets at one place: a message of the framework's, one of others, or the first as the view has it."""

    #: The number of the framework's message; None for a message of others.
    own: int | None = None
    #: What the view has of it; empty for a message of the framework's that it has whole.
    messages: Sequence[v1.ViewMessage] = ()


def hidden_because(revision: int, end: v1.ViewEnd) -> str:
    """Why a view does not show a message: `covered`, `empty`, `left out`; empty if it says nothing of it."""
    if any(one.first_revision <= revision <= one.last_revision for one in end.covered.covered_ranges):
        return "covered"
    for omitted in end.omitted:
        if omitted.range.first_revision <= revision <= omitted.range.last_revision:
            return "empty" if omitted.reason == v1.OMIT_REASON_EMPTY else "left out"
    return ""


def merged(
    own: Sequence[Entry | None],
    by_message_id: Mapping[str, Entry],
    view: View | AsyncView,
    dropped: Collection[str] = (),
) -> list[Shown]:
    """The framework's messages, of which the session has these entries, as the view says.

    None is a message that the session does not have, and that stays where it is. `dropped` are ids of messages that the
    framework does not want in this request.
    """
    shown: dict[str, list[v1.ViewMessage]] = {}
    for message in view.messages:
        entry = by_message_id.get(message.message_id)
        if entry is not None and entry.current_id == message.message_id and (entry.is_ours or not entry.replacement_id):
            shown.setdefault(entry.message_id, []).append(message)
    # What goes into the places of the view, in the framework's order, each with what stays beside it.
    places: list[list[Shown]] = []
    front: list[Shown] = []
    taken: set[str] = set()
    for number, entry in enumerate(own):
        if entry is not None and entry.message_id in shown and entry.message_id not in taken:
            taken.add(entry.message_id)
            has = shown[entry.message_id]
            places.append([Shown(number, () if _is_whole(entry, has) else has)])
        elif entry is None or hidden_because(entry.revision, view.end) in ("empty", ""):
            (places[-1] if places else front).append(Shown(number))
    made = front
    seen: set[str] = set()
    derived = any(message.kind in _DERIVED for message in view.messages)
    remaining, after_own = iter(places), False
    for message in view.messages:
        entry = by_message_id.get(message.message_id)
        if entry is not None and entry.message_id in taken and any(m is message for m in shown[entry.message_id]):
            after_own = True
            if entry.message_id not in seen:
                seen.add(entry.message_id)
                made.extend(next(remaining))
            continue
        if message.kind == v1.VIEW_MESSAGE_KIND_MISSING_RESULT and after_own:
            # The framework has its own way with a call that has no result yet.
            continue
        if message.kind == v1.VIEW_MESSAGE_KIND_POLICY_TEXT and not derived:
            continue
        after_own = False
        if entry is None or entry.message_id not in dropped:
            made.append(Shown(None, [message]))
    return _asking(made, own)


def _asking(made: list[Shown], own: Sequence[Entry | None]) -> list[Shown]:
    """The same with replies of others that came last before what the framework asks: no provider answers a reply."""
    last = max((place for place, one in enumerate(made) if one.own is not None), default=-1)
    behind = made[last + 1 :]
    if last < 0 or not behind or behind[-1].messages[-1].role != v1.ROLE_ASSISTANT:
        return made
    begin = last
    while begin > 0 and _role(made[begin], own) == v1.ROLE_TOOL:
        begin -= 1
    return [*made[:begin], *behind, *made[begin : last + 1]]


def _role(one: Shown, own: Sequence[Entry | None]) -> v1.Role.ValueType:
    entry = None if one.own is None else own[one.own]
    return v1.ROLE_UNSPECIFIED if entry is None else entry.role


def _is_whole(entry: Entry, messages: Sequence[v1.ViewMessage]) -> bool:
    """True unless something is shortened, or a result without its call is a text now."""
    same = all(message.role == entry.role for message in messages)
    return same and not any(view_part.shortening for message in messages for view_part in message.parts)
