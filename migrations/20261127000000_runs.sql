-- Runs, prompts and approvals: who works in a session, what waits for it, and what it asks.
--
-- What is here besides leases and time limits follows from the events of the session; the columns that come with an
-- event are under its hash.

-- The right of one agent to answer a session's next prompt.
create table run (
    session_id integer not null references session (id),
    epoch integer not null,                         -- the fencing token: rises with every run of the session, from 1
    public_id blob not null unique,
    actor text not null,
    lease_ms integer not null,                        -- the length of its lease
    lease_until integer,                            -- null once it has ended
    start_revision integer not null,
    start_time integer not null,
    cancel_revision integer,                        -- when it was asked to stop: its lease is not renewed any more
    end_reason integer,                             -- 1 completed, 2 failed, 3 cancelled, 4 lost; null while it is active
    end_revision integer,
    end_time integer,
    failure text not null default '',
    primary key (session_id, epoch),
    check ((end_reason is null) = (lease_until is not null)),
    check ((end_reason is null) = (end_revision is null)),
    check ((end_reason is null) = (end_time is null))
) strict, without rowid;

create unique index run_active on run (session_id) where end_reason is null;
create index run_lease on run (lease_until) where end_reason is null;

-- A user's message that waits until a run takes it. The message that it becomes has the same public id.
create table prompt (
    id integer primary key,
    session_id integer not null references session (id),
    public_id blob not null unique,
    delivery integer not null,                      -- 1 queue, 2 steer, 3 interrupt
    actor text not null,
    metadata_json text,
    parts blob not null,                            -- encoded: as the parts of a message that came sealed
    create_time integer not null,
    submit_revision integer not null,
    rank integer,                                   -- its position in the queue; null once it has left it
    end_epoch integer,                              -- the run that took it; null if it waits or was withdrawn
    end_revision integer,
    check ((rank is null) = (end_revision is not null))
) strict;

create unique index prompt_revision on prompt (session_id, submit_revision);
create index prompt_queue on prompt (session_id, rank) where rank is not null;

-- A question of an agent, and its answer. The salts let the chain commit to both without revealing them once they are
-- erased.
create table approval (
    id integer primary key,
    session_id integer not null references session (id),
    public_id blob not null unique,
    epoch integer,                                  -- the run that asks; null if it was asked without one
    actor text not null,
    create_time integer not null,
    request_revision integer not null,
    timeout_ms integer,                             -- the default holds after this time; null: never
    expire_time integer,                            -- null without a time limit, and once it has ended
    salt blob not null,
    question blob not null,                         -- encoded
    end_reason integer,                             -- 1 answered, 2 expired, 3 withdrawn; null while it waits
    end_revision integer,
    end_time integer,
    end_actor text,
    answer_salt blob,
    answer blob,                                    -- encoded
    check ((end_reason is null) = (end_revision is null)),
    check ((end_reason is null) = (answer is null))
) strict;

create unique index approval_revision on approval (session_id, request_revision);
create index approval_waiting on approval (session_id, id) where end_reason is null;
create index approval_expiry on approval (expire_time) where expire_time is not null;

create trigger run_is_final before update on run
when old.end_reason is not null or new.session_id is not old.session_id or new.epoch is not old.epoch
    or new.public_id is not old.public_id or new.actor is not old.actor
    or new.start_revision is not old.start_revision or new.start_time is not old.start_time
begin select raise(abort, 'a run that ended never changes'); end;
create trigger run_stays before delete on run
begin select raise(abort, 'a run is never deleted'); end;
create trigger prompt_is_final before update on prompt
when old.end_revision is not null or new.id is not old.id or new.session_id is not old.session_id
    or new.public_id is not old.public_id or new.delivery is not old.delivery or new.actor is not old.actor
    or new.metadata_json is not old.metadata_json or new.parts is not old.parts
    or new.create_time is not old.create_time or new.submit_revision is not old.submit_revision
begin select raise(abort, 'the content of a prompt never changes'); end;
create trigger prompt_stays before delete on prompt
begin select raise(abort, 'a prompt is never deleted'); end;
create trigger approval_is_final before update on approval
when old.end_reason is not null or new.id is not old.id or new.session_id is not old.session_id
    or new.public_id is not old.public_id or new.epoch is not old.epoch or new.actor is not old.actor
    or new.create_time is not old.create_time or new.request_revision is not old.request_revision
    or new.timeout_ms is not old.timeout_ms or new.salt is not old.salt or new.question is not old.question
begin select raise(abort, 'a question never changes, and is answered once'); end;
create trigger approval_stays before delete on approval
begin select raise(abort, 'an approval is never deleted'); end;
