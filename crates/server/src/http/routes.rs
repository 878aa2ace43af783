//! The table of routes: what the HTTP rules of the protocol's descriptor say, RPC by RPC.

use super::template::{MalformedTemplate, RequestPath, Template};
use crate::app;
use http::Method;
use http::uri::PathAndQuery;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MethodDescriptor};

/// An RPC under one of its HTTP rules.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) rpc: MethodDescriptor,
    /// The RPC's path over gRPC.
    pub(super) grpc_path: PathAndQuery,
    pub(super) method: Method,
    pub(super) template: Template,
    pub(super) body: BodyRule,
}

/// What a request's body is.
#[derive(Debug, Clone)]
pub(super) enum BodyRule {
    /// No body: fields that are not in the path are query parameters.
    Empty,
    /// All fields that are not in the path.
    Whole,
    /// One field; the others are query parameters.
    Field(FieldDescriptor),
}

/// The routes.
#[derive(Debug)]
pub(super) struct RouteTable {
    routes: Vec<Route>,
}

/// The result of a look-up.
#[derive(Debug)]
pub(super) enum RouteMatch<'a> {
    /// The route, and the values of its variables by field.
    Route(&'a Route, Vec<(&'a str, String)>),
    /// Routes of this path have other methods.
    OtherMethods(Vec<&'a Method>),
    /// No route has this path.
    Nothing,
}

/// A rule that cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The descriptor has no `google.api.http`.
    #[error("the descriptor does not declare google.api.http")]
    Undeclared,
    /// A stream of requests has a rule, and HTTP has no such calls.
    #[error("{0} takes a stream, and cannot have an HTTP rule")]
    Streamed(String),
    /// An RPC has no rule, or one without a known method.
    #[error("{0} has no HTTP rule with a known method")]
    Missing(String),
    /// The template cannot be used.
    #[error("{0}: {1}")]
    Template(String, MalformedTemplate),
    /// A template or a body names what the request does not have, or cannot have there.
    #[error("{rpc}: {field:?} is no field that can be there")]
    Field {
        /// The RPC.
        rpc: String,
        /// The field.
        field: String,
    },
    /// One path with one method would be two RPCs.
    #[error("{0} and {1} have the same path and method")]
    Collision(String, String),
}

/// The fields of `google.api.HttpRule` that name a method.
const METHODS: [(&str, Method); 5] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("patch", Method::PATCH),
];

impl RouteTable {
    /// Reads the rules of all RPCs in the pool.
    ///
    /// # Errors
    ///
    /// The first rule that is missing, cannot be used, or collides with another one. A call that takes a stream has none.
    pub(super) fn from_pool(pool: &DescriptorPool) -> Result<Self, Error> {
        let extension = pool.get_extension_by_name("google.api.http").ok_or(Error::Undeclared)?;
        let mut routes: Vec<Route> = Vec::new();
        for rpc in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let options = rpc.options();
            let rule = options.get_extension(&extension);
            let rule = rule.as_message().filter(|_| options.has_extension(&extension));
            if rpc.is_client_streaming() {
                // Its calls of one request each, which have rules, are for clients over HTTP.
                match rule {
                    None => continue,
                    Some(_) => return Err(Error::Streamed(rpc.full_name().to_owned())),
                }
            }
            let rule = rule.ok_or_else(|| Error::Missing(rpc.full_name().to_owned()))?;
            routes.push(Route::from_rule(&rpc, rule)?);
            if let Some(more) = rule.get_field_by_name("additional_bindings") {
                for rule in more.as_list().unwrap_or_default().iter().filter_map(|rule| rule.as_message()) {
                    routes.push(Route::from_rule(&rpc, rule)?);
                }
            }
        }
        for (at, route) in routes.iter().enumerate() {
            let collides = |other: &&Route| other.method == route.method && other.template.overlaps(&route.template);
            if let Some(other) = routes[..at].iter().find(collides) {
                let [left, right] = [other, route].map(|route| route.rpc.full_name().to_owned());
                return Err(Error::Collision(left, right));
            }
        }
        // A verb is tried before a variable that would take it as part of its value.
        routes.sort_by_key(|route| !route.template.has_verb());
        Ok(Self { routes })
    }

    /// The routes, in no order that means anything.
    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The route of a request.
    ///
    /// # Errors
    ///
    /// `REQUEST_MALFORMED` for a path whose escapes are no UTF-8.
    pub(super) fn find(&self, method: &Method, path: &str) -> app::Result<RouteMatch<'_>> {
        let path = RequestPath::parse(path)?;
        let mut others: Vec<&Method> = Vec::new();
        for route in &self.routes {
            let Some(variables) = route.template.variables(&path) else { continue };
            if route.method == method {
                return Ok(RouteMatch::Route(route, variables));
            }
            others.push(&route.method);
        }
        others.sort_unstable_by_key(|method| method.as_str());
        others.dedup();
        Ok(if others.is_empty() { RouteMatch::Nothing } else { RouteMatch::OtherMethods(others) })
    }
}

impl Route {
    fn from_rule(rpc: &MethodDescriptor, rule: &DynamicMessage) -> Result<Self, Error> {
        let name = || rpc.full_name().to_owned();
        let text = |field: &str| {
            let value = rule.get_field_by_name(field);
            value.and_then(|value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
        };
        let pattern = METHODS.iter().find_map(|(field, method)| Some((method, text(field)?)));
        let (method, template) = pattern.ok_or_else(|| Error::Missing(name()))?;
        let template = Template::parse(&template).map_err(|cause| Error::Template(name(), cause))?;
        let unusable = |field: &str| Error::Field { rpc: name(), field: field.to_owned() };
        for field in template.fields() {
            let found = field_at(rpc, field).filter(|found| !found.is_list() && found.kind().as_message().is_none());
            found.ok_or_else(|| unusable(field))?;
        }
        let body = match text("body").as_deref() {
            None => BodyRule::Empty,
            Some("*") => BodyRule::Whole,
            Some(field) => {
                let found = rpc.input().get_field_by_name(field).filter(|found| !found.is_list() && !found.is_map());
                let found = found.filter(|found| found.kind().as_message().is_some());
                BodyRule::Field(found.ok_or_else(|| unusable(field))?)
            }
        };
        let path = format!("/{}/{}", rpc.parent_service().full_name(), rpc.name());
        let grpc_path = PathAndQuery::try_from(path).map_err(|_| Error::Missing(name()))?;
        Ok(Self { rpc: rpc.clone(), grpc_path, method: method.clone(), template, body })
    }
}

/// The field of an RPC's request at a path of names.
fn field_at(rpc: &MethodDescriptor, path: &str) -> Option<FieldDescriptor> {
    let mut message = rpc.input();
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let field = message.get_field_by_name(name)?;
        match field.kind() {
            _ if names.peek().is_none() => return Some(field),
            Kind::Message(inner) if !field.is_list() && !field.is_map() => message = inner,
            _ => return None,
        }
    }
    None
}
