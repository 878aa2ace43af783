"""Answers questions about smolagents with smolagents' own code.

A step of the memory is an object with its "kind" and what it was made of; an image is its name.
"""

import sys
from pathlib import Path

from serve import serve

# This file must not be taken for the package.
sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]

from smolagents.memory import ActionStep, PlanningStep, SystemPromptStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing
from smolagents.utils import MAX_LENGTH_TRUNCATE_CONTENT, truncate_content


def truncate(arguments):
    """Each text, cut in the middle when it is too long."""
    limit = arguments.get("max", MAX_LENGTH_TRUNCATE_CONTENT)
    return [truncate_content(text, limit) for text in arguments["texts"]]


def action(step):
    """A step that called tools and saw what came of it."""
    calls = step.get("tool_calls")
    return ActionStep(
        step_number=1,
        timing=Timing(0.0, 1.0),
        tool_calls=None if calls is None else [ToolCall(call["name"], call["arguments"], call["id"]) for call in calls],
        model_output=step.get("model_output"),
        observations=step.get("observations"),
        observations_images=step.get("images"),
    )


def planning(step):
    """A step that made a plan."""
    answer = ChatMessage(role=MessageRole.ASSISTANT, content=step["plan"])
    return PlanningStep([], answer, step["plan"], Timing(0.0, 1.0))


STEPS = {
    "action": action,
    "planning": planning,
    "task": lambda step: TaskStep(task=step["task"], task_images=step.get("images")),
    "system": lambda step: SystemPromptStep(system_prompt=step["prompt"]),
}


def to_messages(arguments):
    """The messages of the steps as a model would be given them, before neighbours are merged."""
    summary_mode = arguments["summary_mode"]
    steps = [STEPS[step["kind"]](step) for step in arguments["steps"]]
    messages = [message for step in steps for message in step.to_messages(summary_mode=summary_mode)]
    return [{"role": message.role.value, "content": message.content} for message in messages]


serve({"truncateContent": truncate, "toMessages": to_messages})
