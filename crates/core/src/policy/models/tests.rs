use super::*;

fn found(provider: &str, name: &str) -> Option<(String, i64, Option<i64>)> {
    Models::built_in().find(provider, name).map(|model| (model.provider, model.context, model.output))
}

#[test]
fn every_row_of_the_table_is_found_by_its_own_name() {
    let models = Models::built_in();
    assert!(models.rows.len() > 3_000, "{}", models.rows.len());
    for row in &models.rows {
        assert_eq!(models.find("", &row.name).as_ref(), Some(row), "{}", row.name);
        assert!(row.context > 0 && row.output.is_none_or(|output| output > 0), "{row:?}");
    }
}

/// One model as clients, gateways and clouds spell it.
#[test]
fn spellings_of_one_model_lead_to_it() {
    for (provider, names, context, output) in [
        (
            "",
            &[
                "claude-opus-4-6",
                "Claude-Opus-4-6",
                "claude-opus-4.6",
                "anthropic/claude-opus-4-6",
                "openrouter/anthropic/claude-opus-4.6",
                "claude-opus-4-6-20260205",
                "claude-opus-4-6-20991231",
                "claude-opus-4-6@20260205",
                "claude-opus-4-6-latest",
                "us.anthropic.claude-opus-4-6-20260205-v1:0",
            ][..],
            1_000_000,
            128_000,
        ),
        ("", &["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4.5:thinking"], 200_000, 64_000),
        ("", &["claude-sonnet-4-5[1m]", "claude-sonnet-4-5-20250929[1m]"], 1_000_000, 64_000),
        ("anthropic", &["claude-sonnet-4-5-20250929", "claude-sonnet-4.5"], 200_000, 64_000),
        ("amazon-bedrock", &["eu.anthropic.claude-sonnet-4-5-20250929-v1:0"], 200_000, 64_000),
        ("openai", &["gpt-5", "gpt-5-2025-08-07", "gpt-5-high"], 272_000, 128_000),
        ("google", &["gemini-2.5-pro", "models/gemini-2.5-pro"], 1_048_576, 65_536),
        ("", &["ft:gpt-4o-2024-08-06:acme::B1x", "gpt-4o", "openai/gpt-4o:online"], 128_000, 16_384),
    ] {
        for name in names {
            let model = Models::built_in().find(provider, name);
            let limits = model.as_ref().map(|model| (model.context, model.output));
            assert_eq!(limits, Some((context, Some(output))), "{provider} {name} {model:?}");
        }
    }
}

#[test]
fn a_provider_that_is_named_has_the_limits_of_its_own() {
    let own = found("", "gpt-4o").expect("it is in the table");
    let of_copilot = found("github-copilot", "gpt-4o").expect("it is in the table");
    assert_eq!(of_copilot.0, "github_copilot");
    assert!(of_copilot.1 < own.1, "{of_copilot:?} {own:?}");
    assert_eq!(found("github_copilot", "gpt-4o"), Some(of_copilot.clone()));
    assert_eq!(found("", "github_copilot/gpt-4o"), Some(of_copilot));
    assert_eq!(found("a-gateway-of-ours", "gpt-4o"), Some(own), "that of the maker");
}

#[test]
fn what_is_no_model_of_the_table_is_unknown() {
    for name in ["", "my-finetune", "gpt", "claude", "claude-opus", "v1", "-", "/", "anthropic/", "20250929", "-v1:0"] {
        assert_eq!(found("", name), None, "{name:?}");
        assert_eq!(found("anthropic", name), None, "{name:?}");
    }
}

#[test]
fn a_window_gets_what_it_does_not_say() {
    let window = |model: &str, context, output| ModelWindow {
        model: model.to_owned(),
        context,
        output,
        ..ModelWindow::default()
    };
    for (given, source, expected) in [
        (window("claude-sonnet-4-5", 0, None), WindowSource::Models, (200_000, None)),
        (window("gpt-4o", 0, None), WindowSource::Models, (128_000, Some(16_384))),
        (window("claude-sonnet-4-5", 0, Some(8_000)), WindowSource::Models, (200_000, Some(8_000))),
        (window("claude-sonnet-4-5", 50_000, None), WindowSource::Client, (50_000, None)),
        (window("claude-x", 0, None), WindowSource::Client, (0, None)),
        (window("", 0, None), WindowSource::Client, (0, None)),
    ] {
        let mut window = given.clone();
        Models::built_in().complete(&mut window);
        assert_eq!((window.source, (window.context, window.output)), (source, expected), "{given:?}");
    }
}

#[test]
fn costs_follow_the_prices_of_what_was_read_and_written() {
    let text = format!("# a comment\n{}\nm\tp\t1000\t\t1\t10\t0.1\t\t500\t2\t20\nfree\tp\t1000\n", COLUMNS.join("\t"));
    let models = Models::parse(&text).expect("a table");
    let model = models.find("", "m").expect("a row");
    let usage = Usage { input: 100, output: 10, reasoning: 5, cache_read: 200, cache_write: 50, ..Usage::default() };
    let cost = |usage: &Usage| (model.cost_usd(usage).expect("prices") * 1e6).round() as i64;
    assert_eq!(cost(&usage), 100 + 150 + 20 + 50);
    let large = Usage { input: 251, ..usage };
    assert_eq!(cost(&large), 2 * 251 + 15 * 20 + 20 + 2 * 50, "what has no price of its own above keeps the one below");
    assert_eq!(models.find("", "free").expect("a row").cost_usd(&usage), None);
    let priced = models.priced("", "m", usage);
    assert!(priced.cost_is_computed && priced.as_reported() == usage);
    let reported = Usage { cost_usd: Some(0.0), ..usage };
    for (model, usage) in [("m", reported), ("free", usage), ("unknown", usage), ("", usage)] {
        assert_eq!(models.priced("", model, usage), usage, "{model}");
    }
}

#[test]
fn a_table_with_a_bad_line_is_refused_with_its_number() {
    let header = COLUMNS.join("\t");
    for (text, line, what) in [
        ("", 1, "columns"),
        ("m\tp\t1", 1, "columns"),
        (&format!("{header}\nm\tp"), 2, "context_tokens is missing"),
        (&format!("{header}\n# c\nm\tp\t-1"), 3, "context_tokens"),
        (&format!("{header}\nm\tp\t10\tx"), 2, "output_tokens"),
        (&format!("{header}\nm\tp\t10\t1\tNaN"), 2, "NaN"),
        (&format!("{header}\n\tp\t10"), 2, "no name"),
        (&format!("{header}\nm\tp\t10{}", "\t1".repeat(11)), 2, "more than"),
    ] {
        let error = Models::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text:?} {error}");
        assert!(error.what.contains(what), "{text:?} {error}");
    }
}

/// A model's limits alone make no policy compact from the first message on.
#[test]
fn no_model_of_the_table_is_due_below_a_quarter_of_its_window() {
    let policies = ["longhand@1", "opencode@seed", "pi@1.5"].map(crate::policy::samples::policy);
    for row in &Models::built_in().rows {
        let mut window = ModelWindow { model: row.name.clone(), ..ModelWindow::default() };
        Models::built_in().complete(&mut window);
        for policy in &policies {
            let due = crate::policy::overflow::due_at(policy, &window).expect("a threshold");
            assert!(due >= window.context / 4, "{}: {due} of {window:?}", policy.preset);
        }
    }
}
