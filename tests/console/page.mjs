// A browser with a page of the console, which fails on any error that the page reports.
import { chromium } from 'playwright-core';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { chromiumPath } from './chromium.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A folder with a build of the console, which stands in for the one in the program. */
const built = process.env.CONSOLE_DIST;

/** The file of the folder for an address of the console. */
function builtFile(url) {
  const { pathname } = new URL(url);
  const path = pathname === '/' ? 'index.html' : /^\/console\/[^/]+\.\w+$/.test(pathname) ? join('console', basename(pathname)) : '';
  return path && existsSync(join(built, path)) ? join(built, path) : null;
}

export async function browser() {
  return chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
}

export class Page {
  errors = [];
  /** Errors that a test causes itself. */
  allowed = [];
  requests = [];

  static async open(browser, daemon, options = {}) {
    const { link, ...context } = options;
    const self = new Page();
    self.daemon = daemon;
    self.context = await browser.newContext({ viewport: { width: 1440, height: 900 }, bypassCSP: false, reducedMotion: 'reduce', ...context });
    if (built) {
      await self.context.route((url) => builtFile(url) !== null, (route) => route.fulfill({ path: builtFile(route.request().url()) }));
    }
    self.page = await self.context.newPage();
    self.page.setDefaultTimeout(40_000);
    self.page.on('console', (message) => message.type() === 'error' && self.errors.push(`${message.text()} ${message.location().url}`));
    self.page.on('pageerror', (error) => self.errors.push(error.stack || String(error)));
    self.page.on('request', (request) => self.requests.push(request.url()));
    self.page.on('dialog', (dialog) => {
      self.errors.push(`a dialog opened: ${dialog.message()}`);
      void dialog.dismiss();
    });
    if (link !== null) {
      await self.page.goto(link ?? daemon.link());
      await self.page.locator('.top').waitFor();
    }
    return self;
  }

  async go(hash) {
    await this.page.goto(`${this.daemon.url}/${hash}`);
  }
  async session(id, query = '') {
    await this.go(`#/session/${id}${query}`);
    await this.page.locator('.one .row, .one .empty p').first().waitFor();
  }
  /** Chooses a message, for which the next key is. */
  async choose(key) {
    const chosen = this.page.locator(`.row.chosen[data-key="${key}"]`);
    // A row that is drawn anew under the pointer takes no click.
    for (let attempt = 0; attempt < 3 && !(await chosen.isVisible()); attempt++) {
      await this.page.locator(`[data-key="${key}"] .role`).first().click();
      await chosen.waitFor({ timeout: 5_000 }).catch(() => {});
    }
    await chosen.waitFor();
  }
  get rows() {
    return this.page.locator('.one .row');
  }
  count() {
    return this.page.evaluate(() => document.getElementsByTagName('*').length);
  }

  /** Violations of accessibility, in words. */
  async violations() {
    // A page's own policy would refuse the script as an element.
    const found = await this.page.evaluate(`${axe}; axe.run(document, { resultTypes: ['violations'] })`);
    return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary?.split('\n')[1] ?? ''}`).join(' | ')}`);
  }

  async close() {
    const foreign = this.requests.filter((url) => !url.startsWith(this.daemon.url) && !url.startsWith('blob:') && !url.startsWith('data:') && !url.startsWith('about:'));
    await this.context.close();
    if (foreign.length) throw new Error(`requests left the daemon: ${foreign.join(' ')}`);
    const bad = this.errors.filter((error) => !this.allowed.some((pattern) => pattern.test(error)));
    if (bad.length) throw new Error(`the page reported errors:\n${bad.join('\n')}`);
  }
}

export async function until(what, condition, ms = 10_000) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    last = await condition();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`in vain: ${what} (${JSON.stringify(last)})`);
}
