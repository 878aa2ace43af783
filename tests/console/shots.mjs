// Screenshots of the pages, light, dark and on a phone. Usage: node shots.mjs PROGRAM FOLDER
import { Daemon, text } from './daemon.mjs';
import { browser as launch, Page } from './page.mjs';
import { conversation, turn } from './sample.mjs';

const [program, folder] = process.argv.slice(2);
const daemon = new Daemon(program);
await daemon.start();
const window = { model: 'sonnet-4', maxContextTokens: 16000, maxOutputTokens: 2000 };
const names = ['Queue loses jobs under two workers', 'Release notes for 0.4', 'Flaky test on Windows', 'Port the parser to nom 8', 'Why is the index twice its size?'];
const ids = [];
for (const [at, title] of names.entries()) {
  const id = await daemon.session(title, { window, preset: at % 2 ? 'claude-code' : 'opencode', metadataJson: JSON.stringify({ project: at < 3 ? 'queue' : 'parser' }) });
  ids.push(id);
  const messages = at === 0 ? conversation(16, 70) : conversation(at + 1, 30);
  for (let from = 0; from < messages.length; from += 10) {
    let token;
    const batch = messages.slice(from, from + 10);
    if (at === 0) token = (await daemon.view(id)).header.viewToken;
    const last = batch.at(-1);
    if (last.finish && token) last.finish = { ...last.finish, viewToken: token, usage: { costMicroUsd: '18400' } };
    await daemon.append(id, batch, { 'longhand-actor': at % 2 ? 'editor' : 'terminal' });
  }
}
await daemon.post(`/v1/sessions/${ids[1]}/labels:add`, { label: 'docs' });
await daemon.settled(ids[0]);
await daemon.append(ids[0], turn(10, 20), { 'longhand-actor': 'terminal' });
const browser = await launch();
for (const [name, options] of [['light', { colorScheme: 'light' }], ['dark', { colorScheme: 'dark' }], ['phone', { colorScheme: 'light', viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }]]) {
  const page = await Page.open(browser, daemon, { viewport: { width: 1360, height: 820 }, ...options });
  await page.page.locator('.session').nth(4).waitFor();
  await page.page.waitForTimeout(1500);
  await page.page.screenshot({ path: `${folder}/sessions-${name}.png` });
  await page.session(ids[0]);
  await page.page.waitForTimeout(2500);
  await page.page.screenshot({ path: `${folder}/session-${name}.png` });
  await page.page.locator('.one .scroll').evaluate((element) => (element.scrollTop = 0));
  await page.page.waitForTimeout(700);
  const summary = page.page.locator('.row.own.user, .row.own.assistant').first();
  await page.page.screenshot({ path: `${folder}/top-${name}.png` });
  await page.page.locator('button', { hasText: 'Compaction' }).first().click();
  await page.page.waitForTimeout(700);
  await page.page.screenshot({ path: `${folder}/compaction-${name}.png` });
  await page.close().catch((error) => console.error(error.message));
}
await browser.close();
await daemon.remove();
