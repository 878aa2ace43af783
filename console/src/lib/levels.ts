// The thresholds of a policy's levels as the daemon decides by them.
import type { LevelThresholdJson } from '../gen/longhand/v1/session_pb';
import { num } from './format';

export const levelsOf = (thresholds: LevelThresholdJson[] | undefined) =>
  (thresholds ?? []).map((one) => ({ level: (one.level ?? '').replace('COMPACTION_LEVEL_', '').toLowerCase(), tokens: num(one.dueTokens) }));
