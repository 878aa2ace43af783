// The thresholds of a policy's levels, in tokens, for the timeline. The daemon decides by its own; limits of forms that
// this does not know are left out.
interface Window {
  maxContextTokens?: string;
  maxInputTokens?: string;
  maxOutputTokens?: string;
}
type Limit = Record<string, unknown>;

export interface Threshold {
  level: string;
  tokens: number;
}

function limitTokens(limit: Limit, window: Window): number | null {
  const context = Number(window.maxContextTokens ?? 0);
  const of = (name: string) => (limit[name] ?? null) as Record<string, number> | number | null;
  const ratio = of('ratio');
  if (typeof ratio === 'number') return ratio * context;
  const tokens = of('tokens');
  if (typeof tokens === 'number') return tokens;
  const reserve = of('reserve_tokens');
  if (typeof reserve === 'number') return context - reserve;
  const usable = of('usable');
  if (usable && typeof usable === 'object') {
    if (window.maxInputTokens) return Number(window.maxInputTokens) - (usable.buffer_tokens ?? 0);
    return context - Math.min(Number(window.maxOutputTokens ?? usable.output_cap_tokens ?? 0), usable.output_cap_tokens ?? 0);
  }
  const buffered = of('buffered');
  if (buffered && typeof buffered === 'object') {
    const [share, rest] = [(buffered.ratio ?? 1) * context, context - (buffered.reserve_tokens ?? 0)];
    return Math.max(Math.min(share, rest), (buffered.floor_ratio ?? 0) * Math.min(share, rest));
  }
  const relative = of('relative');
  if (relative && typeof relative === 'object') {
    const { limit: other, offset_tokens: offset, reserve_tokens: rest } = relative as unknown as { limit?: Limit; offset_tokens?: number; reserve_tokens?: number };
    const base = other ? limitTokens(other, window) : null;
    return base === null ? null : Math.max(base + (offset ?? 0), context - (rest ?? context));
  }
  return null;
}

export function thresholds(policyJson: string | undefined, window: Window | undefined): Threshold[] {
  if (!policyJson || !window || !Number(window.maxContextTokens ?? 0)) return [];
  let policy: Record<string, { threshold?: { limit?: Limit } } | null>;
  try {
    policy = JSON.parse(policyJson) as typeof policy;
  } catch {
    return [];
  }
  return ['micro', 'auto', 'deep'].flatMap((level) => {
    const limit = policy[level]?.threshold?.limit;
    const tokens = limit ? limitTokens(limit, window) : null;
    return tokens !== null && tokens > 0 ? [{ level, tokens }] : [];
  });
}
