// The console in a real browser, as a person uses it. Usage: node test.mjs PROGRAM [NAME…]
import { Daemon, call, result, text } from './daemon.mjs';
import { followsList, followsSession } from './follow.mjs';
import { browser as launch, Page, until } from './page.mjs';
import { conversation, turn } from './sample.mjs';

const [program, ...only] = process.argv.slice(2);
const window = { model: 'sonnet-4', maxContextTokens: 16000, maxOutputTokens: 2000 };
const tests = [];
const test = (name, run) => tests.push({ name, run });
const check = (holds, what) => {
  if (!holds) throw new Error(what);
};
const equal = (left, right, what) => check(JSON.stringify(left) === JSON.stringify(right), `${what}: ${JSON.stringify(left)} instead of ${JSON.stringify(right)}`);

/** A session that was compacted once, with later messages. */
async function compacted(daemon, title = 'Compacted') {
  const id = await daemon.session(title, { window, preset: 'opencode' });
  const messages = conversation(16, 70);
  for (let from = 0; from < messages.length; from += 10) {
    const { header } = await daemon.view(id);
    const batch = messages.slice(from, from + 10);
    batch.at(-1).finish = { ...batch.at(-1).finish, viewToken: header.viewToken };
    await daemon.append(id, batch);
  }
  const compactions = await daemon.settled(id);
  return { id, compactions };
}

test('a link opens once, and nothing opens without one', async ({ daemon, browser }) => {
  const link = daemon.link();
  const first = await Page.open(browser, daemon, { link });
  check(!first.page.url().includes('login'), 'the secret is gone from the address');
  const cookies = await first.context.cookies();
  const secret = cookies.find((cookie) => cookie.httpOnly);
  check(secret && secret.sameSite === 'Strict', 'the cookie is hidden and strict');
  check(!(await first.page.evaluate(() => document.cookie)).includes(secret.value), 'no script reads it');
  const second = await Page.open(browser, daemon, { link: null });
  second.allowed.push(/401/);
  await second.page.goto(link);
  await second.page.getByRole('alert').getByText('was used').waitFor();
  await second.go('');
  await second.page.getByText('longhand console').waitFor();
  // Revoked, it is over for a page that is open.
  const tokens = await daemon.get('/v1/accessTokens');
  const token = tokens.accessTokens.findLast((one) => one.principal === 'console');
  await daemon.post(`/v1/accessTokens/${token.accessTokenId}:revoke`);
  first.allowed.push(/401|ERR_/);
  await first.page.getByText('over or was revoked').waitFor({ timeout: 30_000 });
  await second.close();
  await first.close();
});

test('a link in an open page is taken from the address, and replaces a session only if its user says so', async ({ daemon, browser }) => {
  const page = await Page.open(browser, daemon);
  await page.go('#/search');
  const mine = (await page.context.cookies()).find((cookie) => cookie.httpOnly).value;
  const paste = async (link) => {
    // Only the fragment changes: the page stays.
    await page.page.evaluate((fragment) => (location.hash = fragment), new URL(link).hash);
    await page.page.getByRole('dialog', { name: 'Open the link?' }).waitFor();
    check(!page.page.url().includes('login') && page.page.url().endsWith('#/search'), `the address is ${page.page.url()}`);
  };
  const session = async () => (await page.context.cookies()).find((cookie) => cookie.httpOnly).value;
  const link = daemon.link('--principal', 'other');
  await paste(link);
  equal(await page.violations(), [], 'accessibility');
  await page.page.getByRole('button', { name: 'Stay signed in as I am' }).click();
  await page.page.getByRole('dialog').waitFor({ state: 'detached' });
  equal(await session(), mine, 'the session');
  await paste(link);
  await page.page.getByRole('button', { name: 'Open the link' }).click();
  await page.page.locator('.who').getByText('other').waitFor();
  check((await session()) !== mine, 'the session is another one');
  // It was used; the session stays.
  page.allowed.push(/401/);
  await page.page.locator('.top').waitFor();
  await paste(link);
  await page.page.getByRole('button', { name: 'Open the link' }).click();
  await page.page.getByRole('alert').getByText('was used').waitFor();
  await page.page.getByRole('button', { name: 'Stay signed in as I am' }).click();
  await page.page.locator('.who').getByText('other').waitFor();
  // A page that is loaded with a link asks, too, and one without a session takes a link that is pasted.
  await page.page.goto('about:blank');
  await page.page.goto(daemon.link());
  await page.page.getByRole('dialog', { name: 'Open the link?' }).waitFor();
  check(!page.page.url().includes('login'), `the address is ${page.page.url()}`);
  await page.page.getByRole('button', { name: 'Stay signed in as I am' }).click();
  await page.page.getByRole('button', { name: 'Leave' }).click();
  await page.page.getByText('longhand console').waitFor();
  await page.page.evaluate((fragment) => (location.hash = fragment), new URL(daemon.link('--principal', 'third')).hash);
  await page.page.locator('.who').getByText('third').waitFor();
  check(!page.page.url().includes('login'), `the address is ${page.page.url()}`);
  await page.close();
});

test('leaving ends the session for good', async ({ daemon, browser }) => {
  const page = await Page.open(browser, daemon);
  const cookies = await page.context.cookies();
  await page.page.getByRole('button', { name: 'Leave' }).click();
  await page.page.getByText('longhand console').waitFor();
  const secret = cookies.find((cookie) => cookie.httpOnly);
  const answer = await fetch(`${daemon.url}/v1/sessions`, { headers: { cookie: `${secret.name}=${secret.value}` } });
  equal(answer.status, 401, 'a copy of the cookie');
  await page.close();
});

test('the list of sessions is live, and filters', async ({ daemon, browser }) => {
  const id = await daemon.session('Alpha beats beta', { window, metadataJson: '{"project":"greek"}' });
  await daemon.session('Gamma', { window });
  const page = await Page.open(browser, daemon);
  await page.page.getByText('Alpha beats beta').waitFor();
  await daemon.session('Delta comes later');
  await page.page.getByText('Delta comes later').waitFor();
  await daemon.call('PATCH', `/v1/sessions/${id}`, { title: 'Alpha was renamed' });
  await page.page.getByText('Alpha was renamed').waitFor();
  check((await page.page.locator('.session').first().innerText()).includes('Alpha was renamed'), 'what changed last is first');
  await page.page.keyboard.press('/');
  await page.page.keyboard.type('project:greek');
  await until('one session', async () => (await page.page.locator('.session').count()) === 1);
  await page.page.getByRole('searchbox').fill('nothing like this');
  await page.page.getByText('No session matches').waitFor();
  await daemon.post(`/v1/sessions/${id}/runs`, {}, { 'longhand-actor': 'robot' });
  await page.page.getByRole('searchbox').fill('alpha');
  await page.page.getByText('robot runs').waitFor();
  // By the id that is printed everywhere, by a word of the title, and what is no condition is said.
  await page.page.getByRole('searchbox').fill(`id:${id}`);
  await until('the session of the id', async () => (await page.page.locator('.session').allInnerTexts()).join().includes('Alpha was renamed'));
  await page.page.getByRole('searchbox').fill('title:renamed');
  await until('the session of the title', async () => (await page.page.locator('.session').count()) === 1);
  await page.page.getByRole('searchbox').fill('owner:greek');
  await page.page.getByText('“owner:” is no condition').waitFor();
  equal(await page.violations(), [], 'accessibility');
  await page.close();
});

