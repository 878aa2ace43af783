//! Work on a data directory or a backup without a daemon, for the command line.

pub use crate::store::{CopyProgress, Diagnosis, Examined, Restored, examine, restore};
