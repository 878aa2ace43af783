"""Answers questions about Qwen-Agent with Qwen-Agent's own code, whichever release the folder holds: the algorithm was
replaced between 0.0.29 and 0.0.30.

Messages are Qwen-Agent's own JSON; fields without a value are left out. A message that the package turned into None is
null. Refusals and failed assertions are errors.
"""

import logging
import warnings

from serve import serve

warnings.simplefilter("ignore")

from qwen_agent.agents import dialogue_retrieval_agent
from qwen_agent.agents.assistant import Assistant
from qwen_agent.llm.base import _truncate_input_messages_roughly
from qwen_agent.llm.schema import Message
from qwen_agent.tools.doc_parser import Chunk, Record
from qwen_agent.tools.retrieval import Retrieval
from qwen_agent.utils.tokenization_qwen import count_tokens, tokenizer
from qwen_agent.utils.utils import extract_text_from_message

logging.getLogger("qwen_agent_logger").setLevel(logging.ERROR)


def truncate(arguments):
    """The messages that a model would be given."""
    messages = [Message(**message) for message in arguments["messages"]]
    kept = _truncate_input_messages_roughly(messages, arguments["max_tokens"])
    return [None if message is None else message.model_dump() for message in kept]


def message_tokens(arguments):
    """The estimate of each message without its call, and of its call when it has one."""
    estimates = []
    for message in [Message(**message) for message in arguments["messages"]]:
        text = count_tokens(extract_text_from_message(message, add_upload_info=True))
        call = count_tokens(f"{message.function_call}") if message.function_call else None
        estimates.append({"text": text, "call": call})
    return estimates


def truncate_texts(arguments):
    """Each text in at most so many tokens, of both sides or of the beginning."""
    return [
        tokenizer.truncate(text, max_token=arguments["max_tokens"], keep_both_sides=arguments["both"])
        for text in arguments["texts"]
    ]


def query(arguments):
    """The words that the dialogue retrieval agent searches for; its model picks the same out of every request."""
    agent = object.__new__(dialogue_retrieval_agent.DialogueRetrievalAgent)
    picked = [Message(role="assistant", content=arguments["picked"])]
    agent._call_llm = lambda messages: iter([picked])
    messages = agent._run([Message(role="user", content=arguments["text"])])
    return {"query": messages[-1].content[0].text}


def passages(arguments):
    """The number of passages that a text without line breaks is split into."""
    paragraph = {"text": arguments["text"], "token": count_tokens(arguments["text"])}
    page = {"page_num": 0, "content": [paragraph]}
    return len(retrieval.doc_parse.split_doc_to_chunk([page], "file", parser_page_size=retrieval.parser_page_size))


def shown(arguments):
    """Of so many passages of so many tokens, which bear on a request alike, those that are shown whole, and the tokens
    of one that is cut."""
    content = " word" * arguments["tokens"]
    chunk = Chunk(content=content, metadata={}, token=arguments["tokens"])
    raw = [chunk] * arguments["count"]
    found = retrieval.search.call({"query": "word"}, docs=[Record(url="file", raw=raw, title="file")])
    texts = [text for each in found for text in each["text"]]
    cut = [count_tokens(text) for text in texts if text != content]
    return {"whole": len(texts) - len(cut), "cut": sum(cut)}


def unsorted(query, docs, **_):
    """Every passage, with the same score: what its sub-searches find takes packages that are not installed."""
    return [(doc.url, index, 1.0) for doc in docs for index in range(len(doc.raw))]


# The agent's own search with its own settings, but nothing is written to this machine, and no model asked in the end.
dialogue_retrieval_agent.save_text_to_file = lambda path, text: None
Assistant._run = lambda self, messages, **_: messages
retrieval = Retrieval()
retrieval.search.sort_by_scores = unsorted

serve(
    {
        "truncate": truncate,
        "countTokens": lambda arguments: [count_tokens(text) for text in arguments["texts"]],
        "messageTokens": message_tokens,
        "truncateTexts": truncate_texts,
        "query": query,
        "passages": passages,
        "shown": shown,
    }
)
