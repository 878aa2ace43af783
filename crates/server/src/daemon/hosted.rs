//! A store that runs: its scheduler, its background work, and the API over it.

use super::Error;
use crate::app::entrance::Entrance;
use crate::app::quotas::Quota;
use crate::app::retention::{RetentionRule, RetentionTimes};
use crate::app::{self, DefaultPolicy, Longhand};
use crate::clock::Clock;
use crate::config::{self, Config, PolicyRule};
use crate::grpc;
use crate::limits;
use crate::policy::bpe::Vocabulary;
use crate::policy::models::Models;
use crate::scheduler::{self, Scheduler};
use crate::search;
use crate::secrets::Rules;
use crate::store::{self, Store, WriteState};
use crate::summarizer::Levels;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What every store of a daemon runs with.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) config: Arc<Config>,
    pub(super) clock: Clock,
    pub(super) summarizers: Levels,
    pub(super) vocabularies: Vec<Arc<Vocabulary>>,
    pub(super) models: Arc<Models>,
    pub(super) secret_rules: Option<Arc<Rules>>,
    pub(super) entrance: Arc<Entrance>,
    /// Cancelled when the daemon stops.
    pub(super) stopping: CancellationToken,
    /// The part of the memory for loaded sessions that one store has.
    pub(super) loaded_bytes: usize,
}

