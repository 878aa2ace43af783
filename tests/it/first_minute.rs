//! What somebody meets who has just installed the program: the demo, the first commands, the console, the service.

use crate::cli::{Daemon, longhand};
use crate::screen::terminal;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// Reads lines up to the first one with these words.
fn until(lines: &mut Lines<impl std::io::BufRead>, words: &str) -> String {
    let mut read = String::new();
    for line in lines {
        let line = line.unwrap_or_else(|error| panic!("{words:?} does not come ({error}): {read}"));
        read.push_str(line.trim_end());
        read.push('\n');
        if line.contains(words) {
            return read;
        }
    }
    panic!("{words:?} does not come: {read}");
}

/// Starts a command on a terminal, where this is typed before it reads.
fn typed(command: &mut Command, text: &str) -> (Child, File) {
    let (mut person, programs) = terminal(120);
    person.write_all(text.as_bytes()).expect("typed");
    let open = || programs.try_clone().expect("the terminal opens");
    let child = command.stdin(open()).stdout(open()).stderr(open()).process_group(0).spawn().expect("it starts");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    (child, person)
}

/// Everything that a command prints on a terminal where this is typed, and its end.
fn answered(command: &mut Command, text: &str) -> (String, ExitStatus) {
    let (mut child, mut person) = typed(command, text);
    let mut bytes = Vec::new();
    // The end of a terminal is an error.
    drop(person.read_to_end(&mut bytes));
    (String::from_utf8_lossy(&bytes).replace("\r\n", "\n"), child.wait().expect("it ends"))
}

/// The last thing that a demo to watch prints by itself.
const LAST_WORDS: &str = "prints a link that shows all sessions";

/// A command of the demo, whose data is in a folder of its own.
fn demo(home: &Path, arguments: &[&str]) -> Command {
    let folder = home.join("tmp");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut command = longhand(home);
    command.arg("demo").args(arguments).env("TMPDIR", folder).env("NO_COLOR", "1");
    command
}

/// Checks that neither a demo's data nor its daemon is there, whose link this text has.
fn check_nothing_left(home: &Path, text: &str) {
    let left: Vec<_> = std::fs::read_dir(home.join("tmp")).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
    let url = text.lines().find_map(|line| line.strip_prefix("http://")).expect("a link");
    let address = url.split('/').next().expect("an address");
    assert!(TcpStream::connect(address).is_err(), "the daemon still listens on {address}");
}

#[test]
fn a_demo_on_a_terminal_is_watched_asks_and_leaves_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let (mut child, person) = typed(&mut demo(home.path(), &["--seconds", "1"]), "maybe\nn\n");
    let mut lines = BufReader::new(person).lines();
    let mut text = until(&mut lines, LAST_WORDS);
    for words in [
        "asks: Overwrite tests/golden/brest.txt?",
        "That is none of the answers.",
        "answered with \"no\"",
        "write error: refused by the user",
        "summary (auto) done: ",
        "assistant (editor): src/render.rs adds an hour",
        "longhand up  ",
    ] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
    // Another terminal sees the same session.
    let server = format!("unix:{}/tmp/longhand-demo-{}/longhand.sock", home.path().display(), child.id());
    let questions = ["approve", "list", "demo", "--all", "--server", &server];
    let questions = longhand(home.path()).args(questions).output().expect("the command runs").stdout;
    let questions = String::from_utf8(questions).expect("UTF-8");
    assert!(questions.contains("editor") && questions.contains("no by you"), "{questions}");
    // As Ctrl-C in a terminal does.
    kill_process_group(Pid::from_child(&child), Signal::INT).expect("it runs");
    text.push_str(&until(&mut lines, "removed."));
    assert!(child.wait().expect("it ends").success(), "{text}");
    check_nothing_left(home.path(), &text);
}

