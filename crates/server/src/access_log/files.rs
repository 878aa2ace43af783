//! The files of the log: one for each day.

use super::chain::Chain;
use crate::model::time::Timestamp;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Options of the access log.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its folder, which is made if it does not exist.
    pub directory: PathBuf,
    /// Days for which files are kept; zero for ever.
    pub retention_days: u32,
}

/// The end of a file's name, behind its day.
const SUFFIX: &str = ".jsonl";
/// Mode of the folder and of a file: they are the daemon's alone.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const MICROS_OF_DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// The folder, and the file of the current day.
pub(super) struct Files {
    options: Options,
    /// Days since 1970, and the file; none before the first line.
    current: Option<(i64, File)>,
    /// Bytes of the current file that are whole lines.
    length: u64,
    /// The day by which files were deleted.
    deleted: i64,
}

fn day(now: Timestamp) -> i64 {
    now.0.div_euclid(MICROS_OF_DAY)
}

fn name(day: i64) -> String {
    let date = jiff::Timestamp::from_microsecond(day.saturating_mul(MICROS_OF_DAY)).map(|time| time.to_string());
    format!("{}{SUFFIX}", date.unwrap_or_default().chars().take_while(|letter| *letter != 'T').collect::<String>())
}

/// The files of a log, oldest first, by their names.
pub(super) fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.to_str().is_some_and(|path| path.ends_with(SUFFIX)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Files {
    /// The files in a folder, and the position behind the last line. What is left of a line that was not written whole
    /// was never acknowledged, and goes.
    pub(super) fn open(options: Options) -> Result<(Self, Chain)> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&options.directory)?;
        let files = Self { options, current: None, length: 0, deleted: 0 };
        let mut chain = Chain::new();
        for path in list(&files.options.directory)?.iter().rev() {
            let mut text = String::new();
            File::open(path)?.read_to_string(&mut text)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            if whole.len() < text.len() {
                tracing::warn!(file = %path.display(), "a line of the access log was not written whole, and goes");
                OpenOptions::new().write(true).open(path)?.set_len(whole.len() as u64)?;
            }
            if let Some(last) = whole.lines().next_back() {
                let invalid =
                    || std::io::Error::other(format!("the last line of {} is not one of the log", path.display()));
                chain = Chain::stated(last).ok_or_else(invalid)?;
                break;
            }
        }
        Ok((files, chain))
    }

    /// Makes the file of this moment's day the current one. True if the next line is its first.
    pub(super) fn turn_to(&mut self, now: Timestamp) -> Result<bool> {
        // A clock that was set back goes on with the newer file: the chain follows the order of the files.
        let today = day(now);
        if self.current.as_ref().is_none_or(|(day, _)| *day < today) {
            self.sync()?;
            let newest = list(&self.options.directory)?.pop();
            let path = self.options.directory.join(name(today));
            let path = newest.filter(|newest| *newest > path).unwrap_or(path);
            let mut file = OpenOptions::new().append(true).read(true).create(true).mode(FILE_MODE).open(path)?;
            self.length = file.seek(SeekFrom::End(0))?;
            self.current = Some((today, file));
        }
        Ok(self.length == 0)
    }

    /// Appends lines to the current file, whole or not at all.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<()> {
        let Some((_, file)) = &mut self.current else { return Err(std::io::Error::other("no file is open")) };
        match file.write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                file.set_len(self.length)?;
                Err(error)
            }
        }
    }

    /// Syncs the current file.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.current.as_ref().map_or(Ok(()), |(_, file)| file.sync_data())
    }

    /// Deletes the files whose days are over for longer than they are kept, by a time that is certain to have come.
    pub(super) fn delete_old(&mut self, certain: Timestamp) -> Result<()> {
        let today = day(certain);
        if self.options.retention_days == 0 || self.deleted == today {
            return Ok(());
        }
        let oldest = self.options.directory.join(name(today - i64::from(self.options.retention_days)));
        let mut files = list(&self.options.directory)?;
        // The newest one has the end of the chain.
        files.pop();
        files.iter().filter(|path| **path < oldest).try_for_each(std::fs::remove_file)?;
        self.deleted = today;
        Ok(())
    }
}
