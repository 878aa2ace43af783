// The page's place, in the fragment of its address: `#/sessions?…`, `#/session/ID/PANEL?…`, `#/operations`.

export interface Place {
  page: string;
  id: string;
  panel: string;
  query: URLSearchParams;
}

/** The fragment, if it is a place: that of a link is none. */
const place = () => (location.hash.startsWith('#login=') ? '' : location.hash);

function read(): Place {
  const [path = '', query = ''] = place().replace(/^#\/?/, '').split('?');
  const [page = '', id = '', panel = ''] = path.split('/').map(decodeURIComponent);
  return { page: page || 'sessions', id, panel, query: new URLSearchParams(query) };
}

class Router {
  place = $state.raw<Place>(read());

  constructor() {
    addEventListener('hashchange', (event) => {
      if (!new URL(event.newURL).hash.startsWith('#login=')) this.place = read();
    });
  }

  /** Shows a place at once; as a step that Back takes back, unless it replaces the present one. */
  go(hash: string, replace = false): void {
    if (hash !== location.hash) history[replace ? 'replaceState' : 'pushState'](null, '', hash);
    this.place = read();
  }
}

export const router = new Router();
export const toSession = (id: string, panel = '', query = '') => `#/session/${encodeURIComponent(id)}${panel && `/${panel}`}${query && `?${query}`}`;
