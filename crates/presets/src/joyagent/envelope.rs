//! The length of each message with its envelope, as JoyAgent counts: every result is a message of its own.
//!
//! The units of a message are a fixed number, and those of its role's name, its texts, the names and inputs of its
//! calls, and the id of the call that it answers. Images count by their size in tiles; the size is read from the image
//! itself.

use super::parameters::{Detail, Envelope};
use crate::model::message::Role;
use crate::model::part::{Media, MediaSource};
use crate::policy::Counting;
use crate::policy::strategy::{CountStrategy, Parameters};
use crate::policy::tokens::units::{ShownPart, role_name, text_units};

/// Units of each message, without its role's name.
const MESSAGE_UNITS: i64 = 4;
/// Units of a list of messages.
const LIST_UNITS: i64 = 2;
/// Units of an image that is read as a whole; images in tiles have them in addition.
const BASE_UNITS: i64 = 85;
const TILE_UNITS: i64 = 170;
/// Side length of a tile, in pixels.
const TILE_PIXELS: f64 = 512.0;
/// Maximum length of an image's longer side, in pixels; a larger image is scaled down first.
const LONG_SIDE_PIXELS: f64 = 2_048.0;
/// Length of an image's shorter side after the second scaling, up or down, in pixels.
const SHORT_SIDE_PIXELS: f64 = 768.0;

impl Parameters for Envelope {
    const NAME: &'static str = "envelope";
}

impl CountStrategy for Envelope {
    fn units(&self, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
        units(*self, counting, role, parts)
    }

    fn message_units(&self) -> i64 {
        MESSAGE_UNITS
    }

    fn list_units(&self) -> i64 {
        LIST_UNITS
    }
}

/// The units of one message, which has parts; the caller adds those of the list.
fn units(envelope: Envelope, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
    let around = |role: Role| MESSAGE_UNITS.saturating_add(text_units(counting, role_name(role)));
    let is_result = |part: &ShownPart<'_>| matches!(part, ShownPart::Result { .. });
    let own = if parts.iter().all(is_result) { 0 } else { around(role) };
    let of = |part: &ShownPart<'_>| match part {
        ShownPart::Text(text) => text_units(counting, text),
        ShownPart::Call { call, input_json } => {
            text_units(counting, &call.tool).saturating_add(text_units(counting, input_json))
        }
        ShownPart::Result { result, output, attachments } => {
            let media = attachments.iter().map(|media| media_units(envelope.detail, counting, media));
            let words = text_units(counting, output).saturating_add(text_units(counting, &result.call_id));
            media.fold(words.saturating_add(around(Role::Tool)), i64::saturating_add)
        }
        ShownPart::Media(media) => media_units(envelope.detail, counting, media),
        ShownPart::Reasoning(_) | ShownPart::Opaque(_) => 0,
    };
    parts.iter().map(of).fold(own, i64::saturating_add)
}

fn media_units(detail: Detail, counting: &Counting, media: &Media) -> i64 {
    if !media.mime_type.starts_with("image/") {
        return counting.media.units_of(media);
    }
    let size = match &media.source {
        MediaSource::Bytes(bytes) => size(bytes),
        MediaSource::Uri(_) => None,
    };
    match (detail, size) {
        (Detail::Low, _) => BASE_UNITS,
        (Detail::Medium | Detail::High, Some((width, height))) => tile_units(width, height),
        (Detail::Medium, None) => counting.media.units_of(media),
        (Detail::High, None) => tile_units(1, 1),
    }
}

/// The units of an image in tiles.
fn tile_units(width: u32, height: u32) -> i64 {
    // Sides are whole pixels after each step.
    let scaled = |side: f64, scale: f64| (side * scale).floor().max(1.0);
    let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
    let shrink = (LONG_SIDE_PIXELS / width.max(height)).min(1.0);
    let (width, height) = (scaled(width, shrink), scaled(height, shrink));
    let scale = SHORT_SIDE_PIXELS / width.min(height);
    let tiles = |side: f64| (scaled(side, scale) / TILE_PIXELS).ceil() as i64;
    tiles(width).saturating_mul(tiles(height)).saturating_mul(TILE_UNITS).saturating_add(BASE_UNITS)
}

/// Width and height of a PNG, a GIF or a JPEG, read from its header.
fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some((number(bytes.get(16..20)?), number(bytes.get(20..24)?)));
    }
    if bytes.starts_with(b"GIF8") {
        let little = |at: usize| Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
        return Some((little(6)?, little(8)?));
    }
    jpeg_size(bytes.strip_prefix(b"\xff\xd8")?)
}

/// Finds the segment that has a JPEG's size.
fn jpeg_size(mut rest: &[u8]) -> Option<(u32, u32)> {
    loop {
        let (marker, behind) = (rest.get(1)?, rest.get(2..)?);
        let length = number(behind.get(..2)?) as usize;
        // The markers of frames of every kind, without those of tables, whose numbers lie between them.
        if rest[0] == 0xff && matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) {
            return Some((number(behind.get(5..7)?), number(behind.get(3..5)?)));
        }
        if rest[0] != 0xff || length < 2 {
            return None;
        }
        rest = behind.get(length..)?;
    }
}

/// A number, highest byte first.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::MediaUnits;

    fn units_of(detail: Detail, bytes: &[u8]) -> i64 {
        let mut counting = crate::policy("joyagent").counting;
        counting.media = MediaUnits::same(1_024);
        let source = MediaSource::Bytes(bytes.to_vec());
        media_units(detail, &counting, &Media { mime_type: "image/png".into(), source, ..Media::default() })
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes()].concat()
    }

    #[test]
    fn images_count_by_detail_and_size() {
        for (detail, bytes, expected) in [
            (Detail::Low, png(4_096, 2_048), 85),
            (Detail::High, Vec::new(), 765),
            (Detail::Medium, Vec::new(), 1_024),
            (Detail::High, png(4_096, 2_048), 1_105),
            (Detail::Medium, png(4_096, 2_048), 1_105),
            (Detail::High, png(100, 100), 765),
            (Detail::High, png(10_000, 5), 85 + 170 * 2 * 3_072),
            (Detail::High, png(0, u32::MAX), 85 + 170 * 2 * 3_072),
        ] {
            assert_eq!(units_of(detail, &bytes), expected, "{detail:?}");
        }
    }

    #[test]
    fn sizes_are_read_from_headers_and_from_nothing_else() {
        let jpeg = [b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x0b\x08".as_slice(), &[1, 0, 2, 0], b"rest"].concat();
        for (bytes, expected) in [
            (png(3, 70_000), Some((3, 70_000))),
            (b"GIF89a\x02\x01\x03\x00".to_vec(), Some((258, 3))),
            (jpeg.clone(), Some((512, 256))),
            (jpeg[..10].to_vec(), None),
            (b"\xff\xd8\xff\xe0\0\0".to_vec(), None),
            (png(1, 1)[..20].to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(size(&bytes), expected, "{bytes:?}");
        }
    }
}
