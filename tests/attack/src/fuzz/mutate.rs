//! Mutations of inputs: of single bytes, and of the structure (JSON, lines of JSON, the wire format of protobuf).

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Map, Value};

/// Form of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Bytes, or text of no known form.
    Bytes,
    /// One JSON value.
    Json,
    /// Lines, each of them a JSON value.
    Lines,
    /// A protobuf message.
    Wire,
}

/// Maximum size of a mutated body, in bytes.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// A mutated body: one mutation, or a few of them.
pub fn mutate(rng: &mut StdRng, body: &[u8], other: &[u8], shape: Shape, words: &[&str]) -> Vec<u8> {
    let mut body = body.to_vec();
    let times = if rng.random_ratio(2, 3) { 1 } else { rng.random_range(2..8) };
    for _ in 0..times {
        let by_meaning = shape != Shape::Bytes && rng.random_ratio(3, 5);
        let altered = match shape {
            Shape::Json if by_meaning => json(rng, &body, words),
            Shape::Lines if by_meaning => Some(lines(rng, &body, words)),
            Shape::Wire if by_meaning => wire(rng, &body, 0),
            Shape::Bytes | Shape::Json | Shape::Lines | Shape::Wire => None,
        };
        body = altered.unwrap_or_else(|| bytes(rng, body, other, words));
        body.truncate(BODY_BYTES_MAX);
    }
    body
}

/// Byte sequences with a special meaning in some format.
const PIECES: [&[u8]; 22] = [
    b"\0",
    b"\r\n",
    b"\n",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000",
    b"-1",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"1e999",
    b"-0.0",
    b"null",
    b"{}",
    b"[]",
    b"\"\"",
    b"\x1b[2J",
    "\u{202e}".as_bytes(),
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// One mutation that ignores the structure.
fn bytes(rng: &mut StdRng, mut body: Vec<u8>, other: &[u8], words: &[&str]) -> Vec<u8> {
    let at = rng.random_range(0..=body.len());
    let end = (at + rng.random_range(0..=16_usize)).min(body.len());
    match rng.random_range(0..12) {
        0 if at < body.len() => body[at] ^= 1 << rng.random_range(0..8),
        1 if at < body.len() => body[at] = rng.random(),
        2 => drop(body.drain(at..end)),
        3 => body.truncate(at),
        4 => {
            let piece = PIECES[rng.random_range(0..PIECES.len())];
            body.splice(at..at, piece.iter().copied());
        }
        5 => {
            let piece = PIECES[rng.random_range(0..PIECES.len())];
            body.splice(at..end, piece.iter().copied());
        }
        6 if !words.is_empty() => {
            let word = words[rng.random_range(0..words.len())].as_bytes();
            body.splice(at..end, word.iter().copied());
        }
        7 => {
            let chunk = body[at..end].to_vec();
            body.splice(at..at, chunk);
        }
        8 => {
            let from = rng.random_range(0..=other.len());
            let to = (from + rng.random_range(0..=64_usize)).min(other.len());
            body.splice(at..end, other[from..to].iter().copied());
        }
        9 if rng.random_ratio(1, 8) => {
            let piece: &[u8] = [b"[" as &[u8], b"{\"a\":", b"\"", b"x", b"(", b"\x0a\x02"][rng.random_range(0..6)];
            let piece = piece.repeat(rng.random_range(1..4_000));
            body.splice(at..at, piece);
        }
        10 => number(rng, &mut body),
        _ => {
            for _ in 0..rng.random_range(1..6) {
                if let Some(byte) = (!body.is_empty()).then(|| rng.random_range(0..body.len())) {
                    body[byte] = body[byte].wrapping_add(rng.random_range(1..=4));
                }
            }
        }
    }
    body
}

/// Replaces one number in a text.
fn number(rng: &mut StdRng, body: &mut Vec<u8>) {
    let digits: Vec<usize> = (0..body.len()).filter(|at| body[*at].is_ascii_digit()).collect();
    if digits.is_empty() {
        return;
    }
    let at = digits[rng.random_range(0..digits.len())];
    let start = body[..at].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |before| before + 1);
    let end = body[at..].iter().position(|byte| !byte.is_ascii_digit()).map_or(body.len(), |behind| at + behind);
    let new = scalar_number(rng).to_string();
    body.splice(start..end, new.into_bytes());
}

