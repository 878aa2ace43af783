-- Access tokens: who may do what with the store over the network.

-- A token that is revoked or over stays, so that what names it can be read.
create table access_token (
    id integer primary key,
    public_id blob not null unique,
    secret_hash blob not null,                      -- of the secret, which is kept nowhere: 256 random bits need no salt
    principal text not null,
    tenant text not null,                           -- empty: the default tenant
    scopes integer not null,                        -- a bit for each
    project text,                                   -- bound to the sessions of this project
    root blob,                                      -- bound to this session and those below it, by its public id
    create_time integer not null,
    expire_time integer,
    revoke_time integer
) strict;

create trigger access_token_is_final before update on access_token
when not (new.id = old.id and new.public_id = old.public_id and new.secret_hash = old.secret_hash
    and new.principal = old.principal and new.tenant = old.tenant and new.scopes = old.scopes
    and new.project is old.project and new.root is old.root and new.create_time = old.create_time
    and new.expire_time is old.expire_time and old.revoke_time is null)
begin select raise(abort, 'an access token never changes; it is revoked once'); end;
create trigger access_token_stays before delete on access_token
begin select raise(abort, 'an access token is never deleted'); end;
