// The session of the console: opened by a link, kept in a cookie that no script can read.
import { changeToken } from './token';

export interface Who {
  principal: string;
  tenant: string;
  scopes: string[];
  isOperator: boolean;
  expireTime: string | null;
  version: string;
}

class Login {
  who = $state<Who | null>(null);
  state = $state<'asking' | 'open' | 'closed' | 'away'>('asking');
  message = $state('');

  /** Opens the console by the link in the address, or by the cookie of an earlier one. */
  async begin(): Promise<void> {
    const given = /^#login=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
    // The secret leaves the address before anything else can fail.
    if (given) history.replaceState(null, '', location.pathname);
    try {
      const response = given
        ? await fetch('/console/login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ link: given }) })
        : await fetch('/console/session');
      if (response.ok) {
        this.who = (await response.json()) as Who;
        this.state = 'open';
        return;
      }
      const status = (await response.json()) as { message?: string };
      if (given) {
        // Whoever is logged in already may stay.
        const earlier = await fetch('/console/session');
        if (earlier.ok) {
          this.who = (await earlier.json()) as Who;
          this.state = 'open';
          return;
        }
        this.message = status.message ?? '';
      }
      this.state = 'closed';
    } catch {
      this.state = 'away';
      setTimeout(() => void this.begin(), 2000);
    }
  }

  can(scope: string): boolean {
    return this.who?.scopes.includes(scope) ?? false;
  }

  /** A call was refused for want of a session. */
  lost(): void {
    if (this.state !== 'open') return;
    this.state = 'closed';
    this.message = 'The session is over or was revoked.';
  }

  async leave(): Promise<void> {
    await fetch('/console/logout', { method: 'POST', headers: { 'longhand-console-token': changeToken() } });
    this.who = null;
    this.message = '';
    this.state = 'closed';
  }
}

export const session = new Login();
