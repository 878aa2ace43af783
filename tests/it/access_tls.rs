//! TLS with certificates of clients: which ones the daemon lets in, before any access token counts.

use crate::cli::Daemon;
use crate::support::private_folder;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Deadline of every wait.
const DEADLINE: Duration = Duration::from_secs(20);

/// A certificate with its key, as a client has them.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

/// An authority, and its certificate in PEM.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate of the authority, of a client unless it is changed.
    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("parameters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        Identity { certificate: certificate.der().clone(), key }
    }
}

/// Starts a daemon on TLS, with more of the table of TLS. Returns its port and the authority of its certificate.
pub(crate) fn start(home: &Path, more: &str) -> (Daemon, u16, CertificateDer<'static>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let file = |name: &str| home.join(name).display().to_string();
    fs::write(file("server.key"), signing_key.serialize_pem()).expect("written");
    fs::write(file("server.pem"), cert.pem()).expect("written");
    let tls = format!("tls = {{ certificate = {:?}, key = {:?}{more} }}\n", file("server.pem"), file("server.key"));
    fs::write(file("longhand.toml"), tls).expect("written");
    let (daemon, _) = Daemon::start_as(home, |command| {
        command.arg("--config").arg(file("longhand.toml"));
    });
    let url = fs::read_to_string(daemon.directory.join("longhand.url")).expect("a URL");
    let port = url.trim().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    (daemon, port, cert.der().clone())
}

/// The status of an answer, or the alert with which the daemon ends the connection.
fn ask(port: u16, server: &CertificateDer<'static>, identity: Option<&Identity>, head: &str) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(server.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            config.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).expect("a key")
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a client"), socket);
    let mut answer = Vec::new();
    let request = format!("{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    match stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer).map(drop)) {
        Ok(()) => Ok(String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()),
        Err(error) => {
            assert!(answer.is_empty(), "something was answered: {answer:?}");
            let alert = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
            Err(format!("{:?}", alert.unwrap_or_else(|| panic!("no alert: {error}"))))
        }
    }
}

fn alert(description: AlertDescription) -> Result<String, String> {
    Err(format!("{:?}", rustls::Error::AlertReceived(description)))
}

#[test]
fn with_authorities_only_clients_with_a_valid_certificate_of_theirs_get_in() {
    let home = private_folder();
    let authorities = home.path().join("clients.pem");
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    fs::write(&authorities, &ours.pem).expect("written");
    let (daemon, port, server) = start(home.path(), &format!(", client_authorities = {authorities:?}"));
    let secret = fs::read_to_string(daemon.directory.join("access-token")).expect("a secret");
    let with_token = format!("GET /v1/presets HTTP/1.1\r\nAuthorization: Bearer {}", secret.trim());
    let ask = |identity: Option<&Identity>, head: &str| ask(port, &server, identity, head);
    let right = ours.sign(|_| {});
    assert_eq!(ask(Some(&right), &with_token), Ok("200".to_owned()));
    assert_eq!(ask(Some(&right), "GET /v1/presets HTTP/1.1"), Ok("401".to_owned()), "a certificate is no token");
    let of_foreign = foreign.sign(|_| {});
    let of_impostor = Authority::new("ours").sign(|_| {});
    let expired = ours.sign(|params| {
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    });
    let not_yet = ours.sign(|params| params.not_before = date_time_ymd(4000, 1, 1));
    let of_server = ours.sign(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    for (identity, expected) in [
        (None, AlertDescription::CertificateRequired),
        (Some(&of_foreign), AlertDescription::UnknownCA),
        (Some(&of_impostor), AlertDescription::DecryptError),
        (Some(&expired), AlertDescription::CertificateExpired),
        (Some(&not_yet), AlertDescription::CertificateExpired),
        (Some(&of_server), AlertDescription::UnsupportedCertificate),
    ] {
        // Not even what takes no token is answered.
        for head in ["GET /healthz HTTP/1.1", &with_token] {
            assert_eq!(ask(identity, head), alert(expected), "{head}");
        }
    }
    // Another file of authorities counts without a restart.
    fs::write(&authorities, &foreign.pem).expect("written");
    let began = Instant::now();
    while ask(Some(&of_foreign), &with_token) != Ok("200".to_owned()) {
        assert!(began.elapsed() < DEADLINE, "the new authority does not count");
    }
    assert_eq!(ask(Some(&right), &with_token), alert(AlertDescription::UnknownCA));
    daemon.stop();
}

#[test]
fn without_authorities_no_certificate_is_asked_for() {
    let home = private_folder();
    let (daemon, port, server) = start(home.path(), "");
    let secret = fs::read_to_string(daemon.directory.join("access-token")).expect("a secret");
    let with_token = format!("GET /v1/presets HTTP/1.1\r\nAuthorization: Bearer {}", secret.trim());
    let any = Authority::new("any").sign(|_| {});
    for identity in [None, Some(&any)] {
        assert_eq!(ask(port, &server, identity, &with_token), Ok("200".to_owned()));
        assert_eq!(ask(port, &server, identity, "GET /v1/presets HTTP/1.1"), Ok("401".to_owned()));
    }
    daemon.stop();
}
