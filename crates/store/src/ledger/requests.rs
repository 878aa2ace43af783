//! The request log: requests to models, written while their compaction runs, never changed.

use super::codec;
use super::head::SessionKey;
use super::quotas::ContentUse;
use super::spending;
use super::tx::Tx;
use crate::engine::Reader;
use crate::engine::{self, Row};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::ids::{CompactionId, MessageId};
use crate::model::summary_request::{Purpose, SummaryRequest};
use crate::model::time::Timestamp;
use uuid::Uuid;

/// Requests of one job, or for one summary of a branch, that are to be written to the log.
#[derive(Clone)]
pub(crate) struct AddRequests {
    pub(crate) session: SessionKey,
    pub(crate) subject: Subject,
    pub(crate) requests: Vec<SummaryRequest>,
}

/// The purpose of requests that are to be written.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Job(i64),
    Branch(MessageId),
}

const INSERT: &str = "insert into summary_request (session_id, job_id, message_id, attempt, summarizer, model, request_hash, \
     reply_hash, usage, cost_micros, duration_ms, failure, end_time, request_text, reply_text) \
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const OF_JOBS: &str = "select job_id, attempt, summarizer, model, request_hash, reply_hash, usage, cost_micros, \
     duration_ms, failure, end_time, null as request_text, null as reply_text from summary_request \
     where session_id = ?1 and job_id between ?2 and ?3 order by job_id, id";
const WITH_TEXTS: &str = "select job_id, attempt, summarizer, model, request_hash, reply_hash, usage, cost_micros, \
     duration_ms, failure, end_time, request_text, reply_text from summary_request \
     where session_id = ?1 and job_id = ?2 order by id limit 1 offset ?3";

const OF_SESSION: &str = "select r.id, j.public_id as compaction_id, r.message_id, r.job_id, r.attempt, r.summarizer, \
     r.model, r.request_hash, r.reply_hash, r.usage, r.cost_micros, r.duration_ms, r.failure, r.end_time, \
     case when ?4 = 1 then r.request_text end as request_text, case when ?4 = 1 then r.reply_text end as reply_text \
     from summary_request r left join job j on j.id = r.job_id \
     where r.session_id = ?1 and r.id < ?2 order by r.id desc limit +?3";

const BASE: &str = "select coalesce(base_revision, requested_revision) from job where id = ?1";
// Marks of kind 7 are those of erasures.
const ERASED_SINCE: &str = "select count(*) from mark m join event e on e.session_id = m.session_id \
     and e.revision = m.revision where m.session_id = ?1 and m.kind = 7 and (m.revision > ?2 or e.time > ?3)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, OF_JOBS, WITH_TEXTS, OF_SESSION, BASE, ERASED_SINCE];

impl AddRequests {
    /// The bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.requests.iter().filter_map(|request| request.texts.as_ref());
        texts.map(|(request, reply)| request.len() + reply.len()).sum()
    }

    /// Writes them, in the order in which they ended. A job that was superseded or cancelled keeps its requests too,
    /// because they were sent and may cost.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let (job, message) = match self.subject {
            Subject::Job(job) => (Some(job), None),
            Subject::Branch(message) => (None, Some(message.0.as_bytes().to_vec())),
        };
        let may_be_erased = self.may_be_erased(tx)?;
        for mut request in self.requests.iter().cloned() {
            if may_be_erased {
                request.texts = None;
                (request.request_hash, request.reply_hash) = ([0; 32], [0; 32]);
            }
            spending::add(tx.conn, &request)?;
            tx.use_more(self.session.0, ContentUse::spent(request.usage.unwrap_or_default(), request.cost_micros))?;
            let (request_text, reply_text) = request.texts.unzip();
            engine::query(INSERT)
                .bind(self.session.0)
                .bind(job)
                .bind(message.clone())
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
                .run(tx.conn)?;
        }
        Ok(())
    }

    /// True if content was erased that the requests can have had: the texts that they were made from were read before.
    fn may_be_erased(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let (revision, time) = match self.subject {
            Subject::Job(job) => {
                let base: Option<Revision> = engine::scalar(BASE).bind(job).optional(tx.conn)?;
                (base.unwrap_or_default(), i64::MAX)
            }
            Subject::Branch(_) => {
                let longest = i64::try_from(limits::BRANCH_SUMMARY_MS_MAX).unwrap_or(i64::MAX);
                (Revision::MAX, tx.now.plus_millis(-longest).0)
            }
        };
        let query = engine::scalar::<i64>(ERASED_SINCE).bind(self.session.0).bind(revision).bind(time);
        Ok(query.one(tx.conn)? > 0)
    }
}

