// Colours for code, loaded when the first code in a known language is shown.
import type { HLJSApi } from 'highlight.js';
import { lazily } from './lazily';

const MOST = 60_000;
const ALIASES: Record<string, string> = {
  rs: 'rust', ts: 'typescript', tsx: 'typescript', js: 'javascript', jsx: 'javascript', py: 'python', sh: 'bash', shell: 'bash', zsh: 'bash',
  console: 'bash', yml: 'yaml', toml: 'ini', html: 'xml', svelte: 'xml', patch: 'diff', golang: 'go',
};
const LOADERS: Record<string, () => Promise<{ default: Parameters<HLJSApi['registerLanguage']>[1] }>> = {
  bash: () => import('highlight.js/lib/languages/bash'),
  css: () => import('highlight.js/lib/languages/css'),
  diff: () => import('highlight.js/lib/languages/diff'),
  go: () => import('highlight.js/lib/languages/go'),
  ini: () => import('highlight.js/lib/languages/ini'),
  java: () => import('highlight.js/lib/languages/java'),
  javascript: () => import('highlight.js/lib/languages/javascript'),
  json: () => import('highlight.js/lib/languages/json'),
  python: () => import('highlight.js/lib/languages/python'),
  rust: () => import('highlight.js/lib/languages/rust'),
  sql: () => import('highlight.js/lib/languages/sql'),
  typescript: () => import('highlight.js/lib/languages/typescript'),
  xml: () => import('highlight.js/lib/languages/xml'),
  yaml: () => import('highlight.js/lib/languages/yaml'),
};

/** Colours an element's text as code; text in an unknown language, and a long one, stays as it is. */
export async function highlight(element: HTMLElement, language: string): Promise<void> {
  const name = ALIASES[language] ?? language;
  const load = LOADERS[name];
  const text = element.textContent ?? '';
  if (!load || text.length > MOST) return;
  const [{ default: hljs }, grammar] = await lazily(() => Promise.all([import('highlight.js/lib/core'), load()]));
  if (!hljs.getLanguage(name)) hljs.registerLanguage(name, grammar.default);
  // Its output is the escaped text in spans with classes; it goes through the sanitizer all the same.
  const { default: DOMPurify } = await lazily(() => import('dompurify'));
  const html = hljs.highlight(text, { language: name, ignoreIllegals: true }).value;
  element.replaceChildren(DOMPurify.sanitize(html, { RETURN_DOM_FRAGMENT: true, ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'] }));
}
