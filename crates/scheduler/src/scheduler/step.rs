//! The scheduler's next work: a pure function of its state and an input.

use super::retry::delay;
use crate::limits;
use crate::store::SessionKey;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The scheduler's state. Everything else is in the database.
#[derive(Debug, Default)]
pub(super) struct SchedulerState {
    /// Jobs that were handed to a worker and have not come back.
    jobs: HashSet<i64>,
    /// Sessions that a worker evaluates, or whose job a worker runs.
    sessions: HashSet<SessionKey>,
    /// Sessions that get no work for a while because the last work on them failed.
    paused: HashMap<SessionKey, Pause>,
}

/// The pause of a session after failed work.
#[derive(Debug)]
struct Pause {
    /// Number of consecutive failures.
    failures: i64,
    until: Instant,
}

/// An input of the scheduler.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// Due sessions and ready jobs in the database. The lists may contain work in progress.
    Found {
        /// Sessions whose due mark is set.
        due: Vec<SessionKey>,
        /// Jobs that are ready, with their sessions.
        ready: Vec<(i64, SessionKey)>,
        /// The time of the reading.
        now: Instant,
    },
    /// A worker finished this work.
    Finished(WorkItem),
    /// A worker failed or panicked at this work: an immediate retry would only fail again.
    Failed(WorkItem, Instant),
    /// The queue of the workers is full, so this work was not handed out.
    Returned(WorkItem),
}

/// Work for a worker.
#[derive(Debug, Clone)]
pub(super) enum WorkItem {
    /// Evaluate a due session.
    Evaluate(SessionKey),
    /// Run a job.
    Run {
        /// The job's row.
        job: i64,
        /// Its session.
        session: SessionKey,
    },
}

/// Applies an input, and returns the work for the workers, in this order. A session is with one worker at most, so that
/// an evaluation never races the job that it requested.
pub(super) fn step(state: &mut SchedulerState, input: Input) -> Vec<WorkItem> {
    let mut effects = Vec::new();
    match input {
        Input::Found { due, ready, now } => {
            state.reclaim(&due, &ready, now);
            for (job, session) in ready {
                if state.is_free(session, now) && state.jobs.insert(job) {
                    state.sessions.insert(session);
                    effects.push(WorkItem::Run { job, session });
                }
            }
            for session in due {
                if state.is_free(session, now) {
                    state.sessions.insert(session);
                    effects.push(WorkItem::Evaluate(session));
                }
            }
        }
        Input::Finished(work) => {
            let session = state.release(&work);
            state.paused.remove(&session);
        }
        Input::Failed(work, now) => {
            let session = state.release(&work);
            state.pause(session, now);
        }
        Input::Returned(work) => {
            state.release(&work);
        }
    }
    effects
}

impl SchedulerState {
    /// True if a worker has this job.
    pub(super) fn is_running(&self, job: i64) -> bool {
        self.jobs.contains(&job)
    }

    /// Number of sessions that are with a worker, on their way there, or paused: their entries in a listing are not
    /// handed out.
    pub(super) fn skipped(&self) -> usize {
        self.sessions.len() + self.paused.len()
    }

    /// The sessions that are paused.
    pub(super) fn failing(&self) -> impl Iterator<Item = SessionKey> {
        self.paused.keys().copied()
    }

    fn is_free(&self, session: SessionKey, now: Instant) -> bool {
        !self.sessions.contains(&session) && self.paused.get(&session).is_none_or(|pause| pause.until <= now)
    }

    /// Takes work back from its worker; returns its session.
    fn release(&mut self, work: &WorkItem) -> SessionKey {
        let session = match work {
            WorkItem::Evaluate(session) => *session,
            WorkItem::Run { job, session } => {
                self.jobs.remove(job);
                *session
            }
        };
        self.sessions.remove(&session);
        session
    }

    /// Pauses a session, twice as long with each failure.
    fn pause(&mut self, session: SessionKey, now: Instant) {
        let pause = self.paused.entry(session).or_insert(Pause { failures: 0, until: now });
        pause.failures = pause.failures.saturating_add(1);
        let wait = delay(pause.failures).min(limits::RETRY_MS_MAX);
        pause.until = now + Duration::from_millis(wait.unsigned_abs());
        if self.paused.len() > limits::PAUSED_SESSIONS_MAX {
            let first = self.paused.iter().min_by_key(|(session, pause)| (pause.until, session.0)).map(|(key, _)| *key);
            self.paused.retain(|session, _| Some(*session) != first);
        }
    }

