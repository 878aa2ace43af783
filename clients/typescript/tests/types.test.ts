/** What a program of others gets of the package's types. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const PACKAGE = fileURLToPath(new URL("../../../", import.meta.url));
const PROGRAM = `
import { assistant, connect, type LonghandError, user } from "longhand";
import { connect as connectPage } from "longhand/browser";
import * as v1 from "longhand/v1";
const client = await connect({ timeoutMs: 3_000 });
const session = client.session("tidewater").with({ signal: AbortSignal.timeout(9), timeoutMs: 1_000, retryMs: 0 });
await session.append(user("Hello", { clientId: "a" }), { title: "T" });
const view = await session.view({ overflow: v1.OverflowAction.WAIT, timeoutMs: 5_000 });
await session.append([assistant("4", { viewToken: view.token })]);
for await (const event of session.events({ fromBeginning: true })) console.log(event.cursor);
await (await connectPage({ address: "http://127.0.0.1" })).serverInfo({ timeoutMs: 10 });
export const failure = (error: LonghandError): string => error.reason;
user("Hello", { clientid: "a" }); // mistake
session.with({ timeout: 3 }); // mistake
session.append(3); // mistake
session.view({ overflow: "wait" }); // mistake
session.append("x", { expectedRevision: 3 }); // mistake
connect({ timeoutMs: "3" }); // mistake
`;

test("types compile where nothing is skipped, and find every mistake", () => {
  const directory = mkdtempSync(join(tmpdir(), "longhand-types-"));
  try {
    const paths = Object.fromEntries(
      ["", "/browser", "/v1"].map((name) => [
        `longhand${name}`,
        [join(PACKAGE, "dist", `${name.slice(1) || "index"}.d.ts`)],
      ]),
    );
    // No types of Node, and no library that is newer than the target.
    const compilerOptions = { strict: true, module: "nodenext", target: "es2022", noEmit: true, types: [], paths };
    writeFileSync(join(directory, "package.json"), '{"type":"module"}');
    writeFileSync(join(directory, "program.ts"), PROGRAM);
    writeFileSync(join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
    let output = "";
    try {
      output = execFileSync(join(PACKAGE, "node_modules/.bin/tsc"), ["-p", directory, "--pretty", "false"]).toString();
    } catch (failure) {
      output = String((failure as { stdout: Buffer }).stdout);
    }
    const found = output.split("\n").filter((line) => line.includes("error TS"));
    const at = found.map((line) => Number(/program\.ts\((\d+),/.exec(line)?.[1] ?? 0));
    const lines = PROGRAM.split("\n");
    const mistakes = lines.flatMap((line, index) => (line.endsWith("// mistake") ? [index + 1] : []));
    assert.deepEqual([...new Set(at)], mistakes, output);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
