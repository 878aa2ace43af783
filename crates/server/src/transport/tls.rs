//! TLS: the certificate and its key, read from files again when they change.

use super::error::TlsError;
use crate::limits;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// The files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// The key of the certificate in PEM.
    pub key: PathBuf,
    /// The authorities in PEM of which every client must have a certificate; none if clients need none.
    pub client_authorities: Option<PathBuf>,
}

/// The acceptor of TLS connections, with the newest certificate.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

/// The state of a file: whatever changes when it is written or replaced.
type Stamp = Option<(u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// Bytes of a regular file. Opening a pipe that nobody writes would never return.
fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |why: String| TlsError { path: path.to_owned(), why };
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = opened.map_err(|error| failed(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("it is no regular file".to_owned()));
    }
    let limit = limits::TLS_FILE_BYTES_MAX;
    let mut bytes = Vec::new();
    let read = file.by_ref().take(limit + 1).read_to_end(&mut bytes);
    match read.map_err(|error| failed(error.to_string()))? as u64 > limit {
        true => Err(failed(format!("it has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

impl TlsFiles {
    fn stamps(&self) -> Vec<Stamp> {
        let paths = [Some(&self.certificate), Some(&self.key), self.client_authorities.as_ref()];
        paths.into_iter().flatten().map(|path| stamp(path)).collect()
    }

    /// The files if they are other than they were, with their states.
    fn reread_changed(&self, known: &[Stamp]) -> Option<(Vec<Stamp>, Result<ServerConfig, TlsError>)> {
        let now = self.stamps();
        (now != known).then(|| (now, self.read_config()))
    }

    fn read_config(&self) -> Result<ServerConfig, TlsError> {
        let failed = |path: &Path, why: String| TlsError { path: path.to_owned(), why };
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, TlsError> {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(path)?).collect();
            let chain = read.map_err(|error| failed(path, error.to_string()))?;
            if chain.is_empty() { Err(failed(path, "it has no certificate".to_owned())) } else { Ok(chain) }
        };
        let chain = certificates(&self.certificate)?;
        // The error may quote nothing of a key.
        let key = PrivateKeyDer::from_pem_slice(&bytes(&self.key)?)
            .map_err(|_| failed(&self.key, "it has no private key in PEM".to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&self.certificate, error.to_string()))?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| failed(path, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| failed(path, error.to_string()))?)
            }
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| failed(&self.certificate, error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// For a file that cannot be read, or a key that is not the certificate's.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let config = Arc::new(RwLock::new(Arc::new(files.read_config()?)));
        Ok(Self { files: Arc::new(files), config })
    }

    /// An acceptor with the newest certificate.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Reads the files again whenever they changed, until the daemon stops. Files that cannot be used change nothing:
    /// a certificate and its key are seldom replaced in the same instant.
    pub(super) async fn follow(self, stopping: CancellationToken) {
        let mut stamps = Vec::new();
        let mut ticks = tokio::time::interval(Duration::from_millis(limits::CERTIFICATE_CHECK_MS));
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = ticks.tick() => {}
            }
            // A file system may take its time, and answers go on meanwhile.
            let (files, before) = (self.files.clone(), stamps.clone());
            let reading = tokio::task::spawn_blocking(move || files.reread_changed(&before));
            let read = tokio::select! {
                () = stopping.cancelled() => return,
                read = reading => read,
            };
            let Ok(Some((now, read))) = read else { continue };
            match read {
                Ok(config) => {
                    *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                    if !stamps.is_empty() {
                        tracing::info!("new connections get the new certificate");
                    }
                    stamps = now;
                }
                Err(error) => tracing::warn!(%error, "the changed certificate is not used"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_or_too_long_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, long) = (folder.path().join("pipe"), folder.path().join("long"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        let file = std::fs::File::create(&long).expect("a file");
        file.set_len(limits::TLS_FILE_BYTES_MAX + 1).expect("a length");
        for (path, expected) in
            [(&pipe, "no regular file"), (&long, "more than"), (&folder.path().into(), "no regular")]
        {
            let files = TlsFiles { certificate: path.clone(), key: long.clone(), client_authorities: None };
            let (reads, read) = std::sync::mpsc::channel();
            std::thread::spawn(move || reads.send(files.read_config().map(drop)));
            let error = read.recv_timeout(Duration::from_secs(20)).expect("it waits for nobody").expect_err("refused");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
