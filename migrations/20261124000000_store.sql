-- Longhand's store. Read this first: it says what is kept, and what the database itself refuses to change.
--
-- Everything is keyed by small integers inside; the ids that clients see are the `public_id` columns (UUIDv7 bytes).
-- `revision` is dense per session, one for each event, and is also the position of a message in its history.
-- Rows that a view or a replay reads never change once they are complete: triggers at the end see to it.

-- The migrations that this store has.
create table migration (
    version integer primary key,                    -- the day on which it was written, and its number on that day
    time integer not null                           -- when it was applied: microseconds since 1970, as all times here
) strict;

-- The identity of the store: the newest row. Cursors name it, so that a cursor of another store is refused. A backup has
-- `user_version` 1 in its header; its first start as a store adds a row, so that cursors of the original are refused.
create table store (
    id integer primary key,
    public_id blob not null,
    create_time integer not null,
    secret blob not null                            -- the random key of view tokens; a restored store keeps it, since
                                                    -- tokens name sessions and revisions that both stores share
) strict;

-- A session. The first columns never change; the rest is its head: the result of its events, stored so that an append
-- need not read them.
create table session (
    id integer primary key,
    public_id blob not null unique,
    tenant text not null default '',                -- whose it is; empty: the default tenant's. Forks and sessions that
                                                    -- work for another one have the tenant of that one
    client_id text,                                 -- unique in the tenant
    create_hash blob,                               -- of the request with `client_id`, which may be repeated
    parent_id integer references session (id),      -- the session it works for
    fork_id integer references session (id),        -- the session it was forked from
    fork_revision integer,                          -- the last revision the two share
    create_time integer not null,                   -- microseconds since 1970
    title text not null,
    state integer not null,                         -- 1 active, 2 archived
    metadata_json text,
    window blob not null,                           -- encoded: the newest row of `window`
    revision integer not null,
    history_revision integer not null,              -- newest revision that changed history, marks, policy or window
    compaction_revision integer not null,            -- newest compaction, edit, rewind or undo: older usage is stale
    guard_revision integer not null,                -- newest change of history, policy or window that was no compaction:
                                                    -- guards consider no compaction that ended before it
    undo_revision integer,                          -- newest undo, until the change that it undid is redone
    chain_hash blob not null,                       -- of the newest event
    message_count integer not null,
    update_time integer not null,
    appended_bytes integer not null,                -- growth of the history since the session was created: texts, names
                                                    -- and ids, 512 for each part, 16 384 for each media item
    -- Conditions under which the session becomes due for a decision, and its due state.
    wake_bytes integer,                             -- due once `appended_bytes` reaches this; null: not by growth
    wake_on_reply integer not null                  -- 1: due at the end of a reply
        check (wake_on_reply in (0, 1)),
    wake_on_request integer not null                -- 1: due at a message of the user
        check (wake_on_request in (0, 1)),
    wake_time integer,                              -- due at this time; null: at none
    due_revision integer,                           -- set while the session is due
    due_time integer,                               -- start of that; without `due_revision`: became due during a
                                                    -- compaction, and is decided if that ends without effect
    -- Results of the newest decision, for `GetSession` and the status page.
    context_tokens integer,                         -- tokens of a request with the view at `context_revision`
    context_revision integer,
    failures integer not null,                      -- compactions in a row that failed or freed nothing
    hold_turns integer not null,                    -- automatic compaction waits for this many messages of the user
    hold_breaker integer not null,                  -- 1 where the breaker holds it, rather than an undo
    cooldown_end integer,                           -- the end of the cooldown; null without one
    overhead_tokens integer                         -- tokens that no compaction can free; null unless they were found to
                                                    -- fill the window
) strict;

create unique index session_client on session (tenant, client_id) where client_id is not null;
create index session_tenant on session (tenant, id);
create index session_parent on session (parent_id, id) where parent_id is not null;
create index session_due on session (due_time) where due_revision is not null;
create index session_wake on session (wake_time) where wake_time is not null;
-- Few sessions are held, filled by overhead or in a cooldown at a time: the status page finds them without a scan.
create index session_held on session (hold_breaker) where hold_turns > 0;
create index session_overhead on session (overhead_tokens) where overhead_tokens is not null;
create index session_cooldown on session (cooldown_end) where cooldown_end is not null;

