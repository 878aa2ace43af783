//! What every running part of Longhand shares. The modules in reading order:
//!
//! - [`limits`]: every bound, by name.
//! - [`clock`]: the clock and the source of ids.
//! - [`telemetry`]: the daemon's log.
//! - [`traffic`]: memory and connections of clients, bounded and counted.
//! - [`turns`]: whose call is worked on next, by tenant and access token.
//! - [`background`]: computation that yields to calls.

use longhand_model as model;

pub mod background;
pub mod clock;
pub mod limits;
pub mod telemetry;
pub mod traffic;
pub mod turns;
