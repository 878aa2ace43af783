//! Heads: what a session's events add up to, in the writer's memory and in the `session` row.

use super::codec::{self, Number};
use super::error::{Error, Kind, Result};
use super::lineage::Reader;
use crate::limits;
use crate::model::ids::{CompactionId, SessionId};
use crate::model::message::{Finish, FinishReason, GivenView};
use crate::model::session::{Guards, SessionState};
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, Usage};
use crate::model::{Revision, Seq};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use std::collections::HashMap;
use uuid::Uuid;

/// Names a session inside the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SessionKey(pub(crate) i64);

/// What the policy says about triggers, in plain numbers: the store compares, it does not decide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The session's window; its context is zero when none is known.
    pub window: ModelWindow,
    /// The tokens at which a summary is due.
    pub due_tokens: Option<i64>,
    /// The tool output tokens above which a prune could pay.
    pub prune_tokens: Option<i64>,
    /// After a prune was considered, this many more tool output tokens must come before it is again.
    pub prune_step_tokens: i64,
    /// The parts that the routine could act on, by number, above which it is worth a look.
    pub routine_count: Option<i64>,
    /// The messages of a view above which the routine is worth a look.
    pub view_count: Option<i64>,
    /// The tokens of a view above which the routine is worth a look, whatever the ladder says.
    pub routine_tokens: Option<i64>,
    /// For how many milliseconds the model must have said nothing before the routine is worth a look for that.
    pub idle_ms: Option<i64>,
    /// The tokens by which the running estimate of a view may be too low for each of its messages. Whoever is that close to a
    /// threshold is measured.
    pub rounding_tokens: i64,
    /// What of reported usage counts.
    pub usage: UsageReading,
}

/// What of reported usage says how full the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageReading {
    /// All that was sent and what came back.
    #[default]
    All,
    /// What was sent.
    Prompt,
    /// Nothing: estimates decide.
    Nothing,
}

impl Rule {
    /// How full the window is by what a reply reports.
    pub(crate) fn tokens_of(&self, usage: &Usage) -> i64 {
        match self.usage {
            UsageReading::All => usage.context_tokens(),
            UsageReading::Prompt => usage.prompt_tokens(),
            UsageReading::Nothing => 0,
        }
    }
}

/// What of a view the routine could act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutineTotals {
    /// Tokens of the tool outputs that a prune could still look at.
    pub output_tokens: i64,
    /// Parts that the routine could act on, by number.
    pub routine_count: i64,
    /// Messages at their own places.
    pub view_count: i64,
}

/// Running totals of a session: the difference of two is what came between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningTotals {
    /// Tokens of everything that was appended.
    pub appended_tokens: i64,
    /// Totals that the routine could act on, as the session counts them.
    pub counted: RoutineTotals,
}

impl RoutineTotals {
    /// What was counted since an earlier count; nothing where a measurement came between that found less.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            output_tokens: (self.output_tokens - earlier.output_tokens).max(0),
            routine_count: (self.routine_count - earlier.routine_count).max(0),
            view_count: (self.view_count - earlier.view_count).max(0),
        }
    }
}

/// How large a context is after a write, whatever the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextUsage {
    /// Trusted usage and the estimate of what came after it; none where no usage is trusted.
    pub usage_tokens: Option<i64>,
    /// The estimate of the view.
    pub view_tokens: i64,
    /// What is pending.
    pub pending: Pending,
}

impl ContextUsage {
    /// Tokens of a request with the view, for a model of this window.
    pub fn tokens(&self, window: &ModelWindow) -> i64 {
        self.usage_tokens.unwrap_or(self.view_tokens + window.overhead)
    }
}

/// What may still change a view without anybody's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Whether a reduction is due and not yet asked for.
    pub is_due: bool,
    /// The reduction that waits or runs.
    pub compaction: Option<CompactionId>,
}

/// An open message, as far as appends need it.
#[derive(Debug, Clone)]
pub(crate) struct OpenMessage {
    pub(crate) row: i64,
    /// Its place.
    pub(crate) revision: Revision,
    /// Whose calls it holds.
    pub(crate) writer: String,
    pub(crate) next_position: i64,
    /// What its parts weigh so far.
    pub(crate) tokens: i64,
    /// Those of them in results behind all that its model said.
    pub(crate) unread_tokens: i64,
    /// Bytes of its parts so far, drafts aside.
    pub(crate) bytes: i64,
}

