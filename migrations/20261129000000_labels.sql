-- Labels of sessions, and what lists of sessions are filtered and ordered by.

-- The labels that a session has now. They follow from its events, which are under its chain.
create table session_label (
    session_id integer not null references session (id),
    label text not null,
    tenant text not null,                           -- the session's, for the index
    primary key (session_id, label)
) strict, without rowid;

create index session_label_sessions on session_label (tenant, label, session_id);

-- The actor of its first event, under that event's hash.
alter table session add column actor text not null default '';

update session set actor = coalesce(
    (select e.actor from event e where e.session_id = session.id and e.revision = coalesce(session.fork_revision, 0) + 1),
    '');

-- Encoded: the sum of the usage that its replies reported, without inherited ones. Null until the first start of a daemon
-- that knows it, which sums up the events.
alter table session add column usage blob;

-- `project` and `cwd` of its own metadata, where these are texts, for the indexes. Forks without metadata of their own have
-- none here. Set together with `usage` by the first start of such a daemon.
alter table session add column project text;
alter table session add column directory text;

create index session_project on session (tenant, project, id) where project is not null;
create index session_directory on session (tenant, directory) where directory is not null;
create index session_uncounted on session (id) where usage is null;

-- Lists by last change.
create index session_updated on session (tenant, update_time, id);
create index session_actor on session (tenant, actor, id);
create index session_title on session (tenant, title);
create index session_archived on session (tenant, id) where state = 2;
-- Forks without metadata of their own have those of the session that they were forked from.
create index session_fork on session (fork_id, id) where fork_id is not null;

drop trigger session_is_itself;
create trigger session_is_itself before update on session
when new.id is not old.id or new.public_id is not old.public_id or new.client_id is not old.client_id
    or new.tenant is not old.tenant or new.actor is not old.actor
    or new.create_hash is not old.create_hash
    or new.parent_id is not old.parent_id or new.fork_id is not old.fork_id
    or new.fork_revision is not old.fork_revision or new.create_time is not old.create_time
begin select raise(abort, 'the identity of a session never changes'); end;
