//! Processes of the operator's programs, and of whatever these start: they are found by a mark in their environment,
//! which they keep in a process group or a session of their own, and without their parents.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::path::Path;
use uuid::Uuid;

/// The variable with the mark.
pub(super) const VARIABLE: &str = "LONGHAND_HOOK";

/// Rounds of a search: a process may start another one while the others are killed.
const ROUNDS_MAX: usize = 16;

/// The mark of all programs that this start of the daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessMark(pub(super) Uuid);

impl ProcessMark {
    /// The mark of one run.
    pub(super) fn of_run(self, run: Uuid) -> String {
        format!("{}/{run}", self.0)
    }

    /// Kills all processes that are left of any run.
    pub(super) fn kill_all(self) {
        kill_marked(&format!("{}/", self.0));
    }
}

/// The processes of a run. They are killed when this is dropped, unless the program has ended by itself.
pub(super) struct HookRun {
    leader: Option<Pid>,
    mark: String,
    has_ended: bool,
}

impl HookRun {
    /// The run of a program that leads a process group.
    pub(super) fn new(leader: Option<u32>, mark: String) -> Self {
        let leader = leader.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { leader, mark, has_ended: false }
    }

    /// The program has ended, and closed its outputs.
    pub(super) fn note_ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for HookRun {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if let Some(leader) = self.leader {
            // The group may be gone already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
        kill_marked(&self.mark);
    }
}

/// Kills all processes whose mark begins with a text, where the system shows the environment of processes.
fn kill_marked(mark: &str) {
    let wanted = format!("{VARIABLE}={mark}");
    for _ in 0..ROUNDS_MAX {
        let Ok(entries) = std::fs::read_dir("/proc") else { return };
        let pids: Vec<Pid> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let id = entry.file_name().to_str()?.parse().ok()?;
                has_variable(&entry.path(), wanted.as_bytes()).then(|| Pid::from_raw(id))?
            })
            .collect();
        if pids.is_empty() {
            return;
        }
        for process in pids {
            let _ = kill_process(process, Signal::KILL);
        }
    }
    tracing::warn!("processes that a hook has started go on");
}

/// True if a variable of a process begins like this. A process that has ended shows none.
fn has_variable(process: &Path, wanted: &[u8]) -> bool {
    let Ok(variables) = std::fs::read(process.join("environ")) else { return false };
    variables.split(|byte| *byte == 0).any(|variable| variable.starts_with(wanted))
}
