//! Cost of a process or of a thread, as Linux counts it: processor time and bytes written to disk.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Length of the units of `/proc/PID/stat`, which are the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Time in which a process that rests spends less than two ticks.
const REST: Duration = Duration::from_millis(200);
/// Most times that a rest is waited for.
const RESTS_MAX: usize = 100;

/// Cost since the start of a process or of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Processor time, of the user and of the system.
    pub(crate) cpu: Duration,
    /// Bytes of pages that were made dirty in files.
    pub(crate) written: u64,
}

impl Cost {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), written: self.written.saturating_sub(earlier.written) }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, written: self.written + other.written }
    }

    /// Microseconds of processor time for each of `count`.
    pub(crate) fn micros_each(self, count: u64) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / count.max(1) as f64
    }
}

/// The files of a process or of a thread in `/proc`.
#[derive(Debug, Clone)]
pub(crate) struct Process(PathBuf);

impl Process {
    pub(crate) fn new(pid: u32) -> Self {
        Self(format!("/proc/{pid}").into())
    }

    pub(crate) fn own() -> Self {
        Self("/proc/self".into())
    }

    /// The calling thread.
    pub(crate) fn thread() -> Self {
        let link = fs::read_link("/proc/thread-self").unwrap_or_default();
        Self(PathBuf::from("/proc").join(link))
    }

    /// The cost so far; zero where the system does not report it.
    pub(crate) fn cost(&self) -> Cost {
        Cost { cpu: self.cpu().unwrap_or_default(), written: self.written().unwrap_or_default() }
    }

    /// Waits until the process needs no processor: what a daemon does behind its answers, as for its index, would slow down
    /// what is measured next.
    pub(crate) async fn rest(&self) {
        let mut looks = tokio::time::interval(REST);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        looks.tick().await;
        for _ in 0..RESTS_MAX {
            let before = self.cost();
            looks.tick().await;
            if self.cost().since(before).cpu < 2 * TICK {
                return;
            }
        }
        println!("  a process did not rest; what follows was measured beside it");
    }

    /// Processor time of the threads of a process with this name.
    pub(crate) fn cpu_of_threads(&self, name: &str) -> Duration {
        let threads = fs::read_dir(self.0.join("task")).into_iter().flatten().flatten();
        let is_named =
            |thread: &PathBuf| fs::read_to_string(thread.join("comm")).is_ok_and(|own| own.trim_end() == name);
        threads.map(|thread| thread.path()).filter(is_named).filter_map(|thread| Self(thread).cpu()).sum()
    }

    fn cpu(&self) -> Option<Duration> {
        let stat = fs::read_to_string(self.0.join("stat")).ok()?;
        // The name before it may have spaces and brackets.
        let (_, fields) = stat.rsplit_once(") ")?;
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
        ticks.sum::<Result<u32, _>>().ok().map(|ticks| TICK * ticks)
    }

    fn written(&self) -> Option<u64> {
        let io = fs::read_to_string(self.0.join("io")).ok()?;
        io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
    }
}