#[test]
fn a_question_of_the_demo_answers_itself() {
    let home = tempfile::tempdir().expect("a folder");
    let mut child = demo(home.path(), &["--live", "--seconds", "1"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut text = until(&mut lines, LAST_WORDS);
    assert!(text.contains("answered with \"yes\", since its time was up"), "{text}");
    assert!(text.contains("write completed: wrote 54 lines to tests/golden/brest.txt"), "{text}");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    text.push_str(&until(&mut lines, "removed."));
    assert!(child.wait().expect("it ends").success(), "{text}");
    check_nothing_left(home.path(), &text);
}

#[test]
fn a_demo_that_is_interrupted_early_leaves_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    for (arguments, words, code) in [
        (["--live", "--seconds", "600"], "user (", 0),
        (["--checks", "--seconds", "600"], "A user interface follows the events:", 130),
    ] {
        let mut child = demo(home.path(), &arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let text = until(&mut lines, words);
        kill_process(Pid::from_child(&child), Signal::HUP).expect("it runs");
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{text}{rest:?}");
        let left: Vec<_> = std::fs::read_dir(home.path().join("tmp")).expect("the folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_demo_to_watch_is_no_demo_for_programs() {
    let home = tempfile::tempdir().expect("a folder");
    for other in ["--keep", "--json", "--checks"] {
        let output = demo(home.path(), &["--live", other]).output().expect("it runs");
        let refused = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && refused.contains("cannot be used with"), "{other}: {refused}");
    }
    let (text, end) = answered(&mut demo(home.path(), &["--json"]), "");
    assert!(end.success() && text.contains("\"passed\":true"), "{text}");
}

#[test]
fn without_a_command_and_a_store_there_are_four_to_begin_with() {
    let home = tempfile::tempdir().expect("a folder");
    let alone = |change: &dyn Fn(&mut Command)| {
        let mut command = longhand(home.path());
        change(&mut command);
        let output = command.output().expect("the command runs");
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    };
    let [text, errors] = alone(&|_| {});
    let commands: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("longhand ")).map(|(_, rest)| rest).collect();
    let first: Vec<&str> = commands.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["demo", "up", "import", "console", "--help"], "{text}");
    assert_eq!(errors, "");
    let is_help = |[text, errors]: [String; 2]| text.is_empty() && errors.contains("Usage: longhand");
    assert!(is_help(alone(&|command| {
        command.env("LONGHAND_SERVER", "http://localhost:1");
    })));
    assert!(is_help(alone(&|command| {
        command.arg("--raw");
    })));
    std::fs::create_dir_all(home.path().join("data/longhand")).expect("a store");
    assert!(is_help(alone(&|_| {})));
}

#[test]
fn a_daemon_on_a_terminal_says_where_it_is_and_how_to_see_it() {
    let home = tempfile::tempdir().expect("a folder");
    for (data_dir, console) in [("data/longhand", "`longhand console`"), ("other", "`longhand --server unix:")] {
        let data_dir = home.path().join(data_dir);
        let mut command = longhand(home.path());
        let (mut child, person) = typed(command.arg("serve").arg("--data-dir").arg(&data_dir), "");
        let text = until(&mut BufReader::new(person).lines(), "stops").replace('\n', " ");
        assert!(text.contains(&format!("Its store is {}.", data_dir.display())) && text.contains(console), "{text}");
        kill_process_group(Pid::from_child(&child), Signal::INT).expect("it runs");
        assert!(child.wait().expect("it ends").success(), "{text}");
    }
}

#[test]
fn the_console_offers_to_start_a_daemon() {
    let home = tempfile::tempdir().expect("a folder");
    let console = || {
        let mut command = longhand(home.path());
        command.arg("console");
        command
    };
    let output = console().output().expect("the command runs");
    let refused = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{refused}");
    assert!(refused.contains("`longhand serve` starts one") && refused.lines().count() == 1, "{refused}");
    let (text, end) = answered(&mut console(), "n\n");
    assert!(!end.success() && text.contains("start one in the background? [y/N]"), "{text}");
    assert!(!home.path().join("data").exists(), "nothing was begun");

    let (text, end) = answered(&mut console(), "y\n");
    assert!(end.success() && text.contains("\nhttp://127.0.0.1:"), "{text}");
    let daemon_ends = follow(longhand(home.path()));
    let id = text.split("`kill ").nth(1).and_then(|rest| rest.split('`').next()).expect("a process");
    let id = Pid::from_raw(id.parse().expect("a number")).expect("a process");
    kill_process(id, Signal::TERM).expect("the daemon runs");
    daemon_ends();
    assert!(home.path().join("data/longhand/longhand.log").exists());
}

/// Follows the events of a daemon that runs.
fn follow(mut command: Command) -> impl FnOnce() {
    // On a terminal, it says when it has begun.
    let (mut child, person) = typed(command.arg("watch"), "");
    let mut lines = BufReader::new(person).lines();
    until(&mut lines, "follows new events");
    move || {
        // The follower ends with its daemon.
        lines.map_while(Result::ok).for_each(drop);
        child.wait().expect("it ends");
    }
}

/// A `systemctl` that runs what the unit says, and writes down how it was called.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >>"$HOME/calls"
wants="$HOME/.config/systemd/user/default.target.wants"
if [ "$2" = enable ]; then
    /bin/mkdir -p "$wants"
    /bin/ln -sf ../longhand.service "$wants/longhand.service"
    echo "Created symlink $wants/longhand.service" >&2
fi
if [ -n "$REFUSED" ] && [ "$2" = "$REFUSED" ]; then
    echo "$2 is refused" >&2
    exit 1
fi
case "$2" in
    show) echo "$PACKAGED" ;;
    is-active) [ -e "$HOME/pid" ] ;;
    enable)
        [ -e "$HOME/pid" ] && exit
        eval "$(/usr/bin/sed -n 's/%%/%/g; s/^ExecStart=//p' "$HOME/.config/systemd/user/longhand.service") >/dev/null 2>&1 &"
        echo $! >"$HOME/pid"
        ;;
    disable)
        /bin/rm -f "$wants/longhand.service"
        [ -e "$HOME/pid" ] || exit 0
        read -r pid <"$HOME/pid"
        kill "$pid"
        /bin/rm "$HOME/pid"
        ;;