test('a session that comes is seen at the top, and moves nothing for whoever is further down', async ({ daemon, browser }) => {
  const ids = [];
  for (let number = 0; number < 40; number += 1) ids.push(await daemon.session(`Session ${number}.`, { window }));
  const page = await Page.open(browser, daemon, { viewport: { width: 1280, height: 700 } });
  await page.page.getByText('Session 39.').waitFor();
  const frames = () => page.page.evaluate(async () => {
    for (let frames = 0; frames < 6; frames += 1) await new Promise(requestAnimationFrame);
  });
  const inSight = (name) => page.page.evaluate((name) => {
    const list = document.querySelector('.scroll').getBoundingClientRect();
    const row = [...document.querySelectorAll('.session')].find((one) => one.innerText.includes(name))?.getBoundingClientRect();
    return row && row.top >= list.top - 1 && row.bottom <= list.bottom + 1 ? Math.round(row.top) : null;
  }, name);
  await frames();
  await daemon.session('Comes at the top.', { window });
  await page.page.getByText('Comes at the top.').waitFor({ state: 'attached' });
  await frames();
  check((await inSight('Comes at the top.')) !== null, 'the new session is in sight');
  // A key chooses a session, not a place.
  await page.page.keyboard.press('j');
  const chosen = await page.page.locator('.session.chosen').innerText();
  check(chosen.includes('Session 39.'), `chosen is ${chosen}`);
  await daemon.session('Comes later.', { window });
  await page.page.getByText('Comes later.').waitFor({ state: 'attached' });
  check((await page.page.locator('.session.chosen').innerText()).includes('Session 39.'), 'the chosen one stays chosen');
  // Further down, what is in sight stays, also when the first of it goes to the top.
  await page.page.locator('.scroll').evaluate((list) => (list.scrollTop = 900));
  await frames();
  const first = await page.page.evaluate(() => {
    const { top } = document.querySelector('.scroll').getBoundingClientRect();
    const row = [...document.querySelectorAll('.session')].filter((one) => one.getBoundingClientRect().bottom > top).sort((left, right) => left.getBoundingClientRect().top - right.getBoundingClientRect().top)[0];
    return Number(/Session (\d+)\./.exec(row.innerText)[1]);
  });
  const below = `Session ${first - 4}.`;
  const before = await inSight(below);
  await daemon.session('Comes above.', { window });
  await daemon.call('PATCH', `/v1/sessions/${ids[first]}`, { title: 'Goes to the top.' });
  await page.page.locator('.bar').getByText('43', { exact: true }).waitFor();
  await until('the renamed one is elsewhere', async () => !(await page.page.locator('.scroll').innerText()).includes(`Session ${first}.`));
  await frames();
  const after = await inSight(below);
  check(after !== null && Math.abs(after - before) <= 2, `${below} is at ${after} instead of ${before}`);
  await page.close();
});

test('a session is made with what it needs, renamed and archived', async ({ daemon, browser }) => {
  const page = await Page.open(browser, daemon);
  await page.page.getByText('No session yet').waitFor();
  await page.page.keyboard.press('n');
  const dialog = page.page.getByRole('dialog', { name: 'New session' });
  await dialog.getByLabel('Title').fill('Made by hand');
  await dialog.getByLabel('Preset').selectOption('opencode@seed');
  await dialog.getByLabel('Window in tokens').fill('64000');
  equal(await page.violations(), [], 'accessibility');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await page.page.getByRole('heading', { name: 'Made by hand' }).waitFor();
  const { sessions } = await daemon.get('/v1/sessions');
  equal([sessions[0].preset, sessions[0].window.maxContextTokens], ['opencode@seed', '64000'], 'its preset and window');
  await page.page.keyboard.press('T');
  await page.page.getByRole('textbox', { name: 'Title' }).fill('Renamed');
  await page.page.keyboard.press('Enter');
  await page.page.getByRole('heading', { name: 'Renamed' }).waitFor();
  await page.page.keyboard.press('T');
  await page.page.getByRole('button', { name: 'Archive the session' }).click();
  await page.page.getByText('This session is archived').waitFor();
  await page.page.locator('.toast').getByRole('button', { name: 'Restore' }).click();
  await page.page.getByText('This session is archived').waitFor({ state: 'detached' });
  await page.close();
});

test('history stands beside the view, and what is covered says so', async ({ daemon, browser }) => {
  const { id } = await compacted(daemon);
  const page = await Page.open(browser, daemon);
  await page.session(id);
  const view = await daemon.view(id);
  const last = page.page.locator('.row').last();
  await last.waitFor();
  const { messages: history } = await daemon.get(`/v1/sessions/${id}/messages?reverse=true&page_size=1`);
  await until('it begins at the newest message', async () => (await last.getAttribute('data-key')) === history[0].messageId);
  await page.page.keyboard.press('Home');
  await page.page.locator('.row.covered').first().waitFor();
  await page.page.getByText('Covered by the summary').first().waitFor();
  equal(await page.page.getByText('the summary the summary').count(), 0, 'words that are said twice');
  const said = await page.page.locator('.row.covered .cell.right').evaluateAll((cells) => cells.map((cell) => cell.innerText.trim().length > 3 && !cell.querySelector('.hidden')));
  check(said.length > 3 && said.every(Boolean), `each covered row says so: ${said}`);
  const summary = page.page.locator(`[data-key="own:${view.end.covered.summaryMessageId}"]`);
  await page.page.locator('.row.covered').first().getByRole('button', { name: 'the summary' }).click();
  await summary.waitFor();
  check((await summary.innerText()).includes('messages covered'), 'the summary says what it covers');
  // A covered message opens in place.
  await page.page.keyboard.press('Home');
  const covered = page.page.locator('.row.covered').nth(1);
  await covered.getByRole('button', { name: 'open' }).click();
  await covered.locator('summary').first().waitFor();
  equal(await page.violations(), [], 'accessibility');
  await page.close();
});

test('an unknown session is said to be none', async ({ daemon, browser }) => {
  const page = await Page.open(browser, daemon);
  page.allowed.push(/404/);
  await page.go('#/session/ses_01a227950000700080000000deadbeef');
  await page.page.getByRole('alert').getByText('There is no session').waitFor();
  equal(await page.page.locator('.composer, .timeline, .one').count(), 0, 'what only a session has');
  equal(await page.violations(), [], 'accessibility');
  await page.page.getByRole('link', { name: 'All sessions', exact: true }).click();
  await page.page.getByText('No session yet').waitFor();
  await page.close();
});

test('messages appear as they are committed', async ({ daemon, browser }) => {
  const id = await daemon.session('Live', { window });
  const page = await Page.open(browser, daemon);
  await page.session(id);
  await page.page.getByText('Nothing was written yet').waitFor();
  for (let number = 0; number < 30; number += 1) await daemon.append(id, [text('USER', `line number ${number}`)]);
  await page.page.getByText('line number 29').first().waitFor();
  check(await page.page.getByText('line number 29').first().isVisible(), 'the newest is in sight');
  const keys = await page.page.locator('.row').evaluateAll((rows) => rows.map((row) => row.dataset.key));
  equal(new Set(keys).size, keys.length, 'no row is there twice');
  // Lines stay lines.
  await daemon.append(id, [text('USER', 'first line\nsecond line')]);
  await page.page.locator('.cell.left .prose br').waitFor({ state: 'attached' });
  // A call without a result runs, until somebody goes on without it.
  await daemon.append(id, [call('slow', 'bash', { command: 'sleep 60' })]);
  await page.page.locator('.row.running').getByText('No result yet').waitFor();
  equal(await page.page.locator('.cell.right .fold.bad').count(), 0, 'results that are shown as interrupted');
  await daemon.append(id, [text('USER', 'Go on without it.')]);
  await page.page.getByText('No result came').waitFor();
  equal(await page.page.locator('.row.running').count(), 0, 'calls that run');
  await page.close();
});