-- The ranges of history that a fork inherits, flattened: at any depth of forks, one row leads to a range's owner.
create table segment (
    session_id integer not null references session (id),
    owner_id integer not null references session (id),
    first_revision integer not null,
    last_revision integer not null,
    has_messages integer not null,                  -- reads of messages skip the segments that hold none
    primary key (session_id, first_revision)
) strict, without rowid;

create index segment_messages on segment (session_id, last_revision) where has_messages = 1;

-- The log: one small row per committed change; its content is in the other tables under the same revision.
create table event (
    seq integer primary key,                        -- dense in the store, in commit order
    session_id integer not null references session (id),
    revision integer not null,
    kind integer not null,
    ends_mutation integer not null,
    time integer not null,
    actor text not null,
    request_id text not null,
    body blob not null,                             -- encoded small fields
    digest blob not null,                           -- commits to the rows of this revision
    hash blob not null                              -- commits to this event and to the one before it
) strict;

create unique index event_revision on event (session_id, revision);

-- A message. `class` separates what is read separately: 0 inline in views, 1 derived, 2 a record, 3 an edit.
create table message (
    id integer primary key,
    session_id integer not null references session (id),
    revision integer not null,
    public_id blob not null unique,
    client_id text,
    role integer not null,
    kind integer not null,
    class integer not null,
    create_time integer not null,
    head blob not null,                             -- encoded: actor, model, provider, origin time, metadata
    sealed_revision integer,                        -- null while open
    seal blob,                                      -- encoded: finish reason, usage, the view that it answers
    parts blob,                                     -- encoded: the parts of a message that came sealed; those of one that
                                                    -- was opened first are rows of `part`
    parts_length integer,                           -- bytes of `parts` before compression, with bodies in `blob`
    counting integer,                               -- how `counts` were counted: the first 8 bytes of the BLAKE3 of its
                                                    -- name, little-endian; equal names mean equal counts
    counts blob,                                    -- encoded: tokens, counted before it was appended. Derived data
                                                    -- under no chain's hash: decisions are the same without it
    check ((parts is null) = (parts_length is null)),
    check ((counting is null) = (counts is null))
) strict;

-- Lookups by revision go by the class as well, of which there are four.
create unique index message_class on message (session_id, class, revision);
create unique index message_client on message (session_id, client_id) where client_id is not null;
create index message_open on message (session_id) where sealed_revision is null;
-- A fork after a message inherits earlier messages that were still open when it was appended, once they are sealed.
create index message_late on message (session_id, sealed_revision) where sealed_revision > revision;

-- Open messages. A row is deleted when its message is sealed; a start of the daemon sets the times anew.
create table open_message (
    message_id integer primary key,
    session_id integer not null,
    timeout_ms integer not null,                    -- the message is sealed after this time without a write to it
    expire_time integer                             -- null while the session is archived
) strict;

create index open_message_by_session on open_message (session_id);
create index open_message_expiry on open_message (expire_time) where expire_time is not null;

-- A closed part of a message that was opened first. The body is encoded, compressed when that pays, and in `blob` when
-- it is large. The salt lets the chain commit to the body without revealing it once it is erased. The id of a part is
-- that of its message with its number in the last two bytes.
create table part (
    message_id integer not null references message (id),
    position integer not null,
    number integer not null check (number between 1 and 65535),
    revision integer not null,
    client_id text,
    kind integer not null,
    codec integer not null,                         -- 0 as it is, 1 zstd with the dictionary of the codec
    length integer not null,                        -- bytes before compression
    salt blob not null,
    body blob,                                      -- null when in `blob`
    blob_hash blob references blob (hash),
    call_message blob                               -- of a result: `public_id` of the message with the call it answers
) strict;

create unique index part_position on part (message_id, position);
create unique index part_client on part (message_id, client_id) where client_id is not null;

-- Tool calls, so that a result finds the call that it answers when it is appended, whatever views show by then. A fork
-- has rows for those inherited calls that it answered, or whose results its rewinds left out.
create table tool_call (
    session_id integer not null references session (id),
    call_id text not null,
    writer text not null,                           -- the actor that results without a named call must have
    revision integer not null,                      -- of its message: an edit's is the original's
    position integer not null,                      -- of its part
    message blob not null,                          -- `public_id` of its message: an edit's is the original's
    answered_revision integer,                      -- when its result came; null while it waits
    primary key (session_id, call_id, writer, revision, position)
) strict, without rowid;

