//! A bystander of one tenant, who appends, reads a view and searches, one call at a time: alone, and beside thousands of
//! calls of another tenant, which are in flight with one access token and begin anew when they are answered.
//!
//! The other tenant stands for other machines: its threads have the lowest priority here, so that the bystander waits for
//! what the daemon does and not for a processor that the load generator has.

use crate::client::{Client, encode};
use crate::fleet::Daemon;
use crate::report::{Bound, Latencies, Report};
use crate::target::{self, Texts, connect, message, request};
use bytes::Bytes;
use clap::Args;
use longhand::pb;
use longhand::pb::access_service_client::AccessServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;

/// Calls of one connection at a time: less than the daemon's limit.
const PER_CONNECTION: usize = 250;
/// Sessions to which the other tenant's calls are made.
const LOUD_SESSIONS: usize = 256;
/// Messages of a session that is read and searched.
const MESSAGES: usize = 50;
/// Bytes of a message.
const BYTES: usize = 512;
/// Messages of the bystander after which it continues in a new session.
const OWN_MESSAGES: usize = 100;
/// Time in which the other tenant's calls reach their steady state.
const WARM_UP: Duration = Duration::from_millis(1_500);
/// The priority of the other tenant's threads, as of `nice`.
const LOWEST_PRIORITY: i32 = 19;
const SEED: u64 = 1;
const APPEND: &str = "MessageService/AppendMessages";
const VIEW: &str = "ViewService/GetView";
const SEARCH: &str = "SearchService/SearchHistory";
/// Most times as long as alone, in the median and at the 99th percentile.
const P50_RATIO_MAX: f64 = 3.0;
const P99_RATIO_MAX: f64 = 10.0;

/// Calls of a tenant beside those of another one.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Calls of the other tenant that are in flight.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
    in_flight: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Measures only beside these calls: appends, views, searches, or all of them mixed.
    #[arg(long, value_delimiter = ',', default_values = ["appends", "views", "searches", "mixed"])]
    beside: Vec<String>,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let time = Duration::from_secs_f64(if short { options.seconds.min(1.0) } else { options.seconds });
    println!("calls of a tenant, one at a time, beside those of one access token of another tenant");
    for binary in binaries {
        for beside in &options.beside {
            let stage = Stage::start(binary).await;
            let alone = stage.bystander(time).await;
            for (kind, latencies) in alone.kinds() {
                report.row(&format!("{kind}, alone"), &target::name(binary), None, latencies, &[]);
            }
            for &in_flight in &options.in_flight {
                let crowd = stage.crowd(beside, in_flight).await;
                stage.bystander(WARM_UP).await;
                let (begun, refused) = crowd.counts();
                let among = stage.bystander(time).await;
                let (answered, of_them_refused) = crowd.counts();
                crowd.disperse().await;
                let rate = (answered - begun) as f64 / time.as_secs_f64();
                report.figures(
                    &format!("{in_flight} {beside} in flight"),
                    &target::name(binary),
                    &[("answers_per_second", rate), ("refused", (of_them_refused - refused) as f64)],
                );
                compare(binary, &format!("{in_flight} {beside}"), &alone, &among, report);
            }
        }
    }
}

/// Reports the bystander's times beside others against those alone.
fn compare(binary: &str, beside: &str, alone: &Calls, among: &Calls, report: &mut Report) {
    let of = target::name(binary);
    for ((kind, alone), (_, among)) in alone.kinds().into_iter().zip(among.kinds()) {
        let what = format!("{kind} beside {beside}");
        report.row(&what, &of, None, among, &[]);
        let ratio = |quantile| among.millis(quantile) / alone.millis(quantile);
        report.target(&what, &of, ("p50_ratio", ratio(0.5)), Bound::AtMost(P50_RATIO_MAX));
        report.target(&what, &of, ("p99_ratio", ratio(0.99)), Bound::AtMost(P99_RATIO_MAX));
    }
}

/// The times of the bystander's calls.
#[derive(Default)]
struct Calls {
    appends: Latencies,
    views: Latencies,
    searches: Latencies,
}

impl Calls {
    fn kinds(&self) -> [(&'static str, &Latencies); 3] {
        [("append", &self.appends), ("view", &self.views), ("search", &self.searches)]
    }
}

/// A tenant with an access token.
struct Tenant {
    name: &'static str,
    secret: String,
    /// Sessions with messages to read.
    sessions: Vec<String>,
}

impl Tenant {
    /// A tenant with this number of sessions.
    async fn new(channel: &Channel, url: &str, name: &'static str, sessions: usize) -> Self {
        let token = pb::CreateAccessTokenRequest {
            principal: name.to_owned(),
            tenant: Some(name.to_owned()),
            scopes: vec![pb::Scope::Read.into(), pb::Scope::Write.into()],
            ..Default::default()
        };
        let made = AccessServiceClient::new(channel.clone()).create_access_token(token).await.expect("a token");
        let mut tenant = Self { name, secret: made.into_inner().secret, sessions: Vec::new() };
        let mut texts = Texts::new(SEED, BYTES);
        let mut client = Client::connect_tcp(url, &tenant.secret).await;
        for _ in 0..sessions {
            let id = tenant.session(channel).await;
            let texts = (0..MESSAGES).map(|_| message(texts.text())).collect();
            client.append(encode(&request(&id, texts))).await;
            tenant.sessions.push(id);
        }
        tenant
    }

