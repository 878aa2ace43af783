//! Scopes on the wire, and the scope that each method declares.

use super::codec::POOL;
use super::generated::Scope as Wire;
use crate::model::access::Scope;
use std::collections::HashMap;

/// A scope from the wire; none for none.
pub fn read_scope(scope: Wire) -> Option<Scope> {
    Some(match scope {
        Wire::Unspecified => return None,
        Wire::Read => Scope::Read,
        Wire::Write => Scope::Write,
        Wire::Compact => Scope::Compact,
        Wire::Erase => Scope::Erase,
        Wire::Admin => Scope::Admin,
    })
}

/// A scope on the wire.
pub fn scope(scope: Scope) -> Wire {
    match scope {
        Scope::Read => Wire::Read,
        Scope::Write => Wire::Write,
        Scope::Compact => Wire::Compact,
        Scope::Erase => Wire::Erase,
        Scope::Admin => Wire::Admin,
    }
}

/// The scope of every method that declares one, by the method's path.
///
/// # Panics
///
/// If the descriptors that were compiled into the program cannot be read, which no input can cause.
pub fn scopes() -> HashMap<String, Scope> {
    let extension = POOL.get_extension_by_name("longhand.v1.scope").expect("the protos declare it");
    let methods = POOL.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let declared = methods.filter_map(|method| {
        let number = method.options().get_extension(&extension).as_enum_number()?;
        let scope = read_scope(Wire::try_from(number).ok()?)?;
        Some((format!("/{}/{}", method.parent_service().full_name(), method.name()), scope))
    });
    declared.collect()
}