create index tool_call_waiting on tool_call (session_id, call_id, revision) where answered_revision is null;

-- Large bodies and media, each stored once, however many parts have it.
create table blob (
    hash blob primary key,                          -- blake3 of the bytes before compression
    codec integer not null,
    length integer not null,
    data blob not null
) strict;

-- A part that is still being written. It is in no view; its row is deleted when the part closes.
create table draft (
    id integer primary key,
    message_id integer not null references message (id),
    number integer not null,                        -- its part's
    client_id text,                                 -- its part's, so that a draft is started once
    kind integer not null,                          -- 1 text, 2 reasoning
    body text not null
) strict;

create unique index draft_number on draft (message_id, number);
create unique index draft_client on draft (message_id, client_id) where client_id is not null;

-- Statements about history. `voided_revision` is set once, when a mark is undone in its own session.
create table mark (
    session_id integer not null references session (id),
    revision integer not null,
    kind integer not null,
    body blob not null,
    voided_revision integer,
    primary key (session_id, revision)
) strict, without rowid;

-- The parts that a prune mark shortens.
create table pruned (
    message_id integer not null references message (id),
    number integer not null,                        -- of the part within its message
    session_id integer not null references session (id),
    revision integer not null,
    compaction_id blob not null,
    truncation blob,                                -- encoded: what the view shows; null: the policy's placeholder
    primary key (message_id, number, session_id, revision)
) strict, without rowid;

create index pruned_mark on pruned (session_id, revision);

-- The layout of views from this revision on: the difference to the row before, or the whole layout, if the differences
-- since the last whole one are as long.
create table layout (
    session_id integer not null references session (id),
    revision integer not null,
    body blob not null,
    primary key (session_id, revision)
) strict, without rowid;

-- Windows by revision: a view as it was is judged by the window that was active then. A session has one at its first
-- event.
create table window (
    session_id integer not null references session (id),
    revision integer not null,
    body blob not null,
    primary key (session_id, revision)
) strict, without rowid;

-- Policies by revision; equal texts are stored once.
create table policy (
    session_id integer not null references session (id),
    revision integer not null,
    hash blob not null references policy_text (hash),
    primary key (session_id, revision)
) strict, without rowid;

create table policy_text (
    hash blob primary key,                          -- blake3 of the text
    preset text not null,
    json text not null
) strict;

-- Compactions, as jobs. A job that has not ended and is not queued is current; a session has at most one current job.
create table job (
    id integer primary key,
    public_id blob not null unique,
    session_id integer not null references session (id),
    kind integer not null,                          -- 1 prune, 2 summary, 3 omission
    trigger integer not null,                       -- 1 threshold, 2 maintenance, 3 by hand, 4 supplied, 5 overflow, 6 last resort
    level integer,                                  -- 1 micro, 2 auto, 3 deep; null for maintenance
    state integer not null,                         -- 1 ready, 2 running, 3 done, 4 failed, 5 cancelled, 6 superseded, 7 dead
    queued integer not null,                        -- 1 while it waits for the end of the current job
    proposed integer not null default 0,            -- 1 while it waits for confirmation, at most until `run_at`; 2 once it
                                                    -- is confirmed; 0: needs none
    notice text not null default '',                -- the text for people; empty for none
    instructions text not null,
    head_start integer,                             -- by hand: first revision to summarize; null: the first
    tail_start integer,                             -- by hand: first revision to keep; null: the policy chooses
    actor text not null,
    base_revision integer,
    requested_revision integer not null,                -- the session's revision at the request
    tokens_at_request integer not null,
    window blob not null,                           -- the window it is judged by
    attempt integer not null,
    lost_attempts integer not null default 0,       -- attempts that ended because the daemon or the worker died; after
                                                    -- too many, the job is taken for the cause
    lease_epoch integer not null,                   -- the fencing token: rises with every claim
    lease_owner blob,                               -- the daemon's start that holds it
    lease_until integer,
    run_at integer not null,
    started_revision integer,
    ended_revision integer,
    undone_revision integer,                        -- when it was undone; null while it is active
    outcome blob,                                   -- encoded
    failure blob,                                   -- encoded
    create_time integer not null,
    start_time integer,
    end_time integer
) strict;

