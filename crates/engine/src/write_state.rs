//! The state of writes, which the health of the store keeps and errors name.

/// The state of writes: accepted, or the reason why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteState {
    /// Writes are accepted.
    #[default]
    Accepted,
    /// The disk was full, and no content of a client was written since. The next write is tried nevertheless.
    StorageFull,
    /// The file system took no writes, and no content of a client was written since. The next write is tried
    /// nevertheless.
    StorageReadOnly,
    /// The disk failed to write or to sync. The content of the files is known only after the daemon starts again.
    DiskFailed,
    /// Files of the store were removed, replaced or truncated while the daemon ran. Writes to the files that it has
    /// open would be lost at its next start.
    FilesReplaced,
    /// Another daemon owns the shard, or may own it.
    LeaseLost,
}

impl WriteState {
    /// True if no write is tried until the daemon starts again.
    pub fn is_final(self) -> bool {
        match self {
            Self::Accepted | Self::StorageFull | Self::StorageReadOnly => false,
            Self::DiskFailed | Self::FilesReplaced | Self::LeaseLost => true,
        }
    }

    /// The name of the state, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::StorageFull => "STORAGE_FULL",
            Self::StorageReadOnly => "STORAGE_READ_ONLY",
            Self::DiskFailed => "DISK_FAILED",
            Self::FilesReplaced => "FILES_REPLACED",
            Self::LeaseLost => "LEASE_LOST",
        }
    }
}

impl std::fmt::Display for WriteState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Accepted => "writes are taken",
            Self::StorageFull => "the disk is full",
            Self::StorageReadOnly => "the file system takes no writes",
            Self::DiskFailed => "the disk failed to write or to sync",
            Self::FilesReplaced => "files of the store were removed, replaced or cut off",
            Self::LeaseLost => "another daemon may own the shard",
        })
    }
}
