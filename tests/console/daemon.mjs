// A daemon of the built program in a folder of its own, and what the tests write to it.
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

process.setMaxListeners(100);

export class Daemon {
  #child;

  constructor(program) {
    this.program = program;
    this.folder = mkdtempSync(join(tmpdir(), 'longhand-console-'));
    process.on('exit', () => this.#child?.kill('SIGKILL'));
  }

  /** Starts it, or starts it again at the same address. */
  async start() {
    const listen = this.url ? ['--listen', this.url.replace('http://', '')] : [];
    this.#child = spawn(this.program, ['--json', 'serve', '--data-dir', this.folder, ...listen], { stdio: ['ignore', 'pipe', 'ignore'] });
    const line = await new Promise((resolve, reject) => {
      let text = '';
      this.#child.stdout.on('data', (chunk) => {
        text += chunk;
        if (text.includes('\n')) resolve(text.split('\n')[0]);
      });
      this.#child.once('exit', (code) => reject(new Error(`the daemon ended with ${code}`)));
    });
    this.url = JSON.parse(line).tcp;
    this.secret = readFileSync(join(this.folder, 'access-token'), 'utf8').trim();
  }

  async stop(signal = 'SIGTERM') {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill(signal);
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  cli(...args) {
    return execFileSync(this.program, ['--server', `unix:${join(this.folder, 'longhand.sock')}`, ...args], { encoding: 'utf8' }).trim();
  }

  link(...args) {
    return this.cli('console', ...args);
  }

  async call(method, path, body, headers = {}) {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.secret}`, 'content-type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : {};
  }
  get = (path) => this.call('GET', path);
  post = (path, body = {}, headers = {}) => this.call('POST', path, body, headers);

  async session(title, more = {}) {
    const made = await this.post('/v1/sessions', { title, ...more });
    return made.session.sessionId;
  }

  append(id, messages, headers) {
    return this.post(`/v1/sessions/${id}/messages`, { messages }, headers);
  }

  async view(id, query = '') {
    const frames = await this.get(`/v1/sessions/${id}/view${query}`);
    return { header: frames[0].header, messages: frames.flatMap((frame) => frame.messages?.messages ?? []), end: frames.at(-1).end };
  }

  /** Waits until nothing of a session is due or pending. */
  async settled(id) {
    for (let times = 0; times < 400; times += 1) {
      const { compactions = [] } = await this.get(`/v1/sessions/${id}/compactions`);
      if (compactions.length && compactions.every((one) => !['COMPACTION_STATE_READY', 'COMPACTION_STATE_RUNNING'].includes(one.state))) return compactions;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error('no compaction ended');
  }
}

export const text = (role, words, more = {}) => ({ role: `ROLE_${role}`, parts: [{ text: { text: words } }], ...more });
export const call = (id, tool, input, words = '') => ({
  role: 'ROLE_ASSISTANT',
  parts: [...(words ? [{ text: { text: words } }] : []), { toolCall: { callId: id, tool, inputJson: JSON.stringify(input) } }],
  finish: { reason: 'FINISH_REASON_TOOL_CALLS' },
});
export const result = (id, output, status = 'COMPLETED') => ({ role: 'ROLE_TOOL', parts: [{ toolResult: { callId: id, status: `TOOL_RESULT_STATUS_${status}`, output } }] });
