/** What the client has in Node and in browsers. */

export { Code } from "@connectrpc/connect";
export {
  type CallHeaders,
  type CallOptions,
  Client,
  type ClientOptions,
  type FollowOptions,
  type FrameOptions,
  type NewSession,
  type SearchOptions,
  type WithOptions,
} from "./client.js";
export { ClientClosed, LonghandError, RunLost, Unreachable, VersionMismatch } from "./errors.js";
export {
  assistant,
  type Content,
  type Json,
  type MessageOptions,
  media,
  message,
  opaque,
  type PartOptions,
  partsOf,
  plainText,
  type ReplyFacts,
  reasoning,
  record,
  system,
  text,
  tool,
  toolCall,
  toolResult,
  usage,
  user,
  type Window,
} from "./parts.js";
export type { FinishOptions, Reply, ReplyOptions } from "./reply.js";
export type { Run, RunOptions } from "./run.js";
export {
  type AppendOptions,
  type AskOptions,
  type FormattedView,
  Session,
  START,
  type SubmitOptions,
  type View,
  type ViewOptions,
} from "./session.js";
export type { SummaryTask } from "./summary.js";
export { sameProtocol, VERSION } from "./version.js";
