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

/** How the fragment of a link begins; the rest is its secret. */
const LINK = '#login=';

/** The secret of a link in the address, which shows another place before anything else can fail. */
function taken(place = location.pathname): string {
  if (!location.hash.startsWith(LINK)) return '';
  const secret = location.hash.slice(LINK.length);
  history.replaceState(null, '', place);
  return secret;
}

class Login {
  who = $state<Who | null>(null);
  state = $state<'asking' | 'open' | 'closed' | 'away'>('asking');
  message = $state('');
  /** A link that waits for a word of the user, whose session it would replace. */
  offered = $state('');

  constructor() {
    // A link that is pasted where the page is shown already changes the fragment alone.
    addEventListener('hashchange', (event) => {
      const { pathname, hash } = new URL(event.oldURL);
      const link = taken(hash.startsWith(LINK) ? pathname : pathname + hash);
      if (link) void this.begin(link);
    });
  }

  /** Opens the console by a link, or by the cookie of an earlier one. */
  async begin(link = taken()): Promise<void> {
    try {
      // Whoever lures a user into a session of its own would see what is written there: none is replaced unasked.
      if ((!link || changeToken()) && (await this.resumed())) {
        this.message = '';
        this.offered = link;
      } else if (link) {
        await this.open(link);
      } else {
        this.state = 'closed';
      }
    } catch {
      this.state = 'away';
      setTimeout(() => void this.begin(link), 2000);
    }
  }

  /** Takes the offered link in place of the session that is open. */
  async replace(): Promise<void> {
    const link = this.offered;
    try {
      // What the page has is the other session's.
      if (await this.open(link, false)) location.reload();
    } catch {
      this.message = 'The daemon does not answer.';
    }
  }

  private async resumed(): Promise<boolean> {
    const response = await fetch('/console/session');
    if (response.ok) {
      this.who = (await response.json()) as Who;
      this.state = 'open';
    }
    return response.ok;
  }

  private async open(link: string, closes = true): Promise<boolean> {
    const response = await fetch('/console/login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ link }) });
    if (response.ok) {
      this.who = (await response.json()) as Who;
      this.message = '';
      this.state = 'open';
    } else {
      this.message = ((await response.json()) as { message?: string }).message ?? '';
      if (closes) this.state = 'closed';
    }
    return response.ok;
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