/// The requests of a session's jobs in a range of rows, each with its job; their texts are left out.
pub(crate) fn of_jobs(
    reader: &mut Reader<'_>,
    session: i64,
    first: i64,
    last: i64,
) -> Result<Vec<(i64, SummaryRequest)>> {
    let rows = reader.all(engine::query(OF_JOBS).bind(session).bind(first).bind(last))?;
    rows.iter().map(from_row).collect()
}

/// One request of a job, by its number from 1, with its texts; none if there are fewer.
pub(crate) fn with_texts(
    reader: &mut Reader<'_>,
    session: i64,
    job: i64,
    number: i64,
) -> Result<Option<SummaryRequest>> {
    let row = reader.one(engine::query(WITH_TEXTS).bind(session).bind(job).bind((number - 1).max(0)))?;
    row.map(|row| from_row(&row).map(|(_, request)| request)).transpose()
}

/// A page of a session's requests, newest first, each with its number and its purpose.
pub(crate) fn of_session(
    reader: &mut Reader<'_>,
    session: i64,
    below: Option<i64>,
    limit: i64,
    with_texts: bool,
) -> Result<Vec<(i64, Purpose, SummaryRequest)>> {
    let rows =
        reader.all(engine::query(OF_SESSION).bind(session).bind(engine::below(below)).bind(limit).bind(with_texts))?;
    rows.iter().map(|row| Ok((row.get("id")?, purpose(row)?, request(row)?))).collect()
}

fn from_row(row: &Row) -> Result<(i64, SummaryRequest)> {
    Ok((row.get("job_id")?, request(row)?))
}

fn purpose(row: &Row) -> Result<Purpose> {
    let id = |name: &str| -> Result<Option<Uuid>> {
        row.get::<Option<Vec<u8>>>(name)?.map(|bytes| codec::uuid(&bytes)).transpose()
    };
    match (id("compaction_id")?, id("message_id")?) {
        (Some(compaction), None) => Ok(Purpose::Compaction(CompactionId(compaction))),
        (None, Some(message)) => Ok(Purpose::Branch(MessageId(message))),
        (Some(_), Some(_)) | (None, None) => {
            Err(Error::corrupt("summary_request", "it is for two things, or for none"))
        }
    }
}

fn request(row: &Row) -> Result<SummaryRequest> {
    let hash = |name: &str| -> Result<[u8; 32]> {
        let bytes: Vec<u8> = row.get(name)?;
        bytes.try_into().map_err(|_| Error::corrupt("summary_request", format_args!("{name} is no hash")))
    };
    let usage: Option<Vec<u8>> = row.get("usage")?;
    Ok(SummaryRequest {
        attempt: row.get("attempt")?,
        summarizer: row.get("summarizer")?,
        model: row.get("model")?,
        request_hash: hash("request_hash")?,
        reply_hash: hash("reply_hash")?,
        usage: usage.map(|bytes| codec::decode_usage(&bytes)).transpose()?,
        cost_micros: row.get("cost_micros")?,
        duration_ms: row.get("duration_ms")?,
        failure: row.get("failure")?,
        end_time: Timestamp(row.get("end_time")?),
        texts: row.get::<Option<String>>("request_text")?.zip(row.get::<Option<String>>("reply_text")?),
    })
}
