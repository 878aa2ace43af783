-- Erasures: content that is gone, and what stays in its place.
--
-- An erased row stays, with something that stands for its content and a new salt. Its event still commits to what was
-- there, by a hash over a salt that is gone too; its tombstone commits to what is there now, and the event of the
-- erasure to the tombstone. So the chain has no gap, and nobody can learn from it what was erased.

-- A revision that lost content. `digest` is null until the erasure that made it is written: only as long as that is so
-- can the rows of the revision be changed, within the same transaction.
create table tombstone (
    session_id integer not null references session (id),
    revision integer not null,
    erase_revision integer not null,                -- the revision of the erasure in the same session
    digest blob,                                    -- of the rows of the revision as they are now
    hash blob,                                      -- of its event as it is now, as a link of the chain
    primary key (session_id, revision, erase_revision),
    check ((digest is null) = (hash is null))
) strict, without rowid;

create index tombstone_erasure on tombstone (session_id, erase_revision, revision);
create index tombstone_open on tombstone (session_id, revision) where digest is null;

-- What was erased by request, so that the same request gets the same answer.
create table erasure (
    id integer primary key,
    public_id blob not null unique,
    session_id integer not null references session (id),
    revision integer not null,                      -- of its event in that session
    target integer not null,                        -- 1 a part, 2 a message, 3 a session
    message_id blob,                                -- public id; null for a session
    part_number integer,                            -- null unless the target is a part
    time integer not null,
    messages integer not null,                      -- those that lost content, derived ones not among them
    parts integer not null,                         -- of these messages
    bytes integer not null,                         -- of parts and attachments that are gone, before compression
    summaries integer not null,                     -- derived messages that lost their texts
    forks integer not null,                         -- other sessions that lost content
    blobs integer not null,                         -- large bodies and media that are gone
    is_clean integer not null                       -- 0 while files may still have bytes of it
        check (is_clean in (0, 1))
) strict;

create index erasure_of on erasure (session_id, revision);
create index erasure_unclean on erasure (id) where is_clean = 0;

-- Sessions whose client id is free again: what their own request was, so that it is refused and never makes another.
create table erased_session (
    request_hash blob not null,                     -- keyed with the store's secret: tenant, client id and request
    session_id integer not null references session (id),
    primary key (request_hash, session_id)
) strict, without rowid;

-- Where blobs are used, so that one is deleted only after its last use.
create table blob_use (
    hash blob not null,
    kind integer not null,                          -- 1 a message, 2 a prompt
    row_id integer not null,                        -- its row
    primary key (hash, kind, row_id)
) strict, without rowid;

create index blob_use_row on blob_use (kind, row_id);

-- One row as long as uses of earlier blobs are missing: the next start of the daemon adds them.
create table blob_use_missing (
    id integer primary key check (id = 1)
) strict;

insert into blob_use_missing (id) select 1 where exists (select 1 from blob);

-- Lists of the sessions that take no writes.
drop index session_archived;
create index session_inactive on session (tenant, state, id) where state > 1;

-- Forks are found by the session whose rows they share.
create index segment_owner on segment (owner_id, last_revision);

-- The same protection as before, which an erasure passes with its tombstone alone.
drop trigger part_is_closed;
create trigger part_is_closed before update on part
when new.message_id is not old.message_id or new.position is not old.position or new.number is not old.number
    or new.revision is not old.revision
    or not exists (select 1 from message m join tombstone t on t.session_id = m.session_id
        where m.id = old.message_id and t.revision = old.revision and t.digest is null)
begin select raise(abort, 'a closed part never changes'); end;

drop trigger message_is_sealed;
create trigger message_is_sealed before update on message
when (old.sealed_revision is not null and not exists (select 1 from tombstone t
        where t.session_id = old.session_id and t.revision = old.revision and t.digest is null))
    or new.id is not old.id or new.session_id is not old.session_id or new.revision is not old.revision
    or new.public_id is not old.public_id or new.role is not old.role
    or new.kind is not old.kind or new.class is not old.class or new.create_time is not old.create_time
    or (old.sealed_revision is not null and new.sealed_revision is not old.sealed_revision)
    or ((new.client_id is not old.client_id or new.head is not old.head or new.parts is not old.parts
        or new.parts_length is not old.parts_length) and not exists (select 1 from tombstone t
        where t.session_id = old.session_id and t.revision = old.revision and t.digest is null))
begin select raise(abort, 'a sealed message never changes'); end;