    /// A new session, which the owner makes for the tenant.
    async fn session(&self, channel: &Channel) -> String {
        let mut create = tonic::Request::new(pb::CreateSessionRequest::default());
        create.metadata_mut().insert("longhand-tenant", MetadataValue::from_static(self.name));
        let created = SessionServiceClient::new(channel.clone()).create_session(create).await.expect("a session");
        created.into_inner().session.expect("a session").session_id
    }
}

fn view_of(session: &str) -> Bytes {
    encode(&pb::GetViewRequest { session_id: session.to_owned(), ..Default::default() })
}

fn search_in(session: &str) -> Bytes {
    encode(&pb::SearchHistoryRequest {
        query: "view".to_owned(),
        session_id: Some(session.to_owned()),
        ..Default::default()
    })
}

/// A daemon with two tenants.
struct Stage {
    daemon: Daemon,
    _folder: TempDir,
    /// The daemon's URL on TCP.
    url: String,
    quiet: Arc<Tenant>,
    loud: Tenant,
    /// Where the other tenant's calls are made.
    elsewhere: Elsewhere,
}

impl Stage {
    async fn start(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), "");
        let channel = connect(&daemon.socket).await;
        let url = std::fs::read_to_string(folder.path().join("store/longhand.url")).expect("it says where it listens");
        let url = url.trim().to_owned();
        let quiet = Arc::new(Tenant::new(&channel, &url, "quiet", 1).await);
        let loud = Tenant::new(&channel, &url, "loud", LOUD_SESSIONS).await;
        Self { daemon, _folder: folder, url, quiet, loud, elsewhere: Elsewhere::new() }
    }

    /// Calls one at a time for this time. They are made on a thread of their own, so that the load generator's other
    /// calls are not in their way.
    async fn bystander(&self, time: Duration) -> Calls {
        let (url, socket, quiet) = (self.url.clone(), self.daemon.socket.clone(), self.quiet.clone());
        let thread = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async { stand_by(&url, &connect(&socket).await, &quiet, time).await })
        });
        thread.await.expect("the bystander")
    }

    /// Begins calls of the other tenant, this number at a time.
    async fn crowd(&self, kinds: &str, in_flight: usize) -> Crowd {
        let mut crowd = Crowd { counts: Arc::default(), is_over: Arc::default(), tasks: Vec::new() };
        let connect = async || {
            let (url, secret) = (self.url.clone(), self.loud.secret.clone());
            // The connection's own task belongs to the other tenant, too.
            let connecting = self.elsewhere.spawn(async move { Client::connect_tcp(&url, &secret).await });
            connecting.await.expect("a connection")
        };
        let mut texts = Texts::new(SEED, BYTES);
        let mut client = connect().await;
        for number in 0..in_flight {
            if number % PER_CONNECTION == 0 {
                client = connect().await;
            }
            let session = &self.loud.sessions[number % LOUD_SESSIONS];
            let kind = match kinds {
                "mixed" => ["appends", "views", "searches"][number % 3],
                kind => kind,
            };
            let (method, body) = match kind {
                "appends" => (APPEND, encode(&request(session, vec![message(texts.text())]))),
                "views" => (VIEW, view_of(session)),
                "searches" => (SEARCH, search_in(session)),
                other => panic!("no calls are called {other}"),
            };
            let (mut client, counts, is_over) = (client.clone(), crowd.counts.clone(), crowd.is_over.clone());
            crowd.tasks.push(self.elsewhere.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let status = client.call(method, body.clone()).await;
                    counts.0.fetch_add(1, Ordering::Relaxed);
                    counts.1.fetch_add(u64::from(status != 0), Ordering::Relaxed);
                }
            }));
        }
        crowd
    }
}

/// A runtime whose threads have the lowest priority.
struct Elsewhere(Option<tokio::runtime::Runtime>);

impl Elsewhere {
    fn new() -> Self {
        let yields = || {
            let this = rustix::thread::gettid();
            rustix::process::setpriority_process(Some(this), LOWEST_PRIORITY).expect("a lower priority");
        };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        Self(Some(runtime.enable_all().on_thread_start(yields).build().expect("a runtime")))
    }

    fn spawn<F>(&self, future: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.0.as_ref().expect("it is there until the end").spawn(future)
    }
}

impl Drop for Elsewhere {
    /// A runtime cannot wait for its threads inside of another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The bystander's calls.
async fn stand_by(url: &str, owner: &Channel, tenant: &Tenant, time: Duration) -> Calls {
    let mut client = Client::connect_tcp(url, &tenant.secret).await;
    let (mut calls, mut texts) = (Calls::default(), Texts::new(SEED, BYTES));
    let (view, search) = (view_of(&tenant.sessions[0]), search_in(&tenant.sessions[0]));
    let began = Instant::now();
    while began.elapsed() < time {
        let session = tenant.session(owner).await;
        for _ in 0..OWN_MESSAGES {
            let append = encode(&request(&session, vec![message(texts.text())]));
            let kinds = [
                (APPEND, append, &mut calls.appends),
                (VIEW, view.clone(), &mut calls.views),
                (SEARCH, search.clone(), &mut calls.searches),
            ];
            for (method, body, latencies) in kinds {
                let begun = Instant::now();
                // A bystander that is refused tries again, and its call took that long.
                while client.call(method, body.clone()).await != 0 {}
                latencies.record(begun.elapsed());
            }
            if began.elapsed() >= time {
                break;
            }
        }
    }
    calls
}

/// Calls of the other tenant.
struct Crowd {
    /// Answers, and how many of them were refusals.
    counts: Arc<(AtomicU64, AtomicU64)>,
    is_over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Crowd {
    fn counts(&self) -> (u64, u64) {
        (self.counts.0.load(Ordering::Relaxed), self.counts.1.load(Ordering::Relaxed))
    }

    /// Ends the calls, and waits for their answers.
    async fn disperse(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("a caller");
        }
    }
}
