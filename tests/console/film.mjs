// A moving picture of the console while `longhand demo` runs, as an animated WebP. Usage: node film.mjs PROGRAM FILE
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { browser as launch } from './page.mjs';

const [program, file] = process.argv.slice(2);
const [width, height, quality, every] = [1040, 600, 0.55, 800];
const limit = 1.5e6;

/** A number in bytes, the lowest first. */
const number = (value, bytes) => Buffer.from(Array.from({ length: bytes }, (_, at) => (value >> (8 * at)) & 255));
const chunk = (name, body) => Buffer.concat([Buffer.from(name), number(body.length, 4), body, Buffer.alloc(body.length % 2)]);

/** The coded picture of a still, without its header and its colour profile. */
function coded(still) {
  for (let at = 12; at < still.length; ) {
    const end = at + 8 + still.readUInt32LE(at + 4);
    if (still.toString('latin1', at, at + 4) === 'VP8 ') return still.subarray(at, end + (end % 2));
    at = end + (end % 2);
  }
  throw new Error('a still has no picture');
}

/** The frames as one file. */
function animated(frames) {
  const size = Buffer.concat([number(width - 1, 3), number(height - 1, 3)]);
  const frame = ({ still, shown }) => chunk('ANMF', Buffer.concat([number(0, 6), size, number(shown, 3), number(2, 1), coded(still)]));
  const parts = [chunk('VP8X', Buffer.concat([number(2, 4), size])), chunk('ANIM', number(0, 6)), ...frames.map(frame)];
  return chunk('RIFF', Buffer.concat([Buffer.from('WEBP'), ...parts]));
}

const demo = spawn(program, ['demo', '--live', '--seconds', '26'], { stdio: ['ignore', 'pipe', 'inherit'] });
process.on('exit', () => demo.kill());
let link;
let done = false;
const linked = new Promise((resolve) => {
  createInterface({ input: demo.stdout }).on('line', (line) => {
    if (line.startsWith('http://')) resolve((link = line));
    done ||= line.startsWith('The agents are done');
  });
});
await linked;
const browser = await launch();
const page = await browser.newPage({ viewport: { width, height }, colorScheme: 'light' });
const painter = await browser.newPage();
await page.goto(link);
await page.locator('.session').first().click();
await page.locator('.one .row').first().waitFor();
const frames = [];
const yes = page.getByRole('button', { name: 'Yes', exact: true });
for (let asked = 0, next = Date.now(); !done; next += every) {
  const picture = (await page.screenshot()).toString('base64');
  const still = await painter.evaluate(
    async ([data, type, quality]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${data}`;
      await image.decode();
      const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
      canvas.getContext('2d').drawImage(image, 0, 0);
      return canvas.toDataURL(type, quality).split(',')[1];
    },
    [picture, 'image/webp', quality],
  );
  const last = frames.at(-1);
  if (last?.picture === picture) last.shown += every;
  else frames.push({ picture, still: Buffer.from(still, 'base64'), shown: every });
  // A question is seen for a while before it is answered.
  if (await yes.isVisible()) {
    asked += 1;
    if (asked === 4) await yes.click();
  }
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, next + every - Date.now())));
}
frames.at(-1).shown += 3000;
await browser.close();
demo.kill('SIGINT');
await once(demo, 'exit');
const film = animated(frames);
if (film.length > limit) throw new Error(`${film.length} bytes are more than ${limit}`);
writeFileSync(file, film);
console.log(`${file}: ${frames.length} frames, ${film.length} bytes`);
