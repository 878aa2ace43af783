//! Disk format of questions and answers.

use super::columns::decode_plain;
use crate::error::Result;
use crate::model::approval::{Answer, Choice, Question};
use prost::Message as _;

#[derive(Clone, PartialEq, prost::Message)]
struct DiskQuestion {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(string, tag = "2")]
    tool: String,
    #[prost(string, tag = "3")]
    call_id: String,
    #[prost(string, optional, tag = "4")]
    input_json: Option<String>,
    #[prost(message, repeated, tag = "5")]
    choices: Vec<DiskChoice>,
    #[prost(bool, tag = "6")]
    accepts_text: bool,
    #[prost(string, optional, tag = "7")]
    default_choice: Option<String>,
    #[prost(int64, optional, tag = "8")]
    timeout_ms: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskChoice {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    label: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskAnswer {
    #[prost(string, optional, tag = "1")]
    choice: Option<String>,
    #[prost(string, tag = "2")]
    text: String,
}

/// The bytes of `approval.question`, without the checksum of the column.
pub(crate) fn encode_question(question: &Question) -> Vec<u8> {
    let Question { text, tool, call_id, input_json, choices, accepts_text, default_choice, timeout_ms } =
        question.clone();
    let choices = choices.into_iter().map(|Choice { id, label }| DiskChoice { id, label }).collect();
    let disk = DiskQuestion { text, tool, call_id, input_json, choices, accepts_text, default_choice, timeout_ms };
    disk.encode_to_vec()
}

/// Decodes the bytes of `approval.question`.
pub(crate) fn decode_question(bytes: &[u8]) -> Result<Question> {
    let DiskQuestion { text, tool, call_id, input_json, choices, accepts_text, default_choice, timeout_ms } =
        decode_plain("approval", bytes)?;
    let choices = choices.into_iter().map(|DiskChoice { id, label }| Choice { id, label }).collect();
    Ok(Question { text, tool, call_id, input_json, choices, accepts_text, default_choice, timeout_ms })
}

/// The bytes of `approval.answer`, without the checksum of the column.
pub(crate) fn encode_answer(answer: &Answer) -> Vec<u8> {
    DiskAnswer { choice: answer.choice.clone(), text: answer.text.clone() }.encode_to_vec()
}

/// Decodes the bytes of `approval.answer`.
pub(crate) fn decode_answer(bytes: &[u8]) -> Result<Answer> {
    let DiskAnswer { choice, text } = decode_plain("approval", bytes)?;
    Ok(Answer { choice, text })
}