fn scalar_number(rng: &mut StdRng) -> Value {
    match rng.random_range(0..9) {
        0 => 0.into(),
        1 => (-1).into(),
        2 => i64::MAX.into(),
        3 => i64::MIN.into(),
        4 => u64::MAX.into(),
        5 => Value::from(1e308),
        6 => Value::from(-0.5),
        7 => rng.random_range(-10_i64..100).into(),
        _ => rng.random::<i64>().into(),
    }
}

fn scalar(rng: &mut StdRng, words: &[&str]) -> Value {
    match rng.random_range(0..8) {
        0 => Value::Null,
        1 => rng.random::<bool>().into(),
        2 | 3 => scalar_number(rng),
        4 => "".into(),
        5 => "\u{0}\u{1b}[31m\u{202e}𝕏\r\n".into(),
        6 => Value::Array(vec![Value::Null; rng.random_range(0..4)]),
        _ if words.is_empty() => Value::Object(Map::new()),
        _ => words[rng.random_range(0..words.len())].into(),
    }
}

/// Number of values in a JSON value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// The value at an index, in depth-first order.
fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth(item, left)),
        _ => None,
    }
}

/// One mutation of a JSON text; none if the body is not JSON.
fn json(rng: &mut StdRng, body: &[u8], words: &[&str]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let mut index = rng.random_range(0..count(&value));
    let copy = value.clone();
    let chosen = nth(&mut value, &mut index)?;
    match (rng.random_range(0..6), &mut *chosen) {
        (0, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(rng.random_range(0..fields.len()))?.clone();
            fields.remove(&name);
        }
        (1, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(rng.random_range(0..fields.len()))?.clone();
            let field = fields.remove(&name)?;
            let other = words.get(rng.random_range(0..words.len().max(1))).copied().unwrap_or("other");
            fields.insert(other.to_owned(), field);
        }
        (0 | 1, Value::Array(items)) if !items.is_empty() => {
            let at = rng.random_range(0..items.len());
            let item = items[at].clone();
            if rng.random() { drop(items.remove(at)) } else { items.insert(at, item) }
        }
        (2, chosen) => {
            // Another value of the same text, so that the types often match.
            let mut copy = copy;
            let mut index = rng.random_range(0..count(&copy));
            *chosen = nth(&mut copy, &mut index)?.take();
        }
        (3, chosen) => {
            let depth = if rng.random_ratio(1, 10) { 120 } else { rng.random_range(1..6) };
            for _ in 0..depth {
                *chosen = Value::Array(vec![chosen.take()]);
            }
        }
        (_, Value::Number(number)) if rng.random() => {
            if let Value::Number(other) = scalar_number(rng) {
                *number = other;
            }
        }
        (_, Value::String(text)) if rng.random() => {
            let altered = bytes(rng, std::mem::take(text).into_bytes(), b"", words);
            *text = String::from_utf8_lossy(&altered).into_owned();
        }
        (_, chosen) => *chosen = scalar(rng, words),
    }
    serde_json::to_vec(&value).ok()
}

/// One mutation of a text of lines.
fn lines(rng: &mut StdRng, body: &[u8], words: &[&str]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = body.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = rng.random_range(0..lines.len());
    let other = rng.random_range(0..lines.len());
    match rng.random_range(0..8) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, other),
        2 => {
            let line = lines[at].clone();
            lines.insert(other, line);
        }
        3 => lines[at].push(b'\r'),
        _ => {
            if let Some(altered) = json(rng, &lines[at], words) {
                lines[at] = altered;
            }
        }
    }
    lines.join(&b'\n')
}

