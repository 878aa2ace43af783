//! Text that agents add to a user's messages: elements with their own output, and notices that no person wrote.

use regex::Regex;
use std::borrow::Cow;
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
        "in-app-browser-context",
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

/// The beginnings of texts that an agent sends in the user's place.
const NOTICES: [&str; 2] = ["Caveat: The messages below", "Base directory for this skill:"];

/// Lines that an agent writes, beside which a person may have typed something.
static NOTICE_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^\[Request interrupted[^\]\n]*\]|^\s*Read the output file\b.*$").expect("a fixed pattern")
});

/// What Codex's application and its IDE extension put before a request, in Markdown: the selection and the open tabs, the
/// attached files, the address of its browser. Published sessions of both have it.
const FRAMES: [&str; 3] = ["# Context from my IDE setup:", "# Files mentioned by the user:", "# In app browser:"];

/// The line that the request follows; newer versions have the second form.
const REQUESTS: [&str; 2] = ["## My request for Codex:", "## My request:"];

/// The text of the person, without the additions of the agent. Empty for a notice of the agent.
pub fn spoken(text: &str) -> String {
    if NOTICES.iter().any(|notice| text.trim_start().starts_with(notice)) {
        return String::new();
    }
    let mut text = Cow::Borrowed(text);
    if text.contains('<') {
        let is_notification = text.contains("<task-notification>");
        text = Cow::Owned(WRAPPER.replace_all(&HARNESS.replace_all(&text, ""), "").into_owned());
        if is_notification {
            text = Cow::Owned(NOTICE_LINE.replace_all(&text, "").into_owned());
        }
    }
    if text.contains("[Request interrupted") {
        text = Cow::Owned(NOTICE_LINE.replace_all(&text, "").into_owned());
    }
    unframed(text.trim()).trim().to_owned()
}

/// A request without the frame around it.
fn unframed(text: &str) -> &str {
    let is_framed =
        FRAMES.iter().any(|head| text.starts_with(head)) || REQUESTS.iter().any(|mark| text.starts_with(mark));
    let request = |mark: &&str| {
        let at = text.match_indices(*mark).find(|(at, _)| *at == 0 || text[..*at].ends_with('\n'))?.0;
        Some(&text[at + mark.len()..])
    };
    let request = REQUESTS.iter().filter(|_| is_framed).find_map(request);
    request.filter(|request| !request.trim().is_empty()).unwrap_or(text)
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
            ("[Request interrupted by user for tool use]\nuse the other one", "use the other one"),
            (
                "<task-notification>done</task-notification>\nRead the output file to retrieve the result: /t/b.out\nand stop",
                "and stop",
            ),
            (
                "# Context from my IDE setup:\n\n## Open tabs:\n- a.rs: src/a.rs\n\n## My request for Codex:\nfix a\n",
                "fix a",
            ),
            (
                "# Files mentioned by the user:\n\n## plan.md: /tmp/plan.md\n\n## My request:\nsay it in one line",
                "say it in one line",
            ),
            (
                "<in-app-browser-context source=\"ambient-ui-state\">\n# In app browser:\n</in-app-browser-context>\n\n## My request for Codex:\nopen the menu",
                "open the menu",
            ),
            (
                "# Context from my IDE setup:\nwhy does this stand here?",
                "# Context from my IDE setup:\nwhy does this stand here?",
            ),
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
