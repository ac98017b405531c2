//! The only route table, and the layers around it.

use super::assets::{Asset, Assets};
use super::cluster::{commands, internal};
use super::handlers::{
    backups, caller, clock, compaction, dumps, filters, history, imports, items, locate, lookup,
    merge, operations, preview, values,
};
use super::layer::MiddlewareLayer;
use super::media::JSON;
use super::middleware::auth::AuthLayer;
use super::middleware::coding::{compressed, unpacked};
use super::middleware::errors::ErrorLayer;
use super::openapi::OPENAPI_DOCUMENT;
use super::problem::Result;
use super::requirement::{ADMIN, OPEN, Operations, READ, RouteRequirement, WRITE};
use super::{console, docs};
use crate::server::App;
use crate::server::listen::role::{ListenerRole, Transport};
use axum::Router;
use axum::handler::Handler;
use axum::http::{HeaderMap, Method};
use axum::routing::{MethodFilter, any, on};
use std::collections::HashMap;
use std::sync::Arc;
use tower::layer::layer_fn;

/// Everything that is for operators.
const ADMINISTRATION: &str = "/admin/{*rest}";

/// Every operation that the API has.
#[cfg(test)]
pub(super) fn operations() -> Operations {
    routes_of(ListenerRole::All).operations
}

/// A method, as requests have it and as the router takes it.
type Verb = (Method, MethodFilter);

const GET: Verb = (Method::GET, MethodFilter::GET);
const HEAD: Verb = (Method::HEAD, MethodFilter::HEAD);
const PUT: Verb = (Method::PUT, MethodFilter::PUT);
const POST: Verb = (Method::POST, MethodFilter::POST);
const PATCH: Verb = (Method::PATCH, MethodFilter::PATCH);
const DELETE: Verb = (Method::DELETE, MethodFilter::DELETE);

/// Routes, and what each of them declares.
#[derive(Default)]
struct RouteTable {
    router: Router<Arc<App>>,
    operations: Operations,
}

impl RouteTable {
    fn route<T: 'static>(
        mut self,
        (method, filter): Verb,
        path: &'static str,
        asks: RouteRequirement,
        handler: impl Handler<T, Arc<App>>,
    ) -> RouteTable {
        self.router = self.router.route(path, on(filter, handler));
        self.operations.add(method, path, asks);
        self
    }
}

fn routes_of(role: ListenerRole) -> RouteTable {
    let mut table = RouteTable::default();
    if matches!(role, ListenerRole::All | ListenerRole::Filters) {
        table = with_values(with_items(with_filters(table)));
    }
    table = table
        .route(GET, "/livez", OPEN, operations::get_liveness)
        .route(GET, "/readyz", OPEN, operations::get_readiness)
        .route(GET, "/cluster", READ, operations::get_cluster)
        .route(GET, "/metrics", READ, operations::get_metrics)
        .route(GET, "/openapi.json", OPEN, get_openapi);
    match role {
        ListenerRole::All | ListenerRole::Operations => with_administration(table),
        ListenerRole::Filters | ListenerRole::Scrapers => table,
    }
}

#[rustfmt::skip]
fn with_filters(table: RouteTable) -> RouteTable {
    table
        .route(GET, "/caller", READ.narrowed(), caller::get_caller)
        .route(GET, "/filters", READ.narrowed(), filters::list_filters)
        .route(PUT, "/filters/{key}", WRITE, filters::put_filter)
        .route(GET, "/filters/{key}", READ, filters::get_filter)
        .route(HEAD, "/filters/{key}", READ, filters::get_filter)
        .route(PATCH, "/filters/{key}", ADMIN.audited("patch_filter"), filters::patch_filter)
        .route(DELETE, "/filters/{key}", ADMIN.audited("delete_filter"), filters::delete_filter)
        .route(GET, "/filters/{key}/history", READ, history::get_filter_history)
        .route(POST, "/preview", READ.narrowed(), preview::preview_filter)
        .route(GET, "/filters/{key}/dump", RouteRequirement { exports: true, ..READ }, dumps::dump_filter)
        .route(PUT, "/filters/{key}/dump", WRITE.audited("restore_filter"), dumps::restore_filter)
        .route(POST, "/filters/{key}/merge", WRITE.audited("merge_filter"), merge::merge_filter)
        .route(POST, "/filters/{key}/compact", ADMIN.audited("compact_filter"), compaction::compact_filter)
        .route(GET, "/filters/{key}/compaction", READ, compaction::get_compaction)
}

#[rustfmt::skip]
fn with_items(table: RouteTable) -> RouteTable {
    table
        .route(POST, "/filters/{key}/items", WRITE, items::add_items)
        .route(POST, "/filters/{key}/items/delete", WRITE, items::delete_items)
        .route(POST, "/filters/{key}/import", WRITE, imports::import_items)
        .route(GET, "/filters/{key}/imports", READ, imports::list_imports)
        .route(GET, "/filters/{key}/imports/{id}", READ, imports::get_import)
        .route(GET, "/filters/{key}/exists", READ, items::get_item_exists)
        .route(POST, "/filters/{key}/exists", READ, items::check_items)
        .route(GET, "/filters/{key}/count", READ, items::get_item_count)
        .route(POST, "/filters/{key}/count", READ, items::count_items)
        .route(GET, "/filters/{key}/locate", READ, locate::get_item_location)
        .route(POST, "/lookup", READ.narrowed(), lookup::look_up_items)
}

#[rustfmt::skip]
fn with_values(table: RouteTable) -> RouteTable {
    table
        .route(POST, "/filters/{key}/values", WRITE, values::add_values)
        .route(GET, "/filters/{key}/values", READ, values::get_item_values)
        .route(POST, "/filters/{key}/values/delete", WRITE, values::delete_values)
        .route(POST, "/filters/{key}/values/replace", WRITE, values::replace_values)
        .route(POST, "/filters/{key}/values/query", READ, values::query_values)
}

