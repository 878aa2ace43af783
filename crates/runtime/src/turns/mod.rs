//! Turns: whose call is worked on next.
//!
//! Calls are worked on a few at a time. Those that wait take turns by tenant, those of a tenant by access token, and
//! those of a token in their order. A call has its turn for as long as it computes or reads, and passes it on whenever
//! it waits for something else: a commit, an event, its client. One call of each tenant has a turn whatever others do,
//! and while there are several tenants all other calls share half of the processors: what a machine works on at the
//! same time delays everybody. So thousands of calls of one token delay another tenant little. The readers and the
//! writer of a store, for which calls wait as well, take turns in the same way, by the share of the call that asks.

mod calls;
mod gate;
mod queue;
mod room;
mod share;

pub use calls::{Steps, Turn, Turns};
pub use calls::{is_call, share, spawn};
pub use gate::{Gate, Pass};
pub use queue::Queue;
pub use room::{Room, TakenRoom};
pub use share::Share;
pub use share::Tenant;
