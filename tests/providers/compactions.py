"""Compactions that providers make themselves: what the SDKs make of a reply is what the daemon sends first to the same
provider, and the types of the SDKs take the views for every provider, before and after a summary of Longhand's."""

import http.server, json, threading

import anthropic, openai
from anthropic.types.beta import BetaMessageParam
from pydantic import TypeAdapter

from check import FORMATS, RESPONSES, Provider, append, call, create, valid, view

BETA = TypeAdapter(list[BetaMessageParam])
TURNS = [{"role": role, "content": f"{role} {turn}: the gauge at Brest says {turn}.2 m"} for turn in range(4)
         for role in ("user", "assistant")]


def events(*chunks):
    return "".join(f"event: {chunk['type']}\ndata: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()


def message(blocks, stop, usage=None):
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [],
             "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
    return events({"type": "message_start", "message": start}, *blocks,
                  {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                   "usage": usage or {"output_tokens": 9}}, {"type": "message_stop"})


def block(index, start, *deltas):
    return [{"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index}]


RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.6", "status": "in_progress",
            "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
USAGE = {"input_tokens": 900, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 9,
         "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 909}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c=="}
TEXT = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Going on.", "annotations": []}]}
WINDOW = {"id": "resp_2", "object": "response.compaction", "created_at": 1, "usage": USAGE, "output": [
    {"type": "message", "id": "msg_2", "role": "user", "status": "completed",
     "content": [{"type": "input_text", "text": "user 0"}]}, ITEM]}
PIECE = {"type": "compaction_delta", "content": "They read the gauge.", "encrypted_content": "e=="}
# For each kind: the format, the reply, and how many messages of a view are the provider's own.
KINDS = {
    "on demand": ("anthropic", message(block(0, {
        "type": "compaction", "content": "They read the gauge.", "signature": "s==", "tool_changes": []}), "compaction"), 1),
    "at a threshold": ("anthropic", message(
        block(0, {"type": "compaction", "content": None}, PIECE)
        + block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Going on."}), "end_turn"), 1),
    "failed": ("anthropic", message(
        block(0, {"type": "compaction", "content": None}) + block(1, {"type": "text", "text": "Going on."}), "end_turn"), 0),
    "item": ("openai_responses", events(
        {"type": "response.created", "sequence_number": 0, "response": RESPONSE},
        {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": ITEM},
        {"type": "response.output_item.done", "sequence_number": 2, "output_index": 1, "item": TEXT},
        {"type": "response.completed", "sequence_number": 3,
         "response": RESPONSE | {"status": "completed", "output": [ITEM, TEXT], "usage": USAGE}}), 2),
    "window": ("openai_responses", json.dumps(WINDOW).encode(), 2),
}


def received(kind, name, server):
    """What the SDK has of a reply, as it goes into the next request."""
    base = f"http://127.0.0.1:{server.server_port}"
    if name == "anthropic":
        client = anthropic.Anthropic(base_url=base, api_key="-")
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
        with client.beta.messages.stream(**asked) as stream:
            return [{"role": "assistant", "content": stream.get_final_message().to_dict(mode="json")["content"]}]
    client = openai.OpenAI(base_url=base, api_key="-")
    if kind == "window":
        output = client.responses.compact(model="m", input="x").output
        return [item.to_dict(mode="json", warnings=False) for item in output]
    # The reply as a whole: the SDK's helper for streams knows no such item.
    last = None
    for event in client.responses.create(model="m", input="x", stream=True):
        last = event
    return [item.to_dict(mode="json") for item in last.response.output]


def taken(name, messages, system, own):
    """By the types of the SDK; a view may begin with a compaction of its provider's."""
    if name == "anthropic":
        BETA.validate_python(messages)
        messages = messages[own:]
    if messages:
        valid(name, messages, system)


def check(kind, server):
    name, reply, own = KINDS[kind]
    session = create()
    append(session, "openai_chat", {"messages": [{"role": "system", "content": "Be brief."}, *TURNS]})
    Provider.replies.append(reply)
    first = received(kind, name, server)
    append(session, name, reply.decode())
    append(session, "openai_chat", [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Low."}])
    for other in FORMATS:
        messages, system, _ = view(session, other)
        assert messages is not None, (kind, other, system)
        text = json.dumps(messages)
        if other != name:
            assert "user 0: the gauge" in text and "compaction" not in text, (kind, other, text)
            taken(other, messages, system, 0)
            continue
        if not own:
            assert "user 0: the gauge" in text and first[0]["content"][0] in messages[-1 - 2]["content"], text
            continue
        # OpenAI's instructions are messages, and stay in front.
        begin = sum(item.get("role") == "system" for item in messages)
        assert messages[begin:begin + own] == first, f"{kind}\n  longhand: {messages}\n  the SDK:  {first}"
        assert "user 1: the gauge" not in text, text
        taken(other, messages, system, own)
    supplied = call("POST", f"/v1/sessions/{session}:supplySummary", {"text": "They read the gauge, says Longhand."})
    assert "compaction" in supplied, supplied
    append(session, "openai_chat", [{"role": "user", "content": "And then?"}])
    for other in FORMATS:
        messages, system, _ = view(session, other)
        text = json.dumps(messages)
        # The summary quotes what people said; none of it is a message any more.
        assert "says Longhand" in text and '"user 0: the gauge' not in text and '"compaction"' not in text, (kind, text)
        taken(other, messages, system, 0)
    print(f"{name}, {kind}: first as the SDK has it, the originals for others, and no block behind a summary")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for kind in KINDS:
        check(kind, server)
    server.shutdown()


main()
