#!/usr/bin/env python3
"""Summaries of the built-in summarizer, measured beside the plainest rival at equal length.

usage: measure.py [kit] [rounds] [constraints] [dialogues] [used] [typed] [cost] [--data FOLDER] [--rival FILE] [--seeds N] [--preset NAME]
       measure.py kit rounds --daemon PROGRAM

kit          compaction-conformance-kit 0.8.0 (`pip install compaction-conformance-kit==0.8.0`): statements of a dialogue
             kept at 10, 20 and 30 % of its characters, the newest value of what changed, and older values shown
rounds       the same after five summaries in a row
constraints  constraints planted in the sessions of the data folder, alone and in long messages, at 8 % of the history
dialogues    facts of long dialogues of `dialogues.py` at 10, 20 and 30 %, beside the last turns and turns at random
used         files and identifiers of a compacted session that its later work used
cost         time of a summary for 1 000 tokens
typed        share of what the summary shows as typed that a person typed, word for word

With --daemon, sessions of a daemon of that program are appended to and compacted by hand over HTTP, without a tail; only the
limit of the summaries is another one, and is counted in characters.

The data and the rival are in the folder ../shared, or in the one that LONGHAND_SHARED names. The rival is a Python module with `summary(turns, budget)`; both get the same budget in characters, headings apart.
"""
import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("LONGHAND_SHARED", ROOT.parent / "shared"))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=[])
    parser.add_argument("--data", type=pathlib.Path, default=SHARED / "data")
    parser.add_argument("--rival", type=pathlib.Path, default=SHARED / "tools/summary/plain.py")
    parser.add_argument("--recall", type=pathlib.Path, default=SHARED / "tools/recall.py")
    parser.add_argument("--binary", default=str(ROOT / "target/release/examples/summarize"))
    parser.add_argument("--daemon", help="the program whose daemon writes the summaries of kit and rounds")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--preset", default="longhand@1")
    parser.add_argument("--show", action="store_true", help="print the summaries")
    return parser.parse_args()


ARGUMENTS = parse()


class Daemon:
    """A daemon with a store of its own."""

    def __init__(self, home):
        self.socket = f"{home}/store/longhand.sock"
        command = [ARGUMENTS.daemon, "serve", "--data-dir", f"{home}/store"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": home})
        self.process.stdout.readline()

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.socket)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body is not None else None, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return json.loads(text)

    def compact(self, session, characters):
        """Summarizes all of a session in so many characters; returns the text of its summary."""
        summary = {"tail": "nothing", "summary": {"max_tokens": characters}}
        counting = {"unit": "code_points", "text": "length", "units_per_token": 1}
        policy = {"auto": {"steps": {"1": {"summarize": summary}}}, "counting": counting}
        self.call("PATCH", f"/v1/sessions/{session}", {"policyOverrideJson": json.dumps(policy)})
        begun = self.call("POST", f"/v1/sessions/{session}/compactions", {"kind": "COMPACTION_KIND_SUMMARY"})["compaction"]
        while begun["state"] in ("COMPACTION_STATE_READY", "COMPACTION_STATE_RUNNING"):
            time.sleep(0.01)
            begun = self.call("GET", f"/v1/compactions/{begun['compactionId']}")["compaction"]
        if begun["state"] != "COMPACTION_STATE_DONE":
            raise RuntimeError(json.dumps(begun))
        frames = self.call("GET", f"/v1/sessions/{session}/view")
        frames = frames if isinstance(frames, list) else [frames]
        messages = [message for frame in frames for message in frame.get("messages", {}).get("messages", [])]
        (parts,) = [message["parts"] for message in messages if "SUMMARY" in message["kind"]]
        return "\n".join(part["part"]["text"]["text"] for part in parts)

    def summary(self, request):
        """The text of the last summary of a conversation, as long as may be, headings apart."""
        new = {"preset": ARGUMENTS.preset, "window": {"maxContextTokens": 100_000_000}}
        session = self.call("POST", "/v1/sessions", new)["session"]["sessionId"]
        messages, rounds = request["messages"], request["rounds"]
        for left in range(rounds, 0, -1):
            end = len(messages) // left
            piece, messages = messages[:end], messages[end:]
            said = [{"role": f"ROLE_{entry['role'].upper()}", "parts": [{"text": {"text": entry["text"]}}]} for entry in piece]
            self.call("POST", f"/v1/sessions/{session}/messages", {"messages": said})
            if left > 1:
                self.compact(session, request["characters"])
        limit, best = request["characters"], ""
        for _ in range(5):
            text = self.compact(session, limit)
            framed = re.sub(r"^.*?<summary>\n|\n</summary>.*$", "", text, flags=re.S)
            length = len(content(framed)) + 1
            if length <= request["characters"] and length > len(content(best)):
                best = framed
            if abs(request["characters"] - length) * 200 < request["characters"] and length <= request["characters"]:
                break
            limit += request["characters"] - length
            self.call("POST", f"/v1/sessions/{session}:undo", {})
        return {"text": best}


