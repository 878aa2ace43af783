"""The asynchronous client: what is not the same code as the synchronous one."""

from __future__ import annotations

import asyncio
import signal

import grpc
import pytest
from conftest import Daemon

import longhand
from longhand import aio, v1


async def test_agents_and_a_person_share_a_session(shared: Daemon) -> None:
    async with await aio.connect(shared.address, actor="agent") as client:
        session = await client.create_session("aio")

        async def agent(name: str) -> None:
            async with await aio.connect(shared.address, actor=name) as mine:
                own = mine.session("aio")
                for number in range(10):
                    await own.append(longhand.user(f"{name} {number}"))

        await asyncio.gather(*(agent(name) for name in ("one", "two", "three")))
        view = await session.view()
        assert len(view.messages) == 30
        for name in ("one", "two", "three"):
            words = [longhand.plain_text(m) for m in view.messages if m.actor == name]
            assert words == [f"{name} {number}" for number in range(10)]


async def test_a_run_and_its_question(shared: Daemon) -> None:
    async with await aio.connect(shared.address) as client:
        session = await client.create_session()
        await session.submit("Do it")
        async with session.run(take_prompt=True, lease_seconds=2.0) as run:
            asked = await run.session.ask("May I?", ["yes", "no"])
            waiting = asyncio.create_task(session.wait_for_answer(asked.approval_id))
            await session.answer(asked.approval_id, "yes")
            assert (await waiting).choice == "yes"
            assert not await run.wait_stopped(2.2)
            await session.cancel_run()
            assert await run.wait_stopped(10)
        assert (await session.get_run()).run.end.reason == v1.RUN_END_REASON_CANCELLED


async def test_everything_goes_on_over_restarts(daemon: Daemon) -> None:
    async with await aio.connect(daemon.address) as client:
        session = await client.create_session()
        count = 60
        seen: list[int] = []

        async def follow() -> None:
            async for event in session.events(from_beginning=True):
                seen.append(event.revision)
                if len(seen) > count:
                    return

        async def write() -> None:
            for number in range(count):
                await session.append(f"message {number}")

        writing = [asyncio.create_task(follow()), asyncio.create_task(write())]
        for number in (signal.SIGKILL, signal.SIGTERM):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(daemon.restart, number)
        await asyncio.wait_for(asyncio.gather(*writing), 60)
        assert seen == list(range(1, count + 2))
        words = [f"wörd{number} " for number in range(100)]
        async with session.reply() as reply:
            for number, word in enumerate(words):
                await reply.text(word)
                if number == 50:
                    await asyncio.sleep(0.05)
                    await asyncio.to_thread(daemon.restart, signal.SIGKILL)
        assert reply.resume_count >= 1
        assert longhand.plain_text(await session.get_message(reply.client_id)) == "".join(words)


async def test_a_cancelled_reply_is_sealed(shared: Daemon) -> None:
    async with await aio.connect(shared.address) as client:
        session = await client.create_session()
        begun = asyncio.Event()

        async def reply() -> None:
            async with session.reply(client_id="reply") as reply:
                await reply.text("half")
                begun.set()
                await asyncio.sleep(60)

        writing = asyncio.create_task(reply())
        await begun.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert (await session.get_message("reply")).finish.reason == v1.FINISH_REASON_ABORTED


async def test_nobody_answers_after_the_time(daemon: Daemon) -> None:
    async with await aio.connect(daemon.address, retry_seconds=0.5) as client:
        session = await client.create_session()
        daemon.stop()
        with pytest.raises(longhand.Error) as caught:
            await session.append("lost")
        assert caught.value.temporary
        assert caught.value.reason == ""
        daemon.start()
        client.retry_seconds = 30.0
        await session.append("found")
        assert [longhand.plain_text(message) async for message in session.history()] == ["found"]


async def test_a_stopped_daemon_holds_no_call_over_its_time(daemon: Daemon) -> None:
    async with await aio.connect(daemon.address, timeout=0.5) as client:
        session = await client.create_session("stopped")
        async with session.reply() as reply:
            await reply.text("words")
            daemon.suspend()
            for work in (session.append("Hello"), session.view(), reply.finish()):
                began = asyncio.get_running_loop().time()
                with pytest.raises(longhand.Error, match="no answer in") as raised:
                    await work
                assert raised.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
                assert asyncio.get_running_loop().time() - began < 2
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGCONT)


async def test_a_closed_client_says_so(shared: Daemon) -> None:
    client = await aio.connect(shared.address)
    session = await client.create_session()
    following = asyncio.ensure_future(anext(session.events()))
    await asyncio.sleep(0.2)
    await client.close()
    with pytest.raises(longhand.ClientClosed):
        await following
    with pytest.raises(longhand.ClientClosed):
        await session.append("x")
    with pytest.raises(longhand.ClientClosed):
        await session.view()


def test_a_client_of_a_loop_that_is_closed_says_so(shared: Daemon) -> None:
    client = asyncio.run(aio.connect(shared.address))
    session = client.session("any")

    async def work() -> None:
        with pytest.raises(longhand.WrongEventLoop):
            await session.append("x")
        with pytest.raises(longhand.WrongEventLoop):
            await session.view()
        with pytest.raises(longhand.WrongEventLoop):
            await anext(session.events())

    asyncio.run(work())
