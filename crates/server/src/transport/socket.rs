//! The Unix socket: checks of its path, replacement of a dead socket, and removal at the end.
//!
//! Only a socket without a listener is replaced. Anything else at the path belongs to another program or user, and
//! stays. A file beside the socket is locked from the check of the path until the daemon listens: of two daemons that
//! find the same dead socket, the second one then finds the first one's socket.

use super::error::ListenError;
use crate::limits;
use crate::store;
use rustix::fs::OFlags;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::Instant;

/// Mode that lets only the owner connect.
const PRIVATE: u32 = 0o600;
/// Mode of a directory made for the socket: only the owner may enter.
const PRIVATE_DIRECTORY: u32 = 0o700;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// A socket that this process listens on.
pub struct Socket {
    path: PathBuf,
    identity: (u64, u64),
}

/// State of the socket's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketState {
    /// Nothing is there.
    Free,
    /// A socket without a listener, left by a killed daemon.
    Dead,
}

fn listen_failure(path: &Path, source: io::Error) -> ListenError {
    ListenError { address: format!("unix:{}", path.display()), source }
}

fn listen_refusal(path: &Path, why: impl Into<String>) -> ListenError {
    listen_failure(path, io::Error::other(why.into()))
}

/// Refuses a path that cannot be listened on, and changes nothing.
pub(super) async fn check(path: &Path, data_dir: &Path) -> Result<(), ListenError> {
    socket_state(path, data_dir).await.map(drop)
}

/// Listens on a socket that only its owner can open. Creates the socket's directory if it is missing.
pub(super) async fn listen(path: &Path, data_dir: &Path) -> Result<(UnixListener, Socket), ListenError> {
    check(path, data_dir).await?;
    let failed = |source| listen_failure(path, source);
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(directory).map_err(failed)?;
    }
    let _lock = lock(path).await?;
    let state = socket_state(path, data_dir).await?;
    if state == SocketState::Dead {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let socket = UnixSocket::new_stream().map_err(failed)?;
    socket.bind(path).map_err(failed)?;
    // No client can connect before the daemon listens, so there is no moment at which other users could.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(PRIVATE)).map_err(failed)?;
    let listener = socket.listen(BACKLOG).map_err(failed)?;
    let identity = identity(path).map_err(failed)?;
    Ok((listener, Socket { path: path.to_owned(), identity }))
}

/// Keeps other daemons from listening at a path, until it is dropped. The file stays: removing it could remove a file
/// that another daemon has just locked.
async fn lock(path: &Path) -> Result<File, ListenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = File::options().write(true).create(true).truncate(false).mode(PRIVATE).custom_flags(flags).open(&name);
    let file = file.map_err(|error| listen_refusal(path, format!("{} cannot be opened: {error}", name.display())))?;
    let deadline = Instant::now() + Duration::from_millis(limits::SOCKET_LOCK_MS_MAX);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(limits::SOCKET_LOCK_RETRY_MS)).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(listen_refusal(path, "another daemon is about to listen there"));
            }
            Err(TryLockError::Error(source)) => return Err(listen_failure(path, source)),
        }
    }
}

impl Socket {
    /// Removes the socket's file, unless another file has replaced it.
    pub fn remove(self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

async fn socket_state(path: &Path, data_dir: &Path) -> Result<SocketState, ListenError> {
    if path.file_name().is_none() {
        return Err(listen_refusal(path, "the path names no file"));
    }
    if SocketAddr::from_pathname(path).is_err() {
        let length = path.as_os_str().len();
        return Err(listen_refusal(
            path,
            format!("a path of {length} bytes is too long for a socket: --socket takes another"),
        ));
    }
    let path_there = resolve_path(path);
    if path_there == resolve_path(data_dir)
        || store::paths(data_dir).iter().any(|file| path_there == resolve_path(file))
    {
        return Err(listen_refusal(path, "the store has its own files there"));
    }
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SocketState::Free),
        // The store has a better error for a problem with its directory.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && path.starts_with(data_dir) => {
            return Ok(SocketState::Free);
        }
        Err(error) => return Err(listen_failure(path, error)),
    };
    if !metadata.file_type().is_socket() {
        let what = match metadata.file_type() {
            kind if kind.is_symlink() => "a symbolic link",
            kind if kind.is_dir() => "a directory",
            _ => "a file",
        };
        return Err(listen_refusal(path, format!("{what} is there, and only a socket that nobody uses is replaced")));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(listen_refusal(path, format!("the socket there belongs to another user (uid {})", metadata.uid())));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(listen_refusal(path, "another daemon listens there already")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(SocketState::Dead),
        // The socket was removed since it was found.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(SocketState::Free),
        Err(error) => Err(listen_refusal(path, format!("it is unknown if the socket there is used: {error}"))),
    }
}

/// The path with all symbolic links resolved except in its last component, as far as the path exists.
fn resolve_path(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().or_else(|_| std::path::absolute(parent)).unwrap_or_else(|_| parent.to_owned());
    path.file_name().map_or_else(|| parent.clone(), |name| parent.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// A listener on the path; none if another one listens there.
    fn listener(path: &Path) -> Option<std::os::unix::net::UnixListener> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            match listen(path, Path::new("/nowhere")).await {
                Ok((listener, _)) => Some(listener.into_std().expect("a listener")),
                Err(error) => {
                    assert!(error.to_string().contains("another daemon listens there already"), "{error}");
                    None
                }
            }
        })
    }

    #[test]
    fn one_of_several_daemons_takes_over_a_dead_socket_and_the_others_fail() {
        for _ in 0..50 {
            let directory = tempfile::tempdir().expect("a temporary folder");
            let path = directory.path().join("daemon.sock");
            drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that is dead then"));
            let (many, path) = (&Barrier::new(4), &path);
            let listeners: Vec<_> = std::thread::scope(|scope| {
                let start = || {
                    scope.spawn(move || {
                        many.wait();
                        listener(path)
                    })
                };
                let daemons: Vec<_> = (0..4).map(|_| start()).collect();
                daemons.into_iter().filter_map(|daemon| daemon.join().expect("no panic")).collect()
            });
            assert_eq!(listeners.len(), 1);
            std::os::unix::net::UnixStream::connect(path).expect("whoever listens is found");
        }
    }
}
