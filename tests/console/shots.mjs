// Screenshots of the pages, light, dark and on a phone. Usage: node shots.mjs PROGRAM FOLDER [--all]
import { Daemon } from './daemon.mjs';
import { browser as launch, Page } from './page.mjs';
import { conversation, turn } from './sample.mjs';

const [program, folder, all] = process.argv.slice(2);
const daemon = new Daemon(program);
await daemon.start();
const small = { model: 'sonnet-4', maxContextTokens: 16000, maxOutputTokens: 2000 };
const sessions = [
  ['Why is the index twice its size?', 'claude-code', 4, 30, 64000, 'parser', ['disk']],
  ['Port the parser to nom 8', 'pi', 9, 40, 32000, 'parser', []],
  ['Flaky test on Windows', 'opencode', 3, 30, 16000, 'queue', ['ci']],
  ['Release notes for 0.4', 'gemini-cli', 2, 20, 200000, 'queue', ['docs']],
  ['Measure claims per second', 'claude-code', 6, 60, 32000, 'queue', []],
  ['Queue loses jobs under two workers', 'opencode', 14, 70, 16000, 'queue', ['bug', 'p1']],
];
let main;
for (const [title, preset, turns, lines, context, project, labels] of sessions) {
  const id = await daemon.session(title, { window: { ...small, maxContextTokens: context }, preset, metadataJson: JSON.stringify({ project }) });
  for (const label of labels) await daemon.post(`/v1/sessions/${id}/labels:add`, { label });
  const messages = conversation(turns, lines);
  for (let from = 0; from < messages.length; from += 10) {
    const token = (await daemon.view(id)).header.viewToken;
    const batch = messages.slice(from, from + 10);
    batch.at(-1).finish = { ...batch.at(-1).finish, viewToken: token, usage: { costMicroUsd: String(9_000 + lines * 130) } };
    await daemon.append(id, batch, { 'longhand-actor': from % 20 ? 'editor' : 'terminal' });
    main = id;
  }
}
await daemon.settled(main);
await daemon.append(main, turn(10, 20), { 'longhand-actor': 'terminal' });
const { messages: newest } = await daemon.get(`/v1/sessions/${main}/messages?reverse=true&page_size=40`);
await daemon.post(`/v1/sessions/${main}/messages/${newest.find((one) => one.role === 'ROLE_USER').messageId}:pin`);
await daemon.post(`/v1/sessions/${main}/runs`, { lease_timeout: '600s' }, { 'longhand-actor': 'terminal' });
const browser = await launch();
const looks = [
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { colorScheme: 'light', viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }],
];
for (const [name, options] of looks) {
  const page = await Page.open(browser, daemon, { viewport: { width: 1280, height: 780 }, ...options });
  const shot = (what) => page.page.screenshot({ path: `${folder}/${what}-${name}.png` });
  await page.page.locator('.session').nth(5).waitFor();
  await page.page.locator('.dot.running').waitFor();
  await shot('sessions');
  await page.session(main);
  await page.page.locator('.timeline .mark.compaction').waitFor({ state: 'attached' });
  await page.page.waitForTimeout(2500);
  // Where the view begins.
  const { end } = await daemon.view(main);
  await page.go(`#/session/${main}?message=own:${end.covered.summaryMessageId}`);
  await page.page.locator('.row.own .divider').first().waitFor();
  await page.page.waitForTimeout(900);
  await shot('session');
  await page.go(`#/session/${main}/compaction`);
  await page.page.locator('.panel').waitFor();
  await page.page.getByRole('button', { name: 'Preview' }).click().catch(() => undefined);
  await page.page.waitForTimeout(900);
  await shot('compaction');
  if (all) {
    await page.go(`#/session/${main}`);
    await page.page.locator('.scroll').press('End');
    await page.page.waitForTimeout(900);
    await shot('end');
    await page.go(`#/session/${main}/policy`);
    await page.page.getByLabel('Preset').selectOption({ label: 'claude-code@seed' });
    await page.page.waitForTimeout(700);
    await shot('policy');
    await page.go('#/search?q=jitter');
    await page.page.locator('.hit').first().waitFor();
    await shot('search');
    await page.go('#/operations');
    await page.page.waitForTimeout(3500);
    await shot('operations');
  }
  await page.close();
}
await browser.close();
await daemon.remove();
