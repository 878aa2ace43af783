-- Requests to models that were to write a summary: what an audit asks for, and what a summary cost.

-- One row: one request that was sent, whatever became of it. No view and no replay reads it, so nothing of it is under
-- the hash of an event. No key is ever in it.
create table summary_request (
    id integer primary key,
    session_id integer not null references session (id),
    job_id integer not null references job (id),
    attempt integer not null,                       -- of the job
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
    reply_text text
) strict;

create index summary_request_job on summary_request (session_id, job_id);

create trigger summary_request_is_final before update on summary_request
begin select raise(abort, 'the record of a request never changes'); end;
create trigger summary_request_stays before delete on summary_request
begin select raise(abort, 'the record of a request is never deleted'); end;