create unique index job_current on job (session_id) where state in (1, 2) and queued = 0;
create index job_queued on job (session_id, id) where state = 1 and queued = 1;
create index job_ready on job (run_at) where state = 1 and queued = 0;
create index job_running on job (lease_until) where state = 2;
create index job_session on job (session_id, id);
-- Ended compactions that guards consider: failed, out of attempts, or done and not of maintenance.
create index job_ended on job (session_id) where state in (4, 7) or state = 3 and trigger <> 2;

-- Numbers of ended compactions for the status page, updated in the transaction that ends a job.
create table compaction_count (
    kind integer not null,                          -- as in `job`
    level integer not null,                         -- as in `job`, 0 for none
    trigger integer not null,                       -- as in `job`
    state integer not null,                         -- as in `job`
    count integer not null,
    freed_tokens integer not null,                  -- removed from views by those that are done
    primary key (kind, level, trigger, state)
) strict, without rowid;

-- Requests to models for summaries, for audits and costs: one row for each request that was sent, with or without
-- success. No view and no replay reads them, so they are under no event's hash. They never contain a key.
create table summary_request (
    id integer primary key,
    session_id integer not null references session (id),
    job_id integer references job (id),             -- null: for the summary of a branch
    message_id blob,                                -- public id of that summary; it exists only if the rewind was made
    attempt integer not null,                       -- of the job; 1 for the summary of a branch
    summarizer text not null,                       -- its name in the configuration
    model text not null,                            -- as the provider named it, else as it was requested
    request_hash blob not null,                     -- BLAKE3 of the request's body
    reply_hash blob not null,                       -- BLAKE3 of the reply's text, as far as it was received
    usage blob,                                     -- encoded; null: the provider reported none
    cost_micros integer,                            -- millionths of a US dollar; null: unknown
    duration_ms integer not null,
    failure text,                                   -- reason why it brought no summary; null if it brought one
    end_time integer not null,
    request_text text,                              -- if the configuration has it recorded, up to a limit
    reply_text text,
    check ((job_id is null) <> (message_id is null))
) strict;

create index summary_request_job on summary_request (session_id, job_id);
-- For the list of a session's requests, newest first.
create index summary_request_session on summary_request (session_id);

-- Totals of requests to models by summarizer and model, updated in the transaction that stores the request.
create table summarizer_spending (
    summarizer text not null,                       -- its name in the configuration
    model text not null,                            -- as in `summary_request`, up to 100 bytes; empty: all models named
                                                    -- after the maximum number of rows
    requests integer not null,
    failures integer not null,                      -- requests that brought no summary
    input_tokens integer not null,                  -- this and the following as far as providers reported them
    output_tokens integer not null,
    reasoning_tokens integer not null,
    cache_read_tokens integer not null,
    cache_write_tokens integer not null,
    cost_micros integer not null,                   -- millionths of a US dollar, as far as it is known
    unpriced integer not null,                      -- requests whose cost is unknown
    duration_ms integer not null,
    primary key (summarizer, model)
) strict, without rowid;

-- Numbers of claims in summaries that the history contradicts, updated in the transaction that makes a summary active.
create table contradiction_count (
    kind integer primary key,                       -- the subject of the claims: 1 a check, 2 a commit, 3 a file
    count integer not null
) strict;

-- Tokens of sealed messages that were counted after the append, so that no decision counts the same text twice; derived
-- data like `counts` of a message.
create table message_token_count (
    counting integer not null,                      -- as in `message`
    message_id blob not null,                       -- the message's public id
    body blob not null,                             -- encoded: the tokens of the message and of each part
    primary key (counting, message_id)
) strict, without rowid;

-- The search index over the words of messages, for the retrieval of old dialogue; the rowid is the message's. Derived
-- data, written in the background or before a search. The caller splits texts of every script into words and separates
-- them by blanks. Each word begins with its session's number and `_`, so that a search reads the postings of one
-- session only. Neither the texts (content) nor the positions of words (detail) are stored: the message is read anyway.
-- Rows can be deleted if a message is erased.
create virtual table search using fts5 (
    words,
    content = '',
    contentless_delete = 1,
    detail = none,
    tokenize = "ascii tokenchars '_'"
);

-- Progress of the search index in each session; a session without a search has no row.
create table search_progress (
    session_id integer primary key references session (id),
    revision integer not null                       -- every message sealed up to it is in the index
) strict;

