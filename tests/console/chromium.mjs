// The program of Chromium: `CHROMIUM`, or where Debian has it. Run by itself, this prints it, and fails if there is none.
import { existsSync } from 'node:fs';
import { argv, exit } from 'node:process';
import { fileURLToPath } from 'node:url';

const candidates = [process.env.CHROMIUM, '/usr/lib/chromium/chromium', '/usr/bin/chromium', '/usr/bin/chromium-headless-shell'];
export const chromiumPath = candidates.find((path) => path && existsSync(path));

if (argv[1] === fileURLToPath(import.meta.url)) {
  if (!chromiumPath) exit(1);
  console.log(chromiumPath);
}
