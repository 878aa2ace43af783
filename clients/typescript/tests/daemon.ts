/** Daemons for tests: the program in `LONGHAND_BIN`, else that of the development build. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Client, connect } from "../src/index.js";

export const BINARY =
  process.env["LONGHAND_BIN"] || fileURLToPath(new URL("../../../../../target/debug/longhand", import.meta.url));

/** A daemon with a store of its own, which can be stopped and started again. */
export class Daemon {
  // A socket's path has a hundred characters at most.
  readonly directory = mkdtempSync(join(tmpdir(), "longhand-"));
  readonly dataDir = join(this.directory, "store");
  private readonly config = join(this.directory, "longhand.toml");
  private process: ChildProcess | undefined;
  private listen = "127.0.0.1:0";

  static async start(config = ""): Promise<Daemon> {
    const daemon = new Daemon();
    writeFileSync(daemon.config, config);
    await daemon.start();
    return daemon;
  }

  get address(): string {
    return `unix:${this.dataDir}/longhand.sock`;
  }

  get url(): string {
    return readFileSync(join(this.dataDir, "longhand.url"), "utf8").trim();
  }

  get token(): string {
    return readFileSync(join(this.dataDir, "access-token"), "utf8").trim();
  }

  async start(): Promise<void> {
    const log = join(this.directory, "log");
    const options = ["--data-dir", this.dataDir, "--config", this.config, "--listen", this.listen];
    const child = spawn(BINARY, ["serve", ...options], { stdio: ["ignore", "pipe", openSync(log, "a")] });
    this.process = child;
    const lines = createInterface({ input: child.stdout ?? process.stdin });
    const [line] = await Promise.race([once(lines, "line"), once(child, "exit")]);
    if (!String(line).includes("listens on")) throw new Error(readFileSync(log, "utf8"));
    // A client over TCP finds it again.
    this.listen = new URL(this.url).host;
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.process;
    if (!child) return;
    this.process = undefined;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
  }

  /** Has it take no step, or go on. */
  // Where threads can be looked at, it waits until all have stopped: until then they answer.
  hold(held: boolean): void {
    this.process?.kill(held ? "SIGSTOP" : "SIGCONT");
    const tasks = `/proc/${this.process?.pid}/task`;
    const runs = (id: string) => {
      try {
        return !readFileSync(`${tasks}/${id}/stat`, "utf8").includes(") T ");
      } catch {
        return false; // The thread has ended.
      }
    };
    while (held && existsSync(tasks) && readdirSync(tasks).some(runs));
  }

  async restart(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await this.stop(signal);
    await this.start();
  }

  async remove(): Promise<void> {
    await this.stop("SIGKILL");
    rmSync(this.directory, { recursive: true });
  }
}

/** A daemon for the tests of a file, with a client of it. */
export async function startForTests(actor: string): Promise<{ daemon: Daemon; client: Client }> {
  const daemon = await Daemon.start();
  const client = await connect({ address: daemon.address, actor });
  after(async () => {
    client.close();
    await daemon.remove();
  });
  return { daemon, client };
}

/** What a daemon writes to a file, which can be a little after its socket answers. */
export async function written(path: string): Promise<string> {
  const end = performance.now() + 30_000;
  for (;;) {
    const text = existsSync(path) ? readFileSync(path, "utf8").trim() : "";
    if (text) return text;
    if (performance.now() > end) throw new Error(`${path} was never written`);
    await delay(20);
  }
}

/** Everything that an iteration has. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}
