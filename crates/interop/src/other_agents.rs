//! Rows of agents whose files are not read, by what only they have.

use super::raw::Object;

/// Bytes of an agent's own name in a row that are shown.
const NAME_BYTES: usize = 32;

/// The agent that wrote a row; none if it is not known, or one whose files are read.
pub(super) fn agent(row: &Object<'_>) -> Option<String> {
    let kind = row.string("type");
    let has = |name: &str| row.members().any(|(member, _)| member == name);
    let known = match kind.as_str() {
        "session_meta" | "response_item" | "event_msg" | "turn_context" if has("payload") => "Codex",
        _ if kind.starts_with("session.") && has("data") => "Copilot CLI",
        "session_start" if has("id") => "Droid",
        "metadata" if has("protocol_version") => "Kimi Code",
        "planner_response" | "user_input" if has("status") => "Windsurf",
        "user" | "gemini" if has("id") && has("content") && !has("message") => "Gemini CLI",
        "" if has("sessionId") && has("projectHash") => "Gemini CLI",
        "" if has("role") && row.object("message").is_some_and(|message| message.get("content").is_some()) => "Cursor",
        "" if row.object("v").is_some_and(|value| value.get("requests").is_some()) => "Copilot in VS Code",
        "user" | "assistant" | "tool_result" | "system" if has("sessionId") && is_of_qwen(row) => "Qwen Code",
        _ => return own_name(row),
    };
    Some(known.to_owned())
}

fn is_of_qwen(row: &Object<'_>) -> bool {
    let has_parts = row.object("message").is_some_and(|message| message.get("parts").is_some());
    has_parts || row.get("systemPayload").is_some()
}

/// The name that a row itself gives to the agent that wrote it.
fn own_name(row: &Object<'_>) -> Option<String> {
    // Claude Code's rows have no such member; those of its sub-agents say that they are on a side chain.
    let is_own = row.get("isSidechain").is_some();
    let name = row.id("agentSlug").or_else(|| row.id("agent").filter(|_| row.id("sessionId").is_some()))?;
    let is_name =
        name.len() <= NAME_BYTES && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (is_name && !is_own && !name.starts_with("claude")).then_some(name)
}
