//! The parts that every system uses: the peer process, the shape of a system, and the runner of scenarios.

use crate::daemon::Daemon;
use crate::install::Installed;
use crate::report::{Class, Report};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Maximum number of open questions. More would only fill the peer's memory.
const IN_FLIGHT_MAX: usize = 64;
/// Maximum time without an answer while a question is open.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Number of conversations that are generated, asked about and compared together.
const BATCH: u64 = 100;
/// Number of last lines of the peer's standard error in a failure.
const STDERR_LINES: usize = 12;

/// A published system whose behaviour Longhand reproduces.
pub(crate) trait System: Sync {
    /// Its name, also that of its list of packages in `peers/`.
    fn name(&self) -> &'static str;

    /// The system whose packages it uses: itself, unless two share them.
    fn packages(&self) -> &'static str {
        self.name()
    }

    /// The peer's program in `peers/`, without its extension: the name of the packages, unless several versions share one.
    fn program(&self) -> &'static str {
        self.packages()
    }

    /// The explained differences: at most nine classes.
    fn classes(&self) -> &'static [Class] {
        &[]
    }

    /// True if it checks the harness itself, and therefore always runs.
    fn checks_the_wire(&self) -> bool {
        false
    }

    /// A missing requirement other than published packages, if there is one: the system is then skipped.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Asks both sides about every conversation of the run, and reports their answers.
    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure>;
}

/// The conversations of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    /// The seed of all random choices.
    pub(crate) seed: u64,
    /// The index of the first conversation.
    pub(crate) first: u64,
    /// Number of conversations.
    pub(crate) count: u64,
    /// Number of scenarios, for systems that have scenarios.
    pub(crate) scenarios: u64,
    /// Number of scenarios for each system in the daemon, where every message waits for the daemon's decision.
    pub(crate) lives: u64,
    /// The daemon that is our side of scenarios; none for the driver of a simulation.
    pub(crate) daemon: Option<&'a Daemon>,
}

impl Run<'_> {
    /// The indexes of the scenarios.
    pub(crate) fn scenario_indexes(self) -> Range<u64> {
        self.first..self.first.saturating_add(self.scenarios)
    }

    /// The indexes of the conversations, in batches that fit in memory.
    pub(crate) fn batches(self) -> impl Iterator<Item = Range<u64>> + use<> {
        let end = self.first.saturating_add(self.count);
        let starts = (self.first..end).step_by(BATCH as usize);
        starts.map(move |start| start..end.min(start.saturating_add(BATCH)))
    }
}

impl fmt::Display for Run<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(out, "seed {}, conversation {} alone", self.seed, self.first),
            count => write!(out, "seed {}, {count} conversations for each system", self.seed),
        }
    }
}

/// The peer cannot be asked any more.
#[derive(Debug)]
pub(crate) struct PeerFailure(String);

impl PeerFailure {
    /// A failure with this message.
    pub(crate) fn new(words: &str) -> Self {
        Self(words.to_owned())
    }
}

impl fmt::Display for PeerFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The peer: a process that has loaded the published package and answers each line with one line.
pub(crate) struct Peer {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<Answer>,
    stderr: PathBuf,
    next_id: u64,
}

/// The answer to one question: its number, and the value or the error.
type Answer = Result<(u64, Result<Value, String>), String>;

