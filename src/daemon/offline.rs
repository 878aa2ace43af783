//! Work on a data directory or a backup without a daemon, for the command line.

pub use crate::store::{CopyProgress, Diagnosis, ExaminationMode, Examined, Gap, NamedRow, Restored, examine, restore};

use crate::grpc;
use crate::pb;
use crate::store;
use std::path::Path;

/// A piece of an export, in the form of the protocol.
#[derive(Debug)]
pub enum Exported {
    /// A session, without its policy.
    Session(Box<pb::Session>),
    /// A message of a session, which is given by its id, or by its key if its row cannot be read.
    Message(String, Box<pb::Message>),
    /// A row that cannot be read.
    Lost(NamedRow),
    /// Rows that must be there and were not found.
    Gap(Gap),
    /// A revision whose rows are not those that the chain commits to, or cannot be compared with it.
    Doubt(NamedRow),
}

/// Exports what can be read from a store that may be damaged; `each` gets each piece.
pub async fn export(
    directory: &Path,
    each: &mut (dyn FnMut(Exported) -> std::io::Result<()> + Send),
) -> Result<(), store::Error> {
    let mut convert = |piece| {
        each(match piece {
            store::Exported::Session(session) => Exported::Session(Box::new(grpc::stored_session(*session))),
            store::Exported::Message(session, message) => {
                Exported::Message(session, Box::new(grpc::stored_message(*message)))
            }
            store::Exported::Lost(lost) => Exported::Lost(lost),
            store::Exported::Gap(gap) => Exported::Gap(gap),
            store::Exported::Doubt(doubt) => Exported::Doubt(doubt),
        })
    };
    store::export(directory, &mut convert).await
}
