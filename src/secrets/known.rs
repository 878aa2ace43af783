//! Shapes of well-known tokens: only those with a beginning that nothing else has.

/// Names and patterns. The names are part of what is stored, and never change their meaning.
pub const KNOWN: &[(&str, &str)] = &[
    ("anthropic-key", r"sk-ant-(?:api|admin|oat|sid)[0-9]{2}-[A-Za-z0-9_-]{80,120}"),
    ("aws-access-key", r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?-u:\b)"),
    ("github-token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{82})"),
    ("gitlab-token", r"(?-u:\b)gl(?:pat|ptt|rt|dt|soat)-[A-Za-z0-9_-]{20,64}"),
    ("google-api-key", r"(?-u:\b)AIza[A-Za-z0-9_-]{35}"),
    ("huggingface-token", r"(?-u:\b)hf_[A-Za-z]{34}(?-u:\b)"),
    ("json-web-token", r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,400}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{20,1400}"),
    ("npm-token", r"(?-u:\b)npm_[A-Za-z0-9]{36}(?-u:\b)"),
    (
        "openai-key",
        r"(?-u:\b)sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})",
    ),
    (
        "private-key",
        concat!(
            r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----",
            // Line ends may be written with a backslash.
            r"(?:(?:\r|\n|\\r|\\n|[ \t]){1,8}[A-Za-z-]{3,30}: [^\r\n\\]{1,80}){0,4}",
            r"(?:(?:\r|\n|\\r|\\n|[ \t]){1,8}[A-Za-z0-9+/=]{16,80}){1,120}",
            r"(?:(?:\r|\n|\\r|\\n|[ \t]){1,8}[A-Za-z0-9+/=]{1,80})?",
            r"(?:(?:\r|\n|\\r|\\n|[ \t]){1,8}-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?",
        ),
    ),
    ("slack-token", r"(?-u:\b)xox[abeprs]-[A-Za-z0-9-]{10,250}"),
    ("stripe-key", r"(?-u:\b)(?:sk|rk)_live_[A-Za-z0-9]{16,247}"),
];
