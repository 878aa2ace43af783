"""A first agent from the protos alone; docs/grpc.md says what it needs."""

import os
import grpc
from longhand.v1 import event_pb2 as event, event_pb2_grpc
from longhand.v1 import message_pb2 as message, message_pb2_grpc
from longhand.v1 import session_pb2 as session, session_pb2_grpc
from longhand.v1 import view_pb2, view_pb2_grpc

# By default, grpcio sends the path of the socket as authority, which is none in HTTP: the stream would be reset.
options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 64 << 20)]
channel = grpc.insecure_channel(os.environ["LONGHAND_SERVER"], options)
sessions = session_pb2_grpc.SessionServiceStub(channel)
views = view_pb2_grpc.ViewServiceStub(channel)
messages = message_pb2_grpc.MessageServiceStub(channel)

def append(role, text, finish=None):
    part = message.Part(text=message.TextPart(text=text))
    new = message.NewMessage(role=role, parts=[part], finish=finish)
    return messages.AppendMessages(message.AppendMessagesRequest(session_id=ses, messages=[new]))

ses = sessions.CreateSession(session.CreateSessionRequest(
    preset="opencode@seed", window=session.ModelWindow(max_context_tokens=64000))).session.session_id
append(message.ROLE_USER, "What is 2 + 2?")
frames = list(views.GetView(view_pb2.GetViewRequest(session_id=ses)))
view = [m for frame in frames for m in frame.messages.messages]
print([(m.role, [p.part.text.text for p in m.parts]) for m in view])  # what your model should see
usage = message.Usage(input_tokens=12, output_tokens=3)
done = append(message.ROLE_ASSISTANT, "4", message.Finish(
    reason=message.FINISH_REASON_STOP, usage=usage, view_token=frames[0].header.view_token))
print(done.context_usage)

# A user interface subscribes to events: a stream that begins after the last cursor misses nothing. This one ends when
# nothing newer has come for 10 seconds.
events = event_pb2_grpc.EventServiceStub(channel)
start = {"from_beginning": True}  # later {"after_cursor": cursor}: missed events come first
for frame in events.SubscribeEvents(event.SubscribeEventsRequest(session_ids=[ses], include_content=True, **start)):
    for change in frame.events.events:
        print(change.revision, event.EventKind.Name(change.kind))
    cursor = frame.events.cursor or frame.progress.cursor or frame.ready.cursor
    if frame.HasField("progress"):
        break  # a user interface continues here
