//! Questions to the person at the terminal, before something is done.

use std::io::{self, IsTerminal as _, Write as _};

/// True if there is somebody to ask.
pub(super) fn can_be_asked() -> bool {
    io::stdin().is_terminal()
}

/// Asks on standard error; true if the answer is yes.
pub(super) fn is_given(question: &str) -> io::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "yes"))
}
