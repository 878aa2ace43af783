//! Messages between JSON and their encoding, without an object in memory for each field: what nearly every request and
//! every answer is. Whatever is not plain here is left to the library's reflection, which has the rules, and the words of
//! every refusal: none is made here.

mod answer;
mod request;
mod tables;
#[cfg(test)]
mod tests;

pub(super) use request::EncodedFields;

use tables::Messages;

/// The JSON text of an encoded message, on one line; none if it takes reflection.
pub(super) fn json(name: &str, encoded: &[u8]) -> Option<Vec<u8>> {
    answer::json(Messages::find(name)?, encoded)
}

/// The encoded message that a JSON object makes; none if it takes reflection.
pub(super) fn encode(name: &str, text: &[u8]) -> Option<EncodedFields> {
    EncodedFields::read(Messages::find(name)?, text)
}
