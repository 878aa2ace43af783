//! The statements of the ledger are one text for SQLite and PostgreSQL. What only one engine accepts is named here.

use super::tests::statements;
use regex::Regex;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Words that only SQLite accepts, with the reason why a statement has them. A statement of the ledger with another such
/// word fails the test.
const OF_SQLITE: [(&str, &str); 2] = [
    (r"\bsearch\b", "the index of words is FTS5: another engine has an index of its own"),
    (r"as blob\)", "the bytes of a draft's text"),
];

/// Words that have a form which both engines accept.
const HAS_ANOTHER_FORM: [(&str, &str); 9] = [
    (r"\biif\(", "case when … then … else … end"),
    (r"json_each\(", "rarray(?N), with a `List`"),
    (r"\b(min|max)\([^()]+,", "case when … then … else … end"),
    (r"\bis not \?", "is distinct from"),
    (r"on conflict do update", "on conflict (columns) do update"),
    (r"\binsert or\b", "on conflict (columns) do …"),
    (r"\b(unhex|hex|zeroblob|glob|ifnull)\b", "a value that the caller computes"),
    (r"\?\D", "numbered parameters"),
    (r"\b(pragma|indexed by)\b", "`engine` has what is for one engine"),
];

/// A statement that PostgreSQL refuses.
const REFUSED: &str = "select iif(1 = 1, 1, 2)";

fn has(pattern: &str, statement: &str) -> bool {
    Regex::new(pattern).expect("a pattern").is_match(statement)
}

/// The reason for which a statement is for SQLite alone.
fn exception(statement: &str) -> Option<&'static str> {
    OF_SQLITE.iter().find(|(pattern, _)| has(pattern, statement)).map(|(_, reason)| *reason)
}

#[test]
fn statements_of_the_ledger_are_portable() {
    let mut used = [false; OF_SQLITE.len()];
    for statement in statements() {
        for (used, (pattern, _)) in used.iter_mut().zip(OF_SQLITE) {
            *used |= has(pattern, statement);
        }
        if exception(statement).is_none() {
            let other = HAS_ANOTHER_FORM.iter().find(|(pattern, _)| has(pattern, statement));
            assert!(other.is_none(), "{statement}\nboth engines accept: {}", other.map_or("", |(_, form)| form));
        }
    }
    assert_eq!(used, [true; OF_SQLITE.len()], "an exception is no longer needed");
}

/// The schema for PostgreSQL: its names of types, and nothing that only SQLite has.
fn schema() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).expect("a migration"));
    let mut schema = texts.collect::<Vec<_>>().join("\n");
    for (pattern, replacement) in [
        (r"--[^\n]*", ""),
        (r"(?s)create virtual table .*?\);", ""),
        (r"(?s)create trigger .*?\bend;", ""),
        (r"drop trigger \w+;", ""),
        (r"\bstrict(, without rowid)?\b", ""),
        (r"\binteger\b", "bigint"),
        (r"(?m)^(\s+\w+|alter table \w+ add column \w+) blob\b", "$1 bytea"),
        (r"(?m)^(\s+)window\b", "$1\"window\""),
        (r"create table window\b", "create table \"window\""),
        // A foreign key may name a table that follows.
        (r" references \w+ \(\w+\)", ""),
        (r"\n\s*\n+", "\n"),
    ] {
        schema = Regex::new(pattern).expect("a pattern").replace_all(&schema, replacement).into_owned();
    }
    schema
}

/// A program of PostgreSQL, if the machine has it.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.filter_map(|version| Some(version.ok()?.path().join("bin").join(name))).find(|path| path.is_file())
}

/// A command of PostgreSQL, which refuses to run as root.
fn command(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
    command
}

#[test]
fn postgresql_prepares_every_statement_of_the_ledger() {
    let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else {
        println!("skipped: this machine has no PostgreSQL");
        return;
    };
    // Another user must reach it, so it is not in a folder of the caller's own.
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("permissions");
    let data = folder.path().join("data");
    let made = command(&initdb).args(["--no-sync", "--auth=trust", "--locale=C.UTF-8", "-D"]).arg(&data).output();
    let made = made.expect("initdb runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Statements end at a blank line.
    let mut script: Vec<String> = schema().split_terminator(";").map(|statement| format!("{statement};\n\n")).collect();
    let parameter = Regex::new(r"\?(\d+)").expect("a pattern");
    let list = Regex::new(r"rarray\(\?(\d+)\)( (wanted))?").expect("a pattern");
    let mut ours: Vec<&str> = statements().into_iter().filter(|statement| exception(statement).is_none()).collect();
    ours.push(REFUSED);
    for (number, statement) in ours.iter().enumerate() {
        // The type of a list is that of the value which is bound.
        let forms = ["bigint", "text", "bytea"].map(|kind| {
            let lists = list.replace_all(statement, format!("unnest($$$1::{kind}[]) as wanted (value)").as_str());
            format!("execute $q$prepare p{number}_{kind} as {}$q$;", parameter.replace_all(&lists, "$$$1"))
        });
        let forms = if statement.contains("rarray(") { &forms[..] } else { &forms[..1] };
        let attempts: String =
            forms.iter().rev().fold("raise warning 'p%: %', NUMBER, sqlerrm;".to_owned(), |otherwise, form| {
                format!("begin {form} exception when others then {otherwise} end;")
            });
        let attempts = attempts.replace("NUMBER", &number.to_string());
        script.push(format!("do $do$ begin {attempts} end $do$;\n\n"));
    }
    let mut server = command(&postgres);
    server.args(["--single", "-j", "-D"]).arg(&data).arg("postgres");
    let mut server =
        server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    server.stdin.take().expect("a pipe").write_all(script.concat().as_bytes()).expect("the script");
    let ended = server.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&ended.stderr);
    let refused: Vec<String> = words
        .lines()
        .filter(|line| line.contains("WARNING") || line.contains("ERROR"))
        .map(|line| {
            let number =
                Regex::new(r"p(\d+):").expect("a pattern").captures(line).and_then(|found| found[1].parse().ok());
            let statement = number.and_then(|number: usize| ours.get(number));
            format!("{line}\n    {}", statement.copied().unwrap_or_default())
        })
        .collect();
    // The last one shows that refusals are seen.
    let as_expected = refused.len() == 1 && refused[0].contains(REFUSED);
    assert!(as_expected, "PostgreSQL refuses {} of {}:\n{}", refused.len(), ours.len(), refused.join("\n"));
}