-- Progress of the scrub, which verifies the store in the background: one row, absent before the first pass.
create table scrub (
    id integer primary key check (id = 1),
    session_id integer,                             -- the last session that the unfinished pass has checked, 0 before
                                                    -- the first; null if no pass is unfinished
    start_time integer,                             -- begin of the current or the last pass, in microseconds since 1970
    sessions integer not null,                      -- extent of the current pass, or of the last one
    events integer not null,
    findings integer not null,
    end_time integer,                               -- end of the last complete pass; null before the first
    last_findings integer not null                  -- findings of the last complete pass
) strict;

-- Answers to requests that carried a request id, kept for ever.
create table request (
    session_id integer not null references session (id),
    request_id text not null,
    payload_hash blob not null,
    receipt blob not null,
    primary key (session_id, request_id)
) strict, without rowid;

-- Changes that the database itself refuses.
create trigger part_is_closed before update on part
begin select raise(abort, 'a closed part never changes'); end;
create trigger part_stays before delete on part
begin select raise(abort, 'a closed part is never deleted'); end;
create trigger message_is_sealed before update on message
when old.sealed_revision is not null
    or new.id is not old.id or new.session_id is not old.session_id or new.revision is not old.revision
    or new.public_id is not old.public_id or new.client_id is not old.client_id or new.role is not old.role
    or new.kind is not old.kind or new.class is not old.class or new.create_time is not old.create_time
    or new.head is not old.head or new.parts is not old.parts or new.parts_length is not old.parts_length
begin select raise(abort, 'a sealed message never changes'); end;
create trigger message_stays before delete on message
begin select raise(abort, 'a message is never deleted'); end;
create trigger event_is_final before update on event
begin select raise(abort, 'an event never changes'); end;
create trigger event_stays before delete on event
begin select raise(abort, 'an event is never deleted'); end;
create trigger mark_is_final before update on mark
when old.voided_revision is not null or new.session_id is not old.session_id or new.revision is not old.revision
    or new.kind is not old.kind or new.body is not old.body
begin select raise(abort, 'a mark never changes'); end;
create trigger mark_stays before delete on mark
begin select raise(abort, 'a mark is never deleted'); end;
create trigger pruned_is_final before update on pruned
begin select raise(abort, 'a prune mark never changes'); end;
create trigger pruned_stays before delete on pruned
begin select raise(abort, 'a prune mark is never deleted'); end;
create trigger layout_is_final before update on layout
begin select raise(abort, 'a layout never changes'); end;
create trigger layout_stays before delete on layout
begin select raise(abort, 'a layout is never deleted'); end;
create trigger policy_is_final before update on policy
begin select raise(abort, 'a policy never changes'); end;
create trigger policy_stays before delete on policy
begin select raise(abort, 'a policy is never deleted'); end;
create trigger policy_text_is_final before update on policy_text
begin select raise(abort, 'a policy never changes'); end;
create trigger policy_text_stays before delete on policy_text
begin select raise(abort, 'a policy is never deleted'); end;
create trigger segment_is_final before update on segment
begin select raise(abort, 'what a fork inherits never changes'); end;
create trigger segment_stays before delete on segment
begin select raise(abort, 'what a fork inherits never changes'); end;
create trigger blob_is_final before update on blob
begin select raise(abort, 'a blob never changes'); end;
create trigger blob_stays before delete on blob
begin select raise(abort, 'a blob is never deleted'); end;
create trigger session_is_itself before update on session
when new.id is not old.id or new.public_id is not old.public_id or new.client_id is not old.client_id
    or new.tenant is not old.tenant
    or new.create_hash is not old.create_hash
    or new.parent_id is not old.parent_id or new.fork_id is not old.fork_id
    or new.fork_revision is not old.fork_revision or new.create_time is not old.create_time
begin select raise(abort, 'the identity of a session never changes'); end;
create trigger session_stays before delete on session
begin select raise(abort, 'a session is never deleted'); end;
create trigger window_is_final before update on window
begin select raise(abort, 'a window never changes'); end;
create trigger window_stays before delete on window
begin select raise(abort, 'a window is never deleted'); end;
create trigger summary_request_is_final before update on summary_request
begin select raise(abort, 'the record of a request never changes'); end;
create trigger summary_request_stays before delete on summary_request
begin select raise(abort, 'the record of a request is never deleted'); end;
create trigger store_is_itself before update on store
begin select raise(abort, 'the identity of the store never changes'); end;
create trigger store_stays before delete on store
begin select raise(abort, 'the identity of the store never changes'); end;