test('history and view are of one revision in every frame', async ({ daemon, browser, figures }) => {
  const id = await daemon.session('Frames', { window, preset: 'opencode' });
  await daemon.append(id, conversation(2, 40));
  const page = await Page.open(browser, daemon);
  await page.session(id);
  await page.page.locator('.live').getByText('live', { exact: true }).waitFor();
  // In every frame: rows that are not in the view, and calls without a result whose result is there.
  await page.page.evaluate(() => {
    const frames = (window.frames_ = { all: 0, bad: [] });
    const look = () => {
      frames.all += 1;
      const bad = [];
      for (const row of document.querySelectorAll('.row.unseen')) bad.push(`unseen ${row.dataset.revision}`);
      const last = [...document.querySelectorAll('.row[data-revision]')].at(-1);
      if (document.querySelector('.row.running') && last?.matches('.tool')) bad.push(`running beside the result ${last.dataset.revision}`);
      if (document.querySelector('.one .sheet').textContent.includes('No result came')) bad.push('interrupted');
      if (bad.length) frames.bad.push(bad.join(', '));
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  for (let number = 2; number < 14; number += 1) {
    const { header } = await daemon.view(id);
    const messages = turn(number, 70);
    messages.at(-1).finish = { ...messages.at(-1).finish, viewToken: header.viewToken };
    for (const message of messages.slice(0, -1)) await daemon.append(id, [message]);
    // The last one is written piece by piece.
    const { messageIds } = await daemon.append(id, [{ role: 'ROLE_ASSISTANT', open: true }]);
    const path = `/v1/sessions/${id}/messages/${messageIds[0]}`;
    const { partId } = await daemon.post(`${path}/drafts`, { kind: 'DRAFT_KIND_TEXT', delta: 'Some words' });
    await daemon.post(`${path}/drafts`, { part_id: partId, offset_bytes: 10, delta: ' and more.' });
    await daemon.post(`${path}/parts`, { parts: [{ text: { text: 'A whole part.' } }] });
    await daemon.post(`${path}:finish`, { finish: messages.at(-1).finish });
  }
  await daemon.settled(id);
  const { revision } = (await daemon.get(`/v1/sessions/${id}`)).session;
  await until('the page knows all of it', async () => (await page.page.locator('.facts').innerText()).includes(`revision ${Number(revision).toLocaleString('en-US')}`));
  const { all, bad } = await page.page.evaluate(() => window.frames_);
  figures['frames while messages come'] = { all, bad: bad.length };
  check(all > 60, `${all} frames`);
  equal([...new Set(bad)].slice(0, 5), [], `${bad.length} of ${all} frames are not of one revision`);
  await page.close();
});

test('what the page has follows the stream, as if it were read anew', async ({ daemon, figures }) => {
  await followsList(daemon, 7, 60);
  const followed = [];
  for (const seed of [1, 3, 5]) followed.push(await followsSession(daemon, seed, 30));
  figures['sessions followed'] = { revisions: followed.reduce((sum, one) => sum + one.revision, 0), compacted: followed.filter((one) => one.compacted).length };
});

test('who goes to the beginning stays there while messages come', async ({ daemon, browser }) => {
  const id = await daemon.session('Beginning', { window });
  await daemon.append(id, [text('USER', 'the very first'), ...conversation(20, 30)]);
  const page = await Page.open(browser, daemon);
  await page.session(id);
  const list = page.page.locator('.scroll');
  for (let round = 0; round < 12; round += 1) {
    await list.press('End');
    await page.page.locator('.row').last().waitFor();
    // The key is pressed in the very step in which the message was taken in, before the next frame is drawn.
    const pressed = page.page.evaluate(
      () =>
        new Promise((done) => {
          const scroll = document.querySelector('.scroll');
          new MutationObserver((_, observer) => {
            observer.disconnect();
            scroll.dispatchEvent(new KeyboardEvent('keydown', { key: 'Home', bubbles: true }));
            done();
          }).observe(scroll, { childList: true, subtree: true, attributes: true });
        }),
    );
    await daemon.append(id, [text('USER', `comes ${round}.`)]);
    await pressed;
    await page.page.getByText('the very first').first().waitFor();
    await page.page.evaluate(async () => {
      for (let frames = 0; frames < 9; frames += 1) await new Promise(requestAnimationFrame);
    });
    equal(await list.evaluate((element) => element.scrollTop), 0, `the place of round ${round}`);
  }
  await page.close();
});

test('a reply streams in', async ({ daemon, browser }) => {
  const id = await daemon.session('Streaming', { window });
  await daemon.append(id, [text('USER', 'Say something long.')]);
  const page = await Page.open(browser, daemon);
  await page.session(id);
  const opened = await daemon.append(id, [{ role: 'ROLE_ASSISTANT', open: true }]);
  const message = opened.messageIds[0];
  const words = ['Once ', 'upon ', 'a **time** ', 'there ', 'was.'];
  let part;
  let offset = 0;
  for (const [at, delta] of words.entries()) {
    const answer = await daemon.post(`/v1/sessions/${id}/messages/${message}/drafts`, part ? { part_id: part, offset_bytes: offset, delta } : { kind: 'DRAFT_KIND_TEXT', delta });
    part = answer.partId;
    offset = Number(answer.lengthBytes);
    if (at === 1) await page.page.locator('.row.writing .draft').getByText('Once upon').waitFor();
  }
  await page.page.locator('.draft').getByText('there was.').waitFor();
  // A page that is opened in the middle has what was written before.
  const late = await Page.open(browser, daemon);
  await late.session(id);
  await late.page.locator('.draft').getByText('Once upon').waitFor();
  await daemon.post(`/v1/sessions/${id}/messages/${message}:finish`, { finish: { reason: 'FINISH_REASON_STOP' } });
  await until('the draft is a part', async () => (await page.page.locator('.draft').count()) === 0);
  await page.page.locator('.cell.left').getByText('there was.').waitFor();
  await late.close();
  await page.close();
});

test('a compaction happens and shows, and undo and redo', async ({ daemon, browser }) => {
  const id = await daemon.session('By hand', { window: { ...window, maxContextTokens: 200000 }, preset: 'opencode' });
  await daemon.append(id, conversation(6, 60));
  const page = await Page.open(browser, daemon);
  await page.session(id, '/compaction');
  const panel = page.page.locator('.panel');
  await panel.getByRole('button', { name: 'Undo' }).waitFor();
  check(await panel.getByRole('button', { name: 'Undo' }).isDisabled(), 'nothing is there to undo');
  await panel.getByRole('button', { name: 'Preview' }).click();
  await panel.locator('[data-plan]').getByText('at most').waitFor();
  equal((await daemon.get(`/v1/sessions/${id}/compactions`)).compactions ?? [], [], 'a preview writes nothing');
  await panel.getByLabel('Instructions').fill('Keep the names of files');
  await panel.getByRole('button', { name: 'Start' }).click();
  await panel.locator('[data-compaction]').getByText('tokens', { exact: false }).first().waitFor();
  const { end } = await daemon.view(id);
  check(end.covered, 'the daemon has compacted');
  await panel.getByText('Started.').waitFor({ state: 'detached' });
  equal(await panel.getByLabel('Instructions').inputValue(), '', 'instructions for the next one');
  await panel.getByText('follows no instructions').waitFor();
  await page.page.locator('.timeline .mark.compaction').waitFor({ state: 'attached' });
  equal(await page.violations(), [], 'accessibility of the panel');
  await panel.getByRole('button', { name: 'Undo the compaction' }).click();
  await panel.getByText('undone at').waitFor();
  await until('nothing is covered', async () => (await page.page.locator('.row.covered').count()) === 0);
  await panel.getByRole('button', { name: 'Redo the compaction' }).click();
  await until('not undone', async () => (await panel.getByText('undone at').count()) === 0);
  await page.page.locator('.scroll').press('Home');
  await page.page.locator('.row.covered').first().waitFor();
  await page.close();
});

test('what people said follows a summary, and a line is struck out', async ({ daemon, browser }) => {
  const id = await daemon.session('What people said', { window: { ...window, maxContextTokens: 200000 }, preset: 'longhand@1' });
  await daemon.append(id, conversation(6, 60));
  await daemon.post(`/v1/sessions/${id}:supplySummary`, { text: '## Goal\n- Everything that was asked for is done so far, and the rest is to come.' });
  const page = await Page.open(browser, daemon);
  await page.session(id, '/compaction');
  const said = page.page.locator('.panel [data-said]');
  await said.getByRole('button', { name: 'Strike out' }).first().click();
  await said.getByRole('button', { name: 'Leave it to the summarizer' }).waitFor();
  const { saidLines, markedWords } = await daemon.get(`/v1/sessions/${id}`);
  equal(markedWords, [{ messageId: saidLines[0].messageId, stance: 'WORDS_STANCE_STRUCK' }], 'the mark');
  equal(await page.violations(), [], 'accessibility of the lines');
  await said.getByRole('button', { name: 'Leave it to the summarizer' }).click();
  await until('no mark', async () => !(await daemon.get(`/v1/sessions/${id}`)).markedWords);
  await page.close();
});

test('the slider shows what the daemon gives for a revision', async ({ daemon, browser }) => {
  const { id, compactions } = await compacted(daemon);
  const page = await Page.open(browser, daemon);
  await page.session(id, '');
  const base = Number(compactions.at(-1).baseRevision);
  const slider = page.page.getByRole('slider', { name: 'Revision' });
  await slider.fill(String(base));
  await page.page.locator('.banner').getByText('As it was at revision').waitFor();
  const expected = await daemon.view(id, `?as_of_revision=${base}`);
  await until('its messages', async () => (await page.page.locator('.heads').innerText()).includes(`${expected.header.messageCount} messages`));
  await page.page.locator('.scroll').press('Home');
  await page.page.locator('.row').first().waitFor();
  equal(await page.page.locator('.row.covered').count(), 0, 'nothing was covered then');
  const revisions = await page.page.locator('.row[data-revision]').evaluateAll((rows) => rows.map((row) => Number(row.dataset.revision)));
  check(revisions.every((revision) => revision <= base), 'nothing of later');
  await page.page.keyboard.press('0');
  await page.page.locator('.banner').waitFor({ state: 'detached' });
  await page.page.locator('.scroll').press('Home');
  await page.page.locator('.row.covered').first().waitFor();
  // What a reply saw, by its view token.
  await page.page.locator('.scroll').press('End');
  const { messages: newest } = await daemon.get(`/v1/sessions/${id}/messages?reverse=true&page_size=1`);
  await page.page.locator(`[data-key="${newest[0].messageId}"]`).waitFor();
  const saw = page.page.getByRole('button', { name: /^saw r/ }).last();
  const given = Number((await saw.innerText()).replace('saw r', ''));
  await saw.click();
  await page.page.locator('.banner').getByText(`revision ${given}:`).waitFor();
  // Back leads back to now, and Forward there again.
  await page.page.goBack();
  await page.page.locator('.banner').waitFor({ state: 'detached' });
  await page.page.locator('.one .row').first().waitFor();
  await page.page.goForward();
  await page.page.locator('.banner').getByText(`revision ${given}:`).waitFor();
  // The address leads there again, with the slider at its line; and so does another one that is typed.
  await page.page.reload();
  await page.page.locator('.banner').getByText(`revision ${given}:`).waitFor();
  equal(await slider.inputValue(), String(given), 'the slider');
  await page.page.evaluate((hash) => (location.hash = hash), `#/session/${id}?revision=${base}`);
  await page.page.locator('.banner').getByText(`revision ${base}:`).waitFor();
  // By the clock, the slider is where the line is, too.
  await page.page.getByText('window 16k').waitFor();
  await page.page.keyboard.press('t');
  const [knob, line] = await page.page.evaluate(() => [Number(document.querySelector('.timeline input').value) / Number(document.querySelector('.timeline input').max), Number(document.querySelector('.timeline .now').getAttribute('x1')) / document.querySelector('.timeline svg').clientWidth]);
  check(Math.abs(knob - line) < 0.01, `the knob at ${knob}, the line at ${line}`);
  await page.close();
});

test('prompts, approvals and runs', async ({ daemon, browser }) => {
  const id = await daemon.session('Work', { window });
  const agent = { 'longhand-actor': 'robot' };
  const { run } = await daemon.post(`/v1/sessions/${id}/runs`, { lease_timeout: '60s' }, agent);
  const ask = (question) => daemon.post(`/v1/sessions/${id}/approvals`, { question }, { ...agent, 'longhand-run-epoch': run.epoch });
  await ask({ text: 'May I delete target/?', tool: 'bash', input_json: JSON.stringify({ command: `rm -rf target\n${'# and so on\n'.repeat(40)}` }), choices: [{ id: 'yes', label: 'Yes' }, { id: 'no', label: 'No' }], default_choice: 'no', answer_timeout: '240s' });
  await ask({ text: 'And the cache?', tool: 'bash', input_json: '{"command":"rm -rf ~/.cache"}', accepts_text: true, choices: [{ id: 'all', label: 'All of it' }] });
  const page = await Page.open(browser, daemon, { viewport: { width: 1280, height: 800 } });
  await page.session(id);
  const first = page.page.locator('.approval', { hasText: 'May I delete target/?' });
  // What is approved is seen, and what holds if nobody answers.
  await first.getByText('command: rm -rf target').waitFor();
  await first.getByText(/“No” holds in 3:\d\d if nobody answers/).waitFor();
  equal(await page.violations(), [], 'accessibility');
  // However many questions wait, a prompt can be written, and the run stopped.
  for (const one of [page.page.getByRole('button', { name: /^Stop/ }), page.page.getByRole('textbox', { name: 'Prompt' })]) {
    check(await one.evaluate((element) => {
      const { x, y, width, height } = element.getBoundingClientRect();
      return document.elementFromPoint(x + width / 2, y + height / 2) === element;
    }), 'it is within reach');
  }
  await page.page.keyboard.press('a');
  equal(await page.page.evaluate(() => document.activeElement.closest('.approval') !== null), true, 'the key leads to a question');
  await page.page.keyboard.press('Escape');
  await first.getByRole('button', { name: 'No', exact: true }).click();
  await until('the answer', async () => (await daemon.get(`/v1/sessions/${id}/approvals?include_ended=true`)).approvals.find((one) => one.question.text.startsWith('May')).end?.choice === 'no');
  await first.waitFor({ state: 'detached' });
  // The history keeps the question and its answer.
  const asked = page.page.locator('.row', { hasText: 'May I delete target/?' });
  await asked.getByText('by console').waitFor();
  equal(await asked.locator('.answer b').innerText(), 'No', 'the answer');
  await page.page.keyboard.press('m');
  await page.page.keyboard.type('Then go on without.');
  await page.page.keyboard.press('Enter');
  await page.page.locator('.queue').getByText('Then go on without.').waitFor();
  const taken = await daemon.post(`/v1/sessions/${id}/prompts:take`, { epoch: run.epoch }, agent);
  check(taken.prompt.actor === 'console', 'the prompt has its author');
  await page.page.locator('.row').getByText('Then go on without.').first().waitFor();
  await page.page.locator('.queue').waitFor({ state: 'detached' });
  await page.page.getByRole('button', { name: /^Stop/ }).click();
  await until('the run is asked to stop', async () => (await daemon.get(`/v1/sessions/${id}/run`)).run.cancelRevision);
  await page.page.locator('.badge.stopping').waitFor();
  check(await page.page.getByRole('button', { name: 'Stopping robot…' }).isDisabled(), 'it is asked once');
  await daemon.post(`/v1/sessions/${id}/runs/${run.epoch}:release`, {}, agent);
  await page.page.locator('.badge.idle').waitFor();
  await page.close();
});

test('a rewind and an edit have their way back, and say what they change', async ({ daemon, browser }) => {
  const { id } = await compacted(daemon, 'Rewritten');
  const before = await daemon.view(id);
  const { messages: newest } = await daemon.get(`/v1/sessions/${id}/messages?reverse=true&page_size=12`);
  const target = newest.find((one, at) => at > 0 && one.role === 'ROLE_USER');
  const page = await Page.open(browser, daemon);
  await page.session(id);
  await page.page.locator('.one .row').last().waitFor();
  await page.choose(target.messageId);
  await page.page.keyboard.press('r');
  const toast = page.page.locator('.toast');
  await toast.getByText('later messages are out').waitFor();
  await page.page.locator('.row.rewound').first().waitFor();
  await toast.getByRole('button', { name: 'Undo' }).click();
  await toast.getByText('is undone').waitFor();
  await until('the rewind is undone', async () => (await daemon.view(id)).header.viewHash === before.header.viewHash);
  await page.page.locator('.row.rewound').first().waitFor({ state: 'detached' });
  // By a key, too.
  await page.choose(target.messageId);
  await page.page.keyboard.press('r');
  await page.page.locator('.row.rewound').first().waitFor();
  await page.page.keyboard.press('u');
  await page.page.locator('.row.rewound').first().waitFor({ state: 'detached' });
  // The key of a page is none of a row.
  await page.choose(target.messageId);
  await page.page.keyboard.press('g');
  await page.page.keyboard.press('f');
  await page.page.getByRole('heading', { name: 'Search' }).waitFor();
  equal((await daemon.get('/v1/sessions')).sessions.length, 1, 'sessions, of which none is a fork');
  await page.page.goBack();
  // Who edits what a summary covers learns before that it ends.
  await page.page.locator('.one .row').last().waitFor();
  await page.page.locator('.scroll').press('Home');
  const { messages: oldest } = await daemon.get(`/v1/sessions/${id}/messages?page_size=1`);
  await page.page.locator(`[data-key="${oldest[0].messageId}"]`).waitFor();
  const key = await page.page.locator('.row.covered.user').first().getAttribute('data-key');
  await page.choose(key);
  const row = page.page.locator(`[data-key="${key}"]`);
  await page.page.keyboard.press('p');
  await row.getByText('pinned').waitFor();
  await page.page.keyboard.press('e');
  await row.getByText('Saving ends that summary').waitFor();
  equal(await page.violations(), [], 'accessibility');
  await row.getByRole('textbox').fill('other words');
  await row.getByRole('button', { name: 'Save' }).click();
  await row.locator('.cell.right').getByText('other words').waitFor();
  await toast.getByRole('button', { name: 'Undo' }).waitFor();
  check(await row.isVisible(), 'its row stays in sight');
  // The message that replaces it leads to it.
  await row.getByRole('button', { name: 'to it' }).click();
  const replacement = page.page.locator('.row.replacement');
  await replacement.getByRole('button', { name: 'the original' }).click();
  await page.page.locator(`.row.chosen[data-key="${key}"]`).waitFor();
  await page.page.keyboard.press('u');
  await until('the edit is undone', async () => (await daemon.view(id)).end.covered);
  // Where a summary falls back to the one before it there can be as many rows as before, and they are others.
  const more = conversation(9, 70);
  for (let from = 0; from < more.length; from += 10) await daemon.append(id, more.slice(from, from + 10));
  const { end } = await until('a second compaction', async () => {
    const view = await daemon.view(id);
    return view.end.covered?.coveredRanges.length > 1 && view;
  }, 20_000);
  const range = end.covered.coveredRanges.at(-1);
  const { messages: history } = await daemon.get(`/v1/sessions/${id}/messages?page_size=1000`);
  const inside = history.findLast((one) => one.role === 'ROLE_ASSISTANT' && Number(one.revision) <= Number(range.lastRevision) - 8);
  await page.go(`#/session/${id}?message=${inside.messageId}`);
  await page.page.locator(`.row.chosen[data-key="${inside.messageId}"]`).waitFor();
  const edited = await daemon.post(`/v1/sessions/${id}/messages/${inside.messageId}:edit`, { parts: [{ text: { text: 'other words' } }] });
  const shownRevision = async () => Number((await page.page.locator('.timeline output').innerText()).match(/[\d,]+/)[0].replace(',', ''));
  await until('the page knows', async () => (await shownRevision()) >= Number(edited.revision));
  // What is in sight stays there, whoever changes the view, and when it is compacted again at once.
  await until('another summary', async () => ![undefined, end.covered.compactionId].includes((await daemon.view(id)).end.covered?.compactionId), 20_000);
  const { revision: summarized } = (await daemon.get(`/v1/sessions/${id}`)).session;
  await until('the page knows of it', async () => (await shownRevision()) >= Number(summarized));
  const still = await page.page.evaluate(async (key) => {
    let still = 0;
    for (let frames = 0; frames < 600 && still < 30; frames += 1) {
      await new Promise(requestAnimationFrame);
      const rect = document.querySelector(`[data-key="${key}"]`)?.getBoundingClientRect();
      still = rect && rect.bottom > 180 && rect.top < innerHeight - 40 ? still + 1 : 0;
    }
    return still;
  }, inside.messageId);
  equal(still, 30, 'frames in a row with the row in sight');
  await page.page.mouse.move(400, 500);
  for (const by of [900, -1500, 1200, -600, 2400, -3000]) {
    await page.page.mouse.wheel(0, by);
    await page.page.evaluate(() => new Promise(requestAnimationFrame));
  }
  await page.close();
});

test('a rewound message says so after the page is loaded again', async ({ daemon, browser }) => {
  const id = await daemon.session('Reload', { window });
  const { messageIds } = await daemon.append(id, [text('USER', 'one'), text('ASSISTANT', 'two')]);
  const page = await Page.open(browser, daemon);
  await page.session(id);
  await page.page.locator(`[data-key="${messageIds[1]}"]`).waitFor();
  await daemon.append(id, [text('USER', 'three')]);
  await daemon.post(`/v1/sessions/${id}:rewind`, { message_id: messageIds[1] });
  await page.page.locator('.row.rewound').waitFor();
  // The view is, byte for byte, what the browser has from before.
  await page.page.reload();
  await page.page.getByText('Left out by a rewind').waitFor();
  await page.close();
  // Whoever may not undo is asked before.
  const bound = await Page.open(browser, daemon, { link: daemon.link('--scopes', 'read,write') });
  await bound.session(id);
  await bound.choose(messageIds[0]);
  await bound.page.keyboard.press('r');
  await bound.page.locator('.toast').getByText('can undo it').waitFor();
  const { revision } = (await daemon.get(`/v1/sessions/${id}`)).session;
  await bound.page.locator('.toast').getByRole('button', { name: 'Do it' }).click();
  await bound.page.locator('.toast').getByText('later messages are out').waitFor();
  equal(Number((await daemon.get(`/v1/sessions/${id}`)).session.revision), Number(revision) + 1, 'revisions of the rewind');
  await bound.close();
});

test('the axis follows a session that is at work', async ({ daemon, browser }) => {
  const id = await daemon.session('Axis', { window: { ...window, maxContextTokens: 64000 }, preset: 'opencode' });
  await daemon.append(id, conversation(30, 4));
  const page = await Page.open(browser, daemon);
  await page.session(id);
  const points = () => page.page.locator('.timeline .curve').evaluate((curve) => [...(curve.getAttribute('d') ?? '').matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]));
  await until('the curve of before', async () => (await points()).length >= 38);
  const before = (await points()).length;
  // While messages come, without a pause.
  for (let number = 0; number < 40 || (number < 120 && (await points()).length < before + 6); number += 1) await daemon.append(id, [text('USER', `word `.repeat(200))]);
  check((await points()).length >= before + 6, 'the curve grows while messages come');
  await daemon.post(`/v1/sessions/${id}/compactions`, { kind: 'COMPACTION_KIND_SUMMARY' });
  await daemon.settled(id);
  for (let number = 0; number < 5; number += 1) await daemon.append(id, [text('USER', `after ${number}`)]);
  // It falls with the compaction, and ends at now.
  await until('the step', async () => {
    const drawn = await points();
    const highest = Math.min(...drawn.map(([, y]) => y));
    const width = await page.page.locator('.timeline svg').evaluate((svg) => svg.clientWidth);
    return drawn.at(-1)[1] - highest > 10 && Math.abs(drawn.at(-1)[0] - width) < 2;
  });
  await page.close();
});

test('the curve has a gap where a compaction was until it is known what was on both sides', async ({ daemon, browser }) => {
  const id = await daemon.session('Gap', { window: { ...window, maxContextTokens: 200000 }, preset: 'opencode' });
  await daemon.append(id, conversation(6, 60));
  const page = await Page.open(browser, daemon);
  page.allowed.push(/ERR_/);
  await page.page.route(/view\?as_of_revision=/, (route) => route.abort());
  await page.session(id);
  const words = () => page.page.locator('.facts').innerText();
  const append = async (what) => {
    const { revision } = await daemon.append(id, [text('USER', what)]);
    await until('the page knows', async () => Number((await words()).match(/revision ([\d,]+)/)[1].replace(',', '')) >= Number(revision));
  };
  for (const what of ['one', 'two', 'three']) await append(what);
  const pieces = () => page.page.locator('.timeline .curve').evaluate((curve) => (curve.getAttribute('d') ?? '').split('M').slice(1).filter((piece) => piece.includes('L')).length);
  await until('a curve', async () => (await pieces()) === 1);
  await daemon.post(`/v1/sessions/${id}/compactions`, { kind: 'COMPACTION_KIND_SUMMARY' });
  await daemon.settled(id);
  for (const what of ['four', 'five', 'six']) await append(what);
  equal(await pieces(), 2, 'pieces of the curve');
  await page.close();
});

test('the middle of a long session has its history, and records stay out of the way', async ({ daemon, browser }) => {
  const id = await daemon.session('Long', { window: { ...window, maxContextTokens: 1000000 }, preset: 'opencode' });
  const record = (number) => ({ role: 'ROLE_SYSTEM', kind: 'MESSAGE_KIND_RECORD', parts: [{ record: { kind: 'progress', data: `{"step":${number}}` } }] });
  const messages = Array.from({ length: 90 }, (_, number) => [...turn(number, 3), ...Array.from({ length: 8 }, (_, at) => record(at))]).flat();
  for (let from = 0; from < messages.length; from += 500) await daemon.append(id, messages.slice(from, from + 500));
  const page = await Page.open(browser, daemon);
  await page.session(id);
  const last = page.page.locator('.one .row').last();
  await last.waitFor();
  // A run of records is one row, and opens.
  equal(await page.page.locator('.row.record[data-revision]').count(), 0, 'records by themselves');
  await last.getByRole('button', { name: '8 records' }).click();
  await page.page.locator('.row.record[data-revision]').nth(5).waitFor();
  await page.page.keyboard.press('h');
  await page.page.getByRole('button', { name: 'Records', pressed: true }).waitFor();
  await page.page.keyboard.press('h');
  // The first key moves into what is in sight, and takes the focus with it.
  await page.page.locator('.scroll').press('End');
  await page.page.evaluate(() => document.activeElement.blur());
  await page.page.keyboard.press('j');
  const chosen = page.page.locator('.row.chosen');
  await until('the focus', () => page.page.evaluate(() => document.activeElement.classList.contains('chosen')));
  check(Number(await chosen.getAttribute('data-revision') ?? 0) > messages.length - 60, 'a row of those in sight');
  await page.page.keyboard.press('Tab');
  check(await page.page.evaluate(() => document.activeElement.closest('.row.chosen') !== null), 'Tab leads to its buttons');
  // A revision that the newest pages do not reach.
  const middle = Math.floor(messages.length / 2);
  // It is asked for while an older page is on its way.
  await page.page.route(/page_token=/, (route) => setTimeout(() => void route.continue().catch(() => undefined), 500));
  await page.page.locator('.scroll').evaluate((list) => (list.scrollTop = 0));
  await page.page.getByText('Reading older messages').waitFor();
  await page.page.getByRole('slider', { name: 'Revision' }).fill(String(middle));
  await page.page.locator('.banner').getByText(`revision ${middle}:`).waitFor();
  await page.page.locator('.scroll').press('End');
  await page.page.locator('.row[data-revision] .cell.left .role').first().waitFor();
  const revisions = () => page.page.locator('.row[data-revision]').evaluateAll((rows) => rows.map((row) => Number(row.dataset.revision)));
  check((await revisions()).every((revision) => revision <= middle), 'nothing that came later');
  await until('its end', async () => (await revisions()).some((revision) => revision > middle - 40));
  check((await revisions()).every((revision) => revision <= middle), 'nothing that came later');
  equal(await page.page.locator('.row.own').count(), 0, 'messages without their history');
  await page.page.keyboard.press('0');
  // The first key leads to the first message.
  await page.page.locator('.scroll').press('Home');
  const { messages: oldest } = await daemon.get(`/v1/sessions/${id}/messages?page_size=1`);
  await page.page.locator(`[data-key="${oldest[0].messageId}"]`).waitFor();
  // The view alone says who speaks.
  await page.page.keyboard.press('3');
  await page.page.locator('.one.view .row .cell.right .role').getByText('user').first().waitFor();
  equal(await page.violations(), [], 'accessibility');
  await page.close();
});

test('a message is pinned, edited and forked from', async ({ daemon, browser }) => {
  const id = await daemon.session('Edits', { window });
  const { messageIds } = await daemon.append(id, [text('USER', 'first words'), text('ASSISTANT', 'an answer'), text('USER', 'second words')]);
  const page = await Page.open(browser, daemon);
  await page.session(id);
  const row = page.page.locator(`[data-key="${messageIds[0]}"]`);
  await row.click();
  await page.page.keyboard.press('p');
  await row.getByText('pinned').waitFor();
  await page.page.keyboard.press('e');
  await row.getByRole('textbox').fill('better words');
  await row.getByRole('button', { name: 'Save' }).click();
  await row.locator('.cell.right').getByText('better words').waitFor();
  await row.locator('.cell.left').getByText('first words').waitFor();
  await row.locator('.cell.left').getByText('user', { exact: false }).first().click();
  await page.page.locator(`[data-key="${messageIds[1]}"]`).click();
  await page.page.keyboard.press('f');
  const toast = page.page.locator('.toast');
  await toast.getByText('A session of its own').waitFor();
  equal((await daemon.get('/v1/sessions')).sessions.length, 1, 'sessions after one key');
  await toast.getByRole('button', { name: 'Fork' }).click();
  await until('the fork', async () => !page.page.url().includes(id) && page.page.url().includes('session/ses_'));
  await page.page.locator('.row').getByText('an answer').first().waitFor();
  equal(await page.page.locator('.cell.right').getByText('second words').count(), 0, 'what came later, in its view');
  // What its original has behind its beginning is one row, and was left out by nobody.
  await page.page.locator('.row.beyond').getByRole('button', { name: /later message/ }).click();
  await page.page.locator('.row.beyond').getByText('second words').waitFor();
  equal(await page.page.locator('.row.rewound').count(), 0, 'rows of a rewind');
  // It says whose fork it is, here and in the list.
  await page.page.locator('.facts').getByText('fork of').waitFor();
  await page.page.locator('.facts').getByRole('link', { name: 'Edits' }).click();
  await until('the original', async () => page.page.url().includes(id));
  await page.go('#/sessions');
  await page.page.locator('.session .chip').getByText('fork of Edits').waitFor();
  await page.close();
});

test('a fork that ends in a call does not run', async ({ daemon, browser }) => {
  const id = await daemon.session('Original', { window });
  const { messageIds } = await daemon.append(id, [text('USER', 'List the files.'), call('open', 'bash', { command: 'ls' })]);
  const { session } = await daemon.post(`/v1/sessions/${id}:fork`, { message_id: messageIds[1] });
  const page = await Page.open(browser, daemon);
  await page.session(session.sessionId);
  await page.page.getByText('No result came').waitFor();
  equal(await page.page.locator('.row.running').count(), 0, 'calls that run');
  await page.session(id);
  await page.page.locator('.row.running').getByText('No result yet').waitFor();
  await page.close();
});

test('a restart of the daemon is survived without a gap', async ({ daemon, browser }) => {
  const id = await daemon.session('Restart', { window });
  await daemon.append(id, [text('USER', 'before')]);
  const page = await Page.open(browser, daemon);
  page.allowed.push(/ERR_|Failed to load resource/);
  await page.session(id);
  // As Markdown: a module that the kill keeps away would load the page again, which begins at its end.
  await page.page.locator('.prose p', { hasText: 'before' }).first().waitFor();
  await daemon.stop('SIGKILL');
  await page.page.locator('.live').getByText(/connecting|daemon away/).waitFor();
  await page.page.getByRole('textbox', { name: 'Prompt' }).fill('while it is away');
  await page.page.keyboard.press('Enter');
  await page.page.getByText('The daemon does not answer.').waitFor();
  await page.page.evaluate(() => document.activeElement.blur());
  await daemon.start();
  for (let number = 0; number < 20; number += 1) await daemon.append(id, [text('USER', `after ${number}.`)]);
  await page.page.locator('.live').getByText('live', { exact: true }).waitFor({ timeout: 20_000 });
  await page.page.getByText('after 19.').first().waitFor();
  // What was said of it is no longer true; what was written is still there.
  await page.page.getByText('The daemon does not answer.').waitFor({ state: 'detached' });
  equal(await page.page.getByRole('textbox', { name: 'Prompt' }).inputValue(), 'while it is away', 'the draft');
  await page.page.locator('.scroll').press('Home');
  await page.page.getByText('before').first().waitFor();
  const seen = new Set();
  for (let times = 0; times < 60 && seen.size < 21; times += 1) {
    for (const key of await page.page.locator('.row').evaluateAll((rows) => rows.map((row) => row.dataset.key))) seen.add(key);
    await page.page.mouse.move(400, 500);
    await page.page.mouse.wheel(0, 300);
    await page.page.evaluate(() => new Promise(requestAnimationFrame));
  }
  equal(seen.size, 21, 'rows, none lost and none doubled');
  // And the same after the page itself is loaded again.
  await page.page.reload();
  await page.page.getByText('after 19.').first().waitFor();
  await page.close();
});

test('a module that does not come comes with the page that is loaded again', async ({ daemon, browser }) => {
  const id = await daemon.session('Modules', { window });
  await daemon.append(id, [text('USER', 'one **word** in bold')]);
  const page = await Page.open(browser, daemon);
  page.allowed.push(/ERR_|Failed to load resource/);
  let refused = 0;
  await page.page.route('**/markdown-*.js', (route) => ((refused += 1) > 1 ? route.fallback() : route.abort()));
  await page.session(id);
  await page.page.getByText('one **word** in bold').first().waitFor();
  await page.page.locator('.prose strong', { hasText: 'word' }).first().waitFor();
  equal(refused, 2, 'requests for the module');
  await page.close();
});

test('the keyboard alone does everything', async ({ daemon, browser }) => {
  await daemon.session('Other one', { window });
  const id = await daemon.session('Keyboard one', { window, preset: 'opencode' });
  await daemon.append(id, conversation(2, 20));
  const page = await Page.open(browser, daemon);
  const { keyboard } = page.page;
  await page.page.getByText('Keyboard one').waitFor();
  await keyboard.press('/');
  await keyboard.type('keyboard');
  await until('one session', async () => (await page.page.locator('.session').count()) === 1);
  await keyboard.press('Enter');
  await page.page.locator('.one .row').first().waitFor();
  for (const _ of [1, 2, 3]) await keyboard.press('k');
  await page.page.locator('.row.chosen').waitFor();
  await keyboard.press('3');
  await page.page.locator('.one.view').waitFor();
  await keyboard.press('1');
  await keyboard.press('[');
  await page.page.locator('.banner').waitFor();
  await keyboard.press('Escape');
  await page.page.locator('.banner').waitFor({ state: 'detached' });
  await keyboard.press('c');
  await page.page.locator('.panel').waitFor();
  await keyboard.press('Escape');
  await page.page.locator('.panel').waitFor({ state: 'detached' });
  await keyboard.press('m');
  await keyboard.type('by keys alone');
  await keyboard.press('Enter');
  await page.page.locator('.queue').getByText('by keys alone').waitFor();
  await page.page.getByText('No agent is at work here').waitFor();
  await keyboard.press('Escape');
  await keyboard.press('o');
  await page.page.getByRole('heading', { name: 'Policy' }).waitFor();
  await keyboard.press('Escape');
  await keyboard.press('?');
  await page.page.getByRole('dialog').getByText('rewind to').waitFor();
  equal(await page.violations(), [], 'accessibility of the keys');
  await keyboard.press('Escape');
  await keyboard.press('g');
  await keyboard.press('s');
  await page.page.getByRole('heading', { name: 'Sessions' }).waitFor();
  await page.page.locator('.session').getByText('Keyboard one').waitFor();
  // Everything that takes the focus is reached, and shows it.
  await page.page.evaluate(() => document.activeElement?.blur());
  const names = new Set();
  for (let times = 0; times < 14; times += 1) {
    await keyboard.press('Tab');
    names.add(await page.page.evaluate(() => document.activeElement?.textContent?.trim().slice(0, 30) || document.activeElement?.getAttribute('aria-label')));
  }
  check(names.has('Operations') && [...names].some((name) => name?.includes('Keyboard one')), `reached: ${[...names]}`);
  await page.close();
});

test('a search finds what no view shows, and opens at its message', async ({ daemon, browser }) => {
  const { id } = await compacted(daemon, 'Searched');
  const other = await daemon.session('Elsewhere', { window });
  const { messageIds } = await daemon.append(other, [text('USER', 'The word heliotrope is here, and <b>there</b>.'), ...conversation(30, 4)], { 'longhand-actor': 'editor' });
  const page = await Page.open(browser, daemon);
  await page.page.getByText('Searched').waitFor();
  await page.page.keyboard.press('g');
  await page.page.keyboard.press('f');
  await page.page.getByRole('heading', { name: 'Search' }).waitFor();
  await page.page.keyboard.type('heliotrope');
  await page.page.locator('.hit mark').getByText('heliotrope').waitFor();
  await page.page.locator('.hit').getByText('Elsewhere').waitFor();
  await page.page.locator('.hit .meta').getByText('user · editor · text · ').waitFor();
  equal(await page.violations(), [], 'accessibility');
  await page.page.keyboard.press('Enter');
  await page.page.locator(`.row.chosen[data-key="${messageIds[0]}"]`).waitFor();
  // In one session, of what its summary covers.
  await page.session(id);
  await page.page.keyboard.press('/');
  await page.page.getByRole('searchbox').fill('jitter');
  await page.page.locator('.hit').first().waitFor();
  await page.page.locator('.hit').getByText('covered').last().click();
  await page.page.locator('.row.chosen.covered').waitFor();
  await page.page.keyboard.press('/');
  await page.page.getByRole('searchbox').fill('"');
  await page.page.getByRole('alert').waitFor();
  page.allowed.push(/400/);
  await page.close();
});

test('policies are compared and changed', async ({ daemon, browser }) => {
  const id = await daemon.session('Policies', { window, preset: 'opencode' });
  await daemon.append(id, conversation(2, 20));
  const page = await Page.open(browser, daemon);
  let asked = 0;
  page.page.on('request', (request) => (asked += request.url().includes('/v1/presets') ? 1 : 0));
  await page.session(id, '/policy');
  const panel = page.page.locator('.panel');
  await panel.getByLabel('Preset').selectOption({ label: 'claude-code@seed' });
  await panel.getByText('fields change').waitFor();
  const { session } = await daemon.get(`/v1/sessions/${id}`);
  equal(session.preset, 'opencode@seed', 'a comparison changes nothing');
  // Every line has the thresholds that the daemon decides by, its own first.
  const scales = await panel.locator('.levels li').evaluateAll((lines) => lines.map((line) => ({ text: line.querySelector('.scale').ariaLabel, marks: line.querySelectorAll('.level').length })));
  equal(scales[0].marks, session.thresholds.length, 'levels of the session');
  check(scales.length > 20, `${scales.length} presets`);
  // smolagents does nothing by itself.
  equal(scales.filter((scale) => !scale.marks).map((scale) => scale.text), ['no threshold'], 'presets without a threshold');
  const read = page.page.waitForResponse((response) => response.url().endsWith(`/v1/sessions/${id}`));
  await daemon.append(id, [text('USER', 'one more message')]);
  await (await read).finished();
  await page.page.evaluate(async () => {
    for (let frames = 0; frames < 3; frames += 1) await new Promise(requestAnimationFrame);
  });
  equal(asked, 1, 'requests for the presets, which no message changes');
  await panel.getByRole('button', { name: 'Simulate' }).click();
  await panel.locator('.simulation path').nth(1).waitFor();
  await panel.getByText('21 messages, by the policies').waitFor();
  check((await panel.locator('.simulation path').first().getAttribute('d')).length > 100, 'a curve is drawn');
  equal(await page.violations(), [], 'accessibility');
  await panel.getByRole('button', { name: /^Change to/ }).click();
  await panel.getByText('has claude-code@seed now').waitFor();
  equal((await daemon.get(`/v1/sessions/${id}`)).session.preset, 'claude-code@seed', 'the new preset');
  await page.page.locator('.timeline .mark.policy').waitFor({ state: 'attached' });
  await page.close();
});

test('operations show the daemon', async ({ daemon, browser }) => {
  await compacted(daemon);
  const page = await Page.open(browser, daemon);
  await page.go('#/operations');
  await page.page.getByText('healthy').waitFor();
  await page.page.locator('.tile canvas').nth(7).waitFor();
  await page.page.getByText('Compactions since the store was made').waitFor();
  check((await page.page.locator('.sheet-table').last().innerText()).includes('summary'), 'the compaction is counted');
  equal(await page.violations(), [], 'accessibility');
  await page.close();
  // Those of one project see none of it.
  const bound = await Page.open(browser, daemon, { link: daemon.link('--scopes', 'read', '--project', 'mine') });
  await bound.go('#/operations');
  await bound.page.getByText('are for operators').waitFor();
  await bound.go('#/sessions');
  await bound.page.getByText('No session yet').waitFor();
  equal(await bound.page.getByRole('button', { name: 'New' }).count(), 0, 'nothing to write with');
  await bound.close();
});

test('a phone has room for all of it', async ({ daemon, browser }) => {
  const { id } = await compacted(daemon, 'On the phone');
  const page = await Page.open(browser, daemon, { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  const overflow = () => page.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.page.getByText('On the phone').first().waitFor();
  check((await overflow()) <= 0, 'the list is no wider than the phone');
  await page.page.getByText('On the phone').first().tap();
  await page.page.locator('.one .row').first().waitFor();
  check((await overflow()) <= 0, 'the session is no wider than the phone');
  await page.page.getByRole('button', { name: 'View', exact: true }).tap();
  await page.page.locator('.one.view .row').first().waitFor();
  await page.page.getByRole('button', { name: 'Compaction' }).tap();
  await page.page.locator('.panel').waitFor();
  check((await overflow()) <= 0, 'the panel is no wider than the phone');
  equal(await page.violations(), [], 'accessibility');
  await page.close();
});

test('hostile content stays inert', async ({ daemon, browser }) => {
  const evil = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><svg onload="window.pwned=1"></svg> [link](javascript:window.pwned=1) <iframe src="https://evil.example"></iframe> ![p](https://evil.example/p.png) <style>*{display:none}</style> <a href="data:text/html,x">d</a> <form action="https://evil.example"><input name=q></form>';
  const id = await daemon.session(`${evil} \u202egnp.exe`, { window: { ...window, maxContextTokens: 1000000 } });
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const media = (mimeType, data, name) => ({ media: { mimeType, data, name } });
  await daemon.append(id, [
    text('USER', evil),
    { ...text('ASSISTANT', `${evil}\n\n\`\`\`html\n${evil}\n\`\`\``), finish: { reason: 'FINISH_REASON_STOP' } },
    text('USER', 'escapes \u001b[31mred\u001b[0m \u001b]0;title\u0007 bidi \u202eevil\u202c zero\u200bwidth'),
    call('c<script>', '<b>tool</b>', { command: evil }),
    result('c<script>', evil),
    { role: 'ROLE_USER', parts: [media('image/png', png, evil), media('image/png', Buffer.from('no picture').toString('base64'), 'fake.png'), media('image/svg+xml', Buffer.from('<svg onload="window.pwned=1" xmlns="http://www.w3.org/2000/svg"/>').toString('base64'), 'x.svg'), { media: { mimeType: 'image/png', uri: 'https://evil.example/track.png', name: 'far' } }, media('image/png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3]).toString('base64'), 'broken.png')] },
  ], { 'longhand-actor': '<b>evil</b>' });
  const big = 'x'.repeat(7_000_000);
  await daemon.append(id, [text('USER', 'a line of 7 MB'), call('big', 'cat', { command: 'cat big' }), result('big', big)]);
  await daemon.append(id, [text('USER', big), text('USER', 'the end')]);
  const page = await Page.open(browser, daemon);
  await page.page.locator('.session').getByText('onerror', { exact: false }).first().waitFor();
  await page.session(id);
  await page.page.getByText('the end').first().waitFor({ timeout: 30_000 });
  await page.page.locator('.scroll').press('Home');
  const first = page.page.locator('.row').first();
  await first.waitFor();
  for (const summary of await page.page.locator('.fold > summary').all()) await summary.click().catch(() => undefined);
  await page.page.getByText('⟦RLO⟧').first().waitFor();
  await page.page.getByText('␛[31mred').first().waitFor();
  await page.page.locator('.media img').first().waitFor();
  equal(await page.page.locator('.prose img, .prose svg, .prose iframe, .prose script, .prose style, .prose form, .prose input').count(), 0, 'elements of others');
  equal(await page.page.locator('main a[href^="javascript:"], main a[href^="data:"]').count(), 0, 'links of others');
  await page.page.getByText('not a picture that can be shown').first().waitFor();
  await until('the broken picture is no picture', async () => (await page.page.locator('.media img').evaluateAll((images) => images.every((image) => image.complete && image.naturalWidth > 0))));
  await page.page.locator('.scroll').press('End');
  const longest = await page.page.locator('.one').evaluate((element) => element.textContent.length);
  check(longest < 200_000, `${longest} characters are in the page`);
  await page.page.getByRole('button', { name: /Show more/ }).last().click();
  check((await page.page.evaluate(() => window.pwned)) === undefined, 'a script of others ran');
  await page.close();
});

test('a session of 10 000 messages is smooth from end to end', async ({ daemon, browser, figures }) => {
  const id = await daemon.session('Ten thousand', { window: { ...window, maxContextTokens: 100000 }, preset: 'opencode' });
  const messages = Array.from({ length: 1000 }, (_, number) => turn(number, 4)).flat();
  for (let from = 0; from < messages.length; from += 500) await daemon.append(id, messages.slice(from, from + 500));
  await daemon.settled(id);
  const page = await Page.open(browser, daemon);
  const begin = Date.now();
  await page.session(id);
  figures['session of 10 000 messages, first rows in ms'] = Date.now() - begin;
  await page.page.locator('.row').last().waitFor();
  // To the beginning at once, from there on without a gap, and back to the end.
  const { messages: beginning } = await daemon.get(`/v1/sessions/${id}/messages?page_size=1000`);
  const home = Date.now();
  page.requests.length = 0;
  await page.page.keyboard.press('Home');
  await page.page.locator(`[data-key="${beginning[0].messageId}"]`).waitFor();
  figures['Home in 10 000 messages, in ms'] = Date.now() - home;
  equal(page.requests.filter((url) => url.includes('/messages?')).length, 1, 'pages that Home reads');
  const down = await page.page.evaluate(async () => {
    const list = document.querySelector('.one .scroll');
    const seen = new Set();
    for (let times = 0; times < 900 && seen.size < 700; times += 1) {
      for (const row of document.querySelectorAll('.row[data-revision]')) seen.add(row.dataset.key);
      list.dispatchEvent(new WheelEvent('wheel', { deltaY: 900 }));
      list.scrollTop += 900;
      await new Promise(requestAnimationFrame);
    }
    return [...seen];
  });
  check(down.length >= 700, `${down.length} rows are seen on the way down`);
  equal(down.slice(0, 690), beginning.slice(0, 690).map(({ messageId }) => messageId), 'rows from the beginning');
  await page.page.keyboard.press('End');
  await page.page.locator(`[data-key="${(await daemon.get(`/v1/sessions/${id}/messages?reverse=true&page_size=1`)).messages[0].messageId}"]`).waitFor();
  let most = await page.count();
  // From the newest message to the first, by the wheel, with the time of each frame.
  const scrolled = await page.page.evaluate(async () => {
    const list = document.querySelector('.one .scroll');
    const frames = [];
    let nodes = 0;
    let last = performance.now();
    let still = 0;
    for (let times = 0; times < 6000 && still < 200; times += 1) {
      const before = list.scrollTop;
      list.dispatchEvent(new WheelEvent('wheel', { deltaY: -2400 }));
      list.scrollTop -= 2400;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      frames.push(now - last);
      last = now;
      nodes = Math.max(nodes, document.getElementsByTagName('*').length);
      const older = document.querySelector('.older');
      still = list.scrollTop === before && list.scrollTop < 5 && !older ? still + 1 : 0;
      if (still > 20) break;
    }
    frames.sort((left, right) => left - right);
    const at = (share) => Math.round(frames[Math.floor((frames.length - 1) * share)] * 10) / 10;
    return { frames: frames.length, median: at(0.5), p95: at(0.95), p99: at(0.99), worst: at(1), nodes, first: document.querySelector('.row[data-revision]')?.dataset.revision };
  });
  figures['10 000 messages scrolled'] = scrolled;
  const { messages: oldest } = await daemon.get(`/v1/sessions/${id}/messages?page_size=1`);
  equal(scrolled.first, oldest[0].revision, 'the first message is reached');
  most = Math.max(most, scrolled.nodes);
  check(most < 6000, `${most} elements are in the page`);
  check(scrolled.median < 50, `a frame takes ${scrolled.median} ms`);
  await page.page.locator('.scroll').press('End');
  await page.page.locator(`[data-key="${(await daemon.get(`/v1/sessions/${id}/messages?reverse=true&page_size=1`)).messages[0].messageId}"]`).waitFor();
  await page.close();
});

test('what is committed is soon seen, and the first load is small', async ({ daemon, browser, figures }) => {
  const id = await daemon.session('Delay', { window });
  await daemon.append(id, [text('USER', 'begin')]);
  const cold = await Page.open(browser, daemon);
  const sizes = [];
  cold.page.on('response', async (response) => sizes.push((await response.request().sizes().catch(() => ({ responseBodySize: 0 }))).responseBodySize));
  const begin = Date.now();
  await cold.page.reload();
  await cold.page.locator('.session').first().waitFor();
  figures['first load in ms'] = Date.now() - begin;
  await cold.close();
  const page = await Page.open(browser, daemon);
  await page.session(id);
  await page.page.evaluate(() => {
    window.seen = {};
    new MutationObserver(() => {
      for (const match of document.querySelector('.one .sheet').textContent.matchAll(/mark-(\d+)\./g)) {
        if (window.seen[match[1]]) continue;
        window.seen[match[1]] = 'soon';
        requestAnimationFrame(() => requestAnimationFrame(() => (window.seen[match[1]] = Date.now())));
      }
    }).observe(document.querySelector('.one .sheet'), { childList: true, subtree: true, characterData: true });
  });
  const delays = [];
  for (let number = 0; number < 100; number += 1) {
    await daemon.append(id, [text('USER', `mark-${number}.`)]);
    const committed = Date.now();
    const seen = await until('it is seen', () => page.page.evaluate((key) => (typeof window.seen[key] === 'number' ? window.seen[key] : 0), number));
    delays.push(Math.max(0, seen - committed));
  }
  delays.sort((left, right) => left - right);
  figures['commit to pixel in ms'] = { median: delays[50], p99: delays[98] };
  check(delays[50] < 250, `a message is seen ${delays[50]} ms after its commit`);
  await page.close();
});

const browser = await launch();
const figures = {};
let failed = 0;
for (const { name, run } of tests) {
  if (only.length && !only.some((part) => name.includes(part))) continue;
  const daemon = new Daemon(program);
  const begin = Date.now();
  try {
    await daemon.start();
    await run({ daemon, browser, figures });
    console.log(`ok      ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${error.stack ?? error}`);
    const open = browser.contexts().flatMap((context) => context.pages());
    if (process.env.SHOTS && open.length) await open.at(-1).screenshot({ path: `${process.env.SHOTS}/failed-${failed}.png` }).catch(() => undefined);
    for (const context of browser.contexts()) await context.close();
  }
  await daemon.remove().catch(() => undefined);
}
await browser.close();
console.log(JSON.stringify(figures, null, 2));
process.exit(failed ? 1 : 0);
