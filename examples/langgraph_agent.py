"""Two agents of LangGraph and a person on one session, against a model that needs no network.

In the repository: pip install './clients/python[langgraph]'; python examples/langgraph_agent.py
"""

import threading
import uuid

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

import longhand
from longhand.langgraph import LonghandMiddleware


class Fake(BaseChatModel):
    """Says how many messages it was given, and the last one."""

    _llm_type = "fake"

    def _generate(self, messages, *rest, **options):
        words = f"I was given {len(messages)} messages; the last is: {messages[-1].content}"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(words))])


def agent_of(name: str, session_id: str) -> None:
    with longhand.connect(actor=name) as client:
        session = client.session(session_id)
        # The model gets the session's view in place of the graph's own messages.
        agent = create_agent(Fake(), middleware=[LonghandMiddleware(client, session_id)])
        for frame in session.frames(progress_seconds=1):
            # Events wake the agent; who has the run answers.
            if not (frame.HasField("ready") or frame.events.events or frame.HasField("progress")):
                continue
            try:
                with session.run(take_prompt=True):
                    result = agent.invoke({"messages": []})
                    print(f"{name}: {result['messages'][-1].content}")
                    return
            except longhand.Error as error:
                if error.reason not in ("RUN_ACTIVE", "NO_PROMPT"):
                    raise


with longhand.connect(actor="person") as client:
    session = client.open_session(f"example-{uuid.uuid4().hex}", window=32_000)
    agents = [threading.Thread(target=agent_of, args=(name, session.id)) for name in ("planner", "coder")]
    for agent in agents:
        agent.start()
    for words in ("Plan the harbour", "Build the harbour"):
        session.submit(words)
    for agent in agents:
        agent.join()
    for message in session.view().messages:
        print(f"{message.actor:8} {longhand.plain_text(message)}")
