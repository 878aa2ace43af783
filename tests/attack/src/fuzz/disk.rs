//! The encodings of the database.

use super::instance::Template;
use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::{Context as _, Result};
use longhand::store::{DiskForm, Error, reread};

/// The disk format. The head is an encoding with its number: `event 7`.
pub(super) struct Disk;

impl Disk {
    pub(super) fn open() -> Result<Self> {
        Ok(Self)
    }
}

/// The names of encodings, with the query that finds their numbers and bytes.
const FORMS: [(&str, &str); 14] = [
    ("event", "select kind, body from event"),
    ("mark", "select kind, body from mark"),
    ("head", "select 0, head from message"),
    ("finish", "select 0, seal from message where seal is not null"),
    ("parts", "select 0, parts from message where parts is not null"),
    ("part", "select 0, body from part where codec = 0 and body is not null"),
    ("packed", "select length, body from part where codec = 1 and body is not null"),
    ("layout", "select 0, body from layout"),
    ("truncation", "select 0, truncation from pruned where truncation is not null"),
    ("window", "select 0, window from session"),
    ("outcome", "select 0, outcome from job where outcome is not null"),
    ("failure", "select 0, failure from job where failure is not null"),
    ("usage", "select 0, usage from summary_request where usage is not null"),
    ("receipt", "select 0, receipt from request"),
];

fn form(head: &str) -> Option<DiskForm> {
    let (name, number) = head.split_once(' ').unwrap_or((head, "0"));
    let number: i64 = number.parse().ok()?;
    let kind = i32::try_from(number).unwrap_or(i32::MAX);
    Some(match name {
        "event" => DiskForm::Event(kind),
        "mark" => DiskForm::Mark(kind),
        "head" => DiskForm::MessageHead,
        "finish" => DiskForm::Finish,
        "parts" => DiskForm::Parts,
        "part" => DiskForm::Part,
        "packed" => DiskForm::Packed(number),
        "layout" => DiskForm::Layout,
        "truncation" => DiskForm::Truncation,
        "window" => DiskForm::Window,
        "outcome" => DiskForm::Outcome,
        "failure" => DiskForm::Failure,
        "usage" => DiskForm::Usage,
        "receipt" => DiskForm::Receipt,
        _ => return None,
    })
}

impl Decoder for Disk {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let template = Template::new()?;
        let database = template.database()?;
        let mut seeds = Vec::new();
        for (name, query) in FORMS {
            let mut known = std::collections::HashSet::new();
            let mut statement = database.prepare(query).context(query)?;
            let mut rows = statement.query(()).context(query)?;
            while let Some(row) = rows.next().context(query)? {
                let (number, body): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                // A few samples of each kind are enough.
                if known.insert((number, body.len() / 16)) && known.len() <= 40 {
                    seeds.push(Input::new(format!("{name} {number}"), body));
                }
            }
        }
        // A decompression bomb: few bytes that expand to many.
        let bomb = zstd_of_zeros();
        for length in [64 << 20, 65 << 20, i64::MAX, -1, 0] {
            seeds.push(Input::new(format!("packed {length}"), bomb.clone()));
        }
        Ok(seeds)
    }

    fn shape(&self, head: &str) -> Shape {
        if head.starts_with("packed") { Shape::Bytes } else { Shape::Wire }
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let Some(form) = form(&input.head) else { return Ok(Outcome::Refused) };
        let once = match reread(form, &input.body) {
            Ok(once) => once,
            Err(Error::Corrupt { .. }) => return Ok(Outcome::Refused),
            Err(other) => return Err(format!("bytes that cannot be read are no {other:?}")),
        };
        if matches!(form, DiskForm::Packed(_)) {
            return Ok(Outcome::Taken);
        }
        match reread(form, &once) {
            Ok(twice) if twice == once => Ok(Outcome::Taken),
            Ok(_) => Err(format!("{form:?}: what was read is written in two ways")),
            Err(error) => Err(format!("{form:?}: what was read and written cannot be read again: {error}")),
        }
    }
}

/// A zstd frame that expands to 64 MiB of zeros: blocks of one repeated byte, at most 128 KiB each.
fn zstd_of_zeros() -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for block in 0..512_u32 {
        // Last block, type 1 (a byte and its count), size.
        let header = u32::from(block == 511) | 1 << 1 | (128 * 1024) << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}
