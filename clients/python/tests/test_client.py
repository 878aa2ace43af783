"""The synchronous client, against a daemon."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from conftest import BINARY, Daemon

import longhand
from longhand import address, v1
from longhand._sync.conversation import Conversation
from longhand._sync.reply import _remainder


def texts(messages: object) -> list[str]:
    return [longhand.plain_text(message) for message in messages]  # type: ignore[attr-defined]


def test_a_session_is_shared_by_its_client_id(client: longhand.Client, shared: Daemon) -> None:
    session = client.create_session("shared", window=64_000, metadata={"project": "tidewater"})
    assert session.info is not None
    assert session.info.window.max_context_tokens == 64_000
    with longhand.connect(shared.address, actor="other") as other:
        again = other.create_session("shared", window=64_000, metadata={"project": "tidewater"})
        assert again.id == session.id
        other.session("shared").append("What is 2 + 2?")
    view = session.view()
    assert texts(view.messages) == ["What is 2 + 2?"]
    assert view.messages[0].actor == "other"
    usage = longhand.usage(input_tokens=12, output_tokens=3)
    answer = session.append(longhand.assistant("4", view_token=view.token, usage=usage))
    assert answer.context_usage.context_tokens == 15
    assert session.get_message(answer.message_ids[0]).given_view.revision == view.header.revision


def test_a_view_brings_only_what_is_new(client: longhand.Client) -> None:
    session = client.create_session()
    session.append("one", "two")
    assert session.view().known_count == 0
    session.append("three")
    view = session.view()
    assert (view.known_count, texts(view.messages)) == (2, ["one", "two", "three"])
    assert session.view().known_count == 3
    # What was known and is not so any more is not kept.
    session.rewind(view.messages[0].message_id)
    session.append("four")
    view = session.view()
    assert (view.known_count, texts(view.messages)) == (1, ["one", "four"])
    # A view of another revision is no known prefix of the next one.
    assert texts(session.view(as_of_revision=4).messages) == ["one", "two", "three"]
    assert session.view().known_count == 2
    assert texts(client.session(session.id).view().messages) == texts(view.messages)


def test_errors_have_the_daemons_reason(client: longhand.Client) -> None:
    with pytest.raises(longhand.Error, match="SESSION_NOT_FOUND") as caught:
        client.session("nobody").view()
    assert caught.value.reason == "SESSION_NOT_FOUND"
    assert caught.value.code is grpc.StatusCode.NOT_FOUND
    assert caught.value.metadata == {"session_id": "nobody"}
    assert not caught.value.temporary
    session = client.create_session()
    revision = session.append("one").revision
    session.append("two")
    with pytest.raises(longhand.Error) as caught:
        session.append("three", expected_revision=revision)
    assert caught.value.reason == "REVISION_MISMATCH"
    assert caught.value.metadata["expected_revision"] == str(revision)


def test_history_pages_edits_pins_and_forks(client: longhand.Client) -> None:
    session = client.create_session()
    ids = session.append(*(str(number) for number in range(7))).message_ids
    assert texts(session.history(page_size=3)) == [str(number) for number in range(7)]
    assert texts(session.history(reverse=True, page_size=3))[:2] == ["6", "5"]
    assert texts(session.get_messages(list(ids[2:4]))) == ["2", "3"]
    session.edit(ids[1], "one", metadata={"edited": True})
    session.edit(ids[2], None)
    assert session.view().messages[1].metadata_json == '{"edited":true}'
    session.pin(ids[0])
    assert texts(session.view().messages)[:3] == ["0", "one", "3"]
    assert texts(session.expand(ids[1])) == ["1"]
    fork = session.fork(message_id=ids[3])
    fork.append("fork")
    assert texts(fork.view().messages) == ["0", "one", "3", "fork"]
    session.undo()
    assert texts(session.view().messages)[:3] == ["0", "one", "2"]


def test_lists_labels_and_archives(client: longhand.Client) -> None:
    for number in range(5):
        client.create_session(f"list-{number}").add_label("listed" if number % 2 else "other")
    chosen = v1.SessionFilter(client_id_prefix="list-", labels=["listed"])
    found = [session.client_id for session in client.list_sessions(filter=chosen, page_size=1)]
    assert found == ["list-3", "list-1"]
    client.session("list-1").remove_label("listed")
    client.session("list-3").archive()
    assert not list(client.list_sessions(filter=chosen))
    assert client.session("list-3").archive(restore=True).state == v1.SESSION_STATE_ACTIVE
    assert client.session("list-1").update(title="A title", metadata={"a": 1}).title == "A title"


def test_a_reply_is_written_while_it_comes(client: longhand.Client) -> None:
    for write in (longhand.Session.reply, longhand.Session.draft_reply):
        session = client.create_session()
        session.append("Look")
        with write(session, session.view(), model="small") as reply:
            reply.reasoning("I lo")
            reply.reasoning("ok")
            reply.end_draft("reasoning", metadata={"signature": "s"})
            reply.text("Wörds ")
            reply.text("come")
            reply.end_draft("text")
            reply.tool_input("call-1", "shell", '{"command":')
            reply.tool_input("call-1", "shell", ' "ls"}')
            reply.part(longhand.opaque("someone", "block", b"\0\1"))
            reply.set_usage(longhand.usage(5, 6))
        message = session.get_message(reply.client_id)
        kinds = {part.WhichOneof("body") for part in message.parts}
        assert kinds == {"reasoning", "text", "tool_call", "opaque"}
        by_id = {part.client_id: part for part in message.parts}
        assert by_id["reasoning"].reasoning.text == "I look"
        assert by_id["reasoning"].metadata_json == '{"signature":"s"}'
        assert by_id["text"].text.text == "Wörds come"
        assert by_id["call:call-1"].tool_call.input_json == '{"command": "ls"}'
        assert (message.finish.reason, message.finish.usage.output_tokens) == (v1.FINISH_REASON_TOOL_CALLS, 6)
        assert message.given_view.revision > 0
        assert reply.answer is not None


def test_an_exception_seals_a_reply_as_aborted(client: longhand.Client) -> None:
    session = client.create_session()
    with pytest.raises(ValueError, match="the model"), session.reply() as reply:
        reply.text("half")
        raise ValueError("the model is gone")
    message = session.get_message(reply.client_id)
    assert message.finish.reason == v1.FINISH_REASON_ABORTED
    assert (message.parts[0].text.text, message.finish.detail) == ("half", "ValueError: the model is gone")


def test_a_run_takes_a_prompt_and_is_renewed(client: longhand.Client, shared: Daemon) -> None:
    session = client.create_session("runs")
    with longhand.connect(shared.address, actor="person") as person:
        person.session("runs").submit("Mend the build")
    with session.run(take_prompt=True, lease_seconds=2.0) as run:
        assert run.prompt is not None
        assert texts(session.view().messages) == ["Mend the build"]
        with pytest.raises(longhand.Error) as caught, session.run():
            pass
        assert caught.value.reason == "RUN_ACTIVE"
        # The lease is two seconds, and it is renewed.
        assert not run.wait_stopped(2.5)
        run.session.append(longhand.assistant("Done."))
    activity = session.get_run()
    assert activity.activity == v1.ACTIVITY_IDLE
    assert activity.run.end.reason == v1.RUN_END_REASON_COMPLETED
    with pytest.raises(longhand.Error) as caught, session.run(take_prompt=True):
        pass
    assert caught.value.reason == "NO_PROMPT"
    with pytest.raises(KeyError), session.run():
        raise KeyError("it")
    assert session.get_run().run.end.failure == "KeyError: 'it'"


def test_a_run_that_is_stopped_learns_of_it_and_writes_no_more(client: longhand.Client) -> None:
    session = client.create_session()
    with session.run(lease_seconds=60.0) as run:
        session.cancel_run()
        assert run.wait_stopped(10)
        session.cancel_run(force=True)
        with pytest.raises(longhand.RunLost):
            run.session.append("late")
        # Others write without a run.
        session.append("others")
    assert texts(session.history()) == ["others"]


def test_prompts_are_queued_moved_and_withdrawn(client: longhand.Client) -> None:
    session = client.create_session()
    one, two, three = (session.submit(name) for name in ("one", "two", "three"))
    session.move_prompt(three, before=one)
    session.withdraw_prompt(two)
    assert [prompt.prompt_id for prompt in session.list_prompts()] == [three, one]
    with session.run() as run:
        assert run.take_prompt().prompt_id == three
        watched = run.watch()
        session.submit("steer", delivery=v1.DELIVERY_STEER)
        assert any(frame.prompt.parts[0].text.text == "steer" for frame in watched if frame.HasField("prompt"))
        watched.close()
        assert run.take_prompt(steering_only=True).parts[0].text.text == "steer"


def test_a_message_is_sent_again_and_results_of_a_front_end_wait(client: longhand.Client) -> None:
    session = client.create_session()
    call = longhand.assistant(longhand.tool_call("c1", "pick", {}))
    first, reply = session.append("hello", call).message_ids
    result = longhand.tool_result("c1", "b")
    sent = session.submit(result)
    with pytest.raises(longhand.Error) as caught:
        session.submit(result)
    assert caught.value.reason == "CALL_ANSWERED"
    with session.run(take_prompt=True) as run:
        assert run.prompt is not None
        assert run.prompt.prompt_id == sent
        answered = session.view().messages[-1]
        assert (answered.role, answered.parts[0].part.tool_result.call_message_id) == (v1.ROLE_TOOL, reply)
        with pytest.raises(longhand.Error) as caught:
            session.submit("again", rewind_to=first, expected_revision=1)
        assert caught.value.reason == "REVISION_MISMATCH"
        again = session.submit("again", rewind_to=first)
        assert session.get_run().run.end.reason == v1.RUN_END_REASON_CANCELLED
    assert texts(session.view().messages) == ["hello"]
    session.submit("anew", rewind_to=longhand.START)
    assert next(prompt.prompt_id for prompt in session.list_prompts()) == again
    assert not session.view().messages


def test_a_question_is_answered_once(client: longhand.Client, shared: Daemon) -> None:
    session = client.create_session("questions")
    question = session.ask("Push it?", ["yes", "no"], tool="git", arguments={"remote": "origin"})
    ends: list[v1.ApprovalEnd] = []
    waiting = threading.Thread(target=lambda: ends.append(session.wait_for_answer(question.approval_id)))
    waiting.start()
    with longhand.connect(shared.address, actor="person") as person:
        other = person.session("questions")
        assert [asked.question.tool for asked in other.list_approvals()] == ["git"]
        other.answer(question.approval_id, "yes")
        with pytest.raises(longhand.Error) as caught:
            other.answer(question.approval_id, "no")
    waiting.join(10)
    assert (ends[0].choice, ends[0].actor) == ("yes", "person")
    assert caught.value.reason == "APPROVAL_ENDED"
    assert caught.value.metadata["choice"] == "yes"
    # An end that came before is found, too.
    assert session.wait_for_answer(question.approval_id).choice == "yes"


def test_what_was_written_is_found_and_what_is_erased_is_not(client: longhand.Client) -> None:
    session = client.create_session()
    answer = session.append("The harbour of Tidewater closes at nine", "Something else")
    options = {"min_seq": answer.seq, "wait_seconds": 30.0}
    hits = list(session.search("harb* tidewater", page_size=1, **options))
    assert [hit.message_id for hit in hits] == [answer.message_ids[0]]
    assert "harbour" in hits[0].snippet.text
    assert hits[0].in_view
    assert session.erase("a test", message_id=answer.message_ids[0], dry_run=True).message_count == 1
    erased = session.erase("a test", message_id=answer.message_ids[0])
    assert not list(session.search("tidewater", min_seq=erased.seq, wait_seconds=20.0))
    assert session.get_message(answer.message_ids[0]).parts[0].erased
    # The same name makes another session, once the first is erased.
    first = client.open_session("erased", title="one")
    first.append("secret")
    assert client.open_session("erased").id == "erased"
    known = Conversation(client.session("erased"), "test")

    def ids() -> set[str]:
        known.read()
        return set(known.by_client_id)

    first.append(longhand.user("more", client_id="m1"), longhand.user("and more", client_id="m2"))
    assert ids() == {"m1", "m2"}
    first.append(longhand.user("the rest", client_id="m3"))
    listed = first.history(client_id_prefix="m", reverse=True, page_size=2)
    assert [message.client_id for message in listed] == ["m3", "m2", "m1"]
    with pytest.raises(longhand.Error, match="REVISION_MISMATCH"):
        first.erase("a test", message_ids=["m1", "m2"], expected_revision=1)
    assert first.erase("a test", message_ids=["m1", "m2"], expected_revision=first.get().revision).message_count == 2
    assert ids() == {"m1", "m2", "m3"}
    first.erase("a test")
    second = client.open_session("erased")
    second.append(longhand.user("new", client_id="m4"))
    assert texts(second.history()) == ["new"]
    assert ids() == {"m4"}


def test_a_list_is_watched(client: longhand.Client) -> None:
    chosen = v1.SessionFilter(client_id_prefix="watched-")
    client.create_session("watched-1")
    frames = client.watch_sessions(filter=chosen)
    ids: list[str] = []
    for frame in frames:
        ids += [session.client_id for session in frame.snapshot_page.sessions]
        ids += [session.client_id for session in frame.change.changed_sessions]
        if frame.HasField("snapshot_end"):
            client.create_session("watched-2")
        if "watched-2" in ids:
            break
    frames.close()
    assert ids == ["watched-1", "watched-2"]


def test_a_summary_is_written_by_a_client() -> None:
    daemon = Daemon("[summarizer]\nclient_wait_seconds = 30\n")
    try:
        with longhand.connect(daemon.address) as client:
            session = client.create_session(preset="opencode@seed", window=20_000)
            for number in range(12):
                session.append(f"Request {number}: " + "words of the request " * 40)
                session.append(longhand.assistant(f"Reply {number}: " + "words of the reply " * 40))
            session.compact()
            # Given back by an exception, it is there for the next.
            task = client.lease_summary_task(session.id, lease_seconds=30)
            assert task is not None
            with pytest.raises(ValueError, match="no model"), task:
                raise ValueError("no model")
            task = client.lease_summary_task(session.id, lease_seconds=2)
            assert task is not None
            with task:
                assert "Request 0" in task.prompt
                # The lease is two seconds, and it is extended.
                time.sleep(2.5)
                with pytest.raises(longhand.Error) as caught:
                    task.complete("")
                assert caught.value.reason == "SUMMARY_REFUSED"
                events = session.events(after_cursor=None, from_beginning=True)
                task.complete("## Goal\n- requests were answered\n## Next Steps\n- none left\n" * 6, model="mine")
            for event in events:
                assert event.kind != v1.EVENT_KIND_COMPACTION_FAILED
                if event.kind == v1.EVENT_KIND_COMPACTED:
                    break
            events.close()
            view = session.view()
            summaries = [m for m in view.messages if m.kind == v1.VIEW_MESSAGE_KIND_SUMMARY]
            assert "requests were answered" in longhand.plain_text(summaries[0])
            assert summaries[0].provenance.summarizer == "client/mine"
    finally:
        daemon.remove()


@pytest.mark.parametrize(
    "point", ["append.committed:2", "append.uncommitted:2", "create.committed:2", "fork.committed"]
)
def test_a_change_whose_answer_is_lost_is_made_once(daemon: Daemon, point: str) -> None:
    daemon.stop()
    daemon.start(point)
    again = threading.Thread(target=daemon.restart_after_death)
    again.start()
    with longhand.connect(daemon.address) as client:
        session = client.create_session()
        session.append("one")
        session.append("two")
        client.create_session()
        session.fork()
        again.join(30)
        assert not again.is_alive()
        assert texts(session.history()) == ["one", "two"]
        assert len(list(client.list_sessions())) == 3


def test_a_follower_misses_nothing_over_restarts(daemon: Daemon) -> None:
    wanted = 60
    with longhand.connect(daemon.address) as client:
        session = client.create_session("followed")
        seen: list[int] = []

        def follow() -> None:
            with longhand.connect(daemon.address) as other:
                for event in other.events("followed", from_beginning=True):
                    seen.append(event.revision)
                    if len(seen) > wanted:
                        return

        follower = threading.Thread(target=follow)
        follower.start()

        def write() -> None:
            for number in range(wanted):
                session.append(f"message {number}")

        # The writer does not know of the restarts, either.
        writer = threading.Thread(target=write)
        writer.start()
        for number in (signal.SIGTERM, signal.SIGKILL):
            time.sleep(0.1)
            daemon.restart(number)
        writer.join(60)
        follower.join(60)
        assert seen == list(range(1, wanted + 2))
        assert texts(session.history(page_size=1000)) == [f"message {number}" for number in range(wanted)]


def test_a_streamed_reply_goes_on_over_restarts(daemon: Daemon) -> None:
    with longhand.connect(daemon.address) as client:
        session = client.create_session()
        words = [f"wörd{number} " for number in range(200)]
        with session.reply() as reply:
            for number, word in enumerate(words):
                reply.text(word)
                if number in (50, 120):
                    time.sleep(0.05)
                    daemon.restart(signal.SIGTERM if number == 50 else signal.SIGKILL)
                if number == 80:
                    reply.part(longhand.opaque("someone", "block", b"\0"))
        assert reply.resume_count >= 2
        message = session.get_message(reply.client_id)
        assert longhand.plain_text(message) == "".join(words)
        assert len(message.parts) == 2
        assert message.finish.reason == v1.FINISH_REASON_STOP


def test_what_is_left_of_a_frame() -> None:
    def text(delta: str, offset: int) -> v1.WriteMessageRequest:
        return v1.WriteMessageRequest(draft_text=v1.DraftText(client_id="d", offset_bytes=offset, delta=delta))

    frame = text("wörds", 10)
    assert _remainder(frame, set(), {}) == frame
    assert _remainder(frame, set(), {"d": 10}) == frame
    assert _remainder(frame, set(), {"d": 13}) == text("rds", 13)
    assert _remainder(frame, set(), {"d": 16}) is None
    assert _remainder(frame, {"d"}, {}) is None
    part = v1.WriteMessageRequest(part=v1.Part(client_id="p"))
    assert _remainder(part, {"d"}, {}) == part
    assert _remainder(part, {"p"}, {}) is None


@pytest.mark.parametrize(
    "point", ["finish.committed", "finish.uncommitted", "append_drafts.committed:2", "append_drafts.uncommitted:2"]
)
def test_a_streamed_reply_survives_a_death_at_each_step(daemon: Daemon, point: str) -> None:
    daemon.stop()
    daemon.start(point)
    again = threading.Thread(target=daemon.restart_after_death)
    again.start()
    with longhand.connect(daemon.address) as client:
        session = client.create_session()
        with session.reply() as reply:
            for number in range(20):
                reply.text(f"wörd{number} ")
                time.sleep(0.01)
            reply.set_usage(longhand.usage(3, 4))
        again.join(30)
        assert not again.is_alive()
        message = session.get_message(reply.client_id)
        assert longhand.plain_text(message) == "".join(f"wörd{number} " for number in range(20))
        assert (message.finish.reason, message.finish.usage.input_tokens) == (v1.FINISH_REASON_STOP, 3)


def test_an_end_whose_answer_is_lost_is_answered_again(daemon: Daemon) -> None:
    with longhand.connect(daemon.address) as client:
        session = client.create_session()
        with session.reply() as reply:
            reply.text("whole")
            reply.finish()
            first = reply.answer
            # As if the answer to the end had not come.
            reply._resume()
            assert reply._writer is not None
            again = reply._writer.finish(30.0)
            assert first is not None
            assert (again.sealed, again.revision, again.seq) == (True, first.revision, first.seq)
        assert len(list(session.history())) == 1


def started(data_dir: Path) -> list[int]:
    """The processes of daemons with this data directory."""
    listed = subprocess.run(["ps", "-eww", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if f"--data-dir {data_dir}" in line]


def stop_started(data_dir: Path) -> None:
    """Stops the daemon that nobody here is the parent of, and waits until it is gone: it removes files to its end."""
    found = started(data_dir)
    assert found
    for pid in found:
        # One that found the other in its place may end by itself meanwhile.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while started(data_dir):
        assert time.monotonic() < deadline, "the daemon does not end"
        time.sleep(0.02)
    assert not (data_dir / "longhand.sock").exists()


def written(path: Path) -> str:
    """What a daemon writes to a file, which can be a little after its socket answers."""
    deadline = time.monotonic() + 30
    while not (path.exists() and (text := path.read_text().strip())):
        assert time.monotonic() < deadline, f"{path} was never written"
        time.sleep(0.02)
    return text


def test_a_daemon_is_started_where_none_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Daemon()
    home.stop()
    try:
        monkeypatch.setenv("XDG_DATA_HOME", str(home.directory / "home"))
        monkeypatch.delenv("LONGHAND_SERVER", raising=False)
        monkeypatch.setenv("LONGHAND_BIN", BINARY)
        with pytest.raises(longhand.Unreachable, match="longhand serve"):
            longhand.connect(start=False)
        # Several at once start one daemon.
        found: list[longhand.Client] = []
        threads = [threading.Thread(target=lambda: found.append(longhand.connect())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stores = {client.server_info().store_id for client in found}
        assert (len(found), len(stores)) == (3, 1)
        url = written(home.directory / "home/longhand/longhand.url")
        with longhand.connect(url) as over_tcp:
            assert over_tcp.server_info().store_id in stores
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        with pytest.raises(longhand.Error) as caught:
            longhand.connect(url)
        assert caught.value.reason == "ACCESS_TOKEN_MISSING"
        for client in found:
            client.close()
    finally:
        stop_started(home.directory / "home/longhand")
        home.remove()


def test_a_daemon_of_another_version_is_refused(shared: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhand.version.VERSION", "0.7.1")
    with pytest.raises(longhand.VersionMismatch, match="use those of one version"):
        longhand.connect(shared.address)
    longhand.connect(shared.address, check_version=False).close()


def test_addresses_are_those_of_the_command_line(tmp_path: Path) -> None:
    found = address.target(environment={"XDG_DATA_HOME": str(tmp_path)})
    assert (found.address, found.data_dir) == (f"unix:{tmp_path}/longhand/longhand.sock", tmp_path / "longhand")
    given = {"LONGHAND_SERVER": "http://127.0.0.1:7070/", "LONGHAND_TOKEN": "secret"}
    found = address.target(environment=given)
    assert (found.address, found.token, found.tls, found.data_dir) == ("127.0.0.1:7070", "secret", False, None)
    assert address.target("unix:///run/l.sock", environment=given).address == "unix:/run/l.sock"
    assert address.target("https://box.lan:1", environment={}).tls
    for wrong in ("localhost:7070", "http://localhost", "ftp://localhost:1", "unix:", ""):
        with pytest.raises(ValueError, match="unix:/path"):
            address.target(wrong, environment={})


def test_versions_are_those_of_the_daemon() -> None:
    root = Path(__file__).parents[3]
    cargo = (root / "Cargo.toml").read_text()
    project = (root / "clients/python/pyproject.toml").read_text()
    assert f'version = "{longhand.__version__}"' in cargo
    assert f'version = "{longhand.__version__}"' in project


@contextlib.contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """A daemon that takes connections and answers nothing."""
    daemon.suspend()
    assert daemon.process is not None
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def seconds(work: Callable[[], object]) -> float:
    """The time until a call says that its own is over."""
    began = time.monotonic()
    with pytest.raises(longhand.Error, match="no answer in") as raised:
        work()
    assert raised.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    return time.monotonic() - began


def test_a_stopped_daemon_holds_no_call_over_its_time(daemon: Daemon) -> None:
    with longhand.connect(daemon.address, retry_seconds=1.0) as client:
        session = client.create_session("stopped")
        reply = session.reply()
        reply.__enter__()
        with stopped(daemon):
            assert seconds(lambda: session.append("Hello")) < 2.5
            assert seconds(session.view) < 2.5
            assert seconds(lambda: list(session.history())) < 2.5
            assert seconds(lambda: session.with_options(timeout=0.2).append("Hello")) < 1.0
            assert seconds(lambda: client.with_options(timeout=0.2).server_info()) < 1.0
            assert seconds(reply.finish) < 2.5
            with pytest.raises(longhand.Error):
                longhand.connect(daemon.address, timeout=0.3)
        # What was in doubt is carried out once, under its request's id.
        session.append("Hello", request_id="once")
        session.append("Hello", request_id="once")
        patient = client.with_options(timeout=20)
        assert (patient.timeout, patient.retry_seconds, client.timeout) == (20, 1.0, 1.0)


def test_a_call_that_waits_has_the_time_for_it() -> None:
    daemon = Daemon("[summarizer]\nclient_wait_seconds = 30\n")
    try:
        with longhand.connect(daemon.address, timeout=0.5) as short:
            began = time.monotonic()
            assert short.lease_summary_task(wait_seconds=1.0) is None
            assert time.monotonic() - began > 0.9
    finally:
        daemon.remove()


def test_a_closed_client_says_so(shared: Daemon) -> None:
    client = longhand.connect(shared.address)
    session = client.create_session()
    events = session.events()
    client.close()
    for work in (lambda: session.append("x"), session.view, lambda: next(events), lambda: session.reply().__enter__()):
        with pytest.raises(longhand.ClientClosed):
            work()


def test_errors_go_to_other_processes() -> None:
    error = longhand.RunLost(
        "it ended",
        reason="RUN_LOST",
        code=grpc.StatusCode.ABORTED,
        metadata={"epoch": "3"},
        retry_seconds=1.5,
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is longhand.RunLost
    assert str(again) == str(error) == "RUN_LOST: it ended"
    assert vars(again) == vars(error)


def test_half_of_a_surrogate_pair_is_refused_before_anything_is_sent(client: longhand.Client) -> None:
    session, half = client.create_session(), "half \ud83d"
    makes: list[Callable[[], object]] = [
        lambda: session.append(half),
        lambda: longhand.reasoning(half),
        lambda: longhand.tool_call("c", "t", {"a": half}),
        lambda: longhand.tool_result("c", half),
        lambda: longhand.user("x", metadata={"a": half}),
        lambda: session.append_provider("anthropic", {"messages": [{"role": "user", "content": half}]}),
    ]
    for make in makes:
        with pytest.raises(longhand.InvalidText, match="character"):
            make()
    with pytest.raises(longhand.InvalidText), session.reply() as reply:
        reply.text(half)
    assert [m.finish.reason for m in session.history()] == [v1.FINISH_REASON_ABORTED]


def test_more_than_a_request_takes_is_several_changes(client: longhand.Client) -> None:
    session = client.create_session()
    revision = session.get().history_revision
    answer = session.append(*(f"{n}" for n in range(1100)), expected_revision=revision, title="All of them")
    assert len(answer.message_ids) == 1100
    assert texts(session.history(page_size=1000)) == [f"{n}" for n in range(1100)]
    assert session.get().title == "All of them"
    again = session.append(*(longhand.user("x" * 1000, client_id=f"c{n}") for n in range(600)), request_id="r")
    assert session.append(*(longhand.user("x" * 1000, client_id=f"c{n}") for n in range(600)), request_id="r") == again
    large = ["x" * 3_000_000] * 5
    assert len(session.append(*large).message_ids) == 5


def test_a_view_in_a_providers_format_and_what_it_answers(client: longhand.Client) -> None:
    session = client.create_session()
    picture = longhand.media("image/png", b"\x89PNG", name="tide.png")
    session.append(longhand.system("Be brief."), longhand.user(["Look", picture]))
    session.append(longhand.user(longhand.media("image/png", "https://example.com/x.png")))
    view = session.formatted_view("anthropic")
    assert [block["text"] for block in view.system] == ["Be brief."]
    assert [message["role"] for message in view.messages] == ["user"]
    assert view.messages[0]["content"][1]["source"]["media_type"] == "image/png"
    assert [len(ids) for ids in view.message_ids] == [2]
    reply = {
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "A tide"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 40, "output_tokens": 3},
    }
    answer = session.append_provider("anthropic", reply, view=view)
    assert answer.context_usage.context_tokens == 43
    again = session.formatted_view("anthropic")
    assert again.known_count == 1
    assert again.messages[0] == view.messages[0]
    assert again.messages[1]["content"] == reply["content"]
    assert session.formatted_view("openai_chat").end.left_out_parts
    assert session.get_message(answer.message_ids[0]).given_view.revision == view.header.revision
    call = longhand.assistant(longhand.tool_call("c", "look", {}))
    session.append(call, longhand.tool(longhand.tool_result("c", "seen", attachments=[picture])))
    (result,) = session.view().messages[-1].parts
    assert result.part.tool_result.attachments[0].data == b"\x89PNG"
    assert session.formatted_view("gemini", as_of_revision=view.header.revision).known_count == 0


def test_what_a_format_cannot_carry_is_named_in_its_place(client: longhand.Client) -> None:
    session = client.create_session()
    session.append(longhand.user("When is high tide?"))
    asked = {"type": "search", "query": "tide"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": asked}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "At noon."}]}
    session.append_provider("openai_responses", {"object": "response", "status": "completed", "output": [search, said]})
    with pytest.raises(longhand.Error) as refused:
        session.formatted_view("anthropic")
    assert refused.value.reason == "CONTENT_NOT_IN_FORMAT"
    view = session.formatted_view("anthropic", degrade=True)
    texts = [block["text"] for block in view.messages[1]["content"]]
    assert texts == ["[left out: a web_search_call block of openai_responses]", "At noon."]
    assert view.end.left_out_parts[0].kind == v1.LEFT_OUT_KIND_BLOCK
    assert session.formatted_view("anthropic", degrade=True).known_count == 2
    assert session.formatted_view("openai_responses", degrade=True).messages[1] == search
