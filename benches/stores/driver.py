"""Appends messages to another session store, for `benches/peers`.

Usage: driver.py STORE FOLDER INSTALLED. The first line of the output describes the store's durability. Each line of the
input, {"callers": N, "seconds": S, "bytes": B}, runs a closed loop of N callers; the answer has the latency of each
append after the warm-up. The input's end, or the line "end", ends it.
"""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
import uuid

WARM_UP_SECONDS = 0.5
# As in the loop that measures Longhand: a caller continues in a new session after this number of messages.
SESSION_MESSAGES = 500
LEVELS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


def levels(journal, synchronous):
    return f"journal_mode={journal}, synchronous={LEVELS[int(synchronous)]}"


class OpenAiAgents:
    """Each caller has a session object of its own on the same file; calls run in threads."""

    def __init__(self, folder, _installed):
        from agents import SQLiteSession

        self.make = lambda: SQLiteSession(uuid.uuid4().hex, os.path.join(folder, "sessions.db"))

    async def start(self):
        with self.make()._locked_connection() as conn:
            journal = conn.execute("pragma journal_mode").fetchone()[0]
            return levels(journal, conn.execute("pragma synchronous").fetchone()[0])

    async def session(self):
        return self.make()

    async def append(self, session, text):
        await session.add_items([{"role": "user", "content": text}])


class GoogleAdk:
    def __init__(self, folder, _installed):
        from google.adk.events import Event
        from google.adk.sessions import DatabaseSessionService
        from google.genai.types import Content, Part

        self.service = DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/sessions.db")
        self.event = lambda text: Event(author="user", content=Content(role="user", parts=[Part(text=text)]))

    async def start(self):
        await self.session()
        async with self.service.db_engine.connect() as conn:
            journal = (await conn.exec_driver_sql("pragma journal_mode")).scalar()
            return levels(journal, (await conn.exec_driver_sql("pragma synchronous")).scalar())

    async def session(self):
        return await self.service.create_session(app_name="bench", user_id="user")

    async def append(self, session, text):
        await self.service.append_event(session, self.event(text))


class LangGraph:
    """A checkpoint for each message, with this message only: the least that the saver can be asked to write."""

    whole = False

    def __init__(self, folder, _installed):
        from langchain_core.messages import HumanMessage
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.message, self.empty = HumanMessage, empty_checkpoint
        self.conn = sqlite3.connect(os.path.join(folder, "checkpoints.db"), check_same_thread=False)
        self.saver = SqliteSaver(self.conn)

    async def start(self):
        self.saver.setup()
        journal = self.conn.execute("pragma journal_mode").fetchone()[0]
        return levels(journal, self.conn.execute("pragma synchronous").fetchone()[0])

    async def session(self):
        return {"config": {"configurable": {"thread_id": uuid.uuid4().hex, "checkpoint_ns": ""}}, "messages": []}

    async def append(self, session, text):
        message = self.message(text)
        session["messages"].append(message)
        checkpoint = self.empty()
        shown = session["messages"] if self.whole else [message]
        version = f"{len(session['messages']):032}"
        checkpoint["channel_values"] = {"messages": shown}
        checkpoint["channel_versions"] = {"messages": version}
        metadata = {"source": "loop", "step": len(session["messages"]), "parents": {}}
        put = self.saver.put
        # The saver has a lock for the threads of several callers.
        session["config"] = await asyncio.to_thread(
            put, session["config"], checkpoint, metadata, {"messages": version}
        )


class LangGraphWhole(LangGraph):
    """A checkpoint for each message, with all messages of the session, as a graph with a list of messages writes it."""

    whole = True


