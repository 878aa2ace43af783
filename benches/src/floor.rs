//! Baseline of the appends: raw SQLite with the daemon's durability and group commit, one table. Callers wait until
//! their rows are on disk.

use crate::process::Process;
use rusqlite::Connection;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Rows to write, and the channel that reports them as on disk.
type Rows = (i64, Vec<String>, oneshot::Sender<()>);

/// The writer's queue.
#[derive(Clone)]
pub(crate) struct Floor {
    queue: mpsc::UnboundedSender<Rows>,
    /// The writer's thread.
    pub(crate) thread: Process,
}

impl Floor {
    /// Opens a database in a folder, with a thread that commits all waiting rows together.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut conn = Connection::open(folder.join("floor.db")).expect("a database");
        let schema = "pragma page_size = 4096; pragma journal_mode = wal; pragma synchronous = full; \
             create table message (id integer primary key, session_id integer not null, body text not null) strict;";
        conn.execute_batch(schema).expect("a table");
        let (sender, mut queue) = mpsc::unbounded_channel::<Rows>();
        let (started, thread) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            started.send(Process::thread()).expect("it is waited for");
            while let Some(first) = queue.blocking_recv() {
                let mut waiting = vec![first];
                while let Ok(more) = queue.try_recv() {
                    waiting.push(more);
                }
                write(&mut conn, &waiting);
                for (.., done) in waiting {
                    let _ = done.send(());
                }
            }
        });
        Self { queue: sender, thread: thread.recv().expect("the thread starts") }
    }

    /// Writes rows of a session. They are on disk when the call returns.
    pub(crate) async fn append(&self, session: i64, bodies: Vec<String>) {
        let (done, answer) = oneshot::channel();
        self.queue.send((session, bodies, done)).expect("the writer is there");
        answer.await.expect("the writer is there");
    }
}

fn write(conn: &mut Connection, waiting: &[Rows]) {
    let transaction = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("a transaction");
    {
        let insert = "insert into message (session_id, body) values (?1, ?2)";
        let mut insert = transaction.prepare_cached(insert).expect("a statement");
        for (session, bodies, _) in waiting {
            for body in bodies {
                insert.execute((session, body)).expect("a row");
            }
        }
    }
    transaction.commit().expect("a commit");
}
