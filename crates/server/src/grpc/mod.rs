//! The API over gRPC: the services, the callers, and the conversion of requests and answers.
//!
//! No decisions are made here. A method converts its request into domain types, calls `app`, and converts the answer.

mod access;
mod admin;
mod approvals;
mod archives;
mod backup;
mod caller;
mod compactions;
mod views;
mod convert;
mod erase;
mod guard;
mod events;
mod messages;
mod prompts;
mod runs;
pub mod scopes;
mod search;
mod service;
mod sessions;
mod side_calls;
mod status;
mod summary_tasks;
#[cfg(test)]
mod tests;
pub mod wire;

pub use guard::{Backend, GuardedServices, PASSED_ON, Services, access, authenticate};
pub use service::{answer, class, is_grpc, trailers};
pub use status::refuse;

use crate::app::Longhand;
use crate::app::entrance::Entrance;
use crate::app::sessions::SessionInfo;
use crate::limits;
use crate::model::message::Message;
use crate::model::session::Session;
use crate::pb;
use crate::traffic::RequestMemory;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The names with a health status: the daemon as a whole, and each service.
const HEALTH_NAMES: [&str; 15] = [
    "",
    pb::session_service_server::SERVICE_NAME,
    pb::message_service_server::SERVICE_NAME,
    pb::view_service_server::SERVICE_NAME,
    pb::compaction_service_server::SERVICE_NAME,
    pb::summary_task_service_server::SERVICE_NAME,
    pb::run_service_server::SERVICE_NAME,
    pb::prompt_service_server::SERVICE_NAME,
    pb::approval_service_server::SERVICE_NAME,
    pb::event_service_server::SERVICE_NAME,
    pb::search_service_server::SERVICE_NAME,
    pb::erase_service_server::SERVICE_NAME,
    pb::admin_service_server::SERVICE_NAME,
    pb::access_service_server::SERVICE_NAME,
    pb::archive_service_server::SERVICE_NAME,
];

macro_rules! limited {
    ($server:ty, $service:expr) => {
        <$server>::new($service)
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(limits::REQUEST_BYTES_MAX)
            .max_encoding_message_size(limits::RESPONSE_BYTES_MAX)
    };
}

/// The services of one store behind the guard, as [`guard_services`] has them.
pub async fn router(app: Longhand) -> (GuardedServices, HealthReporter) {
    let entrance = app.entrance().clone();
    guard_services(Arc::new(services(app)), entrance).await
}