/// A field of a protobuf message, in its wire form.
#[derive(Debug, Clone)]
struct Field {
    number: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_fields(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = read_varint(&mut bytes)?;
        let content = match key & 7 {
            0 => Content::Varint(read_varint(&mut bytes)?),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Content::Fixed64(*fixed)
            }
            2 => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let (inner, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Content::Bytes(inner.to_vec())
            }
            5 => {
                let (fixed, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Content::Fixed32(*fixed)
            }
            _ => return None,
        };
        fields.push(Field { number: key >> 3, content });
    }
    Some(fields)
}

fn write_fields(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        let key = field.number << 3;
        match &field.content {
            Content::Varint(value) => {
                write_varint(&mut out, key);
                write_varint(&mut out, *value);
            }
            Content::Fixed64(fixed) => {
                write_varint(&mut out, key | 1);
                out.extend_from_slice(fixed);
            }
            Content::Bytes(inner) => {
                write_varint(&mut out, key | 2);
                write_varint(&mut out, inner.len() as u64);
                out.extend_from_slice(inner);
            }
            Content::Fixed32(fixed) => {
                write_varint(&mut out, key | 5);
                out.extend_from_slice(fixed);
            }
        }
    }
    out
}

fn varint(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..8) {
        0 => 0,
        1 => u64::MAX,
        2 => i64::MAX as u64,
        3 => i64::MIN as u64,
        4 => i32::MIN as u64,
        5 => 1 << rng.random_range(0..64),
        6 => rng.random_range(0..20),
        _ => rng.random(),
    }
}

/// One mutation of a protobuf message, at any depth; none if the body is no message, or an empty one.
fn wire(rng: &mut StdRng, body: &[u8], depth: usize) -> Option<Vec<u8>> {
    let mut fields = read_fields(body)?;
    if fields.is_empty() {
        return None;
    }
    let at = rng.random_range(0..fields.len());
    match rng.random_range(0..10) {
        0 => drop(fields.remove(at)),
        1 => {
            let field = fields[at].clone();
            fields.push(field);
        }
        2 => fields[at].number = rng.random_range(1..24),
        3 if rng.random_ratio(1, 6) => {
            let field = fields[at].clone();
            fields.extend(std::iter::repeat_n(field, rng.random_range(2..600)));
        }
        4 => {
            fields[at].content = match rng.random_range(0..3) {
                0 => Content::Varint(varint(rng)),
                1 => Content::Bytes(PIECES[rng.random_range(0..PIECES.len())].to_vec()),
                _ => Content::Fixed64(varint(rng).to_le_bytes()),
            }
        }
        _ => match &mut fields[at].content {
            Content::Varint(value) => *value = varint(rng),
            Content::Fixed64(fixed) => *fixed = varint(rng).to_le_bytes(),
            Content::Fixed32(fixed) => *fixed = rng.random(),
            Content::Bytes(inner) => {
                let deeper = (depth < 8 && rng.random_ratio(4, 5)).then(|| wire(rng, inner, depth + 1)).flatten();
                *inner = deeper.unwrap_or_else(|| bytes(rng, std::mem::take(inner), b"", &[]));
            }
        },
    }
    Some(write_fields(&fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::generator;

    #[test]
    fn unaltered_fields_are_written_as_they_were_read() {
        let message = write_fields(&[
            Field { number: 1, content: Content::Bytes(b"inner".to_vec()) },
            Field { number: 3, content: Content::Varint(u64::MAX) },
            Field { number: 900, content: Content::Fixed64([7; 8]) },
            Field { number: 2, content: Content::Fixed32([9; 4]) },
        ]);
        assert_eq!(write_fields(&read_fields(&message).expect("fields")), message);
    }

    #[test]
    fn the_same_seed_draws_the_same_mutations() {
        let draw = |seed| {
            let mut rng = generator(seed, "mutations");
            let json = br#"{"a":[1,{"b":"text"}],"c":null}"#;
            let shapes = [Shape::Bytes, Shape::Json, Shape::Lines, Shape::Wire];
            shapes.map(|shape| (0..50).map(|_| mutate(&mut rng, json, b"other", shape, &["word"])).collect::<Vec<_>>())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
