//! Bounds of rules for secrets.

/// Rules for secrets, built-in ones included.
pub const SECRET_RULES_MAX: usize = 1_000;
/// Bytes of the name of a rule for secrets.
pub const SECRET_RULE_NAME_BYTES_MAX: usize = 48;
/// Bytes of the compiled pattern of one rule, and of those of all rules together that begin with no words of their own.
pub const SECRET_PATTERN_BYTES_MAX: usize = 16 << 20;
/// Bytes of the states of an automaton that are kept: those of a key that is read again with every piece.
pub const SECRET_STATES_BYTES_MAX: usize = 2 << 20;
/// Bytes that a match of a rule has at least: a placeholder is not much longer.
pub const SECRET_BYTES_MIN: usize = 6;
/// Bytes that a match of a rule of one's own can have at most: twice as many characters of a draft may wait for what
/// comes.
pub const SECRET_BYTES_MAX: usize = 16 << 10;
/// Bytes of a match of a built-in rule whose pattern has no bound: a key of 16384 bits with a prefix before each line.
pub const SECRET_KEY_BYTES_MAX: usize = 64 << 10;
/// Bytes that are read to find out where the end of a draft may be the begin of a match. If they do not suffice, all of
/// it from there on waits.
pub const SECRET_HOLD_STEPS: usize = 256 << 10;
/// Words that the matches of a rule begin with, or have near their begin.
pub const SECRET_WORDS_MAX: usize = 256;
/// Bytes that a match may have before them.
pub const SECRET_BYTES_BEFORE_WORDS_MAX: usize = 256;
/// Bytes of a name in JSON with which its value is read together.
pub const SECRET_KEY_NAME_BYTES_MAX: usize = 256;
/// Digits of a number of JSON: what is longer is no JSON.
pub const SECRET_NUMBER_BYTES_MAX: usize = 400;
/// Words of all rules up to which the automaton that finds them is a table.
pub const SECRET_TABLE_WORDS_MAX: usize = 2_000;
/// Bytes of a match that is no secret up to which a secret is looked for within it.
pub const SECRET_REJECTED_BYTES: usize = 1 << 10;
