// A conversation of an agent that mends a program: what a session of a coding agent looks like.
import { call, result, text } from './daemon.mjs';

const FILES = ['src/queue.rs', 'src/worker.rs', 'src/retry.rs', 'tests/queue.rs', 'src/lib.rs', 'src/clock.rs'];
const ASKS = [
  'The queue loses jobs when two workers claim at the same time. Find out why, and mend it.',
  'Good. Now let a retry wait with jitter, so that workers do not all come back at once.',
  'A job that was cancelled still ran once yesterday. Can that happen?',
  'Write down how leases work, in a few sentences and a table.',
];
const source = (name, lines) =>
  Array.from({ length: lines }, (_, at) => `${String(at + 1).padStart(4)}  ${at % 7 === 0 ? `/// Part ${at} of ${name}.` : `    let lease_${at} = queue.claim(worker, now + ${at});`}`).join('\n');

export function turn(number, lines = 60) {
  const file = FILES[number % FILES.length];
  const id = (what) => `call-${number}-${what}`;
  return [
    text('USER', ASKS[number % ASKS.length]),
    call(id('grep'), 'grep', { pattern: 'fn claim', path: 'src' }, 'I look at where jobs are claimed.'),
    result(id('grep'), `${file}:41:    pub fn claim(&mut self, worker: WorkerId, now: Instant) -> Option<Job> {\nsrc/worker.rs:88:        let Some(job) = queue.claim(self.id, now) else { continue };`),
    call(id('read'), 'read', { file_path: file }),
    result(id('read'), source(file, lines)),
    call(id('edit'), 'edit', {
      file_path: file,
      old_string: 'let job = self.ready.pop_front()?;\nself.leases.insert(job.id, worker);\nSome(job)',
      new_string: 'let job = self.ready.pop_front()?;\nlet epoch = self.epochs.next(job.id);\nself.leases.insert(job.id, Lease { worker, epoch });\nSome(job)',
    }),
    result(id('edit'), 'The file has been updated.'),
    call(id('test'), 'bash', { command: 'cargo test queue' }),
    number % 3 === 1
      ? result(id('test'), 'test queue::two_workers ... FAILED\nassertion failed: left == right\n  left: 2\n right: 1', 'ERROR')
      : result(id('test'), `running 14 tests\n${Array.from({ length: 14 }, (_, at) => `test queue::case_${at} ... ok`).join('\n')}\n\ntest result: ok. 14 passed; 0 failed`),
    text(
      'ASSISTANT',
      `### What was wrong\n\nTwo workers read the same head before either wrote its lease. \`claim\` now takes an **epoch** with the lease, and a commit with an old epoch is refused.\n\n\`\`\`rust\nlet epoch = self.epochs.next(job.id);\nself.leases.insert(job.id, Lease { worker, epoch });\n\`\`\`\n\n| case | before | now |\n| --- | --- | --- |\n| two claims | both run | the second gets nothing |\n| lost worker | job is stuck | lease ends, job is ready |\n\nNext: the same for \`${FILES[(number + 1) % FILES.length]}\`.`,
      { model: 'sonnet-4', provider: 'example', finish: { reason: 'FINISH_REASON_STOP' } },
    ),
  ];
}
export const conversation = (turns, lines) => Array.from({ length: turns }, (_, number) => turn(number, lines)).flat();
