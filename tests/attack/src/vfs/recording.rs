//! The recorded writes and syncs of a directory, and the files that a power cut would leave.
//!
//! Synced changes are on disk. Of the others, a disk keeps any subset: writes arrive in any order, sector by sector,
//! and the sector being written is half old and half new. Bytes outside of writes stay as they were, as SQLite assumes
//! of every disk. The name of a new file, or the removal of a name, is on disk once its directory is synced, and may be
//! before.

use anyhow::{Context as _, Result};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Size of the unit that a disk writes atomically, except when torn, in bytes.
const SECTOR: usize = 512;

/// Identifies a file, whatever its name.
pub type FileId = usize;

/// One change of the directory.
#[derive(Debug)]
enum Change {
    /// A directory was created.
    Directory(String),
    /// A file was created.
    Created(String, FileId),
    /// A name was removed.
    Deleted(String),
    /// Bytes were written at an offset.
    Wrote(FileId, usize, Vec<u8>),
    /// A file was truncated or extended.
    Truncated(FileId, usize),
    /// All changes of a file before a moment are on disk.
    Synced(FileId, usize),
    /// The names in a directory are on disk.
    SyncedDirectory(String),
}

/// The treatment of unsynced changes by the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Luck {
    /// None of them was written.
    Nothing,
    /// All of them were written.
    Everything,
    /// They were written in order, up to a position within one write.
    InOrder,
    /// Some sectors were written and some were not, each in one of the states it ever had; some are torn.
    Scattered,
}

/// Result of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The treatment of unsynced changes.
    pub luck: Luck,
    /// Number of unsynced changes.
    pub unsynced: usize,
    /// Number of sectors that are half old and half new.
    pub torn: usize,
}

/// All changes of a directory.
#[derive(Debug)]
pub struct Recording {
    /// Files at the beginning.
    first_names: BTreeMap<String, FileId>,
    first_directories: BTreeSet<String>,
    /// The first contents of each file.
    first: Vec<Vec<u8>>,
    names: BTreeMap<String, FileId>,
    directories: BTreeSet<String>,
    changes: Vec<Change>,
}

/// A file's state on disk.
#[derive(Debug, Clone, Default)]
struct OnDisk {
    synced: Vec<u8>,
    /// Changes that were not synced.
    pending: Vec<usize>,
}

/// The files that a name referred to.
#[derive(Debug, Clone, Default)]
struct Entry {
    synced: Option<FileId>,
    pending: Vec<Option<FileId>>,
}

/// The names of directories; true for those that are certainly on disk.
type Directories = BTreeMap<String, bool>;