esac
"#;

/// A user of a machine with this systemctl.
struct User {
    home: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let program = home.path().join("bin/systemctl");
        std::fs::create_dir_all(home.path().join("bin")).expect("a folder");
        std::fs::write(&program, SYSTEMCTL).expect("written");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("executable");
        Self { home }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = longhand(self.home.path());
        // A path that a unit has to quote.
        command.env("XDG_DATA_HOME", self.home.path().join("100% data"));
        command.env("PATH", self.home.path().join("bin")).env_remove("XDG_CONFIG_HOME").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str], refused: &str) -> Output {
        self.command(arguments).env("REFUSED", refused).output().expect("the command runs")
    }

    /// How systemctl was called since the last time.
    fn calls(&self) -> String {
        let file = self.home.path().join("calls");
        let calls = std::fs::read_to_string(&file).unwrap_or_default();
        drop(std::fs::remove_file(&file));
        calls.replace("--user ", "").replace(" longhand.service", "").replace('\n', "; ")
    }

    fn unit(&self) -> std::path::PathBuf {
        self.home.path().join(".config/systemd/user/longhand.service")
    }
}

#[test]
fn up_makes_a_service_that_was_shown_and_down_undoes_it() {
    let user = User::new();
    let made = user.run(&["up", "--yes"], "");
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(made.status.success(), "{text}{}", String::from_utf8_lossy(&made.stderr));
    let unit = std::fs::read_to_string(user.unit()).expect("the unit");
    assert!(unit.contains("100%% data/longhand\"\n"), "{unit}");
    assert!(unit.lines().all(|line| text.contains(line)), "{text}");
    assert!(text.contains("listens on unix:") && text.contains("`longhand down` undoes"), "{text}");
    assert_eq!(
        user.calls(),
        "show-environment; show --property FragmentPath --value; is-active --quiet; daemon-reload; enable --now; "
    );
    // The unit runs a daemon where the commands of this user look for one.
    assert!(user.run(&["status"], "").status.success());
    // Again, with other settings.
    let config = user.home.path().join("longhand.toml");
    std::fs::write(&config, "workers = 2\n").expect("written");
    let again = user.run(&["up", "--yes", "--config", &config.display().to_string(), "--json"], "");
    let made: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(made["unit"], user.unit().display().to_string());
    assert!(user.calls().ends_with("is-active --quiet; daemon-reload; enable --now; restart; "));
    let unit = std::fs::read_to_string(user.unit()).expect("the unit");
    assert!(unit.contains(&format!(" --config {}\n", config.display())), "{unit}");

    let daemon_ends = follow(user.command(&[]));
    let undone = user.run(&["down"], "");
    assert!(undone.status.success(), "{undone:?}");
    daemon_ends();
    assert_eq!(user.calls(), "disable --now; daemon-reload; ");
    assert!(!user.home.path().join(".config/systemd").exists());
    assert!(user.home.path().join("100% data/longhand/longhand.db").exists(), "sessions stay");
    let again = user.run(&["down"], "");
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("has made no service"));
}

