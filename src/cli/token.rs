//! `longhand token`: makes, lists and revokes access tokens.

use super::Globals;
use super::failure::Usage;
use super::output::{self, DIMMED, PLAIN, one_line};
use super::table::{Column, Table};
use super::times;
use crate::clock::Clock;
use crate::grpc::scopes;
use crate::grpc::wire;
use crate::model::access::Scope;
use crate::model::time::Timestamp;
use crate::pb;
use std::process::ExitCode;

/// Placeholder for a missing value.
const ABSENT: &str = "-";

/// Prefix of the ids of access tokens.
const PREFIX: &str = "tok_";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create an access token, and print its secret, which nothing prints again
    Create(CreateArguments),
    /// List the access tokens, oldest first
    List,
    /// Revoke an access token: calls with it are refused from now on, and its streams end
    Revoke {
        /// Id of the access token, as `longhand token list` prints it, or the principal, if it has one valid token only
        token: String,
    },
}

#[derive(Debug, clap::Args)]
struct CreateArguments {
    /// The principal that it proves: the author of what is changed with it
    principal: String,
    /// What its holder may do: read, write, compact, erase, admin
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = "read,write,compact")]
    scopes: Vec<Scope>,
    /// Tenant whose sessions it opens; default: your own
    #[arg(long = "of-tenant", value_name = "NAME")]
    of_tenant: Option<String>,
    /// Binds it to the sessions of this project, by the `project` of their metadata
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Binds it to this session and those below it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// End of its validity: a time from now such as 12h or 30d, a date, or RFC 3339; default: none
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Create(arguments) => create(globals, arguments).await,
        Command::List => list(globals).await,
        Command::Revoke { token } => revoke(globals, token).await,
    }
}

/// The instant at which a token ends: an age counts from now on.
fn end(text: &str, now: Timestamp) -> Result<Timestamp, Usage> {
    let instant = times::instant(text, now)?;
    let is_age = text.parse::<jiff::Span>().is_ok();
    Ok(if is_age { Timestamp(now.0.saturating_add(now.0 - instant.0)) } else { instant })
}

async fn create(globals: &Globals, arguments: CreateArguments) -> anyhow::Result<ExitCode> {
    let now = Clock::default().now();
    let expires = arguments.expires.map(|text| end(&text, now)).transpose()?;
    let request = pb::CreateAccessTokenRequest {
        principal: arguments.principal,
        tenant: arguments.of_tenant,
        scopes: arguments.scopes.iter().map(|one| scopes::scope(*one).into()).collect(),
        project: arguments.project,
        root_session_id: arguments.session,
        expire_time: expires.map(wire::timestamp),
    };
    let created = globals.client().await?.call(request).await?;
    let mut output = globals.output();
    if output.json() {
        output.message(&created)?
    } else {
        output.line(&created.secret)?
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn list(globals: &Globals) -> anyhow::Result<ExitCode> {
    let listed = globals.client().await?.call(pb::ListAccessTokensRequest {}).await?;
    let mut output = globals.output();
    if output.json() {
        listed.access_tokens.iter().try_for_each(|token| output.message(token))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let state_style = |state: &str| if state == "valid" { PLAIN } else { DIMMED };
    let columns = [
        Column::word("TOKEN"),
        Column::text("PRINCIPAL"),
        Column::word("STATE").styled(state_style),
        Column::word("SCOPES"),
        Column::text("BOUND TO").optional(1),
        Column::word("TENANT").optional(2),
        Column::word("CREATED").optional(3),
        Column::word("EXPIRES").optional(4),
    ];
    let mut table = Table::new(&columns);
    let now = Clock::default().now();
    let times = Globals::times(&output);
    for token in listed.access_tokens {
        let scopes: Vec<String> = token.scopes().map(|scope| output::word(scope.as_str_name(), "SCOPE_")).collect();
        let bound = [token.project.as_deref(), token.root_session_id.as_deref()].into_iter().flatten();
        let bound: Vec<&str> = bound.collect();
        let state = match (&token.revoke_time, is_over(&token, now)) {
            (Some(_), _) => "revoked",
            (None, true) => "over",
            (None, false) => "valid",
        };
        let or_absent = |text: &str| if text.is_empty() { ABSENT.to_owned() } else { one_line(text) };
        table.row(vec![
            token.access_token_id.clone(),
            one_line(&token.principal),
            state.to_owned(),
            scopes.join(","),
            or_absent(&bound.join(" ")),
            or_absent(&token.tenant),
            times.text(token.create_time.as_ref()),
            token.expire_time.as_ref().map_or_else(|| ABSENT.to_owned(), |end| output::time(Some(end))),
        ]);
    }
    table.print(&mut output)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// True for a token whose time is over.
fn is_over(token: &pb::AccessToken, now: Timestamp) -> bool {
    token.expire_time.as_ref().is_some_and(|end| end.seconds <= now.0 / 1_000_000)
}

async fn revoke(globals: &Globals, token: String) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut ids = Vec::new();
    if !token.starts_with(PREFIX) {
        let listed = client.call(pb::ListAccessTokensRequest {}).await?;
        let now = Clock::default().now();
        let is_valid = |one: &pb::AccessToken| one.revoke_time.is_none() && !is_over(one, now);
        let of_principal = |one: &pb::AccessToken| one.principal == token && is_valid(one);
        ids.extend(listed.access_tokens.into_iter().filter(of_principal).map(|one| one.access_token_id));
    }
    if ids.len() > 1 {
        return Err(
            Usage(format!("{token:?} has several tokens, of which one must be named: {}", ids.join(", "))).into()
        );
    }
    let request = pb::RevokeAccessTokenRequest { access_token_id: ids.pop().unwrap_or(token) };
    let revoked = client.call(request).await?;
    let mut output = globals.output();
    if output.json() {
        output.message(&revoked)?;
    } else {
        let token = revoked.access_token.unwrap_or_default();
        output.line(&format!("revoked {} of {}", token.access_token_id, one_line(&token.principal)))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_time_from_now_and_a_date_is_itself() {
        let now = Timestamp(1_800_000_000_000_000);
        assert_eq!(end("2h", now), Ok(Timestamp(now.0 + 7_200_000_000)));
        assert_eq!(end("2027-01-15", now).map(|end| end.0 % 86_400_000_000), Ok(0));
        assert!(end("soon", now).is_err());
    }
}
