/** Messages, enums and services of the protocol, as `generate` makes them. */

export * from "./longhand/v1/access_pb.js";
export * from "./longhand/v1/admin_pb.js";
export * from "./longhand/v1/approval_pb.js";
export * from "./longhand/v1/archive_pb.js";
export * from "./longhand/v1/compaction_pb.js";
export * from "./longhand/v1/erase_pb.js";
export * from "./longhand/v1/event_pb.js";
export * from "./longhand/v1/message_pb.js";
export * from "./longhand/v1/options_pb.js";
export * from "./longhand/v1/prompt_pb.js";
export * from "./longhand/v1/run_pb.js";
export * from "./longhand/v1/search_pb.js";
export * from "./longhand/v1/session_pb.js";
export * from "./longhand/v1/summary_task_pb.js";
export * from "./longhand/v1/view_pb.js";
