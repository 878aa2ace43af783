//! The owner's files in the data directory: the secret with which the owner's programs prove themselves on TCP, and the
//! URL at which they find the daemon; and the port, for the next start.

use super::error::Error;
use crate::app::access;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file with the owner's secret.
const SECRET: &str = "access-token";
/// The file with the URL.
const URL: &str = "longhand.url";
/// The file with the port, which stays when the daemon stops.
const PORT: &str = "longhand.port";
/// Mode of a file that its owner alone reads.
const PRIVATE: u32 = 0o600;
/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;
/// More bytes than a secret has.
const SECRET_BYTES_MAX: u64 = 1_024;

/// The path of the owner's secret.
pub fn secret_path(data_dir: &Path) -> PathBuf {
    data_dir.join(SECRET)
}

/// The path of the URL.
pub fn url_path(data_dir: &Path) -> PathBuf {
    data_dir.join(URL)
}

/// The owner's secret: that of the file, or a new one in a new file.
pub(super) fn secret(data_dir: &Path) -> Result<String, Error> {
    let path = secret_path(data_dir);
    let refused = |why: String| Error::OwnerSecret { path: path.clone(), why };
    match read_secret(&path) {
        Ok(secret) => secret.map_err(refused),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = access::new_owner_secret();
            write(&path, &secret).map_err(|error| refused(error.to_string()))?;
            Ok(secret)
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

/// The secret in a file, or the reason why it is none.
fn read_secret(path: &Path) -> io::Result<Result<String, String>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(Err("it is no file".to_owned()));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & OTHERS != 0 {
        let mode = metadata.mode() & 0o777;
        return Ok(Err(format!(
            "others may read it (uid {}, mode {mode:o}): it must be the daemon's alone: chmod 600 {}",
            metadata.uid(),
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    let secret = text.trim();
    if access::is_owner_secret(secret) {
        Ok(Ok(secret.to_owned()))
    } else {
        Ok(Err("it has no access token".to_owned()))
    }
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    drop(std::fs::remove_file(&new));
    let mut file = File::options().write(true).create_new(true).mode(PRIVATE).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

/// Writes the URL for the owner's programs, and its port; a failure is logged, since the daemon works without.
pub(super) fn write_url(data_dir: &Path, url: &str, port: u16) {
    let written = write(&url_path(data_dir), url).and_then(|()| write(&data_dir.join(PORT), &port.to_string()));
    if let Err(error) = written {
        tracing::warn!(%error, "the files with the daemon's URL and port could not be written");
    }
}

/// The port on which a daemon of this data directory listened last, if it is known.
pub(super) fn last_port(data_dir: &Path) -> Option<u16> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(data_dir.join(PORT)).ok()?;
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|port| *port != 0)
}

/// Removes the URL.
pub(super) fn remove_url(data_dir: &Path) {
    drop(std::fs::remove_file(url_path(data_dir)));
}
