//! A daemon at a server that lets nobody in but a role with a password, over TLS, and with no more rights than the page on
//! PostgreSQL says. Skipped with a line where the machine has no PostgreSQL.

use crate::cli::{Daemon, longhand};
use crate::postgres::Server;
use crate::support::private_folder;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

/// The password of the role, with all that the password file gives a meaning.
const PASSWORD: &str = r"a:b\c'd e";

/// A server with TLS, its port, and a file with the authority of its certificate.
struct Guarded {
    server: Server,
    port: u16,
    authority: String,
}

impl Guarded {
    fn start(home: &Path) -> Option<Self> {
        // Below those that the system gives to others meanwhile.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let mut numbers =
            (0..100).map(|_| 20_000 + (std::process::id() % 10_000) as u16 + NEXT.fetch_add(1, Ordering::Relaxed));
        let port = numbers.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port");
        let server = Server::start_on_tcp(port)?;
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = home.join("authority.pem");
        fs::write(&authority, params.self_signed(&key).expect("a certificate").pem()).expect("written");
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["localhost".to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        let run =
            |database: &str, sql: &str| server.sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        // The files belong to the server's user, who alone may read the key.
        for (file, text) in [
            ("server.crt", certificate.as_str()),
            ("server.key", &key.serialize_pem()),
            ("pg_hba.conf", "local all all trust\nhostssl notes notes 127.0.0.1/32 scram-sha-256"),
        ] {
            let lines = format!("select unnest(string_to_array($${text}$$, E'\\n'))");
            run("postgres", &format!("copy ({lines}) to program 'umask 077; cat >{file}'"));
        }
        run("postgres", "alter system set ssl = on");
        run("postgres", "select pg_reload_conf()");
        let quoted = PASSWORD.replace('\'', "''");
        run("postgres", &format!("create role notes login password '{quoted}'"));
        run("postgres", "create database notes");
        run("postgres", "revoke all on database notes from public");
        run("postgres", "grant connect, create on database notes to notes");
        run("notes", "revoke all on schema public from public");
        Some(Self { server, port, authority: authority.display().to_string() })
    }

    fn address(&self, host: &str) -> String {
        format!("postgres://notes@{host}:{}/notes?sslmode=verify-full&sslrootcert={}", self.port, self.authority)
    }
}

/// Gives a command the password file.
fn with_password<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command.env("PGPASSFILE", home.join("passwords"))
}

fn write_password(home: &Path, port: u16, password: &str) {
    let file = home.join("passwords");
    let escaped = password.replace('\\', r"\\").replace(':', r"\:");
    fs::write(&file, format!("localhost:{port}:notes:notes:{escaped}\n")).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
}

/// What a daemon says that does not start.
fn refused(home: &Path, address: &str) -> String {
    let mut command = longhand(home);
    command.args(["serve", "--database", address, "--data-dir"]).arg(home.join("refused"));
    let output = with_password(&mut command, home).output().expect("the daemon runs");
    assert!(!output.status.success(), "it starts");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_role_with_two_rights_serves_and_moves_a_store_over_tls_with_a_password_file() {
    let folder = private_folder();
    let home = folder.path();
    let Some(guarded) = Guarded::start(home) else { return };
    write_password(home, guarded.port, PASSWORD);
    let address = guarded.address("localhost");
    let serve = |address: &str, variables: &[(&str, &str)]| {
        let (daemon, line) = Daemon::start_as(home, |command| {
            with_password(command, home).args(["--database", address]).envs(variables.iter().copied());
        });
        assert!(line.contains("longhand.sock"), "{line:?}");
        daemon
    };
    let daemon = serve(&address, &[]);
    daemon.text(&["create", "--client-id", "talk"]);
    daemon.text(&["append", "talk", "kept beyond a kill"]);
    let encrypted = "select count(*) > 0, bool_and(s.ssl) from pg_stat_activity a join pg_stat_ssl s using (pid) \
         where a.usename = 'notes'";
    assert_eq!(guarded.server.sql("postgres", encrypted).expect("asked").trim(), "t|t");
    daemon.kill();
    let daemon = serve(&address, &[]);
    assert!(daemon.text(&["show", "talk"]).contains("kept beyond a kill"));
    assert!(daemon.stop().success());

    // Into files, and back.
    let moved = home.join("moved");
    for (from, to) in [(address.clone(), moved.display().to_string()), (moved.display().to_string(), address.clone())] {
        let mut command = longhand(home);
        let output = with_password(command.args(["migrate", &from, &to]), home).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let set_aside = guarded.server.sql("notes", "drop schema if exists migrated_lh_s1 cascade");
        set_aside.expect("what was set aside is dropped");
    }
    let daemon = serve(&address, &[]);
    assert!(daemon.text(&["show", "talk"]).contains("kept beyond a kill"));
    assert!(daemon.stop().success());

    // Variables say the rest of an address.
    let short = format!("postgres://notes@localhost:{}/notes", guarded.port);
    let daemon = serve(&short, &[("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", &guarded.authority)]);
    assert!(daemon.stop().success());
}

#[test]
fn a_server_that_is_not_the_one_meant_or_does_not_know_the_password_is_refused() {
    let folder = private_folder();
    let home = folder.path();
    let Some(guarded) = Guarded::start(home) else { return };
    write_password(home, guarded.port, PASSWORD);
    let other = home.join("other.pem");
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(&other, stranger.cert.pem()).expect("written");
    let foreign = guarded.address("localhost").replace(&guarded.authority, &other.display().to_string());
    let plain = format!("postgres://notes@localhost:{}/notes?sslmode=disable", guarded.port);
    let cases = [
        ("another authority", foreign, "invalid peer certificate: BadSignature"),
        ("a name that the certificate does not have", guarded.address("127.0.0.1"), "not valid for name"),
        ("no TLS", plain, "no encryption"),
    ];
    for (name, address, expected) in cases {
        let said = refused(home, &address);
        assert!(said.contains(expected), "{name}: {said}");
        assert!(!said.contains("a:b"), "{name}: {said}");
    }
    write_password(home, guarded.port, "guess");
    let said = refused(home, &guarded.address("localhost"));
    assert!(said.contains("password authentication failed"), "{said}");
    let tables = "select count(*) from pg_tables where schemaname like 'lh%'";
    assert_eq!(guarded.server.sql("notes", tables).expect("asked").trim(), "0");
}
