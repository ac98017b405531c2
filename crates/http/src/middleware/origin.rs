//! Keeps foreign web pages away, above all from a server that knows no keys.
//!
//! A browser sends requests wherever a page tells it to. Three facts in its
//! headers betray that another's page is behind a request: the name
//! it called us by (a rebound DNS name is not `localhost`), `Origin`, and
//! `Sec-Fetch-Site`.

use crate::codes::Code;
use crate::headers::SEC_FETCH_SITE;
use crate::problem::{HttpError, Result};
use crate::server::app::HostPolicy;
use crate::server::listen::role::Transport;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};
use std::net::IpAddr;

/// Whether the server answers to a name.
fn takes(policy: &HostPolicy, host: Option<&Authority>) -> bool {
    let named = match policy {
        HostPolicy::Any => return true,
        HostPolicy::LocalOnly => &[][..],
        HostPolicy::LocalAnd(names) | HostPolicy::AddressesAnd(names) => names.as_slice(),
    };
    let takes_addresses = matches!(policy, HostPolicy::AddressesAnd(_));
    host.is_some_and(|host| {
        is_local(host)
            || takes_addresses && address(host).is_some()
            || named
                .iter()
                .any(|name| name.eq_ignore_ascii_case(host.host()))
    })
}

/// Refuses requests that come from a foreign web page.
///
/// # Errors
/// It comes from one, or calls us by another name.
pub(crate) fn check(
    policy: &HostPolicy,
    transport: Transport,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<()> {
    let from_page = headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    if !from_page && (*policy == HostPolicy::Any || is_plainly_local(uri, headers)) {
        return Ok(());
    }
    let host = called_by(uri, headers);
    if !is_probe(uri) && !takes(policy, host.as_ref()) {
        return Err(HttpError::Plain(Code::ForeignHost));
    }
    for origin in headers.get_all(ORIGIN) {
        let same = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.parse::<Uri>().ok())
            .zip(host.as_ref())
            .is_some_and(|(origin, host)| is_same(&origin, transport, host));
        if !same {
            return Err(HttpError::Plain(Code::ForeignOrigin));
        }
    }
    let cross_site = headers
        .get_all(SEC_FETCH_SITE)
        .iter()
        .any(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site"));
    if cross_site {
        return Err(HttpError::Plain(Code::ForeignOrigin));
    }
    Ok(())
}

/// Whether a sign of life is asked for: by an orchestrator, which calls by
/// whatever address it has. There is nothing in the answer for a web page.
fn is_probe(uri: &Uri) -> bool {
    matches!(uri.path(), "/livez" | "/readyz")
}

/// Whether a request calls us by the plainest of local names: most do, and it
/// need not be taken apart.
fn is_plainly_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let (Some(host), None) = (only_host(headers), uri.authority()) else {
        return false;
    };
    let mut parts = host.as_bytes().split(|&byte| byte == b':');
    let name = parts.next().unwrap_or_default();
    let port = parts.next().unwrap_or(b"80");
    [&b"localhost"[..], b"127.0.0.1"].contains(&name)
        && !port.is_empty()
        && port.iter().all(u8::is_ascii_digit)
        && parts.next().is_none()
}

/// The header with the name; two are no name at all.
fn only_host(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut hosts = headers.get_all(HOST).iter();
    hosts.next().filter(|_| hosts.next().is_none())
}

/// The name in the request line goes before the header (RFC 9112, 3.2.2).
fn called_by(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let authority = match uri.authority() {
        Some(authority) => authority.clone(),
        None => only_host(headers)?.to_str().ok()?.parse().ok()?,
    };
    (!authority.as_str().contains('@')).then_some(authority)
}

fn is_local(authority: &Authority) -> bool {
    authority.host().eq_ignore_ascii_case("localhost")
        || address(authority).is_some_and(|address| address.is_loopback())
}

fn address(authority: &Authority) -> Option<IpAddr> {
    let host = authority.host();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse().ok()
}

/// Where TLS is spoken, a page that came without it is another's, whatever its
/// name: it could have been written by any host on its way.
fn is_same(origin: &Uri, transport: Transport, host: &Authority) -> bool {
    let (Some(scheme), Some(authority)) = (origin.scheme_str(), origin.authority()) else {
        return false;
    };
    let default_port = match (scheme, transport) {
        ("http", Transport::Plain) => 80,
        ("https", Transport::Plain | Transport::Tls) => 443,
        _ => return false,
    };
    authority.host().eq_ignore_ascii_case(host.host())
        && authority.port_u16().unwrap_or(default_port) == host.port_u16().unwrap_or(default_port)
}

#[cfg(test)]
mod tests;