impl Peer {
    /// Starts the peer on the installed package.
    pub(crate) fn start(installed: &Installed) -> Result<Self, PeerFailure> {
        let failed = |what: &str, error: std::io::Error| PeerFailure(format!("{what}: {error}"));
        let stderr = installed.folder.join("stderr.log");
        let log = File::create(&stderr).map_err(|error| failed("no file for standard error", error))?;
        // The package's files in the home folder stay separate for this run.
        let home = installed.folder.join("home");
        fs::create_dir_all(&home).map_err(|error| failed("no home folder", error))?;
        let mut command = Command::new(&installed.runtime);
        command.arg(&installed.program).arg(&installed.folder).current_dir(&installed.folder);
        command.env("HOME", home).env("PYTHONUTF8", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| failed(&installed.runtime.display().to_string(), error))?;
        let (Some(questions), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(PeerFailure("the process has no pipes".to_owned()));
        };
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || read(BufReader::new(output), &sender));
        Ok(Self { child, questions, answers, stderr, next_id: 0 })
    }

    /// Asks all questions and waits for all answers, which are in the order of the questions.
    ///
    /// A question that the peer answers with an error is an `Err` in its position. The peer may answer in any order.
    /// The call fails as a whole if the peer ends, is silent for two minutes or violates the protocol.
    pub(crate) fn call_all(&mut self, calls: Vec<(&str, Value)>) -> Result<Vec<Result<Value, String>>, PeerFailure> {
        let mut positions = HashMap::new();
        let mut found: Vec<Option<Result<Value, String>>> = vec![None; calls.len()];
        for (position, (function, arguments)) in calls.into_iter().enumerate() {
            while positions.len() >= IN_FLIGHT_MAX {
                self.receive_at(&mut positions, &mut found)?;
            }
            positions.insert(self.send(function, arguments)?, position);
        }
        while !positions.is_empty() {
            self.receive_at(&mut positions, &mut found)?;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Asks one question. An error of the peer becomes an answer by `failed`, so that the report shows it.
    pub(crate) fn ask(
        &mut self,
        function: &str,
        arguments: Value,
        failed: impl FnOnce(String) -> Value,
    ) -> Result<Value, PeerFailure> {
        let answer = self.call_all(vec![(function, arguments)])?.pop();
        Ok(answer.map_or(Value::Null, |answer| answer.unwrap_or_else(failed)))
    }

    /// Sends one question; returns its number.
    fn send(&mut self, function: &str, arguments: Value) -> Result<u64, PeerFailure> {
        self.next_id += 1;
        let question = json!({ "id": self.next_id, "fn": function, "args": arguments });
        let sent = writeln!(self.questions, "{question}").and_then(|()| self.questions.flush());
        sent.map_err(|error| self.failure(&format!("it takes no more questions: {error}")))?;
        Ok(self.next_id)
    }

    /// Receives one answer and stores it in its position.
    fn receive_at(
        &mut self,
        positions: &mut HashMap<u64, usize>,
        found: &mut [Option<Result<Value, String>>],
    ) -> Result<(), PeerFailure> {
        let (id, value) = self.receive()?;
        let position = positions.remove(&id).ok_or_else(|| self.unasked(id))?;
        found[position] = Some(value);
        Ok(())
    }

    /// The next answer, to whichever question.
    fn receive(&mut self) -> Result<(u64, Result<Value, String>), PeerFailure> {
        match self.answers.recv_timeout(ANSWER_TIMEOUT) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(problem)) => Err(self.failure(&problem)),
            Err(RecvTimeoutError::Timeout) => Err(self.failure("it gave no answer for two minutes")),
            Err(RecvTimeoutError::Disconnected) => Err(self.failure("it ended with questions open")),
        }
    }

    fn unasked(&self, id: u64) -> PeerFailure {
        self.failure(&format!("it answered {id}, which is not open"))
    }

    fn failure(&self, problem: &str) -> PeerFailure {
        let log = fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(STDERR_LINES)..].join("\n    ");
        PeerFailure(if last.is_empty() { problem.to_owned() } else { format!("{problem}\n    {last}") })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One comparison within a scenario.
pub(crate) struct Comparison {
    pub(crate) what: &'static str,
    pub(crate) index: u64,
    pub(crate) input: Value,
    pub(crate) ours: Value,
    pub(crate) theirs: Value,
    pub(crate) why: Option<&'static Class>,
}

/// Connection of a scenario to the peer, which it shares with other scenarios.
pub(crate) struct Asker {
    wishes: Sender<Wish>,
    answers: Receiver<Result<Value, String>>,
}

