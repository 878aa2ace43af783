//! Conformance: Longhand's policies against the published software they reproduce.
//!
//! `README.md` in this folder describes how to run it, the report, and how to add a system.

mod contents;
mod daemon;
mod gemini_cli;
mod generate;
mod harm;
mod harness;
mod install;
mod models;
mod neovate;
mod opencode;
mod pi;
mod qwen_agent;
mod qwen_code;
mod report;
mod session;
mod snapshots;
mod smolagents;
mod socket;
mod suna;
mod wire;

use harness::{Peer, Run, System};
use install::NotInstalled;
use report::{Ending, Report};
use socket::Socket;
use std::process::ExitCode;

/// Every system, in the order of the report. The checks of the wire come first: if they fail, no other result counts.
const SYSTEMS: &[&dyn System] = &[
    &wire::NODE,
    &wire::PYTHON,
    &suna::V2025_07,
    &suna::V2026,
    &pi::V0_73,
    &pi::V1_5,
    &pi::scenarios::V0_73,
    &pi::scenarios::V1_5,
    &Socket { name: "pi-0.73-socket", system: &pi::scenarios::V0_73 },
    &Socket { name: "pi-1.5-socket", system: &pi::scenarios::V1_5 },
    &neovate::CODE,
    &neovate::DESIGN,
    &Socket { name: "neovate-socket", system: &neovate::CODE },
    &Socket { name: "neovate-fixed-socket", system: &neovate::DESIGN },
    &models::OPENCODE,
    &models::CLAUDE_CODE,
    &models::CODEX,
    &models::SUNA,
    &models::JOYAGENT,
    &models::GOOSE,
    &models::ANTHROPIC,
    &Socket { name: "opencode-seed-socket", system: &models::OPENCODE },
    &Socket { name: "claude-code-seed-socket", system: &models::CLAUDE_CODE },
    &Socket { name: "codex-socket", system: &models::CODEX },
    &Socket { name: "suna-2025-04-socket", system: &models::SUNA },
    &Socket { name: "joyagent-socket", system: &models::JOYAGENT },
    &Socket { name: "goose-socket", system: &models::GOOSE },
    &Socket { name: "anthropic-socket", system: &models::ANTHROPIC },
    &opencode::OpenCode,
    &opencode::scenarios::Scenarios,
    &Socket { name: "opencode-socket", system: &opencode::scenarios::Scenarios },
    &qwen_agent::OLD,
    &qwen_agent::CURRENT,
    &qwen_agent::scenarios::OLD,
    &Socket { name: "qwen-agent-old-socket", system: &qwen_agent::scenarios::OLD },
    &qwen_agent::scenarios::CURRENT,
    &Socket { name: "qwen-agent-socket", system: &qwen_agent::scenarios::CURRENT },
    &smolagents::Smolagents,
    &gemini_cli::GeminiCli,
    &snapshots::GEMINI_CLI,
    &Socket { name: "gemini-cli-2025-08-socket", system: &snapshots::GEMINI_CLI },
    &gemini_cli::scenarios::Scenarios,
    &Socket { name: "gemini-cli-socket", system: &gemini_cli::scenarios::Scenarios },
    &qwen_code::QwenCode,
    &snapshots::QWEN_CODE,
    &Socket { name: "qwen-code-0.15-socket", system: &snapshots::QWEN_CODE },
    &qwen_code::scenarios::Scenarios,
    &Socket { name: "qwen-code-socket", system: &qwen_code::scenarios::Scenarios },
];

/// Default number of conversations for each system, as required for a release.
const FULL_COUNT: u64 = 2_000;
/// Number of conversations for each system in a short run.
const SHORT_COUNT: u64 = 100;
/// Number of scenarios for each system in a short run: each scenario asks many questions.
const SHORT_SCENARIOS: u64 = 40;
/// Default number of scenarios of each system in the daemon.
const FULL_LIVES: u64 = 40;
/// The same in a short run.
const SHORT_LIVES: u64 = 3;
/// The default seed, also that of every short run.
const SEED: u64 = 1;