/// The WAL's shared memory is a file in name only: nobody syncs it, and the next start creates it anew.
fn is_shared_memory(name: &str) -> bool {
    name.ends_with("-shm")
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Recording {
    /// A recording that begins with the contents of a directory, which count as synced.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let mut recording = Self {
            first_names: BTreeMap::new(),
            first_directories: BTreeSet::new(),
            first: Vec::new(),
            names: BTreeMap::new(),
            directories: BTreeSet::new(),
            changes: Vec::new(),
        };
        recording.take_in(root, "")?;
        recording.names = recording.first_names.clone();
        recording.directories = recording.first_directories.clone();
        Ok(recording)
    }

    fn take_in(&mut self, root: &Path, directory: &str) -> Result<()> {
        self.first_directories.insert(directory.to_owned());
        for entry in std::fs::read_dir(root.join(directory)).context("the directory to record")? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if entry.file_type()?.is_dir() {
                self.take_in(root, &name)?;
            } else if !is_shared_memory(&name) {
                self.first_names.insert(name, self.first.len());
                self.first.push(std::fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Number of changes so far.
    pub fn moment(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn opened(&mut self, name: &str) -> FileId {
        if let Some(file) = self.names.get(name) {
            return *file;
        }
        self.made(parent(name));
        let file = self.first.len();
        self.first.push(Vec::new());
        self.names.insert(name.to_owned(), file);
        self.changes.push(Change::Created(name.to_owned(), file));
        file
    }

    fn made(&mut self, directory: &str) {
        if self.directories.insert(directory.to_owned()) {
            self.changes.push(Change::Directory(directory.to_owned()));
        }
    }

    pub(super) fn deleted(&mut self, name: &str) {
        if self.names.remove(name).is_some() {
            self.changes.push(Change::Deleted(name.to_owned()));
        }
    }

    pub(super) fn wrote(&mut self, file: FileId, offset: u64, data: &[u8]) {
        self.changes.push(Change::Wrote(file, usize::try_from(offset).unwrap_or(usize::MAX), data.to_vec()));
    }

    pub(super) fn truncated(&mut self, file: FileId, size: u64) {
        self.changes.push(Change::Truncated(file, usize::try_from(size).unwrap_or(usize::MAX)));
    }

    pub(super) fn synced(&mut self, file: FileId, moment: usize) {
        self.changes.push(Change::Synced(file, moment));
    }

    /// Syncs a directory with its present entries: some files and directories are created without the layer.
    pub(super) fn synced_directory(&mut self, name: &str, there: &[(String, bool)]) {
        for (entry, is_directory) in there.iter().filter(|(entry, _)| !is_shared_memory(entry)) {
            let entry = if name.is_empty() { entry.clone() } else { format!("{name}/{entry}") };
            if *is_directory {
                self.made(&entry);
            } else {
                self.opened(&entry);
            }
        }
        self.changes.push(Change::SyncedDirectory(name.to_owned()));
    }

    /// Builds, in an empty directory, the files on disk after a power cut behind the first `moment` changes.
    pub fn cut(&self, moment: usize, chance: &mut StdRng, into: &Path) -> Result<Damage> {
        let moment = moment.min(self.changes.len());
        let (files, entries, mut directories) = self.at(moment);
        let luck = match chance.random_range(0..8) {
            0 | 1 => Luck::Nothing,
            2 => Luck::Everything,
            3 | 4 => Luck::InOrder,
            _ => Luck::Scattered,
        };
        let oldest = files.iter().filter_map(|file| file.pending.first().copied()).min().unwrap_or(moment);
        let until = chance.random_range(oldest..=moment);
        let mut damage = Damage { luck, unsynced: 0, torn: 0 };
        for (name, is_there) in &mut directories {
            *is_there |= keeps(luck, chance);
            if *is_there {
                std::fs::create_dir_all(into.join(name))?;
                std::fs::set_permissions(into.join(name), Permissions::from_mode(0o700))?;
            }
        }
        for (name, entry) in entries {
            let kept = match luck {
                Luck::Nothing => 0,
                Luck::Everything => entry.pending.len(),
                Luck::InOrder | Luck::Scattered => chance.random_range(0..=entry.pending.len()),
            };
            let file = if kept == 0 { entry.synced } else { entry.pending[kept - 1] };
            if let Some(file) = file.filter(|_| directories.get(parent(&name)).copied().unwrap_or(false)) {
                let bytes = self.left_of(&files[file], luck, until, chance, &mut damage);
                std::fs::write(into.join(&name), bytes)?;
                std::fs::set_permissions(into.join(&name), Permissions::from_mode(0o600))?;
            }
        }
        Ok(damage)
    }

    /// The state of the disk after the first `moment` changes.
    fn at(&self, moment: usize) -> (Vec<OnDisk>, BTreeMap<String, Entry>, Directories) {
        let whole = |bytes: &Vec<u8>| OnDisk { synced: bytes.clone(), pending: Vec::new() };
        let mut files: Vec<OnDisk> = self.first.iter().map(whole).collect();
        let entry =
            |(name, file): (&String, &FileId)| (name.clone(), Entry { synced: Some(*file), pending: Vec::new() });
        let mut entries: BTreeMap<String, Entry> = self.first_names.iter().map(entry).collect();
        let mut directories: Directories = self.first_directories.iter().map(|name| (name.clone(), true)).collect();
        for (index, change) in self.changes[..moment].iter().enumerate() {
            match change {
                Change::Directory(name) => {
                    directories.insert(name.clone(), false);
                }
                Change::Created(name, file) => entries.entry(name.clone()).or_default().pending.push(Some(*file)),
                Change::Deleted(name) => entries.entry(name.clone()).or_default().pending.push(None),
                Change::Wrote(file, ..) | Change::Truncated(file, _) => files[*file].pending.push(index),
                Change::Synced(file, before) => {
                    let file = &mut files[*file];
                    let (synced, pending) = file.pending.iter().partition(|index| **index < *before);
                    file.pending = pending;
                    let synced: Vec<usize> = synced;
                    synced.into_iter().for_each(|index| self.apply(index, &mut file.synced));
                }
                Change::SyncedDirectory(directory) => {
                    for (_, entry) in entries.iter_mut().filter(|(name, _)| parent(name) == directory) {
                        entry.synced = entry.pending.last().copied().unwrap_or(entry.synced);
                        entry.pending.clear();
                    }
                    for (_, is_there) in
                        directories.iter_mut().filter(|(name, _)| !name.is_empty() && parent(name) == directory)
                    {
                        *is_there = true;
                    }
                }
            }
        }
        (files, entries, directories)
    }

    /// Applies a change to a file's bytes.
    fn apply(&self, index: usize, bytes: &mut Vec<u8>) {
        match &self.changes[index] {
            Change::Wrote(_, offset, data) => {
                let end = offset + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(data);
            }
            Change::Truncated(_, size) => bytes.resize(*size, 0),
            _ => {}
        }
    }

    /// The bytes of a file after a power cut.
    fn left_of(&self, file: &OnDisk, luck: Luck, until: usize, chance: &mut StdRng, damage: &mut Damage) -> Vec<u8> {
        damage.unsynced += file.pending.len();
        let mut bytes = file.synced.clone();
        match luck {
            Luck::Nothing => {}
            Luck::Everything => file.pending.iter().for_each(|index| self.apply(*index, &mut bytes)),
            Luck::InOrder => {
                let whole = file.pending.iter().filter(|index| **index < until);
                whole.for_each(|index| self.apply(*index, &mut bytes));
                if file.pending.contains(&until)
                    && let Change::Wrote(_, offset, data) = &self.changes[until]
                {
                    let written = chance.random_range(0..=data.len());
                    let end = offset + written;
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[*offset..end].copy_from_slice(&data[..written]);
                    damage.torn += usize::from(!end.is_multiple_of(SECTOR));
                }
            }
            Luck::Scattered => return self.scatter(file, chance, damage),
        }
        bytes
    }

    /// Each sector in one of its states since the last sync, or torn between two of them; the length is one that the
    /// file had.
    fn scatter(&self, file: &OnDisk, chance: &mut StdRng, damage: &mut Damage) -> Vec<u8> {
        let mut now = file.synced.clone();
        let mut lengths = vec![now.len()];
        let mut states: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for index in &file.pending {
            let touched = match &self.changes[*index] {
                Change::Wrote(_, offset, data) => offset / SECTOR..(offset + data.len()).div_ceil(SECTOR),
                _ => 0..0,
            };
            for sector in touched.clone() {
                states.entry(sector).or_insert_with(|| vec![sector_of(&now, sector)]);
            }
            self.apply(*index, &mut now);
            lengths.push(now.len());
            for sector in touched {
                states.entry(sector).or_default().push(sector_of(&now, sector));
            }
        }
        let length = lengths[chance.random_range(0..lengths.len())];
        let mut bytes = file.synced.clone();
        bytes.resize(length, 0);
        for (sector, states) in states {
            let start = sector * SECTOR;
            if start >= length {
                continue;
            }
            let mut left = states[chance.random_range(0..states.len())].clone();
            if chance.random_range(0..8) == 0 {
                let other = &states[chance.random_range(0..states.len())];
                let at = chance.random_range(0..SECTOR);
                left[at..].copy_from_slice(&other[at..]);
                damage.torn += 1;
            }
            let end = length.min(start + SECTOR);
            bytes[start..end].copy_from_slice(&left[..end - start]);
        }
        bytes
    }
}

/// True if an unsynced change is kept.
fn keeps(luck: Luck, chance: &mut StdRng) -> bool {
    match luck {
        Luck::Nothing => false,
        Luck::Everything => true,
        Luck::InOrder | Luck::Scattered => chance.random(),
    }
}

/// A sector of a file, zero-filled beyond the end of the file.
fn sector_of(bytes: &[u8], sector: usize) -> Vec<u8> {
    let start = (sector * SECTOR).min(bytes.len());
    let end = (start + SECTOR).min(bytes.len());
    let mut sector = bytes[start..end].to_vec();
    sector.resize(SECTOR, 0);
    sector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    /// The results of cuts of all kinds, in a directory with a file of zeros, after some changes.
    fn cuts(change: impl Fn(&mut Recording, FileId)) -> Vec<(Damage, BTreeMap<String, Vec<u8>>)> {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::write(root.path().join("old"), [0; 2 * SECTOR]).expect("written");
        let mut recording = Recording::of(root.path()).expect("a recording");
        let file = recording.opened("old");
        change(&mut recording, file);
        let cut = |number: u64| {
            let into = tempfile::tempdir().expect("a folder");
            let mut chance = seed::generator(number, "cut");
            let damage = recording.cut(usize::MAX, &mut chance, into.path()).expect("a cut");
            let read = |entry: std::io::Result<std::fs::DirEntry>| {
                let entry = entry.expect("an entry");
                (entry.file_name().into_string().expect("a name"), std::fs::read(entry.path()).expect("read"))
            };
            (damage, std::fs::read_dir(into.path()).expect("listed").map(read).collect())
        };
        (0..200).map(cut).collect()
    }

    #[test]
    fn synced_writes_are_whole_and_others_are_there_in_part() {
        let left = cuts(|recording, file| {
            recording.wrote(file, 0, &[1; SECTOR]);
            recording.synced(file, recording.moment());
            recording.wrote(file, 512, &[2; SECTOR]);
        });
        let mut seen = BTreeSet::new();
        for (_, files) in &left {
            let bytes = &files["old"];
            assert_eq!((bytes.len(), &bytes[..SECTOR]), (2 * SECTOR, &[1; SECTOR][..]));
            seen.insert((bytes[SECTOR], bytes[2 * SECTOR - 1]));
        }
        assert_eq!(seen, BTreeSet::from([(0, 0), (0, 2), (2, 0), (2, 2)]), "old, new, and torn both ways");
        assert!(left.iter().any(|(damage, _)| damage.torn > 0));
    }

    #[test]
    fn a_write_behind_a_sync_that_had_begun_is_not_synced() {
        let left = cuts(|recording, file| {
            let moment = recording.moment();
            recording.wrote(file, 0, &[1; SECTOR]);
            recording.synced(file, moment);
        });
        assert!(left.iter().any(|(_, files)| files["old"][0] == 0));
    }

    #[test]
    fn bytes_beside_a_write_are_never_harmed() {
        let left = cuts(|recording, file| {
            recording.wrote(file, 0, &[1; 100]);
            recording.synced(file, recording.moment());
            recording.wrote(file, 100, &[2; 100]);
            recording.wrote(file, 100, &[3; 100]);
        });
        for (_, files) in &left {
            let bytes = &files["old"];
            assert_eq!((&bytes[..100], &bytes[200..SECTOR]), (&[1; 100][..], &[0; SECTOR - 200][..]));
        }
    }

    #[test]
    fn a_length_is_one_that_the_file_had() {
        let left = cuts(|recording, file| {
            recording.truncated(file, 0);
            recording.wrote(file, 0, &[1; SECTOR]);
        });
        let lengths: BTreeSet<usize> = left.iter().map(|(_, files)| files["old"].len()).collect();
        for length in [0, SECTOR, 2 * SECTOR] {
            assert!(lengths.contains(&length), "{lengths:?}");
        }
    }

    #[test]
    fn names_are_there_once_their_directory_was_synced_and_before_that_perhaps() {
        let perhaps = cuts(|recording, _| {
            recording.opened("new");
            recording.deleted("old");
        });
        for name in ["new", "old"] {
            let there = perhaps.iter().filter(|(_, files)| files.contains_key(name)).count();
            assert!((1..perhaps.len()).contains(&there), "{name}: {there}");
        }
        let surely = cuts(|recording, _| {
            recording.opened("new");
            recording.deleted("old");
            recording.synced_directory("", &[]);
        });
        assert!(surely.iter().all(|(_, files)| files.keys().eq(["new"])));
    }
}
