//! The presets: their files, their decisions, and the laws that hold under all of them.

#[path = "../../../core/tests/unit/dsl.rs"]
mod dsl;
mod files;
mod folds;
mod golden;
mod laws;
mod maintenance;
mod overflow;
mod seeds;
mod simulations;
mod tokens;

use longhand_core::{fold, policy, simulation};
use longhand_model as model;
use longhand_presets as presets;
