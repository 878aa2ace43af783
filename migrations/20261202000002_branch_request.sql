-- Requests to models for the summary of a branch are on the books too. They belong to no job, so that the table is made
-- anew: `job_id` may be null, and everything else is as it was.

create table summary_request_of_all (
    id integer primary key,
    session_id integer not null references session (id),
    job_id integer references job (id),             -- null: for the summary of a branch
    message_id blob,                                -- public id of that summary, which is there only if the rewind was made
    attempt integer not null,                       -- of the job; 1 for the summary of a branch
    summarizer text not null,                       -- its name in the configuration
    model text not null,                            -- as the provider named it, or else as it was asked for
    request_hash blob not null,                     -- BLAKE3 of the request's body
    reply_hash blob not null,                       -- BLAKE3 of the reply's words as far as they came
    usage blob,                                     -- encoded; null: the provider said nothing
    cost_micros integer,                            -- millionths of a US dollar; null: unknown
    duration_ms integer not null,
    failure text,                                   -- why there is no summary in it; null when there is one
    end_time integer not null,                      -- microseconds since 1970
    request_text text,                              -- where the configuration asks for it, up to a limit
    reply_text text,
    check ((job_id is null) <> (message_id is null))
) strict;

insert into summary_request_of_all (id, session_id, job_id, attempt, summarizer, model, request_hash, reply_hash, usage,
    cost_micros, duration_ms, failure, end_time, request_text, reply_text)
select id, session_id, job_id, attempt, summarizer, model, request_hash, reply_hash, usage, cost_micros, duration_ms,
    failure, end_time, request_text, reply_text
from summary_request;
-- The triggers, which would refuse it row by row, go with it.
drop table summary_request;
alter table summary_request_of_all rename to summary_request;

create index summary_request_job on summary_request (session_id, job_id);
-- For the list of a session's requests, newest first.
create index summary_request_session on summary_request (session_id);

create trigger summary_request_is_final before update on summary_request
begin select raise(abort, 'the record of a request never changes'); end;
create trigger summary_request_stays before delete on summary_request
begin select raise(abort, 'the record of a request is never deleted'); end;
