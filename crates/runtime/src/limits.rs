//! Every bound in one place. Sizes are bytes and times are milliseconds unless stated otherwise.

pub use crate::model::limits::*;

/// Bytes of a text of a request that an error repeats.
pub const REPEATED_BYTES_MAX: usize = 512;
/// Bytes of a session title.
pub const TITLE_BYTES_MAX: usize = 512;
/// Bytes of a label of a session.
pub const LABEL_BYTES_MAX: usize = 64;
/// Labels of one session.
pub const SESSION_LABELS_MAX: usize = 64;
/// Bytes of a session's free JSON.
pub const SESSION_METADATA_BYTES_MAX: usize = 64 * 1024;
/// Points of chains that one ListHeads names.
pub const HEADS_NAMED_MAX: usize = 1_000;
/// Bytes of an archive that is imported, as JSON lines.
pub const ARCHIVE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of an archive, as JSON lines, to which any compressed form may grow.
pub const ARCHIVE_BYTES_FREE: usize = 16 * 1024 * 1024;
/// Beyond those, bytes of its lines for a byte of the compressed form. Every row of an event or a part has a hash or a salt,
/// which no compression makes shorter: archives that were exported are some ten times as long as their compressed form.
pub const ARCHIVE_BYTES_RATIO_MAX: usize = 64;
/// Bytes after which a page of an archive ends, and with it the read of the store.
pub const ARCHIVE_PAGE_BYTES: usize = 1024 * 1024;
/// Bytes of a piece of an archive that is exported.
pub const ARCHIVE_PIECE_BYTES: usize = 256 * 1024;
/// Sessions of one archive.
pub const ARCHIVE_SESSIONS_MAX: usize = 1_000;
/// Bytes of a policy override.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the instructions for one summary.
pub const INSTRUCTIONS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the reason for an erasure.
pub const ERASE_REASON_BYTES_MAX: usize = 1_000;
/// Seconds from the start of the daemon until retention's first pass: time to stop it, if a rule is not what was meant.
pub const RETENTION_DELAY_SECONDS: u64 = 600;
/// Seconds between the end of a pass of retention and the begin of the next one.
pub const RETENTION_INTERVAL_SECONDS: u64 = 3_600;
/// Milliseconds that the system's clock must agree with the monotonic one, after a start or a leap, before retention
/// erases by it.
pub const CLOCK_CONFIRMED_MS: i64 = 3_600 * 1_000;
/// Milliseconds after which everything but retention believes a leap of the system's clock: times of events follow it.
pub const CLOCK_BELIEVED_MS: i64 = 60 * 1_000;
/// Sessions that a pass of retention reads at once.
pub const RETENTION_PAGE_SESSIONS: usize = 200;
/// Milliseconds that a daemon leaves a shard to others after it failed to open it: the first pause, and the longest.
pub const SHARD_FAILURE_MS: (u64, u64) = (60 * 1_000, 3_600 * 1_000);
/// Bytes of a file with rules for secrets.
pub const SECRET_RULES_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the name of a rule of retention.
pub const RETENTION_NAME_BYTES_MAX: usize = 64;
/// Revisions of a session that one step of its erasure takes: other writes wait for a step at most.
/// What is left behind it goes with it if that is half as much at most.
pub const ERASE_STEP_REVISIONS: i64 = 100;
/// Bytes of content of such a step; a message counts whole.
pub const ERASE_STEP_BYTES: i64 = 1 << 20;
/// Revisions of a step on a server, where a step takes its round trips however much it takes.
pub const ERASE_STEP_REVISIONS_SERVER: i64 = 200;
/// Bytes of content of such a step.
pub const ERASE_STEP_BYTES_SERVER: i64 = 2 << 20;
/// Sessions of sub-agents that an erasure names, or takes with the session that they work for.
pub const ERASE_TREE_MAX: usize = 1_000;
/// Milliseconds between two looks for erasures of sessions that have begun and have not ended.
pub const ERASE_LOOK_MS: u64 = 60_000;
/// Messages that one erasure names. Other writes wait for them, as they do for an append.
pub const ERASE_MESSAGES_MAX: usize = BATCH_MESSAGES_MAX;
/// Bytes of content of all messages that one erasure names, if there are several.
pub const ERASE_MESSAGES_BYTES_MAX: i64 = 12 << 20;
/// Milliseconds that the answer to an erasure waits for the files of the store to be free of what was erased.
pub const ERASE_CLEAN_WAIT_MS: u64 = 3_000;
/// Milliseconds between two attempts to clean the files.
pub const ERASE_CLEAN_RETRY_MS: u64 = 100;
/// Pages that one step of the cleaning reads. Other writes wait for a step.
pub const ERASE_PAGES_READ: usize = 64;
/// Pages that one step of the cleaning writes.
pub const ERASE_PAGES_WRITTEN: usize = 32;
/// Pages that the store remembers as written since the last erasure. With more, the next erasure reads every page of the
/// file.
pub const ERASE_PAGES_NOTED_MAX: usize = 1 << 18;
/// Milliseconds that an attempt waits for readers of earlier states. Every write waits with it.
pub const ERASE_READERS_WAIT_MS: u64 = 20;
/// Bytes of the provider's text for a finish reason or an error.
pub const FINISH_DETAIL_BYTES_MAX: usize = 64 * 1024;
/// Sessions of one kind that the status page names.
pub const STATUS_SESSIONS_MAX: i64 = 100;
/// Sessions of one kind up to which the status page counts.
pub const STATUS_COUNT_MAX: i64 = 10_000;
/// Models, by summarizer, whose spending is counted separately; the rest is counted together.
pub const SPENDING_MODELS_MAX: i64 = 200;
/// Bytes of a model's name by which spending is counted.
pub const SPENDING_MODEL_BYTES_MAX: usize = 100;
/// Maximum of each figure of one request's usage: a larger value is taken for a provider's mistake.
pub const SPENDING_FIGURE_MAX: i64 = 1_000_000_000_000;
/// Bytes of a supplied summary.
pub const SUMMARY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of all messages of one append.
pub const BATCH_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Messages of one append.
pub const BATCH_MESSAGES_MAX: usize = 512;
/// Messages that one BatchGetMessages names.
pub const BATCH_GET_MESSAGES_MAX: usize = 100;
/// Parts of one message, or of one AppendParts.
pub const MESSAGE_PARTS_MAX: usize = 256;
/// Media of one result of a tool.
pub const ATTACHMENTS_MAX: usize = MESSAGE_PARTS_MAX;
/// Bytes of a draft's text.
pub const DRAFT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Secrets that rules replace in the text of a draft: what placeholders stand for is written again with each piece.
pub const DRAFT_SECRETS_MAX: usize = 1_000;
/// Drafts of one open message.
pub const MESSAGE_DRAFTS_MAX: usize = 64;
/// Bytes of one request, over gRPC or as JSON. It is above the batch limit, so that an oversized batch is refused by the batch limit.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
// The values of a request are enough for a full batch of full messages, as JSON too.
const _: () = assert!(REQUEST_VALUES_MAX == BATCH_MESSAGES_MAX * (2 * MESSAGE_PARTS_MAX + 8));
/// Time for which a long poll waits.
pub const LONG_POLL_MS_MAX: u64 = 30_000;
/// Time after which a live read of a durable stream ends, and its client comes again.
pub const DURABLE_STREAM_MS: u64 = 60_000;
/// Events of one page of a durable stream.
pub const STREAM_PAGE_EVENTS: i32 = 500;
/// Bytes of one gRPC response. A single message can be longer than a page's or a frame's bytes, but never as long as
/// this.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Entries of a page if the caller names no size.
pub const PAGE_SIZE_DEFAULT: i64 = 50;
/// Maximum number of entries of a page.
pub const PAGE_SIZE_MAX: i64 = 1_000;
/// Microseconds of a period, within which lists by last change look at all sessions that changed: as long, further changes
/// of a session leave their index as it is.
pub const UPDATE_PERIOD_MICROS: i64 = 1_000_000;
/// Keys of sessions that are read at a time for a list by last change: each time, its period is put in order.
pub const PAGE_READ_CHANGED: i64 = 1_024;
/// Keys of sessions that are read at a time for a page.
pub const PAGE_READ_SESSIONS: i64 = 64;
/// Messages that a page of those with a prefix of their client ids looks at.
pub const PREFIX_SCAN_MAX: usize = 2_000;
/// Messages that are read at a time for a page of history.
pub const PAGE_READ_MESSAGES: i64 = 64;
/// Bytes of content in one page of messages, events or sessions; a page ends early instead of exceeding it. With its
/// framing a page stays below 4 MiB, the default maximum of gRPC's clients; one message alone can be larger.
pub const PAGE_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Bytes of content in one frame of events.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of content in one frame of a view. With its framing it is handed over in one piece (`PIECE_BYTES`), and need
/// not be copied for that.
pub const VIEW_FRAME_BYTES: usize = 60 * 1024;
/// Bytes of one message of a view in a provider's format, in which neighbours are merged: with its framing it stays below
/// the 64 MiB that clients are told to accept.
pub const FORMATTED_MESSAGE_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Messages that are read at a time for a view.
pub const VIEW_READ_MESSAGES: i64 = 512;
/// Bytes of a view's messages before rendering.
pub const VIEW_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Approximate bytes of the messages that are added to the search index in one commit; appends wait for one commit at
/// most.
pub const INDEX_BATCH_BYTES: usize = 64 * 1024;
/// Events that are read at a time to find such messages.
pub const INDEX_BATCH_EVENTS: i64 = 256;
/// Bytes of a search's query.
pub const SEARCH_QUERY_BYTES_MAX: usize = 1_024;
/// Words of a search's query.
pub const SEARCH_WORDS_MAX: usize = 64;
/// Values of one filter of a search.
pub const SEARCH_FILTER_VALUES_MAX: usize = 32;
/// Hits of a page of a search if the caller names no number.
pub const SEARCH_PAGE_DEFAULT: i64 = 20;
/// Hits of a page of a search.
pub const SEARCH_PAGE_MAX: i64 = 100;
/// Hits of a search on all of its pages; the best of those that match.
pub const SEARCH_MATCHES_MAX: i64 = 20_000;
/// Hits whose order clues change that are too common to be read.
pub const SEARCH_REORDERED: i64 = 256;
/// Clues that are too common to be read and still order hits: the rarest ones.
pub const SEARCH_REORDERING: usize = 8;
/// Pages of the index's lists, of about 4 KiB, that a search reads: about a second of a processor. Clues with more are
/// looked for in what the other ones find.
pub const SEARCH_LIST_PAGES: i64 = 2_000;
/// Parts with a word whose sessions are looked at, to count those that a bound caller sees.
pub const SEARCH_COUNTED: usize = 2_048;
/// Searches of one caller that wait for its turn; further ones are refused.
pub const SEARCH_WAITING_MAX: usize = 16;
/// Ranked parts that are compared at a time with what the index does not know, such as projects.
pub const SEARCH_COMPARED: i64 = 2_048;
/// Bytes of messages that are read for a page of hits; the page ends with the message that reaches it.
pub const SEARCH_READ_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a snippet, about.
pub const SEARCH_SNIPPET_BYTES: usize = 240;
/// Bytes of a part that are indexed: words after them are not found.
pub const SEARCH_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Events that are read at a time to find parts to index.
pub const SEARCH_BATCH_EVENTS: i64 = 1_024;
/// Approximate bytes of messages that are indexed in one commit.
pub const SEARCH_BATCH_BYTES: usize = 1024 * 1024;
/// Sessions above a session by which its parts are found directly; more are compared.
pub const SEARCH_ABOVE_MAX: usize = 16;
/// Owners of a history's segments by which its parts are found directly; more are compared.
pub const SEARCH_RANGES_MAX: usize = 64;
/// Connections that search the index.
pub const SEARCH_READERS: usize = 2;
/// Maximum time that a search waits for the index.
pub const SEARCH_WAIT_MS_MAX: u64 = 30_000;
/// Delay before the index is filled again after an error.
pub const SEARCH_RETRY_MS: u64 = 1_000;
/// Maximum time that a search waits for the index without being asked to, if little is left to index.
pub const SEARCH_CATCH_UP_MS: u64 = 50;
/// Events that are so few that a search waits for them.
pub const SEARCH_CATCH_UP_EVENTS: i64 = 1_024;
/// Percent of one processor that the index takes while the log grows.
pub const SEARCH_SHARE: u32 = 5;
/// Events left to index that add the same share again.
pub const SEARCH_SHARE_EVENTS: i64 = 100_000;
/// The largest such share, in percent of one processor.
pub const SEARCH_SHARE_MAX: u32 = 50;
/// Time in which small commits gather before they are indexed. A log without an event for that long is at rest.
pub const SEARCH_GATHER_MS: u64 = 100;
/// Maximum pause of the index while the log grows.
pub const SEARCH_PAUSE_MS_MAX: u64 = 10_000;
/// Niceness of the thread that fills the index, above the daemon's: it gets about a tenth of a processor that others want.
pub const SEARCH_NICENESS: i32 = 10;
/// Bytes of a message up to which a tokenizer counts it where it is needed: about a millisecond. A larger one is counted
/// on a thread of its own.
pub const COUNTED_AT_ONCE_BYTES: i64 = 16 * 1024;
/// Large messages that are counted at a time, each for a piece of its work. The other processors serve everybody else.
pub const COUNTERS: usize = 1;
/// Large messages whose counts have begun. Each has one of the runtime's 512 threads for such work.
pub const BEGUN_COUNTS: usize = 128;
/// Those of one caller, so that others find places.
pub const BEGUN_COUNTS_OF_CALLER: usize = 4;
/// Counts that are stored in one commit; appends wait for one commit at most.
pub const COUNTS_BATCH: usize = 256;
/// Sessions that wait for the search index; one that finds the queue full is indexed at its next write or search.
pub const INDEX_QUEUE_MAX: usize = 10_000;
/// The newest segments of a fork's history that are searched. The number affects the results of searches, so it must
/// not change.
pub const SEARCH_SEGMENTS_MAX: usize = 64;
/// Calls that are in progress. A tenant has at most as many as are left to others: half of them if it is alone, and one
/// access token a third.
pub const CALLS_MAX: usize = 49_152;
/// Calls that are worked on at a time on a machine with fewer processors: some of them wait for a disk. With several
/// tenants it is half of the processors, and one call of each tenant.
pub const TURNS_MIN: usize = 4;
/// Bytes of the mutations that wait for the writer, shared in the same way.
pub const WRITER_QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes that a mutation takes beside its content, about.
pub const MUTATION_BYTES: usize = 4 * 1024;
/// Mutations that the writer commits together.
pub const WRITER_BATCH_MAX: usize = 256;
/// Time that the writer goes on with short batches after it worked for several tenants.
pub const WRITER_SHARED_MICROS: i64 = 1_000_000;
/// Time that the mutations of such a batch take, unless a commit takes longer.
pub const WRITER_SHARED_BATCH_MICROS: f64 = 300.0;
/// Batches after which the writer checks the length of the log.
pub const CHECKPOINT_INTERVAL_BATCHES: usize = 16;
/// Bytes of content after which the writer checks the length of the log.
pub const CHECKPOINT_INTERVAL_BYTES: usize = 4 * 1024 * 1024;
/// Length of the log from which it is copied into the database: fewer checkpoints halve the longest commits.
pub const CHECKPOINT_BYTES_MIN: i64 = 16 * 1024 * 1024;
/// Length of the log from which it is reported: something prevents checkpoints.
pub const CHECKPOINT_BEHIND_BYTES: i64 = 128 * 1024 * 1024;
/// Length to which the log's file is truncated when it starts again; a file that need not grow is written faster.
pub const LOG_BYTES_KEPT: u64 = 64 * 1024 * 1024;
/// A PostgreSQL database that takes longer to answer does not set a running clock.
pub const DATABASE_CLOCK_MS: u64 = 200;
/// One free page in this many stays for new content.
pub const SHRINK_KEPT_FRACTION: i64 = 16;
/// Free pages that are always kept.
pub const SHRINK_KEPT_PAGES: i64 = 1_024;
/// Free pages that are given back at once.
pub const SHRINK_STEP_PAGES: i64 = 128;
/// Steps of an idle writer, once in the interval below.
pub const SHRINK_IDLE_STEPS: u32 = 32;
/// Interval at which an idle writer checks that its files still exist.
pub const FILES_CHECK_MS: u64 = 1_000;
/// Session heads that the writer keeps in memory.
pub const HEADS_MAX: usize = 10_000;
/// Marks of rewritten sessions that the writer keeps in memory, at about 400 bytes each.
pub const MARKS_KEPT: usize = 100_000;
/// Bytes of committed messages that wait in memory until the sessions there take them up.
pub const UNFOLDED_BYTES: usize = 8 * 1_024 * 1_024;
/// Bytes of the newest events that stay in memory for event streams.
pub const RING_BYTES: usize = 4 * 1_024 * 1_024;
/// Newest events that stay in memory.
pub const RING_EVENTS: usize = 8_192;
/// Bytes of messages that event streams with content have read and that stay in memory for the next streams.
pub const READ_MESSAGES_BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes of the longest message among them.
pub const READ_MESSAGE_BYTES_MAX: usize = 128 * 1_024;
/// Bytes of a view token.
pub const VIEW_TOKEN_BYTES_MAX: usize = 512;
/// Statements that a connection keeps prepared: more than the store has.
pub const STATEMENTS_KEPT: usize = 256;
/// Rows that are read for a layout: a whole one and the differences to it.
pub const LAYOUT_ROWS_MAX: i64 = 256;
/// Connections of the reader pool.
pub const READERS: usize = 4;
/// Connections that read a shard: each read waits for the server.
pub const SHARD_READERS: usize = 8;
/// Seconds for which the lease of a shard lasts without a renewal.
pub const LEASE_SECONDS_DEFAULT: u64 = 5;
/// The shortest and the longest time that a lease may last.
pub const LEASE_SECONDS: std::ops::RangeInclusive<u64> = 2..=300;
/// Milliseconds to wait for an answer of a database while no lease is trusted.
pub const DATABASE_ANSWER_MS: u64 = 10_000;
/// The most connections that read a shard, and the fewest where a database has many shards.
pub const SHARD_READERS_RANGE: std::ops::RangeInclusive<usize> = 2..=8;
/// The largest number of shards of a database.
pub const SHARDS_MAX: u32 = 64;
/// Milliseconds for which a call waits for an owner of its shard.
pub const OWNER_WAIT_MS: u64 = 20_000;
/// Interval between pings of another daemon that owes an answer, and the time that it has for each.
pub const PEER_PING_MS: u64 = 2_000;
/// Events of a page, unless another number is asked for.
pub const EVENTS_PAGE_DEFAULT: usize = 100;
/// Interval at which all shards are asked for a summary task.
pub const SHARDS_ASK_MS: u64 = 500;
/// Connections of a daemon to the registry of a database.
pub const REGISTRY_CONNECTIONS: u32 = 2;
/// Milliseconds beside a lease that a running daemon has to take back shards that it had on another server: it may have
/// lost the database without noticing.
pub const OWNER_RETURN_MS: u64 = 2 * DATABASE_ANSWER_MS;
/// Milliseconds that a new owner of a shard waits for a transaction of the last one before it kills it.
pub const FENCE_WAIT_MS: u64 = 1_000;
/// Attempts of a new owner to write its epoch into the row of a shard.
pub const FENCE_ATTEMPTS: usize = 4;
/// Milliseconds between two attempts to take a lease.
pub const LEASE_RETRY_MS: u64 = 200;
/// Milliseconds for which a daemon that lost its connection tries to take its lease again.
pub const LEASE_RETAKE_MS: u64 = 10_000;
/// Milliseconds that a read waits for a free connection.
pub const READER_WAIT_MS: u64 = 30_000;
/// Size of half an append, as `PartBody::growth_bytes` counts it, from which another thread encodes the other half.
pub const ENCODED_ASIDE_BYTES_MIN: i64 = 32 * 1024;
/// Size from which bodies and metadata are compressed if that makes them smaller.
pub const COMPRESS_BYTES_MIN: usize = 64;
/// Size above which bodies and media are stored as blobs.
pub const BLOB_BYTES_MIN: usize = 64 * 1024;
/// Bytes of a stored body after decompression.
pub const DECOMPRESS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Events that a subscription reads at a time.
pub const SUBSCRIPTION_PAGE_EVENTS: i64 = 256;
/// Events that are read for one page of past events; with a filter that few match, the page is short or empty.
pub const EVENTS_SCAN_MAX: i64 = 4_096;
/// Sessions that one subscription names.
pub const SUBSCRIPTION_SESSIONS_MAX: usize = 100;
/// Length of the log at which a backup is given up: the log cannot be reused while the backup reads its snapshot.
pub const BACKUP_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Free space that a backup or a restored store leaves on its file system.
pub const COPY_ROOM_BYTES: i64 = 64 * 1024 * 1024;
/// Interval between reports of the progress of a copy.
pub const COPY_PROGRESS_MS: u64 = 250;
/// Content of the rows that are copied in one transaction, in bytes; one row more than that ends it.
pub const COPY_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Rows of the first transaction of a copied table.
pub const COPY_PAGE_ROWS_MIN: i64 = 16;
/// Rows that are copied in one transaction.
pub const COPY_PAGE_ROWS_MAX: i64 = 2_048;
/// Milliseconds that a migration waits for the lease of a shard. The default lease of an owner that crashed ends sooner.
pub const MIGRATION_LEASE_WAIT_MS: u64 = 8_000;
/// Findings of a check that wait for their reader.
pub const CHECK_QUEUE_MAX: usize = 64;
/// Content that a check reads at a time, in bytes; one message more than that ends the read.
pub const CHECK_PAGE_BYTES: u64 = 1024 * 1024;
/// Events whose numbers a check reads at a time.
pub const CHECK_LOG_EVENTS: i64 = 4_096;
/// Interval at which the progress of the scrub is stored.
pub const SCRUB_SAVE_MS: u64 = 60_000;
/// Interval at which a waiting scrub reads the clock.
pub const SCRUB_WAIT_MS_MAX: u64 = 3_600_000;
/// Delay before a scrub tries a read again for which no reader was free.
pub const SCRUB_RETRY_MS: u64 = 1_000;
/// Findings of a pass of the scrub that are logged and kept in memory; more are counted.
pub const SCRUB_FINDINGS_MAX: usize = 100;
/// Interval between reports of the progress of a scrub.
pub const SCRUB_PROGRESS_MS: u64 = 250;
/// Rate of the scrub, in MiB of content per second.
pub const SCRUB_MIB_PER_SECOND_DEFAULT: u64 = 4;
/// Maximum rate of the scrub, in MiB of content per second.
pub const SCRUB_MIB_PER_SECOND_MAX: u64 = 1_024;
/// Interval between scrubs, in hours.
pub const SCRUB_INTERVAL_HOURS_DEFAULT: u64 = 168;
/// Maximum interval between scrubs, in hours.
pub const SCRUB_INTERVAL_HOURS_MAX: u64 = 8_784;
/// Microseconds that an event stream pauses behind the newest event for each open stream: about the processor time that
/// a stream needs for an event.
pub const STREAM_PAUSE_MICROS: u64 = 20;
/// Open event streams.
pub const STREAMS_MAX: usize = 4_096;
/// Messages that are written as streams at the same time.
pub const WRITE_CALLS_MAX: usize = 4_096;
/// Bytes of one frame of such a stream, decompressed. One above `SMALL_REQUEST_BYTES` waits for memory as a larger
/// request does.
pub const WRITE_FRAME_BYTES: usize = 1024 * 1024;
/// Maximum time for a client to send a frame of such a stream, from its first byte to its last, and the first frame.
pub const WRITE_FRAME_MS_MAX: u64 = 30_000;
/// Bytes of content of such a stream from which no more frames are committed together.
pub const WRITE_COMMIT_BYTES: usize = 64 * 1024;
/// Frames of such a stream that are committed together.
pub const WRITE_COMMIT_FRAMES: usize = 4_096;
/// Bytes of content in one frame of an event stream; a single longer event has a frame for itself. Each stream holds
/// one frame that its client has not taken, and one that was read ahead.
pub const EVENT_FRAME_BYTES: usize = 64 * 1024;
/// The same for a stream as text: its frame passes several buffers.
pub const EVENT_TEXT_BYTES: usize = 16 * 1024;
/// Default time for which a client may take nothing of a waiting answer, in seconds.
pub const STALL_SECONDS_DEFAULT: u64 = 30;
/// Maximum of this time in the configuration, in seconds.
pub const STALL_SECONDS_MAX: u64 = 3_600;
/// Bytes of all answers that are not written. Above it, answers with unwritten bytes delay their next frame, and the
/// answer whose client has taken nothing for the longest time is cut off, if that is at least `IDLE_HOLDER_MS`; above
/// twice this size, in any case.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Size up to which a request is small: it does not wait for memory.
pub const SMALL_REQUEST_BYTES: usize = 64 * 1024;
/// Bytes of all small requests that are not answered. Above it, the incomplete request without progress for the longest
/// time is refused, if that is at least `IDLE_HOLDER_MS`; above twice this size, in any case.
pub const SMALL_REQUESTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of all larger requests: those that append, edit or bring a summary until they are answered, others until they
/// are read. Further ones wait for memory. The process grows by up to twice as much, because the allocator keeps for a
/// moment what was given up.
pub const REQUESTS_BYTES_MAX: usize = 96 * 1024 * 1024;
/// Bytes that a request holds until its length is known, and after it was read if little of it is kept.
pub const REQUEST_BYTES_MIN: usize = 4 * 1024;
/// Bytes of one message of a client of health or reflection: a name.
pub const SIDE_REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a request without authentication: to open the console, or for the health.
pub const STRANGER_REQUEST_BYTES_MAX: usize = CONSOLE_REQUEST_BYTES_MAX + 64;
/// Maximum time for such a client to send its request.
pub const STRANGER_REQUEST_MS_MAX: u64 = 5_000;
/// Bytes of all such unanswered requests. Above it, those without progress make way; above twice this size, any.
pub const STRANGERS_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Pieces of a request without authentication, beside one for each second since the last request. Each piece of a head
/// costs another read of the whole head.
pub const STRANGER_PIECES_MAX: u64 = 160;
/// One connection in this many on TCP can be a stranger's from one address, or network of IPv6: of those beyond, the
/// oldest makes way.
pub const STRANGERS_SHARE: usize = 4;
/// Maximum time that a larger request waits for memory.
pub const REQUEST_WAIT_MS_MAX: u64 = 10_000;
/// Maximum time for a client to send a request, from its headers to its end.
pub const REQUEST_MS_MAX: u64 = 30_000;
/// Default memory for loaded sessions, in MiB.
pub const LOADED_MIB_DEFAULT: usize = 64;
/// Maximum of this memory in the configuration, in MiB.
pub const LOADED_MIB_MAX: usize = 65_536;
/// Bytes of all large views in construction, and of all views that wait for their clients. A single view may be larger.
pub const VIEWS_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Default time without a write after which an open message is sealed, in milliseconds; a message may have its own.
pub const OPEN_TIMEOUT_MS_DEFAULT: i64 = 10 * 60 * 1_000;
/// Minimum of this time.
pub const OPEN_TIMEOUT_MS_MIN: i64 = 1_000;
/// Maximum of this time.
pub const OPEN_TIMEOUT_MS_MAX: i64 = 24 * 60 * 60 * 1_000;
/// Default length of a run's lease, in milliseconds.
pub const RUN_LEASE_MS_DEFAULT: i64 = 30 * 1_000;
/// Minimum length of a run's lease, in milliseconds.
pub const RUN_LEASE_MS_MIN: i64 = 1_000;
/// Maximum length of a run's lease, in milliseconds.
pub const RUN_LEASE_MS_MAX: i64 = 60 * 60 * 1_000;
/// Milliseconds that a run has to end by itself after a request to stop.
pub const RUN_CANCEL_MS: i64 = 10 * 1_000;
/// Bytes of the text about a run's failure.
pub const RUN_FAILURE_BYTES_MAX: usize = 1_024;
/// Maximum number of calls without a result that the end of a run names.
pub const RUN_INTERRUPTED_CALLS_MAX: usize = 1_000;
/// Maximum number of prompts that wait in one session.
pub const QUEUED_PROMPTS_MAX: usize = 100;
/// Maximum number of questions that wait in one session.
pub const OPEN_APPROVALS_MAX: i64 = 100;
/// Milliseconds for which a report that somebody types is valid.
pub const TYPING_MS: u64 = 10_000;
/// Maximum number of those who type in one session.
pub const TYPING_MAX: usize = 1_000;
/// Minimum time for an answer before a question's default holds, in milliseconds.
pub const APPROVAL_TIMEOUT_MS_MIN: i64 = 1_000;
/// Maximum time for an answer before a question's default holds, in milliseconds.
pub const APPROVAL_TIMEOUT_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Maximum length of a question or of the text of an answer, in bytes.
pub const APPROVAL_TEXT_BYTES_MAX: usize = 16 * 1_024;
/// Maximum length of the input that a question is about, in bytes.
pub const APPROVAL_INPUT_BYTES_MAX: usize = 256 * 1_024;
/// Maximum number of choices of a question.
pub const APPROVAL_CHOICES_MAX: usize = 32;
/// Growth of the history up to which a session that is not in memory is read for the answer to a write, and size of the
/// view up to which it is read for an answer about the session.
pub const READ_AT_ONCE_BYTES: i64 = 256 * 1024;
/// Size from which a view is large: it waits for memory before it is made.
pub const LARGE_VIEW_BYTES: usize = 16 * 1024 * 1024;
/// Maximum time that a large view waits for memory.
pub const VIEW_WAIT_MS_MAX: u64 = 10_000;
/// Requests, or large views, that wait for memory; further ones are refused at once.
pub const MEMORY_WAITERS_MAX: usize = 256;
/// Time without progress after which an answer, a request or a view gives up memory that others need. A request that is
/// too slow to be complete in `REQUEST_MS_MAX` makes no progress.
pub const IDLE_HOLDER_MS: u64 = 2_000;
/// Maximum time that a daemon waits for others that are about to listen on the same socket.
pub const SOCKET_LOCK_MS_MAX: u64 = 5_000;
/// Interval at which it checks whether they are done.
pub const SOCKET_LOCK_RETRY_MS: u64 = 10;
/// Open connections. Above it, one is closed for a new one: that of a client which has proven nothing, or an idle one.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Open connections that only the owner's on the Unix socket can be, so that others cannot keep it out; of fewer
/// connections in all, a quarter.
pub const OWNER_CONNECTIONS: usize = 64;
/// Descriptors that are reserved for the store and the rest of the daemon.
pub const DESCRIPTORS_RESERVED: usize = 64;
/// Pause before the daemon accepts connections again, after the system had no descriptor for one.
pub const ACCEPT_RETRY_MS: u64 = 100;
/// Calls that wait for their line in the access log.
pub const ACCESS_LOG_QUEUE_MAX: usize = 4_096;
/// Lines of the access log that are written together.
pub const ACCESS_LOG_BATCH_MAX: usize = 256;
/// Interval between two syncs of the access log.
pub const ACCESS_LOG_SYNC_MS: u64 = 1_000;
/// Default number of days for which the access log is kept.
pub const ACCESS_LOG_DAYS_DEFAULT: u32 = 90;
/// Maximum number of days for which the access log is kept.
pub const ACCESS_LOG_DAYS_MAX: u32 = 36_500;
/// Interval at which refusals are written to the access log.
pub const REFUSALS_LOG_MS: u64 = 5 * 60 * 1_000;
/// Lines about refusals of one interval, but for those about all others together: some megabytes a day at most.
pub const REFUSALS_KEPT: usize = 128;
/// Sessions that a line of the access log names.
pub const ACCESS_LOG_SESSIONS_MAX: usize = 64;
/// Access tokens of a tenant that are neither revoked nor expired, without sessions of the console. Operators may make as
/// many more in each tenant.
pub const ACCESS_TOKENS_MAX: i64 = 1_000;
/// Sessions of the console of a tenant that have not ended.
pub const CONSOLE_SESSIONS_MAX: i64 = 200;
/// Ended access tokens and console sessions of a tenant that stay, so that an audit can say whose an id was: the newest.
pub const ACCESS_TOKENS_ENDED_MAX: i64 = 1_000;
/// Calls of health and reflection, which may stay open for ever, of a tenant at the same time.
pub const SIDE_CALLS_MAX: usize = 100;
/// Messages of a session that is simulated under presets.
pub const SIMULATED_MESSAGES_MAX: usize = 2_000;
/// Bytes of their content.
pub const SIMULATED_BYTES_MAX: usize = 8 << 20;
/// Presets under which one request plays a session.
pub const SIMULATED_PRESETS_MAX: usize = 6;
/// Unopened links to the console of one tenant.
pub const CONSOLE_LINKS_MAX: usize = 100;
/// Those of all tenants.
pub const CONSOLE_LINKS_TOTAL_MAX: usize = 10_000;
/// Seconds for which a link to the console opens it.
pub const CONSOLE_LINK_SECONDS: i64 = 120;
/// Shortest and longest time, in seconds, after which a session of the console ends by itself.
pub const CONSOLE_SESSION_SECONDS: (i64, i64) = (60, 30 * 86_400);
/// That time if the request for a link names none.
pub const CONSOLE_SESSION_SECONDS_DEFAULT: i64 = 12 * 3_600;
/// Bytes of a request to open or to leave the console.
pub const CONSOLE_REQUEST_BYTES_MAX: usize = 4_096;
/// Failed logins of one address in a minute; further ones are refused unchecked.
pub const FAILED_ATTEMPTS_A_MINUTE: u32 = 60;
/// Addresses whose failed logins are counted one by one.
pub const FAILING_ADDRESSES_MAX: usize = 10_000;
/// Bytes of the name of a principal, a tenant or a project.
pub const ACCESS_NAME_BYTES_MAX: usize = 128;
/// Sessions whose membership stays in memory. Readers who may not see every session are checked against it.
pub const MEMBERSHIPS_MAX: usize = 100_000;
/// Sessions that a page of a list looks at, of which its filter leaves only some.
pub const SESSIONS_SCAN_MAX: i64 = 10_000;
/// Sessions up to which a condition of a filter is read whole from its index, whatever the order of the list.
pub const LIST_CANDIDATES_MAX: usize = 1_000;
/// Bytes of the directory in a filter of sessions.
pub const DIRECTORY_BYTES_MAX: usize = 4_096;
/// Bytes of a condition on metadata in a filter of sessions.
pub const METADATA_TERM_BYTES_MAX: usize = 1_024;
/// Labels, or conditions on metadata, of one filter of sessions.
pub const FILTER_TERMS_MAX: usize = 16;
/// Calls of one connection at a time.
pub const CONNECTION_STREAMS_MAX: u32 = 256;
/// Bytes of one request that a client may send before some are read.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// Bytes of all requests of one connection that a client may send before some are read.
pub const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// Bytes of one answer that are handed to the transport at a time, and that an answer holds while its client takes
/// nothing. Smaller pieces are slower: the services write about half as much at a time.
pub const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of one answer that the transport accepts, within the windows that its client grants.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of one request's headers.
pub const HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// Maximum time for the headers of a request of HTTP/1.1, and for which such a connection is open without a request.
pub const HEADERS_MS_MAX: u64 = 30_000;
/// Time that a call over HTTP/1.1 goes on after its client closed its side: the client may be gone.
pub const HALF_CLOSED_MS_MAX: u64 = 10_000;
/// Bytes of a file of TLS.
pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Interval at which the files of TLS are compared with those in use.
pub const CERTIFICATE_CHECK_MS: u64 = 2_000;
/// Maximum time for the first bytes of a new connection, and for its handshake of TLS.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// Interval between pings of a client over HTTP/2. A lost client leaves its sessions within 10 seconds.
pub const KEEPALIVE_INTERVAL_MS: u64 = 5_000;
/// Maximum time for the answer to a ping.
pub const KEEPALIVE_TIMEOUT_MS: u64 = 4_000;
/// Seconds of silence after which a client over TCP is probed: HTTP/1.1 has no pings.
pub const PROBE_AFTER_SECONDS: u64 = 3;
/// Interval between such probes, in seconds.
pub const PROBE_INTERVAL_SECONDS: u64 = 1;
/// Time that a client's TCP may leave bytes or probes unacknowledged, or take no bytes.
pub const UNACKNOWLEDGED_MS_MAX: u32 = 6_000;
/// Time that a stopping daemon gives its clients to take their answers and finish their requests.
pub const STOP_CLIENTS_MS: u64 = 1_000;
/// Time that a stopping daemon gives other daemons to answer calls that it passed on. Its clients wait longer, so that
/// they learn what became of a call.
pub const STOP_OTHERS_MS: u64 = STOP_CLIENTS_MS / 2;
/// Delta frames kept for a slow subscriber; older ones are dropped.
pub const DELTA_FRAMES_MAX: usize = 1_024;
/// Default interval of progress frames on an idle stream.
pub const PROGRESS_INTERVAL_MS_DEFAULT: u64 = 10_000;
/// Default time that GetView waits for a compaction.
pub const WAIT_MS_DEFAULT: u64 = 30_000;
/// Maximum time that GetView waits.
pub const WAIT_MS_MAX: u64 = 120_000;
/// Niceness of the threads that write summaries, above the daemon's: each gets about a tenth of a processor that others want.
pub const BACKGROUND_NICENESS: i32 = 10;
/// Niceness of the thread that decides whether there is work: it gets about a quarter of a processor that others want.
pub const DECIDER_NICENESS: i32 = 5;
/// Time for which a claim of a job holds without a heartbeat.
pub const LEASE_MS: i64 = 30_000;
/// Interval between a running job's heartbeats.
pub const HEARTBEAT_MS: u64 = 10_000;
/// Delay before the first retry of a job; it doubles with each attempt.
pub const RETRY_MS_MIN: i64 = 1_000;
/// Maximum delay before a retry.
pub const RETRY_MS_MAX: i64 = 300_000;
/// Default duration of a client's lease of a summary task.
pub const SUMMARY_TASK_LEASE_MS_DEFAULT: u64 = 60_000;
/// Maximum duration of such a lease without an extension.
pub const SUMMARY_TASK_LEASE_MS_MAX: u64 = 600_000;
/// Maximum time for which all clients together can hold a summary task, after the end of its first wait for a client.
pub const SUMMARY_TASK_MS_MAX: u64 = 1_800_000;
/// Leases of a summary task that end without a summary before the configured summarizers write it.
pub const SUMMARY_TASK_LEASES_MAX: usize = 3;
/// Callers that wait for summary tasks.
pub const SUMMARY_TASK_CALLERS_MAX: usize = 1_024;
/// Default window of a client's model for a summary task, in tokens.
pub const SUMMARY_TASK_WINDOW_DEFAULT: i64 = 128_000;
/// Maximum window of a client's model, in tokens; larger values are reduced to it.
pub const SUMMARY_TASK_WINDOW_MAX: i64 = 2_000_000;
/// Bytes of a hook's output. It is above the batch limit, which messages in it are held to.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a hook's input with the messages of a summary.
pub const HOOK_INPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum time for one summary with all its requests and the wait for the provider: a history of many times the
/// summarizer's window is summarized in pieces. Each request has a timeout of its own in the configuration.
pub const SUMMARIZE_MS_MAX: u64 = 3_600_000;
/// Maximum time for the summary of a branch, including the wait for its turn: the caller waits for the rewind.
pub const BRANCH_SUMMARY_MS_MAX: u64 = 600_000;
/// Summaries of branches that are written at the same time; further calls wait.
pub const BRANCH_SUMMARIES_MAX: usize = 4;
/// Bytes of the stored text of a request to a model, and of its reply, if the configuration has them recorded.
pub const RECORDED_TEXT_BYTES_MAX: usize = 1_048_576;
/// Crashes of a daemon or a worker that one job may be part of. After that the job is taken for the cause and ends.
pub const LOST_MAX: i64 = 3;
/// Attempts of a job whose policy cannot be read.
pub const ATTEMPTS_UNKNOWN_MAX: i64 = 5;
/// Maximum delay before a finished compaction is committed again after an error of the database; delays begin with
/// `RETRY_MS_MIN` and double.
pub const COMMIT_RETRY_MS_MAX: i64 = 16_000;
/// Maximum delay that a provider may ask for before a job's retry; a job whose time is further ahead of the clock was
/// written with a wrong clock.
pub const RETRY_AFTER_MS_MAX: i64 = 24 * 60 * 60 * 1_000;
/// Maximum of the waits in a policy: idle time, a cooldown, a confirmation. A stored time that is further ahead of the
/// clock was written with a wrong clock.
pub const POLICY_WAIT_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Compactions requested by hand that wait in one session behind the current one. More requests would come faster than
/// they can be served, and each request reads those that wait.
pub const SESSION_COMPACTIONS_WAITING_MAX: usize = 16;
/// Views from which the range of a supplied summary is taken: each further one follows from a compaction that was
/// committed meanwhile.
pub const SUPPLY_TRIES_MAX: usize = 100;
/// Time between two looks for work behind commits.
pub const WORK_LOOK_MS: u64 = 10;
/// Jobs that wait between the scheduler and its workers.
pub const JOB_QUEUE_MAX: usize = 256;
/// Newest ended compactions that are read for the guards of a session: as many as a breaker may count.
pub const GUARD_COMPACTIONS: i64 = BREAKER_FAILURES_MAX as i64;
/// Attempts to lock a data directory that another process has locked, `LOCK_RETRY_MS` apart.
pub const LOCK_ATTEMPTS: u32 = 20;
/// Milliseconds between two such attempts.
pub const LOCK_RETRY_MS: u64 = 10;
/// Sessions that are marked due in one write because their wake time has come, and open messages that are sealed in one
/// write; the others follow at once.
pub const WAKING_SESSIONS_MAX: i64 = 256;
/// Maximum delay before a scheduler that cannot read the store at its start tries again; delays begin with
/// `RETRY_MS_MIN` and double.
pub const SCHEDULER_RETRY_MS_MAX: i64 = 15_000;
/// Sessions that are paused because work on them failed; above it, the pause that ends first is dropped.
pub const PAUSED_SESSIONS_MAX: usize = 1_024;
/// Interval at which the scheduler looks for ready jobs, in addition to its wake-ups.
pub const SCHEDULER_TICK_MS: u64 = 1_000;
/// Maximum time that a stopping daemon waits for its work to end, and then for each store; it waits `STOP_CLIENTS_MS` for its
/// clients.
pub const DRAIN_MS_MAX: u64 = 10_000;

/// Newest compactions of a session among which an earlier answer to the same overflow is searched.
pub const OVERFLOW_COMPACTIONS_MAX: i64 = 50;
