//! The books on requests to models: written while their reduction runs, never changed.

use super::Store;
use super::codec;
use super::error::{Error, Result};
use super::head::SessionKey;
use super::jobs::{self, Claim};
use super::lineage::Reader;
use super::spending;
use super::tx::Tx;
use super::writer::Command;
use crate::model::ids::CompactionId;
use crate::model::summary_request::SummaryRequest;
use crate::model::time::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

/// Requests of one job on their way into the books.
#[derive(Clone)]
pub(crate) struct AddRequests {
    pub(crate) session: SessionKey,
    pub(crate) job: i64,
    pub(crate) requests: Vec<SummaryRequest>,
}

const INSERT: &str = "insert into summary_request (session_id, job_id, attempt, summarizer, model, request_hash, \
     reply_hash, usage, cost_micros, duration_ms, failure, end_time, request_text, reply_text) \
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const OF_JOBS: &str = "select job_id, attempt, summarizer, model, request_hash, reply_hash, usage, cost_micros, \
     duration_ms, failure, end_time, null as request_text, null as reply_text from summary_request \
     where session_id = $1 and job_id between $2 and $3 order by job_id, id";
const WITH_TEXTS: &str = "select job_id, attempt, summarizer, model, request_hash, reply_hash, usage, cost_micros, \
     duration_ms, failure, end_time, request_text, reply_text from summary_request \
     where session_id = $1 and job_id = $2 order by id limit 1 offset $3";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, OF_JOBS, WITH_TEXTS];

impl Store {
    /// One of the requests that were made for a reduction, by its number from 1, with its texts; none when there are
    /// fewer.
    pub async fn summary_request(&self, id: CompactionId, number: i64) -> Result<Option<SummaryRequest>> {
        self.reading(async |reader| {
            let job = jobs::by_id(reader, id).await?;
            with_texts(reader, job.session, job.row, number).await
        })
        .await
    }

    /// Notes requests to models that were made for a job, whatever becomes of it.
    pub async fn add_requests(&self, claim: &Claim, requests: Vec<SummaryRequest>) -> Result<()> {
        let add = AddRequests { session: claim.session, job: claim.job, requests };
        self.done(Command::AddRequests(add)).await
    }
}

impl AddRequests {
    /// The content that it carries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.requests.iter().filter_map(|request| request.texts.as_ref());
        texts.map(|(request, reply)| request.len() + reply.len()).sum()
    }

    /// Writes them, in the order in which they ended. A job that was taken over or cancelled keeps its requests too:
    /// they were sent, and may cost.
    pub(crate) async fn apply(self, tx: &mut Tx<'_>) -> Result<()> {
        for request in self.requests {
            spending::add(tx.conn, &request).await?;
            let (request_text, reply_text) = request.texts.unzip();
            sqlx::query(INSERT)
                .bind(self.session.0)
                .bind(self.job)
                .bind(request.attempt)
                .bind(request.summarizer)
                .bind(request.model)
                .bind(request.request_hash.to_vec())
                .bind(request.reply_hash.to_vec())
                .bind(request.usage.map(codec::encode_usage))
                .bind(request.cost_micros)
                .bind(request.duration_ms)
                .bind(request.failure)
                .bind(request.end_time.0)
                .bind(request_text)
                .bind(reply_text)
                .execute(&mut *tx.conn)
                .await?;
        }
        Ok(())
    }
}

/// The requests of a session's jobs in a range of rows, each with its job; their texts are left out.
pub(crate) async fn of_jobs(
    reader: &mut Reader<'_>,
    session: i64,
    first: i64,
    last: i64,
) -> Result<Vec<(i64, SummaryRequest)>> {
    let rows = reader.all(sqlx::query(OF_JOBS).bind(session).bind(first).bind(last)).await?;
    rows.iter().map(from_row).collect()
}

/// One request of a job, by its number from 1, with its texts; none when there are fewer.
pub(crate) async fn with_texts(
    reader: &mut Reader<'_>,
    session: i64,
    job: i64,
    number: i64,
) -> Result<Option<SummaryRequest>> {
    let row = reader.one(sqlx::query(WITH_TEXTS).bind(session).bind(job).bind((number - 1).max(0))).await?;
    row.map(|row| from_row(&row).map(|(_, request)| request)).transpose()
}

fn from_row(row: &SqliteRow) -> Result<(i64, SummaryRequest)> {
    let hash = |name: &str| -> Result<[u8; 32]> {
        let bytes: Vec<u8> = row.try_get(name)?;
        bytes.try_into().map_err(|_| Error::corrupt("summary_request", format_args!("{name} is no hash")))
    };
    let usage: Option<Vec<u8>> = row.try_get("usage")?;
    let request = SummaryRequest {
        attempt: row.try_get("attempt")?,
        summarizer: row.try_get("summarizer")?,
        model: row.try_get("model")?,
        request_hash: hash("request_hash")?,
        reply_hash: hash("reply_hash")?,
        usage: usage.map(|bytes| codec::decode_usage(&bytes)).transpose()?,
        cost_micros: row.try_get("cost_micros")?,
        duration_ms: row.try_get("duration_ms")?,
        failure: row.try_get("failure")?,
        end_time: Timestamp(row.try_get("end_time")?),
        texts: row.try_get::<Option<String>, _>("request_text")?.zip(row.try_get::<Option<String>, _>("reply_text")?),
    };
    Ok((row.try_get("job_id")?, request))
}
