/** The program of the README, as it stands there, against the client as a package has it. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Daemon } from "./daemon.js";

const run = promisify(execFile);
/** The folder of the client: what is in it finds `longhand` as users do, by the exports of the package. */
const root = fileURLToPath(new URL("../../..", import.meta.url));

let daemon: Daemon;
before(async () => {
  daemon = await Daemon.start();
});
after(() => daemon.remove());

test("the README runs", async () => {
  const blocks = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/```typescript\n(.*?)```/gs)];
  assert.equal(blocks.length, 1);
  const code = blocks[0]?.[1] ?? "";
  assert.ok(code.trim().split("\n").length <= 12);
  writeFileSync(join(root, "dist/test/readme.ts"), code);
  const options =
    "--strict --target es2022 --module nodenext --types node --skipLibCheck --ignoreConfig dist/test/readme.ts";
  await run(join(root, "node_modules/.bin/tsc"), options.split(" "), { cwd: root });
  const env = { ...process.env, LONGHAND_SERVER: daemon.address };
  const { stdout } = await run(process.execPath, ["dist/test/readme.js"], { cwd: root, env, timeout: 60_000 });
  assert.match(stdout, /What is 2 \+ 2\?/);
  assert.match(stdout, /windowTokens: 64000n/);
});
