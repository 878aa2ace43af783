"""Messages, enums and stubs of the protocol, as `generate` makes them."""

from longhand.v1.access_pb2 import *  # noqa: F403
from longhand.v1.admin_pb2 import *  # noqa: F403
from longhand.v1.approval_pb2 import *  # noqa: F403
from longhand.v1.archive_pb2 import *  # noqa: F403
from longhand.v1.compaction_pb2 import *  # noqa: F403
from longhand.v1.context_pb2 import *  # noqa: F403
from longhand.v1.event_pb2 import *  # noqa: F403
from longhand.v1.message_pb2 import *  # noqa: F403
from longhand.v1.options_pb2 import *  # noqa: F403
from longhand.v1.prompt_pb2 import *  # noqa: F403
from longhand.v1.run_pb2 import *  # noqa: F403
from longhand.v1.session_pb2 import *  # noqa: F403
from longhand.v1.summary_task_pb2 import *  # noqa: F403
from longhand.v1.access_pb2_grpc import *  # noqa: F403
from longhand.v1.admin_pb2_grpc import *  # noqa: F403
from longhand.v1.approval_pb2_grpc import *  # noqa: F403
from longhand.v1.archive_pb2_grpc import *  # noqa: F403
from longhand.v1.compaction_pb2_grpc import *  # noqa: F403
from longhand.v1.context_pb2_grpc import *  # noqa: F403
from longhand.v1.event_pb2_grpc import *  # noqa: F403
from longhand.v1.message_pb2_grpc import *  # noqa: F403
from longhand.v1.prompt_pb2_grpc import *  # noqa: F403
from longhand.v1.run_pb2_grpc import *  # noqa: F403
from longhand.v1.session_pb2_grpc import *  # noqa: F403
from longhand.v1.summary_task_pb2_grpc import *  # noqa: F403
