//! `longhand up` and `longhand down`: the daemon as a service of the user's systemd.

use super::failure::{self, Usage};
use super::output::{Output, indented};
use super::{Globals, consent};
use crate::config::Config;
use anyhow::Context as _;
use longhand_client::{Address, Client, Target};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The unit, as packages have it.
const PACKAGED: &str = include_str!("../../packaging/longhand.service");
/// What the unit in packages runs.
const PACKAGED_COMMAND: &str = "ExecStart=/usr/bin/longhand serve\n";
/// First line of a unit of `up`: no other one is replaced or removed.
const MARK: &str = "# Written by `longhand up`; `longhand down` removes it.\n";
/// Name of the unit.
const NAME: &str = "longhand.service";
/// Maximum number of attempts to connect to the service's daemon.
const CALLS_MAX: u32 = 400;
/// Delay between two attempts.
const CALL_INTERVAL: Duration = Duration::from_millis(25);
/// What does the same without systemd.
const INSTEAD: &str = "`longhand serve` runs the daemon in a terminal, `nohup longhand serve &` in the background";
/// Variables that `serve` reads, and a service does not have.
const OF_SHELL: [&str; 3] = ["LONGHAND_DATABASE", "LONGHAND_SHARDS", "LONGHAND_LOG"];

#[derive(Debug, clap::Args)]
pub(super) struct UpArguments {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// TOML file with settings of the daemon
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Serialize)]
struct Service {
    unit: String,
    data_dir: String,
    server: String,
}

