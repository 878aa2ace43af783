//! What the rules for secrets find, and how fast, for `packaging/secrets-rules/measure`.
//!
//! `find` reads lines of JSON `{"text": …, "json": true}` from standard input, and prints a line with a list of `[begin,
//! end, rule]` for each, in bytes. `speed FILE…` reads files as texts, and prints rates and findings; with `--own FILE`,
//! a JSON list of `[name, pattern]`, by these rules, and with `--both` by these and the built-in ones. `drafts FILE…`
//! has them come in pieces of five characters.

use longhand_secrets::{Action, DraftText, Rule, Rules, Salt, Syntax};
use std::error::Error;
use std::io::{BufRead as _, stdin};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let has_both = arguments.iter().any(|argument| argument == "--both");
    arguments.retain(|argument| argument != "--both");
    let mut rules = Rules::built_in(Action::Warn);
    if let Some(at) = arguments.iter().position(|argument| argument == "--own") {
        let own: Vec<(String, String)> = serde_json::from_str(&std::fs::read_to_string(&arguments[at + 1])?)?;
        let own = own.into_iter().map(|(name, pattern)| Rule { name, pattern, action: Action::Warn });
        rules = if has_both { rules.into_iter().chain(own).collect() } else { own.collect() };
        arguments.drain(at..at + 2);
    }
    let begin = Instant::now();
    let rules = Rules::new(&rules)?.ok_or("there are no rules")?;
    let start = begin.elapsed();
    match arguments.first().map(String::as_str) {
        Some("find") => find(&rules),
        Some("speed") => {
            println!("{} rules, ready in {start:?}", rules.count());
            speed(&rules, &arguments[1..])
        }
        Some("drafts") => drafts(&rules, &arguments[1..]),
        _ => Err("find, or speed or drafts with files".into()),
    }
}

fn find(rules: &Rules) -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let syntax = if line["json"] == true { Syntax::Json } else { Syntax::Text };
        let found = rules.positions(syntax, line["text"].as_str().ok_or("no text")?);
        let found: Vec<_> = found.iter().map(|(range, hit)| (range.start, range.end, rules.name(hit.rule))).collect();
        println!("{}", serde_json::to_string(&found)?);
    }
    Ok(())
}

fn speed(rules: &Rules, files: &[String]) -> Result<(), Box<dyn Error>> {
    let mut texts = Vec::new();
    for file in files {
        texts.extend(String::from_utf8(std::fs::read(file)?).map(|text| (file, text)));
    }
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    for round in 0..3 {
        let begin = Instant::now();
        let mut count = 0;
        for (file, text) in &texts {
            for (range, hit) in rules.positions(Syntax::Text, text) {
                count += 1;
                if round == 0 {
                    let line = text[..range.start].matches('\n').count() + 1;
                    println!("{file}:{line}: {} ({} bytes)", rules.name(hit.rule), range.len());
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!("{bytes} bytes, {:.0} MB/s, {count} findings", bytes as f64 / seconds / 1e6);
    }
    Ok(())
}

fn drafts(rules: &Rules, files: &[String]) -> Result<(), Box<dyn Error>> {
    let (mut pieces, mut waits, salt, begin) = (0, 0, Salt([7; 32]), Instant::now());
    for file in files {
        let text = String::from_utf8_lossy(&std::fs::read(file)?).into_owned();
        let characters: Vec<char> = text.chars().collect();
        let (mut draft, mut shown) = (DraftText::new(Syntax::Text), 0);
        for piece in characters.chunks(5) {
            let piece: String = piece.iter().collect();
            let settled = draft.add(Some(rules), &salt, shown, &piece, false).map_err(|_| "refused")?;
            (shown, pieces, waits) = (shown + settled.text.len(), pieces + 1, waits + draft.waiting.len());
        }
    }
    let micros = begin.elapsed().as_secs_f64() * 1e6 / f64::from(pieces);
    println!("{pieces} pieces, {micros:.2} µs for each, {:.1} bytes wait", waits as f64 / f64::from(pieces));
    Ok(())
}
