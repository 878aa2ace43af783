//! The text of a statement for PostgreSQL. The ledger's statements are one text for both engines; what is different is
//! how a parameter and a list are written, and the bytes of a text.

use longhand_engine::value::{List, Parameter};
use std::fmt::Write as _;

const LIST: &str = "rarray(";
/// The bytes of a draft's text, and their number: stored texts have two characters in place of U+0000 and U+FDD0.
const BYTES: [(&str, &str); 2] =
    [("octet_length(body)", "octet_length(lh.plain(body))"), ("cast(body as blob)", "lh.plain(body)")];

/// The type of a list's items.
fn kind(list: &List) -> &'static str {
    match list {
        List::Integers(_) => "bigint",
        List::Texts(_) => "text",
        List::Blobs(_) => "bytea",
    }
}

/// The name of a statement in a cache of texts: its text, with the kinds of its lists, which its form for PostgreSQL
/// depends on. None for a statement without lists.
pub(super) fn key_with_lists(sql: &str, parameters: &[Parameter<'_>]) -> Option<String> {
    sql.contains(LIST).then(|| {
        let kinds = parameters.iter().filter_map(|parameter| match parameter {
            Parameter::List(list) => Some(kind(list)),
            _ => None,
        });
        std::iter::once(sql).chain(kinds).collect::<Vec<_>>().join("\n")
    })
}

/// The text of a statement for PostgreSQL. A list has the type of the value that is bound to it.
pub(super) fn translate(sql: &str, list_kind: impl Fn(usize) -> &'static str) -> String {
    let sql = translate_bytes(sql);
    let mut text = String::with_capacity(sql.len() + 16);
    let mut rest = sql.as_str();
    // Text between quotes stays.
    let mut is_quoted = false;
    while let Some(next) = rest.chars().next() {
        if next == '\'' {
            is_quoted = !is_quoted;
        }
        // The sign keeps SQLite from preparing a limit anew. PostgreSQL would take the parameter for a float.
        if !is_quoted && rest.starts_with("+?") {
            rest = &rest[1..];
            continue;
        }
        if !is_quoted && let Some((number, behind)) = rest.strip_prefix(LIST).and_then(parameter) {
            let behind = behind.strip_prefix(')').unwrap_or(behind);
            let (name, behind) = match behind.strip_prefix(" wanted") {
                Some(behind) => ("wanted", behind),
                None => ("listed", behind),
            };
            // Writing to a string cannot fail.
            let _ = write!(text, "unnest(${number}::{}[]) as {name} (value)", list_kind(number));
            rest = behind;
        } else if !is_quoted && let Some((number, behind)) = parameter(rest) {
            let _ = write!(text, "${number}");
            rest = behind;
        } else {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    text
}

/// The text of a statement for PostgreSQL, with these values.
pub(super) fn translate_bound(sql: &str, parameters: &[Parameter<'_>]) -> String {
    translate(sql, |number| match parameters.get(number.wrapping_sub(1)) {
        Some(Parameter::List(list)) => kind(list),
        _ => "bigint",
    })
}

/// Parameters for arrays of these types, from a number on.
fn arrays(kinds: &[String], first: usize) -> String {
    let arrays: Vec<String> = (first..).zip(kinds).map(|(number, kind)| format!("${number}::{kind}[]")).collect();
    arrays.join(", ")
}

/// An insert of rows that come as arrays with these types.
pub(super) fn insert_of_many(into: &str, conflict: &str, kinds: &[String], first: usize) -> String {
    // With a condition, the parser takes what follows for the insert's own clause.
    format!("insert into {into} select * from unnest({}) where true {conflict}", arrays(kinds, first))
}

/// Statements on different tables as one.
pub(super) fn join(mut texts: Vec<String>) -> String {
    if texts.len() == 1
        && let Some(text) = texts.pop()
    {
        return text;
    }
    let named: Vec<String> = texts.iter().zip(1..).map(|(text, number)| format!("q{number} as ({text})")).collect();
    format!("with {} select 1", named.join(", "))
}

/// Several statements as a whole transaction of an owner: `owned` has a condition that finds the right to write, and what fails
/// without it. Its parameters begin at this number.
pub(super) fn transaction(texts: &[String], [owned, or_fail]: [&str; 2], first: usize) -> String {
    let named: Vec<String> = texts.iter().zip(1..).map(|(text, number)| format!("q{number} as ({text}), ")).collect();
    let numbered = |text: &str| {
        let kinds = ["text", "bigint", "bigint", "bigint"];
        kinds.iter().zip(1..).fold(text.to_owned(), |text, (kind, number)| {
            text.replace(&format!("?{number}"), &format!("${}::{kind}", first + number - 1))
        })
    };
    format!("with {}owned as ({}) select {}", named.concat(), numbered(owned), numbered(or_fail))
}

/// True for a statement that reads, and neither writes nor locks.
pub(super) fn only_reads(sql: &str) -> bool {
    sql.trim_start().starts_with("select") && !sql.contains(" for update")
}

/// The read of one key, as one of all keys that come as arrays with these types. The first column is the number of the key, and
/// the last one that of its row, by which they come in order.
pub(super) fn read_of_many(sql: &str, kinds: &[String]) -> String {
    let names: Vec<String> = (1..=kinds.len()).map(|number| format!("c{number}")).collect();
    let (arrays, names) = (arrays(kinds, 1), names.join(", "));
    let read = in_columns(&translate_bytes(sql), "k.");
    format!(
        "select k.n, q.* from unnest({arrays}) with ordinality as k ({names}, n) \
         cross join lateral (select f.*, row_number() over () as o from ({read}) f) q order by k.n, q.o"
    )
}

/// A text in which parameters are columns of the values.
fn in_columns(text: &str, of: &str) -> String {
    let mut columns = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        match parameter(rest) {
            Some((number, behind)) => {
                let _ = write!(columns, "{of}c{number}");
                rest = behind;
            }
            None => {
                columns.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    columns
}

fn translate_bytes(sql: &str) -> String {
    BYTES.iter().fold(sql.to_owned(), |sql, (ours, theirs)| sql.replace(ours, theirs))
}

/// An update or a deletion of one row, as one of all rows that come as arrays with these types.
pub(super) fn update_of_many(sql: &str, kinds: &[String], first: usize) -> Option<String> {
    let (change, condition) = sql.rsplit_once(" where ")?;
    let column = |text: &str| in_columns(text, "v.");
    let names: Vec<String> = (1..=kinds.len()).map(|number| format!("c{number}")).collect();
    let (arrays, names) = (arrays(kinds, first), names.join(", "));
    let with = if sql.starts_with("delete") { "using" } else { "from" };
    Some(format!("{} {with} unnest({arrays}) as v ({names}) where {}", column(change), column(condition)))
}

/// The table that a statement changes, or that rows are inserted into, by what stands behind `insert into`.
pub(super) fn table(statement: &str) -> &str {
    let behind = ["update ", "delete from "].iter().find_map(|verb| statement.strip_prefix(verb)).unwrap_or(statement);
    behind.split(' ').next().unwrap_or_default()
}

/// The number of a parameter at the beginning of a text, and the rest.
fn parameter(text: &str) -> Option<(usize, &str)> {
    let text = text.strip_prefix('?')?;
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// A read of which only the first row is taken.
pub(super) fn first_of(sql: &str) -> Option<String> {
    let is_read = sql.starts_with("select") || sql.starts_with("with");
    (is_read && !sql.ends_with("limit 1")).then(|| format!("select * from ({sql}) as found limit 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_lists_are_written_as_postgresql_has_them() {
        for (ours, theirs) in [
            ("select a from b limit +?1", "select a from b limit $1"),
            ("select ?1, ?12 from a where b = '?3' and c = ?2", "select $1, $12 from a where b = '?3' and c = $2"),
            (
                "select m.id from rarray(?2) wanted join m on m.id = wanted.value",
                "select m.id from unnest($2::text[]) as wanted (value) join m on m.id = wanted.value",
            ),
            (
                "select 1 where a in (select value from rarray(?1))",
                "select 1 where a in (select value from unnest($1::text[]) as listed (value))",
            ),
        ] {
            assert_eq!(translate(ours, |_| "text"), theirs);
        }
        assert_eq!(
            update_of_many("update a set b = ?2 where id = ?1", &["bigint".to_owned(), "text".to_owned()], 1)
                .as_deref(),
            Some("update a set b = v.c2 from unnest($1::bigint[], $2::text[]) as v (c1, c2) where id = v.c1")
        );
        assert_eq!(
            read_of_many("select a from b where c = ?1 order by a", &["bigint".to_owned()]),
            "select k.n, q.* from unnest($1::bigint[]) with ordinality as k (c1, n) cross join lateral \
             (select f.*, row_number() over () as o from (select a from b where c = k.c1 order by a) f) q order by k.n, q.o"
        );
        for statement in ["update a set b = ?1", "delete from a where b = ?1", "a (b, c)"] {
            assert_eq!(table(statement), "a");
        }
        assert_eq!(first_of("select 1 order by a limit 1"), None);
        assert_eq!(first_of("insert into a values (1) returning b"), None);
        assert_eq!(first_of("select a").as_deref(), Some("select * from (select a) as found limit 1"));
    }
}