/// What a session's events add up to.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) id: SessionId,
    pub(crate) fork_revision: Option<Revision>,
    pub(crate) title: String,
    pub(crate) state: SessionState,
    pub(crate) metadata_json: Option<String>,
    pub(crate) window: ModelWindow,
    pub(crate) revision: Revision,
    pub(crate) history_revision: Revision,
    pub(crate) reduction_revision: Revision,
    pub(crate) chain_hash: [u8; 32],
    pub(crate) message_count: i64,
    pub(crate) update_time: Timestamp,
    pub(crate) view_tokens: i64,
    pub(crate) appended_tokens: i64,
    pub(crate) usage_tokens: Option<i64>,
    pub(crate) usage_at: i64,
    pub(crate) output_tokens: i64,
    pub(crate) output_checked: i64,
    pub(crate) due_revision: Option<Revision>,
    /// Since when it is due; kept in step with the mark when the head is written.
    pub(crate) due_time: Option<Timestamp>,
    /// Something became due while a reduction was live. On disk that is a time without a mark.
    pub(crate) missed: bool,
    /// The guards of the newest decision, for whoever asks after the session. What may end one of them makes the session
    /// due; whether it does, the next decision says.
    pub(crate) guards: Guards,
    /// The newest change of history, policy or window that was not a compaction: compactions that ended before it are of
    /// no account to guards.
    pub(crate) guard_revision: Revision,
    /// The newest undo, until the user goes on or what it took back is redone.
    pub(crate) undo_revision: Option<Revision>,
    /// Parts in the view that the routine could act on.
    pub(crate) routine_count: i64,
    /// How many these were when the routine last found nothing to do.
    pub(crate) routine_checked: i64,
    /// Messages that the view shows at their own places.
    pub(crate) view_count: i64,
    /// How many these were when the routine last found nothing to do.
    pub(crate) view_checked: i64,
    /// When the session will have been idle for as long as its maintenance waits.
    pub(crate) idle_until: Option<Timestamp>,
    pub(crate) live_job: Option<CompactionId>,
    /// Whether the view exceeded all of its window when it was judged last.
    pub(crate) is_over: bool,
    /// The view has outgrown its window under a live reduction, which then does not rest any longer.
    pub(crate) ends_rest: bool,
    pub(crate) open: HashMap<Uuid, OpenMessage>,
}

const SELECT: &str = "select id, public_id, fork_revision, title, state, metadata_json, window, revision, \
     history_revision, reduction_revision, chain_hash, message_count, update_time, view_tokens, appended_tokens, \
     usage_tokens, usage_at, output_tokens, output_checked, due_revision, failures, hold_turns, hold_breaker, \
     cool_until, overhead_tokens, guard_revision, undo_revision, routine_count, routine_checked, view_count, \
     view_checked, idle_until, due_time from session where id = $1";
const SELECT_OPEN: &str = "select m.id, m.public_id, m.revision, m.head, \
     (select count(*) from part p where p.message_id = m.id) \
     from message m where m.session_id = $1 and m.sealed_revision is null";
const SELECT_LIVE_JOB: &str = "select public_id from job where session_id = $1 and state in (1, 2) and queued = 0";
const UPDATE: &str = "update session set title = $2, state = $3, metadata_json = $4, window = $5, revision = $6, \
     history_revision = $7, reduction_revision = $8, chain_hash = $9, message_count = $10, update_time = $11, \
     view_tokens = $12, appended_tokens = $13, usage_tokens = $14, usage_at = $15, output_tokens = $16, \
     output_checked = $17, due_revision = $18, failures = $19, hold_turns = $20, hold_breaker = $21, \
     cool_until = $22, overhead_tokens = $23, guard_revision = $24, undo_revision = $25, routine_count = $26, \
     routine_checked = $27, view_count = $28, view_checked = $29, idle_until = $30, due_time = $31 where id = $1";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SELECT, SELECT_OPEN, SELECT_LIVE_JOB, UPDATE];

