//! Exports of a database in which one bit or byte was altered: each message comes out intact, or the export names it.

use super::client::Client;
use super::{home, start};
use crate::daemon::AS_LONGHAND;
use crate::seed;
use anyhow::{Context as _, Result, bail, ensure};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Bytes of a page of the database.
const PAGE: usize = 4_096;
/// The first page begins with the header of the file.
const FILE_HEADER: usize = 100;
/// Exit code for an export that lacks something.
const PARTIAL: i32 = 3;
/// Deadline of one export.
const DEADLINE: Duration = Duration::from_secs(120);

/// The results of a number of exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exports {
    /// All messages are intact, and the export says so.
    pub whole: u64,
    /// The export names lost rows, gaps or doubts.
    pub named: u64,
    /// Those of them in which a message is missing or not as it was.
    pub lossy: u64,
    /// Missing or altered messages in all of them.
    pub messages: u64,
    /// The command failed as a whole, with a reason.
    pub refused: u64,
    /// Exports that are whole and have a session with another value in a column that no event commits to.
    pub sessions: u64,
}

impl fmt::Display for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, named, lossy, messages, refused, sessions } = self;
        let all = whole + named + refused;
        write!(
            f,
            "{all} alterations: {whole} exports whole, {named} partial and named ({lossy} of them without {messages} \
             messages as they were), {refused} refused, 0 silent; {sessions} with a column of a session that nothing \
             commits to"
        )
    }
}

/// An alteration of one byte.
#[derive(Debug, Clone, Copy)]
struct Alteration {
    /// The part of the page.
    place: &'static str,
    at: usize,
    mask: u8,
}

impl fmt::Display for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, at, mask } = self;
        write!(f, "byte {at}, in the {place} of page {}, xor {mask:#04x}", at / PAGE + 1)
    }
}

/// What an export wrote.
#[derive(Default)]
struct Export {
    sessions: BTreeMap<String, Value>,
    messages: BTreeMap<String, Vec<Value>>,
    lost: Vec<Value>,
}

fn word<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// A number that is a string in JSON.
fn number(value: &Value, name: &str) -> Option<i64> {
    value[name].as_str()?.parse().ok()
}

impl Export {
    fn read(folder: &Path) -> Result<Self> {
        let mut export = Self::default();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for line in fs::read_to_string(&path)?.lines() {
                let value: Value = serde_json::from_str(line).with_context(|| format!("{name}: {line}"))?;
                match name.as_str() {
                    "sessions.jsonl" => drop(export.sessions.insert(word(&value, "sessionId").to_owned(), value)),
                    "lost.jsonl" => export.lost.push(value),
                    _ => export.messages.entry(word(&value, "messageId").to_owned()).or_default().push(value),
                }
            }
        }
        Ok(export)
    }

    /// True if a line names the message: by its session and a revision at which it was written.
    fn names(&self, message: &Value, sessions: &BTreeSet<String>) -> bool {
        let parts = message["parts"].as_array().into_iter().flatten();
        let revisions: Vec<i64> = parts
            .chain([message])
            .flat_map(|value| [number(value, "revision"), number(value, "sealedRevision")])
            .flatten()
            .collect();
        self.lost.iter().any(|line| {
            let session = word(line, "sessionId");
            // The id of the session may be what was altered.
            let is_session = session == word(message, "sessionId") || !sessions.contains(session);
            let first = number(line, "revision");
            let last = number(line, "lastRevision").or(first);
            let is_row = word(line, "table") == "message" || word(line, "table") == "session";
            is_session
                && match first.zip(last) {
                    Some((0, 0)) => word(line, "table") == "session",
                    Some((first, last)) => revisions.iter().any(|revision| (first..=last).contains(revision)),
                    None => is_row,
                }
        })
    }

    /// The messages of the original that are missing here or not as they were, and messages that it does not have.
    fn lacks<'o>(&self, original: &'o Self) -> Vec<&'o Value> {
        let all = original.messages.iter().flat_map(|(id, messages)| messages.iter().map(move |it| (id, it)));
        all.filter(|(id, message)| self.messages.get(*id).is_none_or(|found| found.iter().any(|it| it != *message)))
            .map(|(_, message)| message)
            .collect()
    }

    fn has_strangers(&self, original: &Self) -> bool {
        self.messages.iter().any(|(id, found)| original.messages.get(id).is_none_or(|it| it.len() < found.len()))
    }
}

fn words(random: &mut StdRng, bytes: usize) -> String {
    (0..bytes).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
}

/// Fills a store with sessions of every kind, whose tables and indexes have several levels of pages.
async fn fill(program: &Path, store: &Path, random: &mut StdRng) -> Result<()> {
    let daemon = start(program, store).await?;
    let client = Client::of(&daemon);
    let mut texts = |count: usize, bytes: usize| -> Vec<Vec<String>> {
        (0..count).map(|number| vec![format!("message {number} {}", words(random, bytes))]).collect()
    };
    let main = client.create().await?;
    let mut ids = Vec::new();
    for bytes in [40, 300, 1_200] {
        ids.extend(client.append_all(&main, &texts(150, bytes), false).await?);
    }
    ids.extend(client.append_all(&main, &texts(2, 60_000), false).await?);
    for number in 0..60 {
        let opened = client.append_all(&main, &texts(1, 20), true).await?;
        let id = opened.first().context("no message")?;
        client.add_parts(&main, id, &texts(2 + number % 3, 100).concat()).await?;
        // The last ones stay open.
        if number < 55 {
            client.finish(&main, id).await?;
        }
    }
    for id in ids.iter().step_by(90) {
        client.edit(&main, id, "better").await?;
    }
    let fork = client.fork(&main, &ids[200]).await?;
    client.append_all(&fork, &texts(60, 200), false).await?;
    let archived = client.create().await?;
    client.append_all(&archived, &texts(20, 200), false).await?;
    client.archive(&archived).await?;
    ensure!(daemon.stop().await?.success(), "it stops cleanly");
    Ok(())
}