    /// Drops sessions whose pause is over and that have no work any more.
    fn reclaim(&mut self, due: &[SessionKey], ready: &[(i64, SessionKey)], now: Instant) {
        let wants = |key: SessionKey| due.contains(&key) || ready.iter().any(|(_, session)| *session == key);
        self.paused.retain(|session, pause| pause.until > now || wants(*session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(session: i64) -> SessionKey {
        SessionKey(session)
    }

    fn names(work: &[WorkItem]) -> Vec<String> {
        let name = |work: &WorkItem| match work {
            WorkItem::Evaluate(due) => format!("evaluate {}", due.0),
            WorkItem::Run { job, session } => format!("run {job} of {}", session.0),
        };
        work.iter().map(name).collect()
    }

    fn found_work(due_sessions: &[i64], ready: &[(i64, i64)]) -> Input {
        found_at(due_sessions, ready, Instant::now())
    }

    fn found_at(due_sessions: &[i64], ready: &[(i64, i64)], now: Instant) -> Input {
        Input::Found {
            due: due_sessions.iter().map(|session| due(*session)).collect(),
            ready: ready.iter().map(|(job, session)| (*job, SessionKey(*session))).collect(),
            now,
        }
    }

    #[test]
    fn work_in_progress_is_not_handed_out_again() {
        let mut state = SchedulerState::default();
        assert_eq!(
            names(&step(&mut state, found_work(&[1, 2], &[(7, 3)]))),
            ["run 7 of 3", "evaluate 1", "evaluate 2"]
        );
        assert_eq!(names(&step(&mut state, found_work(&[1, 2], &[(7, 3)]))), Vec::<String>::new());
    }

    #[test]
    fn a_session_is_in_one_workers_hands_at_most() {
        let mut state = SchedulerState::default();
        step(&mut state, found_work(&[], &[(7, 1)]));
        assert_eq!(names(&step(&mut state, found_work(&[1], &[]))), Vec::<String>::new());
        let done = Input::Finished(WorkItem::Run { job: 7, session: SessionKey(1) });
        step(&mut state, done);
        assert_eq!(names(&step(&mut state, found_work(&[1], &[]))), ["evaluate 1"]);
    }

    #[test]
    fn failed_work_pauses_longer_each_time_and_delays_no_other() {
        let (mut state, start) = (SchedulerState::default(), Instant::now());
        let at = |millis: i64| start + Duration::from_millis(millis.unsigned_abs());
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..12 {
            assert_eq!(names(&step(&mut state, found_at(&[1], &[], at(now)))), ["evaluate 1"]);
            step(&mut state, Input::Failed(WorkItem::Evaluate(due(1)), at(now)));
            assert_eq!(names(&step(&mut state, found_at(&[1, 2], &[(7, 1)], at(now)))), ["evaluate 2"], "not at once");
            step(&mut state, Input::Finished(WorkItem::Evaluate(due(2))));
            assert_eq!(state.failing().collect::<Vec<_>>(), [SessionKey(1)]);
            let wait = state.paused[&SessionKey(1)].until - at(now);
            waits.push(i64::try_from(wait.as_millis()).expect("short"));
            now += waits[waits.len() - 1];
        }
        assert_eq!(waits[..3], [1_000, 2_000, 4_000].map(|times| times * limits::RETRY_MS_MIN / 1_000));
        assert_eq!(waits[11], limits::RETRY_MS_MAX);
        step(&mut state, found_at(&[1], &[], at(now)));
        step(&mut state, Input::Finished(WorkItem::Evaluate(due(1))));
        assert_eq!(state.failing().count(), 0, "it went well");
        assert_eq!(names(&step(&mut state, found_at(&[1], &[], at(now)))), ["evaluate 1"]);
    }

    #[test]
    fn pauses_are_bounded_in_number_and_end_with_their_work() {
        let (mut state, now) = (SchedulerState::default(), Instant::now());
        for session in 0..=limits::PAUSED_SESSIONS_MAX {
            let session = i64::try_from(session).expect("few");
            step(&mut state, found_at(&[session], &[], now));
            step(&mut state, Input::Failed(WorkItem::Evaluate(due(session)), now));
        }
        assert_eq!(state.failing().count(), limits::PAUSED_SESSIONS_MAX);
        assert!(state.failing().all(|session| session.0 != 0), "of pauses that end together, the first session's went");
        let later = now + Duration::from_millis(limits::RETRY_MS_MAX.unsigned_abs());
        step(&mut state, found_at(&[9], &[], later));
        assert_eq!(state.failing().collect::<Vec<_>>(), [SessionKey(9)]);
    }
}
