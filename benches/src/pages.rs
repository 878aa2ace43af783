//! Pages in SQLite's write-ahead log: what an append writes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;

/// A write-ahead log. Its frames are one page each; the frames of one generation carry the salts of the log's header,
/// and a checkpoint begins a new generation.
pub(crate) struct Log {
    file: File,
    salts: [u8; 8],
    frames: u64,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        let mut log = Self { file: File::open(path).expect("a log"), salts: [0; 8], frames: 0 };
        log.grown();
        log
    }

    /// The number of pages written since the last call; none if a new generation began in between.
    pub(crate) fn grown(&mut self) -> Option<u64> {
        let mut header = [0; HEADER_BYTES as usize];
        self.file.read_exact_at(&mut header, 0).ok()?;
        let page = u32::from_be_bytes(header[8..12].try_into().expect("four bytes"));
        let salts: [u8; 8] = header[16..24].try_into().expect("eight bytes");
        let is_same = salts == self.salts;
        let before = if is_same { self.frames } else { 0 };
        let mut frames = before;
        let mut frame = [0; FRAME_HEADER_BYTES as usize];
        let size = FRAME_HEADER_BYTES + u64::from(page);
        while self.file.read_exact_at(&mut frame, HEADER_BYTES + frames * size).is_ok() && frame[8..16] == salts {
            frames += 1;
        }
        (self.salts, self.frames) = (salts, frames);
        is_same.then_some(frames - before)
    }
}
