"""Two agents of the OpenAI Agents SDK and a person on one session, against a model that needs no network.

In the repository: pip install './clients/python[openai-agents]'; python examples/openai_agents.py
"""

import asyncio
import uuid

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import longhand
from longhand import aio
from longhand.openai_agents import LonghandSession


class Fake(Model):
    """Says how many messages it was given, and the last one."""
    stream_response = None

    async def get_response(self, system_instructions, input, *rest, **options):
        said = input[-1]["content"]
        words = f"{system_instructions} I was given {len(input)} messages; the last is: {said}"
        text = ResponseOutputText(type="output_text", text=words, annotations=[])
        output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[output], usage=Usage(), response_id=None)


async def agent_of(name: str, session_id: str) -> None:
    async with await aio.connect(actor=name) as client:
        memory = LonghandSession(session_id, client=client, window=32_000)
        session = await memory.longhand()
        agent = Agent(name=name, instructions=f"I am {name}.", model=Fake())
        while True:
            try:
                # Who has the run answers; the prompt's message is in the conversation already.
                async with session.run(take_prompt=True):
                    result = await Runner.run(agent, [], session=memory)
                    print(f"{name}: {result.final_output}")
                    return
            except longhand.Error as error:
                if error.reason not in ("RUN_ACTIVE", "NO_PROMPT"):
                    raise
                await asyncio.sleep(0.05)


async def main() -> None:
    set_tracing_disabled(True)
    async with await aio.connect(actor="person") as client:
        session = await client.open_session(f"example-{uuid.uuid4().hex}", window=32_000)
        agents = [asyncio.create_task(agent_of(name, session.id)) for name in ("planner", "coder")]
        for words in ("Plan the harbour", "Build the harbour"):
            await session.submit(words)
        await asyncio.gather(*agents)
        for message in (await session.view()).messages:
            print(f"{message.actor:8} {longhand.plain_text(message)}")


asyncio.run(main())
