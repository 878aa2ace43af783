//! The `longhand` command: parse, run, exit.

use longhand::cli;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// mimalloc, because an append makes some two hundred small allocations, most of them freed by another thread.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match cli::parse() {
        Ok(command_line) => cli::run(command_line),
        Err(code) => code,
    }
}
