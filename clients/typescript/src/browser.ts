/**
 * The client of Longhand in browsers: gRPC-Web over the daemon's TCP listener.
 *
 * @module
 */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, greet } from "./client.js";

export * from "./api.js";

/** How a daemon is connected. */
export interface ConnectOptions {
  /** `http://host:port` or `https://host:port`; where the page comes from by default. */
  address?: string;
  /** The access token. */
  token?: string;
  /** Recorded with every change. */
  actor?: string;
  tenant?: string;
  /** The time in which a call is tried again while the daemon does not answer: 30 seconds by default. */
  retryMs?: number;
  /** The time for a call with all its attempts: `retryMs` by default. `with` gives other ones to calls. */
  timeoutMs?: number;
  /** Refuses a daemon of another version of the protocol; true by default. */
  checkVersion?: boolean;
  /** The function by which requests are made. */
  fetch?: typeof globalThis.fetch;
}

/**
 * Connects to the daemon. The page must come from the daemon, or its origin must be one that the daemon's configuration
 * allows. Throws `Unreachable`, and `VersionMismatch` for a daemon of another version of the protocol.
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const { address = globalThis.location?.origin ?? "", actor = "browser", token, tenant, retryMs, timeoutMs } = options;
  const transport = createGrpcWebTransport({ baseUrl: address, fetch: options.fetch });
  const client = new Client({ transport, address, actor, token, tenant, retryMs, timeoutMs, requestStreams: false });
  await greet(client, { checkVersion: options.checkVersion });
  return client;
}
