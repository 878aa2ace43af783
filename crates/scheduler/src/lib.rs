//! The work in the background: what is decided about a session when it changes, and the jobs that compact it. The modules in
//! reading order:
//!
//! - [`config`]: the operator's configuration.
//! - [`loaded`]: sessions that are kept in memory, for reads and decisions.
//! - [`summarizer`]: writers of summaries.
//! - [`scheduler`]: the start of compactions, and the workers that run them.

use longhand_core::{fold, policy};
use longhand_model as model;
use longhand_presets as presets;
use longhand_runtime::{background, clock, limits, telemetry, turns};
use longhand_secrets as secrets;
use longhand_store as store;

pub mod config;
pub mod loaded;
pub mod scheduler;
pub mod summarizer;