class OpenCode:
    """The server over HTTP; a prompt without a reply stores the user's message and asks no model."""

    def __init__(self, folder, installed):
        self.folder, self.clients = folder, {}
        names = os.listdir(os.path.join(installed, "node/node_modules"))
        name = sorted(name for name in names if name.startswith("opencode-") and name != "opencode-ai")[0]
        self.binary = os.path.join(installed, "node/node_modules", name, "bin/opencode")

    async def start(self):
        import httpx

        work = os.path.join(self.folder, "work")
        os.makedirs(work)
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "none"},
            "models": {"m": {"name": "m", "limit": {"context": 1_000_000, "output": 32_000}}},
        }
        settings = {
            "snapshot": False,
            "share": "disabled",
            "autoupdate": False,
            "model": "none/m",
            "small_model": "none/m",
            "enabled_providers": ["none"],
            "provider": {"none": provider},
        }
        with open(os.path.join(work, "opencode.json"), "w") as file:
            json.dump(settings, file)
        homes = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        environment = {"PATH": os.environ["PATH"], "HOME": self.folder}
        environment |= {name: os.path.join(self.folder, name.lower()) for name in homes}
        switches = ("DISABLE_AUTOUPDATE", "DISABLE_MODELS_FETCH", "DISABLE_LSP_DOWNLOAD", "DISABLE_DEFAULT_PLUGINS")
        environment |= {f"OPENCODE_{name}": "1" for name in (*switches, "EXPERIMENTAL_DISABLE_FILEWATCHER")}
        self.server = subprocess.Popen(
            [self.binary, "serve", "--hostname", "127.0.0.1", "--port", "0"],
            cwd=work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for line in self.server.stdout:
            if "http://" in line:
                self.url = line[line.index("http://") :].split()[0]
                break
        self.httpx, self.query = httpx, {"directory": work}
        # The first request of a fresh server migrates its database.
        await self.session()
        return "journal_mode=wal, synchronous=NORMAL (its own settings, which are less durable)"

    async def session(self):
        client = self.httpx.AsyncClient(base_url=self.url, timeout=60, params=self.query, trust_env=False)
        answer = await client.post("/session", json={})
        answer.raise_for_status()
        return client, answer.json()["id"]

    async def append(self, session, text):
        client, id = session
        body = {
            "noReply": True,
            "model": {"providerID": "none", "modelID": "m"},
            "agent": "build",
            "parts": [{"type": "text", "text": text}],
        }
        answer = await client.post(f"/session/{id}/message", json=body)
        answer.raise_for_status()

    def end(self):
        self.server.kill()
        self.server.wait()


STORES = {
    "openai-agents": OpenAiAgents,
    "google-adk": GoogleAdk,
    "langgraph": LangGraph,
    "langgraph-whole": LangGraphWhole,
    "opencode": OpenCode,
}


def texts(seed, length):
    """Random words, as compressible as those of the loop that measures Longhand."""
    source = random.Random(seed)
    words = ["the ", "view", "lo", "src/", "fn ", "is ", "as", "to "]
    made = []
    for _ in range(64):
        text = ""
        while len(text) < length:
            word = source.randrange(4_096)
            text += f"{words[word % 8]}{word:x} "
        made.append(text[:length])
    number = 0
    while True:
        yield f"{number:012x}{made[number % len(made)][12:]}"
        number += 1


async def caller(store, session, source, begins, ends, latencies):
    count, counted = 0, 0
    # A slow store is measured by one append of each caller at least.
    while time.perf_counter() < ends or counted == 0:
        if count == SESSION_MESSAGES:
            session, count = await store.session(), 0
        text = next(source)
        began = time.perf_counter_ns()
        await store.append(session, text)
        ended = time.perf_counter_ns()
        count += 1
        if began >= begins * 1e9:
            latencies.append(ended - began)
            counted += 1


async def main(name, folder, installed):
    store = STORES[name](folder, installed)
    try:
        print(json.dumps({"durability": await store.start()}), flush=True)
        while True:
            line = await asyncio.to_thread(sys.stdin.readline)
            if line.strip() in ("", "end"):
                break
            order, latencies = json.loads(line), []
            sources = [texts(index, order["bytes"]) for index in range(order["callers"])]
            sessions = [await store.session() for _ in sources]
            begins = time.perf_counter() + WARM_UP_SECONDS
            ends = begins + order["seconds"]
            pairs = zip(sessions, sources)
            await asyncio.gather(*(caller(store, *pair, begins, ends, latencies) for pair in pairs))
            print(json.dumps({"latencies_ns": latencies, "seconds": time.perf_counter() - begins}), flush=True)
    finally:
        if hasattr(store, "end"):
            store.end()


asyncio.run(main(*sys.argv[1:4]))
