// One stream of events from the daemon, which survives whatever a connection dies of.
//
// It is resumed by the last id. A dead socket looks quiet, so that silence beyond two heartbeats counts as one. A
// daemon that cannot continue from the cursor says `resync`, and the page reads everything again.
import { session } from './login.svelte';

const SILENCE_MS = 25_000;
const RETRY_MS = [300, 700, 1500, 3000, 5000];
/** Attempts, of about 15 seconds. */
const LOST_AFTER = 6;

export interface StreamOptions {
  /** The address with the cursor to resume from; none at first. */
  url: (after: string | null) => string;
  /** The names of the events, besides `ready`, `heartbeat`, `resync` and `failure`. */
  names: readonly string[];
  /** An event, with its data. */
  take: (name: string, data: unknown) => void;
  /** The stream begins, at first or anew: it brings whatever comes from now on, and before that there may be a gap. */
  begin: () => void;
}

export class Stream {
  state = $state<'connecting' | 'live' | 'away'>('connecting');
  /** True once more than a restart would explain has passed without an answer. */
  isLost = $state(false);
  #options: StreamOptions;
  #source: EventSource | null = null;
  #last: string | null = null;
  #heard = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watch: ReturnType<typeof setInterval>;
  #visible = () => {
    if (document.visibilityState === 'visible' && Date.now() - this.#heard > SILENCE_MS) this.#again();
  };

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#watch = setInterval(() => {
      if (this.#source && Date.now() - this.#heard > SILENCE_MS) this.#again();
    }, 5_000);
    document.addEventListener('visibilitychange', this.#visible);
    this.#open();
  }

  close(): void {
    clearInterval(this.#watch);
    clearTimeout(this.#timer);
    document.removeEventListener('visibilitychange', this.#visible);
    this.#source?.close();
    this.#source = null;
  }

  #open(): void {
    this.#heard = Date.now();
    let isNew = this.#last === null;
    const source = new EventSource(this.#options.url(this.#last));
    this.#source = source;
    const on = (name: string, act: (data: unknown) => void) => {
      source.addEventListener(name, (event) => {
        if (source !== this.#source) return;
        const message = event as MessageEvent<string>;
        this.#heard = Date.now();
        if (isNew && name !== 'resync') this.#options.begin();
        isNew = false;
        if (message.lastEventId) this.#last = message.lastEventId;
        act(message.data ? JSON.parse(message.data) : null);
      });
    };
    const alive = () => {
      this.state = 'live';
      this.isLost = false;
      this.#failures = 0;
    };
    source.onopen = () => {
      if (source === this.#source) {
        this.#heard = Date.now();
        alive();
      }
    };
    on('ready', alive);
    on('heartbeat', alive);
    on('failure', () => this.#again());
    on('resync', () => {
      this.#last = null;
      this.#again();
    });
    for (const name of this.#options.names) on(name, (data) => this.#options.take(name, data));
    source.onerror = () => {
      if (source === this.#source) this.#again();
    };
  }

  #again(): void {
    this.#source?.close();
    this.#source = null;
    if (this.state === 'live') this.state = 'connecting';
    const wait = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)] ?? 5000;
    this.#failures += 1;
    if (this.#failures > 2) {
      this.state = 'away';
      this.isLost = this.#failures > LOST_AFTER;
      // A stream does not tell why it was refused.
      void fetch('/console/session').then((answer) => answer.status === 401 && session.lost(), () => undefined);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#open(), wait);
  }
}
