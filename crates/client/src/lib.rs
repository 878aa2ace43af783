//! A client of Longhand, the session store that LLM agents share.
//!
//! ```no_run
//! use longhand_client::{Client, message, v1};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> longhand_client::Result<()> {
//!     // The daemon of this machine's user, or the one that LONGHAND_SERVER names.
//!     let client = Client::connect("first-agent").await?;
//!     let mut session = client.open_session("sums", v1::CreateSessionRequest::default()).await?;
//!     session.append([message::user("What is 2 + 2?")]).await?;
//!
//!     // What your model should see now. The next time, only what changed is sent.
//!     let view = session.view().await?;
//!     println!("{} messages, {} tokens", view.messages.len(), view.header.context_tokens);
//!
//!     // Its reply, as it comes.
//!     let role = v1::Role::Assistant.into();
//!     let mut reply = session.reply(v1::NewMessage { role, ..Default::default() }).await?;
//!     for word in ["It is ", "4."] {
//!         reply.text(word).await?;
//!     }
//!     let usage = v1::Usage { input_tokens: 12, output_tokens: 3, ..Default::default() };
//!     reply.finish(Some(usage)).await?;
//!
//!     // What happened, from the first event on. A restart of the daemon does not end it.
//!     let mut events = session.events();
//!     while let Some(event) = events.next().await? {
//!         println!("{} {}", event.revision, event.kind().as_str_name());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`Client::call`] takes every request of the protocol ([`v1`]) that has one answer, [`Client::stream`] those with a stream
//! of answers. What most programs need has a method of its own.
//!
//! # Calls that are sent again
//!
//! A call is sent again while its failure is temporary ([`Error::is_temporary`]): the connection is lost, or the daemon's
//! reason says that the same call can succeed later. The first attempts come after 50 milliseconds, later ones up to 2
//! seconds apart, or when the daemon wants them, for 30 seconds in all ([`Client::with_retry`], [`Client::with_timeout`]).
//!
//! A change is then carried out once: it gets a `request_id`, with which the daemon gives the first answer again. What takes
//! none is done once by its `client_id`, or by what it says. The few calls that would make something else each time, such as
//! a session without a client id, are sent again only when it is certain that nothing was written.
//!
//! # Errors
//!
//! [`Error`] says whether the daemon refused the call, and then with which stable [`Reason`] and which facts:
//!
//! ```no_run
//! # use longhand_client::{Client, Reason, v1};
//! # async fn example(client: Client) -> longhand_client::Result<()> {
//! let request = v1::GetSessionRequest { session_id: "unknown".to_owned() };
//! match client.call(request).await {
//!     Err(error) if error.reason() == Some(Reason::SessionNotFound) => println!("{:?}", error.metadata("session_id")),
//!     answer => println!("{:?}", answer?.session),
//! }
//! # Ok(())
//! # }
//! ```

pub mod address;
mod attempts;
mod body;
mod client;
mod connection;
mod error;
mod events;
mod follow;
mod ids;
pub mod message;
mod pages;
mod repeat;
mod reply;
mod session;
mod socket;
mod stream;
pub mod target;
mod view;

pub use address::Address;
pub use client::{Client, VERSION};
pub use error::{Error, Refusal, Result};
pub use events::Events;
pub use follow::{Follow, Resume};
pub use longhand_protocol as v1;
pub use longhand_protocol::reason::{Outcome, Reason};
pub use pages::Pages;
pub use reply::Reply;
pub use session::Session;
pub use stream::Stream;
pub use target::Target;
pub use view::View;
