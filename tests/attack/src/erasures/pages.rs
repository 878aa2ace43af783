//! Where on a page of SQLite some bytes are, for people who look for the reason of a finding.

use std::path::Path;

const PAGE_BYTES: usize = 4_096;
/// The headers of the database and of its log, and of each page in the log.
const DATABASE_HEADER_BYTES: usize = 100;
const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

fn two_bytes(page: &[u8], at: usize) -> usize {
    page.get(at..at + 2).map_or(0, |bytes| usize::from(bytes[0]) << 8 | usize::from(bytes[1]))
}

/// The place of an offset in a file: the page with its kind, and the region of it.
pub(super) fn place(path: &Path, bytes: &[u8], offset: usize) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (number, start) = if name.ends_with(".db") {
        (offset / PAGE_BYTES + 1, offset / PAGE_BYTES * PAGE_BYTES)
    } else if name.ends_with("-wal") && offset > LOG_HEADER_BYTES {
        let frame = (offset - LOG_HEADER_BYTES) / (FRAME_HEADER_BYTES + PAGE_BYTES);
        let header = LOG_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + PAGE_BYTES);
        let number = two_bytes(bytes, header) << 16 | two_bytes(bytes, header + 2);
        (number, header + FRAME_HEADER_BYTES)
    } else {
        return format!("{name} at {offset}");
    };
    let Some(page) = bytes.get(start..start + PAGE_BYTES) else { return format!("{name} at {offset}") };
    format!("{name}: page {number}, {}", region(page, number == 1, offset.saturating_sub(start)))
}

fn region(page: &[u8], is_first: bool, at: usize) -> String {
    let header = if is_first { DATABASE_HEADER_BYTES } else { 0 };
    let (kind, header_bytes) = match page[header] {
        2 => ("interior of an index", 12),
        5 => ("interior of a table", 12),
        10 => ("leaf of an index", 8),
        13 => ("leaf of a table", 8),
        other => return format!("no page of a tree (begins with {other}), byte {at}"),
    };
    let cells = two_bytes(page, header + 3);
    let content = match two_bytes(page, header + 5) {
        0 => 65_536,
        content => content,
    };
    let pointers = header + header_bytes + 2 * cells;
    if at < pointers {
        return format!("{kind}, header");
    }
    if at < content {
        return format!("{kind}, gap {pointers} to {content}, byte {at}");
    }
    let mut block = two_bytes(page, header + 1);
    while block != 0 && block + 4 <= PAGE_BYTES {
        if (block..block + two_bytes(page, block + 2)).contains(&at) {
            return format!("{kind}, free block at {block}, byte {at}");
        }
        block = two_bytes(page, block);
    }
    format!("{kind}, cells, byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_offset_is_named() {
        let mut page = vec![0; PAGE_BYTES];
        page[..8].copy_from_slice(&[13, 0x0f, 0x00, 0, 2, 0x0e, 0x00, 0]);
        page[0xf02..0xf04].copy_from_slice(&[0, 16]);
        let mut file = vec![0; PAGE_BYTES];
        file.extend(&page);
        let place = |at| place(Path::new("a/longhand.db"), &file, PAGE_BYTES + at);
        assert_eq!(place(4), "longhand.db: page 2, leaf of a table, header");
        assert_eq!(place(100), "longhand.db: page 2, leaf of a table, gap 12 to 3584, byte 100");
        assert_eq!(place(0xf08), "longhand.db: page 2, leaf of a table, free block at 3840, byte 3848");
        assert_eq!(place(0xe10), "longhand.db: page 2, leaf of a table, cells, byte 3600");
    }
}
