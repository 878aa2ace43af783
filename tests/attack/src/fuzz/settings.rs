//! The configuration file.

use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::Result;
use longhand::clock::Clock;
use longhand::config::Config;
use longhand::summarizer;
use std::path::PathBuf;

/// The reader of the configuration, including the summarizers made from it.
pub(super) struct Settings {
    folder: tempfile::TempDir,
    clock: Clock,
}

impl Settings {
    pub(super) fn open() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, clock: Clock::default() })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("longhand.toml")
    }
}

/// The example file, whose settings are commented out.
const EXAMPLE: &str = include_str!("../../../../longhand.example.toml");

const WHOLE: &str = r#"data_dir = "/tmp/somewhere"
workers = 4
durability = "process-crash"
default_preset = "pi@1.5"

[[policies]]
model = "claude-*"
project = "/home/a"
preset = "claude-code@seed"

[policies.override]
trigger = { auto = true }

[summarizers.fast]
kind = "openai-chat"
base_url = "http://localhost:11434/v1"
model = "m"
window = 20000
max_output = 1000
concurrency = 2
record_text = true
prices = { input = 1.0, output = 2.5 }
timeouts = { connect_ms = 100, idle_ms = 100, total_ms = 100 }

[summarizers.fast.extra]
temperature = 0.5
stop = ["a", { b = 1979-05-27T07:32:00Z }]

[summarizer]
auto = "fast"
deep = "extractive"
fallback = ["extractive"]
client_wait_seconds = 5

[hooks.pre_compact]
command = ["/bin/true", "a"]
timeout_seconds = 3
required = true
"#;

impl Decoder for Settings {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let set = |line: &str| line.strip_prefix("# ").or(line.strip_prefix('#')).unwrap_or(line).to_owned();
        let is_setting = |line: &&str| line.contains(" = ") || line.contains('[');
        let all: Vec<String> = EXAMPLE.lines().filter(is_setting).map(set).collect();
        Ok(vec![Input::new("", WHOLE), Input::new("", EXAMPLE), Input::new("", all.join("\n")), Input::new("", "")])
    }

    fn shape(&self, _: &str) -> Shape {
        Shape::Bytes
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "[",
            "]",
            "[[",
            "]]",
            " = ",
            "{",
            "}",
            "\"\"\"",
            "'''",
            "\n",
            "summarizers",
            "policies",
            "override",
            "kind",
            "openai-chat",
            "anthropic",
            "gemini",
            "openai-responses",
            "extractive",
            "base_url",
            "http://",
            "https://[::1]",
            "api_key_env",
            "api_key_file",
            "window",
            "9223372036854775807",
            "nan",
            "inf",
            "-inf",
            "0x_",
            "1979-05-27",
            "workers",
            "listen",
            "0.0.0.0:1",
            "127.0.0.1:0",
            "hooks",
            "command",
            "vocabularies",
            "/dev/null",
            "model",
        ]
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let path = self.path();
        std::fs::write(&path, &input.body).map_err(|error| error.to_string())?;
        let Ok(config) = Config::load(Some(&path)) else { return Ok(Outcome::Refused) };
        if config.validate().is_err() {
            return Ok(Outcome::Refused);
        }
        drop(config.socket_path());
        for rule in &config.policies {
            let json = rule.override_json();
            serde_json::from_str::<serde_json::Value>(if json.is_empty() { "{}" } else { &json })
                .map_err(|error| format!("an override is handed on as {json:?}: {error}"))?;
        }
        // Key files are not read: the mutator may have named a file of this machine.
        if config.summarizers.values().any(|settings| settings.api_key_file.is_some()) {
            return Ok(Outcome::Taken);
        }
        match summarizer::levels(&config, &self.clock) {
            Ok(_) => Ok(Outcome::Taken),
            Err(_) => Ok(Outcome::Refused),
        }
    }
}