#[test]
fn up_changes_nothing_unless_somebody_agrees() {
    let user = User::new();
    let own = user.unit();
    let silent = user.run(&["up"], "");
    let said = String::from_utf8_lossy(&silent.stderr);
    assert!(silent.status.code() == Some(64) && said.contains("--yes"), "{said}");
    assert!(String::from_utf8_lossy(&silent.stdout).contains("ExecStart="));
    let (text, end) = answered(&mut user.command(&["up"]), "n\n");
    assert!(end.code() == Some(64) && text.contains("ExecStart=") && text.contains("nothing was made"), "{text}");
    for (refused, words) in [
        ("show-environment", "`longhand serve` runs the daemon in a terminal"),
        ("enable", "systemctl --user enable --now longhand.service: enable is refused"),
    ] {
        let output = user.run(&["up", "--yes"], refused);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(words), "{said}");
    }
    let mut command = user.command(&["up", "--yes"]);
    let output = command.env("PATH", user.home.path().join("nowhere")).output().expect("the command runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("`longhand serve`"), "{output:?}");
    assert!(!user.home.path().join(".config/systemd").exists(), "nothing was made");
    // A unit that a package brought.
    let packaged = user.command(&["up", "--yes"]).env("PACKAGED", "/usr/lib/systemd/user/longhand.service").output();
    let said = String::from_utf8_lossy(&packaged.expect("the command runs").stderr).into_owned();
    assert!(said.contains("/usr/lib/systemd/user/longhand.service is a unit of this name"), "{said}");
    assert!(!user.home.path().join(".config/systemd").exists(), "nothing was made");

    std::fs::create_dir_all(own.parent().expect("a folder")).expect("made");
    std::fs::write(&own, "[Service]\n").expect("a unit of one's own");
    for command in [&["up", "--yes"][..], &["down"]] {
        let output = user.run(command, "");
        assert!(String::from_utf8_lossy(&output.stderr).contains("not by `longhand up`"), "{output:?}");
        assert_eq!(std::fs::read_to_string(&own).expect("the unit"), "[Service]\n");
    }
}

#[test]
fn up_refuses_a_store_that_another_daemon_has() {
    let user = User::new();
    let daemon = Daemon::start(user.home.path());
    let config = user.home.path().join("longhand.toml");
    std::fs::write(&config, format!("data_dir = {:?}\n", daemon.directory)).expect("written");
    let output = user.run(&["up", "--yes", "--config", &config.display().to_string()], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(64) && said.contains("another daemon listens on"), "{said}");
    assert!(!user.unit().exists());
}
