-- Longhand's store. Read this first: it says what is kept, and what the database itself refuses to change.
--
-- Everything is keyed by small integers inside; the ids that clients see are the `public_id` columns (UUIDv7 bytes).
-- `revision` is dense per session, one for each event, and is also the place of a message in its history.
-- Rows that a view or a replay reads never change once they are complete: triggers at the end see to it.

-- One row: which store this is. Cursors name it, so that a cursor of another store is refused.
create table store (
    id integer primary key check (id = 1),
    public_id blob not null,
    create_time integer not null
) strict;

-- A session. The first columns never change; the rest is its head: what its events add up to, kept so that an append
-- need not read them.
create table session (
    id integer primary key,
    public_id blob not null unique,
    client_id text unique,
    parent_id integer references session (id),      -- the session it works for
    fork_id integer references session (id),        -- the session it was forked from
    fork_revision integer,                          -- the last revision the two share
    create_time integer not null,                   -- microseconds since 1970
    title text not null,
    state integer not null,                         -- 1 active, 2 archived
    metadata_json text,
    window blob not null,                           -- encoded ModelWindow
    revision integer not null,
    history_revision integer not null,              -- newest revision that changed history, marks or policy
    reduction_revision integer not null,            -- newest reduction, edit, rewind or undo: older usage is stale
    chain_hash blob not null,
    message_count integer not null,
    update_time integer not null,
    view_tokens integer not null,                   -- estimate of the view now
    appended_tokens integer not null,               -- running total of the estimates of everything appended
    usage_tokens integer,                           -- newest trusted usage, if any
    usage_at integer not null,                      -- appended_tokens just after the reply with that usage
    output_tokens integer not null,                 -- tool outputs that a prune could still look at
    output_checked integer not null,                -- output_tokens when a prune was last considered
    due_revision integer,                           -- set by an append whose usage crossed a threshold
    due_window blob,                                -- the window that made it due; null for the session's
    failures integer not null,                      -- reductions in a row that failed or freed too little
    hold_turns integer not null,                    -- automatic triggers wait for this many user messages
    hold_breaker integer not null,                  -- 1 when the breaker holds them, rather than an undo
    failed_tokens integer                           -- view_tokens when a summary last failed; the next try waits for more
) strict;

create index session_parent on session (parent_id, id) where parent_id is not null;
create index session_due on session (due_revision) where due_revision is not null;

-- What a fork inherits, flattened: however deep forks go, a stretch of history is one row away from its owner.
create table segment (
    session_id integer not null references session (id),
    owner_id integer not null references session (id),
    first_revision integer not null,
    last_revision integer not null,
    has_messages integer not null,                  -- reads of messages skip the stretches that hold none
    primary key (session_id, first_revision)
) strict, without rowid;

create index segment_messages on segment (session_id, last_revision) where has_messages = 1;

-- The log: one row per committed change, small; what it is about is in the other tables under the same revision.
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
create index event_session on event (session_id, seq);

-- A message. `lane` sorts what reads want apart: 0 stands inline in views, 1 is derived, 2 is a record, 3 is an edit.
create table message (
    id integer primary key,
    session_id integer not null references session (id),
    revision integer not null,
    public_id blob not null unique,
    client_id text,
    role integer not null,
    kind integer not null,
    lane integer not null,
    create_time integer not null,
    head blob not null,                             -- encoded: actor, model, provider, origin time, metadata
    sealed_revision integer,                        -- null while open
    seal blob                                       -- encoded: finish reason, usage, view it was given
) strict;

create unique index message_revision on message (session_id, revision);
create index message_lane on message (session_id, lane, revision);
create unique index message_client on message (session_id, client_id) where client_id is not null;
create index message_open on message (session_id) where sealed_revision is null;

