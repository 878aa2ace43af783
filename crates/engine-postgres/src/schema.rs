//! The schema for PostgreSQL, which follows from the same migrations: its names of types, and its form of triggers.

use regex::Regex;
use std::sync::LazyLock;

/// What is different in a migration.
static RULES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let rules = [
        (r"--[^\n]*", ""),
        // A posting for each word of a row.
        (
            r"(?s)create virtual table search .*?\);",
            "create table search (word text collate \"C\" not null, row_id bigint not null, primary key (word, row_id));\n\
             create index search_row on search (row_id);",
        ),
        // A row without a key gets the largest plus one, as in SQLite: there is only one writer.
        (
            r"create table (\w+) \(\s*id integer primary key",
            "create function next_$1() returns bigint language plpgsql as $$$$ \
             begin return (select coalesce(max(id), 0) + 1 from $1); end $$$$;\n\
             create table $1 (\n    id integer primary key default next_$1()",
        ),
        (r"\bstrict(, without rowid)?\b", ""),
        (r"\binteger\b", "bigint"),
        // Texts are compared by their bytes, whatever the database's language.
        (r"(?m)^(\s+\w+) text\b", "$1 text collate \"C\""),
        (r"(add column \w+) text\b", "$1 text collate \"C\""),
        (r"(?m)^(\s+\w+) blob\b", "$1 bytea"),
        (r"(add column \w+) blob\b", "$1 bytea"),
        (r"(?m)^(\s+)window\b", "$1\"window\""),
        (r"create table window\b", "create table \"window\""),
        (r"( on) window\b", "$1 \"window\""),
    ];
    let rule = |(pattern, replacement)| Regex::new(pattern).ok().map(|pattern| (pattern, replacement));
    rules.into_iter().filter_map(rule).collect()
});

/// A trigger that refuses a change: its name, time, columns, table, condition and message.
static TRIGGER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r#"(?s)create trigger (\w+) before (update|delete)( of [\w,\s]+?)? on ("?\w+"?)\s+(?:when (.*?)\s+)?begin select raise\(abort, '([^']*)'\); end;"#;
    Regex::new(pattern).ok()
});
static DROPPED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"drop trigger (\w+);").ok());
static COMPARED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bis( not)? (old|new)\.").ok());

/// The statements of a migration for PostgreSQL.
pub fn translate(migration: &str) -> String {
    let mut text = migration.to_owned();
    for (pattern, replacement) in &*RULES {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    text = with_keys_behind(&text);
    if let Some(pattern) = &*TRIGGER {
        text = pattern.replace_all(&text, |found: &regex::Captures<'_>| trigger(found)).into_owned();
    }
    if let Some(pattern) = &*DROPPED {
        // The trigger goes with its function.
        text = pattern.replace_all(&text, "drop function ${1}() cascade;").into_owned();
    }
    text
}

/// Drops the foreign keys and disables the triggers: a copy brings rows in any order, and may remove them again.
pub const UNBIND: &str = "do $do$ declare found record; begin
for found in select conrelid::regclass as of_table, conname from pg_constraint
        where contype = 'f' and connamespace = current_schema()::regnamespace loop
    execute format('alter table %s drop constraint %I', found.of_table, found.conname);
end loop;
for found in select oid::regclass as of_table from pg_class
        where relkind = 'r' and relnamespace = current_schema()::regnamespace loop
    execute format('alter table %s disable trigger user', found.of_table);
end loop;
end $do$";

/// Enables the triggers again, and adds the foreign keys of these migrations, which looks at all rows.
pub fn bind<'m>(migrations: impl IntoIterator<Item = &'m str>) -> String {
    let text = UNBIND.replace(" disable trigger ", " enable trigger ") + ";\n";
    let mut keys: Vec<String> = Vec::new();
    for statements in migrations.into_iter().map(translate) {
        for line in statements.lines() {
            // A table that is made anew has none of its earlier keys.
            if let Some(table) = line.strip_prefix("create table ").and_then(|rest| rest.split(' ').next()) {
                keys.retain(|key| !key.starts_with(&format!("alter table {table} ")));
            }
            if line.starts_with("alter table ") && line.contains(" add foreign key ") {
                keys.push(line.to_owned());
            }
        }
    }
    text + &keys.join("\n")
}

/// The statements with their foreign keys behind them: a key may name a table that follows.
fn with_keys_behind(text: &str) -> String {
    let (mut tables, mut keys, mut table) = (String::with_capacity(text.len()), String::new(), "");
    for line in text.lines() {
        if let Some(begun) = line.strip_prefix("create table ") {
            table = begun.split(' ').next().unwrap_or_default();
        }
        match (line.split_once(" references "), line.split_whitespace().next()) {
            (Some((before, behind)), Some(column)) => {
                // The key ends with its bracket.
                let end = behind.find(')').map_or(behind.len(), |end| end + 1);
                let (target, rest) = behind.split_at(end);
                let key = format!("alter table {table} add foreign key ({column}) references {target};\n");
                keys.push_str(&key);
                tables.extend([before, rest]);
            }
            _ => tables.push_str(line),
        }
        tables.push('\n');
    }
    tables + &keys
}

/// A trigger with its function.
fn trigger(found: &regex::Captures<'_>) -> String {
    let (name, time, table) = (&found[1], &found[2], &found[4]);
    let columns = found.get(3).map_or("", |columns| columns.as_str());
    let raise = format!("raise exception '{}' using errcode = 'integrity_constraint_violation';", &found[6]);
    let refuse = match (found.get(5), &*COMPARED) {
        (Some(condition), Some(compared)) => {
            let condition = compared.replace_all(condition.as_str(), |found: &regex::Captures<'_>| {
                let distinct = if found.get(1).is_some() { "is distinct from" } else { "is not distinct from" };
                format!("{distinct} {}.", &found[2])
            });
            format!("if {condition} then {raise} end if;")
        }
        _ => raise,
    };
    let row = if time == "update" { "new" } else { "old" };
    format!(
        "create function {name}() returns trigger language plpgsql as $$ begin {refuse} return {row}; end $$;\n\
         create trigger {name} before {time}{columns} on {table} for each row execute function {name}();"
    )
}
