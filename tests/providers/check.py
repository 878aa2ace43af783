"""A fake provider, the published SDKs as its clients, and a daemon that keeps what they say and serves what they send."""

import http.server, json, os, pathlib, sys, threading, typing, urllib.error, urllib.request

import anthropic, openai
from anthropic.types import MessageParam, TextBlockParam
from google import genai
from google.genai import types as genai_types
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam
from pydantic import ConfigDict, TypeAdapter, with_config

REPLIES = pathlib.Path(__file__).parent / "replies"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FORMATS = ["openai_chat", "openai_responses", "anthropic", "gemini", "ai_sdk"]


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers every request with the next reply, and keeps the bodies."""

    replies: list[bytes] = []
    bodies: list[dict] = []

    def do_POST(self):
        Provider.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        reply = Provider.replies.pop(0)
        is_stream = not reply.startswith(b"{")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


def call(method, path, body=None):
    request = urllib.request.Request(os.environ["LONGHAND_URL"] + path, method=method)
    request.add_header("content-type", "application/json")
    if token := os.environ.get("LONGHAND_TOKEN"):
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, json.dumps(body).encode() if body is not None else None) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def create():
    return call("POST", "/v1/sessions", {})["session"]["sessionId"]


def append(session, name, text, **more):
    text = text if isinstance(text, str) else json.dumps(text)
    given = {"format": "MESSAGE_FORMAT_" + name.upper(), "json": text, **more}
    answer = call("POST", f"/v1/sessions/{session}/messages", {"providerContent": given})
    assert "messageIds" in answer, answer
    return answer


def view(session, name, **more):
    """A view as a request has it, with what it leaves out; or the refusal."""
    query = "&".join(f"{key}={value}" for key, value in {"format": "MESSAGE_FORMAT_" + name.upper(), **more}.items())
    answer = call("GET", f"/v1/sessions/{session}/view?{query}")
    frames = answer if isinstance(answer, list) else answer.get("result", answer)
    if isinstance(frames, dict):
        return None, next(detail for detail in frames["details"] if "reason" in detail), None
    header = next(frame["header"] for frame in frames if "header" in frame)
    shown = [message for frame in frames for message in frame.get("messages", {}).get("formattedMessages", [])]
    end = next(frame["end"] for frame in frames if "end" in frame)
    messages = [json.loads(message["json"]) for message in shown]
    system = json.loads(header["systemJson"]) if "systemJson" in header else None
    return messages, system, (header, end.get("leftOutParts", []))


def strict(kind):
    """Types of dictionaries refuse members that they do not have."""
    return TypeAdapter(kind, config=None)


CHAT, RESPONSES = strict(list[ChatCompletionMessageParam]), strict(ResponseInputParam)
ANTHROPIC, SYSTEM = strict(list[MessageParam]), strict(list[TextBlockParam])
GEMINI = strict(list[genai_types.Content])


def alternate(messages):
    roles = [message["role"] for message in messages if message["role"] != "system"]
    assert roles[0] == "user", roles
    assert all(one != other for one, other in zip(roles, roles[1:])), roles


def valid(name, messages, system):
    """By the SDK's own types, and by what its provider says about the order of messages."""
    match name:
        case "openai_chat":
            CHAT.validate_python(messages)
            open_calls = []
            for message in messages:
                if message["role"] == "tool":
                    open_calls.remove(message["tool_call_id"])
                else:
                    assert not open_calls, open_calls
                    open_calls = [call["id"] for call in message.get("tool_calls", [])]
        case "openai_responses":
            RESPONSES.validate_python(messages)
            calls = [item["call_id"] for item in messages if item["type"].endswith("_call") and "call_id" in item]
            answers = [item["call_id"] for item in messages if item["type"].endswith("_call_output")]
            assert calls == answers, (calls, answers)
        case "anthropic":
            ANTHROPIC.validate_python(messages)
            SYSTEM.validate_python(system or [])
            alternate(messages)
            for one, other in zip(messages, messages[1:] + [{"content": []}]):
                of = lambda message, kind, key: [block[key] for block in message["content"] if block["type"] == kind]
                assert of(one, "tool_use", "id") == of(other, "tool_result", "tool_use_id"), (one, other)
            marks = sum("cache_control" in block for message in messages for block in message["content"])
            assert marks + sum("cache_control" in block for block in system or []) <= 4
        case "gemini":
            GEMINI.validate_python(messages)
            alternate([{"role": content["role"]} for content in messages])


def streamed(name, server):
    """What the SDK makes of a streamed reply, in the form in which it goes into the next request."""
    base = f"http://127.0.0.1:{server.server_port}"
    match name:
        case "anthropic":
            client = anthropic.Anthropic(base_url=base, api_key="-")
            with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream:
                return [{"role": "assistant", "content": stream.get_final_message().to_dict(mode="json")["content"]}]
        case "openai_chat":
            client = openai.OpenAI(base_url=base, api_key="-")
            options = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            with client.chat.completions.stream(**options) as stream:
                message = stream.get_final_completion().choices[0].message.to_dict(mode="json")
            for call in message["tool_calls"]:
                # What the SDK adds for its own use.
                call.pop("index", None)
                call["function"].pop("parsed_arguments", None)
            return [{name: value for name, value in message.items() if value is not None and name != "parsed"}]
        case "openai_responses":
            client = openai.OpenAI(base_url=base, api_key="-")
            with client.responses.stream(model="m", input="x") as stream:
                items = [item.to_dict(mode="json") for item in stream.get_final_response().output]
            for item in items:
                item.pop("parsed_arguments", None)
                for block in item.get("content", []):
                    block.pop("parsed", None)
            return items
        case "gemini":
            options = genai_types.HttpOptions(base_url=base)
            client = genai.Client(api_key="-", http_options=options)
            parts = []
            for chunk in client.models.generate_content_stream(model="m", contents="x"):
                for part in chunk.candidates[0].content.parts:
                    parts.append(part.model_dump(mode="json", by_alias=True, exclude_none=True))
            return [{"role": "model", "parts": parts}]


