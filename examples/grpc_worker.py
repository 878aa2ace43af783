"""An agent that answers the prompts of a session until it is stopped, from the protos alone: grpc_worker.py SESSION.

The folder with the stubs is that of docs/grpc.md. `model` and `use` are yours: this model repeats what it is told, a word at a
time, and its only tool runs what begins with `run`.
"""

import asyncio, collections, json, os, sys
import grpc
from longhand.v1 import approval_pb2 as approval, approval_pb2_grpc
from longhand.v1 import event_pb2 as event, event_pb2_grpc, message_pb2 as message, message_pb2_grpc
from longhand.v1 import prompt_pb2 as prompt, prompt_pb2_grpc, run_pb2 as run, run_pb2_grpc
from longhand.v1 import view_pb2, view_pb2_grpc

ses = sys.argv[1]
Frame = message.WriteMessageRequest

async def model(view):
    last = view[-1].parts[-1].part
    if last.text.text.startswith("run "):
        command = json.dumps({"command": last.text.text.removeprefix("run ")})
        yield message.ToolCallPart(call_id=f"call-{view[-1].message_id}", tool="shell", input_json=command)
    else:
        for word in (last.text.text or last.tool_result.output).split():
            await asyncio.sleep(0.05)
            yield word + " "

async def use(call):
    command = json.loads(call.input_json)["command"]
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode()

def settle(future, value=None):
    if not future.done():
        future.set_result(value)

class Run:
    def __init__(self, epoch):
        self.epoch = epoch
        self.fence = [*actor, ("longhand-run-epoch", str(epoch))]  # writes are refused once the run is lost
        self.stopped = asyncio.Future()
        self.answers = collections.defaultdict(asyncio.Future)

    async def watch(self):  # a lost stream resumes after its last cursor
        async for frame in runs.WatchRun(run.WatchRunRequest(session_id=ses, epoch=self.epoch)):
            if frame.HasField("run"):  # it is to stop, or has ended
                settle(self.stopped)
            elif frame.approval.HasField("end"):
                settle(self.answers[frame.approval.approval_id], frame.approval.end)

    async def renew(self):
        while await asyncio.sleep(10, True):
            await runs.RenewRun(run.RenewRunRequest(session_id=ses, epoch=self.epoch))

    async def reply(self):  # one message of the model, as it comes; returns its calls
        frames = [frame async for frame in views.GetView(view_pb2.GetViewRequest(session_id=ses))]
        view = [shown for frame in frames for shown in frame.messages.messages]
        calls = []

        async def written():
            new = message.NewMessage(client_id=f"reply-to-{view[-1].message_id}", role=message.ROLE_ASSISTANT, open=True)
            yield Frame(target=message.WriteTarget(session_id=ses, new_message=new))
            async for said in model(view):
                if self.stopped.done():
                    break
                if isinstance(said, str):
                    yield Frame(draft_text=message.DraftText(client_id="text", delta=said))
                else:
                    calls.append(said)
                    yield Frame(part=message.Part(client_id=said.call_id, tool_call=said))
            reason = "ABORTED" if self.stopped.done() else "TOOL_CALLS" if calls else "STOP"
            finish = message.Finish(reason=f"FINISH_REASON_{reason}", view_token=frames[0].header.view_token)
            yield Frame(message_end=message.MessageEnd(finish=finish))

        await messages.WriteMessage(written(), metadata=self.fence)
        return calls

    async def ask_and_use(self, call):
        choices = [approval.Choice(id="allow_once", label="Yes"), approval.Choice(id="reject_once", label="No")]
        question = approval.Question(text=f"Run {call.input_json}?", tool=call.tool, call_id=call.call_id,
                                     input_json=call.input_json, choices=choices)
        request = approval.RequestApprovalRequest(session_id=ses, question=question, request_id=call.call_id)
        asked = await approvals.RequestApproval(request, metadata=self.fence)
        answer = self.answers[asked.approval.approval_id]
        await asyncio.wait([answer, self.stopped], return_when=asyncio.FIRST_COMPLETED)
        if self.stopped.done():
            return  # its end names the call as interrupted
        allowed = answer.result().choice == "allow_once"
        result = message.ToolResultPart(call_id=call.call_id, output=await use(call) if allowed else "refused",
                                        status=f"TOOL_RESULT_STATUS_{'COMPLETED' if allowed else 'ERROR'}")
        new = message.NewMessage(role=message.ROLE_TOOL, parts=[message.Part(tool_result=result)])
        await messages.AppendMessages(message.AppendMessagesRequest(session_id=ses, messages=[new]), metadata=self.fence)

    async def work(self):
        steering = prompt.TakePromptRequest(session_id=ses, epoch=self.epoch, steering_only=True)
        calls = await self.reply()
        while not self.stopped.done() and (calls or await taken(prompts.TakePrompt(steering, metadata=self.fence))):
            for call in calls:
                await self.ask_and_use(call)
            calls = [] if self.stopped.done() else await self.reply()

async def taken(call):  # None if no prompt waits, if another agent answers, or if the run is lost
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED):
            raise

async def answer_one():
    acquired = await taken(runs.AcquireRun(run.AcquireRunRequest(session_id=ses, take_prompt=True), metadata=actor))
    if not acquired:
        return False
    mine = Run(acquired.run.epoch)
    helpers = [asyncio.create_task(helper) for helper in (mine.watch(), mine.renew())]
    await taken(mine.work())
    for helper in helpers:
        helper.cancel()
    await taken(runs.ReleaseRun(run.ReleaseRunRequest(session_id=ses, epoch=mine.epoch), metadata=actor))
    return True

async def main():
    kinds = [event.EVENT_KIND_PROMPT_SUBMITTED, event.EVENT_KIND_RUN_ENDED]
    async for _ in events.SubscribeEvents(event.SubscribeEventsRequest(session_ids=[ses], kinds=kinds)):
        while await answer_one():
            pass

async def connected():
    global runs, prompts, approvals, messages, views, events
    options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 64 << 20)]
    async with grpc.aio.insecure_channel(os.environ["LONGHAND_SERVER"], options) as channel:
        runs, prompts = run_pb2_grpc.RunServiceStub(channel), prompt_pb2_grpc.PromptServiceStub(channel)
        approvals, messages = approval_pb2_grpc.ApprovalServiceStub(channel), message_pb2_grpc.MessageServiceStub(channel)
        views, events = view_pb2_grpc.ViewServiceStub(channel), event_pb2_grpc.EventServiceStub(channel)
        await main()

actor = [("longhand-actor", "worker")]
asyncio.run(connected())