def summaries(requests):
    """The texts of some summaries, written by one process."""
    if ARGUMENTS.daemon:
        with tempfile.TemporaryDirectory() as home:
            daemon = Daemon(home)
            try:
                answers = [daemon.summary(request) for request in requests]
            finally:
                daemon.process.terminate()
                daemon.process.wait()
        return answers
    lines = "\n".join(json.dumps({"preset": ARGUMENTS.preset, **request}) for request in requests)
    done = subprocess.run([ARGUMENTS.binary], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if ARGUMENTS.show:
        for answer in answers:
            print(answer["text"], "\n" + "=" * 80)
    return answers


def rival(turns, budget):
    spec = importlib.util.spec_from_file_location("rival", ARGUMENTS.rival)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.summary(turns, budget)


def content(text):
    """A summary without its headings."""
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))


# Transcripts


def claude(path):
    """The messages of a Claude Code transcript up to its first compaction, and the rows."""
    rows = [json.loads(line) for line in open(path, encoding="utf8")]
    cut = next((i for i, row in enumerate(rows) if row.get("subtype") == "compact_boundary"), len(rows))
    messages, calls = [], {}
    for row in rows[:cut]:
        message = row.get("message")
        if row.get("isSidechain") or row.get("isMeta") or row["type"] not in ("user", "assistant") or not message:
            continue
        parts = message["content"]
        entry = {"role": row["type"], "text": "", "calls": []}
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            if part["type"] == "text":
                entry["text"] += part["text"]
            elif part["type"] == "tool_use":
                call = {"tool": part["name"], "input": part["input"]}
                calls[part["id"]] = call
                entry["calls"].append(call)
            elif part["type"] == "tool_result" and part["tool_use_id"] in calls:
                call, output = calls[part["tool_use_id"]], part.get("content") or ""
                call["output"] = output if isinstance(output, str) else " ".join(b.get("text", "") for b in output)
                call["failed"] = bool(part.get("is_error"))
        if entry["text"] or entry["calls"]:
            messages.append(entry)
    return messages


def pi(path):
    messages, calls = [], {}
    for line in open(path, encoding="utf8"):
        message = json.loads(line).get("message")
        if not message:
            continue
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        text = "\n".join(part.get("text", "") for part in parts if part.get("type") == "text")
        if message["role"] == "toolResult":
            call = calls.get(message["toolCallId"])
            if call:
                call["output"], call["failed"] = text, bool(message.get("isError"))
            continue
        entry = {"role": message["role"], "text": text, "calls": []}
        for part in parts:
            if part.get("type") == "toolCall":
                call = {"tool": part["name"], "input": part["arguments"]}
                calls[part["id"]] = call
                entry["calls"].append(call)
        if entry["text"] or entry["calls"]:
            messages.append(entry)
    return messages


def size(messages):
    calls = [call for entry in messages for call in entry.get("calls", [])]
    texts = sum(len(entry["text"]) for entry in messages)
    return texts + sum(len(json.dumps(call["input"])) + len(call.get("output", "")) for call in calls)