drop trigger event_is_final;
create trigger event_is_final before update on event
when new.seq is not old.seq or new.session_id is not old.session_id or new.revision is not old.revision
    or new.kind is not old.kind or new.ends_mutation is not old.ends_mutation or new.time is not old.time
    or new.digest is not old.digest or new.hash is not old.hash
    or not exists (select 1 from tombstone t
        where t.session_id = old.session_id and t.revision = old.revision and t.digest is null)
begin select raise(abort, 'an event never changes'); end;

drop trigger pruned_is_final;
create trigger pruned_is_final before update on pruned
when new.message_id is not old.message_id or new.number is not old.number or new.session_id is not old.session_id
    or new.revision is not old.revision or new.compaction_id is not old.compaction_id
    or not exists (select 1 from tombstone t
        where t.session_id = old.session_id and t.revision = old.revision and t.digest is null)
begin select raise(abort, 'a prune mark never changes'); end;

drop trigger blob_stays;
create trigger blob_stays before delete on blob
when exists (select 1 from blob_use u where u.hash = old.hash)
    or exists (select 1 from blob_use_missing where id = 1)
begin select raise(abort, 'a blob is never deleted before its last use'); end;

drop trigger session_is_itself;
create trigger session_is_itself before update on session
when new.id is not old.id or new.public_id is not old.public_id
    or new.tenant is not old.tenant or new.actor is not old.actor
    or new.parent_id is not old.parent_id or new.fork_id is not old.fork_id
    or new.fork_revision is not old.fork_revision or new.create_time is not old.create_time
    or ((new.client_id is not old.client_id or new.create_hash is not old.create_hash)
        and (new.client_id is not null or new.create_hash is not null or not exists (select 1 from tombstone t
            where t.session_id = old.id and t.digest is null)))
begin select raise(abort, 'the identity of a session never changes'); end;

drop trigger summary_request_is_final;
create trigger summary_request_is_final before update on summary_request
when new.id is not old.id or new.session_id is not old.session_id or new.job_id is not old.job_id
    or new.message_id is not old.message_id or new.request_text is not null or new.reply_text is not null
    or not exists (select 1 from tombstone t where t.digest is null)
begin select raise(abort, 'the record of a request never changes'); end;

drop trigger run_is_final;
create trigger run_is_final before update on run
when new.session_id is not old.session_id or new.epoch is not old.epoch
    or new.public_id is not old.public_id or new.actor is not old.actor
    or new.start_revision is not old.start_revision or new.start_time is not old.start_time
    or (old.end_reason is not null and (new.end_reason is not old.end_reason
        or new.end_revision is not old.end_revision or new.end_time is not old.end_time
        or not exists (select 1 from tombstone t
            where t.session_id = old.session_id and t.revision = old.end_revision and t.digest is null)))
begin select raise(abort, 'a run that ended never changes'); end;

drop trigger prompt_is_final;
create trigger prompt_is_final before update on prompt
when new.id is not old.id or new.session_id is not old.session_id
    or new.public_id is not old.public_id or new.delivery is not old.delivery or new.actor is not old.actor
    or new.create_time is not old.create_time or new.submit_revision is not old.submit_revision
    or ((old.end_revision is not null or new.metadata_json is not old.metadata_json or new.parts is not old.parts)
        and not exists (select 1 from tombstone t
            where t.session_id = old.session_id and t.revision = old.submit_revision and t.digest is null))
begin select raise(abort, 'the content of a prompt never changes'); end;

drop trigger approval_is_final;
create trigger approval_is_final before update on approval
when new.id is not old.id or new.session_id is not old.session_id
    or new.public_id is not old.public_id or new.epoch is not old.epoch or new.actor is not old.actor
    or new.create_time is not old.create_time or new.request_revision is not old.request_revision
    or new.timeout_ms is not old.timeout_ms
    or ((old.end_reason is not null or new.salt is not old.salt or new.question is not old.question)
        and not exists (select 1 from tombstone t
            where t.session_id = old.session_id and t.revision = old.request_revision and t.digest is null))
begin select raise(abort, 'a question never changes, and is answered once'); end;

create trigger tombstone_is_final before update on tombstone
when old.digest is not null or new.session_id is not old.session_id or new.revision is not old.revision
    or new.erase_revision is not old.erase_revision
begin select raise(abort, 'a tombstone never changes'); end;
create trigger tombstone_stays before delete on tombstone
begin select raise(abort, 'a tombstone is never deleted'); end;

-- The deletion of a blob looks for parts that still have it.
create index part_blob on part (blob_hash) where blob_hash is not null;

-- Counts of a message are deleted with it.
create index message_token_count_message on message_token_count (message_id);
