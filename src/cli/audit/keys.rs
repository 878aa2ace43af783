//! Keys of signed heads: Ed25519, in the files that OpenSSL writes and reads.

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The beginning of the DER form of a public key (RFC 8410); its 32 bytes follow.
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";
/// Characters of a line of PEM.
const LINE: usize = 64;

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn read_pem(path: &Path, label: &str) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let body = text.split_once(&format!("-----BEGIN {label}-----"));
    let body = body.and_then(|(_, rest)| rest.split_once(&format!("-----END {label}-----")));
    let body = body.map(|(body, _)| body.split_whitespace().collect::<String>());
    body.and_then(|body| STANDARD.decode(body).ok())
        .with_context(|| format!("{} has no {} in PEM", path.display(), label.to_lowercase()))
}

/// The name of the file with the public key.
pub(super) fn public_path(private: &Path) -> PathBuf {
    let mut name = private.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// Makes a key pair: the private key in a new file that only its owner can read, the public key beside it.
pub(super) fn make(path: &Path) -> anyhow::Result<Vec<u8>> {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok().context("cannot make a key")?;
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).ok().context("cannot make a key")?;
    let public = pair.public_key().as_ref().to_vec();
    let write = |path: &Path, mode: u32, text: &str| -> anyhow::Result<()> {
        let file = File::options().write(true).create_new(true).mode(mode).open(path);
        let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
        file.write_all(text.as_bytes())?;
        Ok(file.sync_all()?)
    };
    write(path, 0o600, &pem(PRIVATE, pkcs8.as_ref()))?;
    write(&public_path(path), 0o644, &pem(PUBLIC, &[&PUBLIC_PREFIX[..], &public].concat()))?;
    Ok(public)
}

/// Signs bytes with the private key in a file. Returns the public key and the signature.
pub(super) fn sign(path: &Path, bytes: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    // Keys of OpenSSL do not have the public key beside the private one.
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&read_pem(path, PRIVATE)?);
    let pair = pair.ok().with_context(|| format!("{} has no Ed25519 key", path.display()))?;
    Ok((pair.public_key().as_ref().to_vec(), pair.sign(bytes).as_ref().to_vec()))
}

/// The public key in a file.
pub(super) fn read_public(path: &Path) -> anyhow::Result<Vec<u8>> {
    let der = read_pem(path, PUBLIC)?;
    let key = der.strip_prefix(&PUBLIC_PREFIX).filter(|key| key.len() == ring::signature::ED25519_PUBLIC_KEY_LEN);
    key.map(<[u8]>::to_vec).with_context(|| format!("{} has no Ed25519 key", path.display()))
}

/// True if the owner of a public key signed these bytes.
pub(super) fn is_signed(public: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(bytes, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_signs_and_its_public_key_alone_verifies() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let public = make(&one).expect("a key");
        make(&other).expect("another key");
        assert!(make(&one).is_err(), "a key is never replaced");
        let mode = std::fs::metadata(&one).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read_public(&public_path(&one)).expect("a key"), public);
        let (signer, signature) = sign(&one, b"words").expect("a signature");
        assert_eq!(signer, public);
        assert!(is_signed(&public, b"words", &signature));
        assert!(!is_signed(&public, b"words!", &signature));
        assert!(!is_signed(&read_public(&public_path(&other)).expect("a key"), b"words", &signature));
        assert!(sign(&public_path(&one), b"words").is_err() && read_public(&one).is_err());
    }

    #[test]
    fn a_key_of_openssl_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key");
        // The private key of RFC 8410, section 10.3.
        let key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";
        std::fs::write(&file, key).expect("a file");
        let (public, signature) = sign(&file, b"words").expect("a signature");
        assert!(is_signed(&public, b"words", &signature));
        // The public key of section 10.1.
        assert_eq!(STANDARD.encode(public), "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
    }
}