def turns(messages):
    """The messages as the rival gets them: calls at 220 characters, short results whole."""
    for entry in messages:
        if entry["text"]:
            yield entry["role"], entry["text"]
        for call in entry.get("calls", []):
            yield "assistant", f"{call['tool']} {json.dumps(call['input'])}"[:220]
            if len(call.get("output", "")) < 240:
                yield "tool", call.get("output", "")


def sessions():
    data = ARGUMENTS.data
    files = [(claude, path) for path in sorted(data.glob("claude-code/compacted/*.jsonl"))]
    files += [(pi, path) for path in sorted(data.glob("pi/*.jsonl"))]
    if not files:
        sys.exit(f"no transcripts in {data}")
    return [read(path) for read, path in files]


# Measures


def kit(rounds=1):
    from compaction_kit.compactors import _turns_to_text
    from compaction_kit.corpus import build_random_session
    from compaction_kit.runner import _probe_all, _rates

    drawn = [build_random_session(seed) for seed in range(1, 1 + ARGUMENTS.seeds)]
    for share in (0.1, 0.2, 0.3):
        budgets = [int(len(_turns_to_text(session.transcript())) * share * 0.98) for session, _ in drawn]
        requests = []
        for (session, _), budget in zip(drawn, budgets):
            given = [{"role": turn.role, "text": turn.text} for turn in session.transcript()]
            requests.append({"messages": given, "characters": budget, "rounds": rounds})
        ours = [content(answer["text"]) for answer in summaries(requests)]
        plain = []
        if rounds == 1:
            for (session, _), budget in zip(drawn, budgets):
                plain.append(rival([(turn.role, turn.text) for turn in session.transcript()], budget))
        for name, texts in (("built-in", ours), ("rival", plain)):
            kept, newest, stale, changed, used = {}, 0, 0, 0, 0
            for (_, canaries), text, budget in zip(drawn, texts, budgets):
                used += len(text) / budget / len(drawn)
                for kind, rate in _rates(canaries, _probe_all(canaries, text)).items():
                    kept.setdefault(kind, []).append(rate)
                for canary in (canary for canary in canaries if canary.superseded_tokens):
                    changed += 1
                    newest += all(token.lower() in text.lower() for token in canary.required_tokens)
                    stale += any(token.lower() in text.lower() for token in canary.superseded_tokens)
            means = {kind: round(100 * sum(rates) / len(rates)) for kind, rates in kept.items()}
            if means:
                mean = round(sum(means.values()) / len(means))
                print(f"kit {share:.0%} {name}: {mean} {means}; newest {newest} of {changed}, stale {stale}; budget used {used:.0%}")


# Constraints as people put them beside a request; most have no word of obligation.
CONSTRAINTS = """
Answer me in Portuguese from here on.
the staging box is off limits this week, Bernd is demoing on it
Anything that touches money goes through Farida first.
we're still on the 3.9 interpreter at the customer's, so nothing newer than that
Leave the vendored copy of libquux as it is.
Commit messages carry the ticket, like TIDE-412: text.
Two spaces, tabs break the diff tool that accounting has.
I'd rather have one big query than twenty small ones.
Die Zeiten im Bericht sind in Kampala-Zeit.
Bitte keine neuen Abhängigkeiten, der Einkauf braucht sonst sechs Wochen.
Merci de garder les noms de colonnes en français.
先别动 orders 表，周五之后再说
所有金额用分来存，不用小数
回答里别出现客户的名字
ログは標準エラーに出してください
Los correos a clientes los mando yo, tú solo escribe el borrador.
The word "tenant" is reserved for buildings, say workspace.
port 8123 belongs to the scanner
Screenshots go to the wiki and the repository stays free of binaries.
My manager reads only the first line of a changelog entry.
For dates I want 7 March 2031 style.
Whoever breaks main buys cake, so run it on a branch.
The parser has to survive files of 4 GB on a laptop with 8.
No mocks, a real broker runs on kafka-test:9092.
Old clients send latin-1 and that has to go on working.
Use Hedda's account for the sandbox, mine is locked.
Numbers in the UI with a narrow space as separator.
Before a release the oncall person signs off, this month Ines Okafor.
The license header has the year 2019 and legal wants it untouched.
Max 20 rows per page, the projector shows no more.
""".strip().splitlines()