impl Head {
    /// Reads a head from its row.
    pub(crate) async fn load(conn: &mut SqliteConnection, key: i64) -> Result<Self> {
        let row = sqlx::query(SELECT)
            .bind(key)
            .fetch_optional(&mut *conn)
            .await?
            .ok_or_else(|| Error::not_found(Kind::Session, key))?;
        let hash: Vec<u8> = row.try_get("chain_hash")?;
        let mut open = HashMap::new();
        for row in sqlx::query(SELECT_OPEN).bind(key).fetch_all(&mut *conn).await? {
            let message = row.try_get(0)?;
            let bytes = super::messages::bytes_of(&mut Reader::new(conn), message).await?;
            let message = OpenMessage {
                row: message,
                revision: row.try_get(2)?,
                writer: codec::decode_message_head(row.try_get(3)?)?.actor,
                next_position: row.try_get(4)?,
                tokens: 0,
                unread_tokens: 0,
                bytes,
            };
            open.insert(codec::uuid(row.try_get(1)?)?, message);
        }
        let due_revision: Option<Revision> = row.try_get("due_revision")?;
        let due_time = row.try_get::<Option<i64>, _>("due_time")?.map(Timestamp);
        let live: Option<Vec<u8>> = sqlx::query_scalar(SELECT_LIVE_JOB).bind(key).fetch_optional(&mut *conn).await?;
        Ok(Self {
            key,
            id: SessionId(codec::uuid(row.try_get("public_id")?)?),
            fork_revision: row.try_get("fork_revision")?,
            title: row.try_get("title")?,
            state: SessionState::from_number(row.try_get("state")?)?,
            metadata_json: row.try_get("metadata_json")?,
            window: codec::decode_window(row.try_get("window")?)?,
            revision: row.try_get("revision")?,
            history_revision: row.try_get("history_revision")?,
            reduction_revision: row.try_get("reduction_revision")?,
            chain_hash: hash.try_into().map_err(|_| Error::corrupt("session", "chain_hash is not 32 bytes"))?,
            message_count: row.try_get("message_count")?,
            update_time: Timestamp(row.try_get("update_time")?),
            view_tokens: row.try_get("view_tokens")?,
            appended_tokens: row.try_get("appended_tokens")?,
            usage_tokens: row.try_get("usage_tokens")?,
            usage_at: row.try_get("usage_at")?,
            output_tokens: row.try_get("output_tokens")?,
            output_checked: row.try_get("output_checked")?,
            due_revision,
            due_time,
            missed: due_revision.is_none() && due_time.is_some(),
            guards: guards(&row)?,
            guard_revision: row.try_get("guard_revision")?,
            undo_revision: row.try_get("undo_revision")?,
            routine_count: row.try_get("routine_count")?,
            routine_checked: row.try_get("routine_checked")?,
            view_count: row.try_get("view_count")?,
            view_checked: row.try_get("view_checked")?,
            idle_until: row.try_get::<Option<i64>, _>("idle_until")?.map(Timestamp),
            is_over: false,
            ends_rest: false,
            live_job: live.map(|id| codec::uuid(&id).map(CompactionId)).transpose()?,
            open,
        })
    }

    /// Writes the head to its row.
    pub(crate) async fn save(&self, conn: &mut SqliteConnection) -> Result<()> {
        sqlx::query(UPDATE)
            .bind(self.key)
            .bind(&self.title)
            .bind(self.state.number())
            .bind(&self.metadata_json)
            .bind(codec::encode_window(&self.window))
            .bind(self.revision)
            .bind(self.history_revision)
            .bind(self.reduction_revision)
            .bind(self.chain_hash.to_vec())
            .bind(self.message_count)
            .bind(self.update_time.0)
            .bind(self.view_tokens)
            .bind(self.appended_tokens)
            .bind(self.usage_tokens)
            .bind(self.usage_at)
            .bind(self.output_tokens)
            .bind(self.output_checked)
            .bind(self.due_revision)
            .bind(self.guards.failure_count)
            .bind(self.guards.hold_turns)
            .bind(self.guards.breaker_open)
            .bind(self.guards.cool_until.map(|until| until.0))
            .bind(self.guards.overhead_tokens)
            .bind(self.guard_revision)
            .bind(self.undo_revision)
            .bind(self.routine_count)
            .bind(self.routine_checked)
            .bind(self.view_count)
            .bind(self.view_checked)
            .bind(self.idle_until.map(|time| time.0))
            .bind(self.due_time.map(|since| since.0))
            .execute(conn)
            .await?;
        Ok(())
    }

    /// Refuses writes to an archived session.
    pub(crate) fn writable(&self) -> Result<()> {
        match self.state {
            SessionState::Active => Ok(()),
            SessionState::Archived => Err(Error::Archived),
        }
    }

