-- What tenants do not share: large bodies and media, and the room for access tokens.

-- A blob is of one tenant: equal bytes of two tenants are two rows, so that nothing tells one of them what the other has.
-- Within a tenant they are one, however many sessions have it. The key of `part` to `blob` goes, for it would name no
-- tenant; `blob_use` keeps a blob from being deleted.
drop trigger part_is_closed;
drop trigger part_stays;
drop trigger blob_is_final;
drop trigger blob_stays;

alter table part rename to part_before;
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
    blob_hash blob,                                 -- of a blob of the session's tenant
    call_message blob                               -- of a result: `public_id` of the message with the call it answers
) strict;
insert into part (message_id, position, number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message)
    select message_id, position, number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message
    from part_before order by message_id, position;
drop table part_before;
create unique index part_position on part (message_id, position);
create unique index part_client on part (message_id, client_id) where client_id is not null;

alter table blob_use rename to blob_use_before;
create table blob_use (
    tenant text not null,
    hash blob not null,
    kind integer not null,                          -- 1 a message, 2 a prompt
    row_id integer not null,                        -- its row
    primary key (tenant, hash, kind, row_id)
) strict, without rowid;
insert into blob_use (tenant, hash, kind, row_id)
    select s.tenant, u.hash, u.kind, u.row_id from blob_use_before u
    join message m on m.id = u.row_id join session s on s.id = m.session_id where u.kind = 1;
insert into blob_use (tenant, hash, kind, row_id)
    select s.tenant, u.hash, u.kind, u.row_id from blob_use_before u
    join prompt p on p.id = u.row_id join session s on s.id = p.session_id where u.kind = 2;
drop table blob_use_before;
create index blob_use_row on blob_use (kind, row_id);

alter table blob rename to blob_before;
create table blob (
    tenant text not null,
    hash blob not null,                             -- blake3 of the bytes before compression
    codec integer not null,
    length integer not null,
    data blob not null,
    primary key (tenant, hash)
) strict;
-- As long as uses are missing, every tenant may be the one that has a blob; the start that adds the uses deletes the others.
insert into blob (tenant, hash, codec, length, data)
    select t.tenant, b.hash, b.codec, b.length, b.data from blob_before b
    join (select distinct tenant from session) t
    on exists (select 1 from blob_use u where u.tenant = t.tenant and u.hash = b.hash)
    or exists (select 1 from blob_use_missing where id = 1);
drop table blob_before;

create trigger part_is_closed before update on part
when new.message_id is not old.message_id or new.position is not old.position or new.number is not old.number
    or new.revision is not old.revision
    or not exists (select 1 from message m join tombstone t on t.session_id = m.session_id
        where m.id = old.message_id and t.revision = old.revision and t.digest is null)
begin select raise(abort, 'a closed part never changes'); end;
create trigger part_stays before delete on part
begin select raise(abort, 'a closed part is never deleted'); end;
create trigger blob_is_final before update on blob
begin select raise(abort, 'a blob never changes'); end;
create trigger blob_stays before delete on blob
when exists (select 1 from blob_use u where u.tenant = old.tenant and u.hash = old.hash)
    or exists (select 1 from blob_use_missing where id = 1)
begin select raise(abort, 'a blob is never deleted before its last use'); end;

-- Access tokens have a bound in each tenant, and those that ended do not stay for ever.
alter table access_token add column is_console integer not null default 0;  -- 1 for a session of the console
create index access_token_tenant on access_token (tenant, id);
drop trigger access_token_is_final;
create trigger access_token_is_final before update on access_token
when not (new.id = old.id and new.public_id = old.public_id and new.secret_hash = old.secret_hash
    and new.principal = old.principal and new.tenant = old.tenant and new.scopes = old.scopes
    and new.project is old.project and new.root is old.root and new.create_time = old.create_time
    and new.expire_time is old.expire_time and new.is_console = old.is_console and old.revoke_time is null)
begin select raise(abort, 'an access token never changes; it is revoked once'); end;
drop trigger access_token_stays;
create trigger access_token_stays before delete on access_token
when old.revoke_time is null and old.expire_time is null
begin select raise(abort, 'an access token is not deleted before its end'); end;