const USAGE: &str = "usage: conformance/run [--systems a,b] [--count N] [--seed S] [--index I] [--short]
                       [--allow-skips]

  --systems a,b  only these systems; the wire's own checks always run
  --count N      conversations, or scenarios, for each system (2000)
  --seed S       what all chance is drawn from (1)
  --index I      one conversation alone, as it is in a run with the same seed
  --short        100 conversations and 40 scenarios with seed 1, as in continuous integration
  --allow-skips  a system that was skipped does not fail the run";

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    /// Names of systems; empty for all.
    systems: Vec<String>,
    run: Run<'static>,
    /// True if the run may succeed although a system is unavailable.
    allow_skips: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match parse(&arguments) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let chosen = |system: &&&dyn System| {
        arguments.systems.is_empty()
            || system.checks_the_wire()
            || arguments.systems.iter().any(|name| name == system.name())
    };
    println!("conformance: {}", arguments.run);
    let reports: Vec<Report> = SYSTEMS.iter().filter(chosen).map(|system| run(*system, arguments.run)).collect();
    print!("\n{}", report::summary(&reports));
    let skipped: Vec<&str> = reports.iter().filter(|report| report.is_skipped()).map(Report::system).collect();
    if !skipped.is_empty() {
        let verdict = if arguments.allow_skips { "allowed by --allow-skips" } else { "FAILED for that" };
        println!("\nNOT CHECKED, {verdict}: {}", skipped.join(", "));
    }
    let passes = |report: &Report| report.is_conforming() || arguments.allow_skips && report.is_skipped();
    if reports.iter().all(passes) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Installs, starts and asks one system, and prints its report.
fn run(system: &dyn System, run: Run<'_>) -> Report {
    let mut report = Report::new(system.name(), system.classes());
    println!("\n{}", system.name());
    let installed = match system.missing() {
        Some(reason) => Err(NotInstalled::Unavailable(reason)),
        None => install::install(system.packages(), system.program()),
    };
    report.ending = match installed {
        Err(NotInstalled::Unavailable(reason)) => Ending::Skipped(reason),
        Err(NotInstalled::Broken(reason)) => Ending::Failed(reason),
        Ok(installed) => {
            let questioned = Peer::start(&installed).and_then(|mut peer| system.run(&mut peer, run, &mut report));
            questioned.map_or_else(|failure| Ending::Failed(failure.to_string()), |()| Ending::Complete)
        }
    };
    print!("{report}");
    report
}

fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        systems: Vec::new(),
        run: Run { seed: SEED, first: 0, count: FULL_COUNT, scenarios: FULL_COUNT, lives: FULL_LIVES, daemon: None },
        allow_skips: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        match word.as_str() {
            "--systems" => parsed.systems.extend(value()?.split(',').map(str::to_owned)),
            "--count" => {
                let count = number(value()?)?;
                (parsed.run.count, parsed.run.scenarios, parsed.run.lives) = (count, count, count);
            }
            "--seed" => parsed.run.seed = number(value()?)?,
            "--index" => parsed.run = Run { first: number(value()?)?, count: 1, scenarios: 1, lives: 1, ..parsed.run },
            "--short" => {
                let (count, scenarios, lives) = (SHORT_COUNT, SHORT_SCENARIOS, SHORT_LIVES);
                parsed.run = Run { seed: SEED, first: 0, count, scenarios, lives, daemon: None };
            }
            "--allow-skips" => parsed.allow_skips = true,
            _ => return Err(format!("{word} is not understood")),
        }
    }
    let known = |name: &String| SYSTEMS.iter().any(|system| system.name() == name);
    match parsed.systems.iter().find(|name| !known(name)) {
        Some(unknown) => {
            let names: Vec<_> = SYSTEMS.iter().map(|system| system.name()).collect();
            Err(format!("there is no system {unknown}; there are {}", names.join(", ")))
        }
        None => Ok(parsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read() {
        let run = |seed, first, count| {
            let (scenarios, lives) = match count {
                100 => (40, 3),
                2_000 => (2_000, 40),
                count => (count, count),
            };
            Run { seed, first, count, scenarios, lives, daemon: None }
        };
        for (line, systems, expected) in [
            ("", &[][..], run(1, 0, 2_000)),
            ("--short", &[], run(1, 0, 100)),
            ("--systems wire-node,wire-python --count 7 --seed 9", &["wire-node", "wire-python"], run(9, 0, 7)),
            ("--seed 3 --index 41", &[], run(3, 41, 1)),
            ("--short --allow-skips", &[], run(1, 0, 100)),
        ] {
            assert_eq!(
                parsed(line).map(|found| (found.systems, found.run, found.allow_skips)),
                Ok((systems.iter().map(|name| (*name).to_owned()).collect(), expected, line.contains("skips"))),
                "{line}"
            );
        }
    }

    #[test]
    fn unknown_arguments_are_refused() {
        for line in ["--count", "--count x", "--systems nobody", "--quick"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn systems_have_names_of_their_own_and_few_classes_with_tests_that_exist() {
        for (index, system) in SYSTEMS.iter().enumerate() {
            assert!(
                SYSTEMS[..index].iter().all(|other| other.name() != system.name()),
                "{} is there twice",
                system.name()
            );
            assert_eq!(report::problems(system.classes()), Vec::<String>::new(), "{}", system.name());
        }
    }
}