# Others, of which most came after the rules that keep them.
CONSTRAINTS += """
keep it boring, the auditors read every diff
no emojis pls
Everything under /srv/legacy is read-only for you.
Nur über den Proxy ins Netz, direkt ist gesperrt.
Wpisy w dzienniku zmian po polsku.
Mesajlarda müşterinin soyadı geçmesin.
답변은 존댓말로 해 주세요
أرسل لي المسودة قبل النشر
लॉग में फ़ोन नंबर नहीं आने चाहिए
Đừng đụng vào bảng hoá đơn trước thứ Hai.
ห้ามลบไฟล์ในโฟลเดอร์ภาพถ่าย
Tutti gli importi al netto dell'IVA.
Svara kort, jag läser på telefonen.
Всё, что касается зарплат, показывай только Марине.
不要用 tab，缩进四个空格
月末までは本番に触らないこと
I get seasick from animations, so leave them out.
Runs on a Pi in a barn, think 512 MB.
The intern merges, you only open the request.
Ask Wilhelmina before you rename a column.
prices end in .95, always
The vendor bills per call, so batch them.
One commit per file please, the reviewer is old school.
We say "guest", the word "customer" is banned since the rebrand.
Release notes go out in Icelandic first.
If the lights in hall 3 are on, nobody deploys.
Weeks start on Saturday here.
Budget for this is 40 euros, I am paying it myself.
Tests must not need the network, the build farm has none.
Give me the command, I run it myself on the box.
""".strip().splitlines()


def framed():
    """The constraints of conpact (PyPI) with their framings, if it is installed."""
    spec = importlib.util.find_spec("conpact")
    if not spec:
        return []
    found = {}
    exec((pathlib.Path(spec.submodule_search_locations[0]) / "constraints.py").read_text(encoding="utf8"), found)
    return [found["render_sc"](one["sc"], strict, direct) for one in found["SCS"] for strict in (0, 1) for direct in (0, 1)]

PROSE = """The page came up yesterday in the review and two people asked about it. I looked at the logs first and then at the
traces, and the slow part seems to be the second query. It was added last spring when the filters came. The first query is fine.
On my machine it takes three seconds with a cold cache and under one with a warm one. In production it is worse in the morning.
Some of the customers have learned to wait. The support team has a macro for it by now. I tried an index on the created column
and it did not change much, so it may be the join. The plan shows a nested loop over the whole table. There is an old branch by
Miro that rewrote this part, it was never merged as he left. You can look at it for ideas. The tests for the page are thin.""".replace("\n", " ")

LOG = "\n".join(
    f"2031-03-0{1 + n % 9}T0{n % 10}:1{n % 6}:22.{100 + n}Z worker-{n % 4} INFO  pool.acquire id={7919 * n % 10007:05d} wait_ms={n * 37 % 400} "
    f"queue=orders-{n % 3} status={200 + n % 5}"
    for n in range(160)
)


TRACE = """Traceback (most recent call last):
  File "/srv/app/main.py", line 212, in <module>
    run(sys.argv[1:])
  File "/srv/app/core/loop.py", line 88, in run
    self.step(task, retries=3)
  File "/srv/app/core/loop.py", line 131, in step
    raise QueueError(f"no worker took {task.id}")
core.errors.QueueError: no worker took 5e1f-77"""

DIFF = """diff --git a/app/pages.py b/app/pages.py
@@ -14,7 +14,7 @@ def page(number):
-    rows = fetch(number, limit=50)
+    rows = fetch(number, limit=20)
     return render("page.html", rows=rows)"""


