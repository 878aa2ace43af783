/**
 * The client of Longhand in Node: gRPC over the daemon's Unix socket, or over TCP.
 *
 * @module
 */

import { connect as connectSocket } from "node:net";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { findProgram, findTarget, startDaemon, type TargetOptions } from "./address.js";
import { Client, greet } from "./client.js";

export {
  defaultDataDir,
  type Environment,
  findProgram,
  findTarget,
  type Target,
  type TargetOptions,
} from "./address.js";
export * from "./api.js";

/** Flow-control window of each stream, in bytes: large, so that a page is one round trip. */
const WINDOW_BYTES = 16 * 1024 * 1024;
/** An answer that is larger than any of the daemon's. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/** Connections are checked while a stream is silent, so that a follower learns that a machine is gone. */
const PING_MS = 20_000;

/** How a daemon is connected. */
export interface ConnectOptions extends TargetOptions {
  /** Recorded with every change. */
  actor?: string;
  /** The tenant in which to act; the caller's own by default, or that in `LONGHAND_TENANT`. */
  tenant?: string;
  /** Starts a daemon where none answers; true by default. */
  start?: boolean;
  /** The time in which a call is tried again while the daemon does not answer: 30 seconds by default. */
  retryMs?: number;
  /** The time for a call with all its attempts: `retryMs` by default. `with` gives other ones to calls. */
  timeoutMs?: number;
  /** Refuses a daemon of another version of the protocol; true by default. */
  checkVersion?: boolean;
}

/**
 * Connects to the daemon, and starts one if none answers.
 *
 * The address is found as the command line finds it (`findTarget`). A daemon is started only for the socket of a data
 * directory, with the program of the platform's package or on the path; it goes on when this process ends. Throws
 * `Unreachable`, and `VersionMismatch` for a daemon of another version of the protocol.
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const { environment = process.env, start = true, actor = "node" } = options;
  const target = findTarget(options);
  const { socket, baseUrl, authorities } = target;
  const connection = {
    settings: { initialWindowSize: WINDOW_BYTES },
    ...(socket === undefined ? {} : { createConnection: () => connectSocket(socket) }),
    ...(authorities === undefined ? {} : { ca: authorities }),
  };
  const sessionManager = new Http2SessionManager(baseUrl, { pingIntervalMs: PING_MS }, connection);
  const client = new Client({
    transport: createGrpcTransport({
      baseUrl,
      sessionManager,
      // The daemon is near: compression costs more than it saves.
      acceptCompression: [],
      readMaxBytes: ANSWER_BYTES_MAX,
      writeMaxBytes: ANSWER_BYTES_MAX,
    }),
    address: target.address,
    actor,
    token: target.token,
    tenant: options.tenant ?? (environment["LONGHAND_TENANT"] || undefined),
    retryMs: options.retryMs,
    timeoutMs: options.timeoutMs,
    requestStreams: true,
    close: () => sessionManager.abort(),
  });
  const { dataDir } = target;
  const program = start && dataDir ? findProgram(environment) : undefined;
  try {
    await greet(client, {
      checkVersion: options.checkVersion,
      start: () => (program && dataDir ? startDaemon(dataDir, program) : undefined),
    });
  } catch (failure) {
    client.close();
    throw failure;
  }
  return client;
}
