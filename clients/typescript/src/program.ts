#!/usr/bin/env node
/** The command `longhand` of this package: runs the program of this platform's package. */

import { spawn } from "node:child_process";
import { constants } from "node:os";
import { packagedProgram } from "./address.js";

const program = packagedProgram();
if (program === undefined) {
  console.error(`longhand: the package longhand-${process.platform}-${process.arch} with the program is not installed`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The keys of a terminal reach the program, too: this process only waits for its end.
process.on("SIGINT", () => undefined);
for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`longhand: ${error.message}`);
  process.exitCode = 1;
});
child.on("exit", (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal ?? "SIGTERM"];
});