def long_turn(constraint, rng):
    """A message of several thousand characters with the constraint inside it."""
    sentences = PROSE.split(". ")
    rng.shuffle(sentences)
    half = rng.randrange(2, len(sentences) - 2)
    front, back = ". ".join(sentences[:half]), ". ".join(sentences[half:])
    kind = rng.randrange(7)
    joint = constraint if constraint.endswith((".", "!", "。")) else constraint + "."
    if kind == 0:
        return f"{front}. {joint} {back}"
    if kind == 1:
        return f"{front}.\n\n{LOG}\n\n{constraint}\n\n{back}"
    if kind == 2:
        return f"{front}.\n```\n{LOG}\n```\n{constraint}\n{back}"
    if kind == 3:
        return f"{front}.\n{TRACE}\n{constraint}\n\n{LOG}"
    if kind == 4:
        return f"{LOG}\n{DIFF}\n\n{back}\n{constraint}"
    if kind == 5:
        points = [*sentences[:3], constraint, *sentences[3:6]]
        return f"{front}. What I need:\n" + "\n".join(f"{n}. {point}" for n, point in enumerate(points, 1)) + f"\n\n{TRACE}"
    return f"{constraint}\n\n{TRACE}\n\n{LOG}\n{front}.\n- {back}"


def constraints():
    bases = [base for base in sessions() if sum(entry["role"] == "user" for entry in base) > 2]
    bases += [base for base in sessions() if base not in bases]
    for name, is_long in (("alone", False), ("in long messages", True)):
        requests, plain, planted = [], [], []
        for seed in range(2 * ARGUMENTS.seeds):
            rng = random.Random(seed)
            base = [dict(entry) for entry in bases[seed // 2 % len(bases)]]
            start = rng.randrange(max(1, len(base) - 250))
            piece = base[start : start + 250]
            chosen = rng.sample(CONSTRAINTS + framed(), 3)
            for constraint in chosen:
                text = long_turn(constraint, rng) if is_long else constraint
                users = [entry for entry in piece if entry["role"] == "user" and entry["text"]]
                if not is_long and users and rng.random() < 0.5:
                    entry = rng.choice(users)
                    entry["text"] = rng.choice([f"{text}\n{entry['text']}", f"{entry['text']}\n{text}"])
                else:
                    piece.insert(rng.randrange(len(piece)), {"role": "user", "text": text, "calls": []})
            planted.append(chosen)
            budget = int(size(piece) * 0.08)
            requests.append({"messages": piece, "characters": budget})
            plain.append(rival(list(turns(piece)), budget))
        ours = [answer["text"] for answer in summaries(requests)]
        flat = lambda text: re.sub(r"[“”\"]", '"', re.sub(r"\s+", " ", text))
        for writer, texts in (("built-in", ours), ("rival", plain)):
            kept = [flat(c).rstrip(".") in flat(text) for chosen, text in zip(planted, texts) for c in chosen]
            lost = [c for chosen, text in zip(planted, texts) for c in chosen if flat(c).rstrip(".") not in flat(text)]
            print(f"constraints {name}, {writer}: {sum(kept)} of {len(kept)} ({sum(kept) / len(kept):.1%})", lost[:5] if writer == "built-in" else "")


def dialogues():
    """Facts of long dialogues, each in one statement, and newest values, in several forms of the same dialogues."""
    import dialogues

    forms = {
        "by role": lambda role, speaker, date, text: (role, text),
        "by name": lambda role, speaker, date, text: ("user", f"{speaker}: {text}"),
        "by name and date": lambda role, speaker, date, text: (role, f"[{date}] {speaker}: {text}"),
    }
    drawn = [dialogues.dialogue(seed) for seed in range(1, 1 + max(2, ARGUMENTS.seeds // 3))]
    for form, shaped in forms.items():
        talks = [[shaped(*turn) for turn in turns] for turns, _ in drawn]
        for share in (0.1, 0.2, 0.3):
            budgets = [int(sum(len(text) + 1 for _, text in talk) * share) for talk in talks]
            given = [[{"role": role, "text": text} for role, text in talk] for talk in talks]
            requests = [{"messages": one, "characters": budget} for one, budget in zip(given, budgets)]
            writers = {
                "built-in": [content(answer["text"]) for answer in summaries(requests)],
                "rival": [rival(talk, budget) for talk, budget in zip(talks, budgets)],
                "tail": [within(reversed(talk), budget) for talk, budget in zip(talks, budgets)],
                "random": [within(random.Random(7).sample(talk, len(talk)), budget) for talk, budget in zip(talks, budgets)],
            }
            line = []
            for writer, texts in writers.items():
                kept, newest, stale, changed = {}, 0, 0, 0
                for (_, facts), text in zip(drawn, texts):
                    pieces = re.split(r"\n| … |” “", text)
                    has = lambda words: any(all(word in piece for word in words) for piece in pieces)
                    for kind, wanted, outdated in facts:
                        kept.setdefault(kind, []).append(has(wanted))
                        if outdated:
                            changed += 1
                            newest += has(wanted)
                            shown = [p for p in pieces if all(word in p for word in outdated) and "(replaced" not in p]
                            stale += bool(shown) and not has(wanted)
                every = [one for kinds in kept.values() for one in kinds]
                kinds = {kind: round(100 * sum(ones) / len(ones)) for kind, ones in sorted(kept.items())}
                line.append(f"{writer} {100 * sum(every) / len(every):.1f} {kinds if writer in ('built-in', 'rival') else ''} stale {stale}")
            print(f"dialogues {form} {share:.0%}: " + "; ".join(line))


def within(talk, budget):
    """The turns that fit, as they come."""
    kept = []
    for _, text in talk:
        budget -= len(text) + 1
        if budget < 0:
            break
        kept.append(text)
    return "\n".join(kept)


def used():
    for path in sorted(ARGUMENTS.data.glob("claude-code/compacted/*.jsonl")):
        messages = claude(path)
        for rounds in (1, 5):
            (answer,) = summaries([{"messages": messages, "tokens": 4096, "rounds": rounds}])
            target = pathlib.Path(f"/tmp/longhand-summary-{rounds}.txt")
            target.write_text(answer["text"], encoding="utf8")
            done = subprocess.run([sys.executable, ARGUMENTS.recall, path, target], capture_output=True, text=True)
            print(f"used, {rounds} rounds, built-in: {done.stdout.strip()}; {answer['times']['milliseconds']:.0f} ms")
        target.write_text(rival(list(turns(messages)), len(answer["text"])), encoding="utf8")
        done = subprocess.run([sys.executable, ARGUMENTS.recall, path, target], capture_output=True, text=True)
        print(f"used, rival: {done.stdout.strip()}")


def typed():
    for base in sessions():
        (answer,) = summaries([{"messages": base, "tokens": 4096}])
        said = re.sub(r"\W+", " ", " ".join(entry["text"] for entry in base if entry["role"] == "user"))
        shown = [quote for line in answer["text"].splitlines() for quote in re.findall("“([^”]+)”", line)]
        pieces = [re.sub(r"\W+", " ", piece).strip() for quote in shown for piece in re.split(" … |…", quote)]
        verbatim = [piece in said for piece in pieces if piece]
        print(f"typed: {sum(verbatim)} of {len(verbatim)} verbatim; length {len(answer['text'])}; {answer['times']['milliseconds']:.0f} ms")


def cost():
    """The time of a summary, per 1 000 tokens of what it is made from; the least of five, as the machine may be busy."""
    for base in [*sessions(), [entry for one in sessions() for entry in one]]:
        answers = [summaries([{"messages": base, "tokens": 4096}])[0]["times"] for _ in range(5)]
        whole, read = (min(times[name] for times in answers) for name in ("milliseconds", "digest_milliseconds"))
        tokens = size(base) / 4_000
        print(f"cost: {1_000 * tokens:.0f} tokens in {whole:.0f} ms, of which {read:.0f} for the digest; {whole / tokens:.2f} ms for 1 000 tokens")


MEASURES = {"kit": kit, "rounds": lambda: kit(5), "constraints": constraints, "dialogues": dialogues, "used": used, "typed": typed, "cost": cost}
for what in ARGUMENTS.what or MEASURES:
    MEASURES[what]()