-- A closed part. The body is encoded, compressed when that pays, and in `blob` when it is large. The salt lets the
-- chain commit to the body without revealing it once it is erased.
create table part (
    id integer primary key,
    message_id integer not null references message (id),
    position integer not null,
    revision integer not null,
    public_id blob not null,
    client_id text,
    kind integer not null,
    codec integer not null,                         -- 0 as it is, 1 zstd
    length integer not null,                        -- bytes before compression
    salt blob not null,
    body blob,                                      -- null when in `blob`
    blob_hash blob references blob (hash),
    call_message blob                               -- of a result: `public_id` of the message with the call it answers
) strict;

create unique index part_position on part (message_id, position);
create unique index part_client on part (message_id, client_id) where client_id is not null;

-- Tool calls, so that a result finds the one it answers when it comes, whatever views show by then. A fork has rows for
-- those inherited calls that it answered, or that its rewinds set waiting again.
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

-- Large bodies and media, stored once whoever uses them.
create table blob (
    hash blob primary key,                          -- blake3 of the bytes before compression
    codec integer not null,
    length integer not null,
    data blob not null
) strict;

-- A part that is still being written. It is in no view, and is gone once it closes.
create table draft (
    id integer primary key,
    message_id integer not null references message (id),
    public_id blob not null unique,
    client_id text,                                 -- its part's, so that a draft is begun once
    kind integer not null,                          -- 1 text, 2 reasoning
    body text not null
) strict;

create index draft_message on draft (message_id);
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
    part_id integer not null references part (id),
    session_id integer not null references session (id),
    revision integer not null,
    compaction_id blob not null,
    primary key (part_id, session_id, revision)
) strict, without rowid;

create index pruned_mark on pruned (session_id, revision);

-- Which messages a view shows from this revision on: one seek, whatever came before.
create table layout (
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

-- Reductions, as jobs. One that is neither ended nor queued behind another is live, and a session has one live job.
create table job (
    id integer primary key,
    public_id blob not null unique,
    session_id integer not null references session (id),
    kind integer not null,
    trigger integer not null,
    state integer not null,                         -- 1 ready, 2 running, 3 done, 4 failed, 5 cancelled, 6 superseded, 7 dead
    queued integer not null,                        -- 1 while it waits for the live one to end
    instructions text not null,
    actor text not null,
    base_revision integer,
    asked_revision integer not null,                -- the session's revision when it was asked for
    tokens_at_request integer not null,
    window blob not null,                           -- the window it is judged by
    attempt integer not null,
    lease_epoch integer not null,                   -- the fencing token: rises with every claim
    lease_owner blob,                               -- the daemon's start that holds it
    lease_until integer,
    run_at integer not null,
    started_revision integer,
    ended_revision integer,
    outcome blob,
    failure blob,
    create_time integer not null,
    start_time integer,
    end_time integer
) strict;

create unique index job_live on job (session_id) where state in (1, 2) and queued = 0;
create index job_queued on job (session_id, id) where state = 1 and queued = 1;
create index job_ready on job (run_at) where state = 1 and queued = 0;
create index job_running on job (lease_until) where state = 2;
create index job_session on job (session_id, id);

-- Answers to requests that carried a request id, kept for ever.
create table request (
    session_id integer not null references session (id),
    request_id text not null,
    payload_hash blob not null,
    receipt blob not null,
    primary key (session_id, request_id)
) strict, without rowid;

-- What the database refuses, whoever asks.
create trigger part_is_closed before update on part
begin select raise(abort, 'a closed part never changes'); end;
create trigger part_stays before delete on part
begin select raise(abort, 'a closed part is never deleted'); end;
create trigger message_is_sealed before update on message
when old.sealed_revision is not null
    or new.id is not old.id or new.session_id is not old.session_id or new.revision is not old.revision
    or new.public_id is not old.public_id or new.client_id is not old.client_id or new.role is not old.role
    or new.kind is not old.kind or new.lane is not old.lane or new.create_time is not old.create_time
    or new.head is not old.head
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
    or new.parent_id is not old.parent_id or new.fork_id is not old.fork_id
    or new.fork_revision is not old.fork_revision or new.create_time is not old.create_time
begin select raise(abort, 'who a session is never changes'); end;
create trigger session_stays before delete on session
begin select raise(abort, 'a session is never deleted'); end;
