use super::*;
use crate::policy::{PolicyStep, samples};

fn rules(preset: &str) -> Summary {
    let policy = samples::policy(preset);
    let steps = policy.auto.or(policy.deep).expect("a level").steps;
    let summarize =
        steps.into_iter().find_map(|step| if let PolicyStep::Summarize(rule) = step { Some(rule) } else { None });
    summarize.expect("a summary").summary
}

/// The reason why a text is refused as a summary of this number of tokens; none if it is accepted.
fn refused(preset: &str, covered_tokens: i64, text: &str) -> Option<String> {
    let rules = rules(preset);
    let expected = AnswerRequirements { rules: &rules, scope: Scope::History, covered_tokens, words: 0 };
    expected.check(text).err().map(|failure| failure.reason.as_str().to_owned())
}

const HEADINGS: &str = "opencode@seed";
const ELEMENTS: &str = "gemini-cli@0.26";
const PROSE: &str = "codex@2026-08";

/// Answers of models and filters in place of a summary.
const REFUSED: &[&str] = &[
    "I'm sorry, but I cannot help with that.",
    "I’m sorry, but I can’t assist with that request.",
    "I am sorry, but I am unable to provide a summary of this conversation.",
    "Sorry, I can't do that.",
    "I cannot continue with this request.",
    "I can't help with this. If there is something else you would like to talk about, let me know!",
    "I'm not able to summarize this conversation because it contains material that I should not reproduce. I would be \
     glad to help with something else, such as a general explanation of the subject, or a different task altogether.",
    "I apologize, but I'm not comfortable continuing with this task.",
    "Unfortunately, I won't be able to assist with that.",
    "I must respectfully decline to produce this content.",
    "As an AI language model, I cannot access or summarize private conversations.",
    "**I'm sorry, but I can't comply with that.**",
    "\"I'm sorry, but I cannot provide that.\"",
    "Thank you for sharing this. I'm unable to generate that summary.",
    "I don't see any conversation to summarize. Please provide the transcript and I will be happy to help.",
    "It looks like the record is missing. Could you please share the conversation that you would like summarized?",
    "Please provide the conversation you want me to summarize.",
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your \
     prompt and retry.",
    "Output blocked by content filtering policy",
    "Your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt.",
    "This content may violate our content policy or terms of use.",
    "[Response blocked: safety filter]",
    "The generated content was withheld for safety reasons.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "Leider kann ich diese Anfrage nicht bearbeiten.",
    "Je suis désolé, mais je ne peux pas répondre à cette demande.",
    "Lo siento, pero no puedo ayudarte con eso.",
    "Desculpe, mas não posso ajudar com isso.",
    "Mi dispiace, ma non posso aiutarti con questa richiesta.",
    "К сожалению, я не могу помочь с этим запросом.",
    "很抱歉，我无法协助处理这个请求。",
    "我无法提供此类内容的总结。",
    "申し訳ありませんが、そのご要望にはお応えできません。",
    "죄송하지만 해당 요청은 도와드릴 수 없습니다.",
    "No prior history.",
    "There is no previous conversation to summarize.",
    "No conversation history yet.",
    "Nothing to summarize.",
    "The conversation is empty.",
];

/// Answers that are too short for a history of any length.
const THIN: &[&str] = &[
    "Done.",
    "Here is the summary:",
    "Sure, let me look at the file first.",
    "## Goal\n## Progress\n## Next Steps",
    "## Goal\n- (none)\n\n## Constraints & Preferences\n- (none)\n\n## Progress\n### Done\n- (none)\n\n### In Progress\n- (none)\n\
     \n### Blocked\n- (none)\n\n## Key Decisions\n- (none)",
    "...",
    "S1",
];

#[test]
fn a_refusal_is_no_summary_of_a_long_history_nor_of_a_short_one() {
    for text in REFUSED {
        for preset in [HEADINGS, ELEMENTS, PROSE] {
            for covered_tokens in [40, 800, 60_000] {
                let reason = refused(preset, covered_tokens, text);
                assert_eq!(reason.as_deref(), Some("SUMMARY_DECLINED"), "{preset} {covered_tokens}: {text}");
            }
        }
    }
}

#[test]
fn a_refusal_in_sections_is_one_all_the_same() {
    let text = "## Goal\nI'm sorry, but I can't help with that.\n\n## Constraints & Preferences\n- (none)\n\n## Progress\n\
                ### Done\n- (none)\n### In Progress\n- (none)\n### Blocked\n- (none)\n## Next Steps\n- (none)";
    assert_eq!(refused(HEADINGS, 5_000, text).as_deref(), Some("SUMMARY_DECLINED"));
}

#[test]
fn an_answer_that_goes_on_with_the_chat_is_no_summary() {
    for text in [
        "<|im_end|><|im_start|>assistant\nSure! Next I will read the file and change the port.",
        "<|im_start|>user\nWhat now?<|im_end|>",
        "\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nDone.",
        "<end_of_turn>\n<start_of_turn>model\nThe port is 8080.",
        "</s>[INST] go on [/INST]",
    ] {
        for preset in [HEADINGS, ELEMENTS, PROSE] {
            let text = format!("{text} {}", "and so on ".repeat(200));
            assert_eq!(refused(preset, 5_000, &text).as_deref(), Some("SUMMARY_WITHOUT_SUBSTANCE"), "{preset} {text}");
        }
    }
    let about = format!("The tokenizer splits `<|im_end|>` in two. {}", "It was mended in the parser. ".repeat(40));
    assert_eq!(refused(PROSE, 5_000, &about), None);
    let history = format!("No history of the branch was rewritten. {}", "The port is 8080 now. ".repeat(40));
    assert_eq!(refused(PROSE, 5_000, &history), None);
}

