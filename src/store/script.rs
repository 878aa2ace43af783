//! Scripts of statements that run together. Each separate statement costs a round trip to the thread of its connection,
//! which takes longer than most statements do.

use super::error::{Error, Result};
use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments as _, AssertSqlSafe, Encode, Executor as _, Sqlite, SqliteConnection, Type};

/// Most rows of one statement. Fewer are padded to a power of two with rows of nulls, so that there are few texts, each
/// of which is prepared once.
const ROWS_PER_STATEMENT: usize = 64;

/// Most bound values of a script that stays prepared. For larger scripts the preparation costs little compared with
/// their rows.
const VALUES_KEPT: usize = 4 * 1_024;

/// Most bytes of one text, far below SQLite's limit of a million.
const TEXT_BYTES: usize = 256 * 1_024;

/// Statements with the values of their `?` parameters, in order.
#[derive(Default)]
pub(crate) struct Script {
    /// Texts that are run one after the other; several only if one would be too long.
    texts: Vec<Text>,
}

#[derive(Default)]
struct Text {
    sql: String,
    statements: usize,
    values: SqliteArguments,
}

/// A script that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(super) error: Error,
    /// True if all statements but the last had succeeded.
    pub(super) at_last: bool,
}

impl Script {
    /// True if there is no statement.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Adds a statement, whose values follow.
    pub(super) fn statement(&mut self, sql: &str) -> &mut Self {
        match self.texts.last_mut().filter(|text| text.sql.len() < TEXT_BYTES) {
            Some(text) => text.sql.push(';'),
            None => self.texts.push(Text::default()),
        }
        let text = self.text();
        text.sql.push_str(sql);
        text.statements += 1;
        self
    }

    /// Adds the next value of the statement.
    pub(super) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> &mut Self {
        // None of the types that rows are made of can fail to encode.
        self.text().values.add(value).expect("a value for SQLite");
        self
    }

    /// Adds an insert of rows: the SQL before and after its values, the number of columns, and the values of a row. The
    /// first column is never null.
    pub(super) fn insert<R>(
        &mut self,
        (head, tail): (&str, &str),
        columns: usize,
        rows: impl IntoIterator<Item = R>,
        bind: impl FnMut(&mut Self, R),
    ) {
        self.rows((&format!("{head} select * from ("), ") where column1 is not null", tail), columns, rows, bind);
    }

    /// Adds an update of existing rows: the SQL before and after the values, which are rows of `column1` and so on. No
    /// row has null as its key.
    pub(super) fn update<R>(
        &mut self,
        (head, tail): (&str, &str),
        columns: usize,
        rows: impl IntoIterator<Item = R>,
        bind: impl FnMut(&mut Self, R),
    ) {
        self.rows((head, tail, ""), columns, rows, bind);
    }

    /// Adds statements over rows of values.
    fn rows<R>(
        &mut self,
        (head, behind, tail): (&str, &str, &str),
        columns: usize,
        rows: impl IntoIterator<Item = R>,
        mut bind: impl FnMut(&mut Self, R),
    ) {
        let mut rows: Vec<R> = rows.into_iter().collect();
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(ROWS_PER_STATEMENT));
            let padded = rows.len().next_power_of_two();
            let nulls = (padded - rows.len()) * columns;
            self.statement(head);
            let sql = &mut self.text().sql;
            sql.push_str("values ");
            for index in 0..padded {
                sql.push_str(if index == 0 { "(?" } else { ",(?" });
                sql.extend(std::iter::repeat_n(",?", columns - 1));
                sql.push(')');
            }
            sql.push_str(behind);
            sql.push_str(tail);
            for row in rows {
                bind(self, row);
            }
            for _ in 0..nulls {
                self.bind(None::<i64>);
            }
            rows = rest;
        }
    }

    /// The text that is being extended.
    fn text(&mut self) -> &mut Text {
        self.texts.last_mut().expect("a statement")
    }

    /// Runs the statements in one round trip, or few. The statements after one that fails are not run.
    pub(super) async fn run(self, conn: &mut SqliteConnection) -> std::result::Result<(), Failed> {
        let mut texts = self.texts.into_iter().peekable();
        while let Some(Text { sql, statements, values }) = texts.next() {
            let is_kept = values.len() <= VALUES_KEPT;
            // The text consists of this program's own statements; all external values are bound.
            let query = sqlx::query_with(AssertSqlSafe(sql), values).persistent(is_kept);
            let mut results = conn.fetch_many(query);
            let mut done = 0;
            loop {
                match results.try_next().await {
                    Ok(Some(_)) => done += 1,
                    Ok(None) => break,
                    Err(error) => {
                        let error = error.into();
                        return Err(Failed { error, at_last: texts.peek().is_none() && done + 1 == statements });
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs the statements, for callers that need not know which of them failed.
    pub(super) async fn execute(self, conn: &mut SqliteConnection) -> Result<()> {
        self.run(conn).await.map_err(|failed| failed.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{Connection as _, query_as};

    /// Numbers of rows at the edges of the padding and of a statement.
    const COUNTS: [i64; 7] = [1, 2, 3, 63, 64, 65, 130];

    async fn rows(conn: &mut SqliteConnection) -> Vec<(i64, Option<String>)> {
        query_as("select id, name from thing order by id").fetch_all(conn).await.expect("rows")
    }

    async fn table() -> SqliteConnection {
        let mut conn = SqliteConnection::connect("sqlite::memory:").await.expect("a database");
        conn.execute("create table thing (id integer primary key, name text)").await.expect("a table");
        conn
    }

    fn insert(script: &mut Script, count: i64) {
        script.insert(("insert into thing (id, name)", ""), 2, 1..=count, |script, id| {
            script.bind(id).bind((id % 2 == 0).then(|| format!("thing {id}")));
        });
    }

    #[tokio::test]
    async fn an_insert_adds_its_rows_and_no_padding() {
        for count in COUNTS {
            let mut conn = table().await;
            let mut script = Script::default();
            insert(&mut script, count);
            script.execute(&mut conn).await.expect("inserted");
            let expected: Vec<_> = (1..=count).map(|id| (id, (id % 2 == 0).then(|| format!("thing {id}")))).collect();
            assert_eq!(rows(&mut conn).await, expected, "{count} rows");
        }
    }

    #[tokio::test]
    async fn an_update_changes_its_rows_alone() {
        for count in COUNTS {
            let mut conn = table().await;
            let mut script = Script::default();
            insert(&mut script, count + 1);
            let update = ("update thing set name = column2 from (", ") where id = column1");
            script.update(update, 2, 1..=count, |script, id| {
                script.bind(id).bind(format!("new {id}"));
            });
            script.execute(&mut conn).await.expect("updated");
            let last = (count + 1, ((count + 1) % 2 == 0).then(|| format!("thing {}", count + 1)));
            let expected: Vec<_> = (1..=count).map(|id| (id, Some(format!("new {id}")))).chain([last]).collect();
            assert_eq!(rows(&mut conn).await, expected, "{count} rows");
        }
    }
}
