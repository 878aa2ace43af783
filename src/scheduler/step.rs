//! What the scheduler does next: a pure function of what it knows and what it was told.

use crate::store::{DueSession, SessionKey};
use std::collections::HashSet;

/// What the scheduler knows. The database has everything else.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Work that was handed to a worker and has not come back.
    jobs: HashSet<i64>,
    /// Sessions that a worker is looking at, or whose job a worker runs.
    sessions: HashSet<SessionKey>,
    /// No more work is handed out.
    draining: bool,
}

/// What the scheduler is told.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// This is due, and these jobs' time has come. The list may name what is under way already.
    Found {
        /// Sessions whose due mark is set.
        due: Vec<DueSession>,
        /// Jobs that are ready, with their sessions.
        ready: Vec<(i64, SessionKey)>,
    },
    /// A worker is done with this.
    Finished(Work),
    /// The daemon is stopping.
    Drain,
}

/// What a worker can be given.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// Look at a due session.
    Evaluate(DueSession),
    /// Carry out a job.
    Run {
        /// The job's row.
        job: i64,
        /// Its session.
        session: SessionKey,
    },
}

/// What the scheduler does about it: work for the workers, in this order. One session is in one worker's hands at most,
/// so that an evaluation never races the job that it asked for.
pub(super) fn step(state: &mut State, input: Input) -> Vec<Work> {
    let mut effects = Vec::new();
    match input {
        Input::Found { due, ready } => {
            if state.draining {
                return effects;
            }
            for (job, session) in ready {
                if !state.sessions.contains(&session) && state.jobs.insert(job) {
                    state.sessions.insert(session);
                    effects.push(Work::Run { job, session });
                }
            }
            for due in due {
                if state.sessions.insert(due.session) {
                    effects.push(Work::Evaluate(due));
                }
            }
        }
        Input::Finished(Work::Evaluate(due)) => {
            state.sessions.remove(&due.session);
        }
        Input::Finished(Work::Run { job, session }) => {
            state.jobs.remove(&job);
            state.sessions.remove(&session);
        }
        Input::Drain => state.draining = true,
    }
    effects
}

impl State {
    /// Whether a worker has this job in hand.
    pub(super) fn has_in_hand(&self, job: i64) -> bool {
        self.jobs.contains(&job)
    }

    /// How many sessions are in a worker's hands, or on their way there.
    pub(super) fn in_hand(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::usage::ModelWindow;

    fn due(session: i64) -> DueSession {
        DueSession {
            session: SessionKey(session),
            revision: 1,
            appended_tokens: 0,
            usage_tokens: None,
            held: false,
            cool_until: None,
            overhead_tokens: None,
            reduced: None,
            rest_tokens: None,
            reduction_revision: 0,
            window: ModelWindow::default(),
        }
    }

    fn names(work: &[Work]) -> Vec<String> {
        let name = |work: &Work| match work {
            Work::Evaluate(due) => format!("evaluate {}", due.session.0),
            Work::Run { job, session } => format!("run {job} of {}", session.0),
        };
        work.iter().map(name).collect()
    }

    fn found(due_sessions: &[i64], ready: &[(i64, i64)]) -> Input {
        Input::Found {
            due: due_sessions.iter().map(|session| due(*session)).collect(),
            ready: ready.iter().map(|(job, session)| (*job, SessionKey(*session))).collect(),
        }
    }

    #[test]
    fn what_is_under_way_is_not_handed_out_again() {
        let mut state = State::default();
        assert_eq!(names(&step(&mut state, found(&[1, 2], &[(7, 3)]))), ["run 7 of 3", "evaluate 1", "evaluate 2"]);
        assert_eq!(names(&step(&mut state, found(&[1, 2], &[(7, 3)]))), Vec::<String>::new());
    }

    #[test]
    fn a_session_is_in_one_workers_hands_at_most() {
        let mut state = State::default();
        step(&mut state, found(&[], &[(7, 1)]));
        assert_eq!(names(&step(&mut state, found(&[1], &[]))), Vec::<String>::new());
        let done = Input::Finished(Work::Run { job: 7, session: SessionKey(1) });
        step(&mut state, done);
        assert_eq!(names(&step(&mut state, found(&[1], &[]))), ["evaluate 1"]);
    }

    #[test]
    fn a_draining_scheduler_hands_nothing_out() {
        let mut state = State::default();
        step(&mut state, found(&[1], &[]));
        step(&mut state, Input::Drain);
        assert_eq!(names(&step(&mut state, found(&[2], &[(7, 3)]))), Vec::<String>::new());
        step(&mut state, Input::Finished(Work::Evaluate(due(1))));
        assert_eq!(names(&step(&mut state, found(&[1], &[]))), Vec::<String>::new());
    }
}
