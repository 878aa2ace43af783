//! Every bound in one place. Sizes are bytes, times are milliseconds, unless the name says otherwise.

/// A client id, a request id, an actor.
pub const NAME_BYTES_MAX: usize = 128;
/// A call id.
pub const CALL_ID_BYTES_MAX: usize = 256;
/// A session title.
pub const TITLE_BYTES_MAX: usize = 512;
/// Free JSON of a session.
pub const SESSION_METADATA_BYTES_MAX: usize = 64 * 1024;
/// Free JSON of a message or a part.
pub const METADATA_BYTES_MAX: usize = 256 * 1024;
/// A policy override.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;
/// Instructions for one summary.
pub const INSTRUCTIONS_BYTES_MAX: usize = 16 * 1024;
/// The provider's words for a finish reason or an error.
pub const FINISH_DETAIL_BYTES_MAX: usize = 64 * 1024;
/// Sessions of one kind that the status page names …
pub const STATUS_SESSIONS_MAX: i64 = 100;
/// … and counts.
pub const STATUS_COUNT_MAX: i64 = 10_000;
/// Models, by summarizer, whose spending is counted apart; what others cost is counted together.
pub const SPENDING_MODELS_MAX: i64 = 200;
/// Bytes of a model's name that tell it from others where spending is counted.
pub const SPENDING_MODEL_BYTES_MAX: usize = 100;
/// The most of anything that one request can have cost: more is taken for a provider's mistake.
pub const SPENDING_FIGURE_MAX: i64 = 1_000_000_000_000;
/// A supplied summary.
pub const SUMMARY_BYTES_MAX: usize = 1024 * 1024;
/// One message with all its parts.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// All messages of one append.
pub const BATCH_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Messages of one append.
pub const BATCH_MESSAGES_MAX: usize = 512;
/// Parts of one message, or of one AppendParts.
pub const MESSAGE_PARTS_MAX: usize = 256;
/// A draft's words.
pub const DRAFT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Drafts of one open message.
pub const MESSAGE_DRAFTS_MAX: usize = 64;
/// What one gRPC request may hold; above the batch limit, so that the batch limit is the one that speaks.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What one gRPC response may hold. A single message can be longer than a page's or a frame's bytes, never this long.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A page when the caller names no size.
pub const PAGE_SIZE_DEFAULT: i64 = 50;
/// The longest page.
pub const PAGE_SIZE_MAX: i64 = 1_000;
/// Messages that a page of history reads at a time.
pub const PAGE_READ_MESSAGES: i64 = 64;
/// Content of one page of messages or events; the page ends early rather than grow past it.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Content of one frame of a view.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Messages that one read of a view takes at a time.
pub const VIEW_READ_MESSAGES: i64 = 512;
/// A view, before rendering.
pub const VIEW_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Messages that are put into the index of words together, roughly: appends wait for no more than these.
pub const INDEX_BATCH_BYTES: usize = 64 * 1024;
/// Events that one look for such messages reads.
pub const INDEX_BATCH_EVENTS: i64 = 256;
/// Counts that are kept together: appends wait for no more than these.
pub const COUNTS_BATCH: usize = 256;
/// Sessions that wait for the index; one that finds no place is filled in when it is next written to, or searched.
pub const INDEX_QUEUE_MAX: usize = 10_000;
/// Stretches of a fork's history that are searched, the newest. It decides what is found, so it stays.
pub const SEARCH_STRETCHES_MAX: usize = 64;
/// Commands that wait for the writer.
pub const WRITER_QUEUE_MAX: usize = 1_024;
/// Content of the appends that wait for the writer.
pub const WRITER_QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Commands that the writer commits together.
pub const WRITER_BATCH_MAX: usize = 256;
/// Batches after which the writer looks how long the log is …
pub const CHECKPOINT_LOOK_BATCHES: usize = 16;
/// … and content after which it does.
pub const CHECKPOINT_LOOK_BYTES: usize = 4 * 1024 * 1024;
/// The log is folded into the database from this length on: fewer checkpoints halve the longest commits.
pub const CHECKPOINT_BYTES_MIN: i64 = 16 * 1024 * 1024;
/// A log of this length is told of: something keeps it from being folded.
pub const CHECKPOINT_BEHIND_BYTES: i64 = 128 * 1024 * 1024;
/// The length that the log's file is cut to when it begins anew; a file that need not grow is written faster.
pub const LOG_BYTES_KEPT: u64 = 64 * 1024 * 1024;
/// How often an idle writer looks whether its files are still there.
pub const FILES_CHECK_MS: u64 = 1_000;
/// Session heads that the writer keeps in memory.
pub const HEADS_MAX: usize = 10_000;
/// Bytes of the newest messages that stay in memory behind their commit, for readers that hold what came before.
pub const RECENT_BYTES: usize = 8 * 1_024 * 1_024;
/// Commits of which messages stay in memory.
pub const RECENT_COMMITS: usize = 16_384;
/// Bytes of a view token.
pub const VIEW_TOKEN_BYTES_MAX: usize = 512;
/// Statements and scripts that the writer keeps prepared.
pub const WRITER_STATEMENTS_KEPT: usize = 128;
/// Rows that reading a layout takes: a whole one and the differences to it.
pub const LAYOUT_ROWS_MAX: i64 = 256;
/// Connections of the reader pool.
pub const READERS: u32 = 4;
/// Bodies from this size on are compressed when that pays.
pub const COMPRESS_BYTES_MIN: usize = 1_024;
/// Metadata of messages from this size on is compressed when that pays.
pub const COMPRESS_METADATA_BYTES_MIN: usize = 192;
/// Bodies and media above this size are blobs.
pub const BLOB_BYTES_MIN: usize = 64 * 1024;
/// What a stored body may grow to when it is decompressed.
pub const DECOMPRESS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Events that a subscription reads at a time.
pub const SUBSCRIPTION_PAGE_EVENTS: i64 = 256;
/// Events that one page of past events looks at; a filter that few match gets a short page, or an empty one.
pub const EVENTS_SCAN_MAX: i64 = 4_096;
/// Sessions that one subscription names.
pub const SUBSCRIPTION_SESSIONS_MAX: usize = 100;
/// Findings of a check that wait for their reader.
pub const CHECK_QUEUE_MAX: usize = 64;
/// Open event streams.
pub const STREAMS_MAX: usize = 4_096;
/// Content of one frame of an event stream; a single longer event has a frame for itself. Each stream holds one frame that
/// its client has not taken, and one that was read ahead.
pub const EVENT_FRAME_BYTES: usize = 64 * 1024;
/// How long a client may take nothing of an answer that waits for it, when the configuration says nothing, in seconds.
pub const STALL_SECONDS_DEFAULT: u64 = 30;
/// The longest that the configuration may say, in seconds.
pub const STALL_SECONDS_MAX: u64 = 3_600;
/// Bytes of all answers that are not written. Where they are more, those that have something unwritten wait with their
/// next frame, and the answer is cut off whose client took something longest ago, if that was `IDLE_HOLDER_MS` ago; where
/// they are twice as many, in any case.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// A request up to this size is small: it waits for no room.
pub const SMALL_REQUEST_BYTES: usize = 64 * 1024;
/// Bytes of all small requests that are not answered. Where they are more, the one is refused that is not complete and
/// moved longest ago, if that was `IDLE_HOLDER_MS` ago; where they are twice as many, in any case.
pub const SMALL_REQUESTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of all larger requests: of those that append, edit or bring a summary until they are answered, of others until
/// they are read. More wait for room among them.
pub const REQUESTS_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes that a request holds until its length is known, and those that are left of one once it was read.
pub const REQUEST_BYTES_MIN: usize = 4 * 1024;
/// One message of a client of health or reflection: a name.
pub const SIDE_REQUEST_BYTES_MAX: usize = 64 * 1024;
/// How long a request waits for that room.
pub const REQUEST_WAIT_MS_MAX: u64 = 10_000;
/// How long a client may take to send a request, from its headers to its end.
pub const REQUEST_MS_MAX: u64 = 30_000;
/// Memory for sessions whose views are read, when the configuration says nothing, in MiB.
pub const LOADED_MIB_DEFAULT: usize = 64;
/// The most that the configuration may say, in MiB.
pub const LOADED_MIB_MAX: usize = 65_536;
/// Bytes of all large views that are made, and of all views that wait for their clients. One view alone may be larger.
pub const VIEWS_BYTES_MAX: usize = 512 * 1024 * 1024;
/// An open message that nothing is written to for so long is sealed, in milliseconds, unless it came with a time of its own
/// between these bounds.
pub const OPEN_TIMEOUT_MS_DEFAULT: i64 = 10 * 60 * 1_000;
/// The shortest such time.
pub const OPEN_TIMEOUT_MS_MIN: i64 = 1_000;
/// The longest such time.
pub const OPEN_TIMEOUT_MS_MAX: i64 = 24 * 60 * 60 * 1_000;
/// A session that is not in memory is read for the answer to a write where its history has grown by no more than this, and
/// for whoever asks after the session where its view holds no more.
pub const READ_AT_ONCE_BYTES: i64 = 256 * 1024;
/// A view from this size on is large: it waits for room before it is made.
pub const LARGE_VIEW_BYTES: usize = 16 * 1024 * 1024;
/// How long a large view waits for room among the others.
pub const VIEW_WAIT_MS_MAX: u64 = 10_000;
/// Requests, or large views, that wait for room; more are refused at once.
pub const ROOM_WAITERS_MAX: usize = 256;
/// How long an answer, a request or a view may stand still while others need its room. A request that moves slower than
/// it must to be complete in `REQUEST_MS_MAX` stands still.
pub const IDLE_HOLDER_MS: u64 = 2_000;
/// How long a daemon waits for others that are about to listen on the same socket …
pub const SOCKET_LOCK_MS_MAX: u64 = 5_000;
/// … and how often it looks whether they are done.
pub const SOCKET_LOCK_RETRY_MS: u64 = 10;
/// Open connections. Where they are more, one without a call is closed.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Descriptors that connections leave to the store and the rest of the daemon.
pub const DESCRIPTORS_RESERVED: usize = 64;
/// How long the daemon waits before it accepts connections again, after the system had no descriptor for one.
pub const ACCEPT_RETRY_MS: u64 = 100;
/// Calls of one connection at a time.
pub const CONNECTION_STREAMS_MAX: u32 = 256;
/// Bytes of one request, and of all requests of a connection, that a client may send before some are taken.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same for all requests of one connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// Bytes of one answer that the transport takes at a time, within the windows that its client grants.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Headers of one request.
pub const HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// How long a new connection may take for its greeting.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// How often a connection is asked whether its client is there …
pub const KEEPALIVE_INTERVAL_MS: u64 = 20_000;
/// … and how long that may answer.
pub const KEEPALIVE_TIMEOUT_MS: u64 = 10_000;
/// How long a stopping daemon waits for its clients: to take their answers, to finish their requests.
pub const STOP_CLIENTS_MS: u64 = 1_000;
/// Live frames kept for a slow watcher; older ones are left out.
pub const LIVE_FRAMES_MAX: usize = 1_024;
/// How often an idle stream says how far it is.
pub const PROGRESS_INTERVAL_MS_DEFAULT: u64 = 10_000;
/// How long GetContext waits for a reduction when the caller names no time.
pub const WAIT_MS_DEFAULT: u64 = 30_000;
/// The longest GetContext waits.
pub const WAIT_MS_MAX: u64 = 120_000;
/// How long a claim of a job holds without a heartbeat.
pub const LEASE_MS: i64 = 30_000;
/// How often a running job says that it is alive.
pub const HEARTBEAT_MS: u64 = 10_000;
/// The first wait before a job is tried again; it doubles with each attempt …
pub const RETRY_MS_MIN: i64 = 1_000;
/// … up to this.
pub const RETRY_MS_MAX: i64 = 300_000;
/// How long a client holds a summary task when it names no time.
pub const SUMMARY_TASK_LEASE_MS_DEFAULT: u64 = 60_000;
/// The longest that a client holds one without extending.
pub const SUMMARY_TASK_LEASE_MS_MAX: u64 = 600_000;
/// How long a summary task can be held by all its clients together, from when the first wait for one would end.
pub const SUMMARY_TASK_MS_MAX: u64 = 1_800_000;
/// Clients that may have a summary task one after the other, without completing it, before others write the summary.
pub const SUMMARY_TASK_LEASES_MAX: usize = 3;
/// Callers that wait for summary tasks.
pub const SUMMARY_TASK_CALLERS_MAX: usize = 1_024;
/// What a summary task's request holds when the client does not say what its model takes, in tokens …
pub const SUMMARY_TASK_WINDOW_DEFAULT: i64 = 128_000;
/// … and at most, whatever it says.
pub const SUMMARY_TASK_WINDOW_MAX: i64 = 2_000_000;
/// What a hook may print.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Claims of one summary that are reported because the history contradicts them: an event carries them.
pub const CONTRADICTIONS_MAX: usize = 24;
/// Characters of such a claim, and of what the history says.
pub const CONTRADICTION_CHARS_MAX: usize = 200;
/// Attempts of the built-in summarizer at one summary, each with half the room of the one before, until it frees enough.
pub const SUMMARY_TRIES: usize = 3;
/// How long one summary may take with all its requests and the wait for the provider: a history of many times the
/// summarizer's window is asked about in pieces. Each request has a limit of its own, from the configuration.
pub const SUMMARIZE_MS_MAX: u64 = 3_600_000;
/// How long the summary of a branch may take, with the wait for a place: somebody waits for the rewind.
pub const BRANCH_SUMMARY_MS_MAX: u64 = 600_000;
/// Summaries of branches that are written at the same time; further calls wait.
pub const BRANCH_SUMMARIES_MAX: usize = 4;
/// The largest number of tokens that is believed of one message, reply or request: sums of larger ones could overflow.
pub const TOKENS_MAX: i64 = 1 << 50;
/// Bytes of a request to a model, and of its reply, that are kept where the configuration has them recorded.
pub const RECORDED_TEXT_BYTES_MAX: usize = 1_048_576;
/// How often a job may be lost with its daemon or its worker before it is taken for the cause and not tried again.
pub const LOST_MAX: i64 = 3;
/// How often a job is tried whose policy cannot be read.
pub const ATTEMPTS_UNKNOWN_MAX: i64 = 5;
/// The longest wait before a finished reduction that the database refused is committed again; it begins with
/// `RETRY_MS_MIN` and doubles.
pub const COMMIT_RETRY_MS_MAX: i64 = 16_000;
/// The longest wait that a provider may ask for before a job is tried again; a job stamped later than that ahead of the
/// clock was stamped by a clock that was wrong.
pub const RETRY_AFTER_MS_MAX: i64 = 24 * 60 * 60 * 1_000;
/// The longest that a policy may have anything wait for: idle time, a cooldown, an answer of somebody who is asked. What
/// is stored further ahead of the clock was stored by a clock that was wrong.
pub const POLICY_WAIT_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Compactions asked for by hand that wait in one session behind the current one. A client that asks for more than that
/// asks faster than anything can be compacted, and each request looks at those that wait.
pub const SESSION_COMPACTIONS_WAITING_MAX: usize = 16;
/// Jobs that wait between the scheduler and its workers.
pub const JOB_QUEUE_MAX: usize = 256;
/// Ended compactions that guards of a session are folded from, the newest ones: at least as many as a breaker may count
/// (`policy::validate::BREAKER_FAILURES_MAX`).
pub const GUARD_COMPACTIONS: i64 = 32;
/// How often a data directory that another process has is tried again, and after how many milliseconds each time.
pub const LOCK_ATTEMPTS: u32 = 20;
/// See `LOCK_ATTEMPTS`.
pub const LOCK_RETRY_MS: u64 = 10;
/// Sessions that are marked due together because their wake time has come, and open messages that are sealed together; the
/// others follow at once.
pub const WAKING_SESSIONS_MAX: i64 = 256;
/// The longest wait before a scheduler that cannot read the store at its start tries again; it begins with
/// `RETRY_MS_MIN` and doubles.
pub const SCHEDULER_RETRY_MS_MAX: i64 = 15_000;
/// Sessions that are put aside because work on them failed; with more, the one whose turn comes first is not put aside any
/// longer.
pub const PUT_ASIDE_MAX: usize = 1_024;
/// How often the scheduler looks for jobs whose time has come, beside being told.
pub const SCHEDULER_TICK_MS: u64 = 1_000;
/// How long a stopping daemon waits for its work to end; for its clients it waits `STOP_CLIENTS_MS`.
pub const DRAIN_MS_MAX: u64 = 10_000;

/// How many of a session's newest reductions are looked through for one that answered the same overflow.
pub const OVERFLOWS_LOOKED_AT: i64 = 50;