/// Shows the unit, makes it, starts it, and waits until its daemon answers.
pub(super) async fn up(globals: &Globals, arguments: UpArguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(arguments.config.as_deref())?;
    config.validate()?;
    let (data_dir, file) = (std::path::absolute(&config.data_dir)?, unit_path()?);
    let mut command = vec!["--data-dir".to_owned(), text(&data_dir)?];
    if let Some(config) = &arguments.config {
        command.extend(["--config".to_owned(), text(&std::path::absolute(config)?)?]);
    }
    let unit = unit(&text(&std::env::current_exe()?)?, &command);
    let earlier = own_unit(&file)?;
    systemctl(&["show-environment"]).with_context(|| format!("systemd does not run for this user; {INSTEAD}"))?;
    let unit_path = systemctl(&["show", "--property", "FragmentPath", "--value", NAME])?;
    if earlier.is_none() && !unit_path.is_empty() {
        anyhow::bail!("{unit_path} is a unit of this name, and not by `longhand up`: `systemctl --user start {NAME}`");
    }
    let address = Address::Unix(std::path::absolute(config.socket_path())?);
    let runs = systemctl(&["is-active", "--quiet", NAME]).is_ok();
    if !runs && Client::connect_to(Target::local(address.clone()), &globals.actor).await.is_ok() {
        return Err(Usage(format!(
            "another daemon listens on {address}, which would keep the service's: stop it first"
        ))
        .into());
    }
    let mut output = globals.output();
    if !output.json() {
        show(&mut output, &file, &unit)?;
    }
    if !arguments.yes {
        if !consent::can_be_asked() {
            return Err(Usage("nobody can be asked here: --yes makes the service without a question".to_owned()).into());
        }
        if !consent::is_given("make this service, and start it?")? {
            return Err(Usage("nothing was made".to_owned()).into());
        }
    }
    if let Err(error) = install(&file, &unit, runs) {
        // As it was before; what is reported is the first failure.
        drop(match earlier {
            Some(earlier) => std::fs::write(&file, earlier).map_err(Into::into).and_then(|()| reload()),
            None => {
                // It may be enabled, and run.
                drop(systemctl(&["disable", "--now", NAME]));
                remove(&file)
            }
        });
        return Err(error);
    }
    answer(&address).await.context("`journalctl --user --unit longhand` says why the service does not answer")?;
    let made = Service {
        unit: file.display().to_string(),
        data_dir: data_dir.display().to_string(),
        server: address.to_string(),
    };
    if output.json() {
        output.value(&made)?;
    } else {
        tell(&mut output, &made)?;
    }
    output.flush()?;
    for name in OF_SHELL.iter().filter(|name| std::env::var_os(name).is_some()) {
        failure::note(&format!(
            "longhand: {name} is set here, and not in the service: --config FILE, or `systemctl --user edit longhand`"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(output: &mut Output, file: &Path, unit: &str) -> io::Result<()> {
    output.line(&format!("{}:", file.display()))?;
    indented(unit, "    ").iter().try_for_each(|line| output.line(line))?;
    output.line(&format!("Then: systemctl --user daemon-reload; systemctl --user enable --now {NAME}"))?;
    output.flush()
}

fn tell(output: &mut Output, made: &Service) -> io::Result<()> {
    for line in [
        format!("The daemon runs, and listens on {}; its store is {}.", made.server, made.data_dir),
        "`longhand console` shows it in a browser, `journalctl --user --unit longhand` its log.".to_owned(),
        "It ends with your last login, unless `loginctl enable-linger` keeps it. `longhand down` undoes all of this."
            .to_owned(),
    ] {
        output.wrapped_line(&line, "")?;
    }
    Ok(())
}

/// Stops the service, and removes what `up` made. The store stays.
pub(super) async fn down(globals: &Globals) -> anyhow::Result<ExitCode> {
    let file = unit_path()?;
    if own_unit(&file)?.is_none() {
        anyhow::bail!("{} is not there: `longhand up` has made no service", file.display());
    }
    let disabled = systemctl(&["disable", "--now", NAME]);
    disabled.with_context(|| format!("the service is not stopped, and {} stays", file.display()))?;
    remove(&file)?;
    let mut output = globals.output();
    if output.json() {
        output.value(&serde_json::json!({ "unit": file }))?;
    } else {
        output
            .wrapped_line(&format!("The service is stopped, and {} removed. Its store stays.", file.display()), "")?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Where units of the user are.
fn unit_path() -> anyhow::Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    Ok(config.context("neither XDG_CONFIG_HOME nor HOME is set")?.join("systemd/user").join(NAME))
}

/// The unit that an earlier `up` wrote; none without a file. Another one is refused.
fn own_unit(file: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) if text.starts_with(MARK) => Ok(Some(text)),
        Ok(_) => anyhow::bail!("{} is there, and not by `longhand up`: it is yours to change", file.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

fn install(file: &Path, unit: &str, runs: bool) -> anyhow::Result<()> {
    let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(file, unit));
    written.with_context(|| file.display().to_string())?;
    reload()?;
    systemctl(&["enable", "--now", NAME])?;
    // One that runs already goes on as it was started.
    if runs { systemctl(&["restart", NAME]).map(drop) } else { Ok(()) }
}

fn remove(file: &Path) -> anyhow::Result<()> {
    std::fs::remove_file(file).with_context(|| file.display().to_string())?;
    // A folder that has something else stays.
    let folder = file.parent().unwrap_or(Path::new("/"));
    drop(std::fs::remove_dir(folder.join("default.target.wants")));
    folder.ancestors().take(2).map(std::fs::remove_dir).take_while(Result::is_ok).for_each(drop);
    reload()
}

fn reload() -> anyhow::Result<()> {
    systemctl(&["daemon-reload"]).map(drop)
}

/// Waits until a daemon accepts a connection.
async fn answer(address: &Address) -> anyhow::Result<()> {
    let mut calls = 0;
    loop {
        calls += 1;
        match Client::connect_to(Target::local(address.clone()), "cli").await {
            Ok(_) => return Ok(()),
            Err(error) if calls == CALLS_MAX => return Err(error.into()),
            Err(_) => tokio::time::sleep(CALL_INTERVAL).await,
        }
    }
}

/// Runs the user's `systemctl`, and returns the line that it prints; what it says is the error.
fn systemctl(arguments: &[&str]) -> anyhow::Result<String> {
    let called = format!("systemctl --user {}", arguments.join(" "));
    let output = Command::new("systemctl").arg("--user").args(arguments).output().with_context(|| called.clone())?;
    let said = String::from_utf8_lossy(&output.stderr);
    // It tells what it did before it failed.
    let is_reason = |line: &&str| !line.starts_with("Created symlink") && !line.starts_with("Removed");
    anyhow::ensure!(output.status.success(), "{called}: {}", said.lines().find(is_reason).unwrap_or("it failed"));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    Ok(text.with_context(|| format!("{path:?} cannot stand in a unit of systemd"))?.to_owned())
}

/// The unit for this program and these arguments of `serve`.
fn unit(program: &str, arguments: &[String]) -> String {
    // Variables are put into arguments alone.
    let arguments = arguments.iter().map(|argument| word(&argument.replace('$', "$$")));
    let command: Vec<String> = [word(program), "serve".to_owned()].into_iter().chain(arguments).collect();
    format!("{MARK}{}", PACKAGED.replace(PACKAGED_COMMAND, &format!("ExecStart={}\n", command.join(" "))))
}

/// A word of a command in a unit.
fn word(text: &str) -> String {
    let text = text.replace('%', "%%");
    if !text.contains([' ', '"', '\'', '\\', ';']) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_packages_runs_this_program() {
        let unit = unit("/home/a b/longhand", &["--data-dir".to_owned(), "/x/100%/$HOME \"q\"".to_owned()]);
        assert!(
            unit.contains("\nExecStart=\"/home/a b/longhand\" serve --data-dir \"/x/100%%/$$HOME \\\"q\\\"\"\n"),
            "{unit}"
        );
        assert!(unit.starts_with(MARK) && unit.contains("RestartPreventExitStatus=64\n"), "{unit}");
    }
}