#[test]
fn a_few_words_are_no_summary_of_a_long_history() {
    for text in THIN {
        for preset in [HEADINGS, ELEMENTS, PROSE] {
            let reason = refused(preset, 8_000, text);
            assert_eq!(reason.as_deref(), Some("SUMMARY_WITHOUT_SUBSTANCE"), "{preset}: {text}");
        }
    }
}

#[test]
fn a_summary_with_half_of_its_sections_is_one_however_short() {
    let text = "## Goal\n- fix it\n\n## Constraints & Preferences\n- (none)\n\n## Progress\n\n### Done\n- [x] found it\n\n\
                ### In Progress\n- (none)";
    assert_eq!(refused(HEADINGS, 100_000, text), None);
    let fewer = "## Goal\n- fix it\n\n### Done\n- [x] found it";
    assert_eq!(refused(HEADINGS, 100_000, fewer).as_deref(), Some("SUMMARY_WITHOUT_SUBSTANCE"));
    let elements = "<state_snapshot>\n<overall_goal>\nfix it\n</overall_goal>\n<active_constraints>\n</active_constraints>\n\
                    <key_knowledge>\nline 7\n</key_knowledge>\n<artifact_trail>\n</artifact_trail>\n</state_snapshot>";
    assert_eq!(refused(ELEMENTS, 100_000, elements), None);
}

#[test]
fn headings_may_be_translated_and_spelled_otherwise() {
    let german = "## Ziel\n- den Fehler im Parser beheben\n## Vorgaben\n- keine neuen Pakete\n## Stand\n### Erledigt\n- gefunden\n\
                  ### Offen\n- Test\n## Nächste Schritte\n1. Test schreiben";
    let chinese = "## 目标\n- 修复解析器\n## 约束\n- 无\n## 进展\n### 已完成\n- 定位问题\n### 进行中\n- 编写测试\n## 下一步\n1. 提交";
    let bold = "**Goal**\n- fix it\n**Constraints & Preferences:**\n- none\n**Done**\n- found\n**Next steps**\n1. test\n\
                **Critical context**\n- line 7";
    let inline =
        "Goal: fix it\nConstraints & Preferences: none\nDone: found it\nNext Steps: test it\nCritical Context: line 7";
    for text in [german, chinese, bold, inline] {
        assert_eq!(refused(HEADINGS, 100_000, text), None, "{text}");
    }
}

#[test]
fn good_summaries_of_small_histories_are_taken() {
    for text in [
        "The user said hello and was greeted.",
        "用户问好，助手回应。",
        "Asked for a haiku about rust; two were written, and the second one is liked.",
        "Unfortunately the build still fails on arm64 with E0433; the missing import is in src/lib.rs.",
        "I cannot reproduce the crash on Linux: 200 runs were clean. On macOS it needs a second window.",
        "Sorry state of the tests: 12 of 40 fail since the merge, all of them in the parser.",
        "The request to the API was rejected with status 401: the key in .env had expired, and a new one works.",
        "The content filter of the shop flagged too much; its threshold is 0.8 now, as the person asked.",
        "Die Nutzerin wollte den Test repariert haben; er läuft jetzt.",
        "## Goal\n- last",
    ] {
        for preset in [HEADINGS, ELEMENTS, PROSE] {
            assert_eq!(refused(preset, 200, text), None, "{preset}: {text}");
        }
    }
}

#[test]
fn enough_words_are_a_summary_without_any_section() {
    let summary = "The person wants the parser to accept nested lists. The grammar is in src/grammar.rs; the rule for items was \
                made recursive, and 14 of 15 tests pass. The one that fails, deep_lists, runs out of stack at depth 500, and \
                the next step is to rewrite the rule as a loop. No new dependency may be added, and the public API stays.";
    for preset in [HEADINGS, ELEMENTS, PROSE] {
        assert_eq!(refused(preset, 1_000_000, summary), None, "{preset}");
        let shortened = &summary[..200];
        assert_eq!(refused(preset, 1_000_000, shortened).as_deref(), Some("SUMMARY_WITHOUT_SUBSTANCE"), "{preset}");
        assert_eq!(refused(preset, 3_000, shortened), None, "{preset}");
    }
}

#[test]
fn what_may_have_few_words_needs_no_more_than_those() {
    let rules = rules(PROSE);
    let expected =
        |words| AnswerRequirements { rules: &rules, scope: Scope::History, covered_tokens: 1_000_000, words };
    assert_eq!((expected(0).least_tokens(), expected(20).least_tokens()), (SUBSTANCE_TOKENS_MAX, 20));
    let tiny = AnswerRequirements { covered_tokens: 3, ..expected(0) };
    assert_eq!(tiny.least_tokens(), 1);
}

#[test]
fn the_built_in_summarizers_form_is_always_taken() {
    // Its headings are the policy's, and there is text under one of them.
    for preset in samples::all() {
        let policy = preset.policy();
        let levels = [policy.auto, policy.deep];
        for step in levels.into_iter().flatten().flat_map(|level| level.steps) {
            let PolicyStep::Summarize(rule) = step else { continue };
            let rules = rule.summary;
            let text: String = match &rules.format {
                SummaryFormat::Elements { .. } => {
                    let element = |heading: &str| format!("<{heading}>\n- x\n</{heading}>\n");
                    rules.sections.iter().map(|section| element(&section.heading)).collect()
                }
                SummaryFormat::Headings => {
                    rules.sections.iter().map(|section| format!("{}\n- x\n", section.heading)).collect()
                }
                SummaryFormat::Prose => continue,
            };
            let expected =
                AnswerRequirements { rules: &rules, scope: Scope::History, covered_tokens: 1_000_000, words: 0 };
            assert_eq!(expected.check(&text), Ok(()), "{}", preset.name);
        }
    }
}
