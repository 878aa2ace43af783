// Text of others, made harmless: it is only ever shown as text, and what could deceive the eye is visible.

/** Controls (escapes of terminals among them), and marks that reorder or hide text. */
// eslint-disable-next-line no-control-regex
const DECEPTIVE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

const NAMES: Record<number, string> = {
  0x061c: 'ALM', 0x200b: 'ZWSP', 0x200e: 'LRM', 0x200f: 'RLM', 0x202a: 'LRE', 0x202b: 'RLE', 0x202c: 'PDF', 0x202d: 'LRO',
  0x202e: 'RLO', 0x2066: 'LRI', 0x2067: 'RLI', 0x2068: 'FSI', 0x2069: 'PDI', 0xfeff: 'BOM',
};

function visibleMark(mark: string): string {
  const code = mark.charCodeAt(0);
  // Joiners belong to words of some scripts and to pictures; they neither reorder nor hide.
  if (code === 0x200c || code === 0x200d) return mark;
  if (code === 0x0d) return '';
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return `\u27e6${NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`}\u27e7`;
}

/** The text with everything deceptive as a visible sign. */
export function inert(text: string): string {
  return text.replace(DECEPTIVE, visibleMark);
}

/** The same on one line, for titles and names. */
export function inertLine(text: string | undefined, most = 300): string {
  const line = inert((text ?? '').slice(0, most)).replace(/\s+/g, ' ').trim();
  return (text ?? '').length > most ? `${line}…` : line;
}

const SIGNATURES: [string, number[]][] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', [0x52, 0x49, 0x46, 0x46]],
];

/** The picture in bytes that begin as one of the formats which browsers decode and no script can be in; else none. */
export function picture(base64: string): Blob | null {
  let binary: string;
  try {
    binary = atob(base64.replaceAll('-', '+').replaceAll('_', '/'));
  } catch {
    return null;
  }
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const found = SIGNATURES.find(([, signature]) => signature.every((byte, at) => bytes[at] === byte));
  if (!found) return null;
  if (found[0] === 'image/webp' && String.fromCharCode(...bytes.slice(8, 12)) !== 'WEBP') return null;
  return new Blob([bytes], { type: found[0] });
}