    /// Refuses when history, marks, policy or window changed after `expected`.
    pub(crate) fn expect(&self, expected: Option<Revision>) -> Result<()> {
        match expected {
            Some(expected) if expected > self.revision => {
                Err(Error::RevisionOutOfRange { revision: expected, newest: self.revision })
            }
            Some(expected) if self.history_revision > expected => {
                Err(Error::RevisionMismatch { expected, current: self.history_revision })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a view that nobody can have been given: its token is from a later state of the store than this one.
    pub(crate) fn check_view(&self, view: Option<&GivenView>) -> Result<()> {
        match view {
            Some(view) if !(0..=self.revision).contains(&view.revision) => {
                Err(Error::ViewTokenInvalid { revision: view.revision, newest: self.revision })
            }
            _ => Ok(()),
        }
    }

    /// Tokens of a request now: trusted usage plus the estimate of what came after, else the estimate of the view and what
    /// the window says of what else is sent.
    pub(crate) fn context_tokens(&self, window: &ModelWindow) -> i64 {
        self.context_usage().tokens(window)
    }

    /// Counts tokens that joined the view.
    pub(crate) fn weigh(&mut self, tokens: i64, output_tokens: i64, routine_count: i64) {
        self.view_tokens += tokens;
        self.appended_tokens += tokens;
        self.output_tokens += output_tokens;
        self.routine_count += routine_count;
    }

    /// Takes over what a reply reports, if its view is whole and not stale. `seen` is the running total at the view's
    /// revision, where it is known; `own` is what the reply itself weighs, and the results at its end, which nobody has read.
    ///
    /// Usage is tied to the view that the reply was given: what others wrote since then is estimated on top of it.
    pub(crate) fn take_usage(
        &mut self,
        tokens: i64,
        view: Option<&GivenView>,
        seen: Option<i64>,
        own: (i64, i64),
    ) -> bool {
        let is_whole = view.is_none_or(|view| !view.shortened);
        let is_current = view.map_or(0, |view| view.revision) >= self.reduction_revision;
        if !is_whole || !is_current || tokens <= 0 {
            return false;
        }
        let (own, unread) = own;
        let seen = seen.unwrap_or(self.appended_tokens - own);
        self.usage_tokens = Some(tokens);
        self.usage_at = seen + own - unread;
        // Less usage may show that the overhead has become smaller.
        if self.guards.overhead_tokens.is_some() {
            self.is_due();
        }
        true
    }

    /// Forgets usage: a compaction has changed the view under it.
    pub(crate) fn reduce(&mut self, at: Revision) {
        self.reduction_revision = at;
        self.usage_tokens = None;
    }

    /// Forgets usage, and what compactions came to before: somebody has changed history, policy or window. The scheduler
    /// decides anew.
    pub(crate) fn changed(&mut self, at: Revision) {
        self.reduce(at);
        self.guard_revision = at;
        self.look_again(at);
    }

    /// Sets the due mark when the rule says so, or notes that for the end of a reduction that is live.
    pub(crate) fn judge(&mut self, rule: &Rule) {
        let tokens = self.context_tokens(&rule.window);
        let is_over = rule.window.request_max().is_some_and(|most| tokens > most);
        self.ends_rest |= is_over && !self.is_over && self.live_job.is_some();
        self.is_over = is_over;
        let reached = rule.due_tokens.is_some_and(|due| tokens + self.rounding(rule) >= due);
        let much = rule.prune_tokens.is_some_and(|least| self.output_tokens > least)
            && self.output_tokens >= self.output_checked + rule.prune_step_tokens;
        let grown =
            |count: i64, checked: i64, least: Option<i64>| least.is_some_and(|least| count > least.max(checked));
        let many = grown(self.routine_count, self.routine_checked, rule.routine_count)
            || grown(self.view_count, self.view_checked, rule.view_count);
        let full = rule.routine_tokens.is_some_and(|least| tokens > least);
        if reached || much || many || full {
            self.is_due();
        }
    }

    /// Sets the due mark, or notes that for the end of a compaction that is current.
    fn is_due(&mut self) {
        if self.live_job.is_none() {
            self.due_revision = Some(self.revision);
        } else if self.due_revision.is_none() {
            self.missed = true;
        }
    }

    /// Notes that the user went on, which ends the hold after an undo, and may end the breaker's.
    pub(crate) fn user_spoke(&mut self) {
        self.undo_revision = None;
        if self.guards.hold_turns > 0 {
            self.is_due();
        }
    }

    /// Looks once more at what became due while a reduction was live, when that has ended without effect.
    pub(crate) fn ended(&mut self) {
        if self.live_job.is_none() && std::mem::take(&mut self.missed) && self.due_revision.is_none() {
            self.due_revision = Some(self.revision);
            // Its turn comes behind those that wait already.
            self.due_time = None;
        }
    }

    /// What the routine could act on in the view of now: what was measured last, and what came since.
    pub(crate) fn counted(&self) -> RoutineTotals {
        let Self { output_tokens, routine_count, view_count, .. } = *self;
        RoutineTotals { output_tokens, routine_count, view_count }
    }

    /// Takes over what the routine could act on in a view that was measured, and what `came` behind that. What it found
    /// nothing to do about it looks at again when there is more.
    pub(crate) fn measured(&mut self, routine: RoutineTotals, came: RoutineTotals, is_settled: bool) {
        let RoutineTotals { output_tokens, routine_count, view_count } = routine;
        (self.output_tokens, self.output_checked) = (output_tokens + came.output_tokens, output_tokens);
        self.routine_count = routine_count + came.routine_count;
        self.view_count = view_count + came.view_count;
        (self.routine_checked, self.view_checked) = if is_settled { (routine_count, view_count) } else { (0, 0) };
    }

    /// Notes that a turn may have ended: what maintenance had nothing to do about may be old enough by now.
    pub(crate) fn finish_turn(&mut self, finish: &Finish) {
        if finish.reason != Some(FinishReason::ToolCalls) {
            (self.output_checked, self.routine_checked, self.view_checked) = (0, 0, 0);
        }
    }

    /// Notes that the model spoke: the session's idle time begins anew.
    pub(crate) fn spoke(&mut self, rule: &Rule, now: Timestamp) {
        self.idle_until = rule.idle_ms.map(|wait| now.plus_millis(wait));
    }

    /// Sets the due mark because the session has been idle for long enough, or its cooldown is over. One that is being
    /// reduced waits.
    pub(crate) fn rested(&mut self, now: Timestamp) {
        if self.guards.cool_until.is_some_and(|until| until <= now) {
            self.guards.cool_until = None;
            if self.state == SessionState::Active {
                self.is_due();
            }
        }
        if self.idle_until.is_none_or(|until| until > now) {
            return;
        }
        // The scheduler decides about an archived session when it is restored.
        let waits = self.state == SessionState::Active && self.live_job.is_some();
        self.idle_until = waits.then(|| now.plus_millis(limits::LEASE_MS));
        if self.state == SessionState::Active && !waits {
            self.is_due();
        }
    }

    /// Takes away the due mark of a session that is put away: nothing is looked at in it until it is taken out again.
    pub(crate) fn put_away(&mut self) {
        self.due_revision = None;
        self.missed = false;
    }

    /// By how much an estimate that was added up message by message may be lower than that of the whole view, which decides.
    fn rounding(&self, rule: &Rule) -> i64 {
        self.view_count * rule.rounding_tokens
    }

    /// Sets the due mark for a reply which tells that its view was too large.
    pub(crate) fn overflow(&mut self) {
        self.due_revision = Some(self.revision);
    }

    /// Sets the due mark for whoever changed the picture: the scheduler measures it anew.
    pub(crate) fn look_again(&mut self, at: Revision) {
        self.due_revision = Some(at);
    }

    /// How large the context is.
    pub(crate) fn context_usage(&self) -> ContextUsage {
        ContextUsage {
            usage_tokens: self.usage_tokens.map(|usage| usage + (self.appended_tokens - self.usage_at).max(0)),
            view_tokens: self.view_tokens,
            pending: Pending { is_due: self.due_revision.is_some(), compaction: self.live_job },
        }
    }
}

/// The guards of the newest decision, from a session's row.
pub(crate) fn guards(row: &SqliteRow) -> Result<Guards> {
    Ok(Guards {
        failure_count: row.try_get("failures")?,
        hold_turns: row.try_get("hold_turns")?,
        breaker_open: row.try_get("hold_breaker")?,
        cool_until: row.try_get::<Option<i64>, _>("cool_until")?.map(Timestamp),
        overhead_tokens: row.try_get("overhead_tokens")?,
    })
}

/// What a mutation answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The session's revision after it.
    pub revision: Revision,
    /// The store's newest event of it.
    pub seq: Seq,
    /// The ids it made or found, in the order of the request.
    pub ids: Vec<Uuid>,
    /// How many of the ids were there before.
    pub existed_count: i64,
    /// How large the context is; filled in by appends and seals alone.
    pub context: ContextUsage,
}

impl Receipt {
    /// The receipt as the `request` table keeps it.
    pub(crate) fn to_disk(&self) -> codec::DiskReceipt {
        codec::DiskReceipt {
            revision: self.revision,
            seq: self.seq,
            ids: self.ids.iter().map(|id| id.as_bytes().to_vec()).collect(),
            existed_count: self.existed_count,
        }
    }

    /// Reads a kept receipt. How large the context was is not kept: whoever asks again goes on with the context of now.
    pub(crate) fn from_disk(disk: codec::DiskReceipt) -> Result<Self> {
        Ok(Self {
            revision: disk.revision,
            seq: disk.seq,
            ids: disk.ids.iter().map(|id| codec::uuid(id)).collect::<Result<_>>()?,
            existed_count: disk.existed_count,
            context: ContextUsage::default(),
        })
    }
}
