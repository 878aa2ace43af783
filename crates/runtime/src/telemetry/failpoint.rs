//! Fail points: places at which a test makes the daemon die or a step fail.
//!
//! They are always compiled in and do nothing unless `LONGHAND_FAILPOINT` is set when the process starts. The variable
//! has the name of one place and, after a colon, the number of the pass at which it acts (`commit.written`,
//! `append.committed:20`); without a number, the first pass. A place at which the daemon dies aborts the process:
//! nothing is flushed, closed or reported, as after a kill.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that arms a fail point. For tests only.
pub const VARIABLE: &str = "LONGHAND_FAILPOINT";

static ARMED: OnceLock<Option<ArmedPoint>> = OnceLock::new();

/// The active fail point.
struct ArmedPoint {
    name: String,
    passes_left: AtomicU64,
}

impl ArmedPoint {
    /// Parses the variable; a pass that is not a number means the first.
    fn parse(text: &str) -> Self {
        let (name, pass) = text.split_once(':').unwrap_or((text, "1"));
        Self { name: name.to_owned(), passes_left: AtomicU64::new(pass.parse().unwrap_or(1)) }
    }

    /// True if this pass is the one at which it acts.
    fn acts(&self, name: &str) -> bool {
        self.name == name && self.passes_left.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

fn armed() -> Option<&'static ArmedPoint> {
    ARMED.get_or_init(|| std::env::var(VARIABLE).ok().map(|text| ArmedPoint::parse(&text))).as_ref()
}

/// True if any fail point may act.
pub fn is_armed() -> bool {
    armed().is_some()
}

/// True if the step at this place is to fail.
pub fn fails(name: &str) -> bool {
    armed().is_some_and(|armed| armed.acts(name))
}

/// Aborts the process if this place is to fail.
pub fn reach(name: &str) {
    if fails(name) {
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_acts_once_at_its_pass() {
        for (text, acts_at) in [("commit", 1), ("commit:1", 1), ("commit:3", 3), ("commit:x", 1)] {
            let armed = ArmedPoint::parse(text);
            assert!(!armed.acts("append"), "another place");
            let acts: Vec<bool> = (0..5).map(|_| armed.acts("commit")).collect();
            let expected: Vec<bool> = (1..=5).map(|pass| pass == acts_at).collect();
            assert_eq!(acts, expected, "{text}");
        }
    }
}