def merged(parts):
    """Gemini's SDK keeps the pieces of a text apart."""
    done = []
    for part in parts:
        plain = set(part) <= {"text", "thought"}
        if done and plain and set(done[-1]) == set(part):
            done[-1] = {**part, "text": done[-1]["text"] + part["text"]}
        else:
            done.append(part)
    return done


REQUESTS = {
    "anthropic": {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "How high?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        ]}],
    },
    "openai_chat": {"messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": [
            {"type": "text", "text": "How high?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ]},
    ]},
    "openai_responses": {"instructions": "Be brief.", "input": [{"role": "user", "content": [
        {"type": "input_text", "text": "How high?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
    ]}]},
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [
            {"text": "How high?"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        ]}],
    },
}
RESULTS = {
    "anthropic": [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_01B", "is_error": True, "content": [
            {"type": "text", "text": "4.2 m"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        ]},
        {"type": "text", "text": "Thanks."},
    ]}],
    "openai_chat": [
        {"role": "tool", "tool_call_id": "call_a", "content": "4.2 m"},
        {"role": "tool", "tool_call_id": "call_b", "content": [{"type": "text", "text": "5 m"}]},
        {"role": "user", "content": "Thanks."},
    ],
    "openai_responses": [
        {"type": "function_call_output", "call_id": "call_1", "output": [
            {"type": "input_text", "text": "4.2 m"},
            {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"},
        ]},
        {"role": "user", "content": "Thanks."},
    ],
    "gemini": [{"role": "user", "parts": [
        {"functionResponse": {"name": "read_gauge", "response": {"output": "4.2 m"}}},
        {"functionResponse": {"name": "read_gauge", "response": {"height": 5}}},
        {"text": "Thanks."},
    ]}],
}
# The blocks of each that no other format can carry.
BOUND = {"anthropic": "server_tool_use", "openai_responses": "web_search_call", "gemini": "executableCode"}


def same(name, one, other):
    if name == "gemini":
        other = [{**content, "parts": merged(content["parts"])} for content in other]
    assert one == other, f"{name}\n  longhand: {json.dumps(one)}\n  the SDK:  {json.dumps(other)}"


def check(name, server):
    session = create()
    append(session, name, REQUESTS[name])
    asked, _, _ = view(session, name)
    sse = (REPLIES / f"{name}.sse").read_bytes()
    Provider.replies.append(sse)
    final = streamed(name, server)
    answer = append(session, name, sse.decode())
    reply = call("GET", f"/v1/sessions/{session}/messages/{answer['messageIds'][0]}")["message"]
    # The daemon computes what the reply costs.
    counts = {key: value for key, value in reply["finish"]["usage"].items() if not key.startswith("cost")}
    usage = {key: int(value) for key, value in counts.items()}
    expected = {
        "anthropic": {"inputTokens": 12, "outputTokens": 90, "cacheReadTokens": 4000, "cacheWriteTokens": 300},
        "gemini": {"inputTokens": 20, "outputTokens": 30, "reasoningTokens": 20, "cacheReadTokens": 100, "totalTokens": 170},
    }.get(name, {"inputTokens": 20, "outputTokens": 30, "reasoningTokens": 20, "cacheReadTokens": 100, "totalTokens": 170})
    usage = {key: value for key, value in usage.items() if value}
    assert usage == expected, (name, usage)
    assert reply["finish"]["reason"] == "FINISH_REASON_TOOL_CALLS", reply["finish"]
    append(session, name, RESULTS[name])
    messages, system, (header, _) = view(session, name)
    valid(name, messages, system)
    same(name, messages[len(asked):][:len(final)], final)
    # The beginning that both views have does not come again.
    before = header["viewHash"].replace("+", "%2B").replace("/", "%2F")
    append(session, name, {"anthropic": [{"role": "assistant", "content": "Good."}], "gemini": [{"role": "model", "parts": [{"text": "Good."}]}]}.get(name, [{"role": "assistant", "content": "Good."}]))
    rest, _, (now, _) = view(session, name, known_view_hash=before, known_revision=header["revision"])
    known = now["knownMessageCount"]
    assert known == len(messages) and len(rest) == now["messageCount"] - known == 1, (name, now, len(rest))
    for other in FORMATS:
        messages, system, about = view(session, other)
        if messages is None:
            assert system["reason"] == "CONTENT_NOT_IN_FORMAT" and name in BOUND and other != name, (name, other, system)
            assert system["metadata"]["content"] == "foreign_block", system
        else:
            assert name not in BOUND or other == name, f"{other} carries {name}'s {BOUND.get(name)}"
            valid(other, messages, system)
    return session


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in REQUESTS:
        check(name, server)
        print(f"{name}: a request, a streamed reply and its results are what the SDK has, and its types take the view")
    server.shutdown()


if __name__ == "__main__":
    main()
