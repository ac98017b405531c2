//! What the caller may do.

use crate::access::Scope;
use crate::answer::json;
use crate::extract::NoQuery;
use crate::problem::Result;
use crate::server::principal::Principal;
use axum::Extension;
use serde::Serialize;

/// What the API key of a request allows.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct CallerBody {
    /// Name of the key; null on a server without keys.
    key_name: Option<String>,
    /// Its scope: `read`, `write` or `admin`; on a server without keys every caller is `admin`.
    scope: &'static str,
    /// Whether it may fetch dumps, which hold the secret key of a filter's hash.
    export: bool,
    /// The only filters that it may know of are those whose keys start with this; null: all.
    prefix: Option<String>,
}

#[cfg(test)]
pub(crate) fn example() -> serde_json::Value {
    serde_json::json!(CallerBody {
        key_name: Some("shop".to_owned()),
        scope: Scope::Write.name(),
        export: false,
        prefix: Some("shop:".to_owned()),
    })
}

/// `GET /caller`.
pub(crate) async fn get_caller(Extension(caller): Extension<Principal>, _: NoQuery) -> Result {
    let key = caller.key();
    json(&CallerBody {
        key_name: caller.name().map(str::to_owned),
        scope: key.map_or(Scope::Admin, |key| key.scope).name(),
        export: caller.may_export(),
        prefix: caller.prefix().map(|prefix| prefix.to_string()),
    })
}
