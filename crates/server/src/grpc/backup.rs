//! Backups, over gRPC.

use crate::app::backup::{BackupItem, CheckedCopy, CopyProgress};
use crate::app::{Caller, Error, Reason};
use crate::pb;
use crate::pb::create_backup_response::Item;
use crate::transport::Peer;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The pieces of a backup's result.
pub(super) type BackupStream = BoxStream<'static, Result<pb::CreateBackupResponse, Status>>;

/// Starts a backup.
pub(super) fn create(
    caller: &Caller,
    request: &Request<pb::CreateBackupRequest>,
) -> Result<Response<BackupStream>, Status> {
    if request.extensions().get::<Peer>() != Some(&Peer::Owner) {
        let message = "a backup can be requested on the daemon's Unix socket only: the daemon writes the file";
        return Err(Error::new(Reason::SocketRequired, message).into());
    }
    if !caller.daemon().has_shard() && request.get_ref().shard.is_some() {
        return Err(Error::field("shard", "a store in files has no shards").into());
    }
    let items = caller.daemon().create_backup(&request.get_ref().path)?;
    let pieces = stream::unfold(items, async |mut items| {
        let piece = match items.recv().await? {
            Ok(item) => Ok(pb::CreateBackupResponse { item: Some(convert(item)) }),
            Err(error) => Err(error.into()),
        };
        Some((piece, items))
    });
    Ok(Response::new(pieces.boxed()))
}

fn convert(item: BackupItem) -> Item {
    match item {
        BackupItem::Progress(now) => Item::Progress(progress(now)),
        BackupItem::End(copy) => Item::Backup(backup(&copy)),
    }
}

fn progress(now: CopyProgress) -> pb::BackupProgress {
    let mut progress = pb::BackupProgress::default();
    let phase = match now {
        CopyProgress::Copying { bytes, total } => {
            (progress.copied_bytes, progress.total_bytes) = (bytes, total);
            pb::BackupPhase::Copy
        }
        CopyProgress::Checking => pb::BackupPhase::Check,
        CopyProgress::Verifying { events, total } => {
            (progress.verified_event_count, progress.total_event_count) = (events, total);
            pb::BackupPhase::Verify
        }
    };
    pb::BackupProgress { phase: phase.into(), ..progress }
}

fn backup(copy: &CheckedCopy) -> pb::Backup {
    pb::Backup {
        path: copy.path.display().to_string(),
        size_bytes: copy.bytes,
        head_seq: copy.head_seq,
        session_count: copy.checked.sessions,
        event_count: copy.checked.events,
    }
}