/// The next step of a scenario: a question, or its end.
enum Wish {
    Ask(&'static str, Value),
    End(Result<Vec<Comparison>, PeerFailure>),
}

impl Asker {
    /// The peer's answer, which may be an error.
    pub(crate) fn ask(
        &mut self,
        function: &'static str,
        arguments: Value,
    ) -> Result<Result<Value, String>, PeerFailure> {
        let gone = || PeerFailure::new("the run has ended");
        self.wishes.send(Wish::Ask(function, arguments)).map_err(|_| gone())?;
        self.answers.recv().map_err(|_| gone())
    }
}

/// A scenario that runs beside others.
struct Living {
    index: u64,
    wishes: Receiver<Wish>,
    answers: Sender<Result<Value, String>>,
}

/// Runs `width` scenarios concurrently, so that a peer that handles several questions gets them, and passes the comparisons
/// of each scenario to `compare`, in the order of the scenarios.
pub(crate) fn at_once(
    peer: &mut Peer,
    mut indexes: Range<u64>,
    width: usize,
    live: impl Fn(u64, &mut Asker) -> Result<Vec<Comparison>, PeerFailure> + Sync,
    mut compare: impl FnMut(Comparison),
) -> Result<(), PeerFailure> {
    let live = &live;
    std::thread::scope(|scope| {
        let begin = |index| {
            let ((wish, wishes), (answers, answered)) = (mpsc::channel(), mpsc::channel());
            scope.spawn(move || {
                let mut asker = Asker { wishes: wish, answers: answered };
                let comparisons = live(index, &mut asker);
                // The receiver is gone if the run has failed.
                let _ = asker.wishes.send(Wish::End(comparisons));
            });
            Living { index, wishes, answers }
        };
        let mut next_index = indexes.start;
        let mut ended: HashMap<u64, Vec<Comparison>> = HashMap::new();
        let mut asking: HashMap<u64, Living> = HashMap::new();
        loop {
            let scenario = if asking.len() < width && !indexes.is_empty() {
                indexes.next().map(begin)
            } else if asking.is_empty() {
                return Ok(());
            } else {
                let (id, answer) = peer.receive()?;
                let scenario = asking.remove(&id).ok_or_else(|| peer.unasked(id))?;
                // A scenario that has ended receives nothing.
                let _ = scenario.answers.send(answer);
                Some(scenario)
            };
            let Some(scenario) = scenario else { continue };
            match scenario.wishes.recv().map_err(|_| PeerFailure::new("a scenario has ended without a word"))? {
                Wish::Ask(function, arguments) => {
                    asking.insert(peer.send(function, arguments)?, scenario);
                }
                Wish::End(comparisons) => {
                    ended.insert(scenario.index, comparisons?);
                    while let Some(comparisons) = ended.remove(&next_index) {
                        comparisons.into_iter().for_each(&mut compare);
                        next_index += 1;
                    }
                }
            }
        }
    })
}

/// Reads answers to the end of the output, or to the first line that is not an answer.
fn read(output: impl BufRead, answers: &Sender<Answer>) {
    for line in output.lines() {
        let answer = line.map_err(|error| format!("its output cannot be read: {error}")).and_then(|line| parse(&line));
        let is_last = answer.is_err();
        if answers.send(answer).is_err() || is_last {
            return;
        }
    }
}

fn parse(line: &str) -> Answer {
    let problem = || format!("its output is not in the protocol: {}", line.chars().take(200).collect::<String>());
    let mut answer: Value = serde_json::from_str(&with_whole_characters(line)).map_err(|_| problem())?;
    let id = answer["id"].as_u64().ok_or_else(problem)?;
    if let Some(error) = answer["error"].as_str() {
        return Ok((id, Err(error.to_owned())));
    }
    let value = answer.get_mut("ok").ok_or_else(problem)?.take();
    Ok((id, Ok(value)))
}

/// JSON text with every unpaired surrogate replaced by U+FFFD, which no generated text contains.
///
/// JavaScript splits surrogate pairs when it truncates a text, and writes the halves as `\ud83d`, which is not valid in
/// JSON text.
fn with_whole_characters(json: &str) -> String {
    let mut whole = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        rest = &rest[at..];
        let (kept, length) = match (surrogate(rest), surrogate(rest.get(6..).unwrap_or_default())) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (&rest[..12], 12),
            (Some(_), _) => ("\\ufffd", 6),
            (None, _) => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                (&rest[..length], length)
            }
        };
        whole.push_str(kept);
        rest = &rest[length..];
    }
    whole.push_str(rest);
    whole
}

/// The surrogate that is escaped at the start of the text.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..=0xDFFF).contains(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_differ_from_whole_ones() {
        for (json, whole) in [
            (r#""a\ud83d\ude00b""#, r#""a\ud83d\ude00b""#),
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00\ud83d\ud83d\ude00""#, r#""\ufffd\ufffd\ud83d\ude00""#),
            (r#""\\ud83d é\n""#, r#""\\ud83d é\n""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\u00e9""#, r#""\u00e9""#),
            ("\\", "\\"),
        ] {
            assert_eq!(with_whole_characters(json), whole);
        }
    }

    #[test]
    fn answers_are_values_or_errors_with_a_number() {
        assert_eq!(parse(r#"{"id":3,"ok":[1,null]}"#), Ok((3, Ok(json!([1, null])))));
        assert_eq!(parse(r#"{"id":3,"ok":null}"#), Ok((3, Ok(Value::Null))));
        assert_eq!(parse(r#"{"id":4,"error":"no"}"#), Ok((4, Err("no".to_owned()))));
        for line in ["", "warning: deprecated", r#"{"ok":1}"#, r#"{"id":1}"#] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn batches_cover_the_run_once() {
        let run = Run { seed: 1, first: 40, count: 250, scenarios: 0, lives: 0, daemon: None };
        let indexes: Vec<u64> = run.batches().flatten().collect();
        assert_eq!(indexes, (40..290).collect::<Vec<_>>());
        assert_eq!(Run { count: 0, ..run }.batches().count(), 0);
    }
}
