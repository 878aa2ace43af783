-- Guards are folded from the compactions that ended. What remains in the session's row is what the newest decision found
-- (`failures`, `hold_turns`, `hold_breaker`, `cool_until`, `overhead_tokens`), for whoever asks after the session.

alter table session drop column failed_tokens;
alter table session drop column quiet_tokens;
alter table session drop column reduced_usage_tokens;
alter table session drop column reduced_view_tokens;
alter table session drop column rest_tokens;

-- The revision of the newest change of history, policy or window that was not a compaction: guards do not consider
-- compactions that ended before it.
alter table session add column guard_revision integer not null default 0;

-- The revision of the newest undo, while what it took back is not redone; null: there is none.
alter table session add column undo_revision integer;

update session set guard_revision = reduction_revision;
update session set undo_revision = revision where hold_turns > 0 and hold_breaker = 0;

-- Compactions that ended and that guards consider: failed, tried in vain, or done and not of maintenance.
create index job_ended on job (session_id) where state in (4, 7) or state = 3 and trigger <> 2;
