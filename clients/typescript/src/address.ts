/** The daemon's address, the access token, and the start of a daemon. */

import { spawn as spawnProcess } from "node:child_process";
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join, resolve } from "node:path";

/** Variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What reaches a daemon, and proves who asks. */
export interface Target {
  /** For messages to people. */
  address: string;
  /** The URL of calls; its authority is `localhost` over a socket. */
  baseUrl: string;
  /** The path of the Unix socket. */
  socket?: string;
  /** The access token; none on a Unix socket. */
  token?: string;
  /** Certificates in PEM of which the daemon's must be one; undefined for those that Node trusts. */
  authorities?: string;
  /** The data directory, if its daemon may be started here. */
  dataDir?: string;
}

/** How a daemon is found. */
export interface TargetOptions {
  /** `unix:/path`, `http://host:port` or `https://host:port`. */
  address?: string;
  dataDir?: string;
  token?: string;
  /** A file of certificates in PEM. */
  caFile?: string;
  environment?: Environment;
}

/** The data directory of a daemon without arguments. */
export function defaultDataDir(environment: Environment = process.env): string {
  const data = environment["XDG_DATA_HOME"];
  if (data) return join(data, "longhand");
  const home = environment["HOME"] || ".";
  return join(home, process.platform === "darwin" ? "Library/Application Support/longhand" : ".local/share/longhand");
}

/**
 * Finds the daemon as the command line does.
 *
 * The address is the given one, else that of the socket in the given data directory, else `LONGHAND_SERVER`, else the
 * socket in the default data directory. The access token, for TCP alone, is the given one, else that in the file
 * `LONGHAND_TOKEN_FILE`, else `LONGHAND_TOKEN`, else the owner's in the data directory for an address of this machine.
 */
export function findTarget(options: TargetOptions = {}): Target {
  const { environment = process.env, caFile = environment["LONGHAND_CA_FILE"] } = options;
  const dataDir = resolve(options.dataDir ?? defaultDataDir(environment));
  const named = options.dataDir === undefined ? environment["LONGHAND_SERVER"] : undefined;
  const address = options.address || named;
  if (!address) return { ...ofSocket(join(dataDir, "longhand.sock")), dataDir };
  if (address.startsWith("unix:")) {
    const path = address.replace(/^unix:(\/\/)?/, "");
    if (!path) throw new TypeError(`${JSON.stringify(address)} names no socket: unix:/path`);
    return ofSocket(path);
  }
  const match = /^(https?):\/\/([^/:]+|\[[^/\]]+\]):(\d{1,5})\/*$/.exec(address);
  if (!match || Number(match[3]) > 65535) {
    const forms = "http://host:port, https://host:port or unix:/path";
    throw new TypeError(`${JSON.stringify(address)} is no server address: ${forms}`);
  }
  const baseUrl = `${match[1]}://${match[2]}:${match[3]}`;
  const token = options.token ?? findToken(match[2] ?? "", dataDir, environment);
  return {
    address: baseUrl,
    baseUrl,
    token: token?.trim() || undefined,
    authorities: caFile ? readFileSync(caFile, "utf8") : undefined,
  };
}

function ofSocket(path: string): Target {
  return { address: `unix:${path}`, baseUrl: "http://localhost", socket: path };
}

function findToken(host: string, dataDir: string, environment: Environment): string | undefined {
  const file = environment["LONGHAND_TOKEN_FILE"];
  if (file) return readFileSync(file, "utf8");
  if (environment["LONGHAND_TOKEN"]) return environment["LONGHAND_TOKEN"];
  const local = host === "localhost" || host === "[::1]" || host.startsWith("127.");
  const own = join(dataDir, "access-token");
  return local && existsSync(own) ? readFileSync(own, "utf8") : undefined;
}

/** The daemon's program: `LONGHAND_BIN`, else the one in this platform's package, else the one on the path. */
export function findProgram(environment: Environment = process.env): string | undefined {
  if (environment["LONGHAND_BIN"]) return environment["LONGHAND_BIN"];
  const onPath = (environment["PATH"] ?? "").split(delimiter).map((folder) => join(folder || ".", "longhand"));
  return packagedProgram() ?? onPath.find(isExecutable);
}

/** The program in this platform's package, which is installed beside this one. */
export function packagedProgram(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`longhand-${process.platform}-${process.arch}/bin/longhand`);
  } catch {
    return undefined;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts a daemon that outlives this process; its log is `longhand.log` in the data directory. Of two that start at
 * once, one holds the directory, and the other one ends. The answer says why it ended, once it has.
 */
export function startDaemon(dataDir: string, program: string): () => string | undefined {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, "longhand.log");
  const log = openSync(file, "a", 0o600);
  let end: string | undefined;
  const child = spawnProcess(program, ["serve", "--data-dir", dataDir], {
    detached: true,
    stdio: ["ignore", "ignore", log],
  });
  closeSync(log);
  child.on("error", (error) => {
    end = error.message;
  });
  child.on("exit", (code, signal) => {
    end = `${program} ended with ${signal ?? code}: see ${file}`;
  });
  child.unref();
  return () => end;
}
