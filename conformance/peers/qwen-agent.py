"""Answers questions about Qwen-Agent with Qwen-Agent's own code, whichever release the folder holds: the algorithm was
replaced between 0.0.29 and 0.0.30.

Messages are Qwen-Agent's own JSON; fields without a value are left out. A message that the package turned into None is
null. Refusals and failed assertions are errors.
"""

import logging
import warnings

from serve import serve

warnings.simplefilter("ignore")

from qwen_agent.llm.base import _truncate_input_messages_roughly
from qwen_agent.llm.schema import Message
from qwen_agent.utils.tokenization_qwen import count_tokens, tokenizer
from qwen_agent.utils.utils import extract_text_from_message

logging.getLogger("qwen_agent_logger").setLevel(logging.ERROR)


def truncate(arguments):
    """The messages that a model would be given."""
    messages = [Message(**message) for message in arguments["messages"]]
    kept = _truncate_input_messages_roughly(messages, arguments["max_tokens"])
    return [None if message is None else message.model_dump() for message in kept]


def message_tokens(arguments):
    """What each message weighs without its call, and what its call weighs when it has one."""
    weights = []
    for message in [Message(**message) for message in arguments["messages"]]:
        text = count_tokens(extract_text_from_message(message, add_upload_info=True))
        call = count_tokens(f"{message.function_call}") if message.function_call else None
        weights.append({"text": text, "call": call})
    return weights


def truncate_texts(arguments):
    """Each text in at most so many tokens, of both sides or of the beginning."""
    return [
        tokenizer.truncate(text, max_token=arguments["max_tokens"], keep_both_sides=arguments["both"])
        for text in arguments["texts"]
    ]


serve(
    {
        "truncate": truncate,
        "countTokens": lambda arguments: [count_tokens(text) for text in arguments["texts"]],
        "messageTokens": message_tokens,
        "truncateTexts": truncate_texts,
    }
)
