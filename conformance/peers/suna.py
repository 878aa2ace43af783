"""Suna's own ContextManager, asked one function at a time: that of July 2025, or the one of 2026.

Suna is not on PyPI. Whoever has its source says where `context_manager.py` is: in LONGHAND_SUNA_SOURCE the one of July
2025 (commit 4bbc03f or what is the same), in LONGHAND_SUNA_2026_SOURCE the later one (commit a0a9f11). Without it there
is nothing to ask. What that file imports of Suna is replaced by something that does nothing; litellm, which counts, is
the published package.
"""

import asyncio
import copy
import functools
import importlib.util
import inspect
import json
import logging
import os
import sys
import types

from serve import folder, serve

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
SOURCE = "LONGHAND_SUNA_2026_SOURCE" if os.path.basename(folder) == "suna-2026" else "LONGHAND_SUNA_SOURCE"


def module(name, **members):
    """Puts a module in place that has these members and nothing else."""
    stub = types.ModuleType(name)
    stub.__dict__.update(members)
    sys.modules[name] = stub


async def nothing(*args, **kwargs):
    return 0


def replace_imports():
    """Puts something in place of what the two files import besides litellm."""
    log = logging.getLogger("suna")
    log.setLevel(logging.CRITICAL + 1)
    for prefix in ["", "core."]:
        for name in ["services", "utils"]:
            module(prefix + name)
        module(prefix + "services.supabase", DBConnection=object)
        module(prefix + "utils.logger", logger=log)
    for name in ["core", "core.agentpress"]:
        module(name)
    # A model is called after its window here.
    windows = types.SimpleNamespace(get_context_window=int)
    module("core.ai_models", model_manager=windows)
    module("core.threads", repo=types.SimpleNamespace(save_compressed_messages_batch=nothing))
    module(
        "core.agentpress.prompt_caching",
        apply_anthropic_caching_strategy=nothing,
        supports_prompt_caching=lambda model: False,
    )
    module("anthropic", Anthropic=object)


def load(path):
    """The ContextManager of that file, counting each message only once."""
    replace_imports()
    spec = importlib.util.spec_from_file_location("context_manager", path)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    count = source.token_counter
    list_tokens = count(messages=[{"role": "user", "content": ""}]) - 4

    # litellm adds up the messages of a list, so that one that was counted before needs no counting again.
    @functools.lru_cache(maxsize=100_000)
    def alone(model, message):
        return count(model=model, messages=[json.loads(message)]) - list_tokens

    def token_counter(model="", messages=None):
        return sum(alone(model, json.dumps(message)) for message in messages) + list_tokens

    source.token_counter = token_counter
    return source.ContextManager(), count


def ask(function, *args):
    """What a function of the manager says; those of 2026 have to be waited for."""
    answer = function(*args)

    async def wait():
        return await answer

    return asyncio.run(wait()) if inspect.isawaitable(answer) else answer


def names(messages):
    return [message.get("message_id") for message in messages]


def shown(messages):
    """Each message by its id, with its content."""
    return [[message.get("message_id"), message.get("content")] for message in messages]


manager, count = load(os.environ[SOURCE])


def omit(args):
    messages = copy.deepcopy(args["messages"])
    return names(ask(manager.compress_messages_by_omitting_messages, messages, args["model"], args["max_tokens"]))


serve(
    {
        "count": lambda args: count(model=args["model"], messages=args["messages"]),
        "removeMeta": lambda args: shown(manager.remove_meta_messages(args["messages"])),
        "middleOut": lambda args: names(ask(manager.middle_out_messages, args["messages"])),
        "omit": omit,
        "compress": lambda args: shown(
            ask(manager.compress_messages, copy.deepcopy(args["messages"]), args["model"])
        ),
    }
)
