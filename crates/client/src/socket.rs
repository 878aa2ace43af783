//! Connections to a daemon's Unix socket. The process at the other end is checked: in a directory that is open to others,
//! anybody may listen under the name of a daemon that is not there.

use hyper_util::rt::TokioIo;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// Bits of a directory's mode by which its group or others may write to it.
const OTHERS_WRITE: u32 = 0o022;

/// Connects to a daemon of this program's user, or of the administrator. The administrator also reaches the daemon of
/// the user whose directory the socket is in.
pub(crate) async fn connect(endpoint: &Endpoint, path: &Path) -> Result<Channel, tonic::transport::Error> {
    let path = path.to_owned();
    endpoint.connect_with_connector(tower::service_fn(move |_: Uri| open(path.clone()))).await
}

async fn open(path: PathBuf) -> io::Result<TokioIo<UnixStream>> {
    let stream = UnixStream::connect(&path).await?;
    let (peer, own) = (stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = std::fs::metadata(parent).ok().filter(|directory| directory.mode() & OTHERS_WRITE == 0);
    if is_trusted(peer, own, directory.map(|directory| directory.uid())) {
        return Ok(TokioIo::new(stream));
    }
    let message = format!("the process that listens there belongs to another user, with the number {peer}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// True for a process of this user or of the administrator; for the administrator also for one of the user who owns the
/// directory, if nobody else can write to it.
fn is_trusted(peer: u32, own: u32, directory: Option<u32>) -> bool {
    peer == own || peer == 0 || (own == 0 && directory == Some(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impostor_is_not_trusted_with_what_is_sent_to_the_socket() {
        for (peer, own, directory, expected) in [
            (1_000, 1_000, None, true),
            (0, 1_000, None, true),
            (1_001, 1_000, None, false),
            (1_001, 1_000, Some(1_001), false),
            (1_001, 0, None, false),
            (1_001, 0, Some(0), false),
            (1_001, 0, Some(1_001), true),
        ] {
            assert_eq!(is_trusted(peer, own, directory), expected, "{peer} {own} {directory:?}");
        }
    }
}