/// What answers calls behind the guard, with health and reflection, and the handle that reports to health that the daemon
/// stops.
///
/// # Panics
///
/// If the descriptors that were compiled into the program cannot be read, which no input can cause.
pub async fn guard_services(backend: Arc<dyn Backend>, entrance: Arc<Entrance>) -> (GuardedServices, HealthReporter) {
    let (reporter, health) = tonic_health::server::health_reporter();
    for name in HEALTH_NAMES {
        reporter.set_service_status(name, ServingStatus::Serving).await;
    }
    let descriptors = pb::DESCRIPTORS.encode_to_vec();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(&descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let small = limits::SIDE_REQUEST_BYTES_MAX;
    let reflection_v1 = reflection().build_v1().expect("the build wrote these descriptors");
    // Many tools still use the older name.
    let reflection_v1alpha = reflection().build_v1alpha().expect("the build wrote these descriptors");
    let own = Services::default()
        .with(health.max_decoding_message_size(small))
        .with(reflection_v1.max_decoding_message_size(small))
        .with(reflection_v1alpha.max_decoding_message_size(small));
    (GuardedServices::new(own, backend, entrance), reporter)
}

/// The services of a store.
pub fn services(app: Longhand) -> Services {
    pb::codec::bound_memory(RequestMemory::grow);
    let door = caller::GrpcDoor::new(app);
    Services::default()
        .with(limited!(pb::session_service_server::SessionServiceServer<_>, sessions::Sessions::new(door.clone())))
        .with(limited!(pb::message_service_server::MessageServiceServer<_>, messages::Messages::new(door.clone())))
        .with(limited!(pb::view_service_server::ViewServiceServer<_>, views::Views::new(door.clone())))
        .with(limited!(
            pb::compaction_service_server::CompactionServiceServer<_>,
            compactions::Compactions::new(door.clone())
        ))
        .with(limited!(
            pb::summary_task_service_server::SummaryTaskServiceServer<_>,
            summary_tasks::SummaryTasks::new(door.clone())
        ))
        .with(limited!(pb::run_service_server::RunServiceServer<_>, runs::Runs::new(door.clone())))
        .with(limited!(pb::prompt_service_server::PromptServiceServer<_>, prompts::Prompts::new(door.clone())))
        .with(limited!(pb::approval_service_server::ApprovalServiceServer<_>, approvals::Approvals::new(door.clone())))
        .with(limited!(pb::search_service_server::SearchServiceServer<_>, search::Search::new(door.clone())))
        .with(limited!(pb::event_service_server::EventServiceServer<_>, events::Events::new(door.clone())))
        .with(limited!(pb::archive_service_server::ArchiveServiceServer<_>, archives::Archives::new(door.clone())))
        .with(limited!(pb::erase_service_server::EraseServiceServer<_>, erase::Erasures::new(door.clone())))
        .with(limited!(pb::access_service_server::AccessServiceServer<_>, access::Access::new(door.clone())))
        .with(limited!(pb::admin_service_server::AdminServiceServer<_>, admin::Admin::new(door)))
}

/// The services that write, and the daemon as a whole: only a restart repairs a store that takes no more writes.
const WRITING_NAMES: [&str; 11] = [
    "",
    pb::session_service_server::SERVICE_NAME,
    pb::message_service_server::SERVICE_NAME,
    pb::compaction_service_server::SERVICE_NAME,
    pb::summary_task_service_server::SERVICE_NAME,
    pb::run_service_server::SERVICE_NAME,
    pb::prompt_service_server::SERVICE_NAME,
    pb::approval_service_server::SERVICE_NAME,
    pb::erase_service_server::SERVICE_NAME,
    pb::access_service_server::SERVICE_NAME,
    pb::archive_service_server::SERVICE_NAME,
];

/// Keeps health up to date until the daemon stops. Compactions are not serving while the scheduler cannot read the
/// store. The services that write are not serving once the store takes no more writes before a restart; services that
/// only read continue. A full disk and a read-only file system do not change health: a restart repairs neither, and
/// writes resume by themselves.
pub async fn report_health(reporter: HealthReporter, app: Longhand, stopping: CancellationToken) {
    let mut scheduler = app.scheduler_health();
    let mut writes_stopped = std::pin::pin!(app.writes_stopped());
    loop {
        let status = match scheduler.borrow_and_update().failure {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        };
        reporter.set_service_status(pb::compaction_service_server::SERVICE_NAME, status).await;
        tokio::select! {
            () = stopping.cancelled() => return,
            cause = &mut writes_stopped => {
                tracing::error!(cause = cause.as_str(), "health reports that the services that write do not serve");
                for name in WRITING_NAMES {
                    reporter.set_service_status(name, ServingStatus::NotServing).await;
                }
                return;
            }
            changed = scheduler.changed() => if changed.is_err() { return },
        }
    }
}

/// Reports to health whether the daemon serves.
pub async fn report_serving(reporter: &HealthReporter, serves: bool) {
    let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
    for name in HEALTH_NAMES {
        reporter.set_service_status(name, status).await;
    }
}

/// Reports to health that the daemon stops, and ends the watches of health: a watch has no end of its own, and would
/// delay the daemon's end.
pub async fn not_serving(reporter: &HealthReporter) {
    let mut reporter = reporter.clone();
    for name in HEALTH_NAMES {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
        reporter.clear_service_status(name).await;
    }
}

/// A stored message, for a command that works without a daemon.
pub fn stored_message(message: Message) -> pb::Message {
    convert::message::message(message)
}

/// A stored session without its policy, for a command that works without a daemon.
pub fn stored_session(session: Session) -> pb::Session {
    convert::session::session(SessionInfo {
        session,
        policy_json: String::new(),
        over_window: None,
        thresholds: Vec::new(),
        provider_compaction: None,
    })
}