#[rustfmt::skip]
fn with_administration(table: RouteTable) -> RouteTable {
    table
        .route(POST, "/admin/backups", ADMIN.audited("create_backup"), backups::create_backup)
        .route(GET, "/admin/backups", ADMIN, backups::list_backups)
        .route(GET, "/admin/backups/{id}", ADMIN.audited("download_backup"), backups::download_backup)
        .route(GET, "/admin/backups/{id}/status", ADMIN, backups::get_backup_status)
        .route(GET, "/admin/clock", ADMIN, clock::get_clock)
        .route(POST, "/admin/clock/confirm", ADMIN.audited("confirm_clock"), clock::confirm_clock)
}

/// `GET /openapi.json`.
async fn get_openapi(asked: HeaderMap) -> Result {
    const NAME: &str = "openapi.json";
    static DOCUMENT: Assets =
        Assets::new(|| HashMap::from([(NAME, Asset::new(JSON, OPENAPI_DOCUMENT))]));
    Ok(DOCUMENT.get(NAME).await?.answer(&asked))
}

/// The application as a service. The layers, from the outside: the error layer
/// renders errors, panics among them, and refuses foreign web pages; what the
/// API has is behind keys; bodies are compressed and decompressed.
pub fn router(app: Arc<App>, role: ListenerRole, transport: Transport) -> Router {
    let RouteTable {
        router: routes,
        mut operations,
    } = routes_of(role);
    if matches!(role, ListenerRole::Operations | ListenerRole::Scrapers) {
        // Scrapers have no key, and this listener is for them.
        operations.open("/metrics");
    }
    let others = match role {
        ListenerRole::All | ListenerRole::Filters => {
            let pages = docs::routes().merge(console::routes());
            pages.merge(internal::routes().merge(commands::routes()))
        }
        ListenerRole::Operations => Router::new(),
        ListenerRole::Scrapers => {
            Router::new().route(ADMINISTRATION, any(operations::certificate_missing))
        }
    };
    let operations = Arc::new(operations);
    let auth = AuthLayer {
        app: Arc::clone(&app),
        operations: Arc::clone(&operations),
    };
    let errors = MiddlewareLayer::new(ErrorLayer {
        app: Arc::clone(&app),
        transport,
        operations,
    });
    // All at once: each time that layers are put around routes, these get a box
    // more, and each request a copy of it.
    let routes = routes.route_layer((
        errors.clone(),
        layer_fn(compressed),
        MiddlewareLayer::new(auth),
        // Inside of it: what is refused is not worth unpacking.
        layer_fn(unpacked),
    ));
    let others = others.layer(errors.clone());
    bounded(routes.merge(others), errors).with_state(app)
}

/// Routes with the error layer around whatever they don't answer.
fn bounded(routes: Router<Arc<App>>, errors: MiddlewareLayer<ErrorLayer>) -> Router<Arc<App>> {
    routes
        .fallback(operations::unknown_route.layer(errors.clone()))
        .method_not_allowed_fallback(operations::method_not_allowed.layer(errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::answer::{About, about};
    use crate::metrics::Metrics;
    use crate::server::{HostPolicy, Limits};
    use axum::body::Body;
    use axum::extract::Request;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    async fn panicking() -> &'static str {
        panic!("on purpose: it says secret-item")
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_that_says_nothing_of_its_cause() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let app = App::new(Arc::clone(&metrics), Limits::default(), HostPolicy::Any);
        let routes = Router::new().route("/panicking", get(panicking));
        let errors = MiddlewareLayer::new(ErrorLayer {
            app: Arc::clone(&app),
            transport: Transport::Plain,
            operations: Arc::default(),
        });
        let routes = bounded(routes.route_layer(errors.clone()), errors);
        let router: Router = routes.with_state(app);
        let request = Request::get("/panicking").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["code"], "internal");
        assert!(!problem.to_string().contains("secret-item"));
        assert_eq!(metrics.http_in_flight.get(), 0);
    }

    #[test]
    fn each_route_that_changes_something_goes_to_the_leader_or_is_the_pods_own() {
        let (mut changes, mut asking, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (method, path, asks) in super::operations().all() {
            let about = about(asks, method, path);
            let is_safe = [Method::GET, Method::HEAD].contains(method);
            let route = format!("{method} {path}");
            match about {
                About::Change => changes.push(route),
                About::Question | About::Pod if is_safe => {}
                About::Pod => own.push(route),
                About::Question | About::Leader => asking.push(route),
            }
        }
        let sorted = |mut routes: Vec<String>| {
            routes.sort_unstable();
            routes
        };
        assert_eq!(
            sorted(changes),
            [
                "DELETE /filters/{key}",
                "PATCH /filters/{key}",
                "POST /filters/{key}/compact",
                "POST /filters/{key}/import",
                "POST /filters/{key}/items",
                "POST /filters/{key}/items/delete",
                "POST /filters/{key}/merge",
                "POST /filters/{key}/values",
                "POST /filters/{key}/values/delete",
                "POST /filters/{key}/values/replace",
                "PUT /filters/{key}",
                "PUT /filters/{key}/dump",
            ]
        );
        assert_eq!(
            sorted(asking),
            [
                "GET /filters/{key}/compaction",
                "POST /filters/{key}/count",
                "POST /filters/{key}/exists",
                "POST /filters/{key}/values/query",
            ]
        );
        // They change nothing in any filter.
        assert_eq!(
            sorted(own),
            [
                "POST /admin/backups",
                "POST /admin/clock/confirm",
                "POST /lookup",
                "POST /preview",
            ]
        );
    }
}
