//! Numbers of tokens, as people write them.

/// Reads a number of tokens: `200000`, `200k` or `1m`.
pub(super) fn tokens(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M']);
    let factor = match &text[digits.len()..] {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "m" | "M" => Some(1_000_000),
        _ => None,
    };
    let number =
        digits.parse::<u32>().ok().zip(factor).and_then(|(number, factor)| i64::from(number).checked_mul(factor));
    number.ok_or_else(|| "a number of tokens is 200000, 200k or 1m".to_owned())
}

/// Reads a number of tokens of at least one.
pub(super) fn some_tokens(text: &str) -> Result<i64, String> {
    tokens(text).and_then(|number| if number > 0 { Ok(number) } else { Err("at least 1 token".to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_people_write_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("200000", Some(200_000)),
            ("200k", Some(200_000)),
            ("16K", Some(16_000)),
            ("1m", Some(1_000_000)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("1kk", None),
            ("1g", None),
            ("1.5m", None),
            ("4294967296", None),
        ] {
            assert_eq!(tokens(text).ok(), expected, "{text:?}");
        }
        assert_eq!((some_tokens("1k"), some_tokens("0").is_err()), (Ok(1_000), true));
    }
}
