-- An append updates the session's row, and nothing of its identity: the trigger is asked only where that is set.

drop trigger session_is_itself;
create trigger session_is_itself before update of id, public_id, tenant, actor, parent_id, fork_id, fork_revision,
    create_time, client_id, create_hash on session
when new.id is not old.id or new.public_id is not old.public_id
    or new.tenant is not old.tenant or new.actor is not old.actor
    or new.parent_id is not old.parent_id or new.fork_id is not old.fork_id
    or new.fork_revision is not old.fork_revision or new.create_time is not old.create_time
    or ((new.client_id is not old.client_id or new.create_hash is not old.create_hash)
        and (new.client_id is not null or new.create_hash is not null or not exists (select 1 from tombstone t
            where t.session_id = old.id and t.digest is null)))
begin select raise(abort, 'the identity of a session never changes'); end;
