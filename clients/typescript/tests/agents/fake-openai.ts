/** A provider with OpenAI's Chat Completions, which answers as it is told and records what it was asked. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type OpenAI from "openai";

export type Asked = OpenAI.ChatCompletionCreateParams;

export interface Reply {
  text?: string;
  calls?: { id: string; name: string; input: unknown }[];
  /** Tokens of the request, if the provider reports them. */
  input?: number;
}

export class FakeOpenAi {
  readonly asked: Asked[] = [];
  private readonly server: Server;

  private constructor(answer: (asked: Asked) => Reply) {
    this.server = createServer(async (request, response) => {
      let body = "";
      for await (const piece of request) body += piece;
      const asked = JSON.parse(body) as Asked;
      this.asked.push(asked);
      const reply = answer(asked);
      const calls = reply.calls?.map(({ id, name, input }, index) => ({
        index,
        id,
        type: "function",
        function: { name, arguments: JSON.stringify(input) },
      }));
      const reason = calls ? "tool_calls" : "stop";
      const { input = 10 } = reply;
      const usage = { prompt_tokens: input, completion_tokens: 5, total_tokens: input + 5 };
      const head = { id: "c", created: 1, model: asked.model };
      if (!asked.stream) {
        const message = { role: "assistant", content: reply.text ?? null, tool_calls: calls };
        const choices = [{ index: 0, message, finish_reason: reason }];
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ ...head, object: "chat.completion", choices, usage }));
        return;
      }
      response.setHeader("content-type", "text/event-stream");
      const send = (more: object) =>
        response.write(
          `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [], ...more })}\n\n`,
        );
      const delta = { role: "assistant", content: reply.text ?? null, ...(calls ? { tool_calls: calls } : {}) };
      send({ choices: [{ index: 0, delta, finish_reason: null }] });
      send({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
      send({ usage });
      response.end("data: [DONE]\n\n");
    });
  }

  static async start(answer: (asked: Asked) => Reply): Promise<FakeOpenAi> {
    const fake = new FakeOpenAi(answer);
    fake.server.listen(0, "127.0.0.1");
    await once(fake.server, "listening");
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** The texts of a request's messages. */
export function textsOf(asked: Asked): string[] {
  return asked.messages.map(({ content }) =>
    typeof content === "string" ? content : (content ?? []).map((part) => ("text" in part ? part.text : "")).join(""),
  );
}

/** Every call has its results directly after it, and every result its call. */
export function checkPairs(asked: Asked): void {
  let open = new Set<string>();
  for (const message of asked.messages) {
    if (message.role === "tool") {
      assert.ok(open.delete(message.tool_call_id), `the result of ${message.tool_call_id} has no call before it`);
      continue;
    }
    assert.deepEqual([...open], []);
    open = new Set(message.role === "assistant" ? message.tool_calls?.map(({ id }) => id) : []);
  }
  assert.deepEqual([...open], []);
}

/** What was sent, against the types of the provider's own package. */
export async function checkTypes(asked: readonly Asked[]): Promise<void> {
  const folder = fileURLToPath(new URL("../../..", import.meta.url));
  const file = join(folder, `dist/asked-${crypto.randomUUID()}.ts`);
  const begin = 'import type OpenAI from "openai";\nexport const asked: OpenAI.ChatCompletionCreateParams[] = ';
  writeFileSync(file, begin + JSON.stringify(asked));
  const options = "--strict --noEmit --target es2022 --module nodenext --types node --skipLibCheck --ignoreConfig";
  const tsc = join(folder, "../../node_modules/.bin/tsc");
  try {
    await promisify(execFile)(tsc, [...options.split(" "), file]);
  } catch (failure) {
    assert.fail((failure as { stdout: string }).stdout);
  } finally {
    rmSync(file);
  }
}