/// A store that runs.
pub(super) struct HostedStore {
    pub(super) app: Longhand,
    pub(super) services: Arc<grpc::Services>,
    stopping: CancellationToken,
    scheduling: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl HostedStore {
    /// Runs a store that was opened, with its writer. If that fails, nothing of it runs on: a writer that goes on would keep
    /// a shard from everybody.
    pub(super) async fn start(
        (store, writer): (Store, impl Future<Output = ()> + Send + 'static),
        setup: &Setup,
    ) -> Result<Self, Error> {
        let Setup { config, clock, summarizers, vocabularies, models, secret_rules, entrance, stopping, loaded_bytes } =
            setup.clone();
        let writer = tokio::spawn(writer);
        let stopping = stopping.child_token();
        let scheduler = Scheduler::new(
            store.clone(),
            clock.clone(),
            summarizers,
            scheduler::Options {
                workers: NonZeroUsize::new(config.workers).unwrap_or(NonZeroUsize::MIN),
                vocabularies: vocabularies.clone(),
                client_wait: Duration::from_secs(config.summarizer.client_wait_seconds),
                hooks: config.hooks.clone(),
                loaded_bytes,
            },
        );
        let options = app::Options {
            default_preset: config.default_preset.clone(),
            defaults: config.policies.iter().map(default_policy).collect(),
            vocabularies,
            models,
            entrance,
            stopping: stopping.clone(),
        };
        let app = Longhand::new(store.clone(), scheduler.handle(), &clock, options);
        let quotas = config.tenants.iter().map(quota).collect();
        let prepared = async {
            if let Some(rules) = secret_rules {
                store.apply_secret_rules(rules)?;
            }
            app.hold_to_quotas(quotas).await.map_err(Error::Quotas)?;
            if config.search {
                // It reads files, and asks a database that may be long in answering.
                let (of, clock) = (store.clone(), clock.clone());
                let open = move || search::Service::open(of, clock, search::Options::default());
                let opened = tokio::task::spawn_blocking(open).await;
                return Ok(Some(opened.map_err(|error| store::Error::Open(error.to_string()))??));
            }
            store.search().remove()?;
            Ok(None)
        };
        let searching = match prepared.await {
            Ok(searching) => searching,
            Err(error) => {
                drop((app, scheduler));
                end(store, writer).await;
                return Err(error);
            }
        };
        tokio::spawn(store.upkeep().clone().scrub(scrub(config.scrub), clock.clone(), stopping.clone()));
        tokio::spawn(app.clone().finish_erasures(Duration::from_millis(limits::ERASE_LOOK_MS)));
        app.set_retention(config.retention.iter().map(retention_rule).collect());
        tokio::spawn(app.clone().retain(RetentionTimes::default(), stopping.clone()));
        let scheduling = tokio::spawn(scheduler.run(stopping.clone()));
        if let Some(searching) = searching {
            tokio::spawn(searching.run(stopping.clone()));
        }
        let services = Arc::new(grpc::services(app.clone()));
        Ok(Self { app, services, stopping, scheduling, writer })
    }

    /// Resolves when the store is this daemon's no more; never for one in files, which is read then.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let store = self.app.store().clone();
        async move {
            let state = store.stopped().await;
            if !store.is_leased() || state != WriteState::LeaseLost {
                drop(store);
                std::future::pending().await
            }
        }
    }

    /// Waits, for a bounded time, until the scheduler has stopped and the writer has written everything in its queue.
    pub(super) async fn stop(self) {
        let Self { app, services, stopping, scheduling, writer } = self;
        stopping.cancel();
        let limit = Duration::from_millis(limits::DRAIN_MS_MAX);
        if tokio::time::timeout(limit, scheduling).await.is_err() {
            tracing::warn!("a compaction did not stop in time; it is taken up again at the next start");
        }
        let store = app.store().clone();
        drop((app, services));
        end(store, writer).await;
    }
}

/// Ends a store. Its writer ends when nobody holds it any more; as the last connection to files it copies the log into the
/// database. What still holds a shard, such as an answer that its client does not take, or the search index, which lets all
/// other threads go first, keeps it from others for a moment only.
async fn end(store: Store, mut writer: JoinHandle<()>) {
    let is_leased = store.is_leased();
    let ending = store.close();
    if is_leased {
        if tokio::time::timeout(Duration::from_millis(limits::STOP_CLIENTS_MS), &mut writer).await.is_ok() {
            return;
        }
        ending.end();
    }
    if tokio::time::timeout(Duration::from_millis(limits::DRAIN_MS_MAX), &mut writer).await.is_err() {
        tracing::warn!("somebody still holds the store, or it is not written in time");
        writer.abort();
    }
}

/// The policy of sessions that name no preset, from the configuration.
fn default_policy(rule: &PolicyRule) -> DefaultPolicy {
    DefaultPolicy {
        model: rule.model.clone(),
        project: rule.project.clone(),
        preset: rule.preset.clone(),
        override_json: rule.override_json(),
    }
}

fn scrub(scrub: config::Scrub) -> store::ScrubOptions {
    let interval = Duration::from_secs(scrub.interval_hours * 3_600);
    store::ScrubOptions {
        bytes_per_second: scrub.mib_per_second << 20,
        interval: (!interval.is_zero()).then_some(interval),
    }
}

fn retention_rule(rule: &config::RetentionRule) -> RetentionRule {
    let days = |days: Option<u32>| days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
    let config::RetentionRule { name, tenant, label, max_age_days, max_idle_days, max_bytes } = rule.clone();
    RetentionRule {
        name,
        tenant: tenant.map(|tenant| if tenant == config::DEFAULT_TENANT { String::new() } else { tenant }),
        label,
        age: days(max_age_days),
        idle: days(max_idle_days),
        bytes: max_bytes,
    }
}

fn quota((name, quota): (&String, &config::TenantQuota)) -> (String, Quota) {
    let bound = |limit: Option<u64>| limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let content = store::ContentQuota {
        sessions: bound(quota.sessions),
        bytes: bound(quota.bytes),
        summary_tokens: bound(quota.summary_tokens_per_day),
        summary_cost_micros: bound(quota.summary_micro_usd_per_day),
    };
    let config::TenantQuota { appends_per_second, streams, .. } = *quota;
    let tenant = if name == config::DEFAULT_TENANT { "" } else { name };
    (tenant.to_owned(), Quota { appends_per_second, streams, content })
}
