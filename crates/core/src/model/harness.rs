//! Text that agents add to a user's messages: elements with their own output, and notices that no person wrote.

use regex::Regex;
use std::sync::LazyLock;

/// Elements that agents put into the user's messages and into tool outputs: the agent's text, not the user's.
static HARNESS: LazyLock<Regex> = LazyLock::new(|| {
    let names = [
        "system-reminder",
        "local-command-stdout",
        "local-command-stderr",
        "local-command-caveat",
        "command-message",
        "command-contents",
        "task-notification",
        "environment_details",
        "environment_context",
        "user-prompt-submit-hook",
        "ide_selection",
        "ide_opened_file",
        "bash-stdout",
        "bash-stderr",
        "INSTRUCTIONS",
    ];
    let elements = names.iter().map(|name| format!("<{name}(?: [^>]*)?>.*?</{name}>")).collect::<Vec<_>>().join("|");
    Regex::new(&format!("(?s){elements}")).expect("a fixed pattern")
});

/// Similar tags whose content the user did write.
static WRAPPER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"</?(?:command-name|command-args|bash-input|user_query|user-query|task|feedback)>")
        .expect("a fixed pattern")
});

/// The beginnings of notices that an agent sends in the user's place.
const NOTICES: [&str; 4] =
    ["<task-notification>", "[Request interrupted", "Caveat: The messages below", "Base directory for this skill:"];

/// The text of the person, without the additions of the agent. Empty for a notice of the agent.
pub fn spoken(text: &str) -> String {
    if NOTICES.iter().any(|notice| text.trim_start().starts_with(notice)) {
        return String::new();
    }
    if !text.contains('<') {
        return text.trim().to_owned();
    }
    let text = HARNESS.replace_all(text, "");
    WRAPPER.replace_all(&text, "").trim().to_owned()
}

/// True if the agent alone wrote the text, in the user's place.
pub fn is_notice(text: &str) -> bool {
    !text.trim().is_empty() && spoken(text).is_empty()
}

/// The name of a command of the agent, such as `/mode plan`, and its arguments.
pub fn command(spoken: &str) -> Option<(&str, &str)> {
    let text = spoken.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let letters = name.strip_prefix('/')?;
    let is_name = letters.starts_with(|letter: char| letter.is_ascii_lowercase())
        && letters.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(letter));
    is_name.then(|| (name, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_text_with_the_user_role_is_detected() {
        for (text, expected) in [
            ("fix it", "fix it"),
            ("<system-reminder>obey</system-reminder>fix it", "fix it"),
            ("<local-command-stdout>Set mode to plan</local-command-stdout>", ""),
            ("<bash-stdout>a\nb</bash-stdout><bash-stderr></bash-stderr>", ""),
            ("[Request interrupted by user]", ""),
            ("Base directory for this skill: /skills/pdf\n\n# PDF", ""),
            ("a < b", "a < b"),
            (
                "<command-name>/mode</command-name>\n<command-message>mode</command-message>\n<command-args></command-args>",
                "/mode",
            ),
        ] {
            assert_eq!(spoken(text), expected);
            assert_eq!(is_notice(text), expected.is_empty(), "{text}");
        }
        assert!(!is_notice(" "));
    }

    #[test]
    fn a_command_has_a_name_and_may_have_more() {
        assert_eq!(command("/mode"), Some(("/mode", "")));
        assert_eq!(command(" /review the parser\nplease "), Some(("/review", "the parser\nplease")));
        assert_eq!(command("/mcp:git_log x"), Some(("/mcp:git_log", "x")));
        for text in ["/usr/bin is full", "//", "/", "fix it", "/Users", ""] {
            assert_eq!(command(text), None, "{text}");
        }
    }
}