/// Runs an export. Returns its exit code, its errors and what it wrote.
async fn export(program: &Path, store: &Path, folder: &Path) -> Result<(i32, String, Export)> {
    let mut command = Command::new(program);
    command.args([AS_LONGHAND, "doctor"]).arg(store).arg("--export").arg(folder).kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, command.stdin(Stdio::null()).output()).await;
    let output = output.context("the export has no end")??;
    let code = output.status.code().context("the export crashed")?;
    Ok((code, String::from_utf8_lossy(&output.stderr).into_owned(), Export::read(folder)?))
}

/// The header of the tree's page at an offset, with its length and its number of cells; none for other pages.
fn header(bytes: &[u8], page: usize) -> Option<(usize, usize, usize)> {
    let at = if page == 0 { FILE_HEADER } else { page * PAGE };
    let length = match bytes[at] {
        2 | 5 => 12,
        10 | 13 => 8,
        _ => return None,
    };
    let cells = usize::from(u16::from_be_bytes([bytes[at + 3], bytes[at + 4]]));
    (cells > 0 && cells < PAGE / 4).then_some((at, length, cells))
}

/// A random alteration of a random page: of its header, its pointers to cells, or its cells.
fn draw(random: &mut StdRng, bytes: &[u8]) -> Alteration {
    let mask = if random.random() { 1 << random.random_range(0..8) } else { random.random_range(1..=u8::MAX) };
    loop {
        let page = random.random_range(0..bytes.len() / PAGE);
        let Some((header, length, cells)) = header(bytes, page) else { continue };
        let begin = usize::from(u16::from_be_bytes([bytes[header + 5], bytes[header + 6]]));
        let (place, range) = match random.random_range(0..3) {
            0 => ("header", header..header + length),
            1 => ("pointers", header + length..header + length + 2 * cells),
            _ => ("cells", page * PAGE + begin.min(PAGE - 1)..(page + 1) * PAGE),
        };
        return Alteration { place, at: random.random_range(range), mask };
    }
}

/// Compares an export with that of the original.
fn judge(results: &mut Exports, original: &Export, (code, errors, found): (i32, String, Export)) -> Result<()> {
    let sessions: BTreeSet<String> = original.sessions.keys().cloned().collect();
    let lacks = found.lacks(original);
    match code {
        0 => {
            ensure!(lacks.is_empty(), "{} messages are missing or altered in silence: {}", lacks.len(), lacks[0]);
            ensure!(!found.has_strangers(original), "there are messages that nobody wrote");
            ensure!(found.sessions.keys().eq(original.sessions.keys()), "a session is missing in silence");
            results.whole += 1;
            results.sessions += u64::from(found.sessions != original.sessions);
        }
        PARTIAL => {
            ensure!(!found.lost.is_empty(), "nothing is named");
            if let Some(silent) = lacks.iter().find(|message| !found.names(message, &sessions)) {
                bail!("a message is not named: {silent}\nby {:?}", found.lost.iter().take(9).collect::<Vec<_>>());
            }
            results.named += 1;
            results.lossy += u64::from(!lacks.is_empty());
            results.messages += lacks.len() as u64;
        }
        1 => {
            ensure!(errors.contains("cannot export"), "no reason: {errors}");
            results.refused += 1;
        }
        _ => bail!("exit code {code}: {errors}"),
    }
    Ok(())
}

/// Alters random bytes of the database, one at a time, and exports it: whatever was altered, each message comes out as
/// it was written, or the export names it and ends with another exit code.
pub async fn exports(program: &Path, seed: u64, count: u64) -> Result<Exports> {
    let mut random = seed::generator(seed, "exports");
    let home = home()?;
    let store = home.path().join("store");
    fill(program, &store, &mut random).await?;
    let path = store.join("longhand.db");
    let bytes = fs::read(&path)?;
    let (code, errors, original) = export(program, &store, &home.path().join("whole")).await?;
    ensure!(code == 0 && original.lost.is_empty(), "the store is whole: {errors} {:?}", original.lost);
    let mut results = Exports::default();
    for number in 0..count {
        let alteration = draw(&mut random, &bytes);
        let mut altered = bytes.clone();
        altered[alteration.at] ^= alteration.mask;
        for beside in ["-wal", "-shm"] {
            drop(fs::remove_file(store.join(format!("longhand.db{beside}"))));
        }
        fs::write(&path, &altered)?;
        let folder = home.path().join(number.to_string());
        let found = export(program, &store, &folder).await.with_context(|| format!("{number}: {alteration}"))?;
        if let Err(error) = judge(&mut results, &original, found) {
            let kept = home.keep();
            return Err(error.context(format!("{number}: {alteration}; {} is kept", kept.display())));
        }
        fs::remove_dir_all(&folder)?;
    }
    Ok(results)
}
