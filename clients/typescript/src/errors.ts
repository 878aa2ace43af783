/** Errors of calls, as exceptions with the daemon's reason. */

import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** Reasons of code UNAVAILABLE that another attempt does not change. */
const LASTING = new Set(["STORAGE_READ_ONLY"]);
/** Codes by which a transport reports a connection that it has not, or has lost; the caller's own end is thrown before. */
const CONNECTION_CODES = new Set([Code.Canceled, Code.Unavailable, Code.Aborted, Code.Internal, Code.Unknown]);
/** Errors of the system that another attempt does not change. */
const LASTING_SYSTEM_ERRORS = new Set(["EACCES", "EPERM", "ENAMETOOLONG", "EINVAL"]);
/** How Connect's errors begin that are of the caller's own message. */
const ENCODING = /^(serialize|parse|cannot encode)/;

/** What an error is made of, beside its message. */
export interface ErrorDetails {
  reason?: string;
  code?: Code;
  metadata?: Record<string, string>;
  retryMs?: number;
  cause?: unknown;
}

/** A call failed. `reason` is stable, and the protocol lists what each one means for the call. */
export class LonghandError extends Error {
  override name = "LonghandError";
  /** The daemon's words, without the reason. */
  readonly text: string;
  /** The daemon's reason; empty where the daemon did not answer, and for the caller's own deadline. */
  readonly reason: string;
  /** The code of the status. */
  readonly code: Code;
  /** Every changing part of the message, by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** When the daemon wants the next attempt, in milliseconds; undefined if it does not say. */
  readonly retryMs: number | undefined;

  constructor(text: string, details: ErrorDetails = {}) {
    super(details.reason ? `${details.reason}: ${text}` : text, { cause: details.cause });
    this.text = text;
    this.reason = details.reason ?? "";
    this.code = details.code ?? Code.Unknown;
    this.metadata = details.metadata ?? {};
    this.retryMs = details.retryMs;
  }

  /** True if the same call can succeed later; with its `requestId` it is then carried out once. */
  get temporary(): boolean {
    if (LASTING.has(this.reason)) return false;
    if (this.code === Code.Unavailable || this.reason === "ANSWER_LOST") return true;
    return this.code === Code.ResourceExhausted && this.retryMs !== undefined;
  }
}

/** No daemon answers, and none could be started. */
export class Unreachable extends LonghandError {
  override name = "Unreachable";
}

/** The daemon speaks another version of the protocol than this client. */
export class VersionMismatch extends LonghandError {
  override name = "VersionMismatch";
}

/** The run is not the session's active one any more; nothing was written. */
export class RunLost extends LonghandError {
  override name = "RunLost";
}

/** The client was closed before the call, or while it was made. */
export class ClientClosed extends LonghandError {
  override name = "ClientClosed";
}

/** The error of a call whose time is over. A change may have been carried out. */
export function overdue(ms: number | undefined): LonghandError {
  return new LonghandError(`no answer in ${ms} ms`, { code: Code.DeadlineExceeded });
}

/** True for an error of the daemon with this reason. */
export function hasReason(error: unknown, reason: string): error is LonghandError {
  return error instanceof LonghandError && error.reason === reason;
}

/** The exception for a failed call. */
export function errorOf(failure: unknown): LonghandError {
  if (failure instanceof LonghandError) return failure;
  const error = ConnectError.from(failure);
  const [info] = error.findDetails(ErrorInfoSchema);
  const [retry] = error.findDetails(RetryInfoSchema);
  const delay = retry?.retryDelay;
  const details: ErrorDetails = { code: error.code, cause: error };
  if (delay) details.retryMs = Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  if (info) {
    details.reason = info.reason;
    details.metadata = info.metadata;
  } else if (isConnectionLost(error)) {
    details.code = Code.Unavailable;
  }
  const kind = details.reason === "RUN_LOST" ? RunLost : LonghandError;
  return new kind(error.rawMessage, details);
}

/** The daemon gives each of its errors a reason: one without it is of the connection, if not of the caller. */
function isConnectionLost(error: ConnectError): boolean {
  const system = systemError(error.cause);
  return CONNECTION_CODES.has(error.code) && !ENCODING.test(error.rawMessage) && !LASTING_SYSTEM_ERRORS.has(system);
}

function systemError(cause: unknown): string {
  for (let depth = 0, at = cause; depth < 8 && at instanceof Error; depth++, at = at.cause) {
    if ("code" in at && typeof at.code === "string") return at.code;
  }
  return "";
}

/** A failure in words, as long as the protocol takes them. */
export function words(failure: unknown, bytes = 1000): string {
  const text = String(failure);
  let end = text.length;
  while (new TextEncoder().encode(text.slice(0, end)).length > bytes) end = Math.floor(end * 0.9);
  return text.slice(0, end);
}
