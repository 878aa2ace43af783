// Markdown as a tree of harmless elements. Loaded when the first text is shown.
import DOMPurify from 'dompurify';
import { Marked } from 'marked';
import { highlight } from './highlight';

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escaped = (text: string) => text.replace(/[&<>"]/g, (mark) => ESCAPES[mark] ?? mark);

// A line of the text is a line of the page, as it was written. HTML in a text is shown as the text that it is; what is sanitized below has none of others' elements to begin with.
const marked = new Marked({ gfm: true, breaks: true, renderer: { html: ({ text }) => escaped(text), image: ({ href, text }) => escaped(`${text} (${href})`) } });

const TAGS = [
  'a', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'pre', 's', 'strong', 'sub', 'sup',
  'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
];

/** Text of others as elements: no pictures, no forms, no styles, no ids; links lead out with nothing of ours. */
export function markdown(text: string): DocumentFragment {
  const html = marked.parse(text, { async: false });
  const tree = DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'class'],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  });
  for (const link of tree.querySelectorAll('a')) {
    const target = link.getAttribute('href');
    if (!target) {
      link.replaceWith(...link.childNodes);
      continue;
    }
    link.rel = 'noopener noreferrer nofollow';
    link.target = '_blank';
    // What a link says is no promise about where it leads.
    link.title = target;
  }
  // Headings of others are none of the page's outline.
  for (const heading of tree.querySelectorAll('h1,h2,h3,h4,h5,h6')) {
    const line = document.createElement('p');
    line.className = `heading ${heading.tagName.toLowerCase()}`;
    line.append(...heading.childNodes);
    heading.replaceWith(line);
  }
  for (const code of tree.querySelectorAll<HTMLElement>('pre > code')) {
    const language = /language-([\w+-]+)/.exec(code.className)?.[1] ?? '';
    code.removeAttribute('class');
    code.parentElement?.setAttribute('tabindex', '0');
    void highlight(code, language);
  }
  return tree;
}
