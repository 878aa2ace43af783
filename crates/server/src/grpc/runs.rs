//! Runs over gRPC.

use super::caller::GrpcDoor;
use super::convert::read_duration;
use super::convert::run::{prompt, read_cancel, read_list_runs, run, run_frame, session_run};
use super::convert::secret::secret_findings;
use super::convert::session::durability;
use crate::app::run_watch::RunWatch;
use crate::app::secrets::ScreenedAnswer;
use crate::pb;
use crate::pb::run_service_server::RunService;
use crate::transport::Delivery;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of runs.
pub(super) struct Runs {
    door: GrpcDoor,
}

impl Runs {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

type Frames = BoxStream<'static, Result<pb::WatchRunResponse, Status>>;

/// The stream's frames as the client takes them; an error is the last one.
fn frames(watch: RunWatch, delivery: Delivery) -> Frames {
    stream::unfold((watch, delivery), async |(mut watch, delivery)| {
        let frame = watch.next().await?;
        if let Ok(frame) = &frame {
            delivery.record_produced(Some(&frame.cursor));
        }
        Some((frame.map(run_frame).map_err(Status::from), (watch, delivery)))
    })
    .boxed()
}

#[tonic::async_trait]
impl RunService for Runs {
    type WatchRunStream = Frames;

    async fn acquire_run(
        &self,
        request: Request<pb::AcquireRunRequest>,
    ) -> Result<Response<pb::AcquireRunResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::AcquireRunRequest { session_id, lease_timeout, take_prompt, .. } = request.into_inner();
        let lease = lease_timeout.map(|lease| read_duration("lease_timeout", lease)).transpose()?;
        let acquired = caller.runs().acquire(&session_id, lease, take_prompt).await?;
        Ok(Response::new(pb::AcquireRunResponse {
            run: Some(run(acquired.run)),
            prompt: acquired.prompt.map(prompt),
            revision: acquired.receipt.revision,
            seq: acquired.receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn renew_run(&self, request: Request<pb::RenewRunRequest>) -> Result<Response<pb::RenewRunResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::RenewRunRequest { session_id, epoch, lease_timeout } = request.into_inner();
        let lease = lease_timeout.map(|lease| read_duration("lease_timeout", lease)).transpose()?;
        let renewed = caller.runs().renew(&session_id, epoch, lease).await?;
        let durability = durability(caller.durability()).into();
        Ok(Response::new(pb::RenewRunResponse { run: Some(run(renewed)), durability }))
    }

    async fn release_run(
        &self,
        request: Request<pb::ReleaseRunRequest>,
    ) -> Result<Response<pb::ReleaseRunResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::ReleaseRunRequest { session_id, epoch, failure, .. } = request.into_inner();
        let ScreenedAnswer { answer: (ended, receipt), secrets } =
            caller.runs().release(&session_id, epoch, failure).await?;
        Ok(Response::new(pb::ReleaseRunResponse {
            secret_findings: secret_findings(secrets),
            run: Some(run(ended)),
            revision: receipt.revision,
            seq: receipt.seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let request = request.into_inner();
        let runs = caller.runs().cancel(&request.session_id, read_cancel(&request)).await?;
        Ok(Response::new(pb::CancelRunResponse {
            runs: runs.into_iter().map(run).collect(),
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn get_run(&self, request: Request<pb::GetRunRequest>) -> Result<Response<pb::GetRunResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let found = caller.runs().of_session(&request.into_inner().session_id).await?;
        Ok(Response::new(session_run(found)))
    }

    async fn list_runs(&self, request: Request<pb::ListRunsRequest>) -> Result<Response<pb::ListRunsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let (runs, next_page_token) = caller.runs().list(read_list_runs(request.into_inner())).await?;
        Ok(Response::new(pb::ListRunsResponse { runs: runs.into_iter().map(run).collect(), next_page_token }))
    }

    async fn watch_run(&self, request: Request<pb::WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::WatchRunRequest { session_id, epoch, after_cursor } = request.into_inner();
        let watch = caller.runs().watch(&session_id, epoch, &after_cursor).await?;
        let delivery = Delivery::resumable();
        let mut response = Response::new(frames(watch, delivery.clone()));
        response.extensions_mut().insert(delivery);
        Ok(response)
    }
}
